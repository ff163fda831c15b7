"""The verdict of an audit: the main findings in words, how sure they are, and what to do.

What forbids to believe the mechanism is said before anything else: a rejection of the assumptions
or, of a model whose Df has drifted from the label, what the check of its fit said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fairpc.auditing import _blocks as blocks
from fairpc.auditing import _formats as text
from fairpc.auditing._decidable import Decidable, decidable_facts
from fairpc.auditing._gaps import LabelDisparity
from fairpc.auditing._job import Job
from fairpc.auditing._mechanism import MechanismFacts
from fairpc.auditing._parity import ParityFacts
from fairpc.auditing._strata import OwnStrata, StrataFacts
from fairpc.auditing._table_facts import TableFacts
from fairpc.core import Record
from fairpc.data import SMALL
from fairpc.models import LatentDecision

DISCLAIMER: Final = "This is evidence, not a certificate of compliance."
_CONSEQUENCES: Final = (
    "Everything below that speaks of fair decisions or of a bias mechanism rests on assumptions "
    "which these rows contradict. Read it as a description of the model, not of the world."
)
_WIDE: Final = 0.05  # a gap in decisions that calls for a reason
_OPEN: Final = 0.1  # so many decisions that hang on what cannot be told do, too
_FIT_OTHERWISE: Final = "Before you say how labels were altered, fit a model that fits these rows."
_FROM_SCORES: Final = (
    "Try LatentDecision, which keeps to what its own classifier leaves possible, or strata (given)."
)
_STRATA: Final = (
    "Strata (given) may explain what it does not, and so may something that you know beforehand, "
    "which you can state (knowledge=…)."
)
_THRESHOLD: Final = "Choose a threshold before you use decisions (choose_threshold)."
_EQUAL_RATES: Final = "choose a threshold for each group (choose_threshold with equalise=True)"
_FIND_OUT: Final = (
    "Find out the right decision for some people (fair_labels=…), or state what you know "
    "beforehand (knowledge=…)."
)


@dataclass(frozen=True)
class Verdict(Record):
    """A few sentences, in the order in which somebody asks: what, how sure, what now."""

    headline: str  #: the first sentence
    found: tuple[str, ...]  #: what was found
    sure: tuple[str, ...]  #: how sure that is, besides the headline
    to_do: tuple[str, ...]  #: what to do about it
    #: whether the data contradict the assumptions; None where that was not tested
    rejected: bool | None
    #: whether the mechanism is no finding: rejected, drifted, or outside what the rows leave
    withdrawn: bool
    #: what the check of the fit said; empty where Df is about the label
    drift: tuple[str, ...] = ()
    disclaimer: str = DISCLAIMER  #: what an audit is not

    _computed = ("sentences",)

    @property
    def sentences(self) -> tuple[str, ...]:
        """All findings, the headline first; what to do is not among them."""
        return (self.headline, *self.found, *self.sure)


def verdict(job: Job) -> Verdict:
    """Words for what the other sections found."""
    decidable, drift = decidable_facts(job), job.model.warnings_
    strata: StrataFacts | None = job.results["strata"]
    mechanism: MechanismFacts | None = job.results["mechanism"]
    own = None if strata is None else strata.own
    if decidable.rejected and mechanism is not None:
        # The headline says it, of these rows.
        drift = tuple(one for one in drift if one not in job.model.explain_bias().contradiction)
    tested = decidable.headline if own is None else own.headline
    learned, first = decidable.learned, ""
    if drift:
        first = f"The mechanism of this model must not be read as what happened. {drift[0]}"
    elif learned is not None and learned.outside:
        first = learned.sentence
    withdrawn = bool(decidable.rejected or first)
    found, sure = [*_what_was_found(job, own, withdrawn)], [*drift[1:]]
    headline = tested
    # Of assumptions that are rejected no model is right, whatever its Df describes.
    if first and decidable.rejected:
        found.insert(0, first)
    elif first:
        headline = first
        sure.insert(0, tested)
    return Verdict(
        headline,
        tuple(found),
        (*sure, *_sure(job, decidable, own)),
        tuple(_to_do(job, decidable)),
        decidable.rejected,
        withdrawn,
        drift,
    )


def _what_was_found(job: Job, own: OwnStrata | None, withdrawn: bool) -> Iterator[str]:
    """What a reader compares first: decisions with labels. Then how labels came about."""
    data: TableFacts = job.results["data"]
    labels: LabelDisparity | None = job.results["labels"]
    mechanism: MechanismFacts | None = job.results["mechanism"]
    parity: ParityFacts | None = job.results["parity"]
    if data.n_rows < data.n_table:
        yield _audited(data)
    if parity is not None and parity.change is not None:
        yield parity.change.sentence
    elif labels is not None:
        yield labels.sentence
    if own is not None:
        yield from own.sentences[1:]
    if mechanism is not None and not withdrawn:
        yield mechanism.sentence
    if parity is not None:
        yield parity.sentences[0]
    elif not data.n_grouped:
        columns = "column" if len(data.sensitive) == 1 else "columns"
        columns = f"{columns} {', '.join(map(repr, data.sensitive))}"
        yield (
            "Gaps between groups on these rows are not reported: the groups are not known. "
            f"Give the sensitive {columns} with them."
        )
    else:
        yield (
            "Gaps between groups on these rows are not known: no two groups have known members "
            "among them."
        )


def _sure(job: Job, decidable: Decidable, own: OwnStrata | None) -> Iterator[str]:
    """How far the findings carry."""
    parity: ParityFacts | None = job.results["parity"]
    if parity is not None:
        yield from parity.sentences[1:]
    if own is not None:
        yield from (*own.sentences[:1], own.argued)
    learned, drift = decidable.learned, job.model.warnings_
    if learned is not None and (drift or not learned.outside):
        yield learned.sentence
    if decidable.identified is not None and not decidable.identified.empty:
        yield decidable.identified.sentence
    data: TableFacts = job.results["data"]
    if data.n_rows == data.n_table:
        yield _audited(data)


def _to_do(job: Job, decidable: Decidable) -> Iterator[str]:
    """The next steps that these findings call for, the most pressing first."""
    parity: ParityFacts | None = job.results["parity"]
    data: TableFacts = job.results["data"]
    test, learned, identified = decidable.test, decidable.learned, decidable.identified
    if decidable.rejected:
        advice = () if test is None else test.what_to_do
        yield from advice or ("Do not quote the mechanism, and do not defend decisions with it.",)
    elif job.model.warnings_ or (learned is not None and learned.outside):
        own = isinstance(job.model, LatentDecision)
        yield f"{_FIT_OTHERWISE} {_STRATA if own else _FROM_SCORES}"
    if parity is not None:
        change, decisions = parity.change, max(parity.decisions, key=lambda d: d.gap)
        if change is not None and change.outcome == "one class":
            yield (f"{_THRESHOLD} With the present one they hardly tell people apart.")
        if decisions.gap >= _WIDE and parity.equal_rates is not None:
            yield (
                f"Decisions differ by {text.gap(decisions.gap)} between groups. If they should "
                f"not, {_EQUAL_RATES}; the section on parity says what that costs. Otherwise write "
                "down why they may differ."
            )
    if identified is not None and identified.open is not None and identified.open >= _OPEN:
        yield (
            f"For {text.share(identified.open)} of the rows the decision depends on what these "
            f"data cannot tell. {_FIND_OUT}"
        )
    small = [group.name for group in data.groups if 0 < group.n < SMALL]
    if small:
        yield f"Get more rows of the groups with under {SMALL}: {', '.join(map(repr, small))}."
    if data.same_rows_as_fit:
        yield "Audit rows that the model has not seen: agreement on its own rows is optimistic."
    else:
        yield "Keep this report with the model, and audit again when new rows come in."


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


@blocks.section("verdict", "Verdict", lambda *_: "")
def show_verdict(audit: blocks.Audit, verdict: Verdict) -> Iterator[blocks.Block]:
    """The findings; a rejection of the assumptions, or a drift of Df, stands out."""
    consequences = (_CONSEQUENCES,) if verdict.rejected else ()
    yield blocks.Notice(verdict.headline, consequences, alert=verdict.withdrawn)
    yield blocks.KeyNumbers(_key_numbers(audit, verdict))
    yield blocks.Brief(
        (
            ("What was found", verdict.found),
            ("How sure it is", verdict.sure),
            ("What to do", verdict.to_do),
        )
    )
    yield blocks.Paragraph(
        f"{verdict.disclaimer} No statistic can settle whether a decision was just."
    )


def _key_numbers(audit: blocks.Audit, verdict: Verdict) -> list[tuple[str, str]]:
    """What a reader compares at first sight; how many rows there are stands under the title."""
    labels, parity = audit.labels, audit.parity
    pairs, ratios = [], {}
    for name, part in (
        ("labels", () if labels is None else labels.disparities),
        ("decisions", () if parity is None else parity.decisions),
    ):
        if part:
            worst = max(part, key=lambda d: d.gap)
            pairs.append((f"Gap in {name}, points", text.size(worst.gap)))
            ratios[name] = text.number(worst.parity.largest.impact_ratio, 2)
    if ratios:
        pairs.append((f"Impact ratio, {' → '.join(ratios)}", " → ".join(ratios.values())))
    if not audit.data.fitted:
        return [*pairs, *([] if audit.error_rates is None else audit.error_rates.key_numbers)]
    word = {True: "rejected", False: "not rejected", None: "not tested"}[verdict.rejected]
    if verdict.withdrawn and not verdict.rejected:
        word = "the model does not fit"
    within = " within strata" if audit.strata is not None and audit.strata.own is not None else ""
    return [*pairs, (f"Assumptions{within}", word)]
