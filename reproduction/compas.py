"""The paper's COMPAS table, made from ProPublica's 60,843 scores.

The scores name people and are not ours to spread: they are fetched once and kept, or read from a
folder. Names are never read: only the columns below are.
"""

from __future__ import annotations

import os
from datetime import date
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import polars as pl

from fairpc.core import FairpcError, FileFormatError, MissingExtraError

FILE_NAME = "compas-scores-raw.csv"
FOLDER_VARIABLE = "FAIRPC_DATA"
N_ROWS = 60_843
TIMEOUT_SECONDS = 30
URL = "https://raw.githubusercontent.com/propublica/compas-analysis/master/compas-scores-raw.csv"
REMOTE = (URL, "827209b9a22ed7e1a97da899d85c56d4b05af8c9f9dda8e20ce1b931c015d193")
"""Where the file is on the network, and the SHA-256 of its bytes."""

COLUMNS = (
    *("Person_ID", "Sex_Code_Text", "Ethnic_Code_Text", "DateOfBirth", "LegalStatus"),
    *("CustodyStatus", "MaritalStatus", "RecSupervisionLevel", "ScoreText"),
)

PAPER_TODAY = date(2018, 8, 29)
"""The day on which the authors computed ages; any other day gives another table."""


class DownloadError(FairpcError, OSError):
    """A file could not be fetched: no network, no such file, or no place to keep it."""


def paper_table() -> tuple[pl.DataFrame, pl.Series]:
    """The authors' binary table, and the number of the person that each row is about."""
    rows = _paper_rows(read_scores())
    return binarise(rows), rows["Person_ID"].cast(pl.Int64)


def read_scores() -> pl.DataFrame:
    """The table without names: from the folder FAIRPC_DATA if it is set, else from the network.

    A local copy is checked by its columns and its number of rows, since copies
    without the columns of names have another checksum; a download by its checksum.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return _read_columns(_fetch(*REMOTE))
    path = Path(folder) / FILE_NAME
    if not path.is_file():
        raise DownloadError(
            f"{path} does not exist, and {FOLDER_VARIABLE} says to read it from there: put "
            f"{FILE_NAME} into that folder, or unset {FOLDER_VARIABLE} to download it"
        )
    frame = _read_columns(path)
    if len(frame) != N_ROWS:
        raise FileFormatError(
            f"{path} has {len(frame):,} rows and ProPublica's table {N_ROWS:,}: get it again "
            f"from {URL}"
        )
    return frame


def _read_columns(path: Path) -> pl.DataFrame:
    """The columns we know; the names of people are left in the file."""
    try:
        header = pl.read_csv(path, n_rows=0, infer_schema=False).columns
        lacking = [c for c in COLUMNS if c not in header]
        if lacking:
            raise FileFormatError(
                f"{path} has no column {lacking[0]!r}: get the table again from {URL}"
            )
        frame = pl.read_csv(path, columns=list(COLUMNS), infer_schema=False, null_values="N/A")
    except pl.exceptions.PolarsError as error:
        raise FileFormatError(
            f"{path} is not the table of COMPAS scores ({error}): get it again from {URL}"
        ) from error
    return frame.select(COLUMNS)


def _fetch(url: str, sha256: str) -> Path:
    """Path of the cached download."""
    if find_spec("pooch") is None:
        raise MissingExtraError("the COMPAS scores are downloaded with pooch: pip install pooch")
    pooch = import_module("pooch")
    pooch.get_logger().setLevel("WARNING")
    folder = Path(pooch.os_cache("fairpc"))
    try:
        path = pooch.retrieve(
            url,
            known_hash=f"sha256:{sha256}",
            fname=FILE_NAME,
            path=folder,
            downloader=pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS),
        )
    except ValueError as error:
        raise FileFormatError(
            f"what {url} sent is not the file we know (its SHA-256 differs): try again, or "
            f"set {FOLDER_VARIABLE} to a folder with {FILE_NAME}"
        ) from error
    # requests raises its own kind of OSError for every trouble of the network.
    except OSError as error:
        raise DownloadError(
            f"{url} could not be downloaded into {folder}: check the network, or set "
            f"{FOLDER_VARIABLE} to a folder with {FILE_NAME}"
        ) from error
    return Path(path)


def _part(column: str, index: int) -> pl.Expr:
    """Month, day or two-digit year (0, 1, 2) of a date written as 12/31/99."""
    return pl.col(column).str.split("/").list.get(index).cast(pl.Int32)


def _born(year: pl.Expr) -> pl.Expr:
    return pl.date(year, _part("DateOfBirth", 0), _part("DateOfBirth", 1))


def _age(born: pl.Expr, day: pl.Expr) -> pl.Expr:
    """Completed years on a day."""
    years = day.dt.year() - born.dt.year()
    before = (_in_year(day) < _in_year(born)).cast(pl.Int32)
    return (years - before).cast(pl.Int64)


def _in_year(day: pl.Expr) -> pl.Expr:
    """A number that orders the days of a year; polars has months as 8-bit integers."""
    return day.dt.month().cast(pl.Int32) * 100 + day.dt.day().cast(pl.Int32)


def _paper_rows(scores: pl.DataFrame) -> pl.DataFrame:
    """The authors' rows: all three scales, and nobody born, in their reading, after 2018-08-29.

    A two-digit year became the one within fifty years of 2018: 68 to 99 are 19xx,
    0 to 67 are 20xx. People of 46 and older were thereby not yet born, and dropped.
    """
    year = 2000 + _part("DateOfBirth", 2)
    near = pl.when(year >= PAPER_TODAY.year + 50).then(year - 100).otherwise(year)
    return scores.with_columns(born=_born(near)).filter(
        pl.col("born") <= PAPER_TODAY,
        pl.col("MaritalStatus") != "Unknown",
        pl.col("ScoreText").is_not_null(),
    )


def binarise(rows: pl.DataFrame) -> pl.DataFrame:
    """The authors' binary table, from their rows."""
    couple = ("Married", "Significant Other")
    return rows.select(
        CustodyStatus_=pl.col("CustodyStatus") != "Jail Inmate",
        LegalStatus_=pl.col("LegalStatus") != "Post Sentence",
        RecSupervisionLevel_=pl.col("RecSupervisionLevel").cast(pl.Int64) > 2,
        Ethnic_Code_Text_=pl.col("Ethnic_Code_Text") != "Caucasian",
        MaritalStatus_=~pl.col("MaritalStatus").is_in(couple),
        Age=_age(pl.col("born"), pl.lit(PAPER_TODAY)) > 30,
        ScoreText_=pl.col("ScoreText") != "High",
        Sex_=pl.col("Sex_Code_Text") == "Female",
    ).cast(pl.Int64)
