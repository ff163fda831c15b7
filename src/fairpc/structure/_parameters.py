"""Parameters of a deterministic circuit from counts: Laplace smoothing, or shrinkage.

Both are the mean of a Dirichlet posterior: a sum with counts c (Equation 1 of
the paper) gets (c + strength · base) / (Σc + strength).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from fairpc.circuit import Vtree
from fairpc.core import Codes, Floats, Int32s, Ints, check_choice, check_number
from fairpc.structure._compile import Skeleton
from fairpc.structure._trees import Tree, offsets

Base = Literal["uniform", "marginal"]
BASES: Final = ("uniform", "marginal")


@dataclass(frozen=True)
class Smoothing:
    """The prior of every sum node.

    Attributes:
        strength: prior rows per sum node; 0 for maximum likelihood.
        base: what they are spread by. "uniform": evenly over the children, Laplace
            smoothing with (count + α/k) / (total + α). "marginal": by the probability
            that each child's values have in the cell if its variables were independent.
    """

    strength: float = 1.0
    base: Base = "uniform"

    def __post_init__(self) -> None:
        check_number("strength", self.strength, 0.0)
        check_choice("base", self.base, BASES)


@dataclass(frozen=True, eq=False)
class LearnedCell:
    """The circuit of a cell: its skeleton, and per edge the weight of rows, prior and parameter."""

    vtree: Vtree
    skeleton: Skeleton
    counts: Floats
    priors: Floats
    weights: Floats

    def with_counts(self, counts: Floats, smoothing: Smoothing) -> LearnedCell:
        """The same circuit with parameters from other counts."""
        weights = posterior_mean(counts, self.priors, self.skeleton.first, smoothing.strength)
        return LearnedCell(self.vtree, self.skeleton, counts, self.priors, weights)


def posterior_mean(counts: Floats, priors: Floats, first: Int32s, strength: float) -> Floats:
    """Weights of consecutive edges, from the counts and priors of each node's edges.

    ``first`` is the first edge of each node. A node without counts and without
    prior rows is uniform.
    """
    if not len(first):
        return np.zeros(0)
    sizes = np.diff(np.append(first, len(counts)))
    mass = np.add.reduceat(priors, first)
    uniform = np.repeat(1.0 / sizes, sizes)
    base = np.where(
        np.repeat(mass > 0, sizes),
        priors / np.repeat(np.where(mass > 0, mass, 1.0), sizes),
        uniform,
    )
    raw = counts + strength * base
    totals = np.repeat(np.add.reduceat(raw, first), sizes)
    return np.where(totals > 0, raw / np.where(totals > 0, totals, 1.0), uniform)


def cell_marginals(codes: Codes, weights: Floats, start: Ints) -> Floats:
    """Stacked distributions of single variables, each with one prior row spread evenly.

    The prior row keeps a value that the cell never shows possible.
    """
    result = np.empty(int(start[-1]))
    for x, column in enumerate(codes):
        k = int(start[x + 1] - start[x])
        count = np.bincount(column, weights=weights, minlength=k) + 1.0 / k
        result[start[x] : start[x + 1]] = count / count.sum()
    return result


def tree_counts(
    skeleton: Skeleton, tree: Tree, vtree: Vtree, arities: Ints, counts: Floats
) -> Floats:
    """Counts of the edges of a compiled tree from pairwise counts, which may leave out holes.

    Edge v of the j-th sum above variable x counts the rows with x = v whose parent
    has value j: each parameter uses all rows in which its two variables are observed.
    """
    start = offsets(arities)
    top = vtree.variable.copy()
    for v in np.flatnonzero(top < 0).tolist():
        top[v] = top[vtree.left[v]]
    result = np.zeros(len(skeleton.left))
    seen: dict[int, int] = {}
    for n in range(int(start[-1]), len(skeleton.vnode)):
        v = int(skeleton.vnode[n])
        j = seen[v] = seen.get(v, -1) + 1
        x, first, k = int(top[v]), int(skeleton.first[n]), int(skeleton.size[n])
        if k == 1:
            continue
        values = np.arange(start[x], start[x] + k)
        parent = int(tree.parent[x])
        above = values if parent < 0 else np.full(k, start[parent] + j)
        result[first : first + k] = counts[above, values]
    return result
