"""Sections of the technical documentation of Regulation (EU) 2024/1689, Annex IV and Article 10(2).

The points are named in our own words, after the numbering of the Regulation. What an audit says
stands below its point; what it cannot say is left blank, with who has to fill it in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairpc.auditing import _document_tables as tables
from fairpc.auditing import _text as text
from fairpc.auditing import _view as view
from fairpc.auditing._answers import Answers
from fairpc.auditing._audit import Audit
from fairpc.auditing._document import Document, Entries, section

_IS_NOT: Final = (
    "It is not the technical documentation of a high-risk system, but sections of it for which an "
    "audit has facts. The provider completes them and answers for them (Article 11).",
    "It is not a conformity assessment or a declaration of conformity, and does not say whether "
    "a system is high-risk.",
    "It is not legal advice. Points are named after Annex IV and Article 10 of Regulation (EU) "
    "2024/1689 in our own words; check the text in force.",
)


def technical_documentation(audit: Audit, answers: Answers | None = None) -> Document:
    """Sections of Annex IV and Article 10 for an audited model."""
    known = Answers() if answers is None else answers
    data, made = audit.data, audit.provenance
    name = known.texts.get("model.name") or f"{data.label} by {text.listed(data.sensitive)}"
    later = (
        ("metrics", "Annex IV, point 4: appropriateness of the metrics", "eu.metrics"),
        ("risk", "Annex IV, point 5: risk management system", "eu.risk_management"),
        ("changes", "Annex IV, point 6: changes through the lifecycle", "eu.changes"),
        ("standards", "Annex IV, point 7: standards applied", "eu.standards"),
        ("declaration", "Annex IV, point 8: EU declaration of conformity", "eu.declaration"),
        ("post-market", "Annex IV, point 9: post-market monitoring", "eu.post_market"),
    )
    return Document.of_audit(
        audit,
        kind="EU AI Act: Annex IV and Article 10",
        title=name,
        subtitle=f"Sections with facts of an audit of {text.counted(data.n_rows, 'row')}, "
        f"{text.name(made.date[:10])}",
        is_not=_IS_NOT,
        sections=(
            section("general", "Annex IV, point 1: general description", *_general(audit, known)),
            section(
                "elements", "Annex IV, point 2: elements and development", *_made(audit, known)
            ),
            section("data", "Article 10: data and data governance", *_governance(audit, known)),
            section("control", "Annex IV, point 3: functioning and limits", *_limits(audit, known)),
            *(section(key, title, *known.blocks(question)) for key, title, question in later),
        ),
    )


def _general(audit: Audit, known: Answers) -> Iterator[view.Block]:
    versions = audit.provenance.versions
    software = ", ".join(f"{text.name(k)} {text.name(v)}" for k, v in versions.items())
    yield Entries(
        "General description",
        [
            ("(a) Intended purpose", known["use.intended"]),
            ("(a) Provider", known["model.owner"]),
            ("(a) Version", known["model.version"]),
            ("(b) Interaction with other hardware and software", known["eu.interaction"]),
            ("(c) Software versions of the audit", software),
            ("(d) Forms in which it is supplied", known["eu.forms"]),
            ("(e) Hardware", known["eu.hardware"]),
            ("(f) Pictures of the product it is part of", known["eu.product"]),
            ("(g) User interface of the deployer", known["eu.interface"]),
            ("(h) Instructions for use", known["eu.instructions"]),
        ],
    )


def _made(audit: Audit, known: Answers) -> Iterator[view.Block]:
    yield view.Heading("(a) Methods and steps of development")
    yield tables.learned(audit)
    yield from known.blocks("eu.third_party")
    yield view.Heading("(b) General logic, design choices and assumptions")
    yield Entries("The model", tables.algorithm(audit))
    yield view.Paragraph(
        f"The model gives P({text.short(audit.data.positive, 40)}) for a person from the features "
        f"and {text.listed(audit.data.sensitive)}. Decided so: {tables.thresholds(audit)}."
    )
    yield from tables.claims(audit)
    yield view.Heading("(c) Architecture and computational resources")
    yield from known.blocks("eu.architecture")
    yield from known.blocks("eu.resources")
    yield view.Heading("(d) Data requirements")
    yield view.Paragraph("See Article 10 below.")
    yield view.Heading("(e) Human oversight")
    yield from known.blocks("use.oversight")
    yield view.Heading("(f) Pre-determined changes")
    yield from known.blocks("eu.changes_planned")
    yield view.Heading("(g) Validation and testing")
    yield from tables.findings(audit)
    yield from tables.agreement(audit)
    yield view.Heading("(h) Cybersecurity")
    yield from known.blocks("eu.cybersecurity")


def _governance(audit: Audit, known: Answers) -> Iterator[view.Block]:
    made = audit.provenance
    yield view.Heading("Article 10(2)(a): design choices")
    yield tables.columns(audit)
    yield view.Heading("Article 10(2)(b): collection and origin of the data")
    yield Entries(
        "Data sets",
        [
            ("Source", known["data.source"]),
            ("Period", known["data.period"]),
            ("Collection, and original purpose", known["data.collection"]),
            ("Hash of the training rows", text.name(made.training_hash)),
            ("Hash of the audited rows", text.name(made.audited_hash)),
        ],
    )
    yield view.Heading("Article 10(2)(c): preparation of the data")
    yield Entries(
        "Preparation",
        [("Labelling", known["data.labels"]), ("Cleaning", known["data.cleaning"])],
    )
    yield view.Heading("Article 10(2)(d): assumptions about what the data measure")
    if audit.limits.assumptions:
        yield view.Points(audit.limits.assumptions)
    yield _tested(audit)
    yield view.Heading("Article 10(2)(e): availability, quantity and suitability")
    yield from tables.rows_of(audit)
    yield from known.blocks("eu.suitability")
    yield view.Heading("Article 10(2)(f): examination for possible biases")
    yield from _biases(audit)
    yield view.Heading("Article 10(2)(g): measures against biases")
    yield view.Points(audit.limits.guaranteed or ("The model takes none.",))
    yield from known.blocks("eu.measures")
    yield view.Heading("Article 10(2)(h): gaps and shortcomings")
    yield tables.missing(audit)
    yield from known.blocks("eu.gaps")
    yield view.Heading("Article 10(3) and (4): representativeness and setting")
    yield from known.blocks("data.population")
    yield view.Heading("Article 10(5): special categories of personal data")
    yield view.Paragraph(
        f"Sensitive attributes in the data: {text.listed(audit.data.sensitive)}. Whether these are "
        "special categories, and on what basis they are processed, is for the provider to say."
    )
    yield from known.blocks("data.sensitive_basis")


def _tested(audit: Audit) -> view.Block:
    found = audit.decidable
    if found.test is None:
        return view.Paragraph(f"Not tested on these rows: {found.untested}.")
    return view.Paragraph(f"Test of these assumptions on the audited rows. {found.test.summary}")


def _biases(audit: Audit) -> Iterator[view.Block]:
    if audit.labels is None:
        yield view.absent(audit, "labels")
    else:
        yield from tables.rates(audit.labels.disparities, "Labelled")
    if audit.parity is None:
        yield view.absent(audit, "parity")
    else:
        yield from tables.rates(audit.parity.decisions, "Decided")
        yield from tables.by_attribute(audit)
    if audit.mechanism is not None and not audit.verdict.rejected and not audit.verdict.drift:
        yield view.Paragraph(audit.mechanism.sentence)


def _limits(audit: Audit, known: Answers) -> Iterator[view.Block]:
    yield view.Heading("Performance for persons and groups")
    yield view.Paragraph("See point 2(g) above: agreement with the observed label by group.")
    found = audit.decidable.identified
    if found is not None and not found.empty:
        yield view.Heading("What the data leave open")
        yield view.Paragraph(found.sentence)
    yield view.Heading("Foreseeable unintended outcomes")
    yield from known.blocks("eu.unintended")
    yield view.Heading("Input data")
    yield view.Paragraph(audit.data.missing_words)
