"""Equal rows merged, part by part: rows of codes as sorted keys with weights, which add up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fairpc.errors.arrays import Codes, Floats, Ints, Words

BUFFERED: Final = 1 << 19
"""Distinct rows of parts that are kept before they are merged."""

_WORD: Final = 1 << 63


@dataclass(frozen=True)
class Packing:
    """Rows of codes as few 64-bit words: numbers whose digits are the codes, missing = 0.

    The order of the words is the lexicographic order of the rows.
    """

    arities: tuple[int, ...]

    @property
    def words(self) -> tuple[range, ...]:
        """The columns that each word holds."""
        groups: list[range] = []
        size, start = 1, 0
        for j, arity in enumerate(self.arities):
            if size * (arity + 1) > _WORD:
                groups.append(range(start, j))
                size, start = 1, j
            size *= arity + 1
        return (*groups, range(start, len(self.arities)))

    def pack(self, columns: Sequence[Codes]) -> Words:
        """Words × rows."""
        result = np.zeros((len(self.words), len(columns[0])), np.uint64)
        for word, group in zip(result, self.words, strict=True):
            key = word.view(np.int64)
            ones = 0  # the digits of a missing code are 0: every code is one more
            for j in group:
                ones = ones * (self.arities[j] + 1) + 1
                key *= self.arities[j] + 1
                key += columns[j]
            key += ones
        return result

    def unpack(self, words: Words) -> Codes:
        """Rows × columns, column-major."""
        codes = np.empty((words.shape[1], len(self.arities)), np.int16, order="F")
        for word, group in zip(words, self.words, strict=True):
            key = word.view(np.int64)
            for j in reversed(group):
                key, digit = np.divmod(key, self.arities[j] + 1)
                codes[:, j] = digit - 1
        return codes


@dataclass(frozen=True, eq=False)
class Distinct:
    """Distinct rows in the order of their keys: words × rows, and a weight per row."""

    words: Words
    weights: Floats

    @classmethod
    def of(cls, words: Words, weights: Floats | None = None) -> Distinct:
        """The distinct rows among some; without weights, rows are counted."""
        if weights is not None:
            return _merged(words, weights)
        if len(words) > 1:
            return _merged(words, np.ones(words.shape[1]))
        ordered = np.sort(words[0])
        start = _starts(ordered[None])
        counts = np.diff(np.append(start, len(ordered))).astype(np.float64)
        return cls(ordered[start][None], counts)

    @property
    def n_rows(self) -> int:
        return len(self.weights)


def add_distinct(parts: Sequence[Distinct]) -> Distinct:
    """The distinct rows of all parts; weights are added in the order of the parts."""
    if len(parts) == 1:
        return parts[0]
    return _merged(
        np.concatenate([part.words for part in parts], axis=1),
        np.concatenate([part.weights for part in parts]),
    )


@dataclass
class DistinctSum:
    """Distinct rows added up as they come.

    Where more than ``most`` remain, ``spill`` is given them, and the sum starts anew.
    """

    most: int
    spill: Callable[[Distinct], object]
    n_spilled: int = 0
    _base: Distinct | None = None
    _pending: list[Distinct] = field(default_factory=list)

    def push(self, part: Distinct) -> None:
        self._pending.append(part)
        waiting = sum(p.n_rows for p in self._pending)
        base = 0 if self._base is None else self._base.n_rows
        if waiting > max(BUFFERED, base) or waiting + base > self.most:
            self._merge()

    def total(self) -> Distinct | None:
        """The sum; None where it was spilled, the last of it too."""
        self._merge()
        if self._base is not None and self.n_spilled:
            self._spill(self._base)
        return self._base

    def _merge(self) -> None:
        parts = [*([] if self._base is None else [self._base]), *self._pending]
        self._pending = []
        if not parts:
            return
        self._base = add_distinct(parts)
        # Half of the room must be left for what comes, or every part would be merged anew.
        if self._base.n_rows > self.most // 2:
            self._spill(self._base)

    def _spill(self, part: Distinct) -> None:
        self.spill(part)
        self.n_spilled += 1
        self._base = None


def _merged(words: Words, weights: Floats) -> Distinct:
    # Sorted parts stand one after the other: a stable sort merges them, in their order.
    order = np.argsort(words[0], kind="stable") if len(words) == 1 else np.lexsort(words[::-1])
    ordered = words[:, order]
    start = _starts(ordered)
    if not len(start):
        return Distinct(words, weights)
    return Distinct(ordered[:, start], np.add.reduceat(weights[order], start))


def _starts(ordered: Words) -> Ints:
    new = np.ones(ordered.shape[1], np.bool_)
    new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    return np.flatnonzero(new)
