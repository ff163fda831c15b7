"""The model that a command is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairpc.errors import FileFormatError

if TYPE_CHECKING:
    from fairpc.estimators.base import CircuitClassifier


def loaded(path: str, *, then: str = "TABLE") -> CircuitClassifier:
    """The model of a file; where there is none, what is expected there and after it."""
    from fairpc.estimators import load

    order = f"give MODEL, a file that `fairpc fit` wrote, and then {then}"
    try:
        return load(path)
    except FileNotFoundError:
        raise FileFormatError(f"there is no model {path}: {order}") from None
    except FileFormatError as error:
        if _is_json(Path(path)):
            raise
        raise FileFormatError(f"{path} is no model: {order}") from error


def _is_json(path: Path) -> bool:
    """Whether a file begins as models do: such a one was altered, or is of another kind."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(1) == b"{"
