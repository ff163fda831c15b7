"""Facts of an audit: what a model and a table say, as plain data; the page only shows them."""

from typing import TYPE_CHECKING

from fairpc.core import on_first_use

if TYPE_CHECKING:
    from fairpc.auditing._audit import Audit as Audit, audit as audit, group_gaps as group_gaps
    from fairpc.auditing._blocks import Document as Document, is_markdown
    from fairpc.auditing._documents import (
        Answers as Answers,
        form as form,
        model_card as model_card,
        read_answers as read_answers,
        technical_documentation as technical_documentation,
    )
    from fairpc.auditing._given_decisions import GivenDecisions, given_decisions
    from fairpc.auditing._local_law_144 import bias_audit_tables as bias_audit_tables
    from fairpc.auditing._page import render as render
    from fairpc.auditing._parity import ParityFacts
    from fairpc.auditing._reasons import (
        Reasons as Reasons,
        in_words,
        of_what,
        reasons as reasons,
        statement_of_reasons as statement_of_reasons,
    )
    from fairpc.auditing._review import ReviewFacts, facts_of_review, rate_words, rows_without_model
    from fairpc.auditing._verdict import Verdict

__getattr__, __dir__ = on_first_use(__name__)
