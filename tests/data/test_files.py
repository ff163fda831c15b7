"""Table files: what is read is what was written, whatever the format and the names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairpc.data.files import find, format_of, is_part, scan, write_table
from fairpc.errors import FileFormatError, TableError

FRAME = pl.DataFrame({"a b": [1, 2, None], 'q"': ["x", 'y,"z', None], "ü": [0.5, None, 1e-300]})


@pytest.mark.parametrize("name", ["t.parquet", "t.pq", "t.feather", "t.arrow"])
def test_typed_tables_come_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_table([FRAME[:1], FRAME[1:]], FRAME.schema, path)
    assert find(path).read().equals(FRAME)
    assert find(path).names() == tuple(FRAME.columns)
    parts = list(find(path).batches(2))
    assert pl.concat(parts).equals(FRAME)


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
    read = find(path).read()
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
        assert scan(path).collect()["part"].to_list() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_what_is_part_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a/x.csv", "a/y.csv", "b/x.csv", "odd[1].csv"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("h\n1\n")
    Path("link.csv").symlink_to("a/x.csv")
    Path("folder").symlink_to("a")
    Path("hard.csv").hardlink_to("a/x.csv")
    for path, table in [
        ("a/x.csv", "a/x.csv"), ("./a/../a/x.csv", "a/x.csv"), ("link.csv", "a/x.csv"),
        ("a/x.csv", "link.csv"), ("hard.csv", "a/x.csv"), ("a/new.csv", "a"),
        ("folder/new.csv", "a"), ("a/new.parquet", "folder"), ("link.csv", "a"),
        ("a/new.csv", "a/*.csv"), ("a/new.csv", str(tmp_path / "?" / "*.csv")),
    ]:  # fmt: skip
        assert is_part(path, table), (path, table)
    for path, table in [
        ("a/z.csv", "a/x.csv"), ("b/x.csv", "a"), ("a/report.html", "a"), ("a/b/new.csv", "a"),
        ("a/new.tsv", "a/*.csv"), ("a/b/new.csv", "a/*.csv"), ("odd1.csv", "odd[1].csv"),
        ("new.csv", "-"), ("new.csv", "nowhere.csv"), ("new.csv", "none*.csv"),
    ]:  # fmt: skip
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
    with pytest.raises(TableError, match="cannot be written .*: write Parquet"):
        write_table([nested], nested.schema, tmp_path / "t.csv")
    assert not list(tmp_path.iterdir())


def test_unknown_endings() -> None:
    assert format_of("a.PARQUET") == "parquet"
    with pytest.raises(FileFormatError, match=r"'\.xlsx'"):
        format_of("a.xlsx")
