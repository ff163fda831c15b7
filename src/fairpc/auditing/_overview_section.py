"""The verdict in words, and the audited rows: classes, groups, what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairpc.auditing import _text as text
from fairpc.auditing import _view as view
from fairpc.auditing._audit import Audit
from fairpc.auditing._drawing import Row, bars
from fairpc.auditing._table import TableFacts
from fairpc.auditing._verdict import Verdict

_DRAWN: Final = 12
_LONG: Final = 12


@view.section("verdict", "Verdict", lambda *_: "")
def verdict(audit: Audit, found: Verdict) -> Iterator[view.Block]:
    """The findings; a rejection of the assumptions, or a drift of Df, stands out."""
    consequences = (
        "Everything below that speaks of fair decisions or of a bias mechanism rests on "
        "assumptions which these rows contradict. Read it as a description of the model, not "
        "of the world."
    )
    yield view.Notice(
        found.headline,
        (consequences,) if found.rejected else (),
        alert=found.withdrawn,
    )
    yield view.KeyNumbers(_key_numbers(audit, found))
    yield view.Brief(
        (
            ("What was found", found.found),
            ("How sure it is", found.sure),
            ("What to do", found.to_do),
        )
    )
    yield view.Paragraph(f"{found.disclaimer} No statistic can settle whether a decision was just.")


def _key_numbers(audit: Audit, found: Verdict) -> list[tuple[str, str]]:
    """What a reader compares at first sight; how many rows there are stands under the title."""
    labels, parity = audit.labels, audit.parity
    pairs = []
    gaps = {"labels": () if labels is None else labels.disparities}
    gaps["decisions"] = () if parity is None else parity.decisions
    ratios = {}
    for name, part in gaps.items():
        if part:
            worst = max(part, key=lambda d: d.gap)
            pairs.append((f"Gap in {name}, points", text.number(100 * worst.gap, 1)))
            ratios[name] = text.number(worst.parity.largest.impact_ratio, 2)
    if ratios:
        pairs.append((f"Impact ratio, {' → '.join(ratios)}", " → ".join(ratios.values())))
    word = {True: "rejected", False: "not rejected", None: "not tested"}[found.rejected]
    within = " within strata" if audit.strata is not None and audit.strata.own is not None else ""
    return [*pairs, (f"Assumptions{within}", word)]


def _data_gist(_: Audit, found: TableFacts) -> str:
    holes = sum(column.share > 0 for column in found.missing)
    missing = f"values missing in {text.counted(holes, 'column')}" if holes else "nothing missing"
    return f"{text.counted(found.n_rows, 'row')}, {len(found.groups)} groups, {missing}"


@view.section("data", "Data, groups, missing values", _data_gist)
def data(_: Audit, found: TableFacts) -> Iterator[view.Block]:
    """Who is in the table, and what is not known about them."""
    yield view.Paragraph(_rows(found), "lead")
    if found.n_grouped:
        yield _groups(found)
    else:
        yield view.Paragraph(
            f"The groups of these rows are not known: no row has a value of "
            f"{text.listed(found.sensitive)}. So nothing in this report compares groups on them. "
            "The model sums the group out, and equal mean scores are then not guaranteed even "
            "under the model."
        )
        known = [(text.short(g.name), text.count(g.training_rows)) for g in found.groups]
        yield view.Table("Groups at fit; not of these rows", ("Group", "Rows at fit"), known)
    cells = [(text.short(c.name), text.count(c.n), text.share(c.share)) for c in found.classes]
    hidden = found.n_rows - found.n_labelled
    note = f"{text.counted(hidden, 'row')} have no label and count in no class." if hidden else ""
    caption = "Observed classes, among the rows with a label"
    yield view.Table(caption, ("Class", "Rows", "Share"), cells, note=note)
    yield _missing(found)
    if found.columns:
        done = [(text.short(c["column"]), text.name(c["done"])) for c in found.columns]
        head = ("Column", "Treatment")
        yield view.Table("What was done with each column", head, done, words={1}, folded=True)


def _rows(found: TableFacts) -> str:
    sampled = ""
    if found.n_rows < found.n_table:
        sampled = (
            ", but its distinct rows do not fit into memory: a random sample of "
            f"{text.counted(found.n_rows, 'row')} was audited, and everything below is about it"
        )
    sentence = (
        f"The table has {text.counted(found.n_table, 'row')}{sampled}. The label is "
        f"“{text.short(found.label)}”, its positive class “{text.short(found.positive)}”; the "
        f"groups are those of {text.listed(found.sensitive)}."
    )
    if found.weighted:
        sentence += f" Rows carry weights that sum to {text.count(found.weight)}."
    if found.n_persons is not None:
        sentence += (
            f" They are about {text.counted(found.n_persons, 'person')}; intervals take into "
            "account that persons repeat."
        )
    if found.same_rows_as_fit:
        return f"{sentence} They are the rows the model was fitted to: agreement is optimistic."
    perhaps = " perhaps" if found.same_rows_as_fit is None else " not"
    return f"{sentence} They are{perhaps} the rows the model was fitted to."


def _groups(found: TableFacts) -> view.Figure:
    groups = found.groups
    rows = [Row(g.name, g.share, series=i, note=text.share(g.share)) for i, g in enumerate(groups)]
    largest = max(groups, key=lambda g: g.n)
    small = [group.name for group in groups if group.small]
    sentence = (
        f"The largest group, {text.short(largest.name, 40)}, has {text.share(largest.share)} "
        f"of the rows whose group is known ({text.count(found.n_grouped)})."
    )
    if small:
        sentence += f" Under 30 rows, to be read with care: {text.listed(small)}."
    cells = [
        (text.short(g.name), text.count(g.n), text.share(g.share), text.count(g.training_rows))
        for g in groups
    ]
    numbers = view.Table("Groups", ("Group", "Rows", "Share", "Rows at fit"), cells)
    return view.Figure("Who is in the table", sentence, bars(rows), numbers, "Share of each group")


def _missing(found: TableFacts) -> view.Block:
    holes = sorted((column for column in found.missing if column.share), key=lambda c: -c.share)
    if not holes:
        return view.Paragraph(
            "No value is missing: every feature, label and group is known in each row."
        )
    sentence = (
        f"{text.counted(len(holes), 'column')} of {len(found.missing)} have missing values; most, "
        f"{text.share(holes[0].share)}, are missing in {text.short(holes[0].column, 40)}. "
        f"{found.missing_words}"
    )
    cells = [
        (
            text.short(c.column) + ("" if c.role == "feature" else f" ({c.role})"),
            text.share(c.share),
            *map(text.share, c.by_group),
        )
        for c in holes
    ]
    head = ("Column", "All", *(text.short(group.name, 30) for group in found.groups))
    folded = len(cells) > _LONG
    numbers = view.Table("Missing values, overall and by group", head, cells, folded=folded)
    picture = bars([Row(c.column, c.share, series=5) for c in holes[:_DRAWN]])
    return view.Figure("What is missing", sentence, picture, numbers, "Share of missing values")
