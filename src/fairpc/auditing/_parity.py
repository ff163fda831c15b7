"""Parity: gaps in scores and decisions, under the model and on rows, beside those in labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from fairpc.auditing import _blocks as blocks
from fairpc.auditing import _formats as text
from fairpc.auditing._categories import Categories, categories, show_categories
from fairpc.auditing._drawing import Plane, Series, curves
from fairpc.auditing._gaps import (
    Disparity,
    disparity,
    gap_words,
    rates,
    show_differences,
    show_means,
    show_ratios,
)
from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows
from fairpc.core import Bools, Record
from fairpc.evidence import (
    EqualRates,
    Interval,
    Parity,
    equal_rates,
    parity_curve,
    thresholds_of,
)

_COMMON: Final = 0.5  # the common threshold where that of the decisions is not known
_SMALL_GAP: Final = 0.01  # of a smaller one no multiple is told
_ALIKE: Final = 0.02  # two gaps that differ by less are called about as large
_EXTREME: Final = 0.01  # a class decided for less of every group, or for all but that, is one-sided
_HARDLY: Final = 0.1  # of the share of a class among labels: decisions below it are hardly any

Outcome = Literal["wider", "narrower", "reversed", "unclear", "one class"]


@dataclass(frozen=True)
class GapChange(Record):
    """The gap in decisions beside that in labels, of the two groups that are farthest apart.

    Both are of the same rows, those with a label.
    """

    label: str  #: the class
    first: str  #: one group
    last: str  #: the other
    label_rates: Interval  #: share of the class among the labels of each
    decision_rates: Interval  #: share of the class among the decisions on each
    #: (last − first) in decisions less (last − first) in labels; its interval holds for all pairs
    change: float
    interval: Interval
    n_rows: int  #: rows that were compared
    #: what decisions do to the gap; "reversed": the other group is ahead, by more than chance;
    #: "unclear": chance may explain the change; "one class": hardly anybody, or hardly anybody
    #: else, is decided to be of the class, so decisions can hardly differ
    outcome: Outcome

    _computed = ("sentence",)

    @property
    def label_gap(self) -> float:
        return abs(self.label_rates[1] - self.label_rates[0])

    @property
    def decision_gap(self) -> float:
        return abs(self.decision_rates[1] - self.decision_rates[0])

    @property
    def sentence(self) -> str:
        """Both gaps in words, the group that labels favour first."""
        way = -1 if self.label_rates[1] >= self.label_rates[0] else 1
        first, last = [self.first, self.last][::way]
        labels, decisions = (
            list(map(text.share, rates[::way])) for rates in (self.label_rates, self.decision_rates)
        )
        how = ""
        if self.outcome == "wider" and self.label_gap >= _SMALL_GAP:
            how = f", {text.number(self.decision_gap / self.label_gap, 1)} times as far"
        elif (self.decision_rates[1] - self.decision_rates[0]) * way > 0:
            how = " the other way"
        return (
            f"{self._headline}. The label is {self.label!r} for {labels[0]} of group {first!r} and "
            f"{labels[1]} of group {last!r}, {text.gap(self.label_gap)} apart; the decision is "
            f"{self.label!r} for {decisions[0]} and {decisions[1]}, {text.gap(self.decision_gap)} "
            f"apart{how}."
        )

    @property
    def _headline(self) -> str:
        if self.outcome == "one class":
            some = "almost nobody" if max(self.decision_rates) < 0.5 else "almost everybody"
            return (
                f"The model decides {self.label!r} for {some}, so its decisions can hardly differ "
                "between groups"
            )
        if self.outcome == "unclear":
            more = self.decision_gap - self.label_gap
            if abs(more) < _ALIKE:
                return "The gap between groups is about as large in the decisions as in the labels"
            size = "larger" if more > 0 else "smaller"
            return (
                f"The gap between groups is {size} in the decisions than in the labels, by a "
                "difference that chance may explain"
            )
        verb = {"wider": "widen", "narrower": "narrow", "reversed": "reverse"}[self.outcome]
        return f"The decisions of the model {verb} the gap between groups"


@dataclass(frozen=True)
class ParityFacts(Record):
    """What is equal between groups, and what is not."""

    #: largest difference between groups of P(decision | S) by exact query, over the classes; with
    #: strata of P(decision | S, stratum). Zero by construction for all models but TwoNB. It says
    #: nothing about rows. None where decisions are not of a model of ours.
    model_gap: float | None
    #: the same over the whole table where strata let it differ, by their mix; None without strata
    mix_gap: float | None
    #: gaps in mean scores on these rows, before thresholding; per class shown, none without scores
    scores: tuple[Disparity, ...]
    #: gaps in selection rates on these rows, after thresholding; per class shown
    decisions: tuple[Disparity, ...]
    #: decisions by each sensitive attribute alone and each two crossed, however few the rows
    categories: tuple[Categories, ...]
    #: what ``predict`` uses: one, or one per group; empty for more than two classes, or not known
    thresholds: tuple[float, ...]
    #: gaps in selection rates over quantiles of the scores, all intervals together at the level,
    #: and at the threshold with the largest gap; empty for more than two classes, or without scores
    curve: tuple[Parity, ...]
    #: group thresholds that would equalise selection rates on these rows, and their price; None for
    #: more than two classes, or without scores
    equal_rates: EqualRates | None
    change: GapChange | None  #: decisions beside labels; None where too few labels are known
    n_unknown: int  #: rows left out because their group is not known
    sentences: tuple[str, ...]  #: in words
    #: "scores" or "decisions" -> why these rows cannot tell how large their gap is
    undecided: Mapping[str, str] = field(default_factory=dict)

    _computed = ("gap", "gap_upper")

    @property
    def gap(self) -> float:
        """Largest absolute difference between groups on these rows, of scores and decisions."""
        return max(d.gap for d in self.scores + self.decisions)

    @property
    def gap_upper(self) -> float:
        """Upper bound of it: the farthest end of all the intervals."""
        return max(d.gap_upper for d in self.scores + self.decisions)


def parity_facts(job: Job) -> ParityFacts:
    """Gaps on the rows whose group is known."""
    rows, level = job.rows, job.settings.level
    kept = rows.comparable(rows.s >= 0)
    scored = rows.shown_classes if rows.scored else ()
    scores = tuple(disparity(rows, rows.scores[:, k], kept, k, level) for k in scored)
    decisions = rates(rows, rows.decided, kept, level)
    curve: Sequence[Parity] = ()
    if binary := len(rows.classes) == 2 and rows.scored:
        given = rows.scores[kept, rows.positive], rows.s[kept]
        cuts = thresholds_of(*given, sample_weight=rows.each_weight[kept])
        curve = parity_curve(*given, cuts, level=level, **rows.weighing(kept))
    model_gap = mix_gap = None
    thresholds: tuple[float, ...] = ()
    cut = _COMMON
    if not job.decisions:
        model_gap, cut = float(job.model._fair().parity_gap().max()), job.model.threshold_.unknown
        thresholds = job.model.threshold_.values
    if job.strata:
        mix_gap = float(np.ptp(job.model.group_decision_rate_, axis=0).max())
    return ParityFacts(
        model_gap=model_gap,
        mix_gap=mix_gap,
        scores=scores,
        decisions=decisions,
        categories=categories(job),
        thresholds=thresholds if binary else (),
        curve=tuple(map(rows.named, curve)),
        equal_rates=_equal_rates(rows, kept, cut) if binary else None,
        change=None if job.results["labels"] is None else _change(rows, level),
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
            f"group {small[0]!r} has too few rows or persons to be compared: give more rows of it, "
            "or leave it out"
        )
        return {"scores": why, "decisions": why}
    each = [rows.scores[kept & (rows.s == g)] for g in rows.groups_in(kept)]
    if rows.scored and all(np.ptp(scores, axis=0).max() < 1e-9 for scores in each):
        why = (
            "all rows of a group have the same score, so their features tell the model nothing: "
            "give the columns that it learned from, as they were at fit"
        )
        return {"scores": why, "decisions": why}
    means = {d.label: [g.mean for g in d.parity.groups] for d in decisions}
    if not all(max(m) < _EXTREME or min(m) > 1 - _EXTREME for m in means.values()):
        return {}
    label = max(means, key=lambda name: min(means[name]))
    much = "over 99%" if min(means[label]) > 0.5 else "under 1%"
    return {
        "decisions": f"the model decides {label!r} for {much} of every group, so decisions "
        "can hardly differ: choose another threshold, or fit another model"
    }


def _equal_rates(rows: AuditedRows, kept: Bools, threshold: float) -> EqualRates:
    labelled = bool((rows.d[kept] >= 0).all())
    found = equal_rates(
        rows.scores[kept, rows.positive],
        rows.s[kept],
        (rows.d[kept] == rows.positive).astype(np.intp) if labelled else None,
        threshold=threshold,
        rate=rows.mean(rows.decided == rows.positive, kept),
        sample_weight=rows.each_weight[kept],
    )
    return rows.named(found)


def _change(rows: AuditedRows, level: float) -> GapChange:
    """Decisions beside labels of the same rows: the pair, and class, with the largest gap."""
    kept = rows.comparable(rows.d >= 0)
    found = [one for k in rows.shown_classes for one in _changes(rows, kept, k, level)]
    return max(found, key=lambda one: max(one.label_gap, one.decision_gap))


def _changes(rows: AuditedRows, kept: Bools, k: int, level: float) -> Iterator[GapChange]:
    """Of one class, pair by pair."""
    labelled, decided = ((of == k).astype(np.float64) for of in (rows.d, rows.decided))
    of_labels, of_decisions, both = (
        disparity(rows, values, kept, k, level).parity
        # Of each row the decision less the label, moved into [0, 1].
        for values in (labelled, decided, (decided - labelled + 1) / 2)
    )
    shares = tuple(rows.mean(values, kept) or 0.0 for values in (labelled, decided))
    before, after = ({g.group: g.mean for g in p.groups} for p in (of_labels, of_decisions))
    for decisions, pair in zip(of_decisions.pairs, both.pairs, strict=True):
        low, high = (2 * end for end in pair.difference_interval)
        label_rates = before[pair.first], before[pair.last]
        decision_rates = after[pair.first], after[pair.last]
        how: Outcome = "one class"
        if not _one_class(*shares):
            how = outcome(label_rates, decision_rates, (low, high), decisions.difference_interval)
        compared = rows.classes[k], pair.first, pair.last, label_rates, decision_rates
        yield GapChange(*compared, 2 * pair.difference, (low, high), rows.number(kept), how)


def _one_class(labelled: float, decided: float) -> bool:
    """Whether hardly anybody, or hardly anybody else, is decided to be of a class."""
    return decided < _HARDLY * labelled or 1 - decided < _HARDLY * (1 - labelled)


def outcome(
    labels: Interval, decisions: Interval, change: Interval, of_decisions: Interval
) -> Outcome:
    """What decisions do to the gap in labels; the last two are intervals of last − first."""
    low, high = change
    if low <= 0 <= high:
        return "unclear"
    (a, b), (c, d) = labels, decisions
    low, high = of_decisions
    if (b - a) * (d - c) < 0 and not low <= 0 <= high:
        return "reversed"
    return "wider" if abs(d - c) > abs(b - a) else "narrower"


def under_model(model_gap: float | None, mix_gap: float | None) -> str:
    """What is equal between groups under the model, by construction, and what is not."""
    if model_gap is None:
        return ""
    if mix_gap is not None and model_gap >= 1e-9:
        return (
            "Under the model the mean scores of the groups differ by up to "
            f"{text.gap(model_gap)} within strata, and by up to {text.gap(mix_gap)} in the whole "
            "table"
        )
    if mix_gap is not None:
        return (
            "Under the model the groups have the same mean score within each stratum, by "
            "construction; in the whole table their mean scores differ by up to "
            f"{text.gap(mix_gap)}, by the mix of strata alone"
        )
    if model_gap < 1e-9:
        return "Under the model the groups have the same mean score, by construction"
    return f"Under the model the mean scores of the groups differ by up to {text.gap(model_gap)}"


def _sentences(
    model_gap: float | None,
    mix_gap: float | None,
    level: float,
    scores: tuple[Disparity, ...],
    decisions: tuple[Disparity, ...],
) -> tuple[str, ...]:
    """In words: the gaps of mean scores, then those of decisions."""
    why = "" if model_gap is None else ": equal mean scores are not equal rates"
    if mix_gap is not None:
        why = ": nothing in the model makes them equal"
    sure = f"with {text.share(level, 0)} confidence"
    words = under_model(model_gap, mix_gap)
    said = []
    if scores:
        score = max(scores, key=lambda d: d.gap_upper)
        said.append(
            f"{words}{'. ' if words else ''}On these rows mean scores differ by "
            f"{text.gap(score.gap)}, at most {text.size(score.gap_upper)} {sure}."
        )
    decision = max(decisions, key=lambda d: d.gap_upper)
    said.append(
        f"Decisions on these rows differ by {text.gap(decision.gap)} between groups, at most "
        f"{text.size(decision.gap_upper)} {sure}{why}."
    )
    return tuple(said)


@blocks.section(
    "parity",
    "Parity: gaps in scores and decisions",
    lambda _, facts: (
        f"Mean scores differ by {gap_words(facts.scores)}, decisions by "
        f"{gap_words(facts.decisions)}"
        if facts.scores
        else f"Decisions differ by {gap_words(facts.decisions)}"
    ),
)
def show_parity(audit: blocks.Audit, facts: ParityFacts) -> Iterator[blocks.Block]:
    """What is equal between groups, with a bound where it is not exact."""
    if facts.model_gap is None:
        lead = "How often each group gets the favourable decision. "
    else:
        lead = (
            f"{under_model(facts.model_gap, facts.mix_gap)}. On rows that is not exact: a model is "
            "not the data, and a threshold turns equal means into unequal rates. "
        )
    bounds = "The bounds say how far the gaps may go beyond what was seen."
    yield blocks.Paragraph(lead + bounds, "lead")
    yield blocks.KeyNumbers([*_key_numbers(facts)])
    if facts.n_unknown:
        rows = text.counted(facts.n_unknown, "row")
        yield blocks.Paragraph(f"Left out here: {rows} whose group is not known.", "note")
    if facts.scores:
        yield blocks.Heading("Before thresholding: mean scores")
    for one in facts.scores:
        label = text.quoted(one.label)
        title, what = f"Mean score for {label}, by group", f"The mean score for {label}"
        yield show_means(audit, one, title, what)
        yield show_differences(one, f"Differences of mean scores for {label}")
    yield blocks.Heading("After thresholding: decisions" if facts.scores else "Decisions")
    yield from show_decisions(audit, facts)
    if len(audit.data.sensitive) > 1:
        yield blocks.Heading("By each attribute alone")
        yield from show_categories(facts.categories, 1)
    if facts.curve:
        yield blocks.Heading("At other thresholds")
        yield _curve(audit, facts.curve)
    if facts.equal_rates is not None:
        yield _thresholds(facts.equal_rates)


def _key_numbers(facts: ParityFacts) -> Iterator[tuple[str, str]]:
    within = "" if facts.mix_gap is None else " within strata"
    if facts.model_gap is not None:
        yield f"Gap{within} under the model, points", text.size(facts.model_gap)
    if facts.mix_gap is not None:
        yield "Gap by the mix of strata under the model, points", text.size(facts.mix_gap)
    for name, part in (("mean scores", facts.scores), ("decisions", facts.decisions)):
        if not part:
            continue
        worst = max(part, key=lambda d: d.gap)
        most = f"{text.size(worst.gap)} (at most {text.size(worst.gap_upper)})"
        yield f"Gap of {name}, points", most


def show_decisions(audit: blocks.Audit, facts: ParityFacts) -> Iterator[blocks.Figure]:
    """Selection rates of the groups, and their ratios."""
    for one in facts.decisions:
        label = text.quoted(one.label)
        title, what = f"Share decided {label}, by group", f"The share decided {label}"
        yield show_means(audit, one, title, what)
        yield show_ratios(one, f"Impact ratio of the decision {label}")


def _curve(audit: blocks.Audit, records: Sequence[Parity]) -> blocks.Figure:
    cuts = [record.threshold or 0.0 for record in records]
    worst = max(records, key=lambda r: abs(r.difference))
    sentence = (
        "Share of each group whose score is at or above a common threshold. Of all thresholds the "
        f"gap is largest at {text.share(worst.threshold)}: {text.points(worst.difference)} points."
    )
    means = [{m.group: m.mean for m in record.groups} for record in records]
    names = [group for group in blocks.group_order(audit) if group in means[0]]
    head = ["Threshold", *(text.short(name, 30) for name in names), "Largest gap", "Interval"]
    cells = [
        (
            text.share(record.threshold),
            *(mean[name] for name in names),
            text.points(record.difference),
            text.span(record.difference_interval, text.points),
        )
        for record, mean in zip(records, means, strict=True)
    ]
    note = (
        "The thresholds are quantiles of the scores, and the score with the largest gap, which was "
        f"looked for. Intervals hold together at the {text.share(records[0].level, 0)} level for "
        "quantiles alone."
    )
    caption = "Selection rates over common thresholds"
    table = blocks.TableBlock(caption, head, cells, folded=True, note=note)
    series = [Series(name, cuts, [mean[name] for mean in means]) for name in names]
    picture = curves(Plane("threshold", "share selected"), series, marked=True)
    return blocks.Figure("Selection rates over thresholds", sentence, picture, table)


def _thresholds(equal: EqualRates) -> blocks.TableBlock:
    """Thresholds of the groups that would equalise rates, and their price."""
    labelled = equal.accuracy is not None
    head = ["Group", "Own threshold", "Rate", "Rate at common threshold"]
    head += ["Agreement", "Agreement at common threshold"] if labelled else []
    rows = []
    for group in equal.groups:
        cut = text.share(group.threshold) if math.isfinite(group.threshold) else "nobody"
        shares = group.rate, group.rate_before, group.accuracy, group.accuracy_before
        rows.append([group.group, cut, *shares][: len(head)])
    note = ""
    if labelled:
        note = (
            f"Agreement with the observed label, which may be biased, goes from "
            f"{text.share(equal.accuracy_before)} to {text.share(equal.accuracy)}."
        )
    caption = f"Thresholds per group that would select {text.share(equal.rate)} of each group"
    return blocks.TableBlock(caption, head, rows, note=note)
