"""Boosted trees, grown from histograms of codes by the derivatives of a loss.

The leaf whose division gains most is divided next, as in scikit-learn's
``HistGradientBoostingClassifier``, which takes no loss of one's own and bins all columns anew for
each fit. Two losses are lowered here: that of counts of classes, for the test of the assumptions,
whose hundreds of fits on the same rows differ only in how often each row counts; and that of
labels that a known mechanism has altered (see ``_linear``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairpc.core import Bools, Codes, Floats, Ints, Slots, Words
from fairpc.learners._linear import AlteredLabels, class_shares

# Numbers that index arrays have no sign: looking at signs takes a quarter of a tree's time.
Places = Slots
Bins = npt.NDArray[np.uint8]
"""Bin of each value among those of its column, [column, row]."""

BINS: Final = 32
BIN_ROWS: Final = 20_000
"""Values of a column that are kept apart, about; rows among which they are looked for."""
COMBINED_ROWS: Final = 64
"""Rows for each combination of the values of columns that are put together, on average."""
COUNT_ROUNDS: Final = 24
COUNT_RATE: Final = 0.25
COUNT_LEAVES: Final = 8
SHRINKING: Final = 5.0
LEAST_HESSIAN: Final = 1e-3
"""Of counts: trees, the share of each that is taken, leaves of a tree, what is added to the
Hessian of a leaf, and the least that a leaf has. Rows are merged, so leaves are held back by what
they weigh and not by a number of rows."""
RATE: Final = 0.15
LEAVES: Final = (8, 16)
LARGE: Final = 20_000
"""Of altered labels: the share of a step that is taken; leaves of a tree: few, because such labels
are noisy; more from so many rows on."""
EARLY_ROWS: Final = 1000
EARLY_SHARE: Final = 0.125
ROUNDS: Final = (40, 300)
LEAF_ROWS: Final = (10, 40)
PATIENCE: Final = 10
"""Rows from which some are held out to say when to stop, and their share; rounds, and the fewest
rows of a leaf, with fewer rows and with more; and the rounds without a gain that end boosting."""


class TreeLimits(NamedTuple):
    """Of a tree: fewest rows of a leaf, its least Hessian, what is added to that, and the share of
    a step that is taken."""

    rows: float
    hessian: float
    shrinking: float
    rate: float


class Divisions(NamedTuple):
    """A tree: how leaf 0 is divided again and again, each time into one leaf more; of several
    trees, arrays have one axis more, the first.

    Attributes:
        divided: leaf and column of each division, divisions × 2; leaf -1 where there is none.
        stays: whether each place stays in its leaf, divisions × places; other rows make the next.
        values: step of each leaf.
    """

    divided: Ints
    stays: Bools
    values: Floats

    def add_to(self, odds: Floats, x: Places, start: Ints) -> None:
        """Add what several trees say of rows to their odds, in place."""
        from fairpc.learners._kernels import add_trees

        add_trees(x, start, *self, odds)


def stacked(trees: Sequence[Divisions]) -> Divisions:
    """Several trees as one record."""
    return Divisions(*(np.stack(parts) for parts in zip(*trees, strict=True)))


class Cells(NamedTuple):
    """Who has which value, as kernels take it.

    A *place* is one value of one column; places of all columns are numbered one after the other,
    and each column has one more for what is missing. Columns are put together as long as rows have
    few *combinations* of their places, so that a row is added to fewer sums.

    Attributes:
        x: place of each value, columns × rows.
        start: first place of each column, and the number of places.
        named: whether the places of a column have no order.
        listed: the combinations that each row has, one of each bundle of columns.
        head: where the places of each combination begin in ``parts``, and their number.
        parts: the places of each combination.
    """

    x: Places
    start: Ints
    named: Bools
    listed: Places
    head: Words
    parts: Places

    @classmethod
    def of(cls, codes: npt.NDArray[Any], arities: Ints, named: Bools) -> Cells:
        """Of columns × rows of codes, -1 where they are missing."""
        start = np.append(0, np.cumsum(arities + 1))
        x = places(codes, start)
        listed, sizes, parts, n = [], [np.zeros(1, np.int64)], [], 0
        for columns, own, rows in _bundles(x, start):
            of_each = x[columns][:, rows].T
            listed.append((own + n).astype(np.uint32))
            sizes.append(np.full(*of_each.shape))
            parts.append(of_each.ravel())
            n += len(rows)
        head = np.cumsum(np.concatenate(sizes)).astype(np.uint64)
        return cls(x, start, named, np.stack(listed, axis=1), head, np.concatenate(parts))


def _bundles(x: Places, start: Ints) -> Iterator[tuple[slice, Ints, Ints]]:
    """Neighbouring columns, the combination of each row, and a row with each combination."""
    n_rows = x.shape[1]
    first, own, rows = 0, np.zeros(n_rows, np.int64), np.zeros(1, np.int64)
    for j, (size, column) in enumerate(zip(np.diff(start), x - start[:-1, None], strict=True)):
        few = len(rows) * size <= n_rows
        joined = _numbered(own * size + column, len(rows) * size) if few else None
        if j and (joined is None or len(joined[1]) > n_rows // COMBINED_ROWS):
            yield slice(first, j), own, rows
            first, joined = j, None
        own, rows = _numbered(column, size) if joined is None else joined
    yield slice(first, len(x)), own, rows


def _numbered(codes: Ints, size: int) -> tuple[Ints, Ints]:
    """Codes without those that do not occur, and where each occurs."""
    where = np.full(size, -1)
    where[codes] = np.arange(len(codes))
    occurs = where >= 0
    return (np.cumsum(occurs) - 1)[codes], where[occurs]


def places(codes: npt.NDArray[Any], start: Ints) -> Places:
    """Places of columns × rows of codes; what is missing is in the column's last."""
    own = np.where(codes < 0, np.diff(start)[:, None] - 1, codes)
    return np.ascontiguousarray(own + start[:-1, None], np.uint32)


def _wide(*shape: int) -> Floats:
    """Rows of four numbers; none lies in two lines of the processor's memory."""
    size = 4 * math.prod(shape)
    room = np.empty(size + 7)
    return room[-room.ctypes.data // 8 % 8 :][:size].reshape(*shape, 4)


@dataclass(frozen=True, eq=False)
class Grower:
    """What all trees of a fit have in common.

    Attributes:
        shape: leaves of a tree, and columns.
        n_places: of all columns.
        rows: those that trees are grown on.
        given: what the kernel takes first: cells, and these rows.
        work: what it takes after what a tree has of its own: limits, and arrays that it works in.
    """

    shape: tuple[int, int]
    n_places: int
    rows: Slots
    given: tuple[Any, ...]
    work: tuple[Any, ...]

    @classmethod
    def of(cls, cells: Cells, rows: Ints, n_leaves: int, limits: TreeLimits) -> Grower:
        n_places, own = int(cells.start[-1]), rows.astype(np.uint32)
        work = (
            *np.empty((2, len(rows)), np.uint32),
            _wide(len(cells.head) - 1),
            _wide(n_leaves, n_places + 1),
            np.empty((n_leaves, n_places), np.bool_),
            np.empty(n_places, np.uint32),
            np.empty(2 * n_places, np.int64),
            np.empty((4, 2 * n_places)),
            np.empty((n_leaves, 3), np.int64),
            np.empty(n_leaves),
        )
        # Limits of one type, so that one kernel is compiled for all.
        limited = tuple(map(float, limits)), work
        return cls((n_leaves, len(cells.named)), n_places, own, (tuple(cells), own), limited)

    def room(self, n_trees: int) -> Divisions:
        """Where so many trees are written."""
        n = self.shape[0]
        return Divisions(
            np.full((n_trees, n - 1, 2), -1, np.int64),
            np.zeros((n_trees, n - 1, self.n_places), np.bool_),
            np.zeros((n_trees, n)),
        )

    def grow(
        self,
        gradient: Floats,
        hessian: Floats,
        drawn: Floats,
        odds: Floats,
        made: Divisions | None = None,
    ) -> Divisions:
        """A tree of a step up the gradient.

        Args:
            gradient, hessian: of what is to be raised, of each row.
            drawn: leaf × column; a leaf may be divided by columns with a number below one half, and
                by the one with the least.
            odds: of each row, not logs; those that the tree is grown on take the step.
            made: where the tree is written, of a room.
        """
        from fairpc.learners._kernels import grow

        tree = next(map(Divisions, *self.room(1))) if made is None else made
        grow(*self.given, gradient, hessian, drawn, *self.work, *tree, odds)
        return tree


def binned(rows: Floats) -> Bins:
    """Columns by the bin of each value, or of the quantile that it is up to if values are many.

    Labels are not looked at. The least and the largest value have bins of their own: a rare
    level is not lost.
    """
    some = rows[:: max(len(rows) // BIN_ROWS, 1)]
    found = np.empty(rows.shape[::-1], np.uint8)
    for j, column in enumerate(np.sort(some, axis=0).T):
        edges = column[np.append(True, column[1:] != column[:-1])]
        if len(edges) > BINS:
            quantiles = column[np.arange(BINS) * (len(column) - 1) // BINS]
            edges = np.unique(np.append(quantiles, edges[-2:]))
        found[j] = np.searchsorted(edges, rows[:, j])
    return found


def bin_cells(codes: Bins) -> Cells:
    """The bins of all columns, which have an order, as trees take them."""
    sizes, ordered = codes.max(axis=1).astype(np.int64) + 1, np.zeros(len(codes), np.bool_)
    return Cells.of(codes, sizes, ordered)


def boosted_probabilities(rows: Cells, counts: Floats) -> Floats:
    """P(class | row) for every row, from [row, class] of counts, of which each class must have."""
    from fairpc.learners._kernels import count_gradients

    hits, total = np.ascontiguousarray(counts[:, 1]), counts.sum(axis=1)
    share = hits.sum() / total.sum()
    odds = np.full(len(counts), share / (1 - share))
    limits = TreeLimits(1.0, LEAST_HESSIAN, SHRINKING, COUNT_RATE)
    seen, unseen = np.flatnonzero(total), np.flatnonzero(total == 0)
    grower = Grower.of(rows, seen, COUNT_LEAVES, limits)
    every_column = np.zeros(grower.shape)
    trees = grower.room(COUNT_ROUNDS)
    gradient, hessian = np.empty_like(odds), np.empty_like(odds)
    for made in map(Divisions, *trees):
        count_gradients(grower.rows, odds, hits, total, gradient, hessian)
        grower.grow(gradient, hessian, every_column, odds, made)
    rest = np.log(odds[unseen])
    trees.add_to(rest, np.ascontiguousarray(rows.x[:, unseen]), rows.start)
    odds[unseen] = np.exp(rest)
    return np.stack([1.0 / (1.0 + odds), odds / (1.0 + odds)]).T


@dataclass(frozen=True, eq=False)
class BoostedOdds:
    """Boosted trees of the log odds of Df over codes.

    Attributes:
        start: first place of each column.
        base: log odds of all rows.
        trees: those that are added.
    """

    start: Ints
    base: float
    trees: Divisions

    @classmethod
    def learned(
        cls,
        codes: Codes,
        labels: AlteredLabels,
        arities: Ints,
        named: Bools,
        rng: np.random.Generator,
        n_rounds: int | None = None,
    ) -> BoostedOdds:
        """Learn from rows × columns of codes, -1 where they are missing; ``named`` columns have no
        order. Unless the number of rounds is known, an eighth of many rows says when to stop, and
        trees are grown on the others."""
        base, many = labels.start(), len(labels.d) >= EARLY_ROWS
        limits = TreeLimits(LEAF_ROWS[many], 0.0, SHRINKING, RATE)
        n_leaves, stops = LEAVES[len(codes) >= LARGE], many and n_rounds is None
        drawn = (rng.permutation(len(codes)) < EARLY_SHARE * len(codes)) & stops
        here, held = np.flatnonzero(~drawn), np.flatnonzero(drawn)
        cells = Cells.of(codes[here].T, arities, named)
        grower = Grower.of(cells, np.arange(len(here)), n_leaves, limits)
        rounds = _rounds(grower, labels.take(here), base, rng)
        if stops:
            x = places(codes[held].T, cells.start)
            tried = itertools.islice(rounds, ROUNDS[1])
            made = _best_rounds(tried, x, cells.start, labels.take(held), base)
        else:
            made = list(itertools.islice(rounds, n_rounds or ROUNDS[many]))
        return cls(cells.start, base, stacked(made))

    @property
    def n_rounds(self) -> int:
        return len(self.trees.values)

    def decided(self, codes: Codes) -> Floats:
        """P(Df = f | x) of rows × columns of codes."""
        odds = np.full(len(codes), self.base)
        self.trees.add_to(odds, places(codes.T, self.start), self.start)
        return class_shares(odds)


def _rounds(
    grower: Grower, labels: AlteredLabels, base: float, rng: np.random.Generator
) -> Iterator[Divisions]:
    """Round after round a tree, which moves the odds."""
    from fairpc.learners._kernels import corrected_gradients

    odds = np.full(len(labels.d), np.exp(base))
    gradient, hessian = np.empty_like(odds), np.empty_like(odds)
    while True:
        corrected_gradients(odds, *labels.given, gradient, hessian)
        yield grower.grow(gradient, hessian, rng.random(grower.shape), odds)


def _best_rounds(
    rounds: Iterator[Divisions], x: Places, start: Ints, held: AlteredLabels, base: float
) -> list[Divisions]:
    """The trees of the rounds after which held-out rows are predicted best."""
    from fairpc.learners._kernels import corrected_loss

    odds = np.full(x.shape[1], base)
    best, n_best = corrected_loss(np.exp(odds), *held.given), 0
    made = []
    for tree in rounds:
        made.append(tree)
        stacked([tree]).add_to(odds, x, start)
        loss = corrected_loss(np.exp(odds), *held.given)
        if loss < best:
            best, n_best = loss, len(made)
        elif len(made) - n_best >= PATIENCE:
            break
    return made[: max(n_best, 1)]
