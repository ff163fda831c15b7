"""Labels that features alter too: the set where odds may differ, and what undoes a rejection."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from fairpc.evidence import test_assumptions
from fairpc.evidence._top_sets import eased

Ints = npt.NDArray[np.int64]


def altered_by_a_feature(n: int, seed: int) -> tuple[Any, Ints, Ints]:
    """P(Df = 1) = .5 in both groups. In group 0 a positive decision is kept with probability .95
    where a feature is 1, a tenth of the rows, and .5 elsewhere: odds of 19 and 1. Group 1 is not
    altered."""
    rng = np.random.default_rng(seed)
    s, f, z = rng.integers(0, 2, n), rng.integers(0, 2, n), (rng.random(n) < 0.1).astype(int)
    keep = np.where(s == 1, 0.99, np.where(z == 1, 0.95, 0.5))
    d = ((f == 1) & (rng.random(n) < keep)).astype(int)
    x = np.column_stack([np.where(rng.random(n) < 0.99, f, 1 - f), z, f * z])
    return x, d, s


@given(st.floats(0.001, 0.999), st.floats(1, 100))
def test_odds_are_divided(rate: float, gamma: float) -> None:
    found = eased(rate, gamma)
    assert found / (1 - found) == pytest.approx(rate / (1 - rate) / gamma)


def test_the_plain_assumptions_are_rejected_and_the_true_gamma_is_enough() -> None:
    found = test_assumptions(*altered_by_a_feature(4000, 0), classifier="logistic", n_seeds=1)
    assert found.rejected
    assert found.tolerated is not None
    # 15.9 by the true rates: .2725 / .545 = .5; less with sampling error, about 4 at 4,000 rows.
    assert 2 < found.tolerated < 15.9
    assert f"by a factor of {found.tolerated:.2f}" in found.summary()


def test_the_first_set_is_that_of_the_test_and_others_are_wider() -> None:
    rng = np.random.default_rng(1)
    s, f = rng.integers(0, 2, 3000), rng.integers(0, 2, 3000)
    d = (rng.random(3000) < np.array([[0.1, 0.9], [0.05, 0.7]])[s, f]).astype(int)
    found = test_assumptions(
        rng.normal(size=(3000, 1)) + 2 * f[:, None], d, s, classifier="logistic", n_seeds=1
    )
    assert not found.rejected
    assert found.tolerated is None
    assert found.tolerance() == ""
    first = found.altered_by_features[0]
    assert (first.gamma, first.lower, first.upper) == (1.0, found.lower, found.upper)
    lowers, uppers = (
        [getattr(b, end) for b in found.altered_by_features] for end in ("lower", "upper")
    )
    assert lowers == sorted(lowers, reverse=True)
    assert uppers == sorted(uppers)
    assert uppers[-1] > uppers[0]


@pytest.mark.slow
def test_the_set_at_the_true_gamma_covers() -> None:
    """The true gamma, odds of 19, undoes each rejection: something is then left."""
    n, hits = 100, 0
    for seed in range(n):
        x, d, s = altered_by_a_feature(1500, seed)
        found = test_assumptions(x, d, s, classifier="logistic", n_seeds=1)
        hits += found.tolerated is None or found.tolerated <= 19
    assert hits / n >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / n)
