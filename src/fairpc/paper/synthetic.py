"""Figure and table on synthetic data: accuracy to the true Df, discrimination, likelihood.

Paper, Section "Synthetic Data", and Appendix, "Likelihood comparison".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fairpc.circuit import Circuit, CircuitBuilder
from fairpc.datasets.synthetic import FAIR_RATE, GROUP_RATE, MECHANISM
from fairpc.fair.initial import cells_of
from fairpc.fair.top import Layout, build
from fairpc.metrics import accuracy
from fairpc.paper.distributions import FAIRPC_RAND
from fairpc.paper.exhibit import Claim, Exhibit, Grid, Record, Records, number, signed
from fairpc.paper.figures import Figure, panels, point
from fairpc.paper.methods import DISTRIBUTIONS, FAIR_CLASSIFIERS, METHODS, Outcome
from fairpc.paper.runs import Study, held_out_gap
from fairpc.paper.sources import PaperTable, folds_in_words
from fairpc.structure import learn_cells

SIZES: Final = tuple(range(10, 31))
QUICK_SIZES: Final = (10, 20)
N_FOLDS: Final = 3
"""Folds of each of the tables; together they are as many runs as anyone can see in a figure."""
_COLUMNS: Final = ("True", "LatNB", "NLatPC", FAIRPC_RAND, "FairPC")
# Table "Comparison of log-likelihoods on synthetic datasets", by number of features.
PRINTED: Final[dict[int, tuple[float, ...]]] = {
    10: (-6.975, -7.361, -7.059, -7.024, -7.022),
    11: (-7.468, -8.068, -7.612, -7.540, -7.540),
    12: (-8.091, -8.614, -8.224, -8.166, -8.163),
    13: (-8.573, -9.146, -8.717, -8.644, -8.644),
    14: (-9.149, -9.832, -9.392, -9.281, -9.276),
    15: (-9.808, -10.677, -10.057, -9.920, -9.920),
    16: (-10.210, -10.989, -10.537, -10.407, -10.405),
    17: (-11.119, -11.626, -11.408, -11.269, -11.269),
    18: (-11.296, -12.524, -11.680, -11.513, -11.513),
    19: (-11.718, -13.003, -12.207, -11.973, -11.973),
    20: (-12.476, -13.592, -12.971, -12.755, -12.755),
}


def tables(study: Study) -> list[PaperTable]:
    """The synthetic tables, with the folds that are used here."""
    sources = replace(study.sources, n_folds=N_FOLDS)
    return [sources.synthetic(n) for n in (QUICK_SIZES if sources.quick else SIZES)]


def exhibit(study: Study) -> Exhibit:
    """Every run as a point, and mean likelihoods."""
    found, methods = tables(study), (*METHODS, FAIRPC_RAND)
    runs = study.run(found, methods, "synthetic tables")
    records = Records(
        _record(table, k, method, outcome)
        for table in found
        for method in methods
        for k, outcome in enumerate(runs[table.name, method])
    )
    unknown = []
    if without := [t.name for t in found if t.model is None]:
        unknown.append(
            f"Of the given tables ({without[0]} to {without[-1]} features) only rows are known: "
            "True is the paper's process there, with trees estimated from the true Df."
        )
    truth = {
        int(t.name): float(np.mean([true_log_likelihood(t, k) for k in range(len(t.folds))]))
        for t in found
    }
    return Exhibit(
        name="synthetic",
        title="Synthetic data: accuracy to the true Df, discrimination, likelihood",
        records=records,
        grids=[_summary(records), _likelihoods(records, truth)],
        notes=(
            f"{folds_in_words(found)} The paper runs all of them.",
            "Accuracy is to the true Df, which no method sees; discrimination is signed, "
            "minority (S = 1) minus majority. A point is a fold of a table of 10 to 30 features.",
            "Likelihoods are held out; in parentheses the paper's, on tables drawn from the same "
            "process with other random numbers: orders compare, single numbers do not.",
            *unknown,
        ),
        claims=[*_claims(records), *_likelihood_claims(records)],
        draw=lambda: _draw(records),
    )


def true_log_likelihood(table: PaperTable, fold: int) -> float:
    """Mean log-likelihood of test rows under the distribution they were drawn from.

    Where only rows are known, its trees are estimated: see :func:`estimated_model`.
    """
    model = estimated_model(table, fold) if table.model is None else table.model
    test = table.rows.take(table.folds[fold].test)
    codes = Layout.of("FairPC", test).codes(test.s, test.d, test.x)
    return float(model.log_marginal(codes).mean())


def estimated_model(table: PaperTable, fold: int) -> Circuit:
    """The paper's process, its trees being Chow–Liu trees of each cell (Df, S).

    P(S), P(Df) and P(D | Df, S) are those of Section "Synthetic Data"; the trees come
    from training and validation rows with the true Df, which no method sees.
    """
    fit = table.folds[fold].fit
    rows = table.rows.take(fit)
    shown = replace(rows, d=table.decisions[fit].astype(np.int16))
    cells = learn_cells(cells_of(shown), method="chow-liu", trees="cell")

    def graft(b: CircuitBuilder, f: int, s: int, columns: Sequence[int]) -> int:
        return cells.graft(b, 2 * f + s, columns)

    return build(
        Layout.of("FairPC", rows),
        graft,
        np.array([1.0 - GROUP_RATE, GROUP_RATE]),
        np.tile([1.0 - FAIR_RATE, FAIR_RATE], (2, 1)),
        np.array([[[1.0 - p, p] for p in by_decision] for by_decision in MECHANISM]),
    )


def _record(table: PaperTable, fold: int, method: str, outcome: Outcome) -> Record:
    test = table.folds[fold].test
    return {
        "n_features": int(table.name),
        "fold": fold,
        "method": method,
        "accuracy_df": accuracy(table.decisions[test], outcome.predicted),
        "accuracy_d": accuracy(table.rows.d[test], outcome.predicted),
        "discrimination": held_out_gap(table, fold, outcome),
        "log_likelihood": outcome.mean_log_likelihood,
    }


def _gaps(records: Records, method: str) -> np.ndarray[Any, Any]:
    return np.array(records.values("discrimination", method=method))


def _summary(records: Records) -> Grid:
    lines = []
    for method in METHODS:
        gaps = _gaps(records, method)
        right = [records.mean(key, method=method) for key in ("accuracy_df", "accuracy_d")]
        means = (*right, float(gaps.mean()), float(np.abs(gaps).mean()))
        lines.append((method, *map(number, means), f"{(gaps < 0).mean():.0%}"))
    head = ("method", "accuracy to Df", "accuracy to D", "discrimination", "absolute", "below zero")
    return Grid(head, lines, "Means over all runs")


def _likelihoods(records: Records, truth: dict[int, float]) -> Grid:
    """A line per number of features; the paper's table has a column."""
    lines = []
    for n, true in truth.items():
        theirs = dict(zip(_COLUMNS, PRINTED.get(n, ()), strict=False))
        ours = {"True": true} | _fits(records, n)
        cells = (number(ours[m]) + (f" ({number(theirs[m])})" if theirs else "") for m in _COLUMNS)
        lines.append((str(n), *cells))
    return Grid(("features", *_COLUMNS[:-1], "FairPC-prior"), lines, "Log-likelihood per row")


def _fits(records: Records, n: int) -> dict[str, float]:
    """Mean likelihoods on a table."""
    return {m: records.mean("log_likelihood", n_features=n, method=m) for m in _COLUMNS[1:]}


def _claims(records: Records) -> list[Claim]:
    right = {m: records.mean("accuracy_df", method=m) for m in METHODS}
    gap = {m: _gaps(records, m) for m in METHODS}
    size = {m: float(np.abs(g).mean()) for m, g in gap.items()}
    numbers = ", ".join(f"{m} {number(right[m])}" for m in DISTRIBUTIONS)
    sides = ", ".join(f"{m} {(gap[m] < 0).mean():.0%} of runs" for m in DISTRIBUTIONS)
    lead = right["FairPC"] - right["FairLR"]
    sizes = {r["n_features"] for r in records}
    return [
        Claim(
            "accuracy to Df: PCs above naive Bayes models",
            right["FairPC"] > right["LatNB"] and right["NLatPC"] > right["2NB"],
            numbers,
        ),
        Claim(
            "accuracy to Df: latent models above non-latent ones",
            right["FairPC"] > right["NLatPC"] and right["LatNB"] > right["2NB"],
            numbers,
        ),
        Claim(
            "2NB and NLatPC always have negative scores (mean of a table)",
            all(
                records.mean("discrimination", n_features=n, method=m) < 0
                for m in ("2NB", "NLatPC")
                for n in sizes
            ),
            f"below zero: {sides}",
        ),
        Claim(
            "LatNB and FairPC lie on both sides of zero (20 to 80 % of the runs below)",
            all(0.2 <= (gap[m] < 0).mean() <= 0.8 for m in ("LatNB", "FairPC")),
            f"below zero: {sides}",
        ),
        Claim(
            "FairPC has a lower average discrimination than LatNB",
            size["FairPC"] < size["LatNB"],
            ", ".join(f"{m} {number(size[m])}" for m in DISTRIBUTIONS),
        ),
        Claim(
            "FairPC is about .17 above FairLR in accuracy to Df",
            abs(lead - 0.17) < 0.05,
            f"{number(right['FairPC'])} against {number(right['FairLR'])}: +{number(lead)}",
        ),
        Claim(
            "the discrimination of FairPC is comparable to that of the fair classifiers (twice)",
            size["FairPC"] <= 2 * max(size[m] for m in FAIR_CLASSIFIERS),
            ", ".join(f"{m} {number(size[m])}" for m in ("FairPC", *FAIR_CLASSIFIERS)),
        ),
    ]


def _likelihood_claims(records: Records) -> list[Claim]:
    fits = [_fits(records, n) for n in sorted({r["n_features"] for r in records})]
    orders = [sorted(fit, key=lambda m: fit[m]) for fit in fits]
    best = sum(order[-1] in ("FairPC", FAIRPC_RAND) for order in orders)
    worst = sum(order[0] == "LatNB" for order in orders)
    difference = float(np.mean([fit["FairPC"] - fit[FAIRPC_RAND] for fit in fits]))
    return [
        Claim(
            "FairPC has the best likelihood and LatNB the worst",
            best == worst == len(fits),
            f"{best} and {worst} of {len(fits)} tables",
        ),
        Claim(
            "the prior start is as good as the random one in likelihood, or slightly better",
            difference > -0.002,
            f"{signed(difference, 4)} nats on average",
        ),
    ]


def _draw(records: Records) -> Figure:
    figure, axes = panels(1, 2, 4.4, 3.6, sharey=True)
    shown = DISTRIBUTIONS, ("FairPC", *FAIR_CLASSIFIERS)
    for panel, methods in zip(axes[0], shown, strict=True):
        panel.axvline(0, color="#777777", linestyle="--", linewidth=1, zorder=1)
        for method in reversed(methods):
            right = records.values("accuracy_df", method=method)
            point(panel, method, _gaps(records, method), right, s=28, alpha=0.75, linewidths=0.4)
        panel.set_xlabel("discrimination: minority − majority")
        panel.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(methods))
    axes[0][0].set_ylabel("accuracy to the true Df")
    return figure
