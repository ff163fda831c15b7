"""Training rows as codes: groups, labels, features, weights. -1 = missing, anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from fairpc.circuit import Circuit, RowPlan, prepare
from fairpc.core import Array, Codes, Floats, Ints, LearningError, Words, row_digest
from fairpc.data import CodedRows, Packing, Table, check_codes, check_weights
from fairpc.models._strata import UNDIVIDED, Strata

if TYPE_CHECKING:
    from fairpc.models._top import Layout

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Rows:
    """Weighted rows (s, d, x), and the fair decision of those for which it is known.

    Attributes:
        s, d: group and observed label of each row.
        x: features, one column each.
        n_groups, n_classes, arities: number of values of S, of D, and of each feature.
        names: name of each feature.
        f: fair decision of each row, -1 where it is hidden; None where it is hidden in all.
        copies: how many rows of the table each row is; None where whole weights say it.
        strata: which features make the strata within which Df is independent of S.
    """

    s: Codes
    d: Codes
    x: Codes
    weights: Floats
    n_groups: int
    n_classes: int
    arities: Ints
    names: tuple[str, ...]
    f: Codes | None = None
    copies: Floats | None = None
    strata: Strata = UNDIVIDED

    @classmethod
    def coded(
        cls,
        rows: CodedRows,
        arities: Sequence[int],
        names: tuple[str, ...],
        *,
        fair: bool = False,
        strata: Strata = UNDIVIDED,
    ) -> Rows:
        """Rows of codes S, D, X and, with ``fair``, Df, as a ``RowEncoder`` makes them."""
        n_groups, n_classes, *sizes = arities
        last = len(sizes) + 2 - fair
        made = cls(
            rows.codes[:, 0],
            rows.codes[:, 1],
            rows.codes[:, 2:last],
            rows.weights,
            n_groups,
            n_classes,
            np.array(sizes[: last - 2], np.int64),
            names,
            copies=rows.copies,
            strata=strata,
        )
        return made.with_fair_decisions(rows.codes[:, last]) if fair else made

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
        f: npt.ArrayLike | None = None,
        strata: Strata = UNDIVIDED,
    ) -> Rows:
        """Checked rows; numbers of values default to one more than the largest code."""
        features = np.asarray(x)
        if features.ndim != 2 or not features.shape[1]:
            raise LearningError(f"features have shape {features.shape}: give rows × columns")
        sizes = _sizes(features) if arities is None else np.asarray(arities, np.int64)
        given = (f"X{j + 1}" for j in range(len(sizes))) if names is None else names
        labels = tuple(given)
        groups, classes = _column(s, "S", n_groups), _column(d, "D", n_classes)
        if not len(groups[0]) == len(classes[0]) == len(features):
            raise LearningError(
                f"{len(groups[0])} groups, {len(classes[0])} labels and {len(features)} rows of "
                "features: give one each per row"
            )
        codes = check_codes(features, sizes, labels)
        columns = groups[0], classes[0], codes, check_weights(weights, len(features))
        result = cls(*columns, groups[1], classes[1], sizes, labels, strata=strata)
        return result if f is None else result.with_fair_decisions(f)

    @property
    def n_rows(self) -> int:
        return len(self.s)

    @property
    def n_anchors(self) -> int:
        """Rows of the table whose fair decision is known."""
        return 0 if self.f is None else int(self.each[self.f >= 0].sum())

    def with_fair_decisions(self, f: npt.ArrayLike | None) -> Rows:
        """The same rows with these fair decisions known; None hides them all."""
        if f is None:
            return replace(self, f=None)
        column = np.asarray(f).reshape(-1, 1)
        if len(column) != self.n_rows:
            raise LearningError(
                f"{len(column)} fair decisions and {self.n_rows} rows: give one each per row, -1 "
                "where it is hidden"
            )
        codes = check_codes(column, [self.n_classes], ("Df",))[:, 0]
        return replace(self, f=codes if (codes >= 0).any() else None)

    def with_strata(self, strata: Strata) -> Rows:
        """The same rows with these strata."""
        return replace(self, strata=strata)

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
        """Whether nothing is missing but, perhaps, fair decisions."""
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
        codes = layout.codes(self.s, self.d, self.x, self.f)
        return Table.of(codes, self.weights, arities=arities, names=names)

    def map(self, work: Callable[[Rows], T]) -> Iterator[T]:
        """What ``work`` makes of the rows: all are in memory."""
        yield work(self)

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """The rows to learn structure from: all."""
        return self

    def digest(self) -> Words:
        """Numbers that name the rows and add up; see ``row_digest``."""
        arities = (self.n_groups, self.n_classes, *self.arities.tolist(), self.n_classes)
        known = np.full(self.n_rows, -1, np.int16) if self.f is None else self.f
        words = Packing(arities).pack([self.s, self.d, *self.x.T, known])
        unit = self.unit
        # Row by row, for a batch does not know whether all weights of its table are whole.
        whole = unit == np.floor(unit)
        counts, units = np.where(whole, self.weights, self.each), np.where(whole, 1.0, unit)
        return row_digest(np.vstack([words, units.view(np.uint64)]), counts)

    def take(self, rows: Ints) -> Rows:
        """Some of the rows."""
        every = {name: getattr(self, name) for name in ("s", "d", "weights", "f", "copies")}
        taken: Any = {name: None if v is None else v[rows] for name, v in every.items()}
        return replace(self, x=np.asfortranarray(self.x[rows]), **taken)

    def cell(self, d: int, s: int) -> Table:
        """Features of the rows with label ``d`` in group ``s``; a known fair decision goes first.

        The label stands for the fair decision where that is hidden.
        """
        decided = self.d if self.f is None else np.where(self.f >= 0, self.f, self.d)
        here = np.flatnonzero((decided == d) & (self.s == s))
        return Table(np.asfortranarray(self.x[here]), self.weights[here], self.arities, self.names)


def _sizes(codes: Array) -> Ints:
    highest = np.asarray(codes.max(axis=0, initial=-1), np.int64)
    return np.maximum(highest + 1, 1)


def _column(values: npt.ArrayLike, name: str, size: int | None) -> tuple[Codes, int]:
    """A column of codes that must have two values at least, and how many it has."""
    column = np.asarray(values).reshape(-1, 1)
    if size is None:
        size = int(_sizes(column)[0])
    codes = check_codes(column, [size], (name,))[:, 0]
    seen = np.unique(codes[codes >= 0])
    if len(seen) < 2:
        raise LearningError(
            f"column {name!r} has {len(seen)} distinct value in the rows: it needs at least two"
        )
    return codes, size
