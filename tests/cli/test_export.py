"""``fairpc export``: the file, what is said of it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.calls import answer, called, names


def test_a_graph_is_described(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = answer(capsys, "export", "m.fairpc", "-o", "m.onnx")
    assert facts["model_file"] == "m.fairpc"
    assert facts["inputs"] == {"sex": "text", "age": "number", "job": "text"}
    ended = called(capsys, "export", "m.fairpc", "-o", "n.onnx")
    assert ended.code == 0
    assert "n.onnx gives P(Df = class | row) for no, yes, from 3 columns: sex, age, job." in (
        " ".join(ended.out.split())
    )
    assert Path("n.onnx").read_bytes() == Path("m.onnx").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("m.fairpc", "-o", "m.pmml"), "ends with .onnx"),
        (("none.fairpc", "-o", "m.onnx"), "there is no model none.fairpc"),
        (("t.csv", "-o", "m.onnx"), "t.csv is not a model"),
        (("m.fairpc",), "-o"),
        (("own.onnx", "-o", "own.onnx"), "own.onnx"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], sentence: str
) -> None:
    Path("own.onnx").write_bytes(Path("m.fairpc").read_bytes())
    before = {name: Path(name).read_bytes() for name in names(folder)}
    ended = called(capsys, "export", *arguments)
    assert ended.code == 2
    assert sentence in " ".join(ended.err.split())
    assert "Traceback" not in ended.err
    assert {name: Path(name).read_bytes() for name in names(folder)} == before


def test_a_latent_decision_is_refused_by_a_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--label", "hired", "--positive", "yes", "--sensitive", "sex", "--model", "latent")
    more = ("--classifier", "logistic", "--quiet")
    assert called(capsys, "fit", "t.csv", *given, *more, "-o", "l.fairpc").code == 0
    ended = called(capsys, "export", "l.fairpc", "-o", "l.onnx")
    assert ended.code == 2
    said = " ".join(ended.err.split())
    assert "LatentDecision scores with classifiers" in said
    assert "or `fairpc predict`" in said
