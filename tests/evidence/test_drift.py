"""What a plain classifier says about a latent fair decision, on plain arrays."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairpc.evidence import LabelledRows
from fairpc.evidence._drift import (
    DRIFT_FOLDS as FOLDS,
    classifier_scores,
    dealt,
    drift_bounds as bounds,
    group_rates,
    label_fit,
)

B0, B1 = (0.1, 0.02), (0.95, 0.6)
"""P(D = 1 | Df = 0) and P(D = 1 | Df = 1), of two groups."""
PI = 0.6


def bent(n: int, seed: int = 0, clear: float = 0.9) -> LabelledRows:
    """Rows of two groups whose label is bent; one feature tells Df in most, another is noise."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    f = rng.random(n) < PI
    d = rng.random(n) < np.where(f, np.array(B1)[s], np.array(B0)[s])
    x = np.where(rng.random(n) < clear, f, rng.random(n) < PI)
    design = np.column_stack([x, rng.normal(size=n), s]).astype(np.float64)
    labels = d.astype(np.intp)
    folds = dealt(labels, s, FOLDS, rng)
    return LabelledRows(design, np.arange(n), labels, s, None, folds, 2)


def shown(rows: LabelledRows, p: float) -> Any:
    """The same prediction for every row."""
    return np.tile([1 - p, p], (len(rows.labels), 1))


def test_label_fit_by_hand() -> None:
    """Two rows with D = 1: log .5 and log .5; .8 and .8; .5 and .25, means worked out below."""
    rows = bent(100).where(np.arange(100) < 2)
    rows = replace(rows, labels=np.array([1, 1]))
    model = np.array([[0.5, 0.5], [0.5, 0.5]])
    plain = np.array([[0.2, 0.8], [0.2, 0.8]])
    rates = np.array([[0.5, 0.5], [0.75, 0.25]])
    found = label_fit(model, plain, rates, rows)
    assert found.model == pytest.approx(math.log(0.5))
    assert found.plain == pytest.approx(math.log(0.8))
    assert found.rates == pytest.approx((math.log(0.5) + math.log(0.25)) / 2)
    # plain − rates is log 1.6 and log 3.2: mean log 1.6 + log 2 / 2, standard error log 2 / 2.
    assert found.gain == pytest.approx((math.log(1.6) + math.log(2) / 2) / (math.log(2) / 2))
    weighted = label_fit(model, plain, rates, replace(rows, weights=np.array([3.0, 1.0])))
    assert weighted.rates == pytest.approx((3 * math.log(0.5) + math.log(0.25)) / 4)


def test_one_sure_mistake_does_not_decide() -> None:
    rows = bent(400)
    wrong = shown(rows, 0.5)
    wrong[0] = [1.0, 0.0] if rows.labels[0] else [0.0, 1.0]
    found = label_fit(wrong, shown(rows, 0.5), shown(rows, 0.5), rows)
    assert math.isfinite(found.model)
    assert found.shortfall < 2


@pytest.mark.parametrize("weighted", [False, True])
def test_the_truth_is_within_the_bounds(weighted: bool) -> None:
    """In 40 draws of 1,000 rows: 95 in 100 would be enough."""
    outside = 0
    for seed in range(40):
        rows = bent(1000, seed)
        if weighted:
            weights = np.random.default_rng(seed).choice([1.0, 3.0], 1000)
            rows = replace(rows, weights=weights)
        found = bounds(rows, classifier_scores(rows, np.random.default_rng(0)), 0.95)
        inside = (found.lowers[:, 1] <= PI).all() and (found.uppers[:, 1] >= PI).all()
        truth = np.array([[1 - b0, b1] for b0, b1 in zip(B0, B1, strict=True)])
        outside += not (inside and (found.tops <= truth).all() and not found.empty)
    assert outside <= 2


def test_bounds_close_in_on_what_is_possible() -> None:
    """Where a feature tells Df exactly, the tops are the mechanism and P(Df) is known nearly."""
    rows = bent(20_000, clear=1.0)
    found = bounds(rows, classifier_scores(rows, np.random.default_rng(0)), 0.95)
    assert found.tops == pytest.approx(np.array([[0.9, 0.95], [0.98, 0.6]]), abs=0.03)
    assert (found.uppers.sum(axis=1) - 1 < 0.1).all()


def test_a_group_without_rows_bounds_nothing() -> None:
    rows = bent(500)
    rows = replace(rows, n_groups=4, groups=np.where(np.arange(500) == 0, 3, rows.groups))
    found = bounds(rows, classifier_scores(rows, np.random.default_rng(0)), 0.95)
    assert found.rates[2].tolist() == [1.0, 1.0]
    assert found.tops[2].tolist() == [0.0, 0.0]
    rates = group_rates(rows, 0.95)
    assert (rates.lowers[2:, 1] <= 0.05).all()
    assert (rates.uppers[2:, 1] >= 0.95).all()
    assert rates.rates[2, 1] == pytest.approx(rows.labels.mean())
    assert rates.rates.sum(axis=1) == pytest.approx(1.0)


def test_a_row_is_not_predicted_by_its_own_fold() -> None:
    """A feature that is another number in every row tells nothing of rows that were not seen."""
    rows = bent(600, clear=0.0)
    found = classifier_scores(rows, np.random.default_rng(0))
    own = found[np.arange(600), rows.labels]
    assert (
        np.log(own).mean() < np.log(group_rates(rows, 0.95).rates[rows.groups, rows.labels]).mean()
    )
