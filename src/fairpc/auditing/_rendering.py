"""Pages and documents as files: one HTML file with a policy of its own, or Markdown.

Both are made of the same blocks, so they say the same; no name from data can be markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from fairpc.auditing import _formats as text
from fairpc.auditing._blocks import Blank, Block, Entries, Form, Section
from fairpc.core import AnyPath, OptionError, write_atomically

# What begins markup anywhere in a line. Signs of HTML become entities, which every dialect reads.
_SIGNS: Final = re.compile(r"([\\`*_\[\]|~$^#])")
_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_LINKS: Final = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)|(?<=\w)()(@)(?=\w)")
# What begins a list, a rule or a heading at the start of a line.
_START: Final = re.compile(r"^(\d+(?=[.)](?:\s|$)))?([+=.)-])")


def page(title: str, subtitle: str, version: str, sections: Sequence[Section], closing: str) -> str:
    """A report as one HTML file that asks for nothing; equal facts, equal bytes."""
    forms = [b for section in sections for b in section.blocks if isinstance(b, Form)]
    scripts = [static("page.js")]
    if forms:
        scripts += [static("engine.js"), static("what_if.js")]
    return _rendered(
        "page.html",
        [static("page.css")],
        scripts,
        title=title,
        subtitle=subtitle,
        version=version,
        sections=sections,
        closing=closing,
        data=embedded(forms[0].data) if forms else None,
    )


def _rendered(template: str, css: Sequence[str], scripts: Sequence[str], **facts: Any) -> str:
    """A template under a policy that allows these scripts and this style, and no request at all."""
    style = "".join(css)
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
    """A paper that somebody has to file."""

    kind: str  #: what such a paper is called
    title: str
    subtitle: str
    disclaimer: str  #: what holds for every such paper
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
        css = [static("page.css"), static("filing.css")]
        return _rendered("filing.html", css, [], document=self)

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
    cells = [map(inline, head), rules, *(map(_cell, row) for row in rows)]
    yield "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _cell(value: Any) -> str:
    line = inline(value)
    return f"**{line}**" if isinstance(value, Block) else line
