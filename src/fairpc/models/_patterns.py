"""Discrimination patterns of a fitted circuit, by the names that its user knows.

The search and its bounds are in ``_pattern_search``; here are options, names and words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
import polars as pl

from fairpc.core import Bools, Codes, LearningError, Record, check_choice, counted, serialise
from fairpc.data import Groups, TableCoding
from fairpc.models._distribution import FairDistribution, Outcome
from fairpc.models._pattern_search import FoundPatterns, Kept, Question, search
from fairpc.models._settings import is_whole

SIZE: Final = 3
THRESHOLD: Final = 0.05
TOP: Final = 20
MIN_SHARE: Final = 0.01


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
        return " and ".join(
            ", ".join(f"{name} = {value}" for name, value in part.items())
            for part in (self.group, self.features)
            if part
        )


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
        rows = [
            serialise(pattern)
            | {"group": _words(pattern.group), "features": _words(pattern.features)}
            for pattern in self.patterns
        ]
        numbers = ("rate", "rate_of_all", "difference", "share")
        schema = {"group": pl.String, "features": pl.String} | dict.fromkeys(numbers, pl.Float64)
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
        return "\n".join((self.account, *lines))

    __str__ = summary


def _points(difference: float) -> str:
    return f"{100 * difference:.4g}"


def _words(part: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in part.items())


def question(
    coding: TableCoding,
    *,
    of: Any,
    positive: Any,
    size: Any,
    threshold: Any,
    min_share: Any,
    kept: Any,
    top: Any,
) -> Question:
    """Checked options of a search; a LearningError names the first that is wrong."""
    check_choice("of", of, ("label", "decision"))
    check_choice("keep", kept, ("largest", "pareto"))
    classes = coding.labels.classes
    if positive is not None and positive not in classes:
        names = ", ".join(str(c) for c in classes)
        raise LearningError(f"positive is {positive!r}: give a class of the label, {names}")
    if not (is_whole(size) and size >= 0):
        raise LearningError(f"size is {size!r}: give how many features a pattern may name, from 0")
    if top is not None and not (is_whole(top) and top >= 1):
        raise LearningError(f"top is {top!r}: give a whole number from 1 on, or None for all")
    for name, value in (("threshold", threshold), ("min_share", min_share)):
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not (number and 0 <= value < 1):
            raise LearningError(f"{name} is {value!r}: give a number from 0 to below 1")
    wanted = coding.labels.positive if positive is None else classes.index(positive)
    size = min(int(size), len(coding.features.names))
    return Question(of, wanted, size, float(threshold), float(min_share), kept, top)


def find_patterns(distribution: FairDistribution, coding: TableCoding, asked: Question) -> Patterns:
    """The patterns of a distribution in names."""
    groups, members = named_groups(coding.groups)
    found, counts = search(distribution, members, asked)
    n_candidates = counts.evaluated + counts.rare + counts.bounded
    latent = asked.of == "decision" and distribution.layout.latent
    return Patterns(
        of=asked.of,
        outcome="Df" if latent else "D",
        positive=str(coding.labels.classes[asked.positive]),
        size=counts.size,
        threshold=asked.threshold,
        min_share=asked.min_share,
        kept=asked.kept,
        patterns=tuple(_named(found, i, groups, coding) for i in range(len(found))),
        n_found=counts.found,
        n_candidates=n_candidates,
        n_evaluated=counts.evaluated,
        n_rare=counts.rare,
        n_bounded=counts.bounded,
        codes=found.x,
        members=members[found.group],
    )


def named_groups(groups: Groups) -> tuple[tuple[Mapping[str, str], ...], Bools]:
    """Values of one or several sensitive attributes, and the values of S that have them.

    With several attributes these are values of each, of each two, and so on up to whole groups;
    of those that the same people have, the one of fewest attributes.
    """
    cells = np.array(groups.cells)
    found: dict[bytes, Mapping[str, str]] = {}
    for size in range(1, len(groups.columns) + 1):
        for columns in combinations(range(len(groups.columns)), size):
            for values in np.unique(cells[:, columns], axis=0).tolist():
                members = (cells[:, columns] == values).all(axis=1)
                pairs = [(groups.columns[j], v) for j, v in zip(columns, values, strict=True)]
                name = {column.name: column.labels[v] for column, v in pairs}
                found.setdefault(members.tobytes(), name)
    masks = [np.frombuffer(members, np.bool_) for members in found]
    return tuple(found.values()), np.stack(masks)


def _named(
    found: FoundPatterns, i: int, groups: tuple[Mapping[str, str], ...], coding: TableCoding
) -> Pattern:
    columns = zip(coding.features.columns, found.x[i].tolist(), strict=True)
    rate, difference = float(found.rate[i]), float(found.difference[i])
    return Pattern(
        group=groups[int(found.group[i])],
        features={column.name: column.labels[v] for column, v in columns if v >= 0},
        rate=rate,
        rate_of_all=rate - difference,
        difference=difference,
        share=float(found.share[i]),
    )
