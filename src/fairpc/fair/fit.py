"""Fitting a model to rows of codes: structure, then EM with shared parameters.

The defaults are the paper's protocol: structure learned with D in place of Df
on the training rows, the iterate with the best validation likelihood kept;
then EM on the training rows, the last iterate. Validation rows never enter
parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from fairpc.circuit.bounds import Bounds
from fairpc.circuit.em import Step, em, laplace, maximize
from fairpc.circuit.flows import FlowPlan, RowPlan, prepare
from fairpc.circuit.graph import Circuit
from fairpc.data.table import Table
from fairpc.errors import InterruptedWarning, LearningError
from fairpc.errors.arrays import Floats
from fairpc.fair.balance import BalancedPlan
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.journal import Journal, Run, RunState
from fairpc.fair.knowledge import Limits
from fairpc.fair.rows import Rows
from fairpc.fair.start import Structure, agreeing_mechanism, learn_structure, start_circuit
from fairpc.fair.top import Layout, Model, Top

VALIDATION: Final = "validation_log_likelihood"


@dataclass(frozen=True)
class Options:
    """How a model is fitted.

    Attributes:
        structure: how P(x | f, s) is learned; naive Bayes models ignore it.
        init: "prior", Df near D; "random", every parameter drawn.
        smoothing: Laplace smoothing α of every block.
        mechanism_prior: pseudo-rows per (f, s) with P(D = f) = .9, instead of α.
        max_iter, tol, min_iter: updates of EM, and when it may stop before.
        accelerate: whether EM extrapolates.
        equal_mass: whether each E-step makes the mass of Df equal in the rows of all groups;
            not in the paper, and the objective may then fall.
        random_state: seed of a random start, and of structure where features are missing.
        limits: prior knowledge about P(Df) and the mechanism, kept at every iteration.
        journal: where runs of EM are kept, so that a fit that was killed can go on.
    """

    structure: Structure = field(default_factory=Structure)
    init: str = "prior"
    smoothing: float = 1.0
    mechanism_prior: float = 0.0
    max_iter: int = 500
    tol: float = 1e-6
    min_iter: int = 20
    accelerate: bool = False
    equal_mass: bool = False
    random_state: int | np.random.Generator | None = None
    limits: Limits | None = None
    journal: Journal | None = None

    def __post_init__(self) -> None:
        if self.init not in ("prior", "random"):
            raise LearningError(f"init is {self.init!r}: choose 'prior' or 'random'")
        for name in ("smoothing", "mechanism_prior", "tol"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise LearningError(f"{name} is {getattr(self, name)}: give a number from 0 on")
        if self.equal_mass and self.accelerate:
            raise LearningError("equal_mass and accelerate exclude each other: set one of them")
        if self.equal_mass and self.limits is not None:
            raise LearningError(
                "equal_mass and knowledge exclude each other: equal_mass shifts what knowledge "
                "fixes; set one of them"
            )
        if self.max_iter < 0 or self.min_iter < 0:
            raise LearningError("max_iter and min_iter must not be negative")


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
    callback: Callable[[Step], object] | None = None,
) -> Fitted:
    """Fit one of the paper's four models.

    ``evaluation`` names rows whose mean log-likelihood is kept per iteration,
    beside that of the validation rows. All likelihoods are per unit of weight.
    Models without a latent decision have closed-form parameters on complete
    rows; EM then stands still after one update.
    """
    chosen = options or Options()
    rng = np.random.default_rng(chosen.random_state)
    cells = None
    if model in ("FairPC", "NLatPC"):
        cells = learn_structure(rows, validation, chosen.structure, chosen.smoothing, rng)
    layout, circuit = start_circuit(model, rows, cells, chosen.smoothing)
    if chosen.init == "random":
        circuit = circuit.with_parameters(circuit.graph.random(rng))
    watched = dict(evaluation or {})
    if validation is not None:
        watched[VALIDATION] = validation
    return fit_parameters(model, layout, circuit, rows, watched, chosen, callback)


def fit_parameters(
    model: Model,
    layout: Layout,
    circuit: Circuit,
    rows: Rows,
    evaluation: Mapping[str, Rows],
    options: Options,
    callback: Callable[[Step], object] | None = None,
    *,
    keep_interrupted: bool = True,
    prior: Floats | None = None,
) -> Fitted:
    """EM from the parameters of ``circuit``, its structure fixed.

    ``prior`` holds the pseudo-counts of all parameters, those of ``options`` by default.
    An interrupt (Ctrl-C) ends EM where it stands, with a warning, unless
    ``keep_interrupted`` is false: then it is the caller's.
    """
    graph = circuit.graph
    top = Top.of(graph, layout)
    if prior is None:
        prior = parameter_prior(circuit, layout, top, options)
    bounds = _bounds(circuit, layout, rows, options)
    plan: FlowPlan = row_plan(circuit, layout, rows)
    if options.equal_mass and layout.latent:
        plan = BalancedPlan.of(row_plan(circuit, layout, rows), layout)
    held_out = {name: row_plan(circuit, layout, some) for name, some in evaluation.items()}
    start = circuit.parameters
    if not layout.latent and not _has_holes(rows):
        # Nothing is hidden: one update is the closed form (Equation 1).
        start = maximize(graph, plan(start)[1], prior)
    return run_em(
        FairDistribution(model, layout, circuit.with_parameters(start)), plan, held_out, options,
        prior, bounds, callback, keep_interrupted=keep_interrupted,
    )  # fmt: skip


def run_em(
    start: FairDistribution,
    plan: FlowPlan,
    held_out: Mapping[str, RowPlan],
    options: Options,
    prior: Floats,
    bounds: Bounds | None = None,
    callback: Callable[[Step], object] | None = None,
    *,
    keep_interrupted: bool = True,
) -> Fitted:
    """EM over any plan, from the parameters of ``start``; with a journal, from where it was left.

    ``held_out`` are plans of rows whose mean log-likelihood is kept per iteration.
    """
    theta = start.circuit.parameters
    run = None
    if options.journal is not None:
        run = options.journal.run(plan.graph, theta, prior, [plan.n_rows, plan.total_weight])
    trace = Trace(start.top, plan, held_out, options, run)
    trace.restore()
    steps = em(
        plan, theta, prior=prior, bounds=bounds, accelerate=options.accelerate, after=trace.step
    )
    with trace:
        for step in () if trace.ended else _interruptible(steps) if keep_interrupted else steps:
            trace.add(step)
            if callback is not None:
                callback(step)
            if trace.ended:
                break
    return trace.fitted(start)


def _interruptible(steps: Iterator[Step]) -> Iterator[Step]:
    """The steps; an interrupt (Ctrl-C) after the first ends them with a warning."""
    iteration = None
    while True:
        try:
            step = next(steps)
        except KeyboardInterrupt:
            if iteration is None:
                raise
            warnings.warn(
                f"EM was interrupted: the parameters are those of iteration {iteration}",
                InterruptedWarning, stacklevel=5,
            )  # fmt: skip
            return
        iteration = step.iteration
        yield step


def parameter_prior(circuit: Circuit, layout: Layout, top: Top, options: Options) -> Floats:
    """Pseudo-counts: Laplace everywhere, and for the mechanism rows in which D = Df."""
    prior = laplace(circuit.graph, options.smoothing)
    if layout.latent and options.mechanism_prior > 0:
        prior[top.mechanism] = options.mechanism_prior * agreeing_mechanism(layout)
    return prior


def _bounds(circuit: Circuit, layout: Layout, rows: Rows, options: Options) -> Bounds | None:
    """What prior knowledge allows, if it can be used here."""
    known = options.limits is not None or rows.f is not None
    if known and not layout.latent:
        raise LearningError(
            "prior knowledge was given to a model without a latent decision: use FairPC or LatNB"
        )
    if rows.f is not None and options.equal_mass:
        raise LearningError(
            "equal_mass and fair labels exclude each other: equal_mass shifts the decisions that "
            "the labels fix; set one of them"
        )
    if options.limits is None:
        return None
    options.limits.refuse_contradicted(rows)
    return options.limits.bounds(circuit.graph, layout)


def row_plan(circuit: Circuit, layout: Layout, rows: Rows) -> RowPlan:
    """The plan of some rows for the circuit of a model."""
    codes = layout.codes(rows.s, rows.d, rows.x, rows.f)
    table = Table.of(codes, rows.weights, arities=circuit.arities, names=circuit.names)
    return prepare(circuit.graph, table)


def _has_holes(rows: Rows) -> bool:
    return bool((rows.s < 0).any() or (rows.d < 0).any() or (rows.x < 0).any())


@dataclass(frozen=True, eq=False)
class _Now:
    """Where a run stands: replaced as a whole, for an interrupt may come at any moment."""

    step: Step
    converged: bool
    ended: bool
    odds: Floats | None


class Trace:
    """What is kept of a run of EM, step by step, in memory and in the journal."""

    def __init__(
        self,
        top: Top,
        plan: FlowPlan,
        held_out: Mapping[str, RowPlan],
        options: Options,
        run: Run | None,
    ) -> None:
        self._top, self._plan, self._held_out = top, plan, held_out
        self._options, self._run = options, run
        self._records: list[tuple[float, ...]] = []
        self._mechanisms: list[Floats] = []
        self._now: _Now | None = None

    @property
    def step(self) -> Step | None:
        return None if self._now is None else self._now.step

    @property
    def ended(self) -> bool:
        return self._now is not None and self._now.ended

    def restore(self) -> None:
        """Take up what the journal has of this run."""
        state = None if self._run is None else self._run.read()
        if state is None:
            return
        self._records = [tuple(record) for record in state.records.tolist()]
        self._mechanisms = list(state.mechanisms)
        odds = state.shifts if state.shifts.size else None
        if isinstance(self._plan, BalancedPlan):
            self._plan.odds = odds
        self._now = _Now(state.step, state.converged, state.ended, odds)

    def add(self, step: Step) -> None:
        """One step more."""
        likelihoods = [
            p.log_likelihood(step.parameters) / p.total_weight for p in self._held_out.values()
        ]
        own = (step.objective, step.log_likelihood)
        self._records.append((*(value / self._plan.total_weight for value in own), *likelihoods))
        self._mechanisms.append(step.parameters[self._top.mechanism])
        options, records, converged = self._options, self._records, False
        if len(records) > max(options.min_iter, 1) and options.tol > 0:
            converged = abs(records[-1][0] - records[-2][0]) < options.tol
        odds = self._plan.odds if isinstance(self._plan, BalancedPlan) else None
        self._now = _Now(step, converged, converged or step.iteration >= options.max_iter, odds)
        if self._run is not None and self._run.due:
            self._write(self._run)

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *exception: object) -> None:
        # However EM was left, where it stands is kept.
        if self._run is not None:
            self._write(self._run)

    def fitted(self, start: FairDistribution) -> Fitted:
        """The model at the last step."""
        if self._now is None:
            raise LearningError("EM made no step: there is nothing to give back")
        n = self._now.step.iteration + 1
        names = ["objective", "log_likelihood", *self._held_out]
        history = dict(zip(names, np.array(self._records[:n]).T, strict=True))
        history["mechanism"] = np.array(self._mechanisms[:n])
        history.setdefault(VALIDATION, np.full(n, np.nan))
        circuit = start.circuit.with_parameters(self._now.step.parameters)
        return Fitted(replace(start, circuit=circuit), history, self._now.converged)

    def _write(self, run: Run) -> None:
        now = self._now
        if now is None or (self._options.accelerate and now.step.iteration % 2 and not now.ended):
            return  # in the middle of a cycle there is no place to go on from
        n = now.step.iteration + 1
        records, mechanisms = np.array(self._records[:n]), np.array(self._mechanisms[:n])
        shifts = np.zeros(0) if now.odds is None else now.odds
        run.write(RunState(now.step, records, mechanisms, shifts, now.converged, now.ended))
