"""A table in files is fitted as the same table in memory is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from decisions import table
from fairpc import FairPC, LatNB, load
from fairpc.errors import LearningError, TableError
from fairpc.models import memory_bytes
from fairpc.models._selection import LabelGain


def written(frame: pl.DataFrame, folder: Path, kind: str) -> Any:
    if kind == "lazy":
        return frame.lazy()
    if kind == "csv":
        frame.write_csv(folder / "t.csv")
        return str(folder / "t.csv")
    for k in range(3):
        frame[k::3].write_parquet(folder / f"{k}.parquet")
    return folder


@pytest.mark.parametrize(
    ("kind", "structure"), [("csv", "strudel"), ("folder", "auto"), ("lazy", "chow-liu")]
)
def test_files_give_the_model_of_the_table_in_memory(
    kind: str, structure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every bit of it, in whatever order the rows come."""
    monkeypatch.setattr("fairpc.data._source.BATCH_ROWS", 200)
    monkeypatch.setattr("fairpc.data._source.READ_ROWS", 400)
    frame = table().drop("weight")
    in_memory = FairPC("sex", structure=structure, random_state=0).fit(
        frame.drop("label"), frame["label"]
    )
    streamed = FairPC("sex", structure=structure, random_state=0).fit(
        written(frame, tmp_path, kind), "label"
    )
    assert np.array_equal(in_memory.circuit_.parameters, streamed.circuit_.parameters)
    assert np.array_equal(in_memory.label_counts_, streamed.label_counts_)
    assert in_memory.data_fingerprint_ == streamed.data_fingerprint_
    assert list(streamed.feature_names_in_) == [n for n in frame.columns if n != "label"]
    ours, theirs = (m.coding_.features for m in (streamed, in_memory))
    assert [(c.name, c.edges, c.levels) for c in ours.columns] == [
        (c.name, c.edges, c.levels) for c in theirs.columns
    ]
    new = table(50, seed=1).drop("weight", "label")
    assert np.array_equal(in_memory.predict_proba(new), streamed.predict_proba(new))


def test_weights_are_a_column_and_validation_rows_may_be_files(tmp_path: Path) -> None:
    frame, other = table(), table(400, seed=2).drop("weight")
    other.write_parquet(tmp_path / "valid.parquet")
    weights = frame["weight"].to_numpy()
    plain = frame.drop("weight")
    settings: dict[str, Any] = {"structure": "strudel", "random_state": 0, "max_iter": 20}
    beside: dict[str, Any] = {"validation_data": (other.drop("label"), other["label"], None)}
    X, y = plain.drop("label"), plain["label"]
    in_memory = FairPC("sex", **settings).fit(X, y, sample_weight=weights, **beside)
    beside = {"validation_data": (tmp_path / "valid.parquet", "label", None)}
    beside["sample_weight"] = "weight"
    streamed = FairPC("sex", **settings).fit(frame.lazy(), "label", **beside)
    assert np.array_equal(in_memory.circuit_.parameters, streamed.circuit_.parameters)
    for name, values in in_memory.history_.items():
        assert np.array_equal(values, streamed.history_[name], equal_nan=True)


@pytest.mark.parametrize("kind", ["lazy", "folder"])
def test_rows_beyond_memory_are_fitted_in_parts(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpc.data._source.BATCH_ROWS", 300)
    monkeypatch.setattr("fairpc.data._source.READ_ROWS", 300)
    monkeypatch.setattr("fairpc.data._table.PART_CELLS", 2500)
    frame = table(4000).drop("weight")
    source = written(frame, tmp_path, kind)
    settings: dict[str, Any] = {"structure": "chow-liu", "random_state": 0, "max_iter": 30}
    parted, again = (
        FairPC("sex", **settings).fit(source, "label", max_memory="2MB") for _ in range(2)
    )
    # The parameters that it ended with, on all rows in memory.
    whole = FairPC("sex", **settings | {"structure": parted, "max_iter": 0})
    whole.fit(frame.drop("label"), frame["label"])
    ends = parted.history_["log_likelihood"][-1], whole.history_["log_likelihood"][0]
    assert ends[0] == pytest.approx(ends[1], abs=1e-10)
    assert np.allclose(parted.label_counts_, whole.label_counts_, rtol=1e-9)
    assert np.array_equal(parted.circuit_.parameters, again.circuit_.parameters)


def test_choices_on_a_sample_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairpc.data._table.PART_CELLS", 2500)
    monkeypatch.setattr(
        "fairpc.models._circuit_fit.compare_labels", lambda *given: LabelGain(-0.5, 0.0, 0.01)
    )
    model = FairPC("sex", random_state=0, max_iter=5, guard=False)
    model.fit(table(4000).drop("weight").lazy(), "label", max_memory="1MB")
    assert model.choices_ is not None
    assert not model.choices_.forest
    assert model.choices_.n_rows < 4000
    model.save(tmp_path / "m")
    assert str(load(tmp_path / "m").choices_) == str(model.choices_)


def test_what_cannot_be_streamed_is_refused(tmp_path: Path) -> None:
    frame = table(200)
    lazy = frame.lazy()
    with pytest.raises(TableError, match="the label of a streamed table"):
        LatNB("sex").fit(lazy, frame["label"])
    with pytest.raises(TableError, match="the weight of a streamed table"):
        LatNB("sex").fit(lazy, "label", sample_weight=frame["weight"].to_numpy())
    with pytest.raises(TableError, match="column 'gender' in sensitive is not in the table"):
        LatNB("gender").fit(lazy, "label")
    with pytest.raises(TableError, match="no sensitive attribute"):
        LatNB().fit(lazy, "label")
    with pytest.raises(TableError, match="sensitive_features were given"):
        LatNB().fit(lazy, "label", sensitive_features=frame["sex"])
    with pytest.raises(TableError, match="n_features = 2, all of them sensitive"):
        LatNB(["sex", "age"]).fit(lazy.select("sex", "age", "label"), "label")
    with pytest.raises(LearningError, match="max_memory is 'much'"):
        LatNB("sex").fit(lazy, "label", max_memory="much")


def test_limits_of_memory_are_read() -> None:
    assert memory_bytes("4GB") == 4 * 10**9
    assert memory_bytes("1.5 MiB") == 1_500_000
    assert memory_bytes(1000) == 1000
    assert memory_bytes(None) > 10**8


def test_a_label_that_is_no_name_is_refused_in_a_line(tmp_path: Path) -> None:
    table(20).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(TableError, match="and a Series is none: name one of") as caught:
        LatNB("sex").fit(tmp_path / "t.parquet", table(20)["label"])
    assert "\n" not in str(caught.value)
