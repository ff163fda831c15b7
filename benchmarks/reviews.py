"""Prints the numbers of docs/reviews.md: coverage, widths, plans, tests, mechanism, numbers of
reviews.

    python benchmarks/reviews.py [coverage | plan | tests | mechanism | decide] [--draws N]

Tables whose recorded label and truth are both known are read from FAIRPC_DUAL_DATA, or from
../shared/data/dual beside the repository: features, `group`, `recorded`, `truth`. Of larger ones
8,000 rows are drawn once. Decisions are those of `LatentDecision()`, fitted once to each table, and
the posterior is that which `model.review` draws by; neither sees the truth. `decide` audits a
logistic regression of every second row on the others, and the loans of the package, too.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import polars.selectors as cs
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from checkout import data_folder
from fairpc import LatentDecision
from fairpc.auditing._review import rows_without_model
from fairpc.datasets import load_loans
from fairpc.evidence import (
    ReviewEstimates,
    error_rates,
    expected_widths,
    recalibrate_posterior,
    review_design,
    review_estimates,
)
from fairpc.models import Reviewed
from fairpc.models._review import ReviewRows
from fairpc.models._reviewed_fit import ReviewedRates
from fairpc.models._score_map_fit import fit_score_map

Floats = npt.NDArray[np.float64]
TABLES = ("hypertension", "diabetes", "referees")
SIZES = (100, 300, 1000)
DESIGNS = (("uniform", 1), ("uniform", 3), ("active", 1), ("active", 3))
KEPT = ("group", "recorded", "truth")
MOST_ROWS = 8_000
PLANNED_ROWS = (856, 2_500, 8_000)


@dataclass(frozen=True, eq=False)
class Table:
    """A table with its truth, and what a model that never saw the truth says of it."""

    X: pl.DataFrame
    y: Floats
    truth: Floats
    groups: npt.NDArray[Any]
    posterior: Floats
    decisions: Floats
    model: Any = None


@cache
def read(name: str, most: int = MOST_ROWS) -> Table:
    folder = data_folder("FAIRPC_DUAL_DATA", "dual")
    if folder is None:
        sys.exit("the tables with a known truth are not here: set FAIRPC_DUAL_DATA to their folder")
    rows = pl.read_csv(folder / f"{name}.csv", infer_schema_length=None, null_values=["", "NA"])
    if rows.height > most:
        rng = np.random.default_rng(0)
        rows = rows[np.sort(rng.choice(rows.height, most, replace=False))]
    x, groups = rows.drop(KEPT), np.unique(rows["group"].to_numpy(), return_inverse=True)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LatentDecision(random_state=0)
        model.fit(x, rows["recorded"], sensitive_features=groups)
        posterior = ReviewRows.of(model, x, rows["recorded"], groups).posterior
        score = model.predict_proba(x, sensitive_features=groups)[:, 1]
    y, truth = (rows[c].to_numpy().astype(np.float64) for c in ("recorded", "truth"))
    return Table(x, y, truth, groups, posterior, (score > 0.5).astype(np.float64), model)


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
    known: dict[str, Any] = {"sensitive_features": table.groups, "y": table.y}
    for k in range(batches):
        if k and method == "active":
            how: Any = {"probability": p, "batch": batch}
            m = recalibrate_posterior(table.posterior, truth, table.y, table.groups, **how)
        size, seen = n // batches + (k < n % batches), ~np.isnan(truth)
        design = review_design(m, size, **known, method=method, reviewed=seen, random_state=rng)
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


def flat(found: ReviewEstimates) -> Floats:
    """Value and limits of every rate of a record, in one order; the differences of groups last."""
    rates: list[Any] = [*found.fair_rate.values()]
    rates += [rate for both in found.mechanism.values() for rate in both.values()]
    for name in ("tpr", "fpr", "accuracy"):
        rates += getattr(found, name).values()
    for name in ("fair_rate", "mechanism_0", "mechanism_1", "tpr", "fpr", "accuracy"):
        rates += found.differences[name]
    return np.array([(rate.value, rate.low, rate.high) for rate in rates])


N_RATES = 12


def coverage(draws: int) -> None:
    """Coverage of .95 intervals and their widths."""
    print(f"coverage of .95 intervals in {draws} draws each, of {N_RATES} rates: fair rates,")
    print("mechanism, TPR, FPR and accuracy of two groups. least: of rates from .02 to .98; rare:")
    print("mean of the others; gaps: mean of the differences between groups. width: mean over the")
    print("rates of the median width, also of reviewed rows alone and of the even design, all at")
    print("the same n; fewer: how many times fewer reviews than alone for the same width")
    print("table | n | design, batches | coverage | least | rare | gaps", end="")
    print(" | width | alone | even | fewer", flush=True)
    covered, saved, least = [], [], []
    for name in TABLES:
        table = read(name)
        whole = Review(table.truth, np.ones(len(table.y)), np.zeros(len(table.y)))
        true = flat(estimates(table, whole))[:, 0]
        for n in SIZES:
            alone = even = np.ones(N_RATES)
            for design in DESIGNS:
                first = design == DESIGNS[0]
                reviews = [
                    draw(table, n, *design, np.random.default_rng([n, k])) for k in range(draws)
                ]
                of = {"posterior": table.posterior}
                found = np.array([flat(estimates(table, each, **of)) for each in reviews])
                if first:
                    by_rows = np.array([flat(estimates(table, each)) for each in reviews])
                    alone, even = width(by_rows), width(found)
                    _line(name, n, "alone", by_rows, true, alone, even)
                mean, worst, fewer = _line(
                    name, n, f"{design[0]} {design[1]}", found, true, alone, even
                )
                covered.append(mean)
                least.append(worst)
                saved.append(fewer)
    print(f"mean coverage {np.mean(covered):.3f}, of a line {min(covered):.3f} to", end=" ")
    print(
        f"{max(covered):.3f}; least of all {min(least):.3f}; fewer reviews, geometric mean", end=" "
    )
    print(f"{np.exp(np.mean(np.log(saved))):.2f}", flush=True)


def width(found: Floats) -> Floats:
    """Median width of each rate."""
    return np.asarray(np.median(found[:, :N_RATES, 2] - found[:, :N_RATES, 1], axis=0))


def _line(
    name: str, n: int, design: str, found: Floats, true: Floats, alone: Floats, even: Floats
) -> tuple[float, float, float]:
    inside = ((found[:, :, 1] <= true) & (true <= found[:, :, 2])).mean(axis=0)
    gaps, inside, true = inside[N_RATES:].mean(), inside[:N_RATES], true[:N_RATES]
    edge = (true < 0.02) | (true > 0.98)
    rare = f"{inside[edge].mean():.3f}" if edge.any() else "–"
    own = width(found)
    fewer = float(np.exp(2 * np.log(alone / own).mean()))
    least = float(inside[~edge].min())
    print(f"{name} | {n} | {design} | {inside.mean():.3f} | {least:.3f} | {rare}", end="")
    print(f" | {gaps:.3f} | {own.mean():.3f} | {alone.mean():.3f} | {even.mean():.3f}", end="")
    print(f" | {fewer:.2f}", flush=True)
    return float(inside.mean()), least, fewer


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


def promised(table: Table, n: int) -> dict[tuple[str, Any], float]:
    """Half width of each rate, as a plan has it."""
    known: Any = {"sensitive_features": table.groups, "y": table.y}
    widths = expected_widths(table.posterior, n, **known, decisions=table.decisions)
    return {(w.name, w.group): w.half_width for w in widths}


def by_name(found: ReviewEstimates) -> dict[tuple[str, Any], tuple[float, float, float]]:
    """Value and limits of each rate, by its name and group."""
    rates: dict[tuple[str, Any], Any] = {
        (f"mechanism_{f}", g): rate
        for g, both in found.mechanism.items()
        for f, rate in both.items()
    }
    for name in ("fair_rate", "tpr", "fpr", "accuracy", "precision"):
        rates |= {(name, g): rate for g, rate in getattr(found, name).items()}
    return {key: (rate.value, rate.low, rate.high) for key, rate in rates.items()}


def planned(table: Table, n: int, seed: int) -> Review:
    """A review of the size and for the rates of a plan."""
    known: Any = {"sensitive_features": table.groups, "y": table.y, "decisions": table.decisions}
    design = review_design(
        table.posterior, n, **known, random_state=np.random.default_rng([n, seed])
    )
    truth = np.full(len(table.y), np.nan)
    truth[design.rows] = table.truth[design.rows]
    chance = np.where(np.isnan(truth), 1.0, design.probability)
    return Review(truth, chance, np.zeros(len(table.y)))


def plan(draws: int) -> None:
    """Is what a plan promises what a review gives, and do the tightest figures hold?"""
    print(
        f"\nhalf widths in points, of {draws} reviews each (active, one batch): promised, and the"
    )
    print("median got, of the group where P(D = 1 | Df = 1) is known least; ratio: got / promised,")
    print("geometric mean over all rates, and between which four fifths of them are. coverage: of")
    print(".95 intervals; tightest: of the tenth of reviews where a rate has its narrowest ones")
    print("table | rows | n | promised | got | ratio | four fifths | coverage | tightest", end="")
    print(" | width", flush=True)
    rng = np.random.default_rng(6)
    tables = [(name, read(name, most)) for name in TABLES for most in PLANNED_ROWS]
    tables += [("model", drawn_table(rng)), ("model, rare", drawn_table(rng, (0.05, 0.04)))]
    every = []
    for name, table in tables:
        whole = Review(table.truth, np.ones(len(table.y)), np.zeros(len(table.y)))
        true = by_name(estimates(table, whole))
        for n in (n for n in SIZES if n < 0.6 * len(table.y)):
            half = promised(table, n)
            of = {"posterior": table.posterior}
            reviews = [by_name(estimates(table, planned(table, n, k), **of)) for k in range(draws)]
            found = np.array([[review[key] for key in half] for review in reviews])
            got, least = (found[..., 2] - found[..., 1]) / 2, max(1, draws // 10)
            value = np.array([true[key][0] for key in half])
            held = (found[..., 1] <= value + 1e-9) & (value <= found[..., 2] + 1e-9)
            tight = np.take_along_axis(held, np.argsort(got, axis=0)[:least], axis=0)
            ratio = np.median(got, axis=0) / np.maximum(list(half.values()), 1e-4)
            refused = [i for i, (rate, _) in enumerate(half) if rate == "mechanism_1"]
            worst = max(refused, key=lambda i: [*half.values()][i])
            middle = np.exp(np.log(np.maximum(ratio, 1e-2)).mean())
            ends = np.quantile(ratio, (0.1, 0.9))
            print(f"{name} | {len(table.y)} | {n} | {100 * [*half.values()][worst]:.1f}", end="")
            print(f" | {100 * np.median(got[:, worst]):.1f} | {middle:.2f}", end="")
            print(
                f" | {ends[0]:.2f} to {ends[1]:.2f} | {held.mean():.3f} | {tight.mean():.3f}",
                end="",
            )
            print(f" | {2 * np.median(got, axis=0).mean():.3f}", flush=True)
            every.append((middle, held.mean(), tight.mean(), 2 * np.median(got, axis=0).mean()))
    ratios, inside, tightest, width_ = np.array(every).T
    print(f"ratio, geometric mean {np.exp(np.log(ratios).mean()):.2f}, of a line", end=" ")
    print(
        f"{ratios.min():.2f} to {ratios.max():.2f}; coverage {inside.mean():.3f}; tightest", end=" "
    )
    print(
        f"{tightest.mean():.3f}, least {tightest.min():.3f}; width {width_.mean():.3f}", flush=True
    )


def tested(table: Table, n: int, method: str, rng: np.random.Generator) -> dict[str, float]:
    """Corrected p-values: of the rates and of every column."""
    review = draw(table, n, method, 1, rng)
    found = estimates(table, review, posterior=table.posterior, X=table.X).tests
    columns = {name: test.corrected for name, test in found["features"].items()}
    return {"rates": found["rates"].p_value, **columns}


def tests(draws: int) -> None:
    """Size and power of both tests."""
    most = 0.05 + 2 * np.sqrt(0.05 * 0.95 / draws)
    print(f"\nshare of {draws} tables of the model itself, 300 reviews, in which a test rejects at")
    print(f".05 (at most {most:.3f} is .05 and two standard errors)")
    for method in ("uniform", "active"):
        found = []
        for k in range(draws):
            rng = np.random.default_rng([1, k])
            found.append(tested(drawn_table(rng), 300, method, rng))
        rates = np.mean([f["rates"] < 0.05 for f in found])
        any_column = np.mean([min(list(f.values())[1:]) < 0.05 for f in found])
        print(f"{method}: Df ⟂ S {rates:.3f}, some column (Holm) {any_column:.3f}", flush=True)
    for method in ("uniform", "active"):
        rejected = []
        for k in range(draws):
            rng = np.random.default_rng([2, k])
            rejected.append(tested(drawn_table(rng, (0.5, 0.4)), 400, method, rng)["rates"] < 0.05)
        share = np.mean(rejected)
        print(f"{method}: P(Df | S) = .5 and .4, 400 reviews: rejected in {share:.3f}", flush=True)
    table = read("referees")
    for method in ("uniform", "active"):
        named = [
            tested(table, 300, method, np.random.default_rng([5, k]))["call_type"] < 0.05
            for k in range(100)
        ]
        print(
            f"{method}: referees, 300 reviews: call_type named in {sum(named)} of 100", flush=True
        )


def mechanism(most: int) -> None:
    """Largest error of P(D | Df, S) after 200 random reviews."""
    draws = min(most, 50)
    print("\nlargest error of P(D = 1 | Df, S) over groups and decisions after 200 rows that were")
    print(f"drawn evenly, mean of {draws} draws: a fit with these reviews, the reviewed rows alone")
    print("table | fit(reviewed=…) | reviewed rows alone", flush=True)
    for name in TABLES:
        table = read(name)
        coding, given = table.model.coding_, {"sensitive_features": table.groups}
        scored = table.model.cross_fitted(table.X, pl.Series(table.y.astype(int)), **given)
        scored = replace(scored, second=None)
        score_map = fit_score_map(scored, coding.group_names)
        observed = score_map.observed(scored.scores[None], scored.groups)[0]
        own = np.arange(len(table.y)), observed, table.decisions, score_map.ends
        about = ReviewRows.of_codes(coding, scored.rows, *own)
        true = np.array(
            [
                [table.y[(table.groups == g) & (table.truth == f)].mean() for f in (0, 1)]
                for g in (0, 1)
            ]
        )
        errors = []
        for k in range(draws):
            review = draw(table, 200, "uniform", 1, np.random.default_rng([4, k]))
            rows = np.flatnonzero(~np.isnan(review.truth))
            answers = rows, review.probability[rows], review.truth[rows]
            held = ReviewedRates.of(about, Reviewed.of(len(table.y), [answers]), coding.group_names)
            both = estimates(table, review).mechanism
            alone = np.array([[both[g][f].value for f in (0, 1)] for g in (0, 1)])
            tried = held.mechanism, alone
            errors.append([np.nanmax(np.abs(each - true)) for each in tried])
        print(f"{name} | " + " | ".join(f"{e:.3f}" for e in np.mean(errors, axis=0)), flush=True)


def halved(name: str) -> tuple[pl.DataFrame, ReviewRows, Floats]:
    """Features of every second row, what a review of decisions on them is about, and the truth."""
    if name == "loans":
        loans = load_loans()
        x, y, groups = loans.X, (loans.y == "yes").to_numpy(), loans.sensitive.to_numpy()
        truth = (loans.df == "yes").to_numpy().astype(np.float64)
    else:
        table = read(name)
        x, y, groups, truth = table.X, table.y.astype(bool), table.groups, table.truth
    numbers = x.to_dummies(cs.string()).cast(pl.Float64).fill_null(strategy="mean").fill_null(0)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    h = model.fit(numbers[1::2], y[1::2]).predict(numbers[::2]).astype(np.float64)
    x, y, groups = x[::2], y[::2].astype(int), groups[::2]
    rows, why = rows_without_model(x, y, groups, h, positive=1, random_state=0)
    if why:
        sys.exit(why)
    return numbers[::2], rows, truth[::2][rows.at]


def decide(draws: int) -> None:
    """Do as many reviews as are named decide a difference of two groups that labels leave open?"""
    print(f"\nshare of {draws} reviews that decide: 0 is outside of the limits, or the limits are")
    print("within the difference named; with as many reviews as error_rates names, and with half")
    print("table | rows | rate | difference named | true | reviews named | decide | half | decide")
    for name in ("loans", *TABLES):
        x, rows, truth = halved(name)
        about: Any = {"y": rows.y.astype(int), "sensitive_features": rows.groups}
        pair = error_rates(rows.decisions.astype(int), X=x, **about).differences[0]
        whole = review_estimates(truth, **about, probability=1.0, decisions=rows.decisions)
        for rate, n in (("tpr", pair.tpr_reviews), ("fpr", pair.fpr_reviews)):
            if n is None:
                continue
            apart, true = pair.detectable(rate), whole.differences[rate][0].value
            print(f"{name} | {len(truth)} | {rate} | {apart:.3f} | {true:.3f}", end="")
            for k in (n, n // 2):
                gaps = [decided(rows, truth, k, seed).differences[rate][0] for seed in range(draws)]
                share = np.mean(
                    [g.low > 0 or g.high < 0 or -apart < g.low < g.high < apart for g in gaps]
                )
                print(f" | {k} | {share:.2f}", end="")
            print(flush=True)


def decided(rows: ReviewRows, truth: Floats, n: int, seed: int) -> ReviewEstimates:
    """What one review of decisions shows."""
    design = rows.design(n, random_state=seed)
    answers = np.full(len(truth), np.nan)
    at = np.searchsorted(rows.at, design.rows)
    answers[at] = truth[at]
    of: Any = {"posterior": rows.posterior, "decisions": rows.decisions}
    p = design.probability[rows.at]
    return review_estimates(answers, rows.y, rows.groups, probability=p, **of)


PARTS = {
    "coverage": coverage,
    "plan": plan,
    "tests": tests,
    "mechanism": mechanism,
    "decide": decide,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--draws", type=int, default=400)
    given = parser.parse_args()
    cores = f"{os.cpu_count()} cores, one thread used"
    print(f"{platform.processor() or platform.machine()}, {cores}, {platform.platform()},", end=" ")
    print(f"Python {platform.python_version()}, NumPy {np.__version__}", flush=True)
    for part in given.parts:
        PARTS[part](given.draws)


if __name__ == "__main__":
    main()
