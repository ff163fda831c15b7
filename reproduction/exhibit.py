"""A table or figure as data: records, grids of text, notes, claims, a drawing; and its files."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairpc.core import serialise, write_atomically
from reproduction.criteria import Criterion
from reproduction.figures import Figure, pictures

Record = dict[str, Any]


class Records(list[Record]):
    """The numbers of an exhibit, flat."""

    def where(self, **values: Any) -> Records:
        """Those that have these values."""
        return Records(r for r in self if all(r[key] == value for key, value in values.items()))

    def values(self, key: str, **values: Any) -> list[Any]:
        """One number of those that have these values."""
        return [r[key] for r in self.where(**values)]

    def mean(self, key: str, **values: Any) -> float:
        """The mean of it."""
        return float(np.mean(self.values(key, **values)))


@dataclass(frozen=True)
class Grid:
    """A table of text; a cell between two pairs of stars is bold.

    ``numeric`` says that all columns but the first are set flush right.
    """

    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    title: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, whether our numbers confirm it, and these numbers."""

    criterion: Criterion
    holds: bool
    evidence: str
    table: str = ""  #: title of the table it is about, where it is judged for each

    @property
    def statement(self) -> str:
        return f"{self.table}: {self.criterion.says}" if self.table else self.criterion.says


@dataclass(frozen=True, eq=False)
class Exhibit:
    """What one command shows."""

    name: str  #: of the command, and of the files
    title: str  #: what is shown
    records: Records  #: the numbers
    grids: Sequence[Grid] = ()  #: the numbers, to be read
    notes: Sequence[str] = ()  #: sentences below them
    claims: Sequence[Claim] = ()  #: statements of the paper that the numbers confirm or not
    draw: Callable[[], Figure] | None = None  #: makes the figure, if there is one


def write(exhibit: Exhibit, folder: Path, *, words: bool = True) -> list[Path]:
    """Write an exhibit into a folder: JSON, CSV, with words Markdown, PNG and SVG of a figure."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "json": (as_json(exhibit.records) + "\n").encode(),
        "csv": _csv(exhibit.records).encode(),
    }
    if words:
        files["md"] = markdown(exhibit).encode()
    if exhibit.draw is not None:
        files |= pictures(exhibit.draw)
    paths = []
    for suffix, data in files.items():
        path = folder / f"{exhibit.name}.{suffix}"
        write_atomically(path, data)
        paths.append(path)
    return paths


def as_json(records: Sequence[Record]) -> str:
    """One array; what is not a number is null."""
    return json.dumps(serialise(records), indent=2, allow_nan=False)


def _csv(records: Sequence[Record]) -> str:
    """Columns of single values; curves are in the JSON file only."""
    if not records:
        return ""
    text = io.StringIO()
    names = [k for k in records[0] if not isinstance(records[0][k], (list, dict))]
    writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(serialise(records))
    return text.getvalue()


def markdown(exhibit: Exhibit) -> str:
    """The exhibit as Markdown."""
    parts = [f"## {exhibit.title}"]
    if exhibit.draw is not None:
        parts.append(f"![{exhibit.title}]({exhibit.name}.png)")
    for grid in exhibit.grids:
        if grid.title:
            parts.append(f"**{grid.title}**")
        parts.append(markdown_table(grid))
    if exhibit.notes:
        parts.append(bullets(exhibit.notes))
    if exhibit.claims:
        parts.append(markdown_table(claim_grid(exhibit.claims)))
    return "\n\n".join(parts) + "\n"


def claim_grid(claims: Sequence[Claim], *, rules: bool = True) -> Grid:
    said = {True: "confirmed", False: "**not confirmed**"}
    head = ["the paper says", "judged by", "here", "numbers"]
    lines = [[c.statement, c.criterion.rule, said[c.holds], c.evidence] for c in claims]
    if not rules:
        for line in (head, *lines):
            del line[1]
    return Grid(head, lines, numeric=False)


def markdown_table(grid: Grid) -> str:
    rule = ["---"] + ["---:" if grid.numeric else "---"] * (len(grid.head) - 1)
    lines = [grid.head, rule, *grid.lines]
    return "\n".join(
        "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines
    )


def bullets(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def number(value: float, digits: int = 3) -> str:
    """A number as text; a dash where there is none."""
    return "—" if not math.isfinite(value) else f"{value:.{digits}f}".replace("-", "−")


def signed(value: float, digits: int = 3) -> str:
    """A number with its sign."""
    return "—" if not math.isfinite(value) else f"{value:+.{digits}f}".replace("-", "−")


def spread(values: Sequence[float]) -> str:
    """Mean ± standard deviation."""
    return f"{number(float(np.mean(values)))} ± {number(float(np.std(values, ddof=1)))}"


def p_value(p: float) -> str:
    """A p-value in scientific form; one that underflows is bounded."""
    if not math.isfinite(p):
        return "—"
    return "< 1E−300" if p < 1e-300 else f"{p:.2E}".replace("-", "−")


def p_bound(p: float) -> str:
    """A p-value with its sign: "= 2.10E−05", or a bound where it underflows."""
    text = p_value(p)
    return text if text.startswith("<") else f"= {text}"
