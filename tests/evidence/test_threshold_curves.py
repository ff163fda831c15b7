"""Thresholds by notion: all pairs of thresholds of small tables, the mechanism, refusals."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fairpc.errors import MetricError
from fairpc.evidence import ThresholdCurve, equal_opportunity, equalised_odds

NOTIONS = {"equal opportunity": equal_opportunity, "equalised odds": equalised_odds}


def drawn(
    n: int, seed: int = 0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Scores, groups and fair decisions."""
    rng = np.random.default_rng(seed)
    s = np.array(["m", "w"])[rng.integers(0, 2, n)]
    fair = rng.random(n) < np.where(s == "w", 0.3, 0.6)
    noisy = fair + rng.normal(size=n) * np.where(s == "w", 0.9, 0.5)
    return 1 / (1 + np.exp(-2 * (noisy - 0.5))), s, fair


def every_pair(scores: Any, s: Any, fair: Any, notion: str) -> list[tuple[float, float]]:
    """Gap and accuracy of every pair of thresholds, counted row by row."""
    found = []
    cuts = [[np.inf, *np.unique(scores[s == g])] for g in ("m", "w")]
    for a, b in product(*cuts):
        h = scores >= np.where(s == "m", a, b)
        gaps = [
            abs(h[kind & (s == "m")].mean() - h[kind & (s == "w")].mean())
            for kind in ((fair, ~fair) if notion == "equalised odds" else (fair,))
        ]
        found.append((max(gaps), float((h == fair).mean())))
    return found


@pytest.mark.parametrize("notion", NOTIONS)
def test_points_are_the_best_of_all_pairs(notion: str) -> None:
    scores, s, fair = drawn(70)
    curve = NOTIONS[notion](scores, s, fair)
    pairs = every_pair(scores, s, fair, notion)
    assert curve.points[-1].accuracy == pytest.approx(max(right for _, right in pairs))
    for point in curve.points:
        best = max(right for gap, right in pairs if gap <= point.gap + 1e-9)
        assert point.accuracy == pytest.approx(best)
        h = scores >= np.array([g.threshold for g in point.groups])[(s == "w").astype(int)]
        assert (h == fair).mean() == pytest.approx(point.accuracy)
        assert h[fair & (s == "w")].mean() == pytest.approx(point.groups[1].tpr)
    rising = [(point.gap, point.accuracy) for point in curve.points]
    assert rising == sorted(rising)
    h = scores >= 0.5
    assert curve.before.accuracy == pytest.approx((h == fair).mean())
    assert curve.before.groups[0].fpr == pytest.approx(h[~fair & (s == "m")].mean())


def test_at_the_mechanism_labels_give_the_curve_of_the_truth() -> None:
    scores, s, fair = drawn(200_000, 1)
    rates = np.where(s == "w", np.where(fair, 0.6, 0.05), np.where(fair, 0.95, 0.1))
    label = (np.random.default_rng(2).random(len(s)) < rates).astype(int)
    known = {"m": (0.1, 0.95), "w": (0.05, 0.6)}
    found = equalised_odds(scores, s, label, mechanism=known)
    true = equalised_odds(scores, s, fair)
    naive = equalised_odds(scores, s, label)
    assert found.before.gap == pytest.approx(true.before.gap, abs=0.01)
    assert found.before.accuracy == pytest.approx(true.before.accuracy, abs=0.01)
    assert abs(naive.before.accuracy - true.before.accuracy) > 0.03
    gap = true.before.gap / 2
    assert found.at(gap).accuracy == pytest.approx(true.at(gap).accuracy, abs=0.01)


def test_three_groups_ends_and_words() -> None:
    scores, s, fair = drawn(900, 3)
    three = np.where(np.arange(900) % 3 == 0, "x", s)
    curve: ThresholdCurve = equal_opportunity(scores, three, fair, sample_weight=1 + fair)
    assert len(curve.points[0].groups) == 3
    assert curve.points[0].gap < 0.02
    assert curve.at(1.0) == curve.points[-1]
    assert curve.at(-1.0) == curve.points[0]
    assert "Equal opportunity: thresholds per group bring the gap" in curve.summary()
    json.dumps(curve.to_dict(), allow_nan=False)
    nobody = equal_opportunity(np.full(900, 0.2), s, fair)
    assert nobody.before.groups[0].tpr == 0
    everybody = equal_opportunity(np.full(900, 0.7), s, fair)
    assert everybody.before.groups[0].tpr == 1


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ({"m": (0, 1)}, "mechanism is not a mapping from every group"),
        ({"m": (0, 1), "w": (0.8, 0.2)}, "below P(D=1 | Df=1)"),
        ({"m": (0, 1), "w": (0.9, 1)}, "without fair decisions of both kinds"),
        ({"m": (0, 1), "w": 1}, "give two numbers"),
    ],
)
def test_bad_mechanisms(mechanism: Any, message: str) -> None:
    scores, s, fair = drawn(100)
    with pytest.raises(MetricError) as raised:
        equal_opportunity(scores, s, fair, mechanism=mechanism)
    assert message in str(raised.value)


def test_bad_rows() -> None:
    scores, s, fair = drawn(100)
    with pytest.raises(MetricError, match="y has 99 rows"):
        equal_opportunity(scores, s, fair[:99])
