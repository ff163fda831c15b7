"""Automatic selection: which structure circuits get, and whether a forest circuit is better.

The paper learns structure with D in place of Df (Section "Structure Learning"). Here that is where
structural EM starts: structures are then learned on soft cells, the rows weighted by their
posterior of Df. What is uncertain is chosen on validation rows, and the chosen model is fitted
again to all rows (:func:`fit_auto`).

EM raises the likelihood of the whole table, where the features weigh more than the label: circuits
may use the values of Df to describe X, and then predict D badly. So the label decides first
(:func:`compare_labels`): circuits are taken only if they predict D of unseen rows as well as a
classifier does, the score that a forest is grown from. Where both are equal the likelihood of the
table decides (see ``docs/recipe.md`` for the price of a forest circuit). Features of two values
each have little to describe beside the label: such tables, as the paper's are, keep their circuits
unless the fit check finds that Df drifted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairpc.core import Floats, InterruptedWarning, LearningError, warn_caller
from fairpc.data import Table, merge_rare, merged_bins
from fairpc.models._choices import Choices, paired_gain
from fairpc.models._components import (
    MIXED,
    PAPER,
    SINGLE,
    TREES,
    Component,
    DistinctRows,
    assemble,
    cell_posterior,
    choose_strength,
    fit_top,
    learn_clusters,
    learn_component,
    shrinking_prior,
    soft_cells,
    validation_weights,
)
from fairpc.models._distribution import FairDistribution
from fairpc.models._fair_layers import Layout
from fairpc.models._fit import (
    Fitted,
    OnStep,
    Options,
    Structure,
    fit_parameters,
    initial_model,
    label_cells,
)
from fairpc.models._label_scores import Scores, label_scores
from fairpc.models._priors import RECIPE_MECHANISM, strengths
from fairpc.models._rows import Rows, hold_out, joined
from fairpc.models._score_mechanism import fit_mechanism, held_to_model, score_bins
from fairpc.models._strata import Strata
from fairpc.models._top_em import TopRates

AUTO: Final = Options(mechanism_prior=RECIPE_MECHANISM)
"""Options of automatic selection: 30 prior rows per (f, s), with D = Df in nine of ten."""
ROUND_ITERATIONS: Final = 100
LEAST_GAIN: Final = 0.01
"""Nats a validation row for which a mixture is taken whatever its standard error."""
LEAST_WEIGHT: Final = 0.05
"""Components of less weight do not enter the refit."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage of automatic selection."""

    name: str  #: what was done
    fitted: Fitted  #: the model it led to, with the choices made so far
    score: float  #: mean log-likelihood of the validation rows; nan where these were fitted to
    last: bool = False  #: whether this is what the selection ends with


def fit_auto(
    rows: Rows,
    *,
    validation: Rows | None = None,
    options: Options = AUTO,
    n_components: int | None = None,
    validation_fraction: float = 0.1,
    refit: bool = True,
    callback: Callable[[Stage], object] | None = None,
    on_step: OnStep | None = None,
) -> Fitted:
    """Fit FairPC by automatic selection of its structure.

    0. The strength of shrinking, on held-out rows, from ``options.smoothing`` upwards.
    1. Start: a Chow–Liu tree per cell or the paper's structure, whichever is better on
       the validation rows; both with D in place of Df, then EM.
    2. A single circuit per cell: soft cells, a tree for each, splits by gain, EM.
    3. A mixture of circuits whose structures are learned on Bayesian-bootstrap weights of
       the soft cells; its weights by EM on the validation rows, the upper layers on the others.
    4. The mixture if it gains more than one standard error, or .01 nats, a validation row;
       else the single circuit. Where ``n_components`` asks for a mixture: that, or trees of
       as many clusters of each cell's rows, whichever is better on the validation rows.
    5. The chosen model again on all rows: a single circuit with a new structure, the
       components of a mixture with theirs.

    Fair rates are equal in all of them but the last, where they may differ by the strata's delta.
    Ctrl-C gives back the best model so far, with a warning; before the first, none.

    Without ``validation`` a part of the training rows is held out, the same part of each (d, s).
    ``options`` are as for :func:`fairpc.models._fit.fit`; ``structure`` bounds Strudel's search,
    ``smoothing`` is the least strength by which parameters are shrunk (0: not at all). With
    ``n_components`` None the validation rows choose how many circuits are inside each P(x | f, s).
    Without ``refit`` the last step is left out. ``on_step`` is called with each step of EM over all
    parameters, in stages 1, 2 and 5.
    """
    if n_components is not None and n_components < 1:
        raise LearningError(f"n_components is {n_components}: give a number from 1 on, or None")
    rng = np.random.default_rng(options.random_state)
    if validation is None:
        rows, validation = hold_out(rows, validation_fraction, rng)
    if Layout.of("FairPC", rows) != Layout.of("FairPC", validation):
        raise LearningError(
            "training and validation rows differ in groups, classes or features: encode them alike"
        )
    strata, limits = rows.strata, options.limits
    if limits is None or len(np.atleast_2d(limits.rate_lower)) <= strata.n:
        # The choice is made where rates are equal: it does not depend on delta.
        tied = replace(strata, delta=0.0)
        rows, validation = rows.with_strata(tied), validation.with_strata(tied)
    parts = DistinctRows.of(rows), DistinctRows.of(validation)
    selection = _Selection(*parts, options, n_components, refit, rng, on_step, strata)
    found = _last_stage(iter(selection), callback or (lambda stage: None))
    return _with_strata(found, strata)


def _with_strata(fitted: Fitted, strata: Strata) -> Fitted:
    """The same where rates of groups may differ by the delta that was asked for."""
    if fitted.distribution.layout.strata == strata:
        return fitted
    return replace(fitted, distribution=fitted.distribution.with_delta(strata.delta))


def _last_stage(stages: Iterator[Stage], callback: Callable[[Stage], object]) -> Fitted:
    """What the selection ends with; after an interrupt, the best on the validation rows so far."""
    best = next(stages)  # before there is a model, an interrupt has nothing to keep
    try:
        callback(best)
        for stage in stages:
            if stage.last or stage.score > best.score:
                best = stage
            callback(stage)
    except KeyboardInterrupt:
        if best.last:
            return best.fitted
        text = (
            f"interrupted: the best model so far is returned ({best.name}; mean validation "
            f"log-likelihood {best.score:.4f})"
        )
        warn_caller(text, InterruptedWarning)
        choices = best.fitted.choices
        return replace(best.fitted, choices=choices and replace(choices, interrupted=True))
    return best.fitted


@dataclass(frozen=True, eq=False)
class _Model:
    """A model on its way through the selection, and log P of each distinct validation row."""

    fitted: Fitted
    components: tuple[Component, ...]
    weights: Floats
    scores: Floats

    @property
    def distribution(self) -> FairDistribution:
        return self.fitted.distribution


@dataclass(eq=False)
class _Selection:
    """The stages, to be iterated once; attributes as the arguments of :func:`fit_auto`."""

    train: DistinctRows
    held_out: DistinctRows
    options: Options
    n_components: int | None
    refit: bool
    rng: np.random.Generator
    on_step: OnStep | None
    strata: Strata  #: as asked for, of the last stage; before it rates of groups are equal

    def __post_init__(self) -> None:
        least = self.options.smoothing
        self.strength, scores = choose_strength(self.train, self.held_out, least, self.rng)
        n_rows = self.train.n_rows, self.held_out.n_rows
        self.choices = Choices(*n_rows, strength=self.strength, strength_scores=scores)

    @property
    def given(self) -> tuple[Structure, float, np.random.Generator]:
        """What structures are learned with."""
        return self.options.structure, self.strength, self.rng

    def __iter__(self) -> Iterator[Stage]:
        start = yield from self._starts()
        chosen = self._round(start, self.train)
        self._note(single_score=self.held_out.mean(chosen.scores))
        yield self._stage("round 1 of structural EM", chosen)
        if self.n_components != 1:
            chosen = yield from self._mixtures(chosen)
        name = "the chosen model on all rows" if self.refit else "the chosen model"
        yield self._stage(name, self._refitted(chosen) if self.refit else chosen, last=True)

    def _starts(self) -> Generator[Stage, None, _Model]:
        """The better of two structures that were learned with D in place of Df."""
        cells, held_out = label_cells(self.train.rows), label_cells(self.held_out.rows)
        models, scores = [], {}
        for kind in (TREES, PAPER):
            component = learn_component(kind, cells, held_out, *self.given)
            start = self._initial(component)
            if self.options.init == "random":
                start = start.with_parameters(start.circuit.graph.random(self.rng))
            model = self._learned(start, [component], self.train, self.options.max_iter)
            models.append(model)
            scores[kind.words] = self.held_out.mean(model.scores)
            best = max(scores, key=lambda k: scores[k])
            self._note(start=best, start_scores=dict(scores))
            yield self._stage(f"start from {kind.words}", model)
        return models[int(np.argmax(list(scores.values())))]

    def _note(self, **choices: Any) -> None:
        """Remember what was chosen, and on what grounds."""
        self.choices = replace(self.choices, **choices)

    def _initial(self, component: Component) -> FairDistribution:
        """The paper's start: Df near D."""
        smoothing = self.options.smoothing
        return initial_model("FairPC", self.train.rows, component.learned, smoothing)

    def _mixtures(self, single: _Model) -> Generator[Stage, None, _Model]:
        """A mixture if it is clearly better; where one is asked for, the better of two."""
        held_out, mixture = self.held_out, self._mixture(single)
        weights = held_out.rows.weights
        gain, error = paired_gain(mixture.scores, single.scores, weights, held_out.effective)
        self._note(mixture_gain=gain, standard_error=error)
        yield self._stage("a mixture of structures", mixture)
        if self.n_components is None:
            return mixture if gain > min(error, LEAST_GAIN) else single
        clusters = self._clusters(self.n_components)
        gain = held_out.mean(clusters.scores) - held_out.mean(mixture.scores)
        self._note(clusters_gain=gain)
        yield self._stage("a mixture of clusters", clusters)
        return clusters if gain > 0 else mixture

    def _round(self, model: _Model, part: DistinctRows) -> _Model:
        """Soft cells, a structure for each, EM."""
        cells = _cells(model.distribution, part)
        component = learn_component(SINGLE, cells, None, *self.given)
        start = assemble(part.rows, [component], np.ones(1), model.distribution.top_rates)
        return self._learned(start, [component], part)

    def _learned(
        self,
        start: FairDistribution,
        components: Sequence[Component],
        part: DistinctRows,
        max_iter: int = ROUND_ITERATIONS,
    ) -> _Model:
        """EM over all parameters of a model."""
        prior = shrinking_prior(start, components, part.rows, self.strength, self.options)
        options = replace(self.options, max_iter=min(self.options.max_iter, max_iter))
        fitted = fit_parameters(
            start, part.rows, options, on_step=self.on_step, keep_interrupted=False, prior=prior
        )
        layout, shares = start.layout, np.ones(1)
        if layout.component is not None:
            nothing = np.full((1, len(layout.variables)), -1)
            shares = fitted.distribution.circuit.posterior(layout.component, nothing)[0]
        return self._model(fitted, components, shares)

    def _mixture(self, single: _Model) -> _Model:
        """Several structures, weighted by the validation rows."""
        cells = _cells(single.distribution, self.train)
        held_out = _cells(single.distribution, self.held_out)
        learned = [
            learn_component(MIXED[k % len(MIXED)], cells, held_out, *self.given, bootstrap=True)
            for k in range(self.n_components or len(MIXED))
        ]
        counts = [c.counts(cells, self.strength) for c in learned]
        rates = single.distribution.top_rates
        found = {}
        for strength in strengths(self.options.smoothing):
            components = [c.with_counts(n, strength) for c, n in zip(learned, counts, strict=True)]
            found[strength] = components, *validation_weights(components, self.held_out, rates)
        strength = max(found, key=lambda k: found[k][2])
        self._note(mixture_strength=strength)
        components, weights, _ = found[strength]
        return self._weighted(components, weights, rates, self.train)

    def _weighted(
        self, components: Sequence[Component], weights: Floats, rates: TopRates, part: DistinctRows
    ) -> _Model:
        """The upper layers of a mixture by EM."""
        fitted = fit_top(components, weights, part, rates, self.options)
        return self._model(fitted, components, weights)

    def _clusters(self, n_clusters: int) -> _Model:
        """Trees of clusters of the cells, with D in place of Df, then EM over all parameters."""
        rows = self.train.rows
        components, shares = learn_clusters(label_cells(rows), n_clusters, *self.given)
        rates = self._initial(components[0]).top_rates
        return self._learned(assemble(rows, components, shares, rates), components, self.train)

    def _refitted(self, chosen: _Model) -> _Model:
        """The chosen model on all rows, with the complexity it had."""
        rows = joined(self.train.rows, self.held_out.rows).with_strata(self.strata)
        part = DistinctRows.of(rows)
        chosen = replace(chosen, fitted=_with_strata(chosen.fitted, self.strata))
        if len(chosen.components) == 1:
            return self._round(chosen, part)
        if chosen.components[0].kind.clusters:
            return self._learned(chosen.distribution, chosen.components, part)
        kept = list(range(len(chosen.components)))
        if self.n_components is None:
            # Where their number was not asked for, components that hardly matter go.
            small = [k for k in kept if chosen.weights[k] < LEAST_WEIGHT]
            self._note(dropped=tuple(chosen.components[k].kind.words for k in small))
            kept = [k for k in kept if k not in small]
        cells = _cells(chosen.distribution, part)
        strength = self.choices.mixture_strength
        components = [chosen.components[k] for k in kept]
        components = [c.with_counts(c.counts(cells, strength), strength) for c in components]
        weights = chosen.weights[kept] / chosen.weights[kept].sum()
        return self._weighted(components, weights, chosen.distribution.top_rates, part)

    def _model(self, fitted: Fitted, components: Sequence[Component], weights: Floats) -> _Model:
        held_out = self.held_out
        scores = cell_posterior(fitted.distribution, held_out.rows, held_out.places)[0]
        return _Model(fitted, tuple(components), weights, scores)

    def _stage(self, name: str, model: _Model, last: bool = False) -> Stage:
        refitted = last and self.refit
        choices = replace(
            self.choices,
            components=tuple(c.kind.words for c in model.components),
            weights=tuple(model.weights.tolist()),
            refitted=refitted,
        )
        score = np.nan if refitted else self.held_out.mean(model.scores)
        return Stage(name, replace(model.fitted, choices=choices), score, last)


def _cells(distribution: FairDistribution, part: DistinctRows) -> list[Table]:
    """The soft cells of some rows under a model."""
    posterior = cell_posterior(distribution, part.rows, part.places)[1]
    return soft_cells(part.rows, part.places, posterior)


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
        if j in rows.strata.columns:
            continue
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
    """The score against trees and, where these are not clearly behind, a round of the selection.

    Folds are compared one after the other, and no more than it takes.
    """
    scores = label_scores(rows, None, rng)
    quiet = replace(options, random_state=rng)
    rates = fit_mechanism(score_bins(rows, scores), quiet).distribution.top_rates
    # Both are held to the model: where its assumptions fail, no model predicts labels as well as a
    # classifier that is free of them.
    scores = held_to_model(rows, scores, rates)
    compared = LabelGain(0.0, 0.0, 0.0)
    for fit in (_trees, _round):
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
        mean = float(weight / weight.sum() @ np.concatenate(said))
        # A row of weight n counts as n rows.
        yield LabelGain(mean, *paired_gain(every, np.zeros(len(every)), weight, weight.sum()))


def _trees(rows: Rows, options: Options, rng: np.random.Generator) -> FairDistribution:
    """The first start: a Chow–Liu tree per cell, with D in place of Df; then EM."""
    strength = strengths(options.smoothing)[min(1, len(strengths(options.smoothing)) - 1)]
    component = learn_component(TREES, label_cells(rows), None, options.structure, strength, rng)
    start = initial_model("FairPC", rows, component.learned, options.smoothing)
    short = replace(options, max_iter=min(options.max_iter, START_STEPS))
    return fit_parameters(start, rows, short, keep_interrupted=False).distribution


def _round(rows: Rows, options: Options, rng: np.random.Generator) -> FairDistribution:
    """The selection without mixtures, which hold Df no better."""
    quiet = replace(options, random_state=rng)
    return fit_auto(rows, options=quiet, n_components=1, refit=False).distribution
