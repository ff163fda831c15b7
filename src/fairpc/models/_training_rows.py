"""Training rows, in memory or in parts elsewhere: what a fit asks of them, wherever they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import numpy as np

from fairpc.circuit import Circuit, FlowPlan, Graph, PartPlan
from fairpc.core import Floats, Words, fingerprint, row_uniform
from fairpc.data import CodedRows, Distinct, Packing, RowParts, Table, add_distinct
from fairpc.models._distribution import FairDistribution
from fairpc.models._rows import Rows
from fairpc.models._strata import UNDIVIDED, Strata
from fairpc.models._top import Layout

T = TypeVar("T")

ROWS: Final = "rows-"
"""Begins the name of rows that does not depend on their order; older files have another."""


class TrainingRows(Protocol):
    """Rows that a model is fitted to: in memory, on disk, or on the workers of a cluster."""

    def map(self, work: Callable[[Rows], T]) -> Iterator[T]:
        """What ``work`` makes of the rows, of one part after the other."""
        ...

    def with_strata(self, strata: Strata) -> TrainingRows:
        """The same rows with these strata."""
        ...

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """The rows to learn structure from: about ``n``, or all where they are in memory."""
        ...

    def plan(self, circuit: Circuit, layout: Layout) -> FlowPlan:
        """The plan of all rows for the circuit of a model."""
        ...


@runtime_checkable
class PlannedParts(RowParts, Protocol):
    """Parts that make a plan of their own, where they are."""

    def plan(self, graph: Graph, table_of: Callable[[CodedRows], Table]) -> FlowPlan: ...


@dataclass(frozen=True, eq=False)
class PartedRows:
    """Weighted rows (s, d, x), and known fair decisions, in parts."""

    parts: RowParts  #: their codes: S, D, the features, and Df if ``fair``
    names: tuple[str, ...]  #: name of each feature
    fair: bool = False  #: whether some fair decisions are known
    kept_bytes: int = 0  #: what of parts on disk may stay in memory while EM runs
    strata: Strata = UNDIVIDED

    def with_strata(self, strata: Strata) -> PartedRows:
        """The same rows with these strata."""
        return replace(self, strata=strata)

    def map(self, work: Callable[[Rows], T]) -> Iterator[T]:
        return self.parts.map(partial(_worked, work=work, form=self._form))

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """About ``n`` of the rows, each as likely as any other, equal ones merged.

        Chance goes by what a row is: where each row is in one part, the sample is the same
        whatever the parts.
        """
        share = min(1.0, n / self.parts.n_copies)
        packing = self.parts.packing
        seed = int(rng.integers(1 << 62))
        draw = partial(_drawn, packing=packing, share=share, seed=seed, apart=self.parts.repeats)
        total = add_distinct(list(self.parts.map(draw)))
        return self._form(packing.rows(total))

    def plan(self, circuit: Circuit, layout: Layout) -> FlowPlan:
        """The plan of all rows for the circuit of a model."""
        parts = self.parts
        given = layout, circuit.arities, circuit.names
        table_of = partial(_table, form=self._form, given=given)
        if isinstance(parts, PlannedParts):
            return parts.plan(circuit.graph, table_of)
        return PartPlan(
            circuit.graph,
            parts.n_rows,
            parts.total_weight,
            len(parts),
            lambda k: table_of(parts.read(k)),
            self.kept_bytes,
        )

    @property
    def _form(self) -> Callable[[CodedRows], Rows]:
        """What codes mean; sent to workers instead of the parts."""
        arities = self.parts.packing.arities
        return partial(
            Rows.coded, arities=arities, names=self.names, fair=self.fair, strata=self.strata
        )


def rows_fingerprint(rows: TrainingRows) -> str:
    """A name for rows: the same wherever they lie, and in whatever order."""
    return digest_name(sum(rows.map(Rows.digest), np.zeros(4, np.uint64)))


def digest_name(digest: Words) -> str:
    """The name of rows with this digest."""
    return ROWS + fingerprint(digest)


def label_counts(rows: TrainingRows, distribution: FairDistribution) -> tuple[Floats, float]:
    """Expected weight with Df = f and D = d in group s, [s, f, d]; see ``FairModel.altered``.

    And the mean log P of a row of the table, of those too that were held out to choose a structure.
    """
    found = list(rows.map(partial(_counted, distribution)))
    counts: Floats = sum((some for some, _, _ in found), np.zeros(()))
    return counts, sum(logs for _, logs, _ in found) / sum(weight for _, _, weight in found)


def _counted(distribution: FairDistribution, rows: Rows) -> tuple[Floats, float, float]:
    return *distribution.turned(rows), float(rows.weights.sum())


def count_anchors(rows: TrainingRows) -> int:
    """Rows of the table whose fair decision is known."""
    return sum(rows.map(attrgetter("n_anchors")))


def _worked(
    k: int, coded: CodedRows, *, work: Callable[[Rows], T], form: Callable[[CodedRows], Rows]
) -> T:
    return work(form(coded))


def _table(coded: CodedRows, *, form: Callable[[CodedRows], Rows], given: Any) -> Table:
    return form(coded).table(*given)


def _drawn(
    k: int, coded: CodedRows, *, packing: Packing, share: float, seed: int, apart: bool
) -> Distinct:
    """Rows of part ``k``, each as often as it is drawn.

    Where a row may be in several parts, they draw ``apart``, or its copies would come together.
    """
    words = packing.pack(list(coded.codes.T))
    if coded.copies is not None:
        words = np.vstack([words, (coded.weights / coded.copies).view(np.uint64)])
    chance = row_uniform(words, seed + (k + 1 if apart else 0))
    drawn = (chance < share).astype(np.float64)
    several = coded.each != 1
    if several.any():
        from scipy import stats

        drawn[several] = stats.binom.ppf(chance[several], coded.each[several], share)
    used = np.flatnonzero(drawn)
    return Distinct(np.ascontiguousarray(words[:, used]), drawn[used])
