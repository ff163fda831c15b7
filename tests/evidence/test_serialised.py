"""Every record as plain data: strict JSON, keys that others build on, values of the record."""

from __future__ import annotations

import json
import math
from datetime import date
from typing import Any

import numpy as np

from evidence.arrays import revealing
from fairpc.core import serialise
from fairpc.evidence import (
    equal_rates,
    identified_set,
    parity,
    test_assumptions,
)

SCORES = [0.2, 0.8, 0.3, 0.7]
GROUPS = ["m", "m", "w", "w"]


def strict(record: Any) -> Any:
    """There and back through JSON that knows no NaN: what a reader of the file sees."""
    data = record.to_dict()
    text = json.dumps(data, allow_nan=False)
    assert json.loads(text) == data
    return data


def test_assumption_test() -> None:
    x, y, s = revealing(np.random.default_rng(0), 4_000, pi=(0.3, 0.6))
    found = test_assumptions(x, y, s, classifier="logistic", n_seeds=1)
    data = strict(found)
    known = "lower upper rejected p_value groups classes positive level method n_seeds classifiers"
    known += " altered_by_features tolerated delta least_difference most_difference"
    assert set(data) == {*known.split(), "what_to_do", "summary"}
    assert data["rejected"] is True
    assert data["what_to_do"] == list(found.what_to_do)
    assert data["classifiers"] == {"logistic regression": 10}
    (first, _) = data["groups"]
    assert set(first) == {"group", "n", "effective_n", "lower", "upper", "classes"}
    assert set(first["classes"][0]) == {"label", "rate", "upper", "set_n", "set_rate", "cutoff"}
    assert first["lower"] == found.groups[0].lower


def test_identified_set() -> None:
    found = identified_set(SCORES, GROUPS, n_points=3)
    data = strict(found)
    known = "lower upper groups mechanism empty score_spread table summary delta rates"
    assert set(data) == set(known.split())
    own = "group n rate low high lower upper floor ceiling"
    assert set(data["groups"][0]) == set(own.split())
    assert len(data["mechanism"]) == 6
    assert data["mechanism"][0]["b1"] == list(found.mechanism[0].b1)
    assert data["score_spread"] == np.mean(found.score_upper - found.score_lower)
    empty = strict(identified_set([0.1, 1.0, 1.0, 0.01, 0.2], [0, 0, 0, 1, 1]))
    assert empty["empty"] is True
    assert empty["score_spread"] is None
    assert empty["table"][0]["b0_lower"] is None


def test_parity() -> None:
    crossed = np.array([["m", "a"], ["m", "a"], ["w", "b"], ["w", "b"]])
    found = parity([0, 0, 1, 0], crossed)
    data = strict(found)
    known = "kind level threshold groups pairs clustered largest four_fifths summary"
    assert set(data) == set(known.split())
    assert set(data["groups"][0]) == {"group", "n", "effective_n", "mean", "small"}
    assert data["largest"] == data["pairs"][0]
    assert data["largest"] == {
        "first": ["m", "a"],
        "last": ["w", "b"],
        "difference": 0.5,
        "difference_interval": list(found.difference_interval),
        "ratio": None,
        "ratio_interval": [found.ratio_interval[0], None],
        "impact_ratio": 0.0,
        "impact_interval": list(found.largest.impact_interval),
        "four_fifths": found.four_fifths,
    }


def test_equal_rates() -> None:
    data = strict(equal_rates(SCORES, GROUPS, [0, 1, 0, 1], rate=0.0))
    known = "rate common_threshold groups accuracy accuracy_before price gap summary"
    assert set(data) == set(known.split())
    assert data["groups"][0]["threshold"] is None
    assert data["price"] == 0.5
    assert strict(equal_rates(SCORES, GROUPS))["price"] is None


def test_names_and_numbers() -> None:
    assert serialise((np.int64(3), np.float64(0.5), np.True_, "a", None)) == [
        3,
        0.5,
        True,
        "a",
        None,
    ]
    assert serialise([math.inf, -math.inf, math.nan]) == [None, None, None]
    assert serialise({1: date(2020, 2, 3)}) == {"1": "2020-02-03"}
