"""The test of the assumptions on the audited rows: plain, within strata, by candidate strata.

Classifiers learn once. Strata change only which rates are compared, so the plain test, that within
strata that share a mechanism, and columns tried as strata are of the same splits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np

from fairpc.auditing import _blocks as blocks
from fairpc.auditing import _formats as text
from fairpc.auditing._drawing import Mark, Row, ranges
from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows, taken
from fairpc.comparison import typed_columns
from fairpc.core import Array, AuditError, Bools, Positions
from fairpc.data import read_frame
from fairpc.evidence import (
    MIN_ROWS,
    AssumptionTest,
    BentSet,
    CandidateStrata,
    StrataTest,
    TestsByStratum,
    TopSets,
    Watch,
    compared,
    some_of,
    test_assumptions,
)
from fairpc.models import CircuitClassifier, FittedDecisions, LatentDecision

MOST_SEEDS: Final = 11
FEWEST_SEEDS: Final = 3
_SEED_ROWS: Final = 60_000
_GROUP_ROWS: Final = 250
_FEW_GROUPS: Final = 10
"""Rows that take as long as a group does beyond its own, and groups up to which that is little."""
_RULED_OUT: Final = 0.01
"""Level at which rows are said to rule a learned rate out; above it, only to speak against it."""
_UNSEEN: Final = (
    "That they are not rejected does not show that they are true: some violations cannot be seen "
    "however many rows there are."
)
_FAILS: Final = (
    "No rate of fair decisions fits every group. At least one of these fails: fair decisions are "
    "independent of the group; the label depends on the features through the fair decision only; "
    "in every group a label is most likely under the fair decision of the same name."
)
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
_LONG: Final = 32  # rows of a table that is not folded
_REMOVES: Final = {True: "no", False: "yes", None: "not tested"}
_SEEN: Final = 5e-4  # a smaller difference of two shares does not show in their digits


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
class LearnedRate:
    """P(Df = label) as the model learned it, beside what the test leaves possible."""

    label: str  #: the class; of several the one that is farthest outside
    learned: float
    lower: float  #: least possible P(Df = label), with the confidence of the test
    upper: float  #: largest
    level: float  #: of the test
    outside: bool  #: whether what was learned is not between the two
    sentence: str  #: in words
    #: smallest 1 − level at which it is outside; None where it is not, or the label has more than
    #: two classes
    p_value: float | None = None


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


@dataclass(frozen=True, eq=False)
class Tested:
    """The plain test, and what it was made of."""

    rows: AuditedRows  #: a sample of a large table
    kept: Bools  #: those of them that were tested: label, group and stratum are known
    given: tuple[Array, Positions, Positions]  #: features of these as they came, label and group
    asked: dict[str, Any]  #: what the test was told besides the rows
    unstratified: AssumptionTest
    fit: TopSets | None  #: the splits; None for more than two classes


def assumption_test(job: Job) -> Tested:
    """Test on rows with label and group, in groups that have every class and 10 rows.

    11 ways of splitting unless told otherwise, down to 3 where many rows differ, on which one way
    hardly differs from another, or where groups are many, and for decisions of anybody, which need
    the ends of the labels and no test of a model.
    """
    settings, n_seeds = job.settings, job.settings.n_seeds
    rows = job.drawn.sample(settings.max_test_rows, settings.random_state)
    known = (rows.d >= 0) & (job.strata.codes(rows.x) >= 0)
    kept = rows.comparable(known, MIN_ROWS, every_class=True)
    # The features as they came: bins were chosen with labels, which a held-out fold may not see.
    frame, features = read_frame(rows.table), rows.features
    if frame.from_array:  # Columns of an array are known by position.
        frame = replace(frame, names=features.names_in)
    decimal = None if job.decisions else job.model.decimal
    columns = typed_columns(frame, features.missing_values, decimal)
    table = columns[list(features.names)].to_numpy()[kept]
    if n_seeds is None:
        many = _GROUP_ROWS * max(len(rows.groups_in(kept)) - _FEW_GROUPS, 0)
        affordable = _SEED_ROWS // max(rows.n_distinct + many, 1)
        # The median over an odd number is one of them.
        most = FEWEST_SEEDS if job.decisions else MOST_SEEDS
        n_seeds = min(most, max(FEWEST_SEEDS, affordable - 1 + affordable % 2))
    asked: dict[str, Any] = {
        "positive": rows.positive if len(rows.classes) == 2 else None,
        "classifier": None if settings.classifier == "best" else settings.classifier,
        # Audits with different seeds have no split in common.
        "seeds": [(settings.random_state * n_seeds + k) % 2**32 for k in range(n_seeds)],
        "clusters": some_of(rows.persons, kept),
        "sample_weight": some_of(rows.weights, kept),
    }
    watch = _splits_of(job, "decidable.test")
    given = table, rows.d[kept].astype(np.intp), rows.s[kept].astype(np.intp)
    if len(rows.classes) > 2:
        plain = test_assumptions(*given, level=settings.level, progress=watch, **asked)
        return Tested(rows, kept, given, asked, plain, None)
    fit = TopSets.of(*given, progress=watch, **asked)
    return Tested(rows, kept, given, asked, fit.test(settings.level), fit)


def test_within_strata(job: Job) -> StrataTest | TestsByStratum | None:
    """Parity within the strata of the model, on the rows of the plain test; None without strata."""
    if not job.strata:
        return None
    tested = job.tested
    if tested is None:
        raise AuditError(job.left_out["decidable.test"])
    where, level = job.strata.codes(tested.rows.x)[tested.kept], job.settings.level
    if job.strata.within:
        asked = tested.asked | {"given": where, "mechanism": "within"}
        watch = _splits_of(job, "strata.test")
        each: TestsByStratum = test_assumptions(*tested.given, level=level, progress=watch, **asked)
        return each
    if tested.fit is None:
        raise AuditError(
            "the label has more than two classes: the test within strata that share a mechanism "
            "needs two"
        )
    codes, places = np.unique(where, return_inverse=True)
    return tested.fit.within(tuple(codes.tolist()), places.astype(np.intp), level)


test_within_strata.__test__ = False  # type: ignore[attr-defined]


def candidates(job: Job) -> Candidates | None:
    """Columns as strata, on the splits of the plain test; None where that rejects nothing."""
    tested = job.tested
    if tested is None or not tested.unstratified.rejected:
        return None
    if tested.fit is None:
        raise AuditError("the label has more than two classes: columns as strata need two")
    table, names = tested.given[0], tested.rows.features.names
    tried = {name: table[:, j] for j, name in enumerate(names[:MOST_COLUMNS])}
    comparison = compared(
        tested.fit,
        tried,
        job.settings.level,
        watch=lambda name: job.report_step("strata.candidates", f": {name}"),
    )
    n_tested = sum(c.rejected is not None for c in comparison.columns)
    listed = f"these remove the rejection: {', '.join(map(repr, comparison.silent))}"
    return taken(
        Candidates,
        comparison,
        n_untried=len(names) - len(tried),
        n_rows=len(table),
        sentence=f"Of {text.counted(n_tested, 'column')} that could be tested as strata, one by "
        "one and with one mechanism for all strata of a group, "
        f"{listed if comparison.silent else 'none removes the rejection'}.",
    )


def _splits_of(job: Job, step: str) -> Watch:
    return lambda done, total: job.report_step(step, f": split {done + 1} of {total}")


def within_test(job: Job, test: StrataTest | TestsByStratum) -> WithinTest:
    """The record of the test by name."""
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
    facts = test.rejected, test.p_value, text.p_words(test.p_value), test.level, n_rows
    return WithinTest(*facts, contradicted, untested, outcome if test.rejected else "")


def headline(
    test: AssumptionFacts | WithinTest | None, untested: str, outcome: str, assumed: str = ""
) -> str:
    """Whether these rows contradict what a model assumes, in a sentence of the verdict."""
    behind = f"the assumptions behind a hidden fair decision{assumed}"
    if test is None:
        return f"T{behind[1:]} were not tested on these rows: {untested.rstrip('.')}."
    if test.rejected:
        return (
            f"These rows contradict {behind} (p {test.p_words}): {outcome}, so a mechanism learned "
            "under them must not be read as what happened."
        )
    return (
        f"These rows do not contradict {behind} (p {test.p_words}); that does not show that they "
        "hold."
    )


def assumption_facts(test: AssumptionTest, rows: AuditedRows) -> AssumptionFacts:
    """The test's record by name, with the bars of its picture."""
    record = rows.named(test)
    return taken(
        AssumptionFacts,
        record,
        p_words=text.p_words(record.p_value),
        n_rows=sum(g.n for g in record.groups),
        n_known=rows.number((rows.d >= 0) & (rows.s >= 0)),
        sets=tuple(_sets(record)),
        tolerance=record.tolerance(),
        summary=record.summary(),
    )


def _sets(test: AssumptionTest) -> Iterator[ConfidenceSet]:
    def bound(bounds: float | tuple[float, ...], k: int) -> float:
        return bounds[k] if isinstance(bounds, tuple) else bounds

    for k, label in enumerate(test.classes if test.positive is None else (test.positive,)):
        lower, upper = bound(test.lower, k), bound(test.upper, k)
        bars = tuple(Bar(g.group, g.n, bound(g.lower, k), bound(g.upper, k)) for g in test.groups)
        yield ConfidenceSet(label, lower, upper, lower > upper, bars)


def learned_rate(job: Job, test: AssumptionFacts) -> LearnedRate | None:
    """Whether the rate of fair decisions that was learned is one that the rows leave possible."""
    if job.decisions or test.rejected or job.strata or not job.model._latent:
        return None
    model, rows = job.model, job.rows
    rates = dict(zip(rows.classes, map(float, model.fair_rate_), strict=True))
    one = max(test.sets, key=lambda s: max(s.lower - rates[s.label], rates[s.label] - s.upper))
    learned = rates[one.label]
    outside = not one.lower - _SEEN <= learned <= one.upper + _SEEN
    p = None
    if outside and job.tested is not None and job.tested.fit is not None:
        p = job.tested.fit.p_value_of(learned)
    sentence = (
        f"The model learned that {text.share(learned)} of fair decisions are {one.label!r}; the "
        f"test of this audit leaves {text.span((one.lower, one.upper))} possible, with "
        f"{text.share(test.level, 0)} confidence, if the assumptions hold."
    )
    if outside:
        sentence += _against(p)
    sentence += _range_of_fit(model, test)
    return LearnedRate(one.label, learned, one.lower, one.upper, test.level, outside, sentence, p)


def _against(p: float | None) -> str:
    """What follows from a learned rate that is outside of the range of the test."""
    if p is None or p < _RULED_OUT:
        said = "" if p is None else f" (p {text.p_words(p)})"
        return (
            f" So the model does not describe these rows{said}, and its mechanism must not be read "
            "as what happened."
        )
    return (
        f" What was learned is outside of that range (p {text.p_words(p)}): these rows speak "
        "against it, but do not rule it out, so do not rely on its mechanism."
    )


def _range_of_fit(model: FittedDecisions, test: AssumptionFacts) -> str:
    """Why the fit of a LatentDecision gave another range; nothing where it gave none."""
    if not isinstance(model, LatentDecision):
        return ""
    lower, upper = model.fair_rate_set_
    if lower > upper:
        return ""
    return (
        f" The fit left {text.span((lower, upper))} possible: it looked for the same range with "
        "its own classifier and one split of its rows, the audit with other classifiers and "
        f"{text.counted(test.n_seeds, 'split')}."
    )


def show_test(audit: blocks.Audit, test: AssumptionFacts) -> Iterator[blocks.Block]:
    """The outcome, what can be done about a rejection, and a picture of each set."""
    outcome = f"p {test.p_words}. {_FAILS if test.rejected else _UNSEEN}"
    headline = "Not rejected: the data do not contradict the assumptions."
    if test.rejected:
        headline = "Rejected: the data contradict the assumptions."
    yield blocks.Notice(headline, (outcome,), alert=test.rejected)
    if test.what_to_do:
        yield blocks.Paragraph("What can be done:")
        yield blocks.Points(test.what_to_do)
    for one in test.sets:
        yield _confidence_set(audit, one, test)
    yield blocks.Paragraph(
        "One of the assumptions is that features change the label through the fair decision only. "
        "If they also change its odds, given the fair decision and the group, by a limited factor "
        f"between two people, more rates are possible. {test.tolerance}".strip()
    )
    if len(test.sets) == 1:
        yield _bending(test)
    fits = text.listed([f"{name} ({text.counted(n, 'fit')})" for name, n in test.classifiers])
    used = text.counted(test.n_known, "row")
    if test.n_rows < test.n_known:
        used = f"{text.count(test.n_rows)} of the {used} whose label and group are known,"
    yield blocks.Paragraph(
        f"Computed on {used} by {test.method} over "
        f"{text.counted(test.n_seeds, 'way')} of splitting; classifiers: {fits}.",
        "note",
    )


def _bending(test: AssumptionFacts) -> blocks.TableBlock:
    """What is left where the label depends on features otherwise than through Df."""
    cells = []
    for altered in test.bending:
        low, high = float(altered.lower), float(altered.upper)  # type: ignore[arg-type]
        bounds = ("none", "none") if low > high else (low, high)
        cells.append((text.number(altered.gamma, 2), *bounds))
    head = ("Factor", f"Lowest P(Df = {text.short(test.sets[0].label, 40)})", "Highest")
    return blocks.TableBlock("Possible rates where features bend labels too", head, cells)


def _confidence_set(
    audit: blocks.Audit, one: ConfidenceSet, test: AssumptionFacts
) -> blocks.Figure:
    order = blocks.group_order(audit)
    label, bounds = text.short(one.label, 40), (text.share(one.lower), text.share(one.upper))
    seen = "The bars do not overlap: no single rate fits every group."
    if not one.empty:
        seen = (
            f"The bars overlap from {bounds[0]} to {bounds[1]} (shaded): any rate in there fits "
            "every group."
        )
    explained = (
        f"Each bar is the range of P(Df = {label}) that one group alone leaves possible, at the "
        f"{text.share(test.level, 0)} level. {seen}"
    )
    rows = []
    cells: list[tuple[Any, ...]] = []
    for bar in one.groups:
        span = (bar.lower, bar.upper)
        rows.append(Row(bar.group, None, span, order[bar.group], note=text.span(span)))
        cells.append((bar.group, bar.n, *span))
    whole = ("none", "none") if one.empty else bounds
    cells.append(("Overlap of all groups", "", *whole))
    caption, head = f"Confidence set of P(Df = {label})", ("Group", "Rows", "Lowest", "Highest")
    rate = None if audit.mechanism is None else audit.mechanism.rate_of(one.label)
    marks = () if rate is None else (Mark(rate, f"learned {text.share(rate)}"),)
    overlap = None if one.empty else (one.lower, one.upper)
    picture = ranges(rows, overlap, marks=marks, axis=f"P(Df = {label})")
    title = f"Possible rates of {text.quoted(one.label)}"
    return blocks.Figure(title, explained, picture, blocks.TableBlock(caption, head, cells))


def show_candidates(candidates: Candidates) -> Iterator[blocks.Block]:
    """Which columns would remove the rejection, and why that is no way to choose them."""
    yield blocks.Paragraph(
        "Parity in the whole table is contradicted. Would it still be if fair decisions could "
        f"depend on one of the columns? {candidates.sentence}"
    )
    yield blocks.Notice("Not a way to choose strata.", (candidates.warning,))
    rows = []
    for one in candidates.columns:
        cells = [one.column, one.n_strata, one.smallest, _REMOVES[one.rejected]]
        why = text.sentence(one.why) if one.why else ""
        rows.append([*cells, text.p_value(one.p_value), one.mix, why])
    head = ["Column", "Strata", "Fewest rows of a group", "Removes the rejection", "p"]
    head += ["Share of the gap that is mix", "Why it was not tested"]
    note = (
        f"Computed on {text.counted(candidates.n_rows, 'row')}, each test at the "
        f"{text.share(1 - candidates.level, 0)} level. Numbers are cut into about four bins. The "
        "last share may be negative or above 100%, where the mix and the gaps within strata go "
        "opposite ways."
    )
    if candidates.n_untried:
        note += (
            f" {text.counted(candidates.n_untried, 'further column')} not tried: in Python, "
            "fairpc.evidence.compare_strata tries any."
        )
    caption, folded = "Each column taken as strata", len(rows) > _LONG
    table = blocks.TableBlock(caption, head, rows, words={3}, note=note, folded=folded)
    yield table.without_empty_remarks()
