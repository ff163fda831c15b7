"""Methods of a classifier that give something per row, for tables that are read in parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np

from fairpc.core import TableError
from fairpc.data import Warned, is_dask, is_source, open_source
from fairpc.models._tables import FittedColumns, check_not_apart

P = ParamSpec("P")
R = TypeVar("R")

PREFIXES: Final = {"predict_proba": "p_df_", "predict_observed_proba": "p_d_"}
"""Of the columns of lazy predictions, before the name of each class."""

LAZY: Final = ("predict", *PREFIXES)
"""Methods that are lazy for a Dask frame."""

SETTINGS: Final = ("level", "decisions")
"""Arguments of methods that say something of all rows alike."""


def in_batches(method: Callable[P, R]) -> Callable[P, R]:
    """A method of a classifier that gives something per row, and takes tables in parts too.

    Of a file, a folder, a glob or a polars lazy frame it gives what it gives of the table in
    memory, while a few batches of rows are there at a time; ``y`` then names a column. Of a Dask
    frame, decisions become a lazy series, probabilities a lazy frame with a column per class.
    """
    names = tuple(signature(method).parameters)

    @wraps(method)
    def either(*args: P.args, **kwargs: P.kwargs) -> R:
        given: dict[str, Any] = {**dict(zip(names, args, strict=False)), **kwargs}
        model, table = given.pop("self"), given.pop("X", None)
        if is_dask(table):
            return _lazy(model, method.__name__, table, given)  # type: ignore[no-any-return]
        if is_source(table):
            return _streamed(model, method, names, table, given)  # type: ignore[no-any-return]
        return method(*args, **kwargs)

    return either


def check_not_dask(table: Any) -> None:
    """A TableError where a table is a Dask frame."""
    if is_dask(table):
        raise TableError(
            f"a Dask frame was given: fit, {', '.join(LAZY)} take one, this takes its rows, "
            "frame.compute(), or the files that it was read from"
        )


def _streamed(
    model: Any,
    method: Callable[..., Any],
    names: tuple[str, ...],
    table: Any,
    given: Mapping[str, Any],
) -> Any:
    """What the method gives of each batch, one after the other; warnings are given once."""
    apart = dict(given)
    label = apart.pop("y", None)
    settings = {name: apart.pop(name) for name in SETTINGS if name in apart}
    check_not_apart(**apart)
    source = open_source(table)
    columns = FittedColumns.of(source, model._coding(), unused=model._needs_table, label=label)
    warned = Warned()
    with warned.watching():
        parts = [
            method(model, **{name: rows[name] for name in names if name in rows}, **settings)
            for rows in source.map(columns.columns, columns.given)
        ]
    if not parts:
        raise TableError("the table is empty: it has no rows, give at least one")
    warned.warn()
    if not isinstance(parts[0], tuple):
        return np.concatenate(parts)
    columns_of = zip(*parts, strict=True)
    return tuple(None if some[0] is None else np.concatenate(some) for some in columns_of)


def _lazy(model: Any, method: str, frame: Any, given: Mapping[str, Any]) -> Any:
    from fairpc.cluster import by_partition, need_dask

    need_dask()
    for name, value in given.items():
        if value is not None:
            raise TableError(
                f"{name} were given separately from a Dask frame: make them columns of it, "
                "because its partitions are read one by one"
            )
    classes = model.classes_  # says so where the model is not fitted
    if method not in LAZY:
        check_not_dask(frame)
    call = getattr(model, method)
    if method not in PREFIXES:
        return by_partition(frame, call, ["decision"], classes.dtype)
    return by_partition(frame, call, [f"{PREFIXES[method]}{c}" for c in classes], np.float64)
