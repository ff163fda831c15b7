"""How figures look: readable labels; marker and hatch tell methods apart, not colour alone."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from fairpc.errors import MissingExtraError

Figure = Any
"""A figure of matplotlib, which need not be installed."""


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


def pictures(draw: Callable[[], Figure]) -> dict[str, bytes]:
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
