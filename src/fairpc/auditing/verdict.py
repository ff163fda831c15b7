"""The main findings in words. What forbids to believe the mechanism is said before anything else.

That is a rejection of the assumptions or, of a model whose Df has drifted from the label, what the
guard of its fit said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairpc.auditing.decidable import Decidable, decidable_facts
from fairpc.auditing.gaps import LabelDisparity, ParityFacts
from fairpc.auditing.job import Job
from fairpc.auditing.mechanism import MechanismFacts
from fairpc.auditing.numbers import counted
from fairpc.auditing.strata import OwnStrata, StrataFacts, strata_words
from fairpc.auditing.table import TableFacts

DISCLAIMER: Final = "This is evidence, not a certificate of compliance."


@dataclass(frozen=True)
class Verdict:
    """A few sentences."""

    headline: str  #: the first sentence
    sentences: tuple[str, ...]  #: all of them, the headline first
    #: whether the data contradict the assumptions; None where that was not tested
    rejected: bool | None
    #: what the guard said when the model was fitted; empty where Df is about the label
    drift: tuple[str, ...] = ()
    disclaimer: str = DISCLAIMER  #: what an audit is not


def verdict(job: Job) -> Verdict:
    """Words for what the other sections found."""
    data: TableFacts = job.found["data"]
    labels: LabelDisparity | None = job.found["labels"]
    mechanism: MechanismFacts | None = job.found["mechanism"]
    parity: ParityFacts | None = job.found["parity"]
    decidable = decidable_facts(job)
    drift = job.model.warnings_
    strata: StrataFacts | None = job.found["strata"]
    own = None if strata is None else strata.own
    sentences = [_assumptions(decidable) if own is None else _within_strata(own)]
    # Of assumptions that are rejected no model is right, whatever its Df describes.
    sentences[1 if decidable.rejected else 0 : 0] = map(_drifted, drift[:1])
    sentences += drift[1:]
    if own is not None:
        sentences += [*own.sentences[:1], own.argued]
    sentences.append(_rows(data))
    if labels is not None:
        sentences.append(labels.sentence)
    if own is not None:
        sentences += own.sentences[1:]
    if mechanism is not None and not decidable.rejected and not drift:
        sentences.append(mechanism.sentence)
    if decidable.identified is not None and not decidable.identified.empty:
        sentences.append(decidable.identified.sentence)
    if parity is not None:
        sentences += parity.sentences
    elif not data.n_grouped:
        columns = "column" if len(data.sensitive) == 1 else "columns"
        columns = f"{columns} {', '.join(map(repr, data.sensitive))}"
        sentences.append(
            "Gaps between groups on these rows are not reported: the groups are not known. "
            f"Give the sensitive {columns} with them."
        )
    else:
        sentences.append(
            "Gaps between groups on these rows are not known: no two groups have known members "
            "among them."
        )
    return Verdict(sentences[0], tuple(sentences), decidable.rejected, drift)


def _drifted(sentence: str) -> str:
    return f"The mechanism of this model must not be read as what happened. {sentence}"


def _assumptions(decidable: Decidable) -> str:
    test = decidable.test
    if test is None:
        return (
            "The assumptions behind a hidden fair decision were not tested on these rows: "
            f"{decidable.untested.rstrip('.')}."
        )
    if test.rejected:
        return (
            "These rows contradict the assumptions behind a hidden fair decision "
            f"(p {test.p_words}): no rate of fair decisions fits every group, so a mechanism "
            "learned under them must not be read as what happened."
        )
    return (
        "These rows do not contradict the assumptions behind a hidden fair decision "
        f"(p {test.p_words}); that does not show that they hold."
    )


def _within_strata(own: OwnStrata) -> str:
    """The same for a model whose Df is independent of S within strata only."""
    claim = f"a hidden fair decision that is independent of the group within {strata_words(own)}"
    test = own.test
    if test is None:
        why = own.untested.rstrip(".")
        return f"The assumptions behind {claim} were not tested on these rows: {why}."
    if test.rejected:
        return (
            f"These rows contradict the assumptions behind {claim} (p {test.p_words}): "
            f"{test.outcome}, so a mechanism learned under them must not be read as what happened."
        )
    return (
        f"These rows do not contradict the assumptions behind {claim} (p {test.p_words}); that "
        "does not show that they hold."
    )


def _rows(data: TableFacts) -> str:
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
    return f"Audited: {counted(data.n_rows, 'row')} {groups}, {which}."
