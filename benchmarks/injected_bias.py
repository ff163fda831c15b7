"""Real tables whose own label is taken as Df, and labels D altered from it by a known mechanism.

Adult, German and COMPAS come with the package. Dutch census, law school, credit card and ACS
income are read from the folder FAIRPC_BIAS_DATA, or from ../shared/data/bias beside the repository.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from sklearn.model_selection import StratifiedKFold

from checkout import data_folder
from fairpc.datasets import load_adult, load_compas, load_german

Codes = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]

N_FOLDS = 5
FAVOURED, OTHER = "favoured", "other"

MECHANISMS: dict[str, dict[str, tuple[float, float]]] = {
    "strong": {FAVOURED: (0.10, 0.95), OTHER: (0.02, 0.60)},
    "paper": {FAVOURED: (0.40, 0.90), OTHER: (0.10, 0.80)},
    "mild": {FAVOURED: (0.05, 0.98), OTHER: (0.02, 0.85)},
    "one-sided": {FAVOURED: (0.0, 1.0), OTHER: (0.0, 0.70)},
    "none": {FAVOURED: (0.0, 1.0), OTHER: (0.0, 1.0)},
}
"""P(D=1 | Df=0) and P(D=1 | Df=1) of the favoured group and of the other."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table: features, group ("favoured" or "other"), Df, and D, which a learner sees.

    ``s`` is the group that is written down; ``true_s`` the one that altered the label, where some
    are wrong. ``seen`` says whose label anybody saw, where that is not so of all.
    """

    x: pl.DataFrame
    s: npt.NDArray[np.str_]
    f: Codes
    d: Codes
    true_s: npt.NDArray[np.str_] | None = None
    seen: npt.NDArray[np.bool_] | None = None

    @property
    def groups(self) -> npt.NDArray[np.str_]:
        """The true ones."""
        return self.s if self.true_s is None else self.true_s

    def take(self, rows: Indices) -> Rows:
        true_s = None if self.true_s is None else self.true_s[rows]
        seen = None if self.seen is None else self.seen[rows]
        return Rows(self.x[rows], self.s[rows], self.f[rows], self.d[rows], true_s, seen)

    def __len__(self) -> int:
        return len(self.f)


def _rows(x: pl.DataFrame, favoured: Any, positive: Any) -> Rows:
    f = np.asarray(positive).astype(np.int64)
    return Rows(x, np.where(np.asarray(favoured), FAVOURED, OTHER), f, f)


def _adult() -> Rows:
    data = load_adult()
    return _rows(data.X, data.sensitive == "Male", data.y == data.positive)


def _german() -> Rows:
    data = load_german()
    return _rows(data.X, data.sensitive == "male", data.y == data.positive)


def _compas() -> Rows:
    """The favourable outcome is that nobody recidivated, which the data set codes as 0."""
    data = load_compas()
    return _rows(data.X, data.sensitive == "Caucasian", data.y == 0)


def _texts(table: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Numbers that are names of categories, as text."""
    return table.with_columns(pl.col(columns).cast(pl.Int64).cast(pl.String))


def _dutch(folder: Path) -> Rows:
    table = _texts(
        pl.read_csv(folder / "dutch.csv"),
        *("household_position", "prev_residence_place", "citizenship", "country_birth"),
        *("economic_status", "cur_eco_activity", "marital_status"),
    )
    x = table.drop("sex", "occupation")
    return _rows(x, table["sex"] == "male", table["occupation"] == 1)


def _law(folder: Path) -> Rows:
    table = _texts(pl.read_csv(folder / "law_school.csv"), "fulltime", "male")
    x = table.drop("race", "pass_bar")
    return _rows(x, table["race"] == "White", table["pass_bar"] == 1)


def _credit(folder: Path) -> Rows:
    table = _texts(pl.read_csv(folder / "credit_card.csv"), "EDUCATION", "MARRIAGE")
    x = table.drop("SEX", "default payment")
    return _rows(x, table["SEX"] == 1, table["default payment"] == 0)


def _income(folder: Path) -> Rows:
    table = _texts(
        pl.read_parquet(folder / "acs_income.parquet"),
        *("RAC1P", "POBP", "OCCP", "RELP", "COW", "MAR"),
    )
    x = table.drop("SEX", "PINCP", "index", strict=False)
    return _rows(x, table["SEX"] == 1, table["PINCP"] == 1)


BUNDLED: dict[str, Callable[[], Rows]] = {"adult": _adult, "german": _german, "compas": _compas}
READ: dict[str, Callable[[Path], Rows]] = {
    "dutch": _dutch,
    "law": _law,
    "credit": _credit,
    "income": _income,
}
TABLES = (*BUNDLED, *READ)


def find_folder() -> Path | None:
    """FAIRPC_BIAS_DATA, or the folder beside the repository; None where neither is there."""
    return data_folder("FAIRPC_BIAS_DATA", "bias")


@cache
def read(name: str) -> Rows:
    """A whole table; its label is Df, and D too."""
    if name in BUNDLED:
        return BUNDLED[name]()
    folder = find_folder()
    if folder is None:
        raise FileNotFoundError(f"the table {name!r} is not here: set FAIRPC_BIAS_DATA")
    return READ[name](folder)


def generator(seed: int, *names: str) -> np.random.Generator:
    """Random numbers that depend on the seed and the names only, in every process."""
    return np.random.default_rng([seed, *(zlib.crc32(name.encode()) for name in names)])


def inject(table: str, mechanism: str, *, seed: int = 0, n_rows: int = 16_000) -> Rows:
    """At most n_rows rows of a table in which Df is independent of S, and D is Df altered."""
    rng = generator(seed, table, mechanism)
    rows = equalise(read(table), rng)
    rows = rows.take(rng.permutation(len(rows))[:n_rows])
    return replace(rows, d=alter(rows, mechanism, rng))


def equalise(rows: Rows, rng: np.random.Generator) -> Rows:
    """Drop negative rows of the group with the lower rate at random until rates are equal."""
    low, high = sorted((FAVOURED, OTHER), key=lambda group: rows.f[rows.s == group].mean())
    rate = rows.f[rows.s == high].mean()
    negative = np.flatnonzero((rows.s == low) & (rows.f == 0))
    n_positive = rows.f[rows.s == low].sum()
    n_kept = round(n_positive * (1 - rate) / rate)
    kept = np.ones(len(rows), np.bool_)
    kept[rng.permutation(negative)[n_kept:]] = False
    return rows.take(np.flatnonzero(kept))


def alter(rows: Rows, mechanism: str, rng: np.random.Generator) -> Codes:
    """Labels D drawn from P(D | Df, S)."""
    return (rng.random(len(rows)) < chances(rows, mechanism)).astype(np.int64)


def chances(rows: Rows, mechanism: str) -> npt.NDArray[np.float64]:
    """P(D = 1 | Df, S) of each row."""
    found = np.empty(len(rows))
    for group, pair in MECHANISMS[mechanism].items():
        found[rows.s == group] = np.take(pair, rows.f[rows.s == group])
    return found


def folds(rows: Rows, *names: str, seed: int = 0) -> Iterator[tuple[Rows, Rows]]:
    """Training and test rows, five times, stratified by S and Df."""
    state = int(generator(seed, *names, "folds").integers(2**31))
    strata = np.char.add(rows.s, rows.f.astype(str))
    for train, test in StratifiedKFold(N_FOLDS, shuffle=True, random_state=state).split(
        strata, strata
    ):
        yield rows.take(train), rows.take(test)


def hide(rows: Rows, share: float, rng: np.random.Generator) -> Rows:
    """The rows with a share of the cells of X missing."""
    holes = rng.random(rows.x.shape) < share
    columns = [
        pl.when(pl.Series(holes[:, j])).then(None).otherwise(rows.x[name]).alias(name)
        for j, name in enumerate(rows.x.columns)
    ]
    return replace(rows, x=rows.x.select(columns))
