"""What a page is made of: sections of paragraphs, tables and pictures, ready to be written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from markupsafe import Markup

WIDE: Final = 5
"""Columns from which a table becomes a list of cards on a phone."""
_LETTERS: Final = 44  # on a line of a phone


@dataclass(frozen=True)
class Paragraph:
    """A few sentences."""

    kind: ClassVar[str] = "paragraph"
    text: str
    style: Literal["", "lead", "note"] = ""


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    kind: ClassVar[str] = "points"
    items: tuple[str, ...]
    style: Literal["", "note"] = ""


@dataclass(frozen=True)
class Notice:
    """What must not be missed: a headline and what it means."""

    kind: ClassVar[str] = "notice"
    headline: str
    paragraphs: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    alert: bool = False


@dataclass(frozen=True)
class Facts:
    """A few key numbers with their names."""

    kind: ClassVar[str] = "facts"
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows.

    Attributes:
        head: a name per column.
        rows: cells, already as text.
        words: columns that hold words and not numbers, besides the first.
        folded: shown only when asked for; for long tables beneath a picture.
    """

    kind: ClassVar[str] = "table"
    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[int] = frozenset()
    folded: bool = False
    note: str = ""

    @classmethod
    def of(
        cls, caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], **more: Any
    ) -> Table:
        words = frozenset(more.pop("words", ()))
        return cls(caption, tuple(head), tuple(tuple(row) for row in rows), words, **more)

    @property
    def cards(self) -> bool:
        """Whether the table is too wide for a phone: its rows then become cards there."""
        widths = (max(map(len, column)) for column in zip(*self.rows, strict=True))
        return len(self.head) >= WIDE or (len(self.head) > 2 and sum(widths) > _LETTERS)


@dataclass(frozen=True)
class Figure:
    """A picture, the sentence that says what one sees, and its numbers beneath."""

    kind: ClassVar[str] = "figure"
    title: str
    sentence: str
    svg: Markup
    table: Table | None = None


@dataclass(frozen=True)
class Side:
    """Pictures beside each other where there is room."""

    kind: ClassVar[str] = "side"
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Drawing:
    """A wide drawing that scrolls."""

    kind: ClassVar[str] = "drawing"
    name: str
    svg: Markup


@dataclass(frozen=True)
class Plain:
    """Lines of text whose columns line up."""

    kind: ClassVar[str] = "plain"
    text: str


@dataclass(frozen=True)
class Choice:
    """One variable that the reader may set: its column in the circuit and its values."""

    column: int
    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class WhatIf:
    """The questions that the page itself answers."""

    kind: ClassVar[str] = "what_if"
    choices: tuple[Choice, ...]


Block = (
    Paragraph | Heading | Points | Notice | Facts | Table | Figure | Side | Drawing | Plain | WhatIf
)


@dataclass(frozen=True)
class Section:
    """One part of the page."""

    key: str
    title: str
    blocks: tuple[Block, ...] = field(default=())
