"""``given`` of LatentDecision, and bounds of scores within strata, from Python to files."""

from __future__ import annotations

import copy
import functools
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.linear_model import LogisticRegression

from fairpc import FairPC, Knowledge, LatentDecision, load
from fairpc.errors import (
    ContradictionWarning,
    FairpcError,
    FileFormatError,
    TableWarning,
)
from fairpc.evidence import WithinBounds
from fairpc.models import Rows, Strata, TableClassifier
from fairpc.models._file import checksum
from fairpc.models._score_map import Subgroups
from fairpc.models._score_map_fit import ScoredRows, fit_score_map
from models.test_strata import BENT, PI, table
from strategies import examples


def quick(**given: Any) -> LatentDecision:
    """A model whose classifier is soon learned."""
    usual: dict[str, Any] = {"sensitive": "sex", "given": "hours", "cv": 3, "random_state": 0}
    return LatentDecision(TableClassifier("logistic"), **usual | given)


def scored(
    n: int, seed: int, *, n_groups: int = 2, weighted: bool = False
) -> tuple[ScoredRows, Any]:
    """Rows with exact P(D = 1 | x, s, a) as their scores, and P(Df = 1 | x, s, a)."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, n_groups, n)
    a = np.where(rng.random(n) < 0.4 * (s == 0), 0, rng.integers(0, 3, n))
    q = rng.beta(3 * PI[a], 3 * (1 - PI[a]))
    b0, b1 = np.array([*BENT, [0.05, 0.8]])[s].T
    r = b0 + (b1 - b0) * q
    weights = rng.uniform(0.2, 3, n) if weighted else np.ones(n)
    d = (rng.random(n) < r).astype(np.int16)
    x = np.asfortranarray(a[:, None], np.int16)
    rows = Rows.of(s, d, x, weights=weights, n_groups=n_groups, arities=[3], names=["a"])
    rows = rows.with_strata(Strata.of((0,), (3,)))
    return ScoredRows(rows, r, rng.integers(0, 5, n), 1), q


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([2, 3]),
    st.booleans(),
)
def test_every_group_of_a_stratum_has_the_same_mean(
    seed: int, n_groups: int, weighted: bool
) -> None:
    """The mean of q over the training rows of each subgroup is P(Df | a)."""
    rows, _ = scored(600, seed, n_groups=n_groups, weighted=weighted)
    names = ("g0", "g1", "g2")[:n_groups]
    found = fit_score_map(rows, names)
    own, w = found.strata, rows.rows.weights
    assert own is not None
    q = found.decision(rows.scores[None], rows.at)
    unknown = found.decision(rows.scores[None], Subgroups(rows.groups))
    assert ((q > 0) & (q < 1)).all()
    for s in range(n_groups):
        for a in range(3):
            here = (rows.groups == s) & (rows.strata == a)
            mean = np.average(q[here], weights=w[here])
            assert mean == pytest.approx(own.decision_rate[a], abs=1e-9)
        here = rows.groups == s
        mean = np.average(q[here], weights=w[here])
        assert mean == pytest.approx(own.group_decision_rate[s], abs=1e-9)
        # A row whose stratum is not known has the mean of its group.
        assert np.average(unknown[here], weights=w[here]) == pytest.approx(mean, abs=1e-9)
    assert found.decision_rate == pytest.approx(np.average(q, weights=w), abs=1e-9)
    assert (own.mechanism[..., 1] > own.mechanism[..., 0]).all()
    bounds = found.bounds(rows.scores[None], rows.at, None)
    assert ((bounds[:, 0] <= q) & (q <= bounds[:, 1])).all()


@pytest.mark.parametrize("positive", [1, 0])
def test_exact_scores_give_the_mechanism_and_bounds_that_hold_the_truth(
    positive: int,
) -> None:
    rows, q = scored(8000, 1)
    turned = replace(rows.rows, d=rows.rows.d if positive else 1 - rows.rows.d)
    rows = replace(rows, rows=turned, positive=positive)
    found = fit_score_map(rows, ("f", "m"))
    own = found.strata
    assert own is not None
    assert isinstance(found.ends, WithinBounds)
    for a, ends in enumerate(found.ends.strata):
        assert ends is not None
        low, high = ends.rate_set(found.ends.level_each(0.95))
        assert low <= own.decision_rate[a] <= high
        assert low < PI[a] < high
    asked = np.stack([rows.scores] * 5), rows.at
    bounds = found.bounds(*asked, 0.95)
    assert ((bounds[:, 0] <= q) & (q <= bounds[:, 1])).mean() > 0.999
    low, high = found.rate_set(0.95)
    assert low < q.mean() < high


def assert_truth_is_possible(m: Any) -> None:
    """A stratum by itself leaves a range: that of the mechanism of ``table`` holds the truth."""
    ranges = m.stratum_mechanism_range_
    assert (ranges[..., 0] <= BENT[:, None]).all()
    assert (ranges[..., 1] >= BENT[:, None]).all()
    for rate, ends in zip(PI, m.label_ends_.strata, strict=True):
        low, high = ends.rate_set(m.label_ends_.level_each(0.95))
        assert low <= rate <= high


def test_truth_lies_in_the_ranges_of_a_table() -> None:
    X, y, f = table(12_000, seed=1)
    m = quick().fit(X, y)
    assert m.warnings_ == ()
    assert m.strata_ == ("hours=h0", "hours=h1", "hours=h2")
    assert_truth_is_possible(m)
    assert m.fair_rate_[1] == pytest.approx(f.mean(), abs=0.05)
    low, high = m.fair_rate_set_
    assert low < f.mean() < high
    q, s = m.predict_proba(X)[:, 1], X["sex"].to_numpy()
    truth = f[s == "m"].mean() - f[s == "f"].mean()
    # The groups differ by their mix of strata, so that plain parity is rejected.
    assert q[s == "m"].mean() - q[s == "f"].mean() == pytest.approx(truth, abs=0.03)
    with pytest.warns(ContradictionWarning, match="the fair rates of 1 must differ"):
        plain = quick(given=()).fit(X, y).predict_proba(X)[:, 1]
    assert abs(plain[s == "m"].mean() - plain[s == "f"].mean()) < 0.02
    assert m.parity_gap()["model"] == 0.0
    # Labels of "f" were lowered: a row of hers with D = 0 has a larger P(Df = 1) than one of his.
    with_zero = m.posterior(X, np.zeros(len(y), int))[:, 1]
    assert with_zero[s == "f"].mean() > with_zero[s == "m"].mean()
    assert m.label_counts_.sum() == pytest.approx(12_000)
    assert len(m.explain_bias().sentences) == 5  # ranges, the point, what only a review shows


def test_a_model_within_strata_is_saved(tmp_path: Path) -> None:
    X, y, _ = table(900)
    X = X.with_columns(hours=pl.when(pl.int_range(900) < 20).then(None).otherwise(pl.col("hours")))
    with pytest.warns(TableWarning, match="20 rows of 900 have no label, no group or no stratum"):
        m = quick().fit(X, y)
    assert m.stratum_rate_.shape == (3, 2)
    assert m.stratum_rate_.sum(axis=1) == pytest.approx(1)
    assert m.stratum_mechanism_.shape == (2, 3, 2, 2)
    assert m.stratum_mechanism_.sum(axis=3) == pytest.approx(1)
    m.save(tmp_path / "m.fairpc")
    again: Any = load(tmp_path / "m.fairpc")
    assert again.strata_ == m.strata_
    assert again.given == ("hours",)
    assert again.fair_rate_set_ == m.fair_rate_set_
    for name in ("predict_proba", "predict_observed_proba", "predict_bounds"):
        np.testing.assert_array_equal(getattr(again, name)(X), getattr(m, name)(X))
    np.testing.assert_array_equal(again.posterior(X, y), m.posterior(X, y))
    wide, ours = (one.predict_bounds(X, level=0.95) for one in (again, m))
    np.testing.assert_array_equal(wide, ours)
    rows, labels, weights = m.relabel(X, y)
    assert len(rows) == len(labels) == len(weights)
    assert weights.sum() == pytest.approx(900)
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m.fairpc").read_bytes()


def test_no_columns_are_the_model_without_strata(tmp_path: Path) -> None:
    """Bit for bit, the file too."""
    X, y, _ = table(600)
    usual: dict[str, Any] = {"sensitive": "sex", "cv": 3, "random_state": 0}
    models = [quick(given=()), quick(given=[])]
    models.append(LatentDecision(TableClassifier("logistic"), **usual))
    for k, model in enumerate(models):
        model.fit(X, y).save(tmp_path / str(k))
        assert model.strata_ == ("",)
        assert np.array_equal(model.stratum_rate_, model.fair_rate_[None])
        assert np.array_equal(model.stratum_mechanism_[:, 0], model.bias_mechanism_)
    contents = [(tmp_path / str(k)).read_bytes() for k in range(3)]
    assert contents[0] == contents[1] == contents[2]
    assert "strata" not in json.loads(contents[0])["score_map"]


def test_a_subgroup_without_rows_is_answered() -> None:
    X, y, _ = table(900)
    seen = ((X["sex"] == "f") | (X["hours"] != "h2")).to_numpy()
    with pytest.warns(TableWarning, match="1 stratum has under 30 rows.*hours=h2"):
        m = quick().fit(X.filter(seen), y[seen])
    q, bounds = m.predict_proba(X)[:, 1], m.predict_bounds(X)
    assert np.isfinite(q).all()
    assert ((bounds[:, 0] <= q) & (q <= bounds[:, 1])).all()
    assert (bounds[~seen] == [0.0, 1.0]).all()


def test_arrays_and_foreign_classifiers_have_strata_too() -> None:
    X, y, _ = table(900)
    columns = [X["hours"].str.slice(1).cast(pl.Int64), X["sex"] == "f", X["x"], X["y"]]
    array = np.column_stack([c.to_numpy().astype(float) for c in columns])
    m = LatentDecision(LogisticRegression(), sensitive=1, given=0, random_state=0).fit(array, y)
    assert len(m.strata_) == 3
    assert np.isfinite(m.predict_proba(array)).all()
    apart = LatentDecision(LogisticRegression(), given=[0], random_state=0)
    apart.fit(np.delete(array, 1, axis=1), y, sensitive_features=array[:, 1])
    assert len(apart.strata_) == 3
    binned = LatentDecision(LogisticRegression(), sensitive=1, given=[0, 2], random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        assert len(binned.fit(array, y).strata_) > 6


def test_labels_may_be_altered_otherwise_in_some_stratum() -> None:
    X, y, f = table(9000, seed=3)
    odd = ((X["hours"] == "h1") & (X["sex"] == "m")).to_numpy()
    # All of their labels follow Df in one stratum, and nearly none in the others.
    rng = np.random.default_rng(0)
    y = np.where(odd, rng.random(9000) < 0.02 + 0.1 * f, y).astype(int)
    assert quick().fit(X, y).warnings_ == ()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"given": "wages"}, "column 'wages' in given is not in the table"),
        ({"given": "sex"}, "is sensitive and in given"),
        ({"given": "id"}, "is in given and was dropped"),
        ({"knowledge": Knowledge(fair_rate=0.4)}, "fair_rate and given"),
        ({"given": 3.5}, "given is 3.5: give the name or number of a column"),
    ],
)
def test_what_cannot_be_strata_is_refused(settings: dict[str, Any], text: str) -> None:
    X, y, _ = table(200)
    X = X.with_columns(id=pl.Series([f"row {i}" for i in range(200)]))
    with pytest.raises(FairpcError, match=text):
        quick(**settings).fit(X, y)


def test_knowledge_is_kept_to() -> None:
    X, y, _ = table(3000, seed=2)
    known = Knowledge(mechanism_bounds={("f", 1, 1): (0.55, 0.62)})
    m = quick(knowledge=known).fit(X, y)
    assert (m.stratum_mechanism_[0, :, 1, 1] >= 0.55 - 0.02).all()
    assert (m.stratum_mechanism_[0, :, 1, 1] <= 0.62 + 0.02).all()


def test_forest_circuits_bound_their_scores_within_strata(tmp_path: Path) -> None:
    X, y, f = table(1500, seed=4)
    m = FairPC("sex", given="hours", structure="forest", random_state=0).fit(X, y)
    assert isinstance(m.label_ends_, WithinBounds)
    q, bounds, wide = (
        m.predict_proba(X)[:, 1],
        m.predict_bounds(X),
        m.predict_bounds(X, level=0.95),
    )
    assert ((bounds[:, 0] <= q) & (q <= bounds[:, 1])).all()
    assert (np.diff(wide) >= 0).all()
    assert np.diff(wide).mean() > np.diff(bounds).mean()
    # Decisions are 1 about as often as bounds of their scores allow.
    assert wide[:, 0].mean() < f.mean() < wide[:, 1].mean()
    m.save(tmp_path / "m")
    again: Any = load(tmp_path / "m")
    assert again.label_ends_ == m.label_ends_
    np.testing.assert_array_equal(again.predict_bounds(X, level=0.95), wide)
    hidden = X.with_columns(pl.lit(None, pl.String).alias("hours"))
    assert np.isfinite(m.predict_bounds(hidden)).all()


@functools.cache
def _saved() -> str:
    X, y, _ = table(900)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        quick().fit(X, y).save(path)
        return path.read_text()


def _at(*keys: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        part: Any = content
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value

    return change


def _without_last_stratum(content: dict[str, Any]) -> None:
    content["score_map"]["ends"]["strata"].pop()


HOSTILE = {
    "held-out rates of a stratum too few": _without_last_stratum,
    "no strata": _at("score_map", "strata", value=None),
    "a rate above one": _at("score_map", "strata", "decision_rate", 0, value=1.5),
    "a stratum too few": _at("score_map", "strata", "decision_rate", value=[0.2, 0.5]),
    "shifts of another shape": _at("score_map", "strata", "shifts", value=[0.0]),
    "a mechanism that turns labels": _at(
        "score_map", "strata", "mechanism", 0, 0, value=[0.9, 0.1]
    ),
    "other strata": _at("settings", "given", value=["z"]),
    "no column": _at("settings", "given", value=["wages"]),
    "an older version": _at("version", value=6),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_altered_files_are_refused(name: str, tmp_path: Path) -> None:
    content = copy.deepcopy(json.loads(_saved()))
    HOSTILE[name](content)
    content["checksum"] = checksum(content)
    (tmp_path / "m").write_text(json.dumps(content))
    with pytest.raises(FileFormatError) as found:
        load(tmp_path / "m")
    assert "\n" not in str(found.value)
