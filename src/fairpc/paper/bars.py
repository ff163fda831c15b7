"""Figure "Comparison of fair probability distributions": likelihood, F1, discrimination as bars."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairpc.paper.exhibit import Exhibit, Grid, Record, number
from fairpc.paper.figures import LOOKS, Figure, panels
from fairpc.paper.real_world import measure
from fairpc.paper.sources import TITLES
from fairpc.paper.study import Study

NAME: Final = "bars"
ORDER: Final = ("2NB", "LatNB", "NLatPC", "FairPC")
"""The bars from left to right, as in the paper."""
QUANTITIES: Final = {
    "log_likelihood": "log-likelihood (axis cut)",
    "rate_f1": "F1 from rates",
    "discrimination": "|discrimination|",
}
BETTER: Final = {"log_likelihood": "higher", "rate_f1": "higher", "discrimination": "lower"}


def exhibit(study: Study) -> Exhibit:
    """Means over folds with their spread."""
    records = tuple(_records(study))
    names = list(dict.fromkeys(r["dataset"] for r in records))
    lines = tuple(
        (f"{TITLES[r['dataset']]} {r['method']}", *(_cell(r, q) for q in QUANTITIES))
        for r in records
    )
    return Exhibit(
        name=NAME,
        title="Four distributions: likelihood, F1, discrimination",
        records=records,
        grids=(Grid(("model", "LL", "F1", "discrimination"), lines),),
        notes=(
            "Held-out; means over folds ± standard deviation over folds (the black lines).",
            *study.real_world[1],
        ),
        draw=lambda: _draw(records, names),
    )


def _records(study: Study) -> list[Record]:
    found = []
    for table in study.real_world[0]:
        for method in ORDER:
            outcomes = study.real_world_runs[table.name, method]
            measured = [measure(table, k, o) for k, o in enumerate(outcomes)]
            values = {
                "log_likelihood": [o.mean_log_likelihood for o in outcomes],
                "rate_f1": [m[2] for m in measured],
                "discrimination": [abs(m[3]) for m in measured],
            }
            record: Record = {"dataset": table.name, "method": method}
            for quantity, some in values.items():
                record[quantity] = float(np.mean(some))
                record[f"{quantity}_sd"] = float(np.std(some, ddof=1))
            found.append(record)
    return found


def _cell(record: Record, quantity: str) -> str:
    return f"{number(record[quantity])} ± {number(record[f'{quantity}_sd'])}"


def _draw(records: tuple[Record, ...], names: list[str]) -> Figure:
    figure, axes = panels(len(names), 3, 3.2, 2.4)
    for row, name in enumerate(names):
        some = {r["method"]: r for r in records if r["dataset"] == name}
        for column, (quantity, words) in enumerate(QUANTITIES.items()):
            _panel(axes[row][column], [some[m] for m in ORDER], quantity)
            axes[row][column].set_ylabel(words)
            axes[row][column].set_title(f"{TITLES[name]} ({BETTER[quantity]} is better)")
    return figure


def _panel(axes: Any, records: list[Record], quantity: str) -> None:
    low = min(r[quantity] - r[f"{quantity}_sd"] for r in records)
    high = max(r[quantity] + r[f"{quantity}_sd"] for r in records)
    # Bars of likelihoods from zero would hide their differences: the axis is cut.
    base = low - 0.3 * (high - low) if quantity == "log_likelihood" else 0.0
    for i, record in enumerate(records):
        look = LOOKS[record["method"]]
        axes.bar(
            i, record[quantity] - base, bottom=base, yerr=record[f"{quantity}_sd"], capsize=4,
            color=look.colour, hatch=look.hatch, edgecolor="black", linewidth=0.8, width=0.7,
        )  # fmt: skip
    axes.set_xticks(range(len(records)), [r["method"] for r in records])
    axes.grid(visible=False, axis="x")
    axes.set_ylim(base, high + 0.1 * (high - base))
