"""A table or figure: its records, grids of text, notes, claims and drawing, and their files.

Figures have readable labels; marker and hatch tell methods apart, not colour alone.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairpc.data.atomic import write_atomically
from fairpc.errors import MissingExtraError

Record = dict[str, Any]
Records = Sequence[Record]
Figure = Any
"""A figure of matplotlib, which need not be installed."""


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

    statement: str
    holds: bool
    evidence: str


@dataclass(frozen=True, eq=False)
class Exhibit:
    """What one command shows.

    Attributes:
        name: of the command, and of the files.
        title: what is shown.
        records: the numbers, flat.
        grids: the numbers, to be read.
        notes: sentences below them.
        claims: statements of the paper that the numbers confirm or not.
        draw: makes the figure, if there is one.
    """

    name: str
    title: str
    records: Records
    grids: Sequence[Grid] = ()
    notes: Sequence[str] = ()
    claims: Sequence[Claim] = ()
    draw: Callable[[], Figure] | None = None


def write(exhibit: Exhibit, folder: Path) -> list[Path]:
    """Write an exhibit into a folder: JSON, CSV, Markdown, and PNG and SVG of a figure."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "json": (as_json(exhibit.records) + "\n").encode(),
        "csv": _csv(exhibit.records).encode(),
        "md": markdown(exhibit).encode(),
    }
    if exhibit.draw is not None:
        files |= _pictures(exhibit.draw)
    paths = []
    for suffix, data in files.items():
        path = folder / f"{exhibit.name}.{suffix}"
        write_atomically(path, data)
        paths.append(path)
    return paths


def as_json(records: Records) -> str:
    """One array; what is not a number is null."""
    return json.dumps([_finite(r) for r in records], indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _csv(records: Records) -> str:
    """Columns of single values; curves are in the JSON file only."""
    text = io.StringIO()
    names = [k for k in records[0] if not isinstance(records[0][k], (list, dict))]
    writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(_finite(record) for record in records)
    return text.getvalue()


def markdown(exhibit: Exhibit, figure: str | None = None) -> str:
    """The exhibit as Markdown; ``figure`` is where its picture is."""
    parts = [f"## {exhibit.title}"]
    picture = figure or (f"{exhibit.name}.png" if exhibit.draw is not None else None)
    if picture is not None:
        parts.append(f"![{exhibit.title}]({picture})")
    for grid in exhibit.grids:
        if grid.title:
            parts.append(f"**{grid.title}**")
        parts.append(markdown_table(grid))
    if exhibit.notes:
        parts.append(bullets(exhibit.notes))
    if exhibit.claims:
        parts.append(markdown_table(claim_grid(exhibit.claims)))
    return "\n\n".join(parts) + "\n"


def claim_grid(claims: Sequence[Claim]) -> Grid:
    lines = [
        (c.statement, "confirmed" if c.holds else "**not confirmed**", c.evidence) for c in claims
    ]
    return Grid(("the paper says", "here", "numbers"), lines, numeric=False)


def markdown_table(grid: Grid) -> str:
    rule = ["---"] + ["---:" if grid.numeric else "---"] * (len(grid.head) - 1)
    lines = [grid.head, rule, *grid.lines]
    return "\n".join(
        "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines
    )


def bullets(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def where(records: Records, **values: Any) -> list[Record]:
    """Records that have these values."""
    return [r for r in records if all(r[key] == value for key, value in values.items())]


def mean(records: Records, key: str, **values: Any) -> float:
    """Mean of a number over the records that have these values."""
    return float(np.mean([r[key] for r in where(records, **values)]))


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


@dataclass(frozen=True)
class Look:
    """How a method is drawn; no two share a marker or a hatch."""

    colour: str
    marker: str
    hatch: str


# Colours of Okabe and Ito, which most colour-blind readers tell apart.
LOOKS: Final = {
    "FairPC": Look("#D55E00", "*", ""),
    "LatNB": Look("#E69F00", "s", "///"),
    "NLatPC": Look("#0072B2", "o", "..."),
    "2NB": Look("#56B4E9", "^", "\\\\\\"),
    "FairLR": Look("#009E73", "D", "xx"),
    "Reduction": Look("#CC79A7", "P", "++"),
    "Reweight": Look("#7F7F00", "X", "oo"),
    "LR": Look("#000000", "v", "--"),
    "Rand": Look("#777777", "d", "||"),
    "FairPC-rand": Look("#882255", "h", "OO"),
    "FairPC-auto": Look("#882255", "p", "**"),
}
_STYLE: Final[dict[str, Any]] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.6,
    "savefig.dpi": 150,
    "savefig.bbox": "tight",
    "svg.fonttype": "none",
    "svg.hashsalt": "fairpc",
}


def _pictures(draw: Callable[[], Figure]) -> dict[str, bytes]:
    """A figure as PNG and SVG; the same numbers give the same bytes."""
    check_extra()
    files = {}
    with import_module("matplotlib").rc_context(_STYLE):
        figure = draw()
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix, metadata=metadata)
            files[suffix] = buffer.getvalue()
    return files


def check_extra() -> None:
    """Refuse with a sentence where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("figures are drawn with matplotlib: pip install 'fairpc[plots]'")


def panels(
    rows: int, columns: int, width: float, height: float, **options: Any
) -> tuple[Figure, Any]:
    """A figure of panels, each of this size in inches, without a window behind it."""
    figure = import_module("matplotlib.figure").Figure(
        figsize=(columns * width, rows * height), layout="constrained"
    )
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def legend_below(figure: Figure, panel: Any, columns: int, title: str | None = None) -> None:
    """The legend of one panel for all of them, below the figure."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, title=title)


def point(axes: Any, method: str, x: Any, y: Any, **options: Any) -> None:
    """Marks of one method."""
    look = LOOKS[method]
    size = 90 if look.marker == "*" else 45
    settings = {"s": size, "edgecolors": "black", "linewidths": 0.6, "label": method} | options
    axes.scatter(x, y, marker=look.marker, color=look.colour, **settings)
