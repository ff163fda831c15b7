"""Mixtures inside each P(x | f, s): Σ_k w_k P_k(x | f, s).

The components differ in how their structure is learned, or in the rows that it is
learned from. A last variable of the circuit says which component a row is from: the
circuit stays deterministic in it, and both independencies of the model hold whatever
the weights.

Held-out rows choose how strongly parameters are shrunk towards features that are independent
within the cell. Every sum of a circuit has ``strength`` prior rows, spread as the cell's marginals
say. Where cells have few rows, a strength well above one makes new rows likelier; where they have
many it hardly matters. The choice is made on trees with D in place of Df: these need no EM, and
counts once made serve every strength.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from fairpc.circuit import CircuitBuilder
from fairpc.core import Floats
from fairpc.data import Table
from fairpc.models._components import TREES, Component, learn_component
from fairpc.models._distinct_rows import DistinctRows, hold_out
from fairpc.models._distribution import FairDistribution
from fairpc.models._fit import Fitted, History, Options
from fairpc.models._initial import Structure, cells_of
from fairpc.models._priors import parameter_prior, strengths, top_prior
from fairpc.models._rows import Rows
from fairpc.models._top import Layout, TopRates, TopStep, build, top_em
from fairpc.structure import component_weights

LEAST_ROWS: Final = 20
"""Distinct rows below which no strength is tried."""
FEW_ROWS: Final = 5000
"""Training rows below which the validation rows decide nothing, and others are held out."""
N_HELD_OUT: Final = 3
HELD_OUT: Final = 0.2
"""How often rows are held out then, and their share."""


def assemble(
    rows: Rows, components: Sequence[Component], weights: Floats, rates: TopRates
) -> FairDistribution:
    """The model with these circuits and upper layers.

    ``weights`` are those of the components, shared by all cells; or, cells × components,
    those of each cell.
    """
    layout = Layout.of("FairPC", rows, len(components))

    def graft(b: CircuitBuilder, f: int, s: int, columns: Sequence[int]) -> int:
        cell = f * layout.n_subgroups + s
        roots = [c.graft(b, cell, columns, k) for k, c in enumerate(components)]
        if layout.component is None:
            return roots[0]
        named = [b.product(r, b.indicator(layout.component, k)) for k, r in enumerate(roots)]
        if weights.ndim == 1:
            return b.sum(named, weights.tolist(), tie="component")
        return b.sum(named, weights[cell].tolist(), tie=("component", cell))

    rate = np.tile(rates.decision_rate, (layout.n_groups, 1))  # of strata, in each group
    circuit = build(layout, graft, rates.group_rate, rate, rates.mechanism)
    return FairDistribution("FairPC", layout, circuit)


def log_densities(components: Sequence[Component], part: DistinctRows) -> Floats:
    """log P_k(x | f, s): components × places × classes."""
    places, own = part.places, part.rows.by_subgroup()
    x, n_groups, n_classes = own.x, own.n_groups, own.n_classes
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
    components: Sequence[Component], part: DistinctRows, rates: TopRates
) -> tuple[Floats, float]:
    """Weights under which these rows are likeliest, the rest being fixed; and how likely."""
    places = part.places
    columns = [
        places.normalised(rates.log_joint(places, densities))[0]
        for densities in log_densities(components, part)
    ]
    scores = np.stack(columns, axis=1)
    weights = component_weights(scores, part.rows.weights)
    top = scores.max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(np.isneginf(top), top, top + np.log(np.exp(scores.T - top).T @ weights))
    return weights, part.mean(logs)


def fit_top(
    components: Sequence[Component],
    weights: Floats,
    part: DistinctRows,
    start: TopRates,
    evaluation: Mapping[str, Rows],
    options: Options,
) -> Fitted:
    """The mixture with the upper layers learned by EM, all of P(x | f, s) being fixed.

    Likelihoods of the history are per unit of weight, as of every fit.
    """
    layout, limits = Layout.of("FairPC", part.rows), options.limits
    prior = top_prior(layout, options, start)
    if limits is not None and layout.strata:
        limits = limits.spread(layout)
    watched = {}
    for name, rows in evaluation.items():
        some = DistinctRows.of(rows)
        watched[name] = partial(_mean, some, mixed(log_densities(components, some), weights))
    densities = mixed(log_densities(components, part), weights)
    places = part.places
    history = History(places.total_weight, lambda step: step.rates.mechanism, watched)
    steps = top_em(places, densities, start, prior, limits, options.equal_mass)
    for reached in options.stopping.until(steps, places.total_weight):
        history.add(reached.step)
    fitted = assemble(part.rows, components, weights, reached.step.rates)
    return Fitted(fitted, history.arrays(), reached.converged)


def _mean(part: DistinctRows, densities: Floats, step: TopStep) -> float:
    """Mean log-likelihood of rows, from their log P(x | f, s)."""
    joint = step.rates.log_joint(part.places, densities)
    return part.mean(part.places.normalised(joint)[0])


def choose_strength(
    train: DistinctRows, held_out: DistinctRows, least: float, rng: np.random.Generator
) -> tuple[float, dict[float, float]]:
    """The strength to take, and the mean held-out log P(x | d, s) of every candidate.

    With ``FEW_ROWS`` training rows at least, ``held_out`` decides; with fewer, rows that
    are held out of the training rows, several times.
    """
    if least == 0 or train.rows.n_rows < LEAST_ROWS:
        return least, {}
    tried = strengths(least)
    pairs = [(train.rows, held_out.rows)]
    if train.effective < FEW_ROWS:
        pairs = [hold_out(train.rows, HELD_OUT, rng) for _ in range(N_HELD_OUT)]
    found = [_held_out_scores(cells_of(a), cells_of(b), tried, rng) for a, b in pairs]
    scores = np.concatenate([s for s, _ in found], axis=1)
    weights = np.concatenate([w for _, w in found])
    if not weights.any():
        return least, {}
    means = scores @ weights / weights.sum()
    return tried[int(np.argmax(means))], dict(zip(tried, means.tolist(), strict=True))


def _held_out_scores(
    cells: Sequence[Table],
    held_out: Sequence[Table],
    tried: Sequence[float],
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """log P(x | d, s) of held-out rows, strengths × rows, and their weights."""
    trees = learn_component(TREES, cells, None, Structure(), tried[0], rng)
    scores = []
    for strength in tried:
        circuits = trees.shrunk(strength).circuits
        parts = [c.log_marginal(t.codes) for c, t in zip(circuits, held_out, strict=True)]
        scores.append(np.concatenate(parts))
    return np.stack(scores), np.concatenate([table.weights for table in held_out])


def shrinking_prior(
    model: FairDistribution,
    components: Sequence[Component],
    rows: Rows,
    strength: float,
    options: Options,
) -> Floats:
    """Pseudo-counts of all parameters of ``model``, which is assembled of these components."""
    weights = np.full(len(components), 1.0 / len(components))
    if model.layout.component is not None:
        weights = np.tile(weights, (model.layout.n_classes * model.layout.n_subgroups, 1))
    base = assemble(rows, [c.base for c in components], weights, model.top_rates)
    prior: Floats = strength * base.circuit.parameters
    top = model.top
    usual = parameter_prior(model.circuit, model.layout, top, options)
    for positions in (top.group, top.decision, top.mechanism):
        prior[positions] = usual[positions]
    return prior
