"""Every pseudo-count of the models, and of their starts, in one place.

A pseudo-count is a number of rows that a parameter has before any row is seen. All parameters
have those of Laplace smoothing. The mechanism P(D | Df, S) may have rows in which D is mostly Df,
so that Df stays the fair version of D where the data do not say otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from fairpc.circuit import Circuit, laplace
from fairpc.core import Floats
from fairpc.models._fair_layers import Layout, Top
from fairpc.models._top_em import TopRates

if TYPE_CHECKING:
    from fairpc.models._fit import Options

SMOOTHING: Final = 1.0
"""Laplace smoothing α of every sum, unless another is asked for."""
AGREEMENT: Final = 0.9
"""P(D = f | Df = f, S) at the start of EM, and in the prior rows of the mechanism."""
MECHANISM: Final = 0.0
"""Prior rows of the mechanism per (f, s), unless others are asked for."""
RECIPE_MECHANISM: Final = 30.0
"""The same in automatic selection (``structure="auto"``) and in forest circuits."""
STRATUM_ROWS: Final = 10.0
"""Prior rows of P(Df | a), spread as P(Df) of all rows: strata of few rows are shrunk to it."""
LEAST: Final = 1e-12
"""Smoothing of naive Bayes leaves where none is asked for: EM never leaves a zero."""


def smoothed(counts: Floats, alpha: float) -> Floats:
    """Shares of counts, with α prior rows that are spread evenly."""
    result: Floats = (counts + alpha / len(counts)) / (counts.sum() + alpha)
    return result


def agreeing_mechanism(layout: Layout, agreement: float = AGREEMENT) -> Floats:
    """P(D = d | Df = f, S = s): D = f with this probability, the other classes alike; [s, f, d]."""
    k = layout.n_classes
    table = np.full((k, k), (1.0 - agreement) / (k - 1))
    np.fill_diagonal(table, agreement)
    return np.tile(table, (layout.n_subgroups, 1, 1))


def parameter_prior(circuit: Circuit, layout: Layout, top: Top, options: Options) -> Floats:
    """Pseudo-counts of all parameters: Laplace, and for the mechanism rows in which D = Df."""
    prior = laplace(circuit.graph, options.smoothing)
    if layout.latent and options.mechanism_prior > 0:
        prior[top.mechanism] = options.mechanism_prior * agreeing_mechanism(layout)
    if layout.strata:
        theta = circuit.parameters
        prior[top.decision] = STRATUM_ROWS * (theta[top.group] @ theta[top.decision])
    return prior


def top_prior(layout: Layout, alpha: float) -> TopRates:
    """Laplace pseudo-counts of the upper layers of circuits alone."""
    n, k = layout.n_groups, layout.n_classes
    mechanism = np.full((n, k, k), alpha / k)
    decision = np.full(k, alpha / k)
    if not layout.tied:
        decision = np.tile(decision, (n, 1))
    return TopRates(np.full(n, alpha / n), decision, mechanism)
