"""The tables of the experiments as rows of codes, with their folds.

Either the authors' files (``processed/``, ``synthetic/`` and ``splits/`` of one
folder), or the same tables made by the loaders, with stratified folds of our own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from fairpc import datasets
from fairpc.core import Array, Ints
from fairpc.errors import FairpcError, FileFormatError
from fairpc.metrics import Fold, stratified_folds
from fairpc.models import Rows
from reproduction import compas
from reproduction.published_folds import read_folds

if TYPE_CHECKING:
    from fairpc.circuit import Circuit


REAL_WORLD: Final = ("compas", "adult", "german")
TITLES: Final = {"compas": "COMPAS", "adult": "Adult", "german": "German"}
ROLES: Final = {
    "compas": ("ScoreText_", "Ethnic_Code_Text_"),
    "adult": ("target", "sex"),
    "german": ("loan_status", "sex"),
}
"""Label and sensitive attribute in the authors' files."""
SYNTHETIC_ROLES: Final = ("D", "S")
N_FOLDS: Final = 10
N_SYNTHETIC_ROWS: Final = 10_000
SHARED_SIZES: Final = range(10, 28)
"""Numbers of features for which the authors' folder has synthetic tables."""
_MAX_BYTES: Final = 2**28


@dataclass(frozen=True, eq=False)
class PaperTable:
    """A binary table of the experiments."""

    name: str  #: "compas", "adult", "german", or the number of features of a synthetic table
    rows: Rows  #: groups, labels and features
    folds: tuple[Fold, ...]  #: training, validation and test rows
    truth: Ints | None = None  #: the true Df, where it is known
    model: Circuit | None = None  #: the distribution the rows were drawn from, where it is known
    persons: Ints | None = None  #: a number per person, where it is known that persons repeat

    @property
    def title(self) -> str:
        return title_of(self.name)

    @property
    def decisions(self) -> Array:
        """What predictions are compared with: the true Df, or the label where it is not known."""
        return self.rows.d if self.truth is None else self.truth


def title_of(name: str) -> str:
    """Title of the table of this name."""
    return TITLES.get(name, f"synthetic, {name} features")


@dataclass(frozen=True)
class Sources:
    """Where the tables and folds come from."""

    data_dir: Path | None = None  #: the authors' processed/ and synthetic/; None: loaders
    splits: Path | None = None  #: the authors' folds, a folder per table; None: our own
    quick: bool = False  #: two folds instead of ten
    seed: int = 0  #: of our own folds and draws

    def real_world(self) -> tuple[tuple[PaperTable, ...], tuple[str, ...]]:
        """The real-world tables that can be had, and a sentence for each that cannot."""
        tables, absent = [], []
        for name in REAL_WORLD:
            try:
                tables.append(self.table(name))
            except FairpcError as error:
                # What the user names must be there; what has to be fetched may be out of reach.
                if self.data_dir is not None:
                    raise
                absent.append(f"{TITLES[name]} is left out: {error}")
        return tuple(tables), tuple(absent)

    def table(self, name: str) -> PaperTable:
        """One of the real-world tables."""
        if self.data_dir is None:
            rows, persons = _computed(name)
        else:
            path = self.data_dir / "processed" / f"{name}_binerized.csv"
            rows, _ = read_table(path, *ROLES[name])
            persons = _known_persons(name, rows.n_rows)
        return PaperTable(name, rows, self._folds(name, rows, persons), persons=persons)

    def synthetic(self, n_features: int) -> PaperTable:
        """A synthetic table: the authors' where they gave one, else a draw of our own."""
        name = str(n_features)
        if self.data_dir is not None and n_features in SHARED_SIZES:
            path = self.data_dir / "synthetic" / f"{name}.csv"
            rows, truth = read_table(path, *SYNTHETIC_ROLES)
            return PaperTable(name, rows, self._folds(f"synthetic/{name}", rows), truth)
        return drawn(n_features, self.seed, self.folds_used)

    @property
    def folds_used(self) -> int:
        """How many folds of a table are run."""
        return 2 if self.quick else N_FOLDS

    def _folds(self, name: str, rows: Rows, persons: Ints | None = None) -> tuple[Fold, ...]:
        if self.splits is None:
            return own_folds(rows, self.seed, persons)[: self.folds_used]
        folder = self.splits / name
        if not folder.is_dir():
            raise FileFormatError(
                f"{folder} is not a folder: give with --splits a folder laid out as the authors' "
                "splits, one folder per table"
            )
        return read_folds(folder, rows.n_rows)[: self.folds_used]


def folds_in_words(tables: Sequence[PaperTable]) -> str:
    """How many of the ten folds of these tables were run."""
    counts = sorted({len(table.folds) for table in tables})
    return f"Run on {' or '.join(map(str, counts))} of the {N_FOLDS} folds of each table."


def own_folds(rows: Rows, seed: int, persons: Ints | None = None) -> tuple[Fold, ...]:
    """Ten folds in which each (label, group) has its share, and a person is in one part only."""
    cells = rows.d.astype(np.int64) * rows.n_groups + rows.s
    return stratified_folds(cells, N_FOLDS, validation=0.1, persons=persons, seed=seed)


def drawn(n_features: int, seed: int, n_folds: int) -> PaperTable:
    """A draw of the paper's process (Section "Synthetic Data")."""
    rng = np.random.default_rng([seed, n_features])
    data = datasets.make_synthetic(n_features, N_SYNTHETIC_ROWS, rng, trees="shared")
    rows = _coded(data.frame.drop("Df"), *SYNTHETIC_ROLES)
    truth = data.df.to_numpy().astype(np.int64)
    folds = own_folds(rows, seed)[:n_folds]
    return PaperTable(str(n_features), rows, folds, truth, data.model)


def read_table(path: Path, label: str, sensitive: str) -> tuple[Rows, Ints | None]:
    """A binary CSV table of the authors, and the true Df where it has that column."""
    if not path.is_file():
        raise FileFormatError(
            f"{path} does not exist: give with --data-dir a folder that has processed/ and "
            "synthetic/, as the authors' data have"
        )
    if path.stat().st_size > _MAX_BYTES:
        raise FileFormatError(f"{path} is larger than {_MAX_BYTES:,} bytes: no such table is")
    with path.open(encoding="utf-8") as file:
        header = file.readline().strip().split(",")
        lacking = [c for c in (label, sensitive) if c not in header]
        if lacking:
            raise FileFormatError(f"{path} has no column {lacking[0]!r}: give the authors' table")
        try:
            codes = np.loadtxt(file, delimiter=",", dtype=np.int16, ndmin=2)
            columns = dict(zip(header, codes.T, strict=True))
        except ValueError as error:
            raise FileFormatError(f"{path} is not a table of whole numbers: {error}") from error
    s, d, truth = columns.pop(sensitive), columns.pop(label), columns.pop("Df", None)
    rows = _binary(s, d, np.column_stack(list(columns.values())), list(columns))
    return rows, None if truth is None else truth.astype(np.int64)


def _binary(s: Array, d: Array, x: Array, names: Sequence[str]) -> Rows:
    two = np.full(len(names), 2)
    return Rows.of(s, d, x, n_groups=2, n_classes=2, arities=two, names=names)


def _coded(frame: pl.DataFrame, label: str, sensitive: str) -> Rows:
    x = frame.drop(label, sensitive)
    return _binary(frame[sensitive].to_numpy(), frame[label].to_numpy(), x.to_numpy(), x.columns)


def _computed(name: str) -> tuple[Rows, Ints | None]:
    """A table of the authors made from its source, and who each row is about, where known."""
    if name == "compas":
        frame, persons = compas.paper_table()
        return _coded(frame, *ROLES[name]), persons.to_numpy()
    load = {"adult": datasets.load_adult, "german": datasets.load_german}[name]
    return _coded(load(version="paper").frame, *ROLES[name]), None


def _known_persons(name: str, n_rows: int) -> Ints | None:
    """Persons of the authors' COMPAS rows: their file lacks them, the raw scores have them.

    Only a local copy of the raw scores is asked: reading a given file downloads nothing.
    """
    if name != "compas" or not os.environ.get("FAIRPC_DATA"):
        return None
    try:
        persons: Ints = compas.paper_table()[1].to_numpy()
    except FairpcError:
        return None
    return persons if len(persons) == n_rows else None
