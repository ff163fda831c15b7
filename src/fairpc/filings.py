"""Documents made from one audit: a model card, tables, sections, reasons.

Each is a :class:`Document`: facts of the audit in blocks, written as HTML or Markdown. What a tool
cannot know comes from :class:`Answers`, or is left blank and marked.
"""

from fairpc.auditing import (
    Answers,
    Document,
    bias_audit_tables,
    form,
    model_card,
    read_answers,
    statement_of_reasons,
    technical_documentation,
)
