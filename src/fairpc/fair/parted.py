"""Fitting to rows that do not fit into memory: structure on a sample, parameters on all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from fairpc.circuit.em import Step
from fairpc.circuit.flows import FlowPlan, PartPlan
from fairpc.circuit.graph import Circuit, Graph
from fairpc.data.distinct import Distinct, Packing, add_distinct
from fairpc.data.fingerprint import fingerprint
from fairpc.data.hashing import row_uniform
from fairpc.data.parts import Parts
from fairpc.data.table import Table
from fairpc.errors import LearningError
from fairpc.errors.arrays import Codes, Floats, Ints
from fairpc.fair.distribution import FairDistribution, turned_labels
from fairpc.fair.fit import Fitted, Options, run_em
from fairpc.fair.priors import parameter_prior
from fairpc.fair.rows import Rows
from fairpc.fair.top import Layout

T = TypeVar("T")


class RowParts(Protocol):
    """Weighted rows in parts, on disk or on the workers of a cluster."""

    @property
    def arities(self) -> tuple[int, ...]: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def total_weight(self) -> float: ...

    @property
    def repeats(self) -> bool:
        """Whether a row may be in several parts."""
        ...

    def __len__(self) -> int: ...

    def map(self, work: Callable[[int, Codes, Floats], T]) -> Iterator[T]:
        """What ``work`` makes of the number, codes and weights of each part, in order."""
        ...


class PlannedParts(RowParts, Protocol):
    """Parts that make a plan of their own, where they are."""

    def plan(self, graph: Graph, table_of: Callable[[Codes, Floats], Table]) -> FlowPlan: ...


@dataclass(frozen=True, eq=False)
class PartedRows:
    """Weighted rows (s, d, x) in parts.

    Attributes:
        parts: their codes: S, D, then the features.
        names: name of each feature.
        kept_bytes: what of parts on disk may stay in memory while EM runs.
    """

    parts: Parts | PlannedParts
    names: tuple[str, ...]
    kept_bytes: int = 0

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """About ``n`` of the rows, each as likely as any other, equal ones merged.

        A row of whole weight w counts as w rows. With other weights, rows are drawn with
        a probability in proportion to them. Chance goes by what a row is: where each row
        is in one part, the sample is the same whatever the parts.
        """
        share = min(1.0, n / self.parts.total_weight)
        packing = Packing(self.parts.arities)
        seed = int(rng.integers(1 << 62))
        draw = partial(_drawn, packing=packing, share=share, seed=seed, apart=self.parts.repeats)
        total = add_distinct(list(self.parts.map(draw)))
        return _rows(packing.unpack(total.words), total.weights, packing.arities, self.names)

    def plan(self, circuit: Circuit, layout: Layout) -> FlowPlan:
        """The plan of all rows for the circuit of a model."""
        parts = self.parts
        table_of = partial(_table, layout=layout, arities=circuit.arities, names=circuit.names)
        if not isinstance(parts, Parts):
            return parts.plan(circuit.graph, table_of)
        return PartPlan(
            circuit.graph, parts.n_rows, parts.total_weight, len(parts),
            lambda k: table_of(*parts.read(k)), self.kept_bytes,
        )  # fmt: skip

    def fingerprint(self) -> str:
        """A name for the rows."""
        return parts_fingerprint(self.parts.map(_fingerprint))

    def label_counts(self, distribution: FairDistribution) -> Floats:
        """Expected weight with Df = f and D = d in group s, [s, f, d]; see ``turned_labels``."""
        count = partial(
            _label_counts, distribution=distribution, arities=self.parts.arities, names=self.names
        )
        counts: Floats = sum(self.parts.map(count), np.zeros(()))
        return counts


def parts_fingerprint(names: Iterable[str]) -> str:
    """A name for rows in parts: of the fingerprints of the parts, in order."""
    return fingerprint(np.frombuffer("".join(names).encode(), np.uint8))


def _rows(codes: Codes, weights: Floats, arities: tuple[int, ...], names: tuple[str, ...]) -> Rows:
    n_groups, n_classes, *rest = arities
    return Rows(
        codes[:, 0], codes[:, 1], codes[:, 2:], weights, n_groups, n_classes,
        np.array(rest, np.int64), names,
    )  # fmt: skip


def _table(
    codes: Codes,
    weights: Floats,
    *,
    layout: Layout,
    arities: Ints,
    names: tuple[str, ...],
) -> Table:
    """Rows of the circuit: its hidden variables are missing."""
    rows = layout.codes(codes[:, 0], codes[:, 1], codes[:, 2:])
    return Table.of(rows, weights, arities=arities, names=names)


def _drawn(
    k: int,
    codes: Codes,
    weights: Floats,
    *,
    packing: Packing,
    share: float,
    seed: int,
    apart: bool,
) -> Distinct:
    """Rows of part ``k``, each as often as it is drawn.

    Where a row may be in several parts, they draw ``apart``, or its copies would come together.
    """
    words = packing.pack(list(codes.T))
    chance = row_uniform(words, seed + (k + 1 if apart else 0))
    copies = (chance < share).astype(np.float64)
    several = weights != 1
    if several.any():
        from scipy import stats

        mass, at = weights[several], chance[several]
        whole = np.array_equal(mass, np.floor(mass))
        copies[several] = (
            stats.binom.ppf(at, mass, share) if whole else stats.poisson.ppf(at, mass * share)
        )
    used = copies > 0
    return Distinct.of(np.ascontiguousarray(words[:, used]), copies[used])


def _fingerprint(k: int, codes: Codes, weights: Floats) -> str:
    return fingerprint(codes, weights)


def _label_counts(
    k: int,
    codes: Codes,
    weights: Floats,
    *,
    distribution: FairDistribution,
    arities: tuple[int, ...],
    names: tuple[str, ...],
) -> Floats:
    return turned_labels(distribution, _rows(codes, weights, arities, names))


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
