"""The audited model beside other methods, out of sample: agreement with labels against gaps."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np

from fairpc.auditing import _blocks as blocks
from fairpc.auditing import _formats as text
from fairpc.auditing._drawing import Plane, Point, limits, scatter
from fairpc.auditing._job import Job
from fairpc.comparison import Comparison, Rand, compare, default_baselines
from fairpc.core import AuditError, LeakWarning, SameAsLabelWarning, serialise
from fairpc.data import Groups, code_values, decode, read_frame, read_values
from fairpc.evidence import Interval
from fairpc.models import series_of

_CAPTION: Final = (
    "Accuracy, F1 and AUC are measured against the observed label, which may be biased: more "
    "agreement is not simply better."
)


@dataclass(frozen=True)
class TradeOff:
    """Agreement with the label against gaps between groups, method by method."""

    audited: str  #: name of the audited model among the methods
    how: str  #: how each number comes from rows that a method has not seen
    caption: str  #: what the numbers are measured against
    guessing: str | None  #: name of the method that guesses, which only marks the bottom
    n_rows: int  #: what was compared on
    n_folds: int
    #: per method the mean over folds of each score, and its ``…_sd``
    methods: tuple[Mapping[str, Any], ...]
    failures: Mapping[str, str]  #: method -> why it could not be run
    filled: tuple[str, ...]  #: methods whose missing cells were filled, because they take none


def trade_off(job: Job) -> TradeOff:
    """Compare on folds of a sample of the rows.

    The training rows of the model are no test of it: it is fitted again on each training part,
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
        for kind in (LeakWarning, SameAsLabelWarning):  # the fit told of them
            warnings.simplefilter("ignore", kind)
        comparison = compare(
            methods,
            _grouped(rows.as_at_fit(), model.coding_.groups),
            rows.labels,
            sensitive_features=rows.sensitive,
            cv=settings.cv,
            groups=rows.persons,
            positive=model.positive_class_,
            random_state=settings.random_state,
            progress=job.within("trade_off"),
        )
    return TradeOff(
        audited=name,
        how=_how(comparison, job),
        caption=_CAPTION,
        guessing=next((name for name, m in methods.items() if isinstance(m, Rand)), None),
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
            values = read_values(column.name, read.column(column.name), groups.missing_values)
            names = decode(column, code_values(column, values, warn=False))
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


@blocks.section(
    "trade_off",
    "Trade-off against other methods",
    lambda _, trade_off: (
        f"{trade_off.audited} beside {text.counted(len(trade_off.methods) - 1, 'method')}"
    ),
)
def show_trade_off(_: blocks.Audit, trade_off: TradeOff) -> Iterator[blocks.Block]:
    """The audited model beside others, on rows that they were not fitted to."""
    yield blocks.Paragraph(trade_off.how)
    yield blocks.Paragraph(trade_off.caption)
    gaps = {"discrimination": "mean scores", "selection_gap": "decisions"}
    known = [key for key in gaps if any(m[key] is not None for m in trade_off.methods)]
    yield blocks.Side([_plane(trade_off, key, gaps[key]) for key in known])
    yield _methods_table(trade_off)
    if trade_off.failures:
        yield blocks.Paragraph("Not compared:")
        yield blocks.Points(
            [f"{text.name(method)}: {why}" for method, why in trade_off.failures.items()]
        )
    if trade_off.filled:
        names = text.listed(trade_off.filled)
        yield blocks.Paragraph(
            f"Methods that take no missing values had them filled: {names}.", "note"
        )


def _plane(trade_off: TradeOff, key: str, what: str) -> blocks.Figure:
    points, methods = [], [m for m in trade_off.methods if m[key] is not None]
    for m in methods:
        gap, accuracy = abs(m[key]), m["accuracy"]
        spreads = _around(gap, m[f"{key}_sd"]), _around(accuracy, m["accuracy_sd"])
        points.append(Point(m["method"], gap, accuracy, *spreads))
    mine = next((m for m in methods if m["method"] == trade_off.audited), None)
    sentence = "Further left: a smaller gap between groups. Higher: more agreement with the label."
    if mine is not None:
        sentence += (
            f" {text.name(trade_off.audited)}: a gap of {text.size(abs(mine[key]))} "
            f"points and {text.share(mine['accuracy'])} agreement."
        )
    # What guesses lies far below the others: an axis down to it would press them together.
    shown = [p for p in points if p.name != trade_off.guessing] or points
    xs = [x for p in shown for x in (p.x, *(p.x_interval or ()))]
    ys = [y for p in shown for y in (p.y, *(p.y_interval or ()))]
    y_limits = limits(ys)
    for p in points:
        if p not in shown and not y_limits[0] <= p.y <= y_limits[1]:
            sentence += (
                f" Not drawn: {text.name(p.name)}, which guesses, with a gap of "
                f"{text.size(p.x)} points and {text.share(p.y)} agreement."
            )
            points = shown
    x_limits = (0.0, max(limits(xs)[1], 0.01))
    plane = Plane(f"gap of {what}, points", "accuracy", x_limits, y_limits, text.points_tick)
    return blocks.Figure(f"Accuracy against the gap of {what}", sentence, scatter(plane, points))


def _around(value: float, spread: float | None) -> Interval | None:
    return None if spread is None else (max(value - spread, 0.0), value + spread)


def _methods_table(trade_off: TradeOff) -> blocks.TableBlock:
    head = ["Method", "Accuracy", "F1", "AUC", "Gap of scores, points", "Gap of decisions, points"]
    keys = ("accuracy", "f1", "auc", "discrimination", "selection_gap")
    rows = [
        (m["method"], *(_with_spread(m[key], m[f"{key}_sd"]) for key in keys))
        for m in trade_off.methods
    ]
    caption = (
        f"Means over {trade_off.n_folds} folds of {text.count(trade_off.n_rows)} rows, all × 100"
    )
    return blocks.TableBlock(caption, head, rows, note="± is the standard deviation over folds.")


def _with_spread(value: float | None, spread: float | None) -> str:
    if value is None:
        return text.NOTHING
    return text.size(value) if spread is None else f"{text.size(value)} ± {text.size(spread)}"
