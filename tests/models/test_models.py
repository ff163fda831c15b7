"""The models on tables: what goes in, what comes out, and what bad input is told."""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fairpc import FairPC, LatentDecision, LatNB, NLatPC, TwoNB, load
from fairpc.datasets import load_german, make_synthetic
from fairpc.errors import (
    FairpcError,
    FileFormatError,
    LearningError,
    QueryError,
    SameAsLabelWarning,
    TableError,
)
from fairpc.models._file import VERSION, checksum
from models.test_sklearn import people

MODELS: list[Any] = [
    FairPC(structure="chow-liu"),
    FairPC(structure="strudel", max_splits=20),
    NLatPC(structure="strudel", max_splits=20),
    LatNB(),
    TwoNB(),
]
IDS = ["FairPC-tree", "FairPC-strudel", "NLatPC", "LatNB", "TwoNB"]


@pytest.fixture(params=MODELS, ids=IDS)
def fitted(request: pytest.FixtureRequest) -> tuple[Any, pd.DataFrame, np.ndarray, np.ndarray]:
    table, labels, group = people()
    model = request.param.set_params(random_state=0, positive="good")
    return model.fit(table, labels, sensitive_features=group), table, labels, group


Fitted = tuple[Any, pd.DataFrame, np.ndarray, np.ndarray]


def test_what_is_learned_is_a_distribution(fitted: Fitted) -> None:
    model, table, _, group = fitted
    np.testing.assert_allclose(model.bias_mechanism_.sum(axis=2), 1.0)
    assert model.fair_rate_.sum() == pytest.approx(1.0)
    assert model.group_rate_.sum() == pytest.approx(1.0)
    scores = model.predict_proba(table, sensitive_features=group)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    assert list(model.classes_) == ["bad", "good"]
    assert list(model.groups_) == ["F", "M"]
    assert set(model.predict(table, sensitive_features=group)) <= {"bad", "good"}


def test_the_gap_under_the_model_and_on_rows_are_two_numbers(fitted: Fitted) -> None:
    model, table, _, group = fitted
    gaps = model.parity_gap(table, sensitive_features=group)
    assert set(gaps) == {"model", "rows"}
    scores = model.predict_proba(table, sensitive_features=group)[:, 1]
    means = [scores[group == g].mean() for g in ("F", "M")]
    assert gaps["rows"] == pytest.approx(abs(means[1] - means[0]))
    if not isinstance(model, TwoNB):
        assert gaps["model"] < 1e-9
    with pytest.raises(LearningError, match=r"no row has a group that was there at fit \(F, M\)"):
        model.parity_gap(table, sensitive_features=np.full(len(table), None))


def test_without_the_group_it_is_summed_out(fitted: Fitted) -> None:
    model, table, _, _ = fitted
    # P(f | x) = Σ_s P(s | x) P(f | x, s), each by its own query.
    known = [
        model.predict_proba(table, sensitive_features=np.full(len(table), g)) for g in ("F", "M")
    ]
    masses = np.stack(
        [
            np.exp(model.score_samples(table, sensitive_features=np.full(len(table), g)))
            for g in ("F", "M")
        ]
    )
    shares = masses / masses.sum(axis=0)
    expected = sum(share[:, None] * scores for share, scores in zip(shares, known, strict=True))
    np.testing.assert_allclose(model.predict_proba(table), expected, atol=1e-9)


def test_a_file_gives_back_the_same_model(fitted: Fitted, tmp_path: Path) -> None:
    model, table, _, group = fitted
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert type(again) is type(model)
    for name in ("predict_proba", "predict_observed_proba", "predict"):
        np.testing.assert_array_equal(
            getattr(again, name)(table, sensitive_features=group),
            getattr(model, name)(table, sensitive_features=group),
        )
    for name, values in model.history_.items():
        np.testing.assert_array_equal(again.history_[name], values)
    assert again.explain_bias().sentences == model.explain_bias().sentences


def test_an_altered_file_is_refused(tmp_path: Path) -> None:
    table, labels, group = people()
    path = tmp_path / "model.json"
    LatNB().fit(table, labels, sensitive_features=group).save(path)
    good = json.loads(path.read_text())
    for change, message in [
        ({"format": "pickle"}, "not a fairpc model file"),
        ({"version": 99}, f"reads up to {VERSION}"),
        ({"model": "FairPC"}, "checksum"),
        ({"extra": 1}, "checksum"),
    ]:
        path.write_text(json.dumps(good | change))
        with pytest.raises(FileFormatError, match=message):
            load(path)
    path.write_text(json.dumps(good)[:1000])
    with pytest.raises(FileFormatError, match="truncated or altered"):
        load(path)


def test_what_was_said_of_the_table_is_kept_and_checked(tmp_path: Path) -> None:
    table, labels, group = people()
    model = LatNB().fit(table, labels, sensitive_features=group)
    path, again = tmp_path / "model.json", tmp_path / "again.json"
    model.save(path)
    model.table_options_ = {"weight": "W", "encoding": "cp1252"}
    model.save(path)
    loaded = load(path)
    assert loaded.table_options_ == model.table_options_
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()
    content = json.loads(path.read_text())
    for wrong in ({"weight": 3}, {"shell": "rm"}, ["weight"], "weight", None):
        write_signed(path, content | {"table": wrong})
        with pytest.raises(FileFormatError, match="holds no model"):
            load(path)
    assert loaded.fit(table, labels, sensitive_features=group).table_options_ == {}


def selected_file(path: Path) -> tuple[Any, dict[str, Any]]:
    """A model of automatic selection, and its file as data."""
    model, text = selected()
    path.write_text(text)
    return model, json.loads(text)


@functools.cache
def selected() -> tuple[Any, str]:
    model = FairPC(random_state=0, max_iter=30, guard=False)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.fit(*two_valued()[:2], sensitive_features=two_valued()[2]).save(path)
        return model, path.read_text()


@functools.cache
def two_valued() -> tuple[Any, Any, Any]:
    """Features of two values each, of which circuits are taken without a comparison."""
    data = make_synthetic(6, 400, random_state=0)
    return data.X, data.y.to_numpy(), data.sensitive.to_numpy()


def write_signed(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content | {"checksum": checksum(content)}))


def test_the_choices_of_automatic_selection_are_saved(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    model, _ = selected_file(path)
    again = load(path)
    assert again.choices_ is not None
    assert again.choices_.sentences == model.choices_.sentences
    for field in dataclasses.fields(model.choices_):
        theirs, ours = (getattr(m.choices_, field.name) for m in (again, model))
        assert theirs == ours or (np.isnan(theirs) and np.isnan(ours)), field.name
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_rows", -1),
        ("n_rows", True),
        ("n_rows", 10**400),
        ("n_rows", "<b>1</b>"),
        ("label_gain", 10**400),
        ("label_score", "<script>alert(1)</script>"),
        ("label_error", "little"),
        ("interrupted", "no"),
        ("unknown", 1),
    ],
)
def test_choices_that_automatic_selection_cannot_make_are_refused(
    tmp_path: Path, name: str, value: Any
) -> None:
    path = tmp_path / "model.json"
    _, content = selected_file(path)
    write_signed(path, content | {"choices": content["choices"] | {name: value}})
    with pytest.raises(FileFormatError, match="choices"):
        load(path)
    whole: list[Any] = [[], "a tree for each cell", {}]
    for choices in whole:
        write_signed(path, content | {"choices": choices})
        with pytest.raises(FileFormatError, match="choices"):
            load(path)


def test_frames_of_all_libraries_and_named_columns_agree() -> None:
    table, labels, group = people()
    apart = LatNB(max_iter=5).fit(table, labels, sensitive_features=group)
    scores = apart.predict_proba(table, sensitive_features=group)
    inside = table.assign(sex=group)
    for frame in (inside, pl.from_pandas(inside), pl.from_pandas(inside).to_arrow()):
        model = LatNB("sex", max_iter=5).fit(frame, labels)
        np.testing.assert_allclose(model.predict_proba(frame), scores, atol=1e-12)


def test_missing_values_are_allowed_everywhere() -> None:
    table, labels, group = people()
    rng = np.random.default_rng(0)
    holes = table.mask(rng.random(table.shape) < 0.2)
    some_labels = labels.astype(object)
    some_labels[rng.random(len(labels)) < 0.2] = None
    some_groups = group.astype(object)
    some_groups[rng.random(len(group)) < 0.2] = None
    for model in (FairPC(structure="chow-liu", random_state=0), LatNB(), TwoNB()):
        model.fit(holes, some_labels, sensitive_features=some_groups)
        scores = model.predict_proba(holes, sensitive_features=some_groups)
        assert np.isfinite(scores).all()
        # What is said to be altered are labels that were recorded, of people of a known group.
        recorded = pd.crosstab(some_groups, some_labels)
        np.testing.assert_allclose(model.label_counts_.sum(axis=1), recorded, atol=1e-6)


def test_several_sensitive_columns_are_crossed() -> None:
    table, labels, group = people()
    both = table.assign(sex=group, old=np.where(table["age"] > 45, "yes", "no"))
    model = LatNB(["sex", "old"], max_iter=5, guard=False).fit(both, labels)
    crossed = ["sex=F, old=no", "sex=F, old=yes", "sex=M, old=no", "sex=M, old=yes"]
    assert list(model.groups_) == crossed
    assert model.parity_gap()["model"] < 1e-9


def test_more_than_two_classes() -> None:
    table, labels, group = people()
    rng = np.random.default_rng(1)
    three = np.where(rng.random(len(labels)) < 0.3, "maybe", labels)
    model = FairPC(structure="chow-liu").fit(table, three, sensitive_features=group)
    assert model.predict_proba(table, sensitive_features=group).shape == (len(table), 3)
    assert model.bias_mechanism_.shape == (2, 3, 3)
    with pytest.raises(LearningError, match="more than two classes"):
        model.choose_threshold(value=0.3)
    for own in (FairPC(), FairPC(structure="forest"), LatentDecision()):
        with pytest.raises(LearningError, match="merge classes into two, or take .*'strudel'"):
            own.fit(table, three, sensitive_features=group)


def test_the_bias_is_told_in_sentences() -> None:
    table, labels, group = people(4000)
    model = FairPC(structure="chow-liu").fit(table, labels, sensitive_features=group)
    account = model.explain_bias()
    assert account.counts.sum() == pytest.approx(len(table))
    assert account.ranges is not None
    lost, (low, high) = account.mechanism[0, 1, 0], account.ranges[0, 1, 0]
    sentence = (
        f"In group F, of the people whose fair decision is good, between {low:.1%} and {high:.1%} "
        "were recorded bad (95% confidence, if the assumptions hold; "
    )
    (said,) = (s for s in account.sentences if s.startswith(sentence))
    assert f"Point by convention: {lost:.1%} (by these rows' features " in said
    assert lost > account.mechanism[1, 1, 0]  # labels were altered against group F


def test_a_score_is_explained_by_leaving_values_out() -> None:
    table, labels, group = people()
    model = LatNB().fit(table, labels, sensitive_features=group)
    row, s = table.iloc[:1], group[:1]
    full = model.predict_proba(row, sensitive_features=s)[0, 1]
    parts = {part.feature: part.change for part in model.contributions(row, sensitive_features=s)}
    without = row.assign(age=np.nan)
    expected = full - model.predict_proba(without, sensitive_features=s)[0, 1]
    assert parts["age"] == pytest.approx(expected, abs=1e-12)
    assert parts["group"] == pytest.approx(full - model.predict_proba(row)[0, 1], abs=1e-12)


def test_thresholds() -> None:
    table, labels, group = people()
    model = FairPC(structure="chow-liu").fit(table, labels, sensitive_features=group)

    def rate(g: str | None = None) -> float:
        chosen = model.predict(table, sensitive_features=group) == "good"
        return float(chosen.mean() if g is None else chosen[group == g].mean())

    model.choose_threshold(table, selection_rate=0.25, sensitive_features=group)
    assert rate() == pytest.approx(0.25, abs=0.02)
    model.choose_threshold(table, equalise=True, selection_rate=0.4, sensitive_features=group)
    assert rate("F") == pytest.approx(rate("M"), abs=0.03)
    model.choose_threshold(value=1.0)
    assert rate() == 0.0
    with pytest.raises(LearningError, match="no rows were given"):
        model.choose_threshold(selection_rate=0.3)


def test_history() -> None:
    table, labels, group = people()
    model = FairPC(structure="chow-liu", max_iter=7, tol=0)
    model.fit(table, labels, sensitive_features=group, validation_data=(table, labels, group))
    assert {len(v) for v in model.history_.values()} == {8}
    # EM knows bins alone; what their widths add does not depend on it.
    rows = model.score_samples(table, labels, sensitive_features=group)
    coding = model.coding_.features
    rows -= coding.log_density(coding.transform(table))
    assert model.history_["validation_log_likelihood"][-1] == pytest.approx(rows.mean())


def test_samples_look_like_the_table() -> None:
    table, labels, group = people()
    model = FairPC(structure="chow-liu").fit(table, labels, sensitive_features=group)
    drawn = model.sample(50, random_state=0)
    assert drawn.columns == ["age", "job", "years", "S", "D", "Df"]
    assert set(drawn["D"]) <= {"bad", "good"}
    assert drawn.equals(model.sample(50, random_state=0))


def test_any_probability_can_be_asked() -> None:
    table, labels, group = people()
    model = FairPC(structure="chow-liu").fit(table, labels, sensitive_features=group)
    for s in ("F", "M"):
        assert model.probability({"Df": "good"}, {"S": s}) == pytest.approx(model.fair_rate_[1])
    row = {"S": "F", "job": "a", "age": 51.0}
    frame = pd.DataFrame({"job": ["a"], "age": [51.0], "years": [np.nan]})
    score = model.predict_proba(frame, sensitive_features=["F"])[0, 1]
    assert model.probability({"Df": "good"}, row) == pytest.approx(score)
    total = sum(model.probability({"job": j, "D": d}) for j in "abc" for d in ("bad", "good"))
    assert total == pytest.approx(1.0)
    assert model.probability({"S": "M"}, {"S": "F"}) == 0.0
    with pytest.raises(QueryError, match="there is no 'height' in the model"):
        model.probability({"height": 3})
    with pytest.raises(QueryError, match="'D' has no value 'maybe'"):
        model.probability({"D": "maybe"})


def test_rows_are_completed_with_what_is_most_probable() -> None:
    table, labels, group = people()
    model = FairPC(structure="chow-liu").fit(table, labels, sensitive_features=group)
    partial = pd.DataFrame({"job": ["a"], "age": [np.nan], "years": [28.0]})
    done = model.complete(partial, sensitive_features=["F"], library="dict")
    assert done["job"] == ["a"]
    assert done["S"] == ["F"]
    column = model.coding_.features.column("age")
    middle = column.intervals.quantiles(np.arange(column.arity, dtype=np.int16), 0.5)
    medians = dict(zip(column.labels, middle.tolist(), strict=True))
    best = max(
        (
            model.probability({"age": a, "D": d, "Df": f, "S": "F", "job": "a", "years": 28.0}),
            (medians[a], d, f),
        )
        for a in column.labels
        for d in ("bad", "good")
        for f in ("bad", "good")
    )
    assert (done["age"][0], done["D"][0], done["Df"][0]) == best[1]


def test_automatic_selection_says_what_it_chose() -> None:
    table, labels, group = people()
    model = FairPC(random_state=0)
    model.fit(table, labels, sensitive_features=group)
    assert model.choices_ is not None
    assert model.choices_.sentences
    assert model.parity_gap()["model"] < 1e-9
    again = FairPC(random_state=0).fit(table, labels, sensitive_features=group)
    np.testing.assert_array_equal(again.circuit_.parameters, model.circuit_.parameters)


def test_a_structure_can_be_kept() -> None:
    table, labels, group = people()
    first = FairPC(structure="strudel", max_splits=20, random_state=0)
    first.fit(table, labels, sensitive_features=group)
    again = FairPC(structure=first, max_iter=5, tol=0)
    again.fit(table, labels, sensitive_features=group)
    assert again.circuit_.graph.same_as(first.circuit_.graph)
    assert again.history_["objective"][-1] >= again.history_["objective"][0]
    with pytest.raises(LearningError, match="structure to keep is not over"):
        FairPC(structure=first.circuit_).fit(
            table[["age", "job"]], labels, sensitive_features=group
        )


def test_a_failed_fit_leaves_the_model_as_it_was() -> None:
    table, labels, group = people()
    model = LatNB().fit(table, labels, sensitive_features=group)
    before = model.predict_proba(table)
    with pytest.raises(FairpcError):
        model.fit(table, np.full(len(table), "good"), sensitive_features=group)
    np.testing.assert_array_equal(model.predict_proba(table), before)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("one group", {"group": lambda g: np.full(len(g), "F")}, "at least two groups"),
    ("one class", {"labels": lambda y: np.full(len(y), "good")}, "has 1 class"),
    ("no labels", {"labels": lambda y: np.full(len(y), None)}, "missing in every row"),
    ("no groups", {"group": lambda g: None}, "no sensitive attribute was given"),
    ("absent column", {"sensitive": "race", "group": lambda g: None}, "'race' in sensitive"),
    ("both", {"sensitive": "job"}, "use one of the two"),
    ("lengths", {"labels": lambda y: y[:-1]}, "600 rows and 599 labels"),
    ("infinite", {"table": lambda t: t.assign(age=np.inf)}, "'age'"),
    (
        "huge",
        {"table": lambda t: t.assign(age=pd.Series([10**400] * len(t), dtype=object))},
        "'age' has a whole number beyond",
    ),
    ("half a pair", {"labels": lambda y: y.astype(object) + "\ud800"}, "half of a surrogate pair"),
    (
        "name",
        {
            "table": lambda t: t.set_axis(
                pd.Index([*t.columns[:-1], "\udc80"], dtype=object), axis=1
            )
        },
        "in its name",
    ),
    ("empty", {"table": lambda t: t.iloc[:0]}, "the table is empty"),
    ("continuous", {"labels": lambda y: np.random.default_rng(0).random(len(y))}, "continuous"),
    ("weights", {"weights": -1.0}, "not negative"),
    ("index", {"labels": lambda y: pd.Series(y, index=np.arange(len(y)) + 1)}, "index"),
    ("threshold", {"threshold": 2.0}, "threshold is 2.0"),
    ("structure", {"structure": "best"}, "structure"),
]


@pytest.mark.parametrize(("name", "change", "message"), BAD, ids=[b[0] for b in BAD])
def test_bad_input_gets_one_sentence(name: str, change: dict[str, Any], message: str) -> None:
    table, labels, group = people()
    settings = {k: change[k] for k in ("sensitive", "threshold", "structure") if k in change}
    model = FairPC(structure="chow-liu").set_params(**settings)
    table = change.get("table", lambda t: t)(table)
    labels = change.get("labels", lambda y: y)(labels)
    group = change.get("group", lambda g: g)(group)
    weights = np.full(len(table), change["weights"]) if "weights" in change else None
    with pytest.raises(FairpcError, match=message) as caught:
        model.fit(table, labels, sensitive_features=group, sample_weight=weights)
    assert "\n" not in str(caught.value)
    assert not hasattr(model, "distribution_")


OTHER_TYPES: list[tuple[str, Any]] = [
    ("n_bins", "a"),
    ("n_bins", 8.0),
    ("rare", "few"),
    ("smoothing", [1.0]),
    ("mechanism_prior", "strong"),
    ("max_splits", 1.5),
    ("patience", None),
    ("max_iter", "many"),
    ("min_iter", True),
    ("tol", None),
    ("validation_fraction", "a tenth"),
    ("threshold", "half"),
    ("numeric", None),
    ("categorical", [None]),
    ("missing_values", "NA"),
    ("sensitive", 1.5),
    ("random_state", -1),
    ("random_state", "seed"),
    ("verbose", "much"),
]


@pytest.mark.parametrize(("name", "value"), OTHER_TYPES)
def test_a_setting_of_another_type_gets_a_sentence(name: str, value: Any) -> None:
    table, labels, group = people(60)
    model = FairPC(structure="chow-liu").set_params(**{name: value})
    with pytest.raises(LearningError) as caught:
        model.fit(table, labels, sensitive_features=group)
    assert str(caught.value).startswith(f"{name} is {value!r}: give ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"validation_data": 5}, "validation_data is not"),
        ({"validation_data": (1, 2)}, "validation_data is not"),
        ({"sample_weight": ["heavy"] * 60}, "weights are not numbers"),
    ],
)
def test_what_is_given_beside_rows_gets_a_sentence(options: dict[str, Any], message: str) -> None:
    table, labels, group = people(60)
    with pytest.raises(FairpcError, match=message):
        LatNB().fit(table, labels, sensitive_features=group, **options)


@pytest.mark.parametrize("renamed", [False, True])
def test_a_group_that_is_the_label_is_said(renamed: bool) -> None:
    table, _, group = people(60)
    labels = np.where(group == "F", "low", "high") if renamed else group
    with pytest.warns(SameAsLabelWarning, match="'sensitive' says the same as the label 'y'"):
        LatNB(max_iter=5).fit(table, labels, sensitive_features=group)
    labels = labels.copy()
    labels[0] = labels[group != group[0]][0]
    LatNB(max_iter=5).fit(table, labels, sensitive_features=group)


def test_one_of_several_groups_that_is_the_label_is_said() -> None:
    table, labels, group = people(60)
    both = pd.DataFrame({"sex": group, "copy": labels})
    with pytest.warns(SameAsLabelWarning, match="'copy' says the same as the label"):
        LatNB(max_iter=5).fit(table, labels, sensitive_features=both)


def test_duplicate_columns_and_wide_tables() -> None:
    table, labels, group = people()
    twice = pd.concat([table, table[["age"]]], axis=1)
    with pytest.raises(TableError, match="age"):
        LatNB().fit(twice, labels, sensitive_features=group)
    wide = np.zeros((len(labels), 10_000))
    with pytest.raises(TableError, match="10,?000 columns"):
        LatNB().fit(wide, labels, sensitive_features=group)


def test_accuracy_takes_groups_given_apart() -> None:
    data = load_german()
    model = LatNB(positive="good", guard=False)
    model.fit(data.X, data.y, sensitive_features=data.sensitive)
    decisions = model.predict(data.X, sensitive_features=data.sensitive)
    expected = float((decisions == data.y.to_numpy()).mean())
    assert model.score(data.X, data.y, sensitive_features=data.sensitive) == expected
