"""Circuits as a fitted model: exact queries by role."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from fairpc.circuit import SUM, Circuit, prepare, to_dict
from fairpc.core import Codes, Floats, Ints, LearningError
from fairpc.data import Table
from fairpc.evidence import LabelBounds, around
from fairpc.models._fair_layers import NAIVE, Layout, Model, S, Top, assembled, feature_circuits
from fairpc.models._model import over_groups
from fairpc.models._rows import Rows
from fairpc.models._strata import Strata
from fairpc.models._top_em import TopRates

BLOCK: Final = 1 << 18
"""Rows that a circuit is asked about at once, where they are many."""


@dataclass(frozen=True, eq=False)
class FairDistribution:
    """P(s, f, d, x) as a circuit, with exact queries by role.

    Rows are asked about by their groups ``s``, -1 where one is not known and None where none is,
    and the codes of their features ``x``. "The decision" is Df, or D where nothing is latent.
    """

    model: Model  #: which of the paper's four distributions
    layout: Layout  #: which column is what
    circuit: Circuit  #: the distribution

    @classmethod
    def of_parts(
        cls, model: Model, layout: Layout, rates: TopRates, features: Circuit
    ) -> FairDistribution:
        """The distribution from its rates and ``feature_circuits``, whose components it has."""
        if len(features.names) > len(layout.features):
            layout = replace(layout, n_components=int(features.arities[-1]))
        if model in NAIVE and layout.n_components == 1:
            graph = features.graph
            sums = [n for n in np.flatnonzero(graph.kind == SUM).tolist() if n != graph.root]
            if any(graph.scopes[n].bit_count() > 1 for n in sums):
                raise LearningError(f"{model} takes features as independent: fit it again")
        return cls(model, layout, assembled(layout, rates, features))

    def sums(self) -> Floats:
        """What the weights of each distribution of the circuit sum to."""
        starts = self.circuit.graph.block_ptr[:-1]
        return np.asarray(np.add.reduceat(self.circuit.parameters, starts), np.float64)

    def with_parameters(self, parameters: npt.ArrayLike) -> FairDistribution:
        """The same structure with other parameters."""
        return replace(self, circuit=self.circuit.with_parameters(parameters))

    is_forest: ClassVar[bool] = False
    """Whether it is a forest, whose trees have learned from the labels of all rows."""

    @property
    def latent(self) -> bool:
        """Whether there is a latent fair decision Df; else the decision is D."""
        return self.layout.latent

    @property
    def strata(self) -> Strata:
        """The strata within which the decision is independent of S."""
        return self.layout.strata

    @property
    def top(self) -> Top:
        return Top.of(self.circuit.graph, self.layout)

    @property
    def top_rates(self) -> TopRates:
        """P(S), P(decision), P(D | Df, S); with strata, theirs."""
        return top_rates(self.circuit, self.layout)

    @property
    def subgroup_rate(self) -> Floats:
        """P(S = s, A = a), [s, a]."""
        rates: Floats = self.top_rates.group_rate.reshape(self.layout.n_groups, -1)
        return rates

    @property
    def subgroup_decision_rate(self) -> Floats:
        """P(decision | S = s, A = a), [s, a, f]: equal in all groups where the decision is tied."""
        rates = self.top_rates.by_subgroup(self.layout)
        return rates.reshape(self.layout.n_groups, self.layout.strata.n, -1)

    @property
    def subgroup_mechanism(self) -> Floats:
        """P(D = d | Df = f, S = s, A = a), [s, a, f, d]."""
        layout = self.layout
        shape = layout.n_groups, layout.strata.n, layout.n_classes, layout.n_classes
        if not layout.latent:
            return np.broadcast_to(np.eye(layout.n_classes), shape)
        return self.top_rates.mechanism.reshape(shape)

    @property
    def stratum_rate(self) -> Floats:
        """P(decision | A = a), [a, f]: that of every group where the decision is tied."""
        share = self.subgroup_rate / self.subgroup_rate.sum(axis=0)
        rates: Floats = np.einsum("sa,saf->af", share, self.subgroup_decision_rate)
        return rates

    @property
    def group_rate(self) -> Floats:
        """P(S)."""
        rates: Floats = self.subgroup_rate.sum(axis=1)
        return rates

    @property
    def decision_rate(self) -> Floats:
        """P(decision | S = s), [s, f].

        All rows are equal where the decision is tied; within strata they differ by the mix of these
        alone.
        """
        rates = self.subgroup_decision_rate
        if not self.layout.strata:
            return rates[:, 0]
        share = self.subgroup_rate / self.group_rate[:, None]
        mean: Floats = np.einsum("sa,saf->sf", share, rates)
        return mean

    @property
    def fair_rate(self) -> Floats:
        """P(decision), [f]."""
        mean: Floats = self.group_rate @ self.decision_rate
        return mean

    @property
    def mechanism(self) -> Floats:
        """P(D = d | Df = f, S = s), [s, f, d]; the identity where D itself is the decision.

        With strata it is their mean over P(a | f, s).
        """
        each = self.subgroup_mechanism
        if not self.layout.strata:
            return np.ascontiguousarray(each[:, 0])
        joint = self.subgroup_rate[:, :, None] * self.subgroup_decision_rate
        mean: Floats = np.einsum("saf,safd->sfd", joint / joint.sum(axis=1, keepdims=True), each)
        return mean

    def log_likelihood(self, s: npt.ArrayLike | None, d: npt.ArrayLike | None, x: Codes) -> Floats:
        """log P of what is known of each row; the rest is marginalised."""
        return self.circuit.log_marginal(self.layout.codes(s, d, x))

    def decision(self, s: npt.ArrayLike | None, x: Codes) -> Floats:
        """P(decision = f | x, s): Df where the model has one, else D; rows × classes.

        A group that is not known is marginalised.
        """
        return self.circuit.posterior(self.layout.decision, self.layout.codes(s, None, x))

    def observed(self, s: npt.ArrayLike | None, x: Codes) -> Floats:
        """P(D = d | x, s), the label as it would be observed; rows × classes."""
        return self.circuit.posterior(self.layout.d, self.layout.codes(s, None, x))

    def answers(self, s: Codes | None, x: Codes) -> tuple[Floats, Floats]:
        """``decision`` and ``observed``, many rows in blocks."""
        blocks = [slice(start, start + BLOCK) for start in range(0, len(x), BLOCK)]
        decided, observed = (
            np.concatenate([of(None if s is None else s[b], x[b]) for b in blocks])
            for of in (self.decision, self.observed)
        )
        return decided, observed

    def posterior(self, s: npt.ArrayLike | None, d: npt.ArrayLike | None, x: Codes) -> Floats:
        """P(decision = f | x, s, d): as ``decision``, with what the row's own label says."""
        return self.circuit.posterior(self.layout.decision, self.layout.codes(s, d, x))

    def group(self, x: Codes) -> Floats:
        """P(S = s | x); rows × groups."""
        return self.circuit.posterior(S, self.layout.codes(None, None, x))

    def bounds(
        self,
        s: Codes | None,
        x: Codes,
        positive: int,
        label_bounds: LabelBounds,
        level: float | None,
    ) -> Floats:
        """Least and largest P(Df = positive | x, s) over the identified set, rows × 2.

        ``label_bounds`` are what held-out labels leave possible. With a level their sampling error
        counts, not that of P(D | x, s) itself.
        """

        def of_group(rows: Ints, own: Codes) -> Floats:
            r, q = (of(own, x[rows])[:, positive] for of in (self.observed, self.decision))
            strata = np.asarray(self.strata.codes(x[rows]), np.intp)
            return around(q, label_bounds.score_bounds(r, r, own.astype(np.intp), level, strata))

        found = over_groups(s, len(x), of_group, lambda rows: self.group(x[rows]))
        # A circuit sums over groups in an order of its own.
        q = self.decision(s, x)[:, positive]
        return np.column_stack([np.minimum(found[:, 0], q), np.maximum(found[:, 1], q)])

    @property
    def fingerprint(self) -> str:
        """A hash of structure and parameters."""
        return str(to_dict(self.circuit)["checksum"])

    @property
    def n_edges(self) -> int:
        """Edges of the circuit."""
        return self.circuit.graph.n_edges

    def parity_gap(self) -> Floats:
        """Largest difference between groups of P(decision = f | S = s), by exact query; per class.

        With strata, of P(decision = f | S = s, A = a) within any of them. Zero under every tied
        model, whatever was learned. It says nothing about rows.
        """
        layout = self.layout
        nothing = np.full((layout.n_groups, len(layout.names)), -1, np.int16)
        gaps = []
        for a in range(layout.strata.n):
            rates = self.decision(np.arange(layout.n_groups), layout.strata.placed(nothing, a))
            gaps.append(rates.max(axis=0) - rates.min(axis=0))
        result: Floats = np.max(gaps, axis=0)
        return result

    def altered(self, rows: Rows, x: Codes | None = None) -> Floats:
        """Expected weight of the rows with Df = f and D = d in group s, [s, f, d].

        The posterior of (S, Df, D) given what is known of each row, summed over the rows: that is
        the expected flow of the parameters of the mechanism. Without a latent fair decision f is d.
        """
        return self.altered_and_likelihood(rows)[0]

    def altered_and_likelihood(self, rows: Rows) -> tuple[Floats, float]:
        """``altered``, and Σ w log P of what is known of the rows, by the same pass."""
        counts, likelihood = self._altered_by_mechanism(rows)
        own: Floats = counts.reshape(self.layout.n_groups, -1, *counts.shape[1:]).sum(axis=1)
        return own, likelihood

    def _altered_by_mechanism(self, rows: Rows) -> tuple[Floats, float]:
        """The same, of each mechanism."""
        layout, circuit = self.layout, self.circuit
        codes = layout.codes(rows.s, rows.d, rows.x)
        if layout.latent:
            table = Table.of(codes, rows.weights, arities=circuit.arities)
            likelihood, flows = prepare(circuit.graph, table, path="general")(circuit.parameters)
            return flows[self.top.mechanism], likelihood
        counts = np.zeros((layout.n_groups, layout.n_classes, layout.n_classes))
        total = circuit.log_marginal(codes)
        for s, d in np.ndindex(counts.shape[:2]):
            fits = ((rows.s < 0) | (rows.s == s)) & ((rows.d < 0) | (rows.d == d))
            some = codes[fits].copy(order="F")
            some[:, [0, layout.d]] = s, d
            shares = np.exp(circuit.log_marginal(some) - total[fits])
            counts[s, d, d] = rows.weights[fits] @ shares
        return counts, float(rows.weights @ total)


def top_rates(circuit: Circuit, layout: Layout) -> TopRates:
    """The rates of a circuit; without a latent fair decision the mechanism is the identity."""
    theta, top = circuit.parameters, Top.of(circuit.graph, layout)
    decision, mechanism = theta[top.decision], theta[top.mechanism]
    if layout.tied:
        decision = decision[: layout.strata.n] if layout.strata else decision[0]
    if not layout.latent:
        mechanism = np.tile(np.eye(layout.n_classes), (layout.n_groups, 1, 1))
    return TopRates(theta[top.group], decision, mechanism)


def leave_one_out(distribution: FairDistribution, s: int, x: Codes, decision: int) -> Floats:
    """How P(decision | evidence) is changed by each known value, exactly: it is marginalised.

    The first change is that of the group, the others those of the features;
    zero where a value is not known anyway.
    """
    n = len(x)
    groups = np.full(n + 2, s, np.int16)
    rows = np.tile(x, (n + 2, 1)).astype(np.int16)
    groups[1] = -1
    rows[np.arange(2, n + 2), np.arange(n)] = -1
    scores = distribution.decision(groups, rows)[:, decision]
    changes: Floats = scores[0] - scores[1:]
    return changes


def aligned(distribution: FairDistribution) -> FairDistribution:
    """The same distribution with the values of Df named by the classes they agree with most."""
    from scipy.optimize import linear_sum_assignment

    if not distribution.layout.latent:
        return distribution
    # P(Df = f, D = d): how often each pair of them occurs.
    both = distribution.decision_rate[:, :, None] * distribution.mechanism
    joint = np.tensordot(distribution.group_rate, both, axes=1)
    order = np.asarray(linear_sum_assignment(joint, maximize=True)[1], np.int64)
    if (order == np.arange(len(order))).all():
        return distribution
    named = np.argsort(order)
    layout, rates = distribution.layout, distribution.top_rates
    swapped = replace(
        rates,
        decision_rate=rates.decision_rate[..., named],
        mechanism=rates.mechanism[:, named],
    )
    features = feature_circuits(distribution.circuit, layout, named)
    return FairDistribution.of_parts(distribution.model, layout, swapped, features)
