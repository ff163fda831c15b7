"""What some rows say of one column: its values counted per class, in bounded memory.

Summaries of batches add up to the summary of the table. Up to ``MOST`` distinct values are
listed exactly; of more, numbers become a sketch whose ranks are known to a bound, and texts are
listed where they are heavy enough to matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from fairpc.core import Array, Bools, Floats, Integers, Ints, need_threads
from fairpc.data._values import Values, ValueType, is_integral, number_texts

_KEPT_HASHES: Final = 1024


@dataclass(frozen=True, eq=False)
class RowClasses:
    """The rows of a batch: class of each, and weight of each if rows do not all weigh 1."""

    classes: Ints
    n_classes: int
    weights: Floats | None = None
    most: int | None = None  #: distinct values of a column listed exactly; ``MOST`` if None

    def sums(self, ids: Array, n: int) -> Floats:
        """Weight per id from 0 to n - 1 and class; rows with id n are left out."""
        cell = np.multiply(ids, self.n_classes, dtype=np.int64)
        cell += self.classes
        flat = np.bincount(cell, self.weights, (n + 1) * self.n_classes)
        return flat.reshape(n + 1, self.n_classes)[:n].astype(np.float64)

    @cached_property
    def whole(self) -> bool:
        """Whether weights count rows."""
        return self.weights is None or bool((self.weights == np.floor(self.weights)).all())

    def some(self, chosen: Bools) -> RowClasses:
        weights = None if self.weights is None else self.weights[chosen]
        return replace(self, classes=self.classes[chosen], weights=weights)


@dataclass(frozen=True, eq=False)
class Repeats:
    """How often some values occur: those with the smallest hashes, so a fair choice of values.

    A value among the smallest of all is among the smallest of every batch it is in:
    counts of batches add up to exact counts of the table.
    """

    hashes: Array
    counts: Ints

    @classmethod
    def of(cls, values: Any, counts: Ints | None = None) -> Repeats:
        """Of a polars series: each value once, or as often as ``counts`` says."""
        hashes = values.hash(0).to_numpy()
        return cls(hashes, np.ones(len(hashes), np.int64) if counts is None else counts).smallest()

    @property
    def none(self) -> bool:
        """Whether every value occurs once."""
        return bool((self.counts == 1).all())

    def smallest(self) -> Repeats:
        hashes, ids = np.unique(self.hashes, return_inverse=True)
        counts = np.bincount(ids, self.counts, len(hashes)).astype(np.int64)
        return Repeats(hashes[:_KEPT_HASHES], counts[:_KEPT_HASHES])


@dataclass(frozen=True, eq=False)
class Numbers:
    """Distinct numbers, dates or booleans (0 and 1)."""

    type: ValueType
    sketch: QuantileSketch
    whole: bool  #: all are whole numbers
    remark: str = ""  #: this and the next are as in ``Values``
    decimal: str = "."
    lost: Floats | None = None  #: weight of numbers that mean "missing", per class

    @property
    def listed(self) -> bool:
        """Whether every distinct value is listed."""
        return not self.sketch.error

    @property
    def weights(self) -> Floats:
        return self.sketch.weights

    @property
    def known_weight(self) -> float:
        """Of all values."""
        return float(self.weights.sum())

    @property
    def values(self) -> Values:
        """The listed values, ascending."""
        data = self.sketch.values
        data = data.astype(np.int8) if self.type == "boolean" else data
        return Values(self.type, data, decimal=self.decimal)

    def repeats(self) -> Repeats | None:
        """How often listed whole numbers occur, where weights count rows."""
        return _repeats(_keys(self.sketch.values), self.weights) if self.whole else None

    def renamed(self, column: Ints, n_classes: int) -> Numbers:
        weights = widened(self.weights, column, n_classes)
        lost = None if self.lost is None else widened(self.lost, column, n_classes)
        return replace(self, sketch=replace(self.sketch, weights=weights), lost=lost)


@dataclass(frozen=True, eq=False)
class Texts:
    """Distinct texts with a row of ``weights`` each."""

    values: Values  #: the listed texts, and how they are to be read
    weights: Floats
    rest: Floats | None = None  #: weight of texts no longer listed, per class; None: all are
    #: all texts as numbers or dates, where not all are listed and all are such
    numbers: Numbers | None = None

    @property
    def texts(self) -> Any:
        """The listed texts as a polars series."""
        return self.values.data

    @property
    def remark(self) -> str:
        return self.values.remark

    @property
    def known_weight(self) -> float:
        """Of all texts, listed or not."""
        return float(self.weights.sum()) + (0.0 if self.rest is None else float(self.rest.sum()))

    @property
    def listed(self) -> bool:
        """Whether every distinct text is listed."""
        return self.rest is None

    def repeats(self) -> Repeats:
        """How often listed texts occur, where weights count rows."""
        return _repeats(self.texts, self.weights)

    def as_numbers(self, most: int | None = None) -> Numbers | None:
        """The texts as numbers or dates, up to ``most``; None where some are neither."""
        if self.rest is not None:
            return self.numbers
        values = self.values.parsed()
        if values.type == "text":
            return None
        whole = values.type == "number" and is_integral(values.data)
        missing = values.missing()
        sketch = QuantileSketch.of(values.data[~missing], self.weights[~missing], most)
        lost = self.weights[missing].sum(axis=0) if missing.any() else None
        return Numbers(values.type, sketch, whole, values.remark, values.decimal, lost)

    def renamed(self, column: Ints, n_classes: int) -> Texts:
        rest = None if self.rest is None else widened(self.rest, column, n_classes)
        numbers = self.numbers and self.numbers.renamed(column, n_classes)
        weights = widened(self.weights, column, n_classes)
        return replace(self, weights=weights, rest=rest, numbers=numbers)

    def bounded(self, most: int | None, declared: bool) -> Texts:
        """The heaviest texts where there are more than ``most``; others are counted together."""
        if len(self.texts) <= (most or MOST):
            return self
        numbers = None if declared else self.as_numbers(most)
        # By name before by weight: which of equally heavy texts stay must not be left to chance.
        named = self.texts.arg_sort().to_numpy()
        order = named[np.argsort(-self.weights[named].sum(axis=1), kind="stable")]
        kept = np.sort(order[:RUNS])
        rest = self.weights[order[RUNS:]].sum(axis=0)
        return replace(
            self,
            values=replace(self.values, data=self.texts.gather(kept)),
            weights=self.weights[kept],
            rest=rest if self.rest is None else self.rest + rest,
            numbers=numbers,
        )


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """One column of some rows."""

    missing: Floats  #: weight without a value, per class
    content: Numbers | Texts | None = None  #: the values; None where all are missing
    declared: bool = False  #: the frame's own type says that these are categories
    #: how often values occur, where ``content`` does not show it: not all are listed, or weights
    #: do not count rows
    repeats: Repeats | None = field(default=None, repr=False)

    @classmethod
    def of(cls, values: Values, rows: RowClasses, known: Any = None) -> ColumnSummary:
        """The values of some rows. ``known`` lists texts to be expected: they are found faster."""
        missing = values.missing()
        holes = bool(missing.any())
        lost = rows.sums(~missing, 1)[0] if holes else np.zeros(rows.n_classes)
        if missing.all():
            return cls(lost)
        if values.type == "text":
            return cls._of_texts(values, rows, lost, known)
        data = values.data
        if holes:
            data, rows = data[~missing], rows.some(~missing)
        sketch = QuantileSketch.count(data, rows.classes, rows.n_classes, rows.weights, rows.most)
        whole = values.type == "number" and is_integral(data)
        counted = whole and (sketch.error or not rows.whole)
        repeats = Repeats.of(_keys(data)) if counted else None
        content = Numbers(values.type, sketch, whole, values.remark)
        return cls(lost, content, values.declared, repeats)

    @classmethod
    def _of_texts(cls, values: Values, rows: RowClasses, lost: Floats, known: Any) -> ColumnSummary:
        ids, texts = text_ids(values.data, known)
        counts = rows.sums(ids, len(texts))
        repeats = None
        if not rows.whole:
            repeats = Repeats.of(texts, np.bincount(ids, minlength=len(texts))[: len(texts)])
        seen = np.flatnonzero(counts.any(axis=1))
        listed = replace(values, data=texts.gather(seen), declared=False)
        every = Texts(listed, counts[seen])
        content = every.bounded(rows.most, values.declared)
        if not content.listed:
            repeats = repeats or every.repeats()
        return cls(lost, content, values.declared, repeats)

    @property
    def weights(self) -> Floats:
        """Weight per listed value and class."""
        if self.content is None:
            return np.zeros((0, len(self.missing)))
        return self.content.weights

    @cached_property
    def read(self) -> ColumnSummary:
        """The column with texts that are nothing but numbers or dates as such."""
        if not isinstance(self.content, Texts) or self.declared:
            return self
        content = self.content.as_numbers(len(self.content.texts))
        if content is None:
            return self
        missing = self.missing if content.lost is None else self.missing + content.lost
        return replace(self, content=content if len(content.weights) else None, missing=missing)

    def renamed(self, column: Ints, n_classes: int) -> ColumnSummary:
        """The summary with class ``j`` renamed ``column[j]``."""
        content = None if self.content is None else self.content.renamed(column, n_classes)
        return replace(self, missing=widened(self.missing, column, n_classes), content=content)


def add_columns(parts: Sequence[ColumnSummary], most: int | None = None) -> ColumnSummary:
    """The column of all batches, whose classes must have the same names."""
    missing = np.sum([part.missing for part in parts], axis=0)
    known = [(part, part.content) for part in parts if part.content is not None]
    if not known:
        return ColumnSummary(missing)
    declared = known[0][0].declared
    content: Numbers | Texts
    if isinstance(known[0][1], Texts):
        content = _add_texts([f for _, f in known if isinstance(f, Texts)], most, declared)
    else:
        content = _add_numbers([f for _, f in known if isinstance(f, Numbers)], most)
    counted = not content.listed or any(part.repeats is not None for part, _ in known)
    each = [part.repeats or f.repeats() for part, f in known] if counted else []
    counts = [repeats for repeats in each if repeats is not None]
    repeats = None
    if counts and len(counts) == len(known):
        hashes = np.concatenate([some.hashes for some in counts])
        repeats = Repeats(hashes, np.concatenate([some.counts for some in counts])).smallest()
    return ColumnSummary(missing, content, declared, repeats)


def text_ids(texts: Any, known: Any = None) -> tuple[Array, Any]:
    """Number of each text of a series among distinct ones, and beyond them if null; and these.

    They are sorted, because polars gives them in any order, and sums of weights have an order.
    """
    import polars as pl

    need_threads("to learn from text")
    distinct = texts.unique().drop_nulls().sort() if known is None else known
    ids = number_texts(texts, distinct.to_list())
    if known is not None:
        found = np.count_nonzero(ids < len(known))
        if found < len(texts) - texts.null_count():
            new = texts.filter(ids == len(known)).unique().drop_nulls().sort()
            distinct = pl.concat([known, new])
            ids = number_texts(texts, distinct.to_list())
    return ids, distinct


def _add_numbers(parts: Sequence[Numbers], most: int | None) -> Numbers:
    return replace(
        parts[0],
        sketch=add_sketches([part.sketch for part in parts], most),
        whole=all(part.whole for part in parts),
        remark=max(part.remark for part in parts),
        lost=_sum([part.lost for part in parts]),
    )


def _sum(parts: Sequence[Floats | None]) -> Floats | None:
    """The sum of what there is; None of nothing."""
    known = [part for part in parts if part is not None]
    total: Floats | None = np.sum(known, axis=0) if known else None
    return total


def _add_texts(parts: Sequence[Texts], most: int | None, declared: bool) -> Texts:
    import polars as pl

    ids, texts = text_ids(pl.concat([part.texts for part in parts]))
    weights = np.zeros((len(texts), parts[0].weights.shape[1]))
    np.add.at(weights, ids, np.concatenate([part.weights for part in parts]))
    rest, numbers = _sum([part.rest for part in parts]), None
    if rest is not None and not declared:
        each = [part.as_numbers(most) for part in parts]
        read = [one for one in each if one is not None]
        if len(read) == len(each) and len({one.type for one in read}) == 1:
            numbers = _add_numbers(read, most)
    return replace(
        parts[0],
        values=replace(parts[0].values, data=texts, remark=max(part.remark for part in parts)),
        weights=weights,
        rest=rest,
        numbers=numbers,
    ).bounded(most, declared)


def _repeats(values: Any, weights: Floats) -> Repeats:
    return Repeats.of(values, np.ceil(weights.sum(axis=1)).astype(np.int64))


def _keys(whole: Array) -> Any:
    """Whole numbers under one type, so that equal ones have equal hashes."""
    import polars as pl

    return pl.Series(whole.astype(np.int64))


MOST: Final = 1 << 15  #: up to so many distinct numbers are kept exactly
RUNS: Final = 1 << 13
"""Runs that are left of more. A run holds at most two parts in ``RUNS`` of the weight."""
FAN_IN: Final = 32  #: summaries that are added up at once: each such step may join once more


@dataclass(frozen=True, eq=False)
class QuantileSketch:
    """Numbers, ascending, with a weight per class."""

    values: Array  #: int64 or float64, no two equal
    weights: Floats  #: one row per value, one column per class
    error: float = 0.0  #: how far the weight below a number may be off; 0: nothing was joined

    @classmethod
    def count(
        cls,
        values: Array,
        classes: Integers,
        n_classes: int,
        weights: Floats | None = None,
        most: int | None = None,
    ) -> QuantileSketch:
        """The sketch of rows; every class is joined by itself first, so that sorting is cheap."""
        if values.dtype.kind in "iu" and len(values):
            low, span = int(values.min()), int(values.max()) - int(values.min()) + 1
            if span <= MOST:
                # Whole numbers that lie close together are counted without sorting.
                cell = (values.astype(np.int64) - low) * n_classes + classes
                counts = np.bincount(cell, weights, span * n_classes).reshape(span, n_classes)
                seen = np.flatnonzero(counts.any(axis=1))
                return cls(seen + low, counts[seen].astype(np.float64))
        parts = []
        for k in range(n_classes):
            here = np.flatnonzero(classes == k) if n_classes > 1 else slice(None)
            some = None if weights is None else weights[here]
            distinct, mass, error = _counted(values[here], some, most or MOST)
            table = np.zeros((len(distinct), n_classes))
            table[:, k] = mass
            parts.append(cls(distinct, table, error).joined(most))
        return add_sketches(parts, most)

    @classmethod
    def of(
        cls, values: Array, weights: Floats, most: int | None = None, error: float = 0.0
    ) -> QuantileSketch:
        """The sketch of numbers in any order, with a row of weights each."""
        # A stable sort adds up in the order given, and merges lists that are sorted themselves.
        order = np.argsort(values, kind="stable")
        values, weights = values[order], weights[order]
        start = run_starts(values)
        if len(start) < len(values):
            values, weights = values[start], np.add.reduceat(weights, start, axis=0)
        return cls(values, weights, error).joined(most)

    def joined(self, most: int | None = None, runs: int = RUNS) -> QuantileSketch:
        """The same numbers in at most about ``runs`` runs, if there are more than ``most``.

        A number that holds as much as a run stays by itself.
        """
        n = len(self.values)
        if n <= (most or MOST):
            return self
        weight = self.weights.sum(axis=1)
        total = float(weight.sum())
        middle = np.cumsum(weight) - weight / 2
        part = np.minimum((runs * (middle / total)).astype(np.int64), runs - 1)
        heavy = weight * runs >= total
        start = run_starts(part, heavy)
        stop = np.append(start[1:], n)
        mass = np.add.reduceat(weight, start)
        # The first value with half of its run's weight at or below it.
        before = np.concatenate([[0.0], np.cumsum(weight)])
        median = np.searchsorted(before[1:], before[start] + mass / 2)
        median = np.clip(median, start, stop - 1)
        several = stop - start > 1
        moved = float(mass[several].max(initial=0.0)) / 2
        joined = np.add.reduceat(self.weights, start, axis=0)
        return QuantileSketch(self.values[median], joined, self.error + moved)


def add_sketches(parts: Sequence[QuantileSketch], most: int | None = None) -> QuantileSketch:
    """The sketch of all rows of several batches."""
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([part.values for part in parts])
    weights = np.concatenate([part.weights for part in parts])
    return QuantileSketch.of(values, weights, most, sum(part.error for part in parts))


def widened(weights: Floats, column: Ints, n_classes: int) -> Floats:
    """A table whose column ``j`` becomes column ``column[j]`` of ``n_classes``."""
    result = np.zeros((*weights.shape[:-1], n_classes))
    result[..., column] = weights
    return result


def _counted(values: Array, weights: Floats | None, most: int) -> tuple[Array, Floats, float]:
    """Values, ascending, with their weights: the distinct ones; if many, runs and their error."""
    order = None if weights is None else np.argsort(values, kind="stable")
    ordered = np.sort(values) if order is None else values[order]
    long = weights is None and len(ordered) > most
    if long and np.count_nonzero(ordered[1:] != ordered[:-1]) >= most:
        return _joined_rows(ordered)
    start = run_starts(ordered)
    if weights is None or not len(start):
        return ordered[start], np.diff(np.append(start, len(ordered))).astype(np.float64), 0.0
    return ordered[start], np.add.reduceat(weights[order], start), 0.0


def _joined_rows(ordered: Array) -> tuple[Array, Floats, float]:
    """As ``QuantileSketch.joined``, for sorted rows of weight 1, which need not be listed."""
    n = len(ordered)
    left = np.arange(RUNS) * n // RUNS
    at = ordered[left]
    # Rows with equal values stay together, and apart from others where they fill a run.
    inside = np.flatnonzero(ordered[left - 1] == at)
    left[inside] = np.searchsorted(ordered, at[inside], side="left")
    right = np.searchsorted(ordered, at[1:][at[1:] == at[:-1]], side="right")
    bounds = np.append(left, n)
    if len(inside):
        bounds = np.unique(np.concatenate([bounds, right]))
    start, stop = bounds[:-1], bounds[1:]
    several = ordered[start] != ordered[stop - 1]
    moved = float((stop - start)[several].max(initial=0)) / 2
    return ordered[(start + stop) // 2], (stop - start).astype(np.float64), moved


def run_starts(ordered: Array, alone: Bools | None = None) -> Ints:
    """Where each run of equal values begins; a value that is ``alone`` is a run by itself."""
    new = np.ones(len(ordered), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    if alone is not None:
        new[1:] |= alone[1:] | alone[:-1]
    return np.flatnonzero(new)
