"""The course of the fit: objective, likelihoods and mechanism, iteration by iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.estimators.base import CircuitClassifier

MAX_POINTS: Final = 201


@dataclass(frozen=True)
class Learning:
    """How the model was learned.

    Attributes:
        n_iter: updates of EM.
        converged: whether it stopped by itself.
        iterations: those that are listed; thinned where there are many.
        curves: name -> value per listed iteration: "objective", "log_likelihood", …
        mechanism: per listed iteration P(D = d | Df = f, S = s), [s, f, d]; empty without Df.
        choices: how the structure was chosen, in words.
    """

    n_iter: int
    converged: bool
    iterations: tuple[int, ...]
    curves: Mapping[str, tuple[float, ...]]
    mechanism: tuple[object, ...]
    choices: tuple[str, ...]


def learning(model: CircuitClassifier) -> Learning:
    """The history of the fit, thinned."""
    history = model.history_
    n = len(history["objective"])
    listed = np.unique(np.linspace(0, n - 1, min(n, MAX_POINTS)).round().astype(np.intp))
    curves = {
        name: tuple(values[listed].tolist())
        for name, values in history.items()
        if values.ndim == 1 and len(values) == n
    }
    mechanism = history.get("mechanism", np.empty(0))
    latent = model.distribution_.layout.latent and len(mechanism) == n
    return Learning(
        n_iter=model.n_iter_,
        converged=bool(model.converged_),
        iterations=tuple(listed.tolist()),
        curves=curves,
        mechanism=tuple(mechanism[listed].tolist()) if latent else (),
        choices=() if model.choices_ is None else model.choices_.sentences,
    )
