"""Parity: gaps in scores and decisions, under the model and on rows, beside those in labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._gaps import (
    Categories,
    Disparity,
    categories,
    disparity,
    rates,
    show_categories,
    show_means,
    show_pairs,
)
from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows, Names, decided
from fairpc.auditing._table_facts import TableFacts
from fairpc.core import AuditError, Bools, Codes, Positions, Record, few_labels
from fairpc.evidence import (
    EqualRates,
    Interval,
    equal_rates,
)
from fairpc.models import GivenRows

_COMMON: Final = 0.5  # the common threshold where that of the decisions is not known
_EXTREME: Final = 0.01  # a class decided for less of every group, or for all but that, is one-sided
_SEEN: Final = 5e-4  # a gap that is larger by less is the same in its digits
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
    #: share of the class among the labels of each; NaN where it would tell of few people
    label_rates: Interval
    decision_rates: Interval  #: share of the class among the decisions on each; likewise
    #: (last − first) in decisions less (last − first) in labels; its interval holds for all pairs
    change: float
    interval: Interval
    n_rows: int  #: rows that were compared
    sizes: Interval  #: weight of each of the two groups
    people: tuple[str, str]  #: the two groups as a sentence says them
    said: str  #: the class likewise
    #: what decisions do to the gap; "reversed": the other group is ahead, by more than chance;
    #: "unclear": chance may explain the change; "one class": hardly anybody, or hardly anybody
    #: else, is decided to be of the class, so decisions can hardly differ
    outcome: Outcome
    farthest: float = 0.0  #: the largest gap in decisions of any two groups
    own: bool = False  #: whether a model of ours decides, and not whoever is audited
    min_cell: int = 1  #: the fewest people about whom a number is reported
    some: bool = False  #: whether there are rows of these groups without a label

    _computed = ("sentence",)

    @property
    def label_gap(self) -> float:
        return abs(self.label_rates[1] - self.label_rates[0])

    @property
    def decision_gap(self) -> float:
        return abs(self.decision_rates[1] - self.decision_rates[0])

    @property
    def sentence(self) -> str:
        """Decisions and labels in counts and shares, the group that labels favour first."""
        way = -1 if self.label_rates[1] >= self.label_rates[0] else 1
        each = list(zip(self.people, self.sizes, self.label_rates, strict=True))[::way]
        few = f"fewer than {self.min_cell} or all but fewer than {self.min_cell}"
        before = " and ".join(
            f"{few} of {text.count(n)} {who}"
            if math.isnan(rate)
            else f"{text.count(rate * n)} of {text.count(n)} {who} ({text.share(rate)})"
            for who, n, rate in each
        )
        decided = list(zip(self.sizes, self.decision_rates, strict=True))[::way]
        after = " and ".join(
            few if math.isnan(rate) else f"{text.count(n * rate)} ({text.share(rate)})"
            for n, rate in decided
        )
        how = " the other way" * self._turned
        if self.farthest - self.decision_gap >= _SEEN:
            how += f"; of all groups, up to {text.size(self.farthest)}"
        by = " by fairpc's model" * self.own
        return (
            f"{self._headline}. {'Where a label is known, recorded' if self.some else 'Recorded'} "
            f"{self.said}: {before}{_apart(self.label_gap)}. "
            f"Decided {self.said}{by}: {after}{_apart(self.decision_gap)}{how}."
        )

    @property
    def _turned(self) -> bool:
        """Whether decisions favour the other group, by what is seen in digits."""
        labels, decisions = (r[1] - r[0] for r in (self.label_rates, self.decision_rates))
        against = decisions >= _SEEN if labels < 0 else -decisions >= _SEEN
        return bool(against) and not math.isnan(labels)

    @property
    def _headline(self) -> str:
        what = "decisions of fairpc's model" if self.own else "the decisions"
        begins = f"{what[:1].upper()}{what[1:]}"
        if self.outcome == "one class":
            some = "almost everybody" if max(self.decision_rates) > 0.5 else "almost nobody"
            if any(map(math.isnan, self.decision_rates)):
                some = "almost nobody or almost everybody"
            return f"{begins} hardly tell people apart, {some} is {self.said}"
        if self.outcome == "unclear":
            more = self.decision_gap - self.label_gap
            if math.isnan(more):
                return f"Chance may explain how the gap changes in {what}"
            if abs(more) < _SEEN and not self._turned:
                return f"{begins} keep the gap between groups"
            size = "as large" if abs(more) < _SEEN else "larger" if more > 0 else "smaller"
            return f"The gap is {size} in {what}, which chance may explain"
        verb = {"wider": "widen", "narrower": "narrow", "reversed": "reverse"}[self.outcome]
        return f"{begins} {verb} the gap between groups"


def _apart(gap: float) -> str:
    return "" if math.isnan(gap) else f", {text.gap(gap)} apart"


@dataclass(frozen=True)
class HiddenGroup(Record):
    """What the model decides where the group may not be used, beside what it decides with it."""

    decisions: tuple[Disparity, ...]  #: gaps in selection rates; per class shown
    gap_with: float  #: the largest gap of the same rows with the group
    changed: float  #: share of the rows that are decided otherwise
    n_rows: int
    sensitive: str  #: what is not used
    turned: bool = False  #: whether the other one of two groups is selected more often then

    _computed = ("gap", "sentence")

    @property
    def gap(self) -> float:
        return max(d.gap for d in self.decisions)

    @property
    def sentence(self) -> str:
        than = f"{', the other way,' * self.turned} instead of {text.size(self.gap_with)}"
        if text.size(self.gap) == text.size(self.gap_with) and not self.turned:
            than = ", as before"
        return (
            f"If {self.sensitive} may not be used at decision time, the model decides otherwise "
            f"for {text.share(self.changed)} of the rows, and decisions differ by "
            f"{text.gap(self.gap)} between groups{than}."
        )


def hidden_group(job: Job) -> HiddenGroup:
    """Decisions of the same model with the group hidden."""
    if not job.model._marginalises:
        raise AuditError("the model has no scores without the group: a FairPC has")
    rows = job.rows
    kept = rows.comparable(rows.s >= 0)
    given = rows.given()
    nobody = np.full_like(rows.s, -1)
    scores, _ = job.model._answers(GivenRows(replace(given.codes, s=nobody), given.table))
    hidden, level = decided(job.model, scores, nobody), job.settings.level
    found, before = (rates(rows, of, kept, level) for of in (hidden, rows.decided))
    changed = rows.mean(hidden != rows.decided, kept)
    if changed is None:
        raise AuditError("no row has weight")
    gap, n = max(d.gap for d in before), rows.number(kept)
    pairs = [pair.difference for of in (before, found) for d in of for pair in d.parity.pairs]
    turned = len(pairs) == 2 and min(pairs) <= -_SEEN and max(pairs) >= _SEEN
    return HiddenGroup(found, gap, changed, n, job.names.sensitive, turned)


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
    #: decisions by each sensitive attribute alone, however few the rows
    categories: tuple[Categories, ...]
    #: what ``predict`` uses: one, or one per group; empty for more than two classes, or not known
    thresholds: tuple[float, ...]
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


def selection_gap(decisions: Disparity, data: TableFacts) -> str:
    """The gap of decisions and the impact ratio, of the groups farthest apart, with intervals."""
    pair, who = decisions.parity.largest, data.who
    names, (low, high) = (pair.last, pair.first), pair.difference_interval
    if pair.difference > 0:
        names, (low, high) = names[::-1], (-high, -low)
    sure = f"{text.share(decisions.parity.level, 0)} interval"
    of = "Of all groups farthest apart: " if len(decisions.parity.pairs) > 1 else ""
    less = f"{text.size(abs(pair.difference))} points less often than"
    if abs(pair.difference) < _SEEN:
        less = "as often as"
    said = (
        f"{of}{who(names[0])} are decided {data.called(decisions.label)} {less} {who(names[1])} "
        f"({sure} {text.more_often(low, high)})"
    )
    if math.isfinite(pair.impact_ratio):
        ends = text.span(pair.impact_interval, lambda end: text.number(end, 2))
        said += f"; the impact ratio is {text.number(pair.impact_ratio, 2)} ({ends})"
    return text.sentence(said)


def parity_facts(job: Job) -> ParityFacts:
    """Gaps on the rows whose group is known."""
    rows, level = job.rows, job.settings.level
    kept = rows.comparable(rows.s >= 0)
    scored = rows.shown_classes if rows.scored else ()
    scores = tuple(disparity(rows, rows.scores[:, k], kept, k, level) for k in scored)
    decisions = rates(rows, rows.decided, kept, level)
    model_gap = mix_gap = None
    thresholds: tuple[float, ...] = ()
    cut = _cut_of(rows, kept)
    if not job.decisions:
        model_gap, cut = float(job.model._fair().parity_gap().max()), job.model.threshold_.unknown
        thresholds = job.model.threshold_.values
    equal: EqualRates | None = None
    if binary := len(rows.classes) == 2 and rows.scored:
        given, weights = (rows.scores[kept, rows.positive], rows.s[kept]), rows.each_weight[kept]
        labelled = bool((rows.d[kept] >= 0).all())
        labels = (rows.d[kept] == rows.positive).astype(np.intp) if labelled else None
        rate = rows.mean(rows.decided == rows.positive, kept)
        asked: dict[str, Any] = {"threshold": cut, "rate": rate, "sample_weight": weights}
        equal = rows.named(equal_rates(*given, labels, **asked))
    if job.strata:
        mix_gap = float(np.ptp(job.model.group_decision_rate_, axis=0).max())
    return ParityFacts(
        model_gap=model_gap,
        mix_gap=mix_gap,
        scores=scores,
        decisions=decisions,
        categories=categories(job),
        thresholds=thresholds if binary else (),
        equal_rates=equal,
        change=None if job.results["labels"] is None else _change(job),
        n_unknown=rows.number(rows.s < 0),
        sentences=_sentences(model_gap, mix_gap, level, scores, decisions),
        undecided=_undecided(rows, kept, decisions),
    )


def _cut_of(rows: AuditedRows, kept: Bools) -> float:
    """The threshold of the scores that gives the decisions; .5 where none does."""
    scores, selected = rows.scores[kept, rows.positive], rows.decided[kept] == rows.positive
    if not selected.any() or selected.all():
        return _COMMON
    least = float(scores[selected].min())
    return least if scores[~selected].max() < least else _COMMON


def _undecided(
    rows: AuditedRows, kept: Bools, decisions: tuple[Disparity, ...]
) -> Mapping[str, str]:
    """Why a small gap on these rows would say nothing of scores, or of decisions."""
    each, both = [rows.scores[kept & (rows.s == g)] for g in rows.groups_in(kept)], ""
    if small := decisions[0].too_small:
        both = (
            f"group {small[0]!r} has too few rows or persons to be compared: give more rows of it, "
            "or leave it out"
        )
    elif rows.scored and all(np.ptp(scores, axis=0).max() < 1e-9 for scores in each):
        both = (
            "all rows of a group have the same score, so their features tell the model nothing: "
            "give the columns that it learned from, as they were at fit"
        )
    if both:
        return dict.fromkeys(("scores", "decisions"), both)
    means = {d.label: [g.mean for g in d.parity.groups] for d in decisions}
    if not all(max(m) < _EXTREME or min(m) > 1 - _EXTREME for m in means.values()):
        return {}
    label = max(means, key=lambda name: min(means[name]))
    much = "over 99%" if min(means[label]) > 0.5 else "under 1%"
    return {
        "decisions": f"the model decides {label!r} for {much} of every group, so decisions "
        "can hardly differ: choose another threshold, or fit another model"
    }


def _change(job: Job) -> GapChange:
    """Decisions beside labels of the same rows: the pair, and class, with the largest gap.

    Without rates that would tell of few people.
    """
    rows, level, names = job.rows, job.settings.level, job.names
    kept = rows.comparable(rows.d >= 0)
    found = [one for k in rows.shown_classes for one in _changes(rows, kept, k, level, names)]
    worst = max(found, key=lambda one: max(one.label_gap, one.decision_gap))
    k = rows.classes.index(worst.label)
    at = [rows.groups.index(name) for name in (worst.first, worst.last)]

    def shown(classes: Codes | Positions, rates: Interval) -> Interval:
        """The rates of the two groups, NaN for one whose people of a class are few."""
        cells = [[kept & (rows.s == g) & ((classes == k) == hit) for g in at] for hit in (1, 0)]
        hits, others = (np.array([[rows.number(cell)] for cell in own]) for own in cells)
        few = [few_labels(hits[i], others[i], job.min_cell)[0] for i in range(2)]
        low, high = np.where(few, np.nan, rates).tolist()
        return low, high

    before, after = shown(rows.d, worst.label_rates), shown(rows.decided, worst.decision_rates)
    if np.isfinite([*before, *after]).all():
        return worst
    farthest = worst.farthest if np.isfinite(after).all() else math.nan
    worst = replace(worst, label_rates=before, decision_rates=after, farthest=farthest)
    return replace(worst, change=math.nan, interval=(math.nan, math.nan), min_cell=job.min_cell)


def _changes(
    rows: AuditedRows, kept: Bools, k: int, level: float, names: Names
) -> Iterator[GapChange]:
    """Of one class, pair by pair."""
    labelled, chosen = ((of == k).astype(np.float64) for of in (rows.d, rows.decided))
    of_labels, of_decisions, both = (
        disparity(rows, values, kept, k, level).parity
        # Of each row the decision less the label, moved into [0, 1].
        for values in (labelled, chosen, (chosen - labelled + 1) / 2)
    )
    one_class = _one_class(*(rows.mean(values, kept) or 0.0 for values in (labelled, chosen)))
    before, after = ({g.group: g.mean for g in p.groups} for p in (of_labels, of_decisions))
    weights = rows.each_weight
    sizes = {name: float(weights[kept & (rows.s == g)].sum()) for g, name in enumerate(rows.groups)}
    for decisions, pair in zip(of_decisions.pairs, both.pairs, strict=True):
        low, high = (2 * end for end in pair.difference_interval)
        label_rates = before[pair.first], before[pair.last]
        decision_rates = after[pair.first], after[pair.last]
        gaps = (low, high), decisions.difference_interval
        how = "one class" if one_class else outcome(label_rates, decision_rates, *gaps)
        yield GapChange(
            label=rows.classes[k],
            first=pair.first,
            last=pair.last,
            label_rates=label_rates,
            decision_rates=decision_rates,
            change=2 * pair.difference,
            interval=(low, high),
            n_rows=rows.number(kept),
            sizes=(sizes[pair.first], sizes[pair.last]),
            people=(names.who(pair.first), names.who(pair.last)),
            said=names.said[rows.classes[k]],
            outcome=how,
            farthest=max(abs(p.difference) for p in of_decisions.pairs),
            own=rows.observed.shape[1] > 0,
            some=bool(((rows.d < 0) & (rows.s >= 0)).any()),
        )


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


def _under_model(model_gap: float, mix_gap: float | None) -> str:
    """What is equal between groups under the model, by construction, and what is not."""
    exact, table = model_gap < 1e-9, "" if mix_gap is None else text.gap(mix_gap)
    if exact and mix_gap is None:
        return "Under the model the groups have the same mean score, by construction"
    if exact:
        return (
            "Under the model the groups have the same mean score within each stratum, by "
            "construction; in the whole table their mean scores differ by up to "
            f"{table}, by the mix of strata alone"
        )
    apart = f"Under the model the mean scores of the groups differ by up to {text.gap(model_gap)}"
    within = f" within strata, and by up to {table} in the whole table"
    return apart if mix_gap is None else f"{apart}{within}"


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
    words = "" if model_gap is None else f"{_under_model(model_gap, mix_gap)}. "
    decision = max(decisions, key=lambda d: d.gap_upper)
    said = (
        f"Decisions on these rows differ by {text.gap(decision.gap)} between groups, at most "
        f"{text.size(decision.gap_upper)} {sure}{why}."
    )
    if not scores:
        return (said,)
    score = max(scores, key=lambda d: d.gap_upper)
    return (
        f"{words}On these rows mean scores differ by {text.gap(score.gap)}, at most "
        f"{text.size(score.gap_upper)} {sure}.",
        said,
    )


@blocks.section("parity", "Decisions")
def show_parity(audit: blocks.Audit, facts: ParityFacts) -> Iterator[blocks.Block]:
    """What is equal between groups, with a bound where it is not exact."""
    if facts.change is not None:
        yield blocks.Paragraph(facts.change.sentence)
    for one in facts.decisions:
        label = text.quoted(one.label)
        title, what = f"Share decided {label}, by group", f"The share decided {label}"
        yield show_means(audit, one, title, what)
        yield show_pairs(one, f"Decided {label}: differences and ratios between groups")
    if facts.n_unknown:
        rows = text.counted(facts.n_unknown, "row")
        yield blocks.Paragraph(f"Left out here: {rows} whose group is not known.", "note")
    if len(audit.data.sensitive) > 1:
        yield from show_categories(facts.categories)
    if facts.scores:
        yield blocks.Heading("Mean scores, before a threshold makes them decisions")
        yield blocks.Paragraph(facts.sentences[0])
    for one in facts.scores:
        caption = f"Mean scores for {text.quoted(one.label)}: differences between groups"
        yield replace(show_pairs(one, caption), folded=True)
    if facts.equal_rates is not None:
        yield _thresholds(facts.equal_rates)


@blocks.section("group_hidden", "If the group may not be used")
def show_hidden(audit: blocks.Audit, facts: HiddenGroup) -> Iterator[blocks.Block]:
    """Decisions without the group beside those with it."""
    yield blocks.Paragraph(facts.sentence)
    decisions = () if audit.parity is None else audit.parity.decisions
    known = {(d.label, g.group): g.mean for d in decisions for g in d.parity.groups}
    cells = [
        (g.group, d.label, known.get((d.label, g.group)), g.mean)
        for d in facts.decisions
        for g in d.parity.groups
    ]
    head = ("Group", "Decided", "With the group", "Group hidden")
    note = f"Computed on {text.counted(facts.n_rows, 'row')}."
    caption = "Decisions with and without the group"
    yield blocks.TableBlock(caption, head, cells, words={1}, note=note)


def _thresholds(equal: EqualRates) -> blocks.TableBlock:
    """Thresholds of the groups that would equalise rates, and their price."""
    labelled = equal.accuracy is not None
    head = ["Group", "Own threshold", "Rate", "Rate at common threshold"]
    head += ["Agreement", "Agreement at common threshold"] if labelled else []
    rows = []
    for group in equal.groups:
        cut = text.threshold(group.threshold) if math.isfinite(group.threshold) else "nobody"
        shares = group.rate, group.rate_before, group.accuracy, group.accuracy_before
        rows.append([group.group, cut, *shares][: len(head)])
    note = f"Common threshold: {text.threshold(equal.common_threshold)}."
    if labelled:
        note += (
            f" Agreement with the recorded label, which may be biased, goes from "
            f"{text.share(equal.accuracy_before)} to {text.share(equal.accuracy)}."
        )
    caption = f"Thresholds per group that would select {text.share(equal.rate)} of each group"
    return blocks.TableBlock(caption, head, rows, note=note)
