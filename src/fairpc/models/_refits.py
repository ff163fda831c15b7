"""What all refits share: progress, the model and its rows, one plan for many parameter sets.

The structure is kept. Estimates of several parameter sets are put side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment
from sklearn.utils.validation import check_is_fitted

from fairpc.circuit import FlowPlan, SetsStep, em_of_sets, prepare
from fairpc.core import (
    Bools,
    Floats,
    Int32s,
    Ints,
    LearningError,
    Positions,
    counted,
    one_thread,
    showing_progress,
    terminal,
)
from fairpc.data import Table
from fairpc.models._distribution import FairDistribution
from fairpc.models._estimators import CircuitClassifier
from fairpc.models._priors import parameter_prior
from fairpc.models._rows import Rows
from fairpc.models._score_mechanism import BinsFitted, binned_model
from fairpc.models._tables import rows_in_order
from fairpc.models._top_em import BalancedPlan, Limits, parameter_bounds

STAGE: Final = "stage"
"""A unit of work that people wait for, whose number stands behind its words."""


@dataclass(frozen=True)
class Progress:
    """How much is done.

    Attributes:
        what: what is being done, in words.
        done, total: steps; a total of 0 is not known.
        unit: what one of them is called, where ``what`` says what the next one does.
    """

    what: str
    done: int
    total: int
    unit: str = ""

    @property
    def line(self) -> str:
        """All of it in words."""
        if not self.total:
            return f"{self.done:,} {self.what} so far"
        if self.unit == STAGE:
            return f"{self.what} {self.done + 1}/{self.total}"
        if self.unit:
            return f"{self.unit} {self.done + 1:,} of {self.total:,}, {self.what}"
        return f"{self.what}, {self.done:,} of {self.total:,}"


Report = Callable[[Progress], object]


@contextmanager
def progress(verbose: bool, callback: Report | None) -> Iterator[Report]:
    """A function to call with what is done: the user's callback and, if ``verbose``, a bar.

    Where there is no terminal to draw it on, a line now and then says the same.
    """
    console = terminal() if verbose else None
    if console is None:
        with showing_progress("fairpc", shown=verbose) as say:

            def report(now: Progress) -> None:
                say(now.line)
                if callback is not None:
                    callback(now)

            yield report
        return
    from rich.progress import Progress as Bar

    with Bar(console=console, transient=True) as bar:
        task = bar.add_task("Starting", total=None)

        def show(now: Progress) -> None:
            words = now.line if now.unit == STAGE else now.what
            bar.update(task, description=words, completed=now.done, total=now.total or None)
            if callback is not None:
                callback(now)

        yield show


def steps_of(
    report: Report, what: str, total: int, *, before: int = 0, each: int = 1
) -> Callable[[int], object]:
    """A function to call with the number of each update of EM, which reports what is done."""
    return lambda step: report(Progress(what, before + step * each, total))


def check_count(name: str, value: Any, least: int, why: str) -> int:
    """A whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise LearningError(f"{name} is {value!r}: give a whole number from {least} on; {why}")
    return int(value)


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
    def named(self) -> bool:
        """Whether prior knowledge says which value of Df is which: then none may be renamed."""
        return self.limits is not None or self.rows.f is not None


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

    def run(
        self,
        starts: Floats,
        n_steps: int,
        on_step: Callable[[int], object],
        *,
        weights: Floats | None = None,
    ) -> SetsStep:
        """EM of all parameter sets together, ``n_steps`` updates each, within what is known.

        By default with the weights of the rows.
        """
        used, own = self.weights if weights is None else weights, self.subject
        within = parameter_bounds(own.limits, self.plan.graph, own.distribution.layout)
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


@dataclass(frozen=True, eq=False)
class Estimates:
    """P(S), P(Df) and P(D | Df, S) of several parameter sets: [b, s], [b, f], [b, s, f, d]."""

    group_rate: Floats
    fair_rate: Floats
    mechanism: Floats

    @classmethod
    def of(cls, model: FairDistribution, parameters: Floats) -> Estimates:
        """Of parameter sets of a model; within strata the groups' own rates and mechanisms."""
        top, strata, sets = model.top, model.layout.strata, np.atleast_2d(parameters)
        if not (strata or strata.delta):
            return cls(sets[:, top.group], sets[:, top.decision[0]], sets[:, top.mechanism])
        shape = len(sets), model.layout.n_groups, strata.n
        share = sets[:, top.group].reshape(shape)
        decided = sets[:, top.decision].reshape(*shape, -1) * share[..., None]
        mechanism = sets[:, top.mechanism]
        if strata:
            k = decided.shape[-1]
            weight = decided / decided.sum(axis=2, keepdims=True)
            mechanism = np.einsum("bsaf,bsafd->bsfd", weight, mechanism.reshape(*shape, k, k))
        return cls(share.sum(axis=2), decided.sum(axis=(1, 2)), mechanism)

    @classmethod
    def of_model(cls, model: FairDistribution) -> Estimates:
        """Of a model as it is."""
        return cls(model.group_rate[None], model.fair_rate[None], model.mechanism[None])


@dataclass(frozen=True, eq=False)
class Aligned:
    """Estimates after one permutation of Df for all groups, next to a reference."""

    fair_rate: Floats  #: [b, f]
    mechanism: Floats  #: [b, s, f, d]
    permuted: Bools  #: which sets were renamed
    switched: Bools  #: [b, s], where the values of Df inside one group are still in another order


def aligned_to(reference: Estimates, estimates: Estimates, *, named: bool) -> Aligned:
    """Each set with the values of Df in the order of the reference; kept where they are named.

    The order is that in which the mechanisms are nearest. A permutation of Df in all
    groups at once is another name for the same model. One inside a group is
    another model: it is reported, not repaired.
    """
    there, share = reference.mechanism[0], reference.group_rate[0]
    rates, mechanisms = estimates.fair_rate.copy(), estimates.mechanism.copy()
    same = np.arange(rates.shape[1])
    permuted = np.zeros(len(rates), np.bool_)
    switched = np.zeros((len(rates), len(share)), np.bool_)
    for b in range(len(rates)):
        order = same if named else _order(there, mechanisms[b], share)
        rates[b], mechanisms[b] = rates[b, order], mechanisms[b][:, order]
        permuted[b] = (order != same).any()
        for s, alone in enumerate(np.eye(len(share))):
            switched[b, s] = (_order(there, mechanisms[b], alone) != same).any()
    return Aligned(rates, mechanisms, permuted, switched)


def _order(there: Floats, mechanism: Floats, share: Floats) -> Ints:
    """For each value of Df in one mechanism [s, f, d] the value of the other that is nearest."""
    apart = np.abs(there[:, :, None, :] - mechanism[:, None, :, :]).sum(axis=3)
    return np.asarray(linear_sum_assignment(np.tensordot(share, apart, axes=1))[1], np.int64)


def mean_log_likelihood(distribution: FairDistribution, rows: Rows) -> float:
    """Mean log-likelihood of what is observed of the rows: groups, labels, features."""
    used = rows.weights > 0
    logs = distribution.log_likelihood(rows.s, rows.d, rows.x)
    return float(np.dot(rows.weights[used], logs[used]) / rows.weights[used].sum())
