"""Plain classifiers: they say what scikit-learn says, and a file of them says the same bits."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairpc.core import Floats, Ints
from fairpc.data import read_frame
from fairpc.errors import FairpcError, FileFormatError, LearningError, TableError, TableWarning
from fairpc.learners import (
    CLASSIFIER_KINDS,
    ClassifierKind,
    SavedLinear,
    SavedTrees,
    _saved as learned,
    encoded_matrix,
)
from fairpc.learners._saved import Opaque
from fairpc.models import TableClassifier

N_TREES = 12


@pytest.fixture(autouse=True)
def _small_forests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned, "N_TREES", N_TREES)


def people(n: int, seed: int) -> tuple[pd.DataFrame, Ints]:
    """A table with text, booleans, dates, whole numbers, categories by type, and holes."""
    rng = np.random.default_rng(seed)
    income, job = rng.lognormal(10, 1, n).round(2), rng.choice(list("abcdefg"), n)
    table = pd.DataFrame(
        {
            "income": income,
            "job": job,
            "years": rng.integers(0, 9, n),
            "owns": rng.choice(np.array([True, False, None], object), n),
            "since": [date(2020, 1, 1) + timedelta(int(d)) for d in rng.integers(0, 900, n)],
            "code": pd.Categorical(rng.integers(100, 140, n)),
            "empty": np.full(n, np.nan),
            "text number": rng.integers(0, 50, n).astype(str),
        }
    )
    log_odds = np.log(income) - 10 + 2 * np.isin(job, ["a", "d"]) - 1
    for name in ("income", "job", "since", "code"):
        table.loc[rng.random(n) < 0.1, name] = None
    return table, (rng.random(n) < 1 / (1 + np.exp(-log_odds))).astype(np.int64)


def fitted(kind: ClassifierKind, n: int = 300, seed: int = 0) -> TableClassifier:
    return TableClassifier(kind, random_state=0).fit(*people(n, seed))


def reloaded(model: TableClassifier) -> TableClassifier:
    return TableClassifier.from_dict(json.loads(json.dumps(model.to_dict(), allow_nan=False)))


def as_learner(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """scikit-learn's objects of the fits to come."""
    found: list[Any] = []
    verified = learned._verified

    def watched(learner: Any, *rest: Any, **how: Any) -> Any:
        found.append(learner)
        return verified(learner, *rest, **how)

    monkeypatch.setattr(learned, "_verified", watched)
    return found


@pytest.mark.filterwarnings("ignore:column 'code' has:fairpc.errors.TableWarning")
@pytest.mark.parametrize(("n", "seed"), [(60, 1), (400, 2), (1500, 3)])
def test_trees_of_a_forest_say_what_scikit_learn_says(
    n: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learners = as_learner(monkeypatch)
    model = fitted("forest", n, seed)
    assert isinstance(model.learned_, SavedTrees)
    new, _ = people(700, seed + 100)
    expected = learners[0].predict_proba(encoded_matrix(model.encoding_, read_frame(new)))
    np.testing.assert_allclose(model.predict_proba(new), expected, rtol=0, atol=1e-12)
    assert n == 60 or np.ptp(expected[:, 1]) > 0.2


def test_thresholds_of_a_forest_are_compared_in_single_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Whole numbers that differ by less than a float32 can tell, and numbers beyond its range.
    learners = as_learner(monkeypatch)
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [16_777_216.0 + rng.integers(0, 40, 400), rng.choice([-1e300, 0, 3e38], 400)]
    )
    y = (X[:, 0] % 40 + rng.normal(0, 9, 400) > 20).astype(int)
    model = TableClassifier("forest", random_state=0).fit(X, y)
    near = 16_777_216.0 + np.arange(-20, 60) / 2
    new = np.column_stack([near, np.resize([0.0, -1e30, 1e30], len(near))])
    expected = learners[0].predict_proba(new)
    np.testing.assert_allclose(model.predict_proba(new), expected, rtol=0, atol=1e-12)


def test_logistic_regression_is_that_of_the_same_columns_made_by_pandas() -> None:
    table, y = people(500, 5)
    model = TableClassifier("logistic").fit(table, y)
    numbers = pd.DataFrame(
        {
            "income": table["income"].astype(float),
            "years": table["years"].astype(float),
            "owns": table["owns"].map({True: 1.0, False: 0.0}),
            "since": pd.to_datetime(table["since"]).map(pd.Timestamp.timestamp, na_action="ignore"),
            "text number": table["text number"].astype(float),
        }
    )
    standard = ((numbers - numbers.mean()) / numbers.std(ddof=0)).fillna(0.0)
    counts = table["code"].value_counts()
    ordered = sorted(counts.index, key=lambda level: (-counts[level], level))
    code = table["code"].astype(object).where(table["code"].isin(ordered[:32]))
    words = pd.get_dummies(table["job"]), pd.get_dummies(code)
    holes = numbers.isna(), table["job"].isna(), code.isna()
    design = np.column_stack([standard, *words, *holes]).astype(float)
    twin = LogisticRegression(C=learned.PENALTY, tol=1e-8, max_iter=5000).fit(design, y)
    expected = twin.predict_proba(design)
    np.testing.assert_allclose(model.predict_proba(table), expected, atol=1e-4)


@pytest.mark.parametrize("kind", CLASSIFIER_KINDS)
def test_a_file_says_the_same_bits(kind: ClassifierKind) -> None:
    model = fitted(kind, 1200)
    again = reloaded(model)
    new, _ = people(300, 9)
    assert model.predict_proba(new).tobytes() == again.predict_proba(new).tobytes()
    assert again.to_dict() == model.to_dict()
    assert again.get_params() == model.get_params()
    assert again.classes_.tolist() == [0, 1]
    assert again.n_features_in_ == 8
    assert list(again.feature_names_in_) == list(new.columns)


@pytest.mark.parametrize("kind", CLASSIFIER_KINDS)
def test_a_row_is_scored_alike_in_any_company(kind: ClassifierKind) -> None:
    model, (new, _) = fitted(kind), people(600, 3)
    parts = [model.predict_proba(new.iloc[:1]), model.predict_proba(new.iloc[1:])]
    assert np.concatenate(parts).tobytes() == model.predict_proba(new).tobytes()


@pytest.mark.parametrize("kind", CLASSIFIER_KINDS)
def test_any_frame_gives_the_same(kind: ClassifierKind) -> None:
    table, y = people(200, 4)
    table = table.drop(columns=["code", "owns"])
    expected = TableClassifier(kind, random_state=1).fit(table, y).predict_proba(table)
    for other in (pl.from_pandas(table), read_frame(table), table.to_numpy(object)):
        model = TableClassifier(kind, random_state=1).fit(other, y)
        np.testing.assert_array_equal(model.predict_proba(other), expected)
    assert not hasattr(model, "feature_names_in_")
    # Columns of a frame are known by name: their order, and others beside them, do not matter.
    turned = table[table.columns[::-1]].assign(more=1)
    model = TableClassifier(kind, random_state=1).fit(table, y)
    np.testing.assert_array_equal(model.predict_proba(turned), expected)


@pytest.mark.parametrize("kind", CLASSIFIER_KINDS)
def test_unseen_levels_and_columns_without_values_are_missing(kind: ClassifierKind) -> None:
    model, (new, _) = fitted(kind), people(50, 6)
    assert [dropped.name for dropped in model.encoding_.dropped] == ["empty"]
    hidden = new.assign(job=None, since=None, income=np.nan, empty="now full")
    unseen = hidden.assign(job="zz")
    with pytest.warns(TableWarning, match="'job' has 'zz', not seen at fit"):
        found = model.predict_proba(unseen)
    np.testing.assert_array_equal(found, model.predict_proba(hidden))


@pytest.mark.parametrize("kind", CLASSIFIER_KINDS)
def test_levels_beyond_the_most_frequent_are_missing(kind: ClassifierKind) -> None:
    rng = np.random.default_rng(0)
    level = np.minimum(rng.geometric(0.01, 3000), 400)
    table = pl.DataFrame({"l": [f"v{i}" for i in level], "n": rng.normal(size=3000)})
    model = TableClassifier(kind, random_state=0).fit(table, level % 2, min_cell=1)
    column = model.encoding_.column("l")
    most = {"hgb": 250, "logistic": 32, "forest": 64}[kind]
    assert len(column.levels) == most
    counts = table["l"].value_counts()
    kept = counts.filter(pl.col("l").is_in(column.levels))["count"]
    assert kept.min() >= counts.filter(~pl.col("l").is_in(column.levels))["count"].max()  # type: ignore[operator]
    some = {"n": [0.0, 0.0, 0.0]}
    found = reloaded(model).predict_proba(pl.DataFrame({"l": ["v400x", "v399x", None], **some}))
    assert (found == found[0]).all()


def test_identifiers_and_named_values_are_left_out() -> None:
    table = pl.DataFrame({"id": [f"p{i}" for i in range(40)], "n": [*range(38), 0, -9]})
    model = TableClassifier("logistic", missing_values=(-9, float("nan"), "?"))
    model.fit(table, [0, 1] * 20)
    assert [dropped.name for dropped in model.encoding_.dropped] == ["id"]
    assert model.encoding_.missing_values == (-9, "?")
    rows = pl.DataFrame({"id": ["a", "b"], "n": [-9, None]})
    assert np.ptp(model.predict_proba(rows)[:, 1]) == 0
    assert np.isnan(encoded_matrix(model.encoding_, read_frame(rows))).all()


def test_weights_are_repeated_rows() -> None:
    table, y = people(200, 8)
    times = np.random.default_rng(0).integers(0, 4, 200)
    weighted = TableClassifier("logistic").fit(table, y, times)
    repeated = TableClassifier("logistic").fit(
        table.loc[table.index.repeat(times)].reset_index(drop=True), np.repeat(y, times)
    )
    np.testing.assert_allclose(
        weighted.predict_proba(table), repeated.predict_proba(table), atol=1e-5
    )


@pytest.mark.parametrize("kind", ["hgb", "forest"])
def test_rows_without_weight_play_no_part(kind: ClassifierKind) -> None:
    table, y = people(300, 8)
    weights = np.where(np.arange(300) < 200, 1.0, 0.0)
    model = TableClassifier(kind, random_state=0).fit(table, y, weights)
    twin = TableClassifier(kind, random_state=0).fit(table[:200], y[:200])
    np.testing.assert_array_equal(model.predict_proba(table), twin.predict_proba(table))


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [1, 2]])
def test_labels_come_back_as_they_were(labels: list[Any]) -> None:
    table, y = people(300, 2)
    model = TableClassifier(random_state=0).fit(table, np.array(labels)[y])
    for each in (model, reloaded(model)):
        assert each.classes_.tolist() == labels
        said = each.predict(table)
        np.testing.assert_array_equal(said == labels[1], each.predict_proba(table)[:, 1] > 0.5)
        assert (said == np.array(labels)[y]).mean() > 0.65


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: (X, y * 0), "has 1 class"),
        (lambda X, y: (X, np.arange(len(y)) % 3), "has 3 classes, and a TableClassifier tells two"),
        (lambda X, y: (X, np.where(y == 1, 1.0, np.nan)), "has 1 class"),
        (lambda X, y: (X, [None, *y[1:].tolist()]), "is missing in row 0"),
        (lambda X, y: (X, y[1:]), "give one per row"),
        (lambda X, y: (X[["empty"]], y), "no column is left to learn from: column 'empty'"),
    ],
)
def test_what_cannot_be_learned_is_refused(change: Callable[..., Any], words: str) -> None:
    with pytest.raises(FairpcError, match=words):
        TableClassifier().fit(*change(*people(60, 0)))


def test_options_are_checked() -> None:
    table, y = people(40, 0)
    with pytest.raises(FairpcError, match="kind is 'tree': use one of hgb, logistic, forest"):
        TableClassifier("tree").fit(table, y)  # type: ignore[arg-type]
    with pytest.raises(FairpcError, match="missing_values is 'NA'"):
        TableClassifier(missing_values="NA").fit(table, y)  # type: ignore[arg-type]
    with pytest.raises(FairpcError, match="infinity"):
        TableClassifier(missing_values=(np.inf,)).fit(table, y)


def test_other_tables_are_refused() -> None:
    model = fitted("logistic", 60)
    table, _ = people(5, 0)
    with pytest.raises(TableError, match="column 'years' is absent"):
        model.predict_proba(table.drop(columns="years"))
    with pytest.raises(TableError, match="X has 7 features, but TableClassifier is expecting 8"):
        model.predict_proba(table.to_numpy(object)[:, 1:])
    with pytest.raises(TableError, match="'many' in row 0: it held numbers at fit"):
        model.predict_proba(table.assign(years="many"))
    with pytest.raises(NotFittedError):
        TableClassifier().predict_proba(table)


@pytest.mark.parametrize("fault", ["raises", "differs"])
def test_trees_of_another_shape_are_used_and_not_saved(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = learned._forest_nodes

    def other(learner: Any) -> learned.TreeNodes:
        if fault == "raises":
            raise AttributeError("estimators_")
        nodes = read(learner)
        return replace(nodes, value=nodes.value * 0.9)

    table, _ = people(300, 0)
    expected = fitted("forest").predict_proba(table)
    monkeypatch.setattr(learned, "_forest_nodes", other)
    model = fitted("forest")
    assert isinstance(model.learned_, Opaque)
    np.testing.assert_allclose(model.predict_proba(table), expected, rtol=0, atol=1e-12)
    with pytest.raises(LearningError, match="fit it with another version of scikit-learn"):
        model.to_dict()


def test_a_small_tree_by_hand() -> None:
    # [x0 <= 1, missing right] ? [x1 in {0, 2}, missing left] ? .1 : .2  :  .4, over log odds of .5.
    content = {
        "baseline": 0.5,
        "sizes": [5, 1],
        "feature": [0, 1, -1, -1, -1, -1],
        "right": [4, 2],
        "hole": [0, 1],
        "threshold": [1.0],
        "left_levels": [[0, 2]],
        "value": [0.1, 0.2, 0.4, 1.0],
    }
    trees = SavedTrees.from_dict(content, np.array([0, 3]), boosted=True)
    nan = np.nan
    rows = np.array([[1, 0], [1, 1], [0, 2], [0, nan], [1.01, 0], [nan, 0]])
    sums = np.array([1.6, 1.7, 1.6, 1.6, 1.9, 1.9])
    np.testing.assert_allclose(trees.probability(rows), 1 / (1 + np.exp(-sums)), rtol=1e-15)
    assert trees.to_dict() == content
    plain = _without_compiler(trees, rows)
    np.testing.assert_allclose(plain, sums, rtol=1e-15)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def _without_compiler(trees: SavedTrees, rows: Floats) -> Floats:
    from fairpc.learners import _kernels

    kernel: Any = _kernels.leaf_sums
    out = np.full(len(rows), trees.nodes.baseline)
    with np.errstate(over="ignore"):
        getattr(kernel, "py_func", kernel)(rows, *trees.arrays, out)
    return out


def changed(content: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The content with another value at a place like "learned.right.0"; a function is applied."""
    content = copy.deepcopy(content)
    *way, last = (int(key) if key.lstrip("-").isdigit() else key for key in path.split("."))
    place: Any = content
    for key in way:
        place = place[key]
    place[last] = value(place[last]) if callable(value) else value
    return content


HOSTILE: dict[ClassifierKind, list[tuple[str, Any]]] = {
    "hgb": [
        ("kind", "svm"),
        ("kind", ["hgb"]),
        ("kind", "forest"),
        ("kind", "logistic"),
        ("random_state", "0"),
        ("classes", [0, 0]),
        ("classes", [1, 0]),
        ("classes", [0, "1"]),
        ("classes", [0, 1, 2]),
        ("encoding", None),
        ("encoding.columns", []),
        ("encoding.columns", lambda columns: columns[1:]),
        ("encoding.columns.1.levels", ["a", "b"]),
        ("encoding.columns.0.kind", "category"),
        ("learned", []),
        ("learned.more", 1),
        ("learned.baseline", float("inf")),
        ("learned.baseline", 1e300),
        ("learned.sizes", []),
        ("learned.sizes", lambda sizes: sizes[1:]),
        ("learned.sizes.0", 0),
        ("learned.sizes.0", True),
        ("learned.sizes", lambda sizes: [sizes[0] + 1, sizes[1] - 1, *sizes[2:]]),
        ("learned.feature.0", 7),
        ("learned.feature.0", -2),
        ("learned.feature.0", -1),
        ("learned.feature.0", 10**30),
        ("learned.feature.0", 0.5),
        ("learned.feature.-1", 0),
        ("learned.right.0", 0),
        ("learned.right.0", -1),
        ("learned.right.0", 1),
        ("learned.right.0", 10**12),
        ("learned.right.-1", lambda step: step + 1),
        ("learned.hole.0", 2),
        ("learned.hole", lambda hole: hole[1:]),
        ("learned.threshold.0", float("nan")),
        ("learned.threshold.0", None),
        ("learned.threshold", lambda numbers: numbers[1:]),
        ("learned.left_levels.0", [-1]),
        ("learned.left_levels.0", [250]),
        ("learned.left_levels.0", "01"),
        ("learned.left_levels.0", [0, 0]),
        ("learned.left_levels.0", [2, 0]),
        ("learned.left_levels", []),
        ("learned.value.0", 1e200),
        ("learned.value.0", "1"),
        ("learned.value", lambda values: [*values, 0.0]),
    ],
    "forest": [
        ("learned.value.0", 1.5),
        ("learned.value.0", -0.1),
        ("learned.baseline", 0.1),
        ("learned.left_levels", [[0]]),
        ("learned.threshold.0", float("inf")),
        ("learned.right.0", 2),
    ],
    "logistic": [
        ("learned.slope.0", float("nan")),
        ("learned.slope", []),
        ("learned.scale.0", 0.0),
        ("learned.scale.0", -1.0),
        ("learned.mean.0", 10**400),
        ("learned.hole", None),
        ("learned.intercept", True),
        ("learned.intercept", 1e300),
        ("learned.effect.1", []),
        ("learned.effect.0", [1.0]),
        ("learned.effect.1", 3),
        ("learned.effect", lambda effect: effect[1:]),
    ],
}


@pytest.fixture(scope="module")
def saved() -> dict[ClassifierKind, dict[str, Any]]:
    kinds: tuple[ClassifierKind, ...] = CLASSIFIER_KINDS
    return {kind: fitted(kind, 400).to_dict() for kind in kinds}


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [(kind, *change) for kind, changes in HOSTILE.items() for change in changes],
)
def test_altered_content_is_refused(
    kind: ClassifierKind, path: str, value: Any, saved: dict[ClassifierKind, dict[str, Any]]
) -> None:
    with pytest.raises(FileFormatError):
        TableClassifier.from_dict(changed(saved[kind], path, value))


@pytest.mark.parametrize("content", [None, [], "hgb", {}, {"kind": "hgb"}])
def test_what_is_no_classifier_is_refused(content: Any) -> None:
    with pytest.raises(FileFormatError):
        TableClassifier.from_dict(content)


def test_clone_and_parameters() -> None:
    model = TableClassifier("forest", missing_values=("?",), random_state=3)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(kind="hgb").kind == "hgb"
    assert isinstance(fitted("logistic").set_params(kind="hgb").learned_, SavedLinear)


def _weights_are_not_rows(estimator: TableClassifier) -> dict[str, str]:
    if estimator.kind == "logistic":
        return {}
    reason = "leaves count rows, and bootstrap and early stopping draw them"
    return {"check_sample_weight_equivalence_on_dense_data": reason}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [TableClassifier("logistic"), TableClassifier("hgb")],
    expected_failed_checks=_weights_are_not_rows,
)
def test_common_checks(estimator: Any, check: Any) -> None:
    check(estimator)
