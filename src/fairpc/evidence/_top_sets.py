"""Upper confidence bounds of P(Df = c) from one group: the rate of c over its rate in a top set.

In a group where D is independent of X given Df, and D = c is at least as
frequent under Df = c as under any other Df, no set of rows has a larger rate
of c than P(D = c | Df = c), so P(Df = c) ≤ P(D = c) / P(D = c | top set).
Top sets are chosen on other rows than those they are counted on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairpc.core import Bools, Floats, Positions, map_in_order, one_thread, thread_count
from fairpc.evidence._intervals import Interval, Sample, clopper_pearson, rate_sample, some_of
from fairpc.learners import (
    Chosen,
    Features,
    Learner,
    Own,
    chosen,
    deal,
    few_threads,
    kish,
)

OUTER: Final = 5
INNER: Final = 3
MIN_SIZE: Final = 30
TOGETHER: Final = 200_000
"""Distinct rows × training parts up to which these are learned from together."""
AT_ONCE: Final = 4_000_000
"""Rows of all groups that are split at once, at most: each split needs memory of its own."""
_Z: Final = 1.96


@dataclass(frozen=True, eq=False)
class GroupRows:
    """One group: its distinct rows of features; which it is, class, weight, person of each row."""

    distinct: Features
    index: Positions
    labels: Positions
    weights: Floats | None
    persons: Positions | None

    @property
    def worth(self) -> float:
        """Independent rows per row: under 1 where persons repeat or weights differ."""
        size = float(len(self.labels))
        if self.persons is not None:
            size = float(len(np.unique(self.persons)))
        if self.weights is not None:
            total = self.weights.sum() ** 2 / np.dot(self.weights, self.weights)
            size *= float(total) / len(self.labels)
        return size / len(self.labels)

    def counts(self, rows: Positions) -> Floats:
        shape = len(self.distinct), 2
        return class_counts(self.index, self.labels, self.weights, shape, rows)


def class_counts(
    index: Positions, labels: Positions, weights: Floats | None, shape: tuple[int, int], rows: Any
) -> Floats:
    """Weight per distinct row and class, of some rows; classes lie apart in memory."""
    cells = labels[rows] * shape[0] + index[rows]
    found = np.bincount(cells, some_of(weights, rows), shape[0] * shape[1])
    return found.reshape(shape[::-1]).astype(np.float64).T


@dataclass(frozen=True)
class SplitRates:
    """One way of splitting one group: per class its rates and the median cut-off."""

    classes: tuple[ClassRates, ...]
    cuts: tuple[float, ...]
    learners: tuple[str, ...]


Watch = Callable[[int, int], object]
"""Called with how many ways of splitting a group are done, and how many there are."""


def all_splits(
    groups: Mapping[Any, GroupRows],
    options: Sequence[Learner],
    seeds: Sequence[int],
    *,
    single_split: bool = False,
    watch: Watch | None = None,
) -> dict[Any, list[SplitRates]]:
    """Every group split once per seed, side by side where the classifiers are our own."""
    # What takes longest is begun first.
    names = sorted(groups, key=lambda name: -len(groups[name].labels))
    tasks = [(name, seed) for name in names for seed in seeds]
    found: dict[Any, list[SplitRates]] = {name: [] for name in groups}

    def split(task: tuple[Any, int]) -> SplitRates:
        return cross_fitted(groups[task[0]], options, task[1], single_split=single_split)

    ours = all(isinstance(option, Own) for option in options)
    longest = len(groups[names[0]].labels)
    with one_thread() if ours else few_threads(len(groups[names[0]].distinct)):
        # A user's own classifier may not bear threads.
        n_threads = min(thread_count(), max(AT_ONCE // longest, 1)) if ours else 1
        learned = map_in_order(split, tasks, n_threads)
        if watch is not None:
            watch(0, len(tasks))
        for i, ((name, _), rates) in enumerate(zip(tasks, learned, strict=True), start=1):
            found[name].append(rates)
            if watch is not None and i < len(tasks):
                watch(i, len(tasks))
    return found


def cross_fitted(
    group: GroupRows, options: Sequence[Learner], seed: int, *, single_split: bool = False
) -> SplitRates:
    """Each of five folds is counted with sets chosen on the other four; or one half of two is."""
    rng = np.random.default_rng(seed)
    folds = deal(group.labels, group.persons, 2 if single_split else OUTER, rng)
    inside = np.zeros((len(group.labels), 2), np.bool_)
    cuts, names = [], []
    n_counted = int((folds == 0).sum()) if single_split else len(folds)
    n_parts = 1 if single_split else OUTER
    # All training parts are learned from together, but of long tables.
    together = min(max(TOGETHER // len(group.distinct), 1), n_parts)
    for start in range(0, n_parts, together):
        some = range(start, min(start + together, n_parts))
        trains = [np.flatnonzero(folds != k) for k in some]
        parts = []
        for train in trains:
            inner = deal(group.labels[train], some_of(group.persons, train), INNER, rng)
            parts.append([group.counts(train[inner == j]) for j in range(INNER)])
        learned = chosen(options, group.distinct, parts, rng)
        for k, train, part, found in zip(some, trains, parts, learned, strict=True):
            cut = _cut_offs(group, part, found, len(train), n_counted)
            rows = np.flatnonzero(folds == k)
            inside[rows] = (found[2] >= cut)[group.index[rows]]
            cuts.append(cut)
            names.append(found[0].name)
    hits = (np.arange(2)[:, None] == group.labels).astype(np.float64)
    pairs = zip(hits, inside.T, strict=True)
    classes = tuple(class_rates(hit, top, group.weights, group.persons) for hit, top in pairs)
    return SplitRates(classes, tuple(np.median(cuts, axis=0).tolist()), tuple(names))


def _cut_offs(
    group: GroupRows, folds: Sequence[Floats], chosen: Chosen, n_train: int, n_counted: int
) -> Floats:
    """A cut-off per class, from training rows only: by what was said of each inner fold."""
    seen = [fold.any(axis=1) for fold in folds]
    score = np.concatenate([s[at] for s, at in zip(chosen[1], seen, strict=True)])
    counts = np.concatenate([fold[at] for fold, at in zip(folds, seen, strict=True)])
    # In independent rows of the training folds: weights of mean 1, repeated persons once.
    counts *= group.worth * n_train / counts.sum()
    # The set must be expected to hold MIN_SIZE of the rows that will be counted.
    size = MIN_SIZE * n_train / n_counted
    totals = counts.sum(axis=1)
    return np.array([best_cut(score[:, c], counts[:, c], totals, size) for c in (0, 1)])


def best_cut(scores: Floats, hits: Floats, totals: Floats, min_size: float) -> float:
    """The cut-off whose set {score ≥ cut} has the largest Wilson lower bound of its hit rate.

    Of each distinct row ``hits`` are of the class, of ``totals``. The whole table is taken where it
    is smaller than ``min_size``.
    """
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    n, x = np.cumsum(totals[order]), np.cumsum(hits[order])
    last = np.append(ranked[1:] != ranked[:-1], True)
    # Sums of weights that should reach the size exactly may miss it by rounding.
    allowed = last & (n >= min_size - 1e-9)
    if not allowed.any():
        return -math.inf
    n, x = n[allowed], x[allowed]
    rate, share = x / n, _Z * _Z / n
    half = _Z * np.sqrt(np.maximum(rate * (1 - rate), 0.0) / n + share / (4 * n))
    bound = (rate + share / 2 - half) / (1 + share)
    return float(ranked[allowed][np.argmax(bound)])


@dataclass(frozen=True)
class ClassRates:
    """A class in a group and in the top set: rates, sizes, and how their errors go together."""

    n: int
    whole: Sample
    n_top: int
    top: Sample | None
    correlation: float


def class_rates(
    hits: Floats, top: Bools, weights: Floats | None, persons: Positions | None
) -> ClassRates:
    """Counts of a class among all rows of a group and among the held-out rows of its top set."""
    whole = rate_sample(hits, weights, persons)
    n_top = int(top.sum())
    if not n_top:
        return ClassRates(len(hits), whole, 0, None, 0.0)
    inside = rate_sample(hits[top], some_of(weights, top), some_of(persons, top))
    spread = whole.variance * inside.variance
    if spread <= 0:
        return ClassRates(len(hits), whole, n_top, inside, 0.0)
    if weights is None and persons is None:
        covariance = inside.mean * (1 - inside.mean) / len(hits)
    else:
        w = np.ones(len(hits)) if weights is None else weights
        a = w * (hits - whole.mean) / w.sum()
        b = np.where(top, w * (hits - inside.mean) / w[top].sum(), 0.0)
        if persons is not None:
            a, b = np.bincount(persons, a), np.bincount(persons, b)
        covariance = float(np.dot(a, b))
    correlation = min(max(covariance / math.sqrt(spread), 0.0), 1.0)
    return ClassRates(len(hits), whole, n_top, inside, correlation)


def held_out_rates(
    hits: Floats,
    scores: Floats,
    folds: Positions,
    weights: Floats | None = None,
    persons: Positions | None = None,
) -> ClassRates:
    """A class among all rows of a group and in its top set, whose cut each fold gets from others.

    Scores of the other folds were learned with this one too. A cut-off is one number, so that it
    hardly tells what its labels are. ``hits`` are 1.0 where a row is of the class.
    """
    each = np.ones(len(hits)) if weights is None else weights
    # In independent rows: weights that differ are worth fewer.
    each = each * kish(each) / each.sum()
    top = np.zeros(len(hits), np.bool_)
    for k in np.unique(folds).tolist():
        inside = folds == k
        rest = ~inside
        if not rest.any():
            continue
        size = MIN_SIZE * rest.sum() / len(hits)
        cut = best_cut(scores[rest], (each * hits)[rest], each[rest], size)
        top[inside] = scores[inside] >= cut
    return class_rates(hits, top, weights, persons)


def top_rate(rates: ClassRates, tail: float | None) -> float:
    """The rate of a class in its top set, or a lower confidence limit of it."""
    if tail is not None:
        return set_limits(rates, tail)[0]
    return rates.whole.mean if rates.top is None else rates.top.mean


def set_limits(rates: ClassRates, tail: float) -> Interval:
    """Confidence limits of the rate of a class in its top set."""
    top = rates.top
    return (0.0, 1.0) if top is None else clopper_pearson(top.mean * top.size, top.size, tail)


def eased(rate: float, gamma: float) -> float:
    """The least P(D = c | Df = c, s, x) that a row can have where another has this one.

    ``gamma`` is by how much their odds may differ; 1 where D does not depend on X given (Df, S).
    """
    return rate / (rate + gamma * (1 - rate)) if rate > 0 else 0.0


def estimated_bound(counts: ClassRates, gamma: float = 1.0) -> float:
    """The ratio itself, without its error."""
    r = 0.0 if counts.top is None else eased(counts.top.mean, gamma)
    return min(counts.whole.mean / r, 1.0) if r > 0 else 1.0


def joint_bound(counts: ClassRates, tail: float, gamma: float = 1.0) -> float:
    """Upper bound of the ratio from the two rates' exact bounds and their correlation.

    The larger root of π²(r² − B²) − 2π(ρr − co·A·B) + ρ² − A² = 0, with
    A = up(ρ) − ρ and B = r − low(r): the confidence limit of a ratio recovered
    from those of its terms (Donner and Zou 2012). Where odds may differ within the group, r is
    eased by that: P(D = c) is at least P(Df = c) times the least of P(D = c | Df = c, x).
    """
    if counts.top is None:
        return 1.0
    rho, r = counts.whole.mean, eased(counts.top.mean, gamma)
    up = clopper_pearson(rho * counts.whole.size, counts.whole.size, tail)[1]
    size = counts.top.size
    low = eased(clopper_pearson(counts.top.mean * size, size, tail)[0], gamma)
    a, b = up - rho, r - low
    square = r * r - b * b
    if low <= 0 or square <= 0:  # an end that is lost in rounding is as good as zero
        return 1.0
    middle = rho * r - counts.correlation * a * b
    root = math.sqrt(max(middle * middle - square * (rho * rho - a * a), 0.0))
    return min((middle + root) / square, 1.0)


def separate_bound(counts: ClassRates, tail: float, gamma: float = 1.0) -> float:
    """Upper bound of the ratio from two exact bounds, each at half the tail: exact, wider."""
    if counts.top is None:
        return 1.0
    whole, top = counts.whole, counts.top
    up = clopper_pearson(whole.mean * whole.size, whole.size, tail / 2)[1]
    low = eased(clopper_pearson(top.mean * top.size, top.size, tail / 2)[0], gamma)
    return min(up / low, 1.0) if low > 0 else 1.0
