"""The methods of the experiments: how each is fitted to a fold, in the paper's protocol.

The four distributions learn structure on training rows, keep the iterate that is
best on validation rows, and run 500 EM iterations on training rows. Classifiers
see training rows only (paper, Section "Experiments").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Final

import numpy as np

from fairpc.circuit.em import Step
from fairpc.errors import LearningError
from fairpc.errors.arrays import Floats
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.fit import Fitted, Options, fit, fit_parameters
from fairpc.fair.initial import initial_model, learn_structure
from fairpc.fair.recipe import fit_auto
from fairpc.fair.restarts import aligned
from fairpc.fair.rows import Rows
from fairpc.fair.top import Model
from fairpc.paper.outcome import Outcome

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


@dataclass(frozen=True)
class Setting:
    """What is run on a fold.

    Attributes:
        method: name of the method.
        seed: of all chance in it.
        missing: share of the training cells of X that are hidden, the structure being that of
            complete rows; for FairPC only. None: the paper's protocol.
    """

    method: str
    seed: int
    missing: float | None = None


def is_distribution(method: str) -> bool:
    """Whether a method is one of the circuits, with likelihoods, or a classifier."""
    return method in _MODEL or method == FAIRPC_AUTO


def run(setting: Setting, train: Rows, valid: Rows, test: Rows) -> Outcome:
    """Fit a method to a fold and apply it to the test rows."""
    if is_distribution(setting.method):
        return _run_distribution(setting, train, valid, test)
    return _run_classifier(setting, train, test)


def _run_distribution(setting: Setting, train: Rows, valid: Rows, test: Rows) -> Outcome:
    began = perf_counter()
    fitted = _fit(setting, train, valid, test)
    seconds = perf_counter() - began
    raw, model = fitted.distribution, aligned(fitted.distribution)
    curve = fitted.history["mechanism"]
    if model is not raw:
        curve = curve[:, :, ::-1]  # one permutation of Df for all groups; it has two values here
    latent = model.layout.latent
    scores = model.decision(test.s, test.x)[:, 1]
    log_likelihood = model.log_likelihood(test.s, test.d, test.x)
    return Outcome(
        scores=scores,
        predicted=(scores > 0.5).astype(np.int8),
        log_likelihood=log_likelihood,
        log_likelihood_all=_mean_over([train, valid, test], model),
        parity_gap=float(model.parity_gap()[1]),
        mechanism=model.mechanism if latent else np.empty(0),
        curve=fitted.history.get("test", np.empty(0)),
        mechanism_curve=curve if latent else np.empty(0),
        seconds=seconds,
    )


def _fit(setting: Setting, train: Rows, valid: Rows, test: Rows) -> Fitted:
    if setting.method == FAIRPC_AUTO:
        return fit_auto(train, validation=valid, evaluation={"test": test})
    if setting.missing is not None:
        return fit_with_holes(setting, setting.missing, train, valid)
    options = Options(
        init="random" if setting.method == FAIRPC_RAND else "prior",
        tol=0,
        random_state=setting.seed,
    )
    return fit(
        _MODEL[setting.method], train, validation=valid, evaluation={"test": test}, options=options
    )


def fit_with_holes(setting: Setting, share: float, train: Rows, valid: Rows) -> Fitted:
    """FairPC on rows with hidden cells, its structure that of the complete rows.

    Paper, Section "Learning With Missing Values". No parameter may remember the hidden
    cells: those of X start uniform, and only the mechanism is near the identity. Where
    much is hidden EM overfits in the end: the iterate that is best on the validation
    rows, which have holes too, is kept.
    """
    if setting.method != "FairPC":
        raise LearningError(f"{setting.method} is not run on rows with holes: choose FairPC")
    rng = np.random.default_rng(setting.seed)
    options = _HOLES_OPTIONS
    cells = learn_structure(train, valid, options.structure, options.smoothing, rng)
    model = initial_model("FairPC", train, cells, options.smoothing)
    start, top = model.circuit.graph.uniform(), model.top
    for part in (top.group, top.decision, top.mechanism):
        start[part] = model.circuit.parameters[part]
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
        value = float(model.log_likelihood(self._rows.s, self._rows.d, self._rows.x).mean())
        if value > self._highest:
            self.model, self._highest = model, value


def with_holes(rows: Rows, share: float, rng: np.random.Generator) -> Rows:
    """The rows with this share of the cells of X hidden, completely at random."""
    x = rows.x.copy(order="F")
    x[rng.random(x.shape) < share] = -1
    return Rows(
        rows.s, rows.d, x, rows.weights, rows.n_groups, rows.n_classes, rows.arities, rows.names
    )


def _mean_over(parts: list[Rows], model: FairDistribution) -> float:
    """Mean log-likelihood over all rows of several parts."""
    values = [model.log_likelihood(p.s, p.d, p.x) for p in parts if p.n_rows]
    return float(np.concatenate(values).mean())


def _run_classifier(setting: Setting, train: Rows, test: Rows) -> Outcome:
    model = _classifier(setting)
    began = perf_counter()
    model.fit(_features(train), train.d, sensitive_features=train.s)
    seconds = perf_counter() - began
    scores = model.predict_proba(_features(test), sensitive_features=test.s)[:, 1]
    nothing: Floats = np.empty(0)
    return Outcome(
        scores=np.asarray(scores, np.float64),
        predicted=(scores > 0.5).astype(np.int8),
        log_likelihood=nothing,
        log_likelihood_all=float("nan"),
        parity_gap=float("nan"),
        mechanism=nothing,
        curve=nothing,
        mechanism_curve=nothing,
        seconds=seconds,
    )


def _features(rows: Rows) -> Floats:
    return rows.x.astype(np.float64)


def _classifier(setting: Setting) -> Any:
    from fairpc.baselines import LR, FairLR, Rand, Reduction, Reweight

    kinds = {"FairLR": FairLR, "Reduction": Reduction, "Reweight": Reweight, "LR": LR}
    if setting.method == "Rand":
        return Rand(random_state=setting.seed)
    if setting.method not in kinds:
        known = ", ".join((*ALL_METHODS, FAIRPC_RAND, FAIRPC_AUTO))
        raise LearningError(f"there is no method {setting.method!r}: choose one of {known}")
    return kinds[setting.method]()
