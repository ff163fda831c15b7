"""What a tool cannot know: facts that people state, in a TOML file, and the questions for them.

A document shows an answer as it was given. Where there is none it says who has to give it; it
never makes one up.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from textwrap import wrap
from typing import Any, Final

from fairpc.auditing._blocks import Blank, Block, Heading, Paragraph
from fairpc.auditing._rendering import static
from fairpc.core import AnyPath, FileFormatError, read_whole

MAX_BYTES: Final = 1 << 20
LISTS: Final = ("ll144.leave_out",)
TABLES: Final = ("notice.words",)


@cache
def questions() -> Mapping[str, Blank]:
    """Every question, by "table.name" in the file of the answers."""
    tables: dict[str, dict[str, tuple[str, str]]] = tomllib.loads(static("questions.toml"))
    return {
        f"{table}.{name}": Blank(f"{table}.{name}", asks, by)
        for table, asked in tables.items()
        for name, (asks, by) in asked.items()
    }


@dataclass(frozen=True)
class Answers:
    """Facts that people stated, by "table.name"."""

    texts: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: of columns, for a statement of reasons
    words: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Mapping[str, Any], where: str = "the answers") -> Answers:
        """The answers in tables of a TOML file; an error names what is none of the questions."""
        texts: dict[str, str] = {}
        lists: dict[str, tuple[str, ...]] = {}
        words: dict[str, str] = {}
        for key, value in _entries(data, where):
            if key in LISTS:
                if not isinstance(value, list) or not _all_text(value):
                    raise FileFormatError(f'{where}: {key} is no list, write {key} = ["…", "…"]')
                lists[key] = tuple(value)
            elif key in TABLES:
                if not isinstance(value, dict) or not _all_text(value.values()):
                    raise FileFormatError(f'{where}: {key} is no table, write column = "…" below')
                words = dict(value)
            elif isinstance(value, bool | list | dict):
                raise FileFormatError(f'{where}: {key} is no text, write {key} = "…"')
            elif said := str(value).strip():  # a date in TOML is a date, without quotes
                texts[key] = said
        return cls(texts, lists, words)

    def __getitem__(self, key: str) -> str | Blank:
        """An answer, or what is to be filled in."""
        return self.texts.get(key) or questions()[key]

    def blocks(self, *keys: str) -> Iterator[Block]:
        """Answers as paragraphs."""
        for answer in map(self.__getitem__, keys):
            if isinstance(answer, Blank):
                yield answer
            else:
                paragraphs = (" ".join(part.split()) for part in answer.split("\n\n"))
                yield from map(Paragraph, filter(None, paragraphs))

    def under(self, title: str, *keys: str) -> Iterator[Block]:
        """Answers below a heading."""
        yield Heading(title)
        yield from self.blocks(*keys)


def _all_text(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def read_answers(path: AnyPath) -> Answers:
    """The answers in a TOML file."""
    raw = read_whole(path, MAX_BYTES)
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{path} is not TOML in UTF-8 ({error}): see `fairpc file answers`"
        ) from None
    return Answers.of(data, str(path))


def form() -> str:
    """A TOML file in which every question can be answered."""
    lines = [
        "# Facts for the papers of `fairpc file` and `fairpc explain`, which the tool cannot know.",
        "# Fill in what you know and leave the rest: documents say what is still to be filled in.",
    ]
    table = ""
    for key, question in questions().items():
        first, name = key.split(".")
        if first != table:
            lines += ["", f"[{first}]"]
            table = first
        lines += [f"# {line}" for line in wrap(f"{question.asks} ({question.by})", 96)]
        empty = "[]" if key in LISTS else "{}" if key in TABLES else '""'
        lines.append(f"{name} = {empty}")
    return "\n".join(lines) + "\n"


def _entries(data: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    for table, content in data.items():
        if not isinstance(content, dict):
            raise FileFormatError(
                f"{where}: {table!r} stands outside a table, write it below [model], [use], …"
            )
        for name, value in content.items():
            key = f"{table}.{name}"
            if key not in questions():
                close = get_close_matches(key, questions(), n=1)
                repair = f"did you mean {close[0]}?" if close else "see `fairpc file answers`"
                raise FileFormatError(f"{where}: {key!r} is none of the questions: {repair}")
            yield key, value
