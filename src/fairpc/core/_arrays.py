"""Types of arrays by what they hold, and checks of the arrays and options that users give.

Each error says the argument, the rule and the repair.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core._errors import FairpcError, LearningError, MetricError, quoted

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int16]
Floats = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]
Integers = npt.NDArray[np.integer[Any]]
Ints = npt.NDArray[np.int64]
Positions = npt.NDArray[np.intp]
Slots = npt.NDArray[np.uint32]
Words = npt.NDArray[np.uint64]
_ODD: Final = (TypeError, ValueError, OverflowError, ArithmeticError, NotImplementedError)
"""What objects of others raise when they are taken for numbers, or compared."""
MOST_WEIGHT: Final = 1e100
"""Largest weight of a row, and one over the least: products of two are still numbers."""
MOST_COUNT: Final = 2.0**53  #: largest whole number such that all below it are numbers, too


def check_choice(
    name: str, value: Any, known: tuple[str, ...], error: type[FairpcError] = LearningError
) -> None:
    """Raise an error unless ``value`` is one of the ``known`` choices."""
    if not (isinstance(value, str) and value in known):
        raise error(f"{name} is {value!r}: use one of {', '.join(known)}")


def check_number(name: str, value: float, least: float) -> None:
    """Raise a LearningError unless ``value`` is a number of at least ``least``."""
    if not value >= least:
        raise LearningError(f"{name} is {value}: give a number of at least {least:g}")


def one_number(name: str, value: Any) -> float:
    """One number; NaN and infinity are for the caller to judge."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise MetricError(f"{name} is {_repr(value)}: give one number")
    try:
        return float(value)
    except (OverflowError, TypeError):  # a duration of NumPy says that it is an integer
        raise MetricError(f"{name} is {_repr(value)}: give a number of 64 bits") from None


def whole_number(name: str, value: Any, least: int, most: int) -> int:
    """One whole number in a range."""
    try:
        found = None if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        found = None
    if found is None or not least <= found <= most:
        rule = f"give a whole number from {least:,} to {most:,}"
        raise MetricError(f"{name} is {_repr(value)}: {rule}")
    return found


def one_of(name: str, value: Any, known: Sequence[Any]) -> int:
    """The place of a value among some that are known; a MetricError where it is none of them."""
    for place, each in enumerate(known):
        try:
            if value is each or bool(value == each):
                return place
        except _ODD:  # an array, or an object that cannot be compared
            continue
    raise MetricError(f"{name} is {_repr(value)}: give one of {quoted(known, 5)}")


def _repr(value: Any) -> str:
    """A value as a message names it, in a few words."""
    return " ".join(reprlib.repr(value).split())


def two_numbers(name: str, value: Any) -> tuple[float, float]:
    """A pair of numbers."""
    try:
        first, last = value
    except (TypeError, ValueError) as error:
        raise MetricError(f"{name} is {_repr(value)}: give two numbers, lower end first") from error
    return one_number(name, first), one_number(name, last)


def check_threshold(value: Any) -> float:
    """A threshold of scores."""
    found = one_number("threshold", value)
    if not 0 <= found <= 1:
        raise MetricError(f"threshold is {value}: give a number from 0 to 1, as the scores are")
    return found


def check_level(value: Any) -> float:
    """A confidence level, such as .95."""
    if not 0.5 <= one_number("level", value) < 1:
        raise MetricError(
            f"level is {_repr(value)}: give the confidence level, at least .5 and below 1, such as "
            ".95"
        )
    return float(value)


def is_missing(value: Any) -> bool:
    """Whether an object stands for no value: None, NaN, NaT, pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def missing(values: Array) -> Bools:
    """Where an array of any type and shape has no value."""
    if values.dtype.kind in "fc":
        return np.asarray(np.isnan(values), np.bool_)
    if values.dtype.kind in "mM":
        return np.asarray(np.isnat(values), np.bool_)
    if values.dtype.kind == "O":
        flat = values.ravel().tolist()
        if set(map(type, flat)) - {str, int, bool}:
            return np.array([is_missing(v) for v in flat], np.bool_).reshape(values.shape)
    return np.zeros(values.shape, np.bool_)


def check_array(name: str, values: npt.ArrayLike) -> Array:
    """An array of any type; rows must be of one length.

    Elements stay as they were given: beside text, a number or a hole does not become text.
    """
    if np.ma.is_masked(values):
        raise MetricError(f"{name} has masked cells: leave out their rows, or fill them")
    try:
        array = np.asarray(values)
        if array.dtype.kind in "US" and not hasattr(values, "dtype"):
            array = np.array(values, dtype=object)
    except _ODD as error:
        raise MetricError(
            f"{name} has rows of different lengths, or no rows: give one value, or as many "
            "columns, per row"
        ) from error
    if array.dtype.kind == "V":
        raise MetricError(f"{name} is a structured array: give plain values")
    for kind in set(map(type, array.ravel().tolist() if array.dtype.kind == "O" else ())):
        if kind.__hash__ is None:  # a list, an array or an object like them
            raise MetricError(
                f"{name} has a cell with a {kind.__name__[:40]} in it: give one value per cell"
            )
    return array


def check_table(name: str, values: npt.ArrayLike) -> Array:
    """Rows × columns of any type, at least one of each; a vector is one column."""
    table = check_array(name, values)
    if table.ndim not in (1, 2) or not table.size:
        raise MetricError(f"{name} has shape {table.shape}: give rows and at least one feature")
    return table.reshape(len(table), -1)


def alike(values: Iterable[str]) -> tuple[str, str] | None:
    """The first two texts that differ by case alone, if any do."""
    seen = dict[str, str]()
    for value in values:
        if (other := seen.setdefault(value.casefold(), value)) != value:
            return other, value
    return None


def check_labels(name: str, values: npt.ArrayLike, n_rows: int | None = None) -> Array:
    """A vector of labels of any type, complete, not empty, of the length asked for.

    Blanks at the ends of a text are no part of it.
    """
    column = _bare(_vector(name, check_array(name, values), n_rows))
    hidden = missing(column)
    if hidden.any():
        row = int(np.argmax(hidden))
        raise MetricError(f"{name} is missing in row {row}: leave out rows without a value")
    return _one_type(name, column) if column.dtype.kind == "O" else column


def _bare(column: Array) -> Array:
    """Text without the blanks at its ends."""
    if column.dtype.kind in "UT":
        return np.strings.strip(column)
    if column.dtype.kind != "O":
        return column
    each = [v.strip() if isinstance(v, str) else v for v in column.tolist()]
    return np.fromiter(each, object, len(each))


def _one_type(name: str, column: Array) -> Array:
    """Objects as an array of what they are; the text of mixed ones does not say which is which."""
    types = set(map(type, column.tolist()))
    texts = [kind for kind in types if issubclass(kind, str | bytes)]
    if texts and len(types) > len(texts):
        raise MetricError(f"{name} has text beside other values: give values of one type")
    try:
        narrow = np.asarray(column.tolist())
    except _ODD:  # of lists
        return column
    return narrow if narrow.ndim == 1 else column


def check_classes(
    name: str, values: npt.ArrayLike, n_rows: int | None = None, *, by_case: bool = False
) -> tuple[tuple[Any, ...], Positions]:
    """The labels that occur, in sorted order, and the number of each row's label.

    Two that differ by case alone are refused as a slip, unless values differ ``by_case``.
    """
    labels = check_labels(name, values, n_rows)
    try:
        found, ids = np.unique(labels, return_inverse=True)
    except _ODD as error:
        kinds = sorted({type(v).__name__ for v in labels.tolist()})
        raise MetricError(
            f"{name} has values that cannot be put in order ({', '.join(kinds)[:100]}): give text "
            "or numbers"
        ) from error
    names = tuple(found.tolist())
    pair = None if by_case else alike(value for value in names if isinstance(value, str))
    if pair is not None:
        raise MetricError(
            f"{name} has {pair[0]!r} and {pair[1]!r}, which differ by case alone: write both one "
            "way, or call one by another name if they are not the same"
        )
    return names, ids


def as_numbers(values: Array) -> Floats | None:
    """An array as numbers; None where some are none.

    Text that looks like a number is text, and the imaginary part of a number is not nothing.
    """
    kind = values.dtype.kind
    if kind == "O":
        each = values.ravel().tolist()
        if not set(map(type, each)) <= {int, float, bool, type(None)}:
            if not all(v is None or is_missing(v) or isinstance(v, Real | Decimal) for v in each):
                return None
            each = [np.nan if is_missing(v) else v for v in each]
        values = np.array(each, object).reshape(values.shape)
    elif kind not in "biuf":
        return None
    try:
        return values.astype(np.float64)
    except _ODD:
        return None


def check_numbers(name: str, values: npt.ArrayLike, n_rows: int | None = None) -> Floats:
    """A vector of finite numbers, not empty, of the length asked for."""
    raw = as_numbers(check_array(name, values))
    if raw is None:
        raise MetricError(f"{name} holds something other than numbers: give numbers")
    column: Floats = _vector(name, raw, n_rows)
    refuse_rows(name, column, ~np.isfinite(column), "give finite numbers")
    return column


def check_scores(values: npt.ArrayLike, name: str = "scores") -> Floats:
    """Scores from 0 to 1, one per row."""
    column = check_numbers(name, values)
    refuse_rows(name, column, (column < 0) | (column > 1), "give scores from 0 to 1")
    return column


def check_sample_weight(values: npt.ArrayLike | None, n_rows: int) -> Floats:
    """Weights per row, ones if None; finite, not negative, not all zero."""
    if values is None:
        return np.ones(n_rows)
    column = check_numbers("sample_weight", values, n_rows)
    refuse_rows("sample_weight", column, column < 0, "weights are not negative")
    _refuse_extremes(column)
    if not column.any():
        raise MetricError("all weights are zero: at least one row needs a positive weight")
    return column


def check_positive_weight(values: npt.ArrayLike | None, n_rows: int) -> Floats | None:
    """Positive weights per row, or None where all rows count alike."""
    if values is None:
        return None
    column = check_numbers("sample_weight", values, n_rows)
    rule = "weights are positive; leave out rows that count for nothing"
    refuse_rows("sample_weight", column, column <= 0, rule)
    _refuse_extremes(column)
    most = column.max()
    rule = f"the largest is {most:g}; leave out rows that count for nothing beside others"
    # Beside a larger weight, sums lose one below this share of it.
    refuse_rows("sample_weight", column, column < 1e-12 * most, rule, form="g")
    return None if np.ptp(column) == 0 else column


def _refuse_extremes(weights: Floats) -> None:
    """Raise a MetricError where squares of weights would be no numbers."""
    rule = f"scale weights to {1 / MOST_WEIGHT:g} to {MOST_WEIGHT:g}"
    refuse_rows("sample_weight", weights, is_extreme_weight(weights), rule)


def is_extreme_weight(weights: Floats) -> Bools:
    """Where a weight is so large or small that its square is no number, or zero."""
    return (weights > MOST_WEIGHT) | ((weights > 0) & (weights < 1 / MOST_WEIGHT))


def check_counts(values: npt.ArrayLike | None, n_rows: int, clusters: Any = None) -> Floats | None:
    """How many equal rows each row is; None where each is one."""
    if values is None:
        return None
    if clusters is not None:
        raise MetricError(
            "counts and clusters were given: merged rows are not about one person, give them one "
            "by one"
        )
    column = check_numbers("counts", values, n_rows)
    wrong = (column < 1) | (column != np.floor(column)) | (column > MOST_COUNT)
    refuse_rows("counts", column, wrong, f"give whole numbers from 1 to {MOST_COUNT:g}", form="g")
    return column


def check_groups(
    values: npt.ArrayLike,
    n_rows: int,
    name: str = "groups",
    *,
    least: int = 2,
    crossed: bool = True,
    by_case: bool = False,
) -> tuple[tuple[Any, ...], Positions]:
    """The groups that occur, in sorted order and at least so many, and each row's group number.

    Several columns are ``crossed``, or refused: each combination that occurs is a group, named
    by a tuple. ``by_case`` is as in ``check_classes``.
    """
    table = check_array(name, values)
    if crossed and table.ndim == 2 and table.shape[1] > 1:
        names, ids = _crossed(table, n_rows, name, by_case=by_case)
    else:
        names, ids = check_classes(name, table, n_rows, by_case=by_case)
    if len(names) < least:
        raise MetricError(
            f"{name} has 1 value ({names[0]!r}): a comparison needs at least two groups"
        )
    return names, ids


def check_clusters(values: npt.ArrayLike | None, n_rows: int) -> Positions | None:
    """Who each row is about, as numbers from 0; None where each row is its own person."""
    if values is None:
        return None
    persons, ids = check_classes("clusters", values, n_rows, by_case=True)
    return None if len(persons) == n_rows else ids


def refuse_rows(name: str, column: Array, bad: Bools, rule: str, form: str = "") -> None:
    """Raise a MetricError that names the first of the bad rows, its value and the rule."""
    if bad.any():
        row = int(np.argmax(bad))
        raise MetricError(f"{name} is {column[row]:{form}} in row {row}: {rule}")


def _vector(name: str, column: Array, n_rows: int | None) -> Array:
    """One value per row; a single column counts as one."""
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise MetricError(f"{name} has shape {column.shape}: give one value per row")
    if n_rows is not None and len(column) != n_rows:
        raise MetricError(
            f"{name} has {len(column)} rows and the first argument {n_rows}: give as many"
        )
    if not len(column):
        raise MetricError(f"{name} is empty: give at least one row")
    return column


def _crossed(
    table: Array, n_rows: int, name: str, *, by_case: bool
) -> tuple[tuple[Any, ...], Positions]:
    cells = np.zeros(n_rows, np.intp)
    levels = []
    for j, column in enumerate(table.T):
        found, codes = check_classes(f"{name} (column {j})", column, n_rows, by_case=by_case)
        levels.append(found)
        cells = cells * len(found) + codes
    if math.prod(map(len, levels)) > 2**40:
        raise MetricError(f"{name} has too many combinations to cross: give fewer columns")
    kept, ids = np.unique(cells, return_inverse=True)
    index = zip(*np.unravel_index(kept, [len(found) for found in levels]), strict=True)
    names = (tuple(levels[j][i] for j, i in enumerate(each)) for each in index)
    return tuple(names), ids
