"""The methods of the experiments: how each is fitted to a fold, and what it did there.

Classifiers see training rows only (paper, Section "Experiments"); how the distributions are
fitted is in :mod:`reproduction.distributions`.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc import comparison
from fairpc.circuit import SUM, Circuit
from fairpc.comparison._runner import Decided, FittedMethod, Method, Run, run_method
from fairpc.core import Floats, read_whole, write_atomically
from fairpc.errors import FileFormatError, LearningError
from fairpc.models._distribution import aligned
from fairpc.models._fit import Fitted
from reproduction.distributions import (
    FAIRPC_AUTO,
    STARTS,
    TEST,
    FoldRows,
    distribution,
    log_likelihood,
)

DISTRIBUTIONS: Final = ("FairPC", "LatNB", "NLatPC", "2NB")
FAIR_CLASSIFIERS: Final = ("FairLR", "Reduction", "Reweight")
METHODS: Final = (*DISTRIBUTIONS, *FAIR_CLASSIFIERS)
"""The seven methods of the paper's table, in its order."""
ALL_METHODS: Final = (*METHODS, "LR", "Rand")

_MAX_BYTES: Final = 2**26
_NOTHING: Final = partial(np.empty, 0)


@dataclass(frozen=True, eq=False)
class Outcome:
    """Results on the test rows of a fold; what a method does not have is empty or nan."""

    scores: Floats  #: probability of the positive decision, per test row
    predicted: npt.NDArray[np.int8]  #: the decision, per test row
    seconds: float  #: time of the fit
    log_likelihood: Floats = field(default_factory=_NOTHING)  #: log P(s, d, x), per test row
    log_likelihood_all: float = float("nan")  #: its mean over training, validation and test rows
    n_parameters: float = float("nan")  #: free parameters of the circuit
    parity_gap: float = float("nan")  #: of P(decision = 1 | S) between groups under the model
    mechanism: Floats = field(default_factory=_NOTHING)  #: P(D = d | Df = f, S = s), [s, f, d]
    curve: Floats = field(default_factory=_NOTHING)  #: mean test log-likelihood, per EM iteration
    mechanism_curve: Floats = field(default_factory=_NOTHING)  #: the mechanism, per EM iteration

    @classmethod
    def of(cls, run: Run) -> Outcome:
        """What the decisions of a run say."""
        found = run.decided
        likelihood = np.empty(0) if found.log_likelihood is None else found.log_likelihood
        scores = np.asarray(found.scores, np.float64)
        return cls(scores, found.decisions.astype(np.int8), run.seconds, likelihood)

    @property
    def mean_log_likelihood(self) -> float:
        """Mean over the test rows; nan for a method that is not a distribution."""
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


def free_parameters(circuit: Circuit) -> int:
    """Weights of its sums less one each, whether they are shared or not."""
    graph = circuit.graph
    n_children = np.diff(graph.child_ptr)[graph.kind == SUM]
    return int((n_children - 1).sum())


def is_distribution(method: str) -> bool:
    """Whether a method is one of the circuits, with likelihoods, or a classifier."""
    return method in STARTS or method == FAIRPC_AUTO


def run(method: str, fold: FoldRows, seed: int, missing: float | None = None) -> Outcome:
    """Fit a method to a fold and apply it to the test rows.

    Args:
        method: name of the method.
        fold: training, validation and test rows.
        seed: of all chance in it.
        missing: share of the training cells that are hidden, the structure being that of complete
            rows; see :func:`reproduction.distributions.fit_with_holes`. None: complete rows.
    """
    if not is_distribution(method):
        return Outcome.of(run_method(_classifier(method), fold.train, fold.test, seed))
    done = run_method(distribution(method, missing), fold, fold.test, seed)
    fitted: Fitted = done.fitted.model
    model = aligned(fitted.distribution)
    everywhere = [log_likelihood(model, rows) for rows in fold.parts if rows.n_rows]
    outcome = replace(
        Outcome.of(done),
        log_likelihood_all=float(np.concatenate(everywhere).mean()),
        n_parameters=float(free_parameters(model.circuit)),
        parity_gap=float(model.parity_gap()[1]),
        curve=fitted.history.get(TEST, np.empty(0)),
    )
    if not model.layout.latent:
        return outcome
    curve = fitted.history["mechanism"]
    if model is not fitted.distribution:
        curve = curve[:, :, ::-1]  # one permutation of Df for all groups; it has two values here
    return replace(outcome, mechanism=model.mechanism, mechanism_curve=curve)


def estimator_method(
    make: Callable[[int], Any], features: Callable[[Any], Any] = attrgetter("x")
) -> Method:
    """A classifier with the surface of FairPC, made from a seed; rows have labels d, groups s."""

    def fit(train: Any, seed: int) -> FittedMethod:
        model = make(seed).fit(features(train), train.d, sensitive_features=train.s)

        def decide(test: Any) -> Decided:
            scores = model.predict_proba(features(test), sensitive_features=test.s)
            return Decided.by_half(scores[:, 1])

        return FittedMethod(decide, model)

    return fit


def _classifier(method: str) -> Method:
    if method not in (*FAIR_CLASSIFIERS, "LR", "Rand"):
        known = ", ".join(dict.fromkeys((*ALL_METHODS, *STARTS, FAIRPC_AUTO)))
        raise LearningError(f"there is no method {method!r}: choose one of {known}")
    kind = getattr(comparison, method)
    return estimator_method(
        lambda seed: kind(random_state=seed) if method == "Rand" else kind(),
        lambda rows: rows.x.astype(np.float64),
    )
