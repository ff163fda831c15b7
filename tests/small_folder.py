"""A small folder laid out as the authors': three tables, synthetic ones, folds."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fairpc.metrics import stratified_folds
from reproduction.runs import Runner, Study
from reproduction.sources import ROLES, Sources

N_ROWS = 240
N_FOLDS = 4


def small_folder(folder: Path) -> Path:
    """Write the tables and their folds."""
    for k, name in enumerate(ROLES):
        label, group = ROLES[name]
        codes = small_codes(k, 4)
        header = ["a", group, "b", "c", label, "d"]
        columns = [codes[:, 2], codes[:, 0], codes[:, 3], codes[:, 4], codes[:, 1], codes[:, 5]]
        _write(folder / "processed" / f"{name}_binerized.csv", header, np.column_stack(columns))
        _write_folds(folder / "splits" / name, codes[:, 1])
    return folder


def small_codes(seed: int, n_features: int) -> npt.NDArray[np.int64]:
    """Columns S, D and features that follow both."""
    rng = np.random.default_rng(seed)
    s, d = rng.integers(0, 2, N_ROWS), rng.integers(0, 2, N_ROWS)
    noise = rng.random((N_ROWS, n_features))
    x = (noise < np.where(d == 1, 0.8, 0.3)[:, None]).astype(int)
    x[:, 0] ^= s * (rng.random(N_ROWS) < 0.3)
    return np.column_stack([s, d, x])


def _write(path: Path, header: list[str], codes: npt.NDArray[np.int64]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(header), *(",".join(map(str, row)) for row in codes.tolist())]
    path.write_text("\n".join(lines) + "\n")


def _write_folds(folder: Path, labels: npt.NDArray[np.int64]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    folds = stratified_folds(labels, N_FOLDS, validation=0.2)
    for part in ("train", "valid", "test"):
        columns = [getattr(fold, part) + 1 for fold in folds]
        longest = max(map(len, columns))
        padded = [[*map(str, c.tolist()), *[""] * (longest - len(c))] for c in columns]
        with (folder / f"{part}_ids.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([f"x{k + 1}" for k in range(len(folds))])
            writer.writerows(zip(*padded, strict=True))


def small_study(folder: Path, cache: Path) -> Study:
    """Two folds of the small tables, in this process."""
    return Study(Sources(folder, folder / "splits", quick=True), Runner(cache, n_jobs=1))
