"""Bent assumptions: each against a fit by itself, and what moves by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fairpc import Knowledge, LatNB, sensitivity
from fairpc.errors import ContradictionWarning, FairpcError
from models.refits_tables import drawn, mixed, naive


def found(model: Any, **options: Any) -> Any:
    x, y, s, _ = drawn()
    return sensitivity(model, x, y, sensitive_features=s, **({"n_steps": 30} | options))


def test_nothing_new_changes_nothing() -> None:
    record = found(naive(), knowledge={"what is true anyway": Knowledge(fair_rate=(0.0, 1.0))})
    (one,) = record.bent
    assert one.log_likelihood_lost == 0
    assert one.score_shift_max == one.decisions_changed == 0
    assert one.rank_correlation == pytest.approx(1)
    np.testing.assert_array_equal(one.mechanism, record.mechanism)


def test_what_moves_is_counted_on_the_rows() -> None:
    x, y, s, _ = drawn()
    model = naive()
    tried = {"high": Knowledge(fair_rate=0.7), "low": Knowledge(fair_rate=0.3)}
    record = found(model, knowledge=tried, n_steps=400)
    base = found(model, fair_rates=[0.5], n_steps=400)
    np.testing.assert_array_equal(base.mechanism, record.mechanism)
    assert [one.name for one in record.bent] == ["high", "low"]
    # EM by itself, from another start, to the same constrained optimum.
    alone = LatNB(knowledge=Knowledge(fair_rate=0.7), max_iter=3000, tol=0)
    with pytest.warns(ContradictionWarning, match="what was stated as known"):
        alone.fit(x, y, sensitive_features=s)
    free = LatNB(max_iter=3000, tol=0).fit(x, y, sensitive_features=s)
    high = record.bent[0]
    np.testing.assert_allclose(high.fair_rate, [0.3, 0.7])
    np.testing.assert_allclose(high.mechanism, alone.bias_mechanism_, atol=2e-3)
    before = free.predict_proba(x, sensitive_features=s)[:, 1]
    after = alone.predict_proba(x, sensitive_features=s)[:, 1]
    assert high.score_shift_mean == pytest.approx(np.abs(after - before).mean(), abs=2e-3)
    assert high.score_shift_max == pytest.approx(np.abs(after - before).max(), abs=5e-3)
    assert high.rank_correlation == pytest.approx(
        stats.spearmanr(before, after).statistic, abs=2e-3
    )
    assert abs(high.decisions_changed - ((after > 0.5) != (before > 0.5)).sum()) <= 5
    lost = free.score_samples(x, y, sensitive_features=s) - alone.score_samples(
        x, y, sensitive_features=s
    )
    assert high.log_likelihood_lost == pytest.approx(lost.mean(), abs=2e-4)
    assert high.log_likelihood_lost > 0


def test_the_usual_assumptions_and_the_words_for_them() -> None:
    record = found(mixed())
    names = [one.name for one in record.bent]
    assert len(names) == 8
    lowered = next(one for one in record.bent if one.name == "labels of 0 only ever lowered")
    assert lowered.mechanism[0, 0, 1] == 0
    raised = next(one for one in record.bent if one.name == "labels of 1 only ever raised")
    assert raised.mechanism[1, 1, 0] == 0
    for one in record.bent[:4]:
        assert f"P(Df = 1) = {one.fair_rate[1]:g}" == one.name
    words = record.summary().splitlines()
    assert len(words) == 10
    assert "prior knowledge, not on data" in words[-1]
    data = record.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["bent"][0]["knowledge"]["one_sided"] is None


def test_fair_labels_are_one_more_assumption() -> None:
    x, y, s, f = drawn()
    record = found(naive(), fair_labels=f, n_steps=3)
    (one,) = record.bent
    assert one.name == "1,500 fair labels known"
    assert one.knowledge is None
    counts = np.zeros((2, 2, 2))
    np.add.at(counts, (s, f, y), 1)
    expected = (counts + 0.5) / (counts.sum(axis=2, keepdims=True) + 1)
    np.testing.assert_allclose(one.mechanism, expected, atol=1e-9)
    # Where the model was fitted with them they are kept, and something else must be bent.
    model = LatNB(max_iter=20).fit(x, y, sensitive_features=s, fair_labels=f)
    record = found(model, fair_labels=f, fair_rates=[0.4])
    np.testing.assert_allclose(record.mechanism, expected, atol=1e-9)
    np.testing.assert_allclose(record.bent[0].mechanism, expected, atol=1e-9)


def test_what_the_model_knew_is_kept_unless_it_is_bent() -> None:
    x, y, s, _ = drawn()
    model = LatNB(knowledge=Knowledge(fair_rate=0.5, one_sided={1: "lowered"}), max_iter=20)
    model.fit(x, y, sensitive_features=s)
    record = found(model, fair_rates=[0.6])
    assert record.fair_rate[1] == pytest.approx(0.5)
    assert record.bent[0].fair_rate[1] == pytest.approx(0.6)
    assert record.bent[0].mechanism[1, 0, 1] == 0


def test_bad_input_is_told_so() -> None:
    bad: list[tuple[dict[str, Any], str]] = [
        ({"knowledge": {}}, "no assumption to change"),
        ({"fair_rates": []}, "no assumption to change"),
        ({"fair_rates": [1.5]}, "fair_rate is 1.5"),
        ({"knowledge": {"a": 0.3}}, "give a fairpc.Knowledge"),
        ({"knowledge": {"a": Knowledge(one_sided={"X": "lowered"})}}, "the group 'X'"),
        ({"n_steps": 0}, "n_steps is 0"),
        ({"fair_labels": [1, 0]}, "1,500 rows and 2 fair labels"),
    ]
    for options, message in bad:
        with pytest.raises(FairpcError, match=message):
            found(naive(), **options)


def test_within_strata_the_mechanism_is_bent_and_no_rate() -> None:
    x, y, s, _ = drawn()
    with pytest.warns(ContradictionWarning, match="the same in all of them"):
        model = LatNB(given=0, random_state=0).fit(x, y, sensitive_features=s)
    record = found(model)
    assert record.bent
    assert all("P(Df" not in one.name for one in record.bent)
    with pytest.raises(FairpcError, match="every stratum has a rate of its own"):
        found(model, fair_rates=[0.4])
