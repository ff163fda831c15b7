"""Strata on the command line: what ``fit`` says of them, what it refuses, who can use the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fairpc
from cli.calls import answer, called, names
from fairpc.cli import main
from models.test_strata import table

ROLES = ("--label", "label", "--positive", "yes", "--sensitive", "sex", "--structure", "forest")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, and a model with strata."""
    folder = tmp_path_factory.mktemp("strata")
    X, y, _ = table(900)
    X.with_columns(label=pl.Series(["no", "yes"])[y]).write_csv(folder / "t.csv")
    call = ["fit", str(folder / "t.csv"), *ROLES, "--given", "hours"]
    with pytest.raises(SystemExit) as ended:
        main([*call, "-o", str(folder / "m.fairpc"), "-q"])
    assert ended.value.code == 0
    return folder


def test_fit_says_what_is_equal_within_strata_and_what_is_not(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ("fit", "t.csv", *ROLES, "--given", "hours", "-o", "n.fairpc")
    shown = called(capsys, *call).out
    assert "in the whole table; equal between groups within strata of 'hours' only" in shown
    assert "in every group" not in shown


def test_fit_as_json_equals_the_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ("fit", "t.csv", *ROLES, "--given", "hours", "-o", "n.fairpc")
    found = answer(capsys, *call)["learned"]["strata"]
    model: Any = fairpc.load("n.fairpc")
    assert found["columns"] == ["hours"]
    rates = [s["decision_rate"]["yes"] for s in found["strata"]]
    np.testing.assert_allclose(rates, model.stratum_rate_[:, 1])
    # The rate of a group is that of the strata, weighted by its own mix of them.
    for group, rate in found["group_decision_rate"].items():
        mix = [s["share_of_group"][group] for s in found["strata"]]
        assert sum(mix) == pytest.approx(1)
        assert np.dot(mix, rates) == pytest.approx(rate["yes"])
    own = [cell["probability"] for cell in found["stratum_mechanism"]]
    expected = model.stratum_mechanism_.transpose(1, 0, 2, 3)
    np.testing.assert_allclose(own, np.ravel(expected))


def test_models_without_strata_say_so_in_json(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(capsys, "fit", "t.csv", *ROLES, "-o", "n.fairpc")["learned"]["strata"] is None


def test_queries_and_scores_of_such_models(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, asked = "m.fairpc", "Df=yes | hours=h1, sex={}"
    rates = [answer(capsys, "query", model, asked.format(s))["probability"] for s in "fm"]
    assert rates[0] == pytest.approx(rates[1], abs=1e-9)
    assert called(capsys, "predict", model, "t.csv", "-o", "out.csv").code == 0
    scores = pl.read_csv("out.csv")["p_df_yes"].to_numpy()
    expected = fairpc.load(model).predict_proba(pl.read_csv("t.csv"))[:, 1]
    np.testing.assert_array_equal(scores, expected.round(6))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--given", "hour"), "did you mean 'hours'"),
        (("--given", "sex"), "column 'sex' is given as --given and as --sensitive"),
        (("--given", "label"), "column 'label' is given as --given and as --label"),
        (("--given", "hours", "--drop", "hours"), "is given as --given and as --drop"),
        (
            ("--given", "hours", "--model", "NLatPC"),
            "--given is for forest circuits and scores: take --model FairPC or latent",
        ),
    ],
)
def test_what_cannot_be_strata_is_refused_in_one_sentence(
    folder: Path, options: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = names(folder)
    ended = called(capsys, "fit", "t.csv", *ROLES, *options, "-o", "n.fairpc")
    assert ended.code == 2
    assert text in ended.err
    assert ended.err.count("\n") == 1
    assert names(folder) == before


def test_a_classifier_is_fitted_and_audited_within_strata(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = (*ROLES[:6], "--model", "latent", "--given", "hours")
    found = answer(capsys, "fit", "t.csv", *call, "--classifier", "logistic", "-o", "n.fairpc")
    strata = found["learned"]["strata"]
    assert strata["columns"] == ["hours"]
    model: Any = fairpc.load("n.fairpc")
    for a, one in enumerate(strata["strata"]):
        assert one["stratum"] == model.strata_[a]
        assert list(one["decision_rate"].values()) == pytest.approx(model.stratum_rate_[a])
    seen = answer(capsys, "audit", "n.fairpc", "t.csv", "-o", "r.html")
    assert seen["strata"]["columns"] == ["hours"]


def test_audits_of_such_models(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ("audit", "m.fairpc", "t.csv", "-o", "report.html")
    found = answer(capsys, *call)
    own = found["strata"]
    assert own["columns"] == ["hours"]
    assert own["test"]["rejected"] == found["verdict"]["rejected"]
    assert "within strata of 'hours'" in " ".join(found["verdict"]["sentences"])
    assert "Within strata" in Path("report.html").read_text("utf-8")
