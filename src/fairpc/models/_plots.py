"""Pictures with matplotlib, distinguished by shape and pattern as well as by colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from itertools import product
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from fairpc.core import Floats, MissingExtraError, PlotError
from fairpc.evidence import (
    AssumptionTest,
    EqualRates,
    IdentifiedSet,
    Parity,
    ParityCurve,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS: Final = "osD^v<>Ph*Xp"
HATCHES: Final = ("", "///", "...", "xxx", "\\\\\\", "++")
LINES: Final = ("-", "--", ":", "-.")
COLOURS: Final = ("#e9c46a", "#5b8db8", "#7a9e7e", "#a05c7b", "#8a8a8a", "#c9c2ae")
EDGE: Final = "#1d2733"
DRAWN: Final = 2000
ROWS: Final = 20
"""Pairs of groups that are drawn."""
GUESSING: Final = "Rand"
"""The baseline that guesses."""

Style = dict[str, Any]
_ON_BARS: Final[Style] = {
    "ha": "center",
    "va": "center",
    "fontsize": 9,
    "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1.2, "alpha": 0.9},
}
"""How numbers are written on hatched bars."""


class ModelPlots:
    """Pictures of one fitted model: ``model.plot.mechanism()``, ``.curves()``, ``.tradeoff()``."""

    def __init__(self, model: Any) -> None:
        self._model = model

    @property
    def _names(self) -> tuple[Sequence[str], Sequence[str]]:
        """Of the groups, and of the classes."""
        return self._model.coding_.group_names, [str(c) for c in self._model.classes_]

    def mechanism(self, ax: Axes | None = None) -> Axes:
        """P(D | Df, S): a bar per group and fair decision, cut by the recorded label."""
        model = self._model
        if not model.distribution_.layout.latent:
            raise PlotError(
                f"{type(model).__name__} has no latent fair decision, so no mechanism to draw: use "
                "FairPC or LatNB"
            )
        groups, classes = self._names
        rows = list(product(range(len(groups)), range(len(classes))))
        ax = _titled(ax, "Recorded label by fair decision and group", 7, 0.8 + 0.55 * len(rows))
        # A gap between groups, so that bars of one group stand together.
        places = np.array([-(i + 0.6 * s) for i, (s, _) in enumerate(rows)])
        left = np.zeros(len(rows))
        positive = model.coding_.labels.positive
        # The positive class comes first and has the same look whatever its place in the order.
        for i, d in enumerate(sorted(range(len(classes)), key=lambda k: k != positive)):
            label, width = classes[d], model.bias_mechanism_[:, :, d].ravel()
            look = _filled(i) | {"linewidth": 0.8, "label": f"D = {label}"}
            ax.barh(places, width, left=left, height=0.8, **look)
            for y, x, share in zip(places, left, width, strict=True):
                if share >= 0.06:
                    ax.text(x + share / 2, y, f"{share:.2f}", **_ON_BARS)
            left += width
        ax.set_yticks(places, [f"S = {groups[s]}, Df = {classes[f]}" for s, f in rows])
        ax.set(xlim=(0, 1), xlabel="P(D | Df, S)")
        # The legend starts half an inch under the axes, as a share of their height.
        below = -0.5 / max(ax.get_window_extent().height / ax.figure.dpi, 0.5)
        ax.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, below), frameon=False)
        return ax

    def curves(self, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
        """The fit, iteration by iteration: likelihoods and, with a latent fair decision, mechanism.

        The mechanism is drawn as P(D = f | Df = f, S = s).
        """
        history: Mapping[str, Floats] = self._model.history_
        latent = self._model.distribution_.layout.latent
        n = 2 if latent else 1
        if axes is None:
            axes = _new_axes(n, 5.2 * n, 3.6)
        elif len(axes) != n:
            raise PlotError(f"{len(axes)} axes were given: this model has {n} pictures")
        named = [k for k, v in history.items() if v.ndim == 1 and not np.isnan(v).all()]
        for i, name in enumerate(named):
            _line(axes[0], history[name], i, name.replace("_", " "))
        axes[0].set_ylabel("nats")
        _titled(axes[0], "Likelihood")
        if latent:
            groups, classes = self._names
            for i, (s, f) in enumerate(product(range(len(groups)), range(len(classes)))):
                label = f"S = {groups[s]}, Df = D = {classes[f]}"
                _line(axes[1], history["mechanism"][:, s, f, f], i, label)
            axes[1].set(ylim=(-0.03, 1.03), ylabel="P(D = Df | Df, S)")
            _titled(axes[1], "Mechanism")
        for axis in axes:
            axis.set_xlabel("iteration of EM")
            axis.locator_params(axis="x", integer=True)
            axis.legend(fontsize=8, frameon=False)
        return axes

    def tradeoff(
        self,
        X: Any = None,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Axes:
        """Accuracy against discrimination beside the baselines, by :func:`fairpc.compare`.

        The model is fitted again on each training part. Without X the rows are 2,000 drawn from
        the model itself, and the picture says so.

        Args:
            X, y, sensitive_features: rows to compare on.
            ax: where to draw.
            options: of :func:`fairpc.compare`, such as ``cv`` and ``n_jobs``.
        """
        # A comparison lies above the models: its public name is looked up when it is asked for.
        from fairpc import baselines, compare

        model, drawn = self._model, X is None
        if drawn:
            columns = model.sample(DRAWN, random_state=0, library="dict")
            names = model.coding_.features.names
            X = pl.DataFrame({name: columns[name] for name in names}, strict=False)
            y, sensitive_features = np.array(columns["D"]), np.array(columns["S"])
        elif y is None:
            raise PlotError("X was given without y: give the recorded labels too")
        name = type(model).__name__
        methods = {name: model} | baselines.default_baselines()
        if drawn and model.sensitive is not None:
            methods[name] = type(model)(**model.get_params() | {"sensitive": None})
        given = {"against_fair": False} | options
        found = compare(methods, X, y, sensitive_features=sensitive_features, **given)
        rows = "Rows drawn from the model itself. " if drawn else ""
        return trade_off(found.means(), caption=rows + found.caption, marked=name, ax=ax)


def trade_off(
    methods: Sequence[Mapping[str, Any]],
    *,
    caption: str = "",
    marked: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Accuracy against discrimination, a mark of its own shape per method, bars of one sd.

    ``methods`` are as :meth:`fairpc.comparison.Comparison.means` gives them; ``marked`` is drawn
    larger.
    """
    shown = [m for m in methods if m["discrimination"] is not None]
    if not shown:
        raise PlotError("no method has a discrimination: rows of two groups are needed")
    ax = _titled(ax, "Trade-off on held-out rows", 7, 4.8)
    for i, method in enumerate(shown):
        name, x, y = (method[key] for key in ("method", "discrimination", "accuracy"))
        bars: Style = {"ecolor": "#9aa5b1", "elinewidth": 1, "zorder": 3}
        bars |= {"xerr": method["discrimination_sd"] or 0, "yerr": method["accuracy_sd"] or 0}
        mark = _look(i) | {"linestyle": "none", "markeredgecolor": EDGE}
        ax.errorbar(x, y, label=name, markersize=11 if name == marked else 7, **mark, **bars)
    _without_guessing(ax, shown)
    ax.set_xlabel("discrimination: largest difference of mean scores between groups")
    ax.set_ylabel("accuracy, against the recorded label")
    ax.grid(color="#e3e7eb", linewidth=0.6)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    if caption:
        below: Style = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "top"}
        ax.annotate(fill(caption, 92), (0, 0), (0, -42), fontsize=8, annotation_clip=False, **below)
    return ax


def _without_guessing(ax: Axes, methods: Sequence[Mapping[str, Any]]) -> None:
    """Scale accuracy by the methods that do not guess, and say where the one that does lies."""
    guess = next((m for m in methods if m["method"] == GUESSING), None)
    others = [m for m in methods if m["method"] != GUESSING]
    if guess is None or not others:
        return
    spreads = [(m["accuracy"], m["accuracy_sd"] or 0.0) for m in others]
    low, high = min(a - sd for a, sd in spreads), max(a + sd for a, sd in spreads)
    room = 0.1 * max(high - low, 0.01)
    if low - room <= guess["accuracy"] <= high + room:
        return
    ax.set_ylim(low - room, high + room)
    note = f"{GUESSING}, which guesses, is not in the picture: accuracy {guess['accuracy']:.3f}"
    ax.annotate(note, (0.01, 0.02), xycoords="axes fraction", fontsize=8)


@singledispatch
def draw(record: object, ax: Axes | None = None) -> Axes:
    """A record of ``fairpc.evidence`` as a picture.

    Parity: the difference of each pair with its interval. ParityCurve: the share of each group
    that is selected, over thresholds. EqualRates: rates with one threshold and with one per group.
    AssumptionTest and IdentifiedSet: the rates of Df that each group leaves possible.

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


def _line(ax: Axes, values: Floats, i: int, label: str) -> None:
    look = _look(i) | {"markersize": 4, "markevery": max(len(values) // 8, 1)}
    ax.plot(np.arange(len(values)), values, label=label, **look)


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
