"""What goes by the content of rows: hashes, fingerprints, samples that no order can change."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core._arrays import Array, Floats, Words
from fairpc.core._errors import TableError

_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_ONE: Final = np.uint64(0xBF58476D1CE4E5B9)
_TWO: Final = np.uint64(0x94D049BB133111EB)


def row_hash(words: Words, seed: int = 0) -> Words:
    """A hash per row of words × rows: SplitMix64 (Steele et al. 2014), word by word."""
    state = _mixed(np.full(words.shape[1], seed % (1 << 64), np.uint64))
    for word in words:
        state = _mixed(state ^ word)
    return state


def row_uniform(words: Words, seed: int) -> Floats:
    """A number in (0, 1) per row, by its hash."""
    top = row_hash(words, seed) >> np.uint64(11)
    return (top.astype(np.float64) + 0.5) / float(1 << 53)


def row_digest(words: Words, copies: Floats) -> Words:
    """Four numbers that name weighted rows: sums over rows, so those of batches or parts add up."""
    counts = np.fmod(copies, 2.0**64).astype(np.uint64)
    sums = [np.multiply(row_hash(words, seed), counts).sum(dtype=np.uint64) for seed in range(4)]
    return np.array(sums, np.uint64)


def _mixed(state: Words) -> Words:
    state = state + _STEP
    state = (state ^ (state >> np.uint64(30))) * _ONE
    state = (state ^ (state >> np.uint64(27))) * _TWO
    mixed: Words = state ^ (state >> np.uint64(31))
    return mixed


def fingerprint(*arrays: npt.ArrayLike | None) -> str:
    """ "sha256:…" of arrays of numbers: their types, shapes and values, in any memory layout.

    None has a fingerprint of its own, so that an absent weight is not an empty one.
    """
    digest = hashlib.sha256()
    for item in arrays:
        if item is None:
            digest.update(b"none;")
            continue
        array: Array = np.asarray(item)
        if array.dtype.kind not in "biuf":
            raise TableError(
                f"a fingerprint of {array.dtype} values was asked: give codes or numbers"
            )
        little = array.dtype.newbyteorder("<")
        digest.update(f"{little.str}{array.shape};".encode())
        digest.update(np.ascontiguousarray(array, little).data)
    return f"sha256:{digest.hexdigest()}"


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
    _limit: np.uint64 | int = 2**64 - 1
    _frames: list[Any] = field(default_factory=list)
    _keys: list[Words] = field(default_factory=list)

    def push(self, frame: Any, persons: Words | None = None) -> None:
        """The next rows of the table, as a polars frame; a number per person keeps them whole."""
        if persons is None:
            persons = np.arange(self.n_seen, self.n_seen + len(frame), dtype=np.uint64)
        self._keep(frame, row_hash(persons[None], self.seed))
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
