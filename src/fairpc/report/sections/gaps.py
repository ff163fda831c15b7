"""Gaps between groups in a rate or a mean score: bars, ratios against four fifths, a table."""

from __future__ import annotations

import math
from typing import Final

from fairpc.report import text
from fairpc.report.drawing.bars import Mark, Row, bars, estimates
from fairpc.report.sections.absent import Facts
from fairpc.report.view import Figure, Table

FOUR_FIFTHS: Final = 0.8
_DRAWN: Final = 12
_LONG: Final = 10

MARKS: Final = {"below": "below", "above": "above", "undecided": "undecided"}


def means(disparity: Facts, title: str, what: str, order: dict[str, int]) -> Figure:
    """Rate or mean score of each group as a bar; ``what`` begins the sentence about it."""
    groups = disparity["parity"]["groups"]
    rows = [Row(g["group"], g["mean"], series=order[g["group"]]) for g in groups]
    low, high = (pick(groups, key=lambda g: g["mean"]) for pick in (min, max))
    sentence = (
        f"{what} is lowest in group {text.short(low['group'], 40)}, {text.share(low['mean'])}, and "
        f"highest in group {text.short(high['group'], 40)}, {text.share(high['mean'])}."
    )
    cells = [
        (
            text.short(g["group"]),
            text.count(g["n"]),
            text.share(g["mean"]),
            "few rows" if g["small"] else "",
        )
        for g in groups
    ]
    small = any(g["small"] for g in groups)
    head = ("Group", "Rows", "Rate" if disparity["parity"]["kind"] == "rate" else "Mean", "Note")
    width = len(head) if small else len(head) - 1
    numbers = Table.of(title, head[:width], [row[:width] for row in cells], words={3})
    return Figure(title, sentence, bars(title, sentence, rows), numbers)


def ratios(disparity: Facts, title: str) -> Figure:
    """The smaller mean over the larger, per pair, against four fifths and equality."""
    parity = disparity["parity"]
    pairs = sorted(parity["pairs"], key=_smallest_ratio)
    rows = [
        Row(pair_name(pair), pair["impact_ratio"], turned_ratio(pair), note=_ratio_note(pair))
        for pair in pairs[:_DRAWN]
    ]
    mark = {
        "below": "at least one pair of groups is below four fifths, and chance does not explain it",
        "above": "every pair of groups is above four fifths, as far as chance goes",
        "undecided": "these rows do not decide whether every pair is above four fifths",
    }[parity["four_fifths"]]
    sentence = (
        f"The impact ratio is the smaller mean over the larger; 1 is equality. Here {mark}. The "
        f"four-fifths mark is a rule of thumb of US employment law, not a test of fairness."
    )
    svg = estimates(
        title, sentence, rows, form=text.number_tick,
        marks=(Mark(FOUR_FIFTHS, "four fifths"), Mark(1.0, "equal")),
        ends=_ratio_ends(rows),
    )  # fmt: skip
    return Figure(title, sentence, svg, pair_table(disparity))


def _ratio_ends(rows: list[Row]) -> tuple[float, float]:
    """Around four fifths and equality, and as far as the intervals go."""
    numbers = [n for row in rows for n in (row.value, *(row.interval or ())) if n is not None]
    finite = [n for n in numbers if math.isfinite(n)]
    return max(min([0.7, *finite]) - 0.05, 0.0), max([1.05, *finite]) + 0.05


def differences(disparity: Facts, title: str, sentence: str) -> Figure:
    """Differences with their intervals, per pair, against zero."""
    pairs = sorted(disparity["parity"]["pairs"], key=lambda p: -abs(p["difference"]))
    rows = [
        Row(
            pair_name(pair, minus=True),
            pair["difference"],
            tuple(pair["difference_interval"]),
            note=text.points(pair["difference"]),
        )
        for pair in pairs[:_DRAWN]
    ]
    svg = estimates(
        title, sentence, rows, form=text.points_tick, marks=(Mark(0.0, "no gap"),),
        axis="percentage points",
    )  # fmt: skip
    return Figure(title, sentence, svg, pair_table(disparity))


def pair_table(disparity: Facts) -> Table:
    """Every pair: difference, ratio, their intervals, and the test where there is one."""
    parity, tests = disparity["parity"], disparity["significance"]
    found = {(t["first"], t["last"]): t for t in tests}
    head = ["Pair", "Difference, points", "Impact ratio", "Four fifths"]
    rows = []
    for pair in parity["pairs"]:
        row = [
            pair_name(pair, minus=True),
            text.bracketed(pair["difference"], pair["difference_interval"], text.points),
            text.bracketed(pair["impact_ratio"], turned_ratio(pair), text.number),
            MARKS[pair["four_fifths"]],
        ]
        if tests:
            row.append(text.p_value(found[pair["first"], pair["last"]]["p_value"]))
        rows.append(row)
    note = f"In brackets: intervals that hold together at the {_level(parity)} level."
    if tests:
        head.append("p")
        names = sorted({t["test"] for t in tests})
        note += f" p-values: {' or '.join(names)}, adjusted for the number of comparisons."
    if parity["clustered"]:
        note += " Persons repeat; the intervals take that into account."
    if disparity["too_small"]:
        note += f" Too few rows to compare: {text.listed(disparity['too_small'])}."
    return Table.of(
        "Differences and ratios between groups", head, rows, words={3}, note=note,
        folded=len(rows) > _LONG,
    )  # fmt: skip


def pair_name(pair: Facts, *, minus: bool = False) -> str:
    """“female − male” for a difference, “female and male” else."""
    last, first = text.short(pair["last"], 40), text.short(pair["first"], 40)
    return f"{last} {text.MINUS} {first}" if minus else f"{last} and {first}"


def turned_ratio(pair: Facts) -> tuple[float, float] | None:
    """Interval of the smaller mean over the larger."""
    low, high = pair["ratio_interval"]
    if pair["ratio"] is None or low is None:
        return None
    high = math.inf if high is None else high
    if pair["ratio"] <= 1:
        return low, high
    return (0.0 if math.isinf(high) else 1 / high), (1 / low if low else math.inf)


def _level(parity: Facts) -> str:
    return text.share(parity["level"], 0)


def _smallest_ratio(pair: Facts) -> float:
    return math.inf if pair["impact_ratio"] is None else float(pair["impact_ratio"])


def _ratio_note(pair: Facts) -> str:
    return text.number(pair["impact_ratio"], 2)
