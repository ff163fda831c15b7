"""Scores against scikit-learn and against values worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn import metrics as sk

from fairpc.errors import MetricError
from fairpc.metrics import (
    accuracy,
    auc,
    discrimination,
    f1,
    group_means,
    largest_gap,
    rate_f1,
)

Y = [1, 1, 1, 0, 0, 1]
P = [1, 0, 1, 1, 0, 1]  # tp 3, fn 1, fp 1, tn 1


def test_by_hand() -> None:
    assert accuracy(Y, P) == pytest.approx(4 / 6)
    assert f1(Y, P) == pytest.approx(3 / (3 + (1 + 1) / 2))
    # tpr 3/4, fnr 1/4, fpr 1/2: .75 / (.75 + .375)
    assert rate_f1(Y, P) == pytest.approx(2 / 3)
    # positive 0: tpr 1/2, fnr 1/2, fpr 1/4: .5 / (.5 + .375)
    assert rate_f1(Y, P, positive=0) == pytest.approx(0.5 / 0.875)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.floats(0, 1)), min_size=4))
def test_against_scikit_learn(rows: list[tuple[int, int, float]]) -> None:
    y = np.array([0, 1] + [r[0] for r in rows])
    p = np.array([1, 1] + [r[1] for r in rows])
    s = np.array([0.3, 0.4] + [r[2] for r in rows])
    w = np.arange(1, len(y) + 1, dtype=float)
    assert accuracy(y, p, sample_weight=w) == pytest.approx(
        sk.accuracy_score(y, p, sample_weight=w)
    )
    assert f1(y, p, sample_weight=w) == pytest.approx(sk.f1_score(y, p, sample_weight=w))
    assert auc(y, s, sample_weight=w) == pytest.approx(sk.roc_auc_score(y, s, sample_weight=w))


def test_discrimination_is_last_minus_first() -> None:
    scores, groups = [0.9, 0.7, 0.2, 0.4, 0.1], ["m", "m", "f", "f", "o"]
    assert group_means(scores, groups) == pytest.approx({"f": 0.3, "m": 0.8, "o": 0.1})
    assert discrimination(scores, groups) == pytest.approx(-0.2)
    assert largest_gap(scores, groups) == pytest.approx(0.7)
    assert discrimination([1, 0, 1], [0, 0, 1], sample_weight=[3, 1, 1]) == pytest.approx(0.25)


BAD: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    (accuracy, ([1, 0], [1]), {}, "y_pred has 1 rows and the first argument 2: give as many"),
    (accuracy, ([1, np.nan], [1, 0]), {}, "y_true is missing in row 1: leave out rows"),
    (accuracy, ([1, 0], [None, 0]), {}, "y_pred is missing in row 0"),
    (accuracy, ([], []), {}, "y_true is empty: give at least one row"),
    (accuracy, ([1, 0], ["a", "b"]), {}, "give labels of one type"),
    (accuracy, ([[1, 0]], [[1, 0]]), {}, r"y_true has shape \(1, 2\): give one value per row"),
    (accuracy, ([1], [1]), {"sample_weight": [-1]}, "sample_weight is -1.0 in row 0"),
    (accuracy, ([1], [1]), {"sample_weight": [0]}, "all weights are zero"),
    (f1, ([0, 0], [0, 0]), {}, "no row is positive in y_true or y_pred"),
    (f1, ([0, 1, 2], [0, 1, 2]), {}, "the labels have 3 classes .0, 1, 2.: say which is meant"),
    (f1, ([0, 1], [0, 1]), {"positive": "yes"}, "positive is 'yes' and labels are numbers"),
    (rate_f1, ([1, 1], [0, 1]), {}, "y_true has one class only: rates need"),
    (auc, ([1, 1], [0.1, 0.2]), {}, "y_true has one class only: the AUC needs"),
    (discrimination, ([0.5, 0.1], ["F", "F"]), {}, r"groups has 1 value \('F'\): a comparison"),
    (discrimination, ([0.5, np.nan], [0, 1]), {}, "scores is nan in row 1: give finite numbers"),
    (discrimination, (["x", "y"], [0, 1]), {}, "scores holds something other than numbers"),
    (discrimination, ([0.5, 0.2], [0, None]), {}, "groups is missing in row 1"),
    (group_means, ([1, 2], [0, 1]), {"sample_weight": [1, 0]}, "group 1 has no weight"),
]


@pytest.mark.parametrize(("function", "arguments", "options", "sentence"), BAD)
def test_bad_input_gets_a_sentence(
    function: Any, arguments: tuple[Any, ...], options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(MetricError, match=sentence):
        function(*arguments, **options)
