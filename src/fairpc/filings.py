"""Documents made from one audit: a model card, tables, sections, reasons.

Each is a :class:`Document`: facts of the audit in blocks, written as HTML or Markdown. What a tool
cannot know comes from :class:`Answers`, or is left blank and marked.
"""

from fairpc.auditing import Answers as Answers
from fairpc.auditing import Document as Document
from fairpc.auditing import bias_audit_tables as bias_audit_tables
from fairpc.auditing import form as form
from fairpc.auditing import model_card as model_card
from fairpc.auditing import read_answers as read_answers
from fairpc.auditing import statement_of_reasons as statement_of_reasons
from fairpc.auditing import technical_documentation as technical_documentation
