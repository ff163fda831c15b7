"""What pages and documents are made of: sections of paragraphs, tables and pictures.

A section module says with :func:`section` which function shows the facts of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from markupsafe import Markup

from fairpc.auditing import _formats as text
from fairpc.auditing._drawing import Picture

if TYPE_CHECKING:
    from fairpc.auditing._audit import Audit

WIDE: Final = 5
"""Columns from which a table becomes a list of cards on a phone."""
_LETTERS: Final = 44  # on a line of a phone


class Block:
    """What a section is made of, one below the other; its class says how it is written."""

    @property
    def kind(self) -> str:
        return type(self).__name__.removesuffix("Block")


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
class TableBlock(Block):
    """A table whose first column names the rows."""

    caption: str
    head: Sequence[str]  #: a name per column
    #: cells: names and other text; whole numbers are counts, other numbers are shares
    rows: Sequence[Sequence[Any]]
    words: Collection[int] = ()  #: columns that hold words and not numbers, besides the first
    folded: bool = False  #: shown only when asked for; for long tables beneath a picture
    note: str = ""
    longest: InitVar[int] = 90  #: letters of the first cell of a row

    def __post_init__(self, longest: int) -> None:
        written = [[text.short(row[0], longest), *map(_cell, row[1:])] for row in self.rows]
        object.__setattr__(self, "rows", written)

    @property
    def cards(self) -> bool:
        """Whether the table is too wide for a phone: its rows then become cards there."""
        widths = (max(map(len, column)) for column in zip(*self.rows, strict=True))
        return len(self.head) >= WIDE or (len(self.head) > 2 and sum(widths) > _LETTERS)

    def without_empty_remarks(self) -> TableBlock:
        """The table without its last column where no row has a remark there."""
        last = len(self.head) - 1
        if any(row[last] for row in self.rows):
            return replace(self, words={*self.words, last})
        return replace(self, head=self.head[:last], rows=[row[:last] for row in self.rows])


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return text.breaks(text.visible(value))
    return text.count(value) if isinstance(value, int) else text.share(value)


@dataclass(frozen=True)
class Figure(Block):
    """A picture, the sentence that says what one sees, and its numbers beneath."""

    title: str
    sentence: str
    picture: Picture
    table: TableBlock | None = None
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
class Lines(Block):
    """Lines of text whose columns line up."""

    text: str


@dataclass(frozen=True)
class Form(Block):
    """The questions that the page itself answers."""

    #: what the reader may set: a column of the circuit, its name, its values, and the kind of
    #: field for a number or a date; none where there are no bins
    choices: Sequence[tuple[int, str, Sequence[str], str]]
    data: Mapping[str, Any]  #: what the script of the page reads


@dataclass(frozen=True)
class Blank(Block):
    """What a tool cannot know, in place of an answer."""

    key: str  #: of the question
    asks: str  #: what is to be filled in
    by: str  #: by whom

    def __str__(self) -> str:
        return f"To be filled in by {self.by}: {self.asks} ({self.key})"


@dataclass(frozen=True)
class Entries(Block):
    """Named facts, some of which may still be blank."""

    caption: str
    pairs: Sequence[tuple[str, str | Blank]]


@dataclass(frozen=True)
class Section:
    """One part of a page or a document."""

    key: str
    title: str
    gist: str  #: what one sees of it while it is folded, besides the title
    blocks: tuple[Block, ...]


F = TypeVar("F")
Show = Callable[["Audit", F], Iterable[Block]]
Gist = Callable[["Audit", Any], str]

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
    facts = getattr(audit, name)
    if facts is None:
        return Section(name, title, "Not in this report", (absent(audit, name),))
    return Section(name, title, gist(audit, facts), tuple(show(audit, facts)))


def printed(blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks as a document has them: of a picture its numbers, every table open."""
    for block in blocks:
        if isinstance(block, TableBlock):
            yield replace(block, folded=False)
        elif isinstance(block, Side):
            yield from printed(block.figures)
        elif isinstance(block, Figure):
            yield from printed([] if block.table is None else [block.table])
        elif not isinstance(block, KeyNumbers | Drawing | Form):
            yield block


def absent(audit: Audit, name: str) -> Paragraph:
    """In place of a section or "section.part": why it is not there."""
    return Paragraph(f"Not in this report. {reason(audit, name)}")


def reason(audit: Audit, name: str, otherwise: str = "the audit was made without it") -> str:
    """Why a section or "section.part" is not there, as the audit says it."""
    return text.sentence(audit.left_out.get(name, otherwise))


def group_order(audit: Audit) -> dict[str, int]:
    """Place of each group: its colour and mark are the same all over the page."""
    return {group.name: i for i, group in enumerate(audit.data.groups)}
