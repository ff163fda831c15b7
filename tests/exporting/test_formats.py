"""What is written: whole files, facts about them, and sentences where a file cannot be made."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from random import Random
from string import ascii_letters

import numpy as np
import polars as pl
import pytest

import fairpc
from exporting.scored import Fitted, by_onnx, expected, model_of, naive
from fairpc.data import Column
from fairpc.errors import MissingExtraError, NotAnsweredError, OptionError
from fairpc.exporting import _export as formats
from fairpc.exporting._scorer import TINIEST, Densities, ScorerProgram
from models.forests import Sizes, random_forest

SMALL = (Column("age", "number", edges=(30.0, 40.0)), Column("job", "category", levels=("a", "b")))


@pytest.mark.parametrize("suffix", ["onnx", "ONNX"])
def test_facts_are_about_the_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"m.{suffix}"
    written = fairpc.export(naive(Random(0), *SMALL), path)
    assert asdict(written) == {
        "path": str(path),
        "inputs": {"group": "text", "age": "number", "job": "text"},
        "classes": ("class 0", "class 1"),
        "n_bytes": path.stat().st_size,
    }
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["model.pkl", "model", "model.sql", "model.onnx.txt"])
def test_other_suffixes_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"ends with \.onnx"):
        fairpc.export(naive(Random(0), *SMALL), tmp_path / name)


def test_a_classifier_in_a_latent_decision_is_no_circuit(tmp_path: Path) -> None:
    with pytest.raises(NotAnsweredError, match="LatentDecision .* with its predict_proba"):
        fairpc.export(fairpc.LatentDecision(), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fairpc\[onnx\]'"):
        fairpc.export(naive(Random(0), *SMALL), tmp_path / "m.onnx")


def test_what_cannot_be_written_says_where(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot write the file"):
        fairpc.export(naive(Random(0), *SMALL), tmp_path / "none" / "m.onnx")


def test_onnx_describes_itself(tmp_path: Path) -> None:
    import onnx

    levels = Column("odd", "category", levels=("", "x"))
    fairpc.export(naive(Random(0), *SMALL, levels), tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    (prop,) = model.metadata_props
    facts = json.loads(prop.value)
    assert facts["classes"] == ["class 0", "class 1"]
    assert facts["positive"] == "class 1"
    assert facts["sensitive"] == ["group"]
    assert facts["missing"] == {"group": "", "age": "NaN", "job": "", "odd": "<missing>"}
    kinds = {i.name: i.type.tensor_type.elem_type for i in model.graph.input}
    assert kinds["age"] == onnx.TensorProto.DOUBLE
    assert kinds["job"] == onnx.TensorProto.STRING


def wide(n: int) -> Fitted:
    """More features than a product of plain numbers can hold."""
    columns = [Column(f"c{j}", "category", levels=tuple(ascii_letters)) for j in range(n)]
    model = naive(Random(5), *columns, least=1e-5)
    rng = np.random.default_rng(0)
    cells = {c.name: rng.choice([*ascii_letters], 40).tolist() for c in columns}
    return Fitted(model, pl.DataFrame(cells | {"group": ["f", "m"] * 20}))


def test_wide_models_are_scored_in_logarithms(tmp_path: Path) -> None:
    case = wide(240)
    densities = ScorerProgram.of(case.model).densities
    assert isinstance(densities, Densities)
    assert densities.least < math.log(sys.float_info.min) < TINIEST
    s, x = case.model._evidence(case.table, case.table["group"])
    assert case.model.distribution_.log_likelihood(s, None, x).max() < -800
    np.testing.assert_allclose(by_onnx(case.model, case.table, tmp_path), case.expected, atol=1e-10)


def test_masses_of_a_large_forest_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is looked up at once gets smaller where tables are too large."""
    from fairpc.exporting import _onnx_forest as onnx_forest

    forest = random_forest(Random(6), Sizes((3, 3, 2, 4, 2, 3, 2), n_leaves=12))
    columns = tuple(
        Column(f"c{j}", "category", levels=tuple(range(a)))
        for j, a in enumerate(forest.layout.arities)
    )
    group = Column("group", "category", levels=("f", "m"))
    model = model_of(forest, columns, (group,), ((0,), (1,)))
    rng = np.random.default_rng(0)
    cells = {c.name: rng.integers(0, c.arity, 50) for c in columns}
    table = pl.DataFrame(cells | {"group": [*"fm"] * 25}).with_columns(
        pl.when(pl.Series(rng.random(50) < 0.6)).then(pl.col(c.name)).alias(c.name) for c in columns
    )
    for most in (0, 2**14, 2**26):
        monkeypatch.setattr(onnx_forest, "MOST_BYTES", most)
        monkeypatch.setattr(onnx_forest, "CROSSINGS", most)
        np.testing.assert_allclose(
            by_onnx(model, table, tmp_path), expected(model, table), atol=1e-12
        )
