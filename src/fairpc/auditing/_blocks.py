"""The page: sections of paragraphs, tables and pictures, as HTML.

A section module says with :func:`section` which function shows the facts of that name. The file has
a policy of its own; no name from data can be markup.
"""

from __future__ import annotations

import base64
import hashlib
import tomllib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fairpc.auditing import _formats as text
from fairpc.auditing._drawing import Picture

if TYPE_CHECKING:
    from fairpc.auditing._audit import Audit as Audit

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
class Finding(Block):
    """The one sentence that a reader repeats."""

    text: str
    alert: bool = False  #: whether it forbids to believe what follows


@dataclass(frozen=True)
class Notice(Block):
    """What must not be missed: a headline and what it means."""

    headline: str
    paragraphs: Sequence[str]
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
    longest: int = 90  #: letters of the first cell of a row

    def __post_init__(self) -> None:
        written = [[text.short(row[0], self.longest), *map(_cell, row[1:])] for row in self.rows]
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
class Section:
    """One part of a chapter of the page."""

    key: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Chapter:
    """What the page shows folded: a title, what is in there in a few words, and its parts."""

    key: str
    title: str
    gist: str
    parts: tuple[Section, ...]


F = TypeVar("F")
Show = Callable[["Audit", F], Iterable[Block]]

SHOWN: Final[dict[str, tuple[str, Show[Any]]]] = {}
"""Section of an audit -> its title, and what shows it."""


def section(name: str, title: str) -> Callable[[Show[F]], Show[F]]:
    """Say that a function shows the section ``name`` of an audit, which it is given, if any."""

    def register(show: Show[F]) -> Show[F]:
        SHOWN[name] = title, show
        return show

    return register


def reason(audit: Audit, name: str) -> str:
    """Why a section or "section.part" is not there, as the audit says it."""
    return text.sentence(audit.left_out[name])


def group_order(audit: Audit) -> dict[str, int]:
    """Place of each group: its colour and mark are the same all over the page."""
    return {group.name: i for i, group in enumerate(audit.data.groups)}


def page(**facts: Any) -> str:
    """The page under a policy that allows its script and style alone, and no request at all."""
    style, script = static("page.css"), static("page.js")
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    given = facts | {"css": style, "script": script, "policy": policy}
    return environment().get_template("page.html").render(**given).lstrip() + "\n"


def _digest(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def static(name: str) -> str:
    """A file of the page."""
    return (files("fairpc.auditing") / "static" / name).read_text("utf-8")


def sentences(kind: str) -> tuple[str, ...]:
    """What is said of every model, or of all decisions, of a kind."""
    return tuple(_sentences()[kind])


@cache
def _sentences() -> dict[str, list[str]]:
    return tomllib.loads(static("caveats.toml"))


@cache
def environment() -> Environment:
    """Templates in which every text is escaped, and none hides or reorders what is shown."""
    made = Environment(
        loader=PackageLoader("fairpc.auditing"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: text.visible(value) if isinstance(value, str) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["prose"] = text.prose
    return made
