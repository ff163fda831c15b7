"""The paper's synthetic data: a known fair label, altered by a known mechanism (Section 4.2).

P(Df = 1) = .5, P(S = 1) = .3, P(D = 1 | Df, S) = .8 .9 .1 .4 for (1,1) (1,0) (0,1)
(0,0), and in each cell (Df, S) a random tree distribution over X.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from fairpc.core import LearningError, check_choice, counted
from fairpc.datasets import _record as record
from fairpc.datasets._record import FrameKind, Notes, Provenance, TruthDataset

if TYPE_CHECKING:
    from fairpc.circuit import Circuit, CircuitBuilder

TreeChoice = Literal["cell", "shared"]

FAIR_RATE = 0.5
"""P(Df = 1)."""
GROUP_RATE = 0.3
"""P(S = 1); S = 1 is the minority."""
MECHANISM = ((0.4, 0.9), (0.1, 0.8))
"""P(D = 1 | Df = f, S = s), indexed [s][f]."""

_PROVENANCE = Provenance(
    source="drawn by fairpc.datasets.make_synthetic",
    url="",
    licence="none needed: random numbers",
    attribution=(
        "Y. Choi, M. Dang and G. Van den Broeck, Group Fairness by Probabilistic Modeling with "
        "Latent Fair Decisions, AAAI 2021, Section 'Synthetic Data'"
    ),
)
_TRAPS = (
    "Df is the answer: it is there to judge with, never to learn from.",
    "The paper's own synthetic tables are other draws: averages compare, single numbers do not.",
)


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticDataset(TruthDataset):
    """A drawn table, with the truth behind it."""

    model: Circuit = field(kw_only=True)  #: what rows were drawn from, over S, Df, D, X1 … XN


@dataclass(frozen=True)
class _DrawnTree:
    """A tree distribution: children of each variable, and P(X_i = 1 | parent = v) as [i][v]."""

    root: int
    children: tuple[tuple[int, ...], ...]
    probability: npt.NDArray[np.float64]


def make_synthetic(
    n_features: int = 10,
    n_samples: int = 10_000,
    random_state: int | np.random.Generator | None = None,
    *,
    trees: TreeChoice = "cell",
    smoothing: float = 0.1,
    as_frame: FrameKind = "polars",
) -> SyntheticDataset:
    """Draw a true distribution, then rows from it (paper, Section "Synthetic Data").

    Args:
        n_features: number of binary features X1 … XN.
        n_samples: number of rows.
        random_state: seed, or a generator to draw from.
        trees: a random tree of its own in every cell (Df, S), or one "shared" by
            the four cells, with parameters of their own (the paper's published
            tables look like that).
        smoothing: Laplace smoothing α of the random parameters
            (u1 + α/2) / (u0 + u1 + α) with u0, u1 uniform; .1 gives the spread of
            the paper's published tables.
        as_frame: kind of the frames in the result.
    """
    check_choice("trees", trees, get_args(TreeChoice))
    for name, value in (("n_features", n_features), ("n_samples", n_samples)):
        if value < 1:
            raise LearningError(f"{name} is {value}: draw at least one")
    if not smoothing >= 0:
        raise LearningError(f"smoothing is {smoothing}: use 0 or more")
    rng = np.random.default_rng(random_state)
    model = _true_model(_random_trees(n_features, trees, smoothing, rng))
    codes = model.sample(n_samples, rng)
    drawn = pl.DataFrame(codes.astype(np.int64), schema=list(model.names))
    features = tuple(f"X{i + 1}" for i in range(n_features))
    frame = drawn.select("S", *features, "D", "Df")
    columns = {
        "S": "the sensitive attribute: 1 = minority",
        **dict.fromkeys(features, "a binary feature"),
        "D": "the observed, biased label",
        "Df": "the true fair label, independent of S",
    }
    return SyntheticDataset(
        "synthetic",
        f"{n_features} features",
        **record.cut(frame, as_frame, "D", "S", features),
        positive=1,
        persons=None,
        provenance=_PROVENANCE,
        notes=Notes(
            f"{counted(n_samples, 'row')} drawn from a random fair distribution over "
            f"{counted(n_features, 'binary feature')}. The label D is a noisy copy of the fair "
            "label Df, noisier against S = 1.",
            MappingProxyType(columns),
            _TRAPS,
        ),
        df=record.as_kind(frame["Df"], as_frame),
        model=model,
    )


def _random_trees(
    n: int, trees: TreeChoice, smoothing: float, rng: np.random.Generator
) -> list[list[_DrawnTree]]:
    """A tree distribution per cell, indexed [s][f]."""
    shared = _random_parents(n, rng)

    def draw() -> _DrawnTree:
        root, children = shared if trees == "shared" else _random_parents(n, rng)
        u = rng.random((n, 2, 2)) + smoothing / 2
        return _DrawnTree(root, children, u[:, :, 1] / u.sum(axis=2))

    return [[draw() for _ in range(2)] for _ in range(2)]


def _random_parents(n: int, rng: np.random.Generator) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """A random recursive tree on randomly ordered variables: its root, and children of each."""
    order = rng.permutation(n).tolist()
    children: list[list[int]] = [[] for _ in range(n)]
    for position in range(1, n):
        children[order[int(rng.integers(position))]].append(order[position])
    return order[0], tuple(tuple(c) for c in children)


def _true_model(cells: list[list[_DrawnTree]]) -> Circuit:
    """P(s) P(f) P(d | f, s) P(x | f, s); P(f) is one tied parameter block (Df ⟂ S)."""
    from fairpc.circuit import CircuitBuilder

    n = len(cells[0][0].children)
    builder = CircuitBuilder(dict.fromkeys(["S", "Df", "D", *(f"X{i + 1}" for i in range(n))], 2))
    groups = []
    for s in range(2):
        decisions = [
            builder.product(
                builder.indicator("Df", f),
                builder.categorical("D", [1 - MECHANISM[s][f], MECHANISM[s][f]]),
                _compile(builder, cells[s][f]),
            )
            for f in range(2)
        ]
        fair = builder.sum(decisions, [1 - FAIR_RATE, FAIR_RATE], tie="Df")
        groups.append(builder.product(builder.indicator("S", s), fair))
    return builder.build(builder.sum(groups, [1 - GROUP_RATE, GROUP_RATE]))


def _compile(builder: CircuitBuilder, tree: _DrawnTree) -> int:
    """Node of a tree distribution: children first, so that deep trees need no recursion."""
    order = [tree.root]
    for i in order:
        order.extend(tree.children[i])
    node: dict[tuple[int, int], int] = {}
    for i in reversed(order):
        below = [
            builder.product(
                builder.indicator(f"X{i + 1}", v), *(node[c, v] for c in tree.children[i])
            )
            for v in range(2)
        ]
        for parent_value in range(2):
            p = float(tree.probability[i, parent_value])
            node[i, parent_value] = builder.sum(below, [1 - p, p])
    return node[tree.root, 0]
