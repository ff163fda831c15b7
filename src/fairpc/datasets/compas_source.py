"""ProPublica's table of 60,843 COMPAS scores: fetched once and kept, or read from a folder.

The table names people and is not ours to spread, so it does not come with the
package. Names are never read: only the columns below are.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import polars as pl

from fairpc.errors import FairpcError, FileFormatError, MissingExtraError

FILE_NAME = "compas-scores-raw.csv"
FOLDER_VARIABLE = "FAIRPC_DATA"
N_ROWS = 60_843
TIMEOUT_SECONDS = 30

COLUMNS = (
    *("Person_ID", "AssessmentID", "Case_ID", "Agency_Text", "Sex_Code_Text"),
    *("Ethnic_Code_Text", "DateOfBirth", "ScaleSet_ID", "ScaleSet", "AssessmentReason"),
    *("Language", "LegalStatus", "CustodyStatus", "MaritalStatus", "Screening_Date"),
    *("RecSupervisionLevel", "RecSupervisionLevelText", "Scale_ID", "DisplayText", "RawScore"),
    *("DecileScore", "ScoreText", "AssessmentType", "IsCompleted", "IsDeleted"),
)


class DownloadError(FairpcError, OSError):
    """A file could not be fetched: no network, no such file, or no place to keep it."""


@dataclass(frozen=True)
class Remote:
    """A file on the network and the SHA-256 of its bytes."""

    url: str
    sha256: str


REMOTE = Remote(
    "https://raw.githubusercontent.com/propublica/compas-analysis/master/compas-scores-raw.csv",
    "827209b9a22ed7e1a97da899d85c56d4b05af8c9f9dda8e20ce1b931c015d193",
)


def read_scores() -> pl.DataFrame:
    """The table without names: from the folder FAIRPC_DATA if it is set, else from the network.

    A local copy is checked by its columns and its number of rows, since copies
    without the columns of names have another checksum; a download by its checksum.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder:
        return _read_local(Path(folder) / FILE_NAME)
    return _read_columns(_fetch(REMOTE))


def _read_local(path: Path) -> pl.DataFrame:
    if not path.is_file():
        raise DownloadError(
            f"{path} does not exist, and {FOLDER_VARIABLE} says to read it from there: put "
            f"{FILE_NAME} into that folder, or unset {FOLDER_VARIABLE} to download it"
        )
    frame = _read_columns(path)
    if len(frame) != N_ROWS:
        raise FileFormatError(
            f"{path} has {len(frame):,} rows and ProPublica's table {N_ROWS:,}: get it again "
            f"from {REMOTE.url}"
        )
    return frame


def _read_columns(path: Path) -> pl.DataFrame:
    """The columns we know; the names of people are left in the file."""
    try:
        header = pl.read_csv(path, n_rows=0, infer_schema=False).columns
        lacking = [c for c in COLUMNS if c not in header]
        if lacking:
            raise FileFormatError(
                f"{path} has no column {lacking[0]!r}: get the table again from {REMOTE.url}"
            )
        frame = pl.read_csv(path, columns=list(COLUMNS), infer_schema=False, null_values="N/A")
    except pl.exceptions.PolarsError as error:
        raise FileFormatError(
            f"{path} is not the table of COMPAS scores ({error}): get it again from {REMOTE.url}"
        ) from error
    return frame.select(COLUMNS)


def _fetch(remote: Remote) -> Path:
    """Path of the cached download."""
    if find_spec("pooch") is None:
        raise MissingExtraError(
            "the COMPAS scores are downloaded with pooch: pip install 'fairpc[data]'"
        )
    pooch = import_module("pooch")
    pooch.get_logger().setLevel("WARNING")
    folder = Path(pooch.os_cache("fairpc"))
    try:
        path = pooch.retrieve(
            remote.url,
            known_hash=f"sha256:{remote.sha256}",
            fname=FILE_NAME,
            path=folder,
            downloader=pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS),
        )
    except ValueError as error:
        raise FileFormatError(
            f"what {remote.url} sent is not the file we know (its SHA-256 differs): try again, or "
            f"set {FOLDER_VARIABLE} to a folder with {FILE_NAME}"
        ) from error
    # requests raises its own kind of OSError for every trouble of the network.
    except OSError as error:
        raise DownloadError(
            f"{remote.url} could not be downloaded into {folder}: check the network, or set "
            f"{FOLDER_VARIABLE} to a folder with {FILE_NAME}"
        ) from error
    return Path(path)
