"""What a tool cannot know: facts that people state, in a TOML file, and the questions for them.

A document shows an answer as it was given. Where there is none it says who has to give it; it
never makes one up.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from textwrap import wrap
from typing import Any, Final

from fairpc.auditing import _view as view
from fairpc.auditing._document import Blank
from fairpc.core import AnyPath, FileFormatError, read_whole

MAX_BYTES: Final = 1 << 20

_OWNER: Final = "the owner of the model"
_DATA: Final = "whoever holds the data"
_AUDITOR: Final = "the auditor"
_PROVIDER: Final = "the provider"
_CREDITOR: Final = "the creditor"


@dataclass(frozen=True)
class Question:
    """A fact that people have to state."""

    key: str  #: "table.name" in the file
    asks: str  #: what is asked, as a noun or a clause
    by: str  #: who has to say it


QUESTIONS: Final = tuple(
    Question(*each)
    for each in (
        ("model.name", "the name of the model or of the tool", _OWNER),
        ("model.version", "its version, and how it relates to earlier ones", _OWNER),
        ("model.owner", "the person or organisation that answers for it", _OWNER),
        ("model.contact", "where to send questions and comments", _OWNER),
        ("model.trained", "when it was trained", _OWNER),
        ("model.license", "the licence, or who may use it", _OWNER),
        ("use.intended", "what it is for, and which decisions it takes part in", _OWNER),
        ("use.users", "who is meant to use it", _OWNER),
        ("use.out_of_scope", "uses that it is not meant for", _OWNER),
        ("use.factors", "groups, settings and conditions under which it may do worse", _OWNER),
        ("use.oversight", "who looks at its decisions, and what they can change", _OWNER),
        ("use.ethics", "risks and harms that were considered, and what was done", _OWNER),
        ("use.recommendations", "what users are advised to do, and further tests", _OWNER),
        ("data.source", "where the audited rows come from", _DATA),
        ("data.period", "from when to when they were collected", _DATA),
        ("data.collection", "how they were collected, and for what purpose originally", _DATA),
        ("data.labels", "who gave the labels, and by what rule", _DATA),
        ("data.cleaning", "what was left out, corrected, merged or filled in before", _DATA),
        ("data.training", "how the training rows were obtained, if they are others", _DATA),
        ("data.population", "whom and what setting the rows stand for, and whom they miss", _DATA),
        ("data.sensitive_basis", "on what legal basis sensitive attributes are used", _DATA),
        ("ll144.auditor", "the independent auditor", _AUDITOR),
        ("ll144.distribution_date", "when use of the tool began", "the employer or agency"),
        (
            "ll144.data_kind",
            "whether the rows are historical data of the tool or test data, and if test data, why",
            _AUDITOR,
        ),
        ("ll144.sex", "which sensitive column is sex", _AUDITOR),
        ("ll144.race", "which sensitive column is race or ethnicity", _AUDITOR),
        (
            "ll144.leave_out",
            'categories under 2% of the rows that get no impact ratio, such as "sex=F, race=B"',
            _AUDITOR,
        ),
        ("ll144.justification", "why they are left out", _AUDITOR),
        ("eu.interaction", "how the system interacts with other hardware and software", _PROVIDER),
        (
            "eu.forms",
            "the forms in which it is placed on the market or put into service",
            _PROVIDER,
        ),
        ("eu.hardware", "the hardware it is intended to run on", _PROVIDER),
        ("eu.product", "photographs or drawings, if it is part of a product", _PROVIDER),
        ("eu.interface", "the user interface of the deployer", _PROVIDER),
        ("eu.instructions", "the instructions for use for the deployer", _PROVIDER),
        (
            "eu.third_party",
            "pre-trained systems or tools of third parties, and their use",
            _PROVIDER,
        ),
        ("eu.architecture", "how software components build on each other", _PROVIDER),
        ("eu.resources", "the computational resources used to develop, train and test", _PROVIDER),
        ("eu.changes_planned", "pre-determined changes to the system", _PROVIDER),
        ("eu.cybersecurity", "the cybersecurity measures", _PROVIDER),
        ("eu.unintended", "foreseeable unintended outcomes and sources of risk", _PROVIDER),
        ("eu.metrics", "why these metrics are appropriate for this system", _PROVIDER),
        ("eu.risk_management", "the risk management system, Article 9", _PROVIDER),
        ("eu.changes", "relevant changes through the lifecycle", _PROVIDER),
        ("eu.standards", "harmonised standards applied, or other solutions", _PROVIDER),
        ("eu.declaration", "a copy of the EU declaration of conformity, Article 47", _PROVIDER),
        ("eu.post_market", "the post-market monitoring system and plan, Article 72", _PROVIDER),
        ("eu.measures", "measures against biases that were found, beside the model", _PROVIDER),
        ("eu.gaps", "data gaps and shortcomings, and how they are addressed", _PROVIDER),
        ("eu.suitability", "whether the data needed are available, enough and suitable", _PROVIDER),
        ("notice.creditor", "name and address of the creditor", _CREDITOR),
        ("notice.applicant", "the applicant, or a reference to the application", _CREDITOR),
        ("notice.action", "the action taken, and its date", _CREDITOR),
        ("notice.agency", "the federal agency that supervises the creditor", _CREDITOR),
        (
            "notice.words",
            'a table of plain words for columns, such as duration = "Length of the loan"',
            _CREDITOR,
        ),
    )
)
_BY_KEY: Final = {question.key: question for question in QUESTIONS}
LISTS: Final = ("ll144.leave_out",)
TABLES: Final = ("notice.words",)


@dataclass(frozen=True)
class Answers:
    """Facts that people stated, by "table.name"."""

    texts: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    words: Mapping[str, str] = field(
        default_factory=dict
    )  #: of columns, for a statement of reasons

    @classmethod
    def of(cls, data: Mapping[str, Any], where: str = "the answers") -> Answers:
        """The answers in tables of a TOML file; an error names what is none of the questions."""
        texts: dict[str, str] = {}
        lists: dict[str, tuple[str, ...]] = {}
        words: dict[str, str] = {}
        for key, value in _entries(data, where):
            if key in LISTS:
                lists[key] = _list(key, value, where)
            elif key in TABLES:
                words = _table(key, value, where)
            elif not isinstance(value, str):
                # A date in TOML is a date; people may write one without quotes.
                if isinstance(value, bool | list | dict):
                    raise FileFormatError(f'{where}: {key} is no text, write {key} = "…"')
                texts[key] = str(value)
            elif value.strip():
                texts[key] = value.strip()
        return cls(texts, lists, words)

    def __getitem__(self, key: str) -> str | Blank:
        """An answer, or what is to be filled in."""
        question = _BY_KEY[key]
        return self.texts.get(key) or Blank(key, question.asks, question.by)

    def blocks(self, key: str) -> Iterator[view.Block]:
        """An answer as paragraphs."""
        answer = self[key]
        if isinstance(answer, Blank):
            yield answer
        else:
            paragraphs = (" ".join(part.split()) for part in answer.split("\n\n"))
            yield from map(view.Paragraph, filter(None, paragraphs))


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
    for question in QUESTIONS:
        first, name = question.key.split(".")
        if first != table:
            lines += ["", f"[{first}]"]
            table = first
        lines += [f"# {line}" for line in wrap(f"{question.asks} ({question.by})", 96)]
        empty = "[]" if question.key in LISTS else "{}" if question.key in TABLES else '""'
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
            if key not in _BY_KEY:
                close = get_close_matches(key, _BY_KEY, n=1)
                repair = f"did you mean {close[0]}?" if close else "see `fairpc file answers`"
                raise FileFormatError(f"{where}: {key!r} is none of the questions: {repair}")
            yield key, value


def _list(key: str, value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise FileFormatError(f'{where}: {key} is no list of names, write {key} = ["…", "…"]')
    return tuple(value)


def _table(key: str, value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise FileFormatError(f'{where}: {key} is no table of words, write column = "…" below it')
    return dict(value)
