"""Fitting a model to rows of codes: structure, then EM with shared parameters.

The defaults are the paper's protocol: structure learned with D in place of Df
on the training rows, the iterate with the best validation likelihood kept;
then EM on the training rows, the last iterate. Validation rows never enter
parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from fairpc.circuit.em import Step, em, laplace, maximize
from fairpc.circuit.flows import FlowPlan, RowPlan, prepare
from fairpc.circuit.graph import Circuit, FloatArray
from fairpc.data.table import Table
from fairpc.errors import LearningError
from fairpc.fair.balance import BalancedPlan
from fairpc.fair.distribution import FairDistribution
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

    def __post_init__(self) -> None:
        if self.init not in ("prior", "random"):
            raise LearningError(f"init is {self.init!r}: choose 'prior' or 'random'")
        for name in ("smoothing", "mechanism_prior", "tol"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise LearningError(f"{name} is {getattr(self, name)}: give a number from 0 on")
        if self.equal_mass and self.accelerate:
            raise LearningError("equal_mass and accelerate exclude each other: set one of them")
        if self.max_iter < 0 or self.min_iter < 0:
            raise LearningError("max_iter and min_iter must not be negative")


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit gives: the distribution, and one value per EM iteration."""

    distribution: FairDistribution
    history: dict[str, FloatArray]
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
) -> Fitted:
    """EM from the parameters of ``circuit``, its structure fixed.

    An interrupt (Ctrl-C) ends EM where it stands, with a warning, unless
    ``keep_interrupted`` is false: then it is the caller's.
    """
    graph = circuit.graph
    top = Top.of(graph, layout)
    prior = parameter_prior(circuit, layout, top, options)
    plan: FlowPlan = _plan(circuit, layout, rows)
    if options.equal_mass and layout.latent:
        plan = BalancedPlan.of(_plan(circuit, layout, rows), layout)
    held_out = {name: _plan(circuit, layout, some) for name, some in evaluation.items()}
    start = circuit.parameters
    if not layout.latent and not _has_holes(rows):
        # Nothing is hidden: one update is the closed form (Equation 1).
        start = maximize(graph, plan(start)[1], prior)
    records: list[tuple[float, ...]] = []
    mechanisms: list[FloatArray] = []
    converged = False
    steps = em(plan, start, prior=prior, accelerate=options.accelerate)
    for step in _interruptible(steps) if keep_interrupted else steps:
        likelihoods = [p(step.parameters)[0] / p.total_weight for p in held_out.values()]
        own = (step.objective, step.log_likelihood)
        records.append((*(value / plan.total_weight for value in own), *likelihoods))
        mechanisms.append(step.parameters[top.mechanism])
        if callback is not None:
            callback(step)
        if len(records) > max(options.min_iter, 1) and options.tol > 0:
            converged = abs(records[-1][0] - records[-2][0]) < options.tol
        if converged or step.iteration >= options.max_iter:
            break
    history = _history(records, mechanisms, list(held_out))
    fitted = FairDistribution(model, layout, circuit.with_parameters(step.parameters))
    return Fitted(fitted, history, converged)


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
                RuntimeWarning, stacklevel=4,
            )  # fmt: skip
            return
        iteration = step.iteration
        yield step


def parameter_prior(circuit: Circuit, layout: Layout, top: Top, options: Options) -> FloatArray:
    """Pseudo-counts: Laplace everywhere, and for the mechanism rows in which D = Df."""
    prior = laplace(circuit.graph, options.smoothing)
    if layout.latent and options.mechanism_prior > 0:
        prior[top.mechanism] = options.mechanism_prior * agreeing_mechanism(layout)
    return prior


def _plan(circuit: Circuit, layout: Layout, rows: Rows) -> RowPlan:
    codes = layout.codes(rows.s, rows.d, rows.x)
    table = Table.of(codes, rows.weights, arities=circuit.arities, names=circuit.names)
    return prepare(circuit.graph, table)


def _has_holes(rows: Rows) -> bool:
    return bool((rows.s < 0).any() or (rows.d < 0).any() or (rows.x < 0).any())


def _history(
    records: list[tuple[float, ...]], mechanisms: list[FloatArray], names: list[str]
) -> dict[str, npt.NDArray[np.float64]]:
    columns = np.array(records).T
    history = dict(zip(["objective", "log_likelihood", *names], columns, strict=True))
    history["mechanism"] = np.array(mechanisms)
    history.setdefault(VALIDATION, np.full(len(records), np.nan))
    return history
