"""Tables with columns that no model reads: lists, structs, bytes, durations, broken ones."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from cli.calls import FIT, called

NESTED = ("list", "struct", "array", "bytes")


@pytest.fixture
def odd(folder: Path) -> pl.DataFrame:
    """The table with columns of odd types; of the lists the file holds nothing that can be read."""
    pq = pytest.importorskip("pyarrow.parquet")
    table = pl.read_csv("t.csv")
    numbers = range(table.height)
    odd = table.with_columns(
        pl.Series("list", [[i, i + 1] for i in numbers]),
        pl.Series("struct", [{"a": i, "b": str(i)} for i in numbers]),
        pl.Series("array", [[i, i] for i in numbers], dtype=pl.Array(pl.Int64, 2)),
        pl.Series("bytes", [b"\xff%d" % i for i in numbers]),
        pl.Series("took", [dt.timedelta(minutes=i) for i in numbers]),
    )
    odd.write_parquet("whole.parquet")
    odd.write_parquet("odd.parquet", compression="uncompressed", use_pyarrow=True)
    groups = pq.ParquetFile("odd.parquet").metadata.row_group(0)
    chunks = (groups.column(k) for k in range(groups.num_columns))
    chunk = next(c for c in chunks if c.path_in_schema.startswith("list."))
    content = bytearray(Path("odd.parquet").read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    Path("odd.parquet").write_bytes(content)
    with pytest.raises(pl.exceptions.PolarsError):
        pl.read_parquet("odd.parquet")
    return odd


def test_predict_writes_what_text_can_hold_and_names_the_rest(
    odd: pl.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = called(capsys, "predict", "m.fairpc", "odd.parquet", "-o", "out.csv")
    assert ended.code == 0, ended.err
    found = pl.read_csv("out.csv")
    assert all(repr(name) in ended.err for name in NESTED)
    assert found.columns == [*odd.drop(NESTED).columns, "p_df_no", "p_df_yes"]
    assert found["took"][:2].to_list() == ["PT0S", "PT1M"]


@pytest.mark.parametrize("name", ["out.parquet", "out.feather"])
@pytest.mark.usefixtures("odd")
def test_predict_carries_everything_where_the_format_can(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = called(capsys, "predict", "m.fairpc", "whole.parquet", "-o", name)
    assert ended.code == 0, ended.err
    found = pl.read_parquet(name) if name.endswith("parquet") else pl.read_ipc(name)
    assert found.drop("p_df_no", "p_df_yes").equals(pl.read_parquet("whole.parquet"))


def test_review_and_audit_go_together(
    odd: pl.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = called(capsys, "review", "m.fairpc", "odd.parquet", "-n", "20", "-o", "rows.csv")
    assert ended.code == 0, ended.err
    assert all(repr(name) in ended.err for name in NESTED)
    rows = pl.read_csv("rows.csv", infer_schema=False)
    assert rows.columns == ["review_id", *odd.drop(NESTED).columns, "fair_decision"]
    rows.with_columns(fair_decision="hired").write_csv("rows.csv")
    answered = ("odd.parquet", "--reviewed", "rows.csv", "-o")
    audit = called(capsys, "audit", "m.fairpc", *answered, "page.html")
    assert audit.code == 0, audit.err
    dropped = [word for name in (*NESTED, "took") for word in ("--drop", name)]
    fit = called(capsys, "fit", *answered, "n.fairpc", *FIT, *dropped)
    assert fit.code == 0, fit.err


@pytest.mark.usefixtures("odd")
def test_a_column_that_is_used_is_named_where_it_cannot_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended = called(capsys, "fit", "whole.parquet", *FIT, "-o", "n.fairpc")
    assert ended.code == 2
    assert "column 'list' holds List(Int64): give text" in ended.err
