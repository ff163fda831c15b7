"""Splits of rows into training, validation and test parts, and rows dealt into folds."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from fairpc.core import Bools, FileFormatError, Ints, MetricError, Positions, check_classes

_SPLITS: Final = ("train", "valid", "test")


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
    units = None
    if persons is not None:
        names, units = check_classes("persons", persons, len(strata), by_case=True)
        if len(names) < k:
            raise MetricError(f"{len(names)} persons for {k} folds: give fewer folds")
    ids = deal(strata, units, k, np.random.default_rng(seed))
    return folds_of(ids, validation=validation, y=strata, persons=units, seed=seed)


def folds_of(
    fold_ids: npt.ArrayLike,
    *,
    validation: float | None = None,
    y: npt.ArrayLike | None = None,
    persons: npt.ArrayLike | None = None,
    seed: int = 0,
) -> tuple[Fold, ...]:
    """Folds that are given as a number per row: the fold in which the row is tested.

    Without ``validation`` there is no validation part. Folds come in the order of their ids.
    """
    names, ids = check_classes("fold_ids", fold_ids, by_case=True)
    share = 0.0 if validation is None else validation
    if not 0 <= share < 1:
        raise MetricError(f"validation is {validation}: give a share of at least 0 and below 1")
    strata = np.zeros(len(ids), np.intp) if y is None else check_classes("y", y, len(ids))[1]
    units = None
    if persons is not None:
        units = check_classes("persons", persons, len(ids), by_case=True)[1]
        pairs = np.unique(np.stack([units, ids], axis=1), axis=0)
        if len(pairs) > int(units.max()) + 1:
            raise MetricError("a person is in several folds: give each person one fold")
    if len(names) < 2:
        raise MetricError("fold_ids has 1 value: at least two folds are needed")
    folds = []
    for i in range(len(names)):
        rest = np.flatnonzero(ids != i)
        held = _validation(rest, strata, units, share, np.random.default_rng([seed, i]))
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


def read_folds(folder: str | os.PathLike[str], n_rows: int | None = None) -> tuple[Fold, ...]:
    """Folds of published files: ``train_ids.csv``, ``valid_ids.csv``, ``test_ids.csv``.

    Each has a header and one column per fold with row numbers from 1; shorter
    columns are padded with blanks. ``n_rows`` is the length of the table, if known.
    """
    parts = [_read_ids(Path(folder) / f"{part}_ids.csv") for part in _SPLITS]
    if len({len(part) for part in parts}) > 1:
        counts = ", ".join(f"{name} {len(part)}" for name, part in zip(_SPLITS, parts, strict=True))
        raise FileFormatError(f"{folder}: the files have different numbers of folds ({counts})")
    largest = max(int(rows.max()) for part in parts for rows in part if len(rows))
    if n_rows is not None and largest >= n_rows:
        raise FileFormatError(
            f"{folder}: row {largest + 1} is named and the table has {n_rows} rows: "
            "give the table that the folds were made for"
        )
    try:
        return tuple(Fold(*rows) for rows in zip(*parts, strict=True))
    except MetricError as error:
        raise FileFormatError(f"{folder}: {error}") from error


def _read_ids(path: Path) -> list[Ints]:
    """The columns of one file, as row numbers from 0."""
    import polars as pl

    try:
        table = pl.read_csv(path, infer_schema=False)
        filled = (column.str.strip_chars() for column in table)
        columns = [own.filter(own != "").cast(pl.Int64).to_numpy() - 1 for own in filled]
    except pl.exceptions.PolarsError as error:
        words = str(error).split("\n")[0]
        raise FileFormatError(f"{path} holds other than row numbers from 1: {words}") from error
    if not any(map(len, columns)) or any((column < 0).any() for column in columns):
        raise FileFormatError(f"{path}: give a header, and row numbers from 1")
    return columns
