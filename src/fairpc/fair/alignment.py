"""Label switching: which value of Df means which class, made the same in all runs.

Permuting the values of Df in all groups at once changes no likelihood, so a
random start may end with them in any order. One global permutation puts them
back next to the observed classes. A permutation inside one group only is
another model, and often as likely: it is reported, never repaired.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairpc.circuit.graph import INDICATOR, Circuit
from fairpc.errors.arrays import Floats, Ints
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.top import DF


def agreement(mechanism: Floats, decision_rate: Floats) -> Floats:
    """P(Df = f, D = d | S = s), [s, f, d]: how often each pair of them occurs."""
    result: Floats = decision_rate[:, :, None] * mechanism
    return result


def best_permutation(joint: Floats) -> Ints:
    """For each value of Df the class that it should be called, for the largest total agreement."""
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(joint, maximize=True)[1], np.int64)


def aligned(distribution: FairDistribution) -> FairDistribution:
    """The same distribution with the values of Df named by the classes they agree with most."""
    if not distribution.layout.latent:
        return distribution
    joint = agreement(distribution.mechanism, distribution.decision_rate)
    order = best_permutation(np.tensordot(distribution.group_rate, joint, axes=1))
    if (order == np.arange(len(order))).all():
        return distribution
    graph = distribution.circuit.graph
    is_decision = (graph.kind == INDICATOR) & (graph.variable == DF)
    value = graph.value.copy()
    value[is_decision] = order[value[is_decision]]
    renamed = replace(graph, value=value)
    circuit = Circuit(renamed, distribution.circuit.parameters)
    return FairDistribution(distribution.model, distribution.layout, circuit)


def switched_groups(distribution: FairDistribution) -> tuple[int, ...]:
    """Groups in which another order of Df would agree better with the observed labels."""
    if not distribution.layout.latent:
        return ()
    joint = agreement(distribution.mechanism, distribution.decision_rate)
    same = np.arange(distribution.layout.n_classes)
    return tuple(s for s in range(len(joint)) if (best_permutation(joint[s]) != same).any())
