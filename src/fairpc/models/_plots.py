"""Pictures of ranges and gaps with matplotlib, told apart by hatching as well as by colour."""

from __future__ import annotations

from functools import singledispatch
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from fairpc.core import MissingExtraError, PlotError
from fairpc.evidence import AssumptionTest, IdentifiedSet, Parity
from fairpc.models._bias_account import BiasAccount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

HATCHES: Final = ("", "///", "...", "xxx", "\\\\\\", "++")
COLOURS: Final = ("#e9c46a", "#5b8db8", "#7a9e7e", "#a05c7b", "#8a8a8a", "#c9c2ae")
EDGE: Final = "#1d2733"
ROWS: Final = 20
"""Pairs of groups that are drawn."""


@singledispatch
def draw(record: object, ax: Axes | None = None) -> Axes:
    """A record as a picture.

    Parity: the difference of each pair with its interval. AssumptionTest and IdentifiedSet: the
    fair rates that each group leaves possible. BiasAccount, which ``model.explain_bias()`` gives:
    the range of the share of labels that were altered, by group and fair decision, and the point.

    Args:
        record: what is drawn.
        ax: where to draw.
    """
    known = ", ".join(sorted(k.__name__ for k in draw.registry if k is not object))
    raise PlotError(f"a {type(record).__name__} was given: there are pictures of {known}")


@draw.register(Parity)
def _parity(record: Parity, ax: Axes | None = None) -> Axes:
    pairs = sorted(record.pairs, key=lambda p: -abs(p.difference))[:ROWS]
    ax = _titled(ax, "Gaps between groups", 1.2 + 0.5 * len(pairs))
    look: dict[str, Any] = {"color": COLOURS[0], "marker": "o", "linestyle": "none", "capsize": 4}
    for i, pair in enumerate(pairs):
        (low, high), at = pair.difference_interval, pair.difference
        ax.errorbar(at, -i, xerr=[[max(at - low, 0.0)], [max(high - at, 0.0)]], **look)
    ax.set_yticks([-i for i in range(len(pairs))], [f"{p.last} − {p.first}" for p in pairs])
    ax.axvline(0, color=EDGE, linewidth=0.8, linestyle="--")
    what = "mean score" if record.kind == "mean score" else "share of positive decisions"
    ax.set_xlabel(f"difference of {what}, {record.level:.0%} intervals together")
    ax.margins(y=0.3)
    return ax


@draw.register(AssumptionTest)
@draw.register(IdentifiedSet)
def _fair_rates(record: AssumptionTest | IdentifiedSet, ax: Axes | None = None) -> Axes:
    bars: list[tuple[str, Any, Any]] = [(str(g.group), g.lower, g.upper) for g in record.groups]
    bars.append(("all groups", record.lower, record.upper))
    ax = _titled(ax, "Rates of fair decisions that are possible", 1.2 + 0.45 * len(bars))
    _bars(ax, bars)
    ax.set_xlabel("P(Df = positive)")
    return ax


@draw.register(BiasAccount)
def _altered(record: BiasAccount, ax: Axes | None = None) -> Axes:
    if record.ranges is None:
        raise PlotError("the model has no ranges: fit one with a latent fair decision and guard")
    names, ranges = record.classes, record.ranges
    rows = list(product(range(len(record.groups)), range(2)))
    bars = [
        (f"{record.groups[s]}: {names[f]}, recorded {names[1 - f]}", *ranges[s, f, 1 - f].tolist())
        for s, f in rows
    ]
    ax = _titled(ax, "Labels that were altered", 1.2 + 0.45 * len(bars))
    _bars(ax, bars)
    points = [record.mechanism[s, f, 1 - f] for s, f in rows]
    ax.plot(points, [-i for i in range(len(rows))], "D", color=EDGE, label="point by convention")
    ax.set_xlabel(f"share of people with this fair decision, {record.level:.0%} confidence")
    ax.legend(frameon=False)
    return ax


def _bars(ax: Axes, bars: Sequence[tuple[str, float, float]]) -> None:
    """A bar from the least to the largest value of each name; words where there is none."""
    for i, (_, low, high) in enumerate(bars):
        if low <= high:
            k = i % len(COLOURS)
            look: dict[str, Any] = {"color": COLOURS[k], "hatch": HATCHES[k], "edgecolor": EDGE}
            ax.barh(-i, high - low, left=low, height=0.5, **look)
        else:
            ax.text(0.5, -i, "nothing is possible", ha="center", va="center", fontsize=9)
    ax.set_yticks([-i for i in range(len(bars))], [name for name, _, _ in bars])
    ax.set_xlim(0, 1)


def _titled(ax: Axes | None, title: str, height: float) -> Axes:
    """Axes with a title: those that are given, or new ones of this height."""
    if ax is None:
        try:
            from matplotlib import pyplot as plt
        except ImportError as error:
            raise MissingExtraError(
                "matplotlib is not installed: pip install 'fairpc[plots]'"
            ) from error
        ax = plt.subplots(figsize=(7, height), layout="constrained")[1]
    ax.set_title(title, loc="left", fontsize=11)
    return ax
