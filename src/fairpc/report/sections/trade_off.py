"""Trade-off: agreement with the label against gaps between groups, method by method."""

from __future__ import annotations

from collections.abc import Iterator

from fairpc.report import text
from fairpc.report.drawing.curves import Plane, Point, around, scatter
from fairpc.report.sections.absent import Facts, absent
from fairpc.report.view import Block, Figure, Paragraph, Points, Section, Side, Table

TITLE = "Trade-off against other methods"

Interval = tuple[float, float]


def trade_off(facts: Facts) -> Section:
    """The audited model beside others, on rows that they were not fitted to."""
    found = facts["trade_off"]
    if found is None:
        return absent(facts, "trade_off", TITLE)
    blocks: list[Block] = [Paragraph(found["how"]), Paragraph(found["caption"])]
    figures = tuple(_figures(found))
    blocks.append(Side(figures))
    blocks.append(_table(found))
    if found["failures"]:
        blocks.append(Paragraph("Not compared:"))
        blocks.append(
            Points(tuple(f"{text.name(k)}: {why}" for k, why in found["failures"].items()))
        )
    if found["filled"]:
        names = text.listed(found["filled"])
        blocks.append(
            Paragraph(f"Methods that take no missing values had them filled: {names}.", "note")
        )
    return Section("trade_off", TITLE, tuple(blocks))


def _figures(found: Facts) -> Iterator[Figure]:
    for key, title, what in (
        ("discrimination", "Accuracy against the gap of mean scores", "gap of mean scores, points"),
        ("selection_gap", "Accuracy against the gap of decisions", "gap of decisions, points"),
    ):
        methods = [m for m in found["methods"] if m[key] is not None]
        if methods:
            yield _figure(found, methods, key, title, what)


def _figure(found: Facts, methods: list[Facts], key: str, title: str, what: str) -> Figure:
    points = [
        Point(
            m["method"], abs(m[key]), m["accuracy"], _around(abs(m[key]), m[f"{key}_sd"]),
            _around(m["accuracy"], m["accuracy_sd"]),
        )
        for m in methods
    ]  # fmt: skip
    mine = next((m for m in methods if m["method"] == found["audited"]), None)
    sentence = "Further left: a smaller gap between groups. Higher: more agreement with the label."
    if mine is not None:
        sentence += (
            f" {text.name(found['audited'])}: a gap of {text.number(100 * abs(mine[key]), 1)} "
            f"points and {text.share(mine['accuracy'])} agreement."
        )
    xs = [x for p in points for x in (p.x, *(p.x_interval or ()))]
    ys = [y for p in points for y in (p.y, *(p.y_interval or ()))]
    plane = Plane(
        what, "accuracy", (0.0, around(xs, (0.0, 0.01))[1]), around(ys), text.points_tick,
        text.share_tick,
    )  # fmt: skip
    return Figure(title, sentence, scatter(title, sentence, plane, points))


def _around(value: float, spread: float | None) -> Interval | None:
    return None if spread is None else (max(value - spread, 0.0), value + spread)


def _table(found: Facts) -> Table:
    head = ["Method", "Accuracy", "F1", "AUC", "Gap of scores, points", "Gap of decisions, points"]
    rows = [
        (
            text.short(m["method"]),
            _with_spread(m, "accuracy"),
            _with_spread(m, "f1"),
            _with_spread(m, "auc"),
            _with_spread(m, "discrimination"),
            _with_spread(m, "selection_gap"),
        )
        for m in found["methods"]
    ]
    return Table.of(
        f"Means over {found['n_folds']} folds of {text.count(found['n_rows'])} rows, all × 100",
        head, rows, note="± is the standard deviation over folds.",
    )  # fmt: skip


def _with_spread(method: Facts, key: str) -> str:
    value, spread = method[key], method[f"{key}_sd"]
    if value is None:
        return text.NOTHING
    shown = text.number(100 * value, 1)
    return shown if spread is None else f"{shown} ± {text.number(100 * spread, 1)}"
