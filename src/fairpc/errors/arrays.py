"""Types of arrays, by what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.errors import FairpcError, LearningError

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int16]
Floats = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]
Integers = npt.NDArray[np.integer[Any]]
Ints = npt.NDArray[np.int64]
Positions = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint64]


def check_choice(
    name: str, value: Any, known: tuple[str, ...], error: type[FairpcError] = LearningError
) -> None:
    """Raise an error unless ``value`` is one of the ``known`` choices."""
    if value not in known:
        raise error(f"{name} is {value!r}: use one of {', '.join(known)}")


def check_number(name: str, value: float, least: float) -> None:
    """Raise a LearningError unless ``value`` is a number of at least ``least``."""
    if not value >= least:
        raise LearningError(f"{name} is {value}: give a number of at least {least:g}")
