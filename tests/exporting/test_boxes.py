"""Boxes of a forest circuit in a graph of ONNX: a place for each pattern of what is missing."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from exporting.scored import by_onnx, expected, model_of
from fairpc.data import Column
from fairpc.exporting._onnx_forest import blocks
from fairpc.models import Forest, ForestDistribution
from fairpc.models._fair_layers import Layout
from fairpc.models._top_em import TopRates
from models.forests import Sizes, forests, random_forest
from strategies import examples


def chain(n: int, rare: float = 1.0) -> Forest:
    """A box for each value of one feature; the first value is that much rarer than the others."""
    p = np.array([rare, *[1.0] * (n - 1)])
    values = np.tile(p / p.sum(), (2, 2, 1, 1))
    rate = np.random.default_rng(n).dirichlet(np.ones(n), (2, 2))
    return Forest(np.zeros(n, int), (np.eye(n, dtype=bool),), np.ones((2, 2, 1)), (values,), rate)


@settings(max_examples=examples(40), deadline=None)
@given(forests(), st.integers(0, 400))
def test_patterns_of_all_blocks_have_places_of_their_own(
    m: ForestDistribution, most_patterns: int
) -> None:
    found = blocks(m.forest, most_patterns)
    total = sum(block.n_patterns for block in found)
    assert total <= most_patterns or all(max(map(len, b.features)) == 1 for b in found)
    for b in range(len(m.forest.tree)):
        cut = [j for j, box in enumerate(m.forest.allowed) if not box[b].all()]
        assert [j for block in found for j in block.features[b]] == cut
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
    layout = Layout(2, 2, ("X0",), (11,), "FairPC")
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
