"""The sets of rows that are chosen in each group and counted on others, and the test they serve."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Floats,
    MetricError,
    check_classes,
    check_clusters,
    check_groups,
    check_positive_weight,
    one_of,
)
from fairpc.evidence._group_range import RateRanges
from fairpc.evidence._held_out_bounds import HeldOutBounds, StratumBounds
from fairpc.evidence._intervals import Interval, check_enough_rows, some_of
from fairpc.evidence._test_records import (
    SMALLEST_P,
    AlteredByFeatures,
    AssumptionTest,
    ClassBound,
    GroupBounds,
    Method,
)
from fairpc.evidence._top_sets import (
    ClassRates,
    GroupRows,
    SplitRates,
    Watch,
    all_splits,
    estimated_bound,
    joint_bound,
    separate_bound,
)
from fairpc.learners import Features, design, distinct, learners

MIN_ROWS: Final = 10
GAMMAS: Final = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)
MOST_GAMMA: Final = 1000.0


@dataclass(frozen=True, eq=False)
class TopSets:
    """Checked rows, and the sets chosen in each group."""

    classes: tuple[Any, ...]
    wanted: int  #: number of the positive class
    names: tuple[Any, ...]  #: of the groups, in sorted order
    method: Method
    splits: dict[Any, list[SplitRates]]  #: of each group, per seed

    @classmethod
    def of(
        cls,
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        sensitive_features: npt.ArrayLike,
        *,
        positive: Any = None,
        classifier: Any = None,
        seeds: Sequence[int],
        method: Method = "cross-fit",
        clusters: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
        progress: Watch | None = None,
    ) -> TopSets:
        features, single = design(x), method == "single-split"
        n = len(features)
        classes, labels = check_classes("y", y, n)
        check_two(classes)
        names, ids = check_groups(sensitive_features, n, "sensitive_features")
        persons = check_clusters(clusters, n)
        rule = f"folds within folds need at least {MIN_ROWS}"
        check_enough_rows(names, ids, persons, least=MIN_ROWS, rule=rule)
        cells = np.bincount(ids * 2 + labels, minlength=len(names) * 2)
        if not cells.all():
            g, c = divmod(int(np.argmin(cells)), 2)
            raise MetricError(
                f"class {classes[c]!r} does not occur in group {names[g]!r}: the test needs "
                "every class in every group; merge groups, or collect more rows"
            )
        weights = check_positive_weight(sample_weight, n)
        wanted = 1 if positive is None else one_of("positive", positive, classes)
        if single and (weights is not None or persons is not None):
            raise MetricError(
                "method is 'single-split' with clusters or weights: it is exact for independent "
                "rows that count alike; use 'cross-fit', or keep one row per person"
            )
        options = learners(classifier, weights is not None)
        groups = {}
        for g, name in enumerate(names):
            here = ids == g
            who = None if persons is None else np.unique(persons[here], return_inverse=True)[1]
            rows, index = distinct(features[here])
            own = Features(rows), index, labels[here]
            groups[name] = GroupRows(*own, some_of(weights, here), who)
        splits = all_splits(groups, options, seeds, single_split=single, watch=progress)
        return cls(classes, wanted, names, method, splits)

    @classmethod
    def of_fit(
        cls,
        bounds: HeldOutBounds,
        positive: int,
        codes: Sequence[int] | None = None,
    ) -> TopSets:
        """The sets that a fit chose and counted, as one way of splitting.

        ``positive`` is the number of the positive one; ``codes`` are of the groups, where the
        bounds are of some of them.
        """
        splits: dict[Any, list[SplitRates]] = {}
        for g, own in zip(codes or range(len(bounds.groups)), bounds.groups, strict=True):
            rates = own.negative, own.positive
            each = SplitRates(rates if positive else rates[::-1], (math.nan, math.nan), ())
            splits[g] = [each]
        return cls((0, 1), positive, tuple(splits), "cross-fit", splits)

    def quoted(
        self, bounds: StratumBounds, level: float, share: Floats | None = None
    ) -> AssumptionTest:
        """The test by the bounds of the fit themselves, within what was stated beforehand.

        Where rates may differ, ``share`` gives P(S, A): the range is of the whole table by it.
        """
        differences = replace(bounds.differences(level), names=self.names)
        lower, upper = bounds.rate_set(level, share)
        test = self.test(level, bounds.delta)
        groups = zip(test.groups, bounds.possible(bounds.tail(level)).tolist(), strict=True)
        rejected = bounds.rejected(level)
        return replace(
            test,
            lower=lower,
            upper=upper,
            rejected=rejected,
            p_value=_smallest_level(lambda alpha: bounds.rejected(1 - alpha)),
            groups=tuple(replace(g, lower=low, upper=high) for g, (low, high) in groups),
            tolerated=test.tolerated if rejected else None,
            least_difference=differences.least(),
            most_difference=differences.most(),
        )

    def uppers(self, alpha: float, gamma: float = 1.0) -> Floats:
        """Upper bounds of P(Df = c) from each group, [group, class]: medians over seeds.

        All together are wrong with probability at most alpha.
        """
        return self._medians(self._bound(alpha / (2 * len(self.names)), gamma))

    def ranges(self, alpha: float, gamma: float = 1.0) -> RateRanges:
        """What each group leaves of P(Df = positive): medians over seeds of ends and limits.

        So that all differences together are wrong with probability at most alpha.
        """
        n, exact = len(self.names), self.method == "single-split"
        tail = alpha / (2 * n if exact else n * (n - 1))
        uppers = (
            self._medians(lambda counts: estimated_bound(counts, gamma)),
            self._medians(self._bound(tail, gamma)),
        )
        wanted = self.wanted
        here, far = (np.column_stack([1 - u[:, 1 - wanted], u[:, wanted]]) for u in uppers)
        return RateRanges(self.names, here, far, tail, added=exact)

    def _bound(self, tail: float, gamma: float) -> Callable[[ClassRates], float]:
        bound = joint_bound if self.method == "cross-fit" else separate_bound
        return lambda counts: bound(counts, tail, gamma)

    def _medians(self, bound: Callable[[ClassRates], float]) -> Floats:
        """Bounds of each class in each group, [group, class]: medians over seeds."""
        each = [[[bound(c) for c in s.classes] for s in seeds] for seeds in self.splits.values()]
        return np.asarray(np.median(each, axis=1), np.float64)

    def test(self, level: float, delta: float = 0.0) -> AssumptionTest:
        """The test without strata: all rows are one."""

        def sets(gamma: float) -> Floats:
            return np.asarray(self.uppers(1 - level, gamma).min(axis=0), np.float64)

        def empty(alpha: float, gamma: float = 1.0) -> bool:
            return self.ranges(alpha, gamma).least().limit > delta

        bounds = self.uppers(1 - level)
        lower, upper = self._ends(bounds.min(axis=0))
        ranges = self.ranges(1 - level)
        rejected, tolerated = empty(1 - level), None
        if rejected:  # The least gamma that leaves something.
            tolerated = math.inf
            if not empty(1 - level, MOST_GAMMA):
                tolerated = _bisected(lambda g: not empty(1 - level, g), 1.0, MOST_GAMMA, 1e-3)
        every = [split for seeds in self.splits.values() for split in seeds]
        return AssumptionTest(
            lower=lower,
            upper=upper,
            rejected=rejected,
            p_value=_smallest_level(empty),
            groups=self._group_bounds(bounds),
            classes=self.classes,
            positive=self.classes[self.wanted],
            level=level,
            method=self.method,
            n_seeds=len(self.splits[self.names[0]]),
            altered_by_features=tuple(AlteredByFeatures(g, *self._ends(sets(g))) for g in GAMMAS),
            tolerated=tolerated,
            classifiers=tuple(sorted(Counter(n for s in every for n in s.learners).items())),
            delta=delta,
            least_difference=ranges.least(),
            most_difference=ranges.most(),
        )

    def _group_bounds(self, bounds: Floats) -> tuple[GroupBounds, ...]:
        """The bounds from each group alone, and the counts behind them."""
        groups = []
        for (name, seeds), mine in zip(self.splits.items(), bounds, strict=True):
            per_class = []
            for c, label in enumerate(self.classes):
                sets = [(split.classes[c], split.cuts[c]) for split in seeds]
                tops = [
                    (t.n_top, math.nan if t.top is None else t.top.mean, cut) for t, cut in sets
                ]
                medians = np.median(np.array(tops, np.float64), axis=0).tolist()
                rate = sets[0][0].whole.mean
                per_class.append(ClassBound(label, rate, float(mine[c]), *medians))
            whole = seeds[0].classes[0]
            ends = self._ends(mine)
            size = whole.n, whole.whole.size
            groups.append(GroupBounds(name, *size, *ends, tuple(per_class)))
        return tuple(groups)

    def _ends(self, uppers: Floats) -> Interval:
        """Ends of P(Df = positive): the lower by the upper bound of the other class."""
        return max(1 - float(uppers[1 - self.wanted]), 0.0), float(uppers[self.wanted])

    def p_value_of(self, rate: float) -> float:
        """Smallest 1 − level at which the test does not leave this P(Df = positive)."""
        wanted = self.wanted

        def excluded(alpha: float) -> bool:
            uppers = self.uppers(alpha).min(axis=0)
            return not 1 - float(uppers[1 - wanted]) <= rate <= float(uppers[wanted])

        return _smallest_level(excluded)


def check_two(classes: tuple[Any, ...], what: str = "the test needs") -> None:
    """A MetricError where labels have not two classes."""
    if len(classes) != 2:
        n = "1 class" if len(classes) == 1 else f"{len(classes)} classes"
        raise MetricError(
            f"y has {n}, and {what} two: merge classes into two; FairPC with "
            "structure='strudel' keeps more"
        )


def _smallest_level(empty: Callable[[float], bool]) -> float:
    """Smallest alpha at which nothing is left."""
    if not empty(1.0):
        return 1.0
    return SMALLEST_P if empty(SMALLEST_P) else _bisected(empty, SMALLEST_P, 1.0, 1e-4)


def _bisected(holds: Callable[[float], bool], low: float, high: float, step: float) -> float:
    """The least value from which on something holds, by bisection on its logarithm."""
    low, high = math.log(low), math.log(high)
    while high - low > step:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(math.exp(middle)) else (middle, high)
    return math.exp(high)
