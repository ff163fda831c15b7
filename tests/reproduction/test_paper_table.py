"""The paper's table on the published folds: what must be reproduced, and how closely."""

from __future__ import annotations

from pathlib import Path

import pytest

from published import paper_folder
from reproduction.methods import ALL_METHODS
from reproduction.real_world import Scores, scores
from reproduction.runs import Runner, Study
from reproduction.sources import REAL_WORLD, Sources

# Held-out log-likelihood, accuracy, F1 from rates, |discrimination|: means of ten folds.
EXPECTED: dict[tuple[str, str], tuple[float | None, float, float, float]] = {
    ("compas", "FairPC"): (-3.922, 0.882, 0.874, 0.0095),
    ("compas", "LatNB"): (-4.211, 0.881, 0.897, 0.036),
    ("compas", "NLatPC"): (-3.925, 0.877, 0.723, 0.024),
    ("compas", "2NB"): (-4.228, 0.879, 0.808, 0.057),
    ("compas", "Reduction"): (None, 0.882, 0.769, 0.011),
    ("compas", "FairLR"): (None, 0.878, 0.699, 0.007),
    ("compas", "Reweight"): (None, 0.882, 0.763, 0.049),
    ("compas", "LR"): (None, 0.883, 0.769, 0.053),
    ("adult", "FairPC"): (-5.971, 0.821, 0.675, 0.028),
    ("adult", "NLatPC"): (-5.990, 0.831, 0.649, 0.084),
    ("adult", "2NB"): (-6.766, 0.824, 0.725, 0.205),
    ("adult", "Reduction"): (None, 0.821, 0.625, 0.019),
    ("adult", "FairLR"): (None, 0.786, 0.377, 0.009),
    ("adult", "Reweight"): (None, 0.803, 0.709, 0.007),
    ("adult", "LR"): (None, 0.836, 0.685, 0.196),
    ("german", "FairPC"): (-11.730, 0.59, 0.58, 0.074),
    ("german", "LatNB"): (-12.087, 0.496, 0.477, 0.075),
    ("german", "NLatPC"): (-11.738, 0.687, 0.668, 0.049),
    ("german", "2NB"): (-12.275, 0.683, 0.665, 0.064),
    ("german", "Reduction"): (None, 0.706, 0.679, 0.071),
    ("german", "FairLR"): (None, 0.711, 0.684, 0.034),
    ("german", "Reweight"): (None, 0.715, 0.684, 0.038),
    ("german", "LR"): (None, 0.711, 0.683, 0.065),
}
# Of the likelihood, and of the others.
TOLERANCE = {"compas": (0.004, 0.006), "adult": (0.004, 0.006), "german": (0.04, 0.03)}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Scores:
    pytest.importorskip("fairlearn")
    folder = paper_folder()
    cache: Path = tmp_path_factory.mktemp("cache")
    study = Study(Sources(folder, folder / "splits"), Runner(cache, n_jobs=1))
    return scores(study)


@pytest.mark.slow
def test_every_method_is_there(table: Scores) -> None:
    assert set(table) == {(name, method) for name in REAL_WORLD for method in ALL_METHODS}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), EXPECTED, ids=["-".join(key) for key in EXPECTED])
def test_published_folds(name: str, method: str, table: Scores) -> None:
    found, (likelihood, *others) = table[name, method], EXPECTED[name, method]
    nats, rest = TOLERANCE[name]
    if likelihood is not None:
        assert found["log_likelihood"] == pytest.approx(likelihood, abs=nats)
    measured = [found[key] for key in ("accuracy", "rate_f1", "discrimination")]
    assert measured == pytest.approx(others, abs=rest)
