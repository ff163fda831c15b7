"""Fitting a model to rows of codes: structure, then EM with shared parameters.

The defaults are the paper's protocol: structure learned with D in place of Df
on the training rows, the iterate with the best validation likelihood kept;
then EM on the training rows, the last iterate. Validation rows never enter
parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any, Final

import numpy as np

from fairpc.circuit import (
    Bounds,
    Circuit,
    EMStep,
    FlowPlan,
    Graph,
    RowPlan,
    Stopping,
    em,
    maximize,
    prepare,
)
from fairpc.core import (
    Codes,
    Floats,
    Int32s,
    InterruptedWarning,
    Ints,
    LearningError,
    fingerprint,
    warn_caller,
)
from fairpc.data import Table
from fairpc.models._checkpoint import Checkpoint, EMState
from fairpc.models._distribution import FairDistribution
from fairpc.models._initial import Structure, initial_model, learn_structure
from fairpc.models._priors import MECHANISM, SMOOTHING, parameter_prior
from fairpc.models._rows import Rows
from fairpc.models._top import Layout, Limits, Model, Places, S, Top
from fairpc.models._training_rows import TrainingRows

VALIDATION: Final = "validation_log_likelihood"
"""Name of the validation rows in a history."""


@dataclass(frozen=True)
class Options:
    """How a model is fitted.

    Attributes:
        structure: how P(x | f, s) is learned; naive Bayes models ignore it.
        init: "prior", Df near D; "random", every parameter drawn.
        smoothing: Laplace smoothing α of every block.
        mechanism_prior: pseudo-rows per (f, s) with P(D = f) = .9, instead of α.
        max_iter, tol, min_iter: updates of EM, and when it may stop before.
        equal_mass: whether each E-step makes the mass of Df equal in the rows of all groups;
            not in the paper, and the objective may then fall.
        random_state: seed of a random start, and of structure where features are missing.
        limits: prior knowledge about P(Df) and the mechanism, kept at every iteration.
    """

    structure: Structure = field(default_factory=Structure)
    init: str = "prior"
    smoothing: float = SMOOTHING
    mechanism_prior: float = MECHANISM
    max_iter: int = 500
    tol: float = 1e-6
    min_iter: int = 20
    equal_mass: bool = False
    random_state: int | np.random.Generator | None = None
    limits: Limits | None = None

    def __post_init__(self) -> None:
        if self.init not in ("prior", "random"):
            raise LearningError(f"init is {self.init!r}: choose 'prior' or 'random'")
        for name in ("smoothing", "mechanism_prior", "tol"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise LearningError(f"{name} is {getattr(self, name)}: give a number from 0 on")
        if self.equal_mass and self.limits is not None:
            raise LearningError(
                "equal_mass and knowledge cannot be combined: equal_mass shifts what knowledge "
                "fixes; set one of them"
            )
        if self.max_iter < 0 or self.min_iter < 0:
            raise LearningError("max_iter and min_iter must not be negative")

    @property
    def stopping(self) -> Stopping:
        """When EM stops."""
        return Stopping(self.max_iter, self.tol, self.min_iter)


@dataclass(frozen=True)
class Observer:
    """Who follows EM: a function that is called with each step, and a checkpoint that keeps it."""

    callback: Callable[[EMStep], object] = lambda step: None
    checkpoint: Checkpoint | None = None


UNOBSERVED: Final = Observer()


@dataclass(eq=False)
class History:
    """One record per step of EM: the objective, log-likelihoods and the mechanism."""

    weight: float  #: of all rows; objective and log-likelihood are per unit of it
    mechanism: Callable[[Any], Floats]  #: P(D | Df, S) at a step
    watched: Mapping[str, Callable[[Any], float]]  #: mean log-likelihoods of other rows
    records: list[Floats] = field(default_factory=list)
    _shape: tuple[int, ...] = ()  #: of the mechanism

    def add(self, step: Any) -> None:
        """One step more."""
        means = [mean(step) for mean in self.watched.values()]
        own = step.objective / self.weight, step.log_likelihood / self.weight
        mechanism = self.mechanism(step)
        self._shape = mechanism.shape
        self.records.append(np.array([*own, *means, *mechanism.ravel()]))

    def arrays(self) -> dict[str, Floats]:
        """All steps, an array for each name."""
        names = ["objective", "log_likelihood", *self.watched]
        table = np.array(self.records)
        result = dict(zip(names, table.T, strict=False))
        result["mechanism"] = table[:, len(names) :].reshape(len(table), *self._shape)
        result.setdefault(VALIDATION, np.full(len(table), np.nan))
        return result


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit gives: the distribution, and one value per EM iteration."""

    distribution: FairDistribution
    history: dict[str, Floats]
    converged: bool


def fit(
    model: Model,
    rows: Rows,
    *,
    validation: Rows | None = None,
    evaluation: Mapping[str, Rows] | None = None,
    options: Options | None = None,
    observer: Observer = UNOBSERVED,
) -> Fitted:
    """Fit one of the paper's four models.

    ``evaluation`` names rows whose mean log-likelihood is kept per iteration,
    beside that of the validation rows. All likelihoods are per unit of weight.
    Models without a latent decision have closed-form parameters on complete
    rows; EM then changes nothing after one update.
    """
    chosen = options or Options()
    rng = np.random.default_rng(chosen.random_state)
    cells = None
    if model in ("FairPC", "NLatPC"):
        cells = learn_structure(rows, validation, chosen.structure, chosen.smoothing, rng)
    start = initial_model(model, rows, cells, chosen.smoothing)
    if chosen.init == "random":
        start = start.with_parameters(start.circuit.graph.random(rng))
    watched = dict(evaluation or {})
    if validation is not None:
        watched[VALIDATION] = validation
    return fit_parameters(start, rows, watched, chosen, observer)


def fit_parameters(
    start: FairDistribution,
    rows: TrainingRows,
    evaluation: Mapping[str, Rows],
    options: Options,
    observer: Observer = UNOBSERVED,
    *,
    keep_interrupted: bool = True,
    prior: Floats | None = None,
) -> Fitted:
    """EM from the parameters of ``start``, its structure fixed.

    ``prior`` holds the pseudo-counts of all parameters, those of ``options`` by default.
    An interrupt (Ctrl-C) ends EM at its last step, with a warning, unless
    ``keep_interrupted`` is false: then it is the caller's.
    """
    circuit, layout = start.circuit, start.layout
    if prior is None:
        prior = parameter_prior(circuit, layout, start.top, options)
    bounds = _bounds(circuit, layout, rows, options)
    plan = rows.plan(circuit, layout)
    if not layout.latent and all(rows.map(attrgetter("complete"))):
        # Nothing is hidden: one update is the closed form (Equation 1).
        flows = plan(circuit.parameters)[1]
        start = start.with_parameters(maximize(circuit.graph, flows, prior))
    balanced = plan
    if options.equal_mass and layout.latent:
        if not isinstance(plan, RowPlan):
            raise LearningError(
                "equal_mass needs all rows in memory: give more with max_memory, or leave it out"
            )
        balanced = BalancedPlan.of(plan, layout)
    watched = {name: some.plan(circuit, layout) for name, some in evaluation.items()}
    given = start, balanced, watched, options, prior, bounds, observer
    return _run_em(*given, keep_interrupted=keep_interrupted)


def _run_em(
    start: FairDistribution,
    plan: FlowPlan,
    watched: Mapping[str, RowPlan],
    options: Options,
    prior: Floats,
    bounds: Bounds | None,
    observer: Observer,
    *,
    keep_interrupted: bool,
) -> Fitted:
    """EM over any plan from the parameters of ``start``; with a checkpoint, from where it was."""
    theta, mechanism = start.circuit.parameters, start.top.mechanism
    means = {name: partial(_mean, some) for name, some in watched.items()}
    history = History(plan.total_weight, lambda step: step.parameters[mechanism], means)
    state, checkpoint, run = EMState(0, theta, _odds(plan)), observer.checkpoint, ""
    if checkpoint is not None:
        run = _name_of_run(plan, theta, prior, watched.values(), options)
        state = checkpoint.state(run, state, 2 + len(means) + mechanism.size)
        history.records += state.history
        if isinstance(plan, BalancedPlan):
            plan.odds = state.odds.reshape(plan.odds.shape)
    steps = em(plan, state.parameters, prior=prior, bounds=bounds, first=state.iteration)
    if keep_interrupted:
        steps = _interruptible(steps)
    odds, before = state.odds, float(history.records[-1][0]) if history.records else np.nan
    try:
        for reached in options.stopping.until(steps, plan.total_weight, before):
            step = reached.step
            if checkpoint is not None:
                kept = tuple(history.records)
                checkpoint.keep(run, EMState(step.iteration, step.parameters, odds, kept))
            odds = _odds(plan)
            history.add(step)
            observer.callback(step)
    finally:
        # However EM was left, what it has reached is kept.
        if checkpoint is not None:
            checkpoint.write()
    model = start.with_parameters(step.parameters)
    return Fitted(model, history.arrays(), reached.converged)


def _name_of_run(
    plan: FlowPlan,
    theta: Floats,
    prior: Floats,
    watched: Iterable[RowPlan],
    options: Options,
) -> str:
    """A fingerprint of what a run of EM does: its graph, start, prior, rows and end."""
    graph, tables = plan.graph, [some.table for some in watched]
    return fingerprint(
        *(graph.kind, graph.child_ptr, graph.child, graph.block, graph.block_ptr, theta, prior),
        *(array for table in tables for array in (table.codes, table.weights)),
        [plan.n_rows, plan.total_weight, options.max_iter, options.min_iter, options.tol],
    )


def _odds(plan: FlowPlan) -> Floats:
    """Where a plan with equal mass starts the search for its shifts; empty of another."""
    return plan.odds if isinstance(plan, BalancedPlan) else np.empty(0)


def _mean(plan: RowPlan, step: EMStep) -> float:
    """Mean log-likelihood of the rows of a plan."""
    return plan.log_likelihood(step.parameters) / plan.total_weight


def _interruptible(steps: Iterator[EMStep]) -> Iterator[EMStep]:
    """The steps; an interrupt (Ctrl-C) after the first ends them with a warning."""
    iteration = None
    while True:
        try:
            step = next(steps)
        except KeyboardInterrupt:
            if iteration is None:
                raise
            text = f"EM was interrupted: the parameters are those of iteration {iteration}"
            warn_caller(text, InterruptedWarning)
            return
        iteration = step.iteration
        yield step


def _bounds(
    circuit: Circuit, layout: Layout, rows: TrainingRows, options: Options
) -> Bounds | None:
    """What prior knowledge allows, if it can be used here."""
    anchored = any(rows.map(attrgetter("n_anchors")))
    if (anchored or options.limits is not None) and not layout.latent:
        raise LearningError(
            "prior knowledge was given to a model without a latent decision: use FairPC or LatNB"
        )
    if anchored and options.equal_mass:
        raise LearningError(
            "equal_mass and fair labels cannot be combined: equal_mass shifts the decisions that "
            "the labels fix; set one of them"
        )
    if options.limits is None:
        return None
    for _ in rows.map(options.limits.refuse_contradicted):
        pass
    return options.limits.bounds(circuit.graph, layout)


@dataclass(eq=False)
class BalancedPlan:
    """A plan whose flows have equal mass of Df in all groups: an option, not in the paper.

    EM balances the pooled posterior of Df only. With a rich P(x | f, s) the mean of
    P(Df | x, s, d) over the rows of a group may drift from P(Df), which is the same for all
    groups. Here each E-step shifts the log-odds of Df in each group so that its mass in the
    group's rows is P(Df) times their number, with strata within each of them. The MAP objective may
    then fall.

    The log-odds are shifted by giving each group weights of its own in the sum over
    Df, in a copy of the graph where these are not shared. They are found from P(f, row | s) of
    every row, which the shifts do not change. The shifts of one call are where the next one
    starts.

    Attributes:
        graph, plan: of the model itself.
        apart: the same rows in the copy of the graph.
        source: for each parameter of the copy, the one that it is a copy of.
        decision, shared: parameters of P(f) in the copy and in the model, [s, f].
        places: every row once for each subgroup that it may be from.
        placed: plan of the rows of the places; ``at`` gives the distinct row of each.
        odds: by which P(f) was last multiplied, [s, f]; 1 before the first call.
    """

    graph: Graph
    plan: RowPlan
    apart: RowPlan
    source: Ints
    decision: Ints
    shared: Ints
    places: Places
    placed: RowPlan
    at: Int32s
    odds: Floats = field(repr=False)

    @classmethod
    def of(cls, plan: RowPlan, layout: Layout) -> BalancedPlan:
        """The plan of the same rows with balanced flows."""
        graph = plan.graph
        top = Top.of(graph, layout)
        untied, source = _untie(graph, top)
        apart, decision = prepare(untied, plan.table), Top.of(untied, layout).decision
        places, codes = _places(plan.table, layout)
        placed, at = plan, np.arange(plan.n_distinct, dtype=np.int32)
        if len(codes) > plan.n_distinct:
            placed = prepare(graph, Table.of(codes, arities=graph.arities))
            at = placed.row_of
        odds = np.ones(top.decision.shape)
        return cls(graph, plan, apart, source, decision, top.decision, places, placed, at, odds)

    @property
    def n_rows(self) -> int:
        return self.plan.n_rows

    @property
    def total_weight(self) -> float:
        return self.plan.total_weight

    def __call__(self, parameters: Floats, weights: Floats | None = None) -> tuple[float, Floats]:
        """Log-likelihood of the model itself, and balanced flows."""
        log_likelihood = self.plan.log_likelihood(parameters, weights)
        places = replace(self.places, weights=self.plan.distinct_weights(weights))
        rate = parameters[self.shared]
        joint, rates = self._log_joint(parameters), rate[: places.strata.n]
        _, self.odds = places.equalised(joint, rates, self.odds)
        shifted = rate * self.odds
        theta = parameters[self.source]
        theta[self.decision] = shifted / shifted.sum(axis=1, keepdims=True)
        flows = self.apart(theta, weights)[1]
        summed = np.bincount(self.source, flows, self.graph.n_parameters)
        return log_likelihood, np.asarray(summed, np.float64)

    def _log_joint(self, parameters: Floats) -> Floats:
        """log P(s, f, row), places × classes: P(row) with all the mass of Df on f, times P(f)."""
        certain = parameters.copy()
        joint = np.empty((len(self.places.row), self.shared.shape[1]))
        for f in range(joint.shape[1]):
            certain[self.shared] = 0.0
            certain[self.shared[:, f]] = 1.0
            joint[:, f] = self.placed.row_logs(certain)[self.at]
        with np.errstate(divide="ignore"):
            joint += np.log(parameters[self.shared])[self.places.s]
        return joint

    def batch(self, parameters: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
        """One parameter set after the other."""
        sets = len(parameters)
        rows = [None] * sets if weights is None else np.broadcast_to(weights, (sets, self.n_rows))
        results = [self(theta, w) for theta, w in zip(parameters, rows, strict=True)]
        return np.array([r[0] for r in results]), np.stack([r[1] for r in results])


def _places(table: Table, layout: Layout) -> tuple[Places, Codes]:
    """Every row of a table of the circuit in each subgroup that it may be from; and its codes."""
    codes, x = table.codes, slice(layout.x.start, layout.x.stop)
    columns = codes[:, S], codes[:, layout.d], codes[:, x], table.weights
    sizes = layout.n_groups, layout.n_classes, np.array(layout.arities), layout.names
    places = Places.of(Rows(*columns, *sizes, strata=layout.strata))
    placed = np.asfortranarray(codes[places.row])
    placed[:, S] = places.s // layout.strata.n
    placed[:, x] = layout.strata.placed(placed[:, x], places.stratum)
    return places, placed


def _untie(graph: Graph, top: Top) -> tuple[Graph, Ints]:
    """The graph with weights of its own for each group's sum over Df; and whose copy each is."""
    block, block_ptr = graph.block.copy(), graph.block_ptr
    source = np.arange(graph.n_parameters)
    for first in np.unique(graph.parameter_block[top.decision[:, 0]]).tolist():
        own = np.arange(block_ptr[first], block_ptr[first + 1])
        for node in np.flatnonzero(graph.block == first)[1:]:
            block[node] = len(block_ptr) - 1
            block_ptr = np.append(block_ptr, block_ptr[-1] + len(own))
            source = np.concatenate([source, own])
    return replace(graph, block=block, block_ptr=block_ptr), source
