"""Gaps between groups in production: intervals that stay valid however often one looks.

"betting" rests on the wealth of gamblers. For each candidate mean m two bet, one that the mean is
larger and one that it is smaller. A bet is fixed before the score it is made on is seen, so that
at the true mean wealth is a fair game, and stays under 1/α for ever with probability 1 − α
(Ville): large wealth is evidence, whenever one looks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from operator import add
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    FileFormatError,
    Floats,
    MetricError,
    Record,
    check_choice,
    check_groups,
    check_level,
    check_scores,
    notebook_html,
    one_number,
    serialise,
    whole_number,
)
from fairpc.evidence._intervals import Interval

MonitorMethod = Literal["mixture", "betting"]
_FORMAT: Final = "fairpc-parity-monitor"
_SETTINGS: Final = ("groups", "level", "tolerance", "method", "tuned_for")
GRID: Final = np.linspace(0.0, 1.0, 257)
# Below one, so that no score in [0, 1] can take more than the wealth there is.
_MOST: Final = 0.75
_CHUNK: Final = 4096
_LOOKED: Final = 2000  # looks that are kept, times pairs of groups
_FEWEST_LOOKS: Final = 16


@dataclass(frozen=True)
class MonitorGap(Record):
    """Two groups so far: last minus first, with an interval valid at all times together."""

    first: Any  #: the groups
    last: Any
    n_first: int  #: rows seen of each
    n_last: int
    difference: float  #: of mean scores; NaN until both groups were seen
    interval: Interval  #: covers the true difference at every look, with the monitor's level
    alarm: bool  #: the interval lies outside ±tolerance


@dataclass(frozen=True)
class Look:
    """What a monitor said at one time."""

    n: int  #: rows seen by then
    #: of every pair, in the order of ``gaps``; NaN until both groups were seen
    differences: tuple[float, ...]
    intervals: tuple[Interval, ...]  #: of these


@dataclass(eq=False)
class _Stream:
    """Sums of one group's scores and, for betting, log wealth on the grid."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0
    up: Floats = field(default_factory=lambda: np.zeros(len(GRID)))
    down: Floats = field(default_factory=lambda: np.zeros(len(GRID)))

    @property
    def mean(self) -> float:
        return self.total / self.n if self.n else math.nan

    def variance(self) -> float:
        """Of one score, with one pseudo-score 0 and one 1: never taken for 0."""
        mean = (self.total + 1) / (self.n + 2)
        return (self.squares + 1) / (self.n + 2) - mean * mean


class ParityMonitor:
    """Watches the difference of mean scores (0/1 scores: of rates) between groups.

    "mixture" is a normal-mixture confidence sequence with estimated variances: narrow, its
    guarantee asymptotic. "betting" holds for scores in [0, 1] at any number of rows; it is
    wider and slower. Rows must be of different persons; several groups: Bonferroni over pairs.

    Args:
        groups: all groups that will come, first to last; tuples where attributes are crossed.
        level: chance that every interval ever looked at covers its difference.
        tolerance: differences within ±tolerance raise no alarm.
        method: "mixture" or "betting".
        tuned_for: rows per group at which the mixture is narrowest.
    """

    def __init__(
        self,
        groups: Sequence[Any],
        *,
        level: float = 0.95,
        tolerance: float = 0.0,
        method: MonitorMethod = "mixture",
        tuned_for: int = 1000,
    ) -> None:
        try:
            names = tuple(g.item() if isinstance(g, np.generic) else g for g in groups)
            n_names = 0 if isinstance(groups, str) else len(set(names))
        except TypeError:  # no list, or with names that cannot be compared
            names, n_names = (), 0
        if not 2 <= n_names == len(names):
            raise MetricError(
                f"groups is {groups!r}: give a list of at least two different names; a crossed "
                "group is a tuple"
            )
        check_choice("method", method, ("mixture", "betting"), MetricError)
        if not 0 <= one_number("tolerance", tolerance) < 1:
            raise MetricError(f"tolerance is {tolerance}: give a number of at least 0 and below 1")
        self.groups: Final = names
        self.level: Final = check_level(level)
        self.tolerance: Final = float(tolerance)
        self.method: Final[MonitorMethod] = method
        self.tuned_for: Final = whole_number("tuned_for", tuned_for, 1, 10**12)
        self._streams = {name: _Stream() for name in names}
        self._alarmed_at: int | None = None
        self._looks: list[Look] = []

    @property
    def looks(self) -> tuple[Look, ...]:
        """What was said after each batch; of very many every second, fourth, … and the last."""
        return tuple(self._looks)

    @property
    def n(self) -> int:
        """Rows seen."""
        return sum(stream.n for stream in self._streams.values())

    @property
    def alarmed_at(self) -> int | None:
        """Rows seen when an alarm was first raised; it stays, and None means never."""
        return self._alarmed_at

    @property
    def alarm(self) -> bool:
        """Whether an alarm was ever raised."""
        return self._alarmed_at is not None

    def update(self, scores: npt.ArrayLike, groups: npt.ArrayLike) -> tuple[MonitorGap, ...]:
        """Take a batch, its rows in the order in which they came; return every pair so far.

        Several columns of ``groups`` are crossed: groups are then named by tuples.
        """
        values = check_scores(scores)
        names, ids = check_groups(groups, len(values), least=1)
        unknown = [name for name in names if name not in self._streams]
        if unknown:
            raise MetricError(
                f"group {unknown[0]!r} is not watched: name it when the monitor is made "
                f"({', '.join(map(repr, self.groups))})"
            )
        for g, name in enumerate(names):
            self._feed(self._streams[name], values[ids == g])
        found = self.gaps()
        if self._alarmed_at is None and any(gap.alarm for gap in found):
            self._alarmed_at = self.n
        self._remember(found)
        return found

    def _remember(self, gaps: tuple[MonitorGap, ...]) -> None:
        self._looks.append(
            Look(self.n, tuple(g.difference for g in gaps), tuple(g.interval for g in gaps))
        )
        if len(self._looks) > max(_FEWEST_LOOKS, _LOOKED // len(gaps)):
            self._looks = self._looks[1::2] if len(self._looks) % 2 == 0 else self._looks[::2]

    def gaps(self) -> tuple[MonitorGap, ...]:
        """Every pair of groups so far."""
        pairs = list(combinations(self.groups, 2))
        alpha = (1 - self.level) / len(pairs)
        return tuple(self._gap(first, last, alpha) for first, last in pairs)

    def merge(self, other: ParityMonitor) -> ParityMonitor:
        """A new monitor of the rows of both, such as two servers that saw different rows."""
        if self._settings() != other._settings():
            raise MetricError(
                "the monitors differ in groups, level, tolerance, method or tuning: "
                "merge monitors that were made alike"
            )
        merged = ParityMonitor(**self._settings())
        for name in self.groups:
            a, b = self._streams[name], other._streams[name]
            # Each gambler bet on his own rows only, so that their joint wealth is the product.
            merged._streams[name] = _Stream(*map(add, vars(a).values(), vars(b).values()))
        if self.alarm or other.alarm or any(gap.alarm for gap in merged.gaps()):
            merged._alarmed_at = merged.n
        # Who saw which rows when is not known: what was said before is not of these rows.
        merged._remember(merged.gaps())
        return merged

    def to_dict(self) -> dict[str, Any]:
        """The state as plain data, for JSON, from which ``from_dict`` goes on.

        For a reader it also holds ``n``, ``alarm``, ``gaps``, ``looks`` and ``summary``.
        """
        kept = ("n", "total", "squares", *(("up", "down") if self.method == "betting" else ()))
        streams = [{name: vars(s)[name] for name in kept} for s in self._streams.values()]
        return {
            "format": _FORMAT,
            "version": 1,
            **self._settings(),
            "groups": serialise(self.groups),
            "alarmed_at": self._alarmed_at,
            "streams": serialise(streams),
            "looks": serialise(self._looks),
            "n": self.n,
            "alarm": self.alarm,
            "gaps": serialise(self.gaps()),
            "summary": self.summary(),
        }

    @classmethod
    def from_dict(cls, state: Any) -> ParityMonitor:
        """The monitor that ``to_dict`` described."""
        known = isinstance(state, Mapping) and state.get("format") == _FORMAT
        if not known or state.get("version") != 1:
            raise FileFormatError(
                "this is not a state of a ParityMonitor: give what to_dict returned"
            )
        try:
            groups = [tuple(g) if isinstance(g, list) else g for g in state["groups"]]
            monitor = cls(**{name: state[name] for name in _SETTINGS} | {"groups": groups})
            for name, saved in zip(groups, state["streams"], strict=True):
                stream = _Stream(int(saved["n"]), float(saved["total"]), float(saved["squares"]))
                bounded = stream.total <= stream.n + 1e-6
                if not 0 <= stream.squares <= stream.total + 1e-6 or not bounded:
                    raise ValueError("sums that no scores from 0 to 1 have")
                for k in ("up", "down") if monitor.method == "betting" else ():
                    wealth = np.array(saved[k], np.float64)
                    if wealth.shape != GRID.shape or not np.isfinite(wealth).all():
                        raise ValueError("wealth that is not finite, or on another grid")
                    setattr(stream, k, wealth)
                monitor._streams[name] = stream
            at = state["alarmed_at"]
            monitor._alarmed_at = None if at is None else int(at)
            n_pairs = math.comb(len(groups), 2)
            for saved in state.get("looks", ()):  # States of fairpc 0.1 have none.
                gaps = tuple(math.nan if d is None else float(d) for d in saved["differences"])
                ends = tuple((float(low), float(high)) for low, high in saved["intervals"])
                inside = all(-1 <= low <= high <= 1 for low, high in ends)
                if not len(gaps) == len(ends) == n_pairs or not inside:
                    raise ValueError("a look that is not of these groups")
                monitor._looks.append(Look(int(saved["n"]), gaps, ends))
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(f"the state of a ParityMonitor is damaged ({error})") from error
        return monitor

    def summary(self) -> str:
        """The widest gap so far, in plain words."""
        seen = [gap for gap in self.gaps() if not math.isnan(gap.difference)]
        if not seen:
            return f"{_rows(self.n)} so far: no two groups were seen yet."
        gap = max(seen, key=lambda g: abs(g.difference))
        state = "no alarm so far"
        if self.alarmed_at is not None:
            state = f"alarm raised after {_rows(self.alarmed_at)}"
        return (
            f"After {_rows(self.n)} the mean score of {gap.last!r} minus that of {gap.first!r} is "
            f"{gap.difference:+.4f}, between {gap.interval[0]:+.4f} and {gap.interval[1]:+.4f} "
            f"({self.level:.0%}, for all looks together); {state}."
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        hidden = ("format", "version", "streams", "looks", "groups")
        facts = {name: value for name, value in self.to_dict().items() if name not in hidden}
        return notebook_html(type(self).__name__, facts)

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SETTINGS}

    def _feed(self, stream: _Stream, values: Floats) -> None:
        if not len(values):
            return
        if self.method == "betting":
            term = math.log(2 * math.comb(len(self.groups), 2) / (1 - self.level))
            sizes = bets(values, stream.n, stream.total, stream.squares, term)
            up, down = log_growth(values, sizes)
            stream.up, stream.down = stream.up + up, stream.down + down
        stream.n += len(values)
        stream.total += float(values.sum())
        stream.squares += float(np.dot(values, values))

    def _gap(self, first: Any, last: Any, alpha: float) -> MonitorGap:
        a, b = self._streams[first], self._streams[last]
        if not a.n or not b.n:
            return MonitorGap(first, last, a.n, b.n, math.nan, (-1.0, 1.0), False)
        if self.method == "betting":
            low, high = difference_region((a.up, a.down), (b.up, b.down), alpha)
        else:
            # The product of both groups' mixture martingales, seen along last − first. Each is
            # exp(S²/(2(V+ρ))) √(ρ/(V+ρ)) with S the centred sum and V its variance; the product
            # stays under 1/α at the true means, and bounds them by an ellipse.
            log_term = budget = math.log(1 / alpha)
            spread = 0.0
            prior = self.tuned_for / 4 / (2 * log_term + math.log1p(2 * log_term))
            for stream in (a, b):
                total = stream.n * stream.variance() + prior
                budget += 0.5 * math.log(total / prior)
                spread += total / stream.n**2
            half = math.sqrt(2 * budget * spread)
            low, high = b.mean - a.mean - half, b.mean - a.mean + half
        interval = max(low, -1.0), min(high, 1.0)
        alarm = interval[0] > self.tolerance or interval[1] < -self.tolerance
        return MonitorGap(first, last, a.n, b.n, b.mean - a.mean, interval, alarm)


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n} rows"


def bets(scores: Floats, count: int, total: float, squares: float, log_term: float) -> Floats:
    """Predictable bets (Waudby-Smith and Ramdas 2024), each from the scores before it.

    Before the first there were ``count`` of this total and sum of squares; ``log_term`` is
    log(2/α), the evidence aimed at.
    """
    before = count + np.arange(len(scores))
    sums = total + np.append(0.0, np.cumsum(scores)[:-1])
    sums2 = squares + np.append(0.0, np.cumsum(scores**2)[:-1])
    # One pseudo-score 0 and one 1 come first.
    mean = (sums + 1.0) / (before + 2)
    variance = np.maximum((sums2 + 1.0) / (before + 2) - mean**2, 1e-6)
    time = before + 1
    return np.minimum(_MOST, np.sqrt(2 * log_term / (variance * time * np.log(1 + time))))


def log_growth(scores: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Growth of log wealth on the grid: betting on a larger mean, and on a smaller one."""
    up, down = np.zeros(len(GRID)), np.zeros(len(GRID))
    for start in range(0, len(scores), _CHUNK):
        x = scores[start : start + _CHUNK, None] - GRID
        size = sizes[start : start + _CHUNK, None]
        up += np.log1p(size * x).sum(axis=0)
        down += np.log1p(-size * x).sum(axis=0)
    return up, down


def difference_region(
    first: tuple[Floats, Floats], last: tuple[Floats, Floats], alpha: float
) -> tuple[float, float]:
    """Range of last − first over all pairs of means that the joint wealth leaves.

    Wealth in both groups multiplies. On each side it is monotone in m, so the least over a
    cell of the grid is at one of its corners, and whole cells are kept: nothing is lost to
    the grid. What is left of one group at a mean of the other is an interval for the same reason.
    """
    # Least log evidence against the means of each cell: half the wealth on either side.
    each = [np.maximum(up, down) - math.log(2) for up, down in (first, last)]
    a, b = (np.minimum(evidence[:-1], evidence[1:]) for evidence in each)
    best = int(b.argmin())
    # Possible with probability at most alpha: nothing is left, and the best pair is named.
    limit = max(math.log(1 / alpha), math.nextafter(float(a.min() + b[best]), math.inf))
    i = np.flatnonzero(a + b[best] < limit)
    room = limit - a[i]
    below = np.searchsorted(np.maximum.accumulate(b[best::-1]), room)
    above = np.searchsorted(np.maximum.accumulate(b[best:]), room)
    # Rounding may leave no room where the sum has some; the best cell itself is kept.
    lowest, highest = best - np.maximum(below - 1, 0), best + np.maximum(above - 1, 0)
    return float((GRID[lowest] - GRID[i + 1]).min()), float((GRID[highest + 1] - GRID[i]).max())
