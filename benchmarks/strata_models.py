"""Models within strata: what they find where Df depends on the stratum, and on bundled tables.

    python benchmarks/strata_models.py [altered | tables] [--folds 5]

"altered": a table's own label is taken as Df. In each stratum negative rows of the group with the
lower rate are dropped at random until Df is independent of S there; then, of the group that has the
lower rate in the whole table, half of the rows in strata above the median rate, so that groups
differ by their mix of strata. D is altered from Df by a known mechanism (``injected_bias.py``).
Methods see X, S and D of four folds and are judged on the fifth. "tables": Adult within marital
status, hours and occupation, COMPAS within its columns.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import polars as pl
from sklearn.metrics import roc_auc_score

from fairpc import FairPC, LatentDecision
from fairpc.datasets import load_adult, load_compas
from injected_bias import FAVOURED, MECHANISMS, OTHER, Rows, alter, equalise, folds, generator, read
from label_bias import GROUP, Boosting, classifier, grouped, runs

STRATUM = "stratum"
N_ROWS = 16_000
ALTERED = ("strong", "paper")
HOURS = (
    pl.col("WKHP")
    .cut([34.5, 40.5, 50.5], labels=["under 35", "to 40", "to 50", "more"])
    .cast(pl.String)
)


def _hours(rows: Rows) -> Rows:
    """ACS income with hours a week in four ranges."""
    return replace(rows, x=rows.x.with_columns(HOURS.alias(STRATUM)).drop("WKHP"))


def _education(rows: Rows) -> Rows:
    """The Dutch census with its levels of education."""
    named = pl.col("edu_level").cast(pl.String)
    return replace(rows, x=rows.x.with_columns(named.alias(STRATUM)).drop("edu_level"))


SOURCES: dict[str, Callable[[Rows], Rows]] = {"dutch": _education, "income": _hours}


def stratified(table: str, mechanism: str, seed: int = 0) -> Rows:
    """Rows in which Df is independent of S within strata, not in the table; and D is Df altered."""
    rng = generator(seed, table, mechanism, "strata")
    whole = SOURCES[table](read(table))
    parts, rates = [], []
    for name in sorted(whole.x[STRATUM].unique().to_list()):
        part = equalise(whole.take(np.flatnonzero((whole.x[STRATUM] == name).to_numpy())), rng)
        parts.append(part)
        rates.append(part.f.mean())
    each = [(np.concatenate([p.f[p.s == s] for p in parts]).mean(), s) for s in (FAVOURED, OTHER)]
    lower = min(each)[1]
    kept = []
    for part, rate in zip(parts, rates, strict=True):
        above = rate > np.median(rates)
        lost = above & (part.s == lower) & (rng.random(len(part)) < 0.5)
        kept.append(part.take(np.flatnonzero(~lost)))
    x = pl.concat([part.x for part in kept])
    s, f = (np.concatenate([getattr(part, name) for part in kept]) for name in ("s", "f"))
    rows = Rows(x, s, f, f).take(rng.permutation(len(f))[:N_ROWS])
    return replace(rows, d=alter(rows, mechanism, rng))


def latent(**given: Any) -> LatentDecision:
    return LatentDecision(sensitive=GROUP, random_state=0, **given)


METHODS = {
    "HGB on D": classifier(Boosting),
    "FairPC()": classifier(lambda seed: FairPC(GROUP), table=grouped),
    "FairPC(given)": classifier(lambda seed: FairPC(GROUP, given=STRATUM), table=grouped),
    "LatentDecision()": classifier(lambda seed: latent(), table=grouped),
    "LatentDecision(given)": classifier(lambda seed: latent(given=STRATUM), table=grouped),
}


def altered(n_folds: int) -> None:
    """Accuracy and AUC to Df, and the largest error of the mechanism, means over folds."""
    print("| table | P(Df) favoured, other | method | accuracy | AUC | mechanism error | seconds |")
    print("|---|---|---|---|---|---|---|")
    for table in SOURCES:
        for mechanism in ALTERED:
            rows = stratified(table, mechanism)
            rates = ", ".join(f"{rows.f[rows.s == s].mean():.2f}" for s in (FAVOURED, OTHER))
            truth = np.array([MECHANISMS[mechanism][s] for s in sorted((FAVOURED, OTHER))])
            found: dict[str, list[tuple[float, ...]]] = {}
            for name, run, test in runs(METHODS, islice(folds(rows, table, mechanism), n_folds)):
                learned = getattr(run.fitted.model, "bias_mechanism_", np.full((2, 2, 2), np.nan))
                error = float(np.abs(learned[:, :, 1] - truth).max())
                right = float((run.decided.decisions == test.f).mean())
                auc = float(roc_auc_score(test.f, run.decided.scores))
                found.setdefault(name, []).append((right, auc, error, run.cpu))
            for name, values in found.items():
                right, auc, error, seconds = np.mean(values, axis=0)
                shown = "" if np.isnan(error) else f"{error:.3f}"
                where = f"| {table} {mechanism} | {rates} | {name} "
                print(f"{where}| {right:.3f} | {auc:.3f} | {shown} | {seconds:.1f} |", flush=True)


CASES = (
    ("adult", "marital-status"),
    ("adult", "hours-per-week"),
    ("adult", "occupation"),
    ("compas", "c_charge_degree"),
    ("compas", "priors_count"),
)


def tables(n_folds: int) -> None:
    """P(Df | a) of every stratum, the rates of the groups and the mechanism, as fitted."""
    del n_folds
    loaded = {"adult": load_adult(), "compas": load_compas()}
    for name, column in CASES:
        data = loaded[name]
        if column not in data.X.columns:
            print(f"{name}: there is no column {column!r}; it has {', '.join(data.X.columns)}")
            continue
        start = time.process_time()
        m = FairPC(given=column, positive=data.positive).fit(
            data.X, data.y, sensitive_features=data.sensitive
        )
        positive = list(m.classes_).index(data.positive)
        print(f"{name} within {column} ({time.process_time() - start:.0f} s of CPU):")
        for stratum, rate in zip(m.strata_, m.stratum_rate_[:, positive], strict=True):
            print(f"  P(Df = {data.positive} | {stratum}) = {rate:.3f}")
        for s, group in enumerate(m.groups_):
            rate = m.distribution_.decision_rate[s, positive]
            given = m.bias_mechanism_[s, :, positive]
            print(
                f"  {group}: P(Df = {data.positive}) = {rate:.3f}; P(D = {data.positive} | Df) = "
                f"{given[1 - positive]:.3f} (Df other), {given[positive]:.3f} (Df same)"
            )
        for sentence in m.warnings_:
            print(f"  {sentence}")


PARTS = {"altered": altered, "tables": tables}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=PARTS)
    parser.add_argument("--folds", type=int, default=5)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, part in PARTS.items():
        if asked.part in (None, name):
            part(asked.folds)


if __name__ == "__main__":
    main()
