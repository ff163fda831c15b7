"""Fitting a model to rows of codes: where EM starts, and EM with shared parameters.

The defaults are the paper's protocol: structure learned with D in place of Df on the training rows,
the iterate with the best validation likelihood kept; then EM on the training rows, the last
iterate. Validation rows never enter parameters.

EM starts with Df near D (Section "Initial parameters using prior knowledge"). Exact equality is a
fixed point of EM, so the start is P(D = f | Df = f, S) = .9.

Permuting the values of Df in all groups at once changes no likelihood, so a random start may end
with them in any order (label switching). One global permutation puts them back next to the
observed classes. A permutation inside one group only is another model, and often as likely: it is
never repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
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
    warn_caller,
)
from fairpc.data import Table
from fairpc.evidence import LabelBounds
from fairpc.models._distribution import FairDistribution, aligned
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
from fairpc.models._top_em import Limits, parameter_bounds
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
        if self.max_iter < 0 or self.min_iter < 0:
            raise LearningError("max_iter and min_iter must not be negative")

    @property
    def stopping(self) -> Stopping:
        """When EM stops."""
        return Stopping(self.max_iter, self.tol, self.min_iter)


OnStep = Callable[[EMStep], object]
"""Called with each step of EM."""


@dataclass(eq=False)
class History:
    """One record per step of EM: the objective, log-likelihoods and the mechanism."""

    weight: float  #: of all rows; objective and log-likelihood are per unit of it
    mechanism: Callable[[Any], Floats]  #: P(D | Df, S) at a step
    #: mean log-likelihood of validation rows, if there are any
    validation: Callable[[Any], float] | None = None
    records: list[Floats] = field(default_factory=list)
    _shape: tuple[int, ...] = ()  #: of the mechanism

    def add(self, step: Any) -> None:
        """One step more."""
        own = step.objective / self.weight, step.log_likelihood / self.weight
        held_out = np.nan if self.validation is None else self.validation(step)
        mechanism = self.mechanism(step)
        self._shape = mechanism.shape
        self.records.append(np.array([*own, held_out, *mechanism.ravel()]))

    def arrays(self) -> dict[str, Floats]:
        """All steps, an array for each name."""
        names = ["objective", "log_likelihood", VALIDATION]
        table = np.array(self.records)
        result = dict(zip(names, table.T, strict=False))
        result["mechanism"] = table[:, len(names) :].reshape(len(table), *self._shape)
        return result


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit gives: the distribution, and one value per EM iteration."""

    distribution: FairDistribution
    history: dict[str, Floats]
    converged: bool
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
    on_step: OnStep | None = None,
) -> Fitted:
    """Fit one of the paper's four models.

    All likelihoods are per unit of weight. Models without a latent fair decision have closed-form
    parameters on complete rows; EM then changes nothing after one update.
    """
    chosen = options or Options()
    rng, limits = np.random.default_rng(chosen.random_state), chosen.limits
    cells = None
    if model in ("FairPC", "NLatPC"):
        cells = learn_structure(rows, validation, chosen.structure, chosen.smoothing, rng)
    start = initial_model(model, rows, cells, chosen.smoothing)
    if chosen.init == "random":
        start = start.with_parameters(start.circuit.graph.random(rng))
    fitted = fit_parameters(start, rows, chosen, validation=validation, on_step=on_step)
    # Df is named by the classes that it agrees with, unless prior knowledge names it.
    named = aligned(fitted.distribution)
    rates = named.top_rates.decision_rate, named.top_rates.mechanism
    if limits is None or limits.spread(named.layout).allow(*rates):
        return replace(fitted, distribution=named)
    return fitted


def fit_parameters(
    start: FairDistribution,
    rows: TrainingRows,
    options: Options,
    *,
    validation: Rows | None = None,
    on_step: OnStep | None = None,
    keep_interrupted: bool = True,
    prior: Floats | None = None,
) -> Fitted:
    """EM from the parameters of ``start``, its structure fixed.

    The likelihood of ``validation`` rows is kept in the history. ``on_step`` is called with each
    step. ``prior`` holds the pseudo-counts of all parameters, those of ``options`` by default.
    An interrupt (Ctrl-C) ends EM at its last step, with a warning, unless
    ``keep_interrupted`` is false: then it is the caller's.
    """
    circuit, layout = start.circuit, start.layout
    if prior is None:
        prior = parameter_prior(circuit, layout, start.top, options)
    bounds = _bounds(circuit, layout, options)
    plan = rows.plan(circuit, layout)
    if not layout.latent and all(rows.map(attrgetter("complete"))):
        # Nothing is hidden: one update is the closed form (Equation 1).
        flows = plan(circuit.parameters)[1]
        start = start.with_parameters(maximize(circuit.graph, flows, prior))
    held_out = None if validation is None else partial(_mean, validation.plan(circuit, layout))
    mechanism = start.top.mechanism
    history = History(plan.total_weight, lambda step: step.parameters[mechanism], held_out)
    steps = em(plan, start.circuit.parameters, prior=prior, bounds=bounds)
    if keep_interrupted:
        steps = _interruptible(steps)
    for reached in options.stopping.until(steps, plan.total_weight):
        history.add(reached.step)
        if on_step is not None:
            on_step(reached.step)
    model = start.with_parameters(reached.step.parameters)
    return Fitted(model, history.arrays(), reached.converged)


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


def _bounds(circuit: Circuit, layout: Layout, options: Options) -> Bounds | None:
    """What prior knowledge and rates that may differ allow, if they can be used here."""
    if options.limits is not None and not layout.latent:
        raise LearningError(
            "prior knowledge was given to a model without a latent fair decision: "
            "use FairPC or LatNB"
        )
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
