"""What the recipe chose and why, in numbers and words."""

from __future__ import annotations

import numpy as np
import pytest

from fairpc.models._choices import paired_gain
from fairpc.models._selection import Stage, fit_auto
from models.tables import SHORT, biased_rows


def test_choices_in_words() -> None:
    rows = biased_rows(10, 500)
    stages: list[Stage] = []
    fitted = fit_auto(rows, options=SHORT, callback=stages.append)
    choices = fitted.choices
    assert choices is not None
    text, n = str(choices), choices.n_validation
    assert n == pytest.approx(50, abs=2)
    assert f"{500 - n} rows were fitted to, {n} validation rows decided." in text
    assert "The search for a structure began with" in text
    assert "A mixture was" in text
    assert "fitted again to training and validation rows" in text
    assert sum(choices.weights) == pytest.approx(1.0)
    starts = {"a tree for each cell", "one tree for all cells, split as in Strudel"}
    assert set(choices.start_scores) == starts
    assert [s.last for s in stages] == [False] * 4 + [True]
    assert stages[-1].fitted is fitted


def test_paired_gain() -> None:
    """Differences 1, 3, 3: mean 7/3, variance 8/9, standard error sqrt(8/9 / 2) = 2/3."""
    gain, error = paired_gain(np.array([1.0, 3.0]), np.zeros(2), np.array([1.0, 2.0]), 3.0)
    assert gain == pytest.approx(7 / 3)
    assert error == pytest.approx(2 / 3)
