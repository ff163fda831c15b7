"""The 60,843 scores: fetched, checked, kept; read from a folder; one scale per assessment."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fairpc.datasets import DownloadError, _compas as compas, load_compas
from fairpc.datasets._compas import COLUMNS, FILE_NAME
from fairpc.errors import FileFormatError, MissingExtraError
from published import use_raw_compas


def row(**values: Any) -> dict[str, str]:
    usual = dict.fromkeys(COLUMNS, "1") | {
        "Agency_Text": "PRETRIAL",
        "Sex_Code_Text": "Male",
        "Ethnic_Code_Text": "Caucasian",
        "DateOfBirth": "12/05/92",
        "LegalStatus": "Pretrial",
        "CustodyStatus": "Jail Inmate",
        "MaritalStatus": "Single",
        "Screening_Date": "1/1/13 0:00",
        "DisplayText": "Risk of Recidivism",
        "ScoreText": "Low",
    }
    return usual | {k: str(v) for k, v in values.items()}


def small_table() -> pl.DataFrame:
    """Ages on 2018-08-29 and at the screening are worked out beside each row."""
    return pl.DataFrame(
        [
            row(),  # 25; 20: the birthday of 2013 is to come
            row(DateOfBirth="08/29/87", ScoreText="High"),  # 31 on the very day; 25
            row(DateOfBirth="08/30/87"),  # 30, a day short of 31; 25
            row(DateOfBirth="01/01/68"),  # 1968: 50; 45 on the very day
            row(DateOfBirth="12/31/67"),  # 2067 in the authors' reading: dropped; 45
            row(DateOfBirth="11/04/18", Screening_Date="4/26/13 12:00"),  # dropped; 94
            row(MaritalStatus="Unknown"),  # dropped by the authors
            row(ScoreText="N/A", DecileScore="-1"),  # dropped by both
            row(DisplayText="Risk of Violence", Ethnic_Code_Text="African-Am"),  # other scale
        ]
    ).with_columns(LastName=pl.lit("DOE"), FirstName=pl.lit("JANE"), MiddleName=pl.lit("Q"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the small table, served as a local copy."""
    small_table().write_csv(tmp_path / FILE_NAME)
    monkeypatch.setenv("FAIRPC_DATA", str(tmp_path))
    monkeypatch.setattr(compas, "N_ROWS", 9)
    return tmp_path


def test_ages_are_those_at_the_screening(folder: Path) -> None:
    data = load_compas("raw")
    assert data.frame["Age"].to_list() == [20, 25, 25, 45, 45, 94, 20]
    assert data.y.to_list() == ["not High", "High", *["not High"] * 5]


def test_one_scale_per_assessment(folder: Path) -> None:
    data = load_compas("raw", scale="violence")
    assert len(data.X) == 1
    assert data.sensitive.to_list() == ["African-American"]


def test_the_authors_century(folder: Path) -> None:
    frame = load_compas("paper").frame
    assert frame["Age"].to_list() == [0, 1, 0, 1, 0]
    assert frame["ScoreText_"].to_list() == [1, 0, 1, 1, 1]
    assert frame["Ethnic_Code_Text_"].to_list() == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("version", ["raw", "paper"])
def test_names_are_not_read(folder: Path, version: Any) -> None:
    data = load_compas(version)
    assert not any("Name" in c for c in compas.read_scores().columns)
    assert not any("Name" in c for c in data.frame.columns)
    assert len(data.persons) == len(data.frame)


def test_a_local_copy_is_checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compas, "N_ROWS", 60_843)
    with pytest.raises(FileFormatError, match="9 rows and ProPublica's table 60,843"):
        load_compas("raw")
    small_table().drop("ScoreText").write_csv(folder / FILE_NAME)
    with pytest.raises(FileFormatError, match="no column 'ScoreText'"):
        load_compas("raw")
    (folder / FILE_NAME).write_bytes(b"")
    with pytest.raises(FileFormatError, match="get it again"):
        load_compas("raw")
    (folder / FILE_NAME).unlink()
    with pytest.raises(DownloadError, match="unset FAIRPC_DATA"):
        load_compas("raw")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The small table on 127.0.0.1, and an empty cache."""
    pytest.importorskip("pooch")
    site = tmp_path / "site"
    site.mkdir()
    small_table().write_csv(site / FILE_NAME)
    digest = hashlib.sha256((site / FILE_NAME).read_bytes()).hexdigest()
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{http.server_address[1]}/{FILE_NAME}"
    monkeypatch.setattr(compas, "REMOTE", (url, digest))
    monkeypatch.delenv("FAIRPC_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "cache" / name)
    yield url
    http.shutdown()
    http.server_close()
    thread.join()


def test_a_download_is_kept(server: str, tmp_path: Path) -> None:
    first = load_compas("raw")
    (tmp_path / "site" / FILE_NAME).unlink()
    assert load_compas("raw").frame.equals(first.frame)
    assert (tmp_path / "cache" / "fairpc" / FILE_NAME).is_file()


def test_a_wrong_download_is_refused(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compas, "REMOTE", (server, "0" * 64))
    with pytest.raises(FileFormatError, match="SHA-256 differs"):
        load_compas("raw")


def test_a_file_that_is_not_there(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compas, "REMOTE", (f"{server}.gone", "0" * 64))
    with pytest.raises(DownloadError, match="check the network"):
        load_compas("raw")


@pytest.mark.usefixtures("server")
def test_without_a_network(silent_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compas, "REMOTE", (f"http://127.0.0.1:{silent_port}/x.csv", "0" * 64))
    with pytest.raises(DownloadError, match="set FAIRPC_DATA to a folder"):
        load_compas("paper")


def test_without_pooch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRPC_DATA", raising=False)
    monkeypatch.setattr(compas, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"fairpc\[data\]"):
        load_compas("raw")


def test_the_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    use_raw_compas(monkeypatch)
    data = load_compas("raw")
    assert len(data.X) == 20_245
    assert data.persons.n_unique() == 18_580
    assert data.frame["AssessmentID"].is_unique().all()
    assert data.frame["Age"].is_between(16, 94).all()
    assert "RecSupervisionLevel" not in data.X.columns
    assert set(data.columns) == set(data.frame.columns)


def test_the_paper_table_numbers_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    use_raw_compas(monkeypatch)
    data = load_compas("paper")
    assert len(data.X) == 48_834
    assert data.persons.n_unique() == 14_870
    assert round(float(data.y.mean()), 3) == 0.875
    assert compas.PAPER_TODAY.isoformat() == "2018-08-29"
