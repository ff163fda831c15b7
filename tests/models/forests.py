"""Random small forests for the tests, their boxes cut by random trees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fairpc.core import Bools, Floats
from fairpc.models import Forest, ForestDistribution
from fairpc.models._fair_layers import Layout
from fairpc.models._top_em import TopRates

Box = list[list[bool]]


@dataclass(frozen=True)
class Sizes:
    """How large a random forest is."""

    arities: tuple[int, ...]
    n_groups: int = 2
    n_classes: int = 2
    n_trees: int = 2
    n_clusters: int = 2
    n_leaves: int = 4


def cut(rnd: Random, box: Box) -> tuple[Box, Box] | None:
    """Two boxes of one: the values of a feature are split at random, of no order."""
    wide = [j for j, side in enumerate(box) if sum(side) > 1]
    if not wide:
        return None
    j = rnd.choice(wide)
    values = [v for v, inside in enumerate(box[j]) if inside]
    rnd.shuffle(values)
    left = set(values[: rnd.randrange(1, len(values))])
    right = set(values) - left
    first, second = (
        [[v in here for v in range(len(side))] if k == j else side for k, side in enumerate(box)]
        for here in (left, right)
    )
    return first, second


def leaves_of(rnd: Random, sizes: Sizes) -> list[Box]:
    """The leaves of a random tree: disjoint boxes that hold every x."""
    leaves: list[Box] = [[[True] * a for a in sizes.arities]]
    while len(leaves) < min(sizes.n_leaves, math.prod(sizes.arities)):
        at = rnd.randrange(len(leaves))
        halves = cut(rnd, leaves[at])
        if halves is not None:
            leaves[at : at + 1] = halves
    return leaves


def shares(rnd: Random, shape: tuple[int, ...], zeros: float) -> Floats:
    """Random distributions along the last axis, some probabilities zero."""
    p = np.array([rnd.random() + 0.05 for _ in range(int(np.prod(shape)))]).reshape(shape)
    gone = np.array([rnd.random() < zeros for _ in range(p.size)]).reshape(shape)
    gone[..., rnd.randrange(shape[-1])] = False
    p = np.where(gone, 0.0, p)
    result: Floats = p / p.sum(axis=-1, keepdims=True)
    return result


def random_forest(rnd: Random, sizes: Sizes, zeros: float = 0.0) -> ForestDistribution:
    """A forest of random trees; with ``zeros``, rates of leaves and classes may be zero."""
    trees = [leaves_of(rnd, sizes) for _ in range(sizes.n_trees)]
    tree = np.concatenate([np.full(len(leaves), k) for k, leaves in enumerate(trees)])
    flat = [leaf for leaves in trees for leaf in leaves]
    allowed: tuple[Bools, ...] = tuple(
        np.array([leaf[j] for leaf in flat], np.bool_) for j in range(len(sizes.arities))
    )
    top = sizes.n_groups, sizes.n_classes
    rate = np.concatenate([shares(rnd, (*top, len(leaves)), zeros) for leaves in trees], axis=2)
    values = tuple(
        positive(rnd, (*top, sizes.n_clusters, a), zeros, box)
        for a, box in zip(sizes.arities, allowed, strict=True)
    )
    forest = Forest(tree, allowed, shares(rnd, (*top, sizes.n_clusters), 0.0), values, rate)
    names = tuple(f"X{j}" for j in range(len(sizes.arities)))
    layout = Layout(*top, names, sizes.arities, "FairPC")
    rates = TopRates(
        shares(rnd, top[:1], 0.0), shares(rnd, top[1:], 0.0), shares(rnd, (*top, top[1]), zeros)
    )
    return ForestDistribution(layout, forest, rates)


def positive(rnd: Random, shape: tuple[int, ...], zeros: float, boxes: Bools) -> Floats:
    """P(x_j | c, f, s), zeros only where every box keeps a value of positive probability."""
    p = shares(rnd, shape, zeros)
    every = np.einsum("gfcv,lv->gfcl", p, boxes) > 0
    return p if every.all() else shares(rnd, shape, 0.0)


@st.composite
def forests(draw: st.DrawFn) -> ForestDistribution:
    sizes = Sizes(
        tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))),
        n_groups=draw(st.integers(2, 3)),
        n_classes=draw(st.integers(2, 3)),
        n_trees=draw(st.integers(1, 3)),
        n_clusters=draw(st.integers(1, 3)),
        n_leaves=draw(st.integers(1, 6)),
    )
    zeros = draw(st.sampled_from([0.0, 0.3]))
    return random_forest(draw(st.randoms(use_true_random=False)), sizes, zeros)


def same(one: Any, two: Any) -> bool:
    """Whether two fitted models agree in every bit of what was learned."""
    ours, theirs = one.history_, two.history_
    return (
        np.array_equal(one.circuit_.parameters, two.circuit_.parameters)
        and np.array_equal(one.circuit_.graph.child, two.circuit_.graph.child)
        and np.array_equal(one.label_counts_, two.label_counts_)
        and set(ours) == set(theirs)
        and all(np.array_equal(ours[k], theirs[k], equal_nan=True) for k in ours)
    )
