"""What the data leave open at any number of rows: mechanisms and scores that fit alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairpc.auditing.naming import named
from fairpc.auditing.numbers import gap, share
from fairpc.auditing.rows import AuditedRows
from fairpc.errors import AuditError
from fairpc.errors.arrays import Floats
from fairpc.estimators.base import CircuitClassifier
from fairpc.evidence import AssumptionTest, IdentifiedSet, identified_set

N_BANDS: Final = 10


@dataclass(frozen=True)
class ScoreBand:
    """Rows of one group with scores in one tenth: between what bounds their scores may lie.

    Attributes:
        low, high: the tenth, of the model's own score.
        n: rows.
        score: mean of the model's score.
        lower, upper: mean bounds over everything that the data leave open.
    """

    group: str
    low: float
    high: float
    n: int
    score: float
    lower: float
    upper: float


@dataclass(frozen=True)
class IdentifiedFacts:
    """Mechanisms and scores that fit the same P(D = 1 | x, s); sampling error is not in it.

    Attributes:
        positive: the class.
        lower, upper: possible P(Df = positive); ``lower > upper`` is empty.
        empty: whether it is.
        groups: per group its bounds of P(Df), and ranges of b0 = P(D=1 | Df=0), b1 = P(D=1 | Df=1).
        bands: bounds of a person's score, by group and tenth of the model's score.
        mean_width: mean over rows of upper − lower bound; None where the set is empty.
        always, never, open: share of rows whose score is above the threshold, or below it,
            whatever is true; and share where it depends.
        sentence: in words.
    """

    positive: str
    lower: float
    upper: float
    empty: bool
    groups: tuple[Mapping[str, Any], ...]
    bands: tuple[ScoreBand, ...]
    mean_width: float | None
    always: float | None
    never: float | None
    open: float | None
    sentence: str


def identified_facts(
    model: CircuitClassifier, rows: AuditedRows, test: AssumptionTest | None
) -> IdentifiedFacts:
    """The identified set from the model's P(D = 1 | x, s), between held-out ends if tested."""
    if not model.distribution_.layout.latent:
        raise AuditError(f"{type(model).__name__} has no hidden decision to be identified")
    if len(rows.classes) > 2:
        raise AuditError(
            "the label has more than two classes: the closed form of the set is of two; see the "
            "bounds of the test"
        )
    kept = rows.comparable(rows.s >= 0)
    scores, groups, counts = rows.observed[kept, rows.positive], rows.s[kept], rows.each_count[kept]
    found = identified_set(scores, groups, ends=_ends(test, groups), counts=counts)
    own = rows.scores[kept, rows.positive]
    record = named(found, rows.groups)
    width = None if found.empty else found.score_spread
    always, never = (None, None) if found.empty else _shares(found, model.threshold_.unknown)
    undecided = None if always is None or never is None else 1 - always - never
    return IdentifiedFacts(
        positive=rows.classes[rows.positive],
        lower=found.lower,
        upper=found.upper,
        empty=found.empty,
        groups=record.table(),
        bands=() if found.empty else _bands(rows, found, own, groups, counts),
        mean_width=width,
        always=always,
        never=never,
        open=undecided,
        sentence=_sentence(record, rows.classes[rows.positive], width, undecided),
    )


def _sentence(
    found: IdentifiedSet, positive: str, width: float | None, undecided: float | None
) -> str:
    if width is None or undecided is None:
        low = max(found.groups, key=lambda g: g.lower)
        high = min(found.groups, key=lambda g: g.upper)
        return (
            f"No share of hidden decisions {positive!r} fits every group: {low.group!r} needs at "
            f"least {share(low.lower)}, {high.group!r} at most {share(high.upper)}."
        )
    return (
        "Even if P(D | X, S) were exactly as estimated, the share of hidden decisions "
        f"{positive!r} could be anything from {share(found.lower)} to {share(found.upper)}: a "
        f"person's score then ranges over {gap(width)} on average, and for {share(undecided)} of "
        "the rows the decision depends on it. The order of people within a group is fixed, the "
        "level and the spread of their scores are not."
    )


def _ends(test: AssumptionTest | None, groups: np.ndarray) -> dict[Any, tuple[float, float]] | None:
    """Held-out least and largest P(D = 1 | x, s) per group; None where one was not tested."""
    if test is None or test.positive is None:
        return None
    ends = test.ends()
    return None if set(groups.tolist()) - set(ends) else ends


def _shares(found: IdentifiedSet, threshold: float) -> tuple[float, float]:
    """Shares of rows that are above the threshold, and below it, whatever is true."""
    always = float(np.average(found.score_lower > threshold, weights=found.counts))
    return always, float(np.average(found.score_upper <= threshold, weights=found.counts))


def _bands(
    rows: AuditedRows, found: IdentifiedSet, own: Floats, groups: np.ndarray, counts: Floats
) -> tuple[ScoreBand, ...]:
    place = np.minimum((own * N_BANDS).astype(np.intp), N_BANDS - 1)
    result = []
    for g in np.unique(groups).tolist():
        for band in np.unique(place[groups == g]).tolist():
            here = (groups == g) & (place == band)
            score, lower, upper = (
                float(np.average(values[here], weights=counts[here]))
                for values in (own, found.score_lower, found.score_upper)
            )
            result.append(
                ScoreBand(
                    group=rows.groups[g],
                    low=band / N_BANDS,
                    high=(band + 1) / N_BANDS,
                    n=int(counts[here].sum()),
                    score=score,
                    lower=lower,
                    upper=upper,
                )
            )
    return tuple(result)
