"""Facts of an audit: what a model and a table say, as plain data; the page only shows them."""

from fairpc.auditing._adverse_action import in_words, of_what, statement_of_reasons
from fairpc.auditing._ai_act import technical_documentation
from fairpc.auditing._answers import Answers, form, read_answers
from fairpc.auditing._audit import Audit, audit, group_gaps
from fairpc.auditing._document import Document, writer
from fairpc.auditing._gaps import ParityFacts
from fairpc.auditing._local_law_144 import bias_audit_tables
from fairpc.auditing._model_card import model_card
from fairpc.auditing._page import render
from fairpc.auditing._reasons import Reasons, reasons
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
