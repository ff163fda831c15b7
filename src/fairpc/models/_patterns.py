"""Discrimination patterns of a distribution, by a search that misses none.

A pattern is a group and values y of some features, such that naming the group moves the
probability of the positive outcome by more than a threshold:

    Δ(s, y) = P(positive | s, y) - P(positive | y)

(Choi, Farnadi, Babaki and Van den Broeck, "Learning Fair Naive Bayes Classifiers by Discovering
and Eliminating Discrimination Patterns", AAAI 2020, Definition 1). Selvam, Van den Broeck and Choi,
"Certifying Fairness of Probabilistic Circuits", AAAI 2023, search circuits for them by branch and
bound. So does this module, level by level: an assignment y is extended by values of features that
come after its own, and one pass over the circuit evaluates all extensions of an assignment.

What is left out is left out by two bounds that hold for every extension z of y, whatever the
circuit is, because probabilities only fall when more is known. With
a = P(s, positive, y), b = P(s, other, y), a' = P(not s, positive, y), b' = P(not s, other, y)
and m the least probability P(s, z) that is asked for:

    P(s, z) ≤ a + b
    Δ(s, z) ≤ min(a, m)/m · b'/(m + b'),    -Δ(s, z) ≤ min(b, m)/m · a'/(m + a')

The second is the largest Δ that any four numbers below a, b, a', b' have: Δ falls in a', grows in
b' and falls in b, so a' = 0, b' stays and b is what keeps P(s, z) at m; then a = min(a, m).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Final, Literal, NamedTuple

import numpy as np
import polars as pl

from fairpc.core import (
    Bools,
    Codes,
    Floats,
    Ints,
    LearningError,
    Record,
    check_choice,
    counted,
    map_in_order,
    serialise,
)
from fairpc.data import Groups, TableCoding
from fairpc.models._distribution import FairDistribution, Outcome
from fairpc.models._settings import is_whole

SIZE: Final = 3
THRESHOLD: Final = 0.05
TOP: Final = 20
MIN_SHARE: Final = 0.01
Kept = Literal["largest", "pareto"]
"""Which patterns are kept: those of largest |Δ|, or those no other exceeds in |Δ| and P(s, y)."""

CELLS: Final = 1 << 21
"""Numbers P(s, y, x_j = v) that are evaluated at once."""
ROUNDING: Final = 1e-9
"""Relative error that bounds allow for, so that rounding never rules out a pattern."""
LOST: Final = 1e-14
"""What rounding may take from a difference of probabilities, at most."""


@dataclass(frozen=True)
class Pattern:
    """People of a group who share some values, and how naming the group moves a probability.

    Attributes:
        group: sensitive attribute -> its value; several where attributes are crossed.
        features: feature -> its value, as the model codes it: a level or a bin.
        rate: P(positive | group, features).
        rate_of_all: P(positive | features), whatever the group.
        difference: the first less the second.
        share: P(group, features): how many people the model says there are.
    """

    group: Mapping[str, str]
    features: Mapping[str, str]
    rate: float
    rate_of_all: float
    difference: float
    share: float

    def __str__(self) -> str:
        return " and ".join(_words(part) for part in (self.group, self.features) if part)


@dataclass(frozen=True, eq=False)
class Patterns(Record):
    """Discrimination patterns of a model, and the account of every candidate.

    A candidate is a group with values of up to ``size`` features. A pattern is a candidate whose
    ``share`` is at least ``min_share`` and whose ``difference`` is above ``threshold``, up or down.
    ``n_evaluated`` + ``n_rare`` + ``n_bounded`` is ``n_candidates``: none was skipped.

    Attributes:
        of: "label" or "decision".
        outcome: "D" or "Df", what that is in this model.
        positive: the class whose probability is compared.
        size: most features of a pattern, besides the group.
        threshold: above which a difference makes a pattern.
        min_share: least P(group, features) of a pattern.
        kept: "largest", the patterns of largest difference; "pareto", those that no other exceeds
            in both difference and share.
        patterns: those that were kept, the largest difference first.
        n_found: patterns in all, kept or not.
        n_candidates: groups × assignments of values.
        n_evaluated: candidates whose difference was computed.
        n_rare: candidates of which a part is already rarer than ``min_share``.
        n_bounded: candidates of which a part, already, is rare or bounds the difference by the
            threshold, group by group.
        codes: of the features of each pattern, -1 where it does not name one.
        members: whether each value of S belongs to the group of each pattern.
    """

    of: Outcome
    outcome: str
    positive: str
    size: int
    threshold: float
    min_share: float
    kept: Kept
    patterns: tuple[Pattern, ...]
    n_found: int
    n_candidates: int
    n_evaluated: int
    n_rare: int
    n_bounded: int
    codes: Codes
    members: Bools

    _long = ("codes", "members")
    _computed = ("summary",)

    @property
    def frame(self) -> pl.DataFrame:
        """The patterns as a polars frame, a row each, groups and features in words."""
        words = [{"group": _words(p.group), "features": _words(p.features)} for p in self.patterns]
        numbers = ("rate", "rate_of_all", "difference", "share")
        schema = {"group": pl.String, "features": pl.String} | dict.fromkeys(numbers, pl.Float64)
        rows = [serialise(p) | said for p, said in zip(self.patterns, words, strict=True)]
        return pl.DataFrame(rows, schema=schema)

    @property
    def account(self) -> str:
        """What was searched, and why nothing was missed."""
        limit, least = _points(self.threshold), f"{self.min_share:.2%} of the people"
        parts = [
            f"There are {self.n_candidates:,} candidates: a group with values of up to "
            f"{counted(self.size, 'feature')}. {self.n_evaluated:,} were evaluated exactly."
        ]
        if self.n_rare:
            rarer = f"holds less than {least}" if self.min_share else "is impossible"
            parts.append(f"{self.n_rare:,} have a part that {rarer} by itself.")
        if self.n_bounded:
            parts.append(
                f"{self.n_bounded:,} have a part that leaves room for no difference above {limit} "
                "points."
            )
        held = f" that hold at least {least}" if self.min_share else ""
        parts.append(
            f"So all patterns{held} with a difference above {limit} points were found: "
            f"{self.n_found:,}."
        )
        return " ".join(parts)

    def summary(self) -> str:
        """The account, then a line per pattern."""
        lines = [
            f"{100 * p.difference:+.1f} points: P({self.outcome} = {self.positive}) is "
            f"{p.rate:.1%} for {p}, and {p.rate_of_all:.1%} whatever the group "
            f"({p.share:.2%} of the people)"
            for p in self.patterns
        ]
        if self.outcome == "Df":
            lines.append(
                "Df is at the point of the model: these are points, if its assumptions hold, whose "
                "ranges are not available."
            )
        return "\n".join((self.account, *lines))

    __str__ = summary


def _points(difference: float) -> str:
    return f"{100 * difference:.4g}"


def _words(part: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in part.items())


def find_patterns(distribution: FairDistribution, coding: TableCoding, asked: Question) -> Patterns:
    """The patterns of a distribution in names."""
    groups, members = named_groups(coding.groups)
    patterns, counts = search(distribution, members, asked)
    latent = asked.of == "decision" and distribution.layout.latent
    return Patterns(
        of=asked.of,
        outcome="Df" if latent else "D",
        positive=str(coding.labels.classes[asked.positive]),
        threshold=float(asked.threshold),
        min_share=float(asked.min_share),
        kept=asked.kept,
        patterns=tuple(_named(patterns, i, groups, coding) for i in range(len(patterns))),
        n_candidates=counts.n_evaluated + counts.n_rare + counts.n_bounded,
        **counts._asdict(),
        codes=patterns.x,
        members=members[patterns.group],
    )


def named_groups(groups: Groups) -> tuple[tuple[Mapping[str, str], ...], Bools]:
    """Values of one or several sensitive attributes, and the values of S that have them.

    With several attributes these are values of each, of each two, and so on up to whole groups;
    of those that the same people have, the one of fewest attributes.
    """
    cells = np.array(groups.cells)
    names: dict[bytes, Mapping[str, str]] = {}
    for size in range(1, len(groups.columns) + 1):
        for columns in combinations(range(len(groups.columns)), size):
            for values in np.unique(cells[:, columns], axis=0).tolist():
                members = (cells[:, columns] == values).all(axis=1)
                pairs = [(groups.columns[j], v) for j, v in zip(columns, values, strict=True)]
                name = {column.name: column.labels[v] for column, v in pairs}
                names.setdefault(members.tobytes(), name)
    masks = [np.frombuffer(members, np.bool_) for members in names]
    return tuple(names.values()), np.stack(masks)


def _named(
    patterns: PatternArrays, i: int, groups: tuple[Mapping[str, str], ...], coding: TableCoding
) -> Pattern:
    columns = zip(coding.features.columns, patterns.x[i].tolist(), strict=True)
    rate, difference = float(patterns.rate[i]), float(patterns.difference[i])
    return Pattern(
        group=groups[int(patterns.group[i])],
        features={column.name: column.labels[v] for column, v in columns if v >= 0},
        rate=rate,
        rate_of_all=rate - difference,
        difference=difference,
        share=float(patterns.share[i]),
    )


@dataclass(frozen=True)
class Question:
    """What is searched for; a LearningError names the first option that is wrong."""

    of: Outcome
    positive: int  #: the class whose probability is compared
    size: int  #: most features of a pattern, besides the group
    threshold: float  #: patterns have |Δ| above this
    min_share: float  #: patterns have P(s, y) of at least this
    kept: Kept = "largest"
    top: int | None = None  #: how many are kept at most; None for all
    #: multiplications that a further feature may take; where it would take more, the search ends
    #: with patterns of fewer features
    most_work: float | None = None

    def __post_init__(self) -> None:
        check_choice("of", self.of, ("label", "decision"))
        check_choice("keep", self.kept, ("largest", "pareto"))
        size, top = self.size, self.top
        if not (is_whole(size) and size >= 0):
            rule = "give how many features a pattern may name, from 0"
            raise LearningError(f"size is {size!r}: {rule}")
        if top is not None and not (is_whole(top) and top >= 1):
            raise LearningError(f"top is {top!r}: give a whole number from 1 on, or None for all")
        for name in ("threshold", "min_share"):
            value = getattr(self, name)
            number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not (number and 0 <= value < 1):
                raise LearningError(f"{name} is {value!r}: give a number from 0 to below 1")


@dataclass(frozen=True, eq=False)
class PatternArrays:
    """Patterns as codes, the largest |Δ| first; of equal ones those of larger share."""

    group: Ints  #: number of each pattern's group, a row of the ``members`` that were searched
    x: Codes  #: of the features, -1 where a pattern does not name one
    difference: Floats  #: Δ, signed
    rate: Floats  #: P(positive | s, y); P(positive | y) is ``rate`` less ``difference``
    share: Floats  #: P(s, y)

    def __len__(self) -> int:
        return len(self.group)

    def taken(self, which: Ints | Bools | slice) -> PatternArrays:
        """Some of them."""
        return PatternArrays(*(of[which] for of in vars(self).values()))

    def joined(self, other: PatternArrays) -> PatternArrays:
        """These and others."""
        mine, theirs = vars(self), vars(other)
        return PatternArrays(*(np.concatenate([mine[name], theirs[name]]) for name in mine))

    def ordered(self) -> PatternArrays:
        """The largest |Δ| first, then the largest share; ties by the codes."""
        keys = (self.group, *self.x.T[::-1], -self.share, -np.abs(self.difference))
        return self.taken(np.lexsort(keys))

    def undominated(self) -> PatternArrays:
        """Of ordered patterns those that are more probable than all of larger |Δ|.

        The Pareto optimal patterns of Selvam et al. (2023).
        """
        before = np.maximum.accumulate(np.append(-1.0, self.share))[:-1]
        return self.taken(self.share > before)


class Counts(NamedTuple):
    """How a search accounts for every candidate, as ``Patterns`` says it."""

    size: int
    n_evaluated: int
    n_rare: int
    n_bounded: int
    n_found: int


def search(
    distribution: FairDistribution, members: Bools, question: Question
) -> tuple[PatternArrays, Counts]:
    """The patterns of a distribution, and the account of all candidates.

    ``members`` says which values of S make up each group, groups × values of S.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    arities = distribution.layout.arities
    question = replace(question, size=min(int(question.size), len(arities)))
    finder = _Finder(distribution, members, question)
    first = finder.nothing_known()
    patterns, level, size = first.patterns, first.open, 0
    evaluated, found, settled = first.evaluated, first.found, [first.settled]
    most = math.inf if question.most_work is None else question.most_work
    while size < question.size and len(level) * distribution.extension_work <= most:
        size += 1
        opened = [level[:0]]
        settled.append(np.zeros_like(first.settled))
        blocks = list(finder.blocks(level, size))
        # Blocks have the cores: threads of linear algebra below them would wait for each other.
        with threadpool_limits(1, user_api="blas"):
            for step in map_in_order(finder.extended, blocks):
                patterns = finder.kept(patterns.joined(step.patterns))
                opened.append(step.open)
                evaluated, found = evaluated + step.evaluated, found + step.found
                settled[size] += step.settled
        level = np.concatenate(opened)
    later = assignments(arities, size)
    ruled_out = np.zeros(2, object)  # whole numbers of any size
    for k, n in enumerate(settled):
        ruled_out += len(members) * n @ np.array([sum(ways[: size - k]) for ways in later], object)
    bounded, rare = ruled_out.tolist()
    counts = Counts(size, evaluated, rare, bounded, found)
    return patterns.taken(slice(question.top)), counts


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Assignments: each row of ``x`` with each of some values more."""

    x: Codes
    feature: Ints  #: of each value
    code: Codes  #: the value
    size: int  #: features that are named, the value among them

    def codes(self, row: Ints, value: Ints) -> Codes:
        """Some of them, by row and value."""
        x = self.x[row]
        if self.size:
            x[np.arange(len(row)), self.feature[value]] = self.code[value]
        return x


@dataclass(frozen=True, eq=False)
class _Judged:
    """What was found of some candidates."""

    patterns: PatternArrays
    open: Codes  #: assignments whose extensions may be patterns
    evaluated: int  #: candidates
    found: int  #: patterns among them
    #: assignments that are not extended, by whether all groups are too rare in them, and by the
    #: number of their last feature, from 1; 0 where none is named
    settled: Ints


@dataclass(frozen=True, eq=False)
class _Finder:
    """Evaluates candidates for a question."""

    distribution: FairDistribution
    members: Bools
    question: Question

    @cached_property
    def arities(self) -> Ints:
        return np.array(self.distribution.layout.arities, np.int64)

    def nothing_known(self) -> _Judged:
        """The groups alone."""
        distribution, asked = self.distribution, self.question
        groups = np.arange(distribution.layout.n_groups)
        nothing = np.full((len(groups), len(self.arities)), -1, np.int16)
        query = distribution.observed if asked.of == "label" else distribution.decision
        rate = query(groups, nothing)[:, asked.positive]
        joint = distribution.group_rate[:, None] * np.stack([np.ones(len(rate)), rate], axis=1)
        alone = np.array([-1])
        candidates = _Candidates(nothing[:1], alone, alone.astype(np.int16), 0)
        return self.judged(candidates, joint[None, :, :, None])

    def blocks(self, x: Codes, size: int) -> Iterator[_Candidates]:
        """Extensions of assignments by one value of a later feature, few enough at once."""
        last = ((x >= 0) * np.arange(1, x.shape[1] + 1)).max(axis=1, initial=0) - 1
        feature = np.repeat(np.arange(len(self.arities)), self.arities)
        code = np.concatenate([np.arange(a, dtype=np.int16) for a in self.arities])
        for j in np.unique(last[last < len(self.arities) - 1]).tolist():
            later = feature > j
            rows = np.flatnonzero(last == j)
            n = max(1, CELLS // (2 * np.count_nonzero(later) * max(self.members.shape)))
            for start in range(0, len(rows), n):
                yield _Candidates(x[rows[start : start + n]], feature[later], code[later], size)

    def extended(self, candidates: _Candidates) -> _Judged:
        """Evaluate candidates that name a feature."""
        first, asked = int(candidates.feature[0]), self.question
        query = self.distribution.joint_with_values
        return self.judged(candidates, query(candidates.x, first, asked.of, asked.positive))

    def judged(self, candidates: _Candidates, joint: Floats) -> _Judged:
        """Patterns among candidates, and which of these to extend.

        ``joint`` is P(s, y) and P(s, positive, y): rows × groups × 2 × values.
        """
        asked = self.question
        either, positive = (
            np.einsum("rsv,gs->rvg", joint[:, :, o], self.members * 1.0, optimize=True)
            for o in range(2)
        )
        all_either, all_positive = (joint[:, :, o].sum(axis=1)[..., None] for o in range(2))
        with np.errstate(invalid="ignore", divide="ignore"):
            rate = positive / either
            difference = rate - all_positive / all_either
        frequent = (either >= asked.min_share * (1 - ROUNDING)) & (either > 0)
        is_found = (np.abs(difference) > asked.threshold) & (either >= asked.min_share)
        at = np.nonzero(is_found & frequent)
        x = candidates.codes(*at[:2])
        found = PatternArrays(at[2], x, difference[at], rate[at], either[at])
        counts = frequent.size, len(found)
        settled = np.zeros((2, len(self.arities) + 1), np.int64)
        if candidates.size == asked.size:
            return _Judged(self.kept(found), x[:0], *counts, settled)
        inside = positive, either - positive
        outside = all_positive - positive, all_either - all_positive - inside[1]
        bound = _bound(*inside, *outside, least=asked.min_share)
        is_open = (frequent & (bound * (1 + ROUNDING) > asked.threshold)).any(axis=2)
        opened = candidates.codes(*np.nonzero(is_open))
        is_rare = ~frequent.any(axis=2)
        for rare in (0, 1):
            n = (~is_open & (is_rare == rare)).sum(axis=0)
            np.add.at(settled[rare], candidates.feature + 1, n)
        return _Judged(self.kept(found), opened, *counts, settled)

    def kept(self, patterns: PatternArrays) -> PatternArrays:
        """Those that the question asks for, in order."""
        top = self.question.top
        if self.question.kept == "pareto":
            # A cut would let in again what was dominated by what it cut off: it comes last.
            return patterns.ordered().undominated()
        if top is not None and len(patterns) > top:
            size = np.abs(patterns.difference)
            patterns = patterns.taken(size >= np.partition(size, len(size) - top)[len(size) - top])
        return patterns.ordered().taken(slice(top))


def _bound(a: Floats, b: Floats, a_other: Floats, b_other: Floats, *, least: float) -> Floats:
    """The largest |Δ| of what is known besides, as long as P(s, y) is at least ``least``.

    See the module. Numbers are differences of probabilities: each may be too small by rounding,
    and without a least share a rest that was lost so could be all there is.
    """
    if least == 0:
        return np.ones_like(a)
    a, b, a_other, b_other = (np.maximum(p, 0.0) + LOST for p in (a, b, a_other, b_other))
    up = np.minimum(a, least) / least * b_other / (least + b_other)
    down = np.minimum(b, least) / least * a_other / (least + a_other)
    result: Floats = np.maximum(up, down)
    return result


def assignments(arities: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """How many ways there are to give values to 1, 2, … up to ``size`` of the last features.

    From the first feature on, from the second on, and so on to none: the elementary symmetric
    polynomials of their numbers of values.
    """
    counts = [1] + [0] * size
    found = [tuple(counts[1:])]
    for arity in reversed(arities):
        for k in range(size, 0, -1):
            counts[k] += arity * counts[k - 1]
        found.append(tuple(counts[1:]))
    return found[::-1]
