"""Ensembles of hidden trees: densities for likelihood alone, without determinism.

Members are hidden trees (:mod:`fairpc.structure._hidden`), from starts that differ in
their clusters, and so in their trees. Each is fitted to the training rows by stepwise EM
(Cappé and Moulines 2009; Liang and Klein 2009). Held-out rows say which iterate of a
member is kept, how many clusters members have, and what members weigh.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.circuit import Circuit, CircuitBuilder
from fairpc.core import Floats, Ints, LearningError, check_number, one_thread
from fairpc.data import Table
from fairpc.structure._hidden import (
    MAX_GROUPS,
    ExpectedCounts,
    HiddenTree,
    clustered_start,
)
from fairpc.structure._trees import check_table, marginals, weighted

START_ROWS: Final = 20_000
"""Rows, at most, from which clusters and trees of a start are found."""

MAX_EDGES: Final = 1_200_000
"""Edges, at most, that a member may have: the circuit of all members must stay usable."""

BATCH_ROWS: Final = 500
"""Rows of a step of EM; an eighth of the table if that is less."""

LEAST_BATCH_ROWS: Final = 100
"""Rows below which a step of EM would follow its rows too closely."""

RATES: Final = (0.6, 0.02)
"""How far the first and the last step of EM go towards the counts of their rows."""

LEAST_STEPS: Final = 160
MAX_PASSES: Final = 60
"""Small tables have few steps in a pass, and get more passes."""

VISITED_ROWS: Final = 600_000
LEAST_PASSES: Final = 4
"""Large tables need fewer passes: about so many rows are visited in all."""

PATIENCE: Final = 5
"""Passes without a new best likelihood of held-out rows after which EM ends."""

LEAST_WEIGHT: Final = 0.01
"""A member that weighs less is left out."""


@dataclass(frozen=True)
class Ensemble:
    """How an ensemble of hidden trees is learned.

    Attributes:
        clusters: numbers of clusters to try, in this order; the first that makes held-out
            rows less likely than the one before is the last tried.
        n_more: further members, with the best of these numbers and the next in turn.
        passes: passes over the training rows; small tables get more, very large ones fewer.
    """

    clusters: tuple[int, ...] = (4, 8, 16, 32)
    n_more: int = 4
    passes: int = 12

    def __post_init__(self) -> None:
        if not self.clusters:
            raise LearningError("clusters is empty: give at least one number of clusters")
        for k in self.clusters:
            check_number("clusters", k, 1)
        check_number("n_more", self.n_more, 0)
        check_number("passes", self.passes, 1)


@dataclass(frozen=True, eq=False)
class HiddenTrees:
    """Hidden trees over the same variables, and their weights.

    Attributes:
        names, arities: the variables.
        members: the hidden trees.
        weights: weight of each member.
        validation_log_likelihood: mean over the held-out rows.
    """

    names: tuple[str, ...]
    arities: Ints
    members: tuple[HiddenTree, ...]
    weights: Floats
    validation_log_likelihood: float

    def circuit(self) -> Circuit:
        """The mixture as one circuit: smooth and decomposable, not deterministic."""
        builder = CircuitBuilder(dict(zip(self.names, self.arities.tolist(), strict=True)))
        roots = [member.graft(builder) for member in self.members]
        return builder.build(builder.sum(roots, self.weights.tolist()))


def learn_ensemble(
    table: Table,
    validation: Table,
    method: Ensemble | None = None,
    *,
    random_state: int | np.random.Generator | None = None,
) -> HiddenTrees:
    """Learn an ensemble of hidden trees.

    Unlike searches this takes constant columns: a value that only held-out rows have is
    possible, too. BLAS is kept to one thread, since the matrices are small.

    Args:
        table: weighted rows; -1 = missing, which is marginalised.
        validation: held-out rows. They choose iterates, the number of clusters and the
            weights of members, and do not enter the parameters of members.
        method: the settings.
        random_state: seed of clusters, starts and the order of rows.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    train, held_out = _same_values(table, validation)
    settings = Ensemble() if method is None else method
    rng = np.random.default_rng(random_state)
    with threadpool_limits(1, user_api="blas"):
        # Distinct rows of positive weight.
        rows, held_rows = (
            weighted(t, t.weights) for t in (train.merged()[0], held_out.merged()[0])
        )
        members = list(_members(rows, held_rows, settings, rng))
        scores = np.stack([m.log_marginal(held_rows.codes) for m in members], axis=1)
    weights = component_weights(scores, held_rows.weights)
    kept = np.flatnonzero(weights >= min(LEAST_WEIGHT, weights.max()))
    scores = scores[:, kept]
    weights = component_weights(scores, held_rows.weights)
    top = scores.max(axis=1)
    logs = top + np.log(np.exp(scores - top[:, None]) @ weights)
    mean = float(logs @ held_rows.weights / held_rows.weights.sum())
    return HiddenTrees(train.names, train.arities, tuple(members[k] for k in kept), weights, mean)


def _same_values(table: Table, validation: Table) -> tuple[Table, Table]:
    """Both tables with the values that either has."""
    check_table(table, lenient=True)
    if validation.names != table.names:
        raise LearningError(
            f"validation rows have the columns {validation.names}, training rows "
            f"{table.names}: give the same to both"
        )
    if not validation.weights.any():
        raise LearningError("validation rows weigh nothing: give at least one of positive weight")
    arities = np.maximum(table.arities, validation.arities)
    train = Table(table.codes, table.weights, arities, table.names)
    return train, Table(validation.codes, validation.weights, arities, table.names)


def _members(
    rows: Table, held_out: Table, settings: Ensemble, rng: np.random.Generator
) -> Iterator[HiddenTree]:
    """Members of growing size until held-out rows become less likely, then more of them.

    These have the best size and the next larger one in turn: what a large member knows too
    well by itself, several of them average out.
    """
    # A member has about so many edges: states of a variable times those of its parent.
    states = [k * np.minimum(rows.arities, MAX_GROUPS) for k in settings.clusters]
    sized = zip(settings.clusters, states, strict=True)
    fitting = [k for k, n in sized if int(n.sum() * n.mean()) <= MAX_EDGES]
    sizes = fitting or list(settings.clusters[:1])
    best, best_score = 0, -np.inf
    for i, k in enumerate(sizes):
        member, score = fit_member(rows, held_out, k, settings.passes, rng)
        yield member
        if score < best_score:
            break
        best, best_score = i, score
    for i in range(settings.n_more):
        k = sizes[min(best + (i + 1) % 2, len(sizes) - 1)]
        yield fit_member(rows, held_out, k, settings.passes, rng)[0]


def fit_member(
    rows: Table, held_out: Table, n_clusters: int, passes: int, rng: np.random.Generator
) -> tuple[HiddenTree, float]:
    """A hidden tree by stepwise EM, and the mean log-likelihood of held-out rows.

    Each step moves the expected counts towards those of a batch of rows. Rates fall in a
    straight line, so that the last steps average over many batches. The iterate under
    which held-out rows are likeliest, at the end of a pass, is kept.
    """
    overall = marginals(rows.codes.T, rows.weights, rows.arities)
    member = clustered_start(_sample(rows, rng), n_clusters, rng)
    # Rows are divided, so that none is most of a batch.
    copies = np.maximum(np.rint(rows.weights / rows.weights.mean()), 1).astype(np.int64)
    parts = np.repeat(np.arange(rows.n_rows), copies)
    n_batches, n_passes = _schedule(len(parts), passes)
    n_steps, step, waited = n_batches * n_passes, 0, 0
    best, best_score, counts = member, -np.inf, None
    for _ in range(n_passes):
        for batch in np.array_split(rng.permutation(parts), n_batches):
            found = _batch_counts(member, rows, batch, copies)
            rate = RATES[0] + (RATES[1] - RATES[0]) * step / n_steps
            # A batch that is the whole table has nothing to average: that is plain EM.
            counts = found if counts is None or n_batches == 1 else counts.moved(found, rate)
            member = member.with_counts(counts, overall)
            step += 1
        score = float(member.log_marginal(held_out.codes) @ held_out.weights)
        waited = 0 if score > best_score else waited + 1
        if score > best_score:
            best, best_score = member, score
        if waited >= PATIENCE:
            break
    return best, best_score / held_out.total_weight


def _sample(rows: Table, rng: np.random.Generator) -> Table:
    """Some of the rows where there are very many; their weights stay."""
    if rows.n_rows <= START_ROWS:
        return rows
    chosen = np.sort(rng.choice(rows.n_rows, START_ROWS, replace=False))
    codes = np.asfortranarray(rows.codes[chosen])
    return Table(codes, rows.weights[chosen], rows.arities, rows.names)


def _schedule(n_rows: int, passes: int) -> tuple[int, int]:
    """Batches of a pass, and passes."""
    wanted = min(max(n_rows / 8, LEAST_BATCH_ROWS), BATCH_ROWS)
    n_batches = max(int(n_rows / wanted), 1)
    least, most = math.ceil(LEAST_STEPS / n_batches), VISITED_ROWS // n_rows
    n_passes = max(passes, min(least, MAX_PASSES))
    return n_batches, min(n_passes, max(most, min(LEAST_PASSES, passes)))


def _batch_counts(member: HiddenTree, rows: Table, batch: Ints, copies: Ints) -> ExpectedCounts:
    """Expected counts of a batch of parts of rows, scaled to the weight of all rows."""
    parts = rows.weights[batch] / copies[batch]
    columns = np.ascontiguousarray(rows.codes.T[:, batch])
    return member.expected_counts(columns, parts * (rows.total_weight / parts.sum()))[1]


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

    # The products are small: threads of linear algebra would wait for each other.
    with one_thread("blas"):
        return _climbed(updated, pi, max_iter, tol)


def _climbed(
    updated: Callable[[Floats], tuple[Floats, float]], pi: Floats, max_iter: int, tol: float
) -> Floats:
    """Where updates, each two followed by a leap along them, gain no more."""
    following, before = updated(pi)
    for _ in range(max_iter):
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
