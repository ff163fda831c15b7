"""What a page is made of: sections of paragraphs, tables and pictures, ready to be written.

What shows a section of an audit says so with :func:`section`, by the name of the section.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from markupsafe import Markup

from fairpc.auditing._audit import Audit
from fairpc.auditing._svg import Picture

WIDE: Final = 5
"""Columns from which a table becomes a list of cards on a phone."""
_LETTERS: Final = 44  # on a line of a phone


class Block:
    """What a section is made of, one below the other; its class says how it is written."""

    @property
    def kind(self) -> str:
        return type(self).__name__


@dataclass(frozen=True)
class Paragraph(Block):
    """A few sentences."""

    text: str
    style: Literal["", "lead", "note"] = ""


@dataclass(frozen=True)
class Heading(Block):
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Points(Block):
    """A list of sentences."""

    items: Sequence[str]


@dataclass(frozen=True)
class Notice(Block):
    """What must not be missed: a headline and what it means."""

    headline: str
    paragraphs: Sequence[str] = ()
    alert: bool = False


@dataclass(frozen=True)
class Brief(Block):
    """What somebody reads who reads nothing else: a few sentences under each of a few questions."""

    parts: Sequence[tuple[str, Sequence[str]]]


@dataclass(frozen=True)
class KeyNumbers(Block):
    """A few numbers with their names."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table(Block):
    """A table whose first column names the rows."""

    caption: str
    head: Sequence[str]  #: a name per column
    rows: Sequence[Sequence[str]]  #: cells, already as text
    words: Collection[int] = ()  #: columns that hold words and not numbers, besides the first
    folded: bool = False  #: shown only when asked for; for long tables beneath a picture
    note: str = ""

    @property
    def cards(self) -> bool:
        """Whether the table is too wide for a phone: its rows then become cards there."""
        widths = (max(map(len, column)) for column in zip(*self.rows, strict=True))
        return len(self.head) >= WIDE or (len(self.head) > 2 and sum(widths) > _LETTERS)


@dataclass(frozen=True)
class Figure(Block):
    """A picture, the sentence that says what one sees, and its numbers beneath."""

    title: str
    sentence: str
    picture: Picture
    table: Table | None = None
    name: str = ""  #: of the picture by itself, for those who do not see it; the title if empty

    @property
    def svg(self) -> Markup:
        return self.picture.svg(self.name or self.title, self.sentence)


@dataclass(frozen=True)
class Side(Block):
    """Pictures beside each other where there is room."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class Drawing(Block):
    """A wide drawing that scrolls."""

    name: str
    svg: Markup


@dataclass(frozen=True)
class Plain(Block):
    """Lines of text whose columns line up."""

    text: str


@dataclass(frozen=True)
class WhatIf(Block):
    """The questions that the page itself answers."""

    #: what the reader may set: a column of the circuit, its name, its values, and the kind of
    #: field for a number or a date; none where there are no bins
    choices: Sequence[tuple[int, str, Sequence[str], str]]


@dataclass(frozen=True)
class Section:
    """One part of the page."""

    key: str
    title: str
    gist: str  #: what one sees of it while it is folded, besides the title
    blocks: tuple[Block, ...]


F = TypeVar("F")
Show = Callable[[Audit, F], Iterable[Block]]
Gist = Callable[[Audit, Any], str]

SHOWN: Final[dict[str, tuple[str, Gist, Show[Any]]]] = {}
"""Section of an audit -> its title, its gist, and what shows it."""


def section(name: str, title: str, gist: Gist) -> Callable[[Show[F]], Show[F]]:
    """Say that a function shows the section ``name`` of an audit, which it is given, if any.

    ``gist`` says in a few words what is in there.
    """

    def register(show: Show[F]) -> Show[F]:
        SHOWN[name] = title, gist, show
        return show

    return register


def shown(audit: Audit, name: str) -> Section:
    """A section of the page; where the audit has no facts for it, it says why."""
    title, gist, show = SHOWN[name]
    found = getattr(audit, name)
    if found is None:
        return Section(name, title, "Not in this report", (absent(audit, name),))
    return Section(name, title, gist(audit, found), tuple(show(audit, found)))


def absent(audit: Audit, name: str) -> Paragraph:
    """In place of a section or "section.part": why it is not there."""
    return Paragraph(f"Not in this report. {reason(audit, name)}")


def reason(audit: Audit, name: str, otherwise: str = "the audit was made without it") -> str:
    """Why a section or "section.part" is not there, as the audit says it."""
    return sentence(audit.left_out.get(name, otherwise))


def sentence(words: str) -> str:
    """Words with a capital letter and a full stop."""
    words = words.strip()
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."


def group_order(audit: Audit) -> dict[str, int]:
    """Place of each group: its colour and mark are the same all over the page."""
    return {group.name: i for i, group in enumerate(audit.data.groups)}
