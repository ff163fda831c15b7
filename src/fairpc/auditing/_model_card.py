"""A model card: the sections of Mitchell et al., "Model Cards for Model Reporting" (FAT* 2019)."""

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
    "It does not say that the model is fit for a use: whoever uses it decides that, and answers "
    "for it.",
    "It does not say that decisions are just. It says which numbers are equal between groups, "
    "under which assumptions, and how far apart they may be on rows.",
    "Its numbers are of the audited rows. Other people, places or times may differ.",
)


def model_card(audit: Audit, answers: Answers | None = None) -> Document:
    """The card of an audited model."""
    known = Answers() if answers is None else answers
    data, made = audit.data, audit.provenance
    name = (
        known.texts.get("model.name")
        or f"{made.model}: {data.label} by {text.listed(data.sensitive)}"
    )
    return Document.of_audit(
        audit,
        kind="Model card",
        title=name,
        subtitle=f"{text.counted(data.n_rows, 'row')} audited {text.name(made.date[:10])}",
        is_not=_IS_NOT,
        sections=(
            section("details", "Model details", *_details(audit, known)),
            section("use", "Intended use", *_use(known)),
            section("factors", "Factors", *_factors(audit, known)),
            section("metrics", "Metrics", *_metrics(audit)),
            section("evaluation", "Evaluation data", *_evaluation(audit, known)),
            section("training", "Training data", *_training(audit, known)),
            section("results", "Quantitative analyses", *_results(audit)),
            section("ethics", "Ethical considerations", *_ethics(audit, known)),
            section("caveats", "Caveats and recommendations", *_caveats(audit, known)),
        ),
    )


def _details(audit: Audit, known: Answers) -> Iterator[view.Block]:
    yield Entries(
        "The model",
        [
            ("Name", known["model.name"]),
            ("Version", known["model.version"]),
            ("Owner", known["model.owner"]),
            ("Contact", known["model.contact"]),
            ("Trained", known["model.trained"]),
            ("Licence", known["model.license"]),
            *tables.algorithm(audit),
        ],
    )
    yield view.Paragraph(
        "Method: Choi, Dang and Van den Broeck, Group Fairness by Probabilistic Modeling with "
        "Latent Fair Decisions, AAAI 2021."
    )
    yield tables.learned(audit)


def _use(known: Answers) -> Iterator[view.Block]:
    for title, key in (
        ("Primary intended uses", "use.intended"),
        ("Primary intended users", "use.users"),
        ("Out-of-scope uses", "use.out_of_scope"),
    ):
        yield view.Heading(title)
        yield from known.blocks(key)


def _factors(audit: Audit, known: Answers) -> Iterator[view.Block]:
    yield view.Heading("Relevant factors")
    yield from known.blocks("use.factors")
    yield view.Heading("Evaluation factors")
    groups = text.counted(len(audit.data.groups), "group")
    crossed = ", crossed" if len(audit.data.sensitive) > 1 else ""
    yield view.Paragraph(f"{groups} by {text.listed(audit.data.sensitive)}{crossed}.")


def _metrics(audit: Audit) -> Iterator[view.Block]:
    yield view.Points(
        [
            "Selection rates and mean scores by group, their differences and ratios.",
            "Agreement with the observed label by group, which may itself be biased.",
            "A test of the assumptions behind a hidden decision, and what the labels leave open.",
        ]
    )
    level = audit.provenance.audit_settings.get("level")
    yield Entries(
        "How decisions are made",
        [
            ("Favourable class", text.short(audit.data.positive)),
            ("Decided so", tables.thresholds(audit)),
            (
                "Level of intervals",
                text.share(level, 0) if isinstance(level, float) else "not said",
            ),
        ],
    )


def _evaluation(audit: Audit, known: Answers) -> Iterator[view.Block]:
    yield Entries(
        "Source of the audited rows",
        [
            ("Source", known["data.source"]),
            ("Period", known["data.period"]),
            ("Collection", known["data.collection"]),
            ("Preprocessing", known["data.cleaning"]),
        ],
    )
    yield from tables.rows_of(audit)
    yield tables.missing(audit)


def _training(audit: Audit, known: Answers) -> Iterator[view.Block]:
    if audit.data.same_rows_as_fit:
        yield view.Paragraph("The training rows are the audited rows.")
    else:
        yield from known.blocks("data.training")
    yield Entries(
        "Training rows",
        [
            ("Labels", known["data.labels"]),
            ("Rows in groups", text.count(sum(g.training_rows or 0 for g in audit.data.groups))),
            ("Hash of the rows", text.name(audit.provenance.training_hash)),
        ],
    )
    yield tables.columns(audit)


def _results(audit: Audit) -> Iterator[view.Block]:
    yield from tables.findings(audit)
    yield view.Heading("Observed labels")
    if audit.labels is None:
        yield view.absent(audit, "labels")
    else:
        yield from tables.rates(audit.labels.disparities, "Labelled")
    several = len(audit.data.sensitive) > 1
    yield view.Heading("Decisions" + (": intersectional results" if several else ""))
    if audit.parity is None:
        yield view.absent(audit, "parity")
    else:
        yield from tables.rates(audit.parity.decisions, "Decided")
        if several:
            yield view.Heading("Decisions: unitary results")
            yield from tables.by_attribute(audit)
    yield view.Heading("Agreement with the observed label")
    yield from tables.agreement(audit)


def _ethics(audit: Audit, known: Answers) -> Iterator[view.Block]:
    yield view.Paragraph(
        f"The model is given the sensitive attribute, {text.listed(audit.data.sensitive)}. "
        "Some laws forbid that in some decisions."
    )
    yield from known.blocks("data.sensitive_basis")
    yield from known.blocks("use.ethics")


def _caveats(audit: Audit, known: Answers) -> Iterator[view.Block]:
    yield from tables.claims(audit)
    yield view.Heading("Recommendations")
    yield from known.blocks("use.recommendations")
