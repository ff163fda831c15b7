"""Legitimate factors of decisions: gaps between people who are alike in what may rightly matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.auditing import _blocks as blocks
from fairpc.auditing import _formats as text
from fairpc.auditing._assumptions import ARGUED
from fairpc.auditing._job import Job
from fairpc.auditing._strata import GapParts, parts_of, show_parts
from fairpc.core import AuditError, Record

NO_FACTORS: Final = "no legitimate factors were named (given)"
_EXPLAINED: Final = (
    "A gap between two groups is the sum of two parts, in percentage points: what comes from "
    "the different mix of these factors, and the mean gap between people who are alike in them. "
    "The lines are intervals."
)


@dataclass(frozen=True)
class FactorGaps(Record):
    """Gaps of labels and of decisions within strata of the factors."""

    columns: tuple[str, ...]  #: whose values make the strata, crossed
    labels: tuple[GapParts, ...]  #: per pair of groups
    decisions: tuple[GapParts, ...]
    n_rows: int  #: rows whose stratum is known
    n_unknown: int  #: rows whose stratum is not

    _computed = ("sentence",)

    @property
    def sentence(self) -> str:
        """The largest gap of decisions within strata, beside the whole one."""
        one = max(self.decisions, key=lambda part: abs(part.within))
        low, high = map(text.points, one.within_interval)
        return (
            f"Within the same {text.listed(self.columns)}, decisions for group {one.last!r} and "
            f"group {one.first!r} differ by {text.points(one.within)} points ({low} to {high}); "
            f"without that, by {text.points(one.raw)}."
        )


def factor_gaps(job: Job) -> FactorGaps:
    """Gaps within the factors that were named; an AuditError where none were."""
    given = job.decisions
    if given is None or not given.strata:
        raise AuditError(NO_FACTORS)
    rows, level = job.drawn, job.settings.level
    where = given.strata.codes(rows.x)
    labels, decided = ((of == rows.positive).astype(np.float64) for of in (rows.d, rows.decided))
    known = where >= 0
    decisions = parts_of(rows, decided, known, where, level)
    if not decisions:
        raise AuditError("no stratum of the named factors has rows of two groups: name fewer")
    return FactorGaps(
        columns=tuple(rows.features.names[j] for j in given.strata.columns),
        labels=parts_of(rows, labels, known & (rows.d >= 0), where, level),
        decisions=decisions,
        n_rows=rows.number(known),
        n_unknown=rows.number(~known),
    )


@blocks.section(
    "factors", "Within legitimate factors", lambda _, facts: f"Within {text.listed(facts.columns)}"
)
def show_factors(_: blocks.Audit, facts: FactorGaps) -> Iterator[blocks.Block]:
    """How much of a gap is left between people who are alike in what may rightly matter."""
    yield blocks.Paragraph(facts.sentence, "lead")
    yield blocks.Notice("These factors must be argued for.", (ARGUED,))
    note = f"Computed on {text.counted(facts.n_rows, 'row')}."
    if facts.n_unknown:
        note += f" Left out: {text.counted(facts.n_unknown, 'row')} that lack a value of them."
    found = {"labels": facts.labels, "decisions": facts.decisions}
    yield show_parts(found, _EXPLAINED, note, "How much of the gap is the mix of these factors?")
