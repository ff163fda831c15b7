"""Do the data contradict the assumptions, and which P(Df) do they leave?

The assumptions: Df is independent of S; D is independent of X given Df and S;
in every group D = c is at least as frequent under Df = c as under any other Df.
Together they bound P(Df = c) from above, group by group, by the rate of c over
its rate in any set of rows. Where the bounds of all classes sum to less than
one, no P(Df) is left, and the assumptions are rejected together.
"""

# ruff: noqa: N803, PT028 - a test of hypotheses, not of code: its arguments may have defaults.

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Floats,
    MetricError,
    Record,
    check_choice,
    check_classes,
    check_clusters,
    check_groups,
    check_level,
    check_positive_weight,
    one_of,
    whole_number,
)
from fairpc.evidence._crossfit import (
    GroupRows,
    SplitRates,
    Watch,
    all_splits,
    joint_bound,
    separate_bound,
)
from fairpc.evidence._intervals import check_enough_rows, some_of
from fairpc.evidence._strata import Mechanism, check_mechanism
from fairpc.learners import Features, design, distinct, learners

if TYPE_CHECKING:
    from fairpc.evidence._assumptions_within import StrataTest, TestsByStratum

Method = Literal["cross-fit", "single-split"]
MIN_ROWS: Final = 10
GAMMAS: Final = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0)
MOST_GAMMA: Final = 1000.0
SMALLEST_P: Final = 1e-12
MOST_SEEDS: Final = 10_000

WHAT_TO_DO: Final = (
    "If an attribute may rightly change the rate of fair decisions, such as hours worked, "
    "compare people within its levels: given=[…].",
    "If you know something beforehand, such as the rate of fair decisions, or that labels were "
    "only ever lowered, state it (knowledge=…), and say that the result depends on it.",
    "Find rows whose fair decision is known from another source (fair_labels=…).",
    "Do not go on as if nothing had been found: these data contradict what such a model assumes, "
    "so do not quote what it says about turned labels.",
)


@dataclass(frozen=True)
class ClassBound:
    """One class in one group; counts and cut-off are medians over the seeds.

    Attributes:
        label: the class.
        rate: P(D = label | group).
        upper: upper confidence bound of P(Df = label) from this group alone.
        set_n: rows of the top set.
        set_rate: rate of the class among them.
        cutoff: rows whose predicted probability of the class is at least this are in the set.
    """

    label: Any
    rate: float
    upper: float
    set_n: float
    set_rate: float
    cutoff: float


@dataclass(frozen=True)
class GroupBounds:
    """One group: bounds of P(Df) from it alone, and the counts behind them.

    Attributes:
        group: its name; a tuple where several attributes are crossed.
        n: rows.
        effective_n: independent rows they are worth.
        lower, upper: of P(Df = positive), or one each per class where there are more than two.
        classes: per class.
    """

    group: Any
    n: int
    effective_n: float
    lower: float | tuple[float, ...]
    upper: float | tuple[float, ...]
    classes: tuple[ClassBound, ...]


@dataclass(frozen=True)
class BentSet:
    """The set of P(Df) where labels may also be bent by features, up to a limit.

    Attributes:
        gamma: by how much the odds of P(D = c | Df = c, s, x) may differ between two rows of a
            group; 1 is the assumption that they do not.
        lower, upper: as those of the test.
    """

    gamma: float
    lower: float | tuple[float, ...]
    upper: float | tuple[float, ...]


@dataclass(frozen=True)
class AssumptionTest(Record):
    """Confidence set for P(Df), and whether it is empty.

    Attributes:
        lower, upper: confidence set of P(Df = positive); one each per class where there are
            more than two. ``lower > upper`` means that the set is empty.
        rejected: whether the set is empty at the level.
        p_value: smallest 1 − level at which it is; never said to be under 1e-12.
        groups: per group.
        classes: in sorted order.
        positive: the class that ``lower`` and ``upper`` are about; None for more than two.
        level: of the confidence set.
        method: "cross-fit", or "single-split", which is exact for independent rows.
        n_seeds: ways of splitting over which the median was taken.
        bending: the set where D depends on X too, given Df and S; see :class:`BentSet`.
        tolerated: how much of that undoes a rejection: the least ``gamma`` at which the set is not
            empty; None where nothing was rejected, infinite where a thousandfold is not enough.
        classifiers: which classifier ranked the rows, and in how many fits.
    """

    lower: float | tuple[float, ...]
    upper: float | tuple[float, ...]
    rejected: bool
    p_value: float
    groups: tuple[GroupBounds, ...]
    classes: tuple[Any, ...]
    positive: Any
    level: float
    method: Method
    n_seeds: int
    bending: tuple[BentSet, ...]
    tolerated: float | None
    classifiers: tuple[tuple[str, int], ...]

    _computed = ("what_to_do", "summary")

    @property
    def what_to_do(self) -> tuple[str, ...]:
        """What is left to do after a rejection; empty where nothing was rejected."""
        return WHAT_TO_DO if self.rejected else ()

    def ends(self) -> dict[Any, tuple[float, float]]:
        """Per group the rates of the positive class in the bottom and in the top set.

        Held-out estimates of the least and the largest P(D = positive | x, s), for
        ``identified_set``; without the noise that extremes of fitted scores have.
        """
        if self.positive is None:
            raise MetricError("ends are of two classes: for more, see groups[i].classes")
        found = {}
        for g in self.groups:
            bounds = {c.label == self.positive: c for c in g.classes}
            low, high, rate = 1 - bounds[False].set_rate, bounds[True].set_rate, bounds[True].rate
            # The rate of the group serves where a set was empty, and its rate is NaN, and where
            # few rows put the rate of a set on the wrong side of it.
            found[g.group] = (
                rate if math.isnan(low) else min(low, rate),
                rate if math.isnan(high) else max(high, rate),
            )
        return found

    def tolerance(self) -> str:
        """How far the label may depend on features before a rejection falls, in plain words."""
        if self.tolerated is None:
            return ""
        if math.isinf(self.tolerated):
            return (
                "It would stand even if features changed the odds of a label a thousandfold, given "
                "the fair decision and the group."
            )
        return (
            "It would fall if features changed the odds of a label, given the fair decision and "
            f"the group, by a factor of {self.tolerated:.2f} or more."
        )

    def to_dict(self) -> dict[str, Any]:
        """The record and what follows from it as plain data, for JSON.

        ``classifiers`` maps each classifier to its number of fits.
        """
        return super().to_dict() | {"classifiers": dict(self.classifiers)}

    def summary(self) -> str:
        """The result and what it does not mean, in plain words."""
        p = "below 1e-12" if self.p_value <= SMALLEST_P else f"= {self.p_value:.2g}"
        if self.rejected:
            clash = ""
            if self.positive is not None:
                low = max(self.groups, key=lambda g: g.lower).group
                high = min(self.groups, key=lambda g: g.upper).group
                clash = (
                    f" ({low!r} needs at least {self.lower:.3f}, {high!r} at most {self.upper:.3f})"
                )
            return (
                f"Rejected at the {1 - self.level:.2g} level (p {p}): no rate of fair "
                f"decisions fits every group{clash}. At least one of these fails: fair "
                "decisions are independent of the group; the label depends on the features "
                "through the fair decision only; in every group a label is most likely "
                f"under the fair decision of the same name. {self.tolerance()} What to do: "
                f"{' '.join(self.what_to_do)}"
            )
        if self.positive is None:
            ends = zip(self.classes, *map(np.atleast_1d, (self.lower, self.upper)), strict=True)
            inside = "; ".join(f"{c!r} from {a:.3f} to {b:.3f}" for c, a, b in ends)
            share = f"{self.level:.0%} confidence, share of fair decisions: {inside}"
        else:
            share = (
                f"with {self.level:.0%} confidence the share of fair decisions {self.positive!r} "
                f"lies between {self.lower:.3f} and {self.upper:.3f}, if the assumptions are true"
            )
        return (
            f"Not rejected (p {p}): {share}. This does not show that the assumptions are true; "
            "some violations cannot be seen however many rows there are."
        )


@overload
def test_assumptions(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    *,
    given: None = None,
    mechanism: Mechanism = "shared",
    positive: Any = None,
    classifier: Any = None,
    level: float = 0.95,
    method: Method = "cross-fit",
    n_seeds: int = 11,
    seeds: Iterable[int] | None = None,
    clusters: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    progress: Watch | None = None,
) -> AssumptionTest: ...


@overload
def test_assumptions(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    *,
    given: npt.ArrayLike,
    mechanism: Literal["shared"] = "shared",
    positive: Any = None,
    classifier: Any = None,
    level: float = 0.95,
    method: Method = "cross-fit",
    n_seeds: int = 11,
    seeds: Iterable[int] | None = None,
    clusters: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    progress: Watch | None = None,
) -> StrataTest: ...


@overload
def test_assumptions(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    *,
    given: npt.ArrayLike,
    mechanism: Literal["within"],
    positive: Any = None,
    classifier: Any = None,
    level: float = 0.95,
    method: Method = "cross-fit",
    n_seeds: int = 11,
    seeds: Iterable[int] | None = None,
    clusters: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    progress: Watch | None = None,
) -> TestsByStratum: ...


def test_assumptions(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    sensitive_features: npt.ArrayLike,
    *,
    given: npt.ArrayLike | None = None,
    mechanism: Mechanism = "shared",
    positive: Any = None,
    classifier: Any = None,
    level: float = 0.95,
    method: Method = "cross-fit",
    n_seeds: int = 11,
    seeds: Iterable[int] | None = None,
    clusters: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    progress: Watch | None = None,
) -> AssumptionTest | StrataTest | TestsByStratum:
    """Test the assumptions of the latent fair decision, and bound P(Df) if they hold.

    Within each group a classifier ranks the rows by P(D = c | X); sets in which
    nearly every row has class c are chosen on training folds and counted on
    held-out ones. The median over several ways of splitting is taken.

    Args:
        X: features, any types; missing cells allowed.
        y: observed class per row.
        sensitive_features: group per row; several columns are crossed.
        given: stratum per row, several columns are crossed: test the weaker claim that Df is
            independent of the group within strata.
        mechanism: with ``given``, "shared": labels are bent alike in all strata of a group (two
            classes, "cross-fit"; a :class:`StrataTest`); or "within": each stratum has its own
            mechanism and is tested by itself, all together at the level; a
            :class:`TestsByStratum`.
        positive: class that ``lower`` and ``upper`` are about; the last of two if None.
        classifier: "logistic", "boosting", a scikit-learn classifier, or None: for each
            training part the better of the first two by log-loss on inner folds, or of more than
            ten classes the first.
        level: of the confidence set; the test rejects at 1 − level.
        method: "cross-fit", or "single-split": one split, exact for independent rows, wider.
        n_seeds: ways of splitting, with seeds 0, 1, …; "single-split" takes the first only,
            because choosing among splits would undo its exactness.
        seeds: the seeds themselves, instead of ``n_seeds``.
        clusters: who each row is about, where persons repeat; a person stays in one fold.
        sample_weight: how many people a row stands for in the population; not counts of equal
            rows, which must be repeated. Counts are then shrunk to the effective sample size.
        progress: called before each way of splitting a group with how many are done and how many
            there are; with ``mechanism="within"`` of each stratum anew.
    """
    check_level(level)
    check_choice("method", method, ("cross-fit", "single-split"), MetricError)
    numbers = _seeds(n_seeds, seeds, method)
    check_mechanism(mechanism, given)
    if given is not None:
        from fairpc.evidence._assumptions_within import test_by_stratum, test_within

        weighing: dict[str, Any] = {"clusters": clusters, "sample_weight": sample_weight}
        asked: dict[str, Any] = {"positive": positive, "classifier": classifier, "level": level}
        asked |= {"seeds": numbers, "progress": progress} | weighing
        if mechanism == "within":
            return test_by_stratum(X, y, sensitive_features, given, method=method, **asked)
        _check_method(method, alike=method == "cross-fit")
        return test_within(X, y, sensitive_features, given, **asked)
    classes, groups = group_rows(X, y, sensitive_features, clusters, sample_weight)
    wanted = positive_code(classes, positive)
    one = next(iter(groups.values()))
    _check_method(method, alike=one.weights is None and one.persons is None)
    options = learners(classifier, one.weights is not None, len(classes))
    single = method == "single-split"
    found = all_splits(groups, options, numbers, single_split=single, watch=progress)
    return assumption_record(classes, found, level, wanted, method)


test_assumptions.__test__ = False  # type: ignore[attr-defined]


def group_rows(
    x: Any, y: Any, sensitive_features: Any, clusters: Any, sample_weight: Any
) -> tuple[tuple[Any, ...], dict[Any, GroupRows]]:
    """The classes, and the rows of each group: all that was given, checked."""
    features = design(x)
    n = len(features)
    classes, labels = check_classes("y", y, n)
    if len(classes) < 2:
        raise MetricError(f"y has 1 class ({classes[0]!r}): the test needs at least two")
    names, ids = check_groups(sensitive_features, n, "sensitive_features")
    persons = check_clusters(clusters, n)
    rule = f"folds within folds need at least {MIN_ROWS}"
    check_enough_rows(names, ids, persons, least=MIN_ROWS, rule=rule)
    cells = np.bincount(ids * len(classes) + labels, minlength=len(names) * len(classes))
    if not cells.all():
        g, c = divmod(int(np.argmin(cells)), len(classes))
        raise MetricError(
            f"class {classes[c]!r} does not occur in group {names[g]!r}: the test needs "
            "every class in every group; merge classes or groups, or collect more rows"
        )
    weights = check_positive_weight(sample_weight, n)
    groups = {}
    for g, name in enumerate(names):
        here = ids == g
        who = None if persons is None else np.unique(persons[here], return_inverse=True)[1]
        rows, index = distinct(features[here])
        told = Features(rows), index, labels[here], len(classes)
        groups[name] = GroupRows(*told, some_of(weights, here), who)
    return classes, groups


def assumption_record(
    classes: tuple[Any, ...],
    found: dict[Any, list[SplitRates]],
    level: float,
    positive: int | None,
    method: Method,
) -> AssumptionTest:
    """The test from what was counted: per group one way of splitting per seed."""

    def uppers(alpha: float, gamma: float = 1.0) -> Floats:
        return _uppers(found, alpha, method, gamma)

    def leaves(gamma: float) -> bool:
        return float(uppers(1 - level, gamma).min(axis=0).sum()) >= 1

    def empty(alpha: float) -> bool:
        return float(uppers(alpha).min(axis=0).sum()) < 1

    bounds = uppers(1 - level)
    lower, upper = _ends(bounds.min(axis=0), positive)
    groups = []
    for (name, seeds), mine in zip(found.items(), bounds, strict=True):
        whole = seeds[0].classes[0]
        per_class = tuple(_class_bound(seeds, c, label, mine[c]) for c, label in enumerate(classes))
        size = whole.n, whole.whole.size
        groups.append(GroupBounds(name, *size, *_ends(mine, positive), per_class))
    names = Counter(name for seeds in found.values() for s in seeds for name in s.learners)
    return AssumptionTest(
        lower=lower,
        upper=upper,
        rejected=bool(bounds.min(axis=0).sum() < 1),
        p_value=smallest_level(empty),
        groups=tuple(groups),
        classes=classes,
        positive=None if positive is None else classes[positive],
        level=level,
        method=method,
        n_seeds=len(seeds),
        bending=tuple(
            BentSet(gamma, *_ends(uppers(1 - level, gamma).min(axis=0), positive))
            for gamma in GAMMAS
        ),
        tolerated=None if leaves(1.0) else _least_gamma(leaves),
        classifiers=tuple(sorted(names.items())),
    )


def _uppers(
    found: dict[Any, list[SplitRates]], alpha: float, method: Method, gamma: float = 1.0
) -> Floats:
    """Medians over seeds [group, class], all together wrong with probability at most alpha."""
    bound = joint_bound if method == "cross-fit" else separate_bound
    n_classes = len(next(iter(found.values()))[0].classes)
    tail = alpha / (n_classes * len(found))
    each = [[[bound(c, tail, gamma) for c in s.classes] for s in seeds] for seeds in found.values()]
    return np.asarray(np.median(each, axis=1), np.float64)


def rate_p_value(found: dict[Any, list[SplitRates]], positive: int, rate: float) -> float:
    """Smallest 1 − level at which the set of the test does not hold this P(Df = positive).

    Of two classes.
    """

    def excluded(alpha: float) -> bool:
        uppers = _uppers(found, alpha, "cross-fit").min(axis=0)
        return not 1 - float(uppers[1 - positive]) <= rate <= float(uppers[positive])

    return smallest_level(excluded)


def _least_gamma(leaves: Callable[[float], bool]) -> float:
    """The least gamma that leaves something, by bisection on its logarithm."""
    if not leaves(MOST_GAMMA):
        return math.inf
    low, high = 0.0, math.log(MOST_GAMMA)
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if leaves(math.exp(middle)) else (middle, high)
    return math.exp(high)


def _class_bound(seeds: list[SplitRates], c: int, label: Any, upper: float) -> ClassBound:
    splits = [seed.classes[c] for seed in seeds]
    rates = [math.nan if t.top is None else t.top.mean for t in splits]
    columns = [t.n_top for t in splits], rates, [seed.cuts[c] for seed in seeds]
    medians = (float(np.median(column)) for column in columns)
    return ClassBound(label, splits[0].whole.mean, float(upper), *medians)


def smallest_level(empty: Callable[[float], bool]) -> float:
    """Smallest alpha at which no P(Df) is left, by bisection on its logarithm."""
    if not empty(1.0):
        return 1.0
    if empty(SMALLEST_P):
        return SMALLEST_P
    low, high = math.log(SMALLEST_P), 0.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if empty(math.exp(middle)) else (middle, high)
    return math.exp(high)


def _ends(
    uppers: Floats, positive: int | None
) -> tuple[float | tuple[float, ...], float | tuple[float, ...]]:
    """Lower ends from the upper ends of the other classes: all of P(Df) sums to one."""
    lowers = np.maximum(1 - (uppers.sum() - uppers), 0.0)
    if positive is None:
        return tuple(lowers.tolist()), tuple(uppers.tolist())
    return float(lowers[positive]), float(uppers[positive])


def _check_method(method: Method, *, alike: bool) -> None:
    if method == "single-split" and not alike:
        raise MetricError(
            "method is 'single-split' with clusters or weights: it is exact for independent rows "
            "that count alike; use 'cross-fit', or keep one row per person"
        )


def positive_code(classes: tuple[Any, ...], positive: Any) -> int | None:
    if positive is None:
        return 1 if len(classes) == 2 else None
    place = one_of("positive", positive, classes)
    if len(classes) > 2:
        raise MetricError(
            f"positive is {positive!r} and y has {len(classes)} classes: "
            "bounds then come for every class; leave positive out"
        )
    return place


def _seeds(n_seeds: int, seeds: Iterable[int] | None, method: Method) -> list[int]:
    if seeds is None:
        numbers = list(range(whole_number("n_seeds", n_seeds, 1, MOST_SEEDS)))
    else:
        try:
            given = list(islice(seeds, MOST_SEEDS + 1))
        except TypeError as error:
            raise MetricError("seeds is no list of whole numbers: give some") from error
        numbers = [whole_number("a seed", seed, 0, 2**32 - 1) for seed in given]
        if not 1 <= len(numbers) <= MOST_SEEDS:
            raise MetricError(f"seeds is empty or endless: give 1 to {MOST_SEEDS:,} of them")
    return numbers[:1] if method == "single-split" else numbers
