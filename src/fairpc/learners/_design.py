"""Tables as numbers that learners take: raw columns, codes, and one matrix with NaN for holes.

A *matrix* has numbers as they are, booleans as 0 and 1, categories as codes from 0 on; NaN =
missing. Its *sizes* say how many codes a column has, 0 for numbers. A *design* has a column for
each coefficient: numbers standardised, and an indicator for each level and, mostly, for holes.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Array,
    Bools,
    Codes,
    Floats,
    Int32s,
    Ints,
    MetricError,
    Positions,
    TableError,
    as_numbers,
    check_table,
    counted,
    missing,
)
from fairpc.data import (
    FEW_PEOPLE,
    IDENTIFIES,
    Column,
    Dropped,
    Encoding,
    Frame,
    Sentinel,
    Values,
    absent,
    check_keys,
    distinct_numbers,
    identifies,
    levels_of,
    number_texts,
    read_values,
    round_number,
)

WIDE: Final = 100
INFORMATIVE: Final = 60
"""Columns above which a table is wide, and those that learners of a wide one learn from."""
_RAW_LEVELS: Final = 32
_MAX_CELLS: Final = 2**40
_HUGE: Final = 1e150  # squares of such numbers, summed, are still finite
CODED_LEVELS: Final = 32
"""Levels up to which a category of codes has indicators."""
LARGEST: Final = 1e30
"""Numbers of a matrix beyond this count as this: a forest compares, and sums up, in single
precision."""
FURTHEST: Final = 1e6
"""Standard deviations from the mean beyond which a number counts as no farther."""

BINS: Final = 128
"""Bins of a column of numbers, about, where it has more values: for boosting of Df."""

Edges = list[Floats | None]
"""Of each column of numbers those of its bins."""
ClassifierKind = Literal["hgb", "logistic", "forest"]
CLASSIFIER_KINDS: Final = get_args(ClassifierKind)
MOST_LEVELS: Final[dict[ClassifierKind, int]] = {"hgb": 250, "logistic": 32, "forest": 64}
"""Levels that a category of a matrix may have; the lightest ones beyond them count as missing."""
ORDER_ROWS: Final = 10.0
"""Rows by which label rates are shrunk that put the levels of a forest into order."""
_TO_KEEP: Final = "name it with numeric=…, or give it a categorical type, to keep it"


def design(x: npt.ArrayLike) -> Floats:
    """One or more numeric columns per raw feature; labels are not looked at.

    0/1 columns stay as they are, other numbers are standardised, anything else
    becomes one column per level (the 31 most frequent, the rest in one). A
    missing cell takes the column's mean, and a column of its own marks it.
    """
    table = check_table("X", x)
    columns = [column for j in range(table.shape[1]) for column in _raw_columns(table[:, j], j)]
    if not columns:
        raise MetricError("every feature of X has one value only: give features that vary")
    return np.column_stack(columns)


def _raw_columns(values: Array, j: int) -> list[Floats]:
    hidden = missing(values)
    if hidden.all():
        return []
    column = _raw_numbers(values, hidden, j)
    columns = _raw_levels(values, hidden) if column is None else [column]
    if hidden.any():
        columns.append(hidden.astype(np.float64))
    return [column for column in columns if np.ptp(column) > 0]


def _raw_numbers(values: Array, hidden: Bools, j: int) -> Floats | None:
    known = as_numbers(values[~hidden])
    if known is None:
        return None
    if not (np.abs(known) < _HUGE).all():
        raise MetricError(
            f"column {j} of X holds an infinite value, or one beyond {_HUGE:g}: give finite "
            "numbers or NaN"
        )
    centre = known.mean()
    column = np.full(len(values), centre)
    column[~hidden] = known
    if not np.isin(known, (0.0, 1.0)).all():
        spread = known.std()
        column = (column - centre) / (spread if spread > 0 else 1.0)
    return column


def _raw_levels(values: Array, hidden: Bools) -> list[Floats]:
    names, codes = np.unique(values[~hidden].astype(str), return_inverse=True)
    if len(names) > _RAW_LEVELS:
        rank = np.argsort(np.argsort(-np.bincount(codes), kind="stable"))
        codes = np.minimum(rank[codes], _RAW_LEVELS - 1)
    every = np.full(len(values), -1)
    every[~hidden] = codes
    return list(indicators(every, np.arange(int(codes.max()) + 1)).T)


def indicators(values: Array, shown: Array) -> Floats:
    """[value = v] for each v that is shown: rows × values."""
    return np.equal(values[:, None], shown).astype(np.float64)


def distinct(matrix: Floats) -> tuple[Floats, Positions]:
    """The distinct rows, and which of them each row is; where few are equal, rows as they are."""
    cells, size = np.zeros(len(matrix), np.intp), 1
    for column in matrix.T:
        values, codes = np.unique(column, return_inverse=True)
        cells = cells * len(values) + codes
        size *= len(values)
        if size * len(matrix) > _MAX_CELLS:
            kept, cells = np.unique(cells, return_inverse=True)
            size = len(kept)
            if size > len(matrix) / 2:
                break
    _, first, index = np.unique(cells, return_index=True, return_inverse=True)
    if len(first) > len(matrix) / 2:
        return matrix, np.arange(len(matrix))
    return matrix[first], index


def coded_columns(
    x: Codes, fitted: Codes, arities: Ints, named: Bools
) -> tuple[Floats, Int32s, int]:
    """Codes with an order, scaled as they are ``fitted``, holes at the mean; then indicators.

    Returns:
        Of each row the numbers that are not 0, as all have equally many, the columns that they are
        in, and how many columns there are.
    """
    known, own = fitted[:, ~named] >= 0, fitted[:, ~named]
    n = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, own, 0).sum(axis=0) / n
    spread = np.sqrt(np.where(known, (own - mean) ** 2, 0.0).sum(axis=0) / n)
    numbers = np.where(x >= 0, x, np.nan)[:, ~named]
    scaled = np.nan_to_num((numbers - mean) / np.where(spread > 0, spread, 1.0))
    few = np.flatnonzero(named & (arities <= CODED_LEVELS))
    first = np.append(0, np.cumsum(arities[few])) + len(mean)
    places = np.maximum(x[:, few], 0) + first[:-1]
    before = np.broadcast_to(np.arange(len(mean)), scaled.shape)
    columns = np.hstack([before, places]).astype(np.int32)
    return np.hstack([scaled, x[:, few] >= 0]), columns, int(first[-1])


def informative_columns(
    x: Codes,
    arities: Ints,
    cells: Ints,
    shape: tuple[int, int],
    weights: Floats,
    always: Collection[int],
) -> Ints:
    """The columns of codes to learn D from, in order: all of a narrow table, and ``always`` some.

    Of hundreds of columns, learners of a score, and trees that imitate it, would take their time
    from columns that say next to nothing of the label. Which ones do is part of what is learned:
    rows that are held out have no weight. Chosen by all labels, 60 of 3,000 columns of noise would
    tell those of 60 rows.

    Args:
        x, arities: codes, and how many values each column has.
        cells: group and label of each row as one number, -1 where either is not known.
        shape: numbers of groups and of classes.
        weights: weight of each row.
        always: columns that are kept in any case.
    """
    if len(arities) <= WIDE:
        return np.arange(len(arities))
    known = (cells >= 0) & (weights > 0)
    labelled = cells[known], shape, weights[known]
    gains = np.array([_label_gain(x[known, j], int(n), *labelled) for j, n in enumerate(arities)])
    gains[list(always)] = np.inf
    return np.sort(np.argsort(-gains, kind="stable")[:INFORMATIVE])


def _label_gain(
    column: Codes, arity: int, cells: Ints, shape: tuple[int, int], weights: Floats
) -> float:
    """Nats by which a column raises the likelihood of the labels of each group, less parameters.

    A missing value is one more value; a parameter costs a nat, as by Akaike's criterion.
    """
    from scipy.special import xlogy

    n_cells = shape[0] * shape[1]
    places = column.astype(np.int64) % (arity + 1) * n_cells + cells
    counts = np.bincount(places, weights, (arity + 1) * n_cells).reshape(arity + 1, *shape)
    by_value, by_class = counts.sum(axis=2), counts.sum(axis=0)
    gain = xlogy(counts, counts).sum() - xlogy(by_value, by_value).sum()
    total = by_class.sum(axis=1)
    gain -= xlogy(by_class, by_class).sum() - xlogy(total, total).sum()
    levels = np.count_nonzero(by_value, axis=0), np.count_nonzero(by_class, axis=1)
    return float(gain - (np.maximum(levels[0] - 1, 0) * np.maximum(levels[1] - 1, 0)).sum())


def fit_encoding(
    frame: Frame,
    codes: Ints,
    weights: Floats,
    kind: ClassifierKind,
    missing_values: tuple[Sentinel, ...],
    identifiers: Mapping[str, str] | None,
    min_cell: int = 1,
) -> Encoding:
    """What each column of a table holds, and which levels a classifier of this kind keeps.

    ``identifiers`` are columns that tell rows apart, and why they are left out; None finds them.
    Levels of fewer than ``min_cell`` rows count as missing.
    """
    fitted: list[Column | Dropped] = []
    for name, column in zip(frame.names, frame.columns, strict=True):
        values = read_values(name, column, missing_values, parse=True)
        if identifiers is None:
            why = IDENTIFIES if identifies(name, values) else None
        else:
            why = identifiers.get(name)
        if why is not None:
            fitted.append(Dropped(name, f"{why}; {_TO_KEEP}" if why == IDENTIFIES else why))
        else:
            fitted.append(_fit_column(name, values, codes, weights, kind, min_cell))
    used = tuple(column for column in fitted if isinstance(column, Column))
    dropped = tuple(column for column in fitted if isinstance(column, Dropped))
    if not used:
        reasons = "; ".join(column.message for column in dropped[:3])
        raise TableError(f"no column is left to learn from: {reasons}")
    return Encoding(used, dropped, frame.names, frame.from_array, missing_values)


def _fit_column(
    name: str, values: Values, codes: Ints, weights: Floats, kind: ClassifierKind, min_cell: int
) -> Column | Dropped:
    known = ~values.missing()
    if not known.any():
        return Dropped(name, "it is missing in every row")
    lost = float(weights[~known].sum())
    share = lost / float(weights.sum()) if lost >= min_cell else 0.0
    if values.type == "boolean":
        if min(np.bincount(values.data[known].astype(np.int64), minlength=2)) < min_cell:
            return Dropped(name, f"{FEW_PEOPLE}{min_cell} rows or more (min_cell)")
        return Column(name, "boolean", levels=(False, True), missing_share=share, done="boolean")
    if values.type == "date" or (values.type == "number" and not values.declared):
        done = f"{values.type}, not binned"
        return Column(name, values.type, missing_share=share, done=done)
    check_keys(name, values)
    levels = levels_of(values)
    if values.type == "text":
        number = number_texts(values.data, list(map(str, levels)))[known]
    else:
        number = distinct_numbers(values.data[known])[1]
    mass = np.bincount(number, weights[known], len(levels))
    kept = np.sort(np.argsort(-mass, kind="stable")[: MOST_LEVELS[kind]])
    whole = bool((weights == np.floor(weights)).all())
    people = mass if whole else np.bincount(number, minlength=len(levels))
    kept = kept[people[kept] >= min_cell]
    if not len(kept):
        return Dropped(name, f"{FEW_PEOPLE}{min_cell} rows or more (min_cell)")
    if kind == "forest":
        positive = np.bincount(number, (weights * codes)[known], len(levels))
        rate = (positive + ORDER_ROWS * positive.sum() / mass.sum()) / (mass + ORDER_ROWS)
        kept = kept[np.argsort(rate[kept], kind="stable")]
    done, rest = f"category of {counted(len(kept), 'level')}", len(levels) - len(kept)
    if rest:
        done += f", {counted(rest, 'rarer one counts', 'rarer ones count')} as missing"
    names = tuple(levels[i] for i in kept)
    return Column(name, "category", levels=names, open=bool(rest), missing_share=share, done=done)


def encoded_matrix(encoding: Encoding, table: Frame) -> Floats:
    """The matrix of a table."""
    frame = encoding.aligned(table)
    present = dict(zip(frame.names, frame.columns, strict=True))
    matrix = np.full((frame.n_rows, len(encoding.columns)), np.nan)
    for j, column in enumerate(encoding.columns):
        if column.name not in present:
            raise TableError(absent(column.name))
        values = read_values(column.name, present[column.name], encoding.missing_values)
        if not column.binned:
            codes = column.codes(values)
            # Beyond the levels is the code of all that were not kept.
            known = (codes >= 0) & (codes < len(column.levels))
            matrix[:, j] = np.where(known, codes, np.nan)
        elif not values.missing().all():
            matrix[:, j] = np.clip(column.numbers(values), -LARGEST, LARGEST)
    return matrix


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """A table as classifiers take it, read once for all that learn from some of its rows.

    Labels are not looked at, so this is for kinds of classifiers whose levels need none.

    Attributes:
        frame, weights: the rows.
        missing_values: that mean "missing".
        identifiers: columns that tell rows apart, and why they are left out.
        min_cell: rows that a level stands for, at least, also among some of the rows.
    """

    frame: Frame
    weights: Floats
    missing_values: tuple[Sentinel, ...]
    identifiers: Mapping[str, str] | None
    min_cell: int = 1
    _read: dict[ClassifierKind, tuple[Encoding, Floats]] = field(default_factory=dict)
    _edges: dict[ClassifierKind, dict[str, Floats | None]] = field(default_factory=dict)

    def _whole(self, kind: ClassifierKind) -> tuple[Encoding, Floats]:
        if kind not in self._read:
            codes = np.zeros(len(self.weights), np.int64)
            given = self.weights, kind, self.missing_values, self.identifiers, self.min_cell
            encoding = fit_encoding(self.frame, codes, *given)
            self._read[kind] = encoding, encoded_matrix(encoding, self.frame)
        return self._read[kind]

    def encoding(self, kind: ClassifierKind, rows: Ints) -> Encoding:
        """That of some rows alone, which know no levels but their own."""
        encoding, matrix = self._whole(kind)
        columns = []
        for column, values in zip(encoding.columns, matrix.T, strict=True):
            own = values[rows]
            known = own[~np.isnan(own)]
            seen = np.ones(1, np.bool_)
            if column.kind in ("category", "boolean"):
                people = np.bincount(known.astype(np.int64), minlength=len(column.levels))
                seen = people >= max(self.min_cell, 1)
            few = not (seen.all() if column.kind == "boolean" else seen.any())
            if not len(known) or few:  # a column that is of no use to these rows
                some, codes = self.frame.taken(rows), np.zeros(len(rows), np.int64)
                given = self.weights[rows], kind, self.missing_values, self.identifiers
                return fit_encoding(some, codes, *given, self.min_cell)
            if column.kind == "category" and not seen.all():
                levels = tuple(itertools.compress(column.levels, seen))
                column = replace(column, levels=levels)
            columns.append(column)
        return replace(encoding, columns=tuple(columns))

    def edges(self, kind: ClassifierKind, encoding: Encoding) -> Edges:
        """Those of the bins of all rows, for the columns of some: no label is looked at."""
        if kind not in self._edges:
            whole, matrix = self._whole(kind)
            found = edges_of(matrix, encoded_sizes(whole))
            self._edges[kind] = dict(zip((c.name for c in whole.columns), found, strict=True))
        return [self._edges[kind][column.name] for column in encoding.columns]

    def matrix(self, kind: ClassifierKind, encoding: Encoding, rows: Ints) -> Floats:
        """Some rows under the encoding of others."""
        whole, matrix = self._whole(kind)
        if len(encoding.columns) < len(whole.columns):
            return encoded_matrix(encoding, self.frame.taken(rows))
        some = matrix[rows]
        for j, (own, all_of_it) in enumerate(zip(encoding.columns, whole.columns, strict=True)):
            if own.kind == "category" and own.levels != all_of_it.levels:
                number = {level: float(code) for code, level in enumerate(own.levels)}
                codes = np.array([*(number.get(v, np.nan) for v in all_of_it.levels), np.nan])
                some[:, j] = codes[np.nan_to_num(some[:, j], nan=-1.0).astype(np.int64)]
        return some


def encoded_sizes(encoding: Encoding) -> Ints:
    """The sizes of a table's columns; booleans are numbers."""
    return np.array(
        [len(c.levels) if c.kind == "category" else 0 for c in encoding.columns], np.int64
    )


def bin_edges(column: Floats) -> Floats:
    """Numbers up to which the bins of a column go.

    A value of many rows has a bin of its own, and quantiles of the others make the rest: those of
    all rows would put what is above the zeros of a column of zeros into one bin.
    """
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    if len(values) <= BINS:
        return _round_edges(values, np.arange(len(values) - 1))
    common = np.flatnonzero(counts * BINS >= counts.sum())
    below = np.cumsum(np.where(np.isin(np.arange(len(values)), common), 0, counts))
    n_rest = BINS - len(common)
    quantiles = np.searchsorted(below, np.arange(1, n_rest) * below[-1] // n_rest, side="right")
    last = np.concatenate([quantiles, common, common - 1])
    return _round_edges(values, np.unique(last[(last >= 0) & (last < len(values) - 1)]))


def _round_edges(values: Floats, last: Ints) -> Floats:
    """Between each of these values and the next, away from both: a model file keeps the edges, and
    must not keep a person's number."""
    low, high = values[last], values[last + 1]
    middle = np.column_stack([0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high])
    found = np.array([round_number(*ends) for ends in middle.tolist()])
    return np.where((low < found) & (found < high), found, low)  # of adjacent floats


def edges_of(matrix: Floats, sizes: Ints) -> Edges:
    """Edges of the bins of each column of numbers."""
    columns = zip(matrix.T, sizes.tolist(), strict=True)
    return [None if size else bin_edges(column) for column, size in columns]


def bin_codes(column: Floats, edges: Floats | None) -> Codes:
    """The bin of each number, -1 where it is missing; codes of levels, without edges, stay."""
    hidden = np.isnan(column)
    known = np.where(hidden, 0.0, column)
    found = known if edges is None else np.searchsorted(edges, known)
    return np.where(hidden, -1, found).astype(np.int16)


@dataclass(frozen=True, eq=False)
class Design:
    """A matrix as columns that coefficients go with.

    Attributes:
        columns: of each column in turn the standardised number, or the levels, and the holes.
        mean, scale: of each column of numbers; 0 and 1 of others.
        stops: where the columns of each stop.
    """

    columns: Floats
    mean: Floats
    scale: Floats
    stops: Ints

    @classmethod
    def of(cls, matrix: Floats, sizes: Ints, weights: Floats) -> Self:
        mean, scale = _moments(matrix, sizes, weights)
        blocks = []
        for j, (column, size) in enumerate(zip(matrix.T, sizes.tolist(), strict=True)):
            if size:
                own = indicators(column, np.arange(size))
            else:
                own = np.nan_to_num(standardised(column, mean[j], scale[j]))[:, None]
            blocks.append(np.column_stack([own, np.isnan(column)]))
        stops = np.cumsum([block.shape[1] for block in blocks])
        return cls(np.concatenate(blocks, axis=1), mean, scale, stops)


def _moments(matrix: Floats, sizes: Ints, weights: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column of numbers; 0 and 1 of others."""
    known = ~np.isnan(matrix) & (sizes == 0)
    filled, mass = np.where(known, matrix, 0.0), np.maximum(weights @ known, 1e-300)
    mean = weights @ filled / mass
    spread = np.sqrt(weights @ np.where(known, (matrix - mean) ** 2, 0.0) / mass)
    return mean, np.where(spread > 0, spread, 1.0)


def standardised(column: Floats, mean: float, scale: float) -> Floats:
    with np.errstate(over="ignore"):
        return np.clip((column - mean) / scale, -FURTHEST, FURTHEST)
