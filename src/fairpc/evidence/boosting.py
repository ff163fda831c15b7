"""Gradient boosting by histograms, several fits on the same rows at once.

Fits differ only in how often each row counts, so that one product of a sparse matrix, which says
who has which value, sums the gradients of all. The trees are those of scikit-learn's
``HistGradientBoostingClassifier`` with the constants below. The test of the assumptions needs
hundreds of fits, for each of which scikit-learn bins all columns anew, levels of a category one
by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.errors.arrays import Floats, Positions

Places = npt.NDArray[np.uint8]
"""Place of each value among those of its column, [column, row]."""

BINS: Final = 32
BIN_ROWS: Final = 20_000
"""Values of a column that are told apart, about; rows among which they are looked for."""
ROUNDS: Final = 24
RATE: Final = 0.25
LEAVES: Final = 8
SHRINKING: Final = 5.0
LEAST: Final = 1e-3
"""Trees, the share of each that is taken, leaves of a tree, the curvature that is added to that of
a leaf, and the least that a leaf has. Rows are merged, so leaves are held back by what they weigh
and not by a number of rows."""


def places(rows: Floats) -> Places:
    """Columns by the place of each value, or of the quantile that it is up to if values are many.

    Labels are not looked at. The least and the largest value have places of their own: a rare
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


@dataclass(frozen=True, eq=False)
class Cells:
    """Who has which value; a cell is one place of one column, cells lie column by column.

    Attributes:
        members: sparse, cells × rows: 1 for the rows of a cell, but nobody in the commonest cell of
            each column, whose sums are what the others leave.
        first: first cell of each column.
        commonest: commonest cell of each column.
        last: last cell of each column.
        sizes: cells of each column.
        column, place: of each cell.
    """

    members: Any
    first: Positions
    commonest: Positions
    last: Positions
    sizes: Positions
    column: Positions
    place: Places

    @classmethod
    def of(cls, codes: Places) -> Cells:
        from scipy.sparse import csr_array

        counts = [np.bincount(column) for column in codes]
        sizes = np.array([len(n) for n in counts])
        first = np.cumsum(sizes) - sizes
        commonest = first + [int(n.argmax()) for n in counts]
        members = []
        for column, most in zip(codes, commonest - first, strict=True):
            rows = np.flatnonzero(column != most)
            members.append(rows[np.argsort(column[rows], kind="stable")])
        listed = np.concatenate(counts)
        listed[commonest] = 0
        ends = np.append(0, np.cumsum(listed))
        shape = len(listed), codes.shape[1]
        ones = np.ones(int(ends[-1]))
        matrix = csr_array((ones, np.concatenate(members), ends), shape=shape)
        column = np.repeat(np.arange(len(sizes)), sizes)
        place = np.arange(len(column)) - first[column]
        return cls(
            matrix, first, commonest, first + sizes - 1, sizes, column, place.astype(np.uint8)
        )

    def sums(self, weights: Floats, totals: Floats) -> Floats:
        """Per cell the sum over its rows of weights [row, …], whose totals are given."""
        found: Floats = self.members @ weights.reshape(len(weights), -1)
        found[self.commonest] = totals.ravel() - np.add.reduceat(found, self.first, axis=0)
        return found.reshape(-1, *totals.shape)

    def up_to(self, sums: Floats) -> Floats:
        """Per cell the sum over the cells of its column up to it."""
        found = np.cumsum(sums, axis=0)
        before = found[self.first] - sums[self.first]
        return np.asarray(found - np.repeat(before, self.sizes, axis=0), np.float64)


@dataclass(frozen=True, eq=False)
class Trees:
    """One tree of each fit: how leaf 0 is divided again and again, each time into one leaf more.

    Attributes:
        leaves, columns, cuts: of each division, [tree, division]: the leaf, and the column and the
            last place of it that stay in this leaf; the other rows make the next one.
        values: of the leaves, [tree, leaf].
    """

    leaves: Positions
    columns: Positions
    cuts: Places
    values: Floats

    def of(self, codes: Places) -> Floats:
        """What the trees say of rows, [tree, row]."""
        at = np.zeros((len(self.values), codes.shape[1]), np.uint8)
        each = zip(self.leaves.T, self.columns.T, self.cuts.T, strict=True)
        for new, division in enumerate(each, 1):
            _divide(at, codes, new, *division)
        return np.stack([own[leaf] for own, leaf in zip(self.values, at, strict=True)])


def _divide(
    at: Places, codes: Places, new: int, leaves: Positions, columns: Positions, cuts: Places
) -> None:
    """Move rows of a leaf of each tree that are beyond a cut into a new leaf, in place."""
    for own, leaf, j, cut in zip(at, leaves.tolist(), columns.tolist(), cuts, strict=True):
        np.putmask(own, (own == leaf) & (codes[j] > cut), new)


def boosted(codes: Places, counts: Sequence[Floats]) -> list[Floats]:
    """P(class | row) for every row; a fit for each [row, class] of counts, by itself.

    Every class must have counts in every fit.
    """
    given = np.stack(counts)
    learned = np.flatnonzero(given.any(axis=(0, 2)))
    # Rows that count nowhere change no sum; they are left behind where they are many.
    few = 2 * len(learned) < codes.shape[1]
    own = codes[:, learned] if few else codes
    given = given[:, learned] if few else given
    n_trees = 1 if given.shape[2] == 2 else given.shape[2]
    hits = np.ascontiguousarray(given[:, :, -n_trees:].transpose(0, 2, 1))
    total = given.sum(axis=2)[:, None]
    share = hits.sum(axis=2) / total.sum(axis=2)
    start = np.log(share / (1 - share) if n_trees == 1 else share)[:, :, None]
    margin, said = (np.repeat(start, some.shape[1], axis=2) for some in (own, codes))
    cells = Cells.of(own)
    for _ in range(ROUNDS):
        p = _shares(margin)
        slopes, bends = total * p - hits, total * p * (1 - p)
        trees = _grown(own, cells, *(a.reshape(-1, a.shape[2]) for a in (slopes, bends)))
        margin += trees.of(own).reshape(margin.shape)
        if few:
            said += trees.of(codes).reshape(said.shape)
    found = _shares(said if few else margin)
    if n_trees == 1:
        found = np.concatenate([1 - found, found], axis=1)
    return [each.T for each in found]


def _shares(margin: Floats) -> Floats:
    """Probabilities, [fit, class, row]: of the second class of two, or of each."""
    if margin.shape[1] == 1:
        small = np.exp(-np.abs(margin))
        return np.asarray(np.where(margin >= 0, 1.0, small) / (1 + small), np.float64)
    likely = np.exp(margin - margin.max(axis=1, keepdims=True))
    return np.asarray(likely / likely.sum(axis=1, keepdims=True), np.float64)


def _grown(codes: Places, cells: Cells, slopes: Floats, bends: Floats) -> Trees:
    """A tree of each fit, from the first two derivatives of its loss, [tree, row].

    The leaf whose division gains most is divided next. Sums are of both derivatives, one after the
    other, in each tree; those beyond a cut are what is left of the leaf's.
    """
    n = len(slopes)
    each, at = np.arange(n), np.zeros(slopes.shape, np.uint8)
    totals, lefts = np.zeros((2, n, LEAVES)), np.zeros((2, n, LEAVES))
    totals[:, :, 0] = slopes.sum(axis=1), bends.sum(axis=1)
    best, gains = np.zeros((n, LEAVES), np.intp), np.full((n, LEAVES), -np.inf)
    sums = np.zeros((LEAVES, len(cells.column), 2, n))
    sums[0] = cells.sums(_within(slopes, bends, at, each * 0), totals[:, :, 0])
    made: tuple[Positions, ...] = (each * 0,)
    divisions = []
    for new in range(1, LEAVES):
        for leaf in made:
            found = _best_cuts(cells, _of_leaves(sums, leaf), totals[:, each, leaf])
            best[each, leaf], gains[each, leaf], lefts[:, each, leaf] = found
        old = gains.argmax(axis=1)
        cell, gained = best[each, old], gains[each, old] > 0
        # Where nothing is gained, no row is beyond the cut.
        cut = np.where(gained, cells.place[cell], np.uint8(255))
        divisions.append((old, cells.column[cell], cut))
        _divide(at, codes, new, *divisions[-1])
        kept = np.where(gained, lefts[:, each, old], totals[:, each, old])
        totals[:, :, new] = totals[:, each, old] - kept
        totals[:, each, old] = kept
        if new + 1 < LEAVES:
            inside = cells.sums(_within(slopes, bends, at, old), kept)
            sums[new] = _of_leaves(sums, old) - inside
            for t, leaf in enumerate(old.tolist()):
                sums[leaf, :, :, t] = inside[:, :, t]
            made = old, each * 0 + new
    values = -RATE * totals[0] / (totals[1] + SHRINKING)
    leaves, columns, cuts = (np.stack(parts, axis=1) for parts in zip(*divisions, strict=True))
    return Trees(leaves, columns, cuts, values)


def _of_leaves(sums: Floats, leaves: Positions) -> Floats:
    """The sums of one leaf of each tree, of those of all leaves."""
    return np.stack([sums[leaf, :, :, t] for t, leaf in enumerate(leaves.tolist())], axis=2)


def _within(slopes: Floats, bends: Floats, at: Places, leaves: Positions) -> Floats:
    """Both derivatives in a leaf of each tree, zero elsewhere, [row, derivative, tree]."""
    found = np.empty((slopes.shape[1], 2, len(slopes)))
    for t, leaf in enumerate(leaves.tolist()):
        here = at[t] == leaf
        np.multiply(slopes[t], here, out=found[:, 0, t])
        np.multiply(bends[t], here, out=found[:, 1, t])
    return found


def _best_cuts(cells: Cells, sums: Floats, totals: Floats) -> tuple[Positions, Floats, Floats]:
    """Per tree the cell after which to cut a leaf, what is gained, and the sums up to there."""
    lefts = cells.up_to(sums)
    rest = totals - lefts
    gain = _worth(lefts) + _worth(rest)
    gain[np.minimum(lefts[:, 1], rest[:, 1]) < LEAST] = -np.inf
    gain[cells.last] = -np.inf
    best, each = gain.argmax(axis=0), np.arange(len(totals[0]))
    return best, gain[best, each] - _worth(totals[None])[0], lefts[best, :, each].T


def _worth(sums: Floats) -> Floats:
    """By how much a value of their own lowers the loss of rows, twice."""
    return np.asarray(sums[:, 0] ** 2 / (sums[:, 1] + SHRINKING), np.float64)
