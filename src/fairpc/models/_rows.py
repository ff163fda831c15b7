"""Training rows as codes: groups, labels, features, weights; -1 = missing, anywhere.

They are in memory (:class:`Rows`), or in parts elsewhere (:class:`PartedRows`): on disk, or on the
workers of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from fairpc.circuit import Circuit, FlowPlan, Graph, PartPlan, RowPlan, prepare
from fairpc.core import (
    Codes,
    Floats,
    Ints,
    LearningError,
    Words,
    fingerprint,
    row_digest,
    row_uniform,
)
from fairpc.data import (
    CodedRows,
    Distinct,
    Packing,
    RowParts,
    Table,
    add_distinct,
    check_codes,
    check_weights,
)
from fairpc.models._fair_layers import Layout
from fairpc.models._strata import UNDIVIDED, Strata

T = TypeVar("T")
NOBODY: Final = np.zeros(0, np.int64)
"""No subgroups."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Weighted rows (s, d, x)."""

    s: Codes  #: group of each row
    d: Codes  #: recorded label of each row
    x: Codes  #: features, one column each
    weights: Floats
    n_groups: int  #: number of values of S
    n_classes: int  #: number of values of D
    arities: Ints  #: number of values of each feature
    names: tuple[str, ...]  #: name of each feature
    #: how many rows of the table each row is; None where whole weights say it
    copies: Floats | None = None
    #: which features make the strata within which Df is independent of S
    strata: Strata = UNDIVIDED

    @classmethod
    def coded(
        cls,
        rows: CodedRows,
        arities: Sequence[int],
        names: tuple[str, ...],
        *,
        strata: Strata = UNDIVIDED,
        few: Ints = NOBODY,
        unlabelled: Ints = NOBODY,
    ) -> Rows:
        """Rows of codes S, D and X, as a ``RowEncoder`` makes them."""
        n_groups, n_classes, *sizes = arities
        made = cls(
            rows.codes[:, 0],
            rows.codes[:, 1],
            rows.codes[:, 2:],
            rows.weights,
            n_groups,
            n_classes,
            np.array(sizes, np.int64),
            names,
            copies=rows.copies,
            strata=strata,
        )
        return made.hiding(few, unlabelled)

    @classmethod
    def of(
        cls,
        s: npt.ArrayLike,
        d: npt.ArrayLike,
        x: npt.ArrayLike,
        *,
        weights: npt.ArrayLike | None = None,
        n_groups: int | None = None,
        n_classes: int | None = None,
        arities: npt.ArrayLike | None = None,
        names: Sequence[str] | None = None,
        strata: Strata = UNDIVIDED,
    ) -> Rows:
        """Checked rows; numbers of values default to one more than the largest code."""
        features = np.asarray(x)
        highest = features.max(axis=0, initial=0) if arities is None else np.asarray(arities) - 1
        sizes = np.asarray(highest + 1, np.int64)
        labels = tuple(names or (f"X{j + 1}" for j in range(len(sizes))))
        n_groups, n_classes = n_groups or int(np.max(s)) + 1, n_classes or int(np.max(d)) + 1
        codes = np.column_stack([s, d, features])
        codes = check_codes(codes, [n_groups, n_classes, *sizes], ("S", "D", *labels))
        columns = codes[:, 0], codes[:, 1], codes[:, 2:], check_weights(weights, len(codes))
        return cls(*columns, n_groups, n_classes, sizes, labels, strata=strata)

    @property
    def n_rows(self) -> int:
        return len(self.s)

    def with_strata(self, strata: Strata) -> Rows:
        """The same rows with these strata."""
        return replace(self, strata=strata)

    def hiding(self, few: Ints, unlabelled: Ints = NOBODY) -> Rows:
        """The same rows; of those in these subgroups the stratum is not known, nor, in groups that
        are ``unlabelled`` so far, the label."""
        here = np.isin(self.subgroups, few) if len(few) else np.zeros(0, np.bool_)
        if not here.any():
            return self
        x = self.x.copy(order="F")
        x[np.ix_(np.flatnonzero(here), np.array(self.strata.columns))] = -1
        d = np.where(here & np.isin(self.s, unlabelled), -1, self.d).astype(self.d.dtype)
        return replace(self, x=x, d=d)

    @property
    def subgroups(self) -> Codes:
        """Group and stratum of each row as one number, -1 where either is not known."""
        return self.strata.subgroups(self.s, self.x)

    @property
    def n_subgroups(self) -> int:
        return self.n_groups * self.strata.n

    def by_subgroup(self) -> Rows:
        """The same rows with subgroups for groups, and without the features that make strata."""
        if not self.strata:
            return self
        rest = self.strata.rest(len(self.names))
        if not rest:
            raise LearningError(
                "every feature is in given: a model needs features beside its strata; give fewer "
                "columns in given, or more features"
            )
        return replace(
            self,
            s=self.subgroups,
            x=np.asfortranarray(self.x[:, rest]),
            n_groups=self.n_subgroups,
            arities=self.arities[rest],
            names=tuple(self.names[j] for j in rest),
            strata=UNDIVIDED,
        )

    def with_weights(self, weights: Floats, copies: Floats | None = None) -> Rows:
        """The same rows with other weights."""
        return replace(self, weights=weights, copies=copies)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not any((codes < 0).any() for codes in (self.s, self.d, self.x))

    @property
    def each(self) -> Floats:
        """How many rows of the table each row is: whole weights count them, others do not."""
        if self.copies is not None:
            return self.copies
        return self.weights if self.whole else (self.weights > 0).astype(np.float64)

    @property
    def whole(self) -> bool:
        """Whether all weights are whole numbers."""
        return np.array_equal(self.weights, np.floor(self.weights))

    @property
    def unit(self) -> Floats:
        """Weight of each row of the table that a row is."""
        each = self.each
        return np.divide(self.weights, each, out=np.zeros(len(each)), where=each > 0)

    def plan(self, circuit: Circuit, layout: Layout) -> RowPlan:
        """The plan of the rows for the circuit of a model."""
        return prepare(circuit.graph, self.table(layout, circuit.arities, circuit.names))

    def table(self, layout: Layout, arities: Ints, names: tuple[str, ...]) -> Table:
        """Rows of the circuit: its hidden variables are missing."""
        codes = layout.codes(self.s, self.d, self.x)
        return Table.of(codes, self.weights, arities=arities, names=names)

    def map(self, work: Callable[[Rows], T]) -> Iterator[T]:
        """What ``work`` makes of the rows: all are in memory."""
        yield work(self)

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """The rows to learn structure from: all."""
        return self

    def digest(self) -> Words:
        """Numbers that name the rows and add up; see ``row_digest``."""
        arities = (self.n_groups, self.n_classes, *self.arities.tolist())
        words = Packing(arities).pack([self.s, self.d, *self.x.T])
        unit = self.unit
        # Row by row, for a batch does not know whether all weights of its table are whole.
        whole = unit == np.floor(unit)
        counts, units = np.where(whole, self.weights, self.each), np.where(whole, 1.0, unit)
        return row_digest(np.vstack([words, units.view(np.uint64)]), counts)

    def take(self, rows: Ints) -> Rows:
        """Some of the rows."""
        every = {name: getattr(self, name) for name in ("s", "d", "weights", "copies")}
        taken: Any = {name: None if v is None else v[rows] for name, v in every.items()}
        return replace(self, x=np.asfortranarray(self.x[rows]), **taken)

    def cell(self, d: int, s: int) -> Table:
        """Features of the rows with label ``d`` in group ``s``."""
        here = np.flatnonzero((self.d == d) & (self.s == s))
        return Table(np.asfortranarray(self.x[here]), self.weights[here], self.arities, self.names)


_MANY: Final = 1e8


def effective_size(weights: Floats, each: Floats) -> float:
    """Rows of equal weight that say as much (Kish), of rows that are ``each`` so many rows."""
    unit = np.divide(weights, each, out=np.zeros(len(each)), where=each > 0)
    squares = float(np.dot(each * unit, unit))
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def joined(one: Rows, two: Rows) -> Rows:
    """The rows of both."""
    s, d, x, weights = (
        np.concatenate([getattr(one, name), getattr(two, name)])
        for name in ("s", "d", "x", "weights")
    )
    copies = None if one.copies is None else np.concatenate([one.copies, two.each])
    return replace(one, s=s, d=d, x=np.asfortranarray(x), weights=weights, copies=copies)


def hold_out(rows: Rows, fraction: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows to fit to and rows held out: the same share of every (d, s), at random.

    With strata s is the subgroup.
    Rows of the table are drawn, of which one here may be several.
    """
    if not 0 < fraction < 1:
        raise LearningError(f"validation_fraction is {fraction}: give a number between 0 and 1")
    cell = rows.subgroups.astype(np.int64) * (rows.n_classes + 1) + rows.d
    cells = [np.flatnonzero(cell == k) for k in np.unique(cell)]
    each = rows.each
    held = np.zeros(rows.n_rows)
    for here in cells:
        held[here] = _drawn(each[here], fraction, rng)
    if not held.any():
        largest = max(cells, key=lambda here: float(each[here].sum()))
        held[rng.choice(largest[each[largest] > 0])] = 1.0
    kept = each - held
    if not kept.any():
        raise LearningError(
            f"there is {rows.n_rows} row: if one is held out, none is left to fit to; "
            "give validation rows"
        )
    return _copied(rows, kept), _copied(rows, held)


def some_rows(rows: Rows, most: int, rng: np.random.Generator) -> Rows:
    """All rows, or about so many of the table's rows where there are more."""
    each = rows.each
    total = float(each.sum())
    if total <= most:
        return rows
    if total < _MANY:
        return hold_out(rows, most / total, rng)[1]
    # Weights that stand for people of a population: too many to draw without putting back.
    share = each / each.max()
    return _copied(rows, rng.multinomial(most, share / share.sum()).astype(np.float64))


def _drawn(weights: Floats, fraction: float, rng: np.random.Generator) -> Floats:
    """How many of each row's copies are drawn, of all copies the nearest number to a fraction."""
    copies = weights.astype(np.int64)
    total = int(copies.sum())
    if not total:
        return np.zeros(len(copies))
    n = round(fraction * total)
    drawn = rng.multivariate_hypergeometric(copies, n, method="marginals")
    return np.asarray(drawn, np.float64)


def _copied(rows: Rows, copies: Floats) -> Rows:
    """The rows of which there are some, that many times."""
    used = np.flatnonzero(copies > 0)
    some, copies = rows.take(used), copies[used]
    if some.copies is not None:
        return some.with_weights(some.weights / some.copies * copies, copies)
    return some.with_weights(copies if rows.whole else some.weights)


ROWS: Final = "rows-"
"""Begins the name of rows that does not depend on their order; older files have another."""


@runtime_checkable
class PlannedParts(RowParts, Protocol):
    """Parts that make a plan of their own, where they are."""

    def plan(self, graph: Graph, table_of: Callable[[CodedRows], Table]) -> FlowPlan: ...


@dataclass(frozen=True, eq=False)
class PartedRows:
    """Weighted rows (s, d, x) in parts."""

    parts: RowParts  #: their codes: S, D and the features
    names: tuple[str, ...]  #: name of each feature
    kept_bytes: int = 0  #: what of parts on disk may stay in memory while EM runs
    strata: Strata = UNDIVIDED
    few: Ints = field(default_factory=NOBODY.copy)  #: subgroups whose rows are of unknown stratum
    unlabelled: Ints = field(default_factory=NOBODY.copy)  #: groups in which these have no label

    def with_strata(self, strata: Strata) -> PartedRows:
        """The same rows with these strata."""
        return replace(self, strata=strata)

    def hiding(self, few: Ints, unlabelled: Ints = NOBODY) -> PartedRows:
        """As :meth:`Rows.hiding`."""
        return replace(self, few=few, unlabelled=unlabelled)

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
        draw = partial(_sampled, packing=packing, share=share, seed=seed, apart=self.parts.repeats)
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
            Rows.coded,
            arities=arities,
            names=self.names,
            strata=self.strata,
            few=self.few,
            unlabelled=self.unlabelled,
        )


TrainingRows = Rows | PartedRows
"""Rows that a model is fitted to: in memory, on disk, or on the workers of a cluster."""


def rows_fingerprint(rows: TrainingRows) -> str:
    """A name for rows: the same wherever they lie, and in whatever order."""
    return digest_name(sum(rows.map(Rows.digest), np.zeros(4, np.uint64)))


def digest_name(digest: Words) -> str:
    """The name of rows with this digest."""
    return ROWS + fingerprint(digest)


def _worked(
    k: int, coded: CodedRows, *, work: Callable[[Rows], T], form: Callable[[CodedRows], Rows]
) -> T:
    return work(form(coded))


def _table(coded: CodedRows, *, form: Callable[[CodedRows], Rows], given: Any) -> Table:
    return form(coded).table(*given)


def _sampled(
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
