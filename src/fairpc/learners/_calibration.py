"""Scores of a classifier as rates of D within each group: isotonic steps, or a sigmoid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit, logit

from fairpc.core import Floats, Positions

KNOT_ROWS: Final = 30.0
"""Rows of a step of the calibration, at least."""
STEP_GROUP: Final = 300.0
"""Rows of a group under which its calibration is a sigmoid: few steps would make scores equal."""
SLOPE: Final = 1e-6
"""Of a calibration beyond its last steps: scores that differ stay in order."""
LEAST: Final = 1e-9
"""Distance of probabilities from 0 and 1: odds must be finite."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """From scores of one group to rates of D.

    Attributes:
        scores, rates: of the steps; the rate in between lies on a line. For a sigmoid: the
            intercept and the slope of the log-odds, and nothing.
        rows: how many rows of equal weight each step is worth.
    """

    scores: Floats
    rates: Floats
    rows: Floats

    def __call__(self, scores: Floats) -> Floats:
        """P(D = 1 | x, s) of scores."""
        if not len(self.rates):
            return np.asarray(expit(self.scores[0] + self.scores[1] * _log_odds(scores)))
        rates = np.interp(scores, self.scores, self.rates)
        return np.asarray(rates + SLOPE * (scores - self.scores.mean()), np.float64)

    def is_sound(self) -> bool:
        """Whether the numbers can be those of a calibration."""
        n = len(self.rates)
        shapes = self.scores.shape, self.rates.shape, self.rows.shape
        if shapes != ((n or 2,), (n,), (n or 1,)) or not np.isfinite(self.scores).all():
            return False
        ascending = not n or bool((np.diff(self.scores) > 0).all())
        return ascending and bool(
            ((self.rates >= 0) & (self.rates <= 1)).all() and np.all(self.rows > 0)
        )

    def variance(self, scores: Floats) -> Floats:
        """Of the rate at these scores, as far as the rows of its steps are few."""
        rates = np.clip(self(scores), LEAST, 1 - LEAST)
        if not len(self.rates):
            # Two numbers were learned from all rows.
            return np.asarray(2 * rates * (1 - rates) / self.rows.sum(), np.float64)
        # Shrunk a little: a step without a label of one class is not certain.
        n = np.interp(scores, self.scores, self.rows)
        shrunk = (rates * n + 1) / (n + 2)
        return np.asarray(shrunk * (1 - shrunk) / n, np.float64)


def kish(weights: Floats, counts: Floats | None = None) -> float:
    """How many rows of equal weight are worth as much as these (Kish)."""
    # By a power of two, so that squares of any weights have a size and no digit changes.
    alike = np.ldexp(weights, -math.frexp(float(weights.max(initial=0.0)))[1])
    if counts is None:
        return float(alike.sum()) ** 2 / float((alike * alike).sum())
    return float(np.dot(alike, counts)) ** 2 / float(np.dot(alike * alike, counts))


def calibrate(scores: Floats, labels: Positions, weights: Floats) -> Calibration:
    """Rates of D along the scores of one group, not falling.

    By isotonic regression whose steps are joined by lines at their centres (Oron and
    Flournoy 2017): scores that differ are not made equal, so that no order is lost. Small groups
    get a sigmoid, and labels that are all alike a step.
    """
    if 0 < labels.mean() < 1 and kish(weights) < STEP_GROUP:
        return _sigmoid(scores, labels, weights)
    return isotonic_steps(scores, labels, weights)


def steps_along(scores: Floats, weights: Floats, n_steps: int) -> tuple[Positions, Positions]:
    """The order of scores, and in this order the step of each, of about equal weight.

    Equal scores share a step, that of the first of them.
    """
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    # By the middle of each row, so that steps are the same from above.
    place = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    step = np.minimum((place * n_steps).astype(np.intp), n_steps - 1)
    return order, step[np.searchsorted(ranked, ranked, side="left")]


def isotonic_steps(scores: Floats, labels: Positions, weights: Floats) -> Calibration:
    """Isotonic regression of labels, by steps of 30 rows, joined at their centres."""
    from sklearn.isotonic import isotonic_regression

    effective = kish(weights)
    order, step = steps_along(scores, weights, int(max(effective // KNOT_ROWS, 1)))
    _, step = np.unique(step, return_inverse=True)
    w = np.bincount(step, weights[order])
    centre = np.bincount(step, weights[order] * scores[order]) / w
    rate = np.bincount(step, weights[order] * labels[order]) / w
    rate = isotonic_regression(rate, sample_weight=w)
    rates, joined = np.unique(rate, return_inverse=True)
    total = np.bincount(joined, w)
    centres = np.bincount(joined, w * centre) / total
    return Calibration(centres, rates, total * effective / total.sum())


def _sigmoid(scores: Floats, labels: Positions, weights: Floats) -> Calibration:
    """Log-odds of D as a line in the log-odds of the score (Platt)."""
    from sklearn.linear_model import LogisticRegression

    line = LogisticRegression(C=10.0).fit(_log_odds(scores)[:, None], labels, weights)
    slope = max(float(line.coef_[0, 0]), SLOPE)
    found = np.array([float(line.intercept_[0]), slope])
    return Calibration(found, np.zeros(0), np.array([kish(weights)]))


def _log_odds(scores: Floats) -> Floats:
    return np.asarray(logit(np.clip(scores, 1e-6, 1 - 1e-6)), np.float64)
