"""Pictures with matplotlib, distinguished by shape and pattern as well as by colour."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fairpc.core import MissingExtraError, PlotError
from fairpc.evidence import (
    AssumptionTest,
    EqualRates,
    IdentifiedSet,
    Parity,
    ParityCurve,
    ParityMonitor,
    StrataTest,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS: Final = "osD^v<>Ph*Xp"
HATCHES: Final = ("", "///", "...", "xxx", "\\\\\\", "++")
LINES: Final = ("-", "--", ":", "-.")
COLOURS: Final = ("#e9c46a", "#5b8db8", "#7a9e7e", "#a05c7b", "#8a8a8a", "#c9c2ae")
EDGE: Final = "#1d2733"
ROWS: Final = 20
"""Pairs of groups that are drawn."""
LINES_DRAWN: Final = 4

Style = dict[str, Any]
_ON_BARS: Final[Style] = {
    "ha": "center",
    "va": "center",
    "fontsize": 9,
    "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.2, "alpha": 0.9},
}
"""How numbers are written on hatched bars."""


def joint_set(test: StrataTest, ax: Axes | None = None) -> Axes:
    """The mechanisms of the reference group that strata leave possible, beside the plain ones.

    Args:
        test: of ``test_assumptions(…, given=…)``.
        ax: where to draw.
    """
    ax = _titled(ax, f"Possible mechanisms, {test.level:.0%} confidence", 6.4, 4.8)
    reference = test.groups[0].group
    areas = {"plain": test.plain_area, "within": test.area}
    names = {"plain": "without strata", "within": f"within {len(test.strata)} strata"}
    for i, kind in enumerate(("plain", "within")):
        corners = np.array(test.outlines()[kind]).reshape(-1, 2)
        label = f"{names[kind]}: area {areas[kind]:.4f}"
        if not len(corners):
            label = f"{names[kind]}: nothing is possible"
        look: Style = {"facecolor": COLOURS[i], "edgecolor": EDGE, "hatch": HATCHES[i]}
        ax.fill(*corners.T, label=label, alpha=0.75, linewidth=1, **look)
    ax.set_xlabel(f"P(D = {test.positive} | Df = other, S = {reference})")
    ax.set_ylabel(f"P(D = {test.positive} | Df = {test.positive}, S = {reference})")
    ax.grid(color="#e3e7eb", linewidth=0.6)
    ax.margins(0.08)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False)
    return ax


@singledispatch
def draw(record: object, ax: Axes | None = None) -> Axes:
    """A record of ``fairpc.evidence`` as a picture.

    Parity: the difference of each pair with its interval. ParityCurve: the share of each group
    that is selected, over thresholds. ParityMonitor: differences over the rows seen. EqualRates:
    rates with one threshold and with one per group. AssumptionTest and IdentifiedSet: the rates
    of Df that each group leaves possible. StrataTest: :func:`joint_set`.

    Args:
        record: what is drawn.
        ax: where to draw.
    """
    known = ", ".join(sorted(k.__name__ for k in draw.registry if k is not object))
    raise PlotError(f"a {type(record).__name__} was given: there are pictures of {known}")


@draw.register(Parity)
def _parity(record: Parity, ax: Axes | None = None) -> Axes:
    pairs = sorted(record.pairs, key=lambda p: -abs(p.difference))[:ROWS]
    ax = _titled(ax, "Gaps between groups", 7, 1.2 + 0.5 * len(pairs))
    for i, pair in enumerate(pairs):
        (low, high), at = pair.difference_interval, pair.difference
        spread: Any = [[max(at - low, 0.0)], [max(high - at, 0.0)]]
        ax.errorbar(at, -i, xerr=spread, **_look(0) | {"linestyle": "none", "capsize": 4})
    ax.set_yticks([-i for i in range(len(pairs))], [f"{p.last} − {p.first}" for p in pairs])
    ax.axvline(0, color=EDGE, linewidth=0.8, linestyle="--")
    what = "mean score" if record.kind == "mean score" else "share of positive decisions"
    ax.set_xlabel(f"difference of {what}, {record.level:.0%} intervals together")
    ax.margins(y=0.3)
    return ax


@draw.register(ParityCurve)
def _parity_curve(record: ParityCurve, ax: Axes | None = None) -> Axes:
    ax = _titled(ax, "Selection over thresholds", 6.4, 4.4)
    for g, group in enumerate(record[0].groups):
        rates = [one.groups[g].mean for one in record]
        ax.plot(record.thresholds, rates, label=str(group.group), **_look(g))
    ax.set(xlabel="threshold", ylabel="share of the group that is selected", ylim=(-0.03, 1.03))
    ax.legend(frameon=False)
    return ax


@draw.register(ParityMonitor)
def _monitor(record: ParityMonitor, ax: Axes | None = None) -> Axes:
    """The pairs that are farthest apart, with intervals that hold at all times together."""
    if not record.looks:
        raise PlotError("the monitor has seen no rows: call update first")
    ax = _titled(ax, f"Gaps while rows come in, {record.level:.0%}", 7, 4.2)
    gaps, looks = record.gaps(), record.looks
    apart = sorted(range(len(gaps)), key=lambda k: -np.nan_to_num(abs(gaps[k].difference)))
    n = [look.n for look in looks]
    for i, k in enumerate(sorted(apart[:LINES_DRAWN])):
        look = _look(i) | {"markersize": 4}
        name = f"{gaps[k].last} − {gaps[k].first}"
        ax.plot(n, [one.differences[k] for one in looks], label=name, **look)
        low, high = zip(*(one.intervals[k] for one in looks), strict=True)
        ax.fill_between(n, low, high, color=look["color"], alpha=0.2, hatch=HATCHES[i])
    ax.axhspan(-record.tolerance, record.tolerance, color="#8a8a8a", alpha=0.15)
    ax.axhline(0, color=EDGE, linewidth=0.8, linestyle="--")
    if record.alarmed_at is not None:
        ax.axvline(record.alarmed_at, color=EDGE, label=f"alarm at {record.alarmed_at:,} rows")
    ax.set(xlabel="rows seen", ylabel="difference of mean scores")
    ax.legend(frameon=False)
    return ax


@draw.register(EqualRates)
def _equal_rates(record: EqualRates, ax: Axes | None = None) -> Axes:
    ax = _titled(ax, "Selection rates", 6.4, 4.0)
    places = np.arange(len(record.groups))
    both = {"one threshold": "rate_before", "a threshold per group": "rate"}
    for i, (name, field) in enumerate(both.items()):
        rates = [getattr(group, field) for group in record.groups]
        ax.bar(places + 0.4 * i - 0.2, rates, width=0.38, label=name, **_filled(i))
    ax.axhline(record.rate, color=EDGE, linewidth=0.8, linestyle="--")
    ax.set_xticks(places, [str(group.group) for group in record.groups])
    ax.set_ylabel("share of the group that is selected")
    ax.legend(frameon=False)
    return ax


@draw.register(AssumptionTest)
@draw.register(IdentifiedSet)
def _possible(record: AssumptionTest | IdentifiedSet, ax: Axes | None = None) -> Axes:
    if not isinstance(record.lower, float) or not isinstance(record.upper, float):
        raise PlotError("the label has more than two classes: there is one set for each")
    bars: list[tuple[str, Any, Any]] = [(str(g.group), g.lower, g.upper) for g in record.groups]
    bars.append(("all groups", record.lower, record.upper))
    ax = _titled(ax, "Rates of fair decisions that are possible", 7, 1.2 + 0.45 * len(bars))
    for i, (_, low, high) in enumerate(bars):
        if low <= high:
            ax.barh(-i, high - low, left=low, height=0.5, **_filled(i))
        else:
            ax.text(0.5, -i, "nothing is possible", **_ON_BARS)
    ax.set_yticks([-i for i in range(len(bars))], [name for name, _, _ in bars])
    ax.set(xlim=(0, 1), xlabel="P(Df = positive)")
    return ax


draw.register(StrataTest, joint_set)


def _titled(ax: Axes | None, title: str, width: float = 0, height: float = 0) -> Axes:
    """Axes with a title: those that are given, or new ones of this size."""
    ax = ax or _new_axes(1, width, height)[0]
    ax.set_title(title, loc="left", fontsize=11)
    return ax


def _filled(i: int) -> Style:
    """Colour and hatching of the i-th of several bars."""
    hatch = HATCHES[i % len(HATCHES)]
    return {"color": COLOURS[i % len(COLOURS)], "hatch": hatch, "edgecolor": EDGE}


def _look(i: int) -> Style:
    """Colour, dash and marker of the i-th of several."""
    kinds = {"color": COLOURS, "linestyle": LINES, "marker": MARKERS}
    return {name: known[i % len(known)] for name, known in kinds.items()}


def _new_axes(n: int, width: float, height: float) -> list[Axes]:
    """Axes side by side in a new figure."""
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise MissingExtraError(
            "matplotlib is not installed: pip install 'fairpc[plots]'"
        ) from error
    size = (width, height)
    _, grid = plt.subplots(1, n, figsize=size, layout="constrained", squeeze=False)
    return list(grid[0])
