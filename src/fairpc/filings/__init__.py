"""Papers that people must file, from one audit: a model card, tables, sections, reasons.

Each is a :class:`Document`: facts of the audit in blocks, written as HTML or Markdown. What a tool
cannot know comes from :class:`Answers`, or is left blank and marked.
"""

from fairpc.filings.adverse_action import statement_of_reasons
from fairpc.filings.ai_act import technical_documentation
from fairpc.filings.answers import Answers, form, read_answers
from fairpc.filings.document import Document
from fairpc.filings.local_law_144 import bias_audit_tables
from fairpc.filings.model_card import model_card

__all__ = [
    "Answers",
    "Document",
    "bias_audit_tables",
    "form",
    "model_card",
    "read_answers",
    "statement_of_reasons",
    "technical_documentation",
]
