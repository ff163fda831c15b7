"""What one method did on one fold, and the file that keeps it."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.data.atomic import read_whole, write_atomically
from fairpc.errors import FileFormatError
from fairpc.errors.arrays import Floats

_MAX_BYTES: Final = 2**26


@dataclass(frozen=True, eq=False)
class Outcome:
    """Results on the test rows of a fold; what a method does not have is empty or nan.

    Attributes:
        scores: probability of the positive decision, per test row.
        predicted: the decision, per test row.
        log_likelihood: log P(s, d, x), per test row.
        log_likelihood_all: its mean over training, validation and test rows.
        parity_gap: difference of P(decision = 1 | S) between groups under the model itself.
        mechanism: P(D = d | Df = f, S = s), [s, f, d].
        curve: mean log-likelihood of the test rows, per EM iteration.
        mechanism_curve: the mechanism, per EM iteration.
        seconds: time of the fit.
    """

    scores: Floats
    predicted: npt.NDArray[np.int8]
    log_likelihood: Floats
    log_likelihood_all: float
    parity_gap: float
    mechanism: Floats
    curve: Floats
    mechanism_curve: Floats
    seconds: float

    @property
    def mean_log_likelihood(self) -> float:
        """Mean over the test rows; nan for a method that is no distribution."""
        return float(self.log_likelihood.mean()) if len(self.log_likelihood) else float("nan")


def save(outcome: Outcome, path: Path) -> None:
    """One file of arrays, no code in it."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{f.name: getattr(outcome, f.name) for f in fields(Outcome)})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())


def load(path: Path) -> Outcome | None:
    """The outcome in a file; None if there is no such file, or it is not whole."""
    if not path.is_file():
        return None
    try:
        with np.load(io.BytesIO(read_whole(path, _MAX_BYTES)), allow_pickle=False) as arrays:
            values: dict[str, Any] = {f.name: arrays[f.name] for f in fields(Outcome)}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, FileFormatError):
        return None
    for name in ("log_likelihood_all", "parity_gap", "seconds"):
        values[name] = float(values[name])
    return Outcome(**values)
