"""Tables inside workbooks and databases: the same rows as in CSV, and what is refused."""

import sqlite3
import subprocess
import sys
import zipfile
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from fairpc import FairPC
from fairpc.data import containers
from fairpc.data.files import find, is_part
from fairpc.errors import FileFormatError, MissingExtraError, TableError

duckdb = pytest.importorskip("duckdb")
xlsxwriter = pytest.importorskip("xlsxwriter")
pytest.importorskip("fastexcel")

ROWS = pl.DataFrame(
    {
        "age": [30, 41, None, 25],
        "rate": [1.5, None, 2.25, -3.0],
        'odd "name"; --': ["a", "b", None, "1,5"],
    }
)


def sqlite_file(path: Path, table: str = "loans") -> Path:
    with sqlite3.connect(path) as base:
        names = ", ".join(containers._quoted(name) for name in ROWS.columns)
        base.execute(f"CREATE TABLE {containers._quoted(table)} ({names})")
        values = f"INSERT INTO {containers._quoted(table)} VALUES (?, ?, ?)"
        base.executemany(values, ROWS.rows())
    base.close()
    return path


def duckdb_file(path: Path, table: str = "loans") -> Path:
    with duckdb.connect(str(path)) as base:
        names = ", ".join(
            f"{containers._quoted(name)} {kind}"
            for name, kind in zip(
                ROWS.columns, ("INTEGER", "DECIMAL(9, 2)", "VARCHAR"), strict=True
            )
        )
        base.execute(f"CREATE TABLE {containers._quoted(table)} ({names})")
        values = f"INSERT INTO {containers._quoted(table)} VALUES (?, ?, ?)"
        base.executemany(values, ROWS.rows())
    return path


def workbook(path: Path, table: str = "loans") -> Path:
    with xlsxwriter.Workbook(path) as book:
        ROWS.write_excel(book, worksheet=table)
    return path


MADE = {"b.sqlite": sqlite_file, "b.duckdb": duckdb_file, "b.xlsx": workbook}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("inside", ["", "::loans"])
def test_the_rows_are_those_of_the_table(name: str, inside: str, tmp_path: Path) -> None:
    path = MADE[name](tmp_path / name)
    files = find(f"{path}{inside}")
    assert files.read().equals(ROWS)
    assert files.source == f"{path}{inside}"
    folder = files.paths[0].parent
    assert folder.exists()
    del files
    assert not folder.exists()
    assert is_part(path, f"{path}{inside}")


@pytest.mark.parametrize("name", ["b.sqlite", "b.duckdb"])
def test_names_are_no_sql(name: str, tmp_path: Path) -> None:
    table = 'x"; DROP TABLE y; --'
    path = MADE[name](tmp_path / name, table)
    assert find(f"{path}::{table}").read().equals(ROWS)
    with pytest.raises(FileFormatError, match="there is no table"):
        find(f'{path}::y" UNION SELECT 1')


@pytest.mark.parametrize("name", MADE)
def test_a_name_that_is_not_there_is_refused_with_those_that_are(name: str, tmp_path: Path) -> None:
    path = MADE[name](tmp_path / name)
    with pytest.raises(
        FileFormatError, match=r"there is no (table|sheet) 'nope', name one of loans"
    ):
        find(f"{path}::nope")


def test_of_several_tables_one_must_be_named(tmp_path: Path) -> None:
    path = sqlite_file(sqlite_file(tmp_path / "b.sqlite", "one"), "two")
    with pytest.raises(FileFormatError, match=r"has 2 tables \(one, two\): name one, as in"):
        find(path)


def test_views_and_virtual_tables_are_left_alone(tmp_path: Path) -> None:
    path = sqlite_file(tmp_path / "b.sqlite")
    with sqlite3.connect(path) as base:
        base.execute(
            "CREATE VIEW endless AS WITH RECURSIVE n(x) AS "
            "(SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
        )
    base.close()
    assert find(path).read().height == 4
    with pytest.raises(FileFormatError, match="there is no table 'endless'"):
        find(f"{path}::endless")


def test_values_of_several_types_are_text_and_bytes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "b.sqlite"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE t (mixed, raw)")
        base.executemany("INSERT INTO t VALUES (?, ?)", [(1, b"\0"), ("x", b"\1"), (2.5, None)])
    base.close()
    found = find(path).read()
    assert found["mixed"].to_list() == ["1", "x", "2.5"]
    assert found["raw"].dtype == pl.Binary


def test_a_sheet_of_two_far_cells_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    with xlsxwriter.Workbook(tmp_path / "b.xlsx") as book:
        sheet = book.add_worksheet()
        sheet.write(0, 0, "x")
        sheet.write(1_048_575, 16_383, 1)
    with pytest.raises(FileFormatError, match="1,048,576 rows and 16,384 columns"):
        find(tmp_path / "b.xlsx")


def test_a_workbook_that_is_large_when_unpacked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workbook(tmp_path / "b.xlsx")
    monkeypatch.setattr(containers, "MOST_BYTES", 100)
    with pytest.raises(FileFormatError, match="when it is unpacked"):
        find(path)


@pytest.mark.parametrize("name", MADE)
def test_damage_is_a_sentence(name: str, tmp_path: Path) -> None:
    path = MADE[name](tmp_path / name)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 3])
    with pytest.raises(FileFormatError):
        find(path).read()


def test_other_archives_are_no_workbooks(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        archive.writestr("table.csv", "a,b\n1,2\n")
    with pytest.raises(FileFormatError, match="a zip archive"):
        find(tmp_path / "a.xlsx")
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(FileFormatError, match="has no tables inside"):
        find(f"{tmp_path / 't.csv'}::x")


@pytest.mark.parametrize(("name", "extra"), [("b.xlsx", "excel"), ("b.duckdb", "duckdb")])
def test_a_reader_that_is_not_installed_is_named(
    name: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = MADE[name](tmp_path / name)
    for module in ("fastexcel", "duckdb"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"fairpc\[{extra}\]"):
        find(path)


def test_a_fit_reads_a_database_by_its_name(tmp_path: Path) -> None:
    path = sqlite_file(tmp_path / "b.sqlite")
    with pytest.raises(TableError, match="one of its columns"):
        FairPC("age").fit(f"{path}::loans", "nope")


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_instants_of_duckdb_are_read_in_utc_wherever_the_machine_is(
    zone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with duckdb.connect(str(tmp_path / "b.duckdb")) as base:
        base.execute("CREATE TABLE t (day TIMESTAMPTZ)")
        base.execute("INSERT INTO t VALUES ('2024-05-31 10:00:00+02'), (NULL)")
    monkeypatch.setenv("TZ", zone)
    # The library asks for the zone once in a process.
    read = (
        "import sys; from pathlib import Path; import polars as pl;"
        "from fairpc.data import containers as c;"
        "path, _ = c.copied(Path(sys.argv[1]), 'duckdb', 't', 'b');"
        "print(pl.read_parquet(path)['day'].to_list())"
    )
    command = [sys.executable, "-c", read, str(tmp_path / "b.duckdb")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found.strip() == str([datetime(2024, 5, 31, 8), None])
