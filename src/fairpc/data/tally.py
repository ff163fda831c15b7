"""What a part of a table says of one column: its values counted per class, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.data.categories import is_integral, number_texts
from fairpc.data.points import MOST, RUNS, Points, add_points, widened
from fairpc.data.values import Values, ValueType, read_values
from fairpc.errors.arrays import Array, Bools, Floats, Ints, Words

_KEPT_HASHES: Final = 1024
_FEW_CELLS: Final = 24


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a part: class of each, and weight of each if rows do not all weigh 1.

    Of a column of theirs up to ``most`` distinct numbers are listed, as in ``Points``.
    """

    classes: Ints
    n_classes: int
    weights: Floats | None = None
    most: int | None = None

    def sums(self, ids: Array, n: int) -> Floats:
        """Weight per id from 0 to n - 1 and class; rows with id n are left out."""
        if self.weights is None and ids.dtype == np.int8 and n * self.n_classes <= _FEW_CELLS:
            return self._few_sums(ids, n)
        cell = np.multiply(ids, self.n_classes, dtype=np.int64)
        cell += self.classes
        flat = np.bincount(cell, self.weights, (n + 1) * self.n_classes)
        return flat.reshape(n + 1, self.n_classes)[:n].astype(np.float64)

    def _few_sums(self, ids: npt.NDArray[np.int8], n: int) -> Floats:
        """As ``sums``: for so few cells, comparing bytes with each is faster than indexing."""
        cell = ids * np.int8(self.n_classes) + self.narrow
        counts = [np.count_nonzero(cell == k) for k in range(n * self.n_classes)]
        return np.array(counts, np.float64).reshape(n, self.n_classes)

    @cached_property
    def narrow(self) -> npt.NDArray[np.int8]:
        """The classes as bytes, where they are few."""
        return self.classes.astype(np.int8)

    def some(self, chosen: Bools) -> Rows:
        weights = None if self.weights is None else self.weights[chosen]
        return replace(self, classes=self.classes[chosen], weights=weights)


@dataclass(frozen=True, eq=False)
class Repeats:
    """How often some values occur: those with the smallest hashes, so a fair choice of values.

    A value among the smallest of all is among the smallest of every part it is in:
    counts of parts add up to exact counts of the whole.
    """

    hashes: Words
    counts: Ints

    @classmethod
    def of(cls, values: Any, counts: Ints) -> Repeats:
        """Of distinct values: a polars series."""
        return cls(values.hash(0).to_numpy(), counts)._smallest()

    @property
    def none(self) -> bool:
        """Whether every value occurs once."""
        return bool((self.counts == 1).all())

    def _smallest(self) -> Repeats:
        hashes, ids = np.unique(self.hashes, return_inverse=True)
        counts = np.bincount(ids, self.counts, len(hashes)).astype(np.int64)
        return Repeats(hashes[:_KEPT_HASHES], counts[:_KEPT_HASHES])


@dataclass(frozen=True, eq=False)
class Tally:
    """One column of a part.

    Attributes:
        type: what its values are; None if all are missing.
        points: numbers, dates and booleans (0 and 1) with their weight per class.
        texts: distinct texts, a polars series, with a row of ``text_weights`` each.
        missing: weight without a value, per class.
        rest: weight of texts that are no longer listed, per class.
        whole: all numbers are whole.
        declared, remark: as in ``Values``.
        repeats: how often values occur, where not all of them are listed.
        parsed: texts that are nothing but numbers or dates as such, where not all are listed.
        most: up to so many texts are listed; ``MOST`` if None.
    """

    type: ValueType | None
    missing: Floats
    points: Points | None = None
    texts: Any = None
    text_weights: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    rest: Floats | None = None
    whole: bool = True
    declared: bool = False
    remark: str = ""
    repeats: Repeats | None = None
    parsed: Tally | None = None
    most: int | None = None

    @classmethod
    def of(cls, values: Values, rows: Rows, known: Any = None) -> Tally:
        """The values of a part. ``known`` lists texts to be expected: they are found faster."""
        missing = values.missing()
        holes = bool(missing.any())
        lost = rows.sums(~missing, 1)[0] if holes else np.zeros(rows.n_classes)
        if missing.all():
            return cls(None, lost)
        one = cls(
            values.type, lost, declared=values.declared, remark=values.remark, most=rows.most
        )  # fmt: skip
        if values.type == "text":
            ids, texts = text_ids(values.data, known)
            counts = rows.sums(ids, len(texts))
            seen = np.flatnonzero(counts.any(axis=1))
            if len(seen) < len(texts):
                texts, counts = texts.gather(seen), counts[seen]
            return replace(one, texts=texts, text_weights=counts)._bounded()
        data = values.data
        if holes:
            data, rows = data[~missing], rows.some(~missing)
        points = Points.count(data, rows.classes, rows.n_classes, rows.weights, rows.most)
        whole = values.type == "number" and is_integral(data)
        repeats = _repeats(data) if points.error and whole else None
        return replace(one, points=points, whole=whole, repeats=repeats)

    @property
    def complete(self) -> bool:
        """Whether every distinct value is listed."""
        return self.repeats is None and not (self.points is not None and self.points.error)

    def renamed(self, column: Ints, n_classes: int) -> Tally:
        """The tally with class ``j`` renamed ``column[j]``."""
        changed: dict[str, Any] = {"missing": widened(self.missing, column, n_classes)}
        if self.points is not None:
            changed["points"] = self.points.widened(column, n_classes)
        if self.texts is not None:
            changed["text_weights"] = widened(self.text_weights, column, n_classes)
        if self.rest is not None:
            changed["rest"] = widened(self.rest, column, n_classes)
        if self.parsed is not None:
            changed["parsed"] = self.parsed.renamed(column, n_classes)
        return replace(self, **changed)

    def _bounded(self) -> Tally:
        """Texts beyond the bound are counted together, the lightest first."""
        if len(self.texts) <= (self.most or MOST):
            return self
        mass = self.text_weights.sum(axis=1)
        repeats, parsed = self.repeats, self.parsed
        if self.rest is None:
            repeats, parsed = _repeats_of(self), _parsed(self)
        order = np.argsort(-mass, kind="stable")
        kept = np.sort(order[:RUNS])
        rest = self.text_weights[order[RUNS:]].sum(axis=0)
        return replace(
            self, texts=self.texts.gather(kept), text_weights=self.text_weights[kept],
            rest=rest if self.rest is None else self.rest + rest, repeats=repeats, parsed=parsed,
        )  # fmt: skip


def add_tallies(parts: Sequence[Tally]) -> Tally:
    """The column of all parts, whose classes must have the same names."""
    missing = np.sum([part.missing for part in parts], axis=0)
    known = [part for part in parts if part.type is not None]
    if not known:
        return Tally(None, missing)
    first = replace(
        known[0], missing=missing, remark=max(part.remark for part in known),
        whole=all(part.whole for part in known),
    )  # fmt: skip
    if first.type == "text":
        return _add_texts(first, known)
    points = add_points([part.points for part in known if part.points is not None])
    repeats = None
    if first.whole and points.error:
        repeats = _add_repeats([part.repeats or _repeats_of(part) for part in known])
    return replace(first, points=points, repeats=repeats)


def text_ids(texts: Any, known: Any = None) -> tuple[Array, Any]:
    """Number of each text of a series among distinct ones, and beyond them if null; and these."""
    import polars as pl

    distinct = texts.unique().drop_nulls() if known is None else known
    ids = number_texts(texts, distinct.to_list())
    if known is not None:
        found = np.count_nonzero(ids < len(known))
        if found < len(texts) - texts.null_count():
            new = texts.filter(ids == len(known)).unique().drop_nulls()
            distinct = pl.concat([known, new])
            ids = number_texts(texts, distinct.to_list())
    return ids, distinct


def _add_texts(first: Tally, parts: Sequence[Tally]) -> Tally:
    import polars as pl

    ids, texts = text_ids(pl.concat([part.texts for part in parts]))
    order = texts.arg_sort()
    rank = np.empty(len(texts), np.int64)
    rank[order.to_numpy()] = np.arange(len(texts))
    weights = np.zeros((len(texts), len(first.missing)))
    np.add.at(weights, rank[ids], np.concatenate([part.text_weights for part in parts]))
    rests = [part.rest for part in parts if part.rest is not None]
    repeats = parsed = None
    if rests:
        repeats = _add_repeats([part.repeats or _repeats_of(part) for part in parts])
        read = [part.parsed if part.rest is not None else _parsed(part) for part in parts]
        known = [part for part in read if part is not None]
        if len({part.type for part in known}) == 1 and len(known) == len(parts):
            parsed = replace(add_tallies(known), missing=first.missing)
    return replace(
        first, texts=texts.gather(order), text_weights=weights,
        rest=np.sum(rests, axis=0) if rests else None, repeats=repeats, parsed=parsed,
    )._bounded()  # fmt: skip


def _add_repeats(parts: Sequence[Repeats]) -> Repeats:
    hashes = np.concatenate([part.hashes for part in parts])
    return Repeats(hashes, np.concatenate([part.counts for part in parts]))._smallest()


def _repeats_of(part: Tally) -> Repeats:
    """Of a part that lists all of its values."""
    if part.points is not None:
        return Repeats.of(_keys(part.points.values), _whole(part.points.weights.sum(axis=1)))
    return Repeats.of(part.texts, _whole(part.text_weights.sum(axis=1)))


def _parsed(part: Tally) -> Tally | None:
    """Listed texts as numbers or dates; None where some are neither."""
    import narwhals as nw

    values = read_values("", nw.from_native(part.texts, series_only=True), parse=not part.declared)
    if values.type == "text":
        return None
    points = Points.of(values.data, part.text_weights)
    whole = values.type == "number" and is_integral(values.data)
    one = Tally(values.type, part.missing, points, remark=values.remark, whole=whole)
    return (
        replace(one, repeats=part.repeats or _repeats_of(part)) if points.error and whole else one
    )


def _repeats(data: Array) -> Repeats:
    """Of whole numbers, one per row."""
    hashes = _keys(data).hash(0).to_numpy()
    return Repeats(hashes, np.ones(len(hashes), np.int64))._smallest()


def _keys(whole: Array) -> Any:
    """Whole numbers under one type, so that equal ones have equal hashes."""
    import polars as pl

    return pl.Series(whole.astype(np.int64))


def _whole(mass: Floats) -> Ints:
    return np.ceil(mass).astype(np.int64)
