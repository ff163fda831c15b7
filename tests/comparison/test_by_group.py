"""Metrics by group: fairlearn's numbers, intervals, persons, gaps by notion."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fairpc.errors import MetricError
from fairpc.metrics import accuracy, auc, by_group, fairness_gaps

Ints = npt.NDArray[np.int64]
METRICS = {"accuracy": accuracy, "positives": lambda t, p: float(np.mean(p))}


def drawn(n: int = 600, seed: int = 0) -> tuple[Ints, Ints, npt.NDArray[Any]]:
    rng = np.random.default_rng(seed)
    groups = np.column_stack([rng.integers(0, 2, n), rng.integers(0, 2, n)])
    y = (rng.random(n) < 0.4).astype(np.int64)
    right = rng.random(n) < np.where(groups[:, 0] == 1, 0.7, 0.9)
    return y, np.where(right, y, 1 - y), groups


def test_the_numbers_are_those_of_fairlearn() -> None:
    fairlearn = pytest.importorskip("fairlearn.metrics")
    y, p, groups = drawn()
    found = by_group(METRICS, y, p, groups, n_draws=10)
    frame = fairlearn.MetricFrame(metrics=METRICS, y_true=y, y_pred=p, sensitive_features=groups)
    for name in METRICS:
        assert found.overall[name].value == pytest.approx(frame.overall[name], abs=1e-12)
        for group, own in found.groups.items():
            assert own.metrics[name].value == pytest.approx(frame.by_group[name][group], abs=1e-12)
        assert found.gaps[name].value == pytest.approx(frame.difference()[name], abs=1e-12)
    single = fairlearn.MetricFrame(
        metrics=METRICS, y_true=y, y_pred=p, sensitive_features=groups[:, 0]
    )
    for own in (own for own in found.marginal if own.attribute == 0):
        assert own.metrics["accuracy"].value == pytest.approx(
            single.by_group["accuracy"][own.group], abs=1e-12
        )


def test_gaps_of_notions_are_those_of_fairlearn() -> None:
    fairlearn = pytest.importorskip("fairlearn.metrics")
    y, p, groups = drawn()
    s = groups[:, 0]
    found = fairness_gaps(y, p, s, n_draws=10)
    assert found.equalised_odds.value == pytest.approx(
        fairlearn.equalized_odds_difference(y, p, sensitive_features=s), abs=1e-12
    )
    assert found.equal_opportunity.value == pytest.approx(
        fairlearn.equal_opportunity_difference(y, p, sensitive_features=s), abs=1e-12
    )
    weights = np.arange(1.0, len(y) + 1)
    weighted = fairness_gaps(y, p, s, n_draws=10, sample_weight=weights)
    assert weighted.equalised_odds.value == pytest.approx(
        fairlearn.equalized_odds_difference(y, p, sensitive_features=s, sample_weight=weights),
        abs=1e-12,
    )


@pytest.mark.parametrize("only", [0, 1])
def test_equalised_odds_need_both_rates(only: int) -> None:
    """Of a group whose labels are all alike one rate is not defined, whichever it is."""
    y, p, groups = drawn()
    s = groups[:, 0]
    found = fairness_gaps(np.where(s == 1, only, y), p, s, n_draws=10)
    gaps = found.by_group.gaps
    assert math.isnan(gaps["fpr" if only else "tpr"].value)
    assert not math.isnan(gaps["tpr" if only else "fpr"].value)
    odds = found.equalised_odds
    assert all(map(math.isnan, (odds.value, odds.low, odds.high)))
    assert "equalised odds: not defined, for groups without" in found.summary()
    assert "nan" not in found.summary() + found.by_group.summary()


def test_intervals_cover() -> None:
    inside = 0
    for seed in range(40):
        y, p, groups = drawn(400, seed)
        found = by_group({"accuracy": accuracy}, y, p, groups[:, 0], n_draws=200)
        gap = found.differences[0].metrics["accuracy"]
        inside += gap.low <= -0.2 <= gap.high
    assert inside >= 34


def test_persons_are_drawn_where_they_repeat() -> None:
    y, p, groups = drawn(200)
    rows = np.tile(np.arange(200), 5)
    many: Any = (y[rows], p[rows], groups[rows, 0])
    by_row = by_group({"accuracy": accuracy}, *many)
    by_person = by_group({"accuracy": accuracy}, *many, clusters=rows)

    def width(found: Any) -> float:
        own = found.overall["accuracy"]
        return float(own.high - own.low)

    assert width(by_person) == pytest.approx(math.sqrt(5) * width(by_row), rel=0.25)


def test_small_groups_are_named_and_undefined_metrics_are_nan() -> None:
    y, p, groups = drawn(300)
    s = np.where(np.arange(300) < 5, "few", np.where(groups[:, 0] == 1, "a", "b"))
    y[:5] = 1
    found = by_group({"auc": auc, "accuracy": accuracy}, y, p, s, n_draws=50)
    assert found.small_groups == ("few",)
    assert "read with care: 'few'" in found.summary()
    assert math.isnan(found.groups["few"].metrics["auc"].value)
    assert not math.isnan(found.gaps["auc"].value)
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_gap_of_nothing_has_no_sign() -> None:
    y, _, groups = drawn()
    assert "-0.0" not in fairness_gaps(y, y, groups[:, 0], n_draws=10).summary()


def test_calibration_and_words() -> None:
    y, p, groups = drawn(2_000)
    s = groups[:, 0]
    scores = np.clip(0.4 + 0.2 * s, 0, 1)
    found = fairness_gaps(y, p, s, scores=scores, n_draws=100)
    assert found.calibration is not None
    assert found.calibration.low < 0.2 < found.calibration.high
    assert "equalised odds: gap" in found.summary()
    words = np.array(["no", "yes"])
    same = fairness_gaps(words[y], words[p], s, n_draws=100)
    assert same.predictive_parity == found.predictive_parity


def test_bad_input() -> None:
    y, p, groups = drawn(100)
    with pytest.raises(MetricError, match="metrics is not a mapping"):
        by_group([accuracy], y, p, groups)  # type: ignore[arg-type]
    with pytest.raises(MetricError, match="y_pred has 99 rows"):
        by_group(METRICS, y, p[:99], groups)
    with pytest.raises(MetricError, match="n_draws is 1"):
        by_group(METRICS, y, p, groups, n_draws=1)
    with pytest.raises(MetricError, match="3 classes"):
        fairness_gaps(np.arange(100) % 3, p, groups)
    with pytest.raises(MetricError, match="scores has 3 rows"):
        fairness_gaps(y, p, groups, scores=[0.1, 0.2, 0.3])
