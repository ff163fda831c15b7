"""The test of the assumptions: split as many times as is quick."""

from __future__ import annotations

from typing import Any

import pytest

from auditing.tables import QUICK, fitted, job_of_table, table
from fairpc.auditing import audit
from fairpc.auditing._assumptions import AssumptionFacts, assumption_test
from fairpc.auditing._rows import AuditedRows


@pytest.mark.parametrize(("n_distinct", "n_seeds"), [(50, 11), (7000, 7), (20_000, 3), (10**6, 3)])
def test_many_rows_are_split_in_fewer_ways(
    n_distinct: int, n_seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AuditedRows, "n_distinct", n_distinct)
    assert assumption_test(job_of_table(n_seeds=None)).unstratified.n_seeds == n_seeds
    assert assumption_test(job_of_table(n_seeds=2)).unstratified.n_seeds == 2


def test_many_groups_are_split_in_fewer_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """7,000 rows are split in 7 ways; 12 groups count as 500 rows more, and 82 as 18,000."""
    monkeypatch.setattr(AuditedRows, "n_distinct", 7000)
    for n_groups, n_seeds in ((10, 7), (12, 7), (82, 3)):
        monkeypatch.setattr(AuditedRows, "groups_in", lambda *_, n=n_groups: tuple(range(n)))
        assert assumption_test(job_of_table(n_seeds=None)).unstratified.n_seeds == n_seeds


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_seed_chooses_the_splits(n_classes: int) -> None:
    features, labels, groups = table(n_classes=n_classes)
    asked = {"sensitive_features": groups, "classifier": "logistic"} | QUICK

    def tested(**seed: Any) -> AssumptionFacts:
        model = fitted(n_classes=n_classes)
        found = audit(model, features, labels, **asked, **seed)
        assert found.decidable.test is not None
        return found.decidable.test

    plain = tested()
    assert plain == tested(random_state=0)
    others = [tested(random_state=seed) for seed in (1, 2**32 - 1)]
    assert plain.sets != others[0].sets != others[1].sets
