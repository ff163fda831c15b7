"""A fit that was stopped goes on where its EM stood, with rows that workers make anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster.test_fit import SMALL, partitioned
from cluster.test_table import written
from decisions import table
from fairpc import LatNB
from fairpc.circuit import EMStep
from fairpc.cluster import file_table
from fairpc.data import find
from fairpc.errors import LearningError
from fairpc.models import _checkpoint as checkpoint

SETTINGS: dict[str, Any] = {"random_state": 0, "max_iter": 12, "tol": 0.0}


class Stop(Exception):
    pass


def stopping_at(n: int, steps: list[int]) -> Any:
    def callback(step: EMStep) -> None:
        steps.append(step.iteration)
        if len(steps) == n:
            raise Stop

    return callback


@pytest.mark.parametrize("kind", ["frame", "files"])
def test_em_over_rows_on_workers_goes_on(
    kind: str, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpc.cluster._table.PART_ROWS", 100)
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)
    frame = table(450).drop("weight")
    pattern = written(tmp_path, "parquet", frame)

    def fit(**options: Any) -> LatNB:
        lazy = partitioned(frame, 3)
        if kind == "files":
            lazy = file_table(find(pattern), client=client)
        return LatNB("sex", **SETTINGS).fit(lazy, "label", max_memory=SMALL, **options)

    whole, path = fit(), tmp_path / "fit"
    with pytest.raises(Stop):  # in the second run of EM, which is over the parts
        fit(checkpoint=path, callback=stopping_at(18, []))
    steps: list[int] = []
    resumed = fit(checkpoint=path, callback=stopping_at(1000, steps))
    assert steps[-1] == 12
    assert len(steps) < 12
    assert np.array_equal(whole.circuit_.parameters, resumed.circuit_.parameters)
    assert np.array_equal(whole.history_["objective"], resumed.history_["objective"])


def test_a_frame_with_other_rows_is_another_table(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpc.cluster._table.PART_ROWS", 100)
    frame = table(900).drop("weight")
    kept: dict[str, Any] = {"max_memory": SMALL, "checkpoint": tmp_path / "fit"}
    callback = stopping_at(3, [])
    with pytest.raises(Stop):
        LatNB("sex", **SETTINGS).fit(partitioned(frame, 3), "label", callback=callback, **kept)
    with pytest.raises(LearningError, match="is of another table"):
        LatNB("sex", **SETTINGS).fit(partitioned(frame[1:], 3), "label", **kept)
