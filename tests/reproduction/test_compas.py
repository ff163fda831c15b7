"""The authors' COMPAS table, made of 60,843 scores: fetched, checked, kept; read from a folder."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import polars as pl
import pytest

from fairpc.errors import FileFormatError, MissingExtraError
from published import paper_folder, use_raw_compas
from reproduction import compas
from reproduction.compas import COLUMNS, FILE_NAME, DownloadError, paper_table


def row(**values: str) -> dict[str, str]:
    usual = dict.fromkeys(COLUMNS, "1") | {
        "Sex_Code_Text": "Male",
        "Ethnic_Code_Text": "Caucasian",
        "DateOfBirth": "12/05/92",
        "LegalStatus": "Pretrial",
        "CustodyStatus": "Jail Inmate",
        "MaritalStatus": "Single",
        "ScoreText": "Low",
    }
    return usual | values


def small_table() -> pl.DataFrame:
    """Ages on 2018-08-29 are worked out beside each row."""
    return pl.DataFrame(
        [
            row(),  # 25
            row(DateOfBirth="08/29/87", ScoreText="High"),  # 31 on the very day
            row(DateOfBirth="08/30/87"),  # 30, a day short of 31
            row(DateOfBirth="01/01/68"),  # 1968: 50
            row(DateOfBirth="12/31/67"),  # 2067 in the authors' reading: dropped
            row(DateOfBirth="11/04/18"),  # dropped
            row(MaritalStatus="Unknown"),  # dropped
            row(ScoreText="N/A"),  # dropped
            row(Ethnic_Code_Text="African-Am"),
        ]
    ).with_columns(LastName=pl.lit("DOE"), FirstName=pl.lit("JANE"), MiddleName=pl.lit("Q"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the small table, served as a local copy."""
    small_table().write_csv(tmp_path / FILE_NAME)
    monkeypatch.setenv("FAIRPC_DATA", str(tmp_path))
    monkeypatch.setattr(compas, "N_ROWS", 9)
    return tmp_path


def test_the_authors_century(folder: Path) -> None:
    frame, _ = paper_table()
    assert frame["Age"].to_list() == [0, 1, 0, 1, 0]
    assert frame["ScoreText_"].to_list() == [1, 0, 1, 1, 1]
    assert frame["Ethnic_Code_Text_"].to_list() == [0, 0, 0, 0, 1]


def test_names_are_not_read(folder: Path) -> None:
    frame, persons = paper_table()
    assert not any("Name" in c for c in compas.read_scores().columns)
    assert not any("Name" in c for c in frame.columns)
    assert len(persons) == len(frame)


def test_a_local_copy_is_checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compas, "N_ROWS", 60_843)
    with pytest.raises(FileFormatError, match="9 rows and ProPublica's table 60,843"):
        paper_table()
    small_table().drop("ScoreText").write_csv(folder / FILE_NAME)
    with pytest.raises(FileFormatError, match="no column 'ScoreText'"):
        paper_table()
    (folder / FILE_NAME).write_bytes(b"")
    with pytest.raises(FileFormatError, match="get it again"):
        paper_table()
    (folder / FILE_NAME).unlink()
    with pytest.raises(DownloadError, match="unset FAIRPC_DATA"):
        paper_table()


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
    first, _ = paper_table()
    (tmp_path / "site" / FILE_NAME).unlink()
    assert paper_table()[0].equals(first)
    assert (tmp_path / "cache" / "fairpc" / FILE_NAME).is_file()


def test_a_wrong_download_is_refused(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compas, "REMOTE", (server, "0" * 64))
    with pytest.raises(FileFormatError, match="SHA-256 differs"):
        paper_table()


def test_a_file_that_is_not_there(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compas, "REMOTE", (f"{server}.gone", "0" * 64))
    with pytest.raises(DownloadError, match="check the network"):
        paper_table()


@pytest.mark.usefixtures("server")
def test_without_a_network(silent_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compas, "REMOTE", (f"http://127.0.0.1:{silent_port}/x.csv", "0" * 64))
    with pytest.raises(DownloadError, match="set FAIRPC_DATA to a folder"):
        paper_table()


def test_without_pooch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRPC_DATA", raising=False)
    monkeypatch.setattr(compas, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="pip install pooch"):
        paper_table()


def test_the_table_is_the_authors_file(monkeypatch: pytest.MonkeyPatch) -> None:
    use_raw_compas(monkeypatch)
    out = io.BytesIO()
    paper_table()[0].write_csv(out)
    theirs = paper_folder() / "processed" / "compas_binerized.csv"
    assert out.getvalue() == theirs.read_bytes()


def test_the_table_numbers_persons(monkeypatch: pytest.MonkeyPatch) -> None:
    use_raw_compas(monkeypatch)
    frame, persons = paper_table()
    assert frame.shape == (48_834, 8)
    assert persons.n_unique() == 14_870
    assert round(frame["ScoreText_"].sum() / len(frame), 3) == 0.875
    assert compas.PAPER_TODAY.isoformat() == "2018-08-29"
