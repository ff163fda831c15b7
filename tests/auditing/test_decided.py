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
from fairpc.auditing import render
from fairpc.cli import main
from fairpc.errors import AuditError

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
    assert found.error_rates.conclusions[0].startswith("Equal opportunity does not hold. The true")
    assert "whatever the labels hide" in found.error_rates.conclusions[0]
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


def test_strata_with_mechanisms_of_their_own() -> None:
    table = X.assign(site=np.where(np.arange(len(Y)) % 3 == 0, "x", "y"))
    model = fairpc.LatentDecision(
        LogisticRegression(), sensitive=None, given="site", mechanism="within", random_state=0
    )
    numbers = table.assign(site=(table["site"] == "x").astype(int))
    model.fit(numbers[HALF], Y[HALF], sensitive_features=S[HALF])
    given: Any = {"sensitive_features": S[~HALF], "baselines": False, "n_seeds": 1}
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
    roles = ["--label", "repaid", "--sensitive", "sex", "--decision", "granted"]
    with pytest.raises(SystemExit) as ended:
        main(["audit", str(path), *roles, "-o", str(page), "--json", "-q"])
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    assert "does not hold" in found["error_rates"]["conclusions"][0]
    assert "whatever the labels hide" in page.read_text()


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
