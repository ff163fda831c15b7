"""The test of the assumptions: split as many times as is quick."""

from __future__ import annotations

import pytest

from auditing.tables import job_of_table
from fairpc.auditing.assumptions import assumption_test
from fairpc.auditing.rows import AuditedRows


@pytest.mark.parametrize(("n_distinct", "n_seeds"), [(50, 11), (7000, 7), (20_000, 3), (10**6, 3)])
def test_many_rows_are_split_in_fewer_ways(
    n_distinct: int, n_seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AuditedRows, "n_distinct", n_distinct)
    assert assumption_test(job_of_table(n_seeds=None)).plain.n_seeds == n_seeds
    assert assumption_test(job_of_table(n_seeds=2)).plain.n_seeds == 2


def test_many_groups_are_split_in_fewer_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """7,000 rows are split in 7 ways; 12 groups count as 500 rows more, and 82 as 18,000."""
    monkeypatch.setattr(AuditedRows, "n_distinct", 7000)
    for n_groups, n_seeds in ((10, 7), (12, 7), (82, 3)):
        monkeypatch.setattr(AuditedRows, "groups_in", lambda *_, n=n_groups: tuple(range(n)))
        assert assumption_test(job_of_table(n_seeds=None)).plain.n_seeds == n_seeds
