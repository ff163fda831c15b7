"""How the distributions of the experiments are fitted to a fold, from our starts and the authors'.

Structure is learned on training rows with D in place of Df, the iterate that is best on validation
rows is kept, and 500 EM iterations on training rows follow (paper, Section "Experiments"). All
models and starts of a fold share its structure.

The authors' starts are those of their published code (github.com/UCLA-StarAI/FairPC.jl,
src/parameters.jl and src/structure_inits.jl): FairPC starts from D = Df exactly; a random FairPC
draws the upper layers alone; LatNB starts from labels that were moved until both groups have
one rate, with features at random.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

import numpy as np

from fairpc.circuit import EMStep
from fairpc.comparison._runner import Decided, FittedMethod, Method
from fairpc.core import Floats
from fairpc.errors import LearningError
from fairpc.models import FairDistribution, Rows
from fairpc.models._distribution import aligned
from fairpc.models._fair_layers import Model
from fairpc.models._fit import (
    Fitted,
    Options,
    fit_parameters,
    initial_model,
    learn_structure,
)
from fairpc.models._priors import agreeing_mechanism
from fairpc.models._rows import joined
from fairpc.models._selection import AUTO, fit_auto
from fairpc.structure import CellCircuits

FAIRPC_EQUAL: Final = "FairPC, D = Df"
"""FairPC from the paper's start, D = Df exactly; ours has D = Df in nine of ten."""
FAIRPC_RAND: Final = "FairPC-rand"
"""FairPC with every parameter drawn at the start."""
FAIRPC_RAND_TOP: Final = "FairPC-rand, upper layers"
"""FairPC with P(S), P(Df) and the mechanism drawn at the start, as in the authors' code."""
LATNB_MOVED: Final = "LatNB, labels moved"
"""LatNB from the start of the authors' code."""
TEST: Final = "test"
"""Name of the mean log-likelihood of the test rows in the history of FairPC."""
FAIRPC_AUTO: Final = "FairPC-auto"
"""FairPC by automatic selection; not in the paper."""

PROTOCOL: Final = Options(tol=0)
"""The paper's: Strudel, Laplace smoothing 1, 500 iterations, the last iterate."""
_CLOSED_FORM: Final = Options(tol=0, max_iter=1)
"""Of models that hide nothing: more updates would change nothing."""
_HOLES: Final = Options(tol=1e-5, max_iter=150)
"""Of our fit to rows with holes: the best iterate on validation rows comes long before."""


@dataclass(frozen=True, eq=False)
class FoldRows:
    """Training, validation and test rows of a fold."""

    train: Rows
    valid: Rows
    test: Rows

    @property
    def parts(self) -> tuple[Rows, Rows, Rows]:
        return self.train, self.valid, self.test

    @cached_property
    def cells(self) -> CellCircuits:
        """P(x | d, s), the structure of every circuit that is fitted to the fold."""
        return learn_structure(self.train, self.valid, PROTOCOL.structure, PROTOCOL.smoothing)


Start = Callable[[FairDistribution, Rows, np.random.Generator], FairDistribution]
"""A model with parameters from training rows, these rows, chance -> where EM starts."""


def _as_given(model: FairDistribution, rows: Rows, rng: np.random.Generator) -> FairDistribution:
    return model


def _random(model: FairDistribution, rows: Rows, rng: np.random.Generator) -> FairDistribution:
    return model.with_parameters(model.circuit.graph.random(rng))


def _equal(model: FairDistribution, rows: Rows, rng: np.random.Generator) -> FairDistribution:
    """P(d | f, s) = [d = f] (Section "Initial parameters using prior knowledge").

    Laplace smoothing lets EM leave it: after one update each entry is half a row away.
    """
    theta = model.circuit.parameters.copy()
    theta[model.top.mechanism] = agreeing_mechanism(model.layout, 1.0)
    return model.with_parameters(theta)


def _random_top(model: FairDistribution, rows: Rows, rng: np.random.Generator) -> FairDistribution:
    """P(S), P(Df) and P(D | Df, S) uniform at random; features as learned with D in place of Df."""
    theta, top = model.circuit.parameters.copy(), model.top
    for some in (top.group[None], top.decision[:1], top.mechanism.reshape(-1, 2)):
        first = rng.random(len(some))
        theta[some] = np.column_stack([1 - first, first])
    return model.with_parameters(theta)


def moved_labels(rows: Rows) -> tuple[float, Floats]:
    """P(Df = 1) and P(D = 1 | Df = f, S = s), [s, f], if labels are moved to one rate.

    As many positive labels of the group with the higher rate become negative, and negative
    labels of the other positive, as make their rates the same (Calders and Verwer 2010).
    """
    counts = np.zeros((2, 2))
    np.add.at(counts, (rows.s, rows.d), 1.0)
    size, positive = counts.sum(axis=1), counts[:, 1]
    rate = positive.sum() / size.sum()
    moved = positive - rate * size
    kept, turned = np.minimum(positive, rate * size), np.maximum(moved, 0.0)
    return float(rate), np.column_stack([turned / ((1 - rate) * size), kept / (rate * size)])


def _moved(model: FairDistribution, rows: Rows, rng: np.random.Generator) -> FairDistribution:
    """The start of LatNB in the authors' code: labels moved, features at random."""
    graph, top = model.circuit.graph, model.top
    draws = rng.random(graph.n_parameters)
    theta = draws / np.add.reduceat(draws, graph.block_ptr[:-1])[graph.parameter_block]
    rate, mechanism = moved_labels(rows)
    theta[top.group] = model.circuit.parameters[top.group]
    theta[top.decision] = [1 - rate, rate]
    theta[top.mechanism] = np.stack([1 - mechanism, mechanism], axis=2)
    return model.with_parameters(theta)


STARTS: Final[dict[str, tuple[Model, Start]]] = {
    "FairPC": ("FairPC", _as_given),
    FAIRPC_EQUAL: ("FairPC", _equal),
    FAIRPC_RAND: ("FairPC", _random),
    FAIRPC_RAND_TOP: ("FairPC", _random_top),
    "LatNB": ("LatNB", _as_given),
    LATNB_MOVED: ("LatNB", _moved),
    "NLatPC": ("NLatPC", _as_given),
    "2NB": ("TwoNB", _as_given),
}
"""Model and start of each method but automatic selection."""


def fit_method(method: str, fold: FoldRows, seed: int, missing: float | None = None) -> Fitted:
    """Fit a method of :data:`STARTS` or :data:`FAIRPC_AUTO`; see :func:`fit_with_holes`."""
    if method == FAIRPC_AUTO:
        options = replace(AUTO, random_state=seed)
        return fit_auto(joined(fold.train, fold.valid), options=options)
    if missing is not None:
        return fit_with_holes(method, fold, seed, missing)
    rng = np.random.default_rng(seed)
    start = _start(method, fold, rng)
    if not start.layout.latent:
        return fit_parameters(start, fold.train, _CLOSED_FORM)
    if method != "FairPC":
        return fit_parameters(start, fold.train, PROTOCOL)
    test, curve = fold.test.plan(start.circuit, start.layout), []

    def note(step: EMStep) -> None:
        curve.append(test.log_likelihood(step.parameters) / test.total_weight)

    fitted = fit_parameters(start, fold.train, PROTOCOL, on_step=note)
    return replace(fitted, history=fitted.history | {TEST: np.array(curve)})


def distribution(name: str, missing: float | None = None) -> Method:
    """One of them as a method, which learns from training and validation rows of a fold."""

    def learn(fold: FoldRows, seed: int) -> FittedMethod:
        fitted = fit_method(name, fold, seed, missing)
        return FittedMethod(partial(decided, aligned(fitted.distribution)), fitted)

    return learn


def decided(model: FairDistribution, test: Rows) -> Decided:
    """Decisions about test rows, and their likelihoods."""
    scores = model.decision(test.s, test.x)[:, 1]
    return replace(Decided.by_half(scores), log_likelihood=log_likelihood(model, test))


def _start(method: str, fold: FoldRows, rng: np.random.Generator) -> FairDistribution:
    model, start = STARTS[method]
    cells = fold.cells if model in ("FairPC", "NLatPC") else None
    return start(initial_model(model, fold.train, cells, PROTOCOL.smoothing), fold.train, rng)


def log_likelihood(model: FairDistribution, rows: Rows) -> Floats:
    """log P(s, d, x) of each row."""
    return model.log_likelihood(rows.s, rows.d, rows.x)


def fit_with_holes(method: str, fold: FoldRows, seed: int, share: float) -> Fitted:
    """FairPC on rows with hidden cells, its structure that of the complete rows.

    Paper, Section "Learning With Missing Values". "FairPC" is our way: cells of X are hidden, in
    training and validation rows. No parameter may remember them: those of X start uniform, and
    only the mechanism is near the identity. Where much is hidden EM overfits in the end, so
    the iterate that is best on the validation rows is kept.

    :data:`FAIRPC_EQUAL` is that of the authors' code: all cells of training rows may be hidden,
    those of S and D too; EM starts from D = Df and features as learned on the complete rows, and
    the last of 500 iterates is kept.
    """
    rng = np.random.default_rng(seed)
    if method == FAIRPC_EQUAL:
        holed = with_holes(fold.train, share, rng, everywhere=True)
        return fit_parameters(_start(method, fold, rng), holed, PROTOCOL)
    if method != "FairPC":
        raise LearningError(f"{method} is not run on rows with holes: choose FairPC")
    model = _start(method, fold, rng)
    start, top = model.circuit.graph.uniform(), model.top
    for some in (top.group, top.decision, top.mechanism):
        start[some] = model.circuit.parameters[some]
    holed, held_out = (with_holes(rows, share, rng) for rows in (fold.train, fold.valid))
    best = _Best(model.with_parameters(start), held_out)
    fitted = fit_parameters(best.model, holed, _HOLES, on_step=best)
    return replace(fitted, distribution=best.model)


class _Best:
    """Called with each EM step, keeps the model under which the given rows are likeliest."""

    def __init__(self, start: FairDistribution, rows: Rows) -> None:
        self.model, self._rows = start, rows
        self._highest = -np.inf

    def __call__(self, step: EMStep) -> None:
        model = self.model.with_parameters(step.parameters)
        value = float(log_likelihood(model, self._rows).mean())
        if value > self._highest:
            self.model, self._highest = model, value


def with_holes(
    rows: Rows, share: float, rng: np.random.Generator, *, everywhere: bool = False
) -> Rows:
    """The rows with this share of the cells hidden, completely at random: of X, or of S and D too.

    A hidden fair decision needs no hiding: nobody knows it.
    """
    x = rows.x.copy(order="F")
    x[rng.random(x.shape) < share] = -1
    if not everywhere:
        return replace(rows, x=x)
    s, d = (np.where(rng.random(len(c)) < share, np.int16(-1), c) for c in (rows.s, rows.d))
    return replace(rows, s=s, d=d, x=x)
