"""Prints the numbers of docs/reviews.md: coverage and widths of reviews, size and power of tests.

    python benchmarks/reviews.py [coverage | size | power] [--draws N] [--table NAME]

Tables whose recorded label and truth are both known are read from FAIRPC_DUAL_DATA, or from
../shared/data/dual beside the repository: features, `group`, `recorded`, `truth`.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from checkout import data_folder
from fairpc import LatentDecision
from fairpc.evidence import (
    ReviewEstimates,
    recalibrate_posterior,
    review_design,
    review_estimates,
)

Floats = npt.NDArray[np.float64]
TABLES = ("hypertension", "diabetes", "referees")
DESIGNS = (("uniform", 1), ("uniform", 3), ("active", 1), ("active", 3))
KEPT = ("group", "recorded", "truth")


@dataclass(frozen=True, eq=False)
class Table:
    """A table with its truth, and what a model that never saw the truth says of it."""

    X: Any
    y: Floats
    truth: Floats
    groups: npt.NDArray[Any]
    posterior: Floats
    decisions: Floats


@cache
def read(name: str) -> Table:
    folder = data_folder("FAIRPC_DUAL_DATA", "dual")
    if folder is None:
        sys.exit("the tables with a known truth are not here: set FAIRPC_DUAL_DATA to their folder")
    rows = pl.read_csv(folder / f"{name}.csv", infer_schema_length=None, null_values=["", "NA"])
    x, groups = rows.drop(KEPT), np.unique(rows["group"].to_numpy(), return_inverse=True)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LatentDecision(select="middle", random_state=0)
        model.fit(x, rows["recorded"], sensitive_features=groups)
        posterior = model.posterior(x, rows["recorded"], sensitive_features=groups)[:, 1]
        score = model.predict_proba(x, sensitive_features=groups)[:, 1]
    y, truth = (rows[c].to_numpy().astype(np.float64) for c in ("recorded", "truth"))
    return Table(x, y, truth, groups, posterior, (score > 0.5).astype(np.float64))


@dataclass(frozen=True, eq=False)
class Review:
    """What reviewers were sent and answered."""

    truth: Floats
    probability: Floats
    batch: Floats


def draw(table: Table, n: int, method: Any, batches: int, rng: np.random.Generator) -> Review:
    """Reviews in batches; the posterior is corrected by each for the next."""
    truth, p = np.full(len(table.y), np.nan), np.ones(len(table.y))
    batch, m = np.zeros(len(table.y)), table.posterior
    for k in range(batches):
        seen = ~np.isnan(truth)
        if k and method == "active":
            m = recalibrate_posterior(
                table.posterior, truth, table.y, table.groups, probability=p, batch=batch
            )
        size = n // batches + (k < n % batches)
        design = review_design(
            m,
            size,
            sensitive_features=table.groups,
            y=table.y,
            method=method,
            reviewed=seen,
            random_state=rng,
        )
        truth[design.rows] = table.truth[design.rows]
        p[design.rows], batch[design.rows] = design.probability[design.rows], k
    return Review(truth, p, batch)


def estimates(table: Table, review: Review, **options: Any) -> ReviewEstimates:
    return review_estimates(
        review.truth,
        table.y,
        table.groups,
        probability=review.probability,
        batch=review.batch,
        decisions=table.decisions,
        **options,
    )


def flat(found: ReviewEstimates) -> list[Any]:
    """Every rate of a record, in one order."""
    rates = [*found.fair_rate.values()]
    rates += [rate for both in found.mechanism.values() for rate in both.values()]
    for name in ("tpr", "fpr", "accuracy"):
        rates += getattr(found, name).values()
    return rates


def true_rates(table: Table) -> Floats:
    known = Review(table.truth, np.ones(len(table.y)), np.zeros(len(table.y)))
    return np.array([rate.value for rate in flat(estimates(table, known))])


def coverage(names: tuple[str, ...], draws: int) -> None:
    print(
        f"{draws} draws; coverage of .95 intervals; width and reviews against reviewed rows alone,"
    )
    print("drawn evenly, at the same n (median widths, geometric mean over 12 rates)")
    print(
        "table | n | design | coverage | least | at rates < .02 | width | times fewer reviews",
        end="",
    )
    print(" | without recalibration: coverage | times fewer")
    for name in names:
        table = read(name)
        true = true_rates(table)
        for n in (100, 300, 1000):
            width = np.ones(len(true))
            for design in DESIGNS:
                # The first design is even: what its reviewed rows say alone is the reference.
                modes: list[dict[str, Any]] = [{"posterior": table.posterior}]
                if design == DESIGNS[0]:
                    modes.append({"posterior": None})
                if design == DESIGNS[-1]:
                    modes.append({"posterior": table.posterior, "recalibrate": False})
                limits = _limits(table, n, design, draws, modes)
                if design == DESIGNS[0]:
                    width = np.median(limits[1][:, :, 1] - limits[1][:, :, 0], axis=0)
                    _line(name, n, "alone", limits[1], true, width)
                end = " | |"
                if design == DESIGNS[-1]:
                    covered = _covered(limits[1], true).mean()
                    end = f" | {covered:.3f} | {_fewer(limits[1], width):.2f} |"
                _line(name, n, f"{design[0]} {design[1]}", limits[0], true, width, end)


def _limits(
    table: Table, n: int, design: tuple[str, int], draws: int, modes: list[dict[str, Any]]
) -> list[Floats]:
    """Limits of every rate in every draw, by each of the ways to estimate."""
    found: list[list[Any]] = [[] for _ in modes]
    for k in range(draws):
        review = draw(table, n, *design, np.random.default_rng([n, k]))
        for told, options in zip(found, modes, strict=True):
            told.append([(r.low, r.high) for r in flat(estimates(table, review, **options))])
    return [np.array(told) for told in found]


def _covered(limits: Floats, true: Floats) -> Floats:
    inside: Floats = ((limits[:, :, 0] <= true) & (true <= limits[:, :, 1])).mean(axis=0)
    return inside


def _fewer(limits: Floats, width: Floats) -> float:
    ratio = width / np.median(limits[:, :, 1] - limits[:, :, 0], axis=0)
    return float(np.exp(2 * np.log(ratio).mean()))


def _line(
    name: str, n: int, design: str, limits: Floats, true: Floats, width: Floats, end: str = " |"
) -> None:
    covered, edge = _covered(limits, true), (true < 0.02) | (true > 0.98)
    rare = f"{covered[edge].mean():.3f}" if edge.any() else "–"
    fewer = _fewer(limits, width)
    print(f"{name} | {n} | {design} | {covered.mean():.3f} | {covered.min():.3f} | {rare}", end="")
    print(f" | {fewer**-0.5:.2f} | {fewer:.2f}{end}", flush=True)


def drawn_table(rng: np.random.Generator, rates: tuple[float, float] = (0.5, 0.5)) -> Table:
    """10,000 rows of the model itself, and the posterior that is right for them."""
    n = 10_000
    s, f = rng.integers(0, 2, n), np.zeros(n)
    f[:] = rng.random(n) < np.array(rates)[s]
    x = rng.normal(size=n) + 1.2 * f
    x2 = np.where(f == 1, rng.integers(0, 5, n), rng.integers(1, 6, n))
    b = np.array([[0.03, 0.7], [0.1, 0.9]])
    d = (rng.random(n) < b[s, f.astype(int)]).astype(np.float64)
    prior = np.array(rates)[s]
    odds = prior / (1 - prior) * np.exp(1.2 * x - 0.72)
    odds *= np.where(x2 == 0, 1e3, np.where(x2 == 5, 1e-3, 1.0))
    for label in (0, 1):
        like = np.where(d == 1, b[s, label], 1 - b[s, label])
        odds *= like if label else 1 / like
    columns = pl.DataFrame({"x": x, "x2": x2, "noise": rng.normal(size=n)})
    return Table(columns, d, f, s, odds / (1 + odds), d)


def tested(table: Table, n: int, method: str, rng: np.random.Generator) -> dict[str, float]:
    """Corrected p-values: of the rates and of every column."""
    review = draw(table, n, method, 1, rng)
    found = estimates(table, review, posterior=table.posterior, X=table.X).tests
    columns = {name: test.corrected for name, test in found["features"].items()}
    return {"rates": found["rates"].p_value, **columns}


def size(_: tuple[str, ...], draws: int) -> None:
    print(
        f"\nshare of {draws} tables of the model itself in which a test rejects at .05, 300 reviews"
    )
    for method in ("uniform", "active"):
        found = []
        for k in range(draws):
            rng = np.random.default_rng([1, k])
            found.append(tested(drawn_table(rng), 300, method, rng))
        rates = np.mean([f["rates"] < 0.05 for f in found])
        any_column = np.mean([min(list(f.values())[1:]) < 0.05 for f in found])
        print(f"{method}: Df ⟂ S {rates:.3f}, some column (Holm) {any_column:.3f}", flush=True)


def power(_: tuple[str, ...], draws: int) -> None:
    for method in ("uniform", "active"):
        found = []
        for k in range(draws):
            rng = np.random.default_rng([2, k])
            found.append(tested(drawn_table(rng, (0.5, 0.4)), 400, method, rng)["rates"] < 0.05)
        print(f"{method}: P(Df | S) = .5 and .4, 400 reviews: rejected in {np.mean(found):.2f}")
    table = read("referees")
    for method in ("uniform", "active"):
        named = [
            tested(table, 300, method, np.random.default_rng([3, k]))["call_type"] < 0.05
            for k in range(draws)
        ]
        print(
            f"{method}: referees, 300 reviews: call_type named in {np.mean(named):.2f}", flush=True
        )


PARTS = {"coverage": coverage, "size": size, "power": power}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--table", nargs="*", default=list(TABLES))
    given = parser.parse_args()
    for part in given.parts:
        PARTS[part](tuple(given.table), given.draws)


if __name__ == "__main__":
    main()
