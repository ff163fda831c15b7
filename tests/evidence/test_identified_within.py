"""What stays open under parity within strata: closed forms against a search, bad input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from fairpc.errors import MetricError
from fairpc.evidence import (
    IdentifiedByStratum,
    IdentifiedWithin,
    TestsByStratum,
    identified_set,
    test_assumptions,
)

Floats = npt.NDArray[np.float64]


def exact(
    rng: np.random.Generator, bent: Any, pi: Any, n: int = 40
) -> tuple[Floats, npt.NDArray[Any], npt.NDArray[Any], Floats]:
    """Scores of n rows per group and stratum with the exact mean, groups, strata, and the q."""
    scores, groups, strata, q = [], [], [], []
    for s, (b0, b1) in enumerate(bent):
        for a, rate in enumerate(pi):
            own = rng.uniform(0, 1, n)
            # Moved to the mean π_a within 0 to 1.
            own = own * rate / own.mean() if own.mean() > rate else own
            own = 1 - (1 - own) * (1 - rate) / (1 - own.mean())
            scores.append(b0 + (b1 - b0) * own)
            groups += [s] * (n + (s == 0))
            strata += [a] * (n + (s == 0))
            q.append(own)
            if s == 0:  # the reference is the largest group
                scores.append([b0 + (b1 - b0) * rate])
                q.append([rate])
    return np.concatenate(scores), np.array(groups), np.array(strata), np.concatenate(q)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(2, 3))
def test_closed_forms_equal_a_search(seed: int, n_strata: int, n_groups: int) -> None:
    """Every mechanism on a grid: it is possible if all groups and rows allow it."""
    rng = np.random.default_rng(seed)
    bent = np.sort(rng.uniform(0, 1, (n_groups, 2)), axis=1)
    bent[:, 1] = np.minimum(bent[:, 1] + 0.2, 1.0)
    pi = np.linspace(0.2, 0.8, n_strata) + rng.uniform(-0.05, 0.05, n_strata)
    scores, groups, strata, q = exact(rng, bent, pi)
    found = identified_set(scores, groups, given=strata)
    assert isinstance(found, IdentifiedWithin)
    assert not found.empty
    assert found.misfit < 1e-6
    b0, b1 = np.meshgrid(np.linspace(0, 1, 201), np.linspace(0, 1, 201), indexing="ij")
    possible = b0 < b1
    for s in range(n_groups):
        slope = (bent[s, 1] - bent[s, 0]) / (bent[0, 1] - bent[0, 0])
        own0, own1 = (bent[s, 0] + slope * (b - bent[0, 0]) for b in (b0, b1))
        mine = scores[groups == s]
        possible &= (own0 >= 0) & (own1 <= 1) & (own0 <= mine.min()) & (own1 >= mine.max())
    first = found.groups[0]
    assert first.b0 is not None
    assert first.b1 is not None
    step = 1e-5
    inside = (b0 > first.b0[0] + step) & (b0 < first.b0[1] - step)
    inside &= (b1 > first.b1[0] + step) & (b1 < first.b1[1] - step)
    near = (b0 > first.b0[0] - step) & (b0 < first.b0[1] + step)
    near &= (b1 > first.b1[0] - step) & (b1 < first.b1[1] + step)
    assert (possible >= inside).all()
    assert (possible <= near).all()
    for g in found.groups:
        assert g.b0 is not None
        assert g.b0[0] - step <= bent[g.group, 0] <= g.b0[1] + step
    assert (found.score_lower <= q + 1e-4).all()
    assert (found.score_upper >= q - 1e-4).all()
    mine = scores[groups == 0]
    corners = [(mine - x) / (y - x) for x in first.b0 for y in first.b1]
    assert found.score_upper[groups == 0] == pytest.approx(np.max(corners, axis=0), abs=1e-12)
    assert found.score_lower[groups == 0] == pytest.approx(np.min(corners, axis=0), abs=1e-12)
    for stratum, rate in zip(found.strata, pi, strict=True):
        assert stratum.pi is not None
        assert stratum.pi[0] - 1e-4 <= rate <= stratum.pi[1] + 1e-4


def test_a_hand_computed_set() -> None:
    """ρ_0 = .3, .6 and ρ_1 = .2, .5: the line is ρ_1 = ρ_0 − .1.

    Scores reach from .2 to .8 in group 0 and from .15 to .6 in group 1, so b00 lies between
    max(0, .1) and min(.2, .25), and b10 between max(.8, .7) and min(1, 1.1).
    """
    scores = [0.2, 0.4, 0.3, 0.4, 0.8, 0.6, 0.15, 0.25, 0.4, 0.6]
    groups, strata = [0] * 6 + [1] * 4, [0, 0, 0, 1, 1, 1, 0, 0, 1, 1]
    found = identified_set(scores, groups, given=strata)
    first, last = found.groups
    assert (last.intercept, last.slope) == pytest.approx((-0.1, 1.0), abs=1e-6)
    assert first.b0 == pytest.approx((0.1, 0.2), abs=1e-6)
    assert first.b1 == pytest.approx((0.8, 1.0), abs=1e-6)
    assert last.b0 == pytest.approx((0.0, 0.1), abs=1e-6)
    assert found.area == pytest.approx(0.02, abs=1e-6)
    # P(Df=1 | a) of the first stratum: (.3 − b00) / (b10 − b00) at both corners.
    assert found.strata[0].pi == pytest.approx((0.1 / 0.8, 0.2 / 0.7), abs=1e-6)
    json.dumps(found.to_dict(), allow_nan=False)
    assert "independent of the group within strata" in found.summary()
    repeated = identified_set(scores, groups, given=strata, counts=[2] * 10)
    assert repeated.groups[1].slope == pytest.approx(1.0, abs=1e-6)


def test_a_line_that_leaves_nothing_is_empty() -> None:
    scores = [0.0, 0.9, 0.1, 1.0, 0.45, 0.5, 0.5, 0.55]
    groups, strata = [0] * 4 + [1] * 4, [0, 1] * 4
    ends = {0: (0.0, 1.0), 1: (0.0, 1.0)}
    found = identified_set([*scores, 0.5], [*groups, 0], given=[*strata, 0], ends=ends)
    assert found.empty
    assert np.isnan(found.score_lower).all()
    assert "No mechanism is possible" in found.summary()
    json.dumps(found.to_dict(), allow_nan=False)


def table(seed: int, n: int = 3000) -> tuple[Floats, Any, Any, Any, Floats]:
    """Features, labels, groups, strata and the true P(Df=1 | x, a) of rows."""
    rng = np.random.default_rng(seed)
    s, a = (rng.random(n) < 0.4).astype(int), rng.integers(0, 3, n)
    pi = np.array([0.2, 0.5, 0.8])[a]
    f = (rng.random(n) < pi).astype(int)
    x = rng.normal(size=n) + 2.0 * f
    odds = pi / (1 - pi) * np.exp(2 * x - 2)
    d = (rng.random(n) < np.array([[0.1, 0.95], [0.05, 0.6]])[s, f]).astype(int)
    return x[:, None], d, s, a, odds / (1 + odds)


def test_scores_lie_within_the_bounds_of_a_confidence_set() -> None:
    x, d, s, a, q = table(0)
    test = test_assumptions(x, d, s, given=a, classifier="logistic", n_seeds=1)
    low, high = np.array([[0.1, 0.95], [0.05, 0.6]])[s].T
    found = identified_set(low + (high - low) * q, s, given=a, test=test)
    assert [g.b0 for g in found.groups] == [g.b0 for g in test.groups]
    assert (found.score_lower <= q + 1e-9).all()
    assert (found.score_upper >= q - 1e-9).all()
    assert found.score_spread > identified_set(low + (high - low) * q, s, given=a).score_spread
    ends = test.ends()
    for name, (least, most) in ends.items():
        assert least <= d[s == name].mean() <= most
    assert identified_set(low + (high - low) * q, s, given=a, ends=ends).area > 0


def test_strata_with_their_own_mechanism_are_problems_of_their_own() -> None:
    """Each stratum is the plain test of its rows at a level that holds for all."""
    x, d, s, a, q = table(1)
    few = np.where(np.arange(len(a)) < 25, "few", a.astype(str))
    options: dict[str, Any] = {"classifier": "logistic", "n_seeds": 1}
    found = test_assumptions(x, d, s, given=few, mechanism="within", **options)
    assert isinstance(found, TestsByStratum)
    assert [lost.stratum for lost in found.left_out] == ["few"]
    assert "'few' (25 rows" in found.summary()
    own = 1 - 0.05 / 3
    for each in found.strata:
        here = few == each.stratum
        plain = test_assumptions(x[here], d[here], s[here], level=own, **options)
        assert (each.test.lower, each.test.upper) == (plain.lower, plain.upper)
    assert not found.rejected
    json.dumps(found.to_dict())
    scores = 0.2 + 0.6 * q
    sets = identified_set(scores, s, given=few, mechanism="within")
    assert not sets.empty
    assert isinstance(sets, IdentifiedByStratum)
    for name, each_set in zip(sets.strata, sets.sets, strict=True):
        here = few == name
        alone = identified_set(scores[here], s[here])
        assert each_set.lower == alone.lower
        assert (sets.score_lower[here] == alone.score_lower).all()
    json.dumps(sets.to_dict())


def test_one_stratum_that_contradicts_is_named() -> None:
    rng = np.random.default_rng(2)
    n = 4000
    s, a = rng.integers(0, 2, n), rng.integers(0, 2, n)
    f = rng.random(n) < np.where(a == 0, 0.5, np.where(s == 1, 0.15, 0.85))
    x = (3 * f + rng.normal(size=n))[:, None]
    d = (rng.random(n) < np.where(f, 0.98, 0.02)).astype(int)
    found = test_assumptions(x, d, s, given=a, mechanism="within", classifier="logistic", n_seeds=1)
    assert found.rejected
    assert found.p_value < 0.01
    assert [each.stratum for each in found.strata if each.test.rejected] == [1]
    assert "in stratum 1 no rate" in found.summary()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"mechanism": "both"}, "use one of shared, within"),
        ({"mechanism": "within", "given": None}, "give the strata"),
        ({"pi": (0.1, 0.9)}, "a P\\(Df=1\\) of its own"),
        ({"given": np.zeros(8)}, "their line is not known"),
        ({"mechanism": "within", "given": np.arange(8)}, "no stratum can be looked at by itself"),
        ({"mechanism": "within", "ends": {0: (0, 1), 7: (0, 1)}}, "by stratum, then by group"),
        ({"given": np.zeros(3)}, "3"),
    ],
)
def test_bad_input_gets_a_sentence(change: dict[str, Any], sentence: str) -> None:
    scores, groups = [0.2, 0.8, 0.4, 0.6, 0.3, 0.7, 0.2, 0.6], [0, 0, 0, 0, 1, 1, 1, 1]
    asked: dict[str, Any] = {"given": [0, 1] * 4} | change
    with pytest.raises(MetricError, match=sentence):
        identified_set(scores, groups, **asked)


def test_a_test_of_other_groups_is_refused() -> None:
    x, d, s, a, q = table(3)
    test = test_assumptions(x, d, s, given=a, classifier="logistic", n_seeds=1)
    with pytest.raises(MetricError, match="the same groups"):
        identified_set(q, s + 5, given=a, test=test)
    with pytest.raises(MetricError, match="share a mechanism"):
        identified_set(q, s, test=test)
