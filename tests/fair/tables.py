"""Random rows for the models, and the published tables with their folds."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st

from fairpc.fair.rows import Rows

ROLES = {
    "adult": ("target", "sex"),
    "compas": ("ScoreText_", "Ethnic_Code_Text_"),
    "german": ("loan_status", "sex"),
}


def random_rows(seed: int, n: int, n_groups: int, n_classes: int, holes: float) -> Rows:
    """Rows in which everything depends on everything, some cells missing, with weights."""
    rng = np.random.default_rng(seed)
    arities = rng.integers(2, 4, size=int(rng.integers(2, 5)))
    s, d = rng.integers(0, n_groups, n), rng.integers(0, n_classes, n)
    s[:n_groups], d[:n_classes] = np.arange(n_groups), np.arange(n_classes)
    x = np.column_stack(
        [(rng.integers(0, a, n) + s * d * (rng.random(n) < 0.5)) % a for a in arities]
    )
    x[rng.random(x.shape) < holes] = -1
    hide = np.arange(n) >= max(n_groups, n_classes)
    s[hide & (rng.random(n) < holes / 2)] = -1
    d[hide & (rng.random(n) < holes / 2)] = -1
    return Rows.of(
        s, d, x, weights=rng.random(n) + 0.1, n_groups=n_groups, n_classes=n_classes,
        arities=arities,
    )  # fmt: skip


@st.composite
def rows_of_any_kind(draw: st.DrawFn) -> Rows:
    return random_rows(
        draw(st.integers(0, 2**31)), draw(st.integers(30, 120)), draw(st.integers(2, 4)),
        draw(st.integers(2, 4)), draw(st.sampled_from([0.0, 0.2])),
    )  # fmt: skip


def paper_data() -> Path:
    """The folder with the published tables; skips the test where it is absent."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data" / "paper"
    folder = Path(os.environ.get("FAIRPC_PAPER_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"the published tables are not at {folder}; set FAIRPC_PAPER_DATA")
    return folder


def published(name: str) -> tuple[Rows, npt.NDArray[np.int16] | None]:
    """A published table as rows, and the true Df where it is known."""
    folder = paper_data()
    label, group = ROLES.get(name, ("D", "S"))
    file = f"processed/{name}_binerized.csv" if name in ROLES else f"synthetic/{name}.csv"
    header = (folder / file).read_text().split("\n", 1)[0].strip().split(",")
    table = np.loadtxt(folder / file, delimiter=",", skiprows=1, dtype=np.int16)
    features = [j for j, c in enumerate(header) if c not in (label, group, "Df")]
    rows = Rows.of(
        table[:, header.index(group)], table[:, header.index(label)], table[:, features],
        names=[header[j] for j in features],
    )  # fmt: skip
    return rows, table[:, header.index("Df")] if "Df" in header else None


def published_fold(name: str, fold: int) -> tuple[npt.NDArray[np.int64], ...]:
    """Row numbers of the training, validation and test part of a published fold."""
    folder = paper_data() / "splits" / (name if name in ROLES else f"synthetic/{name}")
    parts = []
    for part in ("train", "valid", "test"):
        with (folder / f"{part}_ids.csv").open() as file:
            lines = list(csv.reader(file))[1:]
        parts.append(np.array([int(line[fold]) - 1 for line in lines if line[fold].strip()]))
    return tuple(parts)
