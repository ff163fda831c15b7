"""Facts of an audit: what a model and a table say, as plain data; the page only shows them."""

from fairpc.auditing._audit import Audit, audit, group_gaps
from fairpc.auditing.reasons import Reasons, reasons

__all__ = ["Audit", "Reasons", "audit", "group_gaps", "reasons"]
