"""Answers to what a tool cannot know; a model card, and sections of the EU AI Act, from one audit.

Answers are facts that people state in a TOML file. A document shows an answer as it was given.
Where there is none it says who has to give it; it never makes one up.

The card has the sections of Mitchell et al., "Model Cards for Model Reporting" (FAT* 2019). The
points of Annex IV and Article 10(2) of Regulation (EU) 2024/1689 are named in our own words, after
its numbering. What an audit says stands below its point, in the blocks of the page; what it cannot
say is left blank, with who has to fill it in.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from textwrap import wrap
from typing import Any, Final

from fairpc.auditing import _formats as text
from fairpc.auditing import _parity as parity
from fairpc.auditing import _table_facts as tables
from fairpc.auditing._agreement import show_metrics
from fairpc.auditing._appendix import show_limits
from fairpc.auditing._audit import Audit
from fairpc.auditing._blocks import (
    Blank,
    Block,
    Document,
    Entries,
    Heading,
    Notice,
    Paragraph,
    Points,
    Section,
    TableBlock,
    absent,
    printed,
    shown,
    static,
)
from fairpc.auditing._gaps import show_categories
from fairpc.core import AnyPath, FileFormatError, read_whole

MAX_BYTES: Final = 1 << 20
LISTS: Final = ("ll144.leave_out",)
TABLES: Final = ("notice.words",)

_CARD_IS_NOT: Final = (
    "It does not say that the model is fit for a use: whoever uses it decides that, and answers "
    "for it.",
    "It does not say that decisions are just. It says which numbers are equal between groups, "
    "under which assumptions, and how far apart they may be on rows.",
    "Its numbers are of the audited rows. Other people, places or times may differ.",
)
_ACT_IS_NOT: Final = (
    "It is not the technical documentation of a high-risk system, but sections of it for which an "
    "audit has facts. The provider completes them and answers for them (Article 11).",
    "It is not a conformity assessment or a declaration of conformity, and does not say whether "
    "a system is high-risk.",
    "It is not legal advice. Points are named after Annex IV and Article 10 of Regulation (EU) "
    "2024/1689 in our own words; check the text in force.",
)


_UNKNOWN: Final = "not known"
_VENDOR: Final = (
    "Decisions were audited, of a tool that fairpc did not make: how it was learned is not known "
    "here."
)


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


def document(audit: Audit, kind: str, title: str, subtitle: str, **made: Any) -> Document:
    """A document with facts of an audit; ``made`` are its sections, and what it is not."""
    version = text.name(audit.provenance.versions.get("fairpc", ""))
    said = audit.verdict.disclaimer
    return Document(kind, text.short(title, 80), subtitle, said, version=version, **made)


def section(key: str, title: str, blocks: Iterable[Block]) -> Section:
    """A section of a document."""
    return Section(key, title, tuple(printed(blocks)))


def model_card(audit: Audit, answers: Answers | None = None) -> Document:
    """The card of an audited model."""
    known = Answers() if answers is None else answers
    data, made = audit.data, audit.provenance
    name = f"{made.model}: {data.label} by {text.listed(data.sensitive)}"
    return document(
        audit,
        kind="Model card",
        title=known.texts.get("model.name") or name,
        subtitle=f"{text.counted(data.n_rows, 'row')} audited {text.name(made.date[:10])}",
        is_not=_CARD_IS_NOT,
        sections=(
            section("details", "Model details", _details(audit, known)),
            section("use", "Intended use", _use(known)),
            section("factors", "Factors", _factors(audit, known)),
            section("metrics", "Metrics", _metrics(audit)),
            section("evaluation", "Evaluation data", _evaluation(audit, known)),
            section("training", "Training data", _training(audit, known)),
            section("disclosure", "What the model file discloses", _disclosure(audit)),
            section("results", "Quantitative analyses", _results(audit)),
            section("ethics", "Ethical considerations", _ethics(audit, known)),
            section("caveats", "Caveats and recommendations", _caveats(audit, known)),
        ),
    )


def _details(audit: Audit, known: Answers) -> Iterator[Block]:
    asked = {
        name: known[f"model.{name}"] for name in ("name", "version", "owner", "contact", "trained")
    }
    pairs = [(name.capitalize(), answer) for name, answer in asked.items()]
    yield Entries("The model", [*pairs, ("Licence", known["model.license"]), *_algorithm(audit)])
    if not audit.data.fitted:
        yield Paragraph(_VENDOR)
        return
    yield Paragraph(
        "Method: Choi, Dang and Van den Broeck, Group Fairness by Probabilistic Modeling with "
        "Latent Fair Decisions, AAAI 2021."
    )
    yield absent(audit, "learning") if audit.learning is None else Points(audit.learning.sentences)


def _use(known: Answers) -> Iterator[Block]:
    yield from known.under("Primary intended uses", "use.intended")
    yield from known.under("Primary intended users", "use.users")
    yield from known.under("Out-of-scope uses", "use.out_of_scope")


def _factors(audit: Audit, known: Answers) -> Iterator[Block]:
    yield from known.under("Relevant factors", "use.factors")
    yield Heading("Evaluation factors")
    groups = text.counted(len(audit.data.groups), "group")
    crossed = ", crossed" if len(audit.data.sensitive) > 1 else ""
    yield Paragraph(f"{groups} by {text.listed(audit.data.sensitive)}{crossed}.")


def _metrics(audit: Audit) -> Iterator[Block]:
    yield Points(
        [
            "Selection rates and mean scores by group, their differences and ratios.",
            "Agreement with the recorded label by group, which may itself be biased.",
            "A test of the assumptions behind a fair decision, and what the labels leave open.",
        ]
    )
    level = audit.provenance.audit_settings.get("level")
    level_text = text.share(level, 0) if isinstance(level, float) else "not said"
    yield Entries(
        "How decisions are made",
        [
            ("Favourable class", text.short(audit.data.positive)),
            ("Decided so", thresholds(audit)),
            ("Level of intervals", level_text),
        ],
    )


def _evaluation(audit: Audit, known: Answers) -> Iterator[Block]:
    yield Entries(
        "Source of the audited rows",
        [
            ("Source", known["data.source"]),
            ("Period", known["data.period"]),
            ("Collection", known["data.collection"]),
            ("Preprocessing", known["data.cleaning"]),
        ],
    )
    yield from tables.show_rows(audit.data)
    yield tables.show_missing(audit.data)


def _training(audit: Audit, known: Answers) -> Iterator[Block]:
    if audit.data.same_rows_as_fit:
        yield Paragraph("The training rows are the audited rows.")
    else:
        yield from known.blocks("data.training")
    n = text.count(sum(g.training_rows or 0 for g in audit.data.groups))
    yield Entries(
        "Training rows",
        [
            ("Labels", known["data.labels"]),
            ("Rows in groups", n if audit.data.fitted else _UNKNOWN),
            ("Hash of the rows", _training_hash(audit)),
        ],
    )
    yield tables.show_columns(audit.data)


def _results(audit: Audit) -> Iterator[Block]:
    yield from _findings(audit)
    yield Heading("Recorded labels")
    yield from shown(audit, "labels").blocks
    several = len(audit.data.sensitive) > 1
    yield Heading("Decisions" + (": intersectional results" if several else ""))
    yield from _decisions(audit)
    yield Heading("Agreement with the recorded label")
    yield from _agreement(audit)


def _disclosure(audit: Audit) -> Iterator[Block]:
    found = audit.disclosure
    if found is None:
        yield Paragraph("Decisions were audited: there is no model file of fairpc.")
        return
    yield Points(found.sentences)
    rows = [(c.column, f"{c.role}, {c.kind}", ", ".join(c.values)) for c in found.columns]
    head = ("Column", "What it is", "Values that the file names")
    yield TableBlock("Values in the model file", head, rows, words={1, 2}, folded=True)


def _ethics(audit: Audit, known: Answers) -> Iterator[Block]:
    given = (
        "The model is given" if audit.data.fitted else "It is not known whether the tool is given"
    )
    yield Paragraph(
        f"{given} the sensitive attribute, {text.listed(audit.data.sensitive)}. "
        "Some laws forbid that in some decisions."
    )
    yield from known.blocks("data.sensitive_basis", "use.ethics")


def _caveats(audit: Audit, known: Answers) -> Iterator[Block]:
    yield from show_limits(audit, audit.limits)
    yield from known.under("Recommendations", "use.recommendations")


def technical_documentation(audit: Audit, answers: Answers | None = None) -> Document:
    """Sections of Annex IV and Article 10 for an audited model."""
    known = Answers() if answers is None else answers
    data, made = audit.data, audit.provenance
    later = (
        ("metrics", "point 4: appropriateness of the metrics", "eu.metrics"),
        ("risk", "point 5: risk management system", "eu.risk_management"),
        ("changes", "point 6: changes through the lifecycle", "eu.changes"),
        ("standards", "point 7: standards applied", "eu.standards"),
        ("declaration", "point 8: EU declaration of conformity", "eu.declaration"),
        ("post-market", "point 9: post-market monitoring", "eu.post_market"),
    )
    return document(
        audit,
        kind="EU AI Act: Annex IV and Article 10",
        title=known.texts.get("model.name") or f"{data.label} by {text.listed(data.sensitive)}",
        subtitle=f"Sections with facts of an audit of {text.counted(data.n_rows, 'row')}, "
        f"{text.name(made.date[:10])}",
        is_not=_ACT_IS_NOT,
        sections=(
            section("general", "Annex IV, point 1: general description", _general(audit, known)),
            section("elements", "Annex IV, point 2: elements and development", _made(audit, known)),
            section("data", "Article 10: data and data governance", _governance(audit, known)),
            section("control", "Annex IV, point 3: functioning and limits", _limits(audit, known)),
            *(section(key, f"Annex IV, {title}", known.blocks(asks)) for key, title, asks in later),
        ),
    )


def _general(audit: Audit, known: Answers) -> Iterator[Block]:
    yield Entries(
        "General description",
        [
            ("(a) Intended purpose", known["use.intended"]),
            ("(a) Provider", known["model.owner"]),
            ("(a) Version", known["model.version"]),
            ("(b) Interaction with other hardware and software", known["eu.interaction"]),
            ("(c) Software versions of the audit", _software(audit)),
            ("(d) Forms in which it is supplied", known["eu.forms"]),
            ("(e) Hardware", known["eu.hardware"]),
            ("(f) Pictures of the product it is part of", known["eu.product"]),
            ("(g) User interface of the deployer", known["eu.interface"]),
            ("(h) Instructions for use", known["eu.instructions"]),
        ],
    )


def _made(audit: Audit, known: Answers) -> Iterator[Block]:
    yield Heading("(a) Methods and steps of development")
    if not audit.data.fitted:
        yield Paragraph(_VENDOR)
    elif audit.learning is None:
        yield absent(audit, "learning")
    else:
        yield Points(audit.learning.sentences)
    yield from known.blocks("eu.third_party")
    yield Heading("(b) General logic, design choices and assumptions")
    yield Entries("The model", _algorithm(audit))
    inputs = "What the tool computes, and from what, is not known here."
    if audit.data.fitted:
        inputs = (
            f"The model gives P({text.short(audit.data.positive, 40)}) for a person from the "
            f"features and {text.listed(audit.data.sensitive)}."
        )
    yield Paragraph(f"{inputs} Decided so: {thresholds(audit)}.")
    yield from show_limits(audit, audit.limits)
    resources = "(c) Architecture and computational resources"
    yield from known.under(resources, "eu.architecture", "eu.resources")
    yield Heading("(d) Data requirements")
    yield Paragraph("See Article 10 below.")
    yield from known.under("(e) Human oversight", "use.oversight")
    yield from known.under("(f) Pre-determined changes", "eu.changes_planned")
    yield Heading("(g) Validation and testing")
    yield from _findings(audit)
    yield from _agreement(audit)
    yield from known.under("(h) Cybersecurity", "eu.cybersecurity")


def _governance(audit: Audit, known: Answers) -> Iterator[Block]:
    made, data, limits = audit.provenance, audit.data, audit.limits
    yield Heading("Article 10(2)(a): design choices")
    yield tables.show_columns(data)
    yield Heading("Article 10(2)(b): collection and origin of the data")
    yield Entries(
        "Data sets",
        [
            ("Source", known["data.source"]),
            ("Period", known["data.period"]),
            ("Collection, and original purpose", known["data.collection"]),
            ("Hash of the training rows", _training_hash(audit)),
            ("Hash of the audited rows", text.name(made.audited_hash)),
        ],
    )
    yield Heading("Article 10(2)(c): preparation of the data")
    prepared = [("Labelling", known["data.labels"]), ("Cleaning", known["data.cleaning"])]
    yield Entries("Preparation", prepared)
    yield Heading("Article 10(2)(d): assumptions about what the data measure")
    if limits.assumptions:
        yield Points(limits.assumptions)
    tested = f"Not tested on these rows: {audit.decidable.untested}."
    if audit.decidable.test is not None:
        tested = f"Test of these assumptions on the audited rows. {audit.decidable.test.summary}"
    yield Paragraph(tested)
    yield Heading("Article 10(2)(e): availability, quantity and suitability")
    yield from tables.show_rows(data)
    yield from known.blocks("eu.suitability")
    yield Heading("Article 10(2)(f): examination for possible biases")
    yield from shown(audit, "labels").blocks
    yield from _decisions(audit)
    if audit.mechanism is not None and not audit.verdict.withdrawn:
        yield Paragraph(audit.mechanism.sentence)
    yield Heading("Article 10(2)(g): measures against biases")
    yield Points(limits.guaranteed or ("The model takes none.",))
    yield from known.blocks("eu.measures")
    yield Heading("Article 10(2)(h): gaps and shortcomings")
    yield tables.show_missing(data)
    yield from known.blocks("eu.gaps")
    whom = "Article 10(3) and (4): representativeness and setting"
    yield from known.under(whom, "data.population")
    yield Heading("Article 10(5): special categories of personal data")
    yield Paragraph(
        f"Sensitive attributes in the data: {text.listed(data.sensitive)}. Whether these are "
        "special categories, and on what basis they are processed, is for the provider to say."
    )
    yield from known.blocks("data.sensitive_basis")


def _limits(audit: Audit, known: Answers) -> Iterator[Block]:
    yield Heading("Performance for persons and groups")
    yield Paragraph("See point 2(g) above: agreement with the recorded label by group.")
    found = audit.decidable.identified
    if found is not None and not found.empty:
        yield Heading("The identified set")
        yield Paragraph(found.sentence)
    yield from known.under("Foreseeable unintended outcomes", "eu.unintended")
    yield Heading("Input data")
    yield Paragraph(audit.data.missing_words)


def _findings(audit: Audit) -> Iterator[Block]:
    """What the audit found, in the words of its verdict; a rejection stands out."""
    found = audit.verdict
    yield Notice(found.headline, alert=found.withdrawn)
    yield Points([*found.found, *found.sure])


def _decisions(audit: Audit) -> Iterator[Block]:
    """Selection rates of the groups, then by each attribute and each two of more crossed."""
    if audit.parity is None:
        yield absent(audit, "parity")
        return
    yield from parity.show_decisions(audit, audit.parity)
    fewer = len(audit.data.sensitive) - 1
    if fewer:
        yield Heading("Decisions: unitary results")
        yield from show_categories(audit.parity.categories, fewer)


def _agreement(audit: Audit) -> Iterator[Block]:
    found = audit.group_metrics
    if found is None:
        yield absent(audit, "group_metrics")
    else:
        yield Paragraph(found.caption)
        yield show_metrics(found)


def _training_hash(audit: Audit) -> str:
    return text.name(audit.provenance.training_hash) if audit.data.fitted else _UNKNOWN


def _software(audit: Audit) -> str:
    versions = audit.provenance.versions
    return ", ".join(f"{text.name(k)} {text.name(v)}" for k, v in versions.items())


def _algorithm(audit: Audit) -> list[tuple[str, str]]:
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


def thresholds(audit: Audit) -> str:
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
