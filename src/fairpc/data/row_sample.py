"""Rows of a table at random, drawn as its batches go by."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final

import numpy as np

from fairpc.data.hashing import row_hash
from fairpc.errors.arrays import Words

_ALL: Final = np.uint64(2**64 - 1)


@dataclass
class RowSample:
    """Some rows of a table, every set of ``size`` rows as likely as any other.

    They are those whose numbers hash lowest. So the sample is the same however the table is
    cut into batches, and a smaller one of the same seed is part of a larger one. Where rows come
    with persons, these are drawn, with all their rows.
    """

    size: int
    seed: int
    n_seen: int = 0
    _limit: np.uint64 = _ALL
    _frames: list[Any] = field(default_factory=list)
    _keys: list[Words] = field(default_factory=list)

    def push(self, frame: Any, persons: Words | None = None) -> None:
        """The next rows of the table, as a polars frame; a number per person keeps them whole."""
        numbers = np.arange(self.n_seen, self.n_seen + len(frame), dtype=np.uint64)
        if persons is not None:
            numbers = persons
        self._keep(frame, row_hash(numbers[None], self.seed))
        self.n_seen += len(frame)
        if sum(map(len, self._keys)) > 2 * self.size:
            self._cut()

    def rows(self) -> Any:
        """The rows that were drawn of all that were seen, in their order."""
        import polars as pl

        self._cut()
        return pl.concat(self._frames, rechunk=True)

    def _keep(self, frame: Any, keys: Words) -> None:
        chosen = np.flatnonzero(keys <= self._limit)
        if len(chosen) < len(keys):
            frame, keys = _alone(frame[chosen]), keys[chosen]
        if len(keys) or not self._keys:
            self._frames.append(frame)
            self._keys.append(keys)

    def _cut(self) -> None:
        keys = np.concatenate(self._keys)
        if len(keys) <= self.size:
            return
        self._limit = np.partition(keys, self.size - 1)[self.size - 1]
        kept, self._frames, self._keys = zip(self._frames, self._keys, strict=True), [], []
        for frame, of_frame in kept:
            self._keep(frame, of_frame)


def _alone(frame: Any) -> Any:
    """The same rows without the texts of all others, which polars keeps for some of them."""
    import polars as pl

    buffer = BytesIO()
    frame.write_ipc_stream(buffer, compat_level=pl.CompatLevel.oldest())
    buffer.seek(0)
    return pl.read_ipc_stream(buffer)
