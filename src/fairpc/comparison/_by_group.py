"""Any metric by group, with intervals: marginal and crossed groups, and the gaps between them.

Values are those of fairlearn's ``MetricFrame``. Intervals are percentiles of a bootstrap of rows,
or of persons where persons repeat; several groups are compared by Bonferroni over their pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from fairpc import core
from fairpc.comparison._metrics import _positive
from fairpc.core import Array, Bools, FairpcError, Floats, MetricError, Positions, Record
from fairpc.evidence import SMALL

Metric = Callable[..., float]
Cell = tuple[Any, Any, Bools]
_FAILURES: Final = (FairpcError, ValueError, ZeroDivisionError)
_MOST_DRAWS: Final = 100_000
_UNDEFINED: Final = "not defined, for groups without the rows that it needs"


@dataclass(frozen=True)
class MetricValue(Record):
    """A metric, a difference or a gap, with its bootstrap interval; NaN where not defined."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class GroupMetrics(Record):
    """One group and its metrics."""

    group: Any  #: its name; a tuple where several attributes are crossed
    attribute: Any  #: the column whose group it is; None where all are crossed
    n: int  #: rows
    small: bool  #: under 30 rows, or under 30 persons: read with care
    metrics: dict[str, MetricValue]


@dataclass(frozen=True)
class PairMetrics(Record):
    """Two crossed groups: each metric of the last minus that of the first."""

    first: Any
    last: Any
    metrics: dict[str, MetricValue]


@dataclass(frozen=True)
class MetricsByGroup(Record):
    """Metrics of all rows, of each group, and between groups."""

    overall: dict[str, MetricValue]
    groups: dict[Any, GroupMetrics]  #: crossed groups by name, in sorted order
    marginal: tuple[GroupMetrics, ...]  #: groups of each attribute, where several are crossed
    differences: tuple[PairMetrics, ...]  #: every pair of crossed groups
    gaps: dict[str, MetricValue]  #: the largest difference between any two crossed groups
    level: float  #: of each interval; those of gaps hold for all pairs
    n_draws: int

    _computed = ("small_groups", "summary")

    @property
    def small_groups(self) -> tuple[Any, ...]:
        """Groups with too few rows to read much into."""
        return tuple(g.group for g in (*self.groups.values(), *self.marginal) if g.small)

    def summary(self) -> str:
        """The largest gap of each metric, in plain words."""
        text = " ".join(
            f"{name}: {_UNDEFINED}."
            if math.isnan(gap.value)
            else f"{name}: groups differ by up to {gap.value:.3f}, {self.level:.0%} interval "
            f"[{gap.low:.3f}, {gap.high:.3f}]."
            for name, gap in self.gaps.items()
        )
        if self.small_groups:
            text += f" Few rows, read with care: {', '.join(map(repr, self.small_groups))}."
        return text


@dataclass(frozen=True)
class FairnessGaps(Record):
    """Gaps between groups by the notions that people ask for, against the labels given.

    If the labels are biased, so are these: ``fairpc.evidence.error_rates`` has the same notions
    against the latent fair decision.
    """

    equal_opportunity: MetricValue  #: of true positive rates
    equalised_odds: MetricValue  #: of true or of false positive rates, the larger
    predictive_parity: MetricValue  #: of precision
    calibration: MetricValue | None  #: of (rate of positives − mean score); None without scores
    by_group: MetricsByGroup  #: the rates themselves

    _computed = ("summary",)

    def summary(self) -> str:
        """Each gap with its interval, in plain words."""
        named = {
            "equal opportunity": self.equal_opportunity,
            "equalised odds": self.equalised_odds,
            "predictive parity": self.predictive_parity,
            "calibration": self.calibration,
        }
        return "; ".join(
            f"{name}: {_UNDEFINED}"
            if math.isnan(gap.value)
            else f"{name}: gap {100 * gap.value:.1f} points, {self.by_group.level:.0%} interval "
            f"{100 * gap.low:.1f} to {100 * gap.high:.1f}"
            for name, gap in named.items()
            if gap is not None
        )


def by_group(
    metrics: Mapping[str, Metric],
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive_features: Any,
    *,
    level: float = 0.95,
    n_draws: int = 500,
    clusters: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    random_state: int = 0,
) -> MetricsByGroup:
    """Metrics of every group and the gaps between groups, with bootstrap intervals.

    Args:
        metrics: functions of (y_true, y_pred) by name, such as ``fairpc.metrics.accuracy`` or one
            of scikit-learn; NaN where one raises an error, for want of a class.
        y_true: labels per row.
        y_pred: decisions or scores per row, whatever the functions take.
        sensitive_features: group per row; several columns are crossed, and given one by one too.
        level: of each interval.
        n_draws: of the bootstrap.
        clusters: who each row is about, where persons repeat: persons are drawn, not rows.
        sample_weight: weight per row, handed to the functions as ``sample_weight``.
        random_state: seed of the draws.
    """
    named: Any = metrics
    if not isinstance(named, Mapping) or not named or not all(map(callable, named.values())):
        raise MetricError("metrics is not a mapping from names to functions of (y_true, y_pred)")
    truth = core.check_labels("y_true", y_true)
    n = len(truth)
    guess = core.check_labels("y_pred", y_pred, n)
    core.check_level(level)
    core.whole_number("n_draws", n_draws, 10, _MOST_DRAWS)
    persons = core.check_clusters(clusters, n)
    weights = None if sample_weight is None else core.check_sample_weight(sample_weight, n)
    cells = _cells(sensitive_features, n)

    def values(rows: Positions) -> Floats:
        """Each metric of some rows, [cell, metric]."""
        found = np.full((len(cells), len(metrics)), math.nan)
        for c, (_, _, inside) in enumerate(cells):
            at = rows[inside[rows]]
            if len(at):
                weighing = {} if weights is None else {"sample_weight": weights[at]}
                for m, metric in enumerate(metrics.values()):
                    with suppress(*_FAILURES):
                        found[c, m] = float(metric(truth[at], guess[at], **weighing))
        return found

    draws = np.stack([values(rows) for rows in _draws(persons, n, n_draws, random_state)])
    return _collected(list(metrics), cells, values(np.arange(n)), draws, persons, level)


def _cells(sensitive_features: Any, n: int) -> list[Cell]:
    """Attribute, name and rows of all rows, of crossed groups, then of groups of each column."""
    table = core.check_array("sensitive_features", sensitive_features)
    names, ids = core.check_groups(sensitive_features, n, "sensitive_features")
    found: list[Cell] = [(None, None, np.ones(n, np.bool_))]
    found += [(None, name, ids == g) for g, name in enumerate(names)]
    if table.ndim == 2 and table.shape[1] > 1:
        columns = list(getattr(sensitive_features, "columns", range(table.shape[1])))
        for j, column in enumerate(columns):
            own, at = core.check_groups(table[:, j], n, "sensitive_features", least=1)
            found += [(column, name, at == g) for g, name in enumerate(own)]
    return found


def _draws(
    persons: Positions | None, n: int, n_draws: int, random_state: int
) -> Iterator[Positions]:
    """Rows of as many persons as there are, drawn with replacement."""
    rng = np.random.default_rng(random_state)
    if persons is None:
        for _ in range(n_draws):
            yield rng.integers(0, n, n)
        return
    order = np.argsort(persons, kind="stable")
    counts = np.bincount(persons)
    starts = np.cumsum(counts) - counts
    for _ in range(n_draws):
        drawn = rng.integers(0, len(counts), len(counts))
        times = counts[drawn]
        inside = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        yield order[np.repeat(starts[drawn], times) + inside]


def _collected(
    names: list[str],
    cells: list[Cell],
    found: Floats,
    draws: Floats,
    persons: Positions | None,
    level: float,
) -> MetricsByGroup:
    """Values [cell, metric] and draws [draw, cell, metric] as records."""

    def values(own: Floats, drawn: Floats, alpha: float) -> dict[str, MetricValue]:
        pairs = zip(names, own.tolist(), drawn.T, strict=True)
        return {name: _value(value, each, alpha) for name, value, each in pairs}

    def group(c: int) -> GroupMetrics:
        attribute, name, rows = cells[c]
        n = int(rows.sum())
        count = n if persons is None else len(np.unique(persons[rows]))
        own = values(found[c], draws[:, c], 1 - level)
        return GroupMetrics(name, attribute, n, count < SMALL, own)

    crossed = [c for c in range(1, len(cells)) if cells[c][0] is None]
    pairs = list(combinations(crossed, 2))

    def between(a: int, b: int, alpha: float) -> dict[str, MetricValue]:
        return values(found[b] - found[a], draws[:, b] - draws[:, a], alpha)

    together = [between(a, b, (1 - level) / len(pairs)) for a, b in pairs]
    return MetricsByGroup(
        overall=values(found[0], draws[:, 0], 1 - level),
        groups={cells[c][1]: group(c) for c in crossed},
        marginal=tuple(group(c) for c in range(1, len(cells)) if cells[c][0] is not None),
        differences=tuple(
            PairMetrics(cells[a][1], cells[b][1], between(a, b, 1 - level)) for a, b in pairs
        ),
        gaps={name: _largest([pair[name] for pair in together]) for name in names},
        level=level,
        n_draws=len(draws),
    )


def _value(value: float, draws: Floats, alpha: float) -> MetricValue:
    """Percentiles of the draws in which it is defined."""
    known = draws[~np.isnan(draws)]
    if math.isnan(value) or not len(known):
        return MetricValue(value, math.nan, math.nan)
    low, high = np.quantile(known, [alpha / 2, 1 - alpha / 2]).tolist()
    return MetricValue(value, min(low, value), max(high, value))


def _largest(pairs: list[MetricValue]) -> MetricValue:
    """The largest of differences without their signs; NaN pairs are left out."""
    known = [pair for pair in pairs if not math.isnan(pair.value)]
    if not known:
        return MetricValue(math.nan, math.nan, math.nan)
    value = max(abs(pair.value) for pair in known)
    low = max(max(pair.low, -pair.high, 0.0) for pair in known)
    return MetricValue(value, low, max(abs(end) for pair in known for end in (pair.low, pair.high)))


def fairness_gaps(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    sensitive_features: Any,
    *,
    scores: ArrayLike | None = None,
    positive: Any = None,
    level: float = 0.95,
    n_draws: int = 500,
    clusters: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    random_state: int = 0,
) -> FairnessGaps:
    """Equal opportunity, equalised odds, predictive parity and calibration as gaps with intervals.

    Args:
        y_true: labels per row, two classes.
        y_pred: decisions per row, of the same classes.
        sensitive_features: group per row; several columns are crossed.
        scores: of the model that decides, from 0 to 1, for its calibration.
        positive: class that counts as positive; 1, or the last of two.
        level, n_draws, clusters, sample_weight, random_state: as for :func:`by_group`.
    """
    truth = core.check_labels("y_true", y_true)
    guess = core.check_labels("y_pred", y_pred, len(truth))
    known = np.union1d(truth, guess)
    if len(known) > 2:
        raise MetricError(f"the labels have {len(known)} classes: gaps of error rates need two")
    wanted = _positive(known, positive)
    # Each row's label, decision and score in one number each, so that one bootstrap serves all.
    rows = np.arange(len(truth))
    hit, chosen = truth == wanted, guess == wanted
    measures: dict[str, Metric] = {
        "tpr": _share(chosen, hit),
        "fpr": _share(chosen, ~hit),
        "precision": _share(hit, chosen),
    }
    if scores is not None:
        values = core.check_scores(scores)
        if len(values) != len(truth):
            raise MetricError(
                f"scores has {len(values)} rows and y_true {len(truth)}: give as many"
            )
        measures["calibration"] = _share(hit - values, np.ones(len(truth), np.bool_))
    options: dict[str, Any] = {"level": level, "n_draws": n_draws, "clusters": clusters}
    options |= {"sample_weight": sample_weight, "random_state": random_state}
    found = by_group(measures, rows, rows, sensitive_features, **options)
    gaps = found.gaps
    # NumPy's maximum of a gap and one that is not defined is not defined, in any order.
    odds = np.max([astuple(gaps[rate]) for rate in ("tpr", "fpr")], axis=0)
    return FairnessGaps(
        equal_opportunity=gaps["tpr"],
        equalised_odds=MetricValue(*odds.tolist()),
        predictive_parity=gaps["precision"],
        calibration=gaps.get("calibration"),
        by_group=found,
    )


def _share(values: Array, among: Bools) -> Metric:
    """The mean of values among some rows, of rows that are given by their positions."""

    def measure(rows: Positions, _: Positions, sample_weight: Floats | None = None) -> float:
        inside = among[rows]
        if not inside.any():
            return math.nan
        own = None if sample_weight is None else sample_weight[inside]
        return float(np.average(values[rows[inside]], weights=own))

    return measure
