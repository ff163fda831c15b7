"""Answers to what a tool cannot know; a model card, and sections of the EU AI Act, from one audit.

Answers are facts that people state in a TOML file. A document shows an answer as it was given.
Where there is none it says who has to give it; it never makes one up. What each document is made of
is in ``static/documents.toml``.

The card has the sections of Mitchell et al., "Model Cards for Model Reporting" (FAT* 2019). The
points of Annex IV and Article 10(2) of Regulation (EU) 2024/1689 are named in our own words, after
its numbering. What an audit says stands below its point, in the blocks of the page; what it cannot
say is left blank, with who has to fill it in.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, partial
from textwrap import wrap
from typing import Any, Final

from fairpc.auditing import (
    _blocks as blocks,
    _formats as text,
    _parity as parity,
    _table_facts as tables,
)
from fairpc.auditing._agreement import show_metrics
from fairpc.auditing._appendix import show_limits
from fairpc.auditing._audit import Audit
from fairpc.auditing._blocks import Blank, Block, Document, Entries, Heading, Paragraph, Points
from fairpc.auditing._gaps import show_categories
from fairpc.core import AnyPath, FileFormatError, read_whole

MAX_BYTES: Final = 1 << 20
LISTS: Final = ("ll144.leave_out",)
TABLES: Final = ("notice.words",)

_UNKNOWN: Final = "not known"
_VENDOR: Final = (
    "Decisions were audited, of a tool that fairpc did not make: how it was learned is not known "
    "here."
)
_METHOD: Final = (
    "Method: Choi, Dang and Van den Broeck, Group Fairness by Probabilistic Modeling with Latent "
    "Fair Decisions, AAAI 2021."
)
Pairs = list[tuple[str, str | Blank]]
Said = Callable[[], Iterable[Block]]


@cache
def questions() -> Mapping[str, Blank]:
    """Every question, by "table.name" in the file of the answers."""
    tables: dict[str, dict[str, tuple[str, str]]] = tomllib.loads(blocks.static("questions.toml"))
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
                    raise FileFormatError(f'{where}: {key} is not a list, write {key} = ["…", "…"]')
                lists[key] = tuple(value)
            elif key in TABLES:
                if not isinstance(value, dict) or not _all_text(value.values()):
                    raise FileFormatError(
                        f'{where}: {key} is not a table, write column = "…" below'
                    )
                words = dict(value)
            elif isinstance(value, bool | list | dict):
                raise FileFormatError(f'{where}: {key} is not text, write {key} = "…"')
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


def _all_text(values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def read_answers(path: AnyPath) -> Answers:
    """The answers in a TOML file."""
    raw = read_whole(path, MAX_BYTES)
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            f"{path} is not TOML in UTF-8 ({error}): see `fairpc document answers`"
        ) from None
    return Answers.of(data, str(path))


def form() -> str:
    """A TOML file in which every question can be answered."""
    lines = [
        "# Facts for `fairpc document` and `fairpc explain`, which the tool cannot know.",
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
                repair = f"did you mean {close[0]}?" if close else "see `fairpc document answers`"
                raise FileFormatError(f"{where}: {key!r} is none of the questions: {repair}")
            yield key, value


@cache
def _outlines() -> Mapping[str, Any]:
    return tomllib.loads(blocks.static("documents.toml"))


@dataclass(frozen=True)
class Outline:
    """What fills in the outline of a document."""

    known: Answers
    values: Mapping[str, str]  #: words in braces
    said: Mapping[str, Said]  #: what the audit says, in blocks
    pairs: Mapping[str, Pairs]  #: and in named facts

    def document(self, name: str, title: str, subtitle: str, **made: str) -> Document:
        """The document of this name."""
        found = _outlines()[name]
        sections = tuple(
            blocks.Section(
                section["key"],
                self._words(title),
                tuple(blocks.printed(b for part in section["parts"] for b in self._part(part))),
            )
            for title, section in found["sections"].items()
        )
        is_not = tuple(found["is_not"])
        return Document(found["kind"], title, subtitle, is_not=is_not, sections=sections, **made)

    def _words(self, line: str) -> str:
        return line.format_map(self.values)

    def _part(self, part: str | list[str]) -> Iterable[Block]:
        if isinstance(part, list):
            first, *lines = part
            if first == "*":
                return [Points(lines)]
            return [Entries(first, [pair for line in lines for pair in self._pairs(line)])]
        sign, _, rest = part.partition(" ")
        if sign == "##":
            return [Heading(self._words(rest))]
        if sign == "?":
            return self.known.blocks(rest)
        return self.said[rest]() if sign == "=" else [Paragraph(self._words(part))]

    def _pairs(self, line: str) -> Pairs:
        if line.startswith("= "):
            return self.pairs[line[2:]]
        name, _, value = line.partition(" | ")
        return [(name, self.known[value[2:]] if value[0] == "?" else self._words(value))]


def document(
    name: str,
    audit: Audit,
    known: Answers,
    title: str,
    subtitle: str,
    said: Mapping[str, Said] | None = None,
) -> Document:
    """A document with facts of an audit; ``said`` are those that it alone has."""
    facts: dict[str, Said] = {part: partial(show, audit) for part, show in _SHOWN.items()}
    facts["training"] = partial(_training, audit, known)
    pairs = {"algorithm": _algorithm(audit)}
    outline = Outline(known, _values(audit), {**facts, **(said or {})}, pairs)
    version = text.name(audit.provenance.versions.get("fairpc", ""))
    title = text.short(known.texts.get("model.name") or title, 80)
    disclaimer = audit.verdict.disclaimer
    return outline.document(name, title, subtitle, disclaimer=disclaimer, version=version)


def model_card(audit: Audit, answers: Answers | None = None) -> Document:
    """The card of an audited model."""
    data, made = audit.data, audit.provenance
    title = f"{made.model}: {data.label} by {text.listed(data.sensitive)}"
    subtitle = f"{text.counted(data.n_rows, 'row')} audited {text.name(made.date[:10])}"
    return document("model_card", audit, answers or Answers(), title, subtitle)


def technical_documentation(audit: Audit, answers: Answers | None = None) -> Document:
    """Sections of Annex IV and Article 10 for an audited model."""
    data, date = audit.data, text.name(audit.provenance.date[:10])
    title = f"{data.label} by {text.listed(data.sensitive)}"
    rows = text.counted(data.n_rows, "row")
    subtitle = f"Sections with facts of an audit of {rows}, {date}"
    return document("technical_documentation", audit, answers or Answers(), title, subtitle)


def _values(audit: Audit) -> dict[str, str]:
    """Facts of an audit in a few words each."""
    data, made, fitted = audit.data, audit.provenance, audit.data.fitted
    several, sensitive = len(data.sensitive) > 1, text.listed(data.sensitive)
    level = made.audit_settings.get("level")
    inputs = "What the tool computes, and from what, is not known here."
    if fitted:
        inputs = (
            f"The model gives P({text.short(data.positive, 40)}) for a person from the features "
            f"and {sensitive}."
        )
    crossed = ", crossed" if several else ""
    training_rows = text.count(sum(g.training_rows or 0 for g in data.groups))
    return {
        "audited_hash": text.name(made.audited_hash),
        "date": text.name(made.date[:10]),
        "decides": "fairpc's model decides" if fitted else "the tool decides",
        "given": f"{'The model is' if fitted else 'It is not known whether the tool is'} given",
        "groups": f"{text.counted(len(data.groups), 'group')} by {sensitive}{crossed}",
        "inputs": inputs,
        "intersectional": ": intersectional results" if several else "",
        "level": text.share(level, 0) if isinstance(level, float) else "not said",
        "missing_words": data.missing_words,
        "n_rows": text.count(data.n_rows),
        "n_unknown": text.count(data.n_rows - data.n_grouped),
        "positive": text.short(data.positive),
        "quoted_positive": text.quoted(data.positive),
        "sensitive": sensitive,
        "software": _software(audit),
        "thresholds": _thresholds(audit),
        "training_hash": text.name(made.training_hash) if fitted else _UNKNOWN,
        "training_rows": training_rows if fitted else _UNKNOWN,
    }


def _learning(audit: Audit) -> Block:
    """How the model was learned, as far as it is known."""
    if not audit.data.fitted:
        return Paragraph(_VENDOR)
    if audit.learning is None:
        return blocks.absent(audit, "learning")
    return Points(audit.learning.sentences)


def _training(audit: Audit, known: Answers) -> Iterable[Block]:
    if audit.data.same_rows_as_fit:
        return [Paragraph("The training rows are the audited rows.")]
    return known.blocks("data.training")


def _disclosure(audit: Audit) -> Iterator[Block]:
    found = audit.disclosure
    if found is None:
        yield Paragraph("Decisions were audited: there is no model file of fairpc.")
        return
    yield Points(found.sentences)
    rows = [(c.column, f"{c.role}, {c.kind}", ", ".join(c.values)) for c in found.columns]
    head = ("Column", "What it is", "Values that the file names")
    yield blocks.TableBlock("Values in the model file", head, rows, words={1, 2}, folded=True)


def _assumptions(audit: Audit) -> Iterator[Block]:
    if audit.limits.assumptions:
        yield Points(audit.limits.assumptions)
    tested = f"Not tested on these rows: {audit.decidable.untested}."
    if audit.decidable.test is not None:
        tested = f"Test of these assumptions on the audited rows. {audit.decidable.test.summary}"
    yield Paragraph(tested)


def _identified(audit: Audit) -> Iterator[Block]:
    found = audit.decidable.identified
    if found is not None and not found.empty:
        yield Heading("The identified set")
        yield Paragraph(found.sentence)


def _mechanism(audit: Audit) -> Iterator[Block]:
    if audit.mechanism is not None and not audit.verdict.withdrawn:
        yield Paragraph(audit.mechanism.sentence)


def _findings(audit: Audit) -> Iterator[Block]:
    """What the audit found, in the words of its verdict; a rejection stands out."""
    found = audit.verdict
    yield blocks.Notice(found.headline, alert=found.withdrawn)
    yield Points([*found.found, *found.sure])


def _decisions(audit: Audit) -> Iterator[Block]:
    """Selection rates of the groups, then by each attribute and each two of more crossed."""
    if audit.parity is None:
        yield blocks.absent(audit, "parity")
        return
    yield from parity.show_decisions(audit, audit.parity)
    fewer = len(audit.data.sensitive) - 1
    if fewer:
        yield Heading("Decisions: unitary results")
        yield from show_categories(audit.parity.categories, fewer)


def _agreement(audit: Audit) -> Iterator[Block]:
    found = audit.group_metrics
    if found is None:
        yield blocks.absent(audit, "group_metrics")
    else:
        yield Paragraph(found.caption)
        yield show_metrics(found)


def _software(audit: Audit) -> str:
    versions = audit.provenance.versions
    return ", ".join(f"{text.name(k)} {text.name(v)}" for k, v in versions.items())


def _algorithm(audit: Audit) -> Pairs:
    """What the model is, by name and value."""
    made, circuit = audit.provenance, audit.circuit
    if not audit.data.fitted:
        unknown = [("Model class", _UNKNOWN), ("Model hash", _UNKNOWN)]
        return [*unknown, ("Software of the audit", _software(audit))]
    pairs = [("Model class", text.name(made.model)), ("Model hash", text.name(made.model_hash))]
    if circuit is not None:
        size = f"{text.count(circuit.n_nodes)} nodes, {text.count(circuit.n_parameters)} parameters"
        pairs.append(("Circuit", size))
    return [*pairs, ("Software", _software(audit))]


def _thresholds(audit: Audit) -> str:
    """What makes a score a decision, in words."""
    found = () if audit.parity is None else audit.parity.thresholds
    if not found:
        return "the most probable class" if audit.data.fitted else _UNKNOWN
    if len(found) == 1:
        return f"a score above {text.share(found[0])}"
    pairs = zip(audit.data.groups, found, strict=False)
    return "a score above " + ", ".join(
        f"{text.share(t)} for {text.short(g.name, 40)}" for g, t in pairs
    )


_SHOWN: Final[Mapping[str, Callable[[Audit], Iterable[Block]]]] = {
    "agreement": _agreement,
    "assumptions": _assumptions,
    "columns": lambda audit: [tables.show_columns(audit.data)],
    "decisions": _decisions,
    "disclosure": _disclosure,
    "findings": _findings,
    "guaranteed": lambda audit: [Points(audit.limits.guaranteed or ("The model takes none.",))],
    "identified": _identified,
    "labels": lambda audit: blocks.shown(audit, "labels").blocks,
    "learning": lambda audit: [_learning(audit)],
    "limits": lambda audit: show_limits(audit, audit.limits),
    "mechanism": _mechanism,
    "method": lambda audit: [Paragraph(_METHOD)] if audit.data.fitted else [],
    "missing": lambda audit: [tables.show_missing(audit.data)],
    "rows": lambda audit: tables.show_rows(audit.data),
}
"""What the audit says, by its name in an outline."""
