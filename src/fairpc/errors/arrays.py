"""Types of arrays, by what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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
