"""Which rows to review: those whose settled fair decision would narrow the possible scores most.

A row whose fair decision is known (an anchor) and whose label is known tells of P(D | Df, S): rows
with Df = 1 of b1, others of b0. D is independent of X given (Df, S), so rows may be picked by what
X says of Df, P(Df | x, s), without bending what they tell; by their label they may not. The rows
that nearly all have Df = 1 are the cheapest way to learn b1, those of which nearly none has it the
cheapest to learn b0. How many of each, in which group: as many as leave scores least open, by what
may be expected of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final

import numpy as np

from fairpc.core import Floats, Ints, LearningError, Positions, Record, check_level, counted
from fairpc.data import read_frame
from fairpc.evidence import StratumBounds
from fairpc.models._decisions import FittedDecisions
from fairpc.models._settings import is_whole

Cell = tuple[int, int]
"""A group and a likely decision."""

STEPS: Final = 20
MAX_ROWS: Final = 500
"""Steps in which rows are shared out, and rows on which the width of scores is measured."""


@dataclass(frozen=True)
class AnchorCell:
    """Rows to review of one group: those that are likely to have one fair decision."""

    group: str
    decision: str
    n: int


@dataclass(frozen=True)
class WidthAfter:
    """How far a score is open, on average over rows, after some rows were reviewed.

    Attributes:
        n: rows reviewed.
        suggested: expected width, if they are those suggested.
        random: the same, if they are drawn at random.
    """

    n: int
    suggested: float
    random: float


@dataclass(frozen=True, eq=False)
class AnchorPlan(Record):
    """Which rows to review, and what may be expected of it.

    Attributes:
        rows: numbers of the rows, the most useful first.
        cells: how many of each group and likely decision.
        curve: the width of scores against reviewed rows, from none to all of them.
        level: of the bounds of scores that the width is of.
    """

    rows: Ints
    cells: tuple[AnchorCell, ...]
    curve: tuple[WidthAfter, ...]
    level: float

    _computed = ("summary",)

    def summary(self) -> str:
        """What to review and what it is expected to gain, in plain words."""
        first, last = self.curve[0], self.curve[-1]
        parts = ", ".join(
            f"{cell.n} of group {cell.group!r} whose fair decision is likely {cell.decision!r}"
            for cell in self.cells
            if cell.n
        )
        return (
            f"Review {counted(last.n, 'row')}: {parts}. The bounds of a score are "
            f"{first.suggested:.3f} apart on average now ({self.level:.0%} confidence), and are "
            f"expected to be {last.suggested:.3f} apart then; with as many rows drawn at random "
            f"{last.random:.3f}. Settle the fair decision without looking at the label."
        )


def suggest_anchors(
    model: Any,
    X: Any,
    y: Any = None,
    n: int = 50,
    *,
    sensitive_features: Any = None,
    level: float = 0.95,
) -> AnchorPlan:
    """The rows whose settled fair decision would shrink what is possible most.

    Give the decisions that were settled to ``fit`` as ``fair_labels``.

    Args:
        model: a fitted FairPC, LatNB or LatentDecision, for two classes.
        X: rows that may be reviewed.
        y: their labels; rows without one are not suggested, because they tell nothing about how
            labels were altered. None: all have one. Which label it is plays no part.
        n: how many rows to review.
        sensitive_features: groups of the rows, if given apart.
        level: of the bounds of scores that are to shrink.
    """
    if not (isinstance(model, FittedDecisions) and model._latent):
        raise LearningError(
            f"the model is a {type(model).__name__}: rows are suggested for a fitted FairPC, LatNB "
            "or LatentDecision"
        )
    check_level(level)
    bounds = model._unstratified_bounds()
    groups = model._groups(X, sensitive_features)
    if groups is None:
        raise LearningError("the groups of the rows are not known: give them to suggest anchors")
    total = read_frame(X).n_rows
    usable = groups >= 0
    if y is not None:
        usable &= model._coding().labels.transform(y) >= 0
    if not (is_whole(n) and 1 <= n <= usable.sum()):
        raise LearningError(
            f"n is {n!r}: give a whole number from 1 to {int(usable.sum())}, the rows of {total} "
            "whose group and label are known"
        )
    positive = model._coding().labels.positive
    q = model.predict_proba(X, sensitive_features=sensitive_features)[:, positive]
    r = model.predict_observed_proba(X, sensitive_features=sensitive_features)[:, positive]
    rows = np.flatnonzero(usable)
    own = groups[rows].astype(np.intp)
    given = _Reviewable(bounds, _mechanism(model, positive), q[rows], r[rows], own, level)
    order, curve = given.plan(int(n))
    return _plan(model, rows, order, curve, level)


def _mechanism(model: FittedDecisions, positive: int) -> Floats:
    """b0 and b1 of each group, [s, f]."""
    table: Floats = model.bias_mechanism_[:, [1 - positive, positive], positive]
    return table


def _plan(
    model: FittedDecisions,
    rows: Ints,
    order: list[tuple[int, int, int]],
    curve: tuple[WidthAfter, ...],
    level: float,
) -> AnchorPlan:
    names, labels = model._coding().group_names, model._coding().labels
    classes = labels.classes[1 - labels.positive], labels.classes[labels.positive]
    cells = tuple(
        AnchorCell(name, str(classes[f]), sum((s, f) == (g, k) for g, k, _ in order))
        for s, name in enumerate(names)
        for f in (1, 0)
    )
    return AnchorPlan(np.array([rows[i] for _, _, i in order], np.int64), cells, curve, level)


@dataclass(frozen=True, eq=False)
class _Reviewable:
    """Rows that may be reviewed: P(Df = 1), P(D = 1), group of each; what is known so far."""

    bounds: StratumBounds
    mechanism: Floats
    q: Floats
    r: Floats
    groups: Positions
    level: float

    def plan(self, n: int) -> tuple[list[tuple[int, int, int]], tuple[WidthAfter, ...]]:
        """Rows as (group, likely decision, number) in their order, and the curve."""
        queues = {(s, f): self._queue(s, f) for s, f in np.ndindex(self.mechanism.shape)}
        sizes = self._shares(queues, n)
        order = _dealt(queues, sizes)
        curve = [WidthAfter(0, self.width(self._anchors([])), self._random(0))]
        for k in np.cumsum(_batches(n)).tolist():
            rows = [row for _, _, row in order[:k]]
            curve.append(WidthAfter(k, self.width(self._anchors(rows)), self._random(k)))
        return order, tuple(curve)

    def _shares(self, queues: Mapping[Cell, list[int]], n: int) -> dict[Cell, int]:
        """How many rows of each queue: exchanged between queues as long as that narrows scores.

        Step by step from nothing would not do: one number of the mechanism alone narrows little.
        """
        batches = _batches(n)
        best = dict.fromkeys(queues, 0)
        for k, size in enumerate(batches):
            best[list(queues)[k % len(queues)]] += size
        least = self._expected(queues, best)
        step = max(batches)
        while True:
            moved = []
            for source, target in permutations(queues, 2):
                size = min(step, best[source])
                if size:
                    tried = best | {source: best[source] - size, target: best[target] + size}
                    moved.append((self._expected(queues, tried), tried))
            width, tried = min(moved, key=lambda pair: pair[0])
            if width >= least - 1e-6:
                return best
            best, least = tried, width

    def _expected(self, queues: Mapping[Cell, list[int]], sizes: Mapping[Cell, int]) -> float:
        rows = [row for _, _, row in _dealt(queues, sizes)]
        return self.width(self._anchors(rows))

    def _anchors(self, rows: list[int]) -> Floats:
        """Anchors that may be expected of reviewing rows, [s, f]."""
        groups, q, n = self.groups[rows], self.q[rows], len(self.mechanism)
        return np.column_stack([np.bincount(groups, some, n) for some in (1 - q, q)])

    def _queue(self, s: int, f: int) -> list[int]:
        """Rows of a group, those that most likely have the decision first."""
        own = np.flatnonzero(self.groups == s)
        ranked: list[int] = own[np.argsort(-self.q[own] if f else self.q[own])].tolist()
        return ranked

    def _random(self, n: int) -> float:
        """Width that may be expected of as many rows drawn at random."""
        every = self._anchors(list(range(len(self.q))))
        return self.width(n * every / len(self.q))

    def width(self, totals: Floats) -> float:
        """Mean width of the bounds of scores, where anchors have labels as the mechanism says."""
        bounds = self.bounds.anchored(
            (totals * self.mechanism)[:, None], totals[:, None], self.level
        )
        some = np.linspace(0, len(self.q) - 1, min(len(self.q), MAX_ROWS)).astype(np.intp)
        low, high = bounds.score_bounds(self.r[some], self.r[some], self.groups[some], self.level)
        if np.isnan(low).any():
            raise LearningError(
                "the labels contradict the assumptions: no score is possible, so nothing can be "
                "narrowed; see fairpc.evidence.test_assumptions"
            )
        return float((high - low).mean())


def _batches(n: int) -> list[int]:
    """About twenty steps, as even as can be."""
    steps = min(STEPS, n)
    return [(k + 1) * n // steps - k * n // steps for k in range(steps)]


def _dealt(
    queues: Mapping[Cell, list[int]], sizes: Mapping[Cell, int]
) -> list[tuple[int, int, int]]:
    """The first rows of each queue, in turn, so that reviewing may end at any time.

    A row is in the queues of both decisions, and is taken once.
    """
    places = sorted(((k + 0.5) / size, cell) for cell, size in sizes.items() for k in range(size))
    waiting = {cell: iter(queue) for cell, queue in queues.items()}
    taken: set[int] = set()
    found = []
    for _, cell in places:
        row = next((row for row in waiting[cell] if row not in taken), None)
        if row is not None:
            taken.add(row)
            found.append((*cell, row))
    return found
