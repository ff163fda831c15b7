"""JSON from outside: what is no file of ours is refused within bounds, and no number is changed."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from typing_extensions import TypeAliasType, TypeVar

from fairpc.core import read_json, record
from fairpc.core._records import parse_json
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


def _nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    "data",
    [
        *(b"[1e999]", b"[-1e+400]", b"[" + b"9" * 400 + b".5]", b"[NaN]", b'{"a":1,"a":1}'),
        *(_nested(100), _nested(100_000), b"[],[]," * 600_000, b" " * 2**22),
    ],
    ids=["infinite", "minus", "digits", "NaN", "twice", "deep", "deeper", "lists", "bytes"],
)
def test_what_no_file_of_ours_has_is_refused(data: bytes) -> None:
    with pytest.raises(FileFormatError):
        parse_json(data, "it", 2**22 - 1)


@pytest.mark.parametrize("data", [b"[1e300, -1e-999]", b'{"1e999": "[[[["}', _nested(60)])
def test_what_is_finite_is_read_as_it_is(data: bytes) -> None:
    assert parse_json(data, "it", 2**20) == json.loads(data)


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(6 * 2**30)
    tracemalloc.start()
    try:
        with pytest.raises(FileFormatError, match="bytes"):
            read_json(path, 2**20)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
