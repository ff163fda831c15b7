"""Documents as GitHub-flavoured Markdown, in which no name from data can be markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from fairpc.auditing import _text as text
from fairpc.auditing import _view as view

if TYPE_CHECKING:
    from fairpc.auditing._document import Document

# What begins markup anywhere in a line. Signs of HTML become entities, which every dialect reads.
_SIGNS: Final = re.compile(r"([\\`*_\[\]|~$^#])")
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_LINKS: Final = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)|(?<=\w)()(@)(?=\w)")
# What begins a list, a rule or a heading at the start of a line.
_START: Final = re.compile(r"^(\d+(?=[.)](?:\s|$)))?([+=.)-])")


def inline(value: Any) -> str:
    """A text in one line that Markdown shows as it is, where it does not begin a line."""
    line = " ".join(text.visible(text.breaks(str(value))).split())
    for sign, entity in _ENTITIES.items():
        line = line.replace(sign, entity)
    line = _SIGNS.sub(r"\\\1", line)
    return _LINKS.sub(lambda m: m[0][:-1] + "\\" + m[0][-1], line)


def escaped(value: Any) -> str:
    """A text in one line that Markdown shows as it is, wherever it stands."""
    return _START.sub(r"\1\\\2", inline(value))


def written(document: Document) -> str:
    """All of a document; blocks are apart by an empty line."""
    parts = [
        f"# {inline(document.title)}",
        f"{escaped(document.kind)}. {escaped(document.subtitle)}",
    ]
    box = [f"**{inline(document.disclaimer)}**", *map(escaped, document.is_not)]
    if document.unfilled:
        box.append(f"**{inline(document.unfilled)}**")
    parts.append("\n>\n".join(f"> {line}" for line in box))
    for number, section in enumerate(document.sections, 1):
        parts.append(f"## {number}. {inline(section.title)}")
        for block in section.blocks:
            parts += _block(block)
    parts.append(f"---\n\nMade with fairpc {inline(document.version)}.")
    return "\n\n".join(parts) + "\n"


def _block(block: Any) -> Iterator[str]:
    kind = block.kind
    if kind == "Paragraph":
        yield escaped(block.text)
    elif kind == "Heading":
        yield f"### {inline(block.text)}"
    elif kind == "Points":
        yield "\n".join(f"- {escaped(item)}" for item in block.items)
    elif kind == "Notice":
        lines = [f"**{inline(block.headline)}**", *map(escaped, block.paragraphs)]
        yield "\n>\n".join(f"> {line}" for line in lines)
    elif kind == "Blank":
        yield f"> **{inline(block)}**"
    elif kind == "Entries":
        yield from _table(block.caption, ("Fact", "Value"), block.pairs, words={1})
    elif kind == "Table":
        yield from _table(block.caption, block.head, block.rows, block.words)
        if block.note:
            yield escaped(block.note)
    else:
        raise TypeError(f"a document has no block of kind {kind}")


def _table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[Any]], words: Any
) -> Iterator[str]:
    yield f"**{inline(caption)}**"
    rules = [":--" if not j or j in words else "--:" for j in range(len(head))]
    lines = [_row(map(inline, head)), _row(rules)]
    lines += [_row(map(_cell, row)) for row in rows]
    yield "\n".join(lines)


def _cell(value: Any) -> str:
    line = inline(value)
    return f"**{line}**" if isinstance(value, view.Block) else line


def _row(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"
