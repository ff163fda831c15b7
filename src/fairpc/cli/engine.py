"""Who does the work of a command: this process, or workers of Dask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fairpc.cli.streamed import Opening
from fairpc.data.source import source_of
from fairpc.errors import OptionError

ENGINES: Final = ("local", "dask")


@dataclass(frozen=True)
class Engine:
    """Who reads a table and runs EM.

    Attributes:
        name: "local" or "dask".
        scheduler: address of a Dask scheduler; None for processes on this machine.
    """

    name: str = "local"
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise OptionError(f"--engine is {self.name!r}: choose one of {', '.join(ENGINES)}")
        if self.scheduler is not None and not self.clustered:
            raise OptionError("--scheduler is an address of Dask: give --engine dask too")

    @property
    def clustered(self) -> bool:
        return self.name == "dask"

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A block with a client of Dask; None where this process does the work."""
        if not self.clustered:
            yield None
            return
        from fairpc.cluster.client import connected

        with connected(self.scheduler) as client:
            yield client

    @contextmanager
    def tables(self) -> Iterator[Opening]:
        """A block in which tables can be opened, and how."""
        with self.client() as client:
            if client is None:
                yield source_of
                return
            from fairpc.cluster.table import file_table

            yield partial(file_table, client=client)
