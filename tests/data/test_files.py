"""Table files: what is read is what was written, whatever the format and the names."""

from __future__ import annotations

import csv
import datetime as dt
import io
import os
import sqlite3
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from fairpc.data import (
    Distinct,
    Roles,
    RowEncoder,
    _files as files,
    find,
    fit_coding,
    format_of,
    is_part,
    open_source,
    write_table,
)
from fairpc.data._delimited import read_dialect
from fairpc.errors import FileFormatError, TableError

FRAME = pl.DataFrame({"a b": [1, 2, None], 'q"': ["x", 'y,"z', None], "ü": [0.5, None, 1e-300]})


NAMED = ["t.parquet", "t.pq", "t.feather", "t.arrow", "1 %.arrow", "%41 [1]*.arrow"]


@pytest.mark.parametrize("name", NAMED)
def test_typed_tables_come_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_table([FRAME[:1], FRAME[1:]], FRAME.schema, path)
    assert find(path).read().equals(FRAME)
    assert find(path).names() == tuple(FRAME.columns)
    parts = list(find(path).batches(2))
    assert pl.concat(parts).equals(FRAME)


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b,c\n1|2,3|4,5|6\n2|3,4|5,6|7\n", ","),
        ('"x|y|z|w",b,c\n1,2,3\n', ","),
        ('"a\nb,c,d";e;f\n1;2;3\n', ";"),
        ("\r\n\r\na\tb\tc,d\r\n1\t2\t3\r\n", "\t"),
        ("a|b|c\n1|2|3\n", "|"),
        ("a\n1\n", ","),
        ('a;"b""|||";c\n1;2;3\n', ";"),
    ],
)
def test_the_delimiter_is_that_of_the_header(tmp_path: Path, text: str, delimiter: str) -> None:
    (tmp_path / "t.csv").write_text(text, newline="")
    assert read_dialect(tmp_path / "t.csv", "t.csv").delimiter == delimiter


def test_quotes_without_end_are_read_in_a_moment(tmp_path: Path) -> None:
    """Where each one is looked for an end, 64 KiB of them take many seconds."""
    path = tmp_path / "t.csv"
    seconds = []
    for size in (2**12, 2**16):
        path.write_text(',"a' * (size // 3))
        started = time.perf_counter()
        with pytest.raises(FileFormatError):
            read_dialect(path, "t.csv")
        seconds.append(time.perf_counter() - started)
    assert seconds[1] < 64 * max(seconds[0], 0.01)


@pytest.mark.parametrize(("name", "delimiter"), [("t.csv", ","), ("t.csv", ";"), ("t.tsv", "\t")])
def test_text_tables_come_back_as_text(tmp_path: Path, name: str, delimiter: str) -> None:
    path = tmp_path / name
    write_table([FRAME], FRAME.schema, path, delimiter=delimiter)
    files = find(path)
    assert files.delimiter == delimiter
    assert files.read().equals(FRAME.cast(pl.String))


def test_a_stream_gets_text_with_one_header() -> None:
    stream = io.BytesIO()
    write_table([FRAME[:1], FRAME[1:]], FRAME.schema, stream)
    rows = list(csv.reader(io.StringIO(stream.getvalue().decode())))
    assert rows[0] == FRAME.columns
    assert len(rows) == 4


CELLS = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff"), max_size=6
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=6),
    st.sampled_from(",;\t|"),
)
def test_any_quoted_cells_are_read_as_python_reads_them(
    tmp_path: Path, rows: list[list[str]], delimiter: str
) -> None:
    path = tmp_path / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writerows([["first", "second"], *rows])
    read = find(path, delimiter=delimiter).read()
    assert [[cell or "" for cell in row] for row in read.rows()] == rows


def test_lines_inside_values_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbfa,b\r\n"1\n\n2",x\r\n\r\n3,""\r\n,\r\n\r\n')
    # Where lines are blank, a row of nothing is taken for one of them.
    assert find(path).read().rows() == [("1\n\n2", "x"), ("3", "")]
    path.write_bytes(b"a,b\n1,2\n,\n")
    assert find(path).read().rows() == [("1", "2"), (None, None)]


def test_a_folder_and_a_pattern_are_one_table(tmp_path: Path) -> None:
    for i in range(3):
        FRAME.with_columns(pl.lit(i).alias("part")).write_parquet(tmp_path / f"{i}.parquet")
    (tmp_path / "readme.md").write_text("no table")
    for path in (tmp_path, tmp_path / "*.parquet"):
        assert find(path).read()["part"].to_list() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_short_table_may_be_read_before_anyone_asks_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Late(ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Any:
            begun = super().submit(*args, **kwargs)
            time.sleep(0.3)
            return begun

    monkeypatch.setattr(files, "ThreadPoolExecutor", Late)
    found: list[pl.DataFrame] = []
    reader = Thread(target=lambda: found.extend(files.in_batches(FRAME.lazy(), 100)), daemon=True)
    reader.start()
    reader.join(60)
    assert not reader.is_alive()
    assert pl.concat(found).equals(FRAME)


def test_what_is_part_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/x.csv", "a/y.csv", "b/x.csv", "odd[1].csv"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("h\n1\n")
    Path("link.csv").symlink_to("a/x.csv")
    Path("folder").symlink_to("a")
    Path("hard.csv").hardlink_to("a/x.csv")
    parts = {
        "a/x.csv": ["a/x.csv", "./a/../a/x.csv", "link.csv", "hard.csv"],
        "link.csv": ["a/x.csv"],
        "a": ["a/new.csv", "folder/new.csv", "link.csv"],
        "folder": ["a/new.parquet"],
        "a/*.csv": ["a/new.csv"],
        str(tmp_path / "?" / "*.csv"): ["a/new.csv"],
    }
    for path, table in [(path, table) for table, paths in parts.items() for path in paths]:
        assert is_part(path, table), (path, table)
    others = {
        "a/x.csv": ["a/z.csv"],
        "a": ["b/x.csv", "a/report.html", "a/b/new.csv"],
        "a/*.csv": ["a/new.tsv", "a/b/new.csv"],
        "odd[1].csv": ["odd1.csv"],
        "-": ["new.csv"],
        "nowhere.csv": ["new.csv"],
        "none*.csv": ["new.csv"],
    }
    for path, table in [(path, table) for table, paths in others.items() for path in paths]:
        assert not is_part(path, table), (path, table)


def test_a_folder_without_tables_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("")
    (tmp_path / "archive.csv").mkdir()
    with pytest.raises(FileFormatError) as caught:
        find(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path} is a folder without tables: put CSV")


def test_files_of_one_table_are_alike(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("a,c\n1,2\n")
    with pytest.raises(FileFormatError, match=r"2\.csv has other columns than .*1\.csv"):
        find(tmp_path)
    (tmp_path / "2.csv").unlink()
    FRAME.write_parquet(tmp_path / "2.parquet")
    with pytest.raises(FileFormatError, match=r"2\.parquet is parquet and 1\.csv is text"):
        find(tmp_path)


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(b"old")

    def batches() -> Iterator[pl.DataFrame]:
        yield FRAME
        raise TableError("column 'x' is odd: repair it")

    with pytest.raises(TableError, match="column 'x' is odd"):
        write_table(batches(), FRAME.schema, path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_what_text_cannot_hold_is_said(tmp_path: Path) -> None:
    nested = pl.DataFrame({"a": [[1, 2]]})
    with pytest.raises(TableError, match="cannot be written .*, write Parquet"):
        write_table([nested], nested.schema, tmp_path / "t.csv")
    assert not list(tmp_path.iterdir())


def test_unknown_endings() -> None:
    assert format_of("a.PARQUET") == "parquet"
    with pytest.raises(FileFormatError, match=r"'\.xlsx'"):
        format_of("a.xlsx")


DAY = dt.date(2024, 5, 31)
JUNE = dt.datetime(2024, 6, 1)


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
        (pl.Series([DAY]), pl.Series([JUNE]), [dt.datetime(2024, 5, 31), JUNE]),
        (pl.Series([True]), pl.Series([0]), [1, 0]),
    ],
)
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
    with pytest.raises(FileFormatError, match=r"column 'x' holds .* in 0\.parquet, .* in 1"):
        find(tmp_path)


def test_columns_that_only_some_files_have_are_refused(tmp_path: Path) -> None:
    folder(tmp_path, pl.DataFrame({"x": [1]}), pl.DataFrame({"x": [1], "y": [2]}))
    with pytest.raises(FileFormatError, match=r"1\.parquet and 0\.parquet differ in column 'y'"):
        find(tmp_path)
    (tmp_path / "1.parquet").unlink()
    folder(tmp_path, pl.DataFrame({"x": [1], "y": [2]}), pl.DataFrame({"x": [1]}))
    with pytest.raises(FileFormatError, match=r"1\.parquet and 0\.parquet differ in column 'y'"):
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


def test_damage_beyond_the_first_rows_is_an_error_not_a_shorter_table(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    jobs = np.random.default_rng(0).choice(["cook", "smith", "other"], 40_000)
    frame = pl.DataFrame({"x": jobs})
    frame.write_parquet(path, row_group_size=2000, compression="uncompressed")
    data = bytearray(path.read_bytes())
    half, eighth = len(data) // 2, len(data) // 8
    data[half : half + eighth] = bytes(eighth)
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=r"t\.parquet cannot be read"):
        list(find(path).batches(1000))
    lazy = open_source(pl.scan_parquet(path))
    with pytest.raises(FileFormatError, match="the lazy frame cannot be read"):
        list(lazy.map(["x"], lambda batch: batch.n_rows))


def test_a_file_that_is_cut_while_it_is_read_is_not_blamed_on_the_output(tmp_path: Path) -> None:
    path, output = tmp_path / "t.parquet", tmp_path / "out.csv"
    frame = pl.DataFrame({"x": np.random.default_rng(0).random(400_000)})
    frame.write_parquet(path, row_group_size=2000)
    files = find(path)

    def rows() -> Iterator[pl.DataFrame]:
        for k, batch in enumerate(files.batches(1000)):
            if not k:
                os.truncate(path, path.stat().st_size // 2)
            yield batch

    schema = files.scan().collect_schema()
    with pytest.raises(FileFormatError, match=r"t\.parquet cannot be read .* it was cut, moved or"):
        write_table(rows(), schema, output)
    assert not output.exists()


CUT = """
import os, sys
from fairpc.data._files import find
from fairpc.errors import FileFormatError
path = sys.argv[1]
try:
    for k, batch in enumerate(find(path).batches(1000)):
        if not k:
            os.truncate(path, os.path.getsize(path) // 4)
except FileFormatError as error:
    print(error)
"""


def test_an_arrow_file_that_is_cut_while_it_is_read_does_not_end_the_process(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a ü*[1]?#.arrow"
    frame = pl.DataFrame({"x": np.random.default_rng(0).random(2_000_000)})
    frame.write_ipc(path, compression="uncompressed", record_batch_size=10_000)
    ended = subprocess.run([sys.executable, "-c", CUT, path], capture_output=True, text=True)
    assert ended.returncode == 0
    assert ended.stdout.startswith(f"{path} cannot be read")


def write_doubled(path: Path) -> None:
    """A table in which two columns are called 'age'."""
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table([[1], [2], ["x"]], names=["age", "age", "job"])
    if path.suffix == ".parquet":
        from pyarrow import parquet

        parquet.write_table(table, path)
    elif path.suffix == ".arrow":
        from pyarrow import feather

        feather.write_feather(table, path)
    else:
        path.write_text("age,age,job\n1,2,x\n")


@pytest.mark.parametrize("ending", [".csv", ".arrow", ".parquet"])
def test_a_name_given_twice_is_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t{ending}"
    write_doubled(path)
    with pytest.raises(FileFormatError) as caught:
        find(path).read()
    said = str(caught.value)
    assert said.startswith(str(path))
    assert ending == ".arrow" or "'age'" in said


def test_an_arrow_stream_is_called_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "t.arrow"
    FRAME.write_ipc_stream(path)
    with pytest.raises(FileFormatError, match="is an Arrow stream: write it as a file"):
        find(path)


def test_a_workbook_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "b.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(FileFormatError, match="is an Excel workbook"):
        find(tmp_path / "b.xlsx")


def test_a_database_is_refused(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with sqlite3.connect(tmp_path / "b.sqlite") as base:
        base.execute("CREATE TABLE loans (age)")
    base.close()
    duckdb.connect(tmp_path / "b.duckdb").close()
    for name in ("b.sqlite", "b.duckdb"):
        with pytest.raises(FileFormatError, match="is a database: copy a query of it to Parquet"):
            find(tmp_path / name)


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
            "sex": rng.choice(["F", "M"], n),
            "label": rng.integers(0, 2, n),
            "age": rng.integers(18, 80, n),
            "day": [DAY + dt.timedelta(int(k)) for k in rng.integers(0, 90, n)],
        }
    )
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


def test_nothing_works_on_after_a_writing_that_failed(tmp_path: Path) -> None:
    """A thread that is still at it when the program ends would abort it."""
    batch = pl.DataFrame({"x": [1, 2], "y": [[1], [2]]})
    began, ended = list[int](), list[int]()

    def batches() -> Iterator[pl.DataFrame]:
        began.append(1)
        try:
            for _ in range(20):
                time.sleep(0.02)
                yield batch
        finally:
            ended.append(1)

    with pytest.raises(TableError):
        write_table(batches(), dict(batch.schema), tmp_path / "x.csv")
    assert began == ended
    assert not list(tmp_path.iterdir())
