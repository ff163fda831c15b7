"""Parts of an audit that fit the model again: as many times as is quick."""

from __future__ import annotations

from typing import Any

import pytest

from auditing.tables import QUICK, fitted, job_of_table, plain_json, table
from fairpc.auditing import _mechanism as mechanism
from fairpc.auditing import audit
from fairpc.auditing._assumptions import assumption_test
from fairpc.auditing._mechanism import LabelChanges
from fairpc.auditing._rows import AuditedRows
from fairpc.errors import AuditError
from fairpc.models import Draws, FairDistribution


def test_intervals_and_starts_on_training_rows() -> None:
    X, y, s = table()
    asked = QUICK | {"n_replicates": 4, "n_starts": 2}
    record = audit(fitted("LatNB"), X, y, sensitive_features=s, **asked)
    assert record.mechanism is not None
    assert record.mechanism.n_replicates == 4
    for cell in record.mechanism.cells:
        assert cell.interval is not None
        assert 0 <= cell.interval[0] <= cell.interval[1] <= 1
    assert record.decidable.stability is not None
    assert len(record.decidable.stability.starts) == 2
    assert record.decidable.stability.folds == ()
    plain_json(record)


@pytest.mark.parametrize(
    ("n_distinct", "n_draws"), [(1, 200), (16_000, 117), (60_000, 50), (150_000, None)]
)
def test_draws_are_as_many_as_are_quick(
    n_distinct: int, n_draws: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(rows + 1000) × 1000 edges × 500 updates each, 10¹² in all; 50 draws for up to twice that."""
    now = job_of_table(n_seeds=1)
    now.results["mechanism"] = mechanism.mechanism_facts(now)
    now.results["decidable.test"] = assumption_test(now)
    asked: list[int] = []

    def drawn(_: Any, draws: Draws, *__: Any) -> Any:
        asked.append(draws.n_replicates)
        raise AuditError("drawn")

    monkeypatch.setattr(AuditedRows, "n_distinct", n_distinct)
    monkeypatch.setattr(mechanism, "intervals", drawn)
    monkeypatch.setattr(FairDistribution, "n_edges", 1000)
    with pytest.raises(AuditError, match="drawn" if n_draws else "n_replicates=200"):
        mechanism.with_intervals(now)
    assert asked == ([] if n_draws is None else [n_draws])


def test_labels_of_which_next_to_none_was_turned_are_told_in_words() -> None:
    turned = LabelChanges("a", 1200.0, 0.3, 121.0, 0.0), LabelChanges("b", 300.0, 34.0, 0.0, 0.0)
    said = mechanism._sentence(turned, "yes", grouped=True)
    assert "in group 'a' practically none of 1,200 labels were turned to 'yes' and 121 away" in said
    assert "in group 'b' 34 of 300 labels were turned to 'yes' and practically none away" in said
    assert " 0 " not in said


def test_a_sentence_names_few_of_many_groups() -> None:
    turned = tuple(LabelChanges(f"g{k}", 100.0, float(k), 0.0, 0.0) for k in range(50))
    few = mechanism._sentence(turned[:6], "yes", grouped=True)
    assert few.count("in group") == 6
    many = mechanism._sentence(turned, "yes", grouped=True)
    assert "in group 'g49' 49 of 100 labels" in many
    assert many.count("in group") == 5
    assert many.endswith("no larger share in any of the other 45 groups.")
