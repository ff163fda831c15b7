"""What stays open under parity within strata: each by itself, and bad input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fairpc.errors import MetricError
from fairpc.evidence import (
    IdentifiedByStratum,
    TestsByStratum,
    identified_set,
    test_assumptions,
)

Floats = npt.NDArray[np.float64]


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


def test_strata_with_their_own_mechanism_are_problems_of_their_own() -> None:
    """Each stratum is the plain test of its rows at a level that holds for all."""
    x, d, s, a, q = table(1)
    few = np.where(np.arange(len(a)) < 25, "few", a.astype(str))
    options: dict[str, Any] = {"classifier": "logistic", "n_seeds": 1}
    found = test_assumptions(x, d, s, given=few, **options)
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
    sets = identified_set(scores, s, given=few)
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
    found = test_assumptions(x, d, s, given=a, classifier="logistic", n_seeds=1)
    assert found.rejected
    assert found.p_value < 0.01
    assert [each.stratum for each in found.strata if each.test.rejected] == [1]
    assert "in stratum 1 no rate" in found.summary()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"given": np.arange(8)}, "no stratum can be looked at by itself"),
        ({"ends": {0: (0, 1), 7: (0, 1)}}, "by stratum, then by group"),
        ({"given": np.zeros(3)}, "3"),
    ],
)
def test_bad_input_gets_a_sentence(change: dict[str, Any], sentence: str) -> None:
    scores, groups = [0.2, 0.8, 0.4, 0.6, 0.3, 0.7, 0.2, 0.6], [0, 0, 0, 0, 1, 1, 1, 1]
    asked: dict[str, Any] = {"given": [0, 1] * 4} | change
    with pytest.raises(MetricError, match=sentence):
        identified_set(scores, groups, **asked)
