"""What an audit of anybody's decisions says in words: the verdict, what is assumed, provenance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fairpc.auditing import _formats as text
from fairpc.auditing._background import Caveats
from fairpc.auditing._error_rates import ASSUMED, REVIEW, ErrorFacts
from fairpc.auditing._factors import FactorGaps
from fairpc.auditing._gaps import LabelDisparity
from fairpc.auditing._job import Job
from fairpc.auditing._parity import ParityFacts
from fairpc.auditing._table_facts import TableFacts
from fairpc.auditing._verdict import DISCLAIMER, Verdict
from fairpc.data import SMALL

_LIMITS: Final = (
    "Fair rates of the groups may differ: nothing here assumes that they are equal.",
    "Every number measured against the recorded label inherits the errors of that label.",
    "Ranges cover what the labels leave open and sampling error. They do not cover rows that do "
    "not represent the people concerned.",
    "Whether whatever decides was made on these rows cannot be seen in general; decisions that "
    "plainly followed the labels are refused.",
    DISCLAIMER,
)


def decision_verdict(job: Job) -> Verdict:
    """Words for what the sections found."""
    errors: ErrorFacts | None = job.results["error_rates"]
    found = [*_found(job)]
    if errors is not None:
        found = [*errors.conclusions, *found]
    return Verdict(
        headline=found[0],
        found=tuple(found[1:]),
        sure=tuple(_sure(job, errors)),
        to_do=tuple(_to_do(job, errors)),
        rejected=None,
        withdrawn=False,
    )


def _found(job: Job) -> Iterator[str]:
    labels: LabelDisparity | None = job.results["labels"]
    parity: ParityFacts | None = job.results["parity"]
    factors: FactorGaps | None = job.results["factors"]
    if parity is not None and parity.change is not None:
        yield parity.change.sentence
    elif labels is not None:
        yield labels.sentence
    if factors is not None:
        yield factors.sentence
    if parity is None:
        yield f"Gaps between groups are not known: {job.left_out['parity']}."


def _sure(job: Job, errors: ErrorFacts | None) -> Iterator[str]:
    parity: ParityFacts | None = job.results["parity"]
    data: TableFacts = job.results["data"]
    if errors is None:
        why = job.left_out["error_rates"]
        yield f"Error rates against the fair decision are not known: {text.sentence(why)}"
    else:
        level = text.share(errors.rates.level, 0)
        yield (
            f"Each range holds with {level} confidence if the decisions did not look at these "
            "labels and, within a group, labels depend on features only through the fair decision. "
            "Fair rates of the groups may differ."
        )
    if parity is not None:
        yield from parity.sentences
    yield f"Audited: {text.counted(data.n_rows, 'row')} in {len(data.groups)} groups."


def _to_do(job: Job, errors: ErrorFacts | None) -> Iterator[str]:
    data: TableFacts = job.results["data"]
    if errors is not None and errors.open:
        yield REVIEW
    if errors is None or not errors.open:
        yield "Write down why decisions may differ between groups, or change how they are made."
    small = [group.name for group in data.groups if 0 < group.n < SMALL]
    if small:
        yield f"Get more rows of the groups with under {SMALL}: {', '.join(map(repr, small))}."
    yield "Keep this report with the model, and audit again when new rows come in."


def decision_limits() -> Caveats:
    """What the ranges assume, and what does not follow."""
    return Caveats(ASSUMED, (), _LIMITS)
