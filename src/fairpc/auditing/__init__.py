"""Facts of an audit: what a model and a table say, as plain data; the page only shows them."""

from typing import TYPE_CHECKING

from fairpc.core import on_first_use

if TYPE_CHECKING:
    from fairpc.auditing._audit import Audit as Audit, audit as audit, group_gaps as group_gaps
    from fairpc.auditing._given_decisions import GivenDecisions, given_decisions
    from fairpc.auditing._page import render as render
    from fairpc.auditing._parity import ParityFacts
    from fairpc.auditing._review import ReviewFacts, facts_of_review, rate_words, rows_without_model

__getattr__, __dir__ = on_first_use(__name__)
