"""Automatic selection, structure="auto", beside the paper's protocol.

The folds come from a seed of their own. They deal the rows of the real-world tables anew, some of
which were test rows when automatic selection was designed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from reproduction.criteria import LEVEL
from reproduction.distributions import FAIRPC_AUTO
from reproduction.exhibit import Exhibit, Grid, Record, Records, number, p_value, signed
from reproduction.methods import Outcome
from reproduction.runs import Study, held_out_gap
from reproduction.significance_tables import likelihood_test, prediction_test
from reproduction.sources import PaperTable, drawn, folds_in_words, title_of

SEED: Final = 20_261
"""Of folds and draws that are used here and nowhere else."""
SIZES: Final = (10, 15, 20)


def exhibit(study: Study) -> Exhibit:
    """Gain in likelihood and accuracy, with tests on fresh folds."""
    sources = replace(study.sources, splits=None, seed=SEED)
    found, absent = sources.real_world()
    sizes = SIZES[:1] if sources.quick else SIZES
    tables = [*found, *(drawn(n, SEED, sources.folds_used) for n in sizes)]
    runs = study.run(tables, ("FairPC", FAIRPC_AUTO), "automatic selection on fresh folds")
    records = Records(_record(t, runs[t.name, "FairPC"], runs[t.name, FAIRPC_AUTO]) for t in tables)
    return Exhibit(
        name="selection",
        title="Automatic selection beside the paper's protocol",
        records=records,
        grids=[_grid(records)],
        notes=(
            "FairPC with structure='auto' minus FairPC in the paper's protocol, on folds and "
            f"synthetic draws of a seed of their own. {folds_in_words(tables)}",
            "This is not a confirmation. Automatic selection was designed by looking at test rows "
            "of other folds of the real-world tables, so that their split is new and their rows "
            "are not.",
            "Likelihood: Wilcoxon signed-rank test per test row; accuracy (to the true Df on "
            "synthetic data, to the observed label elsewhere): McNemar's test; both by person "
            "where persons are known.",
            _in_words(records),
            *absent,
        ),
    )


def _record(table: PaperTable, theirs: list[Outcome], ours: list[Outcome]) -> Record:
    likelihood = likelihood_test(table, ours, theirs, clustered=True)
    predictions = prediction_test(table, ours, theirs, clustered=True)
    gap_paper, gap_auto = (
        float(np.mean([abs(held_out_gap(table, k, o)) for k, o in enumerate(outcomes)]))
        for outcomes in (theirs, ours)
    )
    return {
        "dataset": table.name,
        "log_likelihood_paper": float(np.mean([o.mean_log_likelihood for o in theirs])),
        "log_likelihood_auto": float(np.mean([o.mean_log_likelihood for o in ours])),
        "log_likelihood_gain": likelihood.effect,
        "p_log_likelihood": likelihood.p_value,
        "accuracy_gain": predictions.effect,
        "p_accuracy": predictions.p_value,
        "discrimination_paper": gap_paper,
        "discrimination_auto": gap_auto,
    }


def _grid(records: Records) -> Grid:
    lines = [
        (
            title_of(r["dataset"]),
            number(r["log_likelihood_paper"]),
            number(r["log_likelihood_auto"]),
            signed(r["log_likelihood_gain"], 4),
            p_value(r["p_log_likelihood"]),
            signed(r["accuracy_gain"], 4),
            p_value(r["p_accuracy"]),
            f"{number(r['discrimination_paper'])} → {number(r['discrimination_auto'])}",
        )
        for r in records
    ]
    head = ("table", "LL, paper's fit", "LL, selected", "gain", "p", "accuracy", "p")
    return Grid((*head, "discrimination"), lines)


def _in_words(records: Records) -> str:
    clear = [r for r in records if r["p_log_likelihood"] < LEVEL]
    better = [title_of(r["dataset"]) for r in clear if r["log_likelihood_gain"] > 0]
    worse = [title_of(r["dataset"]) for r in clear if r["log_likelihood_gain"] < 0]
    return (
        f"Likelihood significantly higher (p < {LEVEL}) on: {', '.join(better) or 'none'}; "
        f"significantly lower on: {', '.join(worse) or 'none'}."
    )
