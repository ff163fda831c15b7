"""Clusters of rows, and weights of components whose likelihoods are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fairpc.core import Floats, one_thread
from fairpc.data import Table
from fairpc.structure._trees import offsets

CLUSTER_STEPS: Final = 20
"""Updates of EM by which rows are put into clusters."""
WEIGHT_STEPS: Final = 1000
"""Updates of the weights of components at most."""
SPARSE_ARITY: Final = 6.0
"""Mean number of values of a variable above which indicators of them are kept sparse."""


def soft_clusters(table: Table, n_clusters: int, rng: np.random.Generator) -> Floats:
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
    for _ in range(CLUSTER_STEPS):
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


def component_weights(scores: Floats, weights: Floats, *, tol: float = 1e-9) -> Floats:
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

    # The products are small: threads of linear algebra would wait for each other.
    with one_thread("blas"):
        return _climbed(updated, pi, tol)


def _climbed(updated: Callable[[Floats], tuple[Floats, float]], pi: Floats, tol: float) -> Floats:
    """Where updates, each two followed by a leap along them, gain no more."""
    following, before = updated(pi)
    for _ in range(WEIGHT_STEPS):
        after, _ = updated(following)
        step, turn = following - pi, after - 2 * following + pi
        far = float(np.sqrt(step @ step / max(float(turn @ turn), 1e-300)))
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
