"""The label-bias mechanism: what the labels leave of P(D | Df, S), and how many were altered.

The range is the finding, and the point within it a convention. Both are those of the model's own
account of bias. Where the labels contradict the assumptions nothing is said about altered labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._assumptions import within_test
from fairpc.auditing._drawing import Row, ranges
from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows
from fairpc.core import AuditError, Floats
from fairpc.evidence import AssumptionTest, Interval
from fairpc.models import OUTSIDE, BiasAccount

_LONG: Final = 16  # rows of a table that is not folded
_DRAWN: Final = 12  # groups in pictures
NAMED: Final = 6
"""Groups that a sentence names; of more, those with the largest share of altered labels."""

_POINT: Final = (
    "The point is chosen by a rule, not found: it is one mechanism among all that the labels leave "
    "possible. The range is what they say."
)

MOSTLY_PRIOR: Final = "none: mostly prior rows"
"""Said in place of a point that has fewer rows than prior rows."""


@dataclass(frozen=True)
class MechanismCell:
    """P(D = label | Df = decision, S = group)."""

    group: str
    decision: str
    label: str
    probability: float  #: as learned
    count: float  #: estimated number of audited labels with this decision and label, at the point
    #: least and largest probability that held-out labels leave possible; None where they contradict
    #: the assumptions, and where no range was looked for
    range: Interval | None = None
    count_range: Interval | None = None  #: the same of the number of audited labels
    without_prior: float | None = None  #: the point without its prior rows; None: it has none
    mostly_prior: bool = False  #: whether more prior rows than rows decided: it is not learned


@dataclass(frozen=True)
class LabelChanges:
    """Labels of one group that differ from the fair decision, of the audited rows at the point."""

    group: str
    n: float  #: weight of the group
    up: float  #: labels altered to the positive class
    down: float  #: labels altered from the positive class
    other: float  #: labels altered between other classes
    up_range: Interval | None = None  #: least and largest number that the labels leave possible
    down_range: Interval | None = None  #: likewise


@dataclass(frozen=True)
class MechanismFacts:
    """What the model says about how labels came about, if its assumptions hold."""

    groups: tuple[str, ...]  #: names
    classes: tuple[str, ...]
    positive: str  #: the positive class
    decision_rate: tuple[float, ...]  #: P(Df = k), per class
    #: P(Df = k | group) by group where strata, by their mix, or delta let it differ; else empty
    group_decision_rate: tuple[tuple[float, ...], ...]
    cells: tuple[MechanismCell, ...]  #: the table, by group, then decision, then label
    turned: tuple[LabelChanges, ...]  #: per group
    #: one for each way in which labels of a group were altered, the range first; where the labels
    #: contradict the assumptions, that nothing is said about it
    sentences: tuple[str, ...]
    sentence: str  #: the whole in one
    contradiction: str = ""  #: how the labels contradict the assumptions; empty where they do not
    range_level: float | None = None  #: confidence in each range; None where there are none
    delta: float = 0.0  #: by how much the rates of two groups may differ, within a stratum
    #: fair rate of the positive class in the whole table, as the fit leaves it; None: not known
    rate_range: Interval | None = None
    alike: bool = False  #: whether recorded rates are equal within chance: nothing to explain
    withheld: str = ""  #: why nothing is said about altered labels; empty where something is
    outside: bool = False  #: whether the point is outside a range: it is not to be quoted

    @property
    def altered(self) -> tuple[MechanismCell, ...]:
        """The cells whose label is not the decision."""
        return tuple(cell for cell in self.cells if cell.label != cell.decision)

    def rate_of(self, label: str) -> float:
        """P(Df = label) as learned."""
        return self.decision_rate[self.classes.index(label)]


def mechanism_facts(job: Job) -> MechanismFacts:
    """The learned mechanism, and the labels it says were altered among the audited rows."""
    model, rows = job.model, job.rows
    if not model._latent:
        raise AuditError(
            f"{type(model).__name__} has no latent fair decision, so no mechanism between it and "
            "the label"
        )
    account = bias_account(job)
    by_group: tuple[tuple[float, ...], ...] = ()
    if job.strata or job.strata.delta:
        by_group = tuple(map(tuple, model.group_decision_rate_.tolist()))
    known = account.ranges is not None and not account.contradiction
    return MechanismFacts(
        groups=rows.groups,
        classes=rows.classes,
        positive=rows.positive_class,
        decision_rate=tuple(float(p) for p in model.fair_rate_),
        group_decision_rate=by_group,
        cells=tuple(_cells(account)),
        turned=tuple(_altered_labels(account, s, rows.positive) for s in range(len(rows.groups))),
        sentences=account.sentences,
        sentence=_sentence(account, rows.positive, bool((rows.s >= 0).any())),
        contradiction=account.contradiction,
        range_level=account.level if known else None,
        delta=job.strata.delta,
        rate_range=account.rate_range if known else None,
        alike=account.alike,
        withheld=account.withheld,
        outside=account.outside,
    )


def bias_account(job: Job) -> BiasAccount:
    """That of the fit; for other rows with their own counts. Silent where a test rejects."""
    rows, account, test = job.rows, job.model.explain_bias(), job.own_test
    account = replace(account, groups=rows.groups, classes=rows.classes)
    if rows.same_rows_as_fit and account.contradiction:
        return account
    counts = account.counts
    if not rows.same_rows_as_fit:
        counts = job.model._altered_counts(rows.given())
    counts = _as_recorded(rows, counts, job.min_cell)
    apart = not rows.same_rows_as_fit
    account = replace(account, counts=counts, training=account.counts, other_rows=apart)
    if test is None or not test.rejected:
        return account
    if isinstance(test, AssumptionTest):
        clash = rows.named(test).clash()
    else:
        clash = within_test(job, test).outcome
    return replace(account, contradiction=f"These labels contradict the assumptions: {clash}.")


def _as_recorded(rows: AuditedRows, counts: Floats, min_cell: int) -> Floats:
    """Counts [s, f, d] that add up to the recorded labels of each group; NaN where few have one.

    As they are where no group is known: they are inferred.
    """
    known = (rows.s >= 0) & (rows.d >= 0)
    if not known.any():
        return counts
    labels, people = np.zeros((2, len(rows.groups), len(rows.classes)))
    np.add.at(labels, (rows.s[known], rows.d[known]), rows.each_weight[known])
    np.add.at(people, (rows.s[known], rows.d[known]), rows.each_count[known])
    own = counts.sum(axis=1)
    # As they are where they add up but for rounding.
    ratio = np.divide(
        labels, own, out=np.ones_like(own), where=~np.isclose(own, labels) & (own > 0)
    )
    few = np.any((people > 0) & (people < min_cell), axis=1, keepdims=True)
    return counts * np.where(few, np.nan, ratio)[:, None]


def _cells(account: BiasAccount) -> Iterator[MechanismCell]:
    """A cell per group, decision and label; ranges where there are some."""
    counted = None if account.contradiction else account.count_ranges
    for at in np.ndindex(account.mechanism.shape):
        s, f, d = at
        names = account.groups[s], account.classes[f], account.classes[d]
        share, here = float(account.mechanism[at]), float(account.counts[at])
        span = labels = None
        if counted is not None and account.ranges is not None:
            span, labels = (_ends(of[at]) for of in (account.ranges, counted))
        bare = None if account.without_prior is None else float(account.without_prior[at])
        prior = bool(account.mostly_prior[s, f])
        yield MechanismCell(*names, share, here, span, labels, bare, prior)


def _ends(of: Floats | Interval) -> Interval | None:
    low, high = map(float, of)
    return (low, high) if low <= high else None


def _altered_labels(account: BiasAccount, s: int, positive: int) -> LabelChanges:
    counts = account.counts[s]
    off = counts - np.diag(np.diag(counts))
    up, down = float(off[:, positive].sum()), float(off[positive].sum())
    other = max(float(off.sum()) - up - down, 0.0)
    found = LabelChanges(account.groups[s], float(counts.sum()), up, down, other)
    counted = None if account.contradiction else account.count_ranges
    if counted is None:
        return found
    both = ((1 - positive, positive), (positive, 1 - positive))
    up_range, down_range = (_ends(counted[s, f, d]) for f, d in both)
    return replace(found, up_range=up_range, down_range=down_range)


def _sentence(account: BiasAccount, positive: int, grouped: bool) -> str:
    """The account in one: shares of each group, the range first; the point where there is none."""
    if account.withheld:
        return account.sentences[0]
    inferred = "" if grouped else " and with groups that it infers, because they are not known"
    begins, ranges, classes = f"If the assumptions hold{inferred}", account.ranges, account.classes
    if ranges is None:
        altered = (_altered_labels(account, s, positive) for s in range(len(account.groups)))
        said = _points((one for one in altered if one.n >= 0), classes[positive])
        if not said:
            return "Altered labels are not counted: too few people of each group have some label."
        return f"{begins}, the point of the model, whose range is not known, is that {said}."
    clauses = [
        f"of the people whose fair decision is {classes[f]!r}, "
        f"{_shares(account.groups, ranges[:, f, 1 - f])} were recorded {classes[1 - f]!r}"
        for f in (positive, 1 - positive)
    ]
    alike = f"{account.sentences[0]} " if account.alike else ""
    return f"{alike}{begins}, with {text.share(account.level, 0)} confidence: {'; '.join(clauses)}."


def _shares(groups: tuple[str, ...], ranges: Floats) -> str:
    """How large a share of each group, as ranges [group, end]; of many, the largest."""
    named = list(range(len(groups)))
    if len(groups) > NAMED:
        named = sorted(named, key=lambda s: -ranges[s, 1])[: NAMED - 1]
    each = [text.at_most(ranges[s].tolist(), word="between {} and {}") for s in named]
    parts = [f"{share} in group {groups[s]!r}" for share, s in zip(each, named, strict=True)]
    if len(named) < len(groups):
        most = float(np.delete(ranges[:, 1], named).max())
        return f"{', '.join(parts)} and at most {text.share(most)} in any other"
    return text.series(parts)


def _points(altered: Iterable[LabelChanges], positive: str) -> str:
    each = tuple(altered)
    named = each
    if len(each) > NAMED:
        named = tuple(sorted(each, key=lambda t: -(t.up + t.down) / max(t.n, 1.0))[: NAMED - 1])
    said = "; ".join(
        f"in group {t.group!r} {text.count(t.up)} of {t.n:,.0f} labels were altered to "
        f"{positive!r} and {text.count(t.down)} away from it"
        for t in named
    )
    if len(named) < len(each):
        said += f"; no larger share in any of the other {len(each) - len(named)} groups"
    return said


@blocks.section("mechanism", "How labels were altered")
def show_mechanism(audit: blocks.Audit, facts: MechanismFacts) -> Iterator[blocks.Block]:
    """What the labels leave of P(D | Df, S), then the point, and what it means for the rows."""
    if facts.withheld or audit.verdict.withdrawn:
        yield blocks.Notice("Nothing is said about altered labels.", _why(audit, facts), alert=True)
        yield replace(_table(facts), folded=True)
        return
    yield blocks.Paragraph(facts.sentence)
    if facts.range_level is not None:
        yield from _figures(audit, facts)
    else:
        yield _table(facts)
    yield blocks.Paragraph(f"{OUTSIDE if facts.outside else _POINT} {_rate_words(facts)}", "note")


def _why(audit: blocks.Audit, facts: MechanismFacts) -> tuple[str, ...]:
    """Why what the model learned is not a finding."""
    learned, said = audit.decidable.learned, list(audit.verdict.drift)
    if learned is not None and learned.outside:
        said.append(learned.sentence)
    elif facts.withheld and facts.withheld not in said:
        said.insert(0, facts.withheld)
    if not said and audit.review is not None:
        said += [*audit.review.missed, *audit.review.conclusions]
    return (*said, "What follows is what the model learned. It is not what happened.")


def _figures(audit: blocks.Audit, facts: MechanismFacts) -> Iterator[blocks.Figure]:
    """A picture for each way in which labels may be altered; the table of all below the first."""
    order = blocks.group_order(audit)
    first = sorted(facts.classes, key=lambda name: name != facts.positive)
    ways = [(f, d) for f in first for d in first if f != d]
    for decision, label in ways:
        cells = [c for c in facts.altered if (c.decision, c.label) == (decision, label)]
        rows = [
            Row(c.group, None, c.range, order[c.group], note=text.at_most(c.range))
            for c in cells[:_DRAWN]
        ]
        ends = [c.range[1] for c in cells if c.range]
        top = min(1.0, max(0.1, 1.15 * max(ends, default=0.0)))
        fair, recorded = map(audit.data.called, (decision, label))
        title = f"Deserved {text.due(fair)}, recorded {recorded}"
        sentence = (
            f"Of the people whose fair decision is {fair}, the share recorded {recorded}. Bar: "
            f"what the labels leave possible, with {text.share(facts.range_level, 0)} confidence."
        )
        picture = ranges(rows, extent=(0.0, top))
        table = _table(facts) if (decision, label) == ways[-1] else None
        yield blocks.Figure(title, sentence, picture, table)


def _table(facts: MechanismFacts) -> blocks.TableBlock:
    """A row per group and decision: how often another label was recorded."""
    known, bare = facts.range_level is not None, facts.cells[0].without_prior is not None
    head = ["Group", "Fair decision", "Recorded", *(("Possible", "Labels") if known else ())]
    head += ["Point", "Labels, point", *(["Point without prior rows"] if bare else ())]
    rows = []
    for cell in facts.altered:
        names = text.short(cell.group), text.short(cell.decision, 40), text.short(cell.label, 40)
        spans = text.at_most(cell.range), text.at_most(cell.count_range, text.count)
        point = text.share(cell.probability), text.count(cell.count)
        row = [*names, *(spans if known else ())]
        row += (MOSTLY_PRIOR, "") if cell.mostly_prior else point
        rows.append([*row, text.share(cell.without_prior)] if bare else row)
    counted = "Labels, point: by the features of these rows, so not just the point times rows."
    note = "No range is known: the fit did not look for one."
    if facts.range_level is not None:
        note = f"Possible: each range with {text.share(facts.range_level, 0)} confidence."
    note = f"{note} {counted}"
    caption = "How often the recorded label is not the fair decision"
    return blocks.TableBlock(caption, head, rows, words={1, 2}, note=note, folded=len(rows) > _LONG)


def _rate_words(facts: MechanismFacts) -> str:
    """P(Df): one for all groups, or with strata one for each, by their mix."""
    if not facts.group_decision_rate:
        rates = ", ".join(
            f"{text.quoted(name)} {text.share(rate)}"
            for name, rate in zip(facts.classes, facts.decision_rate, strict=True)
        )
        return f"The fair decision has the same rate in every group by construction: {rates}."
    k = facts.classes.index(facts.positive)
    rates = ", ".join(
        f"{text.share(rates[k])} in group {text.short(group, 40)}"
        for group, rates in zip(facts.groups, facts.group_decision_rate, strict=True)
    )
    if facts.delta:
        return (
            f"Rates of the fair decision differ by at most {text.gap(facts.delta)} between "
            "groups, by construction, where the model has strata within each. In the whole table "
            f"the rate of {text.quoted(facts.positive)} is {rates}."
        )
    return (
        "The fair decision has the same rate in every group within each stratum, by "
        f"construction. In the whole table the rate of {text.quoted(facts.positive)} is {rates}: "
        "the mix of strata alone makes them differ."
    )
