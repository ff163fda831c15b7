"""Exported files say of any row what the model says, or nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from exporting.scored import Fitted, by_onnx, fitted
from strategies import examples

pytestmark = pytest.mark.filterwarnings("ignore::fairpc.errors.TableWarning")


@settings(max_examples=examples(400))
@given(fitted())
def test_every_file_says_what_the_model_says(case: Fitted) -> None:
    """Whatever is missing, and however columns and levels are called."""
    if not case.table.height:
        return
    with tempfile.TemporaryDirectory() as folder:
        found = by_onnx(case.model, case.table, Path(folder))
    np.testing.assert_allclose(found, case.expected, rtol=0, atol=1e-12)
