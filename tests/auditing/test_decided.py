"""Decisions of any model against the fair decision: a column, an estimator, the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import fairpc
from auditing.tables import biased
from fairpc import audit
from fairpc.auditing import given_decisions, render
from fairpc.auditing._error_rates import TWO_WAYS
from fairpc.cli import main
from fairpc.errors import AuditError
from fairpc.evidence import THROUGH_DF

FEATURES, Y, S, FAIR = biased(2400, seed=3, kept=0.7, apart=3)
X = FEATURES.to_pandas()
HALF = np.arange(len(Y)) % 2 == 0


def test_a_column_of_decisions() -> None:
    strict = X["a"].to_numpy() > np.where(S == "f", 2.6, 1.0)
    found = fairpc.audit(np.where(strict, "yes", "no"), X, Y, sensitive_features=S, n_seeds=1)
    assert found.error_rates is not None
    rates = found.error_rates.rates
    true = [strict[FAIR & (g == S)].mean() for g in ("f", "m")]
    assert true[1] - true[0] in rates.differences[0].tpr
    said = found.error_rates.conclusions[0]
    assert said.startswith(f"If {THROUGH_DF}, the true positive rate of ")
    assert said.endswith("Then equal opportunity does not hold.")
    assert found.verdict.headline.startswith(f"If {THROUGH_DF}, people in group ")
    assert rates.differences[0].tpr_reviews is None
    assert rates.groups["f"].recorded.tpr == pytest.approx(strict[(Y == "yes") & (S == "f")].mean())


def test_an_estimator_on_other_rows_and_on_its_own() -> None:
    model = LogisticRegression().fit(X[HALF], Y[HALF])
    rows: Any = {"sensitive_features": S[~HALF], "n_seeds": 1}
    found = fairpc.audit(model, X[~HALF], Y[~HALF], **rows)
    assert found.error_rates is not None
    assert found.error_rates.rates.doubt == ""
    assert found.error_rates.rates.calibration
    # What is open names the reviews that would decide it.
    assert "reviews would decide a difference of" in found.error_rates.conclusions[0]
    tree = DecisionTreeClassifier(min_samples_leaf=3, random_state=0).fit(X[HALF], Y[HALF])
    own = fairpc.audit(tree, X[HALF], Y[HALF], sensitive_features=S[HALF], n_seeds=1)
    assert own.error_rates is None
    assert "trained the model" in own.left_out["error_rates"]
    with pytest.raises(AuditError, match="the decisions repeat the label"):
        fairpc.audit(Y, X, Y, sensitive_features=S)


def test_the_headline_says_what_the_conclusions_say() -> None:
    """Of decisions that are the same for all, of suspicious ones, and of a pair of three groups."""
    rows: Any = {"sensitive_features": S, "n_seeds": 1}
    same = fairpc.audit(np.repeat("yes", len(Y)), X, Y, **rows)
    assert same.error_rates is not None
    assert same.error_rates.conclusions[0].endswith("Then equal opportunity nearly holds.")
    most = max(map(abs, same.error_rates.rates.differences[0].tpr))
    assert same.verdict.headline == (
        f"If {THROUGH_DF}, people in group m and people in group f who deserve “yes” are selected "
        f"equally often to within {100 * most:.1f} points."
    )
    model = LogisticRegression().fit(X[HALF], Y[HALF])
    followed = np.where(np.random.default_rng(0).random(len(Y)) < 0.35, Y, model.predict(X))
    doubtful = fairpc.audit(followed, X, Y, **rows)
    assert doubtful.error_rates is not None
    assert doubtful.verdict.headline == doubtful.error_rates.rates.doubt
    assert doubtful.verdict.headline.startswith("Check first: ")
    three = np.where(np.arange(len(Y)) < 80, "few", S)
    found = fairpc.audit(model, X[~HALF], Y[~HALF], sensitive_features=three[~HALF], n_seeds=1)
    assert found.error_rates is not None
    pair = found.error_rates.quoted("tpr")
    assert pair.is_open("tpr")
    for sentence in (found.verdict.headline, found.error_rates.conclusions[0]):
        assert all(f"people in group {name}" in sentence for name in (pair.first, pair.last))
        assert f"about {pair.tpr_reviews:,} reviews would decide" in sentence
    assert found.error_rates.reviews == pair.tpr_reviews
    assert found.verdict.to_do[0].startswith(f"Have about {pair.tpr_reviews:,} files reviewed")


def test_what_contradicts_equal_rates_comes_before_a_sign() -> None:
    """Most deserving women are not in the table: fair rates differ, or a feature alters labels."""
    kept = ~(FAIR & (S == "f") & (np.random.default_rng(1).random(len(Y)) < 0.8))
    strict = X["a"].to_numpy() > np.where(S == "f", 2.6, 1.0)
    found = fairpc.audit(strict[kept], X[kept], Y[kept], sensitive_features=S[kept], n_seeds=1)
    verdict = found.verdict
    assert (verdict.rejected, verdict.withdrawn) == (True, True)
    assert verdict.headline.startswith("With one rate for all these labels cannot be explained: ")
    assert verdict.found[0] == TWO_WAYS
    assert "who deserve “yes” are treated alike" in verdict.found[1]
    assert verdict.to_do[0].startswith("Have 300 files reviewed before you quote a difference")
    assert not any("Write down" in one for one in verdict.to_do)


def test_strata_with_mechanisms_of_their_own() -> None:
    table = X.assign(site=np.where(np.arange(len(Y)) % 3 == 0, "x", "y"))
    model = fairpc.LatentDecision(
        LogisticRegression(), sensitive=None, given="site", random_state=0
    )
    numbers = table.assign(site=(table["site"] == "x").astype(int))
    model.fit(numbers[HALF], Y[HALF], sensitive_features=S[HALF])
    given: Any = {"sensitive_features": S[~HALF], "n_seeds": 1}
    found = fairpc.audit(model, numbers[~HALF], Y[~HALF], **given)
    assert found.error_rates is not None
    rates = found.error_rates.rates
    assert len({own.stratum for own in rates.strata} & set(model.strata_)) == 2
    assert set(rates.strata[0].rates.groups) == {"f", "m"}
    chosen = model.predict(numbers[~HALF], sensitive_features=S[~HALF]) == "yes"
    for name, group in rates.groups.items():
        here = FAIR[~HALF] & (S[~HALF] == name)
        assert chosen[here].mean() in group.tpr


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strict = np.where(X["a"].to_numpy() > np.where(S == "f", 2.6, 1.0), 1, 0)
    path = tmp_path / "t.csv"
    X.assign(sex=S, repaid=Y, granted=strict).to_csv(path, index=False)
    page = tmp_path / "report.html"
    roles = ["--label", "repaid", "--positive", "yes", "--sensitive", "sex"]
    roles += ["--decision", "granted"]
    with pytest.raises(SystemExit) as ended:
        main(["audit", str(path), *roles, "-o", str(page), "--json", "-q"])
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert "does not hold" in found["error_rates"]["conclusions"][0]
    assert f"If {THROUGH_DF}, " in page.read_text()


def test_cells_are_read_as_they_are_written_and_people_may_repeat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, person = tmp_path / "t.csv", np.arange(len(Y)) // 2
    numbers = [f"{x:.2f}".replace(".", ",") for x in X["a"]]
    numbers[::60] = ["?"] * (len(Y) // 60)
    strict = (X["a"].to_numpy() > 1.0).astype(int)
    table = X.assign(a=numbers, sex=S, repaid=Y, granted=strict, person=person)
    table.to_csv(path, index=False, sep=";")
    command = ["audit", str(path), "--label", "repaid", "--sensitive", "sex", "--json", "-q"]
    command += ["--positive", "yes", "--decision", "granted", "--missing", "?", "--decimal", ","]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--clusters", "person"])
    assert ended.value.code == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert data["n_persons"] == len(Y) // 2
    shares = {each["column"]: each["share"] for each in data["missing"]}
    assert shares["a"] == pytest.approx(1 / 60)
    assert "person" not in shares
    with pytest.raises(SystemExit) as ended:
        main([*command, "--clusters", "sex"])
    assert ended.value.code == 2
    assert "'sex' is given as --decision, --score or --clusters" in " ".join(
        capsys.readouterr().err.split()
    )


@pytest.mark.parametrize("words", [("true", "false"), ("approve", "deny"), ("1", "0")])
def test_decisions_in_words_beside_labels_in_numbers(
    words: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = X["a"].to_numpy() > 1.0
    path = tmp_path / "t.csv"
    table = X.assign(sex=S, repaid=(Y == "yes").astype(int), granted=np.where(strict, *words))
    table.to_csv(path, index=False)
    command = ["audit", str(path), "--label", "repaid", "--sensitive", "sex"]
    command += ["--decision", "granted", "--json", "-q"]
    command += ["--positive", "1"]
    command += ["--decision-positive", "approve"] if words[0] == "approve" else []
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 0
    groups = json.loads(capsys.readouterr().out)["error_rates"]["rates"]["groups"]
    for name, group in groups.items():
        assert group["recorded"]["selection"] == pytest.approx(strict[name == S].mean())
        own = strict[(name == S) & (Y == "yes")].mean()
        assert group["recorded"]["tpr"] == pytest.approx(own)


def test_rows_without_a_decision_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    decided = np.where(np.arange(len(Y)) % 100 == 3, None, (X["a"] > 1).astype(int))
    X.assign(sex=S, repaid=Y, granted=decided).to_csv(path, index=False)
    roles = ["--label", "repaid", "--positive", "yes", "--sensitive", "sex"]
    with pytest.raises(SystemExit) as ended:
        main(["audit", str(path), *roles, "--decision", "granted"])
    assert ended.value.code == 2
    assert (
        "column 'granted' (--decision) is empty in 24 rows, the first is data row 4: leave out "
        "rows that were not decided" in " ".join(capsys.readouterr().err.split())
    )


def test_the_common_threshold_is_that_of_the_decisions() -> None:
    """Scores cut at .7 give the decisions: groups are compared there, and it is said."""
    rng = np.random.default_rng(0)
    s, scores = np.repeat(["a", "b"], 300), rng.random(600)
    y, decided = (rng.random(600) < scores).astype(int), (scores >= 0.7).astype(int)
    frame = pl.DataFrame({"x": 2 * y + rng.integers(0, 4, 600)})
    found = audit(decided, frame, y, sensitive_features=s, scores=scores, n_seeds=1)
    assert found.parity is not None
    assert found.parity.equal_rates is not None
    assert found.parity.equal_rates.common_threshold == scores[decided == 1].min()
    for group in found.parity.equal_rates.groups:
        assert group.rate_before == pytest.approx(decided[s == group.group].mean())
    assert "Common threshold: 70." in render(found)


def test_decisions_in_other_words_than_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """grant and refuse beside yes and no: the favourable one is asked for, and is what is meant."""
    strict = X["a"].to_numpy() > np.where(S == "f", 2.6, 1.0)
    rows: Any = {"sensitive_features": S, "n_seeds": 1}
    path = tmp_path / "t.csv"
    words = np.where(strict, "grant", "refuse")
    for wrong in (None, "granted"):
        with pytest.raises(AuditError, match=r"\(--decision-positive\)"):
            fairpc.audit(words, X, Y, decision_positive=wrong, **rows)
    named = fairpc.audit(words, X, Y, decision_positive="grant", **rows)
    coded = fairpc.audit(strict.astype(int), X, Y, **rows)
    assert named.error_rates == coded.error_rates
    turned = fairpc.audit(words, X, Y, decision_positive="refuse", **rows)
    assert turned.error_rates is not None
    assert turned.error_rates.rates.groups["f"].recorded.selection == pytest.approx(
        1 - strict[S == "f"].mean()
    )
    X.assign(sex=S, repaid=Y, granted=words).to_csv(path, index=False)
    command = [str(path), "--label", "repaid", "--positive", "yes", "--sensitive", "sex"]
    command += ["--decision", "granted"]
    named_too = ["--decision-positive", "grant"]
    for name, more in (
        ("audit", ["-o", str(tmp_path / "r.html")]),
        ("review", ["-n", "20", "-o", str(tmp_path / "rows.csv")]),
    ):
        with pytest.raises(SystemExit) as ended:
            main([name, *command, *more])
        assert ended.value.code == 2
        assert "--decision-positive" in capsys.readouterr().err
        with pytest.raises(SystemExit) as ended:
            main([name, *command, *named_too, *more])
        assert ended.value.code == 0
        assert f"Next: fairpc {'review' if name == 'audit' else 'audit'}" in (
            said := capsys.readouterr().out
        )
        assert "--decision-positive grant" in said.splitlines()[-1]


def test_where_labels_say_nothing_decisions_do() -> None:
    """Features that tell nothing of the label leave every error rate possible."""
    rng = np.random.default_rng(0)
    noise = pl.DataFrame({"a": rng.normal(size=900), "b": rng.normal(size=900)})
    _, y, s, _ = biased(900, seed=3, kept=0.7, apart=0.0)
    selected = rng.random(900) < np.where(s == "f", 0.3, 0.45)
    found = fairpc.audit(selected.astype(int), noise, y, sensitive_features=s, n_seeds=1)
    assert found.error_rates is not None
    assert found.parity is not None
    (pair,) = found.error_rates.rates.differences
    assert pair.tpr.width > 1
    gap = found.parity.decisions[0].parity.largest
    for number in (100 * gap.difference, *(100 * end for end in gap.difference_interval)):
        assert f"{number:.1f}" in found.verdict.headline
    for number in (gap.impact_ratio, *gap.impact_interval):
        assert f"{number:.2f}" in found.verdict.headline
    said = (*found.verdict.sentences, *found.verdict.to_do, *found.error_rates.conclusions)
    assert not any(f"{100 * abs(end):.1f}" in one for end in pair.tpr for one in said)
    assert not any(word in one for one in said for word in ("points lower to", "points less and"))
    assert found.error_rates.reviews is None


def test_numbers_with_a_decimal_comma_are_numbers_of_the_test() -> None:
    """As text they would be names, which tell less of the label."""
    commas = X.assign(a=[f"{value:.3f}".replace(".", ",") for value in X["a"]])
    rows: Any = {"sensitive_features": S, "n_seeds": 1, "random_state": 0}
    strict = X["a"].to_numpy() > 1.0
    points = fairpc.audit(strict, X.assign(a=X["a"].round(3)), Y, **rows)
    given = given_decisions(strict, commas, Y, S, decimal=",")
    read = fairpc.audit(given, commas, Y, **rows)
    assert read.to_dict()["error_rates"] == points.to_dict()["error_rates"]
