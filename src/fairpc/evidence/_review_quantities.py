"""The rates that a review asks for, each a ratio of two sums over the rows of a group.

A rate is Σ u / Σ v, where u and v of a row depend on its fair decision t. Both are kept as their
values at t = 0 and at t = 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fairpc.core import Floats, MetricError, Positions, check_choice

Quantity = Literal["all", "rates", "mechanism", "errors"]
QUANTITIES = ("all", "rates", "mechanism", "errors")


@dataclass(frozen=True, eq=False)
class Rate:
    """One rate of one group, over the rows of that group."""

    name: str  #: "fair_rate", "mechanism_0", "mechanism_1", "tpr", "fpr", "accuracy", "precision"
    group: int
    u: tuple[Floats, Floats]  #: numerator of each row at t = 0 and at t = 1
    v: tuple[Floats, Floats]  #: denominator likewise

    def gap(self, theta: float) -> tuple[Floats, Floats]:
        """u − θ v at t = 0 and at t = 1."""
        return self.u[0] - theta * self.v[0], self.u[1] - theta * self.v[1]


def rates_of_group(
    group: int, n: int, y: Floats | None, h: Floats | None, quantity: Quantity
) -> Iterator[Rate]:
    """The rates asked for, of a group with n rows, recorded labels y and decisions h."""
    no, yes = np.zeros(n), np.ones(n)
    if quantity in ("all", "rates"):
        yield Rate("fair_rate", group, (no, yes), (yes, yes))
    if y is not None and quantity in ("all", "mechanism"):
        yield Rate("mechanism_0", group, (y, no), (yes, no))
        yield Rate("mechanism_1", group, (no, y), (no, yes))
    if h is not None and quantity in ("all", "errors"):
        yield Rate("tpr", group, (no, h), (no, yes))
        yield Rate("fpr", group, (h, no), (yes, no))
        yield Rate("accuracy", group, (1 - h, h), (yes, yes))
        yield Rate("precision", group, (no, h), (h, h))


def check_quantity(quantity: Any, y: Any, decisions: Any) -> None:
    """Refuse a word that is none, and one without the arrays it is about."""
    check_choice("quantity", quantity, QUANTITIES, MetricError)
    for word, name, given in (("mechanism", "y", y), ("errors", "decisions", decisions)):
        if quantity == word and given is None:
            raise MetricError(f"quantity is {word!r} and {name} is None: give {name}")


def expected(rate: Rate, m: Floats) -> float:
    """What a posterior says of the rate; NaN where it has no rows."""
    top = rate.u[0] + m * (rate.u[1] - rate.u[0])
    bottom = rate.v[0] + m * (rate.v[1] - rate.v[0])
    return float(top.sum() / bottom.sum()) if bottom.sum() > 0 else float("nan")


def influence_spread(rate: Rate, m: Floats) -> Floats:
    """Standard deviation of each row's influence on the rate that the posterior leaves."""
    theta = expected(rate, m)
    bottom = float((rate.v[0] + m * (rate.v[1] - rate.v[0])).sum())
    if not bottom > 0:
        return np.zeros(len(m))
    at_0, at_1 = rate.gap(theta)
    return np.sqrt(m * (1 - m)) * np.abs(at_1 - at_0) / bottom


def group_rows(ids: Positions) -> list[Positions]:
    """The rows of each group."""
    return [np.flatnonzero(ids == g) for g in range(int(ids.max()) + 1)]
