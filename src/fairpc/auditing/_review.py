"""What a review told: the rates that reviewers' answers give, two tests, and what follows.

Each rate stands beside what reviewed rows say alone, and beside what recorded labels say where they
say anything. None of it rests on the assumptions of the model (:mod:`fairpc.evidence`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.auditing import _blocks as blocks
from fairpc.auditing import _formats as text
from fairpc.auditing._drawing import Plane, Series, curves
from fairpc.auditing._job import Job
from fairpc.core import AuditError, FairpcError, Floats, Record
from fairpc.data import Warned
from fairpc.evidence import (
    ExpectedWidth,
    Interval,
    ReviewEstimates,
    ReviewTest,
    expected_widths,
)
from fairpc.models import (
    LatentDecision,
    Reviewed,
    ReviewRows,
    TableClassifier,
    TwoNB,
    middle_mechanism,
    posterior_at,
)

NONE_GIVEN: Final = "no rows were reviewed"
MANY: Final = 3
"""Columns on which labels depend from which no stratum is proposed."""
_ERRORS: Final = ("tpr", "fpr", "accuracy", "precision")
FILES: Final = (100, 300, 1000)
"""Numbers of files for which it is said what a review of them would tell."""
_ASKED: Final = ("mechanism_1", "fair_rate", "accuracy")
_USUAL: Final = np.array([0.05, 0.95])  # P(D = 1 | Df) where no model says more


@dataclass(frozen=True)
class ReviewedFact:
    """A rate of one group, as a review tells it."""

    name: str  #: "fair_rate", "mechanism_0", "mechanism_1", "tpr", "fpr", "accuracy", "precision"
    what: str  #: the same in words
    group: str
    value: float
    interval: Interval
    worst: Interval  #: if what reviewers could not tell were all against it, or all for it
    alone: float  #: by reviewed rows alone
    alone_interval: Interval
    recorded: float | None  #: by recorded labels in place of the fair decision; None: no such rate
    n: int  #: reviewed rows that carry it
    few: bool  #: fewer than five of them on one side


@dataclass(frozen=True)
class ReviewedGap:
    """A rate of the last group minus that of the first."""

    name: str
    what: str
    first: str
    last: str
    value: float
    interval: Interval
    alone: float
    alone_interval: Interval


@dataclass(frozen=True)
class ColumnTest:
    """Whether labels depend on a column, given the fair decision and the group."""

    column: str
    p_value: float
    corrected: float  #: for all columns
    rejected: bool  #: at .05, after the correction


@dataclass(frozen=True)
class ReviewFacts:
    """What a review told about a table."""

    n_rows: int  #: rows that it is about: those whose label and group are known
    n_drawn: int
    n_blank: int  #: drawn, and reviewers could not tell
    n_batches: int
    level: float
    classes: tuple[str, str]  #: the negative and the positive one
    rates: tuple[ReviewedFact, ...]
    gaps: tuple[ReviewedGap, ...]
    rates_p_value: float  #: of equal fair rates
    columns: tuple[ColumnTest, ...]
    conclusions: tuple[str, ...]  #: what follows from the tests, a sentence each
    notes: tuple[str, ...]


def review_facts(job: Job) -> ReviewFacts:
    """What the reviewed rows of an audit say of its table."""
    if job.reviewed is None:
        raise AuditError(NONE_GIVEN)
    rows = job.drawn
    if rows.labels is None:
        raise AuditError("the recorded labels are not known: a review needs them beside answers")
    if len(job.reviewed.truth) != len(rows.s):
        raise AuditError(
            f"reviewed has {len(job.reviewed.truth)} rows and {len(rows.s)} are audited: give the "
            "table in memory, as it was drawn from, with no weight of 0"
        )
    of_rows = rows.table, rows.labels, rows.sensitive
    called = dict(zip(job.coding.group_names, rows.groups, strict=True))
    if job.decisions is None:
        table = ReviewRows.of(job.model, *of_rows)
    else:
        positive = job.decisions.coding_.labels.positive_class
        h = job.decisions.decided == job.decisions.coding_.labels.positive
        table, _ = rows_without_model(*of_rows, h, positive=positive)
    groups = np.array([called[name] for name in table.groups.tolist()])
    classes = rows.classes[1 - rows.positive], rows.positive_class
    table = replace(table, groups=groups, classes=classes)
    return facts_of_review(table, job.reviewed, job.settings.level)


def rows_without_model(
    X: Any,
    y: Any,
    sensitive_features: Any = None,
    decisions: npt.ArrayLike | None = None,
    **settings: Any,
) -> tuple[ReviewRows, str]:
    """Rows of a table that no model of ours was fitted to, and why none says where to look.

    A logistic regression of the label does, which takes seconds; "" where it can.

    Args:
        X: table in memory.
        y: recorded labels.
        sensitive_features: groups given apart.
        decisions: to be audited, 0 or 1; those of the quick model if None.
        settings: of the table, as every model takes them: ``positive``, ``sensitive`` ….
    """
    given = {} if sensitive_features is None else {"sensitive_features": sensitive_features}
    about = {name: settings[name] for name in ("missing_values",) if name in settings}
    classifier = TableClassifier("logistic", **about)
    own = {name: v for name, v in settings.items() if name in signature(LatentDecision).parameters}
    with Warned().watching():
        try:
            model: Any = LatentDecision(
                classifier, select="middle", sensitive_estimator=False, **own
            ).fit(X, y, **given)
            why = ""
        except FairpcError as error:
            model, why = TwoNB(**settings).fit(X, y, **given), str(error)
    return ReviewRows.of(model, X, y, sensitive_features, decisions), why


def facts_of_review(table: ReviewRows, reviewed: Reviewed, level: float = 0.95) -> ReviewFacts:
    """What reviewed rows say of a table."""
    outside = int(np.delete(reviewed.drawn, table.at).sum())
    if outside:
        raise AuditError(f"{outside} reviewed rows have no label or group: give them as drawn")
    estimates, alone = (
        table.estimates(reviewed, level=level, alone=some) for some in (False, True)
    )
    classes = str(table.classes[0]), str(table.classes[1])
    rates, others = _rates(estimates), _rates(alone)
    recorded = _recorded(table)
    words = rate_words(classes[1])
    tests = estimates.tests["features"]
    columns = tuple(
        ColumnTest(str(name), test.p_value, test.corrected, test.rejected)
        for name, test in tests.items()
    )
    return ReviewFacts(
        n_rows=len(table.at),
        n_drawn=estimates.n_drawn,
        n_blank=estimates.n_blank,
        n_batches=reviewed.n_batches,
        level=level,
        classes=classes,
        rates=tuple(
            ReviewedFact(
                name=name,
                what=words[name],
                group=str(group),
                value=rate.value,
                interval=(rate.low, rate.high),
                worst=rate.worst,
                alone=others[name, group].value,
                alone_interval=(others[name, group].low, others[name, group].high),
                recorded=recorded.get((name, group)),
                n=rate.n,
                few=rate.few,
            )
            for (name, group), rate in rates.items()
        ),
        gaps=_gaps(estimates, alone, words),
        rates_p_value=estimates.tests["rates"].p_value,
        columns=columns,
        conclusions=(_rates_conclusion(estimates), _columns_conclusion(columns)),
        notes=tuple(_notes(estimates, table)),
    )


def rate_words(positive: str) -> dict[str, str]:
    """What each rate of a review is, by its name."""
    yes = text.quoted(positive)
    return {
        "fair_rate": f"share that deserves {yes}",
        "mechanism_1": f"share recorded as {yes} of those who deserve it",
        "mechanism_0": f"share recorded as {yes} of the others",
        "tpr": f"share decided {yes} of those who deserve it",
        "fpr": f"share decided {yes} of the others",
        "accuracy": "share of decisions that are the fair one",
        "precision": f"share of decisions {yes} that are deserved",
    }


def _rates(found: ReviewEstimates) -> dict[tuple[str, Any], Any]:
    """Every rate by name and group, in the order in which they are shown."""
    rates = {("fair_rate", g): rate for g, rate in found.fair_rate.items()}
    for f in (1, 0):
        rates |= {(f"mechanism_{f}", g): both[f] for g, both in found.mechanism.items()}
    for name in _ERRORS:
        rates |= {(name, g): rate for g, rate in getattr(found, name).items()}
    return rates


def _gaps(
    estimates: ReviewEstimates, alone: ReviewEstimates, words: dict[str, str]
) -> tuple[ReviewedGap, ...]:
    names = dict.fromkeys(name for name, _ in _rates(estimates))
    return tuple(
        ReviewedGap(
            name=name,
            what=words[name],
            first=str(one.first),
            last=str(one.last),
            value=one.value,
            interval=(one.low, one.high),
            alone=other.value,
            alone_interval=(other.low, other.high),
        )
        for name in names
        for one, other in zip(estimates.differences[name], alone.differences[name], strict=True)
    )


def _recorded(table: ReviewRows) -> dict[tuple[str, Any], float]:
    """The rates that recorded labels give where they are taken for the fair decision."""
    found: dict[tuple[str, Any], float] = {}
    for group in np.unique(table.groups):
        here = table.groups == group
        y, h = table.y[here] == 1, table.decisions[here] == 1
        parts = {
            "fair_rate": (y, np.ones(len(y), np.bool_)),
            "tpr": (h, y),
            "fpr": (h, ~y),
            "accuracy": (h == y, np.ones(len(y), np.bool_)),
            "precision": (y, h),
        }
        for name, (hit, among) in parts.items():
            if among.any():
                found[name, group] = float(hit[among].mean())
    return found


def _rates_conclusion(estimates: ReviewEstimates) -> str:
    """Whether the fair rates of groups may be taken for equal."""
    test: ReviewTest = estimates.tests["rates"]
    gaps = estimates.differences["fair_rate"]
    if not gaps:
        return "There is one group: fair rates are not compared."
    widest = max(gaps, key=lambda one: abs(one.value) if one.value == one.value else 0.0)
    seen = (
        f"{widest.last} minus {widest.first}: "
        f"{text.bracketed(widest.value, (widest.low, widest.high), text.points)} points"
    )
    p = f"p {text.p_words(test.p_value)}"
    if not test.rejected:
        return (
            f"The review does not contradict equal fair rates ({p}; {seen}): a model that ties "
            "them may be kept."
        )
    most = max(abs(widest.low), abs(widest.high))
    return (
        f"The review contradicts equal fair rates ({p}; {seen}): do not tie them. Allow a "
        f"difference (delta={most:.2f}), or use the reviewed estimates."
    )


def _columns_conclusion(columns: tuple[ColumnTest, ...]) -> str:
    """Which columns alter labels, and what to do about it."""
    named = [test.column for test in columns if test.rejected]
    if not columns:
        return "The table has no other column that could alter labels."
    if not named:
        least = min(test.corrected for test in columns)
        return (
            "No column is seen to alter labels beyond the fair decision and the group (least p "
            f"{text.p_words(least)}, corrected for {text.counted(len(columns), 'column')}): a "
            "mechanism per group may be kept."
        )
    lead = (
        f"Labels depend on {text.listed(named)} beyond the fair decision and the group (p < 0.05, "
        "corrected)"
    )
    if len(named) >= MANY:
        return f"{lead}: a model of this kind does not fit, use the reviewed estimates."
    given = ", ".join(map(repr, named))
    return (
        f"{lead}: fit with given=[{given}] and mechanism='within' if it may rightly matter, or use "
        "the reviewed estimates."
    )


def _notes(estimates: ReviewEstimates, table: ReviewRows) -> Iterator[str]:
    if estimates.n_blank:
        yield (
            f"Rows without an answer: {estimates.n_blank:,} of {estimates.n_drawn:,}. They count "
            "as missing at random within a group and a recorded label; “worst case” has the limits "
            "if all of them were against a rate, or all for it."
        )
    left = table.n_table - len(table.at)
    if left:
        yield f"{text.counted(left, 'row')} without a label or a group could not be drawn."
    few = sum(rate.few for rate in _rates(estimates).values())
    if few:
        yield (
            f"Fewer than five reviewed rows are on one side of {text.counted(few, 'rate')}, marked "
            "“few”: read the limits, not the value."
        )


@blocks.section("review", "What the review told")
def show_review(audit: blocks.Audit, facts: ReviewFacts) -> Iterator[blocks.Block]:
    """Rates, differences, tests, and what follows."""
    batches = "" if facts.n_batches == 1 else f" in {facts.n_batches} batches"
    yield blocks.Paragraph(
        f"{text.counted(facts.n_drawn, 'row')} of {facts.n_rows:,} were drawn with known chances"
        f"{batches}, and people said what the decision should have been. These rates need no "
        "assumption about how labels were altered; they hold if the reviewers are right.",
        "lead",
    )
    yield blocks.Points(facts.conclusions)
    worst = facts.n_blank > 0
    head = ["Rate", "Group", "By the review", "Reviewed rows alone", "By recorded labels"]
    cells = []
    for rate in facts.rates:
        row: list[Any] = [
            rate.what,
            rate.group,
            text.bracketed(rate.value, rate.interval) + (" few" if rate.few else ""),
            text.bracketed(rate.alone, rate.alone_interval),
            text.share(rate.recorded),
        ]
        cells.append([*row, text.span(rate.worst)] if worst else row)
    note = (
        f"In brackets: {text.share(facts.level, 0)} intervals, each by itself. Recorded labels may "
        "be biased; their column takes them for the truth."
    )
    head = [*head, "Worst case"] if worst else head
    yield blocks.TableBlock("Rates of this table", head, cells, words={1}, note=note)
    gaps = [
        [
            f"{gap.last} {text.MINUS} {gap.first}",
            gap.what,
            text.bracketed(gap.value, gap.interval, text.points),
            text.bracketed(gap.alone, gap.alone_interval, text.points),
        ]
        for gap in facts.gaps
    ]
    if gaps:
        names = ["Groups", "Rate", "By the review", "Reviewed rows alone"]
        yield blocks.TableBlock("Differences, in points", names, gaps, words={1})
    tests = [
        [t.column, text.p_value(t.p_value), text.p_value(t.corrected), "yes" if t.rejected else ""]
        for t in facts.columns
    ]
    if tests:
        caption = "Does the label depend on a column, given the fair decision and the group?"
        names = ["Column", "p", "p, corrected", "Depends"]
        yield blocks.TableBlock(caption, names, tests, words={3}, folded=len(tests) > 12)
    if facts.notes:
        yield blocks.Paragraph(" ".join(facts.notes), "note")


@dataclass(frozen=True)
class ReviewPlan(Record):
    """What a review of some files would tell, from the rows at hand."""

    positive: str  #: the class
    #: by number of files: how well each rate of a group would be known
    widths: tuple[ExpectedWidth, ...]
    n_rows: int  #: files that could be drawn

    def of(self, name: str, group: str) -> dict[int, ExpectedWidth]:
        """Of one rate, by the number of files."""
        return {w.n: w for w in self.widths if (w.name, w.group) == (name, group)}


def review_plan(job: Job) -> ReviewPlan:
    """Expected widths, by what the model says at the middle of what the labels leave possible."""
    rows = job.drawn.sample(job.settings.max_test_rows, job.settings.random_state)
    if len(rows.classes) > 2:
        raise AuditError(f"the label has {len(rows.classes)} classes: a review needs two")
    kept = np.flatnonzero((rows.d >= 0) & (rows.s >= 0))
    if len(kept) < min(FILES):
        raise AuditError(f"fewer than {min(FILES)} rows have a label and a group")
    y, s = (rows.d[kept] == rows.positive).astype(np.float64), rows.s[kept].astype(np.intp)
    decided = (rows.decided[kept] == rows.positive).astype(np.float64)
    if job.decisions is None:
        mechanism, observed = middle_mechanism(job.model), rows.observed[kept, rows.positive]
    else:
        mechanism, observed = np.tile(_USUAL, (len(rows.groups), 1)), _rate_of_cells(y, s, decided)
    posterior = posterior_at(mechanism, observed, y, s)
    names = np.array(rows.groups, dtype=object)[s].astype(str)
    given: dict[str, Any] = {"sensitive_features": names, "y": y, "decisions": decided}
    found = [
        width
        for n in FILES
        if n <= len(kept)
        for width in expected_widths(posterior, n, level=job.settings.level, **given)
        if width.name in (*_ASKED, "mechanism_0")
    ]
    return ReviewPlan(rows.positive_class, tuple(found), len(kept))


def _rate_of_cells(y: Floats, s: npt.NDArray[np.intp], decided: Floats) -> Floats:
    """Share of positive labels among the rows of the same group and decision."""
    cell = 2 * s + decided.astype(np.intp)
    sums, sizes = np.bincount(cell, y), np.bincount(cell)
    return np.asarray((sums / np.maximum(sizes, 1))[cell], np.float64)


@blocks.section("review_plan", "What a review would tell")
def show_plan(audit: blocks.Audit, plan: ReviewPlan) -> Iterator[blocks.Block]:
    """How well each of three rates would be known, by the number of files."""
    words = rate_words(plan.positive)
    yield blocks.Paragraph(
        "Somebody looks again at some files, drawn with known chances, and says what the decision "
        "should have been. That needs no assumption about how labels were altered. How well would "
        "three shares then be known, in the group where they are known least?"
    )
    series, cells = [], []
    for name in _ASKED:
        worst: dict[int, ExpectedWidth] = {}
        for width in (w for w in plan.widths if w.name == name):
            if width.n not in worst or width.half_width > worst[width.n].half_width:
                worst[width.n] = width
        if not worst:
            continue
        halves = [w.half_width for w in worst.values()]
        series.append(Series(words[name], [float(n) for n in worst], halves))
        known = (f"±{text.size(w.half_width)}" for w in worst.values())
        needed = max(w.n_needed for w in worst.values())
        cells.append((words[name], *known, needed))
    files = sorted({w.n for w in plan.widths})
    head = ("Share", *(f"{n:,} files" for n in files), "Files for ±5")
    note = (
        f"In points, of the {plan.n_rows:,} files that could be drawn; half the width of an "
        "interval, if what the model says of them is right."
    )
    table = blocks.TableBlock("How well a review would tell each share", head, cells, note=note)
    most = max((max(one.y) for one in series), default=0.1)
    limits = (0.0, float(max(files))), (0.0, 1.1 * most)
    plane = Plane("files", "± points", *limits, x_form=text.number_tick, y_form=text.points_tick)
    picture = curves(plane, series, marked=True)
    sentence = "More files, narrower ranges: the gain is largest for the first hundreds."
    yield blocks.Figure("What a review of so many files would tell", sentence, picture, table)
