"""Tables and names that are made to do harm: to a terminal, a spreadsheet, a disk."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import tracemalloc
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

from cli.calls import FIT, called, names, small_table
from fairpc.core import shown as spelt
from fairpc.data import write_table
from fairpc.errors import FileFormatError, TableError

ESCAPE = "\x1b[31mred\x9b\u202e"


def table(folder: Path, text: str) -> str:
    path = folder / "u.csv"
    path.write_text(text)
    return str(path)


def test_controls_never_reach_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = small_table().replace("job", f"job{ESCAPE}").replace("cook", f"cook{ESCAPE}")
    odd = table(folder, rows)
    shown = [
        called(capsys, "fit", odd, *FIT, "-o", "n.fairpc", "-v"),
        called(capsys, "fit", odd, *FIT, "-o", "n.fairpc", "--json"),
        called(capsys, "query", "n.fairpc", f"job{ESCAPE}"),
        called(capsys, "query", "n.fairpc", f"nothing{ESCAPE}"),
        called(capsys, "predict", "m.fairpc", odd, "-o", "out.csv"),
        called(capsys, "fit", f"no{ESCAPE}.csv", *FIT, "-o", "n.fairpc"),
        called(capsys, "predict", "m.fairpc", odd, "-o", f"{ESCAPE}.xyz"),
    ]
    assert [ended.code for ended in shown] == [0, 0, 0, 2, 0, 2, 2]
    for ended in shown:
        both = ended.out + ended.err
        assert "red" in both or ended.code == 0
        assert not set("\x1b\x9b\u202e") & set(both)
    assert ESCAPE[1:4] in shown[0].out
    assert f"job{ESCAPE}" in [column["column"] for column in json.loads(shown[1].out)["columns"]]


def test_a_name_cannot_forge_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line feed in a value, a path or an output does not begin a line of the terminal."""
    forged = "ok\nfairpc: all is well"
    frame = pl.read_csv(folder / "t.csv", infer_schema=False)
    frame = frame.rename({"job": f"job{forged}"}).with_columns(
        pl.col("hired").replace("yes", forged)
    )
    frame.write_csv(folder / "u.csv")
    shown = [
        called(capsys, "fit", "u.csv", *FIT, "--positive", forged, "-o", "n.fairpc", "-v"),
        called(capsys, "predict", "n.fairpc", "u.csv", "-o", f"{forged}.csv"),
        called(capsys, "audit", "n.fairpc", "u.csv"),
        called(capsys, "inspect", "n.fairpc"),
        called(capsys, "data", "german", "-o", f"{forged}\x1b[31m.csv"),
        called(capsys, "predict", "n.fairpc", f"no{forged}.csv", "-o", "out.csv"),
    ]
    assert [ended.code for ended in shown] == [0, 0, 0, 0, 0, 2]
    for ended in shown:
        assert not re.search("^fairpc: all is well|\x1b", ended.out + ended.err, re.MULTILINE)


def test_a_name_that_is_not_unicode(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = os.fsdecode(b"bad\xff.csv")
    (folder / odd).write_text(small_table())
    ended = called(capsys, "predict", "m.fairpc", odd, "-o", "out.csv")
    assert ended.code == 2
    assert "has a name that is not UTF-8: rename it" in ended.err


def test_what_is_spelt_out() -> None:
    assert spelt("a\x1bb\x00\x9b\u202e\ud800") == "a\\u001bb\\u0000\\u009b\\u202e\\ud800"
    assert spelt("a\n\tb") == "a\\u000a\\u0009b"
    kept = "\u00e9\u0647\u200c\u0627\u00a0\U0001f469\u200d\U0001f467"  # joiners are part of words
    assert spelt(kept) == kept


def test_messages_are_cut_in_the_middle() -> None:
    error = TableError(f"column {'a' * 100_000!r} is bad: rename it")
    assert len(str(error)) < 2000
    assert str(error).startswith("column 'aaa")
    assert str(error).endswith("is bad: rename it")


HARMFUL = "age,job,sex,hired,=n\n30,=cmd,F,yes,-5\n31,@x,M,no,+1e3\n32,-x,F,no,-\n33,+y,M,yes,a\n"


def test_formulas_are_kept_unless_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = table(folder, HARMFUL)
    ended = called(capsys, "predict", "m.fairpc", source, "-o", "out.csv")
    assert ended.code == 0
    rows = list(csv.reader(io.StringIO((folder / "out.csv").read_text())))
    assert [row[:5] for row in rows] == list(csv.reader(io.StringIO(HARMFUL)))
    ended = called(capsys, "predict", "m.fairpc", source, "-o", "safe.csv", "--safe-csv")
    assert ended.code == 0
    safe = list(csv.reader(io.StringIO((folder / "safe.csv").read_text())))
    # Numbers stay numbers, whatever their sign; a dash alone is none.
    expected = HARMFUL.replace("=", "'=").replace("@", "'@").replace("-x", "'-x")
    expected = expected.replace("+y", "'+y").replace(",-\n", ",'-\n")
    assert [row[:5] for row in safe] == list(csv.reader(io.StringIO(expected)))
    assert [row[5:] for row in safe] == [row[5:] for row in rows]


def test_formulas_are_of_text_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = names(folder)
    ended = called(capsys, "predict", "m.fairpc", "t.csv", "-o", "s.parquet", "--safe-csv")
    assert ended.code == 2
    assert "only text has formulas" in ended.err
    assert names(folder) == before


@pytest.mark.parametrize(
    ("option", "words"),
    [
        *((("--encoding", e), "is unknown: give one such as") for e in ("rot13", "hex", "", "\0")),
        (("--encoding", "undefined"), "is not written in undefined"),
        *(
            (("--delimiter", d), "can separate values")
            for d in ("é", "\0", '"', "\n", "ab", "\x1f")
        ),
    ],
)
def test_options_that_are_none(
    folder: Path, capsys: pytest.CaptureFixture[str], option: tuple[str, str], words: str
) -> None:
    ended = called(capsys, "predict", "m.fairpc", "t.csv", "-o", "out.csv", *option)
    assert ended.code == 2
    assert words in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("more", [(), ("--encoding", "latin-1")])
def test_endless_input_is_stopped(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, ...],
) -> None:
    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            buffer[:] = (b"1,2,3\n" * (len(buffer) // 6 + 1))[: len(buffer)]
            return len(buffer)

    monkeypatch.setattr("fairpc.cli._tables.STDIN_BYTES", 5_000_000)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(cast(Any, Endless()))))
    ended = called(capsys, "predict", "m.fairpc", "-", "-o", "out.csv", *more)
    assert ended.code == 2
    assert "the table on stdin has more than 5,000,000 bytes: write it to a file" in ended.err


@pytest.mark.parametrize("more", [(), ("--encoding", "latin-1")])
def test_a_full_disk_below_the_copy_of_stdin_is_said(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, ...],
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs a device that is full")
    real = Path.open

    def opened(self: Path, mode: str = "r", *given: Any, **named: Any) -> Any:
        return real(Path("/dev/full") if "w" in mode else self, mode, *given, **named)

    monkeypatch.setattr(Path, "open", opened)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n")))
    ended = called(capsys, "predict", "m.fairpc", "-", "-o", "out.csv", *more)
    assert ended.code == 2
    assert ended.err.startswith("fairpc: the table on stdin cannot be copied to ")
    assert ended.err.endswith("(no space left on device): set TMPDIR to a folder with more space\n")


def test_what_no_format_holds_names_another(tmp_path: Path) -> None:
    rows = pl.DataFrame({"x": [[1], [2]]})
    with pytest.raises(TableError, match="make room, write Parquet instead of text"):
        write_table([rows], rows.schema, tmp_path / "out.csv")


def test_long_names_of_many_bytes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "é" * 120 + ".csv"  # 244 bytes: one that a file system takes
    ended = called(capsys, "predict", "m.fairpc", "t.csv", "-o", name)
    assert ended.code == 0, ended.err
    assert (folder / name).exists()


def test_halves_of_a_pair_are_no_text(folder: Path) -> None:
    from fairpc import load

    data = (folder / "m.fairpc").read_text().replace('"cook"', '"coo\\ud83d"')
    (folder / "m.fairpc").write_text(data)
    with pytest.raises(FileFormatError, match="half of a surrogate pair"):
        load(folder / "m.fairpc")


@pytest.mark.parametrize("call", [("inspect",), ("predict", "t.csv", "-o", "o.csv")])
def test_a_model_file_that_is_too_large_is_not_read(
    folder: Path, capsys: pytest.CaptureFixture[str], call: tuple[str, ...]
) -> None:
    os.truncate("m.fairpc", 300 * 2**20)  # of which the disk has next to nothing
    tracemalloc.start()
    try:
        ended = called(capsys, call[0], "m.fairpc", *call[1:])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ended.code == 2
    assert "has 314,572,800 bytes" in ended.err
    assert peak < 2**25
