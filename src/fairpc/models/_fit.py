"""Fitting a model to rows of codes: where EM starts, EM with shared parameters, several starts.

The defaults are the paper's protocol: structure learned with D in place of Df on the training rows,
the iterate with the best validation likelihood kept; then EM on the training rows, the last
iterate. Validation rows never enter parameters.

EM starts with Df near D (Section "Initial parameters using prior knowledge"). Exact equality is a
fixed point of EM, so the start is P(D = f | Df = f, S) = .9.

Permuting the values of Df in all groups at once changes no likelihood, so a random start may end
with them in any order (label switching). One global permutation puts them back next to the
observed classes. A permutation inside one group only is another model, and often as likely: it is
reported, never repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fairpc.circuit import (
    Bounds,
    Circuit,
    CircuitBuilder,
    EMStep,
    FlowPlan,
    RowPlan,
    Stopping,
    em,
    maximize,
)
from fairpc.core import (
    Floats,
    InterruptedWarning,
    LearningError,
    check_choice,
    fingerprint,
    warn_caller,
)
from fairpc.data import Table
from fairpc.evidence import LabelBounds
from fairpc.models._checkpoint import Checkpoint, EMState
from fairpc.models._distribution import FairDistribution, aligned, switched_groups
from fairpc.models._fair_layers import Layout, Model, build
from fairpc.models._priors import (
    LEAST,
    MECHANISM,
    SMOOTHING,
    agreeing_mechanism,
    parameter_prior,
    smoothed,
)
from fairpc.models._rows import Rows, TrainingRows
from fairpc.models._top_em import BalancedPlan, Limits, parameter_bounds
from fairpc.structure import (
    HELD_OUT,
    METHODS,
    MODEL_METHODS,
    CellCircuits,
    ModelMethod,
    Stop,
    Strudel,
    learn_cells,
)

if TYPE_CHECKING:
    from fairpc.models._choices import Choices

VALIDATION: Final = "validation_log_likelihood"
"""Name of the validation rows in a history."""


@dataclass(frozen=True)
class Structure:
    """How P(x | f, s) is learned."""

    #: "strudel", as in the paper; "chow-liu", one tree for all cells
    method: ModelMethod = "strudel"
    max_splits: int = 1000  #: bound of the search
    patience: int = 100  #: bound of the search

    def __post_init__(self) -> None:
        check_choice("structure", self.method, MODEL_METHODS)

    @property
    def stop(self) -> Stop:
        """When Strudel stops."""
        return Stop(self.max_splits, self.patience)


@dataclass(frozen=True)
class Options:
    """How a model is fitted."""

    #: how P(x | f, s) is learned; naive Bayes models ignore it
    structure: Structure = field(default_factory=Structure)
    init: str = "prior"  #: "prior", Df near D; "random", every parameter drawn
    smoothing: float = SMOOTHING  #: Laplace smoothing α of every block
    mechanism_prior: float = MECHANISM  #: pseudo-rows per (f, s) with P(D = f) = .9, instead of α
    max_iter: int = 500  #: updates of EM
    tol: float = 1e-6  #: gain of an update at which it may stop before
    min_iter: int = 20  #: updates before which it does not stop
    #: whether each E-step makes the mass of Df equal in the rows of all groups; not in the paper,
    #: and the objective may then fall
    equal_mass: bool = False
    #: seed of a random start, and of structure where features are missing
    random_state: int | np.random.Generator | None = None
    #: prior knowledge about P(Df) and the mechanism, kept at every iteration
    limits: Limits | None = None
    min_cell: int = 1  #: people that a leaf of a forest circuit stands for, if any

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
    """Who follows EM."""

    callback: Callable[[EMStep], object] = lambda step: None  #: is called with each step
    checkpoint: Checkpoint | None = None  #: keeps each step
    #: rows by name whose mean log-likelihood is kept per iteration
    watched: Mapping[str, Rows] = field(default_factory=dict)

    def beside(self, validation: Rows | None) -> Observer:
        """The same with validation rows among those that are watched, if there are any."""
        if validation is None:
            return self
        return replace(self, watched={**self.watched, VALIDATION: validation})


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
class Start:
    """Where one start ended."""

    objective: float  #: what EM reached
    #: P(D = d | Df = f, S = s), [s, f, d], after one permutation of Df for all groups
    mechanism: Floats
    switched: tuple[int, ...]  #: groups in which Df still has another order than D


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit gives: the distribution, and one value per EM iteration."""

    distribution: FairDistribution
    history: dict[str, Floats]
    converged: bool
    starts: tuple[Start, ...] = field(default=(), kw_only=True)  #: where every start ended
    choices: Choices | None = field(default=None, kw_only=True)  #: of the automatic selection
    #: what the fit's own held-out scores leave possible, its groups named by their codes; None
    #: where it has none
    label_bounds: LabelBounds | None = field(default=None, kw_only=True)
    #: P(D = d | Df = f, S = s) without prior rows of the mechanism; None where it has none
    without_prior: Floats | None = field(default=None, kw_only=True)


def fit(
    model: Model,
    rows: Rows,
    *,
    validation: Rows | None = None,
    options: Options | None = None,
    n_init: int = 1,
    observer: Observer = UNOBSERVED,
) -> Fitted:
    """Fit one of the paper's four models.

    All likelihoods are per unit of weight. Models without a latent fair decision have closed-form
    parameters on complete rows; EM then changes nothing after one update.

    Of ``n_init`` starts it is the fit with the best objective among those with fewest switched
    groups. A start that swaps Df in one group is often as likely as one that does not, and means
    something else: likelihood cannot choose between them.
    """
    if n_init < 1:
        raise LearningError(f"n_init is {n_init}: give a number of starts from 1 on")
    chosen = options or Options()
    if n_init > 1 and chosen.init != "random":
        raise LearningError("several starts from the prior are one and the same: set init='random'")
    rng, limits = np.random.default_rng(chosen.random_state), chosen.limits
    fits, starts = [], []
    for _ in range(n_init):
        cells = None
        if model in ("FairPC", "NLatPC"):
            cells = learn_structure(rows, validation, chosen.structure, chosen.smoothing, rng)
        start = initial_model(model, rows, cells, chosen.smoothing)
        if chosen.init == "random":
            start = start.with_parameters(start.circuit.graph.random(rng))
        fitted = fit_parameters(start, rows, chosen, observer.beside(validation))
        distribution = fitted.distribution
        # Df is named by the classes that it agrees with, unless prior knowledge names it.
        named = aligned(distribution)
        rates = named.top_rates.decision_rate, named.top_rates.mechanism
        if rows.f is None and (limits is None or limits.spread(named.layout).allow(*rates)):
            distribution = named
        fits.append(replace(fitted, distribution=distribution))
        end = float(fitted.history["objective"][-1])
        starts.append(Start(end, distribution.mechanism, switched_groups(distribution)))
    best = min(range(n_init), key=lambda i: (len(starts[i].switched), -starts[i].objective))
    return replace(fits[best], starts=tuple(starts))


def fit_parameters(
    start: FairDistribution,
    rows: TrainingRows,
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
    watched = {name: some.plan(circuit, layout) for name, some in observer.watched.items()}
    return _run_em(start, balanced, watched, options, prior, bounds, observer, keep_interrupted)


def _run_em(
    start: FairDistribution,
    plan: FlowPlan,
    watched: Mapping[str, RowPlan],
    options: Options,
    prior: Floats,
    bounds: Bounds | None,
    observer: Observer,
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
    """What prior knowledge and rates that may differ allow, if they can be used here."""
    anchored = any(rows.map(attrgetter("n_anchors")))
    if (anchored or options.limits is not None) and not layout.latent:
        raise LearningError(
            "prior knowledge was given to a model without a latent fair decision: "
            "use FairPC or LatNB"
        )
    if anchored and options.equal_mass:
        raise LearningError(
            "equal_mass and fair labels cannot be combined: equal_mass shifts the decisions that "
            "the labels fix; set one of them"
        )
    if options.limits is not None:
        for _ in rows.map(options.limits.refuse_contradicted):
            pass
    return parameter_bounds(options.limits, circuit.graph, layout)


def label_cells(rows: Rows) -> list[Table]:
    """The rows of each cell (d, s), with d as the slow index."""
    return [rows.cell(d, s) for d in range(rows.n_classes) for s in range(rows.n_groups)]


def learn_structure(
    rows: Rows,
    validation: Rows | None,
    structure: Structure,
    smoothing: float,
    random_state: int | np.random.Generator | None = None,
) -> CellCircuits:
    """P(x | d, s) for every cell, as in the paper: with D in place of Df.

    Chance enters only where features are missing, which the search fills in by draws.
    """
    watched = validation if structure.method in HELD_OUT else None
    return learn_cells(
        label_cells(rows),
        validation=None if watched is None else label_cells(watched),
        method=(METHODS | {"strudel": Strudel(stop=structure.stop)})[structure.method],
        smoothing=smoothing,
        random_state=random_state,
    )


def initial_model(
    model: Model, rows: Rows, cells: CellCircuits | None, smoothing: float
) -> FairDistribution:
    """The model with parameters from the rows; ``cells`` None means naive Bayes."""
    layout, own = Layout.of(model, rows), rows.by_subgroup()
    # Weight of the rows in each [s, d]; rows that lack either are left out.
    known = (own.s >= 0) & (own.d >= 0)
    counts = np.zeros((own.n_groups, own.n_classes))
    np.add.at(counts, (own.s[known], own.d[known]), own.weights[known])
    group_rate = smoothed(counts.sum(axis=1), smoothing)
    if layout.tied or layout.latent:  # rates that may differ start alike
        of_strata = counts.reshape(layout.n_groups, layout.strata.n, -1).sum(axis=0)
        decision_rate = np.stack([smoothed(row, smoothing) for row in of_strata])
        decision_rate = np.tile(decision_rate, (layout.n_groups, 1))
    else:
        decision_rate = np.stack([smoothed(row, smoothing) for row in counts])
    mechanism = agreeing_mechanism(layout) if layout.latent else None

    def graft(b: CircuitBuilder, f: int, s: int, columns: Sequence[int]) -> int:
        if cells is not None:
            return cells.graft(b, f * own.n_groups + s, columns)
        return _naive(b, own.cell(f, s), columns, smoothing, (f, s))

    circuit = build(layout, graft, group_rate, decision_rate, mechanism)
    return FairDistribution(model, layout, circuit)


def _naive(
    b: CircuitBuilder, table: Table, columns: Sequence[int], smoothing: float, key: Hashable
) -> int:
    """∏ P(x_j | cell)."""
    leaves = []
    for j, (column, arity) in enumerate(zip(columns, table.arities.tolist(), strict=True)):
        codes = table.codes[:, j]
        seen = codes >= 0
        counts = np.bincount(codes[seen], table.weights[seen], arity)
        weights = smoothed(np.asarray(counts, np.float64), max(smoothing, LEAST))
        leaves.append(b.categorical(column, weights.tolist(), tie=("naive", key, j)))
    return b.product(*leaves)
