"""Agreement with the observed label, by group, with intervals. The label may be biased itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.auditing.rows import AuditedRows
from fairpc.errors.arrays import Bools, Floats
from fairpc.evidence.intervals import kish, mean_sample, quantile, rate_sample, wilson
from fairpc.metrics import auc

CAPTION: Final = (
    "Measured against the observed label, which may be biased: agreement with it is not the same "
    "as being right, and a model that undoes a bias must disagree with it."
)


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, and the rows it is made of; None where there are none."""

    value: float | None
    lower: float | None
    upper: float | None
    n: int


@dataclass(frozen=True)
class GroupMetric:
    """One group, or all rows.

    Attributes:
        group: its name; None for all rows.
        n: labelled rows.
        accuracy: share of rows whose decision is the observed label.
        selection_rate: share decided positively.
        true_positive_rate, false_positive_rate: among rows labelled positive, labelled otherwise.
        precision: share labelled positive among rows decided positively.
        auc: chance that a row labelled positive scores above one labelled otherwise.
        brier: mean squared difference of score and label.
    """

    group: str | None
    n: int
    accuracy: Estimate
    selection_rate: Estimate
    true_positive_rate: Estimate
    false_positive_rate: Estimate
    precision: Estimate
    auc: Estimate
    brier: Estimate


@dataclass(frozen=True)
class GroupMetrics:
    """Metrics per group against the observed label.

    Attributes:
        positive: the class that rates are of, against all others.
        level: of each interval by itself.
        caption: what they are measured against.
        on_training_rows: whether the rows are those of the fit, so that the numbers flatter.
        groups: all rows first, then each group.
    """

    positive: str
    level: float
    caption: str
    on_training_rows: bool
    groups: tuple[GroupMetric, ...]


def group_metrics(rows: AuditedRows, level: float, *, on_training_rows: bool) -> GroupMetrics:
    """Metrics of the labelled rows."""
    labelled = rows.d >= 0
    return GroupMetrics(
        positive=rows.classes[rows.positive],
        level=level,
        caption=CAPTION,
        on_training_rows=on_training_rows,
        groups=tuple(_metric(rows, part & labelled, name, level) for name, part in rows.parts()),
    )


def _metric(rows: AuditedRows, part: Bools, name: str | None, level: float) -> GroupMetric:
    truth, chosen = rows.d == rows.positive, rows.decided == rows.positive
    score = rows.scores[:, rows.positive]

    def rate(hits: Bools, among: Bools) -> Estimate:
        return _rate(rows, hits, part & among, level)

    every = rows.every
    return GroupMetric(
        group=name,
        n=rows.number(part),
        accuracy=rate(rows.decided == rows.d, every),
        selection_rate=rate(chosen, every),
        true_positive_rate=rate(chosen, truth),
        false_positive_rate=rate(chosen, ~truth),
        precision=rate(truth, chosen),
        auc=_auc(rows, truth, score, part, level),
        brier=_mean(rows, (score - truth) ** 2, part, level),
    )


def _rate(rows: AuditedRows, hits: Bools, among: Bools, level: float) -> Estimate:
    n = rows.number(among)
    if not n:
        return Estimate(None, None, None, 0)
    sample = rate_sample(hits[among].astype(np.float64), *rows.weighing(among))
    low, high = wilson(sample.mean, sample.size, quantile((1 + level) / 2))
    return Estimate(sample.mean, low, high, n)


def _mean(rows: AuditedRows, values: Floats, among: Bools, level: float) -> Estimate:
    n = rows.number(among)
    if not n:
        return Estimate(None, None, None, 0)
    mean = float(np.average(values[among], weights=rows.each_weight[among]))
    sample = mean_sample(values[among], *rows.weighing(among))
    half = quantile((1 + level) / 2, max(sample.freedom, 1.0)) * math.sqrt(sample.variance)
    low, high = max(0.0, sample.mean - half), min(1.0, sample.mean + half)
    return Estimate(mean, min(low, mean), max(high, mean), n)


def _auc(rows: AuditedRows, truth: Bools, score: Floats, part: Bools, level: float) -> Estimate:
    """Area with Hanley and McNeil's interval (1982), on the logit scale; on numbers of persons."""
    n = rows.number(part)
    if not (truth & part).any() or not (~truth & part).any():
        return Estimate(None, None, None, n)
    area = auc(
        truth[part].astype(np.intp), score[part], positive=1, sample_weight=rows.each_weight[part]
    )
    p, q = _size(rows, truth & part), _size(rows, ~truth & part)
    one, two = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (p - 1) * (one - area**2) + (q - 1) * (two - area**2)
    if not 0 < area < 1:
        return Estimate(area, None, None, n)
    half = quantile((1 + level) / 2) * math.sqrt(max(spread, 0.0) / (p * q)) / (area * (1 - area))
    middle = math.log(area / (1 - area))
    low, high = (1 / (1 + math.exp(-end)) for end in (middle - half, middle + half))
    return Estimate(area, low, high, n)


def _size(rows: AuditedRows, among: Bools) -> float:
    weights, persons, counts = rows.weighing(among)
    size = kish(np.ones(int(among.sum())) if weights is None else weights, counts)
    return size if persons is None else min(size, float(len(np.unique(persons))))
