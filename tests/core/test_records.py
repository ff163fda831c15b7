"""Records from JSON: a number that would be read as another one is refused."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from typing_extensions import TypeAliasType, TypeVar

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
        return getattr(record(Numbers, content, "the file"), field)

    assert np.max(read(2**53)) == 2**53
    with pytest.raises(FileFormatError, match=f"{field} is .*9007199254740993"):
        read(2**53 + 1)


def test_the_name_of_a_type_is_read_as_the_type() -> None:
    """``NDArray`` is such a name from NumPy 2.5 on, which needs Python 3.12."""
    number = TypeVar("number", bound=np.generic)
    of = np.ndarray[tuple[Any, ...], np.dtype[number]]
    named: Any = (number,)
    array: Any = TypeAliasType("array", of, type_params=named)
    kind = make_dataclass("Some", [("counts", array[np.float64])])
    found: Any = record(kind, {"counts": [[1.0], [2.0]]}, "the file")
    assert found.counts.tolist() == [[1.0], [2.0]]
    with pytest.raises(FileFormatError, match="rows of one length"):
        record(kind, {"counts": [[1.0], []]}, "the file")
