"""The aims on raw tables, five folds, as benchmarks/raw_tables.py prints them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from scripts import script


class Aim(NamedTuple):
    """A table, the share of its cells that are missing, settings; and what is to be reached."""

    name: str
    missing: float
    settings: dict[str, Any]
    accuracy: float
    auc: float
    gap: float


# What a prototype reached, less .01 of accuracy and .04 of AUC, plus .02 of gap.
AIMS: Final = (
    Aim("adult", 0.0, {}, 0.8125, 0.843, 0.034),
    Aim("german", 0.0, {}, 0.704, 0.678, 0.100),
    Aim("compas", 0.0, {}, 0.647, 0.652, 0.047),
    Aim("adult", 0.2, {}, 0.80, 0.5, 1.0),
    Aim("german", 0.2, {}, 0.69, 0.5, 1.0),
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fairpc.errors.TableWarning")
@pytest.mark.filterwarnings("ignore::fairpc.errors.LeakWarning")  # sex, by marital status
@pytest.mark.filterwarnings("ignore::fairpc.errors.ContradictionWarning")  # true of Adult
@pytest.mark.parametrize("aim", AIMS, ids=lambda a: f"{a.name} {a.missing} {a.settings}")
def test_aims_on_raw_tables(aim: Aim) -> None:
    raw_tables = script("raw_tables")
    data = raw_tables.raw(aim.name)
    if aim.missing:
        data = raw_tables.hide(data, aim.missing, np.random.default_rng(0))
    accuracy, auc, gap, _ = raw_tables.measure(data, raw_tables.fairpc(**aim.settings), 5)
    assert accuracy > aim.accuracy
    assert auc > aim.auc
    assert gap < aim.gap
