"""The test of the assumptions: split as many times as is quick."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from auditing.tables import QUICK, fitted, job_of_table, table
from fairpc.auditing import audit
from fairpc.auditing._assumptions import AssumptionFacts
from fairpc.auditing._decidable import _room
from fairpc.auditing._rows import AuditedRows
from fairpc.auditing._tested import assumption_test
from fairpc.evidence import StratumBounds


@pytest.mark.parametrize(("n_distinct", "n_seeds"), [(50, 11), (1900, 5), (20_000, 1), (10**6, 1)])
def test_many_rows_are_split_in_fewer_ways(
    n_distinct: int, n_seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AuditedRows, "n_distinct", n_distinct)
    assert assumption_test(job_of_table(n_seeds=None, of_fit=False)).unstratified.n_seeds == n_seeds
    assert assumption_test(job_of_table(n_seeds=2)).unstratified.n_seeds == 2


def test_many_groups_are_split_in_fewer_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,900 rows are split in 5 ways; 12 groups count as 500 rows more, and 82 as 18,000."""
    monkeypatch.setattr(AuditedRows, "n_distinct", 1900)
    for n_groups, n_seeds in ((10, 5), (12, 3), (82, 1)):
        monkeypatch.setattr(AuditedRows, "groups_in", lambda *_, n=n_groups: tuple(range(n)))
        assert (
            assumption_test(job_of_table(n_seeds=None, of_fit=False)).unstratified.n_seeds
            == n_seeds
        )


def test_the_rows_of_the_fit_have_its_own_test() -> None:
    """Counts that the fit kept, so that both say one number; asked for, one of other splits."""
    model, tested = fitted(), assumption_test(job_of_table(n_seeds=None))
    bounds = model.label_ends_
    assert isinstance(bounds, StratumBounds)
    test = tested.unstratified
    assert tested.quoted
    assert (test.lower, test.upper) == bounds.rate_set(0.95)
    assert test.rejected == bounds.rejected(0.95)
    assert test.least_difference is not None
    least = bounds.differences(0.95).least()
    assert test.least_difference.limit == least.limit
    assert test.least_difference.half_width == least.half_width
    assert tested.fit is not None
    own = tested.fit.test(0.95)  # the same counts, as those of one split
    assert (own.lower, own.upper) == pytest.approx((test.lower, test.upper))
    assert own.least_difference is not None
    assert own.least_difference.limit == pytest.approx(least.limit)
    assert not assumption_test(job_of_table(n_seeds=1)).quoted
    assert not assumption_test(job_of_table(n_seeds=None, of_fit=False)).quoted


def test_shares_of_rows_that_are_decided_add_up_and_none_is_negative() -> None:
    """1 - 0.9 - 0.1 is below zero."""
    job: Any = SimpleNamespace(
        rows=SimpleNamespace(each_count=np.ones(10)),
        model=SimpleNamespace(threshold_=SimpleNamespace(unknown=0.5)),
    )
    lower = np.array([0.6] * 9 + [0.3])
    _, always, never, left = _room(job, lower, lower, np.ones(10, np.bool_))
    assert (always, never, left) == (0.9, 0.1, 0.0)


def test_scores_have_bounds_where_the_model_has_them() -> None:
    features, labels, groups = table()
    model = fitted()
    bounds = model.predict_bounds(features, sensitive_features=groups)
    found = audit(model, features, labels, sensitive_features=groups, **QUICK | {"n_seeds": None})
    assert found.decidable.identified is not None
    width = np.mean(bounds[:, 1] - bounds[:, 0])
    assert found.decidable.identified.mean_width == pytest.approx(width)


def test_a_seed_chooses_the_splits() -> None:
    features, labels, groups = table()
    asked = {"sensitive_features": groups, "classifier": "logistic"} | QUICK

    def tested(**seed: Any) -> AssumptionFacts:
        found = audit(fitted(), features, labels, **asked, **seed)
        assert found.decidable.test is not None
        return found.decidable.test

    plain = tested()
    assert plain == tested(random_state=0)
    others = [tested(random_state=seed) for seed in (1, 2**32 - 1)]
    assert plain.sets != others[0].sets != others[1].sets
