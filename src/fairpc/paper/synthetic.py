"""Figure and table on synthetic data: accuracy to the true Df, discrimination, likelihood.

Paper, Section "Synthetic Data", and Appendix, "Likelihood comparison".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fairpc.metrics import accuracy, discrimination
from fairpc.paper import published
from fairpc.paper.exhibit import Claim, Exhibit, Grid, Record, number
from fairpc.paper.figures import Figure, panels, point
from fairpc.paper.methods import DISTRIBUTIONS, FAIR_CLASSIFIERS, FAIRPC_RAND, METHODS
from fairpc.paper.outcome import Outcome
from fairpc.paper.sources import PaperTable
from fairpc.paper.study import Runs, Study
from fairpc.paper.truth import true_log_likelihood

NAME: Final = "synthetic"
SIZES: Final = tuple(range(10, 31))
QUICK_SIZES: Final = (10, 20)
N_FOLDS: Final = 3
"""Folds of each of the tables; together they are as many runs as anyone can see in a figure."""
COLUMNS: Final = {
    "True": "True",
    "LatNB": "LatNB",
    "NLatPC": "NLatPC",
    FAIRPC_RAND: "FairPC-rand",
    "FairPC": "FairPC-prior",
}


def tables(study: Study) -> list[PaperTable]:
    """The synthetic tables, with the folds that are used here."""
    sources = replace(study.sources, n_folds=N_FOLDS)
    sizes = QUICK_SIZES if sources.quick else SIZES
    return [sources.synthetic(n) for n in sizes]


def runs(study: Study, some: Sequence[PaperTable]) -> Runs:
    """All methods on the synthetic tables."""
    return study.run(some, (*METHODS, FAIRPC_RAND), "synthetic tables")


def exhibit(study: Study) -> Exhibit:
    """Every run as a point, and mean likelihoods."""
    found = tables(study)
    outcomes = runs(study, found)
    records = tuple(
        _record(table, k, method, outcome)
        for table in found
        for method in (*METHODS, FAIRPC_RAND)
        for k, outcome in enumerate(outcomes[table.name, method])
    )
    truth = {t.name: _mean([true_log_likelihood(t, k) for k in range(len(t.folds))]) for t in found}
    return Exhibit(
        name=NAME,
        title="Synthetic data: accuracy to the true Df, discrimination, likelihood",
        records=records,
        grids=(_summary(records), _likelihoods(records, truth)),
        notes=(
            "Accuracy is to the true Df, which no method sees; discrimination is signed, "
            "minority (S = 1) minus majority. A point is a fold of a table of 10 to 30 features.",
            "Likelihoods are held out; in parentheses the paper's, on tables drawn from the same "
            "process with other random numbers: orders compare, single numbers do not.",
            *_unknown(found),
        ),
        claims=tuple(_claims(records)),
        draw=lambda: _draw(records),
    )


def _unknown(found: Sequence[PaperTable]) -> list[str]:
    without = [t.name for t in found if t.model is None]
    if not without:
        return []
    return [
        f"Of the given tables ({without[0]} to {without[-1]} features) only rows are known: True "
        "is the paper's process there, with trees estimated from the true Df."
    ]


def _record(table: PaperTable, fold: int, method: str, outcome: Outcome) -> Record:
    test = table.folds[fold].test
    truth = np.full(len(test), -1) if table.truth is None else table.truth[test]
    return {
        "n_features": int(table.name),
        "fold": fold,
        "method": method,
        "accuracy_df": accuracy(truth, outcome.predicted),
        "accuracy_d": accuracy(table.rows.d[test], outcome.predicted),
        "discrimination": discrimination(outcome.scores, table.rows.s[test]),
        "log_likelihood": outcome.mean_log_likelihood,
    }


def _mean(values: list[float]) -> float:
    return float(np.mean(values))


def _values(records: Sequence[Record], method: str, key: str) -> list[float]:
    return [r[key] for r in records if r["method"] == method]


def _summary(records: Sequence[Record]) -> Grid:
    lines = []
    for method in METHODS:
        gaps = np.array(_values(records, method, "discrimination"))
        lines.append(
            (
                method,
                number(_mean(_values(records, method, "accuracy_df"))),
                number(_mean(_values(records, method, "accuracy_d"))),
                number(float(gaps.mean())),
                number(float(np.abs(gaps).mean())),
                f"{(gaps < 0).mean():.0%}",
            )
        )
    head = ("method", "accuracy to Df", "accuracy to D", "discrimination", "absolute", "below zero")
    return Grid(head, tuple(lines), "Means over all runs")


def _likelihoods(records: Sequence[Record], truth: dict[str, float]) -> Grid:
    """A line per number of features; the paper's table has a column."""
    lines = []
    for n in dict.fromkeys(r["n_features"] for r in records):
        some = [r for r in records if r["n_features"] == n]
        line = [str(n)]
        for method in COLUMNS:
            ours = (
                truth[str(n)]
                if method == "True"
                else _mean(_values(some, method, "log_likelihood"))
            )
            line.append(number(ours) + _theirs(method, n))
        lines.append(tuple(line))
    return Grid(("features", *COLUMNS.values()), tuple(lines), "Log-likelihood per row")


def _theirs(method: str, n: int) -> str:
    if n not in published.SYNTHETIC_SIZES:
        return ""
    value = published.SYNTHETIC[method][published.SYNTHETIC_SIZES.index(n)]
    return f" ({number(value)})"


def _claims(records: Sequence[Record]) -> list[Claim]:
    right = {m: _mean(_values(records, m, "accuracy_df")) for m in METHODS}
    gap = {m: np.array(_values(records, m, "discrimination")) for m in METHODS}
    size = {m: float(np.abs(g).mean()) for m, g in gap.items()}
    numbers = ", ".join(f"{m} {number(right[m])}" for m in DISTRIBUTIONS)
    sides = ", ".join(f"{m} {(gap[m] < 0).mean():.0%} of runs" for m in DISTRIBUTIONS)
    lead = right["FairPC"] - right["FairLR"]
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
            all(_sides(records, m) for m in ("2NB", "NLatPC")),
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
        *_likelihood_claims(records),
    ]


def _sides(records: Sequence[Record], method: str) -> bool:
    """Whether the mean over folds is below zero for every table."""
    sizes = {r["n_features"] for r in records}
    some = [r for r in records if r["method"] == method]
    return all(
        _mean([r["discrimination"] for r in some if r["n_features"] == n]) < 0 for n in sizes
    )


def _likelihood_claims(records: Sequence[Record]) -> list[Claim]:
    best = worst = 0
    differences = []
    sizes = sorted({r["n_features"] for r in records})
    for n in sizes:
        some = [r for r in records if r["n_features"] == n]
        mean = {m: _mean(_values(some, m, "log_likelihood")) for m in COLUMNS if m != "True"}
        order = sorted(mean, key=lambda m: mean[m])
        best += order[-1] in ("FairPC", FAIRPC_RAND)
        worst += order[0] == "LatNB"
        differences.append(mean["FairPC"] - mean[FAIRPC_RAND])
    return [
        Claim(
            "FairPC has the best likelihood and LatNB the worst",
            best == worst == len(sizes),
            f"{best} and {worst} of {len(sizes)} tables",
        ),
        Claim(
            "the prior start is as good as the random one in likelihood, or slightly better",
            _mean(differences) > -0.002,
            f"{_mean(differences):+.4f} nats on average".replace("-", "−"),
        ),
    ]


def _draw(records: Sequence[Record]) -> Figure:
    figure, axes = panels(1, 2, 4.4, 3.6, sharey=True)
    _panel(axes[0][0], records, DISTRIBUTIONS)
    _panel(axes[0][1], records, ("FairPC", *FAIR_CLASSIFIERS))
    axes[0][0].set_ylabel("accuracy to the true Df")
    return figure


def _panel(axes: Any, records: Sequence[Record], methods: Sequence[str]) -> None:
    axes.axvline(0, color="#777777", linestyle="--", linewidth=1, zorder=1)
    for method in reversed(methods):
        point(
            axes, method, _values(records, method, "discrimination"),
            _values(records, method, "accuracy_df"), s=28, alpha=0.75, linewidths=0.4,
        )  # fmt: skip
    axes.set_xlabel("discrimination: minority − majority")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(methods))
