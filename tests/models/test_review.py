"""What a model says about which rows to review, and reviewed rows as arrays."""

from __future__ import annotations

import numpy as np
import pytest

from fairpc import LatentDecision
from fairpc.core import LearningError, MetricError
from fairpc.datasets import load_loans
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
    model = LatentDecision(classifier, sensitive=["sex"], sensitive_estimator=False)
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


def test_three_classes_are_refused(loans: tuple) -> None:  # type: ignore[type-arg]
    X, y, _, _ = loans
    from fairpc import TwoNB

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
    ],
)
def test_batches_that_do_not_fit(batches: list, sentence: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(MetricError, match=sentence):
        Reviewed.of(5, batches)
