"""A file in which a long fit is kept, so that it can be killed and go on.

A fit is a fixed sequence of steps: given rows, settings and seed, it does the same again, bit for
bit. What takes long are its runs of EM. The file says where each of them is; a fit that was killed
is simply done again, and every run goes on from where it was. It is one JSON object and a line with
its checksum: numbers, and nothing that could be executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairpc.core import (
    AnyPath,
    FileFormatError,
    Floats,
    LearningError,
    check_writable,
    parse_json,
    read_whole,
    write_atomically,
)

EVERY = 30.0
"""Seconds between two writings of a run that goes on."""

FORMAT: Final = "fairpc checkpoint"
VERSION: Final = 3
MAX_BYTES: Final = 1 << 30
_BEGIN: Final = f'{{"format":"{FORMAT}"'.encode()
_SEAL: Final = b"\nsha256:"
_IDLE: Final = ("verbose", "n_jobs")  # settings that change nothing about the result
_ARRAYS: Final = ("parameters", "odds", "history")
_NEW: Final = "use a new file"


@dataclass(frozen=True, eq=False)
class EMState:
    """Where a run of EM is: the parameters that it evaluates next, and what it recorded before."""

    iteration: int  #: number of the step that has these parameters
    parameters: Floats
    odds: Floats  #: by which equal mass multiplied P(f) a step before; empty without
    history: Sequence[Floats] = ()  #: one record per step before

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON-safe data, all bits of its numbers kept."""
        arrays = self.parameters, self.odds, np.array(self.history)
        packed = dict(zip(_ARRAYS, map(_packed, arrays), strict=True))
        return {"iteration": self.iteration, **packed}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EMState:
        """The state of ``to_dict``; a TypeError, ValueError or LookupError if it is of none."""
        n = data["iteration"]
        parameters, odds, history = (_unpacked(data[name]) for name in _ARRAYS)
        if type(n) is not int or not 0 <= n <= len(history):
            raise ValueError(f"there is no step {n!r}")
        return cls(n, parameters, odds, tuple(history.reshape(n, len(history) // max(n, 1))))


@dataclass
class Checkpoint:
    """The file of one fit: what it is a fit of, and where each of its runs of EM is."""

    path: Path
    settings: Mapping[str, str]  #: as JSON
    rows: str = ""  #: fingerprint of the table; empty before it was read
    runs: dict[str, EMState] = field(default_factory=dict)  #: by what each starts from
    _written: float = field(default_factory=time.monotonic)

    @classmethod
    def open(cls, path: AnyPath, settings: Mapping[str, Any]) -> Checkpoint:
        """The checkpoint of a fit with these settings, new where there is no such file.

        A LearningError says in what the fit that it was made for differs from this one.
        """
        given: Any = path
        if not (isinstance(given, str | os.PathLike) and os.fspath(given)):
            raise LearningError(f"checkpoint is {given!r}: give the path of a file")
        if type(settings.get("random_state")) is not int:
            raise LearningError(
                f"random_state is {settings.get('random_state')!r}: a fit with a checkpoint needs "
                "a whole number, to draw the same numbers when it goes on"
            )
        if Path(path).is_dir():
            raise FileFormatError(
                f"{path} is a folder: a checkpoint is one file, give a name for it (checkpoints "
                "of earlier versions were folders and cannot go on)"
            )
        check_writable(path)
        kept = {n: json.dumps(value) for n, value in settings.items() if n not in _IDLE}
        checkpoint = cls(Path(path), kept)
        if checkpoint.path.exists():
            checkpoint._read()
        return checkpoint

    def begin(self, rows: str) -> None:
        """Begin or go on with the fit to the rows with this fingerprint."""
        if self.rows not in ("", rows):
            raise self._differs("is of another table", "the same one")
        self.rows = rows
        self.write()

    def state(self, run: str, start: EMState, width: int) -> EMState:
        """Where a run was left, its start if it was not begun; a record has ``width`` numbers."""
        state = self.runs.get(run, start)
        sizes = state.parameters.size, state.odds.size, {len(r) for r in state.history} | {width}
        if sizes != (start.parameters.size, start.odds.size, {width}):
            raise FileFormatError(f"{self.path} holds no run of this fit: it was altered, {_NEW}")
        return state

    def keep(self, run: str, state: EMState) -> None:
        """Keep where a run is; it is written now and then."""
        self.runs[run] = state
        if time.monotonic() - self._written >= EVERY:
            self.write()

    def write(self) -> None:
        """Replace the file, whole or not at all."""
        runs = {run: state.to_dict() for run, state in self.runs.items()}
        content = {"format": FORMAT, **_versions(), "rows": self.rows}
        content |= {"settings": self.settings, "runs": runs}
        text = json.dumps(content, separators=(",", ":")).encode()
        write_atomically(self.path, text + _seal(text))
        self._written = time.monotonic()

    def _read(self) -> None:
        data = read_whole(self.path, MAX_BYTES)
        if not data.startswith(_BEGIN):
            # It may be any file, and would be replaced.
            raise FileFormatError(f"{self.path} is not a checkpoint: {_NEW}")
        text = data[: data.rfind(_SEAL)]
        if data != text + _seal(text):
            raise FileFormatError(
                f"{self.path} is damaged or was altered (its checksum does not fit): {_NEW}"
            )
        content: Any = parse_json(text, os.fspath(self.path), MAX_BYTES)
        if any(content.get(name) != value for name, value in _versions().items()):
            raise self._differs("is of another version of fairpc", "that one")
        try:
            theirs, self.rows = {**content["settings"]}, str(content["rows"])
            self.runs = {k: EMState.from_dict(v) for k, v in content["runs"].items()}
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise FileFormatError(f"{self.path} holds no fit ({error}): {_NEW}") from error
        for name in sorted({*theirs, *self.settings}):
            if theirs.get(name) != self.settings.get(name):
                raise self._differs(f"was made with another {name}=…", "the same settings")

    def _differs(self, how: str, same: str) -> LearningError:
        return LearningError(f"the checkpoint {self.path} {how}: go on with {same}, or {_NEW}")


def _versions() -> dict[str, Any]:
    from fairpc import __version__

    return {"version": VERSION, "fairpc": __version__}


def _seal(text: bytes) -> bytes:
    return _SEAL + hashlib.sha256(text).hexdigest().encode() + b"\n"


def _packed(array: Floats) -> str:
    return b64encode(array.astype("<f8").tobytes()).decode()


def _unpacked(text: str) -> Floats:
    return np.frombuffer(b64decode(text, validate=True), "<f8").astype(np.float64)
