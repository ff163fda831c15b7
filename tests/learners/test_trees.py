"""Trees are those of trying every division, and say the same of a row later."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairpc.learners import _boosting as boosting
from fairpc.learners._boosting import Cells, Grower, TreeLimits, places, stacked
from learners import oracle_trees


@pytest.mark.parametrize(
    "limits", [TreeLimits(4.0, 0.0, 5.0, 0.15), TreeLimits(1.0, 2.0, 1.0, 1.0)]
)
@pytest.mark.parametrize("combined_rows", [4, 64])
@pytest.mark.parametrize("seed", range(12))
def test_a_tree_is_that_of_trying_every_division(
    seed: int, combined_rows: int, limits: TreeLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On some of the rows, with holes, and with a column most of whose rows are alike."""
    monkeypatch.setattr(boosting, "COMBINED_ROWS", combined_rows)
    rng = np.random.default_rng(seed)
    n, arities = 90, np.array([4, 3, 6, 3])
    codes = rng.integers(0, arities, (n, 4)).astype(np.int16)
    codes[rng.random(n) < 0.8, 3] = 1
    codes[rng.random((n, 4)) < 0.15] = -1
    named = np.array([False, False, True, False])
    slope, bend = rng.normal(size=n), rng.random(n) + 0.1
    chance = rng.random((5, 4))
    allowed = chance < 0.5
    allowed[np.arange(5), chance.argmin(axis=1)] = True
    rows = np.flatnonzero(rng.random(n) < 0.7)
    cells = Cells.of(codes.T, arities, named)
    grower = Grower.of(cells, rows, 5, limits)
    odds = np.ones(n)
    tree = grower.grow(slope, bend, chance, odds)
    step = np.log(odds)
    derivatives = slope[rows], bend[rows]
    expected = oracle_trees.tree_steps(codes[rows], named, derivatives, allowed, limits)
    np.testing.assert_allclose(step[rows], expected, atol=1e-12)
    assert not np.delete(step, rows).any()
    odds = np.zeros(n)
    stacked([tree]).add_to(odds, cells.x, cells.start)
    np.testing.assert_allclose(odds[rows], expected, atol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 40))
def test_combinations_of_a_row_are_its_places(seed: int, n_columns: int, n: int) -> None:
    """Each once, and no combination that no row has, however many rows one takes."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(-1, 4, (n_columns, n))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosting, "COMBINED_ROWS", int(rng.integers(1, 20)))
        cells = Cells.of(codes, np.full(n_columns, 4), np.zeros(n_columns, np.bool_))
    np.testing.assert_array_equal(
        cells.x, np.where(codes < 0, 4, codes) + 5 * np.arange(n_columns)[:, None]
    )
    for r in range(n):
        own = [cells.parts[cells.head[c] : cells.head[c + 1]] for c in cells.listed[r]]
        assert np.concatenate(own).tolist() == cells.x[:, r].tolist()
    np.testing.assert_array_equal(np.unique(cells.listed), np.arange(len(cells.head) - 1))


def test_where_nothing_is_gained_a_tree_is_one_leaf() -> None:
    cells = Cells.of(np.zeros((1, 40), np.int16), np.array([1]), np.zeros(1, np.bool_))
    grower = Grower.of(cells, np.arange(40), 4, TreeLimits(1.0, 0.0, 5.0, 1.0))
    tree = grower.grow(np.ones(40), np.ones(40), np.zeros(grower.shape), np.ones(40))
    assert (tree.divided[:, 0] == -1).all()
    assert tree.values.tolist() == pytest.approx([40 / 45, 0, 0, 0])


def test_places_that_no_row_had_follow_their_order_or_the_larger_part() -> None:
    """Values 0, 2, 5 of an order, and levels 0, 1 of five, each with its own slope."""
    ordered = Cells.of(np.array([[0] * 9 + [2] * 9 + [5] * 12]), np.array([8]), np.array([False]))
    levels = Cells.of(np.array([[0] * 20 + [1] * 10]), np.array([5]), np.array([True]))
    limits = TreeLimits(1.0, 0.0, 0.0, 1.0)

    def said(cells: Cells, slope: list[float], codes: list[int]) -> list[float]:
        grower = Grower.of(cells, np.arange(30), 2, limits)
        tree = grower.grow(np.array(slope), np.ones(30), np.zeros(grower.shape), np.ones(30))
        odds = np.zeros(len(codes))
        stacked([tree]).add_to(odds, places(np.array([codes]), cells.start), cells.start)
        return odds.tolist()

    rising = [-1.0] * 18 + [1.0] * 12
    assert said(ordered, rising, [0, 1, 2, 3, 4, 5, 6, 7]) == [-1, -1, -1, 1, 1, 1, 1, 1]
    assert said(ordered, rising, [-1]) == [-1.0]  # 18 of 30 rows
    for slope in (1.0, -1.0):
        own = [slope] * 20 + [-slope] * 10
        assert said(levels, own, [0, 1, 2, 3, 4, -1]) == [slope, -slope, *[slope] * 4]


def test_where_only_holes_are_told_apart_all_values_stay_together() -> None:
    cells = Cells.of(np.array([[0] * 10 + [2] * 10 + [-1] * 10]), np.array([5]), np.array([False]))
    grower = Grower.of(cells, np.arange(30), 2, TreeLimits(1.0, 0.0, 0.0, 1.0))
    slope = np.append(np.ones(20), -np.ones(10))
    odds = np.zeros(6)
    tree = grower.grow(slope, np.ones(30), np.zeros(grower.shape), np.ones(30))
    stacked([tree]).add_to(odds, places(np.array([[0, 1, 2, 3, 4, -1]]), cells.start), cells.start)
    assert odds.tolist() == [1, 1, 1, 1, 1, -1]


def test_odds_stay_finite_however_steep_the_loss() -> None:
    cells = Cells.of(np.array([[0] * 15 + [1] * 15]), np.array([2]), np.array([False]))
    grower = Grower.of(cells, np.arange(30), 2, TreeLimits(1.0, 0.0, 0.0, 1.0))
    odds, slope = np.ones(30), np.repeat([-1e6, 1e6], 15)
    for _ in range(2):
        grower.grow(slope, np.ones(30), np.zeros(grower.shape), odds)
        assert odds[[0, -1]].tolist() == pytest.approx([1e-250, 1e250])
