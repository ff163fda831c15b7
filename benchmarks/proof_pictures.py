"""The pictures of docs/proof.md, one per question, from the records of ``proof.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from failing import FAILURES, HELD, NO_SIZE
from fairpc.plots import COLOURS, EDGE, LINES, MARKERS
from label_bias_summary import mean, short
from proof_tables import BENT, OTHERS, OURS, UNBENT, Record, Results, ranking

FOLLOWED: dict[str, tuple[str, str, str]] = {
    "gradient boosting": (EDGE, MARKERS[0], LINES[2]),
    "ThresholdOptimizer": (COLOURS[3], MARKERS[1], LINES[1]),
    "reweighing": (COLOURS[2], MARKERS[2], LINES[1]),
    "label flipping": (COLOURS[4], MARKERS[3], LINES[1]),
    "FairPC()": (COLOURS[0], MARKERS[4], LINES[0]),
    "LatentDecision()": (COLOURS[1], MARKERS[7], LINES[0]),
}
"""Colour, marker and line of the methods that the pictures with lines follow."""
OWN, OTHER = COLOURS[1], COLOURS[4]
LIMIT = "boosting of Df itself"


def draw(records: Iterable[Record], folder: Path) -> Iterator[Path]:
    """Draw every picture into a folder; the same records give the same bytes."""
    import matplotlib as mpl

    mpl.use("svg")
    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "proof",
        "font.size": 9,
        "axes.axisbelow": True,
    }
    results = Results.of(records)
    with mpl.rc_context(style):
        for name, picture in PICTURES.items():
            figure = picture(results)
            path = folder / f"proof-{name}.svg"
            figure.savefig(path, bbox_inches="tight", metadata={"Date": None, "Creator": None})
            yield path


def _axes(n: int, width: float, height: float, **options: Any) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, n, **options)).ravel())


def ranks(results: Results) -> Any:
    """Critical-difference diagrams of accuracy and AUC."""
    figure, axes = _axes(2, 9.5, 4.4)
    for ax, number, title in zip(axes, ("accuracy", "auc"), ("accuracy", "AUC"), strict=True):
        named, found = ranking(results, number)
        order = np.argsort(-found.ranks)
        for place, i in enumerate(order):
            ours = named[i] in OURS
            colour = OWN if ours else OTHER
            ax.plot([found.ranks[i]], [place], MARKERS[7] if ours else MARKERS[0], color=colour)
            label = f" {named[i]} {short(float(found.ranks[i]), 1)}"
            ax.text(found.ranks[i], place + 0.32, label, ha="center", va="bottom", fontsize=7.5)
        places = {int(i): place for place, i in enumerate(order)}
        for level, near in enumerate(found.alike()):
            at = -1.2 - 0.7 * level
            ends = [found.ranks[near[0]], found.ranks[near[-1]]]
            ax.plot(ends, [at, at], color=EDGE, linewidth=3, solid_capstyle="butt")
        ax.set_title(f"{title}: bars join what differs by less than {short(found.difference, 1)}")
        ax.set_xlabel(f"average rank over {found.n_blocks} cells, 1 is best")
        ax.set_yticks([])
        ax.set_xlim(0, len(named) + 1)
        ax.set_ylim(-1.9 - 0.7 * len(found.alike()), len(places) + 0.4)
        ax.grid(axis="x", alpha=0.3)
    return figure


def bending(results: Results) -> Any:
    """Accuracy lost to boosting of Df itself, by how labels are bent."""
    figure, (ax,) = _axes(1, 7, 3.4)
    order = [UNBENT, *reversed(BENT)]
    rows = results.held
    _lines(ax, rows, "mechanism", order, range(len(order)))
    ax.set_xticks(range(len(order)), order)
    ax.set_ylabel("accuracy − boosting of Df")
    ax.legend(fontsize=7.5, frameon=False, ncols=2)
    return figure


def _lines(ax: Any, rows: pl.DataFrame, column: str, values: list[Any], places: Any) -> None:
    """Mean accuracy less that of boosting of Df, of the methods that are followed."""
    means = {
        (family, value): mean(part["accuracy"])
        for (family, value), part in rows.group_by("family", column)
    }
    for family, (colour, marker, line) in FOLLOWED.items():
        gains = [_less(means.get((family, v)), means.get((LIMIT, v))) for v in values]
        ax.plot(places, gains, line, marker=marker, color=colour, label=family, markersize=5)
    ax.axhline(0, color=EDGE, linewidth=0.6)
    ax.grid(axis="y", alpha=0.3)


def _less(value: float | None, other: float | None) -> float:
    return np.nan if value is None or other is None else value - other


def gaps(results: Results) -> Any:
    """Accuracy and difference of selection rates, a point per method, bent labels."""
    figure, (ax,) = _axes(1, 7, 4)
    _points(ax, results, "gap")
    ax.set_xlabel("difference of selection rates between the groups")
    return figure


def _points(ax: Any, results: Results, number: str) -> None:
    """A point per method: a number, and accuracy."""
    rows = results.bent.with_columns(pl.col("gap").abs())
    for family in results.present([*OTHERS, *OURS]):
        own = rows.filter(pl.col("family") == family)
        at = mean(own[number]), mean(own["accuracy"])
        ours = family in OURS
        colour = OWN if ours else OTHER
        ax.plot(*([v] for v in at), MARKERS[7] if ours else MARKERS[0], color=colour)
        ax.annotate(family, at, (4, 3), textcoords="offset points", fontsize=7.5)
    ax.set_ylabel("accuracy for Df")
    ax.grid(alpha=0.3)


def mechanism(results: Results) -> Any:
    """Largest error of P(D | Df, S), a dot per table, by method."""
    rows = results.bent.drop_nulls("mechanism_error")
    families = [f for f in results.present([*OTHERS, *OURS]) if f in set(rows["family"])]
    figure, (ax,) = _axes(1, 7, 0.8 + 0.42 * len(families))
    for place, family in enumerate(reversed(families)):
        own = rows.filter(pl.col("family") == family)
        each = own.group_by("table", "mechanism").agg(pl.col("mechanism_error").mean())
        values = each["mechanism_error"].sort()
        colour = OWN if family in OURS else OTHER
        ax.plot(values, [place] * len(values), MARKERS[0], color=colour, alpha=0.6, markersize=4)
        ax.plot([mean(values)] * 2, [place - 0.3, place + 0.3], color=EDGE)
    ax.set_yticks(range(len(families)), list(reversed(families)))
    ax.set_xlabel("largest error of P(D | Df, S); dot: table and mechanism, bar: mean")
    ax.grid(axis="x", alpha=0.3)
    return figure


TITLES = {
    "gap": "P(Df) differs by group",
    "features": "age changes the odds of D",
    "unseen": "labels that nobody saw",
    "groups": "wrong S",
}
XLABELS = {"gap": "difference", "features": "factor", "unseen": "share", "groups": "share of rows"}


def failures(results: Results) -> Any:
    """Accuracy lost to boosting of Df itself, by how far an assumption fails."""
    figure, axes = _axes(4, 10, 3.2, sharey=True)
    cell = ["table", "mechanism", "seed", "fold"]
    for ax, (failure, of) in zip(axes, FAILURES.items(), strict=True):
        failing = results.frame.filter(pl.col("failure") == failure)
        start = results.held.join(failing.select(cell).unique(), on=cell, how="semi")
        start = start.with_columns(size=pl.lit(NO_SIZE[failure]))
        sizes = [NO_SIZE[failure], *of]
        _lines(ax, pl.concat([start, failing]), "size", sizes, sizes)
        ax.set_xticks(sizes)
        ax.set_title(TITLES[failure], fontsize=9)
        ax.set_xlabel(XLABELS[failure])
    axes[0].set_ylabel("accuracy − boosting of Df")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def coverage(results: Results) -> Any:
    """Sets of P(Df) at .95, and the truth, a line per cell."""
    figure, axes = _axes(2, 9.5, 5.2)
    held = results.sets.filter(pl.col("failure") == HELD, pl.col("seed") == 0)
    failing = results.sets.filter(pl.col("failure") != HELD, pl.col("seed") == 0)
    _sets(axes[0], held, ("table", "mechanism"), "assumptions hold")
    _sets(axes[1], failing, ("table", "failure", "size"), "assumptions fail")
    return figure


def _sets(ax: Any, rows: pl.DataFrame, names: tuple[str, ...], title: str) -> None:
    for place, row in enumerate(rows.iter_rows(named=True)):
        low, high, truth = row["lower"], row["upper"], row["truth"]
        inside = low <= truth <= high
        colour = OWN if inside else COLOURS[3]
        if row["rejected"]:
            ax.text(truth, place, "  rejected", va="center", fontsize=7)
        else:
            ax.plot([low, high], [place, place], color=colour, linewidth=2.5, alpha=0.8)
        ax.plot([truth], [place], MARKERS[0] if inside else MARKERS[10], color=EDGE, markersize=3.5)
    shown = [" ".join(_text(row[n]) for n in names) for row in rows.iter_rows(named=True)]
    ax.set_yticks(range(len(shown)), shown, fontsize=7)
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.set_title(title, fontsize=9)
    ax.set_xlabel("P(Df = 1); dot: truth, cross: truth outside")
    ax.grid(axis="x", alpha=0.3)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def seconds(results: Results) -> Any:
    """Accuracy and CPU seconds of a fit, a point per method."""
    figure, (ax,) = _axes(1, 7, 4)
    _points(ax, results, "cpu")
    ax.set_xscale("log")
    ax.set_xlabel("CPU seconds of a fit")
    return figure


PICTURES: dict[str, Callable[[Results], Any]] = {
    "ranks": ranks,
    "bending": bending,
    "gaps": gaps,
    "mechanism": mechanism,
    "failures": failures,
    "coverage": coverage,
    "seconds": seconds,
}
