"""Paired tests: by hand, against SciPy, and their level where rows repeat."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fairpc.errors import MetricError
from reproduction.significance import mcnemar, wilcoxon


def test_wilcoxon_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200))
    found = wilcoxon(a + 0.3, b)
    assert found.p_value == pytest.approx(stats.wilcoxon(a + 0.3 - b).pvalue)
    assert found.effect == pytest.approx(float(np.mean(a + 0.3 - b)))
    assert (found.n, found.n_clusters) == (200, None)


def test_clustered_wilcoxon_by_hand() -> None:
    # Differences 1, 3, -2 | 4: signed ranks 1, 3, -2 | 4, sums 2 and 4, z = 6 / sqrt(4 + 16).
    found = wilcoxon([1, 3, -2, 4], [0, 0, 0, 0], clusters=["p", "p", "p", "q"])
    assert found.statistic == pytest.approx(6 / math.sqrt(20))
    assert found.p_value == pytest.approx(2 * stats.norm.sf(6 / math.sqrt(20)))
    assert found.n_clusters == 2


def test_clusters_of_one_row_agree_with_independent_rows() -> None:
    difference = np.random.default_rng(1).normal(0.1, 1, 2000)
    plain = wilcoxon(difference, np.zeros(2000))
    single = wilcoxon(difference, np.zeros(2000), clusters=np.arange(2000))
    assert single.p_value == pytest.approx(plain.p_value, rel=0.05)


def test_mcnemar_by_hand() -> None:
    # a alone is right in 5 rows, b alone in 1: p = 2 (1 + 6) / 2^6.
    y = np.ones(10, int)
    a = np.array([1, 1, 1, 1, 1, 0, 1, 1, 0, 0])
    b = np.array([0, 0, 0, 0, 0, 1, 1, 1, 0, 0])
    found = mcnemar(y, a, b)
    assert found.p_value == pytest.approx(2 * 7 / 64)
    assert found.effect == pytest.approx(0.4)
    assert found.n == 6
    single = mcnemar(y, a, b, clusters=np.arange(10))
    assert single.statistic == pytest.approx((5 - 1) / math.sqrt(5 + 1))


def test_the_level_holds_where_rows_repeat() -> None:
    rng = np.random.default_rng(2)
    persons = np.repeat(np.arange(100), 3)
    clustered, naive = [], []
    for _ in range(400):
        difference = rng.normal(size=100)[persons] + 0.1 * rng.normal(size=300)
        clustered.append(wilcoxon(difference, np.zeros(300), clusters=persons).p_value < 0.05)
        naive.append(wilcoxon(difference, np.zeros(300)).p_value < 0.05)
    assert 0.02 <= np.mean(clustered) <= 0.08
    assert np.mean(naive) > 0.15


def test_no_difference_is_no_evidence() -> None:
    assert wilcoxon([1, 2], [1, 2]).p_value == 1.0
    assert mcnemar([1, 0], [1, 1], [1, 1], clusters=[0, 1]).p_value == 1.0
    # Differences that cancel within each person.
    assert wilcoxon([1, -1, 1, -1], [0] * 4, clusters=[0, 0, 1, 1]).p_value == 1.0


def test_bad_input_gets_a_sentence() -> None:
    with pytest.raises(MetricError, match="log_likelihood_b has 1 rows and the first argument 2"):
        wilcoxon([1, 2], [1])
    with pytest.raises(MetricError, match="log_likelihood_a is -inf in row 0: give finite"):
        wilcoxon([-np.inf, 2], [1, 1])
    with pytest.raises(MetricError, match="clusters has 1 value"):
        mcnemar([1, 0], [1, 1], [0, 1], clusters=[7, 7])
    with pytest.raises(MetricError, match="y_pred_a is missing in row 1"):
        mcnemar([1, 0], [1, math.nan], [0, 1])
