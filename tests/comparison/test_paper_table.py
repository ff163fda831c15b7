"""The classifiers' rows of the paper's table, on the published folds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairpc.comparison import LR, Baseline, FairLR, Reduction, Reweight
from fairpc.learners import Fold
from fairpc.models import Rows
from published import paper_table

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


def measure(kind: type[Baseline], rows: Rows, fold: Fold) -> tuple[float, float, float]:
    train, test = rows.take(fold.train), rows.take(fold.test)
    model = kind().fit(train.x.astype(float), train.d, sensitive_features=train.s)
    known: dict[str, Any] = {"X": test.x.astype(float), "sensitive_features": test.s}
    scores, predicted = model.predict_proba(**known)[:, 1], model.predict(**known)
    y, s = test.d, test.s
    tpr, fpr = predicted[y == 1].mean(), predicted[y == 0].mean()
    f1 = tpr / (tpr + (fpr + 1 - tpr) / 2)
    gap = scores[s == 1].mean() - scores[s == 0].mean()
    return float((predicted == y).mean()), float(f1), float(abs(gap))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"), EXPECTED, ids=[f"{name}-{kind.__name__}" for name, kind in EXPECTED]
)
def test_published_folds(name: str, kind: type[Baseline]) -> None:
    table = paper_table(name)
    if kind is Reduction:
        pytest.importorskip("fairlearn")
    means = np.mean([measure(kind, table.rows, fold) for fold in table.folds], axis=0)
    assert means == pytest.approx(np.array(EXPECTED[name, kind]), abs=TOLERANCE[name])
