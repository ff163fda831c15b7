"""Loans with a planted bias: the truth is kept apart, and the rows follow the documented rule."""

import numpy as np
import pytest

from fairpc.datasets import load_loans
from fairpc.errors import LearningError


def test_applications_do_not_show_who_deserves_a_loan() -> None:
    loans = load_loans()
    assert loans.X.shape == (5_000, 7)
    assert "deserving" not in loans.frame.columns
    assert set(loans.columns) == set(loans.frame.columns)


def test_the_version_with_the_truth_has_the_same_rows() -> None:
    loans, truth = load_loans(), load_loans("truth")
    assert truth.frame.drop("deserving").equals(loans.frame)
    assert truth.frame["deserving"].equals(loans.df)


def test_rows_follow_the_planted_rule() -> None:
    loans = load_loans()
    deserving, approved = (np.asarray(column) == "yes" for column in (loans.df, loans.y))
    woman = np.asarray(loans.sensitive) == "F"
    rates = [deserving[woman].mean(), deserving[~woman].mean()]
    refused = [(~approved)[deserving & who].mean() for who in (woman, ~woman)]
    # Of 2,500 people in a group a rate of .45 has a standard error of .01, refusals of .013.
    np.testing.assert_allclose(rates, 0.45, atol=0.03)
    np.testing.assert_allclose(refused, [0.3, 0.05], atol=0.04)
    assert approved[~deserving].mean() == pytest.approx(0.02, abs=0.01)


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(LearningError, match="version is 'raw'"):
        load_loans("raw")  # type: ignore[arg-type]
