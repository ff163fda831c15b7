"""Several starts of EM: aligned, compared, and none chosen by likelihood alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fairpc.circuit.em import Step
from fairpc.errors import LearningError
from fairpc.errors.arrays import Floats
from fairpc.fair.alignment import aligned, switched_groups
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.fit import Fitted, Options, fit
from fairpc.fair.knowledge import Limits
from fairpc.fair.rows import Rows
from fairpc.fair.top import Model


@dataclass(frozen=True, eq=False)
class Start:
    """Where one start ended.

    Attributes:
        objective: what EM reached.
        mechanism: P(D = d | Df = f, S = s), [s, f, d], after one permutation of Df for all groups.
        switched: groups in which Df still has another order than D.
    """

    objective: float
    mechanism: Floats
    switched: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FittedFromStarts(Fitted):
    """The chosen fit, and where every start ended."""

    starts: tuple[Start, ...]


def fit_starts(
    model: Model,
    rows: Rows,
    *,
    validation: Rows | None = None,
    evaluation: Mapping[str, Rows] | None = None,
    options: Options | None = None,
    n_init: int = 1,
    callback: Callable[[Step], object] | None = None,
) -> FittedFromStarts:
    """The fit of ``n_init`` starts with the best objective among those with fewest switched groups.

    A start that swaps Df in one group is often as likely as one that does not,
    and means something else: likelihood cannot choose between them.
    """
    if n_init < 1:
        raise LearningError(f"n_init is {n_init}: give a number of starts from 1 on")
    chosen = options or Options()
    if n_init > 1 and chosen.init != "random":
        raise LearningError("several starts from the prior are one and the same: set init='random'")
    rng = np.random.default_rng(chosen.random_state)
    fits, starts = [], []
    for _ in range(n_init):
        fitted = fit(
            model, rows, validation=validation, evaluation=evaluation,
            options=replace(chosen, random_state=rng), callback=callback,
        )  # fmt: skip
        distribution = named_alike(fitted.distribution, rows, chosen.limits)
        fits.append(replace(fitted, distribution=distribution))
        end = float(fitted.history["objective"][-1])
        starts.append(Start(end, distribution.mechanism, switched_groups(distribution)))
    best = min(range(n_init), key=lambda i: (len(starts[i].switched), -starts[i].objective))
    one = fits[best]
    return FittedFromStarts(one.distribution, one.history, one.converged, tuple(starts))


def named_alike(
    distribution: FairDistribution, rows: Rows, limits: Limits | None
) -> FairDistribution:
    """The values of Df named by the classes they agree with, unless prior knowledge names them."""
    if rows.f is not None:
        return distribution
    named = aligned(distribution)
    if limits is None or limits.allow(named.decision_rate[0], named.mechanism):
        return named
    return distribution
