"""The synthetic process: its probabilities, its model, its repeatability."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairpc.datasets import make_synthetic
from fairpc.errors import LearningError


def test_shapes_and_names() -> None:
    data = make_synthetic(5, 40, random_state=1)
    assert data.X.columns == ["X1", "X2", "X3", "X4", "X5"]
    assert data.frame.columns == ["S", "X1", "X2", "X3", "X4", "X5", "D", "Df"]
    assert data.model.names == ("S", "Df", "D", "X1", "X2", "X3", "X4", "X5")
    assert len(data.y) == len(data.sensitive) == len(data.df) == 40
    assert set(data.columns) == set(data.frame.columns)


@pytest.mark.parametrize("trees", ["cell", "shared"])
def test_the_model_has_the_papers_probabilities(trees: Any) -> None:
    model = make_synthetic(6, 1, random_state=2, trees=trees).model
    unknown = -np.ones((1, 9), np.int64)
    assert model.posterior("S", unknown)[0, 1] == pytest.approx(0.3)
    assert model.posterior("Df", unknown)[0, 1] == pytest.approx(0.5)
    for f, s, expected in ((1, 1, 0.8), (1, 0, 0.9), (0, 1, 0.1), (0, 0, 0.4)):
        known = unknown.copy()
        known[0, :2] = s, f
        assert model.posterior("D", known)[0, 1] == pytest.approx(expected)
        known[0, 3:] = 1  # D ⟂ X given Df, S
        assert model.posterior("D", known)[0, 1] == pytest.approx(expected)
    # Df ⟂ S
    known = unknown.copy()
    known[0, 0] = 1
    assert model.posterior("Df", known)[0, 1] == pytest.approx(0.5)


def test_the_model_is_a_sound_circuit() -> None:
    model = make_synthetic(4, 1, random_state=3).model
    properties = model.properties()
    assert properties.smooth
    assert properties.decomposable
    assert properties.deterministic
    every = np.array(np.unravel_index(np.arange(2**7), (2,) * 7)).T
    assert np.exp(model.log_likelihood(every)).sum() == pytest.approx(1.0)


def test_rows_come_from_the_model() -> None:
    data = make_synthetic(3, 60_000, random_state=4)
    drawn = data.frame.select("S", "Df", "D", "X1", "X2", "X3").to_numpy()
    seen = np.bincount(drawn @ (1 << np.arange(6)), minlength=64) / len(drawn)
    every = np.array([[code >> j & 1 for j in range(6)] for code in range(64)])
    assert np.abs(seen - np.exp(data.model.log_likelihood(every))).max() < 0.008


def test_a_seed_repeats() -> None:
    a, b = (make_synthetic(7, 50, random_state=5) for _ in range(2))
    assert a.frame.equals(b.frame)
    assert not a.frame.equals(make_synthetic(7, 50, random_state=6).frame)


def test_trees_may_be_deep_or_single() -> None:
    assert make_synthetic(1, 10, random_state=0).X.shape == (10, 1)
    assert make_synthetic(300, 2, random_state=0).X.shape == (2, 300)


@pytest.mark.parametrize(
    "options", [{"n_features": 0}, {"n_samples": 0}, {"smoothing": -1.0}, {"trees": "oak"}]
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(LearningError):
        make_synthetic(**options)
