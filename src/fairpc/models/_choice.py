"""Forest or circuits: chosen by the label, on rows that neither has seen.

EM raises the likelihood of the whole table, where the features weigh more than the label: circuits
may use the values of Df to describe X, and then tell D badly. So the label decides first: circuits
are taken only if they tell D of unseen rows as well as a plain classifier does, the score that a
forest is grown from. Where both are equal the likelihood of the table decides, and circuits that
were learned for it are ahead there (see ``docs/recipe.md`` for the price of a forest).

Features of two values each have little to describe beside the label, and Df seldom drifts there:
such tables, as the paper's are, keep their circuits unless the guard finds that it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fairpc.core import Floats
from fairpc.models._components import TREES, learn_component
from fairpc.models._distribution import FairDistribution
from fairpc.models._fit import Options, fit_parameters
from fairpc.models._initial import cells_of, initial_model
from fairpc.models._label_scores import Scores, label_scores
from fairpc.models._priors import strengths
from fairpc.models._recipe import fit_auto
from fairpc.models._rows import Rows
from fairpc.models._score_mechanism import fit_mechanism, held_to_model, score_bins

START_STEPS: Final = 60
"""Updates of EM of the trees that are compared first."""
CLEARLY: Final = 4.0
AT_LEAST: Final = 0.015
"""Standard errors and nats a row by which the score is so far ahead that trials end."""
MORE_LIKELY: Final = 2.0
NOT_EQUAL: Final = 0.002
"""Standard errors and nats a row by which labels are told better, and not equally well."""


@dataclass(frozen=True)
class LabelGain:
    """What the score has more than circuits in log P(d | x, s) of a row that neither had seen."""

    score: float  #: mean of the score
    gain: float
    standard_error: float

    @property
    def standard_errors(self) -> float:
        """The gain in standard errors."""
        return self.gain / self.standard_error if self.standard_error > 0 else 0.0

    @property
    def clear(self) -> bool:
        """Whether the score is so far ahead that better circuits would not catch up."""
        return self.standard_errors > CLEARLY and self.gain > AT_LEAST

    @property
    def ahead(self) -> bool:
        """Whether the score tells labels better, not equally well."""
        return self.standard_errors > MORE_LIKELY and self.gain > NOT_EQUAL


def compare_labels(rows: Rows, options: Options, rng: np.random.Generator) -> LabelGain:
    """The score against trees and, where these are behind but not clearly, a round of the recipe.

    Folds are compared one after the other, and no more than it takes.
    """
    scores = label_scores(rows, None, rng)
    quiet = replace(options, random_state=rng)
    rates = fit_mechanism(score_bins(rows, scores), quiet).distribution.top_rates
    # Both are held to the model: where its assumptions fail, no model tells labels as well as a
    # classifier that is free of them.
    scores = held_to_model(rows, scores, rates)
    compared = LabelGain(0.0, 0.0, 0.0)
    for fit in (_trees, _round):
        for compared in _by_fold(rows, scores, options, fit, rng):
            if compared.clear:
                return compared
        if not compared.ahead:
            break
    return compared


def _by_fold(
    rows: Rows,
    scores: Scores,
    options: Options,
    fit: Callable[[Rows, Options, np.random.Generator], FairDistribution],
    rng: np.random.Generator,
) -> Iterator[LabelGain]:
    """The comparison after each fold, on all rows so far."""
    total = scores.held.sum(axis=1)
    said: list[Floats] = []
    gains: list[Floats] = []
    weights: list[Floats] = []
    for k in range(scores.held.shape[1]):
        held = np.flatnonzero(scores.held[:, k] > 0)
        others = total - scores.held[:, k]
        used = np.flatnonzero(others > 0)
        model = fit(rows.take(used).with_weights(others[used]), options, rng)
        row = np.arange(len(held))
        told = model.observed(rows.s[held], rows.x[held])[row, rows.d[held]]
        score = np.log(scores.given[k, held, rows.d[held]])
        said.append(score)
        gains.append(score - np.log(np.maximum(told, 1e-300)))
        weights.append(scores.held[held, k])
        yield _gain(np.concatenate(said), np.concatenate(gains), np.concatenate(weights))


def _gain(said: Floats, gains: Floats, weights: Floats) -> LabelGain:
    """Means and the standard error; a row of weight n counts as n rows."""
    share = weights / weights.sum()
    mean = float(share @ gains)
    n = max(float(weights.sum()) - 1.0, 1.0)
    error = float(np.sqrt(share @ (gains - mean) ** 2 / n))
    return LabelGain(float(share @ said), mean, error)


def _trees(rows: Rows, options: Options, rng: np.random.Generator) -> FairDistribution:
    """The first start of the recipe: a Chow–Liu tree per cell, with D in place of Df; then EM."""
    strength = strengths(options.smoothing)[min(1, len(strengths(options.smoothing)) - 1)]
    component = learn_component(TREES, cells_of(rows), None, options.structure, strength, rng)
    start = initial_model("FairPC", rows, component.learned, options.smoothing)
    short = replace(options, max_iter=min(options.max_iter, START_STEPS))
    return fit_parameters(start, rows, {}, short, keep_interrupted=False).distribution


def _round(rows: Rows, options: Options, rng: np.random.Generator) -> FairDistribution:
    """The recipe without mixtures, which hold Df no better."""
    quiet = replace(options, random_state=rng)
    return fit_auto(rows, options=quiet, n_components=1, refit=False).distribution
