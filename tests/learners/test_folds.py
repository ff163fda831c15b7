"""Folds: each row tested once, classes in proportion, persons never parted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairpc.errors import FileFormatError, MetricError
from fairpc.metrics import Fold, folds_of, read_folds, stratified_folds
from published import paper_folder


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


def test_given_fold_ids() -> None:
    folds = folds_of(["b", "a", "b", "c"])
    assert [f.test.tolist() for f in folds] == [[1], [0, 2], [3]]
    assert all(len(f.valid) == 0 for f in folds)
    assert folds[0].fit.tolist() == [0, 2, 3]
    with pytest.raises(MetricError, match="a person is in several folds"):
        folds_of([0, 1], persons=["ann", "ann"])
    with pytest.raises(MetricError, match="fold_ids has 1 value"):
        folds_of([0, 0])


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


def write(
    folder: Path, train: str, valid: str = "x1,x2\n2,1\n", test: str = "x1,x2\n3,3\n"
) -> Path:
    for name, text in (("train", train), ("valid", valid), ("test", test)):
        (folder / f"{name}_ids.csv").write_text(text)
    return folder


def test_reading_files(tmp_path: Path) -> None:
    folds = read_folds(write(tmp_path, "x1,x2\n1,2\n4,\n"), n_rows=4)
    assert [f.train.tolist() for f in folds] == [[0, 3], [1]]
    assert [f.valid.tolist() for f in folds] == [[1], [0]]
    assert [f.test.tolist() for f in folds] == [[2], [2]]


@pytest.mark.parametrize(
    ("train", "sentence"),
    [
        ("x1,x2\n0,1\n", "row numbers from 1"),
        ("x1,x2\n1,a\n", "row numbers from 1"),
        ("x1,x2\n1,²\n", "row numbers from 1"),
        ("x1,x2\n1,2,3\n", "row numbers from 1"),
        ("x1,x2\n", "row numbers from 1"),
        ("", "row numbers from 1"),
        ("x1\n1\n", "different numbers of folds .train 1, valid 2, test 2."),
        ("x1,x2\n2,2\n", "row 1 is twice in one fold"),
        ("x1,x2\n9,2\n", "row 9 is named and the table has 4 rows"),
    ],
)
def test_bad_files_get_a_sentence(tmp_path: Path, train: str, sentence: str) -> None:
    with pytest.raises(FileFormatError, match=sentence):
        read_folds(write(tmp_path, train), n_rows=4)


@pytest.mark.parametrize(
    ("name", "n_rows"), [("adult", 32561), ("german", 1000), ("synthetic/10", 10_000)]
)
def test_published_splits(name: str, n_rows: int) -> None:
    folds = read_folds(paper_folder() / "splits" / name, n_rows)
    assert len(folds) == 10
    check_cover(folds, n_rows)
