"""What a query says of variables of a circuit: codes that they may have, and where numbers lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairpc.core import Floats
from fairpc.data import Column

CodeSet = frozenset[int]
Spans = tuple[tuple[float, float], ...]
"""Intervals, each with its lower end and without its upper one."""


@dataclass(frozen=True)
class Said:
    """What is said of a variable: codes that it may have and, of a number, where it may lie."""

    codes: CodeSet
    spans: Spans | None = None

    def __and__(self, other: Said) -> Said:
        """Both at once."""
        spans = self.spans if other.spans is None else other.spans
        if self.spans is not None and other.spans is not None:
            meet = [(max(a, c), min(b, d)) for a, b in self.spans for c, d in other.spans]
            spans = tuple((low, high) for low, high in meet if low < high)
        return Said(self.codes & other.codes, spans)

    def weights(self, arity: int, column: Column | None = None) -> Floats:
        """Of each code of a variable: the share of it that fits."""
        fits = np.zeros(arity)
        fits[sorted(self.codes)] = 1.0
        if self.spans is None or column is None:
            return fits
        shares = [column.intervals.between(low, high) for low, high in self.spans]
        total: Floats = np.sum([np.zeros(arity), *shares], axis=0)
        return fits * np.minimum(total, 1.0)


Event = Mapping[int, Said]
"""What is said of some variables of a circuit."""


def both(one: Event, two: Event) -> Event:
    """Two events at once."""
    return {**one, **two} | {v: one[v] & two[v] for v in one.keys() & two.keys()}
