"""What was learned, in words and numbers: the mechanism, and how features move a score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpc.circuit.flows import prepare
from fairpc.data.plural import counted
from fairpc.data.table import Table
from fairpc.errors.arrays import Codes, Floats
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.rows import Rows


def turned_labels(distribution: FairDistribution, rows: Rows) -> Floats:
    """Expected weight of the rows with Df = f and D = d in group s, [s, f, d].

    The posterior of (S, Df, D) given what is known of each row, summed over the
    rows: that is the expected flow of the parameters of the mechanism. Without a
    latent decision f is d.
    """
    layout, circuit = distribution.layout, distribution.circuit
    codes = layout.codes(rows.s, rows.d, rows.x, rows.f)
    if layout.latent:
        table = Table.of(codes, rows.weights, arities=circuit.arities)
        _, flows = prepare(circuit.graph, table, path="general")(circuit.parameters)
        return flows[distribution.top.mechanism]
    counts = np.zeros((layout.n_groups, layout.n_classes, layout.n_classes))
    total = circuit.log_marginal(codes)
    for s, d in np.ndindex(counts.shape[:2]):
        fits = ((rows.s < 0) | (rows.s == s)) & ((rows.d < 0) | (rows.d == d))
        some = codes[fits].copy(order="F")
        some[:, [0, layout.d]] = s, d
        shares = np.exp(circuit.log_marginal(some) - total[fits])
        counts[s, d, d] = rows.weights[fits] @ shares
    return counts


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
    def sentences(self) -> tuple[str, ...]:
        """One sentence for each way in which the labels of a group were turned."""
        result = []
        for s, group in enumerate(self.groups):
            for f, decision in enumerate(self.classes):
                for d, label in enumerate(self.classes):
                    if d != f:
                        result.append(self._sentence(s, f, d, group, decision, label))
        return tuple(result)

    def _sentence(self, s: int, f: int, d: int, group: str, decision: str, label: str) -> str:
        share, number = self.mechanism[s, f, d], self.counts[s, f, d]
        return (
            f"In group {group}, of the rows whose latent decision is {decision}, "
            f"{share:.1%} were observed {label} (an estimated {counted(round(number), 'label')})."
        )

    def __str__(self) -> str:
        return "\n".join(self.sentences)


@dataclass(frozen=True, eq=False)
class Contribution:
    """How one known value moved a score: the score with it minus the score without it."""

    feature: str
    value: object
    change: float


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
