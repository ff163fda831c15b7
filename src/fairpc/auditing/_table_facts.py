"""The audited table: its rows, classes and groups, missing values and columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._drawing import Row, bars
from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows
from fairpc.core import Bools, Codes
from fairpc.data import SMALL, TableCoding

_MARGINALISED: Final = "The model marginalises them; no value is made up."
_AS_THEY_ARE: Final = "The classifier is given them as missing and deals with them in its own way."
_NOT_TRAINED: Final = (
    "The audit takes it that whatever decides was made on other rows: it cannot see how it was "
    "made."
)
Role = Literal["feature", "label", "group"]
_LONG: Final = 12  # rows of a picture, and of a table that is not folded


@dataclass(frozen=True)
class Count:
    """A class or a group among the audited rows."""

    name: str  #: of the class or group
    n: int  #: rows
    share: float | None  #: of the weight of the rows where it is known
    small: bool  #: fewer than 30 rows
    training_rows: int | None = None  #: rows of a group at fit; None without a fit


@dataclass(frozen=True)
class Missing:
    """How much of one column is missing."""

    column: str  #: its name
    role: Role
    share: float  #: of all rows, by weight
    #: per group in the order of ``groups``; None where a group has no rows
    by_group: tuple[float | None, ...]


@dataclass(frozen=True)
class TableFacts:
    """What was audited."""

    n_rows: int  #: audited rows
    n_table: int  #: rows of the table; more where a random sample of them was audited
    weight: float  #: the sum of their weights
    weighted: bool  #: whether rows count differently
    n_persons: int | None  #: persons, where they repeat; None otherwise
    n_labelled: int  #: rows whose label is known
    n_grouped: int  #: rows whose group is known
    #: whether these are the very rows that the model was fitted to; where they are not, some may
    #: still be among them
    same_rows_as_fit: bool | None
    label: str  #: name of the label
    positive: str  #: the class that "positive" means
    classes: tuple[Count, ...]  #: in the order of the model
    groups: tuple[Count, ...]  #: in the order of the model
    #: names of the sensitive attributes; several are crossed into groups
    sensitive: tuple[str, ...]
    missing: tuple[Missing, ...]  #: per feature used, then the label, then the group
    missing_words: str  #: what the model does where a value is missing
    #: what was done with each column of the table at fit; empty where a classifier takes them as
    #: they are
    columns: tuple[Mapping[str, Any], ...]
    title: str = ""  #: of a report
    said: Mapping[str, str] = field(default_factory=dict)  #: class -> as a sentence says it
    people: Mapping[str, str] = field(default_factory=dict)  #: group -> as a sentence says it

    @property
    def fitted(self) -> bool:
        """Whether a model of ours was audited, and not decisions of anybody."""
        return any(group.training_rows is not None for group in self.groups)

    def called(self, label: str) -> str:
        """A class as a sentence says it."""
        return self.said.get(label, text.quoted(label))

    @property
    def due(self) -> str:
        """What somebody deserves who deserves the positive class."""
        return text.due(self.called(self.positive))

    def who(self, group: str) -> str:
        """A group as a sentence says it."""
        return self.people.get(group, f"people in group {text.short(group, 40)}")


def table_facts(job: Job) -> TableFacts:
    """Counts and missing shares of the audited rows."""
    rows, coding = job.rows, job.coding
    at_fit = [None] * len(rows.groups) if job.decisions else coding.groups.rows
    groups = zip(rows.groups, at_fit, strict=True)
    return TableFacts(
        n_rows=rows.n_rows,
        n_table=rows.n_table,
        weight=float(rows.each_weight.sum()),
        weighted=rows.weights is not None,
        n_persons=None if rows.persons is None else len(np.unique(rows.persons)),
        n_labelled=rows.number(rows.d >= 0),
        n_grouped=rows.number(rows.s >= 0),
        same_rows_as_fit=rows.same_rows_as_fit,
        label=coding.labels.name,
        positive=rows.positive_class,
        classes=tuple(
            replace(_count(rows, rows.d, k, name), small=False)
            for k, name in enumerate(rows.classes)
        ),
        groups=tuple(_count(rows, rows.s, g, *group) for g, group in enumerate(groups)),
        sensitive=coding.groups.column_names,
        missing=tuple(_missing(coding, rows, job.min_cell)),
        missing_words=_AS_THEY_ARE if job.takes_table else _MARGINALISED,
        columns=() if job.takes_table else tuple(_columns(coding)),
        title=job.names.title,
        said=job.names.said,
        people=job.names.people,
    )


def _columns(coding: TableCoding) -> Iterator[Mapping[str, Any]]:
    """What was done with each column; the sensitive ones are not features, but are used."""
    done = {column.name: f"sensitive attribute, {column.done}" for column in coding.groups.columns}
    for record in coding.features.describe():
        yield {**record, "done": done.get(record["column"], record["done"])}


def _count(rows: AuditedRows, codes: Codes, k: int, name: str, at_fit: int | None = None) -> Count:
    n, share = rows.number(codes == k), rows.mean(codes == k, codes >= 0)
    return Count(name, n, share, n < SMALL, at_fit)


def _missing(coding: TableCoding, rows: AuditedRows, least: int) -> Iterator[Missing]:
    """Shares of missing values; what fewer than ``least`` people of a group lack is left out."""

    def of(name: str, role: Role, hidden: Bools) -> Missing:
        n = np.bincount(rows.s + 1, hidden * rows.each_count, len(rows.groups) + 1)
        hidden = hidden & (n >= least)[rows.s + 1]
        each = [rows.mean(hidden, rows.s == g) for g in range(len(rows.groups))]
        whole = rows.mean(hidden, rows.every) or 0.0
        return Missing(name, role, whole, tuple(each))

    for j, name in enumerate(coding.features.names):
        yield of(name, "feature", rows.x[:, j] < 0)
    yield of(coding.labels.name, "label", rows.d < 0)
    yield of(", ".join(coding.groups.column_names), "group", rows.s < 0)


@blocks.section("data", "Data, groups, missing values")
def show_data(_: blocks.Audit, facts: TableFacts) -> Iterator[blocks.Block]:
    """Who is in the table, and what is not known about them."""
    yield blocks.Paragraph(_rows(facts), "lead")
    if facts.n_grouped:
        yield _groups(facts)
    else:
        yield blocks.Paragraph(
            f"The groups of these rows are not known: no row has a value of "
            f"{text.listed(facts.sensitive)}. So nothing in this report compares groups on them. "
            "The model marginalises the group, and equal mean scores are then not guaranteed even "
            "under the model."
        )
        known = [(g.name, g.training_rows) for g in facts.groups]
        yield blocks.TableBlock("Groups at fit; not of these rows", ("Group", "Rows at fit"), known)
    cells = [(c.name, c.n, c.share) for c in facts.classes]
    hidden = facts.n_rows - facts.n_labelled
    note = f"{text.counted(hidden, 'row')} have no label and count in no class." if hidden else ""
    caption = "Recorded classes, among the rows with a label"
    yield blocks.TableBlock(caption, ("Class", "Rows", "Share"), cells, note=note)
    yield _show_missing(facts)
    if facts.columns:
        treated = [(c["column"], c["done"]) for c in facts.columns]
        caption, head = "What was done with each column", ("Column", "Treatment")
        yield blocks.TableBlock(caption, head, treated, words={1}, folded=True)


def _rows(facts: TableFacts) -> str:
    sampled = ""
    if facts.n_rows < facts.n_table:
        sampled = (
            ", but its distinct rows do not fit into memory: a random sample of "
            f"{text.counted(facts.n_rows, 'row')} was audited, and everything below is about it"
        )
    sentence = (
        f"The table has {text.counted(facts.n_table, 'row')}{sampled}. The label is "
        f"“{text.short(facts.label)}”, its positive class “{text.short(facts.positive)}”; the "
        f"groups are those of {text.listed(facts.sensitive)}."
    )
    if facts.weighted:
        sentence += f" Rows carry weights that sum to {text.count(facts.weight)}."
    if facts.n_persons is not None:
        sentence += (
            f" They are about {text.counted(facts.n_persons, 'person')}; intervals take into "
            "account that persons repeat."
        )
    if not facts.fitted:
        return f"{sentence} {_NOT_TRAINED}"
    if facts.same_rows_as_fit:
        return f"{sentence} They are the rows the model was fitted to: agreement is optimistic."
    perhaps = " perhaps" if facts.same_rows_as_fit is None else " not"
    return f"{sentence} They are{perhaps} the rows the model was fitted to."


def _groups(facts: TableFacts) -> blocks.Figure:
    groups = facts.groups
    rows = [Row(g.name, g.share, series=i, note=text.share(g.share)) for i, g in enumerate(groups)]
    largest = max(groups, key=lambda g: g.n)
    small = [group.name for group in groups if group.small]
    sentence = (
        f"The largest group, {text.short(largest.name, 40)}, has {text.share(largest.share)} "
        f"of the rows whose group is known ({text.count(facts.n_grouped)})."
    )
    if small:
        sentence += f" Under 30 rows, to be read with care: {text.listed(small)}."
    cells = [(g.name, g.n, g.share, g.training_rows)[: 4 if facts.fitted else 3] for g in groups]
    head = ("Group", "Rows", "Share", "Rows at fit")[: 4 if facts.fitted else 3]
    table = blocks.TableBlock("Groups", head, cells)
    return blocks.Figure("Who is in the table", sentence, bars(rows), table, "Share of each group")


def _show_missing(facts: TableFacts) -> blocks.Block:
    """Missing values, overall and by group."""
    holes = sorted((column for column in facts.missing if column.share), key=lambda c: -c.share)
    if not holes:
        return blocks.Paragraph(
            "No value is missing: every feature, label and group is known in each row, or in all "
            "but so few of a group that they are not counted."
        )
    sentence = (
        f"{text.counted(len(holes), 'column')} of {len(facts.missing)} have missing values; most, "
        f"{text.share(holes[0].share)}, are missing in {text.short(holes[0].column, 40)}. "
        f"{facts.missing_words}"
    )
    roles = {"feature": "", "label": " (label)", "group": " (group)"}
    cells = [(text.short(c.column) + roles[c.role], c.share, *c.by_group) for c in holes]
    head = ("Column", "All", *(text.short(group.name, 30) for group in facts.groups))
    folded = len(cells) > _LONG
    table = blocks.TableBlock("Missing values, overall and by group", head, cells, folded=folded)
    picture = bars([Row(c.column, c.share, series=5) for c in holes[:_LONG]])
    return blocks.Figure("What is missing", sentence, picture, table, "Share of missing values")
