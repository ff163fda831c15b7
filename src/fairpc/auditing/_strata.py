"""Strata: what holds within them, how much of a gap is their mix, what a rejection hangs on.

A model with strata assumes that Df is independent of S within each of them, not in the whole table.
So the rates of the groups may differ, by their mix of strata alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from fairpc.auditing._job import Job
from fairpc.auditing._numbers import counted, gap, p_words, share
from fairpc.auditing._rows import AuditedRows
from fairpc.core import AuditError, Bools, FairpcError, Floats, Positions
from fairpc.evidence import (
    SMALL,
    CandidateStrata,
    ParityWithin,
    StrataTest,
    TestsByStratum,
    compared,
    parity,
)
from fairpc.models import CircuitClassifier

MOST_COLUMNS: Final = 30
"""Columns that are tried as strata unasked: about half a second each."""

ARGUED: Final = (
    "A stratum must be argued for: that the attribute may rightly matter, and is not itself the "
    "result of unequal treatment. That the test no longer rejects within it is no argument."
)
TRIED: Final = (
    "This is no list of proposals. Of many columns some remove a rejection by chance, some because "
    "they leave few rows in each stratum, and some because they are themselves results of unequal "
    "treatment, or stand for the group. " + ARGUED
)

Ends = tuple[float, float]


@dataclass(frozen=True)
class WithinTest:
    """The test of parity within strata, on rows whose stratum is known."""

    rejected: bool  #: whether nothing that fits every group is left at the level
    p_value: float  #: smallest 1 − level at which nothing is; not said to be under 1e-12
    p_words: str  #: the same for a sentence
    level: float  #: of the set
    n_rows: int  #: rows that were used
    contradicted: tuple[str, ...]  #: strata that contradict it by themselves; none where shared
    untested: tuple[str, ...]  #: strata that are too small to be tested, or to inform a line
    outcome: str  #: what nothing fits, in words; empty where nothing is rejected


@dataclass(frozen=True)
class GapParts:
    """A gap between two groups: the mean of the gaps within strata, and what their mix adds."""

    first: str  #: one group
    last: str  #: the other; gaps are last − first
    raw: float  #: the gap over the strata that both have: within + mix
    within: float  #: mean gap within strata
    within_interval: Ends
    mix: float  #: part of the mix of strata
    mix_interval: Ends
    n_left_out: int  #: rows in strata that only one of the groups has


@dataclass(frozen=True)
class StratumFacts:
    """One stratum."""

    stratum: str
    n: tuple[int, ...]  #: audited rows of each group
    label_rates: tuple[float | None, ...]  #: share of positive labels in each group
    decision_rate: float  #: P(Df = positive | stratum) as learned, the same in every group
    #: P(Df = positive | stratum) that fits the same P(D | X, S); None where nothing does, or not
    #: known
    possible: Ends | None
    small: bool  #: a group has under 30 rows here


@dataclass(frozen=True)
class GroupFacts:
    """One group."""

    group: str
    decision_rate: float  #: P(Df = positive | group) as learned: the mix of strata
    b0: float  #: P(D = positive | Df otherwise) as learned; a mean where strata have their own
    b1: float  #: P(D = positive | Df = positive) as learned
    b0_set: (
        Ends | None
    )  #: what the test within strata leaves of it; None where nothing, or untested
    b1_set: Ends | None


@dataclass(frozen=True)
class SubgroupFacts:
    """One group in one stratum that has a mechanism of its own."""

    stratum: str
    group: str
    b0: float  #: P(D = positive | Df otherwise) as learned
    b1: float  #: P(D = positive | Df = positive) as learned
    b0_possible: Ends | None  #: what fits the same P(D | X, S); None where nothing, or not known
    b1_possible: Ends | None


@dataclass(frozen=True)
class JointSet:
    """Mechanisms of the largest group that the labels leave possible, as polygons of (b0, b1)."""

    group: str
    within: tuple[Ends, ...]  #: within strata; none where nothing is possible
    plain: tuple[Ends, ...]  #: without strata
    area: float  #: of the first
    plain_area: float


@dataclass(frozen=True)
class OwnStrata:
    """The strata of the model."""

    columns: tuple[str, ...]  #: whose values make them, crossed
    mechanism: str  #: "shared" by all strata of a group, or one "within" each
    positive: str  #: the class that rates are of
    plain_rejected: bool | None  #: whether parity without strata is; None where not tested
    plain_p_words: str  #: its p-value for a sentence
    test: WithinTest | None  #: None where these rows do not allow one
    untested: str  #: why there is none
    names: tuple[str, ...]  #: of the groups
    strata: tuple[StratumFacts, ...]
    groups: tuple[GroupFacts, ...]
    subgroups: tuple[SubgroupFacts, ...]  #: where strata have mechanisms of their own
    labels: tuple[GapParts, ...]  #: gaps of the labels, per pair of groups; none where not known
    scores: tuple[GapParts, ...]  #: gaps of the model's scores
    n_rows: int  #: rows that the parts of gaps are of
    n_unknown: int  #: audited rows whose stratum is not known
    joint: JointSet | None  #: of a shared mechanism
    sentences: tuple[str, ...]  #: in words
    argued: str = ARGUED  #: what no number here can decide


@dataclass(frozen=True)
class Candidates:
    """Columns, taken as strata one by one."""

    columns: tuple[CandidateStrata, ...]
    silent: tuple[str, ...]  #: those that remove the rejection
    n_untried: int  #: columns that were not tried, because there are many
    level: float
    n_rows: int  #: rows of the test
    sentence: str
    warning: str = TRIED


@dataclass(frozen=True)
class StrataFacts:
    """Parity within strata."""

    own: OwnStrata | None  #: those of the model, if it has any
    #: which columns would remove the rejection of parity without strata; None where not rejected
    candidates: Candidates | None


def candidates(job: Job) -> Candidates | None:
    """Columns as strata, on the splits of the plain test; None where that rejects nothing."""
    tested = job.tested
    if tested is None or not tested.plain.rejected:
        return None
    if tested.fit is None:
        raise AuditError("the label has more than two classes: columns as strata need two")
    names = tested.rows.features.names
    shown = {name: tested.table[:, j] for j, name in enumerate(names[:MOST_COLUMNS])}
    found = compared(
        tested.fit,
        shown,
        job.settings.level,
        watch=lambda name: job.tell("strata.candidates", f": {name}"),
    )
    n_tested = sum(c.rejected is not None for c in found.columns)
    listed = f"these remove the rejection: {', '.join(map(repr, found.silent))}"
    return Candidates(
        columns=found.columns,
        silent=found.silent,
        n_untried=len(names) - len(shown),
        level=found.level,
        n_rows=len(tested.table),
        sentence=f"Of {counted(n_tested, 'column')} that could be tested as strata, one by one and "
        "with one mechanism for all strata of a group, "
        f"{listed if found.silent else 'none removes the rejection'}.",
    )


def gap_parts(job: Job) -> tuple[tuple[GapParts, ...], tuple[GapParts, ...]] | None:
    """Gaps of labels and of scores, cut into mix and within; None without strata."""
    if not job.strata:
        return None
    rows = job.drawn
    where = job.strata.codes(rows.x)
    found = []
    for values, known in (
        ((rows.d == rows.positive).astype(np.float64), rows.d >= 0),
        (rows.scores[:, rows.positive], rows.every),
    ):
        found.append(_parts(rows, values, known & (where >= 0), where, job.settings.level))
    return found[0], found[1]


def _parts(
    rows: AuditedRows, values: Floats, known: Bools, where: Positions, level: float
) -> tuple[GapParts, ...]:
    try:
        kept = rows.comparable(known)
        weighing = rows.weighing(kept)
        weighing.pop("counts")
        given = values[kept], rows.s[kept]
        found: ParityWithin = parity(*given, given=where[kept], level=level, **weighing)
    except FairpcError:
        return ()  # No labels are known, or no stratum has two groups.
    return tuple(
        GapParts(
            first=rows.groups[p.first],
            last=rows.groups[p.last],
            raw=p.raw,
            within=p.within,
            within_interval=p.within_interval,
            mix=p.mix,
            mix_interval=p.mix_interval,
            n_left_out=sum(n for _, n in p.left_out),
        )
        for p in found.pairs
    )


def strata_facts(job: Job) -> StrataFacts:
    """What the steps before found; an AuditError where there is nothing to say."""
    found = StrataFacts(_own(job) if job.strata else None, job.found["strata.candidates"])
    if found.own is None and found.candidates is None:
        why = "the test of the assumptions rejects nothing without them"
        if job.test is None:
            why = "the assumptions were not tested without them"
        elif job.test.rejected:
            why = job.left_out.get("strata.candidates", why)
        raise AuditError(f"the model has no strata, and {why}")
    return found


def _own(job: Job) -> OwnStrata:
    model, rows, strata = job.model, job.rows, job.strata
    where, names = strata.codes(rows.x), model.strata_
    identified, test = job.found["decidable.identified"], job.found["strata.test"]
    possible = {} if identified is None else {r.stratum: r.possible for r in identified.strata}
    each = []
    for a, name in enumerate(names):
        n, rates = _label_rates(rows, where == a)
        rate = float(model.stratum_rate_[a, rows.positive])
        each.append(StratumFacts(name, n, rates, rate, possible.get(name), min(n) < SMALL))
    sets = {}
    if isinstance(test, StrataTest):
        sets = {rows.groups[g.group]: (g.b0, g.b1) for g in test.groups}
    groups = []
    for s, name in enumerate(rows.groups):
        rates = model.group_decision_rate_[s]
        ends = _ends(model.bias_mechanism_[s], rates, rows.positive)
        own_rate = float(rates[rows.positive])
        groups.append(GroupFacts(name, own_rate, *ends, *sets.get(name, (None, None))))
    labels, scores = job.found["strata.gaps"] or ((), ())
    within = None if test is None else _within_test(job, test)
    plain = job.test
    return OwnStrata(
        columns=tuple(rows.features.names[j] for j in strata.columns),
        mechanism="within" if strata.within else "shared",
        positive=rows.classes[rows.positive],
        plain_rejected=None if plain is None else plain.rejected,
        plain_p_words="" if plain is None else p_words(plain.p_value),
        test=within,
        untested=job.left_out.get("strata.test", ""),
        names=rows.groups,
        strata=tuple(each),
        groups=tuple(groups),
        subgroups=_subgroups(job) if strata.within else (),
        labels=labels,
        scores=scores,
        n_rows=job.drawn.n_rows,
        n_unknown=rows.number(where < 0),
        joint=_joint(test, rows) if isinstance(test, StrataTest) else None,
        sentences=tuple(_sentences(job, labels)),
    )


def _ends(mechanism: Floats, rates: Floats, positive: int) -> Ends:
    """b0 and b1 of P(D | Df), [f, d]: of more than two classes b0 is over the others' rates."""
    own = mechanism[:, positive]
    others = np.delete(own, positive), np.delete(rates, positive)
    return float(np.average(others[0], weights=others[1])), float(own[positive])


def _subgroups(job: Job) -> tuple[SubgroupFacts, ...]:
    """The mechanism of each stratum beside what is possible there."""
    circuits, rows = cast(CircuitClassifier, job.model), job.rows
    identified = job.found["decidable.identified"]
    possible = {}
    for row in () if identified is None else identified.groups:
        ends = [(row[f"{b}_lower"], row[f"{b}_upper"]) for b in ("b0", "b1")]
        possible[row["stratum"], row["group"]] = [e if np.isfinite(e).all() else None for e in ends]
    found = []
    for a, stratum in enumerate(circuits.strata_):
        for s, group in enumerate(rows.groups):
            rates, own = circuits.stratum_rate_[a], circuits.stratum_mechanism_[s, a]
            sets = possible.get((stratum, group), (None, None))
            found.append(SubgroupFacts(stratum, group, *_ends(own, rates, rows.positive), *sets))
    return tuple(found)


def _label_rates(
    rows: AuditedRows, inside: Bools
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """Rows of each group, and the share of positive labels among those with a label."""
    n, rates = [], []
    for g in range(len(rows.groups)):
        here = inside & (rows.s == g)
        weights = rows.each_weight[here & (rows.d >= 0)]
        positive = rows.d[here & (rows.d >= 0)] == rows.positive
        n.append(rows.number(here))
        rates.append(float(np.average(positive, weights=weights)) if len(weights) else None)
    return tuple(n), tuple(rates)


def _joint(test: StrataTest, rows: AuditedRows) -> JointSet:
    drawn = test.outlines()
    return JointSet(
        group=rows.groups[test.groups[0].group],
        within=drawn["within"],
        plain=drawn["plain"],
        area=test.area,
        plain_area=test.plain_area,
    )


def _within_test(job: Job, test: StrataTest | TestsByStratum) -> WithinTest:
    names = cast(CircuitClassifier, job.model).strata_
    contradicted: tuple[str, ...] = ()
    if isinstance(test, StrataTest):
        untested = tuple(names[s.stratum] for s in test.strata if not s.informs)
        n_rows = sum(sum(s.n) for s in test.strata)
        outcome = "no mechanism that is the same in all strata fits the labels of every group"
    else:
        contradicted = tuple(names[s.stratum] for s in test.strata if s.test.rejected)
        untested = tuple(names[s.stratum] for s in test.left_out)
        n_rows = sum(s.n for s in test.strata)
        outcome = (
            f"in {'; '.join(contradicted)} no rate of fair decisions fits every group, even with "
            "a mechanism of its own"
        )
    shown = test.rejected, test.p_value, p_words(test.p_value), test.level, n_rows
    return WithinTest(*shown, contradicted, untested, outcome if test.rejected else "")


def strata_words(own: OwnStrata) -> str:
    """What the strata are, and how labels are bent in them."""
    columns = " × ".join(map(repr, own.columns))
    bent = "in each of them in its own way" if own.mechanism == "within" else "alike in all of them"
    return f"strata of {columns}, and labels that are bent {bent}"


def _sentences(job: Job, labels: tuple[GapParts, ...]) -> list[str]:
    """What the plain test says, then what the mix of strata explains."""
    plain = job.test
    said = "Without strata the assumptions were not tested."
    if plain is not None:
        outcome = "contradict" if plain.rejected else "do not contradict"
        said = (
            f"Without strata, these rows {outcome} a fair decision that is independent of the "
            f"group in the whole table (p {p_words(plain.p_value)})."
        )
    return [said, *([label_parts(labels, job.rows.classes[job.rows.positive])] if labels else [])]


def label_parts(parts: tuple[GapParts, ...], positive: str) -> str:
    """The largest gap of the labels, cut in two, in words."""
    one = max(parts, key=lambda p: abs(p.raw))
    few, more = (one.last, one.first) if one.raw < 0 else (one.first, one.last)
    way = 1 if one.raw > 0 else -1
    return (
        f"Labels {positive!r} are {gap(abs(one.raw))} rarer in group {few!r} than in group "
        f"{more!r}: {_points(way * one.mix, one.mix_interval, way)} because the groups are spread "
        f"differently over the strata, and {_points(way * one.within, one.within_interval, way)} "
        "within strata."
    )


def _points(value: float, ends: Ends, way: int) -> str:
    low, high = sorted(way * end for end in ends)
    return f"{share(value)[:-1]} ({share(low)[:-1]} to {share(high)[:-1]}) points"
