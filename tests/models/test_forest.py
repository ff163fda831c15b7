"""FairPC(structure="forest") on tables: files, queries, and what is refused."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from decisions import table
from fairpc import FairPC, Knowledge, LatNB, NLatPC, load
from fairpc.errors import FairpcError, FileFormatError, LearningError
from fairpc.models import (
    ForestDistribution,
    _forest_fit as forest_fit,
    _score_mechanism as score_mechanism,
)
from fairpc.models._selection import LabelGain
from models.forests import same
from models.test_models import write_signed
from models.test_sklearn import people


@pytest.fixture(autouse=True, scope="module")
def small() -> Any:
    """Quick fits: trees of a few leaves, grown on few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forest_fit, "GROWING_ROWS", 300)
        patch.setattr(forest_fit, "MAX_LEAVES", 12)
        patch.setattr(score_mechanism, "MECHANISM_STEPS", 200)
        yield


def forest(*sensitive: str, **settings: Any) -> Any:
    return FairPC(*sensitive, structure="forest", random_state=0, **settings)


@pytest.fixture(scope="module")
def planted(small: Any) -> Any:
    people_, labels, group = people()
    return forest(positive="good").fit(people_, labels, sensitive_features=group)


def test_a_column_that_is_of_no_use_stays_out() -> None:
    """Finer cuts made 127 levels of names that the table of columns called dropped."""
    table_, labels, group = people()
    names = table_.assign(name=[f"P{k // 2}" for k in range(len(table_))])
    features = forest().fit(names, labels, sensitive_features=group).coding_.features
    assert {d.name: d.reason for d in features.dropped} == {
        "name": "none of its 300 values holds 0.50% of rows"
    }


def test_what_is_learned(planted: Any) -> None:
    people_, labels, group = people()
    assert isinstance(planted.distribution_, ForestDistribution)
    assert planted.choices_ is not None
    assert planted.choices_.forest
    assert "would turn about" in str(planted.choices_)
    scores = planted.predict_proba(people_, sensitive_features=group)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    assert planted.score(people_, labels, sensitive_features=group) > 0.7
    assert planted.parity_gap()["model"] < 1e-9
    assert planted.label_counts_.sum() == pytest.approx(600)
    rows = planted.score_samples(people_, labels, sensitive_features=group)
    coding = planted.coding_.features
    inside = coding.log_density(coding.transform(people_))
    assert planted.log_likelihood_ == pytest.approx((rows - inside).mean())


def test_copies_of_the_model(planted: Any, tmp_path: Path) -> None:
    people_, _, group = people()
    joblib.dump(planted, tmp_path / "model.joblib")
    scores = planted.predict_proba(people_, sensitive_features=group)
    for again in (
        pickle.loads(pickle.dumps(planted)),
        joblib.load(tmp_path / "model.joblib"),
        joblib.load(tmp_path / "model.joblib", mmap_mode="r"),
        copy.deepcopy(planted),
    ):
        assert same(again, planted)
        np.testing.assert_array_equal(
            again.predict_proba(people_, sensitive_features=group), scores
        )
    fresh = clone(planted)
    assert fresh.get_params() == planted.get_params()
    assert not hasattr(fresh, "distribution_")


def test_a_file_gives_back_every_bit(planted: Any, tmp_path: Path) -> None:
    people_, _, group = people()
    planted.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert isinstance(again.distribution_, ForestDistribution)
    assert same(again, planted)
    for name in ("predict_proba", "predict_observed_proba", "predict", "score_samples"):
        one, two = (getattr(m, name)(people_, sensitive_features=group) for m in (again, planted))
        np.testing.assert_array_equal(one, two)
    assert again.explain_bias().sentences == planted.explain_bias().sentences
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "model.json").read_bytes()


def test_a_file_of_many_columns_is_not_refused(tmp_path: Path) -> None:
    """A string per box and feature were more than a reader takes of a file that is honest."""
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.integers(0, 2, (60, 100)), columns=[f"c{j}" for j in range(100)])
    model = forest().fit(wide, wide["c0"], sensitive_features=rng.integers(0, 2, 60))
    model.save(tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text()
    assert text.count('"') < 4000
    assert same(load(tmp_path / "model.json"), model)


def taken_by_auto(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``auto`` where the label speaks for a forest, whatever the table."""
    gain = LabelGain(-0.5, 0.1, 0.01)
    monkeypatch.setattr("fairpc.models._circuit_fit.compare_labels", lambda *given: gain)
    return FairPC("sex", random_state=0, max_iter=40)


def test_a_forest_that_auto_took_is_saved_with_its_grounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = table(300).drop("weight")
    model = taken_by_auto(monkeypatch).fit(frame.drop("label"), frame["label"])
    assert isinstance(model.distribution_, ForestDistribution)
    assert model.choices_.forest
    assert model.choices_.n_rows == 300
    assert model.choices_.label_gain == 0.1
    assert model.choices_.sentences[0] == "300 rows were fitted to."
    assert model.choices_.sentences[1].startswith("A forest circuit was taken: a plain classifier")
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert same(again, model)
    assert again.choices_ is not None
    assert again.choices_.sentences == model.choices_.sentences
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "model.json").read_bytes()
    # Nothing but the coding differs from a forest that was asked for.
    asked = forest("sex").fit(frame.drop("label"), frame["label"])
    assert asked.coding_.features == model.coding_.features
    content = json.loads((tmp_path / "model.json").read_text())
    lacking = {k: v for k, v in content["choices"].items() if k != "wide"}
    for choices in (content["choices"] | {"forest": False}, lacking):
        write_signed(tmp_path / "model.json", content | {"choices": choices})
        with pytest.raises(FileFormatError, match="choices"):
            load(tmp_path / "model.json")


Change = Callable[[dict[str, Any]], object]


def nested(name: str, value: Any, *path: int) -> Change:
    def change(planted: dict[str, Any]) -> None:
        at = planted
        for key in (name, *path[:-1]):
            at = at[key]  # type: ignore[index]
        at[path[-1]] = value  # type: ignore[index]

    return change


def _of_no_value(planted: dict[str, Any]) -> None:
    sizes = [len(value[0][0][0]) for value in planted["values"]]
    j = next(j for j, size in enumerate(sizes) if size % 8)
    planted["allowed"][j] = planted["allowed"][j][:-1] + "f"


CHANGES: dict[str, Change] = {
    "no forest": lambda f: f.clear(),
    "rates of leaves": nested("leaf_rate", 0.9, 0, 0, 0),
    "negative": nested("leaf_rate", -0.1, 0, 0, 0),
    "text": nested("leaf_rate", "much", 0, 0, 0),
    "ragged": lambda f: f["leaf_rate"][0][0].pop(),
    "no leaves": lambda f: f.update(tree=[], leaf_rate=[[[], []], [[], []]]),
    "nothing": lambda f: f.update(leaf_rate=None),
    "deeper": lambda f: f.update(leaf_rate=[[[[v] for v in c] for c in g] for g in f["leaf_rate"]]),
    "flat": lambda f: f.update(leaf_rate=f["leaf_rate"][0]),
    "a group too few": lambda f: f["leaf_rate"].pop(),
    "a class too few": lambda f: [g.pop() for g in f["leaf_rate"]],
    "a tree left out": nested("tree", 7, -1),
    "a tree of trees": lambda f: f.update(tree=[[t] for t in f["tree"]]),
    "huge tree": nested("tree", 10**400, 0),
    "a number for a tree": lambda f: f.update(tree=3),
    "shares": nested("shares", 0.0, 0, 0),
    "share of nothing": lambda f: f.update(shares=[]),
    "values": nested("values", 0.9, 0, 0, 0, 0),
    "values are huge": nested("values", 1e308, 0, 0, 0, 0),
    "a value of none": lambda f: f["values"][0][0][0].__setitem__(
        slice(None), [1.0] + [0.0] * (len(f["values"][0][0][0]) - 1)
    ),
    "a value too many": lambda f: [c.append(0.0) for g in f["values"][0] for c in g],
    "a feature too few": lambda f: (f["values"].pop(), f["allowed"].pop()),
    "features of no boxes": lambda f: f["allowed"].pop(),
    "no box": nested("allowed", "", 0),
    "empty boxes": lambda f: f["allowed"].__setitem__(0, "00" * (len(f["allowed"][0]) // 2)),
    "a box too many": lambda f: f["allowed"].__setitem__(0, f["allowed"][0] * 2),
    "no hex": nested("allowed", "zz", 0),
    "boxes are numbers": nested("allowed", 5, 0),
    "boxes are lists": nested("allowed", [[1]], 0),
    "blanks between boxes": lambda f: f["allowed"].__setitem__(0, f"{f['allowed'][0]} "),
    "bits of no value": lambda f: _of_no_value(f),
    "a tree in words": nested("tree", "0", 0),
    "half a tree": nested("tree", 0.5, 0),
    "a tree that is false": nested("tree", False, 0),
    "a rate in words": lambda f: nested("group_rate", str(f["group_rate"][0]), 0)(f),
    "a share in words": lambda f: nested("shares", [str(v) for v in f["shares"][0][0]], 0, 0)(f),
    "a field of nobody": lambda f: f.update(more=1),
    "mechanism": nested("mechanism", 0.9, 0, 0, 0),
    "mechanism of one group": lambda f: f["mechanism"].pop(),
    "group rates": nested("group_rate", 2.0, 0),
    "group rates of three": lambda f: f.update(group_rate=[0.2, 0.3, 0.5]),
    "decisions": nested("decision_rate", -1.0, 0),
    "decisions of three": lambda f: f.update(decision_rate=[0.2, 0.3, 0.5]),
    "decisions of nothing": lambda f: f.update(decision_rate=[]),
    "forty thousand leaves": lambda f: f.update(
        tree=[0] * 40_000, leaf_rate=[[[1 / 40_000] * 40_000] * 2] * 2
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_an_altered_forest_is_refused_in_a_line(
    planted: Any, change: Change, tmp_path: Path
) -> None:
    path = tmp_path / "model.json"
    planted.save(path)
    content = json.loads(path.read_text())
    parts = content["forest"] | content["rates"]
    change(parts)
    content["rates"] = {name: parts.pop(name) for name in content["rates"] if name in parts}
    write_signed(path, content | {"forest": parts})
    with pytest.raises(FileFormatError) as caught:
        load(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("forest", []), ("forest", "trees"), ("forest", 3), ("model", "NLatPC"), ("features", {})],
)
def test_a_forest_beside_other_content(planted: Any, name: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    planted.save(path)
    content = json.loads(path.read_text())
    if name == "features":
        content["forest"] = None  # neither
    write_signed(path, content | {name: value})
    with pytest.raises(FileFormatError):
        load(path)


def test_a_number_that_is_none_is_refused(planted: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    planted.save(path)
    content = json.loads(path.read_text())
    content["forest"]["shares"][0][0] = "X"
    text = json.dumps(content).replace('"X"', "NaN")
    path.write_text(text)
    with pytest.raises(FileFormatError, match="NaN is not a number"):
        load(path)


# --- queries ----------------------------------------------------------------------------------


def test_holes_at_prediction_are_summed_out(planted: Any) -> None:
    people_, _, group = people(60, seed=1)
    holes = people_.mask(np.random.default_rng(0).random(people_.shape) < 0.4)
    scores = planted.predict_proba(holes, sensitive_features=group)
    nothing = planted.predict_proba(people_.mask(np.ones(people_.shape, bool)))
    np.testing.assert_allclose(nothing, np.tile(planted.fair_rate_, (60, 1)), atol=1e-12)
    assert np.isfinite(scores).all()
    known = {"job": "a", "S": "F"}
    asked = planted.probability({"Df": "good"}, known)
    row = pd.DataFrame({"age": [np.nan], "job": ["a"], "years": [np.nan]})
    told = planted.predict_proba(row, sensitive_features=["F"])[0, 1]
    assert asked == pytest.approx(told, abs=1e-10)


def test_probabilities_samples_and_completions(planted: Any) -> None:
    assert planted.probability({"S": "F", "Df": "good"}) == pytest.approx(
        planted.probability({"S": "F"}) * planted.probability({"Df": "good"}), abs=1e-12
    )
    drawn = planted.sample(4000, random_state=0)
    assert drawn["Df"].to_list().count("good") / 4000 == pytest.approx(
        planted.fair_rate_[1], abs=0.04
    )
    assert planted.sample(20, random_state=1).equals(planted.sample(20, random_state=1))
    people_, labels, group = people(30, seed=2)
    holes = people_.assign(job=None)
    done = planted.complete(holes, labels, sensitive_features=group)
    assert done["D"].to_list() == labels.tolist()
    assert done["S"].to_list() == group.tolist()
    assert set(done["job"]) <= {"a", "b", "c"}


def test_a_score_is_explained(planted: Any) -> None:
    people_, _, group = people()
    row = people_.iloc[:1]
    parts = {p.feature: p.change for p in planted.contributions(row, sensitive_features=group[:1])}
    full = planted.predict_proba(row, sensitive_features=group[:1])[0, 1]
    without = planted.predict_proba(row.assign(age=np.nan), sensitive_features=group[:1])[0, 1]
    assert parts["age"] == pytest.approx(full - without, abs=1e-12)


# --- fits -------------------------------------------------------------------------------------


def test_the_order_of_rows_and_copies_of_them_do_not_matter() -> None:
    """Bit for bit: equal rows are merged, and distinct ones sorted."""
    frame = table(300)
    weights = frame["weight"].to_numpy()
    X, y = frame.drop("label", "weight"), frame["label"]
    weighted = forest("sex").fit(X, y, sample_weight=weights)
    rows = np.repeat(np.arange(300), weights)
    np.random.default_rng(0).shuffle(rows)
    repeated = forest("sex").fit(X[rows], y[rows])
    assert same(weighted, repeated)


def test_a_table_in_files_gives_the_model_of_the_table_in_memory(tmp_path: Path) -> None:
    frame = table(400).drop("weight")
    for k in range(2):
        frame[k::2].write_parquet(tmp_path / f"{k}.parquet")
    here = forest("sex").fit(frame.drop("label"), frame["label"])
    there = forest("sex").fit(tmp_path, "label")
    assert same(here, there)
    assert here.data_fingerprint_ == there.data_fingerprint_


def test_rows_that_stay_on_disk(tmp_path: Path) -> None:
    table(3000).drop("weight").write_parquet(tmp_path / "t.parquet")
    one, two = (
        forest("sex").fit(tmp_path / "t.parquet", "label", max_memory="200KB") for _ in range(2)
    )
    assert same(one, two)
    assert one.label_counts_.sum() == pytest.approx(3000)


@pytest.mark.slow
def test_auto_takes_a_forest_of_a_table_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = table(400).drop("weight")
    frame.write_parquet(tmp_path / "t.parquet")
    model = taken_by_auto(monkeypatch)
    here = clone(model).fit(frame.drop("label"), frame["label"])
    there = clone(model).fit(tmp_path / "t.parquet", "label")
    assert same(here, there)


@pytest.mark.slow
def test_validation_rows_are_rows_like_others() -> None:
    people_, labels, group = people(400)
    first, rest = slice(0, 300), slice(300, None)
    valid = people_[rest], labels[rest], group[rest]
    model = forest().fit(
        people_[first], labels[first], sensitive_features=group[first], validation_data=valid
    )
    without = forest().fit(people_[first], labels[first], sensitive_features=group[first])
    assert not np.array_equal(model.group_rate_, without.group_rate_)


def test_knowledge_is_kept_to() -> None:
    people_, labels, group = people()
    known = Knowledge(fair_rate=0.4, one_sided={"F": "lowered"})
    model = forest(knowledge=known, positive="good").fit(people_, labels, sensitive_features=group)
    assert model.fair_rate_[1] == pytest.approx(0.4, abs=1e-12)
    assert model.bias_mechanism_[0, 0, 1] == 0.0
    assert model.parity_gap()["model"] < 1e-9


def test_the_structure_of_a_forest_can_be_kept(planted: Any, tmp_path: Path) -> None:
    people_, labels, group = people()
    kept = FairPC(structure=planted, max_iter=2, tol=0).fit(
        people_, labels, sensitive_features=group
    )
    assert len(kept.circuit_.parameters) == len(planted.circuit_.parameters)
    assert kept.log_likelihood_ > planted.log_likelihood_
    kept.save(tmp_path / "model.json")
    again: Any = load(tmp_path / "model.json")
    assert again.distribution_.layout == kept.distribution_.layout
    np.testing.assert_array_equal(again.circuit_.parameters, kept.circuit_.parameters)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (forest(init="random"), "is for FairPC with init='prior'"),
        (NLatPC(structure="forest"), "is for FairPC"),
    ],
)
def test_what_is_refused(model: Any, message: str) -> None:
    people_, labels, group = people(60)
    with pytest.raises(LearningError, match=message):
        model.fit(people_, labels, sensitive_features=group)


def test_naive_models_have_no_structure() -> None:
    with pytest.raises(TypeError, match="structure"):
        LatNB(structure="forest")


@pytest.mark.parametrize("structure", ["forest", "auto"])
def test_rows_without_both_group_and_label_are_told(structure: Any) -> None:
    people_, labels, group = people(40)
    half = np.arange(40) < 20
    some_labels, some_groups = labels.astype(object), group.astype(object)
    some_labels[half] = some_groups[~half] = None
    with pytest.raises(FairpcError, match="no row has both a group and a label"):
        FairPC(structure=structure).fit(people_, some_labels, sensitive_features=some_groups)


@pytest.mark.parametrize("seed", [0, 1])
def test_twenty_rows_and_a_group_of_three(seed: int) -> None:
    people_, labels, _ = people(20, seed)
    group = np.array(["F"] * 3 + ["M"] * 17)
    model = forest().fit(people_, labels, sensitive_features=group)
    assert np.isfinite(model.predict_proba(people_, sensitive_features=group)).all()
