"""Forest or circuits: who tells labels better on unseen rows, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairpc import FairPC
from fairpc.core import record, serialise
from fairpc.datasets import make_synthetic
from fairpc.errors import FileFormatError
from fairpc.models import Rows, _selection as choice
from fairpc.models._choices import Choices
from fairpc.models._fit import Options
from fairpc.models._selection import AUTO, LabelGain, compare_labels
from models.tables import SHORT, biased_rows


def synthetic(seed: int, n: int) -> Rows:
    data = make_synthetic(8, n, random_state=seed)
    return Rows.of(*(np.asarray(v).astype(int) for v in (data.sensitive, data.y, data.X)))


def drifting(seed: int, n: int) -> Rows:
    """Twelve features that tell a cluster, and three others the label: EM takes the cluster."""
    rng = np.random.default_rng(seed)
    s, cluster = rng.integers(0, 2, (2, n))
    shown = np.where(rng.random((n, 12)) < 0.1, 1 - cluster[:, None], cluster[:, None])
    signal = rng.integers(0, 3, (n, 3))
    z = 2.5 * (signal[:, 0] - 1) + 2.0 * (signal[:, 1] - 1) - 1.5 * (signal[:, 2] - 1)
    d = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    d = np.where((s == 1) & (rng.random(n) < 0.3), 0, d)
    return Rows.of(s, d, np.column_stack([shown, signal]))


def compared(rows: Rows, seed: int = 0, options: Options = AUTO) -> LabelGain:
    return compare_labels(rows, options, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", [0, 1])
def test_circuits_are_taken_where_rows_were_drawn_from_circuits(seed: int) -> None:
    assert not compared(synthetic(seed, 1000), options=SHORT).better


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_circuits_are_taken_of_longer_tables_too(seed: int) -> None:
    gain = compared(synthetic(seed, 6000))
    assert not gain.better, gain


def test_a_forest_is_taken_where_em_leaves_the_label() -> None:
    gain = compared(drifting(0, 1500))
    assert gain.better, gain
    assert gain.gain > 0.02


def test_the_same_generator_gives_the_same_comparison() -> None:
    rows = biased_rows(0, 300)
    assert compared(rows, options=SHORT) == compared(rows, options=SHORT)


def test_both_are_asked_about_the_same_unseen_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The circuits of a fold are fitted to the copies that it does not hold."""
    rows = biased_rows(1, 200)
    weights = np.arange(200) % 4
    rows = rows.with_weights(weights.astype(float))
    fitted: list[Rows] = []

    def fit(some: Rows, options: Options, rng: np.random.Generator) -> Any:
        fitted.append(some)
        return trees(some, options, rng)

    trees = choice._trees
    monkeypatch.setattr(choice, "_trees", fit)
    monkeypatch.setattr(LabelGain, "clear", False)
    monkeypatch.setattr(LabelGain, "better", False)
    compared(rows, options=SHORT)
    assert len(fitted) == 5
    assert sum(some.weights.sum() for some in fitted) == pytest.approx(4 * weights.sum())
    assert all((some.weights > 0).all() for some in fitted)


def test_no_more_folds_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    trees = choice._trees

    def fit(*given: Any) -> Any:
        asked.append(1)
        return trees(*given)

    monkeypatch.setattr(choice, "_trees", fit)
    monkeypatch.setattr(LabelGain, "clear", True)
    compared(biased_rows(2, 200), options=SHORT)
    assert len(asked) == 1


def test_what_is_ahead_and_what_is_clear() -> None:
    assert LabelGain(-0.5, 0.05, 0.01).clear
    assert LabelGain(-0.5, 0.05, 0.01).better
    assert not LabelGain(-0.5, 0.010, 0.001).clear  # certain, and small
    assert LabelGain(-0.5, 0.010, 0.001).better
    assert not LabelGain(-0.5, 0.05, 0.03).better  # large, and uncertain
    assert not LabelGain(-0.5, 0.001, 0.0001).better
    assert not LabelGain(-0.5, -0.05, 0.01).better
    assert not LabelGain(-0.5, 0.0, 0.0).better


# --- what is said -----------------------------------------------------------------------------

CIRCUITS = Choices(100, label_score=-0.5, label_gain=0.0012, label_error=0.003)
FOREST = Choices(100, label_score=-0.5, label_gain=0.2, label_error=0.01, forest=True)


def test_grounds_in_words() -> None:
    assert CIRCUITS.sentences[0] == FOREST.sentences[0] == "100 rows were fitted to."
    assert CIRCUITS.sentences[1] == (
        "Circuits were taken: a plain classifier predicts the label of unseen rows with a mean "
        "log-likelihood of -0.5000, +0.0012 more than circuits do (standard error 0.0030)."
    )
    assert "split by gain" in str(CIRCUITS)
    assert FOREST.sentences[1].startswith("A forest circuit was taken: a plain classifier")
    assert len(FOREST.sentences) == 2
    without = replace(CIRCUITS, label_gain=np.nan)
    assert "classifier" not in str(without)


@pytest.mark.parametrize("choices", [CIRCUITS, FOREST])
def test_choices_come_back_from_data(choices: Choices) -> None:
    again = record(Choices, serialise(choices), "the choices", exact=True)
    assert again.sentences == choices.sentences
    assert serialise(again) == serialise(choices)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_rows", -1),
        ("n_rows", 10**400),
        ("forest", 1),
        ("forest", None),
        ("label_gain", "much"),
        ("label_error", 10**400),
        ("label_score", [1.0]),
        ("forests", True),
    ],
)
def test_choices_that_cannot_be_are_refused(name: str, value: Any) -> None:
    with pytest.raises(FileFormatError, match="choices"):
        record(Choices, serialise(FOREST) | {name: value}, "the choices", exact=True)


def test_circuits_have_a_fair_rate_between_the_recorded_rates_where_labels_allow_one() -> None:
    """Rare positives of which features say little: EM puts the fair rate below both groups' rates,
    and a prior that is asked for may."""
    rng = np.random.default_rng(1)
    group = np.where(rng.random(2000) < 0.5, "a", "b")
    x = rng.integers(0, 2, (2000, 3)).astype(str).astype(object)
    chance = np.where(group == "a", 0.1, 0.06) * (1 + 0.5 * (x[:, 0] == "1"))
    label = (rng.random(2000) < chance).astype(int)
    recorded = [label[group == g].mean() for g in "ab"]
    ruled, prior = (
        FairPC(random_state=0, mechanism_prior=rows).fit(x, label, sensitive_features=group)
        for rows in (None, 30.0)
    )
    assert not ruled.distribution_.is_forest
    assert ruled.choices_ is not None
    assert ruled.choices_.ruled
    assert not ruled.explain_bias().prior_rows
    assert "30 prior rows" in str(prior.explain_bias())
    assert min(recorded) < ruled.fair_rate_[1] < max(recorded)
    assert prior.fair_rate_[1] < min(recorded)
    least, largest = np.moveaxis(ruled.mechanism_range_, -1, 0)
    point = ruled.bias_mechanism_[:, :, 1]
    assert (least - 1e-4 <= point).all()
    assert (point <= largest + 1e-4).all()
