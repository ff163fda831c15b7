"""Automatic selection: circuits by one round of structural EM, or a forest circuit.

The paper learns structure with D in place of Df (Section "Structure Learning"). Here that is where
structural EM starts: structure is then learned once more, on soft cells, the rows weighted by
their posterior of Df (:func:`fit_auto`).

EM raises the likelihood of the whole table, where the features weigh more than the label: circuits
may use the values of Df to describe X, and then predict D badly. So held-out labels decide
(:func:`compare_labels`): circuits are taken only if they predict D of unseen rows as well as a
classifier does, the score that a forest is grown from. Where both are equal circuits are taken,
which describe the table better (see ``docs/models.md`` for the price of a forest circuit). Features
of two values each have little to describe beside the label: such tables, as the paper's are, keep
their circuits unless the fit check finds that Df drifted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from fairpc.circuit import CircuitBuilder
from fairpc.core import Floats, InterruptedWarning, warn_caller
from fairpc.data import Table, merge_rare, merged_bins
from fairpc.models._choices import Choices
from fairpc.models._distribution import FairDistribution
from fairpc.models._fair_layers import Layout, build
from fairpc.models._fit import (
    Fitted,
    OnStep,
    Options,
    fit_parameters,
    initial_model,
    label_cells,
)
from fairpc.models._label_scores import ScoreLearning, Scores
from fairpc.models._priors import RECIPE_MECHANISM
from fairpc.models._rows import Rows
from fairpc.models._score_mechanism import fit_mechanism, held_to_model, score_bins
from fairpc.models._soft_cells import DistinctRows, cell_posterior, soft_cells
from fairpc.models._top_em import TopRates
from fairpc.structure import CellCircuits, CellSearch

AUTO: Final = Options(mechanism_prior=RECIPE_MECHANISM)
"""Options of automatic selection: 30 prior rows per (f, s), with D = Df in nine of ten."""
ROUND_ITERATIONS: Final = 100


def fit_auto(rows: Rows, *, options: Options = AUTO, on_step: OnStep | None = None) -> Fitted:
    """Fit FairPC with one circuit per cell, by one round of structural EM.

    It starts from a Chow–Liu tree for each cell (d, s), with D in place of Df, and EM. The round:
    soft cells from the posteriors of Df, a tree for each, splits by exact gain, EM. No rows are
    held out: a split must gain more than its parameters cost.

    ``options`` are as for :func:`fairpc.models._fit.fit`, without a structure.
    Ctrl-C in the round gives back the start, with a warning. ``on_step`` is called with each step
    of EM of both.
    """
    rng = np.random.default_rng(options.random_state)
    part = DistinctRows.of(rows)
    start = fit_trees(part.rows, options, rng, on_step)
    n_rows = round(float(rows.each.sum()))
    try:
        fitted = _round(start.distribution, part, options, rng, on_step)
    except KeyboardInterrupt:
        text = "interrupted: the trees that structural EM starts from are returned"
        warn_caller(text, InterruptedWarning)
        return replace(start, choices=Choices(n_rows, interrupted=True))
    return replace(fitted, choices=Choices(n_rows))


def fit_trees(
    rows: Rows, options: Options, rng: np.random.Generator, on_step: OnStep | None = None
) -> Fitted:
    """EM from Df near D, with a Chow–Liu tree per cell that was learned with D in place of Df."""
    cells = _learned(label_cells(rows), "chow-liu", options, rng)
    start = initial_model("FairPC", rows, cells, options.smoothing)
    return fit_parameters(start, rows, options, on_step=on_step, keep_interrupted=False)


def _round(
    start: FairDistribution,
    part: DistinctRows,
    options: Options,
    rng: np.random.Generator,
    on_step: OnStep | None,
) -> Fitted:
    """Soft cells, a structure for each, EM."""
    posterior = cell_posterior(start, part.rows, part.places)
    cells = _learned(soft_cells(part.rows, part.places, posterior), "gain", options, rng)
    model = model_of_cells(part.rows, cells, start.top_rates)
    short = replace(options, max_iter=min(options.max_iter, ROUND_ITERATIONS))
    return fit_parameters(model, part.rows, short, on_step=on_step, keep_interrupted=False)


def _learned(
    cells: Sequence[Table],
    method: Literal["chow-liu", "gain"],
    options: Options,
    rng: np.random.Generator,
) -> CellCircuits:
    """The circuits of cells, each from a tree of its own."""
    search = CellSearch(
        cells, method=method, trees="cell", smoothing=options.smoothing, random_state=rng
    )
    for _ in search:  # not run(): an interrupt ends the whole fit, not this search alone
        pass
    return search.best()


def model_of_cells(rows: Rows, cells: CellCircuits, rates: TopRates) -> FairDistribution:
    """FairPC with these circuits and upper layers."""
    layout = Layout.of("FairPC", rows)

    def graft(b: CircuitBuilder, f: int, s: int, columns: Sequence[int]) -> int:
        return cells.graft(b, f * layout.n_subgroups + s, columns)

    rate = rates.by_subgroup(layout)
    circuit = build(layout, graft, rates.group_rate, rate, rates.mechanism)
    return FairDistribution("FairPC", layout, circuit)


MAX_LEVELS: Final = 16
"""Levels of a feature that circuits are compared with."""
START_STEPS: Final = 60
"""Updates of EM of the trees that are compared first."""
CLEARLY: Final = 4.0
AT_LEAST: Final = 0.015
"""Standard errors and nats a row by which the score is so far ahead that trials end."""
MORE_LIKELY: Final = 2.0
NOT_EQUAL: Final = 0.002
"""Standard errors and nats a row by which labels are predicted better, and not equally well."""


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
    def better(self) -> bool:
        """Whether the score predicts labels better, not equally well."""
        return self.standard_errors > MORE_LIKELY and self.gain > NOT_EQUAL


def coarser(rows: Rows, ordered: Sequence[bool], n_bins: int, rare: float) -> Rows:
    """Rows of fine codes under about the codes that circuits would have.

    Neighbouring bins that differ least in the label are merged, and rare levels.
    """
    x, sizes = rows.x.copy(order="F"), rows.arities.copy()
    for j, number in enumerate(ordered):
        counts = np.zeros((int(sizes[j]), rows.n_classes))
        known = (rows.x[:, j] >= 0) & (rows.d >= 0)
        np.add.at(counts, (rows.x[known, j], rows.d[known]), rows.weights[known])
        if number:
            place = merged_bins(counts, n_bins)
        else:
            kept, _ = merge_rare(counts.sum(axis=1), rare, MAX_LEVELS)
            place = np.full(len(counts), len(kept))
            place[kept] = np.arange(len(kept))
        x[:, j] = np.append(place, -1)[rows.x[:, j]]
        sizes[j] = max(int(place.max()) + 1, 2)
    return replace(rows, x=x, arities=sizes)


def compare_labels(rows: Rows, options: Options, rng: np.random.Generator) -> LabelGain:
    """The score against trees and, where these are not clearly behind, the circuits of a whole fit.

    Folds are compared one after the other, and no more than it takes.
    """
    learning = ScoreLearning.of(rows, None, rng)
    scores = learning.mixed(learning.by_learner())
    quiet = replace(options, random_state=rng)
    rates = fit_mechanism(score_bins(rows, scores), quiet).distribution.top_rates
    # Both are held to the model: where its assumptions fail, no model predicts labels as well as a
    # classifier that is free of them.
    scores = held_to_model(rows, scores, rates)
    compared = LabelGain(0.0, 0.0, 0.0)
    for fit in (_trees, _circuits):
        for compared in _by_fold(rows, scores, options, fit, rng):
            if compared.clear:
                return compared
        if not compared.better:
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
        likelihood = model.observed(rows.s[held], rows.x[held])[row, rows.d[held]]
        score = np.log(scores.given[k, held, rows.d[held]])
        said.append(score)
        gains.append(score - np.log(np.maximum(likelihood, 1e-300)))
        weights.append(scores.held[held, k])
        every, weight = np.concatenate(gains), np.concatenate(weights)
        share = weight / weight.sum()
        gain = float(share @ every)
        # A row of weight n counts as n rows.
        variance = float(share @ (every - gain) ** 2) / max(weight.sum() - 1.0, 1.0)
        yield LabelGain(float(share @ np.concatenate(said)), gain, float(np.sqrt(variance)))


def _trees(rows: Rows, options: Options, rng: np.random.Generator) -> FairDistribution:
    """The start of structural EM."""
    short = replace(options, max_iter=min(options.max_iter, START_STEPS))
    return fit_trees(rows, short, rng).distribution


def _circuits(rows: Rows, options: Options, rng: np.random.Generator) -> FairDistribution:
    """The circuits that would be taken."""
    return fit_auto(rows, options=replace(options, random_state=rng)).distribution
