"""The same rows in every library, random tables, and the raw tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import strategies as st

from fairpc.data import (
    Encoding,
    EncodingOptions,
    FrameSource,
    Roles,
    apart_name,
    check_weights,
    read_frame,
    resolve,
)
from fairpc.data._coding import fit_features
from fairpc.data._summary import summarise_source
from published import RAW

Columns = dict[str, list[Any]]

needs_data = pytest.mark.skipif(
    not (RAW / "adult.data").exists(),
    reason="the raw tables are not here: set FAIRPC_DATA to their folder",
)


def as_polars(columns: Columns) -> Any:
    return pl.DataFrame(columns, strict=False)


def as_pandas(columns: Columns) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def as_pyarrow(columns: Columns) -> Any:
    return pytest.importorskip("pyarrow").table(columns)


def as_objects(columns: Columns) -> Any:
    """An array of Python objects; columns lose their names."""
    array = np.empty((len(next(iter(columns.values()))), len(columns)), object)
    for j, column in enumerate(columns.values()):
        array[:, j] = column
    return array


LIBRARIES: dict[str, Callable[[Columns], Any]] = {
    "polars": as_polars,
    "pandas": as_pandas,
    "pyarrow": as_pyarrow,
    "numpy": as_objects,
}

_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": st.sampled_from(["a", "b", "c", "d d", "é", "other", "Z"]),
    "integer": st.integers(-3, 30),
    "wide": st.integers(-(2**40), 2**40),
    "float": st.floats(-1e6, 1e6, allow_nan=False),
    "zeros": st.one_of(st.just(0.0), st.just(0.0), st.floats(0, 1e5)),
    "boolean": st.booleans(),
    "date": st.datetimes(dt.datetime(1930, 1, 1), dt.datetime(2100, 1, 1)).map(
        lambda d: d.replace(microsecond=0)
    ),
}


@st.composite
def tables(draw: st.DrawFn, max_rows: int = 60) -> Columns:
    """Columns of every kind, with holes; the first two are never constant nor copies."""
    n = draw(st.integers(25, max_rows))
    kinds = draw(st.lists(st.sampled_from(sorted(_VALUES)), max_size=4))
    columns: Columns = {
        "first": [i % 3 == 0 for i in range(n)],
        "second": [("u", "v", None, "w")[i % 4] for i in range(n)],
    }
    for j, kind in enumerate(kinds):
        cell = st.one_of(_VALUES[kind], _VALUES[kind], _VALUES[kind], st.none())
        column = draw(st.lists(cell, min_size=n, max_size=n))
        # A column of nothing has no type, and libraries differ in what they make of it.
        column[0] = draw(_VALUES[kind])
        columns[f"{kind}{j}"] = column
    return columns


def adult() -> Any:
    names = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status"]
    names += ["occupation", "relationship", "race", "sex", "capital-gain", "capital-loss"]
    names += ["hours-per-week", "native-country", "target"]
    raw = pl.read_csv(RAW / "adult.data", has_header=False, new_columns=names)
    return raw.drop_nulls("target").with_columns(pl.col(pl.String).str.strip_chars())


def german() -> Any:
    return pl.read_csv(RAW / "german.data", separator=" ", has_header=False)


def compas() -> Any:
    return pl.read_csv(RAW / "compas-scores-two-years.csv", infer_schema_length=None)


def fit_encoding(
    frame: Any,
    *,
    y: npt.ArrayLike | None = None,
    sample_weight: npt.ArrayLike | None = None,
    missing_values: tuple[Any, ...] = (),
    drop: Any = (),
    **options: Any,
) -> Encoding:
    """The encoding of a table without groups; ``y`` are class codes, -1 = missing."""
    table = read_frame(frame)
    for name in options.keys() & {"numeric", "categorical"}:
        options[name] = resolve(table.names, options[name], name)
    left_out = resolve(table.names, drop, "drop")
    given = {"label": np.full(table.n_rows, -1) if y is None else np.asarray(y, np.int64)}
    if sample_weight is not None:
        given["weight"] = check_weights(sample_weight, table.n_rows)
    apart = {role: apart_name(role, role) for role in given}
    source = FrameSource.of(table.with_columns({apart[role]: v for role, v in given.items()}))
    features = tuple(name for name in table.names if name not in left_out)
    chosen = EncodingOptions(**options)
    roles = Roles(
        apart["label"],
        (),
        features,
        apart.get("weight"),
        missing_values=missing_values,
        numeric=chosen.numeric,
    )
    summary = summarise_source(source, roles)
    # The distinct labels are codes themselves; none is missing.
    n_classes = int(given["label"].max()) + 1
    return fit_features(source, roles, summary, chosen, summary.labels.data, n_classes)
