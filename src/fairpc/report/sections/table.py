"""The audited rows: classes, groups, what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairpc.report import text
from fairpc.report.drawing.bars import Row, bars
from fairpc.report.sections.absent import Facts
from fairpc.report.view import Block, Figure, Paragraph, Section, Table

TITLE = "Data, groups, missing values"

_DRAWN: Final = 12
_LONG: Final = 12


def table(facts: Facts) -> Section:
    """Who is in the table, and what is not known about them."""
    data = facts["data"]
    groups = _groups(data) if data["n_grouped"] else _no_groups(data)
    blocks: list[Block] = [Paragraph(_rows(data), "lead"), *groups, _classes(data)]
    blocks += _missing(data)
    blocks.append(_columns(data))
    return Section("data", TITLE, tuple(blocks))


def _rows(data: Facts) -> str:
    sentence = (
        f"The table has {text.counted(data['n_table'], 'row')}{_sampled(data)}. The label is "
        f"“{text.short(data['label'])}”, its positive class “{text.short(data['positive'])}”; the "
        f"groups are those of {text.listed(data['sensitive'])}."
    )
    if data["weighted"]:
        sentence += f" Rows carry weights that sum to {text.count(data['weight'])}."
    if data["n_persons"] is not None:
        sentence += (
            f" They are about {text.counted(data['n_persons'], 'person')}; intervals take into "
            "account that persons repeat."
        )
    if data["same_rows_as_fit"]:
        return f"{sentence} They are the rows the model was fitted to: agreement is optimistic."
    if data["same_rows_as_fit"] is None:
        return f"{sentence} Whether they are the rows the model was fitted to is not known."
    return f"{sentence} They are not the rows the model was fitted to."


def _sampled(data: Facts) -> str:
    if data["n_rows"] == data["n_table"]:
        return ""
    return (
        f", of which more differ than fit into memory: a random sample of "
        f"{text.counted(data['n_rows'], 'row')} was audited, and everything below is about it"
    )


def _no_groups(data: Facts) -> tuple[Block, ...]:
    names = text.listed(data["sensitive"])
    cells = [(text.short(g["name"]), text.count(g["training_rows"])) for g in data["groups"]]
    return (
        Paragraph(
            f"The groups of these rows are not known: no row has a value of {names}. So nothing "
            "in this report compares groups on them. The model sums the group out, and equal mean "
            "scores are then not promised even under the model."
        ),
        Table.of("Groups at fit; not of these rows", ("Group", "Rows at fit"), cells),
    )


def _groups(data: Facts) -> tuple[Block, ...]:
    groups = data["groups"]
    rows = [
        Row(group["name"], group["share"], series=i, note=text.share(group["share"]))
        for i, group in enumerate(groups)
    ]
    largest = max(groups, key=lambda g: g["n"])
    small = [group["name"] for group in groups if group["small"]]
    sentence = (
        f"The largest group, {text.short(largest['name'], 40)}, has {text.share(largest['share'])} "
        f"of the rows whose group is known ({text.count(data['n_grouped'])})."
    )
    if small:
        sentence += f" Under 30 rows, to be read with care: {text.listed(small)}."
    cells = [
        (
            text.short(group["name"]),
            text.count(group["n"]),
            text.share(group["share"]),
            text.count(group["training_rows"]),
        )
        for group in groups
    ]
    numbers = Table.of("Groups", ("Group", "Rows", "Share", "Rows at fit"), cells)
    svg = bars("Share of each group", sentence, rows)
    return (Figure("Who is in the table", sentence, svg, numbers),)


def _classes(data: Facts) -> Table:
    cells = [
        (text.short(c["name"]), text.count(c["n"]), text.share(c["share"])) for c in data["classes"]
    ]
    note = ""
    hidden = data["n_rows"] - data["n_labelled"]
    if hidden:
        note = f"{text.counted(hidden, 'row')} have no label and count in no class."
    caption = "Observed classes, among the rows with a label"
    return Table.of(caption, ("Class", "Rows", "Share"), cells, note=note)


def _missing(data: Facts) -> Iterator[Block]:
    gaps = sorted(
        (column for column in data["missing"] if column["share"]), key=lambda c: -c["share"]
    )
    if not gaps:
        yield Paragraph("No value is missing: every feature, label and group is known in each row.")
        return
    sentence = (
        f"{text.counted(len(gaps), 'column')} of {len(data['missing'])} have missing values; most, "
        f"{text.share(gaps[0]['share'])}, are missing in {text.short(gaps[0]['column'], 40)}. "
        "The model sums them out; no value is made up."
    )
    names = [text.short(group["name"], 30) for group in data["groups"]]
    cells = [
        (
            text.short(c["column"]) + ("" if c["role"] == "feature" else f" ({c['role']})"),
            text.share(c["share"]),
            *(text.share(share) for share in c["by_group"]),
        )
        for c in gaps
    ]
    numbers = Table.of(
        "Missing values, overall and by group", ("Column", "All", *names), cells,
        folded=len(cells) > _LONG,
    )  # fmt: skip
    rows = [Row(c["column"], c["share"], series=5) for c in gaps[:_DRAWN]]
    yield Figure(
        "What is missing", sentence, bars("Share of missing values", sentence, rows), numbers
    )


def _columns(data: Facts) -> Table:
    cells = [(text.short(c["column"]), text.name(c["done"])) for c in data["columns"]]
    return Table.of(
        "What was done with each column", ("Column", "Treatment"), cells, words={1}, folded=True
    )
