"""Pages and documents: sections of paragraphs, tables and pictures, as HTML or Markdown.

A section module says with :func:`section` which function shows the facts of that name. A file of
HTML has a policy of its own; Markdown says the same; no name from data can be markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fairpc.auditing import _formats as text
from fairpc.auditing._drawing import Picture
from fairpc.core import AnyPath, OptionError, write_atomically

if TYPE_CHECKING:
    from fairpc.auditing._audit import Audit as Audit

WIDE: Final = 5
"""Columns from which a table becomes a list of cards on a phone."""
_LETTERS: Final = 44  # on a line of a phone
# What begins markup anywhere in a line. Signs of HTML become entities, which every dialect reads.
_SIGNS: Final = re.compile(r"([\\`*_\[\]|~$^#])")
_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_LINKS: Final = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)|(?<=\w)()(@)(?=\w)")
# What begins a list, a rule or a heading at the start of a line.
_START: Final = re.compile(r"^(\d+(?=[.)](?:\s|$)))?([+=.)-])")


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
    """One part of a chapter of the page, or of a document."""

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


def shown(audit: Audit, name: str) -> Section:
    """A section; where the audit has no facts for it, it says why."""
    title, show = SHOWN[name]
    facts = getattr(audit, name)
    blocks = (absent(audit, name),) if facts is None else tuple(show(audit, facts))
    return Section(name, title, blocks)


def printed(blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks as a document has them: of a picture its numbers, every table open."""
    for block in blocks:
        if isinstance(block, TableBlock):
            yield replace(block, folded=False)
        elif isinstance(block, Side):
            yield from printed(block.figures)
        elif isinstance(block, Figure):
            yield from printed([] if block.table is None else [block.table])
        elif not isinstance(block, KeyNumbers | Form):
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


def rendered(template: str, css: Sequence[str], scripts: Sequence[str], **facts: Any) -> str:
    """A template under a policy that allows these scripts and this style, and no request at all."""
    style, scripts = "".join(map(static, css)), [*map(static, scripts)]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_digest, scripts))}; "
        f"style-src {_digest(style)}; base-uri 'none'; form-action 'none'"
    )
    given = facts | {"css": style, "scripts": scripts, "policy": policy}
    return _environment().get_template(template).render(**given).lstrip() + "\n"


def embedded(data: Mapping[str, Any]) -> str:
    """JSON that can stand inside a script element: it holds no sign that HTML would read."""
    written = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        written = written.replace(sign, f"\\u{ord(sign):04x}")
    return written


def _digest(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def static(name: str) -> str:
    """A script or a style of a page."""
    return (files("fairpc.auditing") / "static" / name).read_text("utf-8")


def sentences(kind: str) -> tuple[str, ...]:
    """What is said of every model, or of all decisions, of a kind."""
    return tuple(_sentences()[kind])


@cache
def _sentences() -> dict[str, list[str]]:
    return tomllib.loads(static("caveats.toml"))


@cache
def _environment() -> Environment:
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


@dataclass(frozen=True)
class Document:
    """A document that somebody has to file."""

    kind: str  #: what such a document is called
    title: str
    subtitle: str
    disclaimer: str  #: what holds for every such document
    is_not: tuple[str, ...]  #: what it is not, a sentence each
    sections: tuple[Section, ...]
    version: str  #: of fairpc

    @property
    def blanks(self) -> tuple[Blank, ...]:
        """What is still to be filled in, each once, in order."""
        blocks: list[Any] = [block for section in self.sections for block in section.blocks]
        values = [b.pairs if isinstance(b, Entries) else [("", b)] for b in blocks]
        found = (value for pairs in values for _, value in pairs if isinstance(value, Blank))
        return tuple(dict.fromkeys(found))

    @property
    def unfilled(self) -> str:
        """How much is still to be filled in, in words; empty if nothing is."""
        n = len(self.blanks)
        if not n:
            return ""
        verb = "fact is" if n == 1 else "facts are"
        return f"{n} {verb} still to be filled in, each marked where it belongs."

    def to_html(self) -> str:
        """One HTML file that runs no script and asks for nothing."""
        return rendered("filing.html", ["page.css", "filing.css"], [], document=self)

    def to_markdown(self) -> str:
        """GitHub-flavoured Markdown; blocks are apart by an empty line."""
        box = [f"**{inline(self.disclaimer)}**", *map(escaped, self.is_not)]
        if self.unfilled:
            box.append(f"**{inline(self.unfilled)}**")
        parts = [
            f"# {inline(self.title)}",
            f"{escaped(self.kind)}. {escaped(self.subtitle)}",
            _quoted(box),
        ]
        for number, section in enumerate(self.sections, 1):
            parts.append(f"## {number}. {inline(section.title)}")
            for block in section.blocks:
                parts += _markdown(block)
        return "\n\n".join([*parts, f"---\n\nMade with fairpc {inline(self.version)}."]) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Sections and blocks as plain data."""
        sections = [
            {"title": s.title, "blocks": [{"kind": b.kind, **vars(b)} for b in s.blocks]}
            for s in self.sections
        ]
        return {
            "kind": self.kind,
            "title": self.title,
            "disclaimer": self.disclaimer,
            "is_not": list(self.is_not),
            "to_fill_in": [blank.key for blank in self.blanks],
            "sections": sections,
        }

    def save(self, path: AnyPath) -> None:
        """Write HTML or Markdown, by the suffix, whole or not at all."""
        markdown = is_markdown(path)
        write_atomically(path, (self.to_markdown() if markdown else self.to_html()).encode())


def is_markdown(path: AnyPath) -> bool:
    """Whether a file of this name is Markdown; an error where it is not HTML either."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".html", ".htm", ".md", ".markdown"):
        raise OptionError(f"{path}: give a name that ends in .html or .md")
    return suffix.startswith(".m")


def inline(value: Any) -> str:
    """A text in one line that Markdown shows as it is, where it does not begin a line."""
    line = " ".join(text.visible(text.breaks(str(value))).split())
    line = _SIGNS.sub(r"\\\1", line.translate(_ENTITIES))
    return _LINKS.sub(lambda m: m[0][:-1] + "\\" + m[0][-1], line)


def escaped(value: Any) -> str:
    """A text in one line that Markdown shows as it is, wherever it stands."""
    return _START.sub(r"\1\\\2", inline(value))


def _markdown(block: Any) -> Iterator[str]:
    match block.kind:
        case "Paragraph":
            yield escaped(block.text)
        case "Heading":
            yield f"### {inline(block.text)}"
        case "Points":
            yield "\n".join(f"- {escaped(item)}" for item in block.items)
        case "Notice":
            yield _quoted([f"**{inline(block.headline)}**", *map(escaped, block.paragraphs)])
        case "Blank":
            yield f"> **{inline(block)}**"
        case "Entries":
            yield from _grid(block.caption, ("Fact", "Value"), block.pairs, words={1})
        case "Table":
            yield from _grid(block.caption, block.head, block.rows, block.words)
            if block.note:
                yield escaped(block.note)
        case kind:
            raise TypeError(f"a document has no block of kind {kind}")


def _quoted(lines: Sequence[str]) -> str:
    return "\n>\n".join(f"> {line}" for line in lines)


def _grid(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[Any]], words: Any
) -> Iterator[str]:
    yield f"**{inline(caption)}**"
    rules = [":--" if not j or j in words else "--:" for j in range(len(head))]
    cells = [map(inline, head), rules, *(map(_markdown_cell, row) for row in rows)]
    yield "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _markdown_cell(value: Any) -> str:
    line = inline(value)
    return f"**{line}**" if isinstance(value, Block) else line
