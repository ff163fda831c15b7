"""Mixtures inside each P(x | f, s): Σ_k w_k P_k(x | f, s), the weights the same in every cell.

The components differ in how their structure is learned. A last variable of the
circuit says which component a row is from: the circuit stays deterministic in
it, and both independencies of the model hold whatever the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fairpc.circuit.builder import CircuitBuilder
from fairpc.fair.component import Component
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.fit import Fitted, Options
from fairpc.fair.parts import Part
from fairpc.fair.rows import FloatArray, Rows
from fairpc.fair.start import agreeing_mechanism
from fairpc.fair.top import DF, Layout, Top, build
from fairpc.fair.upper import Upper, upper_em
from fairpc.structure import component_weights


def assemble(
    rows: Rows, components: Sequence[Component], weights: FloatArray, upper: Upper
) -> FairDistribution:
    """The model with these circuits, weights and upper layers."""
    layout = Layout.of("FairPC", rows, len(components))

    def graft(b: CircuitBuilder, f: int, s: int, columns: range) -> int:
        cell = f * layout.n_groups + s
        roots = [c.graft(b, cell, columns, k) for k, c in enumerate(components)]
        if layout.component is None:
            return roots[0]
        named = [b.product(r, b.indicator(layout.component, k)) for k, r in enumerate(roots)]
        return b.sum(named, weights.tolist(), tie="component")

    rate = np.tile(upper.decision_rate, (layout.n_groups, 1))
    circuit = build(layout, graft, upper.group_rate, rate, upper.mechanism)
    return FairDistribution("FairPC", layout, circuit)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Components with fixed parameters; their weights and the upper layers are still open.

    Attributes:
        components: the circuits.
        uniform: the model in which all that is open is uniform.
    """

    components: tuple[Component, ...]
    uniform: FairDistribution

    @classmethod
    def of(cls, rows: Rows, components: Sequence[Component]) -> Mixture:
        weights = np.full(len(components), 1.0 / len(components))
        upper = Upper.uniform(rows.n_groups, rows.n_classes)
        return cls(tuple(components), assemble(rows, components, weights, upper))

    def distribution(self, weights: FloatArray, upper: Upper) -> FairDistribution:
        """The model with these weights and upper layers."""
        top, circuit = self._top, self.uniform.circuit
        theta = circuit.parameters.copy()
        theta[top.group] = upper.group_rate
        theta[top.decision] = upper.decision_rate
        theta[top.mechanism] = upper.mechanism
        theta[self._weight_parameters] = weights
        fitted = circuit.with_parameters(theta)
        return FairDistribution("FairPC", self.uniform.layout, fitted)

    def log_densities(self, part: Part) -> FloatArray:
        """log P_k(x | f, s): components × places × classes."""
        layout, places = self.uniform.layout, part.places
        codes = layout.codes(places.s, None, part.rows.x[places.row])
        n = len(self.components)
        result = np.empty((n, len(codes), layout.n_classes))
        for f in range(layout.n_classes):
            codes[:, DF] = f
            for k in range(n):
                if layout.component is not None:
                    codes[:, layout.component] = k
                result[k, :, f] = self.uniform.circuit.log_marginal(codes)
        result += np.log(n * layout.n_groups * layout.n_classes)
        return result

    @cached_property
    def _top(self) -> Top:
        return self.uniform.top

    @cached_property
    def _weight_parameters(self) -> npt.NDArray[np.int64]:
        graph, layout = self.uniform.circuit.graph, self.uniform.layout
        if layout.component is None:
            return np.empty(0, np.int64)
        # Above the component's indicators, the first sum in order is that of some cell.
        with_component = np.array([m >> layout.component & 1 for m in graph.scopes], bool)
        node = int(np.flatnonzero(with_component & (graph.block >= 0))[0])
        first = int(graph.block_ptr[graph.block[node]])
        return np.arange(first, first + len(self.components))


def mixed(densities: FloatArray, weights: FloatArray) -> FloatArray:
    """log Σ_k w_k P_k(x | f, s): places × classes."""
    with np.errstate(divide="ignore"):
        parts = densities + np.log(weights)[:, None, None]
        top = parts.max(axis=0)
        top[np.isneginf(top)] = 0.0
        result: FloatArray = top + np.log(np.exp(parts - top).sum(axis=0))
    return result


def validation_weights(mixture: Mixture, part: Part, upper: Upper) -> FloatArray:
    """Weights of the components under which these rows are likeliest, the rest being fixed."""
    places = part.places
    scores = [
        places.normalised(upper.log_joint(places, densities))[0]
        for densities in mixture.log_densities(part)
    ]
    return component_weights(np.stack(scores, axis=1), part.rows.weights)


def fit_upper(
    mixture: Mixture,
    weights: FloatArray,
    part: Part,
    start: Upper,
    evaluation: Mapping[str, Rows],
    options: Options,
) -> Fitted:
    """The mixture with the upper layers learned by EM, all of P(x | f, s) being fixed."""
    prior = _upper_prior(mixture.uniform.layout, options)
    scored = [_Scored.of(mixture, weights, Part.of(rows)) for rows in evaluation.values()]
    densities = mixed(mixture.log_densities(part), weights)
    records: list[tuple[float, ...]] = []
    mechanisms: list[FloatArray] = []
    converged = False
    for step in upper_em(part.places, densities, start, prior):
        means = [some.mean(step.upper) for some in scored]
        records.append((step.objective, step.log_likelihood, *means))
        mechanisms.append(step.upper.mechanism)
        converged = _stands(records, options, part)
        if converged or step.iteration >= options.max_iter:
            break
    names = ["objective", "log_likelihood", *evaluation]
    history = dict(zip(names, np.array(records).T, strict=True))
    history["mechanism"] = np.array(mechanisms)
    return Fitted(mixture.distribution(weights, step.upper), history, converged)


@dataclass(frozen=True, eq=False)
class _Scored:
    """Rows with their log P(x | f, s)."""

    part: Part
    densities: FloatArray

    @classmethod
    def of(cls, mixture: Mixture, weights: FloatArray, part: Part) -> _Scored:
        return cls(part, mixed(mixture.log_densities(part), weights))

    def mean(self, upper: Upper) -> float:
        """Mean log-likelihood."""
        places = self.part.places
        return self.part.mean(places.normalised(upper.log_joint(places, self.densities))[0])


def _stands(records: list[tuple[float, ...]], options: Options, part: Part) -> bool:
    """Whether the objective has come to a stand."""
    if options.tol <= 0 or len(records) <= max(options.min_iter, 1):
        return False
    return abs(records[-1][0] - records[-2][0]) < options.tol * part.places.total_weight


def _upper_prior(layout: Layout, options: Options) -> Upper:
    """Pseudo-counts of the upper layers, as where all parameters are learned."""
    n, k, alpha = layout.n_groups, layout.n_classes, options.smoothing
    mechanism = np.full((n, k, k), alpha / k)
    if options.mechanism_prior > 0:
        mechanism = options.mechanism_prior * agreeing_mechanism(layout)
    return Upper(np.full(n, alpha / n), np.full(k, alpha / k), mechanism)
