"""What all refits share: the fitted model and its rows, and EM of many parameter sets in one plan.

The structure is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from fairpc.circuit import Bounds, FlowPlan, SetsStep, em_of_sets, prepare
from fairpc.core import Floats, Int32s, LearningError, Positions, counted
from fairpc.data import Table
from fairpc.learners import one_thread
from fairpc.models._distribution import FairDistribution
from fairpc.models._estimators import CircuitClassifier
from fairpc.models._priors import parameter_prior
from fairpc.models._refit_draws import (
    Draws,
    Estimates,
    Replicated,
    Report,
    steps_of,
)
from fairpc.models._rows import Rows
from fairpc.models._score_mechanism import BinsFitted, binned_model
from fairpc.models._tables import rows_in_order
from fairpc.models._top_em import BalancedPlan, Limits, parameter_bounds

BLOCK: Final = 32
"""Replicates that are fitted together: bounds memory, and each gets its turn at Ctrl-C."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted circuit with a latent fair decision, and rows."""

    model: CircuitClassifier  #: the classifier
    rows: Rows  #: the rows as they were given
    limits: Limits | None  #: the knowledge that the model was fitted with, if any
    whole: Rows  #: the rows with all their features
    persons: Positions | None = None  #: who each row is about, where persons repeat
    bins: BinsFitted | None = None  #: what is fitted again of a forest, to bins of its score

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        y: Any,
        sensitive_features: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        fair_labels: Any = None,
        clusters: npt.ArrayLike | None = None,
    ) -> Subject:
        if not isinstance(model, CircuitClassifier):
            raise LearningError(
                f"a {type(model).__name__} was given: refits take a fitted FairPC or LatNB"
            )
        check_is_fitted(model, "distribution_")
        if not model.distribution_.layout.latent:
            raise LearningError(
                f"{type(model).__name__} has no latent fair decision, so no mechanism to fit "
                "again: use FairPC or LatNB"
            )
        rows = rows_in_order(model.coding_, X, y, sensitive_features, sample_weight, fair_labels)
        if not (rows.s >= 0).any():
            raise LearningError(
                "the groups of the rows are not known: give sensitive_features, or X with the "
                "sensitive columns"
            )
        return cls.of_codes(model, rows, clusters)

    @classmethod
    def of_codes(
        cls, model: CircuitClassifier, rows: Rows, clusters: npt.ArrayLike | None = None
    ) -> Subject:
        """Of rows that are encoded as the model encodes them."""
        if model.n_anchors_ and rows.f is None:
            raise LearningError(
                f"the model was fitted with {counted(model.n_anchors_, 'fair label')} and none are "
                "given here: pass the same fair_labels"
            )
        persons = _persons(clusters, rows)
        rows = rows.with_strata(model.distribution_.layout.strata)
        limits = model._limits(model.coding_, model.knowledge_)
        if model.distribution_.is_forest:
            options = replace(model._em_options(limits), random_state=0)
            binned, bins = binned_model(rows, model.coding_.features.ordered, options)
            return cls(model, binned, limits, rows, persons, bins)
        return cls(model, rows, limits, rows, persons)

    @property
    def groups(self) -> tuple[str, ...]:
        return self.model.coding_.group_names

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(str(c) for c in self.model.coding_.labels.classes)

    @property
    def positive(self) -> int:
        return self.model.coding_.labels.positive

    @property
    def distribution(self) -> FairDistribution:
        """What is fitted again: of a forest the model of its score, which has its mechanism."""
        return self.model.distribution_ if self.bins is None else self.bins.distribution

    @property
    def mechanism(self) -> Floats:
        """P(D = d | Df = f, S = s), [s, f, d], before anything is fitted again."""
        return self.distribution.mechanism

    @property
    def fair_rate(self) -> Floats:
        """P(Df = f), before anything is fitted again."""
        return self.distribution.fair_rate

    def observed(self) -> Floats:
        """P(D = positive | x, s) of each row."""
        return self.distribution.observed(self.rows.s, self.rows.x)[:, self.positive]

    @property
    def named(self) -> bool:
        """Whether prior knowledge says which value of Df is which: then none may be renamed."""
        return self.limits is not None or self.rows.f is not None

    def with_parameters(self, theta: Floats) -> FairDistribution:
        """The model's distribution with other parameters."""
        own = self.distribution
        return FairDistribution(own.model, own.layout, own.circuit.with_parameters(theta))

    def replicated(
        self, draws: Draws, n_replicates: int, rng: np.random.Generator, report: Report
    ) -> Replicated:
        """The model after more EM on its own rows, and the same from there on each draw of them."""
        plan, n_steps = RefitPlan.of(self).without_mechanism_prior(), draws.n_steps
        model, start = self.distribution, self.distribution.circuit.parameters[None]
        total = (n_replicates + 1) * n_steps
        steps = steps_of(report, "the model on its own rows", total)
        own = plan.run(start, n_steps, steps).parameters
        found = [own[:0]]
        for first in range(0, n_replicates, BLOCK):
            size = min(BLOCK, n_replicates - first)
            drawn = [draws.weights(self.rows.weights, rng) for _ in range(size)]
            merged = [np.bincount(plan.row_of, weights, len(plan.weights)) for weights in drawn]
            before, starts = (first + 1) * n_steps, np.repeat(own, size, axis=0)
            steps = steps_of(report, "bootstrap replicates", total, before=before, each=size)
            again = plan.run(starts, n_steps, steps, weights=np.array(merged, np.float64))
            found.append(again.parameters)
        return Replicated(Estimates.of(model, own), Estimates.of(model, np.concatenate(found)))


@dataclass(frozen=True, eq=False)
class RefitPlan:
    """A plan over the distinct rows of a subject: many parameter sets are fitted in it at once."""

    subject: Subject
    plan: FlowPlan  #: the distinct rows, made ready
    row_of: Int32s  #: the distinct row of each row
    weights: Floats  #: weight of each distinct row
    prior: Floats  #: pseudo-counts, as when the model was fitted

    @classmethod
    def of(cls, subject: Subject, rows: Rows | None = None) -> RefitPlan:
        """For the rows of the subject, or others with the same coding.

        A mixture inside P(x | f, s) is fitted by parts, and EM over all its parameters would
        take it elsewhere. All rows count as being from its heaviest component, which is then
        the only one that is fitted.
        """
        used = subject.rows if rows is None else rows
        layout, circuit = subject.distribution.layout, subject.distribution.circuit
        codes = layout.codes(used.s, used.d, used.x, used.f)
        if layout.component is not None:
            each = np.full((layout.n_components, len(layout.variables)), -1, np.int16)
            each[:, layout.component] = np.arange(layout.n_components)
            codes[:, layout.component] = np.argmax(circuit.log_marginal(each))
        rows_of_codes = Table.of(codes, used.weights, arities=circuit.arities, names=circuit.names)
        table, row_of = rows_of_codes.merged()
        options = subject.model._em_options(subject.limits)
        prior = parameter_prior(circuit, layout, subject.distribution.top, options)
        if subject.bins is not None:
            prior = subject.bins.prior
        plan = prepare(circuit.graph, table)
        balanced = BalancedPlan.of(plan, layout) if options.equal_mass else plan
        return cls(subject, balanced, row_of, table.weights, prior)

    def without_mechanism_prior(self) -> RefitPlan:
        """The same with the mechanism smoothed as other parameters are, whatever its prior was."""
        subject, prior = self.subject, self.prior.copy()
        smoothing = subject.model._em_options(subject.limits).smoothing
        prior[subject.distribution.top.mechanism] = smoothing / len(subject.classes)
        return replace(self, prior=prior)

    def bounds(self, limits: Limits | None) -> Bounds | None:
        layout = self.subject.distribution.layout
        return parameter_bounds(limits, self.plan.graph, layout)

    def run(
        self,
        starts: Floats,
        n_steps: int,
        on_step: Callable[[int], object],
        *,
        weights: Floats | None = None,
        bounds: Bounds | None = None,
    ) -> SetsStep:
        """EM of all parameter sets together, ``n_steps`` updates each.

        By default with the weights of the rows, within the bounds of the model's own knowledge.
        """
        used = self.weights if weights is None else weights
        within = self.bounds(self.subject.limits) if bounds is None else bounds
        # An update has a few products of some ten thousand numbers, where threads of linear algebra
        # wait for each other a thousand times as long as they work; the kernels have their own.
        with one_thread("blas"):
            for step in em_of_sets(self.plan, starts, used, prior=self.prior, bounds=within):
                on_step(step.iteration)
                if step.iteration >= n_steps:
                    break
        return step


def _persons(clusters: npt.ArrayLike | None, rows: Rows) -> Positions | None:
    """Number of the person that each row is about; None where each is about another."""
    if clusters is None:
        return None
    values = np.asarray(clusters)
    if values.shape != (rows.n_rows,):
        raise LearningError(f"{rows.n_rows} rows and {values.size} clusters: give one per row")
    ids = np.unique(values, return_inverse=True)[1]
    if ids.max() < 1:
        raise LearningError("clusters has 1 person: refits draw or hold out persons and need two")
    return np.asarray(ids, np.intp)
