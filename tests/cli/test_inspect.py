"""``fairpc inspect``: all that a model file names and counts, in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.calls import answer, called
from fairpc import load


@pytest.mark.usefixtures("folder")
def test_what_a_file_holds_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "inspect", "m.fairpc")
    model = load("m.fairpc")
    content = json.loads(Path("m.fairpc").read_bytes())
    assert found["bytes"] == Path("m.fairpc").stat().st_size
    assert found["checksum"] == content["checksum"]
    assert found["written_by"] == f"fairpc {content['provenance']['fairpc']}"
    assert found["fingerprint"] == model.data_fingerprint_
    assert found["min_cell"] == 5
    assert found["smallest_group"] == min(found["groups"].values()) >= 5
    held = {c["column"]: c for c in found["columns"]}
    assert {c["role"] for c in held.values()} == {"feature", "group", "label"}
    for column in model.coding_.features.columns:
        assert held[column.name]["values"] == list(column.labels)
    ended = called(capsys, "inspect", "m.fairpc")
    assert ended.code == 0
    for sentence in found["sentences"]:
        assert f"- {sentence}" in " ".join(ended.out.split())


def test_what_is_no_model_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no model")
    assert called(capsys, "inspect", str(tmp_path / "x")).code == 2


@pytest.mark.usefixtures("folder")
def test_the_least_cell_is_an_option_of_a_fit(capsys: pytest.CaptureFixture[str]) -> None:
    given = (
        "--label",
        "hired",
        "--positive",
        "yes",
        "--sensitive",
        "sex",
        "--structure",
        "chow-liu",
        "--quiet",
    )
    assert called(capsys, "fit", "t.csv", *given, "--min-cell", "1", "-o", "all.fairpc").code == 0
    found = answer(capsys, "inspect", "all.fairpc")
    assert found["min_cell"] == 1
    assert any("of any size are kept apart" in sentence for sentence in found["sentences"])
    assert called(capsys, "fit", "t.csv", *given, "--min-cell", "0", "-o", "x.fairpc").code == 2
