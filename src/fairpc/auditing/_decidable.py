"""What the data can and cannot decide: test, confidence set, identified set, random starts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np

from fairpc.auditing._assumptions import AssumptionFacts as AssumptionFacts
from fairpc.auditing._assumptions import ConfidenceSet as ConfidenceSet
from fairpc.auditing._assumptions import LearnedRate as LearnedRate
from fairpc.auditing._assumptions import (
    assumption_facts,
    learned_rate,
)
from fairpc.auditing._job import Job
from fairpc.auditing._numbers import gap, share
from fairpc.auditing._rows import AuditedRows
from fairpc.core import AuditError, Bools, Floats
from fairpc.evidence import (
    IdentifiedByStratum,
    IdentifiedSet,
    IdentifiedWithin,
    TestsByStratum,
    identified_set,
)
from fairpc.models import CircuitClassifier, stability
from fairpc.models import Stability as Stability

N_BANDS: Final = 10

STARTS: Final = 10
START_UPDATES: Final = 200
START_WORK: Final = 5e11
"""``refit_cost`` × updates that random starts may take unasked: about five seconds of one core."""
_M_STEP: Final = 1000
_STARTS_TAKE_LONG: Final = (
    "fitting this model again to these rows from random starts takes long: "
    f"audit(…, n_starts={STARTS}) does it anyway, and so does fairpc.stability"
)


@dataclass(frozen=True)
class ScoreBand:
    """Rows of one group with scores in one tenth: between what bounds their scores may lie."""

    group: str
    low: float  #: start of the tenth, of the model's own score
    high: float  #: its end
    n: int  #: rows
    score: float  #: mean of the model's score
    lower: float  #: mean lower bound over everything that the data leave open
    upper: float  #: mean upper bound


@dataclass(frozen=True)
class StratumRange:
    """P(Df = positive | stratum) that is possible; None where nothing is."""

    stratum: str
    possible: tuple[float, float] | None


@dataclass(frozen=True)
class IdentifiedFacts:
    """Mechanisms and scores that fit the same P(D = 1 | x, s)."""

    positive: str  #: the class
    #: of the set, with strata that share a mechanism; None where sampling error is not in it
    level: float | None
    #: least possible P(Df = positive); ``lower > upper`` is empty; NaN with strata, of which each
    #: has its own
    lower: float
    upper: float  #: largest possible P(Df = positive)
    empty: bool  #: whether nothing is possible; with strata, in some of them
    #: per group its bounds of P(Df), and ranges of b0 = P(D=1 | Df=0), b1 = P(D=1 | Df=1); with
    #: strata that have their own mechanisms per stratum and group
    groups: tuple[Mapping[str, Any], ...]
    strata: tuple[StratumRange, ...]  #: of a model with strata
    #: bounds of a person's score, by group and tenth of the model's score
    bands: tuple[ScoreBand, ...]
    mean_width: float | None  #: mean over rows of upper − lower bound; None where the set is empty
    always: float | None  #: share of rows whose score is above the threshold, whatever is true
    never: float | None  #: share of rows whose score is below it, whatever is true
    open: float | None  #: share of rows where it depends
    sentence: str  #: in words


@dataclass(frozen=True)
class Decidable:
    """What the data can and cannot decide."""

    test: AssumptionFacts | None  #: without strata; None where these rows do not allow one
    untested: str  #: why there is none; empty where there is one
    #: whether the rows contradict what the model assumes, within its strata if it has any; None
    #: where that was not tested
    rejected: bool | None
    #: P(Df) as learned beside what the test leaves; None without a test, after a rejection, and for
    #: models without Df or with strata, which have one rate in each
    learned: LearnedRate | None
    #: what the data leave open at any number of rows; None for models without Df
    identified: IdentifiedFacts | None
    #: spread over random starts and half tables; None where it was left out
    stability: Stability | None
    stability_rows: int  #: rows that it is of: a sample of a large table


def identified_facts(job: Job) -> IdentifiedFacts:
    """The identified set from the model's P(D = 1 | x, s), between held-out ends if tested."""
    model, rows = job.model, job.rows
    if not model._latent:
        raise AuditError(f"{type(model).__name__} has no hidden decision to be identified")
    if len(rows.classes) > 2:
        raise AuditError(
            "the label has more than two classes: the closed form of the set needs two; see the "
            "bounds of the test"
        )
    if job.strata:
        return _identified_within(job)
    kept = rows.comparable(rows.s >= 0)
    scores, groups, counts = rows.observed[kept, rows.positive], rows.s[kept], rows.each_count[kept]
    ends = None if job.test is None or job.test.positive is None else job.test.ends()
    if ends is not None and set(groups.tolist()) - set(ends):
        ends = None  # A group was too small to be tested.
    found = identified_set(scores, groups, ends=ends, counts=counts)
    ranges = tuple(replace(g, group=rows.groups[g.group]) for g in found.groups)
    mechanism = tuple(replace(m, group=rows.groups[m.group]) for m in found.mechanism)
    record = replace(found, groups=ranges, mechanism=mechanism)
    room = _Room.of(job, found.score_lower, found.score_upper, kept)
    return IdentifiedFacts(
        positive=rows.classes[rows.positive],
        level=None,
        lower=found.lower,
        upper=found.upper,
        empty=found.empty,
        groups=record.table(),
        strata=(),
        **vars(room),
        sentence=_sentence(record, rows.classes[rows.positive], room),
    )


@dataclass(frozen=True)
class _Room:
    """How far scores and decisions are open; None where nothing is possible."""

    bands: tuple[ScoreBand, ...]
    mean_width: float | None = None
    always: float | None = None
    never: float | None = None
    open: float | None = None

    @classmethod
    def of(cls, job: Job, lower: Floats, upper: Floats, kept: Bools) -> _Room:
        """From the bounds of the scores of the entries that are kept; NaN where nothing is."""
        rows, known = job.rows, np.isfinite(lower)
        if not known.any():
            return cls(())
        kept = kept.copy()
        kept[kept] = known
        lower, upper, counts = lower[known], upper[known], rows.each_count[kept]
        threshold = job.model.threshold_.unknown
        always, never = (
            float(np.average(part, weights=counts))
            for part in (lower > threshold, upper <= threshold)
        )
        width = float(np.average(upper - lower, weights=counts))
        return cls(_bands(rows, lower, upper, kept), width, always, never, 1 - always - never)


def _identified_within(job: Job) -> IdentifiedFacts:
    """The set under parity within strata: of all together, or of each by itself."""
    rows, strata, test = job.rows, job.strata, job.found.get("strata.test")
    names = cast(CircuitClassifier, job.model).strata_
    where = strata.codes(rows.x)
    known = (rows.s >= 0) & (where >= 0)
    if isinstance(test, TestsByStratum):  # Ends of the others are not known.
        known &= np.isin(where, [s.stratum for s in test.strata])
    kept = rows.comparable(known)
    scores, groups, counts = rows.observed[kept, rows.positive], rows.s[kept], rows.each_count[kept]
    given: dict[str, Any] = {"given": where[kept], "counts": counts}
    level = None
    if isinstance(test, TestsByStratum):
        given["ends"] = {s.stratum: s.test.ends() for s in test.strata}
    elif test is not None and {g.group for g in test.groups} == set(groups.tolist()):
        # Lines are estimated: the confidence set has their error, and that of the ends.
        given["test"], level = test, test.level
    found: IdentifiedWithin | IdentifiedByStratum
    table: list[Mapping[str, Any]]
    if strata.within:
        found = by_stratum = identified_set(scores, groups, mechanism="within", **given)
        sets = [(names[a], own) for a, own in zip(found.strata, by_stratum.sets, strict=True)]
        each = [StratumRange(a, None if own.empty else (own.lower, own.upper)) for a, own in sets]
        table = [{"stratum": a, **row} for a, own in sets for row in own.table()]
    else:
        found = together = identified_set(scores, groups, **given)
        each = [StratumRange(names[s.stratum], s.pi) for s in together.strata]
        table = list(together.table())
    table = [{**row, "group": rows.groups[row["group"]]} for row in table]
    room = _Room.of(job, found.score_lower, found.score_upper, kept)
    return IdentifiedFacts(
        positive=rows.classes[rows.positive],
        level=level,
        lower=math.nan,
        upper=math.nan,
        empty=found.empty,
        groups=tuple(table),
        strata=tuple(each),
        **vars(room),
        sentence=_sentence_within(each, rows.classes[rows.positive], room, level),
    )


def _sentence_within(
    each: list[StratumRange], positive: str, room: _Room, level: float | None
) -> str:
    known = "with P(D | X, S) taken as estimated"
    if level is not None:
        known = f"with {share(level, 0)} confidence"
    if room.mean_width is None or room.open is None:
        return f"No share of hidden decisions {positive!r} within strata fits every group, {known}."
    wide = [r.possible[1] - r.possible[0] for r in each if r.possible is not None]
    return (
        f"If the assumptions hold, {known}, the share of hidden decisions {positive!r} in a "
        f"stratum may vary over up to {gap(max(wide))}: a person's score then ranges over "
        f"{gap(room.mean_width)} on average, and for {share(room.open)} of the rows the decision "
        "depends on it."
    )


def _sentence(found: IdentifiedSet, positive: str, room: _Room) -> str:
    if room.mean_width is None or room.open is None:
        low = max(found.groups, key=lambda g: g.lower)
        high = min(found.groups, key=lambda g: g.upper)
        return (
            "If the chances of every label were exactly as estimated, no share of fair decisions "
            f"{positive!r} would fit every group: group {low.group!r} needs at least "
            f"{share(low.lower)}, group {high.group!r} at most {share(high.upper)}."
        )
    return (
        "More rows would not settle it: even if the chances of every label were exactly as "
        f"estimated, anything from {share(found.lower)} to {share(found.upper)} of fair decisions "
        f"could be {positive!r}. A person's score could then lie anywhere in a range of "
        f"{gap(room.mean_width)}, on average, and for {share(room.open)} of the rows the decision "
        "depends on it. Who ranks above whom within a group is fixed; how high they score is not."
    )


def _bands(rows: AuditedRows, lower: Floats, upper: Floats, kept: Bools) -> tuple[ScoreBand, ...]:
    own, groups, counts = rows.scores[kept, rows.positive], rows.s[kept], rows.each_count[kept]
    place = np.minimum((own * N_BANDS).astype(np.intp), N_BANDS - 1)
    result = []
    for g in np.unique(groups).tolist():
        for band in np.unique(place[groups == g]).tolist():
            here = (groups == g) & (place == band)
            name, n = rows.groups[g], int(counts[here].sum())
            means = (
                float(np.average(values[here], weights=counts[here]))
                for values in (own, lower, upper)
            )
            result.append(ScoreBand(name, band / N_BANDS, (band + 1) / N_BANDS, n, *means))
    return tuple(result)


def spread_over_starts(job: Job) -> Stability:
    """Where EM ends from random starts, the structure kept, a fifth of the rows held out.

    Up to 10 starts unless told otherwise, as many as are quick.
    """
    model, rows, n_starts = job.model, job.sample, job.settings.n_starts
    if not isinstance(model, CircuitClassifier):
        raise AuditError(
            f"{type(model).__name__} is not learned by EM over X, so it has no random starts: "
            "bounds of its scores come from rows that its classifiers have not seen"
        )
    if not model._latent:
        raise AuditError(f"{type(model).__name__} has no hidden decision, so no random starts")
    if n_starts == 0:
        raise AuditError("random starts were not asked for")
    if not (rows.d >= 0).any():
        raise AuditError("no label is known: the model cannot be fitted again to these rows")
    if n_starts is None:
        n_starts = min(STARTS, int(START_WORK / (refit_cost(model, rows) * START_UPDATES)) - 1)
        if n_starts < 2:
            raise AuditError(_STARTS_TAKE_LONG)
    return stability(
        model,
        rows.table,
        rows.labels,
        sensitive_features=rows.sensitive,
        sample_weight=rows.weights,
        fair_labels=rows.fair_labels,
        clusters=rows.persons,
        n_starts=n_starts,
        n_folds=0,
        n_steps=START_UPDATES,
        random_state=job.settings.random_state,
        callback=job.within("decidable.stability"),
    )


def decidable_facts(job: Job) -> Decidable:
    """What the steps before found."""
    test = None if job.test is None else assumption_facts(job.test, job.rows)
    return Decidable(
        test=test,
        untested=job.left_out.get("decidable.test", ""),
        rejected=None if job.own_test is None else job.own_test.rejected,
        learned=None if test is None else learned_rate(job, test),
        identified=job.found["decidable.identified"],
        stability=job.found["decidable.stability"],
        stability_rows=job.sample.n_rows,
    )


def refit_cost(model: CircuitClassifier, rows: AuditedRows) -> float:
    """What one update of EM costs: distinct rows × edges; the M-step is worth a thousand rows."""
    return float(rows.n_distinct + _M_STEP) * model.distribution_.n_edges
