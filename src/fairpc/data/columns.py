"""One column: what it is, its levels or its bins, or why it is of no use."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import numpy as np

from fairpc.data.binning import Atoms, bin_codes, choose_edges, distinct_edges, value_label
from fairpc.data.categories import (
    MAX_MERGED,
    Tally,
    is_integral,
    look_up_numbers,
    merge_rare,
    tally_numbers,
    tally_text,
)
from fairpc.data.plural import counted
from fairpc.data.schema import Column, Dropped, Kind
from fairpc.data.table import MAX_ARITY
from fairpc.data.values import EXACT, Sentinel, Values, read_values, to_numbers
from fairpc.errors import Argument, TableError
from fairpc.errors.arrays import Array, Bools, Codes, Floats, Ints

Binning = Literal["label", "quantile"]

ROWS_PER_BIN: Final = 10
"""A short column gets fewer bins than asked, so that each has some rows."""

IDENTIFIER_ROWS: Final = 20
"""In fewer rows than this, all values may differ by chance."""

TO_KEEP: Final[tuple[str | Argument, ...]] = (
    "name it with ",
    Argument("numeric", "…"),
    " or ",
    Argument("categorical", "…"),
    " to keep it",
)
"""What one does about a column that was taken for an identifier."""

_SAMPLE: Final = 1 << 20  # edges are quantiles: of a million rows they are known well enough
_DIRECT: Final = 1 << 16
_RAW_LEVELS: Final = 256
_HEAD: Final = 1 << 14


@dataclass(frozen=True)
class Options:
    """How columns are encoded; see ``fit_encoding``."""

    n_bins: int = 8
    rare: float = 0.005
    max_levels: int = 16
    missing_values: tuple[Sentinel, ...] = ()
    numeric: frozenset[str] = frozenset()
    categorical: frozenset[str] = frozenset()
    edges: Mapping[str, Sequence[Any]] | None = None
    binning: Binning = "label"

    def __post_init__(self) -> None:
        if not 2 <= self.n_bins <= MAX_ARITY:
            raise TableError(f"n_bins is {self.n_bins}: give a number from 2 to {MAX_ARITY}")
        if not 2 <= self.max_levels <= MAX_ARITY:
            raise TableError(f"max_levels is {self.max_levels}: give from 2 to {MAX_ARITY}")
        if not 0 <= self.rare < 1:
            raise TableError(f"rare is {self.rare}: give a share of at least 0 and below 1")
        if self.binning not in get_args(Binning):
            raise TableError(f"binning is {self.binning!r}: use 'label' or 'quantile'")
        both = self.categorical & (self.numeric | set(self.edges or ()))
        if both:
            raise TableError(f"column {min(both)!r} is named numeric and categorical: choose one")


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that a column is fitted to.

    Attributes:
        weights: positive; whole numbers count repetitions, others are scaled to mean 1.
        classes: class code per row, -1 = missing; None if the label plays no part.
        n_classes: number of classes.
        repeated: whether weights count repetitions.
    """

    weights: Floats
    classes: Ints | None = None
    n_classes: int = 0
    repeated: bool = True

    @classmethod
    def of(cls, weights: Floats) -> Rows:
        """Rows of these positive weights: two rows of weight 1 are one row of weight 2."""
        repeated = bool(np.all(weights == np.floor(weights)))
        return cls(weights if repeated else weights / weights.mean(), repeated=repeated)

    def count(self, chosen: Bools) -> int:
        """About how many rows the chosen ones stand for."""
        return round(float(self.weights[chosen].sum()))

    def some(self, chosen: Array) -> Rows:
        """A part of the rows."""
        classes = None if self.classes is None else self.classes[chosen]
        return Rows(self.weights[chosen], classes, self.n_classes, self.repeated)


@dataclass(frozen=True)
class Fitted:
    """A column with digests of how it parts the rows: by its codes, and by its raw values.

    The raw values of columns with many are left alone: a different value in
    every row is a one-to-one copy of any other such column.
    """

    column: Column
    by_code: bytes
    by_value: bytes


def fit_column(name: str, values: Values, options: Options, rows: Rows) -> Column | Dropped:
    """Encoding of one column, or why it is of no use."""
    fitted = inspect_column(name, values, options, rows)
    return fitted.column if isinstance(fitted, Fitted) else fitted


def inspect_column(name: str, values: Values, options: Options, rows: Rows) -> Fitted | Dropped:
    missing = values.missing()
    if missing.all():
        return Dropped(name, "it is missing in every row")
    share = float(rows.weights[missing].sum() / rows.weights.sum()) if missing.any() else 0.0
    given = (options.edges or {}).get(name)
    if name in options.numeric or (given is not None and values.type != "date"):
        values = to_numbers(name, values)
    if given is not None:
        fitted: Fitted | Dropped = _fit_given(name, values, given)
    elif _is_named(name, values, options):
        fitted = _fit_levels(name, values, options, rows)
    else:
        fitted = _fit_numbers(name, values, options, rows)
    if isinstance(fitted, Dropped):
        return fitted
    remark = f" ({values.remark})" if values.remark else ""
    column = replace(fitted.column, missing_share=share, done=fitted.column.done + remark)
    return replace(fitted, column=column)


def _is_named(name: str, values: Values, options: Options) -> bool:
    """Whether values are names and not quantities; whole numbers beyond 2^53 are keys."""
    if values.type in ("text", "boolean") or values.declared or name in options.categorical:
        return True
    whole = values.type == "number" and values.data.dtype.kind in "iu"
    return whole and name not in options.numeric and _largest(values.data) >= EXACT


def _fit_levels(name: str, values: Values, options: Options, rows: Rows) -> Fitted | Dropped:
    free = name not in options.categorical and not values.declared
    if free and _all_named_apart(values, rows):
        return identifier(name)
    if values.type == "date":
        raise TableError(f"column {name!r} holds dates: they are binned, not categorical")
    if values.type == "boolean":
        return _fit_boolean(name, values)
    tally = (tally_text if values.type == "text" else tally_numbers)(values, rows.weights)
    if len(tally.levels) == 1:
        return _constant(name, tally.levels[0])
    kept, merged = merge_rare(tally, options.rare, options.max_levels)
    if not kept:
        return Dropped(name, f"none of its {len(merged)} values holds {options.rare:.2%} of rows")
    return _levels(name, tally, kept, merged)


def _all_named_apart(values: Values, rows: Rows) -> bool:
    """Whether no text or key appears twice."""
    if values.type == "boolean":
        return False
    known = ~values.missing()
    if values.type == "number":
        return _identifies(len(np.unique(values.data)), known, rows)
    return _identifies(values.data.drop_nulls().n_unique(), known, rows)


def _levels(name: str, tally: Tally, kept: list[int], merged: list[int]) -> Fitted:
    levels = tally.levels
    unlisted = len(merged) > MAX_MERGED
    code = np.full(len(levels) + 1, len(kept), np.int16)
    code[kept] = np.arange(len(kept))
    code[-1] = -1
    done = f"category of {counted(len(kept), 'level')}"
    if merged:
        done += f", {counted(len(merged), 'rare one')} merged into 'other'"
    column = Column(
        name,
        "category",
        levels=tuple(levels[i] for i in kept),
        merged=() if unlisted else tuple(levels[i] for i in merged),
        open=unlisted,
        done=done,
    )
    codes = code[tally.ids]
    by_code = _digest(codes, column.arity)
    few = len(merged) > 0 and _repeats(len(levels), len(tally.ids))
    by_value = _digest(tally.ids.astype(np.int16), len(levels)) if few else by_code
    return Fitted(column, by_code, by_value)


def _fit_boolean(name: str, values: Values) -> Fitted | Dropped:
    seen = np.unique(values.data[values.data >= 0])
    if len(seen) == 1:
        return _constant(name, bool(seen[0]))
    column = Column(name, "boolean", levels=(False, True), done="boolean")
    digest = _digest(values.data.astype(np.int16), 2)
    return Fitted(column, digest, digest)


def _fit_numbers(name: str, values: Values, options: Options, rows: Rows) -> Fitted | Dropped:
    free = name not in options.numeric and values.type == "number"
    atoms, sampled = _atoms(values, rows, options.max_levels if free else 2)
    if len(atoms.values) == 1:
        return _constant(name, value_label(float(atoms.values[0]), date=atoms.date))
    known = ~values.missing()
    n_present = rows.count(known)
    if free and atoms.integral and _all_differ(values, len(atoms.values), rows, sampled):
        return identifier(name)
    if free and atoms.integral and len(atoms.values) <= options.max_levels:
        if (atoms.weights < options.rare * atoms.weights.sum()).sum() < 2:
            tally = _tally(atoms, values)
            return _levels(name, tally, list(range(len(tally.levels))), [])
        edges, done = distinct_edges(atoms, options.rare), "bins of single or rare whole numbers"
    else:
        edges, done = _choose(atoms, options, n_present)
    fitted = _binned(name, values, edges, atoms.integral, done)
    if sampled or not _repeats(len(atoms.values), n_present):
        return fitted
    ids = np.searchsorted(atoms.values, values.data).astype(np.int16)
    ids[~known] = -1
    return replace(fitted, by_value=_digest(ids, len(atoms.values)))


def _tally(atoms: Atoms, values: Values) -> Tally:
    """Whole numbers as levels."""
    levels = tuple(int(v) for v in atoms.values)
    ids = look_up_numbers({v: i for i, v in enumerate(levels)}, values.data)
    return Tally(levels, atoms.weights, ids)


def _all_differ(values: Values, n_distinct: int, rows: Rows, sampled: bool) -> bool:
    """Whether no number appears twice; a sample without doubles is a reason to look at all."""
    known = ~values.missing()
    if sampled:
        if n_distinct < _SAMPLE:
            return False
        n_distinct = len(np.unique(values.data[known]))
    return _identifies(n_distinct, known, rows)


def _choose(atoms: Atoms, options: Options, n_present: int) -> tuple[tuple[float, ...], str]:
    n_bins = min(options.n_bins, max(2, n_present // ROWS_PER_BIN))
    if len(atoms.values) <= n_bins:
        return distinct_edges(atoms, options.rare), "bins, one per value"
    by = "by quantiles" if atoms.classes is None else "chosen with the label"
    return choose_edges(atoms, n_bins, options.rare), f"bins {by}"


def _fit_given(name: str, values: Values, given: Sequence[Any]) -> Fitted:
    """Bins at the edges that the user gave."""
    wanted = read_values(f"edges of {name}", np.array(list(given), dtype=object), parse=True)
    if wanted.type != values.type or not len(wanted.data) or wanted.missing().any():
        raise TableError(
            f"column {name!r} has the edges {list(given)!r}: give a list of "
            f"{'dates' if values.type == 'date' else 'numbers'}"
        )
    edges = tuple(float(edge) for edge in wanted.data)
    integral = values.type == "number" and is_integral(values.data)
    return _binned(name, values, edges, integral, "bins at the given edges")


def _binned(
    name: str, values: Values, edges: tuple[float, ...], integral: bool, done: str
) -> Fitted:
    kind: Kind = "date" if values.type == "date" else "number"
    words = f"{kind} in {len(edges) + 1} {done}"
    column = Column(name, kind, edges=edges, integral=integral, done=words)
    digest = _digest(bin_codes(edges, values.data), column.arity)
    return Fitted(column, digest, digest)


def _atoms(values: Values, rows: Rows, few: int) -> tuple[Atoms, bool]:
    """Distinct numbers with weights; and whether they are of a sample of the rows.

    Where whole numbers are only a ``few``, nobody will ask for their classes.
    """
    data = values.data if _largest(values.data) < EXACT else values.data.astype(np.float64)
    integral = is_integral(data)
    known = ~values.missing()
    if not known.all():
        data, rows = data[known], rows.some(known)
    low, high = float(data.min()), float(data.max())
    sampled = False
    if integral and high - low < _DIRECT:
        ids = data.astype(np.int64) - int(low)
        distinct = np.arange(low, high + 1)
    else:
        if len(data) > _SAMPLE:
            sampled = True
            chosen = np.random.default_rng(0).choice(len(data), _SAMPLE, replace=False)
            data, rows = data[chosen], rows.some(chosen)
        distinct, ids = np.unique(data, return_inverse=True)
    counts = np.bincount(ids, minlength=len(distinct))
    weights = np.asarray(np.bincount(ids, rows.weights, len(distinct)), np.float64)
    seen = counts > 0
    classes = None
    if seen.sum() > (few if integral else 2):
        classes = _class_table(ids, rows, len(distinct))
    if classes is not None:
        classes = classes[seen]
    date = values.type == "date"
    # Negative zero and zero are one value; adding zero leaves the positive one.
    numbers = distinct[seen].astype(np.float64) + 0.0
    return Atoms(numbers, weights[seen], classes, integral and not date, date), sampled


def _largest(data: Array) -> float:
    """Largest absolute value; NaN is ignored."""
    return max(abs(float(np.nanmin(data))), abs(float(np.nanmax(data))))


def _class_table(ids: Ints, rows: Rows, n: int) -> Floats | None:
    """Weight per distinct number and class; None if there are not two classes to tell apart."""
    if rows.classes is None:
        return None
    # Missing classes fall into a last column, which is then left out.
    width = rows.n_classes + 1
    cell = ids * width + np.where(rows.classes < 0, rows.n_classes, rows.classes)
    flat = np.asarray(np.bincount(cell, rows.weights, n * width), np.float64)
    table = flat.reshape(n, width)[:, : rows.n_classes]
    return table if (table.sum(axis=0) > 0).sum() > 1 else None


def _digest(codes: Codes, arity: int) -> bytes:
    """Digest of how codes part the rows: equal for two columns that are copies up to names."""
    first = {}
    head = codes[:_HEAD]
    for code in range(arity):
        row = int(np.argmax(head == code))
        if head[row] != code and len(codes) > _HEAD:
            row = int(np.argmax(codes == code))
        if codes[row] == code:
            first[code] = row
    rank = np.full(arity + 1, -1, np.int16)
    rank[sorted(first, key=first.__getitem__)] = np.arange(len(first))
    return hashlib.blake2b(rank[codes].tobytes(), digest_size=16).digest()


def _repeats(n_distinct: int, n_present: int) -> bool:
    """Whether raw values are few enough that a one-to-one copy is no accident."""
    return n_distinct <= _RAW_LEVELS and 2 * n_distinct <= n_present


def _identifies(n_distinct: int, known: Bools, rows: Rows) -> bool:
    """Whether each row has its own value, and no row stands for several."""
    n_present = int(known.sum())
    single = not rows.repeated or rows.count(known) == n_present
    return n_distinct == n_present >= IDENTIFIER_ROWS and single


def identifier(name: str) -> Dropped:
    return Dropped(
        name,
        "it has a different value in every row, like an identifier; " + "".join(map(str, TO_KEEP)),
    )


def _constant(name: str, value: object) -> Dropped:
    return Dropped(name, f"it has one value ({value!r}) wherever it is known")
