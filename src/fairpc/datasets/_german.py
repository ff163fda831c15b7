"""UCI Statlog German credit: was a loan repaid?"""

from __future__ import annotations

import io
from typing import Literal

import polars as pl

from fairpc.datasets import _record as record
from fairpc.datasets._record import Dataset, FrameKind, check_option

GermanVersion = Literal["raw", "paper"]

# Columns of the file in their order; sex and marital status share the ninth.
_FILE_COLUMNS = (
    *("checking_status", "duration", "credit_history", "purpose", "credit_amount"),
    *("saving_account", "employment", "income", "personal_status", "guarantor", "residence"),
    *("property", "age", "installation_plan", "housing", "existing_credit", "job"),
    *("maintenance", "telephone", "foreign_worker", "loan_status"),
)

_NUMERIC = (
    *("duration", "credit_amount", "income", "residence", "age", "existing_credit"),
    "maintenance",
)


def load_german(version: GermanVersion = "raw", *, as_frame: FrameKind = "polars") -> Dataset:
    """UCI German credit, bundled.

    Args:
        version: "raw" has words for UCI's codes, and sex apart from marital
            status; "paper" is the binarised table used in the paper.
        as_frame: kind of the frames in the result.
    """
    check_option("version", version, GermanVersion)
    frame = binarise(_read()) if version == "paper" else _in_words(_read())
    return record.published("german", version, frame, as_frame)


def _read() -> pl.DataFrame:
    """UCI's codes, the personal status twice: as sex and as marital status."""
    frame = pl.read_csv(
        io.BytesIO(record.read_bundled("german.data")),
        has_header=False,
        separator=" ",
        new_columns=list(_FILE_COLUMNS),
        schema_overrides=[pl.String] * len(_FILE_COLUMNS),
    )
    personal = pl.col("personal_status")
    return frame.with_columns(
        pl.col(_NUMERIC).cast(pl.Int64), sex=personal, marital_status=personal
    )


def _in_words(codes: pl.DataFrame) -> pl.DataFrame:
    known = record.read_notes("german")
    words = [pl.col(c).replace_strict(levels) for c, levels in known["levels"].items()]
    return codes.with_columns(words).select(*known["raw"]["columns"])


def binarise(codes: pl.DataFrame) -> pl.DataFrame:
    """The authors' binary table, from UCI's codes."""

    def among(column: str, *levels: str) -> pl.Expr:
        return pl.col(column).is_in(levels)

    return codes.select(
        pl.col("duration") > 12,
        pl.col("credit_amount") >= 2800,
        pl.col("age") > 30,
        pl.col("maintenance") == 1,
        among("telephone", "A192"),
        among("foreign_worker", "A201"),
        among("loan_status", "1"),
        among("checking_status", "A12", "A13"),
        among("credit_history", "A33", "A34"),
        among("purpose", "A40", "A41", "A45", "A46", "A49"),
        among("saving_account", "A63", "A64"),
        among("employment", "A74", "A75"),
        pl.col("income") > 2,
        among("sex", "A92"),
        among("marital_status", "A93"),
        among("guarantor", "A103"),
        pl.col("residence") > 2,
        among("property", "A121", "A122"),
        among("installation_plan", "A143"),
        among("housing", "A152"),
        pl.col("existing_credit") > 1,
        among("job", "A173", "A174"),
    ).cast(pl.Int64)
