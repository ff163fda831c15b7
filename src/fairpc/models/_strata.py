"""Strata: legitimate factors A, within which Df is independent of S.

    P(s, a) P(f | a) P(d | f, s, a) P(x | f, s, a)

Where Df is not independent of S in the whole table, it may still be so given A: hours, experience,
the amount asked for. A stratum is one crossing of the values of the columns of A, a subgroup the
rows of one group in one stratum. Each subgroup has a mechanism of its own. Without columns there is
one stratum, and the model is the paper's.

P(f | s, a) of two groups may also differ, by ``delta`` at most: each group then has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from fairpc.core import Array, Bools, Codes, Ints, LearningError

MAX_STRATA: Final = 256
"""Every stratum has circuits of its own, or leaves of a forest."""


@dataclass(frozen=True)
class Strata:
    """Which columns of X make the strata."""

    columns: tuple[int, ...] = ()  #: numbers of the columns
    sizes: tuple[int, ...] = ()  #: number of values of each
    delta: float = 0.0  #: by how much P(Df = f | s, a) of two groups may differ

    def __post_init__(self) -> None:
        if self.n > MAX_STRATA:
            raise LearningError(
                f"the columns of given make {self.n} strata: {MAX_STRATA} are the most; give fewer "
                "columns, or columns with fewer values"
            )

    @classmethod
    def of(cls, columns: Sequence[int], arities: Sequence[int], delta: float = 0.0) -> Strata:
        """The strata of some columns of X, all of whose arities are given."""
        return cls(tuple(columns), tuple(int(arities[j]) for j in columns), delta)

    def __bool__(self) -> bool:
        return bool(self.columns)

    @property
    def n(self) -> int:
        """Number of strata."""
        return prod(self.sizes)

    def codes(self, x: Codes) -> Ints:
        """Stratum of each row, -1 where a value of it is missing."""
        result, known = np.zeros(len(x), np.int64), np.ones(len(x), np.bool_)
        for j, size in zip(self.columns, self.sizes, strict=True):
            result = result * size + x[:, j]
            known &= x[:, j] >= 0
        return np.where(known, result, -1)

    def values(self, a: int) -> tuple[int, ...]:
        """Code of each column in a stratum."""
        return tuple(int(v) for v in np.unravel_index(a, self.sizes)) if self.columns else ()

    def subgroups(self, s: Codes, x: Codes) -> Codes:
        """s · n + a of each row, -1 where group or stratum is not known."""
        if not self:
            return s
        a = self.codes(x)
        return np.where((s >= 0) & (a >= 0), s * self.n + a, -1).astype(np.int16)

    def allows(self, s: Codes, x: Codes, g: Ints) -> Bools:
        """Whether what is known of each row allows the subgroup that is given for it."""
        result: Bools = (s < 0) | (s == g // self.n)
        for j, value in zip(self.columns, self._values_of(g % self.n), strict=True):
            result &= (x[:, j] < 0) | (x[:, j] == value)
        return result

    def placed(self, x: Codes, a: Ints | int) -> Codes:
        """The rows with the values of these strata."""
        if not self:
            return x
        result = x.copy(order="F")
        for j, value in zip(self.columns, self._values_of(a), strict=True):
            result[:, j] = value
        return result

    def widened(self, rest: Codes, n_features: int) -> Codes:
        """Rows of all features from the rest of them; the columns of the strata are missing."""
        if not self:
            return rest
        result = np.full((len(rest), n_features), -1, np.int16, order="F")
        result[:, self.rest(n_features)] = rest
        return result

    def rest(self, n_features: int) -> list[int]:
        """The columns of X that make no strata."""
        return [j for j in range(n_features) if j not in self.columns]

    def _values_of(self, a: Ints | int) -> tuple[Array, ...]:
        return np.unravel_index(np.asarray(a), self.sizes) if self.columns else ()


UNDIVIDED: Final = Strata()
"""One stratum: Df is independent of S in the whole table, as in the paper."""
