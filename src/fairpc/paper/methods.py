"""The methods of the experiments: how each is fitted to a fold, and what it did there.

The four distributions learn structure on training rows, keep the iterate that is
best on validation rows, and run 500 EM iterations on training rows. Classifiers
see training rows only (paper, Section "Experiments").
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from fairpc import baselines
from fairpc.circuit.em import Step
from fairpc.data.atomic import read_whole, write_atomically
from fairpc.errors import FileFormatError, LearningError
from fairpc.errors.arrays import Floats
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.fit import Fitted, Options, fit, fit_parameters
from fairpc.fair.initial import initial_model, learn_structure
from fairpc.fair.recipe import fit_auto
from fairpc.fair.restarts import aligned
from fairpc.fair.rows import Rows
from fairpc.fair.top import Model

FAIRPC_RAND: Final = "FairPC-rand"
"""FairPC from random parameters instead of the prior start."""
FAIRPC_AUTO: Final = "FairPC-auto"
"""FairPC with the structure that the recipe chooses; not in the paper."""

DISTRIBUTIONS: Final = ("FairPC", "LatNB", "NLatPC", "2NB")
FAIR_CLASSIFIERS: Final = ("FairLR", "Reduction", "Reweight")
METHODS: Final = (*DISTRIBUTIONS, *FAIR_CLASSIFIERS)
"""The seven methods of the paper's table, in its order."""
ALL_METHODS: Final = (*METHODS, "LR", "Rand")

_MODEL: Final[dict[str, Model]] = {
    "FairPC": "FairPC",
    FAIRPC_RAND: "FairPC",
    "LatNB": "LatNB",
    "NLatPC": "NLatPC",
    "2NB": "TwoNB",
}
_HOLES_OPTIONS: Final = Options(tol=1e-5, max_iter=150)
"""Of rows with holes: the best iterate on validation rows comes long before."""
_MAX_BYTES: Final = 2**26

FoldRows = tuple[Rows, Rows, Rows]
"""Training, validation and test rows."""
_NOTHING: Final = partial(np.empty, 0)


@dataclass(frozen=True, eq=False)
class Outcome:
    """Results on the test rows of a fold; what a method does not have is empty or nan."""

    scores: Floats  #: probability of the positive decision, per test row
    predicted: npt.NDArray[np.int8]  #: the decision, per test row
    seconds: float  #: time of the fit
    log_likelihood: Floats = field(default_factory=_NOTHING)  #: log P(s, d, x), per test row
    log_likelihood_all: float = float("nan")  #: its mean over training, validation and test rows
    parity_gap: float = float("nan")  #: of P(decision = 1 | S) between groups under the model
    mechanism: Floats = field(default_factory=_NOTHING)  #: P(D = d | Df = f, S = s), [s, f, d]
    curve: Floats = field(default_factory=_NOTHING)  #: mean test log-likelihood, per EM iteration
    mechanism_curve: Floats = field(default_factory=_NOTHING)  #: the mechanism, per EM iteration

    @property
    def mean_log_likelihood(self) -> float:
        """Mean over the test rows; nan for a method that is no distribution."""
        return float(self.log_likelihood.mean()) if len(self.log_likelihood) else float("nan")


def save(outcome: Outcome, path: Path) -> None:
    """One file of arrays, no code in it."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{f.name: getattr(outcome, f.name) for f in fields(Outcome)})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())


def load(path: Path) -> Outcome | None:
    """The outcome in a file; None if there is no such file, or it is not whole."""
    try:
        with np.load(io.BytesIO(read_whole(path, _MAX_BYTES)), allow_pickle=False) as arrays:
            found = {f.name: arrays[f.name] for f in fields(Outcome)}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, FileFormatError):
        return None
    values: dict[str, Any] = {k: v if v.ndim else float(v) for k, v in found.items()}
    return Outcome(**values)


def is_distribution(method: str) -> bool:
    """Whether a method is one of the circuits, with likelihoods, or a classifier."""
    return method in _MODEL or method == FAIRPC_AUTO


def run(method: str, fold: FoldRows, seed: int, missing: float | None = None) -> Outcome:
    """Fit a method to a fold and apply it to the test rows.

    Args:
        method: name of the method.
        fold: training, validation and test rows.
        seed: of all chance in it.
        missing: share of the training cells of X that are hidden, the structure being that of
            complete rows; for FairPC only. None: the paper's protocol.
    """
    if not is_distribution(method):
        return _run_classifier(method, fold, seed)
    began = perf_counter()
    fitted = _fit(method, fold, seed, missing)
    seconds = perf_counter() - began
    model, test = aligned(fitted.distribution), fold[-1]
    scores = model.decision(test.s, test.x)[:, 1]
    everywhere = [_log_likelihood(model, rows) for rows in fold if rows.n_rows]
    outcome = Outcome(
        scores=scores,
        predicted=(scores > 0.5).astype(np.int8),
        seconds=seconds,
        log_likelihood=_log_likelihood(model, test),
        log_likelihood_all=float(np.concatenate(everywhere).mean()),
        parity_gap=float(model.parity_gap()[1]),
        curve=fitted.history.get("test", np.empty(0)),
    )
    if not model.layout.latent:
        return outcome
    curve = fitted.history["mechanism"]
    if model is not fitted.distribution:
        curve = curve[:, :, ::-1]  # one permutation of Df for all groups; it has two values here
    return replace(outcome, mechanism=model.mechanism, mechanism_curve=curve)


def _log_likelihood(model: FairDistribution, rows: Rows) -> Floats:
    return model.log_likelihood(rows.s, rows.d, rows.x)


def _fit(method: str, fold: FoldRows, seed: int, missing: float | None) -> Fitted:
    train, valid, test = fold
    if method == FAIRPC_AUTO:
        return fit_auto(train, validation=valid, evaluation={"test": test})
    if missing is not None:
        return fit_with_holes(method, seed, missing, train, valid)
    init: Literal["prior", "random"] = "random" if method == FAIRPC_RAND else "prior"
    options = Options(init=init, tol=0, random_state=seed)
    return fit(_MODEL[method], train, validation=valid, evaluation={"test": test}, options=options)


def fit_with_holes(method: str, seed: int, share: float, train: Rows, valid: Rows) -> Fitted:
    """FairPC on rows with hidden cells, its structure that of the complete rows.

    Paper, Section "Learning With Missing Values". No parameter may remember the hidden
    cells: those of X start uniform, and only the mechanism is near the identity. Where
    much is hidden EM overfits in the end: the iterate that is best on the validation
    rows, which have holes too, is kept.
    """
    if method != "FairPC":
        raise LearningError(f"{method} is not run on rows with holes: choose FairPC")
    rng = np.random.default_rng(seed)
    options = _HOLES_OPTIONS
    cells = learn_structure(train, valid, options.structure, options.smoothing, rng)
    model = initial_model("FairPC", train, cells, options.smoothing)
    start, top = model.circuit.graph.uniform(), model.top
    for some in (top.group, top.decision, top.mechanism):
        start[some] = model.circuit.parameters[some]
    holed, held_out = with_holes(train, share, rng), with_holes(valid, share, rng)
    best = _Best(model.with_parameters(start), held_out)
    fitted = fit_parameters(best.model, holed, {}, options, best)
    return replace(fitted, distribution=best.model)


class _Best:
    """Called with each EM step, keeps the model under which the given rows are likeliest."""

    def __init__(self, start: FairDistribution, rows: Rows) -> None:
        self.model, self._rows = start, rows
        self._highest = -np.inf

    def __call__(self, step: Step) -> None:
        model = self.model.with_parameters(step.parameters)
        value = float(_log_likelihood(model, self._rows).mean())
        if value > self._highest:
            self.model, self._highest = model, value


def with_holes(rows: Rows, share: float, rng: np.random.Generator) -> Rows:
    """The rows with this share of the cells of X hidden, completely at random."""
    x = rows.x.copy(order="F")
    x[rng.random(x.shape) < share] = -1
    return replace(rows, x=x)


def _run_classifier(method: str, fold: FoldRows, seed: int) -> Outcome:
    if method not in (*FAIR_CLASSIFIERS, "LR", "Rand"):
        known = ", ".join((*ALL_METHODS, FAIRPC_RAND, FAIRPC_AUTO))
        raise LearningError(f"there is no method {method!r}: choose one of {known}")
    train, _, test = fold
    chance = {"random_state": seed} if method == "Rand" else {}
    model = getattr(baselines, method)(**chance)
    began = perf_counter()
    model.fit(train.x.astype(np.float64), train.d, sensitive_features=train.s)
    seconds = perf_counter() - began
    features = test.x.astype(np.float64)
    scores = model.predict_proba(features, sensitive_features=test.s)[:, 1]
    return Outcome(np.asarray(scores, np.float64), (scores > 0.5).astype(np.int8), seconds)
