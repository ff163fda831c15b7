"""Agreement with the observed label: metrics and curves by group, beside other methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fairpc.auditing import _agreement as facts
from fairpc.auditing import _text as text
from fairpc.auditing import _view as view
from fairpc.auditing._audit import Audit
from fairpc.auditing._drawing import Ends, Plane, Point, Row, Series, curves, estimates, scatter
from fairpc.auditing._svg import limits

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


@view.section(
    "group_metrics",
    "Agreement with the observed label, by group",
    lambda _, found: f"Accuracy {text.share(found.groups[0].accuracy.value)} on all rows",
)
def group_metrics(audit: Audit, found: facts.GroupMetrics) -> Iterator[view.Block]:
    """Metrics with intervals, captioned as measured against a label that may be biased."""
    flatters = "The rows are those of the fit, so these numbers are optimistic."
    more = (flatters,) if found.on_training_rows else ()
    yield view.Notice("Read with care: the observed label may be biased.", (found.caption, *more))
    yield view.Side([_metric(audit, found, *metric) for metric in _METRICS if metric[0] in _SHOWN])
    yield _metrics_table(found)


def _metric(
    audit: Audit, found: facts.GroupMetrics, key: str, title: str, form: text.Form
) -> view.Figure:
    order = view.group_order(audit)
    rows = []
    for group in found.groups[: _DRAWN + 1]:
        one: facts.Estimate = getattr(group, key)
        series = _ALL_SERIES if group.group is None else order[group.group]
        rows.append(Row(_name(group), one.value, one.interval, series, note=form(one.value)))
    tick = text.share_tick if form is text.share else text.number_tick
    return view.Figure(title, _SHOWN[key], estimates(rows, tick))


def _name(group: facts.GroupMetric) -> str:
    return _ALL if group.group is None else group.group


def _metrics_table(found: facts.GroupMetrics) -> view.Table:
    """Metrics by group: groups across where they are few, below each other where they are many."""
    note = (
        f"In brackets: {text.share(found.level, 0)} intervals, each by itself. Positive means "
        f"“{text.short(found.positive, 40)}”."
    )
    caption = "Metrics against the observed label, which may be biased"
    groups = found.groups

    def cell(group: facts.GroupMetric, key: str, form: text.Form) -> str:
        one: facts.Estimate = getattr(group, key)
        return text.bracketed(one.value, one.interval, form)

    if len(groups) <= _COLUMNS:
        head = ["Metric", *(text.short(_name(g), 30) for g in groups)]
        rows = [("Labelled rows", *(text.count(g.n) for g in groups))]
        rows += [(title, *(cell(g, key, form) for g in groups)) for key, title, form in _METRICS]
        return view.Table(caption, head, rows, note=note)
    cells = [
        (text.short(_name(g)), title, cell(g, key, form), text.count(getattr(g, key).n))
        for g in groups
        for key, title, form in _METRICS
    ]
    head = ["Group", "Metric", "Estimate", "Rows"]
    return view.Table(caption, head, cells, words={1}, note=note, folded=True)


@view.section(
    "trade_off",
    "Trade-off against other methods",
    lambda _, found: f"{found.audited} beside {text.counted(len(found.methods) - 1, 'method')}",
)
def trade_off(_: Audit, found: facts.TradeOff) -> Iterator[view.Block]:
    """The audited model beside others, on rows that they were not fitted to."""
    yield view.Paragraph(found.how)
    yield view.Paragraph(found.caption)
    gaps = {"discrimination": "mean scores", "selection_gap": "decisions"}
    known = [key for key in gaps if any(m[key] is not None for m in found.methods)]
    yield view.Side([_plane(found, key, gaps[key]) for key in known])
    yield _methods_table(found)
    if found.failures:
        yield view.Paragraph("Not compared:")
        yield view.Points([f"{text.name(method)}: {why}" for method, why in found.failures.items()])
    if found.filled:
        names = text.listed(found.filled)
        yield view.Paragraph(
            f"Methods that take no missing values had them filled: {names}.", "note"
        )


def _plane(found: facts.TradeOff, key: str, what: str) -> view.Figure:
    points, methods = [], [m for m in found.methods if m[key] is not None]
    for m in methods:
        gap, accuracy = abs(m[key]), m["accuracy"]
        spreads = _around(gap, m[f"{key}_sd"]), _around(accuracy, m["accuracy_sd"])
        points.append(Point(m["method"], gap, accuracy, *spreads))
    mine = next((m for m in methods if m["method"] == found.audited), None)
    sentence = "Further left: a smaller gap between groups. Higher: more agreement with the label."
    if mine is not None:
        sentence += (
            f" {text.name(found.audited)}: a gap of {text.number(100 * abs(mine[key]), 1)} "
            f"points and {text.share(mine['accuracy'])} agreement."
        )
    # What guesses lies far below the others: an axis down to it would press them together.
    shown = [p for p in points if p.name != found.guessing] or points
    xs = [x for p in shown for x in (p.x, *(p.x_interval or ()))]
    ys = [y for p in shown for y in (p.y, *(p.y_interval or ()))]
    ends = limits(ys)
    for p in points:
        if p not in shown and not ends[0] <= p.y <= ends[1]:
            sentence += (
                f" Not drawn: {text.name(p.name)}, which guesses, with a gap of "
                f"{text.number(100 * p.x, 1)} points and {text.share(p.y)} agreement."
            )
            points = shown
    x_ends = (0.0, max(limits(xs)[1], 0.01))
    plane = Plane(f"gap of {what}, points", "accuracy", x_ends, ends, text.points_tick)
    return view.Figure(f"Accuracy against the gap of {what}", sentence, scatter(plane, points))


def _around(value: float, spread: float | None) -> Ends | None:
    return None if spread is None else (max(value - spread, 0.0), value + spread)


def _methods_table(found: facts.TradeOff) -> view.Table:
    head = ["Method", "Accuracy", "F1", "AUC", "Gap of scores, points", "Gap of decisions, points"]
    keys = ("accuracy", "f1", "auc", "discrimination", "selection_gap")
    rows = [
        (text.short(m["method"]), *(_with_spread(m[key], m[f"{key}_sd"]) for key in keys))
        for m in found.methods
    ]
    caption = f"Means over {found.n_folds} folds of {text.count(found.n_rows)} rows, all × 100"
    return view.Table(caption, head, rows, note="± is the standard deviation over folds.")


def _with_spread(value: float | None, spread: float | None) -> str:
    if value is None:
        return text.NOTHING
    shown = text.number(100 * value, 1)
    return shown if spread is None else f"{shown} ± {text.number(100 * spread, 1)}"


@view.section(
    "curves", "ROC and calibration, by group", lambda *_: "How scores relate to the labels"
)
def score_curves(audit: Audit, found: facts.ScoreCurves) -> Iterator[view.Block]:
    """How scores relate to the observed label."""
    yield view.Notice("Measured against the observed label.", (found.caption,))
    figures = [_roc(audit, found)] if found.roc else []
    for points, title, words in (
        (
            found.decision_calibration,
            "Score of the decision against the label",
            "Share labelled positive at each level of the score P(Df | X, S). It is not meant to "
            "lie on the diagonal: it would, only if the labels were unbiased.",
        ),
        (
            found.observed_calibration,
            "Expected label against the label",
            "Share labelled positive at each level of P(D | X, S), the label as the model expects "
            "it. This one is meant to lie on the diagonal.",
        ),
    ):
        if points:
            figures.append(_calibration(audit, points, title, words))
    yield view.Side(figures)


def _roc(audit: Audit, found: facts.ScoreCurves) -> view.Figure:
    by_group = {curve.group: curve for curve in found.roc}
    mine = {name: by_group[name] for name in view.group_order(audit) if name in by_group}
    sentence = (
        "True against false positive rate as the threshold falls. The higher a curve, the better "
        "the scores order that group's labels."
    )
    series, cells = [], []
    for name, curve in mine.items():
        series.append(Series(name, curve.false_positive_rate, curve.true_positive_rate))
        cells += [(text.short(name), *map(text.share, at)) for at in _tenths(curve)]
    caption = "ROC curve at every tenth of the false positive rate"
    head = ("Group", "False positive rate", "True positive rate")
    plane = Plane("false positive rate", "true positive rate")
    picture = curves(plane, series, diagonal="scores at random")
    numbers = view.Table(caption, head, cells, folded=True)
    return view.Figure("ROC curve", sentence, picture, numbers, "ROC curve by group")


def _tenths(curve: facts.RocCurve) -> list[Ends]:
    """The curve at false positive rates 0, .1, …, 1: the last point up to each."""
    points = list(zip(curve.false_positive_rate, curve.true_positive_rate, strict=True))
    return [(k / 10, max(y for x, y in points if x <= k / 10 + 1e-12)) for k in range(11)]


def _calibration(
    audit: Audit, points: Sequence[facts.CalibrationBin], title: str, sentence: str
) -> view.Figure:
    series = []
    for group in view.group_order(audit):
        mine = [point for point in points if point.group == group]
        series.append(Series(group, [p.mean_score for p in mine], [p.positive_rate for p in mine]))
    cells = [
        (
            text.short(p.group),
            f"{text.share(p.low, 0)} to {text.share(p.high, 0)}",
            text.count(p.weight),
            text.share(p.mean_score),
            text.share(p.positive_rate),
        )
        for p in points
    ]
    head = ("Group", "Scores", "Rows", "Mean score", "Labelled positive")
    numbers = view.Table(title, head, cells, words={1}, folded=True)
    plane = Plane("mean score", "share labelled positive")
    picture = curves(plane, series, diagonal="score equals share", marked=True)
    return view.Figure(title, sentence, picture, numbers)
