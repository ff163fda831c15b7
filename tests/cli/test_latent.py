"""A LatentDecision on the command line: fitted, scored in parts; what it cannot do."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fairpc
from cli.calls import answer, called, names, small_table
from fairpc.cli import main

ROLES = ("--label", "hired", "--positive", "yes", "--sensitive", "sex")
QUICK = (*ROLES, "--model", "latent", "--classifier", "logistic")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of enough rows, and models of it."""
    folder = tmp_path_factory.mktemp("latent")
    (folder / "t.csv").write_text(small_table(600))
    for name, model in {"m": QUICK, "c": (*ROLES, "--structure", "chow-liu")}.items():
        with pytest.raises(SystemExit) as ended:
            main(["fit", str(folder / "t.csv"), *model, "-o", str(folder / f"{name}.fairpc"), "-q"])
        assert ended.value.code == 0
    return folder


def test_fit_says_what_it_did(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = called(capsys, "fit", "t.csv", *QUICK, "-o", "n.fairpc", "--positive", "no", "-v")
    assert ended.code == 0
    assert ended.err == ""
    assert re.search(r"^age +number, not binned", ended.out, re.MULTILINE)
    assert re.search(r"^job +category of 3 levels", ended.out, re.MULTILINE)
    assert re.search(r"^sex +sensitive attribute, category", ended.out, re.MULTILINE)
    # Nobody's labels were altered, and errors that both groups share could not be seen.
    assert ended.out.startswith("No difference between the groups needs explaining")
    model = fairpc.load("n.fairpc")
    assert isinstance(model, fairpc.LatentDecision)
    assert model.positive_class_ == "no"
    point, (least, most) = model.bias_mechanism_, model.fair_rate_set_
    lines = ended.out.splitlines()
    for s, group in enumerate("FM"):
        low, high = 100 * (1 - model.mechanism_range_[s, 0, ::-1])
        other_low, other_high = 100 * model.mechanism_range_[s, 1]
        assert (
            f"  {group}: of those who deserved no, {low:.0f} to {high:.0f} of 100 were recorded "
            f"yes; of the others, {other_low:.0f} to {other_high:.0f} of 100 were recorded no "
            f"(points: {100 * point[s, 0, 1]:.0f} and {100 * point[s, 1, 0]:.0f}, by convention)"
        ) in lines
    assert (
        f"  Fair rate of no: {100 * least:.0f} to {100 * most:.0f} of 100 (point: "
        f"{100 * model.fair_rate_[0]:.0f}, by convention), in every group"
    ) in lines


@pytest.mark.parametrize("classifier", ["hgb", "forest"])
def test_fit_as_json_equals_the_model(
    folder: Path, classifier: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ("--classifier", classifier)
    (folder / "s.csv").write_text(small_table(200))
    call = ("fit", "s.csv", *ROLES, "--model", "latent", *chosen, "-o", "n.fairpc")
    found = answer(capsys, *call)
    model = fairpc.load("n.fairpc")
    assert found["model"] == "LatentDecision"
    assert found["classifier"] == classifier
    assert found["folds"] == 5
    assert found["warnings"] == list(model.warnings_)
    lower, upper = model.fair_rate_set_
    assert found["learned"]["positive_rate_set"] == {"lower": lower, "upper": upper, "level": 0.95}
    assert found["learned"]["decision_rate"]["yes"] == model.fair_rate_[1]
    assert len(found["learned"]["mechanism"]) == 8
    first = Path("n.fairpc").read_bytes()
    answer(capsys, *call)
    assert Path("n.fairpc").read_bytes() == first


def test_a_fit_says_what_its_classifiers_learn(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second ones learn the decision behind the labels, of which some are altered here."""
    frame = pl.read_csv("t.csv")
    lowered = (frame["sex"] == "F") & pl.Series(np.random.default_rng(0).random(600) < 0.6)
    frame.with_columns(
        hired=pl.when(lowered).then(pl.lit("no")).otherwise("hired"),
    ).write_csv("b.csv")
    lines: list[str] = []
    monkeypatch.setattr(
        "fairpc.core.showing_progress", lambda name, shown: nullcontext(lines.append)
    )
    found = answer(capsys, "fit", "b.csv", *ROLES, "--model", "latent", "-o", "n.fairpc")
    assert found["twice"]
    assert lines == [
        "fitting classifiers of the recorded label",
        "fitting classifiers of the fair decision",
    ]


def test_the_usual_classifier_has_a_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "s.csv").write_text(small_table(200))
    for name, chosen in {"a": (), "b": ("--classifier", "hgb")}.items():
        call = ("fit", "s.csv", *ROLES, "--model", "latent", *chosen, "-o", name, "-q")
        assert called(capsys, *call).code == 0
    assert Path("a").read_bytes() == Path("b").read_bytes()


def test_types_can_be_corrected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = small_table(600).replace("clerk", "1").replace("cook", "2").replace("smith", "?")
    (folder / "u.csv").write_text(text)
    more = ("--missing", "?", "--categorical", "job", "--numeric", "age")
    found = answer(capsys, "fit", "u.csv", *QUICK, "-o", "u.fairpc", *more)
    done = {column["column"]: column["done"] for column in found["columns"]}
    assert done["job"].startswith("category of 2 levels")
    assert "missing" in done["job"]
    # Numbers of a file that has types are those names too.
    typed = pl.read_csv("u.csv", null_values="?")
    assert typed.schema["job"] == pl.Int64
    typed.write_parquet("u.parquet")
    scores = []
    for source in ("u.csv", "u.parquet"):
        ended = called(capsys, "predict", "u.fairpc", source, "-o", "o.parquet")
        assert ended.code == 0
        assert "not seen at fit" not in ended.err
        scores.append(pl.read_parquet("o.parquet")["p_df_yes"])
    np.testing.assert_array_equal(scores[0], scores[1])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("model", ["m.fairpc", "c.fairpc"])
def test_predict_in_parts_is_what_the_model_says(
    folder: Path,
    model: str,
    ending: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("fairpc.cli._predict.BATCH", 100)
    frame = pl.read_csv("t.csv")
    frame.write_parquet("t.parquet")
    loaded = fairpc.load(model)
    call = ("predict", model, f"t.{ending}", "-o", f"o.{ending}", "--bounds", "--decide")
    found = answer(capsys, *call)
    new = ["p_df_no", "p_df_yes", "p_df_lower", "p_df_upper", "decision"]
    assert found["added"] == new
    read = pl.read_csv if ending == "csv" else pl.read_parquet
    scored = read(f"o.{ending}")
    assert scored.columns == [*frame.columns, *new]
    scores, bounds = scored[new[:2]].to_numpy(), scored[new[2:4]].to_numpy()
    np.testing.assert_array_equal(scores, loaded.predict_proba(frame).round(6))
    np.testing.assert_array_equal(bounds, loaded.predict_bounds(frame).round(6))
    assert called(capsys, *call, "--level", "0.95").code == 0
    wider = read(f"o.{ending}")[new[2:4]].to_numpy()
    np.testing.assert_array_equal(wider, loaded.predict_bounds(frame, level=0.95).round(6))
    assert scored["decision"].to_list() == loaded.predict(frame).tolist()
    without = called(capsys, *call[:-2], "--level", "0.95")
    assert without.code == 2
    assert "--level is the confidence in --bounds" in without.err


def test_bounds_that_there_are_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "few.csv").write_text(small_table(120))
    models = {
        "TwoNB has no latent fair decision": ("t.csv", "TwoNB"),
        "need labels that were held out at fit": ("few.csv", "LatNB"),
    }
    for says, (table, model) in models.items():
        call = ("fit", table, *ROLES, "--model", model, "-o", "n.fairpc", "-q")
        assert called(capsys, *call).code == 0
        before = names(folder)
        ended = called(capsys, "predict", "n.fairpc", table, "-o", "o.csv", "--bounds")
        assert (ended.code, ended.out) == (2, "")
        assert says in ended.err
        assert ended.err.count("\n") == 1
        assert names(folder) == before


@pytest.mark.filterwarnings("always::UserWarning")
def test_bounds_of_a_table_that_contradicts_the_assumptions(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Age decides every label: a quarter of one group, three quarters of the other."""
    rng = np.random.default_rng(0)
    age, sex = rng.integers(20, 60, 600), rng.choice(["F", "M"], 600)
    hired = np.where(age >= np.where(sex == "F", 50, 30), "yes", "no")
    pl.DataFrame({"age": age, "sex": sex, "hired": hired}).write_csv("bad.csv")
    for model in ("LatNB", "latent"):
        call = ("fit", "bad.csv", *ROLES, "--model", model, "-o", "n.fairpc")
        fitted = called(capsys, *call)
        assert fitted.out.startswith("Nothing is said about altered labels. The labels of the fit")
        assert "of those who deserved" not in fitted.out
        assert "contradict the assumptions" not in fitted.err  # it is said once
        asked = ("predict", "n.fairpc", "bad.csv", "-o", "o.csv", "--bounds")
        ended = called(capsys, *asked)
        assert "note: the data contradict the assumptions" in ended.err
        assert "or `fairpc audit`" in ended.err
        assert pl.read_csv("o.csv")["p_df_lower"].is_nan().all()
        assert answer(capsys, *asked)["rows_without_bounds"] == 600


def test_a_class_that_is_called_like_a_bound(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = small_table(400).replace("yes", "upper").replace("no\n", "lower\n")
    (folder / "u.csv").write_text(text)
    fit = ("fit", "u.csv", *QUICK, "--positive", "upper", "-o", "u.fairpc", "-q")
    assert called(capsys, *fit).code == 0
    assert called(capsys, "predict", "u.fairpc", "u.csv", "-o", "o.csv").code == 0
    ended = called(capsys, "predict", "u.fairpc", "u.csv", "-o", "p.csv", "--bounds")
    assert ended.code == 2
    assert "the scores of a class are in 'p_df_lower'" in ended.err


def test_without_a_group_there_are_no_scores(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pl.read_csv("t.csv").drop("sex")
    frame.write_csv("u.csv")
    ended = called(capsys, "predict", "m.fairpc", "u.csv", "-o", "o.csv")
    assert ended.code == 0
    assert "no column 'sex', the sensitive attribute" in ended.err
    assert pl.read_csv("o.csv", infer_schema_length=None)["p_df_yes"].is_nan().all()
    assert called(capsys, "predict", "m.fairpc", "u.csv", "-o", "d.csv", "--decide").code == 2


REFUSED = {
    "a classifier of circuits": (
        ("fit", "t.csv", *ROLES, "--classifier", "hgb", "-o", "n"),
        "--classifier is for --model latent",
    ),
    "an unknown classifier": (
        ("fit", "t.csv", *ROLES, "--model", "latent", "--classifier", "svm", "-o", "n"),
        "Invalid value for '--classifier': ",
    ),
    "a structure": (
        ("fit", "t.csv", *QUICK, "--structure", "strudel", "-o", "n"),
        "--structure is not for --model latent",
    ),
    "bins": (
        ("fit", "t.csv", *QUICK, "--bins", "4", "-o", "n"),
        "--bins is not for --model latent",
    ),
    "a limit of memory": (
        ("fit", "t.csv", *QUICK, "--max-memory", "1GB", "-o", "n"),
        "--max-memory is for tables that are read in parts",
    ),
    "workers": (
        ("fit", "t.csv", *QUICK, "--scheduler", "tcp://127.0.0.1:1", "-o", "n"),
        "--scheduler is for tables that are read in parts",
    ),
    "numbers that are none": (
        ("fit", "t.csv", *QUICK, "--numeric", "job", "-o", "n"),
        "t.csv: column 'job' has",
    ),
    "three classes": (
        ("fit", "t.csv", "--label", "job", "--positive", "cook", *QUICK[4:], "-o", "n"),
        "t.csv: label 'job' has 3 classes",
    ),
    "an absent column": (
        ("predict", "m.fairpc", "u.csv", "-o", "o.csv"),
        "u.csv: column 'age' is not in the table",
    ),
    "a query": (
        ("query", "m.fairpc", "Df=yes | age=37"),
        "m.fairpc holds a LatentDecision, which has no distribution of the features to ask: "
        "take a model that `fairpc fit --model FairPC` wrote",
    ),
}


@pytest.mark.parametrize(("call", "says"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_one_sentence(
    folder: Path, call: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "u.csv").write_text("job,sex\nclerk,F\ncook,M\n")
    before = names(folder)
    ended = called(capsys, *call)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"fairpc: {says}")
    assert ended.err.count("\n") == 1
    assert "should not happen" not in ended.err
    assert names(folder) == before


def test_an_altered_file_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("m.fairpc").read_text()
    Path("m.fairpc").write_text(text.replace('"kind":"logistic"', '"kind":"pickle"'))
    ended = called(capsys, "predict", "m.fairpc", "t.csv", "-o", "o.csv")
    assert ended.code == 2
    assert "m.fairpc: its checksum does not fit its content" in ended.err
