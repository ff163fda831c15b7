"""Do the sets and bounds of LatentDecision hold what they say? Draws from processes with known Df.

    python benchmarks/latent_sets.py sets 400          how often sets and bounds hold the truth
    python benchmarks/latent_sets.py sets 100 --classifier hgb
    python benchmarks/latent_sets.py sets 100 --processes logistic three
    python benchmarks/latent_sets.py circuit           rows drawn from a fitted FairPC
    python benchmarks/latent_sets.py cost              seconds beside those of the classifier alone

Features take few values, so that P(Df) and P(D | x, s) are sums over all of them, not estimates.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from clock import timed
from fairpc import FairPC, LatentDecision
from fairpc.datasets import load_adult, make_synthetic
from fairpc.datasets._synthetic import FAIR_RATE, MECHANISM
from fairpc.models import TableClassifier

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEVEL: Final = 0.95
N_FRESH: Final = 2000
NARROW: Final = 0.1
"""A set of P(Df) under this width says where the mechanism is."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Rows to learn from and rows to be asked about, with the true P(Df = 1 | x, s) of these."""

    x: Ints
    s: Ints
    d: Ints
    fresh: Ints
    fresh_s: Ints
    q: Floats


@dataclass(frozen=True, eq=False)
class Process:
    """Where rows come from: a name, P(Df = 1), P(D = 1 | Df = f, S = s) as [s, f], and draws."""

    name: str
    pi: float
    mechanism: Floats
    draw: Callable[[np.random.Generator], Drawn]


def additive(
    name: str,
    weights: list[list[float]],
    mechanism: list[tuple[float, float]],
    *,
    levels: int,
    shares: list[float],
    pi: float,
    n: int,
) -> Process:
    """Features that are independent and uniform; the odds of Df are a sum over them, per group."""
    w, b = np.array(weights), np.array(mechanism)
    grid = np.array(list(product(range(levels), repeat=w.shape[1])))
    z = grid @ w.T
    a = [brentq(lambda a, z=z[:, g]: expit(a + z).mean() - pi, -50, 50) for g in range(len(w))]

    def draw(rng: np.random.Generator) -> Drawn:
        x = rng.integers(levels, size=(n + N_FRESH, w.shape[1]))
        s = rng.choice(len(w), n + N_FRESH, p=shares)
        q = expit(np.array(a)[s] + (x * w[s]).sum(axis=1))
        f = rng.random(len(q)) < q
        d = (rng.random(len(q)) < b[s, f.astype(np.intp)]).astype(np.int64)
        return Drawn(x[:n], s[:n], d[:n], x[n:], s[n:], q[n:])

    return Process(name, pi, b, draw)


def paper(n: int) -> Process:
    """The paper's synthetic tables: a random tree in each cell, another one in each draw."""

    def draw(rng: np.random.Generator) -> Drawn:
        data = make_synthetic(10, n + N_FRESH, rng)
        x, s, d = (np.asarray(c, np.int64) for c in (data.X, data.sensitive, data.y))
        codes = np.column_stack([s, np.full_like(s, -1), np.full_like(s, -1), x])[n:]
        known = codes.copy()
        known[:, 1] = 1
        q = np.exp(data.model.log_marginal(known) - data.model.log_marginal(codes))
        return Drawn(x[:n], s[:n], d[:n], x[n:], s[n:], q)

    return Process("paper", FAIR_RATE, np.array(MECHANISM), draw)


PROCESSES: Final = {
    process.name: process
    for process in (
        additive(
            "logistic",
            [[0.5, 0.4, -0.3, 0.2], [0.6, 0.5, -0.4, 0.3]],
            [(0.10, 0.95), (0.02, 0.60)],
            levels=9,
            shares=[0.6, 0.4],
            pi=0.5,
            n=3000,
        ),
        paper(4000),
        additive(
            "few values",
            [[6.0, -1.2, 0.6], [6.0, -1.8, 1.0]],
            [(0.0, 1.0), (0.0, 0.7)],
            levels=3,
            shares=[0.5, 0.5],
            pi=0.4,
            n=2000,
        ),
        additive(
            "three groups",
            [[0.8, 0.6, -0.4, 0.2], [0.6, 0.8, -0.4, 0.1], [0.8, 0.4, -0.5, 0.3]],
            [(0.05, 0.98), (0.02, 0.85), (0.10, 0.95)],
            levels=7,
            shares=[0.6, 0.3, 0.1],
            pi=0.3,
            n=4000,
        ),
    )
}


def frame(x: Ints, s: Ints) -> pl.DataFrame:
    names = [f"X{j}" for j in range(x.shape[1])]
    return pl.DataFrame(x, schema=names).with_columns(pl.Series("S", s.astype(str)))


def inside(bounds: Floats, q: Floats) -> tuple[float, float]:
    """Share of rows whose truth the bounds hold, and their mean width; NaN holds nothing."""
    held = (bounds[:, 0] <= q + 1e-12) & (q <= bounds[:, 1] + 1e-12)
    return float(held.mean()), float((bounds[:, 1] - bounds[:, 0]).mean())


def alike(scores: Floats, s: Ints) -> Ints:
    """Rows of a group with nearly the same score, as numbers: bins of a hundred rows or so."""
    found = np.empty(len(s), np.int64)
    for g in np.unique(s):
        here = np.flatnonzero(s == g)
        order = np.argsort(np.argsort(scores[here], kind="stable"), kind="stable")
        found[here] = 1000 * g + order // 100
    return np.unique(found, return_inverse=True)[1]


def one_draw(process: Process, make: Callable[[], LatentDecision], seed: int) -> dict[str, float]:
    """What a model of one draw says, beside the truth."""
    drawn = process.draw(np.random.default_rng(seed))
    model = make().fit(frame(drawn.x, drawn.s), drawn.d)
    lower, upper = model.fair_rate_set_
    fresh = frame(drawn.fresh, drawn.fresh_s)
    bounds, scores = model.predict_bounds(fresh, level=LEVEL), model.predict_proba(fresh)[:, 1]
    held, width = inside(bounds, drawn.q)
    bins = alike(scores, drawn.fresh_s)
    means = (np.bincount(bins, of) / np.bincount(bins) for of in (*bounds.T, drawn.q))
    low, high, mean = (of[bins] for of in means)
    open_held, open_width = inside(model.predict_bounds(fresh), drawn.q)
    return {
        "set": float(lower <= process.pi <= upper),
        "set width": upper - lower,
        "bounds": held,
        "of rows alike": inside(np.column_stack([low, high]), mean)[0],
        "width": width,
        "without level": open_held,
        "its width": open_width,
        "score error": float(np.abs(scores - drawn.q).mean()),
        "mechanism error": float(np.abs(model.bias_mechanism_[:, :, 1] - process.mechanism).max()),
    }


def sets(given: argparse.Namespace) -> None:
    """One line per process; "±" is a standard error over draws."""
    for name in given.processes:

        def make() -> LatentDecision:
            return LatentDecision(
                TableClassifier(given.classifier, random_state=0),
                sensitive="S",
                random_state=0,
            )

        start = time.process_time()
        found = [one_draw(PROCESSES[name], make, seed) for seed in range(given.n)]
        seconds = (time.process_time() - start) / given.n
        print(f"{name}, {given.classifier}: {given.n} draws, {seconds:.2f} s each")
        for key in found[0]:
            values = np.array([each[key] for each in found])
            error = values.std(ddof=1) / np.sqrt(len(values))
            print(f"    {key:16} {values.mean():.3f} ± {error:.3f}")
        narrow = [e["mechanism error"] for e in found if e["set width"] < NARROW]
        mean = f", mean mechanism error {np.mean(narrow):.3f}" if narrow else ""
        print(f"    {len(narrow)} sets under {NARROW} wide{mean}", flush=True)


def binarised(table: pl.DataFrame) -> pl.DataFrame:
    """Numbers above their median, and the most frequent level of others, as 1; the rest as 0."""
    return table.select(
        (pl.col(n) > c.median() if c.dtype.is_numeric() else pl.col(n) == c.drop_nulls().mode()[0])
        .fill_null(False)
        .cast(pl.Int64)
        for n, c in zip(table.columns, table.get_columns(), strict=True)
    )


@dataclass(frozen=True)
class Agreement:
    """A model of drawn rows beside the model that they were drawn from, on fresh rows."""

    auc: float
    true_auc: float
    difference: float


def agreement(truth: FairPC, model: Any, n: int, seed: int = 0) -> Agreement:
    """How near the scores of a model of n drawn rows come to P(Df | x, s) of the drawing one."""
    rows, fresh = (truth.sample(m, random_state=2 * seed + k) for k, m in enumerate((n, 10_000)))
    names, positive = truth.feature_names_in_.tolist(), truth.positive_class_
    model.fit(rows.select(names), rows["D"], sensitive_features=rows["S"])
    k = truth.classes_.tolist().index(positive)
    own, true = (
        m.predict_proba(fresh.select(names), sensitive_features=fresh["S"])[:, k]
        for m in (model, truth)
    )
    f = np.asarray(fresh["Df"] == positive)
    auc, best = (float(roc_auc_score(f, q)) for q in (own, true))
    return Agreement(auc, best, float(np.abs(own - true).mean()))


def circuits() -> dict[str, FairPC]:
    """Circuits to draw from, fitted to Adult with two values a column and to a synthetic table."""
    adult, drawn = load_adult(), make_synthetic(10, 10_000, 0)
    tables = {"adult": (binarised(adult.X), adult), "synthetic": (drawn.X, drawn)}
    return {
        name: FairPC(structure="strudel", random_state=0).fit(
            X, data.y, sensitive_features=data.sensitive
        )
        for name, (X, data) in tables.items()
    }


def circuit(given: argparse.Namespace) -> None:
    """Rows drawn from a fitted FairPC: what others learn from them, beside the drawing model."""
    for name, truth in circuits().items():
        latent = LatentDecision(random_state=0)
        models = {
            "LatentDecision()": latent,
            "FairPC()": FairPC(random_state=0),
            "FairPC(structure=the circuit)": FairPC(structure=truth, random_state=0),
        }
        for label, model in models.items():
            found = agreement(truth, model, 20_000)
            beside = f"AUC {found.auc:.4f}, true {found.true_auc:.4f}"
            print(f"{name}: {label:30} {beside}, mean difference {found.difference:.4f}")
        low, high = latent.fair_rate_set_
        print(f"{name}: P(Df) is possible from {low:.3f} to {high:.3f}", flush=True)


def cost(given: argparse.Namespace) -> None:
    """CPU seconds of a fit to raw Adult beside those of its classifier alone, least of three."""
    adult = load_adult()
    whole = adult.X.with_columns(pl.Series("S", adult.sensitive))
    for library, table in (("polars", whole), ("pandas", whole.to_pandas())):
        for kind in ("hgb", "logistic"):
            alone = TableClassifier(kind, random_state=0)
            model = LatentDecision(alone, sensitive="S", random_state=0)
            one, all_ = (timed(partial(m.fit, table, adult.y), 3)[1] for m in (alone, model))
            print(
                f"{library}, {kind}: {one:.2f} s alone, {all_:.2f} s in LatentDecision, "
                f"{all_ / one:.1f} times; allowed {6 * one + 1:.2f} s",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", choices=("sets", "circuit", "cost"))
    parser.add_argument("n", type=int, nargs="?", default=400, help="draws")
    parser.add_argument("--processes", nargs="+", choices=PROCESSES, default=list(PROCESSES))
    parser.add_argument("--classifier", default="logistic", choices=("hgb", "logistic", "forest"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    {"sets": sets, "circuit": circuit, "cost": cost}[given.part](given)


if __name__ == "__main__":
    main()
