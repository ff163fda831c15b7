"""Prints the numbers of docs/evidence.md: the published tables, then power and level.

    python benchmarks/evidence.py [tables | power | level | monitor | speed]

The published binarised tables are read from FAIRPC_PAPER_DATA, or from
../shared/data/paper beside the repository. Power, level and monitor need no data.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import numpy.typing as npt

from adult_like import paper_data
from fairpc.evidence import ParityMonitor, identified_set, parity, test_assumptions

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
TABLES = {
    "Adult": ("adult", "target", "sex"),
    "COMPAS": ("compas", "ScoreText_", "Ethnic_Code_Text_"),
    "German": ("german", "loan_status", "sex"),
}
SEEDS = 20


def read(file: str, label: str, group: str) -> tuple[Floats, Ints, Ints]:
    folder = paper_data()
    if folder is None:
        sys.exit("the published tables are not here: set FAIRPC_PAPER_DATA to their folder")
    path = folder / "processed" / f"{file}_binerized.csv"
    names = path.read_text().split("\n", 1)[0].strip().split(",")
    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64)
    features = [j for j, name in enumerate(names) if name not in (label, group)]
    x = table[:, features].astype(np.float64)
    return x, table[:, names.index(label)], table[:, names.index(group)]


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
    for name, (file, label, group) in TABLES.items():
        x, y, s = read(file, label, group)
        print(f"\n{name}: {len(y)} rows\n{parity(y, s).summary()}")
        start = time.perf_counter()
        found = test_assumptions(x, y, s, classifier="logistic")
        taken = time.perf_counter() - start
        print(found.summary())
        for g in found.groups:
            cells = "; ".join(
                f"D={c.label} rate {c.rate:.3f}, top set {c.set_n:.0f} rows at {c.set_rate:.3f}"
                for c in g.classes
            )
            print(f"  group {g.group}: {g.lower:.3f} to {g.upper:.3f}; {cells}")
        print(f"  {found.n_seeds} seeds, logistic regression: {taken:.1f} s")
        possible = identified_set(scores(x, y, s), s, ends=found.ends())
        print(f"{possible.summary()}\n{possible.picture()}")
        for row in () if possible.empty else possible.table():
            print(
                f"  group {row['group']}: P(D=1|Df=0) {row['b0_lower']:.3f} to "
                f"{row['b0_upper']:.3f}, P(D=1|Df=1) {row['b1_lower']:.3f} to {row['b1_upper']:.3f}"
            )


def shown(
    rng: np.random.Generator, n: int, pi: tuple[float, float], clear: float
) -> tuple[Floats, Ints, Ints]:
    """Df is shown by X in a share of the rows; labels are lowered in group 0, raised in group 1."""
    s = rng.integers(0, 2, n)
    f = rng.random(n) < np.array(pi)[s]
    d = rng.random(n) < np.array([[0.0, 0.7], [0.3, 1.0]])[s, f.astype(int)]
    noise = rng.random((n, 3)) < 0.5
    seen = rng.random(n) < clear
    x = np.column_stack([seen & f, seen & ~f, noise])
    return x.astype(np.float64), d.astype(np.int64), s


def rejections(n: int, pi: tuple[float, float], clear: float) -> float:
    """Share of SEEDS tables on which the test with one seed rejects."""
    found = [
        test_assumptions(
            *shown(np.random.default_rng(seed), n, pi, clear),
            classifier="logistic",
            n_seeds=1,
        ).rejected
        for seed in range(SEEDS)
    ]
    return float(np.mean(found))


def power() -> None:
    print("P(Df=1) by group | rows | Df shown in 40 % | in 10 %")
    for pi in ((0.5, 0.5), (0.48, 0.52), (0.45, 0.55), (0.4, 0.6)):
        for n in (1_000, 10_000):
            cells = [f"{rejections(n, pi, clear):.2f}" for clear in (0.4, 0.1)]
            print(f"{pi[0]}, {pi[1]} | {n} | {' | '.join(cells)}", flush=True)


def level() -> None:
    print("rows | covered | rejected, of 200 tables on which both ends bind")
    for n in (1_000, 10_000):
        found = [
            test_assumptions(
                *shown(np.random.default_rng(seed), n, (0.5, 0.5), 0.4), classifier="logistic"
            )
            for seed in range(200)
        ]
        sets = np.array([(f.lower, f.upper) for f in found])
        covered = int(((sets[:, 0] <= 0.5) & (sets[:, 1] >= 0.5)).sum())
        print(f"{n} | {covered} | {sum(f.rejected for f in found)}", flush=True)


def monitor() -> None:
    print("method | half-width after 1,000 and 10,000 rows, two groups, rates .3")
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 10_000)
    x = (rng.random(10_000) < 0.3).astype(float)
    for method in ("mixture", "betting"):
        watch = ParityMonitor([0, 1], method=method)
        halves = []
        for part in (slice(0, 1_000), slice(1_000, None)):
            (gap,) = watch.update(x[part], s[part])
            halves.append((gap.interval[1] - gap.interval[0]) / 2)
        print(f"{method} | {halves[0]:.3f} | {halves[1]:.3f}")
    fixed = [parity(x[:n], s[:n]).difference_interval for n in (1_000, 10_000)]
    print("one look only | " + " | ".join(f"{(b - a) / 2:.3f}" for a, b in fixed))


def speed() -> None:
    rng = np.random.default_rng(0)
    x, y, s = shown(rng, 1_000_000, (0.5, 0.5), 0.4)
    for name, table in (("0/1 features", x), ("continuous", x + 0.1 * rng.random(x.shape))):
        start = time.perf_counter()
        test_assumptions(table, y, s, classifier="logistic")
        print(f"1,000,000 rows, {name}, logistic, 11 seeds: {time.perf_counter() - start:.1f} s")


def main() -> None:
    parts = {"tables": tables, "power": power, "level": level, "monitor": monitor, "speed": speed}
    wanted = sys.argv[1:] or list(parts)
    for name in wanted:
        if name not in parts:
            sys.exit(f"{name!r} is no part: give some of {', '.join(parts)}")
        parts[name]()


if __name__ == "__main__":
    main()
