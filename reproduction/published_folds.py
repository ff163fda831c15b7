"""The authors' folds: files of row numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import polars as pl

from fairpc.core import FileFormatError, Ints, MetricError
from fairpc.metrics import Fold

_SPLITS: Final = ("train", "valid", "test")


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
