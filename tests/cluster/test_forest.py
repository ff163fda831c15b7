"""A forest of a Dask frame is that of the table in memory."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.test_fit import SMALL, partitioned
from decisions import table
from fairpc import FairPC
from fairpc.models import _forest_fit as forest_fit, _score_mechanism as score_mechanism
from fairpc.models._selection import LabelGain
from models.forests import same


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forests are grown in this process, whoever reads the rows."""
    monkeypatch.setattr(forest_fit, "GROWING_ROWS", 300)
    monkeypatch.setattr(forest_fit, "MAX_LEAVES", 12)
    monkeypatch.setattr(score_mechanism, "MECHANISM_STEPS", 200)


@pytest.mark.parametrize("structure", ["forest", "auto"])
def test_a_dask_frame_gives_the_forest_of_the_table_in_memory(
    client: Any, structure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gain = LabelGain(-0.5, 0.1, 0.01)
    monkeypatch.setattr("fairpc.models._circuit_fit.compare_labels", lambda *given: gain)
    frame = table(500).drop("weight")
    settings: dict[str, Any] = {"structure": structure, "random_state": 0}
    here = FairPC("sex", **settings).fit(frame.drop("label"), frame["label"])
    there = FairPC("sex", **settings).fit(partitioned(frame, 3), "label")
    assert same(here, there)
    assert here.data_fingerprint_ == there.data_fingerprint_


@pytest.mark.slow
def test_a_forest_of_rows_that_stay_on_the_workers(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpc.cluster._table.PART_ROWS", 100)
    frame = table(1500).drop("weight")
    fitted = [
        FairPC("sex", structure="forest", random_state=0).fit(
            partitioned(frame, n), "label", max_memory=SMALL
        )
        for n in (1, 4)
    ]
    assert (fitted[0].circuit_.parameters == fitted[1].circuit_.parameters).all()
    assert fitted[0].label_counts_.sum() == pytest.approx(1500)
