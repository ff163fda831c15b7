"""Components of P(x | f, s): how their circuits are learned, shrunk and mixed.

Soft cells are the rows of each (f, s), with weights P(f, s | row) in place of a hard label. A
structure learned on them is that of P(x | f, s) with the latent fair decision filled in by its
posterior (structural EM), where the paper puts D in its place. A component has a circuit for each
cell; components of clusters describe a part of each cell's rows.

A mixture is Σ_k w_k P_k(x | f, s). Its components differ in how their structure is learned, or in
the rows that it is learned from. A last variable of the circuit says which component a row is from:
the circuit stays deterministic in it, and both independencies hold whatever the weights.

Held-out rows choose how strongly parameters are shrunk towards features that are independent
within the cell. Every sum of a circuit has ``strength`` prior rows, spread as the cell's marginals
say. The choice is made on trees with D in place of Df: these need no EM, and counts once made serve
every strength.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Final, Literal

import numpy as np

from fairpc.circuit import Circuit, CircuitBuilder, Reached, em, maximize, prepare
from fairpc.core import Codes, Floats
from fairpc.data import Table, distinct_rows
from fairpc.models._distribution import FairDistribution
from fairpc.models._fair_layers import DF, Layout, Top, build
from fairpc.models._fit import Fitted, History, Options, Structure, label_cells
from fairpc.models._priors import CLUSTER_ROWS, parameter_prior, strengths, top_prior
from fairpc.models._rows import Rows, effective_size, hold_out
from fairpc.models._top_em import Places, TopRates, TopStep, top_em
from fairpc.structure import (
    METHODS,
    CellCircuits,
    CellSearch,
    Smoothing,
    Strudel,
    bootstrap_weights,
    component_weights,
    graft,
    soft_clusters,
)


@dataclass(frozen=True)
class Kind:
    """How the circuits of all cells are learned."""

    trees: Literal["pooled", "cell"]  #: Chow–Liu, of all rows or each cell's own
    splits: Literal["gain", "strudel", "chow-liu"]  #: of edges; Chow–Liu trees have none
    clusters: bool = False  #: of one cluster of each cell: fewer rows, so trees are pruned

    @property
    def words(self) -> str:
        tree = {"pooled": "one tree for all cells", "cell": "a tree for each cell"}[self.trees]
        split = {"gain": ", split by gain", "strudel": ", split as in Strudel", "chow-liu": ""}
        return tree + split[self.splits] + (", of a cluster of its rows" if self.clusters else "")


PAPER: Final = Kind("pooled", "strudel")
TREES: Final = Kind("cell", "chow-liu")
SINGLE: Final = Kind("cell", "gain")
MIXED: Final = (SINGLE, Kind("cell", "strudel"), Kind("pooled", "gain"), PAPER)
"""The components of a mixture of structures, in turn."""
CLUSTER: Final = Kind("cell", "chow-liu", clusters=True)
KINDS: Final = (TREES, *MIXED, CLUSTER)
REFINEMENTS: Final = 5
"""Updates of EM by which parameters forget the completions they came from."""
CLUSTER_STEPS: Final = 30
"""Iterations of the latent class model from whose clusters EM over the whole model starts."""
SPREAD: Final = "marginal"
"""How prior rows of a sum are spread: as if the features of the cell were independent."""
NEXT_TO_NONE: Final = 0.002
"""Probability, as a multiple of an equal share, under which a cell is left out."""


@dataclass(frozen=True, eq=False)
class Component:
    """The circuits of all cells (f, s), f being the slow index, and how they were learned.

    ``learned`` has parameters from complete or completed rows, ``refined`` others, if any.
    """

    kind: Kind
    learned: CellCircuits
    refined: tuple[Circuit, ...] = ()

    def graft(self, builder: CircuitBuilder, cell: int, columns: Sequence[int], key: int) -> int:
        """Add the circuit of a cell to a larger one; give back its root."""
        if self.refined:
            return graft(builder, self.refined[cell], columns, key=(key, cell))
        return self.learned.graft(builder, cell, columns, key=key)

    @cached_property
    def circuits(self) -> tuple[Circuit, ...]:
        """The circuit of each cell."""
        learned = self.learned
        return self.refined or tuple(learned.circuit(i) for i in range(len(learned.cells)))

    def shrunk(self, strength: float, share: float = 1.0) -> Component:
        """This share of the counts of complete or completed rows, shrunk with another strength."""
        prior = Smoothing(strength, SPREAD)
        cells = tuple(c.with_counts(share * c.counts, prior) for c in self.learned.cells)
        return replace(self, learned=replace(self.learned, cells=cells), refined=())

    @cached_property
    def base(self) -> Component:
        """The same structures with the parameters that shrinking goes towards."""
        return self.shrunk(1.0, share=0.0)

    def counts(self, cells: Sequence[Table], strength: float) -> tuple[Floats, ...]:
        """Expected counts of the parameters in the rows of each cell.

        A search sees one completion of each row. That is good enough to find a structure;
        parameters should come from all completions, by a few updates of EM.
        """
        circuits = zip(self.circuits, self.base.circuits, cells, strict=True)
        return tuple(_counts(c, t, strength * b.parameters) for c, b, t in circuits)

    def with_counts(self, counts: Sequence[Floats], strength: float) -> Component:
        """The component with parameters from these counts, shrunk with some strength."""
        refined = tuple(
            c.with_parameters(maximize(c.graph, n, strength * b.parameters, b.parameters))
            for c, n, b in zip(self.circuits, counts, self.base.circuits, strict=True)
        )
        return replace(self, refined=refined)


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """Distinct rows with summed weights."""

    rows: Rows  #: the distinct rows
    places: Places  #: the groups that each of them may be from
    n_rows: int  #: rows of the table; a row of whole weight n is n rows
    effective: float  #: rows of equal weight that say as much (Kish's effective sample size)

    @classmethod
    def of(cls, rows: Rows) -> DistinctRows:
        merged, each = _merged(rows), rows.each
        counted = rows.copies is not None or rows.whole
        n_rows = round(float(each.sum())) if counted else rows.n_rows
        return cls(merged, Places.of(merged), n_rows, effective_size(rows.weights, each))

    def mean(self, values: Floats) -> float:
        """Weighted mean of one value per distinct row."""
        used = self.rows.weights > 0
        weights = self.rows.weights[used]
        return float((weights * values[used]).sum() / weights.sum())


def _merged(rows: Rows) -> Rows:
    arities = np.concatenate([[rows.n_groups, rows.n_classes], rows.arities])
    columns = [rows.s[:, None], rows.d[:, None], rows.x]
    if rows.f is not None:
        arities, columns = np.append(arities, rows.n_classes), [*columns, rows.f[:, None]]
    codes: Codes = np.asfortranarray(np.concatenate(columns, axis=1))
    ids, first = distinct_rows(codes, arities)
    weights = np.asarray(np.bincount(ids, rows.weights), np.float64)
    copies = None if rows.copies is None else np.bincount(ids, rows.copies).astype(np.float64)
    return rows.take(first.astype(np.int64)).with_weights(weights, copies)


def learn_component(
    kind: Kind,
    cells: Sequence[Table],
    held_out: Sequence[Table] | None,
    structure: Structure,
    strength: float,
    rng: np.random.Generator,
    *,
    bootstrap: bool = False,
) -> Component:
    """Learn the circuits of all cells.

    ``held_out`` says when Strudel stops, within the bounds of ``structure``. With
    ``bootstrap`` the structure is learned on Bayesian-bootstrap weights of the
    rows; parameters always come from the rows as they are.
    """
    drawn = None
    if bootstrap:
        drawn = [bootstrap_weights(t, rng) if t.weights.any() else t.weights for t in cells]
    asked = METHODS | {"strudel": Strudel(stop=structure.stop)}
    search = CellSearch(
        cells,
        validation=held_out if kind.splits == "strudel" else None,
        method=asked[kind.splits],
        trees=kind.trees,
        prune="aic" if kind.clusters else None,
        smoothing=Smoothing(strength, SPREAD),
        structure_weights=drawn,
        random_state=rng,
    )
    for _ in search:  # not run(): an interrupt ends the whole selection, not this search alone
        pass
    return Component(kind, search.best())


def _counts(circuit: Circuit, table: Table, prior: Floats) -> Floats:
    used = np.flatnonzero(table.weights > 0)
    if not len(used):
        return np.zeros(circuit.graph.n_parameters)
    codes = np.asfortranarray(table.codes[used])
    rows = replace(table, codes=codes, weights=table.weights[used])
    # Without holes a deterministic circuit has the same counts whatever its parameters; but
    # without a prior some of them may be zero where these rows are.
    n_updates = REFINEMENTS if (rows.codes < 0).any() else 0
    positive = 0.999 * circuit.parameters + 0.001 * circuit.graph.uniform()
    steps = em(prepare(circuit.graph, rows), positive, prior=prior)
    return next(islice(steps, n_updates, None)).flows


def cell_posterior(
    distribution: FairDistribution, rows: Rows, places: Places
) -> tuple[Floats, Floats]:
    """log P(row), and P(f, s | row) for each place: places × classes."""
    codes = distribution.layout.codes(places.s, places.d, rows.x[places.row])
    joint = np.empty((len(codes), rows.n_classes))
    for f in range(rows.n_classes):
        codes[:, DF] = f
        joint[:, f] = distribution.circuit.log_marginal(codes)
    return places.normalised(joint)


def soft_cells(rows: Rows, places: Places, posterior: Floats) -> list[Table]:
    """The rows of each cell (f, s), with f as the slow index, weighted by their posterior.

    A row does not enter cells that are next to impossible for it, and its weight is
    shared out among the others: cells are then smaller, and searches over them faster.
    """
    tables = []
    weighted = _likely(places, posterior) * rows.weights[places.row, None]
    of_group = [np.flatnonzero(places.s == s) for s in range(rows.n_groups)]
    for f in range(rows.n_classes):
        for group in of_group:
            here = group[weighted[group, f] > 0]
            x = np.asfortranarray(rows.x[places.row[here]])
            tables.append(Table(x, weighted[here, f], rows.arities, rows.names))
    return tables


def _likely(places: Places, posterior: Floats) -> Floats:
    """The posterior without cells of next to no probability; each row still sums to one."""
    # Less than the likeliest cell has.
    least = NEXT_TO_NONE / (places.n_groups * places.n_classes)
    kept = np.where(posterior < least, 0.0, posterior)
    total = np.bincount(places.row, kept.sum(axis=1), len(places.weights))
    result: Floats = kept / np.where(total > 0, total, 1.0)[places.row, None]
    return result


def learn_clusters(
    cells: Sequence[Table],
    n_clusters: int,
    structure: Structure,
    strength: float,
    rng: np.random.Generator,
) -> tuple[list[Component], Floats]:
    """A component for each cluster, and the clusters' shares of the rows: cells × clusters.

    Clusters are the classes of a latent class model of each cell; EM over the whole
    model moves them afterwards.
    """
    posteriors = [soft_clusters(table, n_clusters, rng, n_iter=CLUSTER_STEPS) for table in cells]
    components = []
    for k in range(n_clusters):
        parts = [
            replace(table, weights=table.weights * posterior[:, k])
            for table, posterior in zip(cells, posteriors, strict=True)
        ]
        components.append(learn_component(CLUSTER, parts, None, structure, strength, rng))
    masses = np.stack([p.T @ table.weights for table, p in zip(cells, posteriors, strict=True)])
    masses = masses + CLUSTER_ROWS / n_clusters
    return components, masses / masses.sum(axis=1, keepdims=True)


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

    rate = rates.by_subgroup(layout)
    circuit = build(layout, graft, rates.group_rate, rate, rates.mechanism)
    return FairDistribution("FairPC", layout, circuit)


def log_densities(components: Sequence[Component], part: DistinctRows) -> Floats:
    """log P_k(x | f, s): components × places × classes."""
    places, own = part.places, part.rows
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
    watched = {}
    for name, rows in evaluation.items():
        some = DistinctRows.of(rows)
        watched[name] = partial(_mean, some, mixed(log_densities(components, some), weights))
    densities = mixed(log_densities(components, part), weights)
    places = part.places
    history = History(places.total_weight, lambda step: step.rates.mechanism, watched)
    for reached in _top_steps(Layout.of("FairPC", part.rows), places, densities, start, options):
        history.add(reached.step)
    fitted = assemble(part.rows, components, weights, reached.step.rates)
    return Fitted(fitted, history.arrays(), reached.converged)


def without_prior(distribution: FairDistribution, rows: Rows, options: Options) -> Floats:
    """P(D = d | Df = f, S = s) as EM has it without prior rows of the mechanism, [s, f, d].

    P(S), P(Df) and the mechanism are learned again; P(x | f, s) stays as it was fitted.
    """
    part, layout, rates = DistinctRows.of(rows), distribution.layout, distribution.top_rates
    places = part.places
    codes = layout.codes(places.s, None, part.rows.x[places.row])
    densities = np.empty((len(codes), rows.n_classes))
    with np.errstate(divide="ignore"):
        above = np.log(rates.group_rate[:, None] * rates.by_subgroup(layout))[places.s]
    for f in range(rows.n_classes):
        codes[:, DF] = f
        joint = distribution.circuit.log_marginal(codes)
        densities[:, f] = np.subtract(joint, above[:, f], out=joint, where=np.isfinite(above[:, f]))
    free = replace(options, mechanism_prior=0.0)
    *_, last = _top_steps(layout, places, densities, rates, free)
    top, theta = Top.of(distribution.circuit.graph, layout), distribution.circuit.parameters.copy()
    theta[top.group], theta[top.mechanism] = last.step.rates.group_rate, last.step.rates.mechanism
    theta[top.decision] = last.step.rates.by_subgroup(layout)
    return distribution.with_parameters(theta).mechanism


def _top_steps(
    layout: Layout, places: Places, densities: Floats, start: TopRates, options: Options
) -> Iterator[Reached[TopStep]]:
    """EM over the upper layers until it stops."""
    limits = options.limits
    if limits is not None and not layout.tied:
        limits = limits.spread(layout)
    prior = top_prior(layout, options)
    steps = top_em(places, densities, start, prior, limits, options.equal_mass)
    return options.stopping.until(steps, places.total_weight)


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
    found = [_held_out_scores(label_cells(a), label_cells(b), tried, rng) for a, b in pairs]
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
