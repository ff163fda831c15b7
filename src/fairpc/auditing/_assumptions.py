"""What the test of the assumptions found on the audited rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows, taken
from fairpc.evidence import (
    AlteredByFeatures,
    AssumptionTest,
    Interval,
    LeastDifference,
    StratumBounds,
    TestsByStratum,
)

_RULED_OUT: Final = 0.01
"""Level at which rows are said to rule a learned rate out; above it, only to speak against it."""
_UNSEEN: Final = (
    "That they are not rejected does not show that they are true: some violations cannot be seen "
    "however many rows there are."
)
_FAILS: Final = (
    "At least one of these fails: fair decisions are "
    "independent of the group; the label depends on the features through the fair decision only; "
    "in every group a label is most likely under the fair decision of the same name."
)

ARGUED: Final = (
    "A stratum must be argued for: that the attribute is a legitimate factor, and is not itself "
    "the result of unequal treatment. That the test no longer rejects within it is not an argument."
)
_SEEN: Final = 5e-4  # a smaller difference of two shares does not show in their digits


@dataclass(frozen=True)
class Bar:
    """P(Df = label) as far as one group leaves it open."""

    group: str
    n: int
    lower: float
    upper: float


@dataclass(frozen=True)
class ConfidenceSet:
    """P(Df = label): a bar per group, and their overlap."""

    label: str  #: the class
    lower: float  #: lower end of the overlap; ``lower > upper`` is empty
    upper: float  #: upper end
    empty: bool  #: whether it is, for this class
    groups: tuple[Bar, ...]  #: a bar each

    def within(self, apart: float) -> Iterator[tuple[str, Interval]]:
        """Rates of each group, so far at most from some of every other; if none are, its own."""
        for own in self.groups:
            low = max(b.lower - apart * (b is not own) for b in self.groups)
            high = min(b.upper + apart * (b is not own) for b in self.groups)
            yield own.group, (low, high) if low <= high else (own.lower, own.upper)


@dataclass(frozen=True)
class AssumptionFacts:
    """The test of the assumptions on the audited rows."""

    rejected: bool  #: whether no P(Df) is left at the level
    p_value: float  #: smallest 1 − level at which none is; not said to be under 1e-12
    p_words: str  #: the same for a sentence: "= 0.032", "< 0.001"
    level: float  #: of the confidence set
    method: str  #: how it was computed, as are the next two
    n_seeds: int
    classifiers: tuple[tuple[str, int], ...]
    n_rows: int  #: rows that were used: a sample of a large table, with label and group known
    n_known: int  #: all audited rows with label and group known
    #: of the positive class
    sets: tuple[ConfidenceSet, ...]
    #: the sets where features may change the odds of a label given Df and S, by at most gamma
    altered_by_features: tuple[AlteredByFeatures, ...]
    tolerance: str  #: how much of that undoes a rejection, in words; empty where none was
    summary: str  #: in words
    what_to_do: tuple[str, ...]  #: after a rejection; empty otherwise
    delta: float = 0.0  #: by how much fair rates of groups may differ
    least_difference: LeastDifference | None = None  #: by how much they must at least
    most_difference: float | None = None  #: differences above this are excluded
    clash: str = ""  #: what a rejection means for fair rates, in words; empty where there is none
    power: str = ""  #: what the test can see, in words
    quoted: bool = False  #: whether it is that of the fit, on its own rows

    @property
    def weak(self) -> bool:
        """Whether fair rates 10 points apart would more likely than not go unnoticed."""
        least = self.least_difference
        return least is not None and least.noticed(delta=self.delta) < 0.5


@dataclass(frozen=True)
class WithinTest:
    """The test of parity within strata, on rows whose stratum is known."""

    rejected: bool  #: whether nothing that fits every group is left at the level
    p_value: float  #: smallest 1 − level at which nothing is; not said to be under 1e-12
    p_words: str  #: the same for a sentence
    level: float  #: of the set
    n_rows: int  #: rows that were used
    contradicted: tuple[str, ...]  #: strata that contradict it
    untested: tuple[str, ...]  #: strata that are too small to be tested
    outcome: str  #: what nothing fits, in words; empty where nothing is rejected


@dataclass(frozen=True)
class LearnedRate:
    """P(Df = label) as the model learned it, beside what the test leaves possible."""

    label: str  #: the class
    learned: float
    lower: float  #: least possible P(Df = label), with the confidence of the test
    upper: float  #: largest
    level: float  #: of the test
    outside: bool  #: whether what was learned is not between the two
    sentence: str  #: in words
    #: smallest 1 − level at which it is outside; None where it is not
    p_value: float | None = None


def within_test(job: Job, test: TestsByStratum) -> WithinTest:
    """The record of the test by name."""
    names = job.model.strata_
    contradicted = tuple(names[s.stratum] for s in test.strata if s.test.rejected)
    untested = tuple(names[s.stratum] for s in test.left_out)
    n_rows = sum(s.n for s in test.strata)
    outcome = (
        f"in {'; '.join(contradicted)} no rate of fair decisions fits every group, even with "
        "a mechanism of its own"
    )
    facts = test.rejected, test.p_value, text.p_words(test.p_value), test.level, n_rows
    return WithinTest(*facts, contradicted, untested, outcome if test.rejected else "")


def contradiction_sentence(
    test: AssumptionFacts | WithinTest | None, untested: str, outcome: str, assumed: str = ""
) -> str:
    """Whether these rows contradict what a model assumes, in a sentence or two of the verdict."""
    behind = f"the assumptions behind a fair decision{assumed}"
    if test is None:
        return f"T{behind[1:]} were not tested on these rows: {untested.rstrip('.')}."
    if test.rejected:
        return (
            f"These rows contradict {behind} (p {test.p_words}): {outcome}, so a mechanism learned "
            "under them must not be read as what happened."
        )
    power = f" {test.power}" if isinstance(test, AssumptionFacts) and test.weak else ""
    if test.p_value < 2 * (1 - test.level):
        power += (
            f" They only just pass, below {1 - test.level:.2g} they fail: a narrow range does not "
            "mean that the answer is known well."
        )
    return (
        f"These rows do not contradict {behind} (p {test.p_words}); that does not show that they "
        f"hold.{power}"
    )


def assumption_facts(
    test: AssumptionTest, rows: AuditedRows, *, quoted: bool = False
) -> AssumptionFacts:
    """The test's record by name, with the bars of its picture."""
    record = rows.named(test)
    return taken(
        AssumptionFacts,
        record,
        p_words=text.p_words(record.p_value),
        n_rows=sum(g.n for g in record.groups),
        n_known=rows.number((rows.d >= 0) & (rows.s >= 0)),
        sets=(_set(record),),
        tolerance=record.tolerance(),
        summary=record.summary(),
        clash=record.clash(),
        power=record.power(),
        quoted=quoted,
    )


def _set(test: AssumptionTest) -> ConfidenceSet:
    bars = tuple(Bar(g.group, g.n, g.lower, g.upper) for g in test.groups)
    return ConfidenceSet(test.positive, test.lower, test.upper, test.lower > test.upper, bars)


def learned_rate(job: Job, test: AssumptionFacts) -> LearnedRate | None:
    """Whether the rate of fair decisions that was learned is one that the rows leave possible."""
    if job.decisions or test.rejected or job.strata or job.strata.delta or not job.model._latent:
        return None
    model, rows = job.model, job.rows
    rates = dict(zip(rows.classes, map(float, model.fair_rate_), strict=True))
    (one,) = test.sets
    learned = rates[one.label]
    outside = not one.lower - _SEEN <= learned <= one.upper + _SEEN
    p = None
    if outside and job.tested is not None:
        p = job.tested.fit.p_value_of(learned)
    # By less than _SEEN beyond an end, it is shown as that end.
    shown = learned if outside else min(max(learned, one.lower), one.upper)
    sentence = (
        f"The fair rate may be anything from {text.span((one.lower, one.upper))}; where one number "
        f"is needed, the model uses {text.share(shown)}, chosen by a rule, not found."
    )
    said = "" if p is None else f" (p {text.p_words(p)})"
    if outside and (p is None or p < _RULED_OUT):
        sentence += (
            f" So the model does not describe these rows{said}, and its mechanism must not be read "
            "as what happened."
        )
    elif outside:
        sentence += (
            f" What was learned is outside of that range{said}: these rows speak against it, but "
            "do not rule it out, so do not rely on its mechanism."
        )
    sentence += _range_of_fit(job, test)
    return LearnedRate(one.label, learned, one.lower, one.upper, test.level, outside, sentence, p)


def _range_of_fit(job: Job, test: AssumptionFacts) -> str:
    """Why the fit gave another range; nothing where it gave none, or this is its own."""
    bounds = job.model.label_ends_
    if test.quoted or not isinstance(bounds, StratumBounds) or bounds.rejected(test.level):
        return ""
    lower, upper = bounds.rate_set(test.level)
    if lower > upper:
        return ""
    return (
        f" The fit left {text.span((lower, upper))} possible: it looked for the same range with "
        "its own classifier and one split of its rows, the audit with other classifiers and "
        f"{text.counted(test.n_seeds, 'split')}."
    )


def show_test(audit: blocks.Audit, test: AssumptionFacts) -> Iterator[blocks.Block]:
    """The outcome, what can be done about a rejection, and each set."""
    outcome = f"p {test.p_words}. {_UNSEEN} {test.power}".rstrip()
    headline = "Not rejected: the data do not contradict the assumptions."
    if test.rejected:
        headline = "Rejected: the data contradict the assumptions."
        outcome = f"p {test.p_words}. {text.sentence(test.clash)} {_FAILS}"
    yield blocks.Notice(headline, (outcome,), alert=test.rejected)
    if test.what_to_do:
        yield blocks.Paragraph("What can be done:")
        yield blocks.Points(test.what_to_do)
    for one in test.sets:
        yield _confidence_set(audit, one, test)
    yield blocks.Paragraph(
        "One of the assumptions is that features change the label through the fair decision only. "
        "If they also change its odds, given the fair decision and the group, by a limited factor "
        f"between two people, more rates are possible. {test.tolerance}".strip()
    )
    yield _by_features(test)
    fits = text.listed([f"{name} ({text.counted(n, 'fit')})" for name, n in test.classifiers])
    used = text.counted(test.n_known, "row")
    if test.n_rows < test.n_known:
        used = f"{text.count(test.n_rows)} of the {used} whose label and group are known,"
    how = (
        f"Computed on {used} by {test.method} over "
        f"{text.counted(test.n_seeds, 'way')} of splitting; classifiers: {fits}."
    )
    if not audit.data.fitted:
        how += " A fit on these rows has its own classifier and one split: its range differs a bit."
    if test.quoted:
        how = (
            f"These are the held-out rates of the fit itself, on {used}: what it printed and what "
            f"is said here is one number."
        )
    yield blocks.Paragraph(how, "note")


def _by_features(test: AssumptionFacts) -> blocks.TableBlock:
    """What is left where the label depends on features otherwise than through Df."""
    cells = []
    for altered in test.altered_by_features:
        low, high = altered.lower, altered.upper
        bounds = ("none", "none") if low > high else (low, high)
        cells.append((text.number(altered.gamma, 2), *bounds))
    head = (
        "Odds changed by a factor of",
        f"Lowest fair rate of {text.short(test.sets[0].label, 40)}",
        "Highest",
    )
    return blocks.TableBlock("Possible rates where features alter labels too", head, cells)


def _confidence_set(
    audit: blocks.Audit, one: ConfidenceSet, test: AssumptionFacts
) -> blocks.TableBlock:
    """The fair rates that each group leaves possible, and their overlap."""
    recorded, label = recorded_rates(audit, one.label), text.quoted(one.label)
    cells: list[tuple[Any, ...]] = [
        (bar.group, bar.n, recorded.get(bar.group), bar.lower, bar.upper) for bar in one.groups
    ]
    whole = ("none", "none") if one.empty else (text.share(one.lower), text.share(one.upper))
    whole_table = test.quoted and test.delta > 0
    name = "Whole table, by its groups" if whole_table else "Overlap of all groups"
    cells.append((name, "", "", *whole))
    note = f"The range of the fair rate that each group leaves, at {text.share(test.level, 0)}."
    rate = None if audit.mechanism is None else audit.mechanism.rate_of(one.label)
    if rate is not None:
        note += f" Point of the model: {text.share(rate)}."
    if test.rejected and not one.empty:
        note += (
            " The ranges still overlap, but only if the errors of both groups were as large as "
            "this at once: the test of their difference rules it out."
        )
    head = ("Group", "Rows", "Recorded", "Lowest", "Highest")
    return blocks.TableBlock(f"Possible fair rates of {label}", head, cells, note=note)


def recorded_rates(audit: blocks.Audit, label: str) -> dict[str, float]:
    """Share of a class among the recorded labels of each group that has a known one."""
    found = () if audit.labels is None else audit.labels.disparities
    return {g.group: g.mean for one in found if one.label == label for g in one.parity.groups}
