"""Tables whose labels are altered against our assumptions: how each of them may fail, and how far.

What is not to fail is drawn as in ``injected_bias.inject``, from the same random numbers, so a row
of a size 0 is the row that ``inject`` gives.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.special import expit, logit
from scipy.stats import rankdata

from injected_bias import FAVOURED, OTHER, Rows, alter, chances, equalise, generator, inject, read
from label_bias import logistic

Floats = npt.NDArray[np.float64]

HELD = "held"
FAILURES: dict[str, tuple[float, ...]] = {
    "gap": (0.1, 0.2),
    "features": (2.0, 4.0),
    "unseen": (0.2, 0.4),
    "groups": (0.1, 0.2),
}
"""What fails, and the sizes at which it is measured.

gap: P(Df = 1) of the favoured group less that of the other. features: factor on the odds of D = 1
for the oldest rows, and its inverse for the youngest. unseen: share of the rows that a past
decision refused, whose label nobody saw. groups: share of the rows with the wrong group.
"""
NO_SIZE = {"gap": 0.0, "features": 1.0, "unseen": 0.0, "groups": 0.0}
"""The sizes at which nothing fails."""
TABLES = ("adult", "compas", "income")
"""Tables with an age, and with a P(Df) that leaves room for a gap of .2."""
AGES = ("age", "AGEP")
GRUDGE = 1.0
"""Log odds that a past decision takes from the other group."""


def inject_failing(
    table: str, mechanism: str, failure: str, size: float, *, seed: int = 0, n_rows: int = 16_000
) -> Rows:
    """Rows of a table as ``inject`` gives them, but that one assumption fails by the size."""
    if failure == HELD:
        return inject(table, mechanism, seed=seed, n_rows=n_rows)
    own = generator(seed, table, mechanism, failure, str(size))
    rng = generator(seed, table, mechanism)
    rows = equalise(read(table), rng)
    if failure == "gap":
        rows = part_rates(rows, size, own)
    rows = rows.take(rng.permutation(len(rows))[:n_rows])
    if failure == "features":
        return replace(rows, d=alter_by_age(rows, mechanism, size, rng))
    rows = replace(rows, d=alter(rows, mechanism, rng))
    if failure == "unseen":
        return replace(rows, seen=granted(rows, size, own))
    return rows if failure == "gap" else mistake_groups(rows, size, own)


def part_rates(rows: Rows, gap: float, rng: np.random.Generator) -> Rows:
    """Drop negatives of the favoured group and positives of the other until rates differ."""
    kept = np.ones(len(rows), np.bool_)
    for group, f in ((FAVOURED, 0), (OTHER, 1)):
        here = rows.s == group
        rate = (rows.f[here] == 1 - f).mean() + gap / 2
        if not 0 < rate < 1:
            raise ValueError(f"a gap of {gap} needs a rate of {rate:.2f}: take another table")
        others = np.flatnonzero(here & (rows.f == f))
        n_kept = round((here.sum() - len(others)) * (1 - rate) / rate)
        kept[rng.permutation(others)[n_kept:]] = False
    return rows.take(np.flatnonzero(kept))


def age_place(rows: Rows) -> Floats:
    """Where a row's age lies among all, from −1 to 1."""
    name = next(name for name in AGES if name in rows.x.columns)
    age = rows.x[name].cast(pl.Float64)
    ranks = rankdata(age.fill_null(age.median()).to_numpy())
    return np.asarray(2 * (ranks - 1) / (len(rows) - 1) - 1, np.float64)


def alter_by_age(
    rows: Rows, mechanism: str, factor: float, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Labels whose odds are those of the mechanism × factor to the power of the age's place."""
    altered = expit(logit(chances(rows, mechanism)) + np.log(factor) * age_place(rows))
    return np.asarray(rng.random(len(rows)) < altered, np.int64)


def granted(rows: Rows, share: float, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Who was granted something, so that the label is seen: all but a share of the rows.

    A past decision ranked rows by what it knew of Df from X, with noise, and held a grudge
    against the other group (the selective labels of Lakkaraju et al., KDD 2017).
    """
    table = rows.x.to_pandas()
    known = logistic(0).fit(table, rows.f).predict_proba(table)[:, 1]
    score = logit(np.clip(known, 1e-6, 1 - 1e-6)) - GRUDGE * (rows.s == OTHER)
    score += rng.logistic(size=len(rows))
    return np.asarray(score > np.quantile(score, share), np.bool_)


def mistake_groups(rows: Rows, share: float, rng: np.random.Generator) -> Rows:
    """A share of the rows has the other group written down, in training and in test rows."""
    wrong = rng.random(len(rows)) < share
    swapped = np.where(rows.s == FAVOURED, OTHER, FAVOURED)
    return replace(rows, s=np.where(wrong, swapped, rows.s), true_s=rows.s)
