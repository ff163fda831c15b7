"""Agreement with the observed label, which may be biased: metrics by group, ROC, calibration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairpc.auditing import _blocks as blocks
from fairpc.auditing import _formats as text
from fairpc.auditing._drawing import Plane, Row, Series, curves, estimates
from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows
from fairpc.comparison import CalibrationBin as CalibrationBin
from fairpc.comparison import auc, calibration
from fairpc.core import AuditError, Bools, Floats
from fairpc.evidence import mean_sample, quantile, rate_sample, wilson
from fairpc.learners import kish

CAPTION: Final = (
    "Measured against the observed label, which may be biased: agreement with it is not the same "
    "as being right, and a model that undoes a bias must disagree with it."
)
_SEEN: Final = (
    " The classifiers were learned from these rows, so their scores follow the labels more closely "
    "here than on others. How scores are calibrated on rows that were not seen is shown where the "
    "report tells how the model was learned."
)
_ROC_POINTS: Final = 101
_ALL: Final = "All rows"
_ALL_SERIES: Final = 5
_COLUMNS: Final = 4
_DRAWN: Final = 12

_METRICS: Final[tuple[tuple[str, str, text.Form], ...]] = (
    ("accuracy", "Accuracy", text.share),
    ("selection_rate", "Selection rate", text.share),
    ("true_positive_rate", "True positive rate", text.share),
    ("false_positive_rate", "False positive rate", text.share),
    ("precision", "Precision", text.share),
    ("auc", "Area under the ROC curve", text.number),
    ("brier", "Brier score", text.number),
)
_SHOWN: Final = {
    "accuracy": "Share of rows whose decision equals the observed label.",
    "true_positive_rate": "Share decided positively among rows labelled positive.",
    "false_positive_rate": "Share decided positively among rows labelled otherwise.",
    "auc": "Chance that a row labelled positive scores above one labelled otherwise.",
}


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
    accuracy: Estimate  #: share of rows whose decision is the observed label
    selection_rate: Estimate  #: share decided positively
    true_positive_rate: Estimate  #: share decided positively among rows labelled positive
    false_positive_rate: Estimate  #: share decided positively among rows labelled otherwise
    precision: Estimate  #: share labelled positive among rows decided positively
    auc: Estimate  #: chance that a row labelled positive scores above one labelled otherwise
    brier: Estimate  #: mean squared difference of score and label


@dataclass(frozen=True)
class GroupMetrics:
    """Metrics per group against the observed label."""

    positive: str  #: the class that rates are of, against all others
    level: float  #: of each interval by itself
    caption: str  #: what they are measured against
    on_training_rows: bool  #: whether the rows are those of the fit, so that the numbers flatter
    groups: tuple[GroupMetric, ...]  #: all rows first, then each group


def group_metrics(job: Job) -> GroupMetrics:
    """Metrics of the labelled rows."""
    rows, level = job.rows, job.settings.level
    labelled = rows.d >= 0
    return GroupMetrics(
        positive=rows.positive_class,
        level=level,
        caption=CAPTION,
        on_training_rows=bool(rows.same_rows_as_fit),
        groups=tuple(_metric(rows, part & labelled, name, level) for name, part in rows.parts()),
    )


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
        brier=_mean(rows, (score - truth) ** 2, part, level) if rows.scored else Estimate(),
    )


def _mean(rows: AuditedRows, values: Floats, among: Bools, level: float) -> Estimate:
    mean = rows.mean(values, among)
    if mean is None:
        return Estimate()
    sample = mean_sample(values[among], *rows.weighing(among).values())
    half = quantile((1 + level) / 2, max(sample.freedom, 1.0)) * math.sqrt(sample.variance)
    low, high = max(0.0, sample.mean - half), min(1.0, sample.mean + half)
    return Estimate(mean, min(low, mean), max(high, mean), rows.number(among))


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
    # An area just below 1, by rounding, has a logit whose exponential is no float.
    low, high = (1 / (1 + math.exp(min(-end, 700.0))) for end in (middle - half, middle + half))
    return Estimate(area, low, high, n)


def _size(rows: AuditedRows, among: Bools) -> float:
    weights, persons, counts = rows.weighing(among).values()
    size = kish(np.ones(int(among.sum())) if weights is None else weights, counts)
    return size if persons is None else min(size, float(len(np.unique(persons))))


@dataclass(frozen=True)
class RocCurve:
    """True against false positive rates of one group, None for all rows, over thresholds."""

    group: str | None
    false_positive_rate: tuple[float, ...]
    true_positive_rate: tuple[float, ...]


@dataclass(frozen=True)
class ScoreCurves:
    """How scores relate to the observed label, by group."""

    positive: str  #: the class
    caption: str  #: what the curves are measured against
    #: of P(decision); all rows first, then each group with both classes. Thinned.
    roc: tuple[RocCurve, ...]
    #: of P(decision): it is not meant to match a biased label
    decision_calibration: tuple[CalibrationBin, ...]
    #: of P(D), the label as the model expects it: that one is
    observed_calibration: tuple[CalibrationBin, ...]


def score_curves(job: Job) -> ScoreCurves:
    """Curves of the labelled rows; calibration of those whose group is known too."""
    rows = job.rows
    if not rows.scored:
        raise AuditError("decisions were given without scores: give scores (--score) too")
    roc = tuple(
        _roc(rows, part, name)
        for name, part in rows.parts()
        if len(np.unique(rows.d[part & (rows.d >= 0)] == rows.positive)) == 2
    )
    return ScoreCurves(
        positive=rows.positive_class,
        caption=CAPTION + (_SEEN if job.takes_table and rows.same_rows_as_fit else ""),
        roc=roc,
        decision_calibration=_calibration(rows, rows.scores),
        observed_calibration=_calibration(rows, rows.observed) if rows.observed.size else (),
    )


def _roc(rows: AuditedRows, part: Bools, name: str | None) -> RocCurve:
    from sklearn.metrics import roc_curve

    here = part & (rows.d >= 0)
    labels, scores = rows.d[here] == rows.positive, rows.scores[here, rows.positive]
    false, true, _ = roc_curve(labels, scores, sample_weight=rows.each_weight[here])
    if len(false) > _ROC_POINTS:
        # Evenly along the curve, so that its bends are kept.
        length = false + true
        kept = np.unique(np.searchsorted(length, np.linspace(0, length[-1], _ROC_POINTS)))
        kept = np.union1d(kept, [0, len(false) - 1])
        false, true = false[kept], true[kept]
    return RocCurve(name, tuple(false.tolist()), tuple(true.tolist()))


def _calibration(rows: AuditedRows, scores: Floats) -> tuple[CalibrationBin, ...]:
    here = (rows.d >= 0) & (rows.s >= 0)
    if not here.any():
        return ()
    labels, weights = (rows.d[here] == rows.positive).astype(np.intp), rows.each_weight[here]
    positive = scores[here, rows.positive]
    bins = calibration(labels, positive, rows.s[here], positive=1, sample_weight=weights)
    return tuple(map(rows.named, bins))


@blocks.section(
    "group_metrics",
    "Agreement with the observed label, by group",
    lambda _, metrics: f"Accuracy {text.share(metrics.groups[0].accuracy.value)} on all rows",
)
def show_group_metrics(audit: blocks.Audit, metrics: GroupMetrics) -> Iterator[blocks.Block]:
    """Metrics with intervals, captioned as measured against a label that may be biased."""
    flatters = "The rows are those of the fit, so these numbers are optimistic."
    more = (flatters,) if metrics.on_training_rows else ()
    yield blocks.Notice(
        "Read with care: the observed label may be biased.", (metrics.caption, *more)
    )
    yield blocks.Side(
        [_show_metric(audit, metrics, *metric) for metric in _METRICS if metric[0] in _SHOWN]
    )
    yield show_metrics(metrics)


def _show_metric(
    audit: blocks.Audit, metrics: GroupMetrics, key: str, title: str, form: text.Form
) -> blocks.Figure:
    order = blocks.group_order(audit)
    rows = []
    for group in metrics.groups[: _DRAWN + 1]:
        one: Estimate = getattr(group, key)
        series = _ALL_SERIES if group.group is None else order[group.group]
        rows.append(Row(_name(group), one.value, one.interval, series, note=form(one.value)))
    tick = text.share_tick if form is text.share else text.number_tick
    return blocks.Figure(title, _SHOWN[key], estimates(rows, tick))


def _name(group: GroupMetric) -> str:
    return _ALL if group.group is None else group.group


def show_metrics(metrics: GroupMetrics) -> blocks.TableBlock:
    """Metrics by group: groups across where they are few, below each other where they are many."""
    note = (
        f"In brackets: {text.share(metrics.level, 0)} intervals, each by itself. Positive means "
        f"“{text.short(metrics.positive, 40)}”."
    )
    caption = "Metrics against the observed label, which may be biased"
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


@blocks.section(
    "curves", "ROC and calibration, by group", lambda *_: "How scores relate to the labels"
)
def show_curves(audit: blocks.Audit, curves: ScoreCurves) -> Iterator[blocks.Block]:
    """How scores relate to the observed label."""
    yield blocks.Notice("Measured against the observed label.", (curves.caption,))
    figures = [_show_roc(audit, curves)] if curves.roc else []
    for points, title, words in (
        (
            curves.decision_calibration,
            "Score of the decision against the label",
            "Share labelled positive at each level of the score of the decision. It is not meant "
            "to lie on the diagonal: it would, only if the labels were unbiased.",
        ),
        (
            curves.observed_calibration,
            "Expected label against the label",
            "Share labelled positive at each level of P(D | X, S), the label as the model expects "
            "it. This one is meant to lie on the diagonal.",
        ),
    ):
        if points:
            figures.append(_show_calibration(audit, points, title, words))
    yield blocks.Side(figures)


def _show_roc(audit: blocks.Audit, scores: ScoreCurves) -> blocks.Figure:
    by_group = {curve.group: curve for curve in scores.roc}
    mine = {name: by_group[name] for name in blocks.group_order(audit) if name in by_group}
    sentence = (
        "True against false positive rate as the threshold falls. The higher a curve, the better "
        "the scores order that group's labels."
    )
    series, cells = [], []
    for name, curve in mine.items():
        series.append(Series(name, curve.false_positive_rate, curve.true_positive_rate))
        # At false positive rates 0, .1, …, 1: the last point up to each.
        points = list(zip(curve.false_positive_rate, curve.true_positive_rate, strict=True))
        tenths = (k / 10 for k in range(11))
        cells += [(name, t, max(y for x, y in points if x <= t + 1e-12)) for t in tenths]
    caption = "ROC curve at every tenth of the false positive rate"
    head = ("Group", "False positive rate", "True positive rate")
    plane = Plane("false positive rate", "true positive rate")
    picture = curves(plane, series, diagonal="scores at random")
    numbers = blocks.TableBlock(caption, head, cells, folded=True)
    return blocks.Figure("ROC curve", sentence, picture, numbers, "ROC curve by group")


def _show_calibration(
    audit: blocks.Audit, points: Sequence[CalibrationBin], title: str, sentence: str
) -> blocks.Figure:
    series = []
    for group in blocks.group_order(audit):
        mine = [point for point in points if point.group == group]
        series.append(Series(group, [p.mean_score for p in mine], [p.positive_rate for p in mine]))
    cells = [
        (
            *(p.group, f"{text.share(p.low, 0)} to {text.share(p.high, 0)}"),
            *(text.count(p.weight), p.mean_score, p.positive_rate),
        )
        for p in points
    ]
    head = ("Group", "Scores", "Rows", "Mean score", "Labelled positive")
    numbers = blocks.TableBlock(title, head, cells, words={1}, folded=True)
    plane = Plane("mean score", "share labelled positive")
    picture = curves(plane, series, diagonal="score equals share", marked=True)
    return blocks.Figure(title, sentence, picture, numbers)
