"""Bad tables and calls: exit code 2 and one sentence that names what is wrong and what to do."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from cli.calls import FIT, HEADER, called, names, small_table

TABLE = small_table()
ROWS = TABLE.splitlines()[1:]


@dataclass(frozen=True)
class Bad:
    """A call that must fail: files to be there, words of the call, words of the sentence."""

    call: str
    says: tuple[str, ...]
    content: bytes | str | None = None
    name: str = "bad.csv"

    def arguments(self) -> list[str]:
        words = self.call.split()
        return [w for word in words for w in (FIT if word == "FIT" else [word.replace("␣", " ")])]


def table(lines: Sequence[str], header: str = HEADER) -> str:
    return "\n".join([header, *lines]) + "\n"


def changed(column: int, values: Sequence[str]) -> str:
    """The small table with one column replaced, its values repeated as needed."""
    lines = [row.split(",") for row in ROWS]
    for i, cells in enumerate(lines):
        cells[column] = values[i % len(values)]
    return table([",".join(cells) for cells in lines])


FILES = {
    "no such file": Bad("fit nowhere.csv FIT -o m", ("no file nowhere.csv", "check the name")),
    "no file matches": Bad("fit none*.csv FIT -o m", ("no file matches none*.csv",)),
    "a folder without tables": Bad("fit . FIT -o m", ("folder without tables",), b"", "x.md"),
    "a device": Bad("fit /dev/null FIT -o m", ("/dev/null", "not a regular file")),
    "empty": Bad("fit bad.csv FIT -o m", ("bad.csv is empty", "header line"), b""),
    "only blank lines": Bad("fit bad.csv FIT -o m", ("bad.csv is empty",), b"\n \n\n"),
    "only a byte order mark": Bad("fit bad.csv FIT -o m", ("is empty",), b"\xef\xbb\xbf"),
    "only a header": Bad("fit bad.csv FIT -o m", ("a header and no rows",), HEADER + "\n"),
    "one row": Bad("fit bad.csv FIT -o m", ("bad.csv", "two"), table(ROWS[:1])),
    "binary": Bad("fit bad.csv FIT -o m", ("bad.csv", "'hired'"), b"\x7fELF\0\1\2\n\0"),
    "a picture": Bad("fit bad.csv FIT -o m", ("not UTF-8",), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
    "a workbook": Bad("fit bad.xlsx FIT -o m", ("Excel", "CSV"), b"PK\3\4\x14\0", "bad.xlsx"),
    "an old workbook": Bad("fit bad.csv FIT -o m", ("Excel",), b"\xd0\xcf\x11\xe0\xa1\xb1"),
    "compressed": Bad("fit bad.csv FIT -o m", ("gzip", "unpack"), b"\x1f\x8b\x08\0abc"),
    "a database": Bad("fit bad.csv FIT -o m", ("database",), b"SQLite format 3\0"),
    "Feather of version 1": Bad("fit bad.csv FIT -o m", ("version 1",), b"FEA1aaaa"),
    "UTF-16": Bad("fit bad.csv FIT -o m", ("UTF-16", "its encoding"), TABLE.encode("utf-16")),
    "Latin-1": Bad(
        "fit bad.csv FIT -o m",
        ("bad.csv is not UTF-8", "--encoding cp1252"),
        table(["30,caf\xe9,F,yes", *ROWS]).encode("latin-1"),
    ),
    "unknown encoding": Bad("fit t.csv FIT -o m --encoding klingon", ("klingon", "cp1252")),
    "another encoding": Bad(
        "fit bad.csv FIT -o m --encoding ascii",
        ("bad.csv", "not written in ascii"),
        table(["30,caf\xe9,F,yes", *ROWS]),
    ),
    "a short row": Bad(
        "fit bad.csv FIT -o m",
        ("bad.csv, line 3", "3 values", "header has 4"),
        table([ROWS[0], "1,2,3", *ROWS]),
    ),
    "a long row": Bad(
        "fit bad.csv FIT -o m", ("line 122", "5 values"), table([*ROWS, "1,2,3,4,5"])
    ),
    "a quote that is not closed": Bad(
        "fit bad.csv FIT -o m",
        ("bad.csv, line 2", "quotation mark"),
        table(['30,"clerk,F,yes', *ROWS]),
    ),
    "a quote inside a value": Bad(
        "fit bad.csv FIT -o m", ("bad.csv cannot be read",), table(['30,5" pipe,F,yes', *ROWS])
    ),
    "old line ends": Bad("fit bad.csv FIT -o m", ("bad.csv, line 1",), TABLE.replace("\n", "\r")),
    "a name twice": Bad(
        "fit bad.csv FIT -o m",
        ("'age' appears 2 times", "rename"),
        table(ROWS, "age,age,sex,hired"),
    ),
    "a wrong delimiter": Bad(
        "fit t.csv FIT -o m --delimiter ;", ("t.csv has no column 'hired'", "--delimiter")
    ),
    "no delimiter": Bad("fit t.csv FIT -o m --delimiter ab", ("delimiter 'ab'", "one")),
    "too many columns": Bad(
        "fit bad.csv FIT -o m",
        ("5,000 columns", "4,096"),
        ",".join(f"c{i}" for i in range(5000)) + "\n",
    ),
    "a first line without end": Bad(
        "fit bad.csv FIT -o m", ("line 1: the header cannot be read",), b"a" * (2**20 + 5)
    ),
    "no Parquet": Bad("fit bad.parquet FIT -o m", ("no Parquet",), TABLE, "bad.parquet"),
    "half a Parquet file": Bad(
        "fit bad.parquet FIT -o m",
        ("bad.parquet cannot be read",),
        b"PAR1abcdefghijk",
        "bad.parquet",
    ),
    "half a Feather file": Bad(
        "fit bad.feather FIT -o m",
        ("bad.feather cannot be read",),
        b"ARROW1\0\0abcdefghijk",
        "bad.feather",
    ),
}

COLUMNS = {
    "unknown label": Bad(
        "fit t.csv --label hire --sensitive sex -o m", ("t.csv", "'hire'", "did you mean 'hired'")
    ),
    "unknown sensitive": Bad(
        "fit t.csv --label hired --sensitive gender -o m",
        ("t.csv has no column 'gender' (--sensitive)", "'sex'"),
    ),
    "unknown numeric": Bad("fit t.csv FIT -o m --numeric agee", ("--numeric", "'age'")),
    "unknown drop": Bad("fit t.csv FIT -o m --drop id", ("'id' (--drop)",)),
    "no header": Bad(
        "fit bad.csv FIT -o m", ("no column 'hired'", "header line"), "\n".join(ROWS) + "\n"
    ),
    "two labels": Bad(
        "fit t.csv --label hired --label job --sensitive sex -o m", ("--label is given 2 times",)
    ),
    "label is sensitive": Bad(
        "fit t.csv --label sex --sensitive sex -o m",
        ("column 'sex' is given as --sensitive and as --label: it can be one of the two",),
    ),
    "label equals sensitive": Bad(
        "fit bad.csv --label hired --positive yes --sensitive copy --structure chow-liu -o m",
        ("bad.csv", "'copy' says the same as the label 'hired'"),
        table([f"{r},{'ab'[r.endswith('yes')]}" for r in ROWS], HEADER + ",copy"),
    ),
    "label dropped": Bad(
        "fit t.csv FIT -o m --drop hired",
        ("column 'hired' is given as --drop and as --label: it can be one of the two",),
    ),
    "sensitive numeric": Bad(
        "fit t.csv FIT -o m --numeric sex", ("'sex' is given as --numeric and as --sensitive",)
    ),
    "numeric and categorical": Bad(
        "fit t.csv FIT -o m --numeric age --categorical age",
        ("column 'age' is given as --categorical and as --numeric", "take the other away"),
    ),
    "label with one value": Bad(
        "fit bad.csv FIT -o m",
        ("bad.csv: label 'hired' has 1 class ('yes')", "two"),
        changed(3, ["yes"]),
    ),
    "label of all different numbers": Bad(
        "fit bad.csv FIT -o m",
        ("bad.csv: label 'hired'", "continuous"),
        changed(3, [f"{i}.5" for i in range(120)]),
    ),
    "label all missing": Bad("fit bad.csv FIT -o m", ("bad.csv", "'hired'"), changed(3, [""])),
    "one group": Bad(
        "fit bad.csv FIT -o m",
        ("bad.csv: column 'sex' has 1 value ('F')", "two groups"),
        changed(2, ["F"]),
    ),
    "a group per row": Bad(
        "fit bad.csv FIT -o m",
        ("bad.csv: column 'sex'", "at most 64 groups"),
        changed(2, [f"p{i}" for i in range(120)]),
    ),
    "groups all missing": Bad(
        "fit bad.csv FIT -o m", ("bad.csv: column 'sex' is missing in every row",), changed(2, [""])
    ),
    "numeric that is none": Bad(
        "fit t.csv FIT -o m --numeric job", ("t.csv: column 'job' has", "numeric", "--missing")
    ),
    "unknown positive": Bad(
        "fit t.csv FIT -o m --positive maybe", ("t.csv: positive is 'maybe'", "'no', 'yes'")
    ),
    "nothing but label and group": Bad(
        "fit t.csv FIT -o m --drop age --drop job", ("t.csv", "give features too")
    ),
    "nothing to learn from": Bad(
        "fit bad.csv FIT -o m --drop job", ("bad.csv: no column is left",), changed(0, ["7"])
    ),
    "infinite": Bad(
        "fit bad.parquet FIT -o m", ("bad.parquet: column 'age'", "finite"), None, "bad.parquet"
    ),
}

CALLS = {
    "no command": Bad("fitt t.csv", ("fitt", "--help")),
    "no label": Bad("fit t.csv --sensitive sex -o m", ("--label", "fairpc fit --help")),
    "no sensitive": Bad("fit t.csv --label hired -o m", ("--sensitive",)),
    "no output": Bad("fit t.csv FIT", ("--output",)),
    "no such option": Bad("fit t.csv FIT -o m --nothing", ("--nothing",)),
    "absurd bins": Bad("fit t.csv FIT -o m --bins 999999", ("--bins", "1000")),
    "unknown model": Bad("fit t.csv FIT -o m --model XGBoost", ("'XGBoost'", "FairPC")),
    "unknown structure": Bad(
        "fit t.csv --label hired --positive yes --sensitive sex -o m --structure x",
        ("structure", "chow-liu"),
    ),
    "structure of LatNB": Bad(
        "fit t.csv FIT -o m --model LatNB",
        ("--structure is not for --model LatNB", "leave it out, or take --model FairPC"),
    ),
    "no folder to write to": Bad("fit t.csv FIT -o no/m", ("no/m", "check the folder")),
    "output ends like a folder": Bad("fit t.csv FIT -o m.fairpc/", ("is that of a folder",)),
    "output is a folder": Bad("fit t.csv FIT -o .", ("it is a folder",)),
    "output is a device": Bad("fit t.csv FIT -o /dev/full", ("/dev/full", "not a regular file")),
    "no model": Bad("predict none.fairpc t.csv -o o.csv", ("no model none.fairpc", "then TABLE")),
    "a table as a model": Bad(
        "predict t.csv t.csv -o o.csv", ("t.csv is not a model", "MODEL", "then TABLE")
    ),
    "a folder as a model": Bad("audit . t.csv", (". is not a model", "then TABLE")),
    "a query as a model": Bad("query Df=yes m.fairpc", ("no model Df=yes", "then QUERY")),
    "a model as a table": Bad("fit m.fairpc FIT -o n", ("m.fairpc is JSON", "give a table")),
    "no table": Bad("fit FIT -o m", ("Missing argument 'TABLE'",)),
    "an output that is the table": Bad(
        "predict m.fairpc t.csv -o ./t.csv", ("./t.csv", "the input (t.csv)", "another file")
    ),
    "a model that is the table": Bad("fit t.csv FIT -o t.csv", ("the input (t.csv)",)),
    "a model that is a file of a pattern": Bad("fit *.csv FIT -o n.csv", ("the input (*.csv)",)),
    "absurd seed": Bad("fit t.csv FIT -o m --seed 4294967296", ("--seed",)),
    "no ending": Bad("predict m.fairpc t.csv -o scores", ("scores has no ending", "Parquet")),
    "unknown ending": Bad("predict m.fairpc t.csv -o o.xlsx", ("o.xlsx", "'.xlsx'", "Parquet")),
    "a misspelt column": Bad(
        "predict m.fairpc bad.csv -o o.csv",
        ("bad.csv has no column 'age'", "'Age'", "rename"),
        "Age,job,sex\n30,clerk,F\n",
    ),
    "no feature at all": Bad(
        "audit m.fairpc bad.csv",
        ("bad.csv has none of the features", "'age', 'job'"),
        "sex,hired\nF,yes\nM,no\n",
    ),
    "text for a number": Bad(
        "predict m.fairpc bad.csv -o o.csv",
        ("bad.csv: column 'age' has 'old' in row 0", "held numbers at fit", "empty"),
        "age,job,sex\nold,clerk,F\n",
    ),
    "scores twice": Bad(
        "predict m.fairpc bad.csv -o o.csv",
        ("bad.csv has a column 'p_df_yes' already", "rename"),
        "age,job,sex,p_df_yes\n30,clerk,F,1\n",
    ),
    "stdout twice": Bad("predict m.fairpc t.csv -o - --json", ("stdout",)),
    "unknown column in a query": Bad("query m.fairpc Df|agee=3", ("'agee'", "'age'")),
    "unknown value in a query": Bad("query m.fairpc Df|job=clark", ("'clark'", "'clerk'")),
    "unreadable query": Bad("query m.fairpc Df=|", ("'Df' has no value",)),
    "a reserved name in small letters": Bad("query m.fairpc df=yes", ("'df'", "did you mean 'Df'")),
    "signs that are not an interval": Bad(
        "query m.fairpc Df|9<age>3", ("'age'", "low <= age < high")
    ),
    "impossible query": Bad("query m.fairpc Df|job=cook,job=clerk", ("probability zero",)),
    "report that is not a page": Bad("audit m.fairpc t.csv -o r.pdf", ("r.pdf", "HTML")),
    "unknown gap": Bad("audit m.fairpc t.csv --gap all", ("--gap", "scores")),
    "audit without groups": Bad(
        "audit m.fairpc bad.csv --fail-over 0.1",
        ("bad.csv", "sensitive columns"),
        "age,job,hired\n30,clerk,yes\n40,cook,no\n50,cook,no\n",
    ),
    "absurd fail-over": Bad("audit m.fairpc t.csv --fail-over 5", ("--fail-over",)),
    "unknown data": Bad("data iris -o i.csv", ("'iris'", "german")),
    "unknown version": Bad("data german -o g.csv --version two", ("'two'", "raw, paper")),
    "data to nowhere": Bad("data german", ("-o german.csv",)),
}

CASES = FILES | COLUMNS | CALLS


def test_there_are_enough() -> None:
    assert len(CASES) == len(FILES) + len(COLUMNS) + len(CALLS) >= 60


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_sentence(folder: Path, case: Bad, capsys: pytest.CaptureFixture[str]) -> None:
    if case.call.startswith("fit . "):
        for path in folder.iterdir():
            path.unlink()
    if isinstance(case.content, str):
        (folder / case.name).write_bytes(case.content.encode())
    elif case.content is not None:
        (folder / case.name).write_bytes(case.content)
    elif case.name == "bad.parquet":
        _infinite().write_parquet(folder / case.name)
    before = names(folder)
    ended = called(capsys, *case.arguments())
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("fairpc: ")
    assert ended.err.count("\n") == 1
    for words in (*case.says,):
        assert words in ended.err
    assert "should not happen" not in ended.err
    assert names(folder) == before


def _infinite() -> pl.DataFrame:
    frame = pl.read_csv(io.StringIO(TABLE)).with_columns(pl.col("age").cast(pl.Float64))
    fourth = pl.int_range(pl.len()) == 3
    return frame.with_columns(pl.when(fourth).then(float("inf")).otherwise("age").alias("age"))


FULL_DISK = """
import resource
import fairpc.models
from fairpc.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
for ending in ("csv", "parquet", "feather"):
    try:
        main(["predict", "m.fairpc", "big.csv", "-o", f"o.{ending}"])
    except SystemExit as ended:
        assert ended.code == 2
"""


@pytest.mark.skipif(os.name != "posix", reason="POSIX limits")
def test_a_full_disk_leaves_no_part_behind(folder: Path) -> None:
    """A limit on the size of files is met where a full disk would be: in the middle of writing."""
    (folder / "big.csv").write_text(small_table(n_rows=5000))
    outputs = [folder / f"o.{ending}" for ending in ("csv", "parquet", "feather")]
    for output in outputs:
        output.write_text("old")
    before = names(folder)
    ended = subprocess.run(
        [sys.executable, "-c", FULL_DISK], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.lower().count("file too large") == 3
    for output in outputs:
        assert output.name in ended.stderr
        assert output.read_text() == "old"
    assert names(folder) == before


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anything")
def test_no_permission(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.chmod(0o500)
    try:
        ended = called(capsys, "predict", "m.fairpc", "t.csv", "-o", "o.csv")
    finally:
        folder.chmod(0o700)
    assert ended.code == 2
    assert "o.csv: cannot write the file (permission denied)" in ended.err


def test_a_refusal_to_write_is_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", "a temporary name")

    monkeypatch.setattr("fairpc.core._whole_files.os.open", refuse)
    for call in (("fit", "t.csv", *FIT, "-o", "n.fairpc"), ("data", "german", "-o", "g.csv")):
        ended = called(capsys, *call)
        assert ended.code == 2
        assert ended.out == ""
        expected = (
            f"fairpc: {call[-1]}: cannot write the file (permission denied): check the folder"
        )
        assert ended.err.startswith(expected)


def arrow_columns() -> dict[str, pa.Array]:
    """Columns that Arrow has and polars has not, 20 rows each."""
    places = pa.array([k // 2 for k in range(20)], pa.int32())
    kinds, whole = pa.array([0, 1] * 10, pa.int8()), pa.array(range(10))
    return {
        "twice": pa.array(range(20)),
        "union": pa.UnionArray.from_dense(kinds, places, [whole, pa.array(["a"] * 10)]),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([9, 20], pa.int32()), whole[:2]),
        "interval": pa.array([pa.MonthDayNano([1, 2, 3])] * 20, pa.month_day_nano_interval()),
    }


@pytest.mark.parametrize("kind", ["twice", "union", "runs", "interval"])
def test_a_panic_of_polars_is_a_sentence(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    columns = [pa.array([0, 1] * 10), pa.array(["f", "m", "m", "f"] * 5), arrow_columns()[kind]]
    names = ["hired", "sex", "x"]
    if kind == "twice":
        columns, names = [*columns, columns[-1]], [*names, "x"]
    table = pa.Table.from_arrays(columns, names=names)
    with ipc.new_file(tmp_path / "bad.arrow", table.schema) as file:
        file.write_table(table)
    ended = called(capsys, "fit", "bad.arrow", *FIT, "-o", "m")
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith("fairpc: bad.arrow cannot be read")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0] * 20, pa.timestamp("ms", "Nowhere/Town")),
        pa.array([1] * 20).cast(pa.decimal256(60, 5)),
    ],
    ids=["time zone", "decimal"],
)
def test_a_type_of_parquet_that_polars_lacks_is_a_sentence(
    column: pa.Array, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pl.read_csv(folder / "t.csv").head(20).to_arrow().append_column("odd", column)
    parquet.write_table(rows, folder / "bad.parquet")
    for command in (("fit", "bad.parquet", *FIT), ("predict", "m.fairpc", "bad.parquet")):
        ended = called(capsys, *command, "-o", "out.parquet")
        assert ended.code == 2
        assert ended.err.splitlines()[-1].startswith("fairpc: bad.parquet cannot be read")


def test_a_date_that_has_no_text_is_a_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    far = pa.array([2**30] * 20, pa.int32()).cast(pa.date32())
    rows = pl.read_csv(folder / "t.csv").head(20).to_arrow().append_column("far", far)
    parquet.write_table(rows, folder / "far.parquet")
    ended = called(capsys, "predict", "m.fairpc", "far.parquet", "-o", "far.csv")
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith("fairpc: far.csv cannot be written")
    assert not (folder / "far.csv").exists()
    assert called(capsys, "predict", "m.fairpc", "far.parquet", "-o", "o.parquet").code == 0


def test_a_constant_beyond_the_calendar_is_dropped_as_any_other(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    far = pa.array([2**63 - 1] * 20, pa.timestamp("us"))
    rows = pl.read_csv(folder / "t.csv").head(20).to_arrow().append_column("far", far)
    parquet.write_table(rows, folder / "far.parquet")
    ended = called(capsys, "fit", "far.parquet", *FIT, "-o", "far.fairpc", "-v")
    assert ended.code == 0
    assert "dropped: it has one value" in ended.out


def test_any_other_panic_has_not_the_code_of_a_gap(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def panic(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("entered unreachable code")

    monkeypatch.setattr("fairpc.cli._bundled._load", panic)
    ended = called(capsys, "data", "german", "-o", "g.csv")
    assert ended.code == 2
    assert "entered unreachable code" in ended.err
    assert ended.err.count("\n") == 1
