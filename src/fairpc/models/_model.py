"""What all fitted models share: means over groups that are not known, thresholds, contributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpc.core import Bools, Codes, Floats, Ints, LearningError


def over_groups(
    groups: Codes | None,
    n_rows: int,
    of: Callable[[Ints, Codes], Floats],
    chances: Callable[[Ints], Floats],
) -> Floats:
    """Probabilities of each row in its group; where that is not known, their mean under P(s | x).

    Args:
        groups: of the rows, -1 where one is not known; None where none is.
        n_rows: how many there are.
        of: rows by number and the group that each is taken to be in, to what is said of them.
        chances: rows by number to their P(s | x), rows × groups.
    """
    s = np.full(n_rows, -1, np.int16) if groups is None else groups
    known, unknown = np.flatnonzero(s >= 0), np.flatnonzero(s < 0)
    parts: list[tuple[Ints, Floats]] = []
    if len(known):
        parts.append((known, of(known, s[known])))
    if len(unknown):
        shares = chances(unknown)
        said = [of(unknown, np.full(len(unknown), g, np.int16)) for g in range(shares.shape[1])]
        # Shares may add up to more than 1 by rounding.
        mean = np.einsum("rs,sr...->r...", shares, np.stack(said)).clip(0.0, 1.0)
        parts.append((unknown, mean))
    result = np.empty((n_rows, *parts[0][1].shape[1:]))
    for rows, values in parts:
        result[rows] = values
    return result


@dataclass(frozen=True, eq=False)
class Contribution:
    """How one known value moved a score: the score with it minus the score without it."""

    feature: str
    value: object
    change: float
    sensitive: bool = False  #: it is the group, and "group" no name of a feature


@dataclass(frozen=True)
class Threshold:
    """Scores above the threshold are positive decisions."""

    values: tuple[float, ...]  #: one threshold, or one per group
    unknown: float  #: threshold where the group is not known

    def __post_init__(self) -> None:
        for value in (*self.values, self.unknown):
            _checked(value, "the threshold", "scores are probabilities, from 0 to 1")

    @property
    def by_group(self) -> bool:
        return len(self.values) > 1

    def decide(self, scores: Floats, groups: Codes | None) -> Bools:
        """Whether each score is above its threshold."""
        limits: Floats | float = self.unknown if self.by_group else self.values[0]
        if self.by_group and groups is not None:
            limits = np.append(self.values, self.unknown)[groups]
        return scores > limits


def fixed(value: Any) -> Threshold:
    """The same threshold for everyone."""
    return Threshold((value,), value)


def for_rate(scores: Floats, rate: float) -> Threshold:
    """The threshold above which this share of the given scores lies, as nearly as ties allow."""
    return fixed(_cut(scores, _checked(rate)))


def equalised(scores: Floats, groups: Codes, n_groups: int, rate: float | None = None) -> Threshold:
    """A threshold per group, so that each selects the same share of the given rows.

    Without ``rate`` the share is that of all scores above one half.
    """
    share = float((scores > 0.5).mean()) if rate is None else _checked(rate)
    missing = [s for s in range(n_groups) if not (groups == s).any()]
    if missing:
        raise LearningError(
            f"group {missing[0]} has no rows here: its threshold needs some; give more rows"
        )
    values = tuple(_cut(scores[groups == s], share) for s in range(n_groups))
    return Threshold(values, _cut(scores, share))


def _checked(
    share: Any, what: str = "the selection rate", rule: str = "give a share from 0 to 1"
) -> float:
    if not (isinstance(share, int | float | np.number) and 0.0 <= share <= 1.0):
        raise LearningError(f"{what} is {share!r}: {rule}")
    return float(share)


def _cut(scores: Floats, rate: float) -> float:
    """A cut between two neighbouring scores, nearest to the rate."""
    if not len(scores):
        raise LearningError("no rows were given: a selection rate needs some")
    distinct = np.unique(scores)
    cuts = np.concatenate([[0.0], (distinct[:-1] + distinct[1:]) / 2, [1.0]])
    above = 1.0 - np.searchsorted(np.sort(scores), cuts, side="right") / len(scores)
    return float(cuts[np.argmin(np.abs(above - rate))])
