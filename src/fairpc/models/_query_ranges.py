"""The range of a query that involves Df, over the mechanisms that held-out labels leave possible.

A model fixes P(x, d, s); the mechanism splits it into Df, of each group: with A a set of
rows, eta = P(A | s) and kappa = P(A, D=1 | s),

    P(A, Df=1 | s) = (kappa - b0 eta) / (b1 - b0)

so that a query is a function of b0 and b1 of each group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from fairpc.core import Floats
from fairpc.evidence import LEVEL, Interval, LabelBounds, WithinBounds
from fairpc.models._fair_layers import DF, S
from fairpc.models._query_events import CodeSet, Event, Said, both

NOT_KNOWN: Final[Interval] = (math.nan, math.nan)
_STEPS: Final = 17
"""Values of b0 and of b1 at which a query is looked at; its extremes are at corners or edges."""
_NOBODY: Final = 1e-9


@dataclass(frozen=True, eq=False)
class QueryRanges:
    """What a query of a model with two classes may be, at the level of the bounds.

    Sampling error of the mechanism and the fair rate is in it, not that of P(x, d, s).
    """

    log_masses: Callable[[Sequence[Event]], Floats]
    label: int  #: variable of D
    positive: int  #: code of the positive class
    share: Floats  #: P(S, stratum), [s, a]
    bounds: LabelBounds

    def of(self, event: Event, known: Event) -> Interval:
        """P(event | known), where the event has all that is known; NaN where it is not available.

        A group that is not known is marginalised: by P(s | known) where that is free of Df, else
        the mean lies within the ranges of the groups.
        """
        if self._rejected:
            return NOT_KNOWN
        before, after = (self._codes(one, S, len(self.share)) for one in (known, event))
        total, *logs = self.log_masses([known, *(both(known, _group(s)) for s in sorted(after))])
        shares = {s: math.exp(own - total) for s, own in zip(sorted(after), logs, strict=True)}
        if DF in known:
            each = [self._of_group(event, known, s) for s in after if shares[s] > 0]
            if after != before or any(map(math.isnan, sum(each, ()))):
                return NOT_KNOWN
            return min(low for low, _ in each), max(high for _, high in each)
        if event.keys() <= {S, DF}:
            rows = np.isin(np.arange(len(self.share)), sorted(after))[:, None] * self.share
            rate = self.bounds.rate_set(LEVEL, rows / rows.sum())
            each, weights = [self._of_decision(event, rate)], [sum(shares.values())]
        else:
            each = [self._of_group(event, known, s) for s, share in shares.items() if share > 0]
            weights = [share for share in shares.values() if share > 0]
        low, high = (np.array(weights) @ np.array(each)).tolist()
        return low, high

    @cached_property
    def _rejected(self) -> bool:
        return bool(self.bounds.rejected(LEVEL))

    @cached_property
    def _mechanism(self) -> Floats:
        """Least and largest P(D = 1 | Df = f, s), [s, f, end], over the strata if each has one."""
        found = self.bounds.mechanism_range(LEVEL)
        if found.ndim == 3:
            return found
        return np.stack([found[..., 0].min(axis=1), found[..., 1].max(axis=1)], axis=-1)

    def _of_group(self, event: Event, known: Event, s: int) -> Interval:
        """P(event | known, s)."""
        decisions, labels = self._signs(known, DF), self._signs(event, self.label)
        of_label = _without(event, self.label) == _without(known, self.label)
        if of_label and len(decisions) == 1 and self.label not in known:
            # D depends on the features only through Df and the group.
            low, high = self._mechanism[s, min(decisions)].tolist()
            return _either(labels, (low, high))
        if isinstance(self.bounds, WithinBounds):
            return NOT_KNOWN
        own = [both(_without(one, DF, S, self.label), _group(s)) for one in (event, known)]
        hits = [both(one, {self.label: Said(frozenset([self.positive]))}) for one in own]
        logs = self.log_masses([*own, *hits])
        (eta, eta_known), (kappa, kappa_known) = np.exp(logs - logs[1]).reshape(2, 2).tolist()
        if eta == 0:
            return (0.0, 0.0)
        if DF not in known and self.label not in event:
            r, groups = np.array([kappa / eta]), np.array([s])
            low, high = self.bounds.score_bounds(r, r, groups, LEVEL)
            least, most = self._of_decision(event, (float(low[0]), float(high[0])))
            return eta * least, eta * most
        ends = self._mechanism[s]
        b0, b1 = (
            each.ravel() for each in np.meshgrid(*np.linspace(ends[:, 0], ends[:, 1], _STEPS).T)
        )
        each = self._mass(event, eta, kappa, b0, b1)
        total = self._mass(known, eta_known, kappa_known, b0, b1)
        if total.min() < _NOBODY:  # of nobody, anything can be said
            return (0.0, 1.0)
        share = np.clip(each / total, 0.0, 1.0)
        return float(share.min()), float(share.max())

    def _mass(self, event: Event, eta: float, kappa: float, b0: Floats, b1: Floats) -> Floats:
        """P of an event at each mechanism."""
        fair = np.clip((kappa - b0 * eta) / np.maximum(b1 - b0, _NOBODY), 0.0, eta)
        labels, total = self._signs(event, self.label), np.zeros(len(b0))
        for f in self._signs(event, DF):
            rate = (b0, b1)[f]
            recorded = rate * (1 in labels) + (1 - rate) * (0 in labels)
            total += recorded * (fair if f else eta - fair)
        return total

    def _of_decision(self, event: Event, positive: Interval) -> Interval:
        return _either(self._signs(event, DF), positive)

    def _signs(self, event: Event, variable: int) -> CodeSet:
        """Which of the classes an event allows, 1 for the positive one."""
        return frozenset(int(k == self.positive) for k in self._codes(event, variable, 2))

    def _codes(self, event: Event, variable: int, n: int) -> CodeSet:
        return event[variable].codes if variable in event else frozenset(range(n))


def _without(event: Event, *variables: int) -> Event:
    return {v: said for v, said in event.items() if v not in variables}


def _group(s: int) -> Event:
    return {S: Said(frozenset([s]))}


def _either(signs: CodeSet, positive: Interval) -> Interval:
    """The range of some of two classes, by that of the positive one."""
    if len(signs) != 1:
        return (len(signs) / 2,) * 2
    low, high = positive
    return (low, high) if 1 in signs else (1 - high, 1 - low)
