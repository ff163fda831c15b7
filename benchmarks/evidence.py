"""Prints the numbers of docs/evidence.md and docs/benchmarks.md, part by part.

    python benchmarks/evidence.py [tables | conditioned | power | level | speed]

The published binarised tables are read from FAIRPC_PAPER_DATA, or from
../shared/data/paper beside the repository, and the persons of COMPAS from the raw
scores in FAIRPC_DATA. Power, level and speed need no data.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from adult_like import needed, paper_table
from clock import run_parts
from fairpc.evidence import AssumptionTest, identified_set, parity, test_assumptions

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mechanism = tuple[tuple[float, float], tuple[float, float]]
N_TABLES = 200
N_POWER = 100
ALTERED: Mechanism = ((0.0, 0.7), (0.3, 1.0))
"""P(D=1 | Df=0), P(D=1 | Df=1): labels are lowered in group 0 and raised in group 1."""
EXACT: Mechanism = ((0.0, 1.0), (0.0, 1.0))
"""Labels are the fair decisions."""


def scores(x: Floats, y: Ints, s: Ints) -> Floats:
    """P(D=1 | x, s) by a logistic regression per group."""
    from sklearn.linear_model import LogisticRegression

    found = np.empty(len(y))
    for g in (0, 1):
        here = s == g
        model = LogisticRegression(max_iter=1000).fit(x[here], y[here])
        found[here] = model.predict_proba(x[here])[:, 1]
    return found


def tables() -> None:
    for name in ("adult", "compas", "german"):
        table = needed(name)
        rows = table.rows
        x, y, s = rows.x.astype(np.float64), rows.d.astype(np.int64), rows.s.astype(np.int64)
        print(f"\n{table.title}: {len(y)} rows\n{parity(y, s).summary()}")
        start = time.process_time()
        found = test_assumptions(x, y, s, classifier="logistic")
        taken = time.process_time() - start
        _describe(found)
        print(f"  {found.n_seeds} seeds, logistic regression: {taken:.1f} s of one core")
        possible = identified_set(scores(x, y, s), s, ends=found.ends())
        print(f"{possible.summary()}\n{possible.picture()}")
        for row in () if possible.empty else possible.table():
            print(
                f"  group {row['group']}: P(D=1|Df=0) {row['b0_lower']:.3f} to "
                f"{row['b0_upper']:.3f}, P(D=1|Df=1) {row['b1_lower']:.3f} to {row['b1_upper']:.3f}"
            )
        if table.persons is not None:
            print(f"the same by person, of whom there are {len(np.unique(table.persons))}:")
            print(parity(y, s, clusters=table.persons).summary())
            _describe(test_assumptions(x, y, s, classifier="logistic", clusters=table.persons))


def conditioned() -> None:
    """Adult, levels of an attribute tested apart: at .975 each, so that both hold at .95."""
    rows = needed("adult").rows
    for name in ("hours-per-week", "marital-status"):
        j = list(rows.names).index(name)
        others = np.delete(rows.x, j, axis=1)
        for value in (0, 1):
            here = rows.x[:, j] == value
            found = test_assumptions(
                others[here], rows.d[here], rows.s[here], classifier="logistic", level=0.975
            )
            each = "; ".join(
                f"group {g.group} {g.lower:.3f} to {g.upper:.3f}" for g in found.groups
            )
            print(f"Adult, {name} = {value}, {here.sum()} rows: {each}; ", end="")
            print(f"{'rejected' if found.rejected else 'not rejected'}, p {found.p_value:.2g}")


def _describe(found: AssumptionTest) -> None:
    print(found.summary())
    for g in found.groups:
        cells = "; ".join(
            f"D={c.label} rate {c.rate:.3f}, top set {c.set_n:.0f} rows at {c.set_rate:.3f}"
            for c in g.classes
        )
        print(f"  group {g.group}, worth {g.effective_n:.0f} rows: ", end="")
        print(f"{g.lower:.3f} to {g.upper:.3f}; {cells}")


def shown(
    rng: np.random.Generator,
    n: int,
    pi: tuple[float, float] = (0.5, 0.5),
    clear: float = 0.4,
    mechanism: Mechanism = ALTERED,
) -> tuple[Floats, Ints, Ints]:
    """Df is shown by X in a share of the rows, next to three features of noise."""
    s = rng.integers(0, 2, n)
    f = rng.random(n) < np.array(pi)[s]
    d = rng.random(n) < np.array(mechanism)[s, f.astype(int)]
    noise = rng.random((n, 3)) < 0.5
    seen = rng.random(n) < clear
    x = np.column_stack([seen & f, seen & ~f, noise])
    return x.astype(np.float64), d.astype(np.int64), s


def power() -> None:
    print(f"share of {N_POWER} tables rejected at .05, three ways of splitting each")
    print("P(Df=1) by group | rows | Df shown in 40 % | in 10 %")
    for pi in ((0.48, 0.52), (0.45, 0.55), (0.4, 0.6), (0.3, 0.7)):
        for n in (1_000, 10_000):
            cells = " | ".join(f"{rejected(n, pi, clear):.2f}" for clear in (0.4, 0.1))
            print(f"{pi[0]}, {pi[1]} | {n} | {cells}", flush=True)


def rejected(n: int, pi: tuple[float, float], clear: float) -> float:
    """Share of tables, drawn with seeds from 0, that the test rejects."""
    drawn = (shown(np.random.default_rng(seed), n, pi, clear) for seed in range(N_POWER))
    found = [test_assumptions(*table, classifier="logistic", n_seeds=3) for table in drawn]
    return float(np.mean([test.rejected for test in found]))


def level() -> None:
    print(f"labels | rows | covered | rejected, of {N_TABLES} tables on which both ends bind")
    for name, mechanism in (("altered", ALTERED), ("exact", EXACT)):
        for n in (1_000, 10_000):
            drawn = (
                shown(np.random.default_rng(k), n, mechanism=mechanism) for k in range(N_TABLES)
            )
            found = [test_assumptions(*table, classifier="logistic") for table in drawn]
            sets = np.array([(f.lower, f.upper) for f in found])
            covered = int(((sets[:, 0] <= 0.5) & (sets[:, 1] >= 0.5)).sum())
            print(f"{name} | {n} | {covered} | {sum(f.rejected for f in found)}", flush=True)


def speed() -> None:
    print("test of the assumptions, logistic regression, 11 seeds: seconds, and those of all cores")
    n, rng = 1_000_000, np.random.default_rng(0)
    x, y, s = shown(rng, n)
    tilt = np.linspace(0.2, 1.2, 10) * (2 * y - 1)[:, None] / 2
    parts = {
        "10^6 rows, 10 continuous columns": rng.normal(size=(n, 10)) + tilt,
        "10^6 rows, 5 columns of 0 and 1": x,
    }
    for name, table in parts.items():
        start, cpu = time.perf_counter(), time.process_time()
        test_assumptions(table, y, s, classifier="logistic")
        taken = time.perf_counter() - start, time.process_time() - cpu
        print(f"    {name:34s} {taken[0]:6.1f} s {taken[1]:6.1f} s", flush=True)
    adult = paper_table("adult")
    if adult is not None:
        rows = adult.rows
        start, cpu = time.perf_counter(), time.process_time()
        test_assumptions(rows.x, rows.d, rows.s, classifier="logistic")
        taken = time.perf_counter() - start, time.process_time() - cpu
        print(f"    {'Adult, 32,561 rows':34s} {taken[0]:6.1f} s {taken[1]:6.1f} s")


PARTS = {
    "tables": tables,
    "conditioned": conditioned,
    "power": power,
    "level": level,
    "speed": speed,
}


if __name__ == "__main__":
    run_parts(PARTS)
