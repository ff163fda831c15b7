"""Parity under the model and on the audited rows, before and after thresholding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairpc.report import text
from fairpc.report.drawing.curves import Plane, Series, curves
from fairpc.report.sections.absent import Facts, absent
from fairpc.report.sections.gaps import differences, means, ratios
from fairpc.report.sections.labels import group_order
from fairpc.report.view import Block, Figure, Heading, Paragraph, Section, Table
from fairpc.report.view import Facts as KeyNumbers

TITLE = "Parity: under the model, and on these rows"

_EXACT: Final = 1e-9


def parity(facts: Facts) -> Section:
    """What is equal between groups, with a bound where it is not exact."""
    found = facts["parity"]
    if found is None:
        return absent(facts, "parity", TITLE)
    blocks: list[Block] = [
        Paragraph(_sentence(found), "lead"),
        KeyNumbers(tuple(key_numbers(found))),
    ]
    if found["n_unknown"]:
        rows = text.counted(found["n_unknown"], "row")
        blocks.append(Paragraph(f"Left out here: {rows} whose group is not known.", "note"))
    blocks += _part(facts, found["scores"], "Before thresholding: mean scores", "mean score for")
    blocks += _part(facts, found["decisions"], "After thresholding: decisions", "share decided")
    blocks += _thresholds(facts, found)
    return Section("parity", TITLE, tuple(blocks))


def _sentence(found: Facts) -> str:
    exact = found["model_gap"] < _EXACT
    under = (
        "Under the model every group has the same mean score, by construction."
        if exact
        else f"Under the model mean scores differ by {_points(found['model_gap'])} points."
    )
    return (
        f"{under} On rows that is not exact: a model is not the data, and a threshold turns equal "
        "means into unequal rates. The bounds say how far the gaps may go beyond what was seen."
    )


def key_numbers(found: Facts) -> list[tuple[str, str]]:
    """Gaps in points: under the model, of scores, of decisions."""
    scores, decisions = (max(found[k], key=lambda d: d["gap"]) for k in ("scores", "decisions"))
    return [
        ("Gap under the model, points", _points(found["model_gap"])),
        ("Gap of mean scores, points", _bounded(scores)),
        ("Gap of decisions, points", _bounded(decisions)),
    ]


def _points(value: float) -> str:
    return text.number(100 * value, 1)


def _bounded(disparity: Facts) -> str:
    return f"{_points(disparity['gap'])} (at most {_points(disparity['gap_upper'])})"


def _part(facts: Facts, disparities: list[Facts], title: str, what: str) -> Iterator[Block]:
    order = group_order(facts)
    yield Heading(title)
    for disparity in disparities:
        label = text.quoted(disparity["label"])
        named = f"{what} {label}"
        title = f"{named[:1].upper()}{named[1:]}, by group"
        yield means(disparity, title, f"The {named}", order)
        if disparity["parity"]["kind"] == "rate":
            yield ratios(disparity, f"Impact ratio of the decision {label}")
        else:
            sentence = (
                f"The largest gap is {_points(disparity['gap'])} points, and at most "
                f"{_points(disparity['gap_upper'])} as far as chance goes."
            )
            yield differences(disparity, f"Differences of mean scores for {label}", sentence)


def _thresholds(facts: Facts, found: Facts) -> Iterator[Block]:
    if found["curve"]:
        yield Heading("At other thresholds")
        yield _curve(facts, found["curve"])
    equal = found["equal_rates"]
    if equal is not None:
        yield _equal_rates(equal)


def _curve(facts: Facts, records: list[Facts]) -> Figure:
    cuts = [record["threshold"] for record in records]
    worst = max(records, key=lambda r: abs(r["largest"]["difference"]))
    sentence = (
        "Share of each group whose score is at or above a common threshold. The gap is largest at "
        f"{text.share(worst['threshold'], 0)}: "
        f"{text.points(worst['largest']['difference'])} points."
    )
    names = [g for g in group_order(facts) if g in {m["group"] for m in records[0]["groups"]}]
    rates = {
        name: [next(m["mean"] for m in r["groups"] if m["group"] == name) for r in records]
        for name in names
    }
    head = ["Threshold", *(text.short(name, 30) for name in names), "Largest gap", "Interval"]
    cells = [
        (
            text.share(cut, 0),
            *(text.share(rates[name][i]) for name in names),
            text.points(records[i]["largest"]["difference"]),
            text.span(records[i]["largest"]["difference_interval"], text.points),
        )
        for i, cut in enumerate(cuts)
    ]
    level = text.share(records[0]["level"], 0)
    numbers = Table.of(
        "Selection rates over common thresholds", head, cells, folded=True,
        note=f"All intervals hold together at the {level} level.",
    )  # fmt: skip
    svg = curves(
        "Selection rates over thresholds", sentence, Plane("threshold", "share selected"),
        [Series(name, cuts, rates[name]) for name in names], marked=True,
    )  # fmt: skip
    return Figure("Selection rates over thresholds", sentence, svg, numbers)


def _equal_rates(equal: Facts) -> Table:
    head = ["Group", "Own threshold", "Rate", "Rate at common threshold"]
    labelled = equal["accuracy"] is not None
    head += ["Agreement", "Agreement at common threshold"] if labelled else []
    rows = []
    for group in equal["groups"]:
        cut = "nobody" if group["threshold"] is None else text.share(group["threshold"])
        row = [text.short(group["group"]), cut, text.share(group["rate"])]
        row.append(text.share(group["rate_before"]))
        if labelled:
            row += [text.share(group["accuracy"]), text.share(group["accuracy_before"])]
        rows.append(row)
    note = ""
    if labelled:
        note = (
            f"Agreement with the observed label, which may be biased, goes from "
            f"{text.share(equal['accuracy_before'])} to {text.share(equal['accuracy'])}."
        )
    return Table.of(
        f"Thresholds per group that would select {text.share(equal['rate'])} of each group", head,
        rows, note=note,
    )  # fmt: skip
