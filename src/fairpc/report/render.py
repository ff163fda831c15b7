"""From the facts of an audit to its page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairpc.report import text
from fairpc.report.page import Page
from fairpc.report.sections.absent import Facts
from fairpc.report.sections.circuit import circuit
from fairpc.report.sections.curves import curves
from fairpc.report.sections.decidable import decidable
from fairpc.report.sections.labels import labels
from fairpc.report.sections.learning import learning
from fairpc.report.sections.limits import limits
from fairpc.report.sections.mechanism import mechanism
from fairpc.report.sections.metrics import metrics
from fairpc.report.sections.parity import parity
from fairpc.report.sections.provenance import provenance
from fairpc.report.sections.table import table
from fairpc.report.sections.trade_off import trade_off
from fairpc.report.sections.verdict import verdict
from fairpc.report.sections.what_if import questions, what_if
from fairpc.report.view import Section

SECTIONS: Final[tuple[Callable[[Facts], Section], ...]] = (
    verdict, table, labels, mechanism, decidable, parity, metrics, trade_off, curves, learning,
    circuit, what_if, limits, provenance,
)  # fmt: skip
"""The order of the page."""


def render(facts: Facts) -> str:
    """The facts of an audit, ``Audit.to_dict()``, as one HTML page; equal facts, equal bytes."""
    facts = _visible(facts)
    data, provenance_facts = facts["data"], facts["provenance"]
    label, groups = text.short(data["label"], 60), text.listed(data["sensitive"])
    rows = text.counted(data["n_rows"], "row")
    return Page(
        title=f"{label} by {groups}",
        subtitle=f"A {text.name(provenance_facts['model'])} model on {rows}, "
        f"audited {text.name(provenance_facts['date'])[:10]}",
        version=text.name(provenance_facts["versions"].get("fairpc", "")),
        sections=tuple(section(facts) for section in SECTIONS),
        closing=facts["verdict"]["disclaimer"],
        data=questions(facts),
    ).html()


def _visible(facts: Facts) -> Facts:
    """The facts without hidden marks; the arrays of the circuit have none, and are long."""
    found = facts["what_if"]
    if found is None:
        return dict(text.visible(dict(facts)))
    bare = {**facts, "what_if": {**found, "circuit": None}}
    shown = text.visible(bare)
    return {**shown, "what_if": {**shown["what_if"], "circuit": found["circuit"]}}
