"""The classifiers' rows of the paper's table, on the published folds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fairpc.comparison import LR, Baseline, FairLR, Reduction, Reweight
from fairpc.datasets import Dataset, load_adult, load_compas, load_german
from published import paper_table, use_raw_compas

LOADERS: dict[str, Any] = {"compas": load_compas, "adult": load_adult, "german": load_german}

# Accuracy, F1 from rates, |discrimination|: means of ten folds.
EXPECTED: dict[tuple[str, type[Baseline]], tuple[float, float, float]] = {
    ("compas", Reduction): (0.882, 0.769, 0.011),
    ("compas", FairLR): (0.878, 0.699, 0.007),
    ("compas", Reweight): (0.882, 0.763, 0.049),
    ("compas", LR): (0.883, 0.769, 0.053),
    ("adult", Reduction): (0.821, 0.625, 0.019),
    ("adult", FairLR): (0.786, 0.377, 0.009),
    ("adult", Reweight): (0.803, 0.709, 0.007),
    ("adult", LR): (0.836, 0.685, 0.196),
    ("german", Reduction): (0.706, 0.679, 0.071),
    ("german", FairLR): (0.711, 0.684, 0.034),
    ("german", Reweight): (0.715, 0.684, 0.038),
    ("german", LR): (0.711, 0.683, 0.065),
}
TOLERANCE = {"compas": 0.006, "adult": 0.006, "german": 0.03}


def measure(
    kind: type[Baseline], data: Dataset, train: list[int], test: list[int]
) -> tuple[float, float, float]:
    model = kind().fit(data.X[train], data.y[train], sensitive_features=data.sensitive[train])
    rows: dict[str, Any] = {"X": data.X[test], "sensitive_features": data.sensitive[test]}
    scores, predicted = model.predict_proba(**rows)[:, 1], model.predict(**rows)
    y: npt.NDArray[np.int64] = data.y[test].to_numpy()
    s: npt.NDArray[np.int64] = data.sensitive[test].to_numpy()
    tpr, fpr = predicted[y == 1].mean(), predicted[y == 0].mean()
    f1 = tpr / (tpr + (fpr + 1 - tpr) / 2)
    gap = scores[s == 1].mean() - scores[s == 0].mean()
    return float((predicted == y).mean()), float(f1), float(abs(gap))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"), EXPECTED, ids=[f"{name}-{kind.__name__}" for name, kind in EXPECTED]
)
def test_published_folds(name: str, kind: type[Baseline], monkeypatch: pytest.MonkeyPatch) -> None:
    folds = paper_table(name).folds
    use_raw_compas(monkeypatch)
    if kind is Reduction:
        pytest.importorskip("fairlearn")
    data = LOADERS[name](version="paper")
    pairs = [(fold.train.tolist(), fold.test.tolist()) for fold in folds]
    means = np.mean([measure(kind, data, *pair) for pair in pairs], axis=0)
    assert means == pytest.approx(np.array(EXPECTED[name, kind]), abs=TOLERANCE[name])
