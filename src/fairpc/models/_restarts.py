"""Several starts of EM: aligned, compared, and none chosen by likelihood alone.

Permuting the values of Df in all groups at once changes no likelihood, so a random start may
end with them in any order (label switching). One global permutation puts them back next to the
observed classes. A permutation inside one group only is another model, and often as likely: it is
reported, never repaired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fairpc.core import Floats, Ints, LearningError
from fairpc.models._distribution import FairDistribution
from fairpc.models._fit import UNOBSERVED, Fitted, Observer, Options, fit
from fairpc.models._rows import Rows
from fairpc.models._top import Model, feature_circuits


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
    observer: Observer = UNOBSERVED,
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
    again = partial(fit, validation=validation, evaluation=evaluation, observer=observer)
    fits, starts = [], []
    for _ in range(n_init):
        fitted = again(model, rows, options=replace(chosen, random_state=rng))
        distribution = fitted.distribution
        # Df is named by the classes that it agrees with, unless prior knowledge names it.
        named, limits = aligned(distribution), chosen.limits
        rates = named.top_rates
        allowed = limits is None or limits.spread(named.layout).allow(
            rates.decision_rate, rates.mechanism
        )
        if rows.f is None and allowed:
            distribution = named
        fits.append(replace(fitted, distribution=distribution))
        end = float(fitted.history["objective"][-1])
        starts.append(Start(end, distribution.mechanism, switched_groups(distribution)))
    best = min(range(n_init), key=lambda i: (len(starts[i].switched), -starts[i].objective))
    return FittedFromStarts(**vars(fits[best]), starts=tuple(starts))


def _agreement(distribution: FairDistribution) -> Floats:
    """P(Df = f, D = d | S = s), [s, f, d]: how often each pair of them occurs."""
    result: Floats = distribution.decision_rate[:, :, None] * distribution.mechanism
    return result


def _best_permutation(joint: Floats) -> Ints:
    """For each value of Df the class that it should be called, for the largest total agreement."""
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(joint, maximize=True)[1], np.int64)


def aligned(distribution: FairDistribution) -> FairDistribution:
    """The same distribution with the values of Df named by the classes they agree with most."""
    if not distribution.layout.latent:
        return distribution
    joint = np.tensordot(distribution.group_rate, _agreement(distribution), axes=1)
    order = _best_permutation(joint)
    if (order == np.arange(len(order))).all():
        return distribution
    named = np.argsort(order)
    layout, rates = distribution.layout, distribution.top_rates
    swapped = replace(
        rates,
        decision_rate=rates.decision_rate[..., named],
        mechanism=rates.mechanism[:, named],
    )
    features = feature_circuits(distribution.circuit, layout, named)
    return FairDistribution.of_parts(distribution.model, layout, swapped, features)


def switched_groups(distribution: FairDistribution) -> tuple[int, ...]:
    """Groups in which another order of Df would agree better with the observed labels."""
    if not distribution.layout.latent:
        return ()
    joint = _agreement(distribution)
    same = np.arange(distribution.layout.n_classes)
    return tuple(s for s in range(len(joint)) if (_best_permutation(joint[s]) != same).any())
