"""Fitting to rows that do not fit into memory: structure on a sample, parameters on all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fairpc.circuit.em import Step
from fairpc.circuit.graph import Circuit
from fairpc.circuit.part_plan import PartPlan
from fairpc.data.distinct import Distinct, Packing, add_distinct
from fairpc.data.fingerprint import fingerprint
from fairpc.data.parts import Parts
from fairpc.data.table import Codes, Table
from fairpc.errors import LearningError
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.explanation import turned_labels
from fairpc.fair.fit import Fitted, Options, parameter_prior, run_em
from fairpc.fair.rows import FloatArray, Rows
from fairpc.fair.top import Layout


@dataclass(frozen=True, eq=False)
class PartedRows:
    """Weighted rows (s, d, x) in parts on disk.

    Attributes:
        parts: their codes: S, D, then the features.
        names: name of each feature.
        kept_bytes: what of them may stay in memory while EM runs.
    """

    parts: Parts
    names: tuple[str, ...]
    kept_bytes: int = 0

    def read(self, k: int) -> Rows:
        """The rows of one part."""
        return self._rows(*self.parts.read(k))

    def __iter__(self) -> Iterator[Rows]:
        return (self.read(k) for k in range(len(self.parts)))

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """About ``n`` of the rows, each as likely as any other, equal ones merged.

        A row of whole weight w counts as w rows. With other weights, rows are drawn with
        a probability in proportion to them.
        """
        share = min(1.0, n / self.parts.total_weight)
        packing = Packing(self.parts.arities)
        drawn = []
        for codes, weights in self.parts:
            whole = np.array_equal(weights, np.floor(weights))
            copies = rng.binomial(weights.astype(np.int64), share) if whole else None
            if copies is None:
                copies = rng.poisson(weights * share)
            used = copies > 0
            words = packing.pack(list(codes[used].T))
            drawn.append(Distinct.of(words, copies[used].astype(np.float64)))
        total = add_distinct(drawn)
        return self._rows(packing.unpack(total.words), total.weights)

    def _rows(self, codes: Codes, weights: FloatArray) -> Rows:
        n_groups, n_classes, *arities = self.parts.arities
        return Rows(
            codes[:, 0], codes[:, 1], codes[:, 2:], weights, n_groups, n_classes,
            np.array(arities, np.int64), self.names,
        )  # fmt: skip

    def plan(self, circuit: Circuit, layout: Layout) -> PartPlan:
        """The plan of all rows for the circuit of a model."""

        def load(k: int) -> Table:
            rows = self.read(k)
            codes = layout.codes(rows.s, rows.d, rows.x)
            return Table.of(codes, rows.weights, arities=circuit.arities, names=circuit.names)

        parts = self.parts
        return PartPlan(
            circuit.graph, parts.n_rows, parts.total_weight, len(parts), load, self.kept_bytes
        )

    def fingerprint(self) -> str:
        """A name for the rows: of the fingerprints of the parts, in order."""
        names = [fingerprint(*self.parts.read(k)) for k in range(len(self.parts))]
        return fingerprint(np.frombuffer("".join(names).encode(), np.uint8))

    def label_counts(self, distribution: FairDistribution) -> FloatArray:
        """Expected weight with Df = f and D = d in group s, [s, f, d]; see ``turned_labels``."""
        counts: FloatArray = sum((turned_labels(distribution, rows) for rows in self), np.zeros(()))
        return counts


def fit_parted(
    on_sample: Fitted,
    rows: PartedRows,
    options: Options,
    callback: Callable[[Step], object] | None = None,
) -> Fitted:
    """EM over all rows, from a model whose structure was learned on a sample of them.

    All parameters are learned, those of a mixture's components too.
    """
    if options.equal_mass:
        raise LearningError(
            "equal_mass needs all rows in memory: give more with max_memory, or leave it out"
        )
    start = on_sample.distribution
    circuit, layout = start.circuit, start.layout
    prior = parameter_prior(circuit, layout, start.top, options)
    bounds = None
    if options.limits is not None:
        bounds = options.limits.bounds(circuit.graph, layout)
    return run_em(start, rows.plan(circuit, layout), {}, options, prior, bounds, callback)
