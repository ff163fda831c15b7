"""What all baselines share: frames, groups, labels, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import logit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from fairpc.comparison import (
    LR,
    Baseline,
    FairLR,
    Rand,
    Reduction,
    Reweight,
    ThresholdOptimizer,
    _baselines as models,
)
from fairpc.errors import FairpcError, LearningError, MissingExtraError, TableError

ALL = [LR, FairLR, Reweight, Rand, Reduction, ThresholdOptimizer]
TWO_CLASSES: list[type[Baseline]] = [FairLR, Reweight, Reduction, ThresholdOptimizer]
FAIRLEARN = {Reduction, ThresholdOptimizer}


def make(kind: type[Baseline], **options: Any) -> Baseline:
    if kind in FAIRLEARN:
        pytest.importorskip("fairlearn")
    return kind(**options)


def small(n: int = 300) -> tuple[pl.DataFrame, pl.Series, pl.Series]:
    """Text, numbers and bits; the label depends on all and on the group."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, n)
    age = rng.normal(40, 10, n) + 5 * group
    town = rng.choice(["a", "b", "c"], n)
    bit = rng.integers(0, 2, n)
    score = (age - 42) / 10 + (town == "a") + bit - 1.5 * group + rng.logistic(size=n)
    frame = pl.DataFrame({"age": age, "town": town, "bit": bit})
    label = pl.Series("y", np.where(score > 0, "yes", "no"))
    return frame, label, pl.Series("s", np.where(group == 1, "w", "m"))


@pytest.mark.parametrize("kind", ALL)
def test_fit_and_predict(kind: type[Baseline]) -> None:
    X, y, s = small()
    model = make(kind).fit(X, y, sensitive_features=s)
    scores = model.predict_proba(X, sensitive_features=s)
    assert scores.shape == (300, 2)
    assert np.allclose(scores.sum(axis=1), 1.0)
    assert scores.min() >= 0
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.groups_ == ("m", "w")
    predicted = model.predict(X, sensitive_features=s)
    if kind is not Rand:
        assert (predicted == y.to_numpy()).mean() > (y == "no").mean()


def test_kinds_of_frames_agree() -> None:
    pytest.importorskip("pandas")
    X, y, s = small()
    ours = LR().fit(X, y, sensitive_features=s).predict_proba(X, sensitive_features=s)
    p, py, ps = X.to_pandas(), y.to_pandas(), s.to_pandas()
    theirs = LR().fit(p, py, sensitive_features=ps).predict_proba(p, sensitive_features=ps)
    assert np.allclose(ours, theirs)
    a = X.to_arrow()
    arrow = LR().fit(a, y.to_list(), sensitive_features=s.to_numpy())
    assert np.allclose(arrow.predict_proba(a, sensitive_features=s.to_numpy()), ours)


@pytest.mark.parametrize("kind", [LR, FairLR, Rand, ThresholdOptimizer])
def test_sensitive_columns_of_x(kind: type[Baseline]) -> None:
    X, y, s = small()
    options: dict[str, Any] = {"random_state": 0} if kind is Rand else {}
    apart = make(kind, **options).fit(X, y, sensitive_features=s)
    joined = X.with_columns(s)
    within = clone(make(kind, sensitive="s", **options)).fit(joined, y)
    assert np.allclose(within.predict_proba(joined), apart.predict_proba(X, sensitive_features=s))
    with pytest.raises(TableError, match="use one of the two"):
        within.fit(joined, y, sensitive_features=s)


def test_arrays_name_columns_by_number() -> None:
    X, y, s = small()
    array = np.column_stack([X["age"], X["bit"], s == "w"])
    model = FairLR(sensitive=2).fit(array, y.to_list())
    assert model.feature_names_in_.tolist() == ["0", "1"]
    assert model.groups_ == (0, 1)
    assert model.predict_proba(array).shape == (300, 2)


def test_of_many_levels_the_most_frequent_are_told_apart() -> None:
    """A column of names was an indicator for each, which takes the cube of their number."""
    rng = np.random.default_rng(0)
    names = np.array([*np.repeat(["a", "b"], 300), *(f"rare {k}" for k in range(200))])
    y = np.where(rng.random(800) < np.where(names == "a", 0.9, 0.2), "yes", "no")
    model = LR().fit(pl.DataFrame({"name": names}), y)
    assert model.model_.coef_.shape == (1, 128)
    scores = model.predict_proba(pl.DataFrame({"name": ["a", "b", "rare 199"]}))[:, 1]
    assert scores[0] > 0.8
    assert scores[1:].max() < 0.4


def test_several_sensitive_attributes_are_crossed() -> None:
    X, y, s = small()
    both = pl.DataFrame({"s": s, "t": X["bit"]})
    model = FairLR().fit(X.drop("bit"), y, sensitive_features=both)
    assert model.groups_ == (("m", 0), ("m", 1), ("w", 0), ("w", 1))
    theta_x = logit(model.predict_proba(X.drop("bit"))[:, 1])
    for group in model.groups_:
        member = np.array([row == group for row in both.rows()])
        assert abs(np.cov(member, theta_x)[0, 1]) < 1e-10


@pytest.mark.parametrize("kind", [LR, Reweight, Reduction, ThresholdOptimizer])
def test_a_feature_is_needed_to_predict(kind: type[Baseline]) -> None:
    X, y, s = small()
    model = make(kind).fit(X, y, sensitive_features=s)
    with pytest.raises(LearningError, match="give sensitive_features"):
        model.predict(X)


@pytest.mark.parametrize("kind", [LR, FairLR, Reweight, Reduction])
def test_without_the_feature_it_is_not(kind: type[Baseline]) -> None:
    X, y, s = small()
    model = make(kind, use_sensitive=False).fit(X, y, sensitive_features=s)
    assert len(model.predict(X)) == 300


def test_plain_logistic_regression_needs_no_groups() -> None:
    X, y, _ = small()
    assert LR().fit(X, y).predict_proba(X).shape == (300, 2)
    assert Rand().fit(X, y).predict_proba(X).shape == (300, 2)


@pytest.mark.parametrize("kind", TWO_CLASSES)
def test_the_others_do(kind: type[Baseline]) -> None:
    X, y, _ = small()
    with pytest.raises(LearningError, match="needs groups"):
        make(kind).fit(X, y)


def test_missing_values_are_refused() -> None:
    X, y, s = small()
    holes = X.with_columns(age=pl.when(pl.int_range(pl.len()) == 7).then(None).otherwise("age"))
    with pytest.raises(LearningError, match="column 'age' of X has a missing .* in row 7"):
        LR().fit(holes, y, sensitive_features=s)
    gap = s.to_list()
    gap[3] = None
    with pytest.raises(LearningError, match="sensitive_features has a missing .* row 3"):
        LR().fit(X, y, sensitive_features=pl.Series("s", gap))
    gap = y.to_list()
    gap[5] = None
    with pytest.raises(LearningError, match="missing label in row 5"):
        LR().fit(X, pl.Series("y", gap), sensitive_features=s)


@pytest.mark.parametrize("value", [np.nan, None, np.inf])
def test_missing_values_of_arrays(value: Any) -> None:
    X = np.array([[1.0, 2.0], [3.0, value], [0.0, 1.0]], object if value is None else float)
    with pytest.raises(FairpcError, match="row 1"):
        LR().fit(X, [0, 1, 1])


@pytest.mark.parametrize("kind", TWO_CLASSES)
def test_three_classes_are_refused(kind: type[Baseline]) -> None:
    X, _, s = small()
    with pytest.raises(LearningError, match="3 classes"):
        make(kind).fit(X, X["town"], sensitive_features=s)


@pytest.mark.parametrize("kind", [LR, Rand])
def test_three_classes_where_they_can(kind: type[Baseline]) -> None:
    X, _, s = small()
    model = kind().fit(X.drop("town"), X["town"], sensitive_features=s)
    assert model.predict_proba(X.drop("town"), sensitive_features=s).shape == (300, 3)


def test_labels_keep_their_type_and_may_be_many() -> None:
    X, y, _ = small()
    yes = (y == "yes").to_numpy()
    assert LR().fit(X, yes.astype(float)).classes_.dtype == np.float64
    many = np.array([f"c{i % 150}" for i in range(300)])
    assert Rand().fit(X, many).predict_proba(X).shape == (300, 150)


def test_columns_without_a_type_are_numbers_of_an_array_and_names_of_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    _, y, _ = small()
    mixed = np.array([[1, 2.5, True][i % 3] for i in range(300)], object)[:, None]
    found = LR().fit(mixed, y).predict_proba(mixed)
    assert np.array_equal(found, LR().fit(mixed.astype(float), y).predict_proba(mixed))
    frame = pandas.DataFrame(mixed, columns=["x"])
    names = pl.DataFrame({"x": mixed[:, 0].astype(str)})
    found = LR().fit(frame, y).predict_proba(frame)
    assert np.array_equal(found, LR().fit(names, y).predict_proba(names))


@pytest.mark.parametrize("kind", [k for k in TWO_CLASSES if k is not FairLR])
def test_three_groups(kind: type[Baseline]) -> None:
    X, y, _ = small()
    rest, town = X.drop("town"), X["town"]
    model = make(kind).fit(rest, y, sensitive_features=town)
    assert model.groups_ == ("a", "b", "c")
    assert model.predict_proba(rest, sensitive_features=town).shape == (300, 2)


def test_one_class_and_one_group_are_refused() -> None:
    X, y, s = small()
    with pytest.raises(LearningError, match="1 class"):
        LR().fit(X, ["yes"] * 300, sensitive_features=s)
    with pytest.raises(LearningError, match="1 group"):
        FairLR().fit(X, y, sensitive_features=["m"] * 300)


def test_rows_must_match() -> None:
    X, y, s = small()
    with pytest.raises(TableError, match="300 rows and 10 labels"):
        LR().fit(X, y[:10], sensitive_features=s)
    pandas = pytest.importorskip("pandas")
    shifted = pandas.Series(s.to_list(), index=range(1, 301))
    with pytest.raises(TableError, match="the index of the sensitive features differs"):
        LR().fit(X.to_pandas(), y.to_list(), sensitive_features=shifted)


def test_columns_must_match() -> None:
    X, y, s = small()
    model = FairLR().fit(X, y, sensitive_features=s)
    with pytest.raises(LearningError, match="see column 'bit'"):
        model.predict(X.drop("bit"))
    with pytest.raises(LearningError, match="see column 'more'"):
        model.predict(X.with_columns(more=pl.lit(1)))
    with pytest.raises(LearningError, match="holds text, and held numbers"):
        model.predict(X.with_columns(pl.col("age").cast(pl.String)))
    with pytest.raises(LearningError, match="holds dates"):
        model.predict(X.with_columns(age=pl.date(2020, 1, 1)))
    with pytest.raises(LearningError, match="no column 'sex'"):
        FairLR(sensitive="sex").fit(X, y)


def test_unseen_levels_and_groups() -> None:
    X, y, s = small()
    model = LR().fit(X, y, sensitive_features=s)
    with pytest.warns(UserWarning, match="column 'town' has the level 'd'"):
        model.predict(X.with_columns(town=pl.lit("d")), sensitive_features=s)
    with pytest.raises(LearningError, match="group 'x' was not in the training rows"):
        model.predict(X, sensitive_features=["x"] * 300)


def test_not_fitted() -> None:
    with pytest.raises(NotFittedError):
        LR().predict(small()[0])


@pytest.mark.parametrize("kind", [Reduction, ThresholdOptimizer])
def test_without_fairlearn(kind: type[Baseline], monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, s = small()
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fairpc\[baselines\]'"):
        kind().fit(X, y, sensitive_features=s)


@pytest.mark.parametrize("rows", [[0, 1], [0], [0, 1, 2]], ids=["both", "one", "three"])
@pytest.mark.parametrize("column", ["age", "bit"])
def test_numbers_without_a_variance_are_refused(column: str, rows: list[int]) -> None:
    X, y, s = small()
    values = X[column].to_numpy().astype(np.float64)
    huge = values.copy()
    huge[rows] = np.array([1e308, -1e308, 1e308])[: len(rows)]
    odd = X.with_columns(pl.Series(column, huge))
    with pytest.raises(LearningError, match=f"column '{column}' reaches 1e\\+308"):
        LR().fit(odd, y, sensitive_features=s)
    with pytest.raises(LearningError, match=f"column '{column}' reaches 1e\\+308"):
        LR().fit(X, y, sensitive_features=s).predict_proba(odd, sensitive_features=s)
