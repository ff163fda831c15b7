"""Files of a folder are one table: with one set of columns, and types that can be joined."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc.data.distinct import Distinct
from fairpc.data.files import find
from fairpc.data.fit_encoding import fit_coding
from fairpc.data.source import Roles, open_source
from fairpc.data.table_coding import RowEncoder
from fairpc.errors import FileFormatError

DAY = dt.date(2024, 5, 31)


def folder(path: Path, *frames: pl.DataFrame) -> Path:
    for k, frame in enumerate(frames):
        frame.write_parquet(path / f"{k}.parquet")
    return path


@pytest.mark.parametrize(
    ("one", "two", "joined"),
    [
        (pl.Series([1, 2], dtype=pl.Int16), pl.Series([3, 4], dtype=pl.Int64), [1, 2, 3, 4]),
        (pl.Series([1, 2]), pl.Series([0.5, None]), [1.0, 2.0, 0.5, None]),
        (pl.Series([None, None], dtype=pl.Null), pl.Series(["a", "b"]), [None, None, "a", "b"]),
        (pl.Series(["a"]), pl.Series(["b"], dtype=pl.Categorical), ["a", "b"]),
        (pl.Series([DAY]), pl.Series([dt.datetime(2024, 6, 1)]),
         [dt.datetime(2024, 5, 31), dt.datetime(2024, 6, 1)]),
        (pl.Series([True]), pl.Series([0]), [1, 0]),
    ],
)  # fmt: skip
def test_types_of_one_kind_are_joined(
    one: pl.Series, two: pl.Series, joined: list[Any], tmp_path: Path
) -> None:
    files = find(folder(tmp_path, pl.DataFrame({"x": one}), pl.DataFrame({"x": two})))
    assert files.read()["x"].to_list() == joined
    assert pl.concat(list(files.batches(1)))["x"].to_list() == joined
    parts = [files.one(k).read()["x"] for k in (0, 1)]
    assert pl.concat(parts).to_list() == joined


@pytest.mark.parametrize(
    ("one", "two"),
    [([1], ["a"]), (["a"], [1]), ([DAY], ["a"]), ([DAY], [1]), ([True], ["yes"]), ([[1]], [1])],
)
def test_types_of_two_kinds_are_refused_by_file_and_column(
    one: list[Any], two: list[Any], tmp_path: Path
) -> None:
    folder(tmp_path, pl.DataFrame({"x": one}), pl.DataFrame({"x": two}))
    with pytest.raises(FileFormatError, match=r"column 'x' holds .* in .*1\.parquet and .* in 0"):
        find(tmp_path)


def test_columns_that_only_some_files_have_are_refused(tmp_path: Path) -> None:
    folder(tmp_path, pl.DataFrame({"x": [1]}), pl.DataFrame({"x": [1], "y": [2]}))
    with pytest.raises(FileFormatError, match=r"0\.parquet has no column 'y', and 1\.parquet has"):
        find(tmp_path)
    (tmp_path / "1.parquet").unlink()
    folder(tmp_path, pl.DataFrame({"x": [1], "y": [2]}), pl.DataFrame({"x": [1]}))
    with pytest.raises(FileFormatError, match=r"1\.parquet has no column 'y', and 0\.parquet has"):
        find(tmp_path)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_columns_in_another_order_are_the_same_table(ending: str, tmp_path: Path) -> None:
    for k, frame in enumerate(
        (pl.DataFrame({"x": [1], "y": [2]}), pl.DataFrame({"y": [4], "x": [3]}))
    ):
        getattr(frame, f"write_{ending}")(tmp_path / f"{k}.{ending}")
    frame = find(tmp_path).read()
    assert frame.columns == ["x", "y"]
    assert [[int(v) for v in row] for row in frame.rows()] == [[1, 2], [3, 4]]


def test_a_damaged_or_empty_file_is_named(tmp_path: Path) -> None:
    frame = pl.DataFrame({"x": list(range(1000))})
    folder(tmp_path, frame, frame)
    whole = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match=r"1\.parquet cannot be read"):
        find(tmp_path)
    (tmp_path / "1.parquet").write_bytes(b"")
    with pytest.raises(FileFormatError, match=r"1\.parquet is empty, which is no Parquet file"):
        find(tmp_path)


def test_hidden_files_are_left_out_and_folders_below_are_not_forgotten(tmp_path: Path) -> None:
    frame = pl.DataFrame({"x": [1, 2]})
    folder(tmp_path, frame)
    for name in ("_tmp.parquet", ".0.parquet"):
        frame.write_parquet(tmp_path / name)
    (tmp_path / "_logs").mkdir()
    frame.write_parquet(tmp_path / "_logs" / "l.parquet")
    (tmp_path / "notes").mkdir()
    assert find(tmp_path).read().height == 2
    (tmp_path / "notes" / "deep").mkdir()
    frame.write_parquet(tmp_path / "notes" / "deep" / "a.parquet")
    with pytest.raises(FileFormatError, match=r"has tables in folders below it, such as notes: "):
        find(tmp_path)
    assert find(str(tmp_path / "notes" / "**" / "*.parquet")).read().height == 2


def test_a_streamed_table_of_joined_types_is_that_of_one_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 400
    whole = pl.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n), "label": rng.integers(0, 2, n),
            "age": rng.integers(18, 80, n),
            "day": [DAY + dt.timedelta(int(k)) for k in rng.integers(0, 90, n)],
        }
    )  # fmt: skip
    other = whole[200:].with_columns(
        pl.col("age").cast(pl.Float64),
        pl.col("day").cast(pl.Datetime),
        pl.col("label").cast(pl.Int8),
    )
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    sources = [
        open_source(folder(tmp_path / "one", whole)),
        open_source(folder(tmp_path / "two", whole[:200], other)),
    ]
    roles = Roles("label", ("sex",), ("age", "day"))
    codings = [fit_coding(source, roles)[0] for source in sources]
    edges = [[c.edges for c in coding.features.columns] for coding in codings]
    assert edges[0] == edges[1]
    one, two = (s.distinct(RowEncoder(c, roles)) for s, c in zip(sources, codings, strict=True))
    assert isinstance(one, Distinct)
    assert isinstance(two, Distinct)
    assert np.array_equal(one.words, two.words)
    assert np.array_equal(one.weights, two.weights)
