"""Prior knowledge on tables: given by name, kept, saved, refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from fairpc import FairPC, Knowledge, LatNB, NLatPC, TwoNB, load
from fairpc.errors import FairpcError
from models.test_sklearn import people

KNOWN = Knowledge(fair_rate=0.4, one_sided={"F": "lowered"})
MODELS: list[Any] = [
    FairPC(),
    FairPC(structure="chow-liu"),
    LatNB(),
]


@pytest.mark.parametrize("model", MODELS, ids=["auto", "tree", "naive"])
def test_a_fit_keeps_to_what_is_known(model: Any) -> None:
    table, labels, group = people()
    model = clone(model).set_params(knowledge=KNOWN, positive="good", random_state=0)
    model.fit(table, labels, sensitive_features=group)
    assert model.fair_rate_[1] == pytest.approx(0.4)
    assert model.bias_mechanism_[0, 0, 1] == 0
    assert model.bias_mechanism_[1, 0, 1] > 0
    assert model.knowledge_ == KNOWN
    assert model.parity_gap()["model"] < 1e-9


def test_positive_says_which_way_is_down() -> None:
    table, labels, group = people()
    model = LatNB(knowledge=KNOWN, positive="bad", guard=False)
    model.fit(table, labels, sensitive_features=group)
    assert model.fair_rate_[0] == pytest.approx(0.4)
    assert model.bias_mechanism_[0, 1, 0] == 0


def test_what_was_known_is_saved_with_the_model(tmp_path: Path) -> None:
    table, labels, group = people()
    box = Knowledge(fair_rate=(0.2, 0.6), mechanism_bounds={(None, "good", "good"): (0.5, 1.0)})
    model = LatNB(knowledge=box).fit(table, labels, sensitive_features=group)
    model.save(tmp_path / "model.json")
    same = load(tmp_path / "model.json")
    assert same.knowledge == same.knowledge_ == box
    np.testing.assert_array_equal(same.bias_mechanism_, model.bias_mechanism_)


def test_parameters_are_scikit_learns() -> None:
    model = FairPC(knowledge=KNOWN)
    assert clone(model).get_params() == model.get_params()
    assert "knowledge" in LatNB().get_params()


@pytest.mark.parametrize("model", [NLatPC(), TwoNB()], ids=["NLatPC", "TwoNB"])
def test_models_without_a_latent_decision_refuse(model: Any) -> None:
    table, labels, group = people()
    with pytest.raises(FairpcError, match="knowledge was given to .*no latent fair decision"):
        clone(model).set_params(knowledge=KNOWN).fit(table, labels, sensitive_features=group)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LatNB(knowledge={"fair_rate": 0.3}), "give a fairpc.Knowledge"),  # type: ignore[arg-type]
        (LatNB(knowledge=Knowledge(one_sided={"X": "raised"})), "use F, M"),
    ],
)
def test_what_is_refused(model: Any, message: str) -> None:
    table, labels, group = people()
    with pytest.raises(FairpcError, match=message):
        model.fit(table, labels, sensitive_features=group)
