"""Learn an encoding from a table: its columns one by one, without those that say nothing new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.data.columns import Binning, Options, Rows, inspect_column
from fairpc.data.encoding import Encoding
from fairpc.data.frame import Frame, read_frame
from fairpc.data.schema import Column, Dropped
from fairpc.data.table import check_weights
from fairpc.data.values import Sentinel, read_values
from fairpc.errors import TableError
from fairpc.errors.arrays import Bools

Names = str | int | Iterable[str | int]


def fit_encoding(
    frame: Any,
    *,
    y: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    n_bins: int = 8,
    rare: float = 0.005,
    max_levels: int = 16,
    missing_values: Iterable[Sentinel] = (),
    numeric: Names = (),
    categorical: Names = (),
    drop: Names = (),
    edges: Mapping[str, Sequence[Any]] | None = None,
    binning: Binning = "label",
) -> Encoding:
    """Learn how the columns of a table become codes.

    Args:
        frame: pandas, polars or pyarrow frame, or an array (columns "x0", "x1", …).
        y: class codes as ``Labels.transform`` gives them (-1 = missing); used to choose bins.
        sample_weight: weight per row; shares and quantiles are weighted.
        n_bins: about how many bins a numeric column gets; fewer where rows are few.
        rare: levels with a smaller share are merged into "other".
        max_levels: the most levels that a column may have, "other" included.
        missing_values: values that mean "missing", besides null and NaN; "?", -999.
        numeric: columns to be binned, whatever they look like.
        categorical: columns whose values are levels, whatever they look like.
        drop: columns to leave out.
        edges: edges of the bins of some columns, ``{"age": [25, 45]}``.
        binning: choose bins with the label, or by quantiles; without ``y`` always by quantiles.

    Columns with one value, identifiers (a different value in every row) and
    one-to-one copies of an earlier column are dropped; ``Encoding.dropped`` says why.
    """
    table = read_frame(frame)
    names = table.names
    options = Options(
        n_bins=n_bins,
        rare=rare,
        max_levels=max_levels,
        missing_values=tuple(missing_values),
        numeric=resolve(names, numeric, "numeric"),
        categorical=resolve(names, categorical, "categorical"),
        edges={min(resolve(names, [k], "edges")): v for k, v in (edges or {}).items()},
        binning=binning,
    )
    rows, used = _rows(table.n_rows, sample_weight, y if binning == "label" else None)
    columns, dropped = _fit_columns(table, options, rows, used, resolve(names, drop, "drop"))
    if not columns:
        reasons = "; ".join(d.message for d in dropped[:3])
        raise TableError(f"no column is left to learn from: {reasons}")
    return Encoding(tuple(columns), tuple(dropped), names, table.from_array, options.missing_values)


def _fit_columns(
    table: Frame,
    options: Options,
    rows: Rows,
    used: Bools | None,
    left_out: frozenset[str],
) -> tuple[list[Column], list[Dropped]]:
    columns, dropped = [], []
    known: dict[tuple[str, bytes], str] = {}
    for name, native in zip(table.names, table.columns, strict=True):
        if name in left_out:
            dropped.append(Dropped(name, "left out on request"))
            continue
        values = read_values(name, native, options.missing_values, parse=True)
        if used is not None:
            values = values.taken(used)
        fitted = inspect_column(name, values, options, rows)
        if isinstance(fitted, Dropped):
            dropped.append(fitted)
            continue
        digests = [("code", fitted.by_code), ("value", fitted.by_value)]
        original = next((known[d] for d in digests if d in known), None)
        if original is not None:
            dropped.append(Dropped(name, f"it is a one-to-one copy of column {original!r}"))
            continue
        known.update(dict.fromkeys(digests, name))
        columns.append(fitted.column)
    return columns, dropped


def resolve(names: tuple[str, ...], chosen: Names, option: str) -> frozenset[str]:
    """Names of columns given by name or position; a TableError names one that is not there."""
    found = []
    for item in [chosen] if isinstance(chosen, str | int | np.integer) else chosen:
        if isinstance(item, int | np.integer) and -len(names) <= item < len(names):
            found.append(names[item])
        elif item in names:
            found.append(str(item))
        else:
            raise TableError(
                f"column {item!r} in {option} is not in the table: "
                f"its columns are {', '.join(map(repr, names[:10]))}"
                + (", …" if len(names) > 10 else "")
            )
    return frozenset(found)


def _rows(
    n_rows: int, sample_weight: npt.ArrayLike | None, y: npt.ArrayLike | None
) -> tuple[Rows, Bools | None]:
    """The rows of positive weight, and which they are if not all."""
    weights = check_weights(sample_weight, n_rows)
    classes, n_classes = None, 0
    if y is not None:
        raw = np.asarray(y)
        if raw.shape != (n_rows,):
            raise TableError(f"the label has shape {raw.shape}: give one per row ({n_rows})")
        if raw.dtype.kind not in "iu" or raw.min() < -1:
            raise TableError(
                "the label must be class codes from 0, -1 = missing: give Labels.transform(y)"
            )
        classes, n_classes = raw.astype(np.int64), int(raw.max()) + 1
        if n_classes < 2:
            classes = None
    used = weights > 0
    rows = replace(Rows.of(weights[used]), n_classes=n_classes)
    if used.all():
        return replace(rows, classes=classes), None
    return replace(rows, classes=None if classes is None else classes[used]), used
