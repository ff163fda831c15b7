"""How far apart groups are in labels, scores and decisions, and whether that could be chance.

Evidence is computed on codes of groups and named afterwards, because names sort as text ("10"
before "2") and "last minus first" must not depend on that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

from fairpc.auditing._categories import Categories, categories
from fairpc.auditing._job import Job
from fairpc.auditing._numbers import gap, number, p_words, share
from fairpc.auditing._rows import AuditedRows
from fairpc.core import Bools, Codes, Floats, Positions, Record
from fairpc.evidence import EqualRates as EqualRates
from fairpc.evidence import PairGap as PairGap
from fairpc.evidence import Parity as Parity
from fairpc.evidence import equal_rates, parity, parity_curve

THRESHOLDS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_SMALL_GAP: Final = 0.01  # of a smaller one no multiple is told
_ALIKE: Final = 0.02  # two gaps that differ by less are called about as large
_EXTREME: Final = 0.01  # a class decided for less of every group, or for all but that, is one-sided
_HARDLY: Final = 0.1  # of the share of a class among labels: decisions below it are hardly any
_SIDES: Final = {
    "below": "below four fifths",
    "above": "above four fifths",
    "undecided": "the rows do not decide on which side of four fifths",
}


@dataclass(frozen=True)
class Significance:
    """Test of "these two groups have the same rate", for one pair."""

    first: str  #: one group
    last: str  #: the other
    test: str  #: which test; "Fisher's exact" where a cell is expected to hold under 5 rows
    p_value: float  #: adjusted for the number of pairs and classes (Bonferroni)


@dataclass(frozen=True)
class Disparity(Record):
    """Gaps between groups in the rate, or mean score, of one class."""

    label: str  #: the class
    parity: Parity  #: means, differences and ratios with simultaneous intervals
    significance: tuple[Significance, ...] = ()  #: per pair; empty for mean scores
    #: groups with fewer than two rows or persons, which are not compared
    too_small: tuple[str, ...] = ()

    _computed = ("gap", "gap_upper")

    @property
    def gap(self) -> float:
        """Largest absolute difference between two groups."""
        return abs(self.parity.difference)

    @property
    def gap_upper(self) -> float:
        """Upper bound of the largest absolute difference: the farthest end of all intervals."""
        return max(max(map(abs, pair.difference_interval)) for pair in self.parity.pairs)


@dataclass(frozen=True)
class LabelDisparity:
    """Disparity of the observed labels."""

    #: of the positive class; of every class where there are more than two
    disparities: tuple[Disparity, ...]
    sentence: str  #: the largest gap in words


Outcome = Literal["wider", "narrower", "reversed", "unclear", "one class"]


@dataclass(frozen=True)
class GapChange:
    """The gap in decisions beside that in labels, of the two groups that are farthest apart.

    Both are of the same rows, those with a label.
    """

    label: str  #: the class
    first: str  #: one group
    last: str  #: the other
    label_rates: tuple[float, float]  #: share of the class among the labels of each
    decision_rates: tuple[float, float]  #: share of the class among the decisions on each
    #: (last − first) in decisions less (last − first) in labels; its interval holds for all pairs
    change: float
    interval: tuple[float, float]
    n_rows: int  #: rows that were compared
    #: what decisions do to the gap; "reversed": the other group is ahead, by more than chance;
    #: "unclear": chance may explain the change; "one class": hardly anybody, or hardly anybody
    #: else, is decided to be of the class, so decisions can hardly differ
    outcome: Outcome
    sentence: str  #: in words

    @property
    def label_gap(self) -> float:
        return abs(self.label_rates[1] - self.label_rates[0])

    @property
    def decision_gap(self) -> float:
        return abs(self.decision_rates[1] - self.decision_rates[0])


@dataclass(frozen=True)
class ParityFacts:
    """What is equal between groups, and what is not."""

    #: largest difference between groups of P(decision | S) by exact query, over the classes; with
    #: strata of P(decision | S, stratum). Zero by construction for all models but TwoNB. It says
    #: nothing about rows.
    model_gap: float
    #: the same over the whole table where strata let it differ, by their mix; None without strata
    mix_gap: float | None
    #: gaps in mean scores on these rows, before thresholding; per class shown
    scores: tuple[Disparity, ...]
    #: gaps in selection rates on these rows, after thresholding; per class shown
    decisions: tuple[Disparity, ...]
    #: decisions by each sensitive attribute alone and each two crossed, however few the rows
    categories: tuple[Categories, ...]
    #: what ``predict`` uses: one, or one per group; empty for more than two classes
    thresholds: tuple[float, ...]
    #: gaps in selection rates over common thresholds, all intervals together at the level; empty
    #: for more than two classes
    curve: tuple[Parity, ...]
    #: group thresholds that would equalise selection rates on these rows, and their price; None for
    #: more than two classes
    equal_rates: EqualRates | None
    change: GapChange | None  #: decisions beside labels; None where too few labels are known
    gap: float  #: largest absolute difference between groups on these rows, of scores and decisions
    gap_upper: float  #: upper bound of it: the farthest end of all the intervals
    n_unknown: int  #: rows left out because their group is not known
    sentences: tuple[str, ...]  #: in words
    #: "scores" or "decisions" -> why these rows cannot tell how large their gap is
    undecided: Mapping[str, str] = field(default_factory=dict)


def label_disparity(job: Job) -> LabelDisparity:
    """Rates of the observed classes by group; rows without a label are left out."""
    rows = job.rows
    found = _rates(rows, rows.d, rows.comparable(rows.d >= 0), job.settings.level)
    worst = max(found, key=lambda d: d.gap)
    pair = worst.parity.largest
    means = {g.group: g.mean for g in worst.parity.groups}
    pairs = zip(worst.parity.pairs, worst.significance, strict=True)
    p_value = next(test.p_value for tested, test in pairs if tested is pair)
    ratio = number(pair.impact_ratio) if math.isfinite(pair.impact_ratio) else "not defined"
    return LabelDisparity(
        found,
        f"Observed labels: {share(means[pair.last])} of group {pair.last!r} and "
        f"{share(means[pair.first])} of group {pair.first!r} are {worst.label!r} "
        f"(impact ratio {ratio}, {_SIDES[pair.four_fifths]}; p {p_words(p_value)}).",
    )


def parity_facts(job: Job) -> ParityFacts:
    """Gaps on the rows whose group is known."""
    model, rows, level = job.model, job.rows, job.settings.level
    kept = rows.comparable(rows.s >= 0)
    scores = tuple(_disparity(rows, rows.scores[:, k], kept, k, level) for k in rows.shown_classes)
    decisions = _rates(rows, rows.decided, kept, level)
    both = scores + decisions
    curve: Sequence[Parity] = ()
    if binary := len(rows.classes) == 2:
        positive, how = rows.scores[kept, rows.positive], rows.weighing(kept)
        curve = parity_curve(positive, rows.s[kept], THRESHOLDS, level=level, **how)
    model_gap, mix_gap = float(model._fair().parity_gap().max()), None
    if job.strata:
        rates = model.group_decision_rate_
        mix_gap = float(np.ptp(rates, axis=0).max())
    return ParityFacts(
        model_gap=model_gap,
        mix_gap=mix_gap,
        scores=scores,
        decisions=decisions,
        categories=categories(job),
        thresholds=model.threshold_.values if binary else (),
        curve=tuple(_named(record, rows.groups) for record in curve),
        equal_rates=_equal_rates(rows, kept, model.threshold_.unknown) if binary else None,
        change=None if job.found["labels"] is None else _change(rows, level),
        gap=max(d.gap for d in both),
        gap_upper=max(d.gap_upper for d in both),
        n_unknown=rows.number(rows.s < 0),
        sentences=_sentences(model_gap, mix_gap, level, scores, decisions),
        undecided=_undecided(rows, kept, decisions),
    )


def _undecided(
    rows: AuditedRows, kept: Bools, decisions: tuple[Disparity, ...]
) -> Mapping[str, str]:
    """Why a small gap on these rows would say nothing of scores, or of decisions."""
    if small := decisions[0].too_small:
        why = (
            f"group {small[0]!r} has fewer than two rows or persons, so it is not compared: give "
            "more rows of it, or leave it out"
        )
        return {"scores": why, "decisions": why}
    each = [rows.scores[kept & (rows.s == g)] for g in rows.groups_in(kept)]
    if all(np.ptp(scores, axis=0).max() < 1e-9 for scores in each):
        why = (
            "all rows of a group have the same score, so their features tell the model nothing: "
            "give the columns that it learned from, as they were at fit"
        )
        return {"scores": why, "decisions": why}
    rates = {d.label: [g.mean for g in d.parity.groups] for d in decisions}
    if not all(max(r) < _EXTREME or min(r) > 1 - _EXTREME for r in rates.values()):
        return {}
    label = max(rates, key=lambda name: min(rates[name]))
    much = "over 99%" if min(rates[label]) > 0.5 else "under 1%"
    return {
        "decisions": f"the model decides {label!r} for {much} of every group, so decisions "
        "can hardly differ: choose another threshold, or fit another model"
    }


def _rates(
    rows: AuditedRows, classes: Codes | Positions, kept: Bools, level: float
) -> tuple[Disparity, ...]:
    """Gaps in the rates of the classes shown, tested pair by pair."""
    found = []
    for k in rows.shown_classes:
        one = _disparity(rows, (classes == k).astype(np.float64), kept, k, level)
        tests = _significance(one.parity, len(rows.shown_classes))
        found.append(replace(one, significance=tests))
    return tuple(found)


def _disparity(rows: AuditedRows, values: Floats, kept: Bools, k: int, level: float) -> Disparity:
    """Gaps in the mean of a value of class k; the level holds for all classes shown together."""
    each = 1 - (1 - level) / len(rows.shown_classes)
    found = parity(values[kept], rows.s[kept], level=each, **rows.weighing(kept))
    present = set(rows.groups_in(kept))
    too_small = tuple(
        name for g, name in enumerate(rows.groups) if g not in present and (rows.s == g).any()
    )
    return Disparity(rows.classes[k], _named(found, rows.groups), (), too_small)


def _named(found: Parity, names: tuple[str, ...]) -> Parity:
    """Gaps between codes of groups, told by name."""
    groups = (replace(g, group=names[g.group]) for g in found.groups)
    pairs = (replace(p, first=names[p.first], last=names[p.last]) for p in found.pairs)
    return replace(found, groups=tuple(groups), pairs=tuple(pairs))


def _significance(found: Parity, n_classes: int) -> tuple[Significance, ...]:
    """A test per pair: the score test of two rates, on effective numbers of rows.

    It is Pearson's χ² without correction where rows are independent and count alike. Where
    a cell is expected to hold under 5 rows, and counts are whole, Fisher's exact test.
    """
    means = {g.group: g for g in found.groups}
    times = len(found.pairs) * n_classes
    result = []
    for pair in found.pairs:
        a, b = means[pair.first], means[pair.last]
        test, p_value = _test(a.mean, a.effective_n, b.mean, b.effective_n)
        result.append(Significance(pair.first, pair.last, test, min(1.0, p_value * times)))
    return tuple(result)


def _test(p: float, n: float, q: float, m: float) -> tuple[str, float]:
    from scipy.special import erfc
    from scipy.stats import fisher_exact

    pooled = (p * n + q * m) / (n + m)
    least = min(n, m) * min(pooled, 1 - pooled)
    if least < 5 and float(n).is_integer() and float(m).is_integer():
        a, b = round(p * n), round(q * m)
        return "Fisher's exact", float(fisher_exact([[a, n - a], [b, m - b]])[1])
    spread = pooled * (1 - pooled) * (1 / n + 1 / m)
    p_value = float(erfc(abs(p - q) / math.sqrt(2 * spread))) if spread > 0 else 1.0
    return "score test of two rates", p_value


def _equal_rates(rows: AuditedRows, kept: Bools, threshold: float) -> EqualRates:
    weights, labelled = rows.each_weight[kept], bool((rows.d[kept] >= 0).all())
    labels = (rows.d[kept] == rows.positive).astype(np.intp) if labelled else None
    rate = float(np.average(rows.decided[kept] == rows.positive, weights=weights))
    found = equal_rates(
        rows.scores[kept, rows.positive],
        rows.s[kept],
        labels,
        threshold=threshold,
        rate=rate,
        sample_weight=weights,
    )
    groups = tuple(replace(g, group=rows.groups[g.group]) for g in found.groups)
    return replace(found, groups=groups)


def _change(rows: AuditedRows, level: float) -> GapChange:
    """Decisions beside labels of the same rows: the pair, and class, with the largest gap."""
    kept = rows.comparable(rows.d >= 0)
    found = [one for k in rows.shown_classes for one in _changes(rows, kept, k, level)]
    return max(found, key=lambda one: max(one.label_gap, one.decision_gap))


def _changes(rows: AuditedRows, kept: Bools, k: int, level: float) -> Iterator[GapChange]:
    """Of one class, pair by pair."""
    labelled, decided = ((of == k).astype(np.float64) for of in (rows.d, rows.decided))
    of_labels, of_decisions, both = (
        _disparity(rows, values, kept, k, level).parity
        # Of each row the decision less the label, moved into [0, 1].
        for values in (labelled, decided, (decided - labelled + 1) / 2)
    )
    weights = rows.each_weight[kept]
    shares = tuple(float(np.average(v[kept], weights=weights)) for v in (labelled, decided))
    before, after = ({g.group: g.mean for g in p.groups} for p in (of_labels, of_decisions))
    for decisions, pair in zip(of_decisions.pairs, both.pairs, strict=True):
        low, high = pair.difference_interval
        one = GapChange(
            rows.classes[k],
            pair.first,
            pair.last,
            (before[pair.first], before[pair.last]),
            (after[pair.first], after[pair.last]),
            2 * pair.difference,
            (2 * low, 2 * high),
            rows.number(kept),
            "unclear",
            "",
        )
        one = replace(one, outcome=outcome(one, decisions.difference_interval, *shares))
        yield replace(one, sentence=change_words(one))


def outcome(
    one: GapChange, decision_interval: tuple[float, float], labelled: float, decided: float
) -> Outcome:
    """What decisions do to the gap in labels.

    ``decision_interval`` is that of (last − first) in decisions; ``labelled`` and ``decided`` are
    shares of the class among all rows.
    """
    if decided < _HARDLY * labelled or 1 - decided < _HARDLY * (1 - labelled):
        return "one class"
    low, high = one.interval
    if low <= 0 <= high:
        return "unclear"
    (a, b), (c, d) = one.label_rates, one.decision_rates
    low, high = decision_interval
    if (b - a) * (d - c) < 0 and not low <= 0 <= high:
        return "reversed"
    return "wider" if one.decision_gap > one.label_gap else "narrower"


def change_words(one: GapChange) -> str:
    """Both gaps in words, the group that labels favour first."""
    way = -1 if one.label_rates[1] >= one.label_rates[0] else 1
    first, last = [one.first, one.last][::way]
    labels, decisions = (
        list(map(share, list(rates)[::way])) for rates in (one.label_rates, one.decision_rates)
    )
    how = ""
    if one.outcome == "wider" and one.label_gap >= _SMALL_GAP:
        how = f", {number(one.decision_gap / one.label_gap, 1)} times as far"
    elif (one.decision_rates[1] - one.decision_rates[0]) * way > 0:
        how = " the other way"
    return (
        f"{_headline(one)}. The label is {one.label!r} for {labels[0]} of group {first!r} and "
        f"{labels[1]} of group {last!r}, {gap(one.label_gap)} apart; the decision is "
        f"{one.label!r} for {decisions[0]} and {decisions[1]}, {gap(one.decision_gap)} "
        f"apart{how}."
    )


def _headline(one: GapChange) -> str:
    if one.outcome == "one class":
        some = "almost nobody" if max(one.decision_rates) < 0.5 else "almost everybody"
        return (
            f"The model decides {one.label!r} for {some}, so its decisions can hardly differ "
            "between groups"
        )
    if one.outcome == "unclear":
        more = one.decision_gap - one.label_gap
        if abs(more) < _ALIKE:
            return "The gap between groups is about as large in the decisions as in the labels"
        size = "larger" if more > 0 else "smaller"
        return (
            f"The gap between groups is {size} in the decisions than in the labels, by a "
            "difference that chance may explain"
        )
    verb = {"wider": "widen", "narrower": "narrow", "reversed": "reverse"}[one.outcome]
    return f"The decisions of the model {verb} the gap between groups"


def under_model(model_gap: float, mix_gap: float | None) -> str:
    """What is equal between groups under the model, by construction, and what is not."""
    if mix_gap is not None:
        return (
            "Under the model the groups have the same mean score within each stratum, by "
            f"construction; in the whole table their mean scores differ by up to {gap(mix_gap)}, "
            "by the mix of strata alone"
        )
    if model_gap < 1e-9:
        return "Under the model the groups have the same mean score, by construction"
    return f"Under the model the mean scores of the groups differ by up to {gap(model_gap)}"


def _sentences(
    model_gap: float, mix_gap: float | None, level: float, *gaps: tuple[Disparity, ...]
) -> tuple[str, ...]:
    """In words: the gaps of mean scores, then those of decisions."""
    score, decision = (max(part, key=lambda d: d.gap_upper) for part in gaps)
    why = "equal mean scores are not equal rates"
    if mix_gap is not None:
        why = "nothing in the model makes them equal"
    return (
        f"{under_model(model_gap, mix_gap)}. On these rows mean scores differ by {gap(score.gap)}, "
        f"at most {number(100 * score.gap_upper, 1)} with {share(level, 0)} confidence.",
        f"Decisions on these rows differ by {gap(decision.gap)} between groups, at most "
        f"{number(100 * decision.gap_upper, 1)} with {share(level, 0)} confidence: {why}.",
    )
