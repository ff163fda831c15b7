"""Numbers inside their bins: all are as likely. An end bin reaches to the kept numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from fairpc.core import Codes, Floats
from fairpc.data._binning import round_number

DAY: Final = 86_400_000_000.0  #: microseconds of a day: the unit of dates
_NARROW: Final = 2.0**-22  # of a number: so close are its spellings in 32 bits
_FINEST: Final = 1e-290  # one over a width is a number


@dataclass(frozen=True, eq=False)
class Intervals:
    """Where the bins of a column start and end; a bin of one heavy number starts at its end."""

    start: Floats
    end: Floats
    step: float  #: 0 for real numbers; else values are whole multiples of it

    @classmethod
    def of(cls, edges: Sequence[float], ends: Sequence[float], step: float) -> Intervals:
        """Bins between edges, the first and the last up to the least and the greatest number."""
        bounds = np.array([ends[0], *edges, ends[1] + step])
        if step:
            bounds = np.ceil(bounds / step) * step
        start, end = bounds[:-1].copy(), bounds[1:].copy()
        narrow = end / 2 - start / 2 < np.maximum(_NARROW * np.abs(start), _FINEST) / 2
        for k in np.flatnonzero(narrow).tolist() if not step else ():
            least, last = np.nextafter([start[k], end[k]], -math.inf).tolist()
            start[k] = end[k] = round_number(least, max(last, float(start[k])))
        return cls(start, end, step)

    @cached_property
    def widths(self) -> Floats:
        """Of each bin; halves are subtracted, as a difference may be too large for a float."""
        return self.end / 2 - self.start / 2

    def log_density(self, unit: float) -> Floats:
        """log of the density in each bin, per ``unit``; 0 in a bin of one number: a mass."""
        one = self.widths == 0
        return np.where(one, 0.0, math.log(unit / 2) - np.log(np.where(one, 1.0, self.widths)))

    def below(self, x: float) -> Floats:
        """P(X < x | bin) of each bin."""
        if self.step and math.isfinite(x):
            x = math.ceil(x / self.step) * self.step
        with np.errstate(all="ignore"):
            inside = (x / 2 - self.start / 2) / self.widths
        return np.where(x <= self.start, 0.0, np.where(x >= self.end, 1.0, inside))

    def between(self, low: float, high: float) -> Floats:
        """P(low <= X < high | bin) of each bin."""
        return np.maximum(self.below(high) - self.below(low), 0.0)

    def quantiles(self, codes: Codes, shares: Floats | float) -> Floats:
        """The number below which a share of a bin lies, for each bin in ``codes``."""
        start, end = self.start[codes], self.end[codes]
        found = start * (1.0 - shares) + end * shares
        if self.step:
            found = np.floor(found / self.step) * self.step
        last = end - self.step if self.step else np.nextafter(end, -math.inf)
        return np.maximum(np.minimum(found, last), start)
