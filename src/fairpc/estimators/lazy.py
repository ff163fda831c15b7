"""Predictions of Dask frames, which are lazy: computed by partition when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np

from fairpc.cluster.client import need_dask
from fairpc.cluster.frame import Values, by_partition
from fairpc.cluster.table import is_dask
from fairpc.errors import TableError

P = ParamSpec("P")
R = TypeVar("R")

PREFIXES: Final = {"predict_proba": "p_df_", "predict_observed_proba": "p_d_"}
"""Of the columns of lazy predictions, before the name of each class."""


def lazy_on_dask(method: Callable[P, R]) -> Callable[P, R]:
    """A method of a classifier that also takes a Dask frame, and is then lazy.

    Decisions become a series, probabilities a frame with a column per class.
    """

    @wraps(method)
    def either(*args: P.args, **kwargs: P.kwargs) -> R:
        model, *rest = args
        given: dict[str, Any] = {**kwargs}
        frame = rest[0] if rest else given.pop("X", None)
        if is_dask(frame):
            lazily: Any = _lazy(model, method.__name__, frame, given)
            return lazily  # type: ignore[no-any-return]
        return method(*args, **kwargs)

    return either


def _lazy(model: Any, method: str, frame: Any, given: dict[str, Any]) -> Any:
    need_dask()
    for name, value in given.items():
        if value is not None:
            raise TableError(
                f"{name} were given apart from a Dask frame: make them columns of it, for its "
                "partitions are read one by one"
            )
    classes = model.classes_  # says so where the model is not fitted
    call = partial(_called, model, method)
    if method not in PREFIXES:
        return by_partition(frame, call, ["decision"], classes.dtype)
    return by_partition(frame, call, [f"{PREFIXES[method]}{c}" for c in classes], np.float64)


def _called(model: Any, method: str, part: Any) -> Values:
    values: Values = getattr(model, method)(part)
    return values
