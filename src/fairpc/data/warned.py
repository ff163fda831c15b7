"""Warnings about the parts of a table, gathered into a few sentences."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from fairpc.data.plural import counted
from fairpc.errors import TableWarning

_SHOWN: Final = 10


@dataclass
class Warned:
    """The first warning about each column; a batch after it may say the same with other numbers."""

    first: dict[str, str] = field(default_factory=dict)
    again: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A block whose warnings about tables are kept, not printed; others go where they went."""
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", TableWarning)
            yield
        for warning in found:
            if not issubclass(warning.category, TableWarning):
                warnings.warn_explicit(
                    warning.message, warning.category, warning.filename, warning.lineno
                )
                continue
            text = str(warning.message)
            column = text.partition(" has ")[0].partition(" was ")[0]
            if column in self.first:
                self.again[column] = self.again.get(column, 0) + 1
            else:
                self.first[column] = text

    def sentences(self) -> Iterator[str]:
        for column, text in list(self.first.items())[:_SHOWN]:
            more = self.again.get(column, 0)
            parts = counted(more, "later part")
            yield f"{text} (and more in {parts} of the table)" if more else text
        if len(self.first) > _SHOWN:
            rest = counted(len(self.first) - _SHOWN, "more column has", "more columns have")
            yield f"{rest} values that were not seen at fit"

    def warn(self, stacklevel: int) -> None:
        """Say them, as warnings."""
        for sentence in self.sentences():
            warnings.warn(sentence, TableWarning, stacklevel=stacklevel + 1)
