"""An audit of a table that is streamed is the audit of the same table in memory."""

from __future__ import annotations

import warnings
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from auditing.tables import QUICK, fitted, plain_json, settings, table
from closeness import assert_close
from fairpc.auditing import Audit, _job as reading_module, audit
from fairpc.auditing._job import read_table
from fairpc.datasets import load_adult
from fairpc.errors import (
    AuditError,
    CodesError,
    ContradictionWarning,
    FileFormatError,
    TableError,
    TableWarning,
)
from fairpc.models import CircuitClassifier, FairPC, LatNB

SAMPLED: dict[str, Any] = {"max_test_rows": 150}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairpc.data._source.BATCH_ROWS", 61)
    monkeypatch.setattr("fairpc.data._source.READ_ROWS", 122)


def few_values(n: int = 900, seed: int = 0) -> pl.DataFrame:
    """A table with many equal rows, holes in features, labels and groups, and weights."""
    features, labels, groups = table(n, n_groups=3, seed=seed)
    rng = np.random.default_rng(seed)
    holes = {name: rng.random(n) < 0.08 for name in ("x1", "city", "label", "sex")}
    frame = features.drop("amount").with_columns(
        pl.Series("label", labels.tolist()),
        pl.Series("sex", groups.tolist()),
        pl.Series("weight", rng.choice([0.0, 0.5, 1.0, 2.5], n)),
        pl.Series("times", rng.integers(1, 4, n)),
    )
    return frame.with_columns(
        pl.when(~pl.Series(hole)).then(pl.col(name)).alias(name) for name, hole in holes.items()
    )


MANY = few_values(90).with_columns(many=pl.lit("many")).lazy()


@cache
def model_of_few() -> CircuitClassifier:
    frame = few_values().drop("weight", "times")
    model = FairPC("sex", structure="chow-liu", random_state=0, max_iter=40)
    return model.fit(frame.drop("label"), frame["label"])


def written(frame: pl.DataFrame, folder: Path, kind: str) -> Any:
    if kind == "lazy":
        return frame.lazy()
    if kind == "csv":
        frame.write_csv(folder / "t.csv")
        return folder / "t.csv"
    for k, start in enumerate(range(0, len(frame), 250)):
        frame[start : start + 250].write_parquet(folder / f"{k}.parquet")
    return str(folder / "*.parquet")


def facts(record: Audit) -> Any:
    """What an audit found, without what it took."""
    found = plain_json(record)
    del found["provenance"]["date"], found["provenance"]["seconds"]
    return found


@pytest.mark.parametrize("kind", ["csv", "folder", "lazy"])
@pytest.mark.parametrize("weight", [None, "weight", "times"])
def test_every_section_is_that_of_the_table_in_memory(
    kind: str, weight: str | None, tmp_path: Path
) -> None:
    frame, model = few_values(), model_of_few()
    weights = None if weight is None else frame[weight].to_numpy()
    X = frame.drop("label", "weight", "times")
    whole = audit(model, X, frame["label"], sample_weight=weights, **QUICK)
    ours = audit(model, written(frame, tmp_path, kind), "label", sample_weight=weight, **QUICK)
    assert whole.data.same_rows_as_fit is (weight is None)
    expected, found = facts(whole), facts(ours)
    assert_close(expected, found)


def test_rows_are_merged_and_counted() -> None:
    frame, model = few_values(), model_of_few()
    read = read_table(model, frame.lazy(), "label", settings(max_test_rows=100))
    assert read.rows.counts is not None
    assert len(read.rows.s) < read.rows.n_rows / 1.5
    assert read.rows.n_rows == read.rows.n_table == len(frame)
    assert read.drawn.n_rows == len(frame)


def test_sums_of_a_long_table_are_exact_and_the_rest_is_sampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading_module, "DRAWN", 150)
    frame, model = few_values(), model_of_few()
    asked = QUICK | SAMPLED
    X = frame.drop("label", "weight", "times")
    whole = facts(audit(model, X, frame["label"], **QUICK))
    record = audit(model, frame.lazy(), "label", **asked)
    ours = facts(record)
    for name in ("data", "labels", "mechanism", "parity", "group_metrics"):
        assert_close(whole[name], ours[name], name)
    assert record.decidable.test is not None
    assert 100 < record.decidable.test.n_rows < 150
    page = record._repr_html_()
    assert record.decidable.test.n_known == frame.drop_nulls(["label", "sex"]).height
    assert f"of the {record.decidable.test.n_known} rows whose label and group are known" in page
    again = facts(audit(model, frame.lazy(), "label", **asked))
    assert_close(ours, again)


@pytest.mark.parametrize("weight", [None, "times", "weight"])
def test_the_rows_of_a_streamed_fit_are_known_again(weight: str | None, tmp_path: Path) -> None:
    frame = few_values().drop([name for name in ("weight", "times") if name != weight])
    source = written(frame, tmp_path, "folder")
    model = LatNB("sex", max_iter=10).fit(source, "label", sample_weight=weight)
    record = audit(model, source, "label", sample_weight=weight, **QUICK)
    assert record.data.same_rows_as_fit is True
    assert "the rows that the model was fitted to" in str(record)
    other = audit(model, few_values(seed=1).lazy(), "label", sample_weight=weight, **QUICK)
    assert other.data.same_rows_as_fit is False


def test_rows_with_fractional_weights_have_one_name_however_they_are_read() -> None:
    frame = few_values().drop("times")
    X, y, w = frame.drop("label", "weight"), frame["label"], frame["weight"].to_numpy()
    model = LatNB("sex", max_iter=10).fit(X, y, sample_weight=w)
    for record in (
        audit(model, frame.lazy(), "label", sample_weight="weight", **QUICK),
        audit(model, X, y, sample_weight=w, **QUICK),
    ):
        assert record.data.same_rows_as_fit is True


def test_persons_of_a_streamed_table_are_known_and_stay_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame, model = few_values(), model_of_few()
    rng = np.random.default_rng(0)
    people = frame.with_columns(person=pl.Series(rng.integers(0, 300, len(frame))))
    X = people.drop("label", "weight", "times", "person")
    whole = audit(model, X, people["label"], clusters=people["person"].to_numpy(), **QUICK)
    ours = audit(model, people.lazy(), "label", clusters="person", **QUICK)
    assert whole.data.n_persons == ours.data.n_persons == people["person"].n_unique()
    assert_close(facts(whole), facts(ours))
    monkeypatch.setattr(reading_module, "DRAWN", 150)
    read = read_table(
        model,
        people.lazy(),
        "label",
        settings(max_test_rows=150),
        clusters="person",
    )
    assert read.drawn.n_rows <= 150 < read.rows.n_rows == len(frame)
    assert read.rows.persons is not None
    assert read.drawn.persons is not None
    all_sizes = sorted(np.bincount(read.rows.persons).tolist())
    assert all_sizes == sorted(people["person"].value_counts()["count"].to_list())
    missing = people.with_columns(person=pl.when(pl.col("person") > 3).then("person"))
    with pytest.raises(AuditError, match="clusters is missing in row"):
        audit(model, missing.lazy(), "label", clusters="person", **QUICK)


def test_too_many_distinct_rows_are_sampled_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_module, "LEAST", 300)
    features, labels, groups = table(800, seed=2)
    frame = features.with_columns(
        pl.Series("label", labels.tolist()), pl.Series("sex", groups.tolist())
    )
    model = LatNB("sex", max_iter=10).fit(frame.lazy(), "label", max_memory="500kB")
    record = audit(model, frame.lazy(), "label", max_memory="500kB", **QUICK)
    assert record.data.same_rows_as_fit is True
    assert record.data.n_rows == 300
    assert record.data.n_table == 800
    assert "a random sample of 300 of the 800 rows" in record.verdict.sentences[1]
    record.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "a random sample of 300 rows was audited" in page
    assert record.parity is not None
    whole = audit(model, frame.drop("label"), frame["label"], **QUICK)
    assert whole.parity is not None
    mine, theirs = (p.scores[0].parity for p in (record.parity, whole.parity))
    low, high = mine.difference_interval
    assert high - low > 1.3 * (theirs.difference_interval[1] - theirs.difference_interval[0])
    assert mine.difference == pytest.approx(theirs.difference, abs=high - low)
    elsewhere = audit(model, frame.lazy(), "label", max_memory="400kB", **QUICK)
    assert elsewhere.data.same_rows_as_fit is True


def test_without_label_or_group_less_is_said(tmp_path: Path) -> None:
    frame, model = few_values(), model_of_few()
    X = frame.drop("label", "weight", "times")
    assert_close(facts(audit(model, X, **QUICK)), facts(audit(model, X.lazy(), **QUICK)))
    alone = X.drop("sex")
    record = audit(model, alone.with_columns(frame["label"]).lazy(), "label", **QUICK)
    assert_close(facts(audit(model, alone, frame["label"], **QUICK)), facts(record))
    assert record.parity is None
    assert record.verdict.sentences[-1].startswith("Audited: 900 rows of unknown groups")
    assert "the groups are not known. Give the sensitive column 'sex'" in str(record)
    record.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "The groups of these rows are not known: no row has a value of sex" in page
    assert "Who is in the table" not in page


def test_groups_that_were_given_apart_are_found_by_name() -> None:
    features, labels, groups = table()
    sensitive = pl.DataFrame({"sex": groups.tolist()})
    model = LatNB(max_iter=10).fit(features, labels, sensitive_features=sensitive)
    whole = audit(model, features, labels, sensitive_features=sensitive, **QUICK)
    both = features.with_columns(sensitive["sex"], pl.Series("y", labels.tolist()))
    assert_close(facts(whole), facts(audit(model, both.lazy(), "y", **QUICK)))


def test_what_was_not_seen_at_fit_is_said_once() -> None:
    odd = few_values().with_columns(city=pl.lit("zz"))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        audit(model_of_few(), odd.lazy(), "label", **QUICK)
    (one,) = [w for w in found if w.category is TableWarning]
    assert "column 'city' has 'zz', not seen at fit" in str(one.message)
    assert one.filename == __file__


def test_progress_tells_bytes(tmp_path: Path) -> None:
    seen: list[str] = []
    source = written(few_values(), tmp_path, "folder")
    audit(model_of_few(), source, "label", **QUICK, progress=lambda now: seen.append(now.what))
    read = [what for what in seen if what.startswith("reading the table: rows, ")]
    assert len(read) > 2
    assert read[-1].startswith("reading the table: rows, 100% of 0 MB")


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"y": "nothing"}, TableError, "the label of a streamed table .* 'nothing' is none"),
        ({"y": ["a"]}, TableError, "the label of a streamed table"),
        ({"sample_weight": "w"}, TableError, "the weight of a streamed table .* 'w' is none"),
        ({"X": MANY, "sample_weight": "many"}, CodesError, "weights are not numbers"),
        ({"sensitive_features": ["a"]}, TableError, "sensitive_features were given with a str"),
        ({"clusters": [1]}, TableError, "the clusters of a streamed table"),
        ({"max_test_rows": None}, AuditError, "max_test_rows is None, for all rows, and the"),
        ({"X": few_values(9).drop("x0").lazy()}, TableError, "column 'x0' is absent"),
        ({"X": few_values(9).head(0).lazy()}, TableError, "the table is empty"),
        ({"X": "nowhere.csv"}, FileFormatError, "there is no file nowhere.csv"),
    ],
)
def test_bad_input_is_a_sentence(given: dict[str, Any], error: Any, words: str) -> None:
    asked: dict[str, Any] = {"X": few_values(90).lazy(), "y": "label"} | given
    with pytest.raises(error, match=words):
        audit(model_of_few(), **asked, **QUICK)


def test_a_dask_frame_is_refused_with_a_way_on() -> None:
    dask = pytest.importorskip("dask.dataframe", reason="needs fairpc[cluster]")
    lazy = dask.from_pandas(few_values(50).to_pandas(), npartitions=2)
    with pytest.raises(TableError, match="or the files that it was read from"):
        audit(model_of_few(), lazy, "label", **QUICK)


def test_a_damaged_file_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    few_values().write_parquet(path)
    path.write_bytes(path.read_bytes()[:-40] + b"PAR1")
    with pytest.raises(FileFormatError, match=r"t\.parquet cannot be read"):
        audit(model_of_few(), path, "label", **QUICK)


def test_models_of_every_kind() -> None:
    for name, n_classes in (("NLatPC", 2), ("TwoNB", 2), ("FairPC", 3)):
        X, y, s = table(n_classes=n_classes)
        model = fitted(name, n_classes=n_classes)
        whole = audit(model, X, y, sensitive_features=s, **QUICK)
        named = X.with_columns(
            pl.Series("y", y.tolist()), pl.Series(model.coding_.groups.column_names[0], s.tolist())
        )
        assert_close(facts(whole), facts(audit(model, named.lazy(), "y", **QUICK)))


@pytest.mark.slow
def test_adult() -> None:
    """The published table: 32,561 rows of which 1,965 differ."""
    data = load_adult("paper")
    frame = data.X.with_columns(data.sensitive, data.y)
    model = FairPC(data.sensitive.name, structure="chow-liu", random_state=0)
    with pytest.warns(ContradictionWarning, match="must differ by at least"):
        model.fit(frame.drop(data.y.name), data.y)
    whole = audit(model, frame.drop(data.y.name), data.y, **QUICK)
    ours = audit(model, frame.lazy(), data.y.name, **QUICK)
    assert_close(facts(whole), facts(ours))


def test_the_file_of_an_older_version_does_not_say_whose_rows_these_are() -> None:
    frame, model = few_values(), copy(model_of_few())
    model.data_fingerprint_ = "sha256:0123"
    X, asked = frame.drop("label", "weight", "times"), QUICK
    record = audit(model, X, frame["label"], **asked)
    assert record.data.same_rows_as_fit is None
    assert "its file does not say" in str(record)
