"""How a forest circuit decides: exact queries by the boxes that hold a row, and its circuit.

The density of each (f, s) is that of :class:`fairpc.models._forest.Forest`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from fairpc.circuit import Circuit, CircuitBuilder, refuse_impossible
from fairpc.core import Array, Codes, Floats
from fairpc.models._distribution import FairDistribution
from fairpc.models._fair_layers import Layout, build
from fairpc.models._forest import Forest
from fairpc.models._rows import Rows
from fairpc.models._top_em import TopRates, rates_of

ALTERED_CELLS: Final = 2**22
"""Most numbers P(s, f, d | row) at once."""


@dataclass(frozen=True, eq=False, init=False)
class ForestDistribution(FairDistribution):
    """The distribution of a forest: queries go straight to the boxes that hold a row.

    Every query of its circuit gives the same, and takes a thousand times as long; the circuit is
    made when it is asked for. With other parameters (:meth:`with_parameters`) it is a circuit like
    any other.
    """

    forest: Forest
    rates: TopRates

    is_forest: ClassVar[bool] = True

    def __init__(self, layout: Layout, forest: Forest, rates: TopRates) -> None:
        """The layout is given the number of (leaf, cluster) pairs."""
        rates.check(layout)
        n_components = len(forest.tree) * forest.n_clusters
        object.__setattr__(self, "model", "FairPC")
        object.__setattr__(self, "layout", replace(layout, n_components=n_components))
        object.__setattr__(self, "forest", forest)
        object.__setattr__(self, "rates", rates)

    @cached_property  # type: ignore[misc]  # other models have it from the start
    def circuit(self) -> Circuit:
        return forest_circuit(self.layout, self.forest, self.rates)

    def with_parameters(self, parameters: npt.ArrayLike) -> FairDistribution:
        circuit = self.circuit.with_parameters(parameters)
        return FairDistribution(self.model, self.layout, circuit)

    def sums(self) -> Floats:
        starts = np.flatnonzero(np.diff(self.forest.tree, prepend=-1))
        return np.asarray(np.add.reduceat(self.forest.leaf_rate, starts, axis=2).ravel())

    @property
    def top_rates(self) -> TopRates:
        return self.rates

    def log_likelihood(self, s: npt.ArrayLike | None, d: npt.ArrayLike | None, x: Codes) -> Floats:
        joint = self._log_joint(s, x)
        label = self._log_label(d, len(x))
        return _log_sum(joint + label)

    def decision(self, s: npt.ArrayLike | None, x: Codes) -> Floats:
        groups, features = self._subgroups(s, x)
        if (groups >= 0).all():
            with np.errstate(divide="ignore"):
                joint = self.forest.log_densities(features, groups)
                joint += np.log(self._decision_rate_of(groups))
            refuse_impossible(joint.max(axis=1))
            return _normalised(joint)
        shared: Floats = self._posterior(s, x).sum(axis=1)
        return shared

    def observed(self, s: npt.ArrayLike | None, x: Codes) -> Floats:
        posterior = self._posterior(s, x)
        result: Floats = np.einsum("rsf,sfd->rd", posterior, self.rates.mechanism)
        return result

    def posterior(self, s: npt.ArrayLike | None, d: npt.ArrayLike | None, x: Codes) -> Floats:
        shared: Floats = self._posterior(s, x, d).sum(axis=1)
        return shared

    def group(self, x: Codes) -> Floats:
        by_subgroup = self._posterior(None, x).sum(axis=2)
        shape = len(x), self.layout.n_groups, self.layout.strata.n
        shared: Floats = by_subgroup.reshape(shape).sum(axis=2)
        return shared

    @property
    def fingerprint(self) -> str:
        """Of boxes and rates, without the circuit."""
        # Names of models that were audited stay: they have the fields in these words.
        fields = "n_groups", "n_classes", "names", "arities", "latent", "tied"
        known = (f"{n}={getattr(self.layout, n)!r}" for n in (*fields, "n_components", "strata"))
        said = {"layout": f"Layout({', '.join(known)})"}
        said |= self.forest.to_dict() | self.rates.to_dict()
        return f"sha256:{hashlib.sha256(json.dumps(said).encode()).hexdigest()}"

    @property
    def n_edges(self) -> int:
        """Counted without the circuit."""
        layout, forest = self.layout, self.forest
        n_cells, n_boxes = layout.n_subgroups * layout.n_classes, len(forest.tree)
        wide = [of.allowed[of.allowed.sum(axis=1) > 1] for of in forest.sets]
        sums = forest.n_clusters * sum(int(box.sum()) for box in wide)
        # The product of a box that holds one x alone is made of indicators: all cells share it.
        shared = int(np.all([box.sum(axis=1) == 1 for box in forest.allowed], axis=0).sum())
        n_products = forest.n_clusters * (n_cells * (n_boxes - shared) + shared)
        n_factors = len(forest.values) + (layout.component is not None)
        products = n_products * n_factors if n_factors > 1 else 0
        each = forest.n_trees + n_boxes + n_boxes * forest.n_clusters + sums
        # A cell is a product of an indicator, the mechanism and its trees.
        above = n_cells * (1 + 3) + layout.n_subgroups * (1 + 2 + len(layout.strata.columns))
        return n_cells * each + products + above + layout.n_subgroups * layout.n_classes**2

    def _posterior(
        self, s: npt.ArrayLike | None, x: Codes, d: npt.ArrayLike | None = None
    ) -> Floats:
        """P(s, f | what is known): rows × subgroups × classes."""
        joint = self._log_joint(s, x) + self._log_label(d, len(x))
        refuse_impossible(joint.max(axis=(1, 2)))
        return _normalised(joint)

    def _altered_by_mechanism(self, rows: Rows) -> tuple[Floats, float]:
        layout = self.layout
        n = max(ALTERED_CELLS // (layout.n_subgroups * layout.n_classes**2), 1)
        chunks = [np.arange(i, min(i + n, len(rows.d))) for i in range(0, len(rows.d), n)]
        parts = [self._altered_chunk(rows.take(chunk)) for chunk in chunks]
        return np.sum([counts for counts, _ in parts], axis=0), sum(logs for _, logs in parts)

    def _altered_chunk(self, rows: Rows) -> tuple[Floats, float]:
        joint = self._log_joint(rows.s, rows.x)
        possible = (rows.d < 0)[:, None] | (rows.d[:, None] == np.arange(rows.n_classes))
        label = np.where(possible[:, None, None], self.rates.mechanism, 0.0)
        with np.errstate(divide="ignore"):
            whole = joint[..., None] + np.log(label)
        counts = np.tensordot(rows.weights, _normalised(whole), axes=1)
        return counts, float(rows.weights @ _log_sum(whole))

    def _log_joint(self, s: npt.ArrayLike | None, x: Codes) -> Floats:
        """log P(s, f, x): rows × subgroups × classes; −∞ in those that a row is not from."""
        n_groups, strata = self.layout.n_subgroups, self.layout.strata
        groups, features = self._subgroups(s, x)
        rates = self.rates
        joint = np.full((len(x), n_groups, self.layout.n_classes), -np.inf)
        with np.errstate(divide="ignore"):
            known = np.flatnonzero(groups >= 0)
            if len(known):
                of = groups[known]
                some = features if len(known) == len(x) else features[known]
                dense = self.forest.log_densities(some, of)
                joint[known, of] = dense + np.log(rates.group_rate)[of, None]
            unknown = np.flatnonzero(groups < 0)
            given = np.full(len(x), -1) if s is None else np.broadcast_to(s, len(x))
            for g in range(n_groups if len(unknown) else 0):
                of = np.full(len(unknown), g)
                here = unknown
                if strata:
                    here = unknown[strata.allows(given[unknown], x[unknown], of)]
                dense = self.forest.log_densities(features[here], of[: len(here)])
                joint[here, g] = dense + np.log(rates.group_rate[g])
            joint += np.log(self._decision_rate_of(np.arange(n_groups)))
        return joint

    def _subgroups(self, s: npt.ArrayLike | None, x: Codes) -> tuple[Array, Codes]:
        """Subgroup of each row, -1 where it is not known, and its features beside the strata."""
        groups = np.full(len(x), -1) if s is None else np.broadcast_to(s, len(x))
        strata = self.layout.strata
        if not strata:
            return groups, x
        return strata.subgroups(groups, x), x[:, strata.rest(len(self.layout.names))]

    def _decision_rate_of(self, groups: Array) -> Floats:
        """P(f) in each of some subgroups; one for all where all have the same."""
        return rates_of(self.rates.decision_rate, groups, self.layout.strata)

    def _log_label(self, d: npt.ArrayLike | None, n: int) -> Floats:
        """log P(d | f, s): rows × subgroups × classes; 0 where the label is missing."""
        labels = np.full(n, -1) if d is None else np.broadcast_to(d, n)
        with np.errstate(divide="ignore"):
            logs = np.log(self.rates.mechanism)
        padded = np.concatenate([logs, np.zeros((*logs.shape[:2], 1))], axis=2)
        result: Floats = padded.transpose(2, 0, 1)[labels]
        return result


def _log_sum(logs: Floats) -> Floats:
    """log Σ exp over all axes but the first."""
    flat = logs.reshape(len(logs), math.prod(logs.shape[1:]))
    top = flat.max(axis=1)
    safe = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        result: Floats = safe + np.log(np.exp(flat - safe[:, None]).sum(axis=1))
    return result


def _normalised(logs: Floats) -> Floats:
    """Shares of all axes but the first; zeros in rows of probability zero."""
    total = _log_sum(logs)
    safe = np.where(np.isneginf(total), 0.0, total)
    shares: Array = np.exp(logs - safe.reshape(-1, *[1] * (logs.ndim - 1)))
    return shares


def forest_circuit(layout: Layout, forest: Forest, rates: TopRates) -> Circuit:
    """The circuit of a forest: each leaf a product over the cells of its box, per cluster."""
    grafted = _Leaves(layout, forest)
    rate = rates.by_subgroup(layout)
    return build(layout, grafted.graft, rates.group_rate, rate, rates.mechanism)


@dataclass(eq=False)
class _Leaves:
    """Adds the leaves of a forest to a builder."""

    layout: Layout
    forest: Forest

    def graft(self, b: CircuitBuilder, f: int, s: int, columns: Sequence[int]) -> int:
        forest = self.forest
        leaves = self._leaves(b, f, s, columns)
        trees = []
        for k in range(forest.n_trees):
            here = np.flatnonzero(forest.tree == k)
            rate = forest.leaf_rate[s, f, here]
            trees.append(
                b.sum(
                    [leaves[i] for i in here], (rate / rate.sum()).tolist(), tie=("leaf", k, f, s)
                )
            )
        return b.sum(trees, [1 / forest.n_trees] * forest.n_trees, tie="tree")

    def _leaves(self, b: CircuitBuilder, f: int, s: int, columns: Sequence[int]) -> list[int]:
        """A node per box: the clusters of the class and group, restricted to it."""
        forest, component = self.forest, self.layout.component
        n_clusters = forest.n_clusters
        cells = [self._cells(b, f, s, j, column) for j, column in enumerate(columns)]
        nodes = []
        for i in range(len(forest.tree)):
            parts = []
            for c in range(n_clusters):
                factors = [of_feature[c][i] for of_feature in cells]
                if component is not None:
                    factors.append(b.indicator(component, i * n_clusters + c))
                parts.append(b.product(*factors))
            mass = forest.cluster_mass[s, f, i]
            nodes.append(b.sum(parts, (mass / mass.sum()).tolist(), tie=("cluster", i, f, s)))
        return nodes

    def _cells(self, b: CircuitBuilder, f: int, s: int, j: int, column: int) -> list[list[int]]:
        """P(x_j | c, f, s) within each box, clusters × boxes; a node for all boxes alike."""
        sets = self.forest.sets[j]
        boxes = [np.flatnonzero(box).tolist() for box in sets.allowed]
        values = [b.indicator(column, v) for v in range(sets.allowed.shape[1])]
        inside = [[values[v] for v in box] for box in boxes]
        result = []
        for c, rate in enumerate(self.forest.values[j][s, f]):
            nodes = []
            for k, (box, leaves) in enumerate(zip(boxes, inside, strict=True)):
                within = rate[box] / rate[box].sum()
                alone = len(leaves) == 1
                tie = "within", f, s, c, j, k
                nodes.append(leaves[0] if alone else b.sum(leaves, within.tolist(), tie=tie))
            result.append([nodes[k] for k in sets.of_box])
        return result
