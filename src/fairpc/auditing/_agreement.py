"""Agreement with the recorded label, which may be biased: by group, by score, of other methods."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._drawing import Plane, Series, curves
from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows
from fairpc.comparison import (
    CalibrationBin as CalibrationBin,
    Comparison,
    auc,
    calibration,
    compare,
    default_baselines,
)
from fairpc.core import (
    AuditError,
    Bools,
    Fewer,
    Floats,
    LeakWarning,
    SameAsLabelWarning,
    few_labels,
    serialise,
)
from fairpc.data import Groups, read_classes, read_frame
from fairpc.evidence import mean_sample, quantile, rate_sample, wilson
from fairpc.learners import kish
from fairpc.models import series_of

CAPTION: Final = (
    "Measured against the recorded label, which may be biased: agreement with it is not the same "
    "as being right, and a model that undoes a bias must disagree with it."
)
_COMPARED: Final = (
    "Accuracy, F1 and AUC are measured against the recorded label, which may be biased: more "
    "agreement is not simply better."
)
_SEEN: Final = (
    " The classifiers were learned from these rows, so their scores follow the labels more closely "
    "here than on others. How scores are calibrated on rows that were not seen is shown where the "
    "report tells how the model was learned."
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


@dataclass(frozen=True)
class ScoreCurves:
    """How scores relate to the recorded label, by group."""

    positive: str  #: the class
    caption: str  #: what the curves are measured against
    #: of P(decision): it is not meant to match a biased label
    decision_calibration: tuple[CalibrationBin, ...]
    #: of P(D), the label as the model expects it: that one is
    observed_calibration: tuple[CalibrationBin, ...]


def score_curves(job: Job) -> ScoreCurves:
    """Curves of the labelled rows; calibration of those whose group is known too."""
    rows = job.rows
    if not rows.scored:
        raise AuditError("decisions were given without scores")
    return ScoreCurves(
        positive=rows.positive_class,
        caption=CAPTION + (_SEEN if job.takes_table and rows.same_rows_as_fit else ""),
        decision_calibration=_calibration(rows, rows.scores, job.min_cell),
        observed_calibration=_calibration(rows, rows.observed, job.min_cell),
    )


def _calibration(rows: AuditedRows, scores: Floats, least: int) -> tuple[CalibrationBin, ...]:
    here = (rows.d >= 0) & (rows.s >= 0)
    if not here.any() or not scores.size:
        return ()
    labels, weights = (rows.d[here] == rows.positive).astype(np.intp), rows.each_weight[here]
    positive = scores[here, rows.positive]
    bins = calibration(labels, positive, rows.s[here], positive=1, sample_weight=weights)
    return tuple(map(rows.named, _joined(bins, least)))


def _joined(bins: Sequence[CalibrationBin], least: int) -> list[CalibrationBin]:
    """Bins of a group, ascending; those with fewer people of either label than ``least``, if not
    none, or fewer in all, join their neighbours."""

    def few(one: CalibrationBin) -> bool:
        hits = np.array([one.weight * one.positive_rate])
        return one.weight < least or bool(few_labels(hits, one.weight - hits, least).any())

    found: list[CalibrationBin] = []
    for one in bins:
        before = found[-1] if found else None
        if not before or before.group != one.group or not (few(before) or few(one)):
            found.append(one)
            continue
        weight, means = before.weight + one.weight, {}
        for name in ("mean_score", "positive_rate"):
            parts = (getattr(own, name) * own.weight for own in (before, one))
            means[name] = float(sum(parts) / weight)
        found[-1] = replace(before, high=one.high, weight=weight, **means)
    return [one for one in found if not few(one)]


@blocks.section("group_metrics", "Agreement with the recorded label")
def show_group_metrics(audit: blocks.Audit, metrics: MetricFacts) -> Iterator[blocks.Block]:
    """Metrics with intervals, captioned as measured against a label that may be biased."""
    flatters = "The rows are those of the fit, so these numbers are optimistic."
    more = (flatters,) if metrics.on_training_rows else ()
    yield blocks.Paragraph(" ".join((metrics.caption, *more)))
    yield show_metrics(metrics)


def _name(group: GroupMetric) -> str:
    return _ALL if group.group is None else group.group


def show_metrics(metrics: MetricFacts) -> blocks.TableBlock:
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


@blocks.section("curves", "Calibration")
def show_curves(audit: blocks.Audit, curves: ScoreCurves) -> Iterator[blocks.Block]:
    """How scores relate to the recorded label."""
    yield blocks.Paragraph(curves.caption)
    shown = (
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
    )
    yield blocks.Side([_show_calibration(audit, *one) for one in shown if one[0]])


def _show_calibration(
    audit: blocks.Audit, points: Sequence[CalibrationBin], title: str, sentence: str
) -> blocks.Figure:
    series = []
    for group in blocks.group_order(audit):
        mine = [point for point in points if point.group == group]
        series.append(Series(group, [p.mean_score for p in mine], [p.positive_rate for p in mine]))
    cells = []
    for p in points:
        scores, n = f"{text.share(p.low, 0)} to {text.share(p.high, 0)}", text.count(p.weight)
        cells.append((p.group, scores, n, p.mean_score, p.positive_rate))
    head = ("Group", "Scores", "Rows", "Mean score", "Labelled positive")
    numbers = blocks.TableBlock(title, head, cells, words={1}, folded=True)
    plane = Plane("mean score", "share labelled positive")
    picture = curves(plane, series, diagonal="score equals share")
    return blocks.Figure(title, sentence, picture, numbers)


@dataclass(frozen=True)
class TradeOff:
    """Agreement with the label against gaps between groups, method by method."""

    audited: str  #: name of the audited model among the methods
    how: str  #: how each number comes from rows that a method has not seen
    caption: str  #: what the numbers are measured against
    n_rows: int  #: what was compared on
    n_folds: int
    #: per method the mean over folds of each score, and its ``…_sd``
    methods: tuple[Mapping[str, Any], ...]
    failures: Mapping[str, str]  #: method -> why it could not be run
    filled: tuple[str, ...]  #: methods whose missing cells were filled, because they take none


def trade_off(job: Job) -> TradeOff:
    """Compare on folds of a sample of the rows.

    The training rows of the model are not a test of it: it is fitted again on each training part,
    with its settings. On other rows it is taken as it is; whether some of them are training rows
    a fingerprint cannot tell, so that is said. No method sees columns that the fit did not have.
    """
    model, rows, settings = job.model, job.sample, job.settings
    if not settings.baselines:
        raise AuditError("a comparison with other methods was not asked for")
    if not (rows.d >= 0).any():
        raise AuditError("no label is known: methods cannot be compared without labels")
    from sklearn.frozen import FrozenEstimator

    name = type(model).__name__
    audited = model if rows.same_rows_as_fit else FrozenEstimator(model)
    methods = {name: audited} | default_baselines(settings.random_state)
    with warnings.catch_warnings():
        for kind in (LeakWarning, SameAsLabelWarning):  # the fit warned of them
            warnings.simplefilter("ignore", kind)
        comparison = compare(
            methods,
            _grouped(rows.as_at_fit(), model.coding_.groups),
            rows.labels,
            sensitive_features=rows.sensitive,
            cv=settings.cv,
            groups=rows.persons,
            positive=model.positive_class_,
            against_fair=False,
            random_state=settings.random_state,
            progress=job.within("trade_off"),
        )
    return TradeOff(
        audited=name,
        how=_how(comparison, job),
        caption=_COMPARED,
        n_rows=comparison.n_rows,
        n_folds=comparison.n_folds,
        methods=tuple(serialise(method) for method in comparison.means()),
        failures=comparison.failures,
        filled=comparison.filled,
    )


def _grouped(table: Any, groups: Groups) -> Any:
    """A frame whose sensitive columns hold what the model calls their values: bins of numbers too.

    A text file says 37.0 where a group of the model is 30 to 40.
    """
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return table
    read, named = read_frame(table), []
    for column in groups.columns:
        if column.name in frame.columns:
            values = read_classes(column.name, read.column(column.name), groups.missing_values)
            names = column.decode(column.codes(values, warn=False))
            named.append(series_of(frame, column.name, np.array(names, dtype=object)))
    return frame.with_columns(*named).to_native()


def _how(comparison: Comparison, job: Job) -> str:
    model, n_all = job.model, job.rows.n_rows
    name = type(model).__name__
    sample = "" if comparison.n_rows == n_all else f"a random sample of {comparison.n_rows:,} of "
    alike = ", which count alike here" if job.sample.weights is not None else ""
    rows = f"{sample}the {n_all:,} audited rows{alike}, in {comparison.n_folds} folds"
    if job.rows.same_rows_as_fit:
        chosen = ""
        if model.threshold_.values != (model.threshold,):
            chosen = f" Its threshold there is that of its settings, {model.threshold:g}."
        return (
            f"On {rows}: every method, {name} with the settings of the audited model, was fitted "
            f"again without the rows of a fold and tested on them.{chosen}"
        )
    return (
        f"On {rows}: {name} is the audited model as it is, not fitted again; its numbers are "
        "for unseen rows only if none of these rows was used in its fit. The other methods were "
        "fitted to the audited rows outside a fold and tested on it."
    )


@blocks.section("trade_off", "Beside other methods")
def show_trade_off(_: blocks.Audit, trade_off: TradeOff) -> Iterator[blocks.Block]:
    """The audited model beside others, on rows that they were not fitted to."""
    yield blocks.Paragraph(f"{trade_off.how} {trade_off.caption}")
    head = ["Method", "Accuracy", "F1", "AUC", "Gap of scores, points", "Gap of decisions, points"]
    keys = ("accuracy", "f1", "auc", "discrimination", "selection_gap")

    def cell(method: Mapping[str, Any], key: str) -> str:
        value, spread = text.size(method[key]), method[f"{key}_sd"]
        alone = method[key] is None or spread is None
        return value if alone else f"{value} ± {text.size(spread)}"

    rows = [(m["method"], *(cell(m, key) for key in keys)) for m in trade_off.methods]
    caption = (
        f"Means over {trade_off.n_folds} folds of {text.count(trade_off.n_rows)} rows, all × 100"
    )
    note = "± is the standard deviation over folds."
    if trade_off.filled:
        names = text.listed(trade_off.filled)
        note += f" Methods that take no missing values had them filled: {names}."
    yield blocks.TableBlock(caption, head, rows, note=note)
    if trade_off.failures:
        yield blocks.Points(
            [f"Not compared: {text.name(m)}: {why}" for m, why in trade_off.failures.items()]
        )
