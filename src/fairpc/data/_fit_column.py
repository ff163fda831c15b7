"""One column: what it is, its levels or its bins, or why it is of no use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import numpy as np

from fairpc.core import (
    Array,
    ColumnWarning,
    Floats,
    Ints,
    TableError,
    TableWarning,
    counted,
    warn_caller,
)
from fairpc.data._binning import Atoms, choose_edges, distinct_edges, kept_ends, value_label
from fairpc.data._column import AS_MISSING, Column, Dropped, Kind
from fairpc.data._column_summary import MOST, ColumnSummary, Numbers, RowClasses, Texts
from fairpc.data._intervals import DAY
from fairpc.data._table import MAX_ARITY
from fairpc.data._values import EXACT, Level, Values, check_keys, levels_of
from fairpc.data._writing import DECIMALS, parsed_numbers

Binning = Literal["label", "quantile"]
IDENTIFIES: Final = "it has a different value in every row, like an identifier"
FEW_ROWS: Final = "none of its "
FEW_PEOPLE: Final = "fewer than two of its values are those of "
"""How reasons begin why a column is dropped that tells rows apart."""
BINS: Final = 8  #: bins of a numeric column, unless another number is asked for


@dataclass(frozen=True)
class EncodingOptions:
    """How columns are encoded."""

    n_bins: int = BINS  #: about how many bins a numeric column gets; fewer where rows are few
    rare: float = 0.005  #: levels with a smaller share are merged into "other"
    min_cell: int = 1  #: levels, bins and groups of fewer people are not kept apart, nor named
    useful: float | None = None  #: share that some name must have, or its column goes; None: rare
    max_levels: int = 16  #: the most levels that a column may have, "other" included
    numeric: frozenset[str] = frozenset()  #: columns to be binned, whatever they look like
    categorical: frozenset[str] = frozenset()  #: columns whose values are levels in any case
    binning: Binning = "label"  #: choose bins with the label, where there is one, or by quantiles
    #: columns that are encoded in another way, and how
    apart: tuple[frozenset[str], EncodingOptions] | None = None

    @property
    def least(self) -> float:
        """What the largest value of a column of names must have of the rows."""
        return self.rare if self.useful is None else self.useful

    def of_column(self, name: str) -> EncodingOptions:
        """How one column is encoded."""
        return self.apart[1] if self.apart is not None and name in self.apart[0] else self

    def __post_init__(self) -> None:
        known = {
            "n_bins": (2 <= self.n_bins <= MAX_ARITY, f"give a number from 2 to {MAX_ARITY}"),
            "max_levels": (2 <= self.max_levels <= MAX_ARITY, f"give from 2 to {MAX_ARITY}"),
            "rare": (0 <= self.rare < 1, "give a share of at least 0 and below 1"),
            "min_cell": (self.min_cell >= 1, "give a number of people, 1 for none"),
            "binning": (self.binning in get_args(Binning), "use 'label' or 'quantile'"),
        }
        for name, (good, rule) in known.items():
            if not good:
                raise TableError(f"{name} is {getattr(self, name)!r}: {rule}")
        if both := self.categorical & self.numeric:
            raise TableError(f"column {min(both)!r} is named numeric and categorical: choose one")


@dataclass(frozen=True, eq=False)
class ListedColumn:
    """A column as the rules below read it: distinct values, each with its weight."""

    name: str
    content: Numbers | Texts
    weights: Floats  #: of each value, in rows
    classes: Floats | None  #: weight per value and class, if there are two to tell apart
    once: bool  #: whether every value occurs in one row only
    declared: bool  #: the frame's own type says that these are categories

    @classmethod
    def of(
        cls,
        name: str,
        summary: ColumnSummary,
        content: Numbers | Texts,
        scale: float = 1.0,
        classes: Ints | None = None,
    ) -> ListedColumn:
        """A column of a summary; the other arguments are those of ``fit_column``."""
        weights = content.weights.sum(axis=1) * scale
        repeats = summary.repeats
        once = float(weights.sum()) == len(weights) if repeats is None else repeats.none
        by_class = None if classes is None else _by_class(content.weights, scale, classes)
        return cls(name, content, weights, by_class, once, summary.declared)

    def identifies(self, options: EncodingOptions) -> bool:
        """Whether each row has a text or whole number of its own, unless somebody says what it is.

        In fewer than 20 rows that may be chance.
        """
        if self.declared or self.name in options.categorical | options.numeric:
            return False
        content = self.content
        counts = isinstance(content, Texts) or (content.type == "number" and content.whole)
        return counts and self.once and len(self.weights) >= 20


def fit_column(
    name: str,
    summary: ColumnSummary,
    options: EncodingOptions,
    scale: float = 1.0,
    classes: Ints | None = None,
    *,
    parse: bool = True,
) -> Column | Dropped:
    """Encoding of one column, or why it is of no use.

    ``scale`` makes the mean weight of a row 1; it is 1 where weights count rows. ``classes`` are
    those of the labels that the summary tells apart, -1 = missing; None if the label plays no part
    in the choice of bins.
    Unless ``parse``, text that is nothing but numbers or dates is not read as such.
    """
    summary = summary.read if parse else summary
    content = summary.content
    if content is None:
        return Dropped(name, "it is missing in every row")
    if isinstance(content, Texts) and content.values.numeric:
        raise TableError(
            f"column {name!r} was declared numeric, and not all its rows are numbers: correct "
            "them, or name the decimal mark with decimal"
        )
    listed = ListedColumn.of(name, summary, content, scale, classes)
    if listed.identifies(options):
        return Dropped(name, f"{IDENTIFIES}; name it with numeric=… or categorical=… to keep it")
    fit = _fit_levels if _is_named(listed, options) else _fit_numbers
    fitted = fit(listed, options)
    if isinstance(fitted, Dropped):
        return fitted
    lost = float(summary.missing.sum())
    share = lost / (content.known_weight + lost) if lost >= options.min_cell else 0.0
    remark = f" ({content.remark})" if content.remark else ""
    mark = content.decimal if isinstance(content, Numbers) else "."
    return replace(fitted, missing_share=share, done=fitted.done + remark, decimal=mark)


def identifies(name: str, values: Values) -> bool:
    """Whether a column in memory would be dropped as an identifier."""
    rows = RowClasses(np.zeros(len(values.data), np.int64), 1)
    summary = ColumnSummary.of(values, rows).read
    if summary.content is None:
        return False
    return ListedColumn.of(name, summary, summary.content).identifies(EncodingOptions())


def _by_class(weights: Floats, scale: float, classes: Ints) -> Floats | None:
    """Weight per value and class; None if there are not two classes to tell apart."""
    # Missing classes fall into a last column, which is then left out.
    table = np.zeros((len(weights), int(classes.max()) + 2))
    for column, of_label in zip(classes, weights.T, strict=True):
        table[:, column] += of_label
    table = table[:, :-1] * scale
    return table if (table.sum(axis=0) > 0).sum() > 1 else None


def _is_named(column: ListedColumn, options: EncodingOptions) -> bool:
    """Whether values are names and not quantities; whole numbers beyond 2^53 are keys."""
    content, name = column.content, column.name
    if isinstance(content, Texts) or content.type == "boolean":
        return True
    if column.declared or name in options.categorical:
        return True
    whole = content.type == "number" and content.sketch.values.dtype.kind in "iu"
    return whole and name not in options.numeric and _largest(content.sketch.values) >= EXACT


def _fit_levels(column: ListedColumn, options: EncodingOptions) -> Column | Dropped:
    name, content = column.name, column.content
    if isinstance(content, Texts) and name not in options.categorical:
        _warn_of_marks(name, content.texts, content.values.decimal)
    if isinstance(content, Texts) and content.rest is not None:
        return _fit_heavy(name, content, options)
    if content.values.type == "date":
        raise TableError(f"column {name!r} holds dates: they are binned, not categorical")
    check_keys(name, content.values)
    levels, weights = levels_of(content.values), column.weights
    if weights.sum() < options.min_cell:
        return _few(name, options)
    if len(levels) == 1:
        return _constant(name, levels[0])
    if content.values.type == "boolean":
        if weights.min() < options.min_cell:
            return _few(name, options)
        return Column(name, "boolean", levels=(False, True), done="boolean")
    if isinstance(content, Texts):
        weights = weights[content.texts.arg_sort().to_numpy()]
    kept, merged = merge_rare(weights, options.rare, options.max_levels)
    if weights.max() < options.least * weights.sum():
        return _spread(name, f"{len(levels):,}", options)
    return _levels(name, levels, weights, [kept, merged], options)


_MARKS: Final = {".": "point", ",": "comma"}


def _warn_of_marks(name: str, texts: Any, decimal: str) -> None:
    """Say that numbers under another decimal mark than the table's are taken as names."""
    other = next(mark for mark in DECIMALS if mark != decimal)
    marked = any(other in text for text in texts)
    if marked and not parsed_numbers(texts, other).is_null().any():
        warn_caller(
            f"column {name!r} holds numbers with a decimal {_MARKS[other]}, taken as names: give "
            f"decimal={other!r} (--decimal {other}), or name it in categorical",
            TableWarning,
        )


def _levels(
    name: str,
    levels: Sequence[Level],
    weights: Floats,
    parts: Sequence[list[int]],
    options: EncodingOptions,
) -> Column | Dropped:
    """A column of levels that are kept, and of those that are merged into "other".

    Those of fewer people than ``min_cell`` are merged and not listed; where "other" would stand for
    as few, they count as missing.
    """
    few = weights < options.min_cell
    kept, merged = ([i for i in part if not few[i]] for part in parts)
    done = f"category of {counted(len(kept), 'level')}"
    other = float(weights[merged].sum() + weights[few].sum())
    n_merged = len(merged) + int(few.sum())
    if n_merged and other >= options.min_cell:
        done += f", {counted(n_merged, 'rare one')} merged into 'other'"
    elif n_merged:
        done += f", {counted(n_merged, 'rare one counts', 'rare ones count')} {AS_MISSING}"
        n_merged = 0
    if not kept or len(kept) + bool(n_merged) < 2:
        return _few(name, options)
    # "Other" then takes every other value.
    unlisted = bool(n_merged) and (n_merged > 256 or bool(few.any()))
    return Column(
        name,
        "category",
        levels=tuple(levels[i] for i in kept),
        merged=() if unlisted or not n_merged else tuple(levels[i] for i in merged),
        open=unlisted,
        done=done,
    )


def _fit_heavy(name: str, texts: Texts, options: EncodingOptions) -> Column | Dropped:
    """Texts of which only the heavy ones are listed; all others are "other"."""
    mass, known = texts.weights.sum(axis=1), texts.known_weight
    if mass.max(initial=0.0) < options.least * known:
        return _spread(name, f"more than {MOST:,}", options)
    kept = np.flatnonzero(mass >= max(options.rare * known, options.min_cell))
    kept = np.sort(kept[np.argsort(-mass[kept], kind="stable")][: options.max_levels - 1])
    levels = tuple(texts.texts.gather(kept).to_list())
    done = f"category of {counted(len(kept), 'level')}, more than {MOST:,} merged into 'other'"
    return Column(name, "category", levels=levels, open=True, done=done)


def _fit_numbers(column: ListedColumn, options: EncodingOptions) -> Column | Dropped:
    name, content = column.name, column.content
    atoms = _atoms(column)
    if atoms.weights.sum() < options.min_cell:
        return _few(name, options)
    if len(atoms.values) == 1:
        return _constant(name, value_label(float(atoms.values[0]), date=atoms.date))
    free = name not in options.numeric and not atoms.date
    if free and atoms.integral and len(atoms.values) <= options.max_levels:
        rare = (atoms.weights < options.rare * atoms.weights.sum()).sum()
        many = atoms.weights.min() >= options.min_cell
        # Of more whole numbers the order says too much for a category.
        if rare < 2 and many and len(atoms.values) <= 16:
            levels = levels_of(content.values)
            every = list(range(len(levels)))
            return _levels(name, levels, atoms.weights, [every, []], options)
        edges = distinct_edges(atoms, options.rare, options.min_cell)
        done = "bins of single or rare whole numbers"
    else:
        edges, done = _choose(atoms, options)
    if not edges:
        return _few(name, options)
    kind: Kind = "date" if atoms.date else "number"
    words = f"{kind} in {len(edges) + 1} {done}"
    ends = kept_ends(atoms, options.min_cell)
    low, high = min(ends[0], edges[0]), max(ends[1], edges[-1])
    whole = atoms.integral or (atoms.date and bool((atoms.values % DAY == 0).all()))
    return Column(name, kind, edges=edges, integral=whole, done=words, ends=(low, high))


def _choose(atoms: Atoms, options: EncodingOptions) -> tuple[tuple[float, ...], str]:
    # A short column gets fewer bins than asked, so that each has some rows.
    n_bins = min(options.n_bins, max(2, round(float(atoms.weights.sum())) // 10))
    if len(atoms.values) <= n_bins:
        return distinct_edges(atoms, options.rare, options.min_cell), "bins, one per value"
    by = "by quantiles" if atoms.classes is None else "chosen with the label"
    return choose_edges(atoms, n_bins, options.rare, options.min_cell), f"bins {by}"


def _atoms(column: ListedColumn) -> Atoms:
    """Distinct numbers or dates with their weights."""
    values = column.content.values
    date = values.type == "date"
    whole = isinstance(column.content, Numbers) and column.content.whole
    integral = whole and _largest(values.data) < EXACT
    # Negative zero and zero are one value; adding zero leaves the positive one.
    numbers = values.data.astype(np.float64) + 0.0
    return Atoms(numbers, column.weights, column.classes, integral, date)


def _largest(data: Array) -> float:
    return max(abs(float(data.min())), abs(float(data.max())))


def _spread(name: str, n_values: str, options: EncodingOptions) -> Dropped:
    return Dropped(name, f"{FEW_ROWS}{n_values} values holds {options.least:.2%} of rows")


def _few(name: str, options: EncodingOptions) -> Dropped:
    return Dropped(name, f"{FEW_PEOPLE}{options.min_cell} rows or more (min_cell)")


def _constant(name: str, value: object) -> Dropped:
    return Dropped(name, f"it has one value ({value!r}) wherever it is known")


def merge_rare(weights: Floats, rare: float, max_levels: int) -> tuple[list[int], list[int]]:
    """Which levels stay and which share the level "other", by their number.

    Levels under a share ``rare`` of the weight merge, and the lightest ones
    beyond ``max_levels``. One level alone is not merged: that would only hide its name.
    """
    light = weights < rare * weights.sum()
    if light.sum() == 1:
        light[:] = False
    kept = np.flatnonzero(~light)
    room = max_levels if len(kept) == len(weights) else max_levels - 1
    if len(kept) > room:
        heaviest = kept[np.argsort(-weights[kept], kind="stable")][: max_levels - 1]
        kept = np.sort(heaviest)
    merged = np.setdiff1d(np.arange(len(weights)), kept)
    return kept.tolist(), merged.tolist()


def warn_of_codes(column: Column, summary: ColumnSummary) -> None:
    """Say which numbers look like codes for a missing value."""
    content = summary.read.content
    if column.kind != "number" or not isinstance(content, Numbers):
        return
    for code, low, high in _likely_codes(content.sketch.values):
        warn_caller(
            ColumnWarning(
                f"column {column.name!r} has the number {code}, and others from {low} to "
                f"{high} only: if it stands for a missing value, say so with "
                f"missing_values=({code},) or --missing {code}"
            )
        )


def _likely_codes(values: Array) -> Iterator[tuple[str, str, str]]:
    """A first or last number of nines that is far from all others, and the ends of these."""
    for code, others in ((values[-1], values[:-1]), (values[0], values[1:])):
        if abs(code) >= 99 and set(str(int(abs(code)))) == {"9"} and len(others):
            extremes = float(others[0]), float(others[-1])
            if 10.0 * max(map(abs, extremes)) <= abs(code):
                low, high = (value_label(end, date=False) for end in extremes)
                yield repr(code.item()), low, high
