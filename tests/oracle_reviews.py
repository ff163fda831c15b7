"""What a review says of one rate, row by row: the slow twin of `review_estimates`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy.optimize import minimize

Part = Callable[[int, int], float]
"""Of the position of a row and an answer, 0 or 1."""
STEP = 1e-3
"""Between values that are tried for a limit."""


@dataclass(frozen=True, eq=False)
class Review:
    """A table of a few hundred rows, some of them drawn; lists of one entry per row."""

    truth: list[float]  #: NaN where nobody said
    y: list[int]
    s: list[Any]
    h: list[int]
    chance: list[float]
    batch: list[int]  #: -1 where a row was not drawn
    posterior: list[float]

    def answered(self) -> list[int]:
        return [i for i, t in enumerate(self.truth) if t == t]

    @cached_property
    def weights(self) -> dict[int, tuple[float, float]]:
        """How often a row that was answered counts, and what its squared residual adds."""
        return {i: self._weight(i) for i in self.answered()}

    def _weight(self, i: int) -> tuple[float, float]:
        drawn = [j for j, k in enumerate(self.batch) if k >= 0]
        cell = [j for j in drawn if (self.s[j], self.y[j]) == (self.s[i], self.y[i])]

        def shares(j: int) -> tuple[float, float]:
            own = sum(self.batch[k] == self.batch[j] for k in drawn)
            later = sum(self.batch[k] > self.batch[j] for k in drawn)
            return own / len(drawn), later / len(drawn)

        def plain(j: int) -> float:
            own, later = shares(j)
            return own / self.chance[j] + later

        said = sum(plain(j) for j in cell if self.truth[j] == self.truth[j])
        r = said / sum(plain(j) for j in cell)
        p, own = self.chance[i], shares(i)[0]
        return plain(i) / r, own**2 * (1 - p * r) / (p * r) ** 2

    def corrected(self) -> list[float]:
        """The posterior, by a logistic regression on the reviewed rows of other folds."""
        fold = (np.random.default_rng(0).permutation(len(self.y)) % 10).tolist()
        groups = sorted(set(self.s))
        weight = {i: both[0] for i, both in self.weights.items()}
        found = []
        fits: dict[tuple[int, int], Any] = {}
        for i, y in enumerate(self.y):
            if (fold[i], y) not in fits:
                rows = [j for j in weight if fold[j] != fold[i] and self.y[j] == y]
                fits[fold[i], y] = self._mode(rows, weight, groups)
            intercept, slope, *own = fits[fold[i], y]
            place = intercept + slope * _logit(self.posterior[i]) + own[groups.index(self.s[i])]
            found.append(1 / (1 + math.exp(-place)))
        return found

    def _mode(self, rows: list[int], weight: dict[int, float], groups: list[Any]) -> Any:
        total = sum(weight[j] for j in rows)
        scale = total / sum(weight[j] ** 2 for j in rows) if rows else 1.0

        def loss(b: Any) -> float:
            sum_ = 0.25 / 2 * b[0] ** 2 + 1.0 / 2 * (b[1] - 1) ** 2
            sum_ += sum(2.0 / 2 * c**2 for c in b[2:])
            for j in rows:
                z = b[0] + b[1] * _logit(self.posterior[j]) + b[2 + groups.index(self.s[j])]
                sum_ -= scale * weight[j] * (self.truth[j] * z - np.logaddexp(0.0, z))
            return float(sum_)

        start = [0.0, 1.0, *[0.0] * len(groups)]
        return minimize(loss, start, method="BFGS", options={"gtol": 1e-8}).x


def _logit(m: float) -> float:
    inner = min(max(m, 0.005), 0.995)
    return math.log(inner / (1 - inner))


def rate(review: Review, m: list[float] | None, group: Any, u: Part, v: Part) -> tuple[float, ...]:
    """Σ u / Σ v of a group: value, λ, and both limits at .95; m is the corrected posterior."""
    here = [i for i, s in enumerate(review.s) if s == group]
    rows = [i for i in review.answered() if i in set(here)]
    w, spread = ({i: review.weights[i][k] for i in rows} for k in (0, 1))

    def hat(part: Part, i: int) -> float:
        return 0.0 if m is None else (1 - m[i]) * part(i, 0) + m[i] * part(i, 1)

    def total(part: Part, trust: float) -> float:
        known = sum(w[i] * (part(i, int(review.truth[i])) - trust * hat(part, i)) for i in rows)
        return known + trust * sum(hat(part, i) for i in here)

    trust = 0.0
    for _ in range(3):
        theta = min(max(total(u, trust) / total(v, trust), 0.0), 1.0)
        cross = square = 0.0
        for i in rows:
            t = int(review.truth[i])
            b = hat(u, i) - theta * hat(v, i)
            cross += spread[i] * b * (u(i, t) - theta * v(i, t))
            square += spread[i] * b * b
        extra = 5 * square / len(rows)
        if square > 0:
            trust = min(max((cross + extra) / (square + extra), 0.0), 1.0)
    value = min(max(total(u, trust) / total(v, trust), 0.0), 1.0)
    kept = _score_test(review, m, here, (u, v), (w, spread), hat, trust, value)
    return value, trust, *_limits(kept, total(u, trust), total(v, trust))


def _score_test(
    review: Review,
    m: list[float] | None,
    here: list[int],
    parts: tuple[Part, Part],
    weights: tuple[dict[int, float], dict[int, float]],
    hat: Callable[[Part, int], float],
    trust: float,
    value: float,
) -> Callable[[float, float], bool]:
    """Whether a value of the rate is kept, by it and the excess Σ (u − θ v) there."""
    (u, v), (w, spread) = parts, weights
    cell = {i: (review.y[i], review.h[i]) for i in here}
    own = [cell[i] for i in w]
    #: residual as (a, b), what its square and its cube add to the error, and its square to all
    terms: list[tuple[float, float, float, float, float]] = []
    for i in w:
        if m is None:
            same = [j for j in w if cell[j] == cell[i]]
            expected = sum(w[j] * review.truth[j] for j in same) / sum(w[j] for j in same)
        else:
            expected = m[i]
        other = 0.4 / (own.count(cell[i]) + 0.8)
        chance = (review.truth[i] + expected) / 2 * (1 - 2 * other) + other
        for t, share in ((0, 1 - chance), (1, chance)):
            a, b = u(i, t) - trust * hat(u, i), v(i, t) - trust * hat(v, i)
            terms.append((a, b, share * spread[i], share * spread[i] * w[i], share * w[i] ** 2))
    for unseen in sorted(set(cell.values()) - set(own)):
        like = [i for i in here if cell[i] == unseen]
        t = max((0, 1), key=lambda t: abs(u(like[0], t) - value * v(like[0], t)))
        count = min(sum(w.values()) / len(w), len(like))
        adds = 0.4 * count * max(count - 1, 0.0)
        terms.append((u(like[0], t), v(like[0], t), adds, adds * count, 0.4 * count**2))
    carrying = [w[i] for i in w if v(i, int(review.truth[i])) > 0]
    size = sum(carrying) ** 2 / sum(c * c for c in carrying) / max(1 - trust, 1e-9)
    return _keeping(terms, size)


def expected_limits(
    m: list[float], cell: list[Any], chance: list[float], u: Part, v: Part
) -> tuple[float, float]:
    """Limits of Σ u / Σ v where each row is drawn with its chance and is 1 with probability m."""
    terms = []
    for i, p in enumerate(chance):
        other = 0.4 / (sum(c for c, k in zip(chance, cell, strict=True) if k == cell[i]) + 0.8)
        for t in (0, 1):
            a, b = (part(i, t) - (1 - m[i]) * part(i, 0) - m[i] * part(i, 1) for part in (u, v))
            share = p * ((m[i] if t else 1 - m[i]) * (1 - 2 * other) + other)
            adds = share * (1 - p) / p**2
            terms.append((a, b, adds, adds / p, share / p**2))
    top, bottom = (
        sum((1 - one) * part(i, 0) + one * part(i, 1) for i, one in enumerate(m)) for part in (u, v)
    )
    for k in sorted(set(cell)):
        like = [i for i, own in enumerate(cell) if own == k]
        t = max((0, 1), key=lambda t: abs(u(like[0], t) - top / bottom * v(like[0], t)))
        w = min(len(m) / sum(chance), len(like))
        share = 0.4 * math.exp(-sum(chance[i] for i in like))
        adds = share * w * max(w - 1, 0.0)
        terms.append((u(like[0], t), v(like[0], t), adds, adds * w, share * w**2))
    return _limits(_keeping(terms, math.inf), top, bottom)


def _limits(kept: Callable[[float, float], bool], top: float, bottom: float) -> tuple[float, float]:
    """Outward from the value, step by step, as long as values are kept."""
    value, limits = min(max(top / bottom, 0.0), 1.0), []
    for step in (-STEP, STEP):
        x = value
        while 0 <= x + step <= 1 and kept(x + step, top - (x + step) * bottom):
            x += step
        limits.append(min(max(x, 0.0), 1.0))
    return limits[0], limits[1]


def _keeping(
    terms: list[tuple[float, float, float, float, float]], size: float
) -> Callable[[float, float], bool]:
    z = NormalDist().inv_cdf(0.975)

    def kept(theta: float, excess: float) -> bool:
        variance = sum(add * (a - theta * b) ** 2 for a, b, add, *_ in terms)
        third = sum(add * (a - theta * b) ** 3 for a, b, _, add, _ in terms)
        centred = sum(add * (a - theta * b) ** 2 for a, b, *_, add in terms) - excess**2 / size
        slope = (third - variance * excess / size) / centred if centred > 0 else 0.0
        return excess**2 <= z**2 * (variance - slope * excess)

    return kept
