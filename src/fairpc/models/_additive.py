"""Additive log odds of Df that tell labels through a known mechanism, and densities they tilt.

    P(f | x) ∝ exp(offset_f + Σ_j g_j(x_j)_f),    P(d | x) = Σ_f P(f | x) P(d | f)

One table g_j of numbers per column and class, found by rounds of Fisher scoring, in each of which
one column moves after the other (backfitting: Hastie and Tibshirani 1990, *Generalized Additive
Models*). Labels may be hard, or what a classifier says of them: then the sums imitate it.

A product of features stays one when each factor is multiplied by exp(g_j(x_j)). So a mixture of
products, tilted for each class, is a density of X under which the log odds of complete rows are
those sums, exactly, and what is missing can be summed out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.core import Codes, Floats, Ints

MOST_STEP: Final = 1.0
"""Most that a number moves at once: where labels are beyond the ends of a mechanism, scores have no
best fit."""
BLOCK: Final = 1 << 17
"""Numbers for pairs of classes that are in memory at once."""
SETTLED: Final = 0.01
"""Once no number moves by more, they have settled."""


def additive_scores(
    codes: Codes | Ints,
    sizes: Sequence[int],
    labels: Floats,
    offset: Floats,
    mechanism: Floats,
    *,
    weights: Floats,
    prior_rows: float,
    n_rounds: int,
) -> tuple[Floats, ...]:
    """The numbers of each column, values × classes.

    Args:
        codes: value of each column in each row, rows × columns.
        sizes: how many values each column has.
        labels: P(D = d) of each row, rows × classes.
        offset: log odds of Df that each row starts from, rows × classes.
        mechanism: P(D = d | Df = f).
        weights: weight of each row.
        prior_rows: how much numbers are drawn to zero: each value has this many more rows, which
            say that it is there.
        n_rounds: how often each column has its turn, at most.
    """
    n_classes = offset.shape[1]
    # All classes move at once, and each moves the others: Friedman et al. 2000, LogitBoost.
    alone = (n_classes - 1) / n_classes
    found = tuple(np.zeros((size, n_classes)) for size in sizes)
    columns = [np.ascontiguousarray(column, np.int64) for column in codes.T]
    odds = offset.copy()
    for _ in range(n_rounds):
        slope, bend = _derivatives(odds, labels, mechanism)
        slope, bend = slope * weights[:, None], bend * weights[:, None]
        moved = 0.0
        for column, numbers in zip(columns, found, strict=True):
            up, down = (_sums(column, part, len(numbers)) for part in (slope, bend))
            step = alone * (up - prior_rows * numbers) / (down + prior_rows)
            step = np.clip(step, -MOST_STEP, MOST_STEP)
            numbers += step
            each = step[column]
            odds += each
            # What the other columns then see, to first order.
            slope -= bend * each / alone
            moved = max(moved, float(np.abs(step).max(initial=0.0)))
        if moved < SETTLED:
            break
    return found


def _sums(column: Ints, parts: Floats, n_values: int) -> Floats:
    """Sums over the rows of each value, values × classes."""
    return np.stack([np.bincount(column, part, n_values) for part in parts.T], axis=1)


def _derivatives(odds: Floats, labels: Floats, mechanism: Floats) -> tuple[Floats, Floats]:
    """Of the log-likelihood of each row's label by its odds: slope, and expected curvature.

    A block of rows at a time, because numbers for each pair of classes would fill the memory.
    """
    q = shares_of(odds)
    told = np.maximum(q @ mechanism, 1e-12)
    share = labels / told
    slope, bend = np.empty_like(q), np.empty_like(q)
    n = max(BLOCK // mechanism.size, 1)
    for some in (slice(k, k + n) for k in range(0, len(q), n)):
        apart = q[some, :, None] * (mechanism - told[some, None])  # of P(d), by the odds of f
        slope[some] = (share[some, None] * apart).sum(axis=2)
        bend[some] = (apart**2 / told[some, None]).sum(axis=2)
    return slope, bend


def shares_of(odds: Floats) -> Floats:
    """P(f), along the last axis, of log odds."""
    shares = np.exp(odds - odds.max(axis=-1, keepdims=True))
    result: Floats = shares / shares.sum(axis=-1, keepdims=True)
    return result


@dataclass(frozen=True, eq=False)
class Tilted:
    """The density of each group, tilted for each class by log odds that add up.

    Attributes:
        odds: of each feature the log odds of Df that its values add, groups × values × classes.
        shares: P(c | f, s), groups × classes × clusters.
        values: of each feature P(x_j = v | c, f, s), groups × classes × clusters × values.
        log_mass: log of the factor by which tilts, before they are scaled to sum to 1, change the
            mass of the group's density; groups × classes.
    """

    odds: tuple[Floats, ...]
    shares: Floats
    values: tuple[Floats, ...]
    log_mass: Floats

    @classmethod
    def of(
        cls, odds: Sequence[Floats], shares: Floats, values: Sequence[Floats], rates: Floats
    ) -> Tilted:
        """P(c | s) and P(x_j | c, s), groups × clusters × values, tilted; ``rates`` are P(f) of
        each group."""
        logs = np.repeat(np.log(shares)[:, None], rates.shape[1], axis=1)
        tilted = []
        for numbers, value in zip(odds, values, strict=True):
            # So that the mean over the classes stays near the density of the group.
            tilt = numbers - np.einsum("gvf,gf->gv", numbers, rates)[:, :, None]
            heights = value[:, None] * np.exp(tilt).transpose(0, 2, 1)[:, :, None]
            mass = heights.sum(axis=3, keepdims=True)
            tilted.append(heights / mass)
            logs += np.log(mass[..., 0])
        log_mass = np.logaddexp.reduce(logs, axis=2)
        return cls(tuple(odds), shares_of(logs), tuple(tilted), log_mass)

    def added(self, codes: Codes, groups: Ints | int) -> Floats:
        """Log odds that the features of complete rows add, rows × classes."""
        result = np.zeros((len(codes), self.log_mass.shape[1]))
        for odds, column in zip(self.odds, codes.T, strict=True):
            if odds.any():
                result += odds[groups, column]
        return result
