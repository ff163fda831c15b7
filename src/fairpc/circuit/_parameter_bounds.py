"""Parameters of a circuit that must keep to limits, and the M-step within them.

Each parameter may have a least and a largest value. Blocks of two parameters may also be near each
other: by so much at most, and no more, the shares of a set of blocks differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fairpc.circuit._graph import Graph
from fairpc.core import CircuitError, Floats, Ints, Positions

SLACK: Final = 1e-9
"""How far sums of bounds may miss 1 by rounding."""
_NOTHING: Final = 1e-200
_HALVINGS: Final = 60
"""Of the range of a share: what is left is below what a float can tell."""


@dataclass(frozen=True, eq=False)
class Near:
    """Sets of blocks of two parameters whose shares may differ by ``distance`` at most.

    Attributes:
        first, second: positions of the two parameters of each block, [set, block].
        distance: between the least and the largest second parameter of a set.
    """

    first: Ints
    second: Ints
    distance: float


@dataclass(frozen=True, eq=False)
class Bounds:
    """Least and largest value of each parameter: a box in the simplex of each block.

    The M-step of such a block maximises Σ n_i log θ_i with lower ≤ θ ≤ upper and Σ θ = 1. By the
    conditions of Karush, Kuhn and Tucker θ_i = n_i · t where that lies within its bounds and the
    nearer bound where not, for one t per block: the sum grows with t along straight pieces, so t
    is found exactly.

    Attributes:
        lower, upper: one value per parameter.
        blocks: positions of the parameters of the blocks that are bound at all, an array
            (blocks, size) for each size of block.
        near: blocks that keep near each other, if any.
    """

    lower: Floats
    upper: Floats
    blocks: tuple[Ints, ...]
    near: Near | None = None

    @classmethod
    def of(
        cls,
        graph: Graph,
        lower: npt.ArrayLike,
        upper: npt.ArrayLike,
        near: Near | None = None,
    ) -> Bounds:
        """Checked bounds: in every block some parameters must be possible."""
        low, high = np.array(lower, np.float64), np.array(upper, np.float64)
        if not low.shape == high.shape == (graph.n_parameters,):
            raise CircuitError(
                f"the bounds have shapes {low.shape} and {high.shape}: give a lower and an upper "
                f"one for each of the {graph.n_parameters} parameters"
            )
        if not ((low >= 0) & (low <= high) & (high <= 1)).all():
            raise CircuitError("a bound lies outside 0 to 1 or above its upper one: order them")
        least = np.add.reduceat(low, graph.block_ptr[:-1])
        most = np.add.reduceat(high, graph.block_ptr[:-1])
        wrong = (least > 1 + SLACK) | (most < 1 - SLACK)
        if wrong.any():
            block = int(np.argmax(wrong))
            raise CircuitError(
                f"the bounds of parameter block {block} leave nothing that sums to 1: lower ones "
                "may sum to 1 at most, upper ones to 1 at least"
            )
        low.flags.writeable = high.flags.writeable = False
        return cls(low, high, _bound_blocks(graph, low, high), near)

    def imposed(self, theta: Floats, counts: Floats) -> Floats:
        """``theta`` with the best parameters for ``counts`` in the blocks that are bound.

        A block without counts is brought within its bounds from where it stands.
        """
        result = theta.copy()
        for block in self.blocks:
            n = counts[block]
            weights = np.where(n.sum(axis=-1, keepdims=True) > 0, n, theta[block])
            result[block] = filled(weights, self.lower[block], self.upper[block])
        if self.near is not None:
            first, second = self.near.first, self.near.second
            share = near_shares(
                counts[second],
                counts[second] + counts[first],
                self.near.distance,
                lower=np.maximum(self.lower[second], 1 - self.upper[first]),
                upper=np.minimum(self.upper[second], 1 - self.lower[first]),
                silent=result[second],
            )
            result[second], result[first] = share, 1 - share
        return result

    def within(self, theta: Floats) -> Floats:
        """``theta`` brought within the bounds."""
        return self.imposed(theta, theta)


def near_shares(
    hits: Floats,
    totals: Floats,
    distance: float,
    *,
    lower: Floats | float = 0.0,
    upper: Floats | float = 1.0,
    silent: Floats | float = 0.5,
) -> Floats:
    """Shares π that maximise Σ h log π + (n − h) log(1 − π) and differ by the distance at most.

    The sum is over the last axis. Each term alone has its maximum at h / n, within its bounds, and
    falls to both sides. So for a window from t to t + distance the best shares are these, cut by
    it, and what is left is concave in t: its derivative only falls, and halving finds its zero.

    Args:
        hits, totals: h and n; any numbers from 0 on.
        distance: between the least and the largest share.
        lower, upper: of each share.
        silent: the share where there are no counts, cut by the window of the others.
    """
    counted = totals > 0
    alone = np.divide(hits, totals, out=np.broadcast_to(silent, hits.shape).copy(), where=counted)
    alone = np.clip(alone, lower, upper)
    asked = np.where(counted.any(axis=-1, keepdims=True), counted, True)
    least = np.where(asked, alone, np.inf).min(axis=-1, keepdims=True)
    most = np.where(asked, alone, -np.inf).max(axis=-1, keepdims=True)
    ends = (np.broadcast_to(bound, alone.shape) for bound in (lower, upper))
    floor, ceiling = (
        of(end, axis=-1, keepdims=True) for of, end in zip((np.max, np.min), ends, strict=True)
    )
    # Where all fit into one window, it starts at the least of them.
    low = np.maximum(least, floor - distance)
    high = np.maximum(np.minimum(most - distance, ceiling), low)
    for _ in range(_HALVINGS if (high > low).any() else 0):
        t = (low + high) / 2
        rising = _derivative(hits, totals, alone, t, distance) > 0
        low, high = np.where(rising, t, low), np.where(rising, high, t)
    t = (low + high) / 2
    shares: Floats = np.clip(alone, t, t + distance)
    return shares


def _derivative(
    hits: Floats, totals: Floats, alone: Floats, start: Floats, distance: float
) -> Floats:
    """Of the sum, as the window moves: of the shares that its ends cut."""
    at = np.clip(alone, start, start + distance)
    slope = hits / np.maximum(at, _NOTHING) - (totals - hits) / np.maximum(1 - at, _NOTHING)
    moved = (alone < start) | (alone > start + distance)
    total: Floats = np.where(moved, slope, 0.0).sum(axis=-1, keepdims=True)
    return total


def filled(counts: Floats, lower: Floats, upper: Floats) -> Floats:
    """The maximum of Σ n log θ over lower ≤ θ ≤ upper, Σ θ = 1, along the last axis."""
    lower, upper = np.broadcast_arrays(lower, upper)[:2]
    top = counts.max(axis=-1, keepdims=True)
    n = np.where(counts > _NOTHING * top, counts / np.where(top > 0, top, 1.0), 0.0)
    divisor = np.where(n > 0, n, 1.0)
    turns = [np.where(n > 0, bound / divisor, 0.0) for bound in (lower, upper)]
    t = np.sort(np.concatenate(turns, axis=-1), axis=-1)
    at_turns = n[..., None, :] * t[..., None]
    sums = np.clip(at_turns, lower[..., None, :], upper[..., None, :]).sum(-1)
    theta = np.clip(n * _crossing(t, sums)[..., None], lower, upper)
    # What the parameters with counts cannot take goes to those without, as their bounds allow.
    room = np.where(n > 0, 0.0, upper - theta)
    total = room.sum(axis=-1, keepdims=True)
    left = np.maximum(1.0 - theta.sum(axis=-1, keepdims=True), 0.0)
    result: Floats = theta + room * np.minimum(left / np.where(total > 0, total, 1.0), 1.0)
    return result


def _crossing(t: Floats, sums: Floats) -> Floats:
    """Where a sum that grows along straight pieces reaches 1; its last turn if it never does."""
    reached = sums >= 1.0
    last = t.shape[-1] - 1
    j = np.where(reached.any(axis=-1), reached.argmax(axis=-1), last)
    before = np.maximum(j - 1, 0)

    def at(values: Floats, k: Positions) -> Floats:
        picked: Floats = np.take_along_axis(values, k[..., None], axis=-1)[..., 0]
        return picked

    low, high = at(sums, before), at(sums, j)
    share = np.where(high > low, (1.0 - low) / np.where(high > low, high - low, 1.0), 1.0)
    result: Floats = at(t, before) + np.clip(share, 0.0, 1.0) * (at(t, j) - at(t, before))
    return result


def _bound_blocks(graph: Graph, lower: Floats, upper: Floats) -> tuple[Ints, ...]:
    bound = (lower > 0) | (upper < 1)
    ids = np.unique(graph.parameter_block[bound])
    sizes = np.diff(graph.block_ptr)[ids]
    return tuple(
        graph.block_ptr[ids[sizes == size], None] + np.arange(size) for size in np.unique(sizes)
    )
