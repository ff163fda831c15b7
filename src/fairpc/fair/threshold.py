"""From scores to decisions: one threshold, a selection rate, or rates made equal by group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpc.errors import LearningError
from fairpc.errors.arrays import Bools, Codes, Floats


@dataclass(frozen=True)
class Threshold:
    """Scores above the threshold are positive decisions.

    Attributes:
        values: one threshold, or one per group.
        unknown: threshold where the group is not known.
    """

    values: tuple[float, ...]
    unknown: float

    @property
    def by_group(self) -> bool:
        return len(self.values) > 1

    def decide(self, scores: Floats, groups: Codes | None) -> Bools:
        """Whether each score is above its threshold."""
        if not self.by_group or groups is None:
            return scores > (self.unknown if self.by_group else self.values[0])
        limits = np.append(self.values, self.unknown)[groups]
        result: Bools = scores > limits
        return result


def fixed(value: Any) -> Threshold:
    """The same threshold for everyone."""
    if not (isinstance(value, int | float | np.number) and 0.0 <= value <= 1.0):
        raise LearningError(f"the threshold is {value!r}: scores are probabilities, from 0 to 1")
    return Threshold((float(value),), float(value))


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


def _checked(rate: Any) -> float:
    if not (isinstance(rate, int | float | np.number) and 0.0 <= rate <= 1.0):
        raise LearningError(f"the selection rate is {rate!r}: give a share from 0 to 1")
    return float(rate)


def _cut(scores: Floats, rate: float) -> float:
    """A cut between two neighbouring scores, nearest to the rate."""
    if not len(scores):
        raise LearningError("no rows were given: a selection rate needs some")
    distinct = np.unique(scores)
    cuts = np.concatenate([[0.0], (distinct[:-1] + distinct[1:]) / 2, [1.0]])
    above = 1.0 - np.searchsorted(np.sort(scores), cuts, side="right") / len(scores)
    return float(cuts[np.argmin(np.abs(above - rate))])
