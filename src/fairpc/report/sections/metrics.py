"""Agreement with the observed label, by group."""

from __future__ import annotations

from typing import Final

from fairpc.report import text
from fairpc.report.drawing.bars import Row, estimates
from fairpc.report.sections.absent import Facts, absent
from fairpc.report.sections.labels import group_order
from fairpc.report.view import Block, Figure, Notice, Section, Side, Table

TITLE = "Agreement with the observed label, by group"

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


def metrics(facts: Facts) -> Section:
    """Metrics with intervals, captioned as measured against a label that may be biased."""
    found = facts["group_metrics"]
    if found is None:
        return absent(facts, "group_metrics", TITLE)
    more = (
        ("The rows are those of the fit, so that these numbers flatter the model.",)
        if found["on_training_rows"]
        else ()
    )
    figures = (_figure(facts, found, *metric) for metric in _METRICS if metric[0] in _SHOWN)
    blocks: list[Block] = [
        Notice("Read with care: the yardstick may be bent.", (found["caption"], *more)),
        Side(tuple(figures)),
        _table(found),
    ]
    return Section("group_metrics", TITLE, tuple(blocks))


def _figure(facts: Facts, found: Facts, key: str, title: str, form: text.Form) -> Figure:
    order = group_order(facts)
    rows = []
    for group in found["groups"][: _DRAWN + 1]:
        one = group[key]
        ends = None if one["lower"] is None else (one["lower"], one["upper"])
        series = _ALL_SERIES if group["group"] is None else order[group["group"]]
        note = form(one["value"])
        rows.append(Row(_name(group), one["value"], ends, series, note=note))
    tick = text.share_tick if form is text.share else text.number_tick
    svg = estimates(title, _SHOWN[key], rows, form=tick)
    return Figure(title, _SHOWN[key], svg)


def _name(group: Facts) -> str:
    return _ALL if group["group"] is None else group["group"]


def _cell(one: Facts, form: text.Form) -> str:
    return text.bracketed(one["value"], (one["lower"], one["upper"]), form)


def _table(found: Facts) -> Table:
    """Metrics by group: groups across where they are few, below each other where they are many."""
    level = text.share(found["level"], 0)
    note = (
        f"In brackets: {level} intervals, each by itself. Positive means "
        f"“{text.short(found['positive'], 40)}”."
    )
    caption = "Metrics against the observed label, which may be biased"
    groups = found["groups"]
    if len(groups) <= _COLUMNS:
        head = ["Metric", *(text.short(_name(g), 30) for g in groups)]
        rows = [("Labelled rows", *(text.count(g["n"]) for g in groups))]
        rows += [(title, *(_cell(g[key], form) for g in groups)) for key, title, form in _METRICS]
        return Table.of(caption, head, rows, note=note)
    cells = [
        (text.short(_name(group)), title, _cell(group[key], form), text.count(group[key]["n"]))
        for group in groups
        for key, title, form in _METRICS
    ]
    head = ["Group", "Metric", "Estimate", "Rows"]
    return Table.of(caption, head, cells, words={1}, note=note, folded=True)
