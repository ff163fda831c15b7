"""What a review of these rows would show: how well it would answer three questions, by its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._drawing import Plane, Series, curves
from fairpc.auditing._job import Job
from fairpc.auditing._review import called_groups, rate_words, rows_of_decisions
from fairpc.auditing._rows import taken
from fairpc.core import AuditError
from fairpc.evidence import expected_in_words
from fairpc.models import ReviewRows

REVIEWED: Final = "rows were reviewed"
FEWEST: Final = 50
"""Rows of which a review draws some; fewer are all looked at."""
_QUESTIONS: Final = {
    "mechanism_1": "labels of the deserving",
    "fair_rate": "share of the deserving",
    "tpr": "decisions on the deserving",
}
"""Rates that a review is about first, and what a curve of each is called."""
_USUAL: Final = 300
"""Rows of a review that questions are asked about."""
_MOST: Final = 1000
"""Rows up to which widths are drawn."""


@dataclass(frozen=True)
class ReviewQuestion:
    """How well a rate would be known after a review, in the group where it is known least."""

    name: str  #: "mechanism_1", "fair_rate" or "tpr"
    what: str  #: the same in words
    group: str
    curve: tuple[tuple[int, float], ...]  #: numbers of reviewed rows, and the half width with each
    n: int
    half_width: float  #: with n rows
    aim: float
    n_needed: int  #: rows for a half width of ``aim``


@dataclass(frozen=True)
class ReviewPlan:
    """What a review of these rows would show."""

    n_rows: int  #: rows that can be drawn
    questions: tuple[ReviewQuestion, ...]


def review_plan(job: Job) -> ReviewPlan:
    """How well a review would answer three questions, from the rows at hand."""
    if job.reviewed is not None:
        raise AuditError(REVIEWED)
    rows = job.drawn
    at = np.flatnonzero((rows.d >= 0) & (rows.s >= 0))
    if len(rows.classes) != 2 or len(at) < FEWEST:
        raise AuditError(
            f"a review draws from {FEWEST} rows or more with a known group and a label of two "
            "classes"
        )
    if job.decisions is None:
        observed, decided = rows.observed[at, rows.positive], rows.decided[at] == rows.positive
        bounds = job.model.label_ends_ if job.model._latent else None
        table = ReviewRows.of_codes(job.coding, rows.coded(), at, observed, decided, bounds)
    else:
        table = rows_of_decisions(job)
    words, called, found = rate_words(rows.positive_class), called_groups(job), []
    widths = table.widths(min(_USUAL, len(at)))
    for name in _QUESTIONS:
        of_groups = [width for width in widths if width.name == name]
        if of_groups:
            worst = max(of_groups, key=lambda width: width.half_width)
            group = called[str(worst.group)]
            found.append(taken(ReviewQuestion, worst, what=words[name], group=group))
    return ReviewPlan(len(at), tuple(found))


@blocks.section("review_plan", "What a review would show")
def show_plan(audit: blocks.Audit, plan: ReviewPlan) -> Iterator[blocks.Block]:
    """Width against the number of files, for three questions."""
    yield blocks.Paragraph(
        "Labels alone cannot show errors that all groups share. Somebody who looks again at some "
        "files, drawn with a known chance, can: a second reader, an appeal, an outcome that came "
        "in later. This is how well three questions would be answered."
    )
    said = []
    for q in plan.questions:
        what = f"the {q.what}, in every group,"
        said.append(expected_in_words(what, q.n, q.half_width, q.n_needed, q.curve, q.aim))
    yield blocks.Points(said)
    yield _widths(plan)


def _widths(plan: ReviewPlan) -> blocks.Figure:
    """Half widths against numbers of files."""
    series, sizes = [], [n for n, _ in plan.questions[0].curve if n <= _MOST]
    halves = [dict(question.curve) for question in plan.questions]
    for question, half in zip(plan.questions, halves, strict=True):
        name = f"{_QUESTIONS[question.name]}, {question.group}"
        series.append(Series(name, sizes, [100 * half[n] for n in sizes]))
    cells = [[n, *(f"±{text.size(half[n])}" for half in halves)] for n in sizes]
    head = ["Files", *(one.name for one in series)]
    table = blocks.TableBlock("Points by which a rate would be known", head, cells, folded=True)
    most = max(y for one in series for y in one.y)
    plane = Plane("files", "± points", (0.0, sizes[-1]), (0.0, most), *(text.number_tick,) * 2)
    sentence = (
        "Half of a 95% interval, in percentage points, in the group where it is widest, if the "
        "model is right about where labels are doubtful."
    )
    picture = curves(plane, series)
    return blocks.Figure("How well a rate would be known", sentence, picture, table)
