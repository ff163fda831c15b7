"""What the data can and cannot decide: test, confidence set, identified set, random starts."""

from __future__ import annotations

from collections.abc import Iterator

from fairpc.report import text
from fairpc.report.drawing.bars import Mark, Row, ranges
from fairpc.report.drawing.curves import Plane, Series, curves
from fairpc.report.sections.absent import Facts, reason
from fairpc.report.sections.labels import group_order
from fairpc.report.sections.stability import stability
from fairpc.report.view import Block, Figure, Heading, Notice, Paragraph, Points, Section, Table
from fairpc.report.view import Facts as KeyNumbers

TITLE = "What the data can and cannot decide"


def decidable(facts: Facts) -> Section:
    """How much of the account rests on data, and how much on assumptions."""
    blocks: list[Block] = [
        Paragraph(
            "A hidden decision is never seen. These are the limits within which the data speak "
            "about it at all.",
            "lead",
        ),
        Heading("Do the data contradict the assumptions?"),
        *_test(facts),
        Heading("What stays open at any number of rows"),
        *_identified(facts),
        Heading("Spread over random starts"),
        *stability(facts),
    ]
    return Section("decidable", TITLE, tuple(blocks))


def _test(facts: Facts) -> Iterator[Block]:
    test = facts["decidable"]["test"]
    if test is None:
        why = str(facts["decidable"]["untested"]).rstrip(".")
        yield Paragraph(f"Not tested. {why[:1].upper()}{why[1:]}.")
        return
    yield Notice(
        "Rejected: the data contradict the assumptions."
        if test["rejected"]
        else "Not rejected: the data do not contradict the assumptions.",
        (_outcome(test),),
        alert=test["rejected"],
    )
    if test["what_to_do"]:
        yield Paragraph("What can be done:")
        yield Points(tuple(test["what_to_do"]))
    for one in test["sets"]:
        yield _confidence_set(facts, one, test)
    fits = text.listed([f"{name} ({text.counted(n, 'fit')})" for name, n in _fits(test)])
    yield Paragraph(
        f"Computed on {_used(test)} by {test['method']} over "
        f"{text.counted(test['n_seeds'], 'way')} of splitting; classifiers: {fits}.",
        "note",
    )


def _used(test: Facts) -> str:
    if test["n_rows"] == test["n_known"]:
        return text.counted(test["n_rows"], "row")
    known = text.counted(test["n_known"], "row")
    return f"{text.count(test['n_rows'])} of the {known} whose label and group are known,"


def _outcome(test: Facts) -> str:
    if test["rejected"]:
        return (
            f"p {test['p_words']}. No rate of fair decisions fits every group"
            f"{_clash(test['sets'])}. At least one of these fails: fair decisions are independent "
            "of the group; the label depends on the features through the fair decision only; in "
            "every group a label is likeliest under the fair decision of the same name."
        )
    rates = "; ".join(
        f"{text.quoted(one['label'])} from {text.share(one['lower'])} to {text.share(one['upper'])}"
        for one in test["sets"]
    )
    return (
        f"p {test['p_words']}. Rates of fair decisions with {text.share(test['level'], 0)} "
        f"confidence, if the assumptions are true: {rates}. That they are not rejected does "
        "not show that they are true: some violations cannot be seen however many rows there are."
    )


def _clash(sets: list[Facts]) -> str:
    """Which groups exclude each other; of more than two classes no two groups need do so."""
    if len(sets) > 1:
        return ""
    (one,) = sets
    low = max(one["groups"], key=lambda bar: bar["lower"])
    high = min(one["groups"], key=lambda bar: bar["upper"])
    return (
        f": of {text.quoted(one['label'])}, group {text.short(low['group'], 40)} needs at least "
        f"{text.share(low['lower'])}, group {text.short(high['group'], 40)} at most "
        f"{text.share(high['upper'])}"
    )


def _fits(test: Facts) -> list[tuple[str, int]]:
    found = test["classifiers"]
    return list(found.items()) if isinstance(found, dict) else [(name, n) for name, n in found]


def _confidence_set(facts: Facts, one: Facts, test: Facts) -> Figure:
    order = group_order(facts)
    label = text.short(one["label"], 40)
    empty = one["empty"]
    overlap = None if empty else (one["lower"], one["upper"])
    rows = [
        Row(
            bar["group"], None, (bar["lower"], bar["upper"]), order[bar["group"]],
            note=text.span((bar["lower"], bar["upper"])),
        )
        for bar in one["groups"]
    ]  # fmt: skip
    if empty:
        seen = "The bars do not overlap: no single rate fits every group."
    else:
        seen = (
            f"The bars overlap from {text.share(one['lower'])} to {text.share(one['upper'])} "
            "(shaded): any rate in there fits every group."
        )
    sentence = (
        f"Each bar is the range of P(Df = {label}) that one group alone leaves possible, at the "
        f"{text.share(test['level'], 0)} level. {seen}"
    )
    cells = [
        (
            text.short(bar["group"]),
            text.count(bar["n"]),
            text.share(bar["lower"]),
            text.share(bar["upper"]),
        )
        for bar in one["groups"]
    ]
    whole = ("none", "none") if empty else (text.share(one["lower"]), text.share(one["upper"]))
    cells.append(("Overlap of all groups", "", *whole))
    numbers = Table.of(
        f"Confidence set of P(Df = {label})", ("Group", "Rows", "Lowest", "Highest"), cells
    )
    title = f"Possible rates of {text.quoted(one['label'])}"
    rate = _decision_rate(facts, one["label"])
    marks = () if rate is None else (Mark(rate, f"learned {text.share(rate)}"),)
    svg = ranges(title, sentence, rows, overlap=overlap, marks=marks, axis=f"P(Df = {label})")
    return Figure(title, sentence, svg, numbers)


def _identified(facts: Facts) -> Iterator[Block]:
    found = facts["decidable"]["identified"]
    if found is None:
        yield Paragraph(f"Not in this report. {reason(facts, 'decidable.identified')}")
        return
    yield Paragraph(_open(found))
    if not found["empty"]:
        yield KeyNumbers(
            (
                ("Mean width of the bounds of a score, points", _width(found["mean_width"])),
                ("Decided positively whatever is true", text.share(found["always"])),
                ("Decided negatively whatever is true", text.share(found["never"])),
                ("Depends on what is true", text.share(found["open"])),
            )
        )
        yield _bands(found, group_order(facts))
    yield _ranges(facts, found)


def _open(found: Facts) -> str:
    label = text.short(found["positive"], 40)
    if found["empty"]:
        return (
            f"No rate of {text.quoted(found['positive'])} is possible in every group at once, "
            "with the model's P(D | X, S) taken as exact. The test above says whether chance "
            "explains that."
        )
    return (
        f"With P(D | X, S) known exactly, P(Df = {label}) could still be anything from "
        f"{text.share(found['lower'])} to {text.share(found['upper'])}. The order of people within "
        "a group is fixed; the level and the spread of their scores are not."
    )


def _width(value: float | None) -> str:
    return text.NOTHING if value is None else text.number(100 * value, 1)


def _bands(found: Facts, order: dict[str, int]) -> Figure:
    series: list[Series | None] = [None] * len(order)
    for group, place in order.items():
        mine = [band for band in found["bands"] if band["group"] == group]
        scores = [band["score"] for band in mine]
        spreads = [(band["lower"], band["upper"]) for band in mine]
        series[place] = Series(group, scores, scores, spreads)
    sentence = (
        "Each mark is a tenth of the model's scores. The line at the same place runs from the "
        "lowest to the highest score that fits the data equally well; a mark off its line is a "
        "score that the data exclude, if the assumptions hold."
    )
    cells = [
        (
            text.short(band["group"]),
            f"{text.share(band['low'], 0)} to {text.share(band['high'], 0)}",
            text.count(band["n"]),
            text.share(band["score"]),
            text.share(band["lower"]),
            text.share(band["upper"]),
        )
        for band in found["bands"]
    ]
    head = ("Group", "Model's score", "Rows", "Mean score", "Lowest", "Highest")
    numbers = Table.of(
        "Bounds of a person's score, by tenth of the model's score", head, cells, words={1},
        folded=True,
    )  # fmt: skip
    plane = Plane("score of the model", "possible scores")
    svg = curves(
        "Bounds of a person's score", sentence, plane, [s for s in series if s is not None],
        marked=True, joined=False,
    )  # fmt: skip
    return Figure("How far a person's score is open", sentence, svg, numbers)


def _ranges(facts: Facts, found: Facts) -> Table:
    """What each group leaves possible, beside what the model learned and its interval."""
    label = text.short(found["positive"], 30)
    learned = _learned(facts, found["positive"])
    rate = text.share(_decision_rate(facts, found["positive"]))
    rows = []
    for group in found["groups"]:
        name = text.short(group["group"])
        rows.append((name, f"P(Df = {label}), from this group alone", _span(group, ""), rate))
        for key, given in (("b0", "Df otherwise"), ("b1", f"Df = {label}")):
            quantity = f"P(D = {label} given {given})"
            own = learned.get((group["group"], key), text.NOTHING)
            rows.append((name, quantity, _span(group, f"{key}_"), own))
    return Table.of(
        "Identified set of the mechanism", ("Group", "Quantity", "Possible", "Learned"), rows,
        words={1},
        note="Possible: every value that fits the same P(D | X, S), without sampling error. "
        "Learned: the model's value, with its bootstrap interval where there is one.",
    )  # fmt: skip


def _span(group: Facts, key: str) -> str:
    low, high = group[f"{key}lower"], group[f"{key}upper"]
    return "none" if low is None or high is None or low > high else text.span((low, high))


def _decision_rate(facts: Facts, label: str) -> float | None:
    """P(Df = label) as learned."""
    found = facts["mechanism"]
    return None if found is None else float(found["decision_rate"][found["classes"].index(label)])


def _learned(facts: Facts, positive: str) -> dict[tuple[str, str], str]:
    found = facts["mechanism"]
    if found is None or len(found["classes"]) != 2:
        return {}
    result = {}
    for cell in found["cells"]:
        if cell["label"] == positive:
            name = "b1" if cell["decision"] == positive else "b0"
            result[cell["group"], name] = text.bracketed(cell["probability"], cell["interval"])
    return result
