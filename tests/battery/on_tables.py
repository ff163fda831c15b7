"""Attacks on tables, by the command line: odd names and cells, damaged files, odd options.

A command ends with code 0 and a table in which nothing but scores was added, or with code 2, one
sentence and no output.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import random
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
from pyarrow import ipc, parquet

from battery.attacks import MOST_WORDS, Difference, Suite, Verdict
from battery.mutations import changed_bytes, changed_lines
from battery.on_models import people
from fairpc.cli import main
from fairpc.errors import TableError

_ODD_NAMES: Final = (
    *("*", "^a$", "^.*$", "^p_df_.*$", "", " ", "a,b", 'quo"te', "new\nline", "\x1b[31mred"),
    *("é" * 80, "a" * 300, "len", "literal", "count", "x0", "S", "Df", "D", "p_df_", "=1+1"),
    *("\u202eabc", "None", "__index_level_0__", "a b", "a|b", "a=b", "column_1", "0", "-", "\\"),
    *("%s", "{x}", "'"),
)
_ODD_CELLS: Final = (
    *("=1+1", "+1", "-1", "@x", "1e308", "-1e308", "1e999", "nan", "inf", "NaN", "\x1b[2J", "\x07"),
    *("9" * 400, "1e-400", "0x1F", "1_000", "٣", "é" * 10, "\u202e", "a" * 10_000, '"', "", " "),
    *("NULL", "2020-13-45", "9999-12-31", "0000-00-00", "-0", "1.7976931348623157e309", "True"),
    "\ufeff",
)
_OPTIONS: Final[tuple[tuple[str, ...], ...]] = (
    *((), (), (), (), ("--delimiter", "é"), ("--delimiter", ";"), ("--delimiter", "ab")),
    *(("--encoding", "rot13"), ("--encoding", "utf-16"), ("--encoding", "hex"), ("--encoding", "")),
    *(("--encoding", "latin-1"), ("--encoding", "idna"), ("--encoding", "undefined")),
    *(("--delimiter", "\0"), ("--delimiter", "\n"), ("--encoding", "zlib"), ("--delimiter", "")),
)
_FORMATS: Final = (".csv", ".tsv", ".parquet", ".arrow")
_PACKED: Final = ".csv.gz"  # a table inside, which is neither read nor written


class Tables(Suite):
    name, full = "tables", 300

    def prepare(self) -> None:
        self.model = self.folder / "m.fairpc"
        self.rows = people(60)
        source = self.folder / "train.csv"
        people(200).write_csv(source)
        fit = [
            "--label",
            "hired",
            "--positive",
            "yes",
            "--sensitive",
            "sex",
            "--model",
            "LatNB",
            "-o",
            str(self.model),
        ]
        code, said = called("fit", str(source), *fit)
        if code:
            raise RuntimeError(said)

    def attack(self, rng: random.Random) -> tuple[str, Callable[[], Verdict]]:
        table, renamed = self.rows, {name: name for name in self.rows.columns}
        kinds = []
        if rng.random() < 0.6:
            old, new = rng.choice(table.columns), rng.choice(_ODD_NAMES)
            if new not in table.columns:
                renamed[old] = new
                table = table.rename({old: new})
                kinds.append(f"a column {new[:20]!a}")
        if rng.random() < 0.5:
            name = rng.choice(table.columns)
            cells = [None if v is None else str(v) for v in table[name].to_list()]
            for _ in range(rng.choice((1, 5, 60))):
                cells[rng.randrange(len(cells))] = rng.choice(_ODD_CELLS)
            table = pl.DataFrame({n: cells if n == name else table[n] for n in table.columns})
            kinds.append("odd cells")
        suffix = rng.choice((*_FORMATS, *_FORMATS, _PACKED))
        path = self.folder / f"t{suffix}"
        path.unlink(missing_ok=True)
        if suffix in (".parquet", ".arrow") and rng.random() < 0.4:
            name = rng.choice(list(_COLUMNS))
            kinds.append(f"a column of {name}")
            _write_arrow(table, _COLUMNS[name](table.height), path)
            renamed = {}
        else:
            _write(table, path)
        if rng.random() < 0.4:
            kind, data = rng.choice((changed_bytes, changed_lines))(rng, path.read_bytes())
            path.write_bytes(data)
            kinds.append(kind)
            renamed = {}
        options = rng.choice(_OPTIONS)
        fits = rng.random() < 0.35
        words = f"{'fit' if fits else 'predict'} {suffix} {' '.join(options)}: {', '.join(kinds)}"
        if fits:
            return words, lambda: self._fit(path, renamed, options)
        target = self.folder / f"scored{rng.choice(_FORMATS)}"
        return words, lambda: self._predict(path, target, options)

    def _fit(self, path: Path, renamed: dict[str, str], options: tuple[str, ...]) -> Verdict:
        model = self.folder / "new.fairpc"
        model.unlink(missing_ok=True)
        label, sensitive = renamed.get("hired", "hired"), renamed.get("sex", "sex")
        roles = (f"--label={label}", f"--sensitive={sensitive}", "--positive", "yes")
        fit = ("fit", str(path), *roles, "--model", "LatNB", "-o", str(model))
        return self._ended(model, called(*fit, *options))

    def _predict(self, path: Path, target: Path, options: tuple[str, ...]) -> Verdict:
        target.unlink(missing_ok=True)
        arguments = [str(self.model), str(path), "-o", str(target)]
        verdict = self._ended(target, called("predict", *arguments, *options))
        if not options and path.suffix in _FORMATS:
            _compare(path, target)
        return verdict

    def _ended(self, output: Path, ended: tuple[int, str]) -> Verdict:
        code, said = ended
        if "should not happen" in said or code not in (0, 2):
            raise Difference(f"code {code}: {said[-300:]!a}", Verdict.TRACEBACK)
        raw = [c for c in said if not c.isprintable() and c not in "\n\t"]
        if raw or (code and len(said) > MOST_WORDS):
            raise Difference(
                f"{len(said):,} characters, raw {raw[:3]!a}: {said[:200]!a}", Verdict.TRACEBACK
            )
        if output.exists() != (code == 0):
            raise Difference(f"code {code}, and the output {'is' if code else 'is not'} there")
        left = [p.name for p in self.folder.glob(".*.tmp")]
        if left:
            raise Difference(f"left behind: {left}", Verdict.FOREIGN)
        if code:
            raise TableError(said[:MOST_WORDS].replace("\n", " "))
        return Verdict.SAME


def called(*arguments: str) -> tuple[int, str]:
    """How a command of the command line ends, in this process, and what it prints."""
    out, code = io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            main(list(arguments))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    sys.stdout.flush()
    return code, out.getvalue()


def _write(table: pl.DataFrame, path: Path) -> None:
    if path.suffix in (".csv", ".tsv"):
        table.write_csv(path, separator="," if path.suffix == ".csv" else "\t")
    elif path.suffix == ".parquet":
        table.write_parquet(path)
    elif path.suffix == ".arrow":
        table.write_ipc(path)
    else:
        path.write_bytes(gzip.compress(table.write_csv().encode()))


_COLUMNS: Final[dict[str, Callable[[int], Any]]] = {
    "a name given twice": lambda n: ("age", pa.array(range(n))),
    "lists": lambda n: ("odd", pa.array([[1, 2], None] * (n // 2))),
    "records": lambda n: ("odd", pa.array([{"a": 1}, {"a": None}] * (n // 2))),
    "bytes": lambda n: ("odd", pa.array([b"\xff", b""] * (n // 2))),
    "nothing": lambda n: ("odd", pa.nulls(n)),
    "decimals": lambda n: ("odd", pa.array([Decimal("1.50")] * n, pa.decimal128(30, 2))),
    "durations": lambda n: ("odd", pa.array([5] * n, pa.duration("ns"))),
    "times": lambda n: ("odd", pa.array([5] * n, pa.time64("us"))),
    "far dates": lambda n: ("odd", pa.array([2**40 + k for k in range(n)], pa.timestamp("s"))),
    "a zone of nowhere": lambda n: ("odd", pa.array([0] * n, pa.timestamp("ms", "No/Where"))),
    "categories": lambda n: ("odd", pa.array(["a", "b"] * (n // 2)).dictionary_encode()),
    "large numbers": lambda n: ("odd", pa.array([2**64 - 1 - k for k in range(n)], pa.uint64())),
    "half numbers": lambda n: ("odd", pa.array(np.arange(n).astype(np.float16))),
    "runs": lambda n: (
        "odd",
        pa.RunEndEncodedArray.from_arrays(pa.array([n], pa.int32()), pa.array([1])),
    ),
    "unions": lambda n: (
        "odd",
        pa.UnionArray.from_sparse(pa.array([0, 1] * (n // 2), pa.int8()), [pa.array(range(n))] * 2),
    ),
    "intervals": lambda n: (
        "odd",
        pa.array([pa.MonthDayNano([1, 2, 3])] * n, pa.month_day_nano_interval()),
    ),
}
"""Columns that Arrow has and a table of people has not, with their names."""


def _write_arrow(table: pl.DataFrame, more: tuple[str, Any], path: Path) -> None:
    """A table with one more column, written by Arrow; as it was where Parquet has no such type."""
    name, column = more
    plain = table.to_arrow()
    whole = pa.table([*plain.columns, column], names=[*table.columns, name])
    if path.suffix == ".arrow":
        with ipc.new_file(path, whole.schema) as file:
            file.write_table(whole)
        return
    try:
        parquet.write_table(whole, path)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        parquet.write_table(plain, path)


def _cells(path: Path) -> tuple[list[str], list[list[Any]]]:
    """Names and rows of a table, by a slow reader where it is text."""
    if path.suffix in (".csv", ".tsv"):
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
        best: list[list[str]] = []
        for delimiter in ",\t;|":
            read = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
            rows = [row for row in read if row and any(cell.strip() for cell in row)]
            if not best or len(rows[0]) > len(best[0]):
                best = rows
        return best[0], best[1:]
    frame = (pl.read_parquet if path.suffix == ".parquet" else pl.read_ipc)(path)
    # Python has no words for dates beyond its calendar: their numbers are compared.
    physical = frame.select(pl.all().to_physical())
    return frame.columns, [list(row) for row in physical.iter_rows()]


def _compare(path: Path, target: Path) -> None:
    """What was predicted is the table with some columns more, cell by cell where both are text."""
    (names, rows), (all_names, scored) = _cells(path), _cells(target)
    if all_names[: len(names)] != names or len(rows) != len(scored):
        raise Difference(f"{len(rows)} rows of {names} became {len(scored)} of {all_names}")
    if not {path.suffix, target.suffix} <= {".csv", ".tsv"}:
        return
    for one, two in zip(rows, scored, strict=True):
        if two[: len(names)] != one:
            raise Difference(f"the row {one} became {two}")
