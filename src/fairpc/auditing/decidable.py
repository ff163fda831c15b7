"""What the data can and cannot decide: test, confidence set, identified set, random starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairpc.auditing.job import Job
from fairpc.auditing.numbers import gap, p_words, share
from fairpc.auditing.rows import AuditedRows
from fairpc.comparison.table import typed_columns
from fairpc.data.frame import read_frame
from fairpc.errors import AuditError
from fairpc.errors.arrays import Bools
from fairpc.estimators.base import CircuitClassifier
from fairpc.evidence import AssumptionTest, BentSet, IdentifiedSet, identified_set, test_assumptions
from fairpc.evidence.assumptions import MIN_ROWS
from fairpc.evidence.intervals import some_of
from fairpc.refits import Stability as Stability
from fairpc.refits import stability

MOST_SEEDS: Final = 11
FEWEST_SEEDS: Final = 3
_SEED_ROWS: Final = 60_000

N_BANDS: Final = 10

STARTS: Final = 10
START_UPDATES: Final = 200
START_WORK: Final = 5e11
"""``refit_cost`` × updates that random starts may take unasked: about five seconds of one core."""
_M_STEP: Final = 1000


@dataclass(frozen=True)
class Bar:
    """P(Df = label) as far as one group leaves it open."""

    group: str
    n: int
    lower: float
    upper: float


@dataclass(frozen=True)
class ConfidenceSet:
    """P(Df = label): a bar per group, and their overlap."""

    label: str  #: the class
    lower: float  #: lower end of the overlap; ``lower > upper`` is empty
    upper: float  #: upper end
    empty: bool  #: whether it is, for this class
    groups: tuple[Bar, ...]  #: a bar each


@dataclass(frozen=True)
class AssumptionFacts:
    """The test of the assumptions on the audited rows."""

    rejected: bool  #: whether no P(Df) is left at the level
    p_value: float  #: smallest 1 − level at which none is; not said to be under 1e-12
    p_words: str  #: the same for a sentence: "= 0.032", "< 0.001"
    level: float  #: of the confidence set
    method: str  #: how it was computed, as are the next two
    n_seeds: int
    classifiers: tuple[tuple[str, int], ...]
    n_rows: int  #: rows that were used: a sample of a large table, with label and group known
    n_known: int  #: all audited rows with label and group known
    #: of the positive class; of every class where there are more than two
    sets: tuple[ConfidenceSet, ...]
    #: the sets where features may change the odds of a label given Df and S, by at most gamma
    bending: tuple[BentSet, ...]
    tolerance: str  #: how much of that undoes a rejection, in words; empty where none was
    summary: str  #: in words
    what_to_do: tuple[str, ...]  #: after a rejection; empty otherwise


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
class IdentifiedFacts:
    """Mechanisms and scores that fit the same P(D = 1 | x, s); sampling error is not in it."""

    positive: str  #: the class
    lower: float  #: least possible P(Df = positive); ``lower > upper`` is empty
    upper: float  #: largest possible P(Df = positive)
    empty: bool  #: whether it is
    #: per group its bounds of P(Df), and ranges of b0 = P(D=1 | Df=0), b1 = P(D=1 | Df=1)
    groups: tuple[Mapping[str, Any], ...]
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

    test: AssumptionFacts | None  #: of the assumptions; None where these rows do not allow one
    untested: str  #: why there is none; empty where there is one
    #: what the data leave open at any number of rows; None for models without Df
    identified: IdentifiedFacts | None
    #: spread over random starts and half tables; None where it was left out
    stability: Stability | None
    stability_rows: int  #: rows that it is of: a sample of a large table

    @property
    def rejected(self) -> bool | None:
        return None if self.test is None else self.test.rejected


def assumption_test(job: Job) -> AssumptionTest:
    """Test on rows with label and group, in groups that have every class and 10 rows.

    11 ways of splitting unless told otherwise, down to 3 where many rows differ, on which one way
    hardly differs from another.
    """
    settings, n_seeds = job.settings, job.settings.n_seeds
    rows = job.drawn.sample(settings.max_test_rows, settings.random_state)
    kept = rows.comparable(rows.d >= 0, MIN_ROWS, every_class=True)
    # The features as they came: bins were chosen with labels, which a held-out fold may not see.
    frame, features = read_frame(rows.table), rows.features
    if frame.from_array:  # Columns of an array are known by position.
        frame = replace(frame, names=features.names_in)
    columns = typed_columns(frame, features.missing_values).select(features.names)
    binary = len(rows.classes) == 2
    if n_seeds is None:
        affordable = _SEED_ROWS // max(rows.n_distinct, 1)
        # The median over an odd number is one of them.
        n_seeds = min(MOST_SEEDS, max(FEWEST_SEEDS, affordable - 1 + affordable % 2))
    return test_assumptions(
        columns.to_numpy()[kept],
        rows.d[kept].astype(np.intp),
        rows.s[kept].astype(np.intp),
        positive=rows.positive if binary else None,
        level=settings.level,
        n_seeds=n_seeds,
        classifier=None if settings.classifier == "best" else settings.classifier,
        clusters=some_of(rows.persons, kept),
        sample_weight=some_of(rows.weights, kept),
    )


def named_test(test: AssumptionTest, rows: AuditedRows) -> AssumptionTest:
    """A test on codes of groups and classes, told by name."""
    groups = []
    for found in test.groups:
        bounds = tuple(replace(c, label=rows.classes[c.label]) for c in found.classes)
        groups.append(replace(found, group=rows.groups[found.group], classes=bounds))
    return replace(
        test,
        groups=tuple(groups),
        classes=tuple(rows.classes[k] for k in test.classes),
        positive=None if test.positive is None else rows.classes[test.positive],
    )


def _assumption_facts(test: AssumptionTest, rows: AuditedRows) -> AssumptionFacts:
    """The test's record by name, with the bars of its picture."""
    record = named_test(test, rows)
    return AssumptionFacts(
        rejected=record.rejected,
        p_value=record.p_value,
        p_words=p_words(record.p_value),
        level=record.level,
        method=record.method,
        n_seeds=record.n_seeds,
        classifiers=record.classifiers,
        n_rows=sum(g.n for g in record.groups),
        n_known=rows.number((rows.d >= 0) & (rows.s >= 0)),
        sets=_sets(record),
        bending=record.bending,
        tolerance=record.tolerance(),
        summary=record.summary(),
        what_to_do=record.what_to_do,
    )


def _sets(test: AssumptionTest) -> tuple[ConfidenceSet, ...]:
    shown = test.classes if test.positive is None else (test.positive,)
    result = []
    for k, label in enumerate(shown):
        lower, upper = _end(test.lower, k), _end(test.upper, k)
        bars = tuple(Bar(g.group, g.n, _end(g.lower, k), _end(g.upper, k)) for g in test.groups)
        result.append(ConfidenceSet(label, lower, upper, lower > upper, bars))
    return tuple(result)


def _end(ends: float | tuple[float, ...], k: int) -> float:
    return ends[k] if isinstance(ends, tuple) else ends


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
    kept = rows.comparable(rows.s >= 0)
    scores, groups, counts = rows.observed[kept, rows.positive], rows.s[kept], rows.each_count[kept]
    ends = None if job.test is None or job.test.positive is None else job.test.ends()
    if ends is not None and set(groups.tolist()) - set(ends):
        ends = None  # A group was too small to be tested.
    found = identified_set(scores, groups, ends=ends, counts=counts)
    ranges = tuple(replace(g, group=rows.groups[g.group]) for g in found.groups)
    mechanism = tuple(replace(m, group=rows.groups[m.group]) for m in found.mechanism)
    record = replace(found, groups=ranges, mechanism=mechanism)
    width = always = never = undecided = None
    if not found.empty:
        threshold, width = model.threshold_.unknown, found.score_spread
        always = float(np.average(found.score_lower > threshold, weights=found.counts))
        never = float(np.average(found.score_upper <= threshold, weights=found.counts))
        undecided = 1 - always - never
    return IdentifiedFacts(
        positive=rows.classes[rows.positive],
        lower=found.lower,
        upper=found.upper,
        empty=found.empty,
        groups=record.table(),
        bands=() if found.empty else _bands(rows, found, kept),
        mean_width=width,
        always=always,
        never=never,
        open=undecided,
        sentence=_sentence(record, rows.classes[rows.positive], width, undecided),
    )


def _sentence(
    found: IdentifiedSet, positive: str, width: float | None, undecided: float | None
) -> str:
    if width is None or undecided is None:
        low = max(found.groups, key=lambda g: g.lower)
        high = min(found.groups, key=lambda g: g.upper)
        return (
            f"No share of hidden decisions {positive!r} fits every group: {low.group!r} needs at "
            f"least {share(low.lower)}, {high.group!r} at most {share(high.upper)}."
        )
    return (
        "Even if P(D | X, S) were exactly as estimated, the share of hidden decisions "
        f"{positive!r} could be anything from {share(found.lower)} to {share(found.upper)}: a "
        f"person's score then ranges over {gap(width)} on average, and for {share(undecided)} of "
        "the rows the decision depends on it. The order of people within a group is fixed, the "
        "level and the spread of their scores are not."
    )


def _bands(rows: AuditedRows, found: IdentifiedSet, kept: Bools) -> tuple[ScoreBand, ...]:
    own, groups, counts = rows.scores[kept, rows.positive], rows.s[kept], rows.each_count[kept]
    place = np.minimum((own * N_BANDS).astype(np.intp), N_BANDS - 1)
    result = []
    for g in np.unique(groups).tolist():
        for band in np.unique(place[groups == g]).tolist():
            here = (groups == g) & (place == band)
            name, n = rows.groups[g], int(counts[here].sum())
            means = (
                float(np.average(values[here], weights=counts[here]))
                for values in (own, found.score_lower, found.score_upper)
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
        raise AuditError("random starts were not asked for (n_starts=0)")
    if not (rows.d >= 0).any():
        raise AuditError("no label is known: the model cannot be fitted again to these rows")
    if n_starts is None:
        n_starts = min(STARTS, int(START_WORK / (refit_cost(model, rows) * START_UPDATES)) - 1)
        if n_starts < 2:
            raise AuditError(
                "fitting this model again to these rows from random starts takes long: ask for it "
                f"with n_starts={STARTS}, or call fairpc.stability"
            )
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
    return Decidable(
        test=None if job.test is None else _assumption_facts(job.test, job.rows),
        untested=job.left_out.get("decidable.test", ""),
        identified=job.found["decidable.identified"],
        stability=job.found["decidable.stability"],
        stability_rows=job.sample.n_rows,
    )


def refit_cost(model: CircuitClassifier, rows: AuditedRows) -> float:
    """What one update of EM costs: distinct rows × edges; the M-step is worth a thousand rows."""
    return float(rows.n_distinct + _M_STEP) * model.circuit_.graph.n_edges
