"""One reading per fit: what a forest, circuits and classifiers share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairpc import FairPC
from fairpc.data import merged_bins, read_frame
from fairpc.errors import TableWarning
from fairpc.learners import EncodedTable, encoded_sizes
from fairpc.learners._design import edges_of
from fairpc.models import Rows, TableClassifier, _label_scores as label_scores, _tables as tables
from fairpc.models._score_mechanism import balanced
from fairpc.models._selection import LabelGain, coarser


def people(n: int = 400) -> tuple[pd.DataFrame, Any, Any]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "hours": rng.normal(40, 9, n),
            "town": rng.choice(["Ulm", "Kiel", "Bonn"], n, p=[0.6, 0.39, 0.01]),
        }
    )
    table.loc[rng.random(n) < 0.1, "town"] = None
    y = (table["hours"] + rng.normal(0, 5, n) > 42).astype(int).to_numpy()
    return table, y, rng.choice(["a", "b"], n)


@pytest.mark.parametrize(("gain", "readings"), [(0.1, 1), (0.0, 2)])
def test_a_forest_is_read_once(gain: float, readings: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only circuits have the table read again, and no forest is begun for them."""
    read: list[int] = []
    learned: list[int] = []

    def counted(calls: list[int], call: Any) -> Any:
        def counting(*given: Any, **named: Any) -> Any:
            calls.append(len(given))
            return call(*given, **named)

        return counting

    for owner, name, calls in (
        (tables.RowReader, "training", read),
        (label_scores.ScoreLearning, "by_learner", learned),
    ):
        monkeypatch.setattr(owner, name, counted(calls, getattr(owner, name)))
    found = LabelGain(-0.5, gain, 0.01)
    monkeypatch.setattr("fairpc.models._circuit_fit.compare_labels", lambda *given: found)
    X, y, s = people()
    model = FairPC(random_state=0, max_iter=20, guard=False).fit(X, y, sensitive_features=s)
    assert model.choices_ is not None
    assert model.choices_.forest == (readings == 1)
    assert len(read) == readings
    # Learners that know nothing of the mechanism, once for a forest.
    assert learned.count(1) == (1 if readings == 1 else 0)


def test_rows_know_no_levels_but_their_own() -> None:
    """A classifier of some rows of a table that was read whole is that of these rows alone."""
    X, y, _ = people()
    some = np.flatnonzero(X["town"] != "Bonn")
    table = EncodedTable(read_frame(X), np.ones(len(X)), (), {})
    for kind in ("hgb", "logistic"):
        alone = TableClassifier(kind, random_state=0).fit(X.iloc[some], y[some], identifiers={})
        encoding = table.encoding(kind, some)
        assert encoding.columns[1].levels == ("Kiel", "Ulm")
        matrix = table.matrix(kind, encoding, some)
        shared = TableClassifier(kind, random_state=0)
        edges = edges_of(matrix, encoded_sizes(encoding))
        shared.fit_encoded(np.array([0, 1]), encoding, matrix, y[some], np.ones(len(some)), edges)
        every = table.matrix(kind, encoding, np.arange(len(X)))
        with pytest.warns(TableWarning, match="Bonn"):
            expected = alone.predict_proba(X)[:, 1]
        np.testing.assert_array_equal(shared.learned_.probability(every), expected)


def test_a_column_that_some_rows_lack_is_left_out_for_them() -> None:
    X = people()[0]
    table = EncodedTable(read_frame(X), np.ones(len(X)), (), {})
    without = np.flatnonzero(X["town"].isna())
    encoding = table.encoding("hgb", without)
    assert encoding.names == ("hours",)
    assert table.matrix("hgb", encoding, np.arange(5)).shape == (5, 1)


def test_fine_bins_are_merged_where_the_label_differs_least() -> None:
    counts = np.array([[10.0, 0], [9, 1], [1, 9], [0, 10], [5, 5]])
    assert merged_bins(counts, 3).tolist() == [0, 0, 1, 1, 2]
    assert merged_bins(counts, 9).tolist() == [0, 1, 2, 3, 4]


def test_coarser_rows_keep_order_holes_and_weights() -> None:
    rng = np.random.default_rng(1)
    number, level = rng.integers(0, 30, 500), np.where(rng.random(500) < 0.99, 0, 1)
    level[:2] = 2
    x = np.column_stack([np.where(rng.random(500) < 0.1, -1, number), level])
    rows = Rows.of(rng.integers(0, 2, 500), (number > 14).astype(int), x)
    merged = coarser(rows, [True, False], 4, 0.02)
    assert merged.arities.tolist() == [4, 2]
    np.testing.assert_array_equal(merged.x < 0, rows.x < 0)
    known = rows.x[:, 0] >= 0
    order = np.argsort(rows.x[known, 0], kind="stable")
    assert (np.diff(merged.x[known, 0][order]) >= 0).all()
    np.testing.assert_array_equal(merged.weights, rows.weights)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_odds_are_shifted_until_the_mean_is_the_rate(n_classes: int) -> None:
    """Of leaves that are all but certain too."""
    rng = np.random.default_rng(n_classes)
    for sharp in (0.5, 3.0):
        q = rng.dirichlet(np.full(n_classes, 1 / sharp), 300)
        share = rng.dirichlet(np.ones(300))
        rate = rng.dirichlet(np.full(n_classes, 0.5))
        np.testing.assert_allclose(share @ balanced(q, share, rate), rate, atol=1e-9)
