"""The paper's central claim: a guarantee under the model is worth as much as the model's fit.

Models with a tied decision promise E[P(decision | X, S) | S] alike for all groups
*under the model*. On held-out rows the gap is as small as the model is close to
their distribution (paper, Section "Motivation"): the gap is shown against the likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from reproduction import criteria
from reproduction.distributions import FAIRPC_AUTO
from reproduction.exhibit import Claim, Exhibit, Grid, Records, number, spread
from reproduction.figures import Figure, legend_below, panels, point
from reproduction.methods import DISTRIBUTIONS
from reproduction.runs import Study, held_out_gap
from reproduction.sources import TITLES

METHODS: Final = (*DISTRIBUTIONS, FAIRPC_AUTO)
PROMISING: Final = ("FairPC", "LatNB", "NLatPC")
"""Models of the paper whose decision is independent of S by construction."""


def exhibit(study: Study) -> Exhibit:
    """What each model promises, and what held-out rows show."""
    tables, absent = study.real_world
    runs = study.run(tables, METHODS, "promise and held-out gap")
    records = Records(
        {
            "dataset": table.name,
            "method": method,
            "fold": k,
            "promised_gap": outcome.parity_gap,
            "held_out_gap": held_out_gap(table, k, outcome),
            "log_likelihood": outcome.mean_log_likelihood,
        }
        for table in tables
        for method in METHODS
        for k, outcome in enumerate(runs[table.name, method])
    )
    names = [t.name for t in tables]
    return Exhibit(
        name="guarantee",
        title="What the models promise, and the gap on held-out rows",
        records=records,
        grids=[_grid(n, records.where(dataset=n)) for n in names],
        notes=(
            "The promised gap is that of P(decision = 1 | S) under the fitted model, by exact "
            "query; the held-out gap is the absolute difference of mean scores on test rows. 2NB "
            "promises nothing. FairPC-auto is not in the paper.",
            *absent,
        ),
        claims=_claims(records, names),
        draw=lambda: _draw(records, names),
    )


def _gaps(records: Records, method: str) -> list[float]:
    """Held-out gaps of the folds, by their absolute values."""
    return [abs(gap) for gap in records.values("held_out_gap", method=method)]


def _grid(name: str, records: Records) -> Grid:
    lines = []
    for method in METHODS:
        promised = records.mean("promised_gap", method=method)
        fit = records.mean("log_likelihood", method=method)
        means = (promised, float(np.mean(_gaps(records, method))), fit)
        lines.append((method, *(number(value, 4) for value in means)))
    return Grid(("model", "promised gap", "held-out gap", "held-out LL"), lines, TITLES[name])


def _claims(records: Records, names: Sequence[str]) -> list[Claim]:
    exact = max(abs(r["promised_gap"]) for r in records if r["method"] in PROMISING)
    words, ordered = [], True
    for name in names:
        some = records.where(dataset=name)
        fits = {m: some.mean("log_likelihood", method=m) for m in PROMISING}
        gaps = {m: _gaps(some, m) for m in PROMISING}
        by_fit = sorted(PROMISING, key=lambda m: -fits[m])
        ordered &= by_fit == sorted(PROMISING, key=lambda m: np.mean(gaps[m]))
        listed = ", ".join(f"{m} {spread(gaps[m])}" for m in by_fit)
        words.append(f"{TITLES[name]}: {listed}")
    return [
        Claim(
            criteria.PROMISE,
            exact < criteria.PROMISE.bound,
            f"largest gap by exact query {exact:.0e}",
        ),
        Claim(
            criteria.BETTER_FIT_SMALLER_GAP,
            ordered,
            "from best to worst fit, ± standard deviation over folds: " + "; ".join(words),
        ),
    ]


def _draw(records: Records, names: Sequence[str]) -> Figure:
    figure, axes = panels(1, len(names), 3.4, 3.0)
    for panel, name in zip(axes[0], names, strict=True):
        some = records.where(dataset=name)
        for method in METHODS:
            fits = some.values("log_likelihood", method=method)
            gaps = _gaps(some, method)
            # Each fold small, their mean large.
            point(panel, method, fits, gaps, s=12, alpha=0.4, linewidths=0.2, label=None)
            point(panel, method, [np.mean(fits)], [np.mean(gaps)], zorder=3)
        panel.set(title=TITLES[name], xlabel="held-out log-likelihood")
        panel.set_ylim(bottom=0)
    axes[0][0].set_ylabel("|gap of mean scores| on held-out rows")
    legend_below(figure, axes[0][0], len(METHODS))
    return figure
