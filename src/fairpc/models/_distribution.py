"""A fitted model: exact queries by role, what it says about labels and features, decisions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from fairpc.circuit import Circuit, prepare, to_dict
from fairpc.core import NONE, Bools, Codes, Floats, LearningError, counted
from fairpc.data import Table
from fairpc.models._rows import Rows
from fairpc.models._top import Layout, Model, S, Top, TopRates

PER_EDGE: Final = 64
"""Multiplications of a matrix product that take as long as an edge does, up and down."""

ZERO: Final = "0.0%"
HARDLY_ANY: Final = 0.0015
"""Share of labels under which none counts as turned: where labels do not reject D = Df, forests and
models of scores assume .001."""

Outcome = Literal["label", "decision"]
"""What a probability is of: D, or Df (D where there is no latent decision)."""


@dataclass(frozen=True, eq=False)
class FairDistribution:
    """P(s, f, d, x) as a circuit, with exact queries by role.

    Attributes:
        model: which of the paper's four distributions.
        layout: which column is what.
        circuit: the distribution.
    """

    model: Model
    layout: Layout
    circuit: Circuit

    def with_parameters(self, parameters: npt.ArrayLike) -> FairDistribution:
        """The same structure with other parameters."""
        return replace(self, circuit=self.circuit.with_parameters(parameters))

    @property
    def top(self) -> Top:
        return Top.of(self.circuit.graph, self.layout)

    @property
    def top_rates(self) -> TopRates:
        """P(S), P(decision), P(D | Df, S), where the decision is tied; with strata, theirs."""
        theta, top, strata = self.circuit.parameters, self.top, self.layout.strata
        decision = theta[top.decision[: strata.n]]
        mechanism = theta[top.mechanism] if self.layout.latent else self.mechanism
        return TopRates(theta[top.group], decision if strata else decision[0], mechanism)

    @property
    def subgroup_rate(self) -> Floats:
        """P(S = s, A = a), [s, a]."""
        rates: Floats = self.top_rates.group_rate.reshape(self.layout.n_groups, -1)
        return rates

    @property
    def subgroup_decision_rate(self) -> Floats:
        """P(decision | S = s, A = a), [s, a, f]: equal in all groups where the decision is tied."""
        rates = self.circuit.parameters[self.top.decision]
        return rates.reshape(self.layout.n_groups, self.layout.strata.n, -1)

    @property
    def subgroup_mechanism(self) -> Floats:
        """P(D = d | Df = f, S = s, A = a), [s, a, f, d]; equal in all strata where it is shared."""
        layout = self.layout
        shape = layout.n_groups, layout.strata.n, layout.n_classes, layout.n_classes
        if not layout.latent:
            return np.broadcast_to(np.eye(layout.n_classes), shape)
        rates = self.top_rates.mechanism
        return np.broadcast_to(rates.reshape(shape[0], -1, *shape[2:]), shape)

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
        """P(decision), [f], where it is tied."""
        rates = self.decision_rate
        mean: Floats = self.group_rate @ rates if self.layout.strata else rates[0]
        return mean

    @property
    def mechanism(self) -> Floats:
        """P(D = d | Df = f, S = s), [s, f, d]; the identity where D itself is the decision.

        Where each stratum has its own, it is their mean over P(a | f, s).
        """
        each = self.subgroup_mechanism
        if not self.layout.strata.within:
            return np.ascontiguousarray(each[:, 0])
        joint = self.subgroup_rate[:, :, None] * self.subgroup_decision_rate
        mean: Floats = np.einsum("saf,safd->sfd", joint / joint.sum(axis=1, keepdims=True), each)
        return mean

    def log_likelihood(self, s: npt.ArrayLike | None, d: npt.ArrayLike | None, x: Codes) -> Floats:
        """log P of what is known of each row; the rest is summed out."""
        return self.circuit.log_marginal(self.layout.codes(s, d, x))

    def decision(self, s: npt.ArrayLike | None, x: Codes) -> Floats:
        """P(decision = f | x, s): Df where the model has one, else D; rows × classes.

        A group that is not known is summed out.
        """
        return self.circuit.posterior(self.layout.decision, self.layout.codes(s, None, x))

    def observed(self, s: npt.ArrayLike | None, x: Codes) -> Floats:
        """P(D = d | x, s), the label as it would be observed; rows × classes."""
        return self.circuit.posterior(self.layout.d, self.layout.codes(s, None, x))

    def posterior(self, s: npt.ArrayLike | None, d: npt.ArrayLike | None, x: Codes) -> Floats:
        """P(decision = f | x, s, d): as ``decision``, with what the row's own label says."""
        return self.circuit.posterior(self.layout.decision, self.layout.codes(s, d, x))

    def group(self, x: Codes) -> Floats:
        """P(S = s | x); rows × groups."""
        return self.circuit.posterior(S, self.layout.codes(None, None, x))

    def joint_with_values(self, x: Codes, first: int, of: Outcome, positive: int) -> Floats:
        """P(s, x, x_j = v), and the same with the outcome being positive, for features j ≥ first.

        Those features are missing in x; what else is missing is summed out. Rows × groups ×
        (whatever the outcome, positive) × values, the features one after the other.
        """
        layout = self.layout
        n, each = len(x), 2 * layout.n_groups
        codes = layout.codes(
            np.tile(np.repeat(np.arange(layout.n_groups), 2), n), None, np.repeat(x, each, axis=0)
        )
        column = layout.d if of == "label" else layout.decision
        codes[:, column] = np.tile([-1, positive], n * layout.n_groups)
        found = self.circuit.joint_with_values(codes, layout.x[first:])
        return found.reshape(n, layout.n_groups, 2, -1)

    @property
    def fingerprint(self) -> str:
        """A hash of structure and parameters."""
        return str(to_dict(self.circuit)["checksum"])

    @property
    def n_edges(self) -> int:
        """Edges of the circuit."""
        return self.circuit.graph.n_edges

    @property
    def extension_work(self) -> float:
        """Multiplications that :meth:`joint_with_values` takes per row, about."""
        return 2 * self.layout.n_groups * self.n_edges * PER_EDGE

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

    def turned(self, rows: Rows) -> tuple[Floats, float]:
        """As ``turned_labels``, and Σ w log P of what is known of the rows, by the same pass."""
        counts, likelihood = self._turned(rows)
        own: Floats = counts.reshape(self.layout.n_groups, -1, *counts.shape[1:]).sum(axis=1)
        return own, likelihood

    def _turned(self, rows: Rows) -> tuple[Floats, float]:
        """The same, of each mechanism."""
        layout, circuit = self.layout, self.circuit
        codes = layout.codes(rows.s, rows.d, rows.x, rows.f)
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


def turned_labels(distribution: FairDistribution, rows: Rows) -> Floats:
    """Expected weight of the rows with Df = f and D = d in group s, [s, f, d].

    The posterior of (S, Df, D) given what is known of each row, summed over the
    rows: that is the expected flow of the parameters of the mechanism. Without a
    latent decision f is d.
    """
    return distribution.turned(rows)[0]


@dataclass(frozen=True, eq=False)
class BiasAccount:
    """How labels were bent, by group: probabilities, estimated numbers, sentences.

    Attributes:
        groups, classes: names.
        mechanism: P(D = d | Df = f, S = s), [s, f, d].
        counts: estimated number of training labels with Df = f, D = d in group s, [s, f, d].
    """

    groups: tuple[str, ...]
    classes: tuple[str, ...]
    mechanism: Floats
    counts: Floats

    @property
    def most_turned(self) -> float:
        """The largest P(D ≠ f | Df = f, S = s)."""
        return 1.0 - float(np.diagonal(self.mechanism, axis1=1, axis2=2).min())

    @property
    def unturned(self) -> bool:
        """Whether hardly any label of any group was turned."""
        return self.most_turned < HARDLY_ANY

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence for each way in which the labels of a group were turned, if any were."""
        if self.unturned:
            most = f"{self.most_turned:.1%}"
            return (
                f"In every group {NONE if most == ZERO else f'at most {most}'} of the labels "
                "differ from the latent decision. A forest, or a model made from scores, says so "
                "unless the labels reject it: this does not show that the labels are right.",
            )
        return tuple(
            self._sentence(s, f, d) for s, f, d in np.ndindex(self.mechanism.shape) if d != f
        )

    def _sentence(self, s: int, f: int, d: int) -> str:
        """How often a decision was observed as another label; what rounds to zero is no number."""
        group, label = self.groups[s], self.classes[d]
        rows = f"of the rows whose latent decision is {self.classes[f]}"
        share, n = f"{self.mechanism[s, f, d]:.1%}", round(float(self.counts[s, f, d]))
        if share == ZERO and n == 0:
            return f"In group {group}, {NONE} {rows} were observed {label}."
        share = "under 0.1%" if share == ZERO else share
        labels = f"an estimated {counted(n, 'label')}" if n else "less than one label"
        return f"In group {group}, {rows}, {share} were observed {label} ({labels})."

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        """What a notebook shows; marks that could hide or turn text are shown by number."""
        lines = (
            "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in sentence)
            for sentence in self.sentences
        )
        return f"<ul>{''.join(f'<li><bdi>{escape(line)}</bdi></li>' for line in lines)}</ul>"


@dataclass(frozen=True, eq=False)
class Contribution:
    """How one known value moved a score: the score with it minus the score without it."""

    feature: str
    value: object
    change: float
    sensitive: bool = False  #: it is the group, and "group" no name of a feature


def leave_one_out(
    distribution: FairDistribution, s: int, x: Codes, decision: int
) -> tuple[float, Floats]:
    """P(decision | evidence), and its change by each known value, exactly: it is summed out.

    The first change is that of the group, the others those of the features;
    zero where a value is not known anyway.
    """
    n = len(x)
    groups = np.full(n + 2, s, np.int16)
    rows = np.tile(x, (n + 2, 1)).astype(np.int16)
    groups[1] = -1
    rows[np.arange(2, n + 2), np.arange(n)] = -1
    scores = distribution.decision(groups, rows)[:, decision]
    return float(scores[0]), scores[0] - scores[1:]


@dataclass(frozen=True)
class Threshold:
    """Scores above the threshold are positive decisions.

    Attributes:
        values: one threshold, or one per group.
        unknown: threshold where the group is not known.
    """

    values: tuple[float, ...]
    unknown: float

    @property
    def by_group(self) -> bool:
        return len(self.values) > 1

    def decide(self, scores: Floats, groups: Codes | None) -> Bools:
        """Whether each score is above its threshold."""
        limits: Floats | float = self.unknown if self.by_group else self.values[0]
        if self.by_group and groups is not None:
            limits = np.append(self.values, self.unknown)[groups]
        return scores > limits


def fixed(value: Any) -> Threshold:
    """The same threshold for everyone."""
    checked = _checked(value, "the threshold", "scores are probabilities, from 0 to 1")
    return Threshold((checked,), checked)


def for_rate(scores: Floats, rate: float) -> Threshold:
    """The threshold above which this share of the given scores lies, as nearly as ties allow."""
    return fixed(_cut(scores, _checked(rate)))


def equalised(scores: Floats, groups: Codes, n_groups: int, rate: float | None = None) -> Threshold:
    """A threshold per group, so that each selects the same share of the given rows.

    Without ``rate`` the share is that of all scores above one half.
    """
    share = float((scores > 0.5).mean()) if rate is None else _checked(rate)
    missing = [s for s in range(n_groups) if not (groups == s).any()]
    if missing:
        raise LearningError(
            f"group {missing[0]} has no rows here: its threshold needs some; give more rows"
        )
    values = tuple(_cut(scores[groups == s], share) for s in range(n_groups))
    return Threshold(values, _cut(scores, share))


def _checked(
    share: Any, what: str = "the selection rate", rule: str = "give a share from 0 to 1"
) -> float:
    if not (isinstance(share, int | float | np.number) and 0.0 <= share <= 1.0):
        raise LearningError(f"{what} is {share!r}: {rule}")
    return float(share)


def _cut(scores: Floats, rate: float) -> float:
    """A cut between two neighbouring scores, nearest to the rate."""
    if not len(scores):
        raise LearningError("no rows were given: a selection rate needs some")
    distinct = np.unique(scores)
    cuts = np.concatenate([[0.0], (distinct[:-1] + distinct[1:]) / 2, [1.0]])
    above = 1.0 - np.searchsorted(np.sort(scores), cuts, side="right") / len(scores)
    return float(cuts[np.argmin(np.abs(above - rate))])
