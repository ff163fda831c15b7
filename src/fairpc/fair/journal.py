"""What is kept of EM, step by step: its history, and in a journal the state of each run.

A fit is a fixed sequence of steps: given rows, options and seed, it does the same
again, bit for bit. What takes long are its runs of EM. Each of them keeps its last
step in the journal, in a file that is whole at any moment; a fit that was killed is simply done
again, and every run goes on from where it was. Files hold numbers and nothing that could be
executed.
"""

from __future__ import annotations

import io
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.circuit.em import Reached, Step
from fairpc.circuit.graph import Graph
from fairpc.data.atomic import read_sealed, write_sealed
from fairpc.data.hashing import fingerprint
from fairpc.errors import FileFormatError
from fairpc.errors.arrays import Array, Floats

VALIDATION: Final = "validation_log_likelihood"
"""Name of the validation rows in a history."""

EVERY = 30.0
"""Seconds between two writings of a run that goes on."""

MAX_BYTES: Final = 1 << 34
_NO_ARRAYS: Final = (
    *(ValueError, LookupError, TypeError, AttributeError, OSError, EOFError, MemoryError),
    *(NotImplementedError, RuntimeError, SyntaxError, zipfile.BadZipFile, zlib.error, struct.error),
)
"""What NumPy raises on a file that is none of its own."""
_NAMES: Final = "origin scalars whole parameters flows records mechanisms shifts"


@dataclass(eq=False)
class History:
    """One value per step of EM: the objective, log-likelihoods and the mechanism."""

    weight: float  #: of all rows; objective and log-likelihood are per unit of it
    mechanism: Callable[[Any], Floats]  #: P(D | Df, S) at a step
    watched: Mapping[str, Callable[[Any], float]]  #: mean log-likelihoods of other rows
    records: list[tuple[float, ...]] = field(default_factory=list)
    mechanisms: list[Floats] = field(default_factory=list)

    def add(self, step: Any) -> None:
        """One step more."""
        means = [mean(step) for mean in self.watched.values()]
        own = step.objective / self.weight, step.log_likelihood / self.weight
        self.records.append((*own, *means))
        self.mechanisms.append(self.mechanism(step))

    def arrays(self, n: int) -> dict[str, Floats]:
        """The first ``n`` steps, an array for each name."""
        names = ["objective", "log_likelihood", *self.watched]
        result = dict(zip(names, np.array(self.records[:n]).T, strict=True))
        result["mechanism"] = np.array(self.mechanisms[:n])
        result.setdefault(VALIDATION, np.full(n, np.nan))
        return result


@dataclass(frozen=True, eq=False)
class RunState:
    """Where a run of EM is: its last step, and what the plan itself carries to the next, if any."""

    reached: Reached[Step]
    shifts: Floats | None


@dataclass
class Run:
    """One run of EM in the journal."""

    path: Path
    mark: str  #: of the fit; a run of another one is refused
    origin: str
    n_parameters: int
    every: float
    _written: float = field(default_factory=time.monotonic)

    @property
    def due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() - self._written >= self.every

    def write(self, state: RunState, history: History) -> None:
        """Keep this state, and the history up to it, instead of the last one."""
        reached, step = state.reached, state.reached.step
        n = step.iteration + 1
        write_arrays(
            self.path,
            self.mark,
            origin=np.frombuffer(self.origin.encode(), np.uint8),
            scalars=np.array([step.log_likelihood, step.objective]),
            whole=np.array([step.iteration, reached.converged, reached.ended], np.int64),
            parameters=step.parameters,
            flows=step.flows,
            records=np.array(history.records[:n]),
            mechanisms=np.array(history.mechanisms[:n]),
            shifts=np.zeros(0) if state.shifts is None else state.shifts,
        )
        self._written = time.monotonic()

    def read(self, history: History) -> RunState | None:
        """The state that was kept, with ``history`` filled up to it; None if there is none.

        A FileFormatError says that a file is damaged, or of a run that began elsewhere.
        """
        if not self.path.exists():
            return None
        data = read_arrays(self.path, self.mark, _NAMES.split())
        if bytes(data["origin"]).decode(errors="replace") != self.origin:
            raise FileFormatError(
                f"{self.path} is of a run of EM with another start: the checkpoint was made from "
                "other rows, other settings or another version of fairpc, use a new folder"
            )
        altered = FileFormatError(f"{self.path} is no run of EM: it was altered, use a new folder")
        if not self._fits(data):
            raise altered
        iteration, converged, ended = (int(v) for v in data["whole"])
        log_likelihood, objective = (float(v) for v in data["scalars"])
        step = Step(iteration, log_likelihood, objective, data["parameters"], data["flows"])
        width, shape = 2 + len(history.watched), history.mechanism(step).shape
        if data["records"].shape[1:] != (width,) or data["mechanisms"].shape[1:] != shape:
            raise altered
        history.records[:] = [tuple(record) for record in data["records"].tolist()]
        history.mechanisms[:] = list(data["mechanisms"])
        shifts = data["shifts"] if data["shifts"].size else None
        return RunState(Reached(step, bool(converged), bool(ended)), shifts)

    def _fits(self, data: Mapping[str, Array]) -> bool:
        """Whether arrays are of the kinds and sizes that :meth:`write` writes."""
        n = (self.n_parameters,)
        shapes = {"scalars": (2,), "whole": (3,), "parameters": n, "flows": n}
        if any(data[name].shape != shape for name, shape in shapes.items()):
            return False
        numbers = {data[name].dtype for name in _NAMES.split() if name not in ("origin", "whole")}
        each = data["records"], data["mechanisms"]
        if any(array.ndim < 2 for array in each):
            return False
        steps = set(map(len, each))
        whole = data["whole"].dtype == np.int64 and data["whole"][0] >= 0
        return whole and numbers == {np.dtype(np.float64)} and steps == {data["whole"][0] + 1}


@dataclass
class Journal:
    """The runs of one fit, numbered in the order in which they begin."""

    folder: Path
    mark: str
    every: float = field(default_factory=lambda: EVERY)
    _n_runs: int = 0

    def run(self, graph: Graph, *start: npt.ArrayLike | None) -> Run:
        """The next run: of this graph, from these numbers."""
        origin = fingerprint(
            graph.kind, graph.child_ptr, graph.child, graph.block, graph.block_ptr, *start
        )
        path = self.folder / f"em-{self._n_runs:03}.npz"
        self._n_runs += 1
        return Run(path, self.mark, origin, graph.n_parameters, self.every)


def write_arrays(path: Path, mark: str, **arrays: Array) -> None:
    """Write arrays of numbers to a sealed file."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_sealed(path, buffer.getvalue(), mark)


def read_arrays(path: Path, mark: str, names: Collection[str]) -> dict[str, Array]:
    """The arrays of a sealed file, which has these and no others."""
    sealed = read_sealed(path, MAX_BYTES, mark)
    try:
        with np.load(io.BytesIO(sealed), allow_pickle=False) as file:
            # We write nothing compressed: what is would be larger in memory than its file tells.
            if sum(member.file_size for member in file.zip.infolist()) > len(sealed):
                raise ValueError("what is inside is larger than the file")
            data = {name: file[name] for name in file.files}
    except _NO_ARRAYS as error:
        raise FileFormatError(f"{path} holds no arrays ({error}): use a new folder") from error
    if set(data) != set(names):
        raise FileFormatError(f"{path} has other arrays than it should: use a new folder")
    return data
