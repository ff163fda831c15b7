"""Bundled tables: whole, sound in their raw version, the authors' own in the paper's."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import polars as pl
import pytest

from fairpc.datasets import Dataset, load_adult, load_compas, load_german
from fairpc.datasets._record import BUNDLED
from fairpc.errors import FairpcError, FileFormatError
from published import paper_folder

LOADERS: dict[str, Callable[..., Dataset]] = {"adult": load_adult, "german": load_german}


def csv_bytes(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_csv(out)
    return out.getvalue()


@pytest.mark.parametrize("name", LOADERS)
def test_the_paper_version_is_the_authors_file(name: str) -> None:
    theirs = paper_folder() / "processed" / f"{name}_binerized.csv"
    assert csv_bytes(LOADERS[name](version="paper").frame) == theirs.read_bytes()


@pytest.mark.parametrize(
    ("name", "rows", "positive"), [("adult", 32561, 7841), ("german", 1000, 700)]
)
def test_the_paper_version_without_the_authors_file(name: str, rows: int, positive: int) -> None:
    data = LOADERS[name](version="paper")
    assert data.frame.shape[0] == rows
    assert data.y.sum() == positive
    assert set(data.frame.unpivot()["value"].unique()) == {0, 1}


def test_adult_has_both_parts() -> None:
    data = load_adult()
    assert data.X.shape == (48_842, 13)
    assert load_adult(subset="train").X.equals(data.X[:32_561])
    assert load_adult(subset="test").X.equals(data.X[32_561:])
    assert dict(data.y.value_counts().iter_rows()) == {"<=50K": 37_155, ">50K": 11_687}
    assert set(data.sensitive.unique()) == {"Female", "Male"}


def test_adult_question_marks_are_missing() -> None:
    nulls = load_adult().frame.null_count().row(0, named=True)
    assert {c: n for c, n in nulls.items() if n} == {
        "workclass": 2799,
        "occupation": 2809,
        "native-country": 857,
    }


def test_german_in_words() -> None:
    data = load_german()
    assert data.X.shape == (1000, 20)
    assert dict(data.y.value_counts().iter_rows()) == {"good": 700, "bad": 300}
    assert dict(data.sensitive.value_counts().iter_rows()) == {"female": 310, "male": 690}
    assert not any(v.startswith("A1") for v in data.frame["checking_status"])


def test_two_year_compas_hides_the_future() -> None:
    data = load_compas()
    assert data.X.shape == (7214, 9)
    assert data.frame.width == 44
    assert data.y.sum() == 3251
    later = {c for c, note in data.columns.items() if "after the screening" in note}
    assert later
    assert not later & set(data.X.columns)
    assert data.persons.n_unique() == 7214


@pytest.mark.parametrize(
    "data",
    [load_adult(), load_adult("paper"), load_german(), load_german("paper"), load_compas()],
    ids=lambda d: f"{d.name}-{d.version}",
)
def test_every_set_says_where_it_is_from(data: Dataset) -> None:
    assert set(data.columns) == set(data.frame.columns)
    assert data.description
    assert data.traps
    assert data.provenance.licence
    assert data.provenance.url.startswith("https://")
    assert data.label not in data.X.columns
    assert data.sensitive_attribute not in data.X.columns
    assert data.positive in data.y.unique()
    assert data.name in repr(data)


def test_attribution_comes_with_the_files() -> None:
    text = files("fairpc.datasets").joinpath("files", "ATTRIBUTION.md").read_text("utf-8")
    for name in BUNDLED:
        assert name in text
    assert "creativecommons.org/licenses/by/4.0" in text


def test_pandas_frames() -> None:
    pandas = pytest.importorskip("pandas")
    data = load_german(as_frame="pandas")
    assert isinstance(data.X, pandas.DataFrame)
    assert isinstance(data.y, pandas.Series)
    assert isinstance(data.sensitive, pandas.Series)


@pytest.mark.parametrize(
    ("loader", "options"),
    [
        (load_adult, {"version": "two-year"}),
        (load_adult, {"subset": "validation"}),
        (load_german, {"version": "cooked"}),
        (load_compas, {"as_frame": "numpy"}),
        (load_german, {"as_frame": "numpy"}),
    ],
)
def test_unknown_options_are_refused(
    loader: Callable[..., Dataset], options: dict[str, Any]
) -> None:
    with pytest.raises(FairpcError, match="use one of"):
        loader(**options)


def test_an_altered_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUNDLED, "german.data", hashlib.sha256(b"").hexdigest())
    with pytest.raises(FileFormatError, match="reinstall"):
        load_german()


def test_files_are_compressed_and_few() -> None:
    names = {p.name for p in files("fairpc.datasets").joinpath("files").iterdir()}
    assert names == {"ATTRIBUTION.md", *(f"{n}.gz" for n in BUNDLED)}
    packed = files("fairpc.datasets").joinpath("files", "german.data.gz").read_bytes()
    assert len(gzip.decompress(packed)) > 4 * len(packed)
