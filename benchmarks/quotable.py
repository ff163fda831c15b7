"""Do ranges cover and tests keep their size? Draws of eight processes whose truth is known.

    python benchmarks/quotable.py [coverage | power | tests | failing] [--draws N]

A row has one feature of ten values. Cross-fitted rates of its values are the scores, so that a draw
takes milliseconds; ``tests`` runs the test with its own classifiers instead. ``failing`` fits real
tables whose injected bias breaks one assumption (``failing.py``), and reads the test of the fit.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from failing import FAILURES, TABLES as FAILING_TABLES, inject_failing
from fairpc import LatentDecision
from fairpc.evidence import StratumBounds, WithinBounds, label_bounds, test_assumptions
from injected_bias import FAVOURED, MECHANISMS, OTHER, Rows

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mechanism = tuple[tuple[float, float], ...]
LEVEL = 0.95
FOLDS = 5
_YES = {True: "yes", False: "no"}


def mechanism(name: str) -> Mechanism:
    return tuple(MECHANISMS[name][group] for group in (FAVOURED, OTHER))


@dataclass(frozen=True)
class Process:
    """P(Df=1 | s), the mechanism of each group, and how rows are drawn; per stratum if several."""

    mechanism: Mechanism
    pi: tuple[float, ...] = (0.4, 0.4)
    share: tuple[float, ...] = (0.5, 0.5)  #: of the groups
    n: int = 4_000
    clear: float = 0.1  #: share of rows whose feature shows Df itself
    strata: int = 1  #: π is .1 lower in each further one, which has a mechanism of its own

    def cells(self, pi: float) -> Floats:
        """P(feature, Df=1) and P(feature, Df=0), [value, f]: eight steps of log-odds, two clear."""
        lean = np.exp(np.linspace(-2.5, 2.5, 8))
        given = np.column_stack([1 / (1 + lean), lean / (1 + lean)])
        given *= (1 - self.clear) / given.sum(axis=0)
        shown = np.diag([self.clear, self.clear])
        return np.asarray(np.vstack([given, shown]) * np.array([1 - pi, pi]), np.float64)

    def own(self, a: int) -> tuple[Floats, Floats]:
        """P(Df=1 | s) and the mechanism [s, f] of one stratum."""
        b = np.array(self.mechanism)
        return np.array(self.pi) - 0.1 * a, b[::-1] if a % 2 else b

    def ends(self, a: int = 0) -> Floats:
        """L and U of each group in the population, [s, end]."""
        found = []
        for pi, b in zip(*self.own(a), strict=True):
            cells = self.cells(pi)
            r = cells @ b / cells.sum(axis=1)
            rate = float(cells.sum(axis=0) @ b)
            found.append(((rate - r.min()) / (1 - r.min()), rate / r.max()))
        return np.array(found)

    def least_difference(self) -> float:
        ends = self.ends()
        pairs = ends[:, None, 0] - ends[None, :, 1]
        return max(float(pairs[~np.eye(len(ends), dtype=bool)].max()), 0.0)

    def draw(self, rng: np.random.Generator) -> tuple[Ints, Ints, Ints, Ints]:
        """Feature, label, group and stratum of each row."""
        s = rng.choice(len(self.share), self.n, p=self.share)
        a = rng.integers(0, self.strata, self.n)
        x, d = np.empty((2, self.n), np.int64)
        for k in range(self.strata):
            for g, (pi, b) in enumerate(zip(*self.own(k), strict=True)):
                here = np.flatnonzero((s == g) & (a == k))
                cell = rng.choice(20, len(here), p=self.cells(pi).ravel())
                x[here] = cell // 2
                d[here] = rng.random(len(here)) < b[cell % 2]
        return x, d, s, a


def bounds(process: Process, seed: int) -> StratumBounds | WithinBounds:
    """What one cross-fit of one draw leaves possible."""
    rng = np.random.default_rng(seed)
    x, d, s, a = process.draw(rng)
    folds, cell = rng.integers(0, FOLDS, len(x)), (s * process.strata + a) * 10 + x
    scores = np.empty(len(x))
    for k in range(FOLDS):
        rest = folds != k
        n, hits = (np.bincount(cell[rest], w, cell.max() + 1) for w in (None, d[rest]))
        scores[~rest] = ((hits + d.mean()) / (n + 1))[cell[~rest]]
    names = tuple(range(len(process.share)))
    strata: dict[str, Any] = {"strata": a, "n_strata": process.strata}
    found = label_bounds(d, scores, s, folds, names, **(strata if process.strata > 1 else {}))
    assert isinstance(found, StratumBounds | WithinBounds)
    return found


PROCESSES = {
    "paper": Process(mechanism("paper")),
    "strong": Process(mechanism("strong")),
    "mild": Process(mechanism("mild")),
    "one-sided": Process(mechanism("one-sided")),
    "rare, .05": Process(mechanism("mild"), pi=(0.05, 0.05)),
    "groups 9:1": Process(mechanism("strong"), share=(0.9, 0.1)),
    "three groups": Process(
        (*mechanism("strong"), (0.05, 0.8)), pi=(0.4,) * 3, share=(0.4, 0.3, 0.3)
    ),
    "three strata": Process(mechanism("strong"), n=12_000, strata=3),
}
NULLS = {
    "one pair binds": Process(((0.0, 0.7), (0.3, 1.0)), pi=(0.5, 0.5), clear=0.4),
    "every end binds": Process(((0.0, 1.0), (0.0, 1.0)), clear=0.4),
    "three, all bind": Process(((0.0, 1.0),) * 3, pi=(0.4,) * 3, share=(1 / 3,) * 3, clear=0.4),
    "rare, all bind": Process(((0.0, 1.0),) * 2, pi=(0.05, 0.05), clear=0.4),
    "9:1, all bind": Process(((0.0, 1.0),) * 2, share=(0.9, 0.1), clear=0.4),
}
"""Equal fair rates with ends of the groups that meet: where a test rejects most easily."""


def apart(process: Process, gap: float) -> Process:
    """The same with a fair rate of the first group that is larger by the gap."""
    pi = np.array(process.pi)
    pi[0] += gap / 2
    pi[1:] -= gap / 2
    return replace(process, pi=tuple(pi.tolist()))


def coverage(draws: int) -> None:
    print(
        f"Coverage at {LEVEL} of {draws} draws; of the entries of the mechanism, the least covered"
    )
    head = (
        "fair rate",
        "each entry",
        "all entries",
        "width",
        "at any n",
        "score",
        "width",
        "rejected",
    )
    moved = "each entry", "all", "δ*", "largest"
    print(f"{'':13} | {' | '.join(head)} || {' | '.join(moved)} (fair rates differ, delta=gap)")
    for name, process in PROCESSES.items():
        cells = [one_draw(process, bounds(process, seed)) for seed in range(draws)]
        gap = 0.04 if "rare" in name else 0.1
        other = apart(process, gap)
        others = [differing(other, gap, bounds(other, seed)) for seed in range(draws)]
        columns = zip((*head, *moved), (*_means(cells), *_means(others)), strict=True)
        print(f"{name:13} | " + " | ".join(f"{v:{len(n)}.3f}" for n, v in columns), flush=True)


def _means(cells: list[dict[str, Any]]) -> list[float]:
    """Means over draws that were not rejected; of several entries the least."""
    columns = ([cell[key] for cell in cells] for key in cells[0])
    return [float(np.min(np.nanmean(column, axis=0))) for column in columns]


def one_draw(process: Process, found: StratumBounds | WithinBounds) -> dict[str, Any]:
    rows = range(process.strata)
    share = np.outer(process.share, np.full(process.strata, 1 / process.strata))
    rates = [process.own(a)[0] for a in rows]
    truth = np.stack([process.own(a)[1] for a in rows], axis=1)  # [s, a, f]
    low, high = found.rate_set(LEVEL, share)
    ranges = found.mechanism_range(LEVEL).reshape(*truth.shape, 2)
    inside = (ranges[..., 0] <= truth) & (truth <= ranges[..., 1])
    covered, wide = score_coverage(process, found)
    return {
        "fair rate": float(low <= np.mean([r[0] for r in rates]) <= high),
        "entries": inside.reshape(-1).astype(float),
        "all": float(inside.all()),
        "width": float(np.ptp(ranges, axis=-1).mean()),
        "population": population_width(process),
        "scores": covered,
        "score width": wide,
        "rejected": float(bool(found.rejected(LEVEL))),
    }


def score_coverage(process: Process, found: StratumBounds | WithinBounds) -> tuple[float, float]:
    """Share of rows whose P(Df=1 | x, s) is covered at the true P(D=1 | x, s), and mean width."""
    covered = wide = 0.0
    for a in range(process.strata):
        for s, (pi, b) in enumerate(zip(*process.own(a), strict=True)):
            cells = process.cells(pi)
            q = cells[:, 1] / cells.sum(axis=1)
            r, at = b[0] + (b[1] - b[0]) * q, np.full(10, s)
            low, high = found.score_bounds(r, r, at, LEVEL, np.full(10, a))
            weight = cells.sum(axis=1) * process.share[s] / process.strata
            covered += float(weight @ ((low <= q + 1e-9) & (q <= high + 1e-9)))
            wide += float(weight @ (high - low))
    return covered, wide


def population_width(process: Process) -> float:
    """Mean width of the mechanism's entries that no number of rows could narrow."""
    widths = []
    for a in range(process.strata):
        lower, upper = process.ends(a)[:, 0].max(), process.ends(a)[:, 1].min()
        for pi, b in zip(*process.own(a), strict=True):
            cells = process.cells(pi)
            r, rate = cells @ b / cells.sum(axis=1), float(cells.sum(axis=0) @ b)
            m, top = r.min(), r.max()
            b1 = max(top, m + (rate - m) / upper), min(1.0, rate / lower)
            b0 = max(0.0, (rate - upper) / (1 - upper)), min(m, (rate - lower * top) / (1 - lower))
            widths += [b1[1] - b1[0], b0[1] - b0[0]]
    return max(float(np.mean(widths)), 0.0)


def differing(process: Process, gap: float, found: StratumBounds | WithinBounds) -> dict[str, Any]:
    truth = np.stack([process.own(a)[1] for a in range(process.strata)], axis=1)
    ranges = found.with_delta(gap).mechanism_range(LEVEL).reshape(*truth.shape, 2)
    inside = (ranges[..., 0] <= truth) & (truth <= ranges[..., 1])
    each = [found] if isinstance(found, StratumBounds) else [f for f in found.strata if f]
    level = 1 - (1 - LEVEL) / len(each)
    tested = [own.differences(level) for own in each]
    return {
        "entries": inside.reshape(-1).astype(float),
        "all": float(inside.all()),
        "least": float(tested[0].least().limit <= process.least_difference() + 1e-9),
        "most": float(tested[0].most() >= gap - 1e-9),
    }


def power(draws: int) -> None:
    print(
        f"Rejected at {1 - LEVEL:.2f} of {draws} draws, one cross-fit: by overlap | directly | said"
    )
    for name, process in NULLS.items():
        print(f"null, {name:29} | " + _rates(process, draws), flush=True)
    for name in ("one pair binds", "every end binds", "three, all bind"):
        for gap, n in ((0.05, 4_000), (0.1, 1_000), (0.1, 4_000), (0.2, 1_000)):
            moved = replace(apart(NULLS[name], -gap), n=n)
            size = f"δ* {moved.least_difference():.2f}, {n} rows"
            print(f"{name}, {size:18} | {_rates(moved, draws)}", flush=True)
    for name in ("strong", "mild", "one-sided"):
        moved = apart(PROCESSES[name], 0.2)
        size = f"δ* {moved.least_difference():.2f}, {moved.n} rows"
        print(f"{name:15}, {size:18} | {_rates(moved, draws)}", flush=True)


def _rates(process: Process, draws: int) -> str:
    found = [bounds(process, seed) for seed in range(draws)]
    before = np.mean([np.greater(*own.rate_set(LEVEL)) for own in found])
    after = np.mean([own.rejected(LEVEL) for own in found])
    said = [
        own.differences(LEVEL).least().noticed(process.least_difference())
        for own in found
        if isinstance(own, StratumBounds)
    ]
    return f"{before:.3f} | {after:.3f} | {np.median(said):.2f}"


def tests(draws: int) -> None:
    print(f"Rejected of {draws} draws by test_assumptions, three seeds: by overlap | directly")
    cases = {f"null, {name}": process for name, process in NULLS.items()}
    for name in ("one pair binds", "every end binds"):
        cases[f"{name}, δ* .10"] = replace(apart(NULLS[name], -0.1), n=1_000)
    for name, process in cases.items():
        found = []
        for seed in range(draws):
            x, d, s, _ = process.draw(np.random.default_rng(seed))
            found.append(test_assumptions(np.eye(10)[x], d, s, classifier="logistic", n_seeds=3))
        before = np.mean([test.lower > test.upper for test in found])
        print(f"{name:24} | {before:.3f} | {np.mean([t.rejected for t in found]):.3f}", flush=True)


def _tested(rows: Rows) -> tuple[bool, bool, float]:
    """Whether a fit notices by overlap and directly, and the limit of the least difference."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LatentDecision(positive=1, random_state=0)
        seen = rows if rows.seen is None else rows.take(np.flatnonzero(rows.seen))
        model.fit(seen.x, seen.d, sensitive_features=seen.s)
    found = model.label_ends_
    assert isinstance(found, StratumBounds)
    apart = bool(np.greater(*found.rate_set(LEVEL)))
    return apart, found.rejected(LEVEL), found.differences(LEVEL).least().limit


def failing(draws: int) -> None:
    """One fit a cell: the fit's own test on real tables in which an assumption fails."""
    print(f"{'table':8}{'what fails':12}{'size':6}", end="")
    print("| 4,000 rows: by overlap, directly, least | 16,000 rows")
    noticed = np.zeros((2, 2), int)
    for table, failure in product(FAILING_TABLES, FAILURES):
        for size in FAILURES[failure]:
            rows = inject_failing(table, "strong", failure, size)
            cells = []
            for k, n in enumerate((4_000, 16_000)):
                some = rows.take(np.arange(min(n, len(rows))))
                cells.append(_tested(some))
                noticed[k] += [cells[-1][0], cells[-1][1]]
            said = " | ".join(f"{_YES[a]:4}{_YES[b]:4}{limit:.3f}" for a, b, limit in cells)
            print(f"{table:8}{failure:12}{size:<6g}| {said}", flush=True)
    for size_words, (before, after) in zip(("4,000", "16,000"), noticed.tolist(), strict=True):
        print(f"{size_words} rows: noticed in {before} cells by overlap, in {after} directly")


if __name__ == "__main__":
    parts = {"coverage": coverage, "power": power, "tests": tests, "failing": failing}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=parts)
    parser.add_argument("--draws", type=int, default=400)
    given = parser.parse_args()
    for name, part in parts.items():
        if given.part in (None, name):
            part(given.draws)
