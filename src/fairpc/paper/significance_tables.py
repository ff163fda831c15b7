"""Tables of p-values: Wilcoxon on likelihoods, McNemar on predictions (Appendix).

Per test row, pooled over folds. In COMPAS a person has several rows, which are
not independent: the same tests clustered by person stand beside the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Final

import numpy as np

from fairpc.errors.arrays import Ints
from fairpc.metrics import TestResult, mcnemar, wilcoxon
from fairpc.paper import published
from fairpc.paper.exhibit import Claim, Exhibit, Grid, Record, p_value
from fairpc.paper.methods import DISTRIBUTIONS, METHODS
from fairpc.paper.outcome import Outcome
from fairpc.paper.sources import REAL_WORLD, TITLES, PaperTable
from fairpc.paper.study import Study

NAME: Final = "tests"
LEVEL: Final = 0.01
"""Differences with a larger p-value are called equivalent in the paper ("confidence 99%")."""
_ORDER: Final = ("2NB", "LatNB", "NLatPC", "FairPC", "Reduction", "Reweight", "FairLR")

Pairs = Mapping[tuple[str, str], tuple[float, float, float]]


def likelihood_test(
    table: PaperTable, a: list[Outcome], b: list[Outcome], *, clustered: bool = False
) -> TestResult:
    """Wilcoxon signed-rank test of the likelihoods of two methods."""
    return wilcoxon(
        np.concatenate([o.log_likelihood for o in a]),
        np.concatenate([o.log_likelihood for o in b]),
        clusters=_clusters(table, len(a)) if clustered else None,
    )


def prediction_test(
    table: PaperTable, a: list[Outcome], b: list[Outcome], *, clustered: bool = False
) -> TestResult:
    """McNemar's test of the predictions of two methods against the observed labels."""
    return mcnemar(
        table.rows.d[pooled_rows(table, len(a))],
        np.concatenate([o.predicted for o in a]),
        np.concatenate([o.predicted for o in b]),
        clusters=_clusters(table, len(a)) if clustered else None,
    )


def pooled_rows(table: PaperTable, n_folds: int) -> Ints:
    """Test rows of all folds, one fold after the other."""
    return np.concatenate([fold.test for fold in table.folds[:n_folds]])


def _clusters(table: PaperTable, n_folds: int) -> Ints | None:
    return None if table.persons is None else table.persons[pooled_rows(table, n_folds)]


def exhibit(study: Study) -> Exhibit:
    """Both tables, with the paper's p-values beside ours."""
    records = tuple(_records(study))
    tables, absent = study.real_world
    persons = any(t.persons is not None for t in tables)
    notes = (
        "Two-sided, per test row, pooled over folds. Bold: not different with confidence 99 %. "
        "In parentheses: the paper, which prints 0 where a p-value underflows.",
        "COMPAS has several rows per person; clustered by person, each counts once."
        if persons
        else "COMPAS was not clustered by person: its persons are in the raw scores only, which "
        "are read from the folder FAIRPC_DATA.",
    )
    return Exhibit(
        name=NAME,
        title="Are the differences significant? Wilcoxon on likelihoods, McNemar on predictions",
        records=records,
        grids=(
            _grid("Wilcoxon signed-rank test on held-out likelihoods", "wilcoxon", records),
            _grid("McNemar's test on predictions of the observed label", "mcnemar", records),
        ),
        notes=(*notes, *absent),
        claims=tuple(_claims(records)),
    )


def _records(study: Study) -> list[Record]:
    found: list[Record] = []
    runs = study.real_world_runs
    for table in study.real_world[0]:
        for test, names, run, theirs in (
            ("wilcoxon", DISTRIBUTIONS, likelihood_test, published.WILCOXON),
            ("mcnemar", METHODS, prediction_test, published.MCNEMAR),
        ):
            order = [m for m in _ORDER if m in names and m in study.methods]
            for a, b in combinations(order, 2):
                pair = runs[table.name, a], runs[table.name, b]
                result = run(table, *pair)
                apart = run(table, *pair, clustered=True) if table.persons is not None else None
                found.append(_record(table, test, a, b, result, apart, theirs))
    return found


def _record(
    table: PaperTable,
    test: str,
    a: str,
    b: str,
    result: TestResult,
    clustered: TestResult | None,
    theirs: Pairs,
) -> Record:
    return {
        "dataset": table.name,
        "test": test,
        "a": a,
        "b": b,
        "effect": result.effect,
        "p_value": result.p_value,
        "p_value_clustered": published.NAN if clustered is None else clustered.p_value,
        "p_value_paper": theirs[a, b][REAL_WORLD.index(table.name)],
    }


def _grid(title: str, test: str, records: tuple[Record, ...]) -> Grid:
    some = [r for r in records if r["test"] == test]
    names = list(dict.fromkeys(r["dataset"] for r in some))
    by = {(r["dataset"], r["a"], r["b"]): r for r in some}
    clustered = [
        n
        for n in names
        if any(np.isfinite(r["p_value_clustered"]) for r in some if r["dataset"] == n)
    ]
    head = ["pair"]
    for name in names:
        head += [TITLES[name]] + [f"{TITLES[name]}, clustered"] * (name in clustered)
    lines = []
    for a, b in dict.fromkeys((r["a"], r["b"]) for r in some):
        line = [f"{a} – {b}"]
        for name in names:
            r = by[name, a, b]
            line.append(f"{_marked(r['p_value'])} ({p_value(r['p_value_paper'])})")
            if name in clustered:
                line.append(_marked(r["p_value_clustered"]))
        lines.append(tuple(line))
    return Grid(tuple(head), tuple(lines), title)


def _marked(p: float) -> str:
    return f"**{p_value(p)}**" if p > LEVEL else p_value(p)


def _claims(records: tuple[Record, ...]) -> list[Claim]:
    """Whether each comparison comes out on the same side of the paper's level."""
    claims = []
    for test, words in (("wilcoxon", "likelihoods"), ("mcnemar", "predictions")):
        some = [r for r in records if r["test"] == test]
        other = [r for r in some if (r["p_value"] > LEVEL) != (r["p_value_paper"] > LEVEL)]
        listed = ", ".join(f"{TITLES[r['dataset']]} {r['a']} – {r['b']}" for r in other)
        claims.append(
            Claim(
                f"which pairs differ in their {words} (p < .01)",
                not other,
                f"{len(some) - len(other)} of {len(some)} as in the paper"
                + (f"; not so: {listed}" if other else ""),
            )
        )
    return claims
