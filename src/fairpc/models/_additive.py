"""A density of each group, tilted for each class by log odds of Df that add up.

A product of features stays one when each factor is multiplied by exp(g_j(x_j)). So a mixture of
products, tilted for each class, is a density of X under which the log odds of complete rows are
the sums of ``additive_scores``, exactly, and what is missing can be marginalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairpc.core import Codes, Floats, Ints
from fairpc.learners import softmax


@dataclass(frozen=True, eq=False)
class Tilted:
    """The density of each group, tilted for each class by log odds that add up.

    Attributes:
        odds: of each feature the log odds of Df that its values add, groups × values × classes.
        shares: P(c | f, s), groups × classes × clusters.
        values: of each feature P(x_j = v | c, f, s), groups × classes × clusters × values.
        log_mass: log of the factor by which tilts, before they are scaled to sum to 1, change the
            mass of the group's density; groups × classes.
    """

    odds: tuple[Floats, ...]
    shares: Floats
    values: tuple[Floats, ...]
    log_mass: Floats

    @classmethod
    def of(
        cls, odds: Sequence[Floats], shares: Floats, values: Sequence[Floats], rates: Floats
    ) -> Tilted:
        """P(c | s) and P(x_j | c, s), groups × clusters × values, tilted; ``rates`` are P(f) of
        each group."""
        logs = np.repeat(np.log(shares)[:, None], rates.shape[1], axis=1)
        tilted = []
        for numbers, value in zip(odds, values, strict=True):
            # So that the mean over the classes stays near the density of the group.
            tilt = numbers - np.einsum("gvf,gf->gv", numbers, rates)[:, :, None]
            heights = value[:, None] * np.exp(tilt).transpose(0, 2, 1)[:, :, None]
            mass = heights.sum(axis=3, keepdims=True)
            tilted.append(heights / mass)
            logs += np.log(mass[..., 0])
        log_mass = np.logaddexp.reduce(logs, axis=2)
        return cls(tuple(odds), softmax(logs), tuple(tilted), log_mass)

    def added(self, codes: Codes, groups: Ints | int) -> Floats:
        """Log odds that the features of complete rows add, rows × classes."""
        result = np.zeros((len(codes), self.log_mass.shape[1]))
        for odds, column in zip(self.odds, codes.T, strict=True):
            if odds.any():
                result += odds[groups, column]
        return result
