"""Prints the numbers of the sections on refits in docs/evidence.md, part by part.

    python benchmarks/refits.py [intervals | stability | sensitivity | coverage | scores | anchors |
                                 speed]

The published binarised tables are read from FAIRPC_PAPER_DATA, or from
../shared/data/paper beside the repository. Coverage needs no data, and much time; so do scores,
which is the coverage of a LatentDecision.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from adult_like import paper_data
from fairpc import (
    FairPC,
    LatentDecision,
    bootstrap_mechanism,
    sensitivity,
    stability,
    suggest_anchors,
)
from fairpc.datasets import make_synthetic
from fairpc.datasets.synthetic import FAIR_RATE, MECHANISM
from fairpc.estimators.classifiers import TableClassifier
from fairpc.evidence import test_assumptions
from fairpc.paper.sources import Sources

TABLES = ("adult", "compas", "german")
N_SETS = 60
FIRST_SEED = 100  # tables of earlier seeds chose the estimator
N_ROWS = 5_000

Table = tuple[npt.NDArray[np.int16], npt.NDArray[np.int16], npt.NDArray[np.int16]]


def published(name: str) -> Table:
    folder = paper_data()
    if folder is None:
        sys.exit("the published tables are not here: set FAIRPC_PAPER_DATA to their folder")
    rows = Sources(folder).table(name).rows
    return rows.x, rows.d, rows.s


def fitted(name: str) -> tuple[FairPC, Table]:
    x, y, s = published(name)
    return FairPC(random_state=0).fit(x, y, sensitive_features=s), (x, y, s)


def intervals() -> None:
    for name in TABLES:
        model, (x, y, s) = fitted(name)
        test = test_assumptions(x, y, s, classifier="logistic")
        found = bootstrap_mechanism(
            model, x, y, sensitive_features=s, assumptions=test, random_state=0
        )
        print(f"{name}: {found.summary()}\n", flush=True)


def spread() -> None:
    for name in TABLES:
        model, (x, y, s) = fitted(name)
        found = stability(model, x, y, sensitive_features=s, random_state=0)
        print(f"{name}: {found.summary()}\n", flush=True)


def bent() -> None:
    for name in TABLES:
        model, (x, y, s) = fitted(name)
        print(f"{name}: {sensitivity(model, x, y, sensitive_features=s).summary()}\n", flush=True)


def coverage() -> None:
    count_hits(lambda seed: FairPC(random_state=seed))


def coverage_of_scores() -> None:
    count_hits(lambda seed: LatentDecision(TableClassifier("logistic"), random_state=seed))


def count_hits(model_of: Callable[[int], Any]) -> None:
    """How often 95 % intervals contain the truth of the paper's synthetic process."""
    truth = np.append(np.array(MECHANISM).ravel(), FAIR_RATE)
    hits, errors, sds, sets = [], [], [], []
    for seed in range(FIRST_SEED, FIRST_SEED + N_SETS):
        data = make_synthetic(10, N_ROWS, random_state=seed)
        x, y, s = data.X, data.y, data.sensitive
        test = test_assumptions(x, y, s, classifier="logistic", n_seeds=1)
        model = model_of(seed).fit(x, y, sensitive_features=s)
        found = bootstrap_mechanism(
            model,
            x,
            y,
            sensitive_features=s,
            assumptions=test,
            n_replicates=50,
            random_state=seed,
        )
        if found.refused:
            print(f"{seed}: {found.refused}", flush=True)
            continue
        values, low, high, sd = (
            np.append(a[..., 1].ravel(), b[1])
            for a, b in (
                (found.mechanism, found.fair_rate),
                (found.lower, found.fair_rate_lower),
                (found.upper, found.fair_rate_upper),
                (found.sd, found.fair_rate_sd),
            )
        )
        hits.append((low <= truth) & (truth <= high))
        errors.append(values - truth)
        sds.append(sd)
        if isinstance(model, LatentDecision):
            least, most = model.fair_rate_set_
            sets.append(least <= FAIR_RATE <= most)
        print(f"{seed}: {hits[-1].astype(int)} {errors[-1].round(3)} {sd.round(3)}", flush=True)
    print(f"{len(hits)} tables; P(D=1 | f, s) for (s, f) = 00 01 10 11, then P(Df=1)")
    print("coverage", np.mean(hits, axis=0).round(3), "all", np.mean(hits).round(3))
    print("bias", np.mean(errors, axis=0).round(4))
    print("sd of estimates", np.std(errors, axis=0, ddof=1).round(4))
    print("mean standard error", np.mean(sds, axis=0).round(4))
    if sets:
        print("sets of P(Df=1) that contain it", np.mean(sets).round(3))


def reviewed_rows() -> None:
    """Mean width of the bounds of scores before and after 200 of 3,000 rows are reviewed."""
    bent = np.array([[0.10, 0.95], [0.05, 0.60]])
    for rate in (0.5, 0.15):
        found = [_widths(rate, bent, seed) for seed in range(3)]
        before, suggested, random = np.mean(found, axis=0)
        print(
            f"P(Df = 1) = {rate}: {before:.3f}, suggested rows {suggested:.3f}, random ones "
            f"{random:.3f}",
            flush=True,
        )


def _widths(rate: float, bent: npt.NDArray[np.float64], seed: int) -> tuple[float, float, float]:
    rng = np.random.default_rng(seed)
    s, f = rng.integers(0, 2, 3000), (rng.random(3000) < rate).astype(int)
    x = rng.normal(size=(3000, 2)) + f[:, None] * np.array([1.2, 0.8])
    d = (rng.random(3000) < bent[s, f]).astype(int)

    def model(rows: Any) -> LatentDecision:
        known = np.full(3000, None, object)
        known[rows] = f[rows]
        made = LatentDecision(
            TableClassifier("logistic"), sensitive_estimator=False, random_state=0
        )
        return made.fit(x, d, sensitive_features=s, fair_labels=known)

    def width(fitted: LatentDecision) -> float:
        r = fitted.predict_observed_proba(x, sensitive_features=s)[:, 1]
        low, high = fitted._ends().score_bounds(r, r, s.astype(np.intp), 0.95)
        return float((high - low).mean())

    plain = model([])
    plan = suggest_anchors(plain, x, d, 200, sensitive_features=s)
    random = [width(model(rng.choice(3000, 200, replace=False))) for _ in range(3)]
    return width(plain), width(model(plan.rows)), float(np.mean(random))


def speed() -> None:
    from fairpc.refits.workbench import Subject, Workbench

    for name in TABLES:
        model, (x, y, s) = fitted(name)
        subject = Subject.of(model, x, y, s)
        bench = Workbench.of(subject)
        start = subject.distribution.circuit.parameters
        for n_sets in (1, 32):
            weights = np.tile(bench.weights, (n_sets, 1))
            points = np.tile(start, (n_sets, 1))
            bench.run(points, 2, lambda i: None, weights=weights)
            before = time.process_time()
            bench.run(points, 50, lambda i: None, weights=weights)
            cpu = (time.process_time() - before) / (50 * n_sets)
            print(
                f"{name}: {len(bench.weights)} distinct rows, {len(start)} parameters, "
                f"{n_sets} at once: {1e3 * cpu:.3f} ms of CPU per update"
            )


PARTS = {
    "intervals": intervals,
    "stability": spread,
    "sensitivity": bent,
    "coverage": coverage,
    "scores": coverage_of_scores,
    "anchors": reviewed_rows,
    "speed": speed,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or list(PARTS):
        PARTS[part]()
