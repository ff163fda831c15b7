"""The record of an audit: one section after the other, plain data throughout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from html import escape
from typing import Any, Final

from fairpc.auditing.circuits import CircuitFacts
from fairpc.auditing.curves import ScoreCurves
from fairpc.auditing.decidable import Decidable
from fairpc.auditing.disparity import LabelDisparity
from fairpc.auditing.learning import Learning
from fairpc.auditing.limits import Limits
from fairpc.auditing.mechanism import MechanismFacts
from fairpc.auditing.parities import ParityFacts
from fairpc.auditing.performance import GroupMetrics
from fairpc.auditing.provenance import Provenance
from fairpc.auditing.table import TableFacts
from fairpc.auditing.tradeoff import TradeOff
from fairpc.auditing.verdict import Verdict
from fairpc.auditing.what_if import WhatIf
from fairpc.data.atomic import AnyPath, write_atomically
from fairpc.evidence.plain import plain

FORMAT: Final = "fairpc audit"
VERSION: Final = 1


@dataclass(frozen=True, eq=False)
class Audit:
    """Facts about a model on a table, in the order in which the page shows them.

    A section that these rows or this model have no answer for is None; ``left_out`` says why,
    by its name, or by "section.part" where only a part is lacking.

    Attributes:
        verdict: the main findings in words; a rejection of the assumptions comes first.
        data: the rows, the groups, what is missing.
        labels: how far apart the groups are in the observed labels.
        mechanism: P(D | Df, S), and how many labels were turned either way.
        decidable: what the data can and cannot decide.
        parity: gaps of scores and decisions between groups, under the model and on these rows.
        group_metrics: agreement with the observed label, by group.
        trade_off: the model beside other methods, out of sample.
        curves: ROC and calibration, by group.
        learning: the course of the fit.
        circuit: size, properties and a drawing of the circuit.
        limits: what is assumed, what follows, what does not.
        provenance: hashes, versions, settings, date.
        what_if: the circuit and the coding as data, to answer questions in a page.
        left_out: section or part -> why it is not there.
    """

    verdict: Verdict
    data: TableFacts
    labels: LabelDisparity | None
    mechanism: MechanismFacts | None
    decidable: Decidable
    parity: ParityFacts | None
    group_metrics: GroupMetrics | None
    trade_off: TradeOff | None
    curves: ScoreCurves | None
    learning: Learning
    circuit: CircuitFacts
    limits: Limits
    provenance: Provenance
    what_if: WhatIf
    left_out: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """All of it as dicts, lists, text and numbers that JSON can hold; None for no number."""
        sections = {field.name: plain(getattr(self, field.name)) for field in fields(self)}
        return {"format": FORMAT, "version": VERSION, **sections}

    def to_json(self, *, indent: int | None = None) -> str:
        """:meth:`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    def save(self, path: AnyPath) -> None:
        """Write the page, one HTML file that needs nothing else, whole or not at all."""
        write_atomically(path, self._page().encode())

    def __str__(self) -> str:
        return "\n".join((*self.verdict.sentences, self.verdict.disclaimer))

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style stays out of a notebook."""
        return (
            '<iframe sandbox="allow-scripts" style="width:100%;height:40em;border:1px solid #999" '
            f'title="fairpc audit" srcdoc="{escape(self._page(), quote=True)}"></iframe>'
        )

    def _page(self) -> str:
        # The page lies above the facts and reads nothing but them: imported late, here alone.
        from fairpc.report import render

        return render(self.to_dict())
