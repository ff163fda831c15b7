"""The verdict of an audit: a finding that a person repeats, how sure it is, what to do on Monday.

What forbids to believe the mechanism is said before anything else: a rejection of the assumptions
or, of a model whose fair decision has drifted from the label, what the fit check said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._appendix import DISCLAIMER
from fairpc.auditing._assumptions import AssumptionFacts, contradiction_sentence, recorded_rates
from fairpc.auditing._drawing import Row, bars, ranges
from fairpc.auditing._error_rates import REVIEW, TWO_WAYS, ErrorFacts, Notion
from fairpc.auditing._job import Job
from fairpc.auditing._mechanism import MechanismCell, MechanismFacts
from fairpc.auditing._parity import selection_gap
from fairpc.auditing._review import AIM, ReviewedFact, ReviewFacts
from fairpc.auditing._rows import AuditedRows
from fairpc.auditing._strata import OwnStrata
from fairpc.auditing._table_facts import TableFacts
from fairpc.core import Record
from fairpc.data import SMALL
from fairpc.evidence import THROUGH_DF, Interval, either_way, quantile, wilson
from fairpc.models import ANYTHING_FROM, OVERLAP, apart

_NO_FINDING: Final = (
    "Do not quote how labels were altered, and do not defend decisions with it: read what this "
    "report says of it as a description of the model, not of the world."
)
_QUOTE_REVIEW: Final = "Quote the review on how labels were altered, not this model."
_ONLY_REVIEW: Final = (
    "; where some kinds of cases are recorded wrongly more often, only a review shows it"
)
_WIDE: Final = 0.05  # a gap in decisions that calls for a reason
_OPEN: Final = 0.1  # so many decisions that hang on what cannot be known are worth one, too
_NEXT_TO_NOTHING: Final = (
    "These labels say next to nothing about people who deserve the same: a review of some files "
    "would."
)
_DRAWN: Final = 12
_ASKED: Final = {"tpr": "are selected", "mechanism_1": "were recorded otherwise"}
_NAMED: Final = 3  # groups that a sentence names
_NOTIONS: Final[tuple[Notion, Notion]] = ("tpr", "fpr")


@dataclass(frozen=True)
class Verdict(Record):
    """A few sentences, in the order in which somebody asks: what, how sure, what now."""

    headline: str  #: the finding, in one sentence
    found: tuple[str, ...]  #: what else was found
    sure: tuple[str, ...]  #: how sure that is
    to_do: tuple[str, ...]  #: what to do about it
    #: whether the data contradict the assumptions; None where that was not tested
    rejected: bool | None
    #: whether the mechanism is not a finding: rejected, drifted, or outside what the rows leave
    withdrawn: bool
    #: what the check of the fit said; empty where Df is about the label
    drift: tuple[str, ...] = ()
    disclaimer: str = DISCLAIMER  #: what an audit is not

    _computed = ("sentences",)

    @property
    def sentences(self) -> tuple[str, ...]:
        """All findings, the headline first; what to do is not among them."""
        return (self.headline, *self.found, *self.sure)


UNSAID: Final = Verdict("", (), (), (), rejected=None, withdrawn=False)
"""In place of a verdict while the other sections are put together."""


def verdict(job: Job, found: blocks.Audit) -> Verdict:
    """Words for what the other sections found; ``found`` has all but these."""
    if job.decisions:
        return _of_decisions(job, found)
    decidable, review, drift = found.decidable, found.review, job.model.warnings_
    own = found.strata
    if decidable.rejected and found.mechanism is not None:
        # The headline says it, of these rows.
        drift = tuple(one for one in drift if one not in job.model.explain_bias().contradiction)
    learned, overruled = decidable.learned, _overruled(job, review)
    outside = learned is not None and learned.outside
    unsaid = found.mechanism is not None and found.mechanism.withheld
    withdrawn = bool(decidable.rejected or drift or outside or overruled or unsaid)
    lead: tuple[str, ...] = ()
    if decidable.rejected:
        lead = (_rejection(found, own),)
    elif drift:
        lead = "The mechanism of this model must not be read as what happened.", drift[0]
    elif learned is not None and learned.outside:
        lead = (learned.sentence,)
    elif found.mechanism is not None and unsaid and not overruled:
        lead = (found.mechanism.sentence,)
    elif not withdrawn:
        lead = _finding(job, found)
        if review is not None and lead:
            lead = (_by_labels(lead[0]), *lead[1:])
    amiss = [*_amiss(job, found)]
    said = [*lead, *amiss[:1], *_what_was_found(job, found, own, withdrawn)]
    sure = drift[1:]
    if review is not None:
        said[:0] = _by_review(found, review, "mechanism_1", "tpr")
        own_words, tests = _sure_of_review(review), (*review.missed, *review.conclusions)
        sure = (*tests, own_words, *sure) if overruled else (own_words, *tests, *sure)
    return Verdict(
        headline=said[0],
        found=tuple(said[1:]),
        sure=(*sure, *_sure(job, found, own, withdrawn, overruled)),
        to_do=tuple(_to_do(found, withdrawn, amiss[1:])),
        rejected=decidable.rejected,
        withdrawn=withdrawn,
        drift=drift,
    )


def _by_labels(sentence: str) -> str:
    """A sentence about what labels leave, beside what a review says of the same."""
    return f"By the labels alone, {sentence[:1].lower()}{sentence[1:]}"


def _overruled(job: Job, review: ReviewFacts | None) -> bool:
    """Whether reviewed rows contradict what the model assumes, or what labels alone leave."""
    if review is None:
        return False
    tied = not job.strata and not job.strata.delta
    unequal = tied and review.rates_p_value < 1 - review.level
    return bool(review.missed) or unequal or any(one.rejected for one in review.columns)


def _rejection(found: blocks.Audit, own: OwnStrata | None = None) -> str:
    """What cannot be: one fair rate for all, or one within strata."""
    if own is not None and own.test is not None:
        return f"No fair rate within strata explains these labels: {own.test.outcome}."
    test = found.decidable.test
    least = None if test is None else test.least_difference
    if test is None or least is None or least.limit <= test.delta:
        return f"No fair rate explains these labels: {'' if test is None else test.clash}."
    above, below = (found.data.who(str(group)) for group in (least.above, least.below))
    allowed = "one rate for all" if not test.delta else f"{text.gap(test.delta)} between groups"
    return (
        f"With {allowed} these labels cannot be explained: the fair rates of {above} and {below} "
        f"must differ by at least {text.size(least.limit)} points, or labels depend on features "
        "beyond the fair decision; the labels alone cannot say which."
    )


def _finding(job: Job, found: blocks.Audit) -> tuple[str, ...]:
    """How often labels were altered, as ranges, of the groups that were affected most and least.

    Where the ranges overlap, that comes first, as a fit says it.
    """
    mechanism, data = found.mechanism, found.data
    if mechanism is None or mechanism.range_level is None:
        return ()
    if mechanism.alike:
        groups = text.series([data.who(g) for g in mechanism.groups])
        both = groups if len(mechanism.groups) < 4 else "the groups"
        return (
            f"No difference between {both} needs explaining; errors that all share cannot be seen "
            "in such a table.",
        )

    def altered_most(worst: MechanismCell, least: MechanismCell) -> str:
        deserved, recorded = text.due(data.called(worst.decision)), data.called(worst.label)
        return (
            f"If {_tied(job, data)}, {_of_hundred(_span(worst))} of 100 {data.who(worst.group)} "
            f"who deserved {deserved} were recorded {recorded}; among {data.who(least.group)} "
            f"{_of_hundred(_span(least))}."
        )

    order = dict.fromkeys((mechanism.positive, *mechanism.classes))
    ways = [[c for c in mechanism.altered if c.decision == f and c.range] for f in order]
    ways = [cells for cells in ways if len(cells) > 1]
    for cells in ways:
        if differ := apart([_span(c) for c in cells]):
            return (altered_most(*(cells[s] for s in differ)),)
    if not ways:
        return ()
    cells = max(ways, key=lambda way: max(_span(c)[0] for c in way))
    worst = max(cells, key=_span)
    if _anything(_span(worst)):
        return (f"{OVERLAP}.",)
    least = min((c for c in cells if c is not worst), key=lambda c: _span(c)[1])
    return f"{OVERLAP}.", altered_most(worst, least)


def _tied(job: Job, data: TableFacts) -> str:
    """What the model assumes of fair rates."""
    both = "both" if len(data.groups) == 2 else "all"
    tied = f"{both} groups deserve {data.due} equally often"
    if delta := job.strata.delta:
        tied = f"fair rates of groups differ by at most {text.gap(delta)}"
    return tied + " within strata" * bool(job.strata)


def _span(cell: MechanismCell) -> Interval:
    return cell.range or (0.0, 0.0)


def _anything(interval: Interval) -> bool:
    """Whether a range leaves next to anything possible: 0 to 100 of a hundred is no finding."""
    return interval[1] - interval[0] > ANYTHING_FROM


def _of_hundred(interval: Sequence[float]) -> str:
    """A range of shares as people count: between 15 and 33, at most 8."""
    low, high = (round(100 * end) for end in interval)
    if high < 1:
        return "fewer than 1"
    if low == high:
        return f"about {low}"
    return f"between {low} and {high}" if low else f"at most {high}"


def _what_was_found(
    job: Job, found: blocks.Audit, own: OwnStrata | None, withdrawn: bool
) -> Iterator[str]:
    """How many labels were altered, and then what decisions of the model would change."""
    data = found.data
    if data.n_rows < data.n_table:
        yield _audited(data)
    if own is not None:
        yield from own.sentences[1:]
    # What is from none to all of a hundred is so in counts, too.
    said = found.mechanism is not None and not any(
        _anything(_span(c)) for c in found.mechanism.altered if c.decision == data.positive
    )
    if found.mechanism is not None and said and not withdrawn and found.review is None:
        yield _counts(_tied(job, data), data, found.mechanism)
    yield from _gap(found)
    if found.parity is None and data.n_grouped:
        yield (
            "Gaps between groups on these rows are not known: no two groups have known members "
            "among them."
        )
    elif found.parity is None:
        columns = "column" if len(data.sensitive) == 1 else "columns"
        yield (
            "Gaps between groups on these rows are not reported: the groups are not known. "
            f"Give the sensitive {columns} {', '.join(map(repr, data.sensitive))} with them."
        )
    if found.group_hidden is not None:
        yield found.group_hidden.sentence


def _amiss(job: Job, found: blocks.Audit) -> Iterator[str]:
    """Groups selected for less, or more, than can be fair, chance allowed for; and what to do.

    By the review where there is one, else by what labels leave: of all groups together where they
    are taken to deserve equally often, and are not contradicted, else of each group by itself.
    """
    data, test = found.data, found.decidable.test
    if found.review is not None:
        possible = {r.group: r.interval for r in found.review.rates if r.name == "fair_rate"}
    else:
        apart = 1.0 if job.strata or found.decidable.rejected else job.strata.delta
        sets = () if test is None else (s for s in test.sets if s.label == data.positive)
        possible = dict(pair for one in sets for pair in one.within(apart))
    decided = () if found.parity is None else found.parity.decisions
    groups = [g for d in decided if d.label == data.positive for g in d.parity.groups]
    z = quantile((1 + job.settings.level) / 2)
    amiss: dict[str, list[str]] = {"few": [], "many": []}
    cuts = []
    for group in (g for g in groups if g.group in possible):
        (low, high), (least, most) = wilson(group.mean, group.effective_n, z), possible[group.group]
        if least <= high and low <= most:
            continue
        how, fair, bound = ("few", least, "least") if high < least else ("many", most, "most")
        amiss[how].append(
            f"{text.share(group.mean)} of {data.who(group.group)}, and at {bound} "
            f"{text.share(fair)} of them all deserve it"
        )
        cuts.append(_cut(job.rows, group.group, fair))
    if cuts:
        said = data.called(data.positive)
        yield " ".join(
            f"Too {how} are decided {said} by the model: {'; '.join(of[:_NAMED])}."
            for how, of in amiss.items()
            if of
        )
        way, cut = ("higher", max(cuts)) if amiss["many"] else ("lower", min(cuts))
        which = f"a {way} threshold, such as {text.threshold(cut)},"
        if all(amiss.values()) or not 0.0 < cut < 1.0:
            which = "a threshold for each group"
        yield f"Choose {which} before you use decisions: under Gaps is what each selects."


def _cut(rows: AuditedRows, group: str, selected: float) -> float:
    """The score above which so large a share of a group is."""
    here = rows.s == rows.groups.index(group)
    scores, weights = rows.scores[here, rows.positive], rows.each_weight[here]
    return float(np.quantile(scores, 1 - selected, weights=weights, method="inverted_cdf"))


def _gap(found: blocks.Audit) -> Iterator[str]:
    """Decisions beside labels, or the labels alone."""
    if found.parity is not None and found.parity.change is not None:
        yield found.parity.change.sentence
    elif found.labels is not None:
        yield found.labels.sentence
    elif found.parity is not None:
        yield found.parity.sentences[-1]


def _counts(tied: str, data: TableFacts, mechanism: MechanismFacts) -> str:
    """Labels that were altered away from the positive class, as ranges; else the whole account."""
    if mechanism.range_level is None or len(mechanism.groups) > 3 or not data.n_grouped:
        return mechanism.sentence
    parts = []
    for one in mechanism.turned:
        if one.down_range is not None:
            low, high = map(text.count, one.down_range)
            many = f"at most {high}" if low == "0" else f"{low} to {high}"
            parts.append(f"{many} of {text.count(one.n)} {data.who(one.group)}")
    if not parts:
        return mechanism.sentence
    return (
        f"In counts, if {tied}: {text.series(parts)} deserved {data.due} and were "
        "recorded otherwise. Do not multiply shares instead: their ends belong to other fair rates."
    )


def _sure(
    job: Job, found: blocks.Audit, own: OwnStrata | None, withdrawn: bool, overruled: bool
) -> Iterator[str]:
    """How far the findings carry."""
    decidable, mechanism, reviewed = found.decidable, found.mechanism, found.review is not None
    if mechanism is not None and mechanism.range_level is not None and not withdrawn:
        same = "is the same in every group"
        if job.strata.delta:
            same = f"differs by at most {text.gap(job.strata.delta)} between groups"
        alone = "What the labels alone say holds with " * reviewed
        yield (
            f"{alone}{text.share(mechanism.range_level, 0)} confidence, if the label is what "
            f"somebody decided and not an outcome, the fair rate {same}"
            f"{' within strata' * bool(job.strata)}, and labels depend on features only through "
            f"the fair decision{_ONLY_REVIEW * (not reviewed)}."
        )
    test, learned = decidable.test, decidable.learned
    overruled = overruled and not decidable.rejected
    if overruled:
        yield "The labels alone do not contradict the assumptions of the model; the review does."
    elif own is not None:
        yield from (own.headline, own.sentences[0], own.argued)
    else:
        yield contradiction_sentence(test, decidable.untested, "" if test is None else test.clash)
    if learned is not None and not learned.outside and not overruled:
        yield _by_labels(learned.sentence) if reviewed else learned.sentence
    if found.data.n_rows == found.data.n_table:
        yield _audited(found.data)


def _to_do(found: blocks.Audit, withdrawn: bool, amiss: Sequence[str]) -> Iterator[str]:
    """The next steps that these findings call for, the most pressing first."""
    if not withdrawn:
        yield from amiss
    parity, identified = found.parity, found.decidable.identified
    if withdrawn and found.mechanism is not None:
        yield _NO_FINDING if found.review is None else _QUOTE_REVIEW
    plan = found.review_plan
    # How well the share that the finding is about would be known after a review.
    for one in () if plan is None else (q for q in plan.questions if q.name == "mechanism_1"):
        known, aim = either_way(one.half_width), either_way(one.aim)
        more = f"; for {aim} review {one.n_needed:,}" * (known != aim and one.half_width > one.aim)
        yield (
            f"Have {one.n:,} files reviewed: in each group, the share of those who deserved "
            f"{found.data.due} and were recorded otherwise would be known to "
            f"{known} points{more}."
        )
    yield from _files_that_decide(found, None, rejected=False)
    if parity is not None:
        change, gap = parity.change, max(d.gap for d in parity.decisions)
        if change is not None and change.outcome == "one class" and not (amiss or withdrawn):
            yield "Choose another threshold before you use decisions."
        if gap >= _WIDE and parity.equal_rates is not None:
            yield (
                f"Decisions differ by {text.gap(gap)} between groups. If they should "
                "not, choose a threshold for each group (under Gaps, with what it costs). "
                "Otherwise write down why they may differ."
            )
    left = None if identified is None or found.review is not None else identified.open
    if left is not None and left >= _OPEN:
        yield (
            f"For {text.share(left)} of the rows the decision depends on what these "
            "data cannot tell: a review decides that, too."
        )
    yield from _small(found.data)
    if found.data.same_rows_as_fit:
        yield "Audit files that the model has not seen: on its own rows it agrees too well."
    else:
        yield "Keep this report with the model, and audit again when new rows come in."


def _by_review(found: blocks.Audit, review: ReviewFacts, *names: str) -> Iterator[str]:
    """What reviewed rows say of some rates, a sentence each."""
    data = found.data
    are, by = ("would be", " by fairpc's model") if data.fitted else ("are", "")
    words = {
        "mechanism_1": f"who deserved {data.due} were recorded otherwise",
        "tpr": f"who deserve {data.due} {are} selected{by}",
        "fpr": f"who do not deserve {data.due} {are} selected{by} all the same",
    }
    for name in names:
        rates = sorted((r for r in review.rates if r.name == name), key=lambda r: r.value)
        if rates:
            ends, missed = (rates[0], *rates[-1:])[: len(rates)], name == "mechanism_1"
            shares = text.series([_reviewed_share(data, r, missed=missed) for r in ends])
            apart = _reviewed_gap(data, review, *ends, missed=missed) if len(ends) > 1 else ""
            yield f"By the review, {shares} {words[name]}{apart}."


def _reviewed_share(data: TableFacts, rate: ReviewedFact, *, missed: bool) -> str:
    """A rate of a group of a hundred; its limits alone where few rows carry it."""
    low, high = (1 - end for end in rate.interval[::-1]) if missed else rate.interval
    ends = text.ranged(100 * low, 100 * high)
    value = text.number(100 * (1 - rate.value if missed else rate.value), 0)
    one = rate.few or low == high
    return f"{ends if one else f'{value} ({ends})'} of 100 {data.who(rate.group)}"


def _reviewed_gap(
    data: TableFacts, review: ReviewFacts, one: ReviewedFact, other: ReviewedFact, *, missed: bool
) -> str:
    """How far the first group is above the second; open where that may be either way."""
    for gap in review.gaps:
        if gap.name == one.name and {gap.first, gap.last} == {one.group, other.group}:
            turned = (gap.last == one.group) == missed
            low, high = (-end for end in gap.interval[::-1]) if turned else gap.interval
            left_open = ", which is open" if low <= 0 <= high and low < high else ""
            return f": {data.who(one.group)} {text.more_often(low, high, 0)}{left_open}"
    return ""


def _sure_of_review(facts: ReviewFacts) -> str:
    if facts.n_drawn == facts.n_rows and not facts.n_blank:
        return (
            f"What the review says is exact, however labels were altered: all {facts.n_rows:,} "
            "rows have an answer."
        )
    return (
        f"What the review says holds with {text.share(facts.level, 0)} confidence, however labels "
        f"were altered: {facts.n_drawn:,} of {facts.n_rows:,} rows were drawn with known chances, "
        f"and {facts.n_drawn - facts.n_blank:,} have an answer."
    )


def _small(data: TableFacts) -> Iterator[str]:
    small = [group.name for group in data.groups if 0 < group.n < SMALL]
    if small:
        yield f"Get more rows of the groups with under {SMALL}: {', '.join(map(repr, small))}."


def _audited(data: TableFacts) -> str:
    which = {
        True: "the rows that the model was fitted to, so agreement with them is optimistic",
        False: "not exactly the rows that the model was fitted to, though some may be among them",
        None: "perhaps the rows that the model was fitted to: its file does not say",
    }[data.same_rows_as_fit]
    groups = f"in {len(data.groups)} groups" if data.n_grouped else "of unknown groups"
    if data.n_rows < data.n_table:
        return (
            f"Audited: a random sample of {data.n_rows:,} of the {data.n_table:,} rows of the "
            f"table, because its distinct rows do not fit into memory; {groups}. The table holds "
            f"{which}."
        )
    return f"Audited: {text.counted(data.n_rows, 'row')} {groups}, {which}."


def _of_decisions(job: Job, found: blocks.Audit) -> Verdict:
    """Words for decisions of anybody."""
    errors, review, test = found.error_rates, found.review, found.decidable.test
    rejected = test is not None and test.rejected and review is None
    said = [*_gap(found)]
    if review is not None:
        said[:0] = _by_review(found, review, "tpr", "fpr", "mechanism_1")
    elif errors is not None:
        doubt = [errors.rates.doubt] if errors.rates.doubt else []
        if rejected:
            doubt += [_rejection(found), TWO_WAYS]
        said = [*doubt, *_of_errors(found, errors), *said]
    else:
        said = [*_selected(found), *said]
    if found.factors is not None:
        said.append(found.factors.sentence)
    if found.parity is None:
        said.append(f"Gaps between groups are not known: {job.left_out['parity']}.")
    to_do = [*_files_that_decide(found, errors, rejected=rejected)]
    if not rejected and _unequal(review, errors):
        if review is None and not to_do:
            to_do.append("First have files reviewed: labels cannot show features that alter them.")
        to_do.append(
            "Write down why people who deserve the same may be decided differently, or change that."
        )
    elif not to_do:
        to_do.append("Keep this report, and audit again when new rows come in.")
    return Verdict(
        headline=said[0],
        found=tuple(said[1:]),
        sure=tuple(_sure_of_decisions(job, found)),
        to_do=(*to_do, *_small(found.data)),
        rejected=None if test is None else test.rejected,
        withdrawn=rejected,
    )


def _files_that_decide(
    found: blocks.Audit, errors: ErrorFacts | None, *, rejected: bool
) -> Iterator[str]:
    """Which files to look at, and how many, by what a review showed or the labels leave open."""
    review, data = found.review, found.data
    if review is not None:
        missed = [g for g in review.gaps if g.name == "mechanism_1"]
        apart = (g for g in missed if g.interval[0] > 0 or g.interval[1] < 0)
        for group in dict.fromkeys(g.first if g.value > 0 else g.last for g in apart):
            yield (
                f"Look again at files of {data.who(group)} who deserve {data.due} by their "
                "features and were recorded otherwise, and let no model learn from these labels "
                "as they are."
            )
        if review.more:
            files, known = f"about {review.more:,} more files", f"to ±{100 * AIM:.0f} points"
            if review.n_drawn + review.more >= review.n_rows:
                files, known = f"all {review.more:,} other files", "exactly"
            yield (
                f"Have {files} reviewed: the difference in how often those who deserve {data.due} "
                f"{_ASKED[review.asked]} would be known {known}."
            )
    elif rejected and found.review_plan is not None:
        yield (
            f"Have {found.review_plan.questions[0].n:,} files reviewed before you quote a "
            "difference: they can show a feature that alters labels, and fair rates that differ."
        )
    elif rejected or (errors is not None and errors.open and errors.reviews is None):
        yield REVIEW
    elif errors is not None and errors.reviews is not None:
        yield (
            f"Have about {errors.reviews:,} files reviewed: they would show the difference that is "
            "open, or rule out one of that size."
        )


def _unequal(review: ReviewFacts | None, errors: ErrorFacts | None) -> bool:
    """Whether people who deserve the same are decided differently, by the review or the labels."""
    if review is not None:
        ends = [gap.interval for gap in review.gaps if gap.name in _NOTIONS]
        return any(low > 0 or high < 0 for low, high in ends)
    return errors is not None and any(
        pair.sign(rate) != "undecided" for pair in errors.rates.differences for rate in _NOTIONS
    )


def _selected(found: blocks.Audit) -> Iterator[str]:
    """The gap of decisions; of groups of whom few are decided one way, nothing."""
    decided = () if found.parity is None else found.parity.decisions
    for one in (d for d in decided if d.label == found.data.positive):
        change = None if found.parity is None else found.parity.change
        if change is None or not any(map(text.missing, change.decision_rates)):
            yield selection_gap(one, found.data)


def _says_nothing(errors: ErrorFacts) -> bool:
    """Whether labels leave no sign of a difference, and next to anything possible."""
    return errors.is_vacuous("tpr") and not _unequal(None, errors)


def _of_errors(found: blocks.Audit, errors: ErrorFacts) -> Iterator[str]:
    """What labels say of people who deserve the same; where that is nothing, what is decided."""
    first, of = _errors(found.data, errors)
    if _says_nothing(errors):
        yield from _selected(found)
        first = _NEXT_TO_NOTHING
    yield first
    if not errors.is_vacuous(_NOTIONS[1 - of]):
        yield errors.conclusions[1 - of]


def _errors(data: TableFacts, errors: ErrorFacts) -> tuple[str, int]:
    """Whether people who deserve the same are treated alike, of the groups farthest apart.

    And which of the conclusions says the same.
    """
    who, said = data.who, data.due
    for kind, (rate, denied) in enumerate(zip(_NOTIONS, ("", "do not "), strict=True)):
        pair = errors.quoted(rate)
        low, high = getattr(pair, rate)
        if max(low, -high) > 0:
            more, less = (pair.last, pair.first) if low > 0 else (pair.first, pair.last)
            least, most = sorted((abs(low), abs(high)))
            return (
                f"If {THROUGH_DF}, {who(more)} who {denied}deserve {said} are selected "
                f"{text.more_often(least, most)} than {who(less)} who {denied.strip() or 'do'}."
            ), kind
    pair = errors.quoted("tpr")
    both = f"{who(pair.last)} and {who(pair.first)}"
    if not pair.is_open("tpr"):
        most = text.size(max(map(abs, pair.tpr)))
        alike = f"{both} who deserve {said} are selected equally often to within {most} points"
        return f"If {THROUGH_DF}, {alike}.", 0
    decided = ""
    if pair.tpr_reviews is not None:
        n, apart = pair.tpr_reviews, text.size(pair.detectable("tpr"))
        decided = f"; about {n:,} reviews would decide a difference of {apart} points"
    return (
        f"Whether {both} who deserve {said} are treated alike cannot be decided from these labels: "
        f"{who(pair.last)} may be selected {text.more_often(*pair.tpr)}{decided}."
    ), 0


def _sure_of_decisions(job: Job, found: blocks.Audit) -> Iterator[str]:
    data = found.data
    if found.review is not None:
        yield from (*found.review.missed, _sure_of_review(found.review))
    elif found.error_rates is None:
        why = text.sentence(job.left_out["error_rates"])
        yield f"Error rates against the fair decision are not known: {why}"
    elif not _says_nothing(found.error_rates):
        level = text.share(found.error_rates.rates.level, 0)
        yield (
            f"Each range holds with {level} confidence if the label is what somebody decided and "
            f"not an outcome, the decisions did not look at these labels and, within a group, "
            f"{THROUGH_DF}. Fair rates of the groups may differ."
        )
    if found.parity is not None:
        yield from found.parity.sentences[-1:]
    yield f"Audited: {text.counted(data.n_rows, 'row')} in {len(data.groups)} groups."


@blocks.section("verdict", "")
def show_verdict(audit: blocks.Audit, verdict: Verdict) -> Iterator[blocks.Block]:
    """The finding, one picture, and what a manager asks next."""
    yield blocks.Finding(verdict.headline, alert=verdict.withdrawn)
    picture = _reviewed_rates(audit) or _fair_rates(audit) or _rates(audit)
    if picture is not None:
        yield picture
    yield blocks.Brief(
        (
            ("What was found", verdict.found),
            ("How sure", verdict.sure),
            ("What to do on Monday", verdict.to_do),
        )
    )
    yield blocks.Paragraph(
        f"{verdict.disclaimer} No statistic can settle whether a decision was just.", "note"
    )


def _reviewed_rates(audit: blocks.Audit) -> blocks.Figure | None:
    """The fair rate of each group by the review, beside the recorded one."""
    if audit.review is None:
        return None
    fair = {r.group: (r.interval, r.recorded) for r in audit.review.rates if r.name == "fair_rate"}
    sure = f"by the review, with {text.share(audit.review.level, 0)} confidence"
    return _ranges(audit, audit.review.classes[1], fair, sure)


def _fair_rates(audit: blocks.Audit) -> blocks.Figure | None:
    """The range of the fair rate of each group, their overlap, and the recorded rates."""
    test = audit.decidable.test
    if test is None or len(test.sets) != 1:
        return None
    (one,) = test.sets
    recorded = recorded_rates(audit, one.label)
    fair = {bar.group: ((bar.lower, bar.upper), recorded.get(bar.group)) for bar in one.groups}
    shaded = audit.data.fitted and not one.empty and not test.rejected
    overlap = (one.lower, one.upper) if shaded else None
    sure = (
        "as far as the labels of each group leave it open, with "
        f"{text.share(test.level, 0)} confidence"
    )
    return _ranges(audit, one.label, fair, sure, f" {_shaded(audit, test)}", overlap)


def _ranges(
    audit: blocks.Audit,
    label: str,
    fair: Mapping[str, tuple[Interval, float | None]],
    sure: str,
    more: str = "",
    overlap: Interval | None = None,
) -> blocks.Figure:
    """A bar for the fair rate of each group, and a pin at the recorded one."""
    order, rows, said = blocks.group_order(audit), [], audit.data.called(label)
    for group, (bar, pin) in list(fair.items())[:_DRAWN]:
        who = audit.data.people.get(group, group).removeprefix("people in ")
        note = " to ".join(dict.fromkeys(text.share(end, 0) for end in bar))
        note += "" if pin is None else f", recorded {text.share(pin, 0)}"
        rows.append(Row(f"{who[:1].upper()}{who[1:]}", pin, bar, order[group], note))
    ends = [end for bar, pin in fair.values() for end in (*bar, pin) if end is not None]
    extent = max(0.0, min(ends) - 0.1), min(1.0, max(ends) + 0.1)
    due, picture = text.due(said), ranges(rows, overlap, extent=extent)
    return blocks.Figure(
        f"Who deserves {due}, and who was recorded so",
        f"Bar: the share that deserves {due}, {sure}. Pin: the share recorded {said}.{more}",
        picture,
        name="Fair rates and recorded rates by group",
    )


def _shaded(audit: blocks.Audit, test: AssumptionFacts) -> str:
    """Which fair rates are possible in all groups; with strata beside what the fit says."""
    (one,) = test.sets
    if one.empty or test.rejected:
        if audit.strata is not None:
            return (
                "No one rate fits all groups of the whole table, without strata; there the mix of "
                "strata alone may make rates differ."
            )
        if max(bar.lower for bar in one.groups) > min(bar.upper for bar in one.groups):
            return "The bars do not overlap: no one rate fits all groups."
        return "No one rate fits all groups: the difference of two is known better than each bar."
    span = text.span((one.lower, one.upper))
    if test.quoted and test.delta:
        return (
            f"Shaded: the fair rate of the whole table, {span}, if the rates of two groups differ "
            f"by at most {text.gap(test.delta)}."
        )
    if not audit.data.fitted:
        return "Nothing here assumes that one rate fits all groups."
    facts, within = audit.mechanism, ""
    if audit.strata is not None and facts is not None and facts.rate_range is not None:
        within = (
            " without strata. Within the strata of the model, the fair rate of the whole table may "
            f"be {text.span(facts.rate_range)}"
        )
    return f"Shaded: the rates that fit all groups, {span}{within}."


def _rates(audit: blocks.Audit) -> blocks.Figure | None:
    """Recorded rates, or decisions, of the groups where no fair rate is known."""
    labels = () if audit.labels is None else audit.labels.disparities
    decisions = () if audit.parity is None else audit.parity.decisions
    found, what = (labels, "recorded") if labels else (decisions, "decided")
    if not found:
        return None
    one, order = found[-1], blocks.group_order(audit)
    rows = [Row(g.group, g.mean, series=order[g.group]) for g in one.parity.groups[:_DRAWN]]
    said = f"{what} {audit.data.called(one.label)}"
    return blocks.Figure(f"Who was {said}", f"Share {said}, by group.", bars(rows))
