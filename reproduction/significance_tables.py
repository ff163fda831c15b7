"""Tables of p-values: Wilcoxon on likelihoods, McNemar on predictions (Appendix).

Per test row, pooled over folds. In COMPAS a person has several rows, which are
not independent: the same tests clustered by person stand beside the paper's.
"""

from __future__ import annotations

from itertools import combinations
from math import nan
from typing import Final

import numpy as np

from fairpc.core import Ints
from reproduction import criteria
from reproduction.criteria import LEVEL, Criterion
from reproduction.exhibit import Claim, Exhibit, Grid, Record, Records, p_value
from reproduction.methods import FAIR_CLASSIFIERS, Outcome
from reproduction.runs import Study
from reproduction.significance import TestResult, mcnemar, wilcoxon
from reproduction.sources import REAL_WORLD, TITLES, PaperTable

# Table "Pairwise Wilcoxon test p-values for test log-likelihoods"; 0 is printed 0.00E+00.
WILCOXON: Final[dict[tuple[str, str], tuple[float, float, float]]] = {
    ("2NB", "LatNB"): (9.08e-2, 0.0, 5.53e-8),
    ("2NB", "NLatPC"): (0.0, 0.0, 4.27e-37),
    ("2NB", "FairPC"): (0.0, 0.0, 1.53e-36),
    ("LatNB", "NLatPC"): (0.0, 0.0, 6.05e-19),
    ("LatNB", "FairPC"): (0.0, 0.0, 9.03e-23),
    ("NLatPC", "FairPC"): (1.42e-302, 0.0, 3.34e-1),
}

# Table "Pairwise McNemar's test p-values for test prediction accuracy": COMPAS, Adult, German.
MCNEMAR: Final[dict[tuple[str, str], tuple[float, float, float]]] = {
    ("2NB", "LatNB"): (7.031e-2, 0.0, 1.810e-17),
    ("2NB", "NLatPC"): (3.205e-1, 1.438e-5, 8.299e-1),
    ("2NB", "FairPC"): (7.049e-2, 3.830e-1, 2.444e-6),
    ("2NB", "Reduction"): (6.489e-2, 2.099e-1, 3.347e-2),
    ("2NB", "Reweight"): (7.339e-2, 2.516e-30, 4.678e-3),
    ("2NB", "FairLR"): (5.207e-1, 2.431e-50, 8.730e-3),
    ("LatNB", "NLatPC"): (3.497e-2, 0.0, 3.158e-15),
    ("LatNB", "FairPC"): (9.547e-1, 0.0, 1.904e-8),
    ("LatNB", "Reduction"): (4.921e-1, 0.0, 8.699e-19),
    ("LatNB", "Reweight"): (5.628e-1, 0.0, 1.094e-19),
    ("LatNB", "FairLR"): (8.014e-2, 0.0, 2.806e-20),
    ("NLatPC", "FairPC"): (2.060e-2, 2.775e-20, 1.688e-6),
    ("NLatPC", "Reduction"): (6.854e-5, 1.486e-21, 4.108e-2),
    ("NLatPC", "Reweight"): (1.009e-4, 2.101e-60, 7.096e-3),
    ("NLatPC", "FairLR"): (7.791e-1, 1.017e-104, 1.911e-2),
    ("FairPC", "Reduction"): (4.710e-1, 5.240e-1, 4.913e-9),
    ("FairPC", "Reweight"): (5.478e-1, 8.664e-34, 5.139e-10),
    ("FairPC", "FairLR"): (6.730e-2, 1.560e-59, 6.094e-10),
    ("Reduction", "Reweight"): (6.392e-1, 5.095e-29, 1.060e-1),
    ("Reduction", "FairLR"): (7.083e-4, 1.574e-65, 4.458e-1),
    ("Reweight", "FairLR"): (8.349e-4, 1.338e-11, 6.115e-1),
}


def likelihood_test(
    table: PaperTable, a: list[Outcome], b: list[Outcome], *, clustered: bool = False
) -> TestResult:
    """Wilcoxon signed-rank test of the likelihoods of two methods."""
    one, two = (np.concatenate([o.log_likelihood for o in each]) for each in (a, b))
    return wilcoxon(one, two, clusters=_clusters(table, len(a)) if clustered else None)


def prediction_test(
    table: PaperTable, a: list[Outcome], b: list[Outcome], *, clustered: bool = False
) -> TestResult:
    """McNemar's test of the predictions of two methods: against the true Df, or else the label."""
    truth = table.decisions[pooled_rows(table, len(a))]
    one, two = (np.concatenate([o.predicted for o in each]) for each in (a, b))
    return mcnemar(truth, one, two, clusters=_clusters(table, len(a)) if clustered else None)


def pooled_rows(table: PaperTable, n_folds: int) -> Ints:
    """Test rows of all folds, one fold after the other."""
    return np.concatenate([fold.test for fold in table.folds[:n_folds]])


def _clusters(table: PaperTable, n_folds: int) -> Ints | None:
    return None if table.persons is None else table.persons[pooled_rows(table, n_folds)]


def exhibit(study: Study) -> Exhibit:
    """Both tables, with the paper's p-values beside ours."""
    tables, absent = study.real_world
    records = Records(record for table in tables for record in _records(study, table))
    return Exhibit(
        name="tests",
        title="Are the differences significant? Wilcoxon on likelihoods, McNemar on predictions",
        records=records,
        grids=[
            _grid("Wilcoxon signed-rank test on held-out likelihoods", "wilcoxon", records),
            _grid("McNemar's test on predictions of the observed label", "mcnemar", records),
        ],
        notes=(
            "Two-sided, per test row, pooled over folds. Bold: not different with confidence 99 %. "
            "In parentheses: the paper, which prints 0 where a p-value underflows.",
            "COMPAS has several rows per person; clustered by person, each counts once."
            if any(t.persons is not None for t in tables)
            else "COMPAS was not clustered by person: its persons are in the raw scores only, "
            "which are read from the folder FAIRPC_DATA.",
            *absent,
        ),
        claims=[
            _claim("wilcoxon", criteria.PAIRS_LIKELIHOOD, records),
            _claim("mcnemar", criteria.PAIRS_PREDICTIONS, records),
            *(_noise(study, table) for table in tables if table.name == "german"),
        ],
    )


def _records(study: Study, table: PaperTable) -> list[Record]:
    found: list[Record] = []
    for name, test, printed in (
        ("wilcoxon", likelihood_test, WILCOXON),
        ("mcnemar", prediction_test, MCNEMAR),
    ):
        for (a, b), theirs in printed.items():
            pair = [study.real_world_runs[table.name, method] for method in (a, b)]
            ours, by_person = test(table, *pair), nan
            if table.persons is not None:
                by_person = test(table, *pair, clustered=True).p_value
            found.append(
                {
                    "dataset": table.name,
                    "test": name,
                    "a": a,
                    "b": b,
                    "effect": ours.effect,
                    "p_value": ours.p_value,
                    "p_value_clustered": by_person,
                    "p_value_paper": theirs[REAL_WORLD.index(table.name)],
                }
            )
    return found


def _grid(title: str, test: str, records: Records) -> Grid:
    some = records.where(test=test)
    heads = ["pair"]
    lines: dict[str, list[str]] = {}
    for name in dict.fromkeys(r["dataset"] for r in some):
        mine = some.where(dataset=name)
        clustered = any(np.isfinite(r["p_value_clustered"]) for r in mine)
        heads += [TITLES[name]] + [f"{TITLES[name]}, clustered"] * clustered
        for r in mine:
            pair = f"{r['a']} – {r['b']}"
            line = lines.setdefault(pair, [pair])
            line.append(f"{_marked(r['p_value'])} ({p_value(r['p_value_paper'])})")
            if clustered:
                line.append(_marked(r["p_value_clustered"]))
    return Grid(tuple(heads), list(lines.values()), title)


def _marked(p: float) -> str:
    return f"**{p_value(p)}**" if p > LEVEL else p_value(p)


def _claim(test: str, criterion: Criterion, records: Records) -> Claim:
    """Whether each comparison comes out on the same side of the paper's level."""
    some = records.where(test=test)
    other = [r for r in some if (r["p_value"] > LEVEL) != (r["p_value_paper"] > LEVEL)]
    listed = ", ".join(f"{TITLES[r['dataset']]} {r['a']} – {r['b']}" for r in other)
    return Claim(
        criterion,
        not other,
        f"{len(some) - len(other)} of {len(some)} as in the paper"
        + (f"; not so: {listed}" if other else ""),
    )


def _noise(study: Study, table: PaperTable) -> Claim:
    """Whether German tells any two of the methods of the trade-off apart."""
    pairs = list(combinations(("FairPC", *FAIR_CLASSIFIERS, "LR", "Rand"), 2))
    runs = study.real_world_runs
    p_values = [
        prediction_test(table, *(runs[table.name, method] for method in pair)).p_value
        for pair in pairs
    ]
    clear = sum(p < LEVEL for p in p_values)
    least = pairs[int(np.argmin(p_values))]
    words = f"{clear} of {len(pairs)} pairs differ; {' – '.join(least)} {p_value(min(p_values))}"
    return Claim(criteria.GERMAN_NOISE, clear == 0, words)
