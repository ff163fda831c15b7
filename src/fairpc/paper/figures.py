"""How figures look: readable labels; marker, hatch and dash tell methods apart, not colour."""

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
    dash: Any


# Colours of Okabe and Ito, which most colour-blind readers tell apart.
LOOKS: Final = {
    "FairPC": Look("#D55E00", "*", "", "-"),
    "LatNB": Look("#E69F00", "s", "///", "--"),
    "NLatPC": Look("#0072B2", "o", "...", "-."),
    "2NB": Look("#56B4E9", "^", "\\\\\\", ":"),
    "FairLR": Look("#009E73", "D", "xx", (0, (5, 1))),
    "Reduction": Look("#CC79A7", "P", "++", (0, (3, 1, 1, 1))),
    "Reweight": Look("#7F7F00", "X", "oo", (0, (1, 1))),
    "LR": Look("#000000", "v", "--", "-"),
    "Rand": Look("#777777", "d", "||", "--"),
    "FairPC-rand": Look("#882255", "h", "OO", ":"),
    "FairPC-auto": Look("#882255", "p", "**", "-"),
}
STYLE: Final[dict[str, Any]] = {
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
    "svg.fonttype": "none",
    "svg.hashsalt": "fairpc",
}
_PIXELS_PER_INCH: Final = 150


def saved(draw: Callable[[], Figure]) -> dict[str, bytes]:
    """A figure as PNG and SVG; the same numbers give the same bytes."""
    check_extra()
    mpl: Any = import_module("matplotlib")
    files = {}
    with mpl.rc_context(STYLE):
        figure = draw()
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            buffer = io.BytesIO()
            figure.savefig(
                buffer, format=suffix, dpi=_PIXELS_PER_INCH, metadata=metadata, bbox_inches="tight"
            )
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


def point(axes: Any, method: str, x: Any, y: Any, **options: Any) -> None:
    """Marks of one method."""
    look = LOOKS[method]
    size = 90 if look.marker == "*" else 45
    settings = {"s": size, "edgecolors": "black", "linewidths": 0.6, "label": method} | options
    axes.scatter(x, y, marker=look.marker, color=look.colour, **settings)
