"""Splits of rows into training, validation and test parts, and rows dealt into folds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairpc.core import Bools, Ints, MetricError, Positions, check_classes


@dataclass(frozen=True, eq=False)
class Fold:
    """Row numbers, from 0, of the three parts; they do not overlap."""

    train: Ints
    valid: Ints
    test: Ints

    def __post_init__(self) -> None:
        rows = np.concatenate([self.train, self.valid, self.test])
        if len(rows) and rows.min() < 0:
            raise MetricError("a fold has a negative row number: rows are counted from 0")
        values, counts = np.unique(rows, return_counts=True)
        if len(values) < len(rows):
            raise MetricError(f"row {values[np.argmax(counts > 1)]} is twice in one fold")
        if not len(self.train) or not len(self.test):
            raise MetricError("a fold has no training or no test rows: give more rows")

    @property
    def fit(self) -> Ints:
        """Training and validation rows, in order."""
        return np.sort(np.concatenate([self.train, self.valid]))


def stratified_folds(
    y: npt.ArrayLike,
    k: int = 10,
    *,
    validation: float = 0.1,
    persons: npt.ArrayLike | None = None,
    seed: int = 0,
) -> tuple[Fold, ...]:
    """k folds in which each class has about its share; each row is tested once.

    Args:
        y: class per row; to stratify by group as well, give the crossed labels.
        k: number of folds.
        validation: share of the rows outside the test part that go to validation; may be 0.
        persons: who each row is about, where persons repeat; a person is in one part only.
        seed: of the shuffle.
    """
    strata = check_classes("y", y)[1]
    if not 2 <= k <= len(strata):
        raise MetricError(f"k is {k}: give a number of folds from 2 to the rows ({len(strata)})")
    if not 0 <= validation < 1:
        raise MetricError(f"validation is {validation}: give a share of at least 0 and below 1")
    units = None
    if persons is not None:
        names, units = check_classes("persons", persons, len(strata), by_case=True)
        if len(names) < k:
            raise MetricError(f"{len(names)} persons for {k} folds: give fewer folds")
    ids = deal(strata, units, k, np.random.default_rng(seed))
    folds = []
    for i in range(k):
        rest = np.flatnonzero(ids != i)
        held = _validation(rest, strata, units, validation, np.random.default_rng([seed, i]))
        folds.append(Fold(rest[~held], rest[held], np.flatnonzero(ids == i)))
    return tuple(folds)


def deal(
    labels: Positions | Ints, persons: Positions | None, k: int, rng: np.random.Generator
) -> Positions:
    """A fold per row: shuffled, sorted by class, dealt in turn; a person is in one fold only."""
    if persons is not None:
        _, first, person = np.unique(persons, return_index=True, return_inverse=True)
        return deal(labels[first], None, k, rng)[person]
    folds = np.empty(len(labels), np.intp)
    folds[_shuffled(labels, rng)] = np.arange(len(labels)) % k
    return folds


def _shuffled(labels: Positions | Ints, rng: np.random.Generator) -> Positions:
    """Rows in the order in which they are dealt: one class after the other, each shuffled."""
    shuffled = rng.permutation(len(labels))
    if labels.max(initial=0) < 2**15:  # Short integers are sorted in linear time.
        labels = labels.astype(np.int16)
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


def _validation(
    rest: Ints, strata: Positions, units: Positions | None, share: float, rng: np.random.Generator
) -> Bools:
    """Which of the rows go to validation: every 1/share-th row, or person, of each stratum."""
    if share == 0:
        return np.zeros(len(rest), np.bool_)
    cards, of_row = rest, np.arange(len(rest))
    if units is not None:
        _, first, of_row = np.unique(units[rest], return_index=True, return_inverse=True)
        cards = rest[first]
    turns = np.floor((np.arange(len(cards)) + 1) * share + 1e-9)
    held = np.zeros(len(cards), np.bool_)
    held[_shuffled(strata[cards], rng)] = np.diff(turns, prepend=0.0) > 0
    return np.asarray(held[of_row], np.bool_)
