"""Prints the numbers of the sections on refits in docs/evidence.md, part by part.

    python benchmarks/refits.py [intervals | stability | coverage | scores | speed]

The published binarised tables are read from FAIRPC_PAPER_DATA, or from
../shared/data/paper beside the repository. Coverage needs no data, and much time; so do scores,
which is the coverage of a LatentDecision.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from adult_like import needed
from clock import run_parts
from fairpc import (
    FairPC,
    LatentDecision,
    bootstrap_mechanism,
    stability,
)
from fairpc.circuit import Circuit
from fairpc.datasets import make_synthetic
from fairpc.datasets._synthetic import FAIR_RATE, MECHANISM
from fairpc.evidence import test_assumptions
from fairpc.models import TableClassifier
from fairpc.models._fair_layers import Layout, Top

TABLES = ("adult", "compas", "german")
FIRST_SEED = 10_000  # tables of earlier seeds chose how intervals are made
N_SMALL, N_LARGE = 1_000, 100
SCORED_SEEDS = range(100, 160)

Table = tuple[npt.NDArray[np.int16], npt.NDArray[np.int16], npt.NDArray[np.int16]]


def published(name: str) -> Table:
    rows = needed(name).rows
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


def coverage() -> None:
    """Tables of the paper's process, then of mechanisms that are drawn anew for each."""
    for kind, truth_of in (("the paper's mechanism", papers_truth), ("drawn ones", drawn_truth)):
        print(f"{kind}, 1,500 rows, 6 features, one circuit per cell", flush=True)
        count_hits(
            lambda seed: FairPC(guard=False, random_state=seed),
            Tables(6, 1_500, N_SMALL, truth_of),
            n_replicates=32,
            n_steps=200,
        )
    for kind, truth_of in (("the paper's mechanism", papers_truth), ("drawn ones", drawn_truth)):
        print(f"{kind}, 5,000 rows, 10 features, all defaults of the model", flush=True)
        count_hits(
            lambda seed: FairPC(random_state=seed), Tables(10, 5_000, N_LARGE, truth_of), 50, 500
        )


def coverage_of_scores() -> None:
    count_hits(
        lambda seed: LatentDecision(TableClassifier("logistic"), random_state=seed),
        tables_of_scores(),
        50,
        500,
    )


Truth = npt.NDArray[np.float64]
"""P(D=1 | f, s) for (s, f) = 00 01 10 11, then P(Df=1)."""
Drawn = tuple[int, Truth, Any, Any, Any]
"""Seed, truth, features, labels and groups of a table."""


def papers_truth(rng: np.random.Generator) -> Truth:
    return np.append(np.array(MECHANISM).ravel(), FAIR_RATE)


def drawn_truth(rng: np.random.Generator) -> Truth:
    """P(D=1 | 0, s) from 0 to .5, P(D=1 | 1, s) from .5 to 1, .2 apart at least; P(Df=1) .3 to .7.

    One entry in eleven is 0 or 1.
    """
    while True:
        high, low = np.minimum(rng.uniform(0.5, 1.05, 2), 1), rng.uniform(-0.05, 0.5, 2)
        low = np.maximum(low, 0)
        if (high - low >= 0.2).all():
            return np.append(np.stack([low, high], axis=1).ravel(), rng.uniform(0.3, 0.7))


@dataclass(frozen=True)
class Tables:
    """Tables whose features are drawn as in the paper, with a truth of their own."""

    n_features: int
    n_rows: int
    n_tables: int
    truth_of: Callable[[np.random.Generator], Truth]

    def __iter__(self) -> Iterator[Drawn]:
        for seed in range(FIRST_SEED, FIRST_SEED + self.n_tables):
            rng = np.random.default_rng([seed, 7])
            truth = self.truth_of(rng)
            codes = self._circuit(seed, truth).sample(self.n_rows, rng)
            yield seed, truth, codes[:, 3:], codes[:, 2], codes[:, 0]

    def _circuit(self, seed: int, truth: Truth) -> Circuit:
        circuit = make_synthetic(self.n_features, 1, random_state=seed).model
        names, twos = circuit.names[3:], (2,) * self.n_features
        top = Top.of(circuit.graph, Layout(2, 2, names, twos, "FairPC"))
        theta, altered = circuit.parameters.copy(), truth[:4].reshape(2, 2)
        theta[top.mechanism] = np.stack([1 - altered, altered], axis=2)
        theta[top.decision] = 1 - truth[4], truth[4]
        return circuit.with_parameters(theta)


def tables_of_scores() -> Iterator[Drawn]:
    for seed in SCORED_SEEDS:
        data = make_synthetic(10, 5_000, random_state=seed)
        truth = papers_truth(np.random.default_rng(seed))
        yield seed, truth, data.X, data.y, data.sensitive


def count_hits(
    model_of: Callable[[int], Any], tables: Iterable[Drawn], n_replicates: int, n_steps: int
) -> None:
    """How often 95 % intervals contain the truth."""
    counted: list[tuple[Truth, ...]] = []
    sets, refused = [], 0
    for seed, truth, x, y, s in tables:
        test = test_assumptions(x, y, s, classifier="logistic", n_seeds=1)
        model = model_of(seed).fit(x, y, sensitive_features=s)
        found = bootstrap_mechanism(
            model,
            x,
            y,
            sensitive_features=s,
            assumptions=test,
            n_replicates=n_replicates,
            n_steps=n_steps,
            random_state=seed,
        )
        if found.refused:
            refused += 1
            continue
        entries = (
            np.append(mechanism[..., 1].ravel(), rate[1])
            for mechanism, rate in (
                (found.lower, found.fair_rate_lower),
                (found.upper, found.fair_rate_upper),
                (found.mechanism, found.fair_rate),
                (found.sd, found.fair_rate_sd),
            )
        )
        counted.append((truth, *entries))
        if isinstance(model, LatentDecision):
            least, most = model.fair_rate_set_
            sets.append(least <= truth[-1] <= most)
    print_hits(*map(np.array, zip(*counted, strict=True)))
    print("refused", refused)
    if sets:
        print("sets of P(Df=1) that contain it", np.mean(sets).round(3))


def print_hits(truths: Truth, lows: Truth, highs: Truth, values: Truth, sds: Truth) -> None:
    hits, errors = (lows <= truths) & (truths <= highs), values - truths
    print(f"{len(hits)} tables; P(D=1 | f, s) for (s, f) = 00 01 10 11, then P(Df=1)")
    print("coverage", hits.mean(axis=0).round(3), "all", hits.mean().round(3))
    edge = (truths[:, :4] < 0.05) | (truths[:, :4] > 0.95)
    if edge.any():
        print("of truths under .05 or over .95", hits[:, :4][edge].mean().round(3))
    print("mean width", (highs - lows).mean(axis=0).round(3))
    print("bias", errors.mean(axis=0).round(4))
    print("spread of the estimates", np.std(errors, axis=0, ddof=1).round(4))
    print("root mean square error", np.sqrt((errors**2).mean(axis=0)).round(4))
    print("mean standard error", sds.mean(axis=0).round(4), flush=True)


def speed() -> None:
    from fairpc.models import Subject
    from fairpc.models._refits import RefitPlan

    for name in TABLES:
        model, (x, y, s) = fitted(name)
        subject = Subject.of(model, x, y, s)
        bench = RefitPlan.of(subject)
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
    "coverage": coverage,
    "scores": coverage_of_scores,
    "speed": speed,
}

if __name__ == "__main__":
    run_parts(PARTS)
