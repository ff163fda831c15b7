"""What a review showed: the rates that reviewers' answers give, two tests, and what follows.

Each rate stands beside what reviewed rows say alone, and beside what recorded labels say where they
say anything. None of it rests on the assumptions of the model (:mod:`fairpc.evidence`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._job import Job
from fairpc.auditing._rows import taken
from fairpc.core import AuditError, ContradictionWarning, FairpcError, Record
from fairpc.data import Warned
from fairpc.evidence import Interval, ReviewEstimates
from fairpc.models import Reviewed, ReviewRows, TwoNB, quick_decision

NONE_GIVEN: Final = "no rows were reviewed"
_ERRORS: Final = ("tpr", "fpr", "accuracy", "precision")
_NAMED: Final = 2  # rates that a sentence names
AIM: Final = 0.05
"""Half of the interval that more files are asked for."""
_NEARLY: Final = 0.9
"""Share of the other files from which all of them are asked for."""


@dataclass(frozen=True)
class ReviewedFact:
    """A rate of one group, as a review shows it."""

    name: str  #: "fair_rate", "mechanism_0", "mechanism_1", "tpr", "fpr", "accuracy", "precision"
    what: str  #: the same in words
    group: str
    value: float
    interval: Interval
    worst: Interval  #: if what reviewers could not tell were all against it, or all for it
    alone: float  #: by reviewed rows alone
    alone_interval: Interval
    without: Interval | None  #: what recorded labels alone leave possible; None: not known
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
class ReviewFacts(Record):
    """What a review showed about a table."""

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
    #: what is asked of people who deserve the positive class: whether they are selected, or how
    #: they were recorded
    asked: Literal["tpr", "mechanism_1"] = "tpr"

    _computed = ("missed",)

    @property
    def more(self) -> int:
        """Further files that show the difference asked for to ±5 points, about; 0: none needed.

        None are where the difference has a sign, or is known so well; all others are where it takes
        nearly all of them. Variances go with 1 / files less 1 / rows.
        """
        intervals = (gap.interval for gap in self.gaps if gap.name == self.asked)
        open_ = [(low, high) for low, high in intervals if low <= 0 <= high]
        half = max((high - low for low, high in open_), default=0.0) / 2
        left, drawn = self.n_rows - self.n_drawn, 1 / self.n_drawn - 1 / self.n_rows
        if half <= AIM:
            return 0
        wanted = 1 / (1 / self.n_rows + drawn * (AIM / half) ** 2) - self.n_drawn
        return min(10 * math.ceil(wanted / 10), left) if wanted < _NEARLY * left else left

    @property
    def missed(self) -> tuple[str, ...]:
        """A sentence where an interval of the review lies outside of what labels alone leave."""
        outside = [r for r in self.rates if r.without is not None and _disjoint(r)]
        each = "; ".join(
            f"{r.what}, {r.group}: {text.span(r.interval)} by the review, {text.span(r.without)} "
            "without"
            for r in outside[:_NAMED]
        )
        more = f"; and {len(outside) - _NAMED} more" if len(outside) > _NAMED else ""
        said = (
            f"The review contradicts the range from labels alone ({each}{more}): quote the review."
        )
        return (said,) if outside else ()


def _disjoint(rate: ReviewedFact) -> bool:
    (low, high), (least, most) = rate.interval, rate.without or (0.0, 1.0)
    return low > most or high < least


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
    if job.decisions is None:
        table = ReviewRows.of(job.model, rows.table, rows.labels, rows.sensitive)
    else:
        table = rows_of_decisions(job)
    known, errors = dict(table.ranges), job.results.get("error_rates")
    for group, rates in () if errors is None else errors.rates.groups.items():
        known |= {(name, group): tuple(getattr(rates, name)) for name in _ERRORS}
    classes = rows.classes[1 - rows.positive], rows.positive_class
    table = replace(table, ranges=known).called(called_groups(job), classes)
    found = facts_of_review(table, job.reviewed, job.settings.level)
    return found if job.decisions is not None else replace(found, asked="mechanism_1")


def rows_of_decisions(job: Job) -> ReviewRows:
    """What a review of decisions that no model of ours made is about, as `fairpc review` has it.

    Whether the labels contradict the assumptions the audit tests better than a quick model does.
    """
    rows, labels = job.drawn, job.coding.labels
    h = rows.decided == rows.positive
    how: dict[str, Any] = {"positive": labels.positive_class, "names": job.given_names}
    how["random_state"] = job.settings.random_state
    how |= {} if job.decisions is None else job.decisions.reading
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContradictionWarning)
        return rows_without_model(rows.table, rows.labels, rows.sensitive, h, **how)[0]


def called_groups(job: Job) -> dict[str, str]:
    """What the groups of the model, and those of the audit, are called in the audit."""
    groups = job.rows.groups
    return dict(zip((*job.coding.group_names, *groups), (*groups, *groups), strict=True))


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
        settings: as every model takes them: ``positive``, ``sensitive``, ``random_state`` ….
    """
    model: Any
    try:
        model, why = quick_decision(settings, X, y, sensitive_features), ""
    except FairpcError as error:
        with Warned().watching():
            given = {} if sensitive_features is None else {"sensitive_features": sensitive_features}
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
    columns = tuple(
        ColumnTest(str(name), test.p_value, test.corrected, test.rejected)
        for name, test in estimates.tests["features"].items()
    )
    found = [
        taken(
            ReviewedFact,
            rate,
            name=name,
            what=words[name],
            group=str(group),
            interval=(rate.low, rate.high),
            alone=others[name, group].value,
            alone_interval=(others[name, group].low, others[name, group].high),
            without=table.ranges.get((name, group)),
            recorded=recorded.get((name, group)),
        )
        for (name, group), rate in rates.items()
    ]
    return ReviewFacts(
        n_rows=len(table.at),
        n_drawn=estimates.n_drawn,
        n_blank=estimates.n_blank,
        n_batches=reviewed.n_batches,
        level=level,
        classes=classes,
        rates=tuple(found),
        gaps=tuple(_gaps(estimates, alone, words)),
        rates_p_value=estimates.tests["rates"].p_value,
        columns=columns,
        conclusions=estimates.conclusions(),
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
) -> Iterator[ReviewedGap]:
    for name in dict.fromkeys(name for name, _ in _rates(estimates)):
        both = zip(estimates.differences[name], alone.differences[name], strict=True)
        for one, other in both:
            groups, by_all = (str(one.first), str(one.last)), (one.value, (one.low, one.high))
            by_few = other.value, (other.low, other.high)
            yield ReviewedGap(name, words[name], *groups, *by_all, *by_few)


def _recorded(table: ReviewRows) -> dict[tuple[str, Any], float]:
    """The rates that recorded labels give where they are taken for the fair decision."""
    found: dict[tuple[str, Any], float] = {}
    for group in np.unique(table.groups):
        here = table.groups == group
        y, h = table.y[here] == 1, table.decisions[here] == 1
        every = np.ones(len(y), np.bool_)
        parts = {"fair_rate": (y, every), "tpr": (h, y), "fpr": (h, ~y)}
        parts |= {"accuracy": (h == y, every), "precision": (y, h)}
        for name, (hit, among) in parts.items():
            if among.any():
                found[name, group] = float(hit[among].mean())
    return found


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


@blocks.section("review", "What the review showed")
def show_review(audit: blocks.Audit, facts: ReviewFacts) -> Iterator[blocks.Block]:
    """Rates, differences, tests, and what follows."""
    batches = "" if facts.n_batches == 1 else f" in {facts.n_batches} batches"
    yield blocks.Paragraph(
        f"{text.counted(facts.n_drawn, 'row')} of {facts.n_rows:,} were drawn with known chances"
        f"{batches}, and people said of {facts.n_drawn - facts.n_blank:,} what the decision should "
        "have been. These rates need no "
        "assumption about how labels were altered; they hold if the reviewers are right.",
        "lead",
    )
    yield blocks.Points((*facts.missed, *facts.conclusions))
    worst = facts.n_blank > 0
    head = ["Rate", "Group", "By the review", "Reviewed rows alone", "Without reviews", "Recorded"]
    cells = []
    for rate in facts.rates:
        reviewed = text.bracketed(rate.value, rate.interval) + " few" * rate.few
        alone, recorded = text.bracketed(rate.alone, rate.alone_interval), text.share(rate.recorded)
        row = [rate.what, rate.group, reviewed, alone, text.span(rate.without), recorded]
        cells.append([*row, text.span(rate.worst)] if worst else row)
    note = (
        f"In brackets: {text.share(facts.level, 0)} intervals, each by itself. “By the review” "
        "joins the reviewed rows with scores of all rows; “without reviews” is what labels alone "
        "leave possible if the assumptions hold, where that is known; “recorded” takes labels that "
        "may be biased for the truth. “few”: fewer than five reviewed rows on one side."
    )
    head = [*head, "Worst case"] if worst else head
    yield blocks.TableBlock("Rates of this table", head, cells, words={1}, note=note)
    gaps = []
    for gap in facts.gaps:
        both = (gap.value, gap.interval), (gap.alone, gap.alone_interval)
        known = (text.bracketed(*one, text.points) for one in both)
        gaps.append([f"{gap.last} {text.MINUS} {gap.first}", gap.what, *known])
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
