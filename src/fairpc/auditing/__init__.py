"""Facts of an audit: what a model and a table say, as plain data; the page only shows them."""

from fairpc.auditing.facts import audit
from fairpc.auditing.record import Audit

__all__ = ["Audit", "audit"]
