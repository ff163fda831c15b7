"""Hidden trees: a tree of latent variables, each of which shows one variable of the table.

    P(x) = Σ_z Π_v P(z_v | z_parent(v)) · P(x_v | z_v)

The hidden Chow–Liu tree of Liu and Van den Broeck ("Tractable Regularization of
Probabilistic Circuits", NeurIPS 2021). Every sum of its circuit ranges over all states of
one hidden variable, so that values and expected counts of a block of rows are products of
matrices; :meth:`HiddenTree.graft` makes the circuit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairpc.circuit import CircuitBuilder
from fairpc.core import Codes, Floats, Ints
from fairpc.data import Table
from fairpc.structure._trees import (
    Tree,
    marginals,
    mutual_information,
    offsets,
    pair_counts,
    spanning_tree,
    tree_of_edges,
)

BLOCK_ROWS: Final = 512
"""Rows whose values are computed at once."""

SPARSE_ARITY: Final = 6.0
"""Mean number of values of a variable above which indicators of them are kept sparse."""

_RESCALE: Final = 8
"""Messages that are multiplied before their product is scaled: many would underflow."""

MAX_GROUPS: Final = 4
"""Groups of values of a variable that the states of a start tell apart."""

TRANSITION_ROWS: Final = 0.5
"""Prior rows of a distribution of states, nine of ten spread as the states are overall."""

EMISSION_ROWS: Final = 0.1
"""Prior rows of a distribution of values, spread as the values are overall."""

LOOSE_STATES: Final = 0.1
"""Share of a start's transitions that is drawn at random: EM cannot leave an exact zero."""

LOOSE_VALUES: Final = 0.05
"""Share of a start's emissions that is spread as the values are overall."""


@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """Expected counts of a hidden tree, shaped like its parameters."""

    transitions: tuple[Floats, ...]
    emissions: tuple[Floats, ...]

    def moved(self, other: ExpectedCounts, rate: float) -> ExpectedCounts:
        """The part ``rate`` of the way from these to others."""
        return self._with(other, 1 - rate, rate)

    def plus(self, other: ExpectedCounts) -> ExpectedCounts:
        return self._with(other, 1.0, 1.0)

    def _with(self, other: ExpectedCounts, own: float, new: float) -> ExpectedCounts:
        pairs = ((self.transitions, other.transitions), (self.emissions, other.emissions))
        return ExpectedCounts(
            *(tuple(own * a + new * b for a, b in zip(*pair, strict=True)) for pair in pairs)
        )


@dataclass(frozen=True, eq=False)
class HiddenTree:
    """A tree of hidden variables over the variables of a table.

    Attributes:
        tree: the hidden variables; variable v of the table hangs from the v-th.
        transitions: per variable P(state | state of the parent), one row per state of the
            parent; a root has one row.
        emissions: per variable P(value | state), one column per state.
    """

    tree: Tree
    transitions: tuple[Floats, ...]
    emissions: tuple[Floats, ...]

    @property
    def n_edges(self) -> int:
        """Edges from sums to states in the circuit."""
        return sum(t.size for t in self.transitions)

    def log_marginal(self, codes: Codes) -> Floats:
        """log P(e) of rows in which any value may be missing (-1)."""
        columns, step = codes.T, BLOCK_ROWS
        blocks = range(0, columns.shape[1], step)
        parts = [self._inside(columns[:, i : i + step])[0] for i in blocks]
        return np.concatenate(parts) if parts else np.zeros(0)

    def expected_counts(self, columns: Codes, weights: Floats) -> tuple[float, ExpectedCounts]:
        """Log-likelihood of weighted rows, and how often each parameter is used in them.

        ``columns`` holds one row per variable. This is the E-step of Baum and
        others (1970) along a tree.
        """
        total, sums = 0.0, None
        for i in range(0, columns.shape[1], BLOCK_ROWS):
            rows = slice(i, i + BLOCK_ROWS)
            logs, counts = self._block_counts(columns[:, rows], weights[rows])
            total += float(logs @ weights[rows])
            sums = counts if sums is None else sums.plus(counts)
        if sums is None:
            sums = ExpectedCounts(
                tuple(np.zeros_like(t) for t in self.transitions),
                tuple(np.zeros_like(e) for e in self.emissions),
            )
        return total, sums

    def with_counts(
        self,
        counts: ExpectedCounts,
        marginals: Sequence[Floats],
        transition_rows: float = TRANSITION_ROWS,
        emission_rows: float = EMISSION_ROWS,
    ) -> HiddenTree:
        """The same tree with parameters from counts, and from prior rows spread as overall.

        ``marginals`` holds the distribution of each variable. A distribution without
        counts and prior rows stays as it is.
        """
        transitions, emissions = [], []
        for v, (t, e) in enumerate(zip(counts.transitions, counts.emissions, strict=True)):
            overall = t.sum(axis=0)
            base = 0.9 * overall / max(float(overall.sum()), 1e-300) + 0.1 / len(overall)
            transitions.append(_shares(t + transition_rows * base, self.transitions[v], 1))
            prior = emission_rows * marginals[v][:, None]
            emissions.append(_shares(e + prior, self.emissions[v], 0))
        return HiddenTree(self.tree, tuple(transitions), tuple(emissions))

    def graft(self, builder: CircuitBuilder) -> int:
        """Add the circuit of the tree to ``builder``, whose columns it has; give back its root.

        A state is a product of its emission and of what it sends to the children;
        the states of a variable are shared by the sums of all states of the parent.
        """
        children = self.tree.children()
        sums: list[list[int]] = [[] for _ in children]
        for v in self.tree.order[::-1].tolist():
            states = []
            for z, values in enumerate(self.emissions[v].T.tolist()):
                leaf = builder.indicator(v, 0)
                if len(values) > 1:
                    leaf = builder.categorical(v, values)
                states.append(builder.product(leaf, *(sums[c][z] for c in children[v])))
            sums[v] = [builder.sum(states, row) for row in self.transitions[v].tolist()]
        return builder.product(*(sums[r][0] for r in self.tree.roots))

    def _inside(self, columns: Codes) -> tuple[Floats, list[Floats], list[Floats]]:
        """log P of each row; per variable P(what is below | state), scaled, and its message up."""
        children, n_rows = self.tree.children(), columns.shape[1]
        logs = np.zeros(n_rows)
        inside: list[Floats] = [logs] * len(children)
        messages: list[Floats] = [logs] * len(children)
        for v in self.tree.order[::-1].tolist():
            # Code -1 takes the last row: a missing value is marginalised.
            known = np.concatenate([self.emissions[v], np.ones((1, self.emissions[v].shape[1]))])
            value = known.take(columns[v], axis=0, mode="wrap")
            for i, c in enumerate(children[v], 1):
                value *= messages[c]
                if i % _RESCALE == 0 or i == len(children[v]):
                    scale = value.sum(axis=1)
                    value /= scale[:, None]
                    logs += np.log(scale)
            inside[v], messages[v] = value, value @ self.transitions[v].T
        for r in self.tree.roots:
            logs += np.log(messages[r][:, 0])
        return logs, inside, messages

    def _block_counts(self, columns: Codes, weights: Floats) -> tuple[Floats, ExpectedCounts]:
        logs, inside, messages = self._inside(columns)
        posterior: list[Floats] = [logs] * len(inside)
        transitions, emissions = list(self.transitions), list(self.emissions)
        for v in self.tree.order.tolist():
            p, theta = int(self.tree.parent[v]), self.transitions[v]
            outside = (weights[:, None] if p < 0 else posterior[p]) / messages[v]
            transitions[v] = theta * (outside.T @ inside[v])
            posterior[v] = inside[v] * (outside @ theta)
            values = np.arange(len(self.emissions[v]))[:, None]
            emissions[v] = (columns[v] == values).astype(np.float64) @ posterior[v]
        return logs, ExpectedCounts(tuple(transitions), tuple(emissions))


def _shares(counts: Floats, before: Floats, axis: int) -> Floats:
    """Counts divided by their sums along an axis; what was before where a sum is zero."""
    totals = counts.sum(axis=axis, keepdims=True)
    result: Floats = np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), before)
    return result


def clustered_start(table: Table, n_clusters: int, rng: np.random.Generator) -> HiddenTree:
    """A hidden tree that is nearly a mixture of Chow–Liu trees, one tree for all clusters.

    The rows are clustered softly (:func:`soft_clusters`). The tree has the greatest
    likelihood if each cluster has parameters of its own: mutual informations within
    clusters are added up (as Friedman and others 1997 do with classes). A state is a pair
    of a cluster and a group of values of the variable; it keeps the cluster, but for a share
    that is random. From random parameters EM is far behind after as many passes.
    """
    arities, edges = table.arities, offsets(table.arities)
    share = soft_clusters(table, n_clusters, rng) * table.weights[:, None]
    counts = [pair_counts(table.codes.T, np.ascontiguousarray(w), arities) for w in share.T]
    information = sum(
        w.sum() * mutual_information(c, arities, 0.25) for w, c in zip(share.T, counts, strict=True)
    )
    tree = tree_of_edges(spanning_tree(information / share.sum()), len(arities))
    overall = marginals(table.codes.T, table.weights, arities)
    members = [_groups(p) for p in overall]
    transitions, emissions = [], []
    for v, above in enumerate(tree.parent.tolist()):
        span = slice(edges[v], edges[v + 1])
        up = span if above < 0 else slice(edges[above], edges[above + 1])
        tables = np.stack([c[up, span] for c in counts])
        joint = _grouped(tables, None if above < 0 else members[above], members[v])
        prior = members[v] @ overall[v]
        theta = (joint + prior) / (joint + prior).sum(axis=2, keepdims=True)
        transitions.append(_transition(theta, share.sum(axis=0), above < 0, rng))
        inner = members[v] * overall[v]
        emission = (inner / inner.sum(axis=1, keepdims=True)).T
        loose = (1 - LOOSE_VALUES) * emission + LOOSE_VALUES * overall[v][:, None]
        emissions.append(np.repeat(loose, n_clusters, axis=1))
    return HiddenTree(tree, tuple(transitions), tuple(emissions))


def _groups(marginal: Floats) -> Floats:
    """Which group (row) each value is in: frequent values have one each, all others share one."""
    n_groups = min(len(marginal), MAX_GROUPS)
    rank = np.empty(len(marginal), np.int64)
    rank[np.argsort(-marginal, kind="stable")] = np.arange(len(marginal))
    group: Ints = np.minimum(rank, n_groups - 1)
    members: Floats = (group == np.arange(n_groups)[:, None]).astype(np.float64)
    return members


def _grouped(tables: Floats, above: Floats | None, below: Floats) -> Floats:
    """Counts of pairs of groups, per cluster; a root has its own counts alone, as one row."""
    if above is None:
        values: Floats = np.diagonal(tables, axis1=1, axis2=2)[:, None, :] @ below.T
        return values
    pairs: Floats = above @ tables @ below.T
    return pairs


def _transition(theta: Floats, clusters: Floats, root: bool, rng: np.random.Generator) -> Floats:
    """P(group, cluster | group and cluster of the parent), clusters running fastest."""
    k, n_above, n_groups = theta.shape
    if root:
        prior = (clusters + 1.0) / (clusters + 1.0).sum()
        return np.asarray((theta[:, 0, :] * prior[:, None]).T.reshape(1, -1))
    kept = np.zeros((n_above, k, n_groups, k))
    for j in range(k):
        kept[:, j, :, j] = theta[j]
    n_states = n_groups * k
    loose = rng.dirichlet(np.ones(n_states), n_above * k)
    result: Floats = (1 - LOOSE_STATES) * kept.reshape(-1, n_states) + LOOSE_STATES * loose
    return result


def soft_clusters(
    table: Table, n_clusters: int, rng: np.random.Generator, *, n_iter: int = 50
) -> Floats:
    """Posteriors (rows, clusters) of a latent class model: independent columns in each class.

    Fitted by EM from random posteriors, with one prior row per distribution; a
    missing value says nothing.
    """
    from scipy.sparse import csr_array

    # One column per value of each variable, 1 where a row has it; of many values most are 0.
    columns = zip(table.codes.T, table.arities.tolist(), strict=True)
    rows: Any = np.concatenate([c[:, None] == np.arange(k) for c, k in columns], axis=1)
    sparse = float(table.arities.mean()) > SPARSE_ARITY
    rows = csr_array(rows, dtype=np.float64) if sparse else rows.astype(float)
    start = offsets(table.arities)[:-1]
    prior = np.repeat(1.0 / table.arities, table.arities)[:, None]
    posterior = rng.dirichlet(np.ones(n_clusters), table.n_rows)
    for _ in range(n_iter):
        weighted = posterior * table.weights[:, None]
        counts = rows.T @ weighted + prior
        totals = np.add.reduceat(counts, start, axis=0)
        log_p = np.log(counts / np.repeat(totals, table.arities, axis=0))
        share = weighted.sum(axis=0) + 1.0 / n_clusters
        # Clusters come first: sums over a few numbers in a row take NumPy ten times as long.
        joint = np.ascontiguousarray((rows @ log_p).T) + np.log(share / share.sum())[:, None]
        joint = np.exp(joint - joint.max(axis=0))
        posterior = np.ascontiguousarray((joint / joint.sum(axis=0)).T)
    result: Floats = posterior
    return result
