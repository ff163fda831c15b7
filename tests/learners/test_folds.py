"""Folds: each row tested once, classes in proportion, persons never parted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairpc.errors import MetricError
from fairpc.metrics import Fold, stratified_folds


def check_cover(folds: tuple[Fold, ...], n: int) -> None:
    for fold in folds:
        parts = np.concatenate([fold.train, fold.valid, fold.test])
        assert sorted(parts.tolist()) == list(range(n))
    tested = np.concatenate([fold.test for fold in folds])
    assert sorted(tested.tolist()) == list(range(n))


@given(
    st.lists(st.integers(0, 2), min_size=30, max_size=200),
    st.integers(2, 10),
    st.floats(0, 0.5),
    st.integers(0, 5),
)
def test_stratified(y: list[int], k: int, validation: float, seed: int) -> None:
    folds = stratified_folds(y, k, validation=validation, seed=seed)
    check_cover(folds, len(y))
    labels = np.array(y)
    for label in np.unique(labels):
        counts = [(labels[fold.test] == label).sum() for fold in folds]
        assert max(counts) - min(counts) <= 1
        share = [
            (labels[f.valid] == label).sum() - validation * (labels[f.fit] == label).sum()
            for f in folds
        ]
        assert np.abs(share).max() <= 1 + 1e-6
    assert all(
        (a.train == b.train).all()
        for a, b in zip(
            folds, stratified_folds(y, k, validation=validation, seed=seed), strict=True
        )
    )


@given(st.lists(st.integers(0, 25), min_size=40, max_size=120), st.integers(2, 5))
def test_persons_stay_together(persons: list[int], k: int) -> None:
    if len(set(persons)) < 3 * k:
        return
    who = np.array(persons)
    folds = stratified_folds(who % 2, k, validation=0.2, persons=who)
    check_cover(folds, len(who))
    for fold in folds:
        sets = [set(who[part].tolist()) for part in (fold.train, fold.valid, fold.test)]
        assert sum(map(len, sets)) == len(set.union(*sets))


def test_another_seed_is_another_split() -> None:
    y = np.arange(100) % 2
    a, b = (stratified_folds(y, 5, seed=seed)[0].test for seed in (0, 1))
    assert (a != b).any()
    assert len(stratified_folds(y, 10, validation=0.1)[0].valid) == 9


def test_bad_requests_get_a_sentence() -> None:
    with pytest.raises(MetricError, match="k is 1: give a number of folds from 2 to the rows .3."):
        stratified_folds([0, 1, 0], 1)
    with pytest.raises(MetricError, match="validation is 1.0: give a share"):
        stratified_folds([0, 1, 0], 2, validation=1.0)
    with pytest.raises(MetricError, match="2 persons for 3 folds: give fewer folds"):
        stratified_folds([0, 1, 0], 3, persons=[0, 1, 1])
    rows = np.arange(3)
    with pytest.raises(MetricError, match="row 0 is twice in one fold"):
        Fold(rows, rows[:0], rows[:1])
    with pytest.raises(MetricError, match="no training or no test rows"):
        Fold(rows, rows[:0], rows[:0])
    with pytest.raises(MetricError, match="negative row number"):
        Fold(rows - 1, rows[:0], rows[2:])
