"""The sections of the page by subject, as in ``fairpc.auditing``: facts in, text and pictures out.

Each module here is imported, so that what it shows is known to :mod:`fairpc.report.view`.
"""

from fairpc.report.sections import agreement, decidable, gaps, mechanism, overview
from fairpc.report.sections.background import questions

__all__ = ["agreement", "decidable", "gaps", "mechanism", "overview", "questions"]
