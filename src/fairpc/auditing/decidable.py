"""What the data can and cannot decide: test, confidence set, identified set, random starts."""

from __future__ import annotations

from dataclasses import dataclass

from fairpc.auditing.identified import IdentifiedFacts
from fairpc.auditing.naming import named
from fairpc.auditing.numbers import p_words
from fairpc.auditing.rows import AuditedRows
from fairpc.evidence import AssumptionTest
from fairpc.refits import Stability


@dataclass(frozen=True)
class Bar:
    """P(Df = label) as far as one group leaves it open."""

    group: str
    n: int
    lower: float
    upper: float


@dataclass(frozen=True)
class ConfidenceSet:
    """P(Df = label): a bar per group, and their overlap.

    Attributes:
        label: the class.
        lower, upper: the overlap; ``lower > upper`` is empty.
        empty: whether it is, for this class.
        groups: a bar each.
    """

    label: str
    lower: float
    upper: float
    empty: bool
    groups: tuple[Bar, ...]


@dataclass(frozen=True)
class AssumptionFacts:
    """The test of the assumptions on the audited rows.

    Attributes:
        rejected: whether no P(Df) is left at the level.
        p_value: smallest 1 − level at which none is; not said to be under 1e-12.
        p_words: the same for a sentence: "= 0.032", "< 0.001".
        level: of the confidence set.
        method, n_seeds, classifiers: how it was computed.
        n_rows: rows that were used: a sample of a large table, with label and group known.
        n_known: all audited rows with label and group known.
        sets: of the positive class; of every class where there are more than two.
        summary: in words.
        what_to_do: after a rejection; empty otherwise.
    """

    rejected: bool
    p_value: float
    p_words: str
    level: float
    method: str
    n_seeds: int
    classifiers: tuple[tuple[str, int], ...]
    n_rows: int
    n_known: int
    sets: tuple[ConfidenceSet, ...]
    summary: str
    what_to_do: tuple[str, ...]


@dataclass(frozen=True)
class Decidable:
    """What the data can and cannot decide.

    Attributes:
        test: of the assumptions; None where these rows do not allow one.
        untested: why there is none; empty where there is one.
        identified: what the data leave open at any number of rows; None for models without Df.
        stability: spread over random starts and half tables; None where it was left out.
        stability_rows: rows that it is of: a sample of a large table.
    """

    test: AssumptionFacts | None
    untested: str
    identified: IdentifiedFacts | None
    stability: Stability | None
    stability_rows: int

    @property
    def rejected(self) -> bool | None:
        return None if self.test is None else self.test.rejected


def assumption_facts(test: AssumptionTest, rows: AuditedRows) -> AssumptionFacts:
    """The test's record by name, with the bars of its picture."""
    record = named(test, rows.groups, rows.classes)
    return AssumptionFacts(
        rejected=record.rejected,
        p_value=record.p_value,
        p_words=p_words(record.p_value),
        level=record.level,
        method=record.method,
        n_seeds=record.n_seeds,
        classifiers=record.classifiers,
        n_rows=sum(g.n for g in record.groups),
        n_known=rows.number((rows.d >= 0) & (rows.s >= 0)),
        sets=_sets(record),
        summary=record.summary(),
        what_to_do=record.what_to_do,
    )


def _sets(test: AssumptionTest) -> tuple[ConfidenceSet, ...]:
    shown = test.classes if test.positive is None else (test.positive,)
    result = []
    for k, label in enumerate(shown):
        lower, upper = _end(test.lower, k), _end(test.upper, k)
        bars = tuple(Bar(g.group, g.n, _end(g.lower, k), _end(g.upper, k)) for g in test.groups)
        result.append(ConfidenceSet(label, lower, upper, lower > upper, bars))
    return tuple(result)


def _end(ends: float | tuple[float, ...], k: int) -> float:
    return ends[k] if isinstance(ends, tuple) else ends
