"""The pictures of docs/proof.md, one per question, from the records of ``proof.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from failing import FAILURES, HELD, NO_SIZE
from fairpc.models import COLOURS, EDGE, LINES, MARKERS
from label_bias_summary import mean
from proof_tables import LOGISTIC, OTHERS, OURS, Record, Results

FOLLOWED: dict[str, tuple[str, str, str]] = {
    "gradient boosting": (EDGE, MARKERS[0], LINES[2]),
    "ThresholdOptimizer": (COLOURS[3], MARKERS[1], LINES[1]),
    "reweighing": (COLOURS[2], MARKERS[2], LINES[1]),
    "label flipping": (COLOURS[4], MARKERS[3], LINES[1]),
    "loss correction": (EDGE, MARKERS[9], LINES[3]),
    "FairPC()": (COLOURS[0], MARKERS[4], LINES[0]),
    "LatentDecision()": (COLOURS[1], MARKERS[7], LINES[0]),
}
"""Colour, marker and line of the methods that the pictures with lines follow."""
OWN, OTHER = COLOURS[1], COLOURS[4]
LIMIT = "boosting of Df itself"
FAILS = pl.col("failure") != HELD


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


def _kind(family: str) -> tuple[str, str]:
    """Colour and marker of methods of ours, and of others."""
    return (OWN, MARKERS[7]) if family in OURS else (OTHER, MARKERS[0])


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
    """Accuracy and difference of selection rates of each method, injected bias."""
    return _panels(
        results,
        {"accuracy": "accuracy for the fair decision", "gap": "difference of selection rates"},
    )


def _panels(results: Results, titles: dict[str, str]) -> Any:
    """A panel per number: a line per method, a dot per table and mechanism, a bar for the mean."""
    rows = results.altered.with_columns(pl.col("gap").abs()).drop_nulls(list(titles))
    families = [f for f in results.present([*OTHERS, *OURS]) if f in set(rows["family"])]
    accuracy = dict(rows.group_by("family").agg(pl.col("accuracy").mean()).iter_rows())
    families.sort(key=lambda family: accuracy[family])
    figure, axes = _axes(len(titles), 3.5 + 3 * len(titles), 1 + 0.2 * len(families), sharey=True)
    for ax, (number, title) in zip(axes, titles.items(), strict=True):
        for place, family in enumerate(families):
            own = rows.filter(pl.col("family") == family)
            each = own.group_by("table", "mechanism").agg(pl.col(number).mean())[number].sort()
            colour, marker = _kind(family)
            ax.plot(each, [place] * len(each), marker, color=colour, alpha=0.5, markersize=3.5)
            ax.plot([mean(each)] * 2, [place - 0.35, place + 0.35], color=EDGE, linewidth=2)
        ax.set_xlabel(title)
        ax.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(range(len(families)), families)
    return figure


TITLES = {
    "gap": "fair rates differ",
    "features": "age changes the odds of a label",
    "unseen": "labels that nobody saw",
    "groups": "wrong groups",
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
    axes[0].set_ylabel("accuracy − oracle")
    lines, names = axes[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=len(names), fontsize=7.5)
    return figure


def coverage(results: Results) -> Any:
    """Sets of P(Df) at .95, and the truth, a line per cell."""
    figure, axes = _axes(2, 9.5, 5.2)
    sets = results.sets.filter(pl.col("by") == LOGISTIC, pl.col("seed") == 0)
    held, failing = (sets.filter(part) for part in (~FAILS, FAILS))
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
    ax.set_xlabel("fair rate; dot: truth, cross: truth outside")
    ax.grid(axis="x", alpha=0.3)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


PICTURES: dict[str, Callable[[Results], Any]] = {
    "gaps": gaps,
    "failures": failures,
    "coverage": coverage,
}
