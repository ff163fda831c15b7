"""Facts of an audit: what a model and a table say, as plain data; the page only shows them."""

from typing import TYPE_CHECKING

from fairpc.core import on_first_use

if TYPE_CHECKING:
    from fairpc.auditing._audit import Audit, audit, group_gaps
    from fairpc.auditing._blocks import Document, is_markdown
    from fairpc.auditing._documents import (
        Answers,
        form,
        model_card,
        read_answers,
        technical_documentation,
    )
    from fairpc.auditing._given_decisions import GivenDecisions, given_decisions
    from fairpc.auditing._local_law_144 import bias_audit_tables
    from fairpc.auditing._page import render
    from fairpc.auditing._parity import ParityFacts
    from fairpc.auditing._reasons import Reasons, in_words, of_what, reasons, statement_of_reasons
    from fairpc.auditing._review import ReviewFacts, facts_of_review, rate_words, rows_without_model
    from fairpc.auditing._verdict import Verdict

__all__ = [
    "Answers",
    "Audit",
    "Document",
    "Reasons",
    "audit",
    "bias_audit_tables",
    "form",
    "group_gaps",
    "model_card",
    "read_answers",
    "reasons",
    "render",
    "statement_of_reasons",
    "technical_documentation",
]

__getattr__, __dir__ = on_first_use(__name__)
