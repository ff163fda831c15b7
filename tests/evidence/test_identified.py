"""Closed forms of the identified set against brute force over mechanisms."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from fairpc.errors import MetricError
from fairpc.evidence import identified_set

Floats = npt.NDArray[np.float64]
STEPS = 400
GRID = np.linspace(0, 1, STEPS + 1)


@st.composite
def small_models(draw: st.DrawFn) -> tuple[list[Floats], Floats, Floats]:
    """r_s(x) on a few equally likely x, as scores per group, and as flat scores and groups."""
    n_groups = draw(st.integers(2, 3))
    sizes = [draw(st.integers(2, 5)) for _ in range(n_groups)]
    tables = [
        np.array([draw(st.integers(0, 40)) / 40 for _ in range(size)], np.float64) for size in sizes
    ]
    return tables, np.concatenate(tables), np.repeat(np.arange(n_groups, dtype=float), sizes)


def brute_force(r: Floats) -> list[tuple[float, float, float]]:
    """Every (π, b0, b1) of one group with b0, b1 on the grid: q(x) must be a probability."""
    b0, b1 = (a.ravel() for a in np.meshgrid(GRID, GRID, indexing="ij"))
    proper = b1 > b0
    b0, b1 = b0[proper], b1[proper]
    q = (r[None, :] - b0[:, None]) / (b1 - b0)[:, None]
    fits = ((q >= -1e-9) & (q <= 1 + 1e-9)).all(axis=1)
    return list(zip(q[fits].mean(axis=1), b0[fits], b1[fits], strict=True))


@given(small_models())
def test_ends_of_the_set(model: tuple[list[Floats], Floats, Floats]) -> None:
    tables, scores, groups = model
    found = identified_set(scores, groups)
    for group, r in zip(found.groups, tables, strict=True):
        possible = [pi for pi, _, _ in brute_force(r)]
        # Scores are on the grid, so that the extreme mechanisms are, too.
        if len(set(r.tolist())) > 1:
            assert min(possible) == pytest.approx(group.lower, abs=1e-9)
            assert max(possible) == pytest.approx(group.upper, abs=1e-9)
    assert found.lower == pytest.approx(max(g.lower for g in found.groups))
    assert found.empty == (found.lower > found.upper)


@given(small_models())
def test_mechanisms_and_scores(model: tuple[list[Floats], Floats, Floats]) -> None:
    """Each possible mechanism lies within the ranges, and the ranges are reached."""
    tables, scores, groups = model
    found = identified_set(scores, groups)
    if found.empty:
        assert np.isnan(found.score_lower).all()
        return
    for g, (group, r) in enumerate(zip(found.groups, tables, strict=True)):
        here = groups == g
        low, high = found.score_lower[here], found.score_upper[here]
        reached_low, reached_high = np.ones(len(r)), np.zeros(len(r))
        for pi, b0, b1 in brute_force(r):
            if not found.lower - 1e-9 <= pi <= found.upper + 1e-9:
                continue
            at = min(max(pi, found.lower), found.upper)
            assert group.b0(at)[0] - 1e-6 <= b0 <= group.b0(at)[1] + 1e-6
            assert group.b1(at)[0] - 1e-6 <= b1 <= group.b1(at)[1] + 1e-6
            q = (r - b0) / (b1 - b0)
            assert (low - 1e-6 <= q).all()
            assert (q <= high + 1e-6).all()
            reached_low, reached_high = np.minimum(reached_low, q), np.maximum(reached_high, q)
        # The grid of mechanisms is fine enough to come near the ends where labels vary enough.
        if found.upper - found.lower > 0.1 and group.high - group.low > 0.3:
            assert reached_low == pytest.approx(low, abs=0.03)
            assert reached_high == pytest.approx(high, abs=0.03)


@given(small_models(), st.floats(0, 1))
def test_every_end_is_a_mechanism(model: tuple[list[Floats], Floats, Floats], share: float) -> None:
    """Both ends of the ranges give D back: rate ρ, and scores that average to π."""
    tables, scores, groups = model
    found = identified_set(scores, groups)
    if found.empty:
        return
    pi = found.lower + share * (found.upper - found.lower)
    for group, r, ranges in zip(found.groups, tables, found.mechanism_at(pi), strict=True):
        for b0, b1 in ((ranges.b0[1], ranges.b1[0]), (ranges.b0[0], ranges.b1[1])):
            assert 0 <= b0 <= group.low + 1e-9
            assert group.high - 1e-9 <= b1 <= 1
            assert pi * b1 + (1 - pi) * b0 == pytest.approx(group.rate, abs=1e-9)
        if group.low < group.high:
            for q in group.score_ends(r, pi):
                assert q.mean() == pytest.approx(pi, abs=1e-9)
                assert (np.argsort(q, kind="stable") == np.argsort(r, kind="stable")).all()


def test_by_hand() -> None:
    """r = .2 and .8, ρ = .5: π from .375 to .625; at .5, b1 from .8 to 1 and b0 = 1 − b1."""
    found = identified_set([0.2, 0.8, 0.2, 0.8], ["a", "a", "b", "b"])
    assert (found.lower, found.upper) == pytest.approx((0.375, 0.625))
    (ranges, _) = found.mechanism_at(0.5)
    assert ranges.b1 == pytest.approx((0.8, 1.0))
    assert ranges.b0 == pytest.approx((0.0, 0.2))
    assert found.table()[0]["b1_upper"] == pytest.approx(1.0)
    assert found.table()[0]["b0_lower"] == pytest.approx(0.0)
    # q(.2) is 0 at π = .375 (b0 = .2, b1 = 1) and .25 at π = .625 (b0 = 0, b1 = .8).
    assert found.score_lower[:2] == pytest.approx([0.0, 0.75])
    assert found.score_upper[:2] == pytest.approx([0.25, 1.0])
    assert found.picture().splitlines()[0].startswith("a       |")
    assert "0.375 to 0.625" in found.picture()
    assert "more rows would not narrow" in found.summary()


def test_ends_from_elsewhere() -> None:
    """Extremes .1 and .9 of noisy scores are replaced by .2 and .8."""
    scores, groups = [0.1, 0.9, 0.2, 0.8], [0, 0, 1, 1]
    found = identified_set(scores, groups, ends={0: (0.2, 0.8), 1: (0.2, 0.8)})
    assert (found.lower, found.upper) == pytest.approx((0.375, 0.625))
    assert found.score_upper == pytest.approx([0.25, 1.0, 0.25, 1.0])
    with pytest.raises(MetricError, match="ends has no group 1"):
        identified_set(scores, groups, ends={0: (0.2, 0.8)})
    with pytest.raises(MetricError, match="give the lower one first"):
        identified_set(scores, groups, ends={0: (0.8, 0.2), 1: (0.2, 0.8)})


def test_an_end_beyond_the_mean_counts_as_the_mean() -> None:
    """Held-out ends know nothing of the scores: all of them may lie on one side of their mean."""
    scores, groups = np.array([0.3, 0.7, 0.2, 0.8]), [0, 0, 1, 1]
    found = identified_set(scores, groups, ends={0: (0.6, 0.8), 1: (0.2, 0.8)})
    (first, _) = found.groups
    assert (first.low, first.high, first.lower) == (first.rate, 0.8, 0.0)
    assert not found.empty


@pytest.mark.parametrize("side", [0.0, 1.0])
def test_an_end_that_is_the_mean_up_to_rounding(side: float) -> None:
    """Sums in another order differ in the last bit; that is not a reason to refuse."""
    scores = np.array([0.1] * 10 + [0.7, 0.3])
    groups = np.repeat([0, 1], [10, 2])
    near = float(np.nextafter(scores[:10].mean(), side))
    found = identified_set(scores, groups, ends={0: (near, 0.9), 1: (0.3, 0.7)})
    assert found.groups[0].low == pytest.approx(0.1)


def test_empty_and_prior_knowledge() -> None:
    found = identified_set([0.1, 1.0, 1.0, 0.01, 0.2], [0, 0, 0, 1, 1])
    assert found.empty
    assert found.mechanism == ()
    assert "No P(Df=1) is possible: group 0" in found.summary()
    assert found.picture().endswith("empty")
    held = identified_set([0.2, 0.8, 0.2, 0.8], [0, 0, 1, 1], pi=(0.5, 0.5))
    assert (held.lower, held.upper) == (0.5, 0.5)
    assert held.score_lower[0] == pytest.approx(0.0)
    assert held.score_upper[0] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([0.1, 1.2, 0.3, 0.4], [0, 0, 1, 1]), {}, "scores is 1.2 in row 1"),
        (([0.1, 0.2, 0.3], [0, 0, 1]), {}, "group 1 has 1 row"),
        (([0.1, 0.2], [0, 0]), {}, "groups has 1 value"),
        (([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1]), {"pi": (0.6, 0.5)}, "lower end first"),
        (([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1]), {"pi": 0.5}, "pi is 0.5: give two numbers"),
        (([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1]), {"n_points": 1}, "n_points is 1"),
    ],
)
def test_bad_input(arguments: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MetricError, match=message):
        identified_set(*arguments, **options)


def test_a_rate_outside_of_the_set_is_refused() -> None:
    with pytest.raises(MetricError, match="give a P.Df=1. of the set"):
        identified_set([0.2, 0.8, 0.2, 0.8], [0, 0, 1, 1]).mechanism_at(0.9)
