"""Mixtures of circuits: Σ_k π_k P_k(x), each P_k a deterministic circuit.

Choosing one structure by validation is unstable on small data; a mixture of
structures, each learned on its own reweighted rows, is not. The weights π are
those under which held-out rows are likeliest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from fairpc.circuit import Circuit, CircuitBuilder
from fairpc.core import Floats, LearningError, check_choice, check_number
from fairpc.data import Table
from fairpc.structure._cells import hold_out, learn_cells
from fairpc.structure._compile import graft
from fairpc.structure._parameters import Smoothing
from fairpc.structure._search import Method, MethodName, Step
from fairpc.structure._trees import check_table, offsets

Diversity = Literal["bootstrap", "clusters"]
DIVERSITIES: Final = ("bootstrap", "clusters")
SPARSE_ARITY: Final = 6.0
"""Mean number of values of a variable above which indicators of them are kept sparse."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Circuits over the same variables, and their weights."""

    components: tuple[Circuit, ...]
    weights: Floats

    def circuit(self, variable: str | None = None) -> Circuit:
        """The mixture as one circuit.

        ``variable`` names a component variable, which becomes the last one: the
        circuit is then deterministic in it. Without, the root sums the components
        out; each of them stays deterministic below it.
        """
        names = dict(
            zip(self.components[0].names, self.components[0].arities.tolist(), strict=True)
        )
        if variable in names:
            raise LearningError(f"there is a variable {variable!r} already: choose another name")
        if variable is not None:
            names[variable] = len(self.components)
        builder = CircuitBuilder(names)
        roots = []
        for k, component in enumerate(self.components):
            root = graft(builder, component, range(len(component.names)), key=k)
            if variable is not None:
                root = builder.product(root, builder.indicator(variable, k))
            roots.append(root)
        return builder.build(builder.sum(roots, self.weights.tolist()))


def learn_mixture(
    table: Table,
    n_components: int = 4,
    *,
    diversity: Diversity = "bootstrap",
    methods: Sequence[Method | MethodName] = ("gain",),
    validation: Table | None = None,
    validation_fraction: float = 0.1,
    smoothing: Smoothing | float = 1.0,
    random_state: int | np.random.Generator | None = None,
    callback: Callable[[Step], None] | None = None,
) -> Mixture:
    """Learn a mixture of circuits.

    Args:
        table: weighted rows.
        n_components: number of circuits.
        diversity: "bootstrap": each structure is learned on Bayesian-bootstrap weights
            (Exponential(1) a row, a row of whole weight n counting as n), its parameters on
            all rows. "clusters": each circuit is learned on the rows' posteriors of one
            class of a latent class model.
        methods: methods of the components, in turn.
        validation: held-out rows for the weights of components, and for Strudel's stop.
        validation_fraction: share of the rows held out where there are none.
        smoothing: as in :func:`learn`.
        random_state: seed.
        callback: called with each step of each component's search.
    """
    check_table(table)
    check_choice("diversity", diversity, DIVERSITIES)
    check_number("n_components", n_components, 1)
    if not methods:
        raise LearningError("methods is empty: name at least one")
    rng = np.random.default_rng(random_state)
    train, held_out = table, validation
    if held_out is None:
        train, held_out = hold_out(table, validation_fraction, rng)
    shares = soft_clusters(train, n_components, rng) if diversity == "clusters" else None
    components = []
    for k in range(n_components):
        rows = train
        if shares is None:
            structure = bootstrap_weights(train, rng)
        else:
            structure = train.weights * shares[:, k]
            rows = Table.of(train.codes, structure, arities=train.arities, names=train.names)
        learned = learn_cells(
            [rows],
            validation=[held_out],
            method=methods[k % len(methods)],
            smoothing=smoothing,
            structure_weights=[structure],
            random_state=rng,
            callback=callback,
        )
        components.append(learned.circuit(0))
    scores = np.stack([c.log_marginal(held_out.codes) for c in components], axis=1)
    return Mixture(tuple(components), component_weights(scores, held_out.weights))


def bootstrap_weights(table: Table, rng: np.random.Generator) -> Floats:
    """Bayesian-bootstrap weights (Rubin 1981): Gamma(weight) a row, with the table's total."""
    draws = np.zeros(table.n_rows)
    used = table.weights > 0
    draws[used] = rng.gamma(table.weights[used])
    if draws.sum() <= 0:  # weights so small that every draw underflows
        return table.weights
    result: Floats = draws * (table.total_weight / draws.sum())
    return result


def component_weights(
    scores: Floats, weights: Floats, *, max_iter: int = 1000, tol: float = 1e-9
) -> Floats:
    """Mixture weights that maximise the likelihood of rows, by EM from equal weights.

    ``scores`` holds log P_k(row), (rows, components). The likelihood is concave in
    the weights, so the maximum is global. ``tol`` is the least gain in nats a row. Components
    that are nearly alike make EM slow, so each two updates are followed by a leap along them
    (SQUAREM: Varadhan and Roland 2008) that is kept if it gains.
    """
    k = scores.shape[1]
    pi = np.full(k, 1.0 / k)
    best = scores.max(axis=1)
    possible = np.isfinite(best) & (weights > 0)
    if k == 1 or not possible.any():
        return pi
    values = np.exp(scores[possible] - best[possible, None])
    share = weights[possible] / weights[possible].sum()

    def updated(pi: Floats) -> tuple[Floats, float]:
        """The next weights, and the log-likelihood of these."""
        mixed = values @ pi
        return pi * ((share / mixed) @ values), float(share @ np.log(mixed))

    following, before = updated(pi)
    for _ in range(max_iter):
        after, _ = updated(following)
        step, turn = following - pi, after - 2 * following + pi
        far = float(np.sqrt(step @ step / max(turn @ turn, 1e-300)))
        # A weight that is zero would stay so.
        pi = np.maximum(pi + 2 * far * step + far * far * turn, pi / 10)
        pi /= pi.sum()
        following, score = updated(pi)
        if score < before:
            pi = after
            following, score = updated(pi)
        if score - before < tol:
            break
        before = score
    result: Floats = following / following.sum()
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
        joint = rows @ log_p + np.log(share / share.sum())
        joint -= joint.max(axis=1, keepdims=True)
        posterior = np.exp(joint)
        posterior /= posterior.sum(axis=1, keepdims=True)
    result: Floats = posterior
    return result
