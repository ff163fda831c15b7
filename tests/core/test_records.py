"""Records from JSON: a number that would be read as another one is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fairpc.core import record
from fairpc.errors import FileFormatError


@dataclass(frozen=True, eq=False)
class Numbers:
    one: float
    many: npt.NDArray[np.float64]


@pytest.mark.parametrize("field", ["one", "many"])
def test_a_whole_number_that_no_float_holds_is_refused(field: str) -> None:
    def read(number: int) -> Any:
        content = {"one": 0, "many": [0.5]} | {field: number if field == "one" else [1.5, number]}
        return getattr(record(Numbers, content), field)

    assert np.max(read(2**53)) == 2**53
    with pytest.raises(FileFormatError, match=f"{field} is .*9007199254740993"):
        read(2**53 + 1)
