"""Mixtures inside each P(x | f, s): Σ_k w_k P_k(x | f, s).

The components differ in how their structure is learned, or in the rows that it is
learned from. A last variable of the circuit says which component a row is from: the
circuit stays deterministic in it, and both independencies of the model hold whatever
the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairpc.circuit.builder import CircuitBuilder
from fairpc.errors.arrays import Floats
from fairpc.fair.component import Component
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.fit import VALIDATION, Fitted, Options
from fairpc.fair.parts import Part
from fairpc.fair.rows import Rows
from fairpc.fair.start import agreeing_mechanism
from fairpc.fair.top import Layout, build
from fairpc.fair.upper import Upper, upper_em
from fairpc.structure import component_weights


def assemble(
    rows: Rows, components: Sequence[Component], weights: Floats, upper: Upper
) -> FairDistribution:
    """The model with these circuits and upper layers.

    ``weights`` are those of the components, shared by all cells; or, cells × components,
    those of each cell.
    """
    layout = Layout.of("FairPC", rows, len(components))

    def graft(b: CircuitBuilder, f: int, s: int, columns: range) -> int:
        cell = f * layout.n_groups + s
        roots = [c.graft(b, cell, columns, k) for k, c in enumerate(components)]
        if layout.component is None:
            return roots[0]
        named = [b.product(r, b.indicator(layout.component, k)) for k, r in enumerate(roots)]
        if weights.ndim == 1:
            return b.sum(named, weights.tolist(), tie="component")
        return b.sum(named, weights[cell].tolist(), tie=("component", cell))

    rate = np.tile(upper.decision_rate, (layout.n_groups, 1))
    circuit = build(layout, graft, upper.group_rate, rate, upper.mechanism)
    return FairDistribution("FairPC", layout, circuit)


def log_densities(components: Sequence[Component], part: Part) -> Floats:
    """log P_k(x | f, s): components × places × classes."""
    places, x = part.places, part.rows.x
    n_groups, n_classes = part.rows.n_groups, part.rows.n_classes
    result = np.empty((len(components), len(places.row), n_classes))
    for s in range(n_groups):
        here = np.flatnonzero(places.s == s)
        features = np.asfortranarray(x[places.row[here]])
        for k, component in enumerate(components):
            for f in range(n_classes):
                circuit = component.circuits[f * n_groups + s]
                result[k, here, f] = circuit.log_marginal(features)
    return result


def mixed(densities: Floats, weights: Floats) -> Floats:
    """log Σ_k w_k P_k(x | f, s): places × classes."""
    with np.errstate(divide="ignore"):
        parts = densities + np.log(weights)[:, None, None]
        top = parts.max(axis=0)
        top[np.isneginf(top)] = 0.0
        result: Floats = top + np.log(np.exp(parts - top).sum(axis=0))
    return result


def validation_weights(
    components: Sequence[Component], part: Part, upper: Upper
) -> tuple[Floats, float]:
    """Weights under which these rows are likeliest, the rest being fixed; and how likely."""
    places = part.places
    columns = [
        places.normalised(upper.log_joint(places, densities))[0]
        for densities in log_densities(components, part)
    ]
    scores = np.stack(columns, axis=1)
    weights = component_weights(scores, part.rows.weights)
    top = scores.max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(np.isneginf(top), top, top + np.log(np.exp(scores.T - top).T @ weights))
    return weights, part.mean(logs)


def fit_upper(
    components: Sequence[Component],
    weights: Floats,
    part: Part,
    start: Upper,
    evaluation: Mapping[str, Rows],
    options: Options,
) -> Fitted:
    """The mixture with the upper layers learned by EM, all of P(x | f, s) being fixed.

    Likelihoods of the history are per unit of weight, as of every fit.
    """
    prior = _upper_prior(Layout.of("FairPC", part.rows), options)
    scored = [_Scored.of(components, weights, Part.of(rows)) for rows in evaluation.values()]
    densities = mixed(log_densities(components, part), weights)
    records: list[tuple[float, ...]] = []
    mechanisms: list[Floats] = []
    converged, total = False, part.places.total_weight
    for step in upper_em(part.places, densities, start, prior, options.limits, options.equal_mass):
        means = [some.mean(step.upper) for some in scored]
        own = (step.objective / total, step.log_likelihood / total)
        records.append((*own, *means))
        mechanisms.append(step.upper.mechanism)
        converged = _stands(records, options)
        if converged or step.iteration >= options.max_iter:
            break
    names = ["objective", "log_likelihood", *evaluation]
    history = dict(zip(names, np.array(records).T, strict=True))
    history["mechanism"] = np.array(mechanisms)
    history.setdefault(VALIDATION, np.full(len(records), np.nan))
    fitted = assemble(part.rows, components, weights, step.upper)
    return Fitted(fitted, history, converged)


@dataclass(frozen=True, eq=False)
class _Scored:
    """Rows with their log P(x | f, s)."""

    part: Part
    densities: Floats

    @classmethod
    def of(cls, components: Sequence[Component], weights: Floats, part: Part) -> _Scored:
        return cls(part, mixed(log_densities(components, part), weights))

    def mean(self, upper: Upper) -> float:
        """Mean log-likelihood."""
        places = self.part.places
        return self.part.mean(places.normalised(upper.log_joint(places, self.densities))[0])


def _stands(records: list[tuple[float, ...]], options: Options) -> bool:
    """Whether the objective has come to a stand."""
    if options.tol <= 0 or len(records) <= max(options.min_iter, 1):
        return False
    return abs(records[-1][0] - records[-2][0]) < options.tol


def _upper_prior(layout: Layout, options: Options) -> Upper:
    """Pseudo-counts of the upper layers, as where all parameters are learned."""
    n, k, alpha = layout.n_groups, layout.n_classes, options.smoothing
    mechanism = np.full((n, k, k), alpha / k)
    if options.mechanism_prior > 0:
        mechanism = options.mechanism_prior * agreeing_mechanism(layout)
    return Upper(np.full(n, alpha / n), np.full(k, alpha / k), mechanism)
