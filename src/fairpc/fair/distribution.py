"""A fitted model: the circuit, which of its columns is what, and what was learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairpc.circuit.graph import Circuit
from fairpc.errors.arrays import Codes, Floats
from fairpc.fair.top import Layout, Model, Top


@dataclass(frozen=True, eq=False)
class FairDistribution:
    """P(s, f, d, x) as a circuit, with exact queries by role.

    Attributes:
        model: which of the paper's four distributions.
        layout: which column is what.
        circuit: the distribution.
    """

    model: Model
    layout: Layout
    circuit: Circuit

    @property
    def top(self) -> Top:
        return Top.of(self.circuit.graph, self.layout)

    @property
    def group_rate(self) -> Floats:
        """P(S)."""
        return self.circuit.parameters[self.top.group]

    @property
    def decision_rate(self) -> Floats:
        """P(decision | S = s), [s, f]: all rows are equal where the decision is tied."""
        return self.circuit.parameters[self.top.decision]

    @property
    def mechanism(self) -> Floats:
        """P(D = d | Df = f, S = s), [s, f, d]; the identity where D itself is the decision."""
        if not self.layout.latent:
            return np.tile(np.eye(self.layout.n_classes), (self.layout.n_groups, 1, 1))
        return self.circuit.parameters[self.top.mechanism]

    def log_likelihood(self, s: npt.ArrayLike | None, d: npt.ArrayLike | None, x: Codes) -> Floats:
        """log P of what is known of each row; the rest is summed out."""
        return self.circuit.log_marginal(self.layout.codes(s, d, x))

    def decision(self, s: npt.ArrayLike | None, x: Codes) -> Floats:
        """P(decision = f | x, s): Df where the model has one, else D; rows × classes.

        A group that is not known is summed out.
        """
        return self.circuit.posterior(self.layout.decision, self.layout.codes(s, None, x))

    def observed(self, s: npt.ArrayLike | None, x: Codes) -> Floats:
        """P(D = d | x, s), the label as it would be observed; rows × classes."""
        return self.circuit.posterior(self.layout.d, self.layout.codes(s, None, x))

    def parity_gap(self) -> Floats:
        """Largest difference between groups of P(decision = f | S = s), by exact query; per class.

        Zero under every tied model, whatever was learned. It says nothing about rows.
        """
        layout = self.layout
        nothing = np.full((layout.n_groups, len(layout.names)), -1, np.int16)
        rates = self.decision(np.arange(layout.n_groups), nothing)
        result: Floats = rates.max(axis=0) - rates.min(axis=0)
        return result
