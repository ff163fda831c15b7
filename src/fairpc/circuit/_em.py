"""Parameters from data: closed form (Equation 1) and EM by expected flows (Proposition 1).

Both are the same step: the new parameter is the flow of its edge over the flow
of its sum node. Sum nodes that share parameters add their flows first. A
Dirichlet prior adds pseudo-counts, and EM then raises the *MAP* objective
log-likelihood + Σ prior · log θ. Parameters may have :class:`Bounds`: each
M-step is then the maximum within them, and the objective still never falls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fairpc.circuit._circuit import Circuit
from fairpc.circuit._expected_flows import FlowPlan, check_complete, prepare
from fairpc.circuit._graph import Graph, check_parameters
from fairpc.circuit._parameter_bounds import Bounds
from fairpc.circuit._properties import require
from fairpc.core import CircuitError, EvidenceError, Floats
from fairpc.data import Table


def laplace(graph: Graph, alpha: float = 1.0) -> Floats:
    """Pseudo-counts α/k for each of the k children of a sum: (count + α/k) / (total + α)."""
    if not (np.isfinite(alpha) and alpha >= 0):
        raise CircuitError(f"the smoothing is {alpha}: give a finite number from 0 on")
    return alpha * graph.uniform()


def check_prior(graph: Graph, prior: npt.ArrayLike | None) -> Floats:
    """Pseudo-counts as an array, zeros if None."""
    if prior is None:
        return np.zeros(graph.n_parameters)
    counts = np.asarray(prior, np.float64)
    if counts.shape != (graph.n_parameters,) or not (counts >= 0).all():
        raise CircuitError(
            f"the prior must hold one non-negative pseudo-count for each of the "
            f"{graph.n_parameters} parameters"
        )
    return counts


def maximize(
    graph: Graph,
    flows: Floats,
    prior: Floats | None = None,
    fallback: Floats | None = None,
    bounds: Bounds | None = None,
) -> Floats:
    """The M-step: each block proportional to its flows plus pseudo-counts, within the bounds.

    A block that nothing flows through and that has no prior keeps ``fallback``
    (uniform if None): the data say nothing about it.
    """
    counts = flows if prior is None else flows + prior
    by_block = np.add.reduceat(counts, graph.block_ptr[:-1])
    totals = by_block[graph.parameter_block]
    theta: Floats
    if by_block.min(initial=1.0) > 0:
        theta = counts / totals
    else:
        silent = totals <= 0
        theta = counts / np.where(silent, 1.0, totals)
        theta = np.where(silent, graph.uniform() if fallback is None else fallback, theta)
    return theta if bounds is None else bounds.imposed(theta, counts)


def log_prior(parameters: Floats, prior: Floats) -> float:
    """Σ prior · log θ over the parameters that have a prior."""
    if not prior.min(initial=1.0) > 0:
        used = prior > 0
        parameters, prior = parameters[used], prior[used]
    with np.errstate(divide="ignore"):
        return float((prior * np.log(parameters)).sum())


def maximum_likelihood(graph: Graph, table: Table, *, prior: Floats | None = None) -> Circuit:
    """Closed-form parameters of a deterministic circuit on complete rows (Equation 1).

    With a prior they are the maximum of the MAP objective.
    """
    require(graph, "closed-form maximum likelihood", "deterministic")
    check_complete(table.codes, table.names)
    pseudo = check_prior(graph, prior)
    log_likelihood, flows = prepare(graph, table)(graph.uniform())
    _refuse_impossible_rows(log_likelihood)
    return Circuit(graph, maximize(graph, flows, pseudo))


@dataclass(frozen=True, eq=False)
class AnyStep:
    """A step of EM over whatever parameters: its number, and what it reached."""

    iteration: int
    log_likelihood: float
    objective: float


@dataclass(frozen=True, eq=False)
class EMStep(AnyStep):
    """One evaluation of a plan: parameters, and their flows."""

    parameters: Floats
    flows: Floats


def em(
    plan: FlowPlan,
    parameters: npt.ArrayLike,
    *,
    prior: Floats | None = None,
    bounds: Bounds | None = None,
) -> Iterator[EMStep]:
    """EM as an endless iterator of steps, the start among them; the consumer decides when to stop.

    With ``bounds`` the start is brought within them, and so is every point after it. A
    parameter that is bound to be zero has no prior.
    """
    graph = plan.graph
    pseudo = None if prior is None else _prior_of_free(check_prior(graph, prior), bounds)
    theta = check_parameters(graph, parameters)
    if bounds is not None:
        theta = bounds.within(theta)
    for iteration in count():
        log_likelihood, flows = plan(theta)
        if not iteration:
            _refuse_impossible_rows(log_likelihood)
        value = log_likelihood if pseudo is None else log_likelihood + log_prior(theta, pseudo)
        yield EMStep(iteration, log_likelihood, value, theta, flows)
        theta = maximize(graph, flows, pseudo, theta, bounds)


def _prior_of_free(prior: Floats, bounds: Bounds | None) -> Floats:
    """Without that of parameters that can be nothing but 0: it has nothing to say about them."""
    return prior if bounds is None else np.where(bounds.upper <= 0, 0.0, prior)


def _refuse_impossible_rows(log_likelihood: float) -> None:
    if not np.isfinite(log_likelihood):
        raise EvidenceError(
            "some row has probability zero under the circuit: EM cannot start there; use "
            "positive parameters, and a structure whose support covers every row"
        )


S = TypeVar("S", bound=AnyStep)


@dataclass(frozen=True, eq=False)
class Reached(Generic[S]):
    """A step, and whether EM has converged there."""

    step: S
    converged: bool


@dataclass(frozen=True)
class Stopping:
    """When EM stops: after ``max_iter`` updates, or before that if it has converged.

    It has converged after ``min_iter`` updates *and* when one moved the objective by less than
    ``tol`` per unit of weight: leaving a near-fixed point, EM may hardly move for ten or
    twenty updates. ``tol=0`` makes all updates.
    """

    max_iter: int = 500
    tol: float = 1e-6
    min_iter: int = 20

    def until(self, steps: Iterable[S], weight: float) -> Iterator[Reached[S]]:
        """The steps up to that at which EM stops; ``weight`` is that of all rows."""
        before = np.nan
        for step in steps:
            now = step.objective / weight
            converged = step.iteration >= self.min_iter and abs(now - before) < self.tol
            yield Reached(step, converged)
            if converged or step.iteration >= self.max_iter:
                return
            before = now


@dataclass(frozen=True, eq=False)
class Fit:
    """What EM ended with: parameters, one number per iteration, and why it stopped."""

    parameters: Floats
    log_likelihood: float
    objective: float
    history: dict[str, Floats]
    n_iter: int
    converged: bool


def fit(
    plan: FlowPlan,
    parameters: npt.ArrayLike,
    *,
    prior: Floats | None = None,
    bounds: Bounds | None = None,
    max_iter: int = 500,
    tol: float = 1e-6,
    min_iter: int = 20,
    callback: Callable[[EMStep], object] | None = None,
) -> Fit:
    """Run EM until it stops (see :class:`Stopping`) and give back the last parameters.

    Ctrl-C, or a callback that raises, loses nothing but the step under way:
    iterate over ``em`` itself to keep what was found.
    """
    if max_iter < 0:
        raise CircuitError(f"max_iter is {max_iter}: give a number of updates from 0 on")
    steps = em(plan, parameters, prior=prior, bounds=bounds)
    likelihoods, objectives = [], []
    stopping = Stopping(max_iter, tol, min_iter)
    for reached in stopping.until(steps, max(plan.total_weight, 1.0)):
        step = reached.step
        likelihoods.append(step.log_likelihood)
        objectives.append(step.objective)
        if callback is not None:
            callback(step)
    history = {"log_likelihood": np.array(likelihoods), "objective": np.array(objectives)}
    last = step.parameters, step.log_likelihood, step.objective
    return Fit(*last, history, step.iteration, reached.converged)
