"""The paper's central claim: a guarantee under the model is worth as much as the model's fit.

Models with a tied decision promise E[P(decision | X, S) | S] alike for all groups
*under the model*. On held-out rows the gap is as small as the model is close to
their distribution (paper, Section "Motivation"): the gap is shown against the likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fairpc.paper.exhibit import Claim, Exhibit, Grid, Record, number
from fairpc.paper.figures import Figure, panels, point
from fairpc.paper.methods import DISTRIBUTIONS, FAIRPC_AUTO
from fairpc.paper.real_world import measure
from fairpc.paper.sources import TITLES
from fairpc.paper.study import Study

NAME: Final = "guarantee"
METHODS: Final = (*DISTRIBUTIONS, FAIRPC_AUTO)
PROMISING: Final = ("FairPC", "LatNB", "NLatPC")
"""Models of the paper whose decision is independent of S by construction."""


def exhibit(study: Study) -> Exhibit:
    """What each model promises, and what held-out rows show."""
    tables, absent = study.real_world
    runs = study.run(tables, METHODS, "promise and held-out gap")
    records: list[Record] = []
    for table in tables:
        for method in METHODS:
            for k, outcome in enumerate(runs[table.name, method]):
                records.append(
                    {
                        "dataset": table.name,
                        "method": method,
                        "fold": k,
                        "promised_gap": outcome.parity_gap,
                        "held_out_gap": measure(table, k, outcome)[3],
                        "log_likelihood": outcome.mean_log_likelihood,
                    }
                )
    names = [t.name for t in tables]
    return Exhibit(
        name=NAME,
        title="What the models promise, and the gap on held-out rows",
        records=tuple(records),
        grids=tuple(_grid(n, records) for n in names),
        notes=(
            "The promised gap is that of P(decision = 1 | S) under the fitted model, by exact "
            "query; the held-out gap is the absolute difference of mean scores on test rows. 2NB "
            "promises nothing. FairPC-auto is not in the paper.",
            *absent,
        ),
        claims=tuple(_claims(records, names)),
        draw=lambda: _draw(records, names),
    )


def _mean(records: Sequence[Record], name: str, method: str, key: str) -> float:
    some = [r[key] for r in records if r["dataset"] == name and r["method"] == method]
    return float(np.mean(np.abs(some) if key == "held_out_gap" else some))


def _spread(records: Sequence[Record], name: str, method: str) -> str:
    """Standard deviation over folds of the absolute held-out gap."""
    some = [r["held_out_gap"] for r in records if (r["dataset"], r["method"]) == (name, method)]
    return number(float(np.std(np.abs(some), ddof=1)))


def _grid(name: str, records: Sequence[Record]) -> Grid:
    keys = ("promised_gap", "held_out_gap", "log_likelihood")
    lines = tuple(
        (method, *(number(_mean(records, name, method, key), 4) for key in keys))
        for method in METHODS
    )
    return Grid(("model", "promised gap", "held-out gap", "held-out LL"), lines, TITLES[name])


def _claims(records: Sequence[Record], names: Sequence[str]) -> list[Claim]:
    exact = max(abs(r["promised_gap"]) for r in records if r["method"] in PROMISING)
    words, ordered = [], True
    for name in names:
        fits = {m: _mean(records, name, m, "log_likelihood") for m in PROMISING}
        gaps = {m: _mean(records, name, m, "held_out_gap") for m in PROMISING}
        by_fit = sorted(PROMISING, key=lambda m: -fits[m])
        ordered &= by_fit == sorted(PROMISING, key=lambda m: gaps[m])
        listed = ", ".join(f"{m} {number(gaps[m])} ± {_spread(records, name, m)}" for m in by_fit)
        words.append(f"{TITLES[name]}: {listed}")
    return [
        Claim(
            "under the model the decision does not depend on S (FairPC, LatNB, NLatPC)",
            exact < 1e-9,
            f"largest gap by exact query {exact:.0e}",
        ),
        Claim(
            "the better such a model fits, the smaller its held-out gap",
            ordered,
            "from best to worst fit, ± standard deviation over folds: " + "; ".join(words),
        ),
    ]


def _draw(records: Sequence[Record], names: Sequence[str]) -> Figure:
    figure, axes = panels(1, len(names), 3.4, 3.0)
    for panel, name in zip(axes[0], names, strict=True):
        for method in METHODS:
            _points(panel, [r for r in records if r["dataset"] == name], method)
        panel.set(title=TITLES[name], xlabel="held-out log-likelihood")
        panel.set_ylim(bottom=0)
    axes[0][0].set_ylabel("|gap of mean scores| on held-out rows")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(METHODS))
    return figure


def _points(axes: Any, records: Sequence[Record], method: str) -> None:
    """Each fold small, their mean large."""
    some = [r for r in records if r["method"] == method]
    fits, gaps = [r["log_likelihood"] for r in some], [abs(r["held_out_gap"]) for r in some]
    point(axes, method, fits, gaps, s=12, alpha=0.4, linewidths=0.2, label=None)
    point(axes, method, [np.mean(fits)], [np.mean(gaps)], zorder=3)
