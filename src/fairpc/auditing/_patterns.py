"""Who is hit: discrimination patterns of the model, and the audited rows that they are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairpc.auditing._background import of_circuits
from fairpc.auditing._job import Job
from fairpc.auditing._numbers import counted, gap, share
from fairpc.auditing._rows import AuditedRows
from fairpc.core import Bools, Floats
from fairpc.data import SMALL
from fairpc.models import (
    MIN_SHARE,
    SIZE,
    THRESHOLD,
    CircuitClassifier,
    Outcome,
    Patterns,
    Question,
    find_patterns,
)

MOST_WORK: Final = 2e10
"""Multiplications that a further feature may take: about three seconds of one core."""

_CAUTIONS: Final = (
    "A pattern is a statement about the model: how its probability moves when the group is named "
    "beside what else is known. It is not a count of people who were treated wrongly.",
    "Compare the model with the rows. If the rows do not show the difference, the model made it: "
    "then distrust the model there first.",
    "A pattern is not unlawful by itself, and to find none clears nobody. It says where to look: "
    "at the reason for the difference, and at whether a value that is named may count at all.",
    "The patterns were picked from many candidates because they are large, so the numbers on the "
    "rows have no intervals and no p-values; on other rows they will tend to be smaller.",
    "The decision is that of the model. Where the data contradict its assumptions, the patterns "
    "still say whose scores it moves, but not what a fair decision would be.",
    "A pattern of few rows says little. Rows in which a named value or the group is missing are "
    "not counted.",
    "Values are those that the model uses: a number is a bin, and rare levels may be merged. "
    "Ranges that join several bins were not searched.",
)


@dataclass(frozen=True)
class FoundPattern:
    """A pattern of the model, and the audited rows that it is about."""

    group: Mapping[str, str]  #: sensitive attribute -> its value
    features: Mapping[str, str]  #: feature -> its value, a level or a bin
    difference: float  #: P(positive | group, features) less P(positive | features)
    rate: float  #: P(positive | group, features) under the model
    rate_of_all: float  #: P(positive | features) under the model
    share: float  #: P(group, features) under the model
    n_rows: int  #: audited rows of the group with these values
    n_alike: int  #: audited rows of any known group with these values
    #: of the first: share labelled positive, or mean score of the decision; None without such rows
    row_rate: float | None
    row_rate_of_all: float | None  #: the same of the second
    #: whether these two differ by more than the threshold, too, in the same direction
    in_rows: bool | None


@dataclass(frozen=True)
class PatternTable:
    """Patterns of one outcome, and why there are no others."""

    of: Outcome  #: "decision" or "label"
    positive: str  #: the class whose probability is compared
    size: int  #: most features of a pattern, besides the group
    threshold: float  #: above which a difference makes a pattern
    min_share: float  #: least P(group, features)
    n_found: int  #: patterns in all
    n_candidates: int  #: groups with values of up to so many features
    n_evaluated: int  #: candidates that were evaluated; the others were ruled out
    #: the largest difference, then of each percentage point the pattern of most people, unless one
    #: of a larger difference is of more
    patterns: tuple[FoundPattern, ...]
    account: str  #: what was searched, and why nothing was missed
    sentence: str  #: the largest in words


@dataclass(frozen=True)
class PatternFacts:
    """Who is hit, under the model."""

    decisions: PatternTable  #: of Df; of D where there is no hidden decision
    labels: PatternTable | None  #: of D; None where that is the decision
    cautions: tuple[str, ...]  #: what a pattern does not say


def pattern_facts(job: Job) -> PatternFacts:
    """Patterns of decisions and of labels, of groups that 30 of the audited rows would be in."""
    model = of_circuits(
        job, "there are no patterns: a classifier cannot sum out what a pattern does not name"
    )
    decisions = _table(model, job.rows, "decision")
    labels = _table(model, job.rows, "label") if model._latent else None
    return PatternFacts(decisions, labels, _CAUTIONS)


def _table(model: CircuitClassifier, rows: AuditedRows, of: Outcome) -> PatternTable:
    min_share = min(max(MIN_SHARE, SMALL / rows.n_rows), 0.5)
    size = min(SIZE, len(rows.features.names))
    asked = Question(of, rows.positive, size, THRESHOLD, min_share, "pareto", None, MOST_WORK)
    found = find_patterns(model.distribution_, model.coding_, asked)
    each = tuple(_on_rows(rows, found, i) for i in _one_per_point(found))
    return PatternTable(
        of=of,
        positive=found.positive,
        size=found.size,
        threshold=found.threshold,
        min_share=found.min_share,
        n_found=found.n_found,
        n_candidates=found.n_candidates,
        n_evaluated=found.n_evaluated,
        patterns=each,
        account=found.account,
        sentence=_sentence(found, each),
    )


def _one_per_point(found: Patterns) -> list[int]:
    """The first pattern, and of those that differ by the same points the one of most people.

    They come with falling difference and growing share; most are the next one with one more value.
    """
    points = [round(100 * abs(pattern.difference)) for pattern in found.patterns]
    last_of = {point: i for i, point in enumerate(points)}
    return sorted({*range(len(points))[:1], *last_of.values()})


def _on_rows(rows: AuditedRows, found: Patterns, i: int) -> FoundPattern:
    """A pattern with the rows that have its values."""
    alike = rows.s >= 0
    for j, v in enumerate(found.codes[i].tolist()):
        if v >= 0:
            alike &= rows.x[:, j] == v
    inside = alike & found.members[i][rows.s]
    if found.of == "label":
        known, values = rows.d >= 0, (rows.d == rows.positive) * 1.0
    else:
        known, values = rows.every, rows.scores[:, rows.positive]
    pattern, weights = found.patterns[i], rows.each_weight
    rate, of_all = (_mean(values, weights, where & known) for where in (inside, alike))
    in_rows = None
    if rate is not None and of_all is not None:
        way = 1.0 if pattern.difference > 0 else -1.0
        in_rows = way * (rate - of_all) > found.threshold
    return FoundPattern(
        group=pattern.group,
        features=pattern.features,
        difference=pattern.difference,
        rate=pattern.rate,
        rate_of_all=pattern.rate_of_all,
        share=pattern.share,
        n_rows=rows.number(inside),
        n_alike=rows.number(alike),
        row_rate=rate,
        row_rate_of_all=of_all,
        in_rows=in_rows,
    )


def _mean(values: Floats, weights: Floats, entries: Bools) -> float | None:
    total = float(weights[entries].sum())
    return float(values[entries] @ weights[entries]) / total if total else None


_OF: Final = {"decision": "the decision", "label": "the label"}


def _sentence(found: Patterns, each: tuple[FoundPattern, ...]) -> str:
    what = f"{_OF[found.of]} {found.positive!r}"
    if not each:
        return (
            f"Under the model, naming the group moves the probability of {what} by no more than "
            f"{gap(found.threshold)}, whatever else is known, up to "
            f"{counted(found.size, 'feature')}, where at least {found.min_share:.1%} of the people "
            "are concerned."
        )
    first = each[0]
    way = "more" if first.difference > 0 else "less"
    on_rows = ""
    if first.row_rate is not None:
        what_of_rows = "mean scores" if found.of == "decision" else "shares"
        on_rows = (
            f" In the audited rows the {what_of_rows} are {share(first.row_rate)} and "
            f"{share(first.row_rate_of_all)}."
        )
    return (
        f"Under the model, the largest difference is that of people with {_people(first)}: "
        f"{what} is {share(first.rate)} probable for them, and {share(first.rate_of_all)} for all "
        f"people with the same values, {gap(abs(first.difference))} {way}.{on_rows}"
    )


def _people(pattern: FoundPattern) -> str:
    parts = {**pattern.group, **pattern.features}
    return ", ".join(f"{name} {value!r}" for name, value in parts.items())
