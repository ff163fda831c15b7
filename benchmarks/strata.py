"""Prints the numbers of docs/evidence.md about parity within strata, part by part.

    python benchmarks/strata.py [areas | coverage | kept | line | tables | cases]

The first four draw tables from processes whose mechanism is known; "tables" and "cases" read
bundled data.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clock import run_parts
from fairpc.datasets import load_adult, load_compas
from fairpc.evidence import StrataTest, compare_strata, test_assumptions
from fairpc.evidence._candidate_strata import column_strata

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
N_COVERAGE = 400
N_LINE = 400
N_AREAS = 20


@dataclass(frozen=True)
class Process:
    """Labels altered alike in all strata; fair decisions depend on the stratum alone.

    Attributes:
        mechanism: P(D=1 | Df=0), P(D=1 | Df=1) of each group; the first group is the larger.
        pi: P(Df=1 | a) of each stratum.
        shares: of the strata, by group; the same in both where it has one row.
        clear: how far a feature moves with Df, in its standard deviations.
    """

    mechanism: tuple[tuple[float, float], ...]
    pi: tuple[float, ...]
    shares: tuple[tuple[float, ...], ...]
    clear: float = 2.0

    def draw(
        self, rng: np.random.Generator, n: int, departure: float = 0.0
    ) -> tuple[Floats, Ints, Ints, Ints]:
        """Features, labels, groups and strata.

        In the last group P(Df=1 | a) departs by ± ``departure``, in turn.
        """
        s = rng.choice(len(self.mechanism), n, p=_group_shares(len(self.mechanism)))
        shares = np.broadcast_to(self.shares, (len(self.mechanism), len(self.pi)))
        a = (rng.random(n)[:, None] > np.cumsum(shares, axis=1)[s, :-1]).sum(axis=1)
        sign = np.where(np.arange(len(self.pi)) % 2 == 0, 1.0, -1.0)
        moved = departure * sign[a] * (s == len(self.mechanism) - 1)
        f = (rng.random(n) < np.array(self.pi)[a] + moved).astype(np.int64)
        x = rng.normal(size=(n, 2)) + self.clear * f[:, None] * [1.0, 0.75] + 0.3 * s[:, None]
        return x, (rng.random(n) < np.array(self.mechanism)[s, f]).astype(np.int64), s, a


def _group_shares(n_groups: int) -> Floats:
    shares = 0.8 ** np.arange(n_groups)
    return np.asarray(shares / shares.sum(), np.float64)


def even(n: int) -> tuple[tuple[float, ...], ...]:
    return ((1 / n,) * n,)


PROCESSES = {
    "two strata, strongly altered": Process(((0.1, 0.95), (0.02, 0.6)), (0.25, 0.7), even(2)),
    "three, weakly altered, uneven": Process(
        ((0.03, 0.97), (0.05, 0.9)), (0.2, 0.5, 0.8), ((0.7, 0.25, 0.05), (0.4, 0.3, 0.3))
    ),
    "four, one-sided": Process(((0.0, 1.0), (0.0, 0.7)), (0.2, 0.4, 0.6, 0.8), even(4)),
    "four, plain parity too": Process(((0.2, 0.8), (0.0, 1.0)), (0.15, 0.4, 0.6, 0.85), even(4)),
    "six, hardly different": Process(
        ((0.3, 0.9), (0.1, 0.8)), (0.48, 0.49, 0.5, 0.5, 0.51, 0.52), even(6)
    ),
    "eight, uneven, three groups": Process(
        ((0.1, 0.9), (0.05, 0.7), (0.2, 0.95)),
        (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 0.9),
        (
            (0.05, 0.1, 0.1, 0.25, 0.25, 0.1, 0.1, 0.05),
            (0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05),
            (0.125,) * 8,
        ),
    ),
}
"""For coverage."""

PARITY_TOO = {
    "raised / exact": Process(((0.2, 0.8), (0.0, 1.0)), (0.15, 0.4, 0.6, 0.85), even(4)),
    "lowered / raised": Process(((0.0, 0.7), (0.3, 1.0)), (0.1, 0.3, 0.5, 0.7), even(4)),
    "paper": Process(((0.4, 0.9), (0.1, 0.8)), (0.1, 0.35, 0.6, 0.85), even(4)),
    "strong": Process(((0.1, 0.95), (0.02, 0.6)), (0.2, 0.4, 0.6, 0.8), even(4)),
    "weak": Process(((0.05, 0.95), (0.05, 0.85)), (0.2, 0.4, 0.6, 0.8), even(4)),
}
"""Four strata that are spread alike in both groups, so that plain parity holds too."""


def tested(process: Process, n: int, seed: int) -> StrataTest:
    x, y, s, a = process.draw(np.random.default_rng([seed, n]), n)
    return test_assumptions(x, y, s, given=a, classifier="logistic", n_seeds=1)


def holds(test: StrataTest, process: Process) -> bool:
    """Whether the set has the true mechanism of every group."""
    first = process.mechanism[test.groups[0].group]
    return test.region.holds(*first) and all(
        g.b0 is not None
        and g.b1 is not None
        and g.b0[0] <= process.mechanism[g.group][0] <= g.b0[1]
        and g.b1[0] <= process.mechanism[g.group][1] <= g.b1[1]
        for g in test.groups[1:]
    )


def coverage() -> None:
    error = 2 * np.sqrt(0.95 * 0.05 / N_COVERAGE)
    print(f"process | rows | true mechanism in the set, of {N_COVERAGE} tables | rejected")
    for k, (name, process) in enumerate(PROCESSES.items()):
        n = (2000, 4000)[k % 2]
        found = [tested(process, n, 10_000 + seed) for seed in range(N_COVERAGE)]
        share = np.mean([holds(test, process) for test in found])
        rejected = np.mean([test.rejected for test in found])
        print(f"{name} | {n} | {share:.3f} | {rejected:.3f}", flush=True)
    print(f"at least {0.95 - error:.3f} is .95 less two standard errors")


def population_areas(process: Process, end: float) -> tuple[float, float]:
    """Areas of the possible (b00, b10) within strata and without, if rates were known.

    Args:
        process: of two groups.
        end: P(Df=1 | x) reaches from this to one less it.
    """
    b = np.array(process.mechanism)
    rise = b[:, 1] - b[:, 0]
    m, top = b[:, 0] + rise * end, b[:, 1] - rise * end
    slope = rise[1] / rise[0]
    start = b[1, 0] - slope * b[0, 0]
    low = max(0.0, -start / slope), min(m[0], (m[1] - start) / slope)
    high = max(top[0], (top[1] - start) / slope), min(1.0, (1 - start) / slope)
    pi = float(np.dot(process.shares[0], process.pi))
    rates = b[:, 0] + rise * pi
    b0, b1 = np.meshgrid(np.linspace(0, m[0], 801), np.linspace(top[0], 1, 801), indexing="ij")
    common = (rates[0] - b0) / (b1 - b0)
    possible = (common >= (rates[1] - m[1]) / (1 - m[1])) & (common <= rates[1] / top[1])
    return (low[1] - low[0]) * (high[1] - high[0]), m[0] * (1 - top[0]) * float(possible.mean())


def areas() -> None:
    print("four strata, plain parity holds too: area within strata, plain, ratio; if rates were")
    print(f"known (P(Df=1 | x) from .02 to .98), and the median of {N_AREAS} tables of n rows")
    for name, process in PARITY_TOO.items():
        cells = [population_areas(process, 0.02)]
        for n in (2_000, 8_000, 20_000):
            found = [tested(process, n, seed) for seed in range(N_AREAS)]
            pairs = np.array([(test.area, test.plain_area) for test in found])
            cells.append(tuple(np.median(pairs, axis=0)))
        text = " | ".join(f"{a:.4f} {b:.4f} {a / b:.2f}" for a, b in cells)
        print(f"{name} | {text}", flush=True)


def line() -> None:
    process = Process(((0.1, 0.95), (0.05, 0.6)), (0.2, 0.35, 0.5, 0.65, 0.8), even(5))
    print(f"P(Df=1 | a) departs by | share of {N_LINE} tables whose line is rejected at .05, by n")
    for departure in (0.0, 0.02, 0.05, 0.1, 0.2):
        cells = []
        for n in (1_000, 4_000, 16_000):
            found = [_line_p(process, n, seed, departure) for seed in range(N_LINE)]
            cells.append(f"{np.mean(np.array(found) < 0.05):.3f}")
        print(f"{departure} | {' | '.join(cells)}", flush=True)


def _line_p(process: Process, n: int, seed: int, departure: float) -> float:
    """The p-value of the line alone, which takes no classifier."""
    from fairpc.evidence._lines import lines, rate_variances

    _, y, s, a = process.draw(np.random.default_rng([20_000 + seed, n]), n, departure)
    cell = s * len(process.pi) + a
    rows = np.bincount(cell, minlength=2 * len(process.pi)).reshape(2, -1)
    hits = np.bincount(cell, y, rows.size).reshape(2, -1)
    found = lines(hits / rows, rate_variances(hits / rows, rows.astype(np.float64))).p_value
    if found is None:
        raise AssertionError("five strata test a line")
    return found


def kept() -> None:
    """Rates drawn around a line: how often the true one is lost, and what the limit is."""
    from scipy.stats import chi2

    from fairpc.evidence._lines import lines

    slope, start = 0.55 / 0.85, 0.05 - 0.1 * 0.55 / 0.85
    print(f"strata | P(Df=1 | a) within .5 ± | true line lost at .05, of {N_LINE} | mean limit")
    for n_strata in (3, 4, 8):
        for spread in (0.0, 0.03, 0.1, 0.3):
            rng = np.random.default_rng(n_strata)
            first = 0.1 + 0.85 * (0.5 + spread * np.linspace(-1, 1, n_strata))
            variances = rng.uniform(0.0004, 0.0016, (2, n_strata))
            lost, limits = 0, []
            for _ in range(N_LINE):
                true = np.stack([first, start + slope * first])
                rates = true + rng.normal(size=true.shape) * np.sqrt(variances)
                found = lines(rates, variances)
                gap = rates[1] - start - slope * rates[0]
                q = float((gap**2 / (variances[1] + slope**2 * variances[0])).sum())
                limits.append(np.interp(slope, found.slope, found.limit(0.05)))
                lost += int(q - found.misfit > limits[-1])
            known = f"χ² {chi2.isf(0.05, 2):.2f} to {chi2.isf(0.05, n_strata):.2f}"
            print(
                f"{n_strata} | {spread} | {lost / N_LINE:.3f} | {np.mean(limits):.2f}, {known}",
                flush=True,
            )


def tables() -> None:
    """Adult and COMPAS: the plain verdict, and each column taken as strata."""
    adult = load_adult()
    wanted = ["marital-status", "hours-per-week", "occupation", "education", "age", "workclass"]
    x = adult.X.drop("fnlwgt", "relationship")
    _describe("Adult, income > 50K by sex", x, adult.y, adult.sensitive, wanted, ">50K")
    compas = load_compas()
    two = compas.sensitive.is_in(["African-American", "Caucasian"])
    x, y, s = (part.filter(two) for part in (compas.X, compas.y, compas.sensitive))
    wanted = ["c_charge_degree", "priors_count", "age", "sex"]
    _describe("COMPAS, not charged again, two races", x, y, s, wanted, 0)


def cases() -> None:
    """Adult and COMPAS within strata that one may want to argue for: verdict and set.

    Verdicts of models fitted within the same strata belong beside these.
    """
    adult = load_adult()
    x, y, s = adult.X.drop("fnlwgt", "relationship"), adult.y, adult.sensitive
    spouse = x["marital-status"].is_in(["Married-civ-spouse", "Married-AF-spouse"]).to_numpy()
    named = {"spouse or none": np.where(spouse, "spouse", "none")}
    named |= {c: _cut(x, s, c) for c in ("marital-status", "hours-per-week", "occupation")}
    _verdicts("Adult", x, y, s, named, ">50K")
    compas = load_compas()
    two = compas.sensitive.is_in(["African-American", "Caucasian"])
    x, y, s = (part.filter(two) for part in (compas.X, compas.y, compas.sensitive))
    named = {c: _cut(x, s, c) for c in ("c_charge_degree", "priors_count")}
    _verdicts("COMPAS", x, y, s, named, 0)


def _cut(x: Any, s: Any, column: str) -> Any:
    groups = np.unique(s.to_numpy(), return_inverse=True)[1]
    return column_strata(x[column].to_numpy().astype(object), groups, 4, 20)


def _verdicts(title: str, x: Any, y: Any, s: Any, named: dict[str, Any], positive: Any) -> None:
    rows = x.to_numpy(), y.to_numpy(), s.to_numpy()
    options: dict[str, Any] = {"positive": positive, "classifier": "logistic", "n_seeds": 3}
    for name, given in named.items():
        shared = test_assumptions(*rows, given=given, **options)
        own = test_assumptions(*rows, given=given, mechanism="within", **options)
        print(f"\n{title} within {name}, {len(shared.strata)} strata")
        for kind, test in (("one mechanism", shared), ("one per stratum", own)):
            verdict = "rejected" if test.rejected else "not rejected"
            print(f"  {kind}: {verdict}, p {test.p_value:.2g}")
        print(f"  area {shared.area:.4f}, without strata {shared.plain_area:.4f}")
        for g in shared.groups:
            if g.b0 is not None and g.b1 is not None:
                b0, b1 = (f"{low:.3f} to {high:.3f}" for low, high in (g.b0, g.b1))
                print(f"  {g.group}: P(D|other) {b0}, P(D|positive) {b1}")
        clash = [str(each.stratum) for each in own.strata if each.test.rejected]
        left = [str(each.stratum) for each in own.left_out]
        print(f"  rejected by themselves: {clash}; left out: {left}", flush=True)


def _describe(title: str, x: Any, y: Any, s: Any, wanted: list[str], positive: Any) -> None:
    start = time.process_time()
    found = compare_strata(
        x,
        y.to_numpy(),
        s.to_numpy(),
        columns=wanted,
        positive=positive,
        classifier="logistic",
        n_seeds=3,
    )
    taken = time.process_time() - start
    plain = "rejected" if found.plain.rejected else "not rejected"
    print(f"\n{title}: {len(y)} rows; plain: {plain}, p {found.plain.p_value:.2g}")
    print("column | strata | least rows | verdict | p | p of the line | area | part of the mix")
    for c in found.columns:
        if c.rejected is None:
            print(f"{c.column} | {c.n_strata} | {c.smallest} | not tested: {c.why}")
            continue
        verdict = "rejected" if c.rejected else "not rejected"
        line = "" if c.line_p_value is None else f"{c.line_p_value:.2g}"
        mix = "" if c.mix is None else f"{c.mix:.2f}"
        print(
            f"{c.column} | {c.n_strata} | {c.smallest} | {verdict} | {c.p_value:.2g} | {line} | "
            f"{c.area:.4f} | {mix}"
        )
    print(f"{found.summary()}\n{taken:.1f} s of one core", flush=True)


PARTS = {
    "areas": areas,
    "coverage": coverage,
    "kept": kept,
    "line": line,
    "tables": tables,
    "cases": cases,
}


if __name__ == "__main__":
    run_parts(PARTS)
