"""Mixtures inside each P(x | f, s): Σ_k w_k P_k(x | f, s), the weights the same in every cell.

The components differ in how their structure is learned. A last variable of the
circuit says which component a row is from: the circuit stays deterministic in
it, and both independencies of the model hold whatever the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from fairpc.circuit.builder import CircuitBuilder
from fairpc.data.table import Table
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.fit import Fitted, Options
from fairpc.fair.parts import Part
from fairpc.fair.rows import FloatArray, Rows
from fairpc.fair.start import agreeing_mechanism
from fairpc.fair.top import Layout, build
from fairpc.fair.upper import Places, Upper, upper_em
from fairpc.structure import (
    CellCircuits,
    Gain,
    Stop,
    Strudel,
    bootstrap_weights,
    component_weights,
)
from fairpc.structure.cells import CellSearch, Method


@dataclass(frozen=True)
class Kind:
    """How the circuits of all cells are learned.

    Attributes:
        trees: what they start from: the Chow–Liu tree of all rows, or of each cell's own.
        splits: how edges are split, if they are.
    """

    trees: Literal["pooled", "cell"]
    splits: Literal["gain", "strudel", "none"]

    @property
    def words(self) -> str:
        tree = {"pooled": "one tree for all cells", "cell": "a tree for each cell"}[self.trees]
        split = {"gain": ", split by gain", "strudel": ", split as in Strudel", "none": ""}
        return tree + split[self.splits]


PAPER: Final = Kind("pooled", "strudel")
TREES: Final = Kind("cell", "none")
SINGLE: Final = Kind("cell", "gain")
MIXED: Final = (SINGLE, Kind("cell", "strudel"), Kind("pooled", "gain"), PAPER)
"""The components of a mixture, in turn."""


@dataclass(frozen=True, eq=False)
class Component:
    """The circuits of all cells (f, s), f being the slow index, and how they were learned."""

    kind: Kind
    circuits: CellCircuits

    @property
    def n_splits(self) -> int | None:
        """Complexity to keep where there are no held-out rows; Gain stops by itself."""
        return self.circuits.best_split if self.kind.splits == "strudel" else None


def learn_component(
    kind: Kind,
    cells: Sequence[Table],
    held_out: Sequence[Table] | None,
    options: Options,
    rng: np.random.Generator,
    *,
    bootstrap: bool = False,
    n_splits: int | None = None,
) -> Component:
    """Learn the circuits of all cells.

    ``held_out`` says when Strudel stops, or else ``n_splits`` does. With
    ``bootstrap`` the structure is learned on Bayesian-bootstrap weights of the
    rows; parameters always come from the rows as they are.
    """
    structure = options.structure
    most = structure.max_splits if n_splits is None else n_splits
    method: Method = Strudel(stop=Stop(most if kind.splits == "strudel" else 0, structure.patience))
    if kind.splits == "gain":
        method = Gain()
    search = CellSearch(
        cells,
        validation=held_out if kind.splits == "strudel" else None,
        method=method,
        trees=kind.trees,
        smoothing=options.smoothing,
        structure_weights=[_reweighted(t, rng) for t in cells] if bootstrap else None,
        random_state=rng,
    )
    for _ in search:  # not run(): an interrupt ends the whole recipe, not this search alone
        pass
    return Component(kind, search.best())


def _reweighted(table: Table, rng: np.random.Generator) -> FloatArray:
    return bootstrap_weights(table, rng) if table.weights.any() else table.weights


def log_densities(component: Component, rows: Rows, places: Places) -> FloatArray:
    """log P_k(x | f, s) of each place: places × classes."""
    result = np.empty((len(places.row), rows.n_classes))
    for s in range(rows.n_groups):
        here = np.flatnonzero(places.s == s)
        if not len(here):
            continue
        x = np.asfortranarray(rows.x[places.row[here]])
        for f in range(rows.n_classes):
            circuit = component.circuits.circuit(f * rows.n_groups + s)
            result[here, f] = circuit.log_marginal(x)
    return result


def mixed(densities: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
    """log Σ_k w_k P_k(x | f, s)."""
    with np.errstate(divide="ignore"):
        parts = np.stack(densities) + np.log(weights)[:, None, None]
    top = parts.max(axis=0)
    top[np.isneginf(top)] = 0.0
    with np.errstate(divide="ignore"):
        result: FloatArray = top + np.log(np.exp(parts - top).sum(axis=0))
    return result


def assemble(
    rows: Rows, components: Sequence[Component], weights: FloatArray, upper: Upper
) -> FairDistribution:
    """The model with these circuits, weights and upper layers."""
    layout = Layout.of("FairPC", rows, len(components))

    def graft(b: CircuitBuilder, f: int, s: int, columns: range) -> int:
        cell = f * layout.n_groups + s
        roots = [c.circuits.graft(b, cell, columns, key=k) for k, c in enumerate(components)]
        if layout.component is None:
            return roots[0]
        named = [b.product(r, b.indicator(layout.component, k)) for k, r in enumerate(roots)]
        return b.sum(named, weights.tolist(), tie="component")

    rate = np.tile(upper.decision_rate, (layout.n_groups, 1))
    circuit = build(layout, graft, upper.group_rate, rate, upper.mechanism)
    return FairDistribution("FairPC", layout, circuit)


def validation_weights(components: Sequence[Component], part: Part, upper: Upper) -> FloatArray:
    """Weights of the components under which these rows are likeliest, the rest being fixed."""
    scores = []
    for component in components:
        densities = log_densities(component, part.rows, part.places)
        scores.append(part.places.normalised(upper.log_joint(part.places, densities))[0])
    return component_weights(np.stack(scores, axis=1), part.rows.weights)


def fit_upper(
    components: Sequence[Component],
    weights: FloatArray,
    part: Part,
    start: Upper,
    evaluation: Mapping[str, Rows],
    options: Options,
) -> Fitted:
    """The mixture with the upper layers learned by EM, all of P(x | f, s) being fixed."""
    layout = Layout.of("FairPC", part.rows, len(components))
    prior = _upper_prior(layout, options)
    scored = {name: _Scored.of(components, weights, Part.of(r)) for name, r in evaluation.items()}
    fitted_to = _Scored.of(components, weights, part)
    records: list[tuple[float, ...]] = []
    mechanisms: list[FloatArray] = []
    converged = False
    for step in upper_em(part.places, fitted_to.densities, start, prior):
        means = [some.mean(step.upper) for some in scored.values()]
        records.append((step.objective, step.log_likelihood, *means))
        mechanisms.append(step.upper.mechanism)
        converged = _stands(records, options, part)
        if converged or step.iteration >= options.max_iter:
            break
    names = ["objective", "log_likelihood", *scored]
    history = dict(zip(names, np.array(records).T, strict=True))
    history["mechanism"] = np.array(mechanisms)
    return Fitted(assemble(part.rows, components, weights, step.upper), history, converged)


@dataclass(frozen=True, eq=False)
class _Scored:
    """Rows with their log P(x | f, s)."""

    part: Part
    densities: FloatArray

    @classmethod
    def of(cls, components: Sequence[Component], weights: FloatArray, part: Part) -> _Scored:
        each = [log_densities(c, part.rows, part.places) for c in components]
        return cls(part, mixed(each, weights))

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
    n, k = layout.n_groups, layout.n_classes
    alpha = options.smoothing
    mechanism = np.full((n, k, k), alpha / k)
    if options.mechanism_prior > 0:
        mechanism = options.mechanism_prior * agreeing_mechanism(layout)
    return Upper(np.full(n, alpha / n), np.full(k, alpha / k), mechanism)
