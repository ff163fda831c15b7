"""Tables of p-values on a table whose persons repeat: by row, and by person beside it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fairpc.models import Rows
from reproduction import significance_tables
from reproduction.methods import METHODS, Outcome
from reproduction.significance import mcnemar, wilcoxon
from reproduction.significance_tables import likelihood_test, pooled_rows, prediction_test
from reproduction.sources import PaperTable, own_folds

PAIR = ("NLatPC", "FairPC")
PERSONS = np.repeat(np.arange(200), 3)


@pytest.fixture(scope="module")
def table() -> PaperTable:
    """Three equal rows per person."""
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 2, (200, 4))[PERSONS]
    rows = Rows.of(cells[:, 0], cells[:, 1], cells[:, 2:])
    return PaperTable("compas", rows, own_folds(rows, 0, PERSONS), persons=PERSONS)


@pytest.fixture(scope="module")
def outcomes(table: PaperTable) -> dict[str, list[Outcome]]:
    """Methods that differ at random from person to person, alike in all rows of one."""
    rng = np.random.default_rng(1)
    found = {}
    for method in dict.fromkeys((*PAIR, *METHODS)):
        likelihood, wrong = rng.normal(size=200)[PERSONS], (rng.random(200) < 0.3)[PERSONS]
        found[method] = [
            _outcome(likelihood[f.test], table.rows.d[f.test] ^ wrong[f.test]) for f in table.folds
        ]
    return found


def _outcome(likelihood: Any, predicted: Any) -> Outcome:
    return Outcome(np.empty(0), predicted, 0.0, likelihood)


def test_persons_count_once(table: PaperTable, outcomes: dict[str, list[Outcome]]) -> None:
    a, b = (outcomes[m] for m in PAIR)
    rows = pooled_rows(table, len(a))
    likelihoods = [np.concatenate([o.log_likelihood for o in part]) for part in (a, b)]
    predictions = [np.concatenate([o.predicted for o in part]) for part in (a, b)]
    found = likelihood_test(table, a, b, clustered=True)
    assert found == wilcoxon(*likelihoods, clusters=PERSONS[rows])
    assert found.n_clusters == 200
    assert found.p_value > likelihood_test(table, a, b).p_value
    guessed = prediction_test(table, a, b, clustered=True)
    assert guessed == mcnemar(table.rows.d[rows], *predictions, clusters=PERSONS[rows])
    assert guessed.p_value > prediction_test(table, a, b).p_value


def test_both_p_values_are_shown(table: PaperTable, outcomes: dict[str, list[Outcome]]) -> None:
    study: Any = SimpleNamespace(
        real_world=((table,), ()),
        real_world_runs={("compas", m): found for m, found in outcomes.items()},
    )
    exhibit = significance_tables.exhibit(study)
    wilcoxon_grid, mcnemar_grid = exhibit.grids
    for grid in (wilcoxon_grid, mcnemar_grid):
        assert grid.head == ("pair", "COMPAS", "COMPAS, clustered")
    assert all(np.isfinite(r["p_value_clustered"]) for r in exhibit.records)
    assert any("clustered by person, each counts once" in note for note in exhibit.notes)
