"""Numbers of a column too long to keep: weighted points whose ranks are known to a bound.

Up to ``MOST`` distinct numbers (more, where there is room) are kept as they are, with
their weight per class. More are joined into runs, each at its weighted median. Joining moves no
rank by more than half the weight of a run, and that bound is kept beside the
points: summaries of batches add up to a summary of the whole, bound and all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.core import Array, Bools, Floats, Integers, Ints

MOST: Final = 1 << 15
"""Up to so many distinct numbers are kept exactly."""

RUNS: Final = 1 << 13
"""Runs that are left of more. A run holds at most two parts in ``RUNS`` of the weight."""

FAN_IN: Final = 32
"""Summaries that are added up at once: each such step may join once more."""


@dataclass(frozen=True, eq=False)
class Points:
    """Numbers, ascending, with a weight per class.

    Attributes:
        values: int64 or float64, no two equal.
        weights: one row per value, one column per class.
        error: by how much the weight below any number may be off; 0 where nothing was joined.
    """

    values: Array
    weights: Floats
    error: float = 0.0

    @classmethod
    def count(
        cls,
        values: Array,
        classes: Integers,
        n_classes: int,
        weights: Floats | None = None,
        most: int | None = None,
    ) -> Points:
        """The points of rows; every class is joined by itself first, so that sorting is cheap."""
        if values.dtype.kind in "iu" and len(values):
            low, span = int(values.min()), int(values.max()) - int(values.min()) + 1
            if span <= MOST:
                # Whole numbers that lie close together are counted without sorting.
                cell = (values.astype(np.int64) - low) * n_classes + classes
                counts = np.bincount(cell, weights, span * n_classes).reshape(span, n_classes)
                seen = np.flatnonzero(counts.any(axis=1))
                return cls(seen + low, counts[seen].astype(np.float64))
        parts = []
        for k in range(n_classes):
            here = np.flatnonzero(classes == k) if n_classes > 1 else slice(None)
            some = None if weights is None else weights[here]
            points, mass, error = _counted(values[here], some, most or MOST)
            table = np.zeros((len(points), n_classes))
            table[:, k] = mass
            parts.append(cls(points, table, error).joined(most))
        return add_points(parts, most)

    @classmethod
    def of(cls, values: Array, weights: Floats, most: int | None = None) -> Points:
        """The points of numbers in any order, with a row of weights each."""
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        start = run_starts(ordered)
        return cls(ordered[start], np.add.reduceat(weights[order], start, axis=0)).joined(most)

    def joined(self, most: int | None = None, runs: int = RUNS) -> Points:
        """The same numbers in at most about ``runs`` runs, if there are more than ``most``.

        A number that holds as much as a run stays by itself.
        """
        n = len(self.values)
        if n <= (most or MOST):
            return self
        weight = self.weights.sum(axis=1)
        total = float(weight.sum())
        middle = np.cumsum(weight) - weight / 2
        part = np.minimum((runs * (middle / total)).astype(np.int64), runs - 1)
        heavy = weight * runs >= total
        start = run_starts(part, heavy)
        stop = np.append(start[1:], n)
        mass = np.add.reduceat(weight, start)
        # The first value with half of its run's weight at or below it.
        before = np.concatenate([[0.0], np.cumsum(weight)])
        median = np.searchsorted(before[1:], before[start] + mass / 2)
        median = np.clip(median, start, stop - 1)
        several = stop - start > 1
        moved = float(mass[several].max(initial=0.0)) / 2
        joined = np.add.reduceat(self.weights, start, axis=0)
        return Points(self.values[median], joined, self.error + moved)


def add_points(parts: Sequence[Points], most: int | None = None) -> Points:
    """The points of all rows of several batches."""
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([part.values for part in parts])
    # Each batch is sorted: a stable sort merges them, and adds up in the order of the batches.
    order = np.argsort(values, kind="stable")
    values = values[order]
    start = run_starts(values)
    weights = np.concatenate([part.weights for part in parts])[order]
    if len(start) < len(values):
        values, weights = values[start], np.add.reduceat(weights, start, axis=0)
    error = sum(part.error for part in parts)
    return Points(values, weights, error).joined(most)


def widened(weights: Floats, column: Ints, n_classes: int) -> Floats:
    """A table whose column ``j`` becomes column ``column[j]`` of ``n_classes``."""
    result = np.zeros((*weights.shape[:-1], n_classes))
    result[..., column] = weights
    return result


def _counted(values: Array, weights: Floats | None, most: int) -> tuple[Array, Floats, float]:
    """Values, ascending, with their weights: the distinct ones; if many, runs and their error."""
    order = None if weights is None else np.argsort(values, kind="stable")
    ordered = np.sort(values) if order is None else values[order]
    long = weights is None and len(ordered) > most
    if long and np.count_nonzero(ordered[1:] != ordered[:-1]) >= most:
        return _joined_rows(ordered)
    start = run_starts(ordered)
    if weights is None or not len(start):
        return ordered[start], np.diff(np.append(start, len(ordered))).astype(np.float64), 0.0
    return ordered[start], np.add.reduceat(weights[order], start), 0.0


def _joined_rows(ordered: Array) -> tuple[Array, Floats, float]:
    """As ``Points.joined``, for sorted rows of weight 1: no need to list what is distinct."""
    n = len(ordered)
    left = np.arange(RUNS) * n // RUNS
    at = ordered[left]
    # Rows with equal values stay together, and apart from others where they fill a run.
    inside = np.flatnonzero(ordered[left - 1] == at)
    left[inside] = np.searchsorted(ordered, at[inside], side="left")
    right = np.searchsorted(ordered, at[1:][at[1:] == at[:-1]], side="right")
    bounds = np.append(left, n)
    if len(inside):
        bounds = np.unique(np.concatenate([bounds, right]))
    start, stop = bounds[:-1], bounds[1:]
    several = ordered[start] != ordered[stop - 1]
    moved = float((stop - start)[several].max(initial=0)) / 2
    return ordered[(start + stop) // 2], (stop - start).astype(np.float64), moved


def run_starts(ordered: Array, alone: Bools | None = None) -> Ints:
    """Where each run of equal values begins; a value that is ``alone`` is a run by itself."""
    new = np.ones(len(ordered), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    if alone is not None:
        new[1:] |= alone[1:] | alone[:-1]
    return np.flatnonzero(new)
