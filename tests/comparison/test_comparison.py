"""Methods on the same folds, against scores computed by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairpc
from auditing.tables import biased, fitted, table
from fairpc.comparison import (
    LR,
    Boosting,
    Comparison,
    FairLR,
    Rand,
    ReweighedBoosting,
    compare,
    every_baseline,
)
from fairpc.comparison._baseline_surface import _split
from fairpc.comparison._runner import in_threads, one_by_one, run_jobs
from fairpc.core import _running as running
from fairpc.errors import ComparisonError, LeakWarning, MetricError, SameAsLabelWarning, TableError
from fairpc.metrics import Fold, stratified_folds
from fairpc.models import LatNB, TwoNB


class Constant(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Always "yes" with the share of it in the training rows; remembers nothing else."""

    def fit(self, X: Any, y: Any) -> Constant:
        self.classes_ = np.unique(y)
        self.rate_ = float(np.mean(np.asarray(y) == "yes"))
        return self

    def predict_proba(self, X: Any) -> Any:
        return np.tile([1 - self.rate_, self.rate_], (len(X), 1))

    def predict(self, X: Any) -> Any:
        return np.full(len(X), "yes")


def three_methods() -> dict[str, Any]:
    return {"NB": LatNB(), "LR": LR(), "Rand": Rand(random_state=0)}


@pytest.fixture(scope="module")
def found() -> Comparison:
    X, y, s = table()
    return compare(three_methods(), X, y, sensitive_features=s, cv=3)


def test_public_name() -> None:
    assert fairpc.compare is compare


def test_scores_are_those_of_the_test_rows() -> None:
    X, y, s = table()
    folds = stratified_folds(y, 3, validation=0.0, seed=4)
    record = compare({"NB": LatNB()}, X, y, sensitive_features=s, cv=folds)
    for fold, score in zip(folds, record.scores, strict=True):
        model = LatNB().fit(X[fold.fit], y[fold.fit], sensitive_features=s[fold.fit])
        test = X[fold.test], s[fold.test]
        guess = model.predict(test[0], sensitive_features=test[1])
        values = model.predict_proba(test[0], sensitive_features=test[1])[:, 1]
        means = [values[test[1] == g].mean() for g in ("g0", "g1")]
        logs = model.score_samples(test[0], y[fold.test], sensitive_features=test[1])
        assert score.accuracy == pytest.approx((guess == y[fold.test]).mean())
        assert score.discrimination == pytest.approx(abs(means[1] - means[0]))
        assert score.log_likelihood == pytest.approx(logs.mean())
        assert score.n_test == len(fold.test)


def test_words_for_missing_hold_for_labels_and_groups() -> None:
    X, y, s = table()
    y, s = np.where(np.arange(len(y)) % 9 == 0, "?", y), np.where(np.arange(len(s)) % 5, s, "?")
    methods = {"NB": LatNB(missing_values=("?",))}
    record = compare(methods, X, y, sensitive_features=s, cv=3)
    assert sum(score.n_test for score in record.scores) == int(((y != "?") & (s != "?")).sum())


def test_jobs_that_were_kept_are_not_run_again() -> None:
    kept = {"b": 20}
    ran: list[str] = []
    over: list[str] = []

    class Store:
        get = staticmethod(kept.get)
        put = staticmethod(kept.__setitem__)

    def work(job: str) -> int:
        ran.append(job)
        return ord(job)

    for spread in (one_by_one, in_threads(2)):
        found = run_jobs(work, ["a", "b", "c"], spread=spread, kept=Store(), done=over.append)
        assert found == [ord("a"), 20, ord("c")]
        assert set(ran) == {"a", "c"}
    assert len(ran) == 2
    assert sorted(over) == ["a", "a", "b", "b", "c", "c"]


def test_means_and_deviations(found: Comparison) -> None:
    per_fold = found.per_fold.filter(pl.col("method") == "LR")["accuracy"]
    row = found.frame.row(by_predicate=pl.col("method") == "LR", named=True)
    assert row["accuracy"] == pytest.approx(per_fold.mean())
    assert row["accuracy_sd"] == pytest.approx(per_fold.std())
    assert row["log_likelihood"] is None
    assert found.frame["method"].to_list() == ["NB", "LR", "Rand"]


def test_json_and_frames(found: Comparison) -> None:
    plain = found.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert "may be biased" in plain["caption"]
    assert found.to_frame("pandas").shape == found.frame.shape
    assert found.to_frame("pyarrow").num_rows == 3
    assert "<table" in found._repr_html_()
    with pytest.raises(ComparisonError, match="library is 'csv': use one of"):
        found.to_frame("csv")  # type: ignore[arg-type]


def test_any_classifier_without_groups() -> None:
    X, y, s = table()
    record = compare([Constant(), Constant()], X, y, sensitive_features=s, cv=2)
    assert record.methods == ("Constant", "Constant 2")
    for score in record.scores:
        assert score.discrimination == pytest.approx(0)
        assert score.selection_gap == 0
        assert score.auc == pytest.approx(0.5)
    numbers = X.select("x0", "x1", "amount").to_numpy()
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    assert compare({"pipe": pipe}, numbers, y, sensitive_features=s, cv=2).methods == ("pipe",)


def test_given_estimators_stay_as_they_were() -> None:
    X, y, s = table()
    model, before = LatNB(), fitted("LatNB")
    circuit = before.circuit_
    compare({"new": model, "old": before}, X, y, sensitive_features=s, cv=2)
    assert not hasattr(model, "distribution_")
    assert before.circuit_ is circuit


def test_sensitive_columns_of_the_table() -> None:
    X, y, s = table()
    whole = X.with_columns(pl.Series("sex", s))
    models = {"NB": LatNB(sensitive="sex"), "LR": LR()}
    named = compare(models, whole, y, cv=2, random_state=3)
    apart = compare({"NB": LatNB(), "LR": LR()}, X, y, sensitive_features=s, cv=2, random_state=3)
    for a, b in zip(named.scores, apart.scores, strict=True):
        assert (a.accuracy, a.discrimination) == pytest.approx((b.accuracy, b.discrimination))


def test_missing_cells_are_filled_for_those_who_take_none() -> None:
    X, y, s = table()
    row = pl.int_range(len(y))
    holes = X.with_columns(
        pl.when(row % 4 == 0).then(None).otherwise(pl.col("city")).alias("city"),
        pl.when(row % 3 == 0).then(None).otherwise(pl.col("amount")).alias("amount"),
    )
    labels = np.where(np.arange(len(y)) % 10 == 0, None, y)
    groups = np.where(np.arange(len(y)) % 9 == 0, None, s)
    record = compare({"NB": TwoNB(), "LR": LR()}, holes, labels, sensitive_features=groups, cv=2)
    assert record.filled == ("LR",)
    assert not record.failures
    number = np.arange(len(y))
    known = int(((number % 10 != 0) & (number % 9 != 0)).sum())
    for method in record.methods:
        assert sum(s.n_test for s in record.scores if s.method == method) == known


def test_names_of_people_are_no_features() -> None:
    """An indicator per person made LR as wide as the table is long, and Reweight take minutes."""
    X, y, s = table()
    methods = {"LR": LR()}
    plain = compare(methods, X, y, sensitive_features=s, cv=3)
    persons = pl.Series([f"P{k}" for k in range(len(X))])
    more = X.with_columns(person=persons, row=pl.arange(len(X)))
    named = compare(methods, more, y, sensitive_features=s, cv=3)
    assert named.identifiers == ("person", "row")
    assert plain.identifiers == ()
    assert [one.auc for one in named.scores] == [one.auc for one in plain.scores]


def test_names_that_a_few_share_are_no_features() -> None:
    """Of 1,200 rows, 600 names: thousands of indicators made an audit take minutes."""
    X, y, s = table(1200)
    named = X.with_columns(person=pl.Series([f"P{k // 2}" for k in range(len(X))]))
    plain, found = (
        compare({"LR": LR()}, some, y, sensitive_features=s, cv=3) for some in (X, named)
    )
    assert found.identifiers == ("person",)
    assert [one.auc for one in found.scores] == [one.auc for one in plain.scores]
    # Where there is a fitted model, its own rule decides.
    model = LatNB(rare=0.001, min_cell=1).fit(named, y, sensitive_features=s)
    assert "person" in model.coding_.features.names
    kept = compare({"NB": model, "LR": LR()}, named, y, sensitive_features=s, cv=3)
    assert kept.identifiers == ()


def test_columns_that_give_the_label_away_are_warned_of() -> None:
    """With them every method tells nearly all labels, and nothing said why."""
    X, y, s = table()
    copy = X.with_columns(other=pl.Series([label == "yes" for label in y]))
    with pytest.warns(
        SameAsLabelWarning, match="column 'other' says the same as the label"
    ) as told:
        compare({"Rand": Rand(random_state=0)}, copy, y, sensitive_features=s, cv=3)
    assert told[0].filename == __file__
    finer = X.with_columns(code=pl.Series([f"{label}{k % 2}" for k, label in enumerate(y)]))
    with pytest.warns(LeakWarning, match="column 'code' gives the label 'y' away"):
        compare({"Rand": Rand(random_state=0)}, finer, y, sensitive_features=s, cv=3)


def test_fits_within_a_comparison_are_silent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "FIRST", 0.0)
    X, y, s = table()
    LatNB(verbose=1).fit(X, y, sensitive_features=s)
    assert "LatNB, 0 s: " in capsys.readouterr().err
    compare({"NB": LatNB(verbose=1)}, X, y, sensitive_features=s, cv=3)
    assert capsys.readouterr().err == ""


def test_a_person_stays_in_one_fold() -> None:
    X, y, s = table()
    seen: list[set[int]] = []

    class Spy(Constant):
        def fit(self, X: Any, y: Any) -> Spy:
            seen.append(set(X["person"].to_list()))
            super().fit(X, y)
            return self

    persons = np.arange(len(y)) // 4
    wide = X.with_columns(pl.Series("person", persons))
    compare([Spy()], wide, y, sensitive_features=s, cv=4, groups=persons)
    assert len(seen) == 4
    everyone = set(persons.tolist())
    held_out = [everyone - inside for inside in seen]
    assert sum(map(len, held_out)) == len(everyone)


def test_a_method_that_cannot_be_run_says_why() -> None:
    X, y, s = table(n_classes=3)
    record = compare({"FairLR": FairLR(), "NB": LatNB()}, X, y, sensitive_features=s, cv=2)
    assert record.methods == ("NB",)
    assert "FairLR supports two" in record.failures["FairLR"]
    with pytest.raises(ComparisonError, match="no method could be run; FairLR: y has 3 classes"):
        compare({"FairLR": FairLR()}, X, y, sensitive_features=s, cv=2)


def test_threads_change_no_score(found: Comparison) -> None:
    X, y, s = table()
    # Ranges against the fair decision need fits of their own.
    options: dict[str, Any] = {"n_jobs": 2, "against_fair": False}
    again = compare(three_methods(), X, y, sensitive_features=s, cv=3, **options)
    keep = [c for c in found.per_fold.columns if c != "fit_seconds"]
    assert again.per_fold.select(keep).equals(found.per_fold.select(keep))


def test_default_methods() -> None:
    names = set(every_baseline())
    assert {"LR", "Rand", "FairLR", "Reweight"} <= names
    pytest.importorskip("fairlearn")
    assert "Reduction" in names


@pytest.mark.parametrize(
    ("models", "options", "error", "words"),
    [
        ({}, {}, ComparisonError, "no models were given"),
        ({"m": 3}, {}, ComparisonError, "model 'm' is a int: give classifiers"),
        (None, {"sensitive_features": None}, TableError, "no sensitive attribute was given"),
        ([LatNB(sensitive="x0")], {}, TableError, "sensitive columns were named and"),
        ([LR()], {"cv": []}, ComparisonError, "cv is empty"),
        ([LR()], {"cv": 1}, MetricError, "k is 1: give a number of folds"),
        ([LR()], {"cv": [([0], [500])]}, ComparisonError, "a fold names row 500"),
        ([LR()], {"n_jobs": 0}, ComparisonError, "n_jobs is 0"),
    ],
)
def test_what_cannot_be_compared_is_a_sentence(
    models: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    X, y, s = table(60)
    with pytest.raises(error, match=words):
        compare(models, X, y, **{"sensitive_features": s} | options)


def test_lengths_must_fit() -> None:
    X, y, s = table(60)
    with pytest.raises(TableError, match="60 rows and 59 labels"):
        compare([LR()], X, y[:59], sensitive_features=s)
    with pytest.raises(TableError, match="column 'sex' in sensitive is not in the table"):
        compare([LatNB(sensitive="sex")], X, y)


def test_pairs_of_rows_are_folds() -> None:
    X, y, s = table(60)
    pairs = [(np.arange(30), np.arange(30, 60))]
    fold = Fold(np.arange(30), np.empty(0, np.int64), np.arange(30, 60))
    a, b = (compare([LR()], X, y, sensitive_features=s, cv=cv) for cv in (pairs, [fold]))
    assert a.scores[0].accuracy == b.scores[0].accuracy
    assert a.means()[0]["accuracy_sd"] is None


BIASED: dict[str, Any] = {"seed": 0, "kept": 0.6, "apart": 2}


def test_decisions_beside_methods_and_ranges_against_the_fair_decision() -> None:
    X, y, s, fair = biased(1500, **BIASED)
    strict = (X["a"].to_numpy() > np.where(s == "f", 2.0, 0.5)).astype(int)
    made = {"strict": strict, "labels": y}
    record = compare({"LR": LR()}, X, y, sensitive_features=s, cv=3, decisions=made)
    assert record.methods == ("LR", "strict", "labels")
    row = record.frame.row(by_predicate=pl.col("method") == "strict", named=True)
    folds = [score for score in record.scores if score.method == "strict"]
    right = (np.where(strict == 1, "yes", "no") == y).mean()
    assert np.average([f.accuracy for f in folds], weights=[f.n_test for f in folds]) == (
        pytest.approx(right)
    )
    assert row["auc"] is None
    assert row["fair_accuracy_low"] <= (strict == fair).mean() <= row["fair_accuracy_high"]
    rates = [strict[fair & (s == g)].mean() for g in ("f", "m")]
    low, high = record.fair["strict"].tpr_gap
    assert 0 < low <= abs(rates[1] - rates[0]) <= high
    # Decisions that are the labels cannot be judged by them.
    assert "repeat the label" in record.no_fair["labels"]
    assert set(record.fair) == {"LR", "strict"}
    assert record.to_dict()["fair"]["LR"]["accuracy"][0] < 1


def test_decisions_alone_and_such_as_cannot_be() -> None:
    X, y, s, _ = biased(300, **BIASED)
    alone = compare({}, X, y, sensitive_features=s, cv=2, decisions={"one": np.arange(300) % 2})
    assert alone.methods == ("one",)
    codes, large = np.unique(y, return_inverse=True)[1], np.array([7654321, 1234567])
    wrong = {"one": large[1 - codes]}
    named = compare(
        {}, X, large[codes], sensitive_features=s, cv=2, decisions=wrong, positive=1234567
    )
    assert named.to_frame()["accuracy"].to_list() == [0.0]
    for given, message in (
        ({"one": ["maybe"] * 300}, "have the value 'maybe'"),
        ({"one": [1, 0]}, "give one per row"),
        ({"LR": np.ones(300)}, "names a method and decisions"),
    ):
        with pytest.raises(ComparisonError, match=message):
            compare([LR()], X, y, sensitive_features=s, cv=2, decisions=given)


def test_reweighed_boosting_makes_label_and_group_independent() -> None:
    X, y, s, _ = biased(600, **BIASED)
    codes, groups = (y == "yes").astype(int), (s == "m").astype(int)
    model = ReweighedBoosting(n_fits=2).fit(X, y, sensitive_features=s)
    weights = model._weights(codes, groups)
    rates = [np.average(codes[groups == g], weights=weights[groups == g]) for g in (0, 1)]
    assert rates[0] == pytest.approx(rates[1])
    assert rates[0] == pytest.approx(codes.mean())
    each = [m.predict_proba(model._numbers(*_split(X, None, s))[0])[:, 1] for m in model.models_]
    assert len(each) == 2
    found = model.predict_proba(X, sensitive_features=s)[:, 1]
    assert found == pytest.approx(np.mean(each, axis=0))
    other = Boosting().fit(X, y, sensitive_features=s)
    gaps = []
    for one in (model, other):
        scores = one.predict_proba(X, sensitive_features=s)[:, 1]
        gaps.append(scores[s == "m"].mean() - scores[s == "f"].mean())
    assert gaps[0] < gaps[1] - 0.03
