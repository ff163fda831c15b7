"""The audited model beside other methods, on rows that they were not fitted to."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from auditing.tables import QUICK, fitted, table
from fairpc.auditing import audit
from fairpc.metrics import accuracy
from fairpc.models import FairPC, LatNB

COMPARED = QUICK | {"baselines": True, "cv": 2}


@cache
def on_training() -> Any:
    """Other methods beside the model, on the rows of its fit."""
    X, y, s = table()
    found = audit(fitted(), X, y, sensitive_features=s, **COMPARED).trade_off
    assert found is not None
    return found


def test_trade_off_is_out_of_sample_and_says_how() -> None:
    assert "again without the rows of a fold" in on_training().how
    X2, y2, s2 = table(seed=1)
    model = fitted()
    record = audit(model, X2, y2, sensitive_features=s2, **COMPARED)
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
    record = audit(fitted(), leaking, y, sensitive_features=s, **COMPARED).trade_off
    assert record is not None
    for mine, other in zip(record.methods, on_training().methods, strict=True):
        assert mine["accuracy"] == other["accuracy"] < 1


def test_classes_and_groups_are_those_of_the_model_however_a_table_writes_them() -> None:
    """Of a file all cells are text: labels are 1.0 and 0.0, and a group of numbers is a bin."""
    X, y, _ = table()
    age = np.random.default_rng(0).integers(20, 70, len(y))
    frame = X.with_columns(age=pl.Series(age))
    labels = (y == "yes").astype(int)
    model = LatNB(sensitive="age", max_iter=30).fit(frame, labels)
    assert len(model.groups_) == 4
    for kept in (age > 0, age > 25):
        rows, own = frame.filter(pl.Series(kept)), labels[kept]
        texts = rows.with_columns(pl.col("age").cast(pl.Float64)).cast(pl.String)
        plain = audit(model, rows, own, **COMPARED).trade_off
        found = audit(model, texts, own.astype(float).astype(str), **COMPARED).trade_off
        assert plain is not None
        assert found is not None
        assert not found.failures
        for name in ("method", "accuracy", "discrimination", "selection_gap"):
            assert [m[name] for m in found.methods] == [m[name] for m in plain.methods]


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
