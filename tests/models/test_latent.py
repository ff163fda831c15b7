"""Df from any classifier: tables of every kind, groups known or not, bad input, bounds."""

from __future__ import annotations

import io
import warnings
from itertools import product
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from fairpc import FairPC, Knowledge, LatentDecision, LatNB, TwoNB
from fairpc.core import Array, Floats
from fairpc.datasets import load_adult
from fairpc.errors import (
    ContradictionWarning,
    FairpcError,
    LearningError,
    NotAnsweredError,
    TableError,
    TableWarning,
)

N = 900
MECHANISM = {"F": (0.02, 0.6), "M": (0.1, 0.95), "X": (0.05, 0.8)}


def people(
    n: int = N, seed: int = 0, groups: tuple[str, ...] = ("F", "M")
) -> tuple[pd.DataFrame, Array, Array, Array]:
    """Features that tell Df, labels bent by ``MECHANISM``, groups, and Df itself; P(Df) = .5.

    The third feature tells the group.
    """
    rng = np.random.default_rng(seed)
    group = rng.choice(groups, n)
    fair = rng.random(n) < 0.5
    b0, b1 = np.array([MECHANISM[g] for g in group]).T
    label = rng.random(n) < np.where(fair, b1, b0)
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n) + 15 * fair,
            "years": (rng.integers(0, 20, n) + 12 * fair).astype(float),
            "size": rng.normal(0, 1, n) + 2.0 * (group == groups[0]),
        }
    )
    words = np.array(["bad", "good"])
    return table, words[label.astype(int)], group, words[fair.astype(int)]


X, Y, G, FAIR = people()


def logistic() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression())


def fit(estimator: Any = None, table: Any = X, groups: Any = G, y: Any = Y, **given: Any) -> Any:
    """A fitted model; what ``fit`` takes is told from settings by its name."""
    taken = ("sample_weight", "clusters")
    rows = {name: given.pop(name) for name in taken if name in given}
    model = LatentDecision(estimator, random_state=0, **given)
    return model.fit(table, y, sensitive_features=groups, **rows)


def positive(model: Any, table: Any = X, groups: Any = G) -> Floats:
    """P(Df = positive), after a check that it lies within its bounds."""
    column = list(model.classes_).index(model.positive_class_)
    q: Floats = model.predict_proba(table, sensitive_features=groups)[:, column]
    bounds = model.predict_bounds(table, sensitive_features=groups)
    assert bounds.shape == (len(q), 2)
    assert ((bounds[:, 0] <= q) & (q <= bounds[:, 1])).all()
    assert ((bounds >= 0) & (bounds <= 1)).all()
    return q


def with_holes(model: Any, table: Any) -> Floats:
    """P(Df = positive) where the group of some rows is not known."""
    with pytest.warns(TableWarning, match="group is not known"):
        q: Floats = model.predict_proba(table)[:, 1]
    return q


PLAIN = fit(logistic())
SCORES = positive(PLAIN)


def test_it_finds_the_decision_behind_the_labels() -> None:
    """Nearer to Df than the label or a classifier of it; equal means; the mechanism, roughly."""
    table, label, group, fair = people(6000, 1)
    model = fit(logistic(), table, group, label)
    assert model.warnings_ == ()
    q, observed = (
        positive(model, table, group),
        model.predict_observed_proba(table, sensitive_features=group),
    )
    decisions = model.predict(table, sensitive_features=group)
    right = (decisions == fair).mean()
    assert right > (label == fair).mean() + 0.02
    assert right > ((observed[:, 1] > 0.5) == (fair == "good")).mean() + 0.01
    means = [q[group == g].mean() for g in "FM"]
    assert means[0] == pytest.approx(means[1], abs=0.02)
    assert model.parity_gap(table, sensitive_features=group)["model"] == 0.0
    low, high = model.fair_rate_set_
    assert low <= 0.5 <= high
    assert model.fair_rate_[1] == pytest.approx(0.5, abs=0.06)
    found = model.bias_mechanism_[:, [0, 1], 1]
    assert found == pytest.approx(np.array([MECHANISM[g] for g in "FM"]), abs=0.1)
    assert model.bias_mechanism_.sum(axis=2) == pytest.approx(1)
    assert model.label_counts_.sum() == pytest.approx(6000)
    assert model.group_rate_ == pytest.approx([(group == g).mean() for g in "FM"])
    wide = model.predict_bounds(table, sensitive_features=group, level=0.95)
    assert ((wide[:, 0] <= q) & (q <= wide[:, 1])).all()


def frames() -> list[Any]:
    odd = X.set_axis(np.arange(N)[::-1] * 7 + 3)
    repeated = X.set_axis(np.zeros(N, int))
    return [odd, repeated, pl.from_pandas(X), pa.Table.from_pandas(X), X.to_numpy()]


@pytest.mark.parametrize("table", frames(), ids=["odd", "repeated", "polars", "pyarrow", "numpy"])
def test_tables_of_every_library_give_the_same(table: Any) -> None:
    model = fit(logistic(), table)
    # Sums over an array go another way through memory.
    assert positive(model, table) == pytest.approx(SCORES, abs=1e-12)
    assert positive(fit(None, table), table).shape == (N,)


def test_rows_may_come_otherwise_than_at_fit() -> None:
    """Frames by name, whatever else they hold, arrays by position."""
    for model in (PLAIN, fit()):
        expected = positive(model)
        turned = X.assign(more=1)[["size", "more", "years", "age"]]
        assert np.array_equal(positive(model, turned), expected)
        assert np.array_equal(positive(model, X.to_numpy()), expected)
        assert np.array_equal(positive(model, pl.from_pandas(X)), expected)
    by_place = fit(logistic(), X.to_numpy())
    with pytest.warns(TableWarning, match="by their position"):
        found = positive(by_place, X)
    assert np.array_equal(found, positive(by_place, X.to_numpy()))


GROUPS = {
    "list": G.tolist(),
    "series": pd.Series(G),
    "frame": pd.DataFrame({"sex": G}),
    "polars": pl.Series("sex", G),
    "numbers": (G == "M").astype(int),
    "booleans": G == "M",
}


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
def test_groups_apart_in_every_form(groups: Any) -> None:
    assert np.array_equal(positive(fit(logistic(), groups=groups), X, groups), SCORES)


def inside(**values: Any) -> pd.DataFrame:
    """The table with the group as its second column."""
    table = X.copy()
    table.insert(1, "sex", values.get("sex", (G == "M").astype(float)))
    return table


@pytest.mark.parametrize("sensitive", ["sex", 1, ["sex"]])
def test_groups_inside_of_x(sensitive: Any) -> None:
    model = LatentDecision(logistic(), sensitive=sensitive, random_state=0).fit(inside(), Y)
    assert positive(model, inside(), None) == pytest.approx(SCORES, abs=1e-9)
    holes = inside()
    holes.loc[:9, "sex"] = np.nan
    q = with_holes(model, holes)
    assert np.isnan(q[:10]).all()
    assert q[10:] == pytest.approx(SCORES[10:], abs=1e-9)
    assert np.isnan(with_holes(model, X)).all()  # the column may lack altogether


def test_groups_inside_of_an_array() -> None:
    array = inside().to_numpy()
    model = LatentDecision(logistic(), sensitive=1, random_state=0).fit(array, Y)
    assert positive(model, array, None) == pytest.approx(SCORES, abs=1e-9)
    array[:10, 1] = np.nan
    assert np.isnan(with_holes(model, array)[:10]).all()


def test_text_and_categories_inside_of_x() -> None:
    """The classifier sees the column as it is; a category stays one."""
    steps = make_column_transformer((OneHotEncoder(), ["sex"]), remainder=StandardScaler())
    category = HistGradientBoostingClassifier(max_iter=20, random_state=0)
    text, kind = inside(sex=G), inside(sex=pd.Categorical(G))
    for estimator, table in (
        (make_pipeline(steps, LogisticRegression()), text),
        (category, kind),
        (None, text),
    ):
        model = LatentDecision(estimator, sensitive="sex", cv=2, random_state=0).fit(table, Y)
        known = positive(model, table, None)
        holes = table.copy()
        holes.loc[:9, "sex"] = None
        q = with_holes(model, holes)
        assert np.array_equal(q[10:], known[10:])
        assert np.isnan(q[:10]).all()


def test_several_columns_of_groups_are_crossed() -> None:
    rng = np.random.default_rng(1)
    both = pd.DataFrame({"sex": G, "age group": rng.choice(["old", "young"], N)})
    model = fit(logistic(), groups=both)
    assert len(model.groups_) == 4
    array = both.to_numpy()
    again = positive(fit(logistic(), groups=array), X, array)
    assert np.array_equal(again, positive(model, X, both))
    assert len(fit(groups=both).groups_) == 4


@pytest.mark.parametrize("estimator", [None, logistic()], ids=["default", "logistic"])
def test_three_groups(estimator: Any) -> None:
    table, label, group, _ = people(1200, 2, ("F", "M", "X"))
    model = fit(estimator, table, group, label)
    assert list(model.groups_) == ["F", "M", "X"]
    assert model.bias_mechanism_.shape == (3, 2, 2)
    positive(model, table, group)


def test_labels_of_every_kind() -> None:
    """Text, booleans and numbers are the same; with the other class as positive, 1 − q."""
    for y in (Y == "good", (Y == "good").astype(int)):
        assert np.array_equal(positive(fit(logistic(), y=y)), SCORES)
    other = fit(logistic(), positive="bad")
    assert other.positive_class_ == "bad"
    assert other.fair_rate_ == pytest.approx(PLAIN.fair_rate_, abs=1e-9)
    assert other.bias_mechanism_ == pytest.approx(PLAIN.bias_mechanism_, abs=1e-9)
    # Steps of the calibration may differ by a row.
    assert np.abs(positive(other) + SCORES - 1).mean() < 0.01


def test_holes_in_features() -> None:
    holes = X.mask(np.random.default_rng(0).random(X.shape) < 0.2)
    assert np.isfinite(positive(fit(None, holes), holes)).all()
    with pytest.raises(LearningError, match=r"Pipeline\.fit does not take these rows.*NaN"):
        fit(logistic(), holes)


def test_a_row_whose_group_is_not_known_has_no_score() -> None:
    some = np.array(G, object)
    some[:50] = None
    asked: dict[str, Any] = {"sensitive_features": some}
    known = {"sensitive_features": G}
    for name in ("predict_proba", "predict_observed_proba", "predict_bounds"):
        with pytest.warns(TableWarning, match="group is not known have no score") as caught:
            found = getattr(PLAIN, name)(X, **asked)
        assert len(caught) == 1
        assert np.isnan(found[:50]).all()
        assert np.array_equal(found[50:], getattr(PLAIN, name)(X, **known)[50:])
    with pytest.warns(TableWarning, match="group is not known"):
        soft = PLAIN.posterior(X, Y, **asked)
    assert np.isnan(soft[:50]).all()
    assert np.array_equal(soft[50:], PLAIN.posterior(X, Y, **known)[50:])
    with pytest.warns(TableWarning, match="group is not known"):
        _, said = PLAIN.predict_bounds(X, **asked, decisions=True)
    assert set(said[:50]) == {"open"}
    with (
        pytest.warns(TableWarning, match="group is not known"),
        pytest.raises(LearningError, match="has no decision: give the groups"),
    ):
        PLAIN.predict(X, **asked)
    with pytest.warns(TableWarning, match="group is not known"):
        assert np.isnan(PLAIN.predict_proba(X)).all()


def test_soft_labels() -> None:
    """Bayes by hand, q where the label is missing; each row twice, its weights add to its own."""
    q = PLAIN.predict_proba(X, sensitive_features=G)
    b = PLAIN.bias_mechanism_[(G == "M").astype(int)]
    joint = q * b[np.arange(N), :, (Y == "good").astype(int)]
    soft = PLAIN.posterior(X, Y, sensitive_features=G)
    assert soft == pytest.approx(joint / joint.sum(axis=1, keepdims=True), abs=1e-12)
    hidden = np.full(N, None, object)
    assert PLAIN.posterior(X, hidden, sensitive_features=G) == pytest.approx(q, abs=1e-12)
    weights = np.linspace(0.5, 2, N)
    table, labels, each = PLAIN.relabel(X, Y, sensitive_features=G, sample_weight=weights)
    assert len(table) == len(labels) == len(each)
    assert each.sum() == pytest.approx(weights.sum())
    assert each[labels == "good"].sum() == pytest.approx(weights @ soft[:, 1])


def test_persons_stay_in_one_fold() -> None:
    persons = np.repeat(np.arange(N // 3), 3)
    seen: list[set[float]] = []

    class Noted(LogisticRegression):  # type: ignore[misc]
        def fit(self, table: Any, y: Any) -> Any:
            seen.append(set(np.asarray(table)[:, 1].tolist()))
            return super().fit(table, y)

    marked = np.column_stack([X["age"], persons, X["years"]])
    fit(Noted(max_iter=1000), marked, clusters=persons)
    assert len(seen) == 5
    left_out = [set(map(float, persons)) - part for part in seen]
    assert sum(map(len, left_out)) == N // 3
    assert set.union(*left_out) == set(map(float, persons))


def test_weights_reach_the_classifier_and_the_rates() -> None:
    weights = np.where(Y == "good", 3.0, 1.0)
    model = fit(logistic(), sample_weight=weights)
    assert model.fair_rate_[1] > PLAIN.fair_rate_[1] + 0.1
    assert model.label_counts_.sum() == pytest.approx(weights.sum())
    # Rows of no weight are as if they were not there, but for the folds.
    none = np.where(np.arange(N) < 100, 0.0, 1.0)
    zero = fit(logistic(), sample_weight=none)
    without = fit(logistic(), X[100:], G[100:], Y[100:], sample_weight=np.ones(N - 100))
    assert np.array_equal(positive(zero), positive(without))


def test_knowledge_cuts_what_is_possible() -> None:
    low, high = PLAIN.fair_rate_set_
    for known, group in (
        (Knowledge(fair_rate=(low, (low + high) / 2)), 0),
        (Knowledge(one_sided={"F": "lowered"}), 0),
        (Knowledge(mechanism_bounds={("F", "good", "good"): (0.55, 0.62)}), 0),
    ):
        model = fit(logistic(), knowledge=known)
        least, most = model.fair_rate_set_
        assert low - 1e-12 <= least <= most <= high + 1e-12
        positive(model)
        if known.fair_rate:
            assert model.fair_rate_[1] <= (low + high) / 2 + 1e-9
        if known.one_sided:
            assert model.bias_mechanism_[group, 0, 1] == pytest.approx(0, abs=1e-6)
        if known.mechanism_bounds:
            assert 0.55 - 1e-6 <= model.bias_mechanism_[group, 1, 1] <= 0.62 + 1e-6


@pytest.mark.filterwarnings("ignore:column 'x' gives the label 'y' away")
def test_what_was_stated_is_blamed_only_where_something_was() -> None:
    """Features tell the labels, at rates that differ: no fair rate fits both groups."""
    rng = np.random.default_rng(0)
    label = rng.random(N) < np.where(G == "F", 0.2, 0.8)
    told = pd.DataFrame({"x": np.where(rng.random(N) < 0.01, ~label, label).astype(float)})
    for knowledge, blamed in ((None, False), (Knowledge(fair_rate=(0.1, 0.9)), True)):
        model = LatentDecision(logistic(), knowledge=knowledge)
        with pytest.warns(ContradictionWarning, match="fair rates of .* must differ"):
            model.fit(told, label.astype(int), sensitive_features=G)
        (said,) = model.warnings_
        assert ("or what was stated as known is wrong" in said) == blamed


def test_knowledge_that_the_labels_contradict_is_told() -> None:
    with pytest.warns(ContradictionWarning, match="what was stated as known is wrong"):
        model = fit(logistic(), knowledge=Knowledge(fair_rate=0.95))
    assert len(model.warnings_) == 1
    with pytest.warns(ContradictionWarning, match="bounds are NaN"):
        bounds = model.predict_bounds(X, sensitive_features=G, level=0.95)
    assert np.isnan(bounds).all()


def test_bounds_decide_what_can_be_decided() -> None:
    bounds, said = PLAIN.predict_bounds(X, sensitive_features=G, level=0.95, decisions=True)
    assert np.array_equal(said == "yes", bounds[:, 0] > 0.5)
    assert np.array_equal(said == "no", bounds[:, 1] <= 0.5)
    assert set(said) == {"yes", "no", "open"}


def test_copies_and_files_of_joblib_give_the_same() -> None:
    model = fit()
    expected = positive(model)
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    buffer.seek(0)
    assert np.array_equal(positive(joblib.load(buffer)), expected)
    assert clone(model).get_params() == model.get_params()
    for estimator in (clone(PLAIN), LatentDecision(logistic(), random_state=0)):
        assert np.array_equal(positive(estimator.fit(X, Y, sensitive_features=G)), SCORES)


def test_the_user_s_classifier_is_left_as_it_is() -> None:
    own = logistic()
    fit(own)
    with pytest.raises(NotFittedError):
        own.predict_proba(X)


def test_files_give_the_same(tmp_path: Any) -> None:
    """Tables in batches are asked by name, the label too."""
    table = inside()
    model = LatentDecision(random_state=0, sensitive="sex").fit(table, Y)
    path = tmp_path / "rows.parquet"
    table.assign(label=Y).to_parquet(path)
    assert np.array_equal(model.predict_proba(path), model.predict_proba(table))
    assert np.array_equal(model.posterior(path, "label"), model.posterior(table, Y))
    assert np.array_equal(
        model.predict_bounds(path, level=0.9), model.predict_bounds(table, level=0.9)
    )


def test_a_distilled_model_sees_no_group() -> None:
    found = PLAIN.distil(LogisticRegression(max_iter=1000), X, sensitive_features=G)
    assert list(found.estimator.feature_names_in_) == list(X.columns)
    assert found.difference < 0.1
    assert "differ by" in str(found)
    with pytest.raises(LearningError, match=r"KNeighborsClassifier\.fit takes no sample_weight"):
        PLAIN.distil(KNeighborsClassifier(), X, sensitive_features=G)


# What cannot be done, and is said.


class Answers(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that gives what it is told to."""

    def __init__(self, shape: str = "nan") -> None:
        self.shape = shape

    def fit(self, table: Any, y: Any) -> Answers:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, table: Any) -> Floats:
        n = len(table)
        return {
            "nan": np.full((n, 2), np.nan),
            "one column": np.full((n, 1), 0.5),
            "short": np.full((n - 1, 2), 0.5),
            "beyond": np.column_stack([np.linspace(-2, 1, n), np.linspace(3, 0, n)]),
        }[self.shape]


def with_(column: str, row: int, value: Any) -> pd.DataFrame:
    table = X.copy()
    table.loc[row, column] = value
    return table


BAD: dict[str, tuple[dict[str, Any], type[FairpcError], str]] = {
    "no probabilities": ({"estimator": LinearSVC()}, LearningError, "LinearSVC without predict_p"),
    "a regression": ({"estimator": LinearRegression()}, LearningError, "without predict_proba"),
    "a class": ({"estimator": LogisticRegression}, LearningError, "estimator is .*as an object"),
    "a word": ({"estimator": "hgb"}, LearningError, "estimator is 'hgb': give a classifier"),
    "one score": ({"estimator": DummyClassifier()}, LearningError, "all rows of a group one score"),
    "nan": ({"estimator": Answers("nan")}, LearningError, "numbers that are not from 0 to 1"),
    "one column": ({"estimator": Answers("one column")}, LearningError, r"gives shape \(180, 1\)"),
    "short": ({"estimator": Answers("short")}, LearningError, r"shape \(179, 2\) for 180 rows"),
    "beyond": ({"estimator": Answers("beyond")}, LearningError, "not from 0 to 1"),
    "weights for none": (
        {"estimator": KNeighborsClassifier(), "sample_weight": np.ones(N)},
        LearningError,
        r"KNeighborsClassifier\.fit takes none",
    ),
    "text for numbers": (
        {"estimator": logistic(), "table": X.assign(job="a")},
        LearningError,
        "could not convert string to float.*Pipeline",
    ),
    "cv 1": ({"cv": 1}, LearningError, "cv is 1: give a number of folds from 2 to 100"),
    "cv 1000": ({"cv": 1000}, LearningError, "cv is 1000"),
    "cv True": ({"cv": True}, LearningError, "cv is True"),
    "more folds than persons": (
        {"clusters": np.arange(N) % 3},
        LearningError,
        "cv is 5 and there are 3 persons",
    ),
    "threshold": ({"threshold": 2}, LearningError, "the threshold is 2"),
    "knowledge": ({"knowledge": {"fair_rate": 0.5}}, LearningError, "give a fairpc.Knowledge"),
    "positive": ({"positive": "great"}, TableError, "positive is 'great'"),
    "both groups": ({"sensitive": "age"}, TableError, "use one of the two"),
    "three classes": (
        {"y": np.where(np.arange(N) < 300, "fair", Y)},
        LearningError,
        "has 3 classes, and LatentDecision tells two apart.*structure='strudel'",
    ),
    "one class": ({"y": np.full(N, "good")}, TableError, "has 1 class"),
    "no labels": ({"y": np.full(N, None, object)}, TableError, "missing in every row"),
    "one group": ({"groups": np.full(N, "F")}, TableError, "at least two groups"),
    "no groups": ({"groups": None}, TableError, "no sensitive attribute was given"),
    "a class in one fold": (
        {"y": np.where(np.arange(N) < 1, "good", "bad")},
        LearningError,
        "has 1 row with label 'good': a classifier must see both",
    ),
    "a clash": (
        {"table": X.rename(columns={"age": "sensitive_feature"})},
        TableError,
        "X has a column 'sensitive_feature'",
    ),
    "a clash of names": ({"groups": pd.DataFrame({"age": G})}, TableError, "X has a column 'age'"),
    "sparse": ({"table": sparse.csr_matrix(X.to_numpy())}, TableError, "sparse matrix"),
    "streamed": ({"table": "rows.parquet"}, TableError, "needs its rows in memory"),
    "fewer groups": ({"groups": G[1:]}, TableError, "900 rows and 899 sensitive features"),
    "fewer labels": ({"y": Y[1:]}, TableError, "900 rows and 899 labels"),
    "fewer weights": ({"sample_weight": np.ones(5)}, FairpcError, "one weight per row"),
    "fewer persons": ({"clusters": np.arange(5)}, FairpcError, "clusters has 5 rows"),
    "infinite": ({"table": with_("age", 3, np.inf)}, TableError, "'age' has inf in row 3"),
    "infinite for another": (
        {"estimator": logistic(), "table": with_("age", 3, np.inf)},
        TableError,
        "'age' has inf in row 3",
    ),
    "a constant": ({"table": pd.DataFrame({"a": np.ones(N)})}, TableError, "no column is left"),
}


@pytest.mark.parametrize(("given", "error", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_with_a_sentence(
    given: dict[str, Any], error: type[FairpcError], words: str
) -> None:
    with pytest.raises(error, match=words) as found:
        fit(**given)
    assert "\n" not in str(found.value)


def test_a_failed_fit_leaves_the_model_as_it_was() -> None:
    for model in (
        fit(logistic(), X.to_numpy()),
        LatNB(max_iter=5).fit(X.to_numpy(), Y, sensitive_features=G),
    ):
        expected = model.predict_proba(X.to_numpy(), sensitive_features=G)
        before = set(vars(model))
        for wrong in (
            {"X": X.assign(more=1), "y": Y[1:]},
            {"X": X.assign(more=np.inf), "y": Y},
            {"X": X, "y": np.full(N, "good")},
        ):
            with pytest.raises(TableError):
                model.fit(**wrong, sensitive_features=G)
            assert set(vars(model)) == before
            assert model.n_features_in_ == 3
            again = model.predict_proba(X.to_numpy(), sensitive_features=G)
            assert np.array_equal(again, expected)


def test_rows_without_a_label_or_a_group_are_left_out() -> None:
    label, group = np.array(Y, object), np.array(G, object)
    label[:10], group[10:30] = None, None
    with pytest.warns(TableWarning, match="30 rows of 900 have no label or no group"):
        model = fit(logistic(), groups=group, y=label)
    without = fit(logistic(), X[30:], G[30:], Y[30:])
    assert np.array_equal(positive(model), positive(without))


def test_small_and_silent_groups_are_told() -> None:
    """Five rows of one label: P(Df) for each, and a sentence; the other groups go on."""
    group = np.array(G, object)
    group[np.flatnonzero(Y == "bad")[:5]] = "Z"
    for estimator in (None, logistic()):
        with (
            pytest.warns(TableWarning, match=r"under 30 rows: Z \(5 rows\)"),
            pytest.warns(ContradictionWarning, match="fair decisions of group Z apart .*are bad"),
        ):
            model = fit(estimator, groups=group)
        q = positive(model, X, group)
        assert q[group == "Z"] == pytest.approx(model.fair_rate_[1], abs=0.02)
        assert np.ptp(q[group == "M"]) > 0.8


def test_a_level_that_one_fold_lacks_is_not_told() -> None:
    """Every fold's classifier has seen other levels: only what none has seen is worth a word."""
    job = np.array(["a", "b", "c"], object)[np.arange(N) % 3]
    job[5] = "rare"
    table = X.assign(job=job)
    model = fit(None, table)
    model.predict(table, sensitive_features=G)
    with pytest.warns(TableWarning, match="'job' has 'new', not seen at fit"):
        model.predict(table.assign(job="new"), sensitive_features=G)


def test_features_that_tell_nothing_are_told() -> None:
    noise = pd.DataFrame({"a": np.random.default_rng(0).normal(size=N)})
    with pytest.warns(ContradictionWarning, match="no better than the rates of the groups"):
        fit(logistic(), noise)


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        (lambda m: m.predict(X.drop(columns="years"), sensitive_features=G), TableError, "'years'"),
        (lambda m: m.predict(X.to_numpy()[:, :2], sensitive_features=G), TableError, "2 features"),
        (lambda m: m.predict(X, sensitive_features=G[1:]), TableError, "899 sensitive features"),
        (lambda m: m.predict(X[:0], sensitive_features=G[:0]), TableError, "is empty"),
        (lambda m: m.posterior(X, Y[1:], sensitive_features=G), TableError, "899 labels"),
        (lambda m: m.predict_bounds(X, level=2), FairpcError, "level is 2"),
        (
            lambda m: m.predict(with_("age", 3, np.inf), sensitive_features=G),
            LearningError,
            "infin",
        ),
        (lambda m: m.predict(X.assign(age="old"), sensitive_features=G), LearningError, "'old'"),
        (lambda m: m.sample(3), NotAnsweredError, "cannot draw rows.*use FairPC"),
        (lambda m: m.circuit_, NotAnsweredError, "cannot give a circuit"),
        (lambda m: m.score_samples(X), NotAnsweredError, "no distribution of X"),
    ],
)
def test_questions_without_an_answer(asked: Any, error: type[FairpcError], words: str) -> None:
    with pytest.raises(error, match=words):
        asked(PLAIN)


@pytest.mark.parametrize(
    "ask",
    [
        lambda m: m.predict(X),
        lambda m: m.predict_bounds(X),
        lambda m: m.posterior(X, Y),
        lambda m: m.classes_,
        lambda m: m.fair_rate_,
        lambda m: m.fair_rate_set_,
        lambda m: m.bias_mechanism_,
    ],
)
def test_nothing_is_answered_before_a_fit(ask: Any) -> None:
    with pytest.raises(NotFittedError, match="LatentDecision instance is not fitted yet"):
        ask(LatentDecision())
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        LatentDecision().nothing  # noqa: B018


# Bounds and soft labels of the other models.


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            name: model.fit(X, Y, sensitive_features=G)
            for name, model in {
                "forest": FairPC(structure="forest"),
                "strudel": FairPC(structure="strudel", max_splits=5, max_iter=30),
                "naive": LatNB(),
            }.items()
        }


@pytest.mark.parametrize("name", ["forest", "strudel", "naive"])
def test_bounds_of_circuits(models: dict[str, Any], name: str) -> None:
    """They hold the score, also where groups are not known, and a level widens them."""
    model = models[name]
    some = np.array(G, object)
    some[:99] = None
    for groups in (G, None, some):
        positive(model, X, groups)
    one, two = (
        model.predict_bounds(X, sensitive_features=G, level=level) for level in (None, 0.95)
    )
    assert (two[:, 0] <= one[:, 0] + 1e-12).all()
    assert (one[:, 1] <= two[:, 1] + 1e-12).all()


@pytest.mark.parametrize("name", ["forest", "strudel", "naive"])
def test_soft_labels_of_circuits(models: dict[str, Any], name: str) -> None:
    """Bayes by hand where the group is known; P(f | x) where the label is not."""
    model = models[name]
    q, b = model.predict_proba(X, sensitive_features=G), model.bias_mechanism_
    joint = q * b[(G == "M").astype(int), :, (Y == "good").astype(int)]
    soft = model.posterior(X, Y, sensitive_features=G)
    assert soft == pytest.approx(joint / joint.sum(axis=1, keepdims=True), abs=1e-9)
    hidden = np.full(N, None, object)
    assert model.posterior(X, hidden) == pytest.approx(model.predict_proba(X), abs=1e-9)


def test_bounds_need_held_out_labels() -> None:
    quick = {"structure": "chow-liu", "max_iter": 5, "min_iter": 1}
    unguarded = FairPC(guard=False, **quick).fit(X, Y, sensitive_features=G)  # type: ignore[arg-type]
    with pytest.raises(LearningError, match="fit with guard=True"):
        unguarded.predict_bounds(X, sensitive_features=G)
    few = FairPC(**quick).fit(X[:200], Y[:200], sensitive_features=G[:200])  # type: ignore[arg-type]
    with pytest.raises(LearningError, match="at least 300 rows"):
        few.predict_bounds(X, sensitive_features=G)


def test_a_model_without_df_has_no_bounds_and_certain_labels() -> None:
    model = TwoNB().fit(X, Y, sensitive_features=G)
    with pytest.raises(LearningError, match="TwoNB has no latent fair decision"):
        model.predict_bounds(X, sensitive_features=G)
    soft = model.posterior(X, Y, sensitive_features=G)
    assert np.array_equal(soft, np.eye(2)[(Y == "good").astype(int)])


def test_bounds_need_two_classes() -> None:
    y = np.where(np.arange(N) % 5 == 0, "fair", Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LatNB(max_iter=5).fit(X, y, sensitive_features=G)
    with pytest.raises(LearningError, match="more than two classes"):
        model.predict_bounds(X, sensitive_features=G)


def test_bounds_are_nan_where_the_assumptions_are_rejected() -> None:
    """Adult: P(Df) would have to be more than .29 for one group and less than .13 for the other."""
    data = load_adult()
    some = np.random.default_rng(0).choice(len(data.y), 4000, replace=False)
    table, y, s = (np.asarray(v)[some] for v in (data.X, data.y, data.sensitive))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        naive = LatNB(max_iter=5, min_iter=1).fit(table, y, sensitive_features=s)
    latent = LatentDecision(random_state=0)
    with pytest.warns(ContradictionWarning, match="labels of the fit contradict the assumptions"):
        latent.fit(table, y, sensitive_features=s)
    for model, level in product((naive, latent), (None, 0.95)):
        with pytest.warns(ContradictionWarning, match="bounds are NaN"):
            bounds, said = model.predict_bounds(
                table, sensitive_features=s, level=level, decisions=True
            )
        assert np.isnan(bounds).all()
        assert set(said) == {"open"}


def test_a_booster_of_another_library() -> None:
    """LightGBM as it is: text groups beside numbers, holes, and weights."""
    lightgbm = pytest.importorskip("lightgbm")
    numbers, labels, group, _ = people(400)
    numbers.iloc[::9, 0] = np.nan
    model = LatentDecision(lightgbm.LGBMClassifier(n_estimators=20, verbose=-1), random_state=0)
    weights = np.where(np.arange(400) % 3 == 0, 2.0, 1.0)
    model.fit(numbers, labels, sensitive_features=group, sample_weight=weights)
    known = model.predict_proba(numbers, sensitive_features=group)
    assert np.isfinite(known).all()


def test_a_group_of_five_rows_is_named() -> None:
    few = np.where(np.arange(len(G)) < 5, "X", G)
    with pytest.warns(TableWarning, match=r"under 30 rows: X \(5 rows\)"):
        LatentDecision(LogisticRegression(), random_state=0).fit(X, Y, sensitive_features=few)


@pytest.mark.filterwarnings("ignore::fairpc.errors.ContradictionWarning")
@pytest.mark.parametrize("cv", [2, 10])
def test_a_row_alone_has_the_bits_that_it_has_among_others(cv: int) -> None:
    """Sums over classifiers were rounded otherwise for a row by itself."""
    model = LatentDecision(cv=cv, random_state=0).fit(X, Y, sensitive_features=G)
    assert model.second_round_ is not None
    for name in ("predict_proba", "predict_observed_proba", "predict_bounds"):
        together = getattr(model, name)(X, sensitive_features=G)
        for i in range(15):
            alone = getattr(model, name)(X[i : i + 1], sensitive_features=G[i : i + 1])
            np.testing.assert_array_equal(alone[0], together[i])


@pytest.mark.filterwarnings("ignore::fairpc.errors.ContradictionWarning")
def test_a_group_of_one_row_has_a_score() -> None:
    """A sigmoid of labels that are all alike was an error of scikit-learn."""
    few = np.where(np.arange(len(G)) < 1, "X", G)
    how: Any = {"min_cell": 1, "random_state": 0}
    model = LatentDecision(LogisticRegression(), **how)
    with pytest.warns(TableWarning, match=r"under 30 rows: X \(1 row\)"):
        model.fit(X, Y, sensitive_features=few)
    assert np.isfinite(model.predict_proba(X, sensitive_features=few)).all()
