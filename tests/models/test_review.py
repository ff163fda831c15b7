"""What a model says about which rows to review, and reviewed rows as arrays."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from fairpc import FairPC, LatentDecision, LatNB, TwoNB, load
from fairpc.core import LearningError, MetricError
from fairpc.datasets import load_loans
from fairpc.evidence import review_estimates
from fairpc.models import Reviewed, ReviewRows, TableClassifier
from fairpc.models._review import middle_mechanism, posterior_at

N_ROWS = 1000


@pytest.fixture(scope="module")
def loans() -> tuple:  # type: ignore[type-arg]
    """X with the group in it, labels, the truth, and a model."""
    data = load_loans()
    X = data.X.with_columns(sex=data.sensitive).head(N_ROWS)
    y, truth = data.y.head(N_ROWS), (data.df.head(N_ROWS) == "yes").to_numpy().astype(float)
    classifier = TableClassifier("logistic", random_state=0)
    model = LatentDecision(classifier, sensitive=["sex"])
    return X, y, truth, model.fit(X, y)


def test_posterior_by_hand() -> None:
    """b = (.1, .7), r = .4: q = .5, and P(Df = 1 | d = 1) = .35 / (.35 + .05) = .875."""
    mechanism = np.array([[0.1, 0.7]])
    found = posterior_at(mechanism, np.full(2, 0.4), np.array([1.0, 0.0]), np.zeros(2, np.intp))
    np.testing.assert_allclose(found, [0.875, 0.15 / (0.15 + 0.45)])


def test_the_posterior_lies_between_and_knows_the_truth(loans: tuple) -> None:  # type: ignore[type-arg]
    X, y, truth, model = loans
    rows = ReviewRows.of(model, X, y)
    mechanism = middle_mechanism(model.label_ends_, 2)
    assert (mechanism[:, 0] < mechanism[:, 1]).all()
    assert ((rows.posterior > 0) & (rows.posterior < 1)).all()
    assert np.corrcoef(rows.posterior, truth)[0, 1] > 0.85
    assert rows.classes == ("no", "yes")
    assert "sex" not in rows.columns


def test_columns_are_tested_as_they_are(loans: tuple) -> None:  # type: ignore[type-arg]
    """Bins of the model are chosen by the labels, whose chance they would show as a finding."""
    X, y, truth, model = loans
    rows = ReviewRows.of(model, X, y)
    design = rows.design(300, random_state=0)
    answers = np.full(len(truth), np.nan)
    answers[design.rows] = truth[design.rows]
    batch = (design.rows, design.probability[design.rows], truth[design.rows])
    found = rows.estimates(Reviewed.of(len(truth), [batch])).tests["features"]
    about: Any = {"probability": design.probability, "posterior": rows.posterior}
    raw = X.drop("sex")
    plain = review_estimates(answers, rows.y, rows.groups, X=raw, **about).tests["features"]
    assert [found[c].p_value for c in raw.columns] == [plain[c].p_value for c in raw.columns]


def test_rows_without_a_label_are_not_drawn(loans: tuple) -> None:  # type: ignore[type-arg]
    X, y, _, model = loans
    labels = y.to_numpy().astype(object)
    labels[:500] = None
    design = model.review(X, labels, 50, random_state=0)
    assert len(design.rows) == 50
    assert design.rows.min() >= 500
    assert design.probability[:500].sum() == 0
    assert design.probability.sum() == pytest.approx(50)


def test_the_loop_in_python(loans: tuple) -> None:  # type: ignore[type-arg]
    X, y, truth, model = loans
    first = model.review(X, y, 100, random_state=0)
    batch = (first.rows, first.probability[first.rows], truth[first.rows])
    reviewed = Reviewed.of(len(truth), [batch])
    second = model.review(X, y, 100, reviewed=reviewed, quantity="mechanism", random_state=1)
    assert not set(first.rows) & set(second.rows)
    again = (second.rows, second.probability[second.rows], truth[second.rows])
    both = Reviewed.of(len(truth), [batch, again])
    assert both.n_batches == 2
    rows = ReviewRows.of(model, X, y)
    estimates, alone = rows.estimates(both), rows.estimates(both, alone=True)
    for group in ("F", "M"):
        own = truth[X["sex"].to_numpy() == group].mean()
        rate, plain = estimates.fair_rate[group], alone.fair_rate[group]
        assert rate.low <= own <= rate.high
        assert rate.high - rate.low < plain.high - plain.low


def answered(loans: tuple, truth: np.ndarray) -> Reviewed:  # type: ignore[type-arg]
    X, y, _, model = loans
    design = model.review(X, y, 300, random_state=0)
    batch = design.rows, design.probability[design.rows], truth[design.rows]
    return Reviewed.of(len(truth), [batch])


MODELS = {
    "scores": LatentDecision(TableClassifier("logistic", random_state=0), sensitive=["sex"]),
    "circuits": FairPC(structure="chow-liu", sensitive=["sex"]),
    "naive": LatNB(sensitive=["sex"]),
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_fit_is_held_to_reviewed_rows(
    kind: str,
    loans: tuple,  # type: ignore[type-arg]
    tmp_path: Path,
) -> None:
    X, y, truth, _ = loans
    model = clone(MODELS[kind]).fit(X, y, reviewed=answered(loans, truth))
    labels, groups = (y == "yes").to_numpy(), X["sex"].to_numpy()
    for s, group in enumerate(model.groups_):
        here = groups == group
        for f in (0, 1):
            own = labels[here & (truth == f)].mean()
            assert model.bias_mechanism_[s, f, 1] == pytest.approx(own, abs=0.08)
    # Not contradicted, so tied, and near the truth.
    assert np.ptp(model.fair_rates_[:, 1]) < 1e-9
    assert model.fair_rates_[0, 1] == pytest.approx(truth.mean(), abs=0.05)
    score = model.predict_proba(X)[:, 1]
    assert score.mean() == pytest.approx(truth.mean(), abs=0.06)
    # What the review leaves possible is kept beside the point, in a file too.
    low, high = np.moveaxis(model.mechanism_range_, -1, 0)
    assert ((low <= model.bias_mechanism_[:, :, 1] + 1e-9) & (high - low < 0.35)).all()
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.knowledge_ == model.knowledge_
    np.testing.assert_allclose(again.predict_proba(X)[:, 1], score)


@pytest.mark.parametrize("kind", MODELS)
def test_rates_that_a_review_contradicts_are_untied(kind: str, loans: tuple) -> None:  # type: ignore[type-arg]
    X, y, truth, _ = loans
    few = truth * ((X["sex"] != "F").to_numpy() | (np.arange(len(truth)) % 3 == 0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = clone(MODELS[kind]).fit(X, y, reviewed=answered(loans, few))
    assert "contradicts equal fair rates" in str(caught[0].message)
    for s, group in enumerate(model.groups_):
        own = few[(X["sex"] == group).to_numpy()].mean()
        assert model.fair_rates_[s, 1] == pytest.approx(own, abs=0.09)
    assert "not tied" in model.warnings_[0]


@pytest.mark.parametrize(
    ("settings", "options", "sentence"),
    [
        ({"given": ["purpose"]}, {}, "reviewed and given"),
        ({}, {"sample_weight": np.ones(N_ROWS)}, "reviewed and sample_weight"),
        ({}, {"reviewed": [1, 0]}, "give a fairpc.models.Reviewed"),
        ({}, {"reviewed": Reviewed.of(7, [([1], [0.5], [1.0])])}, "about 7 rows"),
    ],
)
def test_what_does_not_go_with_reviews(
    settings: dict[str, Any],
    options: dict[str, Any],
    sentence: str,
    loans: tuple,  # type: ignore[type-arg]
) -> None:
    X, y, truth, _ = loans
    reviewed = options.pop("reviewed", None) or answered(loans, truth)
    for model in (LatNB(sensitive=["sex"], **settings), clone(MODELS["scores"])):
        model.set_params(**settings)
        with pytest.raises(LearningError, match=sentence):
            model.fit(X, y, reviewed=reviewed, **options)


def test_a_model_without_a_latent_decision_takes_no_reviews(loans: tuple) -> None:  # type: ignore[type-arg]
    X, y, truth, _ = loans
    with pytest.raises(LearningError, match="no latent fair decision"):
        TwoNB(sensitive=["sex"]).fit(X, y, reviewed=answered(loans, truth))


def test_three_classes_are_refused(loans: tuple) -> None:  # type: ignore[type-arg]
    X, y, _, _ = loans
    labels = y.to_numpy().astype(object)
    labels[::3] = "perhaps"
    model = TwoNB(sensitive=["sex"]).fit(X, labels)
    with pytest.raises(LearningError, match="3 classes"):
        model.review(X, labels, 10)


@pytest.mark.parametrize(
    ("batches", "sentence"),
    [
        ([], "no row was drawn"),
        ([([9], [0.5], [1.0])], "not below 5"),
        ([([1, 1], [0.5, 0.5], [1.0, 0.0])], "drawn before"),
        ([([1], [0.5], [1.0]), ([1], [0.5], [1.0])], "drawn before"),
        ([([1], [0.5], [2.0])], "not 0, 1 or NaN"),
        ([([1], [1e-300], [1.0])], "a chance of 1e-09 to 1"),
    ],
)
def test_batches_that_do_not_fit(batches: list, sentence: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(MetricError, match=sentence):
        Reviewed.of(5, batches)
