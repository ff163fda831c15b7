"""The audited model beside other methods, on rows that they were not fitted to."""

from __future__ import annotations

import polars as pl
import pytest

from auditing.tables import QUICK, fitted, table
from fairpc.auditing import audit
from fairpc.estimators import FairPC, LatNB
from fairpc.metrics import accuracy


def test_trade_off_is_out_of_sample_and_says_how() -> None:
    X, y, s = table()
    wanted = QUICK | {"baselines": True, "cv": 2}
    on_training = audit(fitted(), X, y, sensitive_features=s, **wanted).trade_off
    assert on_training is not None
    assert "again without the rows of a fold" in on_training.how
    X2, y2, s2 = table(seed=1)
    model = fitted()
    record = audit(model, X2, y2, sensitive_features=s2, **wanted)
    assert record.trade_off is not None
    assert "only if none of these rows was used in its fit" in record.trade_off.how
    mine = next(m for m in record.trade_off.methods if m["method"] == "FairPC")
    direct = accuracy(y2, model.predict(X2, sensitive_features=s2))
    assert mine["accuracy"] == pytest.approx(direct, abs=1e-9)
    assert {"LR", "Rand"} <= {m["method"] for m in record.trade_off.methods}


def test_other_methods_see_the_columns_of_the_fit_alone() -> None:
    """A column that tells the label, left out before the fit, is still in the audited table."""
    X, y, s = table()
    leaking = X.with_columns(answer=pl.Series(y))
    wanted = QUICK | {"baselines": True, "cv": 2}
    record = audit(fitted(), leaking, y, sensitive_features=s, **wanted).trade_off
    plain = audit(fitted(), X, y, sensitive_features=s, **wanted).trade_off
    assert record is not None
    assert plain is not None
    for mine, other in zip(record.methods, plain.methods, strict=True):
        assert mine["accuracy"] == other["accuracy"] < 1


def test_a_chosen_threshold_is_audited() -> None:
    """Group thresholds that equalise rates on these rows: the gap of decisions shrinks."""
    X, y, s = table()
    model = LatNB(max_iter=30).fit(X, y, sensitive_features=s)
    model.choose_threshold(X, equalise=True, sensitive_features=s)
    record = audit(model, X, y, sensitive_features=s, **QUICK | {"baselines": True, "cv": 2})
    assert record.parity is not None
    chosen = model.predict(X, sensitive_features=s) == "yes"
    gap = abs(chosen[s == "g1"].mean() - chosen[s == "g0"].mean())
    assert record.parity.decisions[0].gap == pytest.approx(gap)
    assert record.parity.thresholds == model.threshold_.values
    assert record.trade_off is not None
    assert "threshold there is that of its settings, 0.5" in record.trade_off.how


def test_a_large_table_is_sampled_and_says_so() -> None:
    X, y, s = table()
    model = fitted()
    options = QUICK | {"max_rows": 150, "max_test_rows": 170, "baselines": True, "cv": 2}
    record = audit(model, X, y, sensitive_features=s, **options)
    assert record.decidable.test is not None
    assert record.decidable.test.n_rows == 170
    assert record.decidable.test.n_known == 400
    assert record.trade_off is not None
    assert "a random sample of 150 of the 400 audited rows" in record.trade_off.how
    assert record.parity is not None
    assert sum(g.n for g in record.parity.scores[0].parity.groups) == 400


def test_an_area_just_below_one_has_an_interval() -> None:
    """A group that scores separate but for rounding: the logit of its area is beyond a float."""
    X, y, s = table(600, n_groups=6, n_classes=3)
    model = FairPC(structure="chow-liu", random_state=0, max_iter=60)
    record = audit(model.fit(X, y, sensitive_features=s), X, y, sensitive_features=s, **QUICK)
    assert record.group_metrics is not None
