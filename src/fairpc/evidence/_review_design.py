"""Which rows to review, each with a known chance, and what that review would show.

Row i is drawn with chance p_i: a floor, spread evenly, plus a share in proportion to the standard
deviation that P(Df | x, s, d) leaves in the quantities asked for (active statistical inference,
Zrnic and Candès 2024). Several quantities are weighed by how precise each could be by itself:
p ∝ √(Σ_q s_iq² / S_q²), S_q = Σ_i s_iq, has the least sum of their variances, each as a multiple of
the least it could have.

A fixed number of rows is drawn systematically: rows are put in a random order within strata and
groups, their chances are added up, and a row is drawn where the sum passes u, u + 1, u + 2, … with
u uniform (Madow 1949). Every row has exactly its chance, and every group and stratum its expected
number of rows, rounded up or down.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Bools,
    Floats,
    MetricError,
    Positions,
    Record,
    check_array,
    check_choice,
    check_groups,
    check_level,
    one_number,
    whole_number,
)
from fairpc.evidence._intervals import quantile, some_of, wilson
from fairpc.evidence._review_rates import (
    FEW,
    QUANTITIES,
    ExpectedReview,
    Quantity,
    Rate,
    expected,
    expected_rows,
    group_rows,
    influence_spread,
    rates_of_group,
)
from fairpc.evidence._review_rows import binary, posterior_of

Method = Literal["active", "uniform"]
Drawing = Literal["fixed", "independent"]
FLOOR: Final = 0.2
"""Least share of the rows drawn that is spread evenly: a posterior may be sure and wrong."""
PER_STRATUM: Final = 5
"""Rows of each stratum that a review expects at least, if the budget allows."""
CURVE: Final = (20, 50, 100, 200, 300, 500, 1000, 2000, 5000)
"""Numbers of rows for which half widths are given."""
NO_HELP: Final = 0.1
"""Half width from which a rate is as good as not known."""
_WORTH: Final = 10.0
"""Rows that a posterior is worth: one of 0 or 1 is taken for 1 of 20 wrong."""
_POWER: Final = 0.8
"""Share of reviews that are to decide a difference."""
_GAIN: Final = 1.6
"""How many times fewer reviews a posterior saves at least; real tables showed 1.6 to 3.5."""


@dataclass(frozen=True, eq=False)
class ReviewDesign(Record):
    """Rows drawn for review, and the chance that each row of the table had."""

    probability: Floats  #: of every row; 0 where it was reviewed before
    rows: Positions  #: positions of the rows drawn, ascending
    n: int  #: rows asked for; as many are drawn unless draws are independent
    method: Method
    quantity: Quantity
    draw: Drawing

    _long = ("probability",)


@dataclass(frozen=True)
class ExpectedWidth(Record):
    """How well a rate would be known after a review."""

    name: str  #: "fair_rate", "mechanism_0", "mechanism_1", "tpr", "fpr", "accuracy", "precision"
    group: Any
    value: float  #: what the posterior says of the rate
    n: int  #: rows reviewed
    half_width: float  #: of its interval, if the posterior is right
    alone: float  #: half width if the posterior helps nothing: rows drawn evenly; not less
    aim: float  #: half width wanted
    n_needed: int  #: rows to review for it, at most those of the table
    curve: tuple[tuple[int, float], ...]  #: numbers of rows, and the half width with each

    _computed = ("summary",)

    def summary(self) -> str:
        """What to expect of so many files, of few, and how many are enough."""
        what = f"{_WORDS[self.name]} of {self.group!r}"
        return expected_in_words(what, self.n, self.half_width, self.n_needed, self.curve, self.aim)


def expected_in_words(
    what: str,
    n: int,
    half_width: float,
    n_needed: int,
    curve: Sequence[tuple[int, float]],
    aim: float,
) -> str:
    """How well ``what`` would be known with n files, with few, and how many are enough."""
    few = next(((k, half) for k, half in curve if k < n), None)
    parts = [f"With {n:,} files {what} would be known to {either_way(half_width)} points"]
    if few is not None:
        left = either_way(few[1])
        end = f"not help ({left})" if few[1] > NO_HELP else f"leave {left}"
        parts.append(f"{few[0]} files would {end}")
    if half_width > aim or n_needed < n:
        parts.append(f"for ±{100 * aim:g} points review {n_needed:,}")
    return "; ".join(parts) + "."


def either_way(half_width: float) -> str:
    """Half a width in whole points; ±0 only of a rate that would be known exactly."""
    points = 100 * half_width
    return f"±{points:.0f}" if points >= 0.5 or not points else f"±{max(points, 0.1):.1f}"


_WORDS: Final = {
    "fair_rate": "the fair rate",
    "mechanism_0": "the share of wrongly positive labels",
    "mechanism_1": "the share of wrongly negative labels",
    "tpr": "the true positive rate",
    "fpr": "the false positive rate",
    "accuracy": "the accuracy",
    "precision": "the precision",
}


def review_design(
    posterior: npt.ArrayLike,
    n: int,
    *,
    sensitive_features: npt.ArrayLike | None = None,
    y: npt.ArrayLike | None = None,
    decisions: npt.ArrayLike | None = None,
    quantity: Quantity = "all",
    method: Method = "active",
    draw: Drawing = "fixed",
    floor: float = FLOOR,
    strata: npt.ArrayLike | None = None,
    reviewed: npt.ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
) -> ReviewDesign:
    """Draw rows for review, each with a known chance.

    Args:
        posterior: P(Df = 1 | x, s, d) of every row. A posterior of 0s and 1s says nothing about
            where to look: ``model.review`` takes one at the middle of what labels leave possible,
            and after a batch that of :func:`recalibrate_posterior`.
        n: how many rows to draw.
        sensitive_features: group per row; rates are then asked for in each.
        y: recorded label, 0 or 1, for the mechanism.
        decisions: decisions to be audited, 0 or 1, for their error rates.
        quantity: what to be precise about; "all" takes the fair rates, the mechanism if ``y`` is
            given and error rates if ``decisions`` are.
        method: "active", or "uniform": every row with the same chance.
        draw: "fixed" draws exactly n rows; "independent" each row by itself, n on average.
        floor: share of n that is spread evenly, at least a fifth.
        strata: levels that must be covered: each gets 5 rows, or fewer where n is small.
        reviewed: rows of earlier batches, as positions or as True and False per row.
        random_state: seed or generator.
    """
    m = posterior_of(posterior)
    open_rows = ~_mask(reviewed, len(m))
    if not open_rows.any():
        raise MetricError("reviewed has every row: there is none left to draw")
    n = whole_number("n", n, 1, int(open_rows.sum()))
    check_choice("draw", draw, ("fixed", "independent"), MetricError)
    _, ids = _groups("sensitive_features", sensitive_features, len(m))
    _, level = _groups("strata", strata, len(m))
    n_levels = len(np.unique(level[open_rows]))
    if n_levels > n:
        raise MetricError(
            f"n is {n} and strata has {n_levels} values: draw a row of each at least, or merge"
        )
    share = _shares(m, _rates(ids, y, decisions, quantity), method, floor, open_rows)
    chance = np.zeros(len(m))
    chance[open_rows] = _covering(share[open_rows], level[open_rows], n)
    rng = np.random.default_rng(random_state)
    if draw == "independent":
        rows = np.flatnonzero(rng.random(len(m)) < chance)
    else:
        rows = _systematic(chance, (ids, level), rng)
    chance.flags.writeable = rows.flags.writeable = False
    return ReviewDesign(chance, rows, n, method, quantity, draw)


def expected_widths(
    posterior: npt.ArrayLike,
    n: int,
    *,
    sensitive_features: npt.ArrayLike | None = None,
    y: npt.ArrayLike | None = None,
    decisions: npt.ArrayLike | None = None,
    quantity: Quantity = "all",
    method: Method = "active",
    floor: float = FLOOR,
    aim: float = 0.05,
    level: float = 0.95,
) -> tuple[ExpectedWidth, ...]:
    """How well each rate would be known with n reviews, and how many a half width needs.

    The limits are those of such a review, on average, if the posterior is right. It is taken to be
    worth ten rows beside one of the group's mean, so that one of 0s and 1s does not promise
    certainty: those of real tables err as much.

    Args:
        posterior: as for :func:`review_design`, as are n to floor.
        n: rows to review.
        sensitive_features: group per row.
        y: recorded label, 0 or 1.
        decisions: decisions to be audited, 0 or 1.
        quantity: what to be precise about.
        method: "active" or "uniform".
        floor: share of n that is spread evenly.
        aim: half width for which ``n_needed`` is.
        level: of the intervals.
    """
    m = posterior_of(posterior)
    n = whole_number("n", n, 1, len(m))
    if not 0 < one_number("aim", aim) < 0.5:
        raise MetricError(f"aim is {aim}: give the half width of an interval, between 0 and .5")
    z = quantile((1 + check_level(level)) / 2)
    names, ids = _groups("sensitive_features", sensitive_features, len(m))
    rates = _rates(ids, y, decisions, quantity)
    share = _shares(m, rates, method, floor, np.ones(len(m), np.bool_))
    chances = cache(lambda n: _capped(share, n))
    cell = np.zeros(len(m), np.intp)
    for given in (y, decisions):
        cell = 2 * cell + (0 if given is None else np.asarray(given).astype(np.intp))
    reviews = [ExpectedReview.of(_doubted(m[rows]), cell[rows]) for rows in group_rows(ids)]

    def half_width(rate: Rate, rows: Positions, n: int) -> float:
        chance = chances(n)[rows]
        if (chance == 1).all():
            return 0.0
        low, high = reviews[rate.group].limits(rate, chance, z)
        return (high - low) / 2

    found = []
    for rate, rows in rates:
        own = _doubted(m[rows])
        value = expected(rate, own)
        if math.isnan(value):  # decisions that are all 0 have no precision
            continue
        half = partial(half_width, rate, rows)
        carrying = expected_rows(rate, own)
        alone, fewest = _alone(value, carrying, n / len(m), z), _fewest(carrying, len(m))
        alone = max(alone, half(n))  # a design that cares for other rates draws fewer than evenly
        curve = tuple((k, half(k)) for k in CURVE if k <= len(m))
        needed = bisect_left(range(len(m)), -aim, lo=fewest, key=lambda k: -half(k))
        about = rate.name, names[rate.group], value, n
        found.append(ExpectedWidth(*about, half(n), alone, aim, needed, curve))
    return tuple(found)


def reviews_to_decide(
    difference: float,
    name: str,
    groups: tuple[int, int],
    posterior: Floats,
    ids: Positions,
    decisions: Floats,
    level: float,
) -> int | None:
    """Rows to draw of all groups, so that four of five reviews show such a difference of two.

    By reviewed rows alone, but for what a posterior saves at least. None if that takes all rows.
    """
    m, z = _unsure(posterior), quantile((1 + level) / 2)
    aim = difference * z / (z + quantile(_POWER)) * math.sqrt(_GAIN)
    of_both = [
        (expected(rate, m[rows]), expected_rows(rate, m[rows]))
        for rate, rows in _rates(ids, None, decisions, "errors")
        if rate.name == name and rate.group in groups
    ]

    def decides(n: int) -> bool:
        return math.hypot(*(_alone(*one, n / len(m), z) for one in of_both)) <= aim

    fewest = max(_fewest(carrying, len(m)) for _, carrying in of_both)
    n = bisect_left(range(len(m)), True, lo=fewest, key=decides)
    return n if n < len(m) else None


def _fewest(carrying: float, n_rows: int) -> int:
    """Rows to draw evenly, so that a few of those that carry a rate are among them."""
    return min(math.ceil(FEW * n_rows / carrying), n_rows)


def _alone(value: float, carrying: float, part: float, z: float) -> float:
    """Half width by reviewed rows alone, where a part of those that carry a rate is drawn."""
    return _half_width(value, value * (1 - value) * (1 - part) / part / carrying, z)


def _half_width(value: float, variance: float, z: float) -> float:
    if variance <= 0 or not 0 < value < 1:
        return 0.0
    low, high = wilson(value, value * (1 - value) / variance, z)
    return (high - low) / 2


def _shares(
    m: Floats,
    rates: list[tuple[Rate, Positions]],
    method: Method,
    floor: float,
    open_rows: Bools,
) -> Floats:
    """Share of the budget that each open row asks for; they add up to 1."""
    check_choice("method", method, ("active", "uniform"), MetricError)
    if not FLOOR <= one_number("floor", floor) <= 1:
        raise MetricError(f"floor is {floor}: give the share that is spread evenly, {FLOOR} to 1")
    even: Floats = open_rows / open_rows.sum()
    if method == "uniform":
        return even
    wanted = np.zeros(len(m))
    unsure = _unsure(m)
    for rate, rows in rates:
        spread = influence_spread(rate, unsure[rows]) * open_rows[rows]
        if spread.sum() > 0:
            wanted[rows] += (spread / spread.sum()) ** 2
    wanted = np.sqrt(wanted)
    if not wanted.any():
        return even
    return np.asarray(floor * even + (1 - floor) * wanted / wanted.sum())


def _rates(
    ids: Positions,
    y: npt.ArrayLike | None,
    decisions: npt.ArrayLike | None,
    quantity: Quantity,
) -> list[tuple[Rate, Positions]]:
    """The rates asked for, with the rows of their groups."""
    n = len(ids)
    labels = None if y is None else binary("y", y, n)
    h = None if decisions is None else binary("decisions", decisions, n)
    check_choice("quantity", quantity, QUANTITIES, MetricError)
    for word, name, given in (("mechanism", "y", y), ("errors", "decisions", decisions)):
        if quantity == word and given is None:
            raise MetricError(f"quantity is {word!r} and {name} is None: give {name}")
    found = []
    for g, rows in enumerate(group_rows(ids)):
        own = some_of(labels, rows), some_of(h, rows)
        found += [(rate, rows) for rate in rates_of_group(g, len(rows), *own, quantity)]
    return found


def _unsure(m: Floats) -> Floats:
    """A posterior that is worth some rows only."""
    return (_WORTH * m + 0.5) / (_WORTH + 1)


def _doubted(m: Floats) -> Floats:
    """A posterior of a group, worth some rows beside one row of the group's mean."""
    return np.asarray((_WORTH * m + m.mean()) / (_WORTH + 1))


def _capped(share: Floats, n: int) -> Floats:
    """Chances in proportion to shares, at most 1, that add up to n."""
    if n >= np.count_nonzero(share):
        return (share > 0).astype(np.float64)
    chance = np.minimum(share * n, 1.0)
    for _ in range(len(share)):
        inner = (chance < 1) & (share > 0)
        total = chance[inner].sum()
        missing = n - chance.sum()
        if missing <= 1e-9 * n or total <= 0:
            break
        chance[inner] = np.minimum(chance[inner] * (1 + missing / total), 1.0)
    return chance


def _covering(share: Floats, level: Positions, n: int) -> Floats:
    """Chances that add up to n, in each stratum to a few at least."""
    chance = _capped(share, n)
    sizes = np.bincount(level)
    k = int((sizes > 0).sum())
    if k < 2:
        return chance
    least = np.minimum(sizes, max(1, min(PER_STRATUM, n // (2 * k))))
    raised = np.zeros(len(sizes), np.bool_)
    while True:
        short = ~raised & (np.bincount(level, chance, len(sizes)) < least - 1e-9)
        if not short.any():
            return chance
        raised |= short
        for a in np.flatnonzero(short):
            chance[level == a] = _capped(share[level == a] / share[level == a].sum(), int(least[a]))
        others = ~raised[level]
        left = n - int(least[raised].sum())
        chance[others] = _capped(share[others] / share[others].sum(), left)


def _systematic(
    chance: Floats, blocks: tuple[Positions, ...], rng: np.random.Generator
) -> Positions:
    """A systematic draw of rows in random order within blocks; the last block varies slowest."""
    place = np.zeros(len(chance), np.intp)
    for block in reversed(blocks):
        place = place * (int(block.max()) + 1) + block
    order = np.argsort(place + rng.random(len(chance)))
    total = np.cumsum(chance[order])
    # Rounding must not lose the last row: the sum is a whole number.
    total[-1] = round(total[-1])
    passed = np.floor(total + rng.random())
    before = np.concatenate([[0.0], passed[:-1]])
    return np.sort(order[passed > before])


def _groups(name: str, values: npt.ArrayLike | None, n: int) -> tuple[tuple[Any, ...], Positions]:
    """Groups that occur and each row's; one of all rows where none are given."""
    if values is None:
        return ("all",), np.zeros(n, np.intp)
    return check_groups(values, n, name, least=1)


def _mask(reviewed: npt.ArrayLike | None, n: int) -> Bools:
    """Rows that were reviewed before."""
    found = np.zeros(n, np.bool_)
    if reviewed is None:
        return found
    given = check_array("reviewed", reviewed)
    if given.dtype.kind == "b" and given.shape == (n,):
        return given.copy()
    if given.dtype.kind not in "iu" or (given.size and not (0 <= given.min() <= given.max() < n)):
        raise MetricError(
            f"reviewed has shape {given.shape} and type {given.dtype}: give positions of rows "
            f"below {n}, or True and False for {n} rows"
        )
    found[given] = True
    return found
