"""Documents made from one audit: a model card, tables, sections, reasons.

Each is a :class:`Document`: facts of the audit in blocks, written as HTML or Markdown. What a tool
cannot know comes from :class:`Answers`, or is left blank and marked.
"""

from fairpc.auditing import (
    Answers as Answers,
    Document as Document,
    bias_audit_tables as bias_audit_tables,
    form as form,
    model_card as model_card,
    read_answers as read_answers,
    statement_of_reasons as statement_of_reasons,
    technical_documentation as technical_documentation,
)
