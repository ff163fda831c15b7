"""Trees from the derivatives of a loss, grown from histograms of codes.

The leaf whose division gains most is divided next, as in scikit-learn's
``HistGradientBoostingClassifier``, which takes no loss of one's own and bins all columns anew for
each fit.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fairpc.core import Bools, Floats, Ints, Slots, Words

# Numbers that index arrays have no sign: looking at signs takes a quarter of a tree's time.
Places = Slots


class Limits(NamedTuple):
    """Of a tree: fewest rows of a leaf, its least curvature, the curvature that is added to it,
    and the share of a step that is taken."""

    rows: float
    bend: float
    shrinking: float
    rate: float


class Trees(NamedTuple):
    """How leaf 0 is divided again and again, each time into one leaf more; of several trees,
    arrays have one axis more, the first.

    Attributes:
        divided: leaf and column of each division, divisions × 2; leaf -1 where there is none.
        stays: whether each place stays in its leaf, divisions × places; other rows make the next.
        values: step of each leaf.
    """

    divided: Ints
    stays: Bools
    values: Floats

    def add_to(self, odds: Floats, x: Places) -> None:
        """Add what several trees say of rows to their odds, in place."""
        from fairpc.learners._kernels import add_trees

        add_trees(x, *self, odds)


def stacked(trees: Sequence[Trees]) -> Trees:
    """Several trees as one record."""
    return Trees(*(np.stack(parts) for parts in zip(*trees, strict=True)))


class Cells(NamedTuple):
    """Who has which value, as kernels take it.

    A *place* is one value of one column; places of all columns are numbered one after the other,
    and each column has one more for what is missing.

    Attributes:
        x: place of each value, columns × rows.
        start: first place of each column, and the number of places.
        named: whether the places of a column have no order.
        commonest: place of each column that is not listed, -1 where all are; its sums are what the
            others leave.
        listed: the places of each row that are listed, one row after the other.
        head: where the places of each row begin in ``listed``, and their number.
    """

    x: Places
    start: Ints
    named: Bools
    commonest: Ints
    listed: Places
    head: Words

    @classmethod
    def of(
        cls, codes: npt.NDArray[Any], arities: Ints, named: Bools, *, sparse: bool = False
    ) -> Cells:
        """Of columns × rows of codes, -1 where they are missing.

        ``sparse`` leaves the place of each column that most rows are in out of the lists, for
        tables with a column for each level.
        """
        start = np.append(0, np.cumsum(arities + 1))
        x = places(codes, start)
        commonest = np.full(len(x), -1)
        if sparse:
            counts = np.bincount(x.ravel(), minlength=int(start[-1]))
            bounds = itertools.pairwise(start)
            commonest = np.array([a + counts[a:b].argmax() for a, b in bounds], np.int64)
        rare = (x != commonest[:, None]).T
        head = np.append(0, np.cumsum(rare.sum(axis=1))).astype(np.uint64)
        return cls(x, start, named, commonest, x.T[rare], head)


def places(codes: npt.NDArray[Any], start: Ints) -> Places:
    """Places of columns × rows of codes; what is missing is in the column's last."""
    own = np.where(codes < 0, np.diff(start)[:, None] - 1, codes)
    return np.ascontiguousarray(own + start[:-1, None], np.uint32)


@dataclass(frozen=True, eq=False)
class Grower:
    """What all trees of a fit have in common, and arrays that each of them works in.

    Attributes:
        cells: all rows.
        rows: those that trees are grown on.
        limits: of a tree.
        work: arrays that the kernel works in.
        at: leaf of each row of ``rows`` in the last tree, in the order of all rows.
    """

    cells: Cells
    rows: Slots
    limits: Limits
    work: tuple[Any, ...]
    at: Ints

    @classmethod
    def of(cls, cells: Cells, rows: Ints, n_leaves: int, limits: Limits) -> Grower:
        n_places = int(cells.start[-1])
        work = (
            *np.empty((2, len(rows)), np.uint32),
            np.empty((n_leaves, n_places + 1, 3)),
            np.empty((n_leaves, n_places), np.bool_),
            np.empty(n_places, np.uint32),
            np.empty(n_places),
            np.empty((n_leaves, 3), np.int64),
            np.empty(n_leaves),
        )
        return cls(
            cells, rows.astype(np.uint32), limits, work, np.empty(cells.x.shape[1], np.int64)
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Leaves of a tree, and columns."""
        return len(self.work[-1]), len(self.cells.named)

    def grow(self, slope: Floats, bend: Floats, drawn: Floats) -> Trees:
        """A tree of a step up the slope.

        Args:
            slope, bend: first derivative of what is to be raised, and curvature, of each row.
            drawn: leaf × column; a leaf may be divided by columns with a number below one half, and
                by the one with the least.
        """
        from fairpc.learners._kernels import grow

        n = self.shape[0]
        made = Trees(
            np.full((n - 1, 2), -1, np.int64),
            np.zeros((n - 1, int(self.cells.start[-1])), np.bool_),
            np.zeros(n),
        )
        grow(
            tuple(self.cells),
            self.rows,
            slope,
            bend,
            drawn,
            tuple(map(float, self.limits)),  # of one type, so that one kernel is compiled for all
            self.work,
            *made,
            self.at,
        )
        return made
