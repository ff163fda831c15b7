"""Bundles of boxes are boxes, and add up to what their boxes do, whatever is missing."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from exporting.scored import by_onnx, expected, model_of
from fairpc.core import Floats
from fairpc.data import Column
from fairpc.exporting._onnx_forest import BITS, Bundles, blocks
from fairpc.models import Forest, ForestDistribution
from fairpc.models._fair_layers import Layout
from fairpc.models._fair_rates import TopRates
from models.forests import Sizes, forests, random_forest
from strategies import examples

UNBOUNDED = 2**40


@st.composite
def deep_forests(draw: st.DrawFn) -> ForestDistribution:
    """With more boxes than a bundle can have; numbers so many that a seed is drawn for them."""
    sizes = Sizes(
        tuple(draw(st.lists(st.integers(2, 4), min_size=3, max_size=4))),
        n_leaves=draw(st.integers(9, 24)),
        n_clusters=draw(st.integers(1, 2)),
    )
    seed, zeros = draw(st.integers(0, 2**32)), draw(st.sampled_from([0.0, 0.3]))
    return random_forest(Random(seed), sizes, zeros)


def pinwheel() -> Forest:
    """Five boxes of a square of 3 × 3, no two of which are a box together: no tree cuts so."""
    corners = [([0, 1], [0]), ([2], [0, 1]), ([1, 2], [2]), ([0], [1, 2]), ([1], [1])]
    allowed = tuple(np.array([np.isin(range(3), box[j]) for box in corners]) for j in range(2))
    values = tuple(np.tile(p, (2, 2, 1, 1)) for p in ([0.2, 0.5, 0.3], [0.1, 0.3, 0.6]))
    rate = np.array([[[0.1, 0.2, 0.3, 0.1, 0.3]] * 2, [[0.3, 0.1, 0.2, 0.2, 0.2]] * 2])
    return Forest(np.zeros(5, int), allowed, np.ones((2, 2, 1)), values, rate)


def box_weights(forest: Forest) -> Floats:
    """P(l | f, s) ÷ P(box l | f, s) ÷ trees, by the definition; boxes × groups × classes."""
    nothing, weight = (-1,) * len(forest.allowed), forest.leaf_rate.transpose(2, 0, 1).copy()
    for i, s, f in np.ndindex(weight.shape):
        clusters = range(forest.n_clusters)
        weight[i, s, f] /= math.fsum(oracle.box_term(forest, s, f, c, i, nothing) for c in clusters)
    return weight / len(set(forest.tree.tolist()))


def by_boxes(forest: Forest, weight: Floats, x: tuple[int, ...]) -> Floats:
    """Σ_l w_l ∏_j P(x_j in box l | c, f, s) over boxes that hold a row and features it lacks."""
    result = np.zeros(forest.shares.shape)
    for i, of_box in enumerate(weight):
        if all(v < 0 or box[i, v] for v, box in zip(x, forest.allowed, strict=True)):
            term = np.repeat(of_box[:, :, None], forest.n_clusters, axis=2)
            for v, box, value in zip(x, forest.allowed, forest.values, strict=True):
                term *= value[..., box[i]].sum(axis=3) if v < 0 else 1.0
            result += term
    return result.reshape(len(result), -1)


def by_bundles(bundles: Bundles, x: tuple[int, ...]) -> Floats:
    """The same, of the byte of each bundle."""
    sums = bundles.sums()
    byte = np.bitwise_and.reduce([bundles.bytes_of(j)[v] for j, v in enumerate(x)])
    total = np.zeros(sums.shape[1:])
    for b, start in enumerate(bundles.start.tolist()):
        term = sums[start + int(byte[b])]
        for j, v in enumerate(x):
            of = bundles.sets[j]
            term = term * (of.mass[:, of.of_box[b]].reshape(term.shape) if v < 0 else 1.0)
        total += term
    return total


def check(forest: Forest, bundles: Bundles, rows: list[tuple[int, ...]]) -> None:
    assert sorted(bundles.boxes.tolist()) == list(range(len(forest.tree)))
    for b, node in enumerate(bundles.nodes):
        inside = [of.allowed[of.of_box[b]].sum() for of in bundles.sets]
        sizes = [[box[i].sum() for box in forest.allowed] for i in node.boxes]
        assert math.prod(inside) == sum(map(math.prod, sizes))
        narrow = [j for j, n in enumerate(inside) if n < forest.allowed[j].shape[1]]
        assert [j for j, _ in node.sides] == narrow
        assert len(set(forest.tree[node.boxes])) == 1
    weight = box_weights(forest)
    for x in rows:
        oracle.agree(by_bundles(bundles, x), by_boxes(forest, weight, x))


def all_rows(forest: Forest) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(-1, box.shape[1]) for box in forest.allowed)))


@settings(max_examples=examples(100), deadline=None)
@given(st.one_of(forests(), deep_forests()), st.sampled_from([0, 100, UNBOUNDED]), st.data())
def test_bundles_add_up_to_what_their_boxes_do(
    m: ForestDistribution, most_numbers: int, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.sampled_from(all_rows(m.forest)), min_size=1, max_size=12))
    check(m.forest, Bundles.of(m.forest, most_numbers), rows)


def test_boxes_that_no_tree_has_cut_stay_alone() -> None:
    forest = pinwheel()
    bundles = Bundles.of(forest, UNBOUNDED)
    assert [node.size for node in bundles.nodes] == [1] * 5
    check(forest, bundles, all_rows(forest))


def test_boxes_of_a_chain_are_in_full_bundles() -> None:
    """Twenty values cut off one by one: a tree of 20 boxes, at most 8 of them in a bundle."""
    forest = chain(20)
    sizes = [node.size for node in Bundles.of(forest, UNBOUNDED).nodes]
    assert sum(sizes) == 20
    assert max(sizes) == BITS
    most = 3 * 2**BITS * forest.shares.size
    assert sum(1 << n for n in sizes) * forest.shares.size <= most
    alone = Bundles.of(forest, 0)
    assert [node.size for node in alone.nodes] == [1] * 20


def chain(n: int, rare: float = 1.0) -> Forest:
    """A box for each value of one feature; the first value is that much rarer than the others."""
    p = np.array([rare, *[1.0] * (n - 1)])
    values = np.tile(p / p.sum(), (2, 2, 1, 1))
    rate = np.random.default_rng(n).dirichlet(np.ones(n), (2, 2))
    return Forest(np.zeros(n, int), (np.eye(n, dtype=bool),), np.ones((2, 2, 1)), (values,), rate)


@settings(max_examples=examples(40), deadline=None)
@given(st.one_of(forests(), deep_forests()), st.integers(0, 400))
def test_patterns_of_all_blocks_have_places_of_their_own(
    m: ForestDistribution, most_patterns: int
) -> None:
    bundles = Bundles.of(m.forest, UNBOUNDED)
    found = blocks(bundles, most_patterns)
    total = sum(block.n_patterns for block in found)
    assert total <= most_patterns or all(max(map(len, b.features)) == 1 for b in found)
    for b, node in enumerate(bundles.nodes):
        assert [j for block in found for j in block.features[b]] == [j for j, _ in node.sides]
    for block in found:
        start, step = block.steps(len(m.forest.allowed))
        places = [
            start[b] + sum(step[b, j] for j in missing)
            for b, features in enumerate(block.features)
            for n in range(len(features) + 1)
            for missing in itertools.combinations(features, n)
        ]
        assert sorted(places) == list(range(block.n_patterns))


@pytest.mark.parametrize("rare", [1e-250, 1e-20, 1.0])
def test_boxes_of_any_mass_are_scored(rare: float, tmp_path: Path) -> None:
    """A box that holds next to nothing has a weight that makes up for it."""
    layout = Layout(2, 2, ("X0",), (11,), latent=True, tied=True)
    rates = TopRates(np.array([0.4, 0.6]), np.array([0.3, 0.7]), np.full((2, 2, 2), 0.5))
    columns = (Column("c", "category", levels=tuple(range(11))),)
    group = Column("group", "category", levels=("f", "m"))
    m = ForestDistribution(layout, chain(11, rare), rates)
    model = model_of(m, columns, (group,), ((0,), (1,)))
    table = pl.DataFrame({"c": [*range(11), None] * 2, "group": [*"fm"] * 12})
    found = by_onnx(model, table, tmp_path)
    np.testing.assert_allclose(found, expected(model, table), rtol=1e-12)


def test_of_no_rows_nothing_is_said(tmp_path: Path) -> None:
    m = random_forest(Random(0), Sizes((3, 2), n_leaves=5))
    columns = tuple(
        Column(f"c{j}", "category", levels=tuple(range(a))) for j, a in enumerate(m.layout.arities)
    )
    group = Column("group", "category", levels=("f", "m"))
    model = model_of(m, columns, (group,), ((0,), (1,)))
    schema = {"c0": pl.Int64, "c1": pl.Int64, "group": pl.String}
    assert by_onnx(model, pl.DataFrame(schema=schema), tmp_path).shape == (0, 2)
