"""The active path: the circuit written out for the rows of a chunk, without what is zero.

A complete row of a deterministic circuit activates one tree, whatever the
parameters (Section "Parameter Learning", the coloured edges of Figure 2); a
hidden variable of k values makes k of them, and missing features make more, but
far from all. Which nodes are active at which projections of the rows is found
once, and an iteration of EM is then one pass up and one down the terms that are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.circuit._program import Projection, Scaled, Workspace, kernels, listing_kernels
from fairpc.core import Floats, Int32s, Slots
from fairpc.data import readonly

WORTHWHILE: Final = 1 / 3
"""Share of the edges × projections of a chunk up to which its active terms are cheaper."""


@dataclass(frozen=True, eq=False)
class ActiveTerms:
    """Some rows as sums of products of parameters, shared by rows and nested.

    The first slots hold ones, zero and the parameters. Each later slot is the sum
    of its terms (``terms[t, 3]`` names the slot) and each term the product of three
    slots before it. The likelihood of row r is the product of the two slots ``root[r]``.
    """

    n_parameters: int
    n_slots: int
    terms: Slots
    root: Slots

    @property
    def n_bytes(self) -> int:
        return self.terms.nbytes + self.root.nbytes

    def log_likelihood(self, theta: Floats, weights: Floats, work: Workspace) -> float:
        """Of the rows together: the way up alone."""
        likelihood = self._likelihood(theta, weights, work.take(self.n_slots))
        if likelihood.min(initial=1.0) <= kernels().TINY:
            return self._scaled_flows(theta, weights)[0]
        return float((weights * np.log(likelihood)).sum())

    def _likelihood(self, theta: Floats, weights: Floats, value: Floats) -> Floats:
        """Likelihood of each row of positive weight; the slots into ``value``."""
        likelihood = np.empty(len(weights))
        kernels().rise(readonly(theta), self.terms, self.root, readonly(weights), value, likelihood)
        return likelihood

    def row_logs(self, theta: Floats, work: Workspace) -> Floats:
        """log P of each row; with extended range where one is very small."""
        likelihood = self._likelihood(theta, np.ones(len(self.root)), work.take(self.n_slots))
        if likelihood.min(initial=1.0) <= kernels().TINY:
            return self._scaled_values(theta)[2]
        result: Floats = np.log(likelihood)
        return result

    def flows(self, theta: Floats, weights: Floats, work: Workspace) -> tuple[float, Floats]:
        """Log-likelihood and flows; with extended range where some likelihood is very small."""
        value, slope = work.take(2, self.n_slots)
        likelihood, flow = self._likelihood(theta, weights, value), np.empty(len(theta))
        if likelihood.min(initial=1.0) <= kernels().TINY:
            return self._scaled_flows(theta, weights)
        rate = weights / likelihood
        kernels().fall(readonly(theta), self.terms, self.root, rate, value, slope, flow)
        return float((weights * np.log(likelihood)).sum()), flow

    def flows_of_sets(
        self, theta: Floats, weights: Floats, work: Workspace
    ) -> tuple[Floats, Floats]:
        """The same for several parameter sets (B, P) in one pass, with weights (B, rows)."""
        known, weight = np.ascontiguousarray(theta.T), np.ascontiguousarray(weights.T)
        value, slope = work.take(2, self.n_slots, len(theta))
        likelihood, flow = np.empty(weight.shape), np.empty(known.shape)
        kernels().rise_sets(known, self.terms, self.root, weight, value, likelihood)
        tiny = likelihood.min(axis=0, initial=1.0) <= kernels().TINY
        likelihood[:, tiny] = 1.0
        rate = weight / likelihood
        kernels().fall_sets(known, self.terms, self.root, rate, value, slope, flow)
        log_likelihood, flows = (weight * np.log(likelihood)).sum(axis=0), flow.T
        for b in np.flatnonzero(tiny).tolist():
            log_likelihood[b], flows[b] = self._scaled_flows(theta[b], weights[b])
        return log_likelihood, flows

    @property
    def _own(self) -> slice:
        """Slots of the parameters."""
        return slice(kernels().FIRST, kernels().FIRST + self.n_parameters)

    def _scaled_values(self, theta: Floats) -> tuple[Floats, Int32s, Floats]:
        """Mantissa and exponent of every slot, and log P of every row."""
        known, own = Scaled.of(theta), self._own
        value = np.zeros(self.n_slots)
        exponent = np.full(self.n_slots, kernels().ZERO_EXPONENT, np.int32)
        value[: kernels().ZERO], exponent[: kernels().ZERO] = 1.0, 0
        value[own], exponent[own] = known.mantissa, known.exponent
        exponent[value == 0.0] = kernels().ZERO_EXPONENT
        kernels().rise_scaled(self.terms, value, exponent)
        logs = kernels().scaled_log(
            value[self.root].prod(axis=1), exponent[self.root].sum(axis=1, dtype=np.int32)
        )
        return value, exponent, logs

    def _scaled_flows(self, theta: Floats, weights: Floats) -> tuple[float, Floats]:
        """A row of probability zero has no flow: it is told by the log-likelihood alone."""
        value, exponent, logs = self._scaled_values(theta)
        passed = np.repeat(np.where(np.isfinite(logs), weights, 0.0), 2)
        flow: Floats = np.zeros(self.n_slots)
        np.add.at(flow, self.root.ravel(), passed)
        kernels().fall_scaled(self.terms, value, exponent, flow)
        weighed = weights > 0
        return float((weights[weighed] * logs[weighed]).sum()), flow[self._own].copy()


def active_terms(chunk: Projection, *, at_any_cost: bool = False) -> ActiveTerms | None:
    """The active terms of a chunk; None where they are so many that the circuit is cheaper."""
    n_parameters, arrays = chunk.program.graph.n_parameters, chunk.program.arrays
    on = np.empty(chunk.n_values, np.uint8)
    own = listing_kernels(chunk.n_values)
    own.mark_possible(arrays, chunk.arrays, on)
    pairs = np.empty(np.count_nonzero(on) + 1, np.int32)
    pair_ptr = np.empty(len(arrays.kind) + 1, np.int64)
    own.list_active(arrays, chunk.arrays, on, pairs, pair_ptr)
    degree = np.diff(arrays.child_ptr)
    most = int(np.dot(np.diff(pair_ptr), 2 * degree + 1))
    if not at_any_cost:
        everything = int(np.dot(np.diff(chunk.arrays.off), degree))
        most = min(most, int(WORTHWHILE * everything) + 2 * int(degree.max()) + 1)
    left, right = np.zeros((2, chunk.n_values), np.int32)
    terms = np.empty((most, 4), np.uint32)
    n_terms, n_slots = own.list_terms(
        arrays, chunk.arrays, n_parameters, on, pairs, pair_ptr, left, right, terms
    )
    if n_terms < 0:
        return None
    root = np.stack([left[chunk.root], right[chunk.root]], axis=1).astype(np.uint32)
    # Rows of one factor take the ones in turn, as terms do.
    root[:, 1] = np.where(root[:, 1] == 0, np.arange(len(root)) % kernels().ZERO, root[:, 1])
    root[on[chunk.root] == 0] = kernels().ZERO
    return ActiveTerms(n_parameters, n_slots, terms[:n_terms].copy(), root[chunk.root_ids])
