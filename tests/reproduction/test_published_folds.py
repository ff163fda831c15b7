"""The authors' folds, read from their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairpc.errors import FileFormatError
from learners.test_folds import check_cover
from published import paper_folder
from reproduction.published_folds import read_folds


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
