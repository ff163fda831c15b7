"""The point of the identified set: the rule against brute force, and rates that may differ."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

import oracle
from fairpc.errors import MetricError
from fairpc.evidence import fair_rate_point, identified_set
from fairpc.evidence._group_range import GroupRange, rates_within
from strategies import examples

Floats = npt.NDArray[np.float64]
STEPS = 40


@st.composite
def ranges(draw: st.DrawFn, n: int = 500) -> GroupRange:
    """Random ρ and m ≤ ρ ≤ M on a coarse grid."""
    rate = draw(st.integers(1, STEPS - 1))
    low, high = draw(st.integers(0, rate)), draw(st.integers(rate, STEPS))
    return GroupRange.of("g", n, rate / STEPS, (low / STEPS, high / STEPS))


GROUPS = st.lists(ranges(), min_size=2, max_size=3)


@settings(max_examples=examples(200))
@given(GROUPS)
def test_the_point_is_that_of_brute_force(groups: list[GroupRange]) -> None:
    found = fair_rate_point(groups)
    each = [(g.rate, g.low, g.high) for g in groups]
    expected = oracle.fair_rate_point(each)
    if found.rule == "between":
        assert expected is None
        assert len(set(found.rates)) == 1
        return
    if expected is None:
        return  # What is possible lies between two points of the oracle's grid.
    assert found.rate == pytest.approx(expected[0], abs=2e-3)
    for g, own, altered, least in zip(
        groups, found.mechanism, found.altered, expected[1], strict=True
    ):
        assert altered == pytest.approx(abs(g.rate - found.rate), abs=1e-9)
        assert altered == pytest.approx(least, abs=4e-3)
        assert found.rate * own[1] + (1 - found.rate) * own[0] == pytest.approx(g.rate, abs=1e-9)
        assert own[0] <= g.low + 1e-9
        assert g.high - 1e-9 <= own[1]


@settings(max_examples=examples(300))
@given(GROUPS, st.integers(0, STEPS))
def test_rates_that_may_differ_are_those_of_brute_force(
    groups: list[GroupRange], step: int
) -> None:
    own, delta = [(g.lower, g.upper) for g in groups], step / STEPS
    expected = oracle.rates_within(own, delta)
    found = rates_within(own, delta)
    assert len(found) in (0, len(groups))
    if expected is None:
        assert not found or min(high - low for low, high in found) < 0.02
        return
    assert np.array(found) == pytest.approx(np.array(expected), abs=0.011)


@settings(max_examples=examples(200))
@given(GROUPS, st.floats(0, 1))
def test_the_point_is_possible_at_the_least_difference(
    groups: list[GroupRange], delta: float
) -> None:
    plain, found = fair_rate_point(groups), fair_rate_point(groups, delta=delta)
    assert found.rate == plain.rate
    spread = max(found.rates) - min(found.rates)
    apart = max(max(g.lower for g in groups) - min(g.upper for g in groups), 0.0)
    assert spread == pytest.approx(min(delta, apart), abs=1e-9)
    if delta > apart:
        for g, rate in zip(groups, found.rates, strict=True):
            assert g.lower - 1e-9 <= rate <= g.upper + 1e-9


@settings(max_examples=examples(100))
@given(GROUPS, ranges(n=1))
def test_a_group_of_few_rows_does_not_move_it(groups: list[GroupRange], one: GroupRange) -> None:
    plain, found = fair_rate_point(groups), fair_rate_point([*groups, one])
    assert found.rate == plain.rate
    assert found.rates[:-1] == plain.rates
    assert found.unused == (*plain.unused, True)
    assert 0 <= found.mechanism[-1][0] <= found.mechanism[-1][1] <= 1


def test_by_hand() -> None:
    """Group a: L = (.3 − .1)/.9 = .222, U = .5. Group b: L = (.5 − .2)/.8 = .375, U = .5/.9 = .556.
    The set .375 to .5 lies between .3 and .5: its middle is .4375. In a, b1 = .3/.4375 and b0 = 0,
    in b b1 = 1 and b0 = .0625/.5625.
    """
    a = GroupRange.of("a", 100, 0.3, (0.1, 0.6))
    b = GroupRange.of("b", 100, 0.5, (0.2, 0.9))
    found = fair_rate_point([a, b])
    assert found.rate == pytest.approx(0.4375)
    assert found.mechanism[0] == pytest.approx((0.0, 0.3 / 0.4375))
    assert found.mechanism[1] == pytest.approx((0.0625 / 0.5625, 1.0))
    assert found.altered == pytest.approx((0.1375, 0.0625))
    assert found.rule == "middle"
    assert "convention" in found.summary()
    known = fair_rate_point([a, b], pi=(0.0, 0.2))
    assert (known.rate, known.rule) == (0.2, "between")


def test_the_end_where_knowledge_leaves_nothing_between() -> None:
    """b0 is at least .2 in both: π ≤ (.4 − .2)/(.9 − .2) = .286 < .4."""
    groups = [GroupRange.of(k, 100, 0.4, (0.25, 0.9), floor=0.2) for k in "ab"]
    found = fair_rate_point(groups)
    assert found.rate == pytest.approx(0.2 / 0.7)
    assert found.rule == "end"


@st.composite
def scored(draw: st.DrawFn) -> tuple[Floats, Floats]:
    n_groups = draw(st.integers(2, 3))
    sizes = [draw(st.integers(2, 5)) for _ in range(n_groups)]
    values = [draw(st.integers(0, 40)) / 40 for _ in range(sum(sizes))]
    return np.array(values), np.repeat(np.arange(n_groups, dtype=float), sizes)


@settings(max_examples=examples(100))
@given(scored(), st.floats(0, 1), st.floats(0, 1))
def test_sets_grow_with_delta(rows: tuple[Floats, Floats], one: float, two: float) -> None:
    narrow, wide = (identified_set(*rows, delta=d) for d in sorted((one, two)))
    assert narrow.empty or not wide.empty
    if not narrow.empty:
        for inner, outer in zip(narrow.rates, wide.rates, strict=True):
            assert outer[0] <= inner[0] <= inner[1] <= outer[1]
        assert (wide.score_lower <= narrow.score_lower + 1e-9).all()
        assert (wide.score_upper >= narrow.score_upper - 1e-9).all()


@settings(max_examples=examples(100))
@given(scored())
def test_no_delta_is_one_rate_and_the_largest_assumes_nothing(rows: tuple[Floats, Floats]) -> None:
    plain, free = identified_set(*rows), identified_set(*rows, delta=1.0)
    assert plain.rates == (((plain.lower, plain.upper),) * len(plain.groups) if plain.rates else ())
    assert free.rates == tuple((g.lower, g.upper) for g in free.groups)
    assert not free.empty
    for g, (lower, upper) in enumerate(free.rates):
        own = identified_set(
            np.tile(rows[0][rows[1] == g], 2), np.repeat([0, 1], (rows[1] == g).sum())
        )
        assert (lower, upper) == pytest.approx((own.lower, own.upper), abs=1e-9)
        here = rows[1] == g
        assert free.score_lower[here] == pytest.approx(own.score_lower[: here.sum()], abs=1e-9)


def test_rates_that_may_differ_within_strata() -> None:
    scores, groups = [0.1, 1.0, 1.0, 0.01, 0.2], [0, 0, 0, 1, 1]
    assert identified_set(scores, groups).empty
    wide = identified_set(scores, groups, delta=0.9)
    assert "differ by at most 0.9" in wide.summary()
    assert "overlap" not in wide.picture()
    strata = np.zeros(5)
    own = identified_set(scores, groups, given=strata, delta=0.9)
    assert own.sets[0].to_dict() == wide.to_dict()
    with pytest.raises(MetricError, match="delta is nan"):
        identified_set(scores, groups, delta=math.nan)
