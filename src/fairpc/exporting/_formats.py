"""A fitted model to a file that scores without fairpc; the suffix says in which language."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairpc.core import AnyPath, MissingExtraError, OptionError, write_atomically
from fairpc.exporting._program import Scorer

if TYPE_CHECKING:
    from fairpc.models import FittedModel

SUFFIXES: Final = (".onnx", ".sql", ".py")
TABLE: Final = "applicants"
"""What a query calls the table, unless it is told."""


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        path: the file.
        format: "onnx", "sql" or "py".
        inputs: names of the columns that it reads, and what each holds: "text", "number",
            "boolean", "date".
        written: columns of numbers that were text such as "1.234,5 €" at fit, with an example of
            each. Queries and Python files read such text; a graph of ONNX takes the numbers.
        classes: whose probabilities it gives, in order.
        n_bytes: size of the file.
    """

    path: str
    format: str
    inputs: dict[str, str]
    written: dict[str, str]
    classes: tuple[str, ...]
    n_bytes: int


def export(model: FittedModel, path: AnyPath, *, table: str = TABLE) -> Exported:
    """Write a fitted model to a file that gives P(Df = class | row) without fairpc.

    Columns are given as they are in the table: values become codes inside the file. What is
    missing is summed out, also the group, and levels that were not seen at fit count as missing.
    Of models without Df it is P(D = class | row).

    Args:
        model: a fitted FairPC, NLatPC, LatNB or TwoNB.
        path: the file; its suffix says what is written. ``.onnx``: a graph for ONNX Runtime, needs
            ``fairpc[onnx]``. ``.sql``: one SELECT, for SQLite and DuckDB. ``.py``: one file of
            Python, which needs nothing else.
        table: what a query calls the table that it scores.
    """
    suffix = check_suffix(path)
    scorer = Scorer.of(model)
    if suffix == ".onnx":
        if find_spec("onnx") is None:
            raise MissingExtraError("an ONNX file is made with onnx: pip install 'fairpc[onnx]'")
        from fairpc.exporting._onnx_file import onnx_bytes

        data = onnx_bytes(scorer)
    elif suffix == ".sql":
        from fairpc.exporting._sql_file import sql_text

        data = sql_text(scorer, table).encode()
    else:
        from fairpc.exporting._python_file import python_text

        data = python_text(scorer, Path(path).stem).encode()
    write_atomically(path, data)
    inputs: dict[str, Any] = {given.name: given.kind for given in scorer.inputs}
    classes = tuple(map(str, scorer.classes))
    return Exported(str(path), suffix[1:], inputs, scorer.written, classes, len(data))


def check_suffix(path: AnyPath) -> str:
    """The suffix of a file to write; an OptionError where it is none of ours."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise OptionError(
            f"{str(path)!r} ends with {suffix or 'no suffix'!r}: the suffix says what is written, "
            f"use {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        )
    return suffix
