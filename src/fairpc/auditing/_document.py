"""A document to file: sections of blocks, written as one HTML file or as Markdown.

The blocks are those of the report, and two more: what is still to be filled in, and named facts of
which some may be. HTML and Markdown are made of the same blocks, so they say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairpc.auditing import _markdown as markdown
from fairpc.auditing import _page as page
from fairpc.auditing import _text as text
from fairpc.auditing import _view as view
from fairpc.core import AnyPath, OptionError, write_atomically

if TYPE_CHECKING:
    from fairpc.auditing._audit import Audit

SUFFIXES: Final = (".html", ".htm", ".md", ".markdown")


@dataclass(frozen=True)
class Blank(view.Block):
    """What a tool cannot know, in place of an answer."""

    key: str  #: of the question
    asks: str  #: what is to be filled in
    by: str  #: by whom

    def __str__(self) -> str:
        return f"To be filled in by {self.by}: {self.asks} ({self.key})"


@dataclass(frozen=True)
class Entries(view.Block):
    """Named facts, some of which may still be blank."""

    caption: str
    pairs: Sequence[tuple[str, str | Blank]]


@dataclass(frozen=True)
class Document:
    """A paper that somebody has to file."""

    kind: str  #: what such a paper is called
    title: str
    subtitle: str
    disclaimer: str  #: what holds for every such paper
    is_not: tuple[str, ...]  #: what it is not, a sentence each
    sections: tuple[view.Section, ...]
    version: str  #: of fairpc

    @classmethod
    def of_audit(cls, audit: Audit, kind: str, title: str, subtitle: str, **made: Any) -> Document:
        """A paper with facts of an audit; ``made`` are its sections, and what it is not."""
        version = text.name(audit.provenance.versions.get("fairpc", ""))
        said = audit.verdict.disclaimer
        return cls(kind, text.short(title, 80), subtitle, said, version=version, **made)

    @property
    def blanks(self) -> tuple[Blank, ...]:
        """What is still to be filled in, each once, in order."""
        return tuple(dict.fromkeys(self._blanks()))

    def _blanks(self) -> Iterator[Blank]:
        for section in self.sections:
            for block in section.blocks:
                if isinstance(block, Blank):
                    yield block
                elif isinstance(block, Entries):
                    yield from (value for _, value in block.pairs if isinstance(value, Blank))

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
        css = page.static("page.css") + page.static("filing.css")
        template = page.environment().get_template("filing.html")
        policy = page.policy((), css)
        written: str = template.render(document=self, css=css, policy=policy)
        return written.lstrip() + "\n"

    def to_markdown(self) -> str:
        """GitHub-flavoured Markdown."""
        return markdown.written(self)

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
        write_atomically(path, writer(path)(self).encode())


def writer(path: AnyPath) -> Callable[[Document], str]:
    """What writes a file of this name; an error where its suffix is neither HTML nor Markdown."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise OptionError(f"{path}: give a name that ends in .html or .md")
    return _WRITERS[suffix.startswith(".m")]


_WRITERS: Final[Mapping[bool, Callable[[Document], str]]] = {
    False: Document.to_html,
    True: Document.to_markdown,
}


def section(key: str, title: str, *blocks: view.Block) -> view.Section:
    """A section of a document."""
    return view.Section(key, title, "", blocks)
