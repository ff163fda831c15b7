"""Strudel on the published data and folds reaches the published likelihoods."""

from __future__ import annotations

import numpy as np
import pytest

from fairpc.structure import Gain, Strudel, learn_cells
from published import find_folder
from structure import cell_folds

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_folder() is None,
        reason="the published data are not here: set FAIRPC_PAPER_DATA to their folder",
    ),
]


@pytest.mark.parametrize("name", cell_folds.TARGETS)
def test_strudel_reaches_the_published_likelihood(name: str) -> None:
    fold = cell_folds.folds(name)
    scores = []
    for k in range(cell_folds.N_FOLDS):
        part = fold(k)
        learned = learn_cells(part.train, validation=part.validation, method=Strudel())
        scores.append(part.held_out(learned))
    target, close = cell_folds.TARGETS[name]
    assert np.mean(scores) == pytest.approx(target, abs=close)


@pytest.mark.parametrize("name", ["adult", "synthetic-10", "synthetic-20"])
def test_gain_needs_fewer_parameters_at_equal_likelihood(name: str) -> None:
    fold = cell_folds.folds(name)
    scores, sizes = np.zeros((2, 3)), np.zeros((2, 3))
    for k in range(3):
        part = fold(k)
        for i, learned in enumerate(
            (
                learn_cells(part.train, validation=part.validation, method=Strudel()),
                learn_cells(part.train, method=Gain(), trees="cell"),
            )
        ):
            scores[i, k], sizes[i, k] = part.held_out(learned), learned.n_parameters
    assert scores[1].mean() > scores[0].mean() - 0.005
    assert sizes[1].mean() < sizes[0].mean()
