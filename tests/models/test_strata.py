"""``given``: strata of a fitted model, from Python to its file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc import FairPC, Knowledge, LatNB, load
from fairpc.errors import FairpcError, TableWarning

BENT = np.array([[0.02, 0.6], [0.1, 0.95]])
PI = np.array([0.2, 0.5, 0.8])


def table(n: int = 1500, seed: int = 0) -> tuple[pl.DataFrame, Any, Any]:
    """Rates that differ by hours, hours that differ by sex; labels bent against "f"."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    a = np.where(rng.random(n) < 0.4 * (1 - s), 0, rng.integers(0, 3, n))
    f = (rng.random(n) < PI[a]).astype(int)
    d = (rng.random(n) < BENT[s, f]).astype(int)
    columns: dict[str, Any] = {"hours": [f"h{k}" for k in a], "sex": ["fm"[k] for k in s]}
    columns |= {"x": rng.normal(size=n) + 1.5 * f, "y": rng.normal(size=n) + f}
    columns |= {"z": [str(v) for v in (rng.random(n) < 0.2 + 0.6 * f).astype(int)]}
    return pl.DataFrame(columns), d, f


def forest(**settings: Any) -> FairPC:
    return FairPC("sex", structure="forest", random_state=0, **settings)


def test_a_model_within_strata_answers_and_is_saved(tmp_path: Path) -> None:
    X, y, _ = table(800)
    m = forest(given="hours").fit(X, y)
    assert m.strata_ == ("hours=h0", "hours=h1", "hours=h2")
    assert m.stratum_rate_.shape == (3, 2)
    assert m.stratum_mechanism_.shape == (2, 3, 2, 2)
    assert m.bias_mechanism_.shape == (2, 2, 2)
    for hours in ("h0", "h1", "h2"):
        rates = [m.probability({"Df": 1}, {"S": s, "hours": hours}) for s in "fm"]
        assert rates[0] == pytest.approx(rates[1], abs=1e-9)
    assert m.parity_gap()["model"] < 1e-9
    m.save(tmp_path / "m.fairpc")
    again: Any = load(tmp_path / "m.fairpc")
    assert again.strata_ == m.strata_
    assert again.given == ("hours",)
    hidden = X.with_columns(pl.lit(None, pl.String).alias("hours"), sex=pl.lit(None, pl.String))
    for rows in (X, hidden):
        np.testing.assert_array_equal(again.predict_proba(rows), m.predict_proba(rows))
        np.testing.assert_array_equal(
            again.predict_observed_proba(rows), m.predict_observed_proba(rows)
        )
    np.testing.assert_allclose(
        m.label_counts_.sum(axis=(1, 2)),
        X["sex"].value_counts(sort=False).sort("sex")["count"].to_numpy(),
        rtol=1e-9,
    )


def test_the_mechanism_lies_in_its_ranges_and_rates_differ_by_the_mix() -> None:
    X, y, f = table(12_000, seed=1)
    m = forest(given=["hours"]).fit(X, y)
    ranges = m.stratum_mechanism_range_
    assert (ranges[..., 0] <= BENT[:, None]).all()
    assert (ranges[..., 1] >= BENT[:, None]).all()
    # The groups differ by their mix of strata alone, and so do their rates.
    by_group = m.distribution_.decision_rate[:, 1]
    truth = [f[(X["sex"] == s).to_numpy()].mean() for s in "fm"]
    np.testing.assert_allclose(by_group, truth, atol=0.05)


def test_no_columns_are_the_model_without_strata() -> None:
    X, y, _ = table(400)
    one = LatNB("sex", random_state=0).fit(X, y)
    two = LatNB("sex", random_state=0, given=()).fit(X, y)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    assert one.strata_ == ("",)
    assert one.circuit_.graph.n_parameters == two.circuit_.graph.n_parameters


def test_numbers_are_binned_and_columns_crossed() -> None:
    X, y, _ = table(1500)
    m = forest(given=["x", "z"], n_bins=3).fit(X, y)
    assert len(m.strata_) == 6
    assert all("x=" in name and "z=" in name for name in m.strata_)


def test_arrays_name_columns_by_number() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (600, 4))
    y = rng.integers(0, 2, 600)
    m = FairPC(0, given=2, structure="forest").fit(X, y)
    assert len(m.strata_) == 3


def test_small_strata_are_named() -> None:
    X, y, _ = table(400)
    rare = ["rare" if i < 12 else "usual" for i in range(400)]
    with pytest.warns(TableWarning, match="1 stratum has under 30 rows.*job=rare"):
        forest(given="job").fit(X.with_columns(job=pl.Series(rare)), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TableWarning)
        forest(given="z").fit(X, y)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"given": "wages"}, "column 'wages' in given is not in the table"),
        ({"given": "sex"}, "is sensitive and in given"),
        ({"given": "id"}, "is in given and was dropped"),
        ({"given": "hours", "knowledge": Knowledge(fair_rate=0.4)}, "fair_rate and given"),
        ({"given": 3.5}, "given is 3.5: give the name or number of a column"),
    ],
)
def test_what_cannot_be_strata_is_refused(settings: dict[str, Any], text: str) -> None:
    X, y, _ = table(200)
    X = X.with_columns(id=pl.Series([f"row {i}" for i in range(200)]))
    with pytest.raises(FairpcError, match=text):
        forest(**settings).fit(X, y)


def test_automatic_selection_takes_a_forest_circuit() -> None:
    X, y, _ = table(500)
    auto, named = (
        FairPC("sex", given="hours", structure=s, random_state=0) for s in ("auto", "forest")
    )
    np.testing.assert_array_equal(auto.fit(X, y).predict_proba(X), named.fit(X, y).predict_proba(X))
    assert auto.distribution_.is_forest


def test_a_structure_with_strata_is_not_kept() -> None:
    X, y, _ = table(500)
    with pytest.raises(FairpcError, match="whose structure is kept has strata"):
        FairPC("sex", structure=forest(given="hours").fit(X, y)).fit(X, y)


def test_files_are_fitted_in_batches_as_frames_are(tmp_path: Path) -> None:
    X, y, _ = table(600)
    X.with_columns(label=pl.Series(y)).write_csv(tmp_path / "t.csv")
    one = forest(given="hours").fit(X, y)
    two = forest(given="hours").fit(tmp_path / "t.csv", "label")
    np.testing.assert_allclose(one.stratum_rate_, two.stratum_rate_, atol=1e-9)


def test_labels_may_be_altered_in_one_stratum_alone() -> None:
    rng = np.random.default_rng(0)
    n = 6000
    s, a = rng.integers(0, 2, n), rng.integers(0, 2, n)
    f = rng.random(n) < 0.5
    d = f & ~((s == 0) & (a == 0) & (rng.random(n) < 0.7))
    columns = {"sex": np.array(["f", "m"])[s], "hours": np.array(["few", "many"])[a]}
    X = pl.DataFrame(columns | {"x": rng.normal(size=n) + 4 * f, "y": rng.normal(size=n) + 4 * f})
    own = forest(given="hours").fit(X, d)
    assert not own.warnings_
    assert own.stratum_mechanism_[0, :, 1, 1] == pytest.approx([0.3, 1.0], abs=0.1)
