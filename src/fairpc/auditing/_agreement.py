"""Agreement with the recorded label, which may be biased, by group."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows
from fairpc.comparison import auc
from fairpc.core import Bools, Fewer, Floats, few_labels
from fairpc.evidence import mean_sample, quantile, rate_sample, wilson
from fairpc.learners import kish

CAPTION: Final = (
    "Measured against the recorded label, which may be biased: agreement with it is not the same "
    "as being right, and a model that undoes a bias must disagree with it."
)
_ALL: Final = "All rows"
_OF_LABELS: Final = "true_positive_rate", "false_positive_rate"
_COLUMNS: Final = 4

_METRICS: Final[tuple[tuple[str, str, text.Form], ...]] = (
    ("accuracy", "Accuracy", text.share),
    ("selection_rate", "Selection rate", text.share),
    ("true_positive_rate", "True positive rate", text.share),
    ("false_positive_rate", "False positive rate", text.share),
    ("precision", "Precision", text.share),
    ("auc", "Area under the ROC curve", text.number),
    ("brier", "Brier score", text.number),
)


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, and the rows it is made of; None where there are none."""

    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    n: int = 0

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)


@dataclass(frozen=True)
class GroupMetric:
    """One group, or all rows."""

    group: str | None  #: its name; None for all rows
    n: int  #: labelled rows
    accuracy: Estimate  #: share of rows whose decision is the recorded label
    selection_rate: Estimate  #: share decided positively
    true_positive_rate: Estimate  #: share decided positively among rows labelled positive
    false_positive_rate: Estimate  #: share decided positively among rows labelled otherwise
    precision: Estimate  #: share labelled positive among rows decided positively
    auc: Estimate  #: chance that a row labelled positive scores above one labelled otherwise
    brier: Estimate  #: mean squared difference of score and label


@dataclass(frozen=True)
class MetricFacts:
    """Metrics per group against the recorded label."""

    positive: str  #: the class that rates are of, against all others
    level: float  #: of each interval by itself
    caption: str  #: what they are measured against
    on_training_rows: bool  #: whether the rows are those of the fit, so that the numbers flatter
    groups: tuple[GroupMetric, ...]  #: all rows first, then each group


def group_metrics(job: Job) -> MetricFacts:
    """Metrics of the labelled rows."""
    rows, level = job.rows, job.settings.level
    labelled = rows.d >= 0
    groups = tuple(_metric(rows, part & labelled, name, level) for name, part in rows.parts())
    return MetricFacts(
        positive=rows.positive_class,
        level=level,
        caption=CAPTION,
        on_training_rows=bool(rows.same_rows_as_fit),
        groups=_told(_told(groups, job.min_cell, *_OF_LABELS), job.min_cell, "precision"),
    )


def _told(groups: tuple[GroupMetric, ...], least: int, *names: str) -> tuple[GroupMetric, ...]:
    """Metrics of people with a label, or decided alike: where a group has few of these, or few
    others, how many they are is shown of no group, whose sums would say it."""
    n, whole = np.array([(getattr(own, x).n, own.n) for own in groups for x in names]).T
    if not few_labels(n, whole - n, least).any():
        return groups

    def hidden(own: GroupMetric) -> dict[str, Any]:
        estimates: dict[str, Estimate] = {x: getattr(own, x) for x in names}
        return {x: replace(one, n=Fewer.hidden(one.n)) for x, one in estimates.items()}

    return tuple(replace(own, **hidden(own)) for own in groups)


def _metric(rows: AuditedRows, part: Bools, name: str | None, level: float) -> GroupMetric:
    truth, chosen = rows.d == rows.positive, rows.decided == rows.positive
    score = rows.scores[:, rows.positive]

    def rate(hits: Bools, others: Bools) -> Estimate:
        among = part & others
        if not among.any():
            return Estimate()
        sample = rate_sample(hits[among].astype(np.float64), *rows.weighing(among).values())
        low, high = wilson(sample.mean, sample.size, quantile((1 + level) / 2))
        return Estimate(sample.mean, low, high, rows.number(among))

    brier, mean = Estimate(), rows.mean((score - truth) ** 2, part) if rows.scored else None
    if mean is not None:
        sample = mean_sample(((score - truth) ** 2)[part], *rows.weighing(part).values())
        half = quantile((1 + level) / 2, max(sample.freedom, 1.0)) * math.sqrt(sample.variance)
        low, high = max(0.0, sample.mean - half), min(1.0, sample.mean + half)
        brier = Estimate(mean, min(low, mean), max(high, mean), rows.number(part))
    every = rows.every
    return GroupMetric(
        group=name,
        n=rows.number(part),
        accuracy=rate(rows.decided == rows.d, every),
        selection_rate=rate(chosen, every),
        true_positive_rate=rate(chosen, truth),
        false_positive_rate=rate(chosen, ~truth),
        precision=rate(truth, chosen),
        auc=_auc(rows, truth, score, part, level) if rows.scored else Estimate(),
        brier=brier,
    )


def _auc(rows: AuditedRows, truth: Bools, score: Floats, part: Bools, level: float) -> Estimate:
    """Area with Hanley and McNeil's interval (1982), on the logit scale; on numbers of persons."""
    n = rows.number(part)
    if not (truth & part).any() or not (~truth & part).any():
        return Estimate(n=n)
    area = auc(
        truth[part].astype(np.intp), score[part], positive=1, sample_weight=rows.each_weight[part]
    )
    p, q = _size(rows, truth & part), _size(rows, ~truth & part)
    one, two = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (p - 1) * (one - area**2) + (q - 1) * (two - area**2)
    if not 0 < area < 1:
        return Estimate(area, n=n)
    half = quantile((1 + level) / 2) * math.sqrt(max(spread, 0.0) / (p * q)) / (area * (1 - area))
    middle = math.log(area / (1 - area))
    # An area just below 1, by rounding, has a logit whose exponential is not a float.
    low, high = (1 / (1 + math.exp(min(-end, 700.0))) for end in (middle - half, middle + half))
    return Estimate(area, low, high, n)


def _size(rows: AuditedRows, among: Bools) -> float:
    weights, persons, counts = rows.weighing(among).values()
    size = kish(np.ones(int(among.sum())) if weights is None else weights, counts)
    return size if persons is None else min(size, float(len(np.unique(persons))))


@blocks.section("group_metrics", "Agreement with the recorded label")
def show_group_metrics(audit: blocks.Audit, metrics: MetricFacts) -> Iterator[blocks.Block]:
    """Metrics with intervals, captioned as measured against a label that may be biased."""
    flatters = "The rows are those of the fit, so these numbers are optimistic."
    more = (flatters,) if metrics.on_training_rows else ()
    yield blocks.Paragraph(" ".join((metrics.caption, *more)))
    yield _table(metrics)


def _name(group: GroupMetric) -> str:
    return _ALL if group.group is None else group.group


def _table(metrics: MetricFacts) -> blocks.TableBlock:
    """Metrics by group: groups across where they are few, below each other where they are many."""
    note = (
        f"In brackets: {text.share(metrics.level, 0)} intervals, each by itself. Positive means "
        f"“{text.short(metrics.positive, 40)}”."
    )
    caption = "Metrics against the recorded label, which may be biased"
    groups = metrics.groups

    def cell(group: GroupMetric, key: str, form: text.Form) -> str:
        one: Estimate = getattr(group, key)
        return text.bracketed(one.value, one.interval, form)

    if len(groups) <= _COLUMNS:
        head = ["Metric", *(text.short(_name(g), 30) for g in groups)]
        rows: list[tuple[Any, ...]] = [("Labelled rows", *(g.n for g in groups))]
        rows += [(title, *(cell(g, key, form) for g in groups)) for key, title, form in _METRICS]
        return blocks.TableBlock(caption, head, rows, note=note)
    cells = [
        (_name(g), title, cell(g, key, form), getattr(g, key).n)
        for g in groups
        for key, title, form in _METRICS
    ]
    head = ["Group", "Metric", "Estimate", "Rows"]
    return blocks.TableBlock(caption, head, cells, words={1}, note=note, folded=True)
