"""Models in processes that were forked after polars had run: they answer, or say why not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from battery.on_models import people
from fairpc import FairPC

PROGRAM = Path(__file__).with_name("forked.py")
PATIENCE = 300


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads have no names here")
def test_a_forked_process_answers(tmp_path: Path) -> None:
    tests = os.pathsep.join([str(PROGRAM.parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
        env=os.environ | {"PYTHONPATH": tests},
    )
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert {said.pop(name)[:55] for name in ("a file", "numbers for text", "a fit")} == {
        "refused: to read a file needs threads of polars, which ",
        "refused: to tell numbers from text needs threads of pol",
        "refused: to learn from text needs threads of polars, wh",
    }
    assert said.pop("a fit to numbers") == "done"
    assert len(said) == 68
    assert set(said.values()) == {"same"}, said


def test_workers_of_joblib() -> None:
    table = people(200)
    X, y = table.drop("hired").to_pandas(), table["hired"].to_numpy()
    model = FairPC("sex", structure="chow-liu", max_iter=5, guard=False, random_state=0)
    model.fit(X, y)  # threads of polars have run here
    one = cross_val_score(model, X, y, cv=2, n_jobs=1, error_score="raise")
    two = cross_val_score(model, X, y, cv=2, n_jobs=2, error_score="raise")
    assert np.array_equal(one, two)
