"""Strata and legitimate factors: what holds within them, and how much of a gap is their mix.

A model with strata assumes that Df is independent of S within each of them, not in the whole table.
So the rates of the groups may differ, by their mix of strata alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._assumptions import (
    ARGUED,
    WithinTest,
    contradiction_sentence,
    within_test,
)
from fairpc.auditing._drawing import Mark, Row, estimates
from fairpc.auditing._job import Job
from fairpc.auditing._rows import taken
from fairpc.core import AuditError, Bools, FairpcError, Fewer, Floats, Record, few_labels
from fairpc.evidence import SMALL, Interval, parity
from fairpc.models import Strata

_NONE: Final = (
    f" {text.NOTHING}: nothing fits exactly, or it is not known; the test says whether chance "
    "explains that."
)
_POSSIBLE: Final = "Possible: every value that fits the same P(D | X, S), without sampling error."
_CUT: Final = (
    "A gap between two groups is the sum of two parts, in percentage points: what comes from the "
    "different mix of strata, and the mean gap between people of the same stratum. The lines are "
    "intervals. The model takes the first part of the gap in labels as given and explains the "
    "second by how labels were altered."
)
NO_FACTORS: Final = "no legitimate factors were named (given)"
_EXPLAINED: Final = (
    "A gap between two groups is the sum of two parts, in percentage points: what comes from "
    "the different mix of these factors, and the mean gap between people who are alike in them. "
    "The lines are intervals."
)
_DRAWN: Final = 12
_LONG: Final = 16
_OUTCOME: Final = {True: "contradicted", False: "not contradicted", None: "not tested"}


@dataclass(frozen=True)
class GapParts:
    """A gap between two groups: the mean of the gaps within strata, and what their mix adds."""

    first: str  #: one group
    last: str  #: the other; gaps are last − first
    raw: float  #: the gap over the strata that both have: within + mix
    within: float  #: mean gap within strata
    within_interval: Interval
    mix: float  #: part of the mix of strata
    mix_interval: Interval
    n_left_out: int  #: rows in strata that only one of the groups has


@dataclass(frozen=True)
class StratumFacts:
    """One stratum."""

    stratum: str
    n: tuple[int, ...]  #: audited rows of each group
    #: share of positive labels in each group; None where it would tell of few people
    label_rates: tuple[float | None, ...]
    decision_rate: float  #: P(Df = positive | stratum) as learned, the same in every group
    #: P(Df = positive | stratum) that fits the same P(D | X, S); None where nothing does, or not
    #: known
    possible: Interval | None
    small: bool  #: a group has under 30 rows here


@dataclass(frozen=True)
class GroupFacts:
    """One group."""

    group: str
    decision_rate: float  #: P(Df = positive | group) as learned: the mix of strata
    b0: float  #: P(D = positive | Df otherwise) as learned, the mean over strata
    b1: float  #: P(D = positive | Df = positive) as learned, likewise


@dataclass(frozen=True)
class StratumMechanism:
    """The mechanism of one group in one stratum."""

    stratum: str
    group: str
    b0: float  #: P(D = positive | Df otherwise) as learned
    b1: float  #: P(D = positive | Df = positive) as learned
    #: what fits the same P(D | X, S); None where nothing, or not known
    b0_possible: Interval | None
    b1_possible: Interval | None


@dataclass(frozen=True)
class OwnStrata(Record):
    """The strata of the model."""

    columns: tuple[str, ...]  #: whose values make them, crossed
    positive: str  #: the class that rates are of
    plain_rejected: bool | None  #: whether parity without strata is; None where not tested
    plain_p_words: str  #: its p-value for a sentence
    test: WithinTest | None  #: None where these rows do not allow one
    untested: str  #: why there is none
    names: tuple[str, ...]  #: of the groups
    strata: tuple[StratumFacts, ...]
    groups: tuple[GroupFacts, ...]
    subgroups: tuple[StratumMechanism, ...]
    labels: tuple[GapParts, ...]  #: gaps of the labels, per pair of groups; none where not known
    scores: tuple[GapParts, ...]  #: gaps of the model's scores
    n_rows: int  #: rows that the parts of gaps are of
    n_unknown: int  #: audited rows whose stratum is not known
    argued: str = ARGUED  #: what no number here can decide

    _computed = ("sentences",)

    @property
    def headline(self) -> str:
        """Whether these rows contradict what the model assumes, in a sentence of the verdict."""
        assumed = (
            " that is independent of the group within strata of "
            f"{' × '.join(map(repr, self.columns))}, and labels that are altered in each of them "
            "in its own way"
        )
        outcome = "" if self.test is None else self.test.outcome
        return contradiction_sentence(self.test, self.untested, outcome, assumed)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the plain test says, then what the mix of strata explains."""
        said = "Without strata the assumptions were not tested."
        if self.plain_rejected is not None:
            outcome = "contradict" if self.plain_rejected else "do not contradict"
            said = (
                f"Without strata, these rows {outcome} a fair decision that is independent of the "
                f"group in the whole table (p {self.plain_p_words})."
            )
        if not self.labels:
            return (said,)
        one = max(self.labels, key=lambda p: abs(p.raw))
        few, more = (one.last, one.first) if one.raw < 0 else (one.first, one.last)
        way = 1 if one.raw > 0 else -1
        mix = _points(way * one.mix, one.mix_interval, way)
        within = _points(way * one.within, one.within_interval, way)
        return said, (
            f"Labels {self.positive!r} are {text.gap(abs(one.raw))} rarer in group {few!r} than in "
            f"group {more!r}: {mix} because the groups are spread differently over the strata, and "
            f"{within} within strata."
        )


def _points(value: float, interval: Interval, way: int) -> str:
    low, high = sorted(way * end for end in interval)
    return "{} ({} to {}) points".format(*(text.share(v)[:-1] for v in (value, low, high)))


def gap_parts(job: Job) -> tuple[tuple[GapParts, ...], tuple[GapParts, ...]] | None:
    """Gaps of labels and of scores, cut into mix and within; None without strata."""
    if not job.strata:
        return None
    rows = job.drawn
    return _of_labels_and(rows.scores[:, rows.positive], job, job.strata)


def _of_labels_and(
    values: Floats, job: Job, strata: Strata
) -> tuple[tuple[GapParts, ...], tuple[GapParts, ...]]:
    """Gaps of the labels and of a value, per pair of groups; none where nothing compares."""
    rows, where = job.drawn, strata.codes(job.drawn.x)

    def parts(values: Floats, known: Bools) -> tuple[GapParts, ...]:
        try:
            kept = rows.comparable(known)
            weighing = rows.weighing(kept)
            weighing.pop("counts")
            given = {"given": where[kept], "level": job.settings.level, **weighing}
            found = parity(values[kept], rows.s[kept], **given)
        except FairpcError:
            return ()  # No labels are known, or no stratum has two groups.
        pairs = ((pair, sum(n for _, n in pair.left_out)) for pair in found.pairs)
        return tuple(rows.named(taken(GapParts, pair, n_left_out=n)) for pair, n in pairs)

    labels = (rows.d == rows.positive).astype(np.float64)
    return parts(labels, (where >= 0) & (rows.d >= 0)), parts(values, where >= 0)


def strata_facts(job: Job) -> OwnStrata:
    """What the steps before found; an AuditError where the model has no strata."""
    if not job.strata:
        raise AuditError("the model has no strata")
    rows, strata, plain, test = job.rows, job.strata, job.test, job.results["strata.test"]
    labels, scores = job.results["strata.gaps"] or ((), ())
    return OwnStrata(
        columns=tuple(rows.features.names[j] for j in strata.columns),
        positive=rows.positive_class,
        plain_rejected=None if plain is None else plain.rejected,
        plain_p_words="" if plain is None else text.p_words(plain.p_value),
        test=None if test is None else within_test(job, test),
        untested=job.left_out.get("strata.test", ""),
        names=rows.groups,
        strata=tuple(_strata(job)),
        groups=tuple(_groups(job)),
        subgroups=tuple(_subgroups(job)),
        labels=labels,
        scores=scores,
        n_rows=job.drawn.n_rows,
        n_unknown=rows.number(strata.codes(rows.x) < 0),
    )


def _strata(job: Job) -> Iterator[StratumFacts]:
    rows, identified = job.rows, job.results["decidable.identified"]
    where, positive = job.strata.codes(rows.x), rows.d == rows.positive
    possible = {} if identified is None else {r.stratum: r.possible for r in identified.strata}
    known, labelled = (where >= 0) & (rows.s >= 0), rows.d >= 0
    n, hits, others = np.zeros((3, len(rows.groups), len(job.model.strata_)))
    for counts, own in ((n, known), (hits, labelled & positive), (others, labelled & ~positive)):
        here = known & own
        np.add.at(counts, (rows.s[here], where[here]), rows.each_count[here])
    # How many rows a group has in all is known: that gives away a stratum left alone.
    hidden = np.array([few_labels(own, 0 * own, job.min_cell) for own in n])
    few = hidden | [few_labels(*of, job.min_cell) for of in zip(hits, others, strict=True)]
    for a, name in enumerate(job.model.strata_):
        cells = [(where == a) & (rows.s == g) & labelled for g in range(len(rows.groups))]
        each = zip(map(int, n[:, a]), hidden[:, a], strict=True)
        shown = tuple(Fewer.hidden(k) if hide else k for k, hide in each)
        rates = tuple(None if few[g, a] else rows.mean(positive, c) for g, c in enumerate(cells))
        rate = float(job.model.stratum_rate_[a, rows.positive])
        yield StratumFacts(name, shown, rates, rate, possible.get(name), min(shown) < SMALL)


def _groups(job: Job) -> Iterator[GroupFacts]:
    model, rows = job.model, job.rows
    for s, name in enumerate(rows.groups):
        rates = model.group_decision_rate_[s]
        learned = _rates_of_labels(model.bias_mechanism_[s], rows.positive)
        yield GroupFacts(name, float(rates[rows.positive]), *learned)


def _rates_of_labels(mechanism: Floats, positive: int) -> Interval:
    """b0 and b1 of P(D | Df), [f, d]."""
    return float(mechanism[1 - positive, positive]), float(mechanism[positive, positive])


def _subgroups(job: Job) -> Iterator[StratumMechanism]:
    """The mechanism of each stratum beside what is possible there."""
    model, rows = job.model, job.rows
    identified = job.results["decidable.identified"]
    possible = {}
    for row in () if identified is None else identified.groups:
        ends = [(row[f"{b}_lower"], row[f"{b}_upper"]) for b in ("b0", "b1")]
        known = [end if np.isfinite(end).all() else None for end in ends]
        possible[row["stratum"], row["group"]] = known
    for a, stratum in enumerate(model.strata_):
        for s, group in enumerate(rows.groups):
            sets = possible.get((stratum, group), (None, None))
            learned = _rates_of_labels(model.stratum_mechanism_[s, a], rows.positive)
            yield StratumMechanism(stratum, group, *learned, *sets)


@blocks.section("strata", "Within strata")
def show_strata(_: blocks.Audit, own: OwnStrata) -> Iterator[blocks.Block]:
    """What holds within strata of the model."""
    columns = " × ".join(text.short(name, 40) for name in own.columns)
    yield blocks.Paragraph(
        f"This model lets the fair decision depend on {columns}. People with the same value are a "
        "stratum. Within a stratum the fair decision has the same rate in every group, by "
        "construction. In the whole table the rates of the groups may differ, because the groups "
        "are spread differently over the strata. In each stratum labels may be altered in their "
        "own way.",
        "lead",
    )
    yield blocks.Notice("These strata must be argued for.", (own.argued,))
    within = None if own.test is None else own.test.rejected
    yield blocks.KeyNumbers(
        [
            ("Strata", str(len(own.strata))),
            ("Parity in the whole table", _OUTCOME[own.plain_rejected]),
            ("Parity within strata", _OUTCOME[within]),
        ]
    )
    tested = [own.headline]
    if own.test is not None and own.test.untested:
        few = text.listed(own.test.untested)
        tested.append(f"Too few rows of some group to be tested: {few}.")
    if own.n_unknown:
        unknown = text.counted(own.n_unknown, "row")
        tested.append(f"Left out: {unknown} whose stratum is not known.")
    yield blocks.Points([own.sentences[0], *tested, *own.sentences[1:]])
    if own.labels:
        note = f"Computed on {text.counted(own.n_rows, 'row')}; scores are the model's own."
        yield show_parts({"labels": own.labels, "scores": own.scores}, _CUT, note)
    yield _rates_table(own)
    yield _groups_table(own)
    yield _subgroups_table(own)


def show_own_test(own: OwnStrata) -> blocks.Block:
    """The test of what a model with strata assumes, in the part on what data decide."""
    if own.test is None:
        return blocks.Paragraph(own.headline)
    outcome = "Not rejected: the data do not contradict the assumptions within strata."
    if own.test.rejected:
        outcome = "Rejected: the data contradict the assumptions, within strata too."
    where = "The part on strata shows it beside the test without strata."
    return blocks.Notice(outcome, (own.headline, f"{where} {own.argued}"), alert=own.test.rejected)


def show_parts(
    gaps: Mapping[str, Sequence[GapParts]],
    explained: str,
    note: str,
    title: str = "How much of the gap is the mix of strata?",
) -> blocks.Figure:
    """Mix and within, for labels and for scores or decisions of every pair of groups."""
    rows, cells = [], []
    for series, (of, parts) in enumerate(gaps.items()):
        for one in parts:
            pair = f"{text.short(one.last, 20)} − {text.short(one.first, 20)}"
            both = (one.mix, one.mix_interval), (one.within, one.within_interval)
            for name, each in zip(("mix of strata", "within strata"), both, strict=True):
                rows.append(Row(f"{of}, {name}: {pair}", *each, series, text.points(each[0])))
            middle = (text.bracketed(*each, text.points) for each in both)
            cells.append((f"{of}: {pair}", text.points(one.raw), *middle, one.n_left_out))
    head = ("Gap", "Whole", "Mix of strata", "Within strata", "Rows left out")
    table = blocks.TableBlock("Gaps between groups, in points, cut in two", head, cells, note=note)
    picture = estimates(rows[:_DRAWN], text.points_tick, marks=(Mark(0.0, "no gap"),))
    return blocks.Figure(title, explained, picture, table)


def _rates_table(own: OwnStrata) -> blocks.TableBlock:
    label = text.quoted(own.positive)
    head = ["Stratum", f"Fair decision {label}, learned", "Possible"]
    for name in own.names:
        head += [f"Rows, {text.short(name, 20)}", f"Labelled {label}, {text.short(name, 20)}"]
    rows = []
    for one in own.strata:
        by_group = chain(*zip(one.n, one.label_rates, strict=True))
        rows.append([one.stratum, one.decision_rate, text.span(one.possible), *by_group])
    note = f"Learned: P(Df | stratum), the same in every group under the model. {_POSSIBLE}"
    if any(one.possible is None for one in own.strata):
        note += _NONE
    if any(one.small for one in own.strata):
        note += " Strata with under 30 rows of some group are to be read with care."
    caption = "Rates in each stratum: fair decisions as learned, labels as recorded"
    return blocks.TableBlock(caption, head, rows, words={2}, note=note, folded=len(rows) > _LONG)


def _groups_table(own: OwnStrata) -> blocks.TableBlock:
    label = text.quoted(own.positive)
    head = ["Group", f"Fair decision {label}, whole table"]
    head += [f"Labelled {label} although fair decision is not"]
    head += [f"Labelled {label} as fair decision is"]
    rows = [[g.group, g.decision_rate, g.b0, g.b1] for g in own.groups]
    note = (
        "The rates of the groups in the whole table differ by their mix of strata alone. Each "
        "stratum has a mechanism of its own; this is their mean."
    )
    caption = "Rates and mechanism of each group as learned"
    return blocks.TableBlock(caption, head, rows, note=note)


def _subgroups_table(own: OwnStrata) -> blocks.TableBlock:
    label = text.quoted(own.positive)
    head = ["Stratum", "Group", f"Labelled {label} although fair decision is not", "Possible"]
    head += [f"Labelled {label} as fair decision is", "Possible"]
    rows = []
    for one in own.subgroups:
        ends = text.span(one.b0_possible), text.span(one.b1_possible)
        rows.append((one.stratum, text.short(one.group), one.b0, ends[0], one.b1, ends[1]))
    note = _POSSIBLE
    if any(one.b0_possible is None for one in own.subgroups):
        note += _NONE
    caption = "Mechanism of each group in each stratum as learned, beside what is possible"
    folded = len(rows) > 2 * _LONG
    return blocks.TableBlock(caption, head, rows, words={1, 3, 5}, note=note, folded=folded)


@dataclass(frozen=True)
class FactorGaps(Record):
    """Gaps of labels and of decisions within strata of the factors."""

    columns: tuple[str, ...]  #: whose values make the strata, crossed
    labels: tuple[GapParts, ...]  #: per pair of groups
    decisions: tuple[GapParts, ...]
    n_rows: int  #: rows whose stratum is known
    n_unknown: int  #: rows whose stratum is not

    _computed = ("sentence",)

    @property
    def sentence(self) -> str:
        """The largest gap of decisions within strata, beside the whole one."""
        one = max(self.decisions, key=lambda part: abs(part.within))
        low, high = map(text.points, one.within_interval)
        return (
            f"Within the same {text.listed(self.columns)}, decisions for group {one.last!r} and "
            f"group {one.first!r} differ by {text.points(one.within)} points ({low} to {high}); "
            f"without that, by {text.points(one.raw)}."
        )


def factor_gaps(job: Job) -> FactorGaps:
    """Gaps within the factors that were named; an AuditError where none were."""
    given = job.decisions
    if given is None or not given.strata:
        raise AuditError(NO_FACTORS)
    rows, known = job.drawn, given.strata.codes(job.drawn.x) >= 0
    decided = (rows.decided == rows.positive).astype(np.float64)
    labels, decisions = _of_labels_and(decided, job, given.strata)
    if not decisions:
        raise AuditError("no stratum of the named factors has rows of two groups: name fewer")
    return FactorGaps(
        columns=tuple(rows.features.names[j] for j in given.strata.columns),
        labels=labels,
        decisions=decisions,
        n_rows=rows.number(known),
        n_unknown=rows.number(~known),
    )


@blocks.section("factors", "Within legitimate factors")
def show_factors(_: blocks.Audit, facts: FactorGaps) -> Iterator[blocks.Block]:
    """How much of a gap is left between people who are alike in the legitimate factors."""
    yield blocks.Paragraph(facts.sentence, "lead")
    yield blocks.Notice("These factors must be argued for.", (ARGUED,))
    note = f"Computed on {text.counted(facts.n_rows, 'row')}."
    if facts.n_unknown:
        note += f" Left out: {text.counted(facts.n_unknown, 'row')} that lack a value of them."
    found = {"labels": facts.labels, "decisions": facts.decisions}
    yield show_parts(found, _EXPLAINED, note, "How much of the gap is the mix of these factors?")
