"""Audits within strata: which test counts, what is mix, what a rejection hangs on."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from auditing.facts import rejected_without_strata
from auditing.tables import QUICK, fitted as plain_model, plain_json, table as plain_table
from fairpc import FairPC, LatNB
from fairpc.auditing import Audit, audit
from fairpc.auditing._assumptions import ARGUED
from fairpc.auditing._strata import GapParts, OwnStrata
from fairpc.errors import ContradictionWarning
from fairpc.evidence import parity, test_assumptions


@cache
def fitted() -> FairPC:
    X, y = rejected_without_strata()
    return FairPC("sex", given="hours", structure="forest", random_state=0).fit(X, y)


@cache
def found() -> Audit:
    X, y = rejected_without_strata()
    return audit(fitted(), X, y, **QUICK)


def own(record: Audit) -> OwnStrata:
    assert record.strata is not None
    return record.strata


@cache
def without() -> Audit:
    X, y = rejected_without_strata()
    return audit(contradicted(LatNB("sex", max_iter=100), X, y), X, y, **QUICK)


def contradicted(model: LatNB, X: Any, y: Any) -> LatNB:
    """A model fitted to labels that contradict it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContradictionWarning)
        return model.fit(X, y)


def test_the_verdict_goes_by_the_test_within_strata() -> None:
    record = found()
    facts = own(record)
    assert facts.plain_rejected
    assert record.decidable.test is not None
    assert record.decidable.test.rejected
    assert facts.test is not None
    assert not facts.test.rejected
    assert record.decidable.rejected is False
    assert record.verdict.rejected is False
    said = " ".join(record.verdict.sentences)
    assert "do not contradict the assumptions" in said
    assert "within strata of 'hours'" in said
    assert "Without strata, these rows contradict" in said
    assert ARGUED in said


def test_it_is_the_test_of_the_evidence() -> None:
    X, y = rejected_without_strata()
    features = X.drop("sex").select("hours", "x", "noise").to_numpy()
    kept: dict[str, Any] = {"classifier": "logistic", "n_seeds": 1, "positive": "yes"}
    hours, sex = X["hours"].to_numpy(), X["sex"].to_numpy()
    alone = test_assumptions(features, y, sex, given=hours, **kept)
    facts = own(found()).test
    assert facts is not None
    assert facts.rejected == alone.rejected
    assert facts.p_value == pytest.approx(alone.p_value, rel=0.2)


def test_gaps_are_cut_into_mix_and_within() -> None:
    X, y = rejected_without_strata()
    facts = own(found())
    (labels,), (scores,) = facts.labels, facts.scores
    sex, hours = X["sex"].to_numpy(), X["hours"].to_numpy()
    alone = parity(y == "yes", sex, given=hours).pairs[0]
    assert (labels.first, labels.last) == ("f", "m")
    assert (labels.mix, labels.within) == pytest.approx((alone.mix, alone.within))
    assert labels.within_interval == pytest.approx(alone.within_interval)
    # Labels err alike in both groups: within strata nothing is left but chance.
    assert labels.within_interval[0] < 0 < labels.within_interval[1]
    assert labels.mix > 0.2
    raw = (y[sex == "m"] == "yes").mean() - (y[sex == "f"] == "yes").mean()
    assert labels.mix + labels.within == pytest.approx(labels.raw) == pytest.approx(raw)
    assert scores.mix == pytest.approx(labels.mix, abs=0.05)


def test_rates_of_strata_and_groups_are_those_of_model_and_rows() -> None:
    X, y = rejected_without_strata()
    facts, model = own(found()), fitted()
    for a, one in enumerate(facts.strata):
        here = (X["hours"] == f"h{a}").to_numpy()
        assert one.stratum == f"hours=h{a}"
        assert one.decision_rate == model.stratum_rate_[a, 1]
        for sex, n, rate in zip("fm", one.n, one.label_rates, strict=True):
            inside = here & (X["sex"] == sex).to_numpy()
            assert n == inside.sum()
            assert rate == pytest.approx((y[inside] == "yes").mean())
        assert one.possible is not None
        assert one.possible[0] <= one.decision_rate + 0.1
        assert one.decision_rate - 0.1 <= one.possible[1]
    rates = [g.decision_rate for g in facts.groups]
    np.testing.assert_allclose(rates, model.distribution_.decision_rate[:, 1])
    assert [g.b1 for g in facts.groups] == pytest.approx(model.bias_mechanism_[:, 1, 1].tolist())


def test_each_stratum_may_have_its_own_mechanism() -> None:
    facts, model = own(found()), fitted()
    assert len(facts.subgroups) == 6
    for one in facts.subgroups:
        s, a = "fm".index(one.group), int(one.stratum[-1])
        expected = model.stratum_mechanism_[s, a, :, 1]
        assert (one.b0, one.b1) == pytest.approx(tuple(expected))
        assert one.b1_possible is not None


def test_nothing_is_said_of_the_whole_table_that_holds_within_strata_only() -> None:
    record = found()
    assert record.parity is not None
    assert record.parity.model_gap is not None
    assert record.parity.model_gap < 1e-9
    assert record.parity.mix_gap is not None
    assert record.parity.mix_gap > 0.2
    assert "within each stratum" in record.parity.sentences[0]
    assert record.mechanism is not None
    assert record.mechanism.group_decision_rate
    identified = record.decidable.identified
    assert identified is not None
    assert np.isnan(identified.lower)
    assert [r.stratum for r in identified.strata] == list(fitted().strata_)
    assert plain_json(record) == record.to_dict()


def test_a_rejection_without_strata_stays_a_rejection() -> None:
    assert without().verdict.rejected
    assert without().strata is None


def test_without_strata_and_without_rejection_there_is_nothing_to_say() -> None:
    X, y, s = plain_table()
    record = audit(plain_model(), X, y, sensitive_features=s, **QUICK)
    assert record.strata is None
    assert record.left_out["strata"] == "the model has no strata"


def test_files_are_audited_as_frames_are(tmp_path: Path) -> None:
    X, y = rejected_without_strata()
    path = tmp_path / "t.parquet"
    X.with_columns(label=pl.Series(y)).write_parquet(path)
    one, two = own(found()), own(audit(fitted(), path, "label", **QUICK))
    for a, b in zip(one.strata, two.strata, strict=True):
        assert (b.n, b.decision_rate) == (a.n, a.decision_rate)
        assert b.label_rates == pytest.approx(a.label_rates)
        assert b.possible == pytest.approx(a.possible)
    assert two.labels[0].mix == pytest.approx(one.labels[0].mix)
    assert (two.plain_rejected, two.test and two.test.rejected) == (True, False)


def test_rows_whose_stratum_is_not_known_are_left_out_and_counted() -> None:
    X, y = rejected_without_strata()
    holes = X.with_columns(pl.when(pl.int_range(pl.len()) >= 300).then(pl.col("hours")))
    facts = own(audit(fitted(), holes, y, **QUICK))
    assert facts.n_unknown == 300
    assert facts.test is not None
    assert facts.test.n_rows == len(X) - 300
    assert sum(sum(s.n) for s in facts.strata) == len(X) - 300


def test_rows_without_labels_or_groups_leave_parts_out() -> None:
    X, _ = rejected_without_strata()
    facts = own(audit(fitted(), X, None, **QUICK))
    assert (facts.test, facts.labels, facts.plain_rejected) == (None, (), None)
    assert facts.untested
    assert facts.scores
    hidden = X.with_columns(sex=pl.lit(None, pl.String))
    assert own(audit(fitted(), hidden, None, **QUICK)).scores == ()


def test_a_gap_in_words_names_the_group_with_fewer_labels() -> None:
    ends = (-0.25, -0.15), (-0.12, -0.08)
    one = GapParts("a", "b", -0.3, -0.2, ends[0], -0.1, ends[1], 0)
    assert replace(own(found()), labels=(one,), positive="yes").sentences[1] == (
        "Labels 'yes' are 30.0 percentage points rarer in group 'b' than in group 'a': 10.0 (8.0 "
        "to 12.0) points because the groups are spread differently over the strata, and 20.0 "
        "(15.0 to 25.0) points within strata."
    )
