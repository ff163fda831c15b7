"""Published tables: Adult (does a person in the 1994 census earn more than 50,000 dollars?) and
German credit (was a loan repaid?) of UCI; COMPAS (who was charged again within two years?)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Literal, get_args

import polars as pl

from fairpc.core import check_choice
from fairpc.datasets import _record as record
from fairpc.datasets._record import Dataset, FrameKind

AdultVersion = Literal["raw", "paper"]
AdultSubset = Literal["all", "train", "test"]

_ADULT_NUMBERS = (
    "age",
    "fnlwgt",
    "education-num",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
)
_UNPAID_OR_OWN = ("Never-worked", "Self-emp-inc", "Self-emp-not-inc", "Without-pay")
_COLLEGE = (
    *("Some-college", "Assoc-acdm", "Assoc-voc"),
    *("Bachelors", "Masters", "Prof-school", "Doctorate"),
)
_NO_SPOUSE = ("Never-married", "Divorced", "Separated", "Widowed")
_OFFICE = (
    *("Armed-Forces", "Exec-managerial", "Prof-specialty"),
    *("Protective-serv", "Sales", "Tech-support"),
)


def load_adult(
    version: AdultVersion = "raw", *, subset: AdultSubset = "all", as_frame: FrameKind = "polars"
) -> Dataset:
    """UCI Adult, bundled.

    Args:
        version: "raw" is the table as published, with '?' as missing; "paper" is
            the binarised training part used in the paper.
        subset: UCI's "train" or "test" part, or "all"; for version="raw" only.
        as_frame: kind of the frames in the result.
    """
    check_choice("version", version, get_args(AdultVersion))
    check_choice("subset", subset, get_args(AdultSubset))
    if version == "paper":
        frame = binarise_adult(_read_adult("adult.data"))
    else:
        parts = {"train": "adult.data", "test": "adult.test"}
        frame = pl.concat(
            [_read_adult(name) for part, name in parts.items() if subset in ("all", part)]
        )
        frame = frame.with_columns(pl.col(pl.String).replace("?", None))
    return record.published(Dataset, "adult", version, frame, as_frame)


def _bundled(name: str, columns: Sequence[str], **options: Any) -> pl.DataFrame:
    """A file of UCI, which has no header, with every value as text."""
    data = io.BytesIO(record.read_bundled(name))
    return pl.read_csv(data, has_header=False, infer_schema=False, new_columns=columns, **options)


def _read_adult(name: str) -> pl.DataFrame:
    """One part of UCI's table, words stripped of the blanks and full stops around them."""
    columns = tuple(record.read_notes("adult")["raw"]["columns"])
    frame = _bundled(name, columns, comment_prefix="|").filter(pl.col("target").is_not_null())
    stripped = frame.with_columns(pl.all().str.strip_chars(" ."))
    return stripped.with_columns(pl.col(_ADULT_NUMBERS).cast(pl.Int64))


def binarise_adult(raw: pl.DataFrame) -> pl.DataFrame:
    """The authors' binary table of UCI's training part, '?' still being a level of its own."""

    def among(column: str, levels: tuple[str, ...]) -> pl.Expr:
        return pl.col(column).is_in(levels)

    return raw.select(
        (~among("workclass", _UNPAID_OR_OWN)).alias("workclass"),
        pl.col("fnlwgt") > pl.col("fnlwgt").mean(),
        among("education", _COLLEGE),
        pl.col("education-num") > 10,
        pl.col("hours-per-week") > 39,
        among("marital-status", _NO_SPOUSE),
        among("occupation", _OFFICE),
        among("relationship", ("Husband", "Wife")),
        pl.col("race") == "White",
        pl.col("sex") == "Female",
        pl.col("native-country") == "United-States",
        pl.col("capital-gain") > 0,
        pl.col("capital-loss") > 0,
        pl.col("target") == ">50K",
    ).cast(pl.Int64)


GermanVersion = Literal["raw", "paper"]

# Columns of the file in their order; sex and marital status share the ninth.
_GERMAN_COLUMNS = (
    *("checking_status", "duration", "credit_history", "purpose", "credit_amount"),
    *("saving_account", "employment", "income", "personal_status", "guarantor", "residence"),
    *("property", "age", "installation_plan", "housing", "existing_credit", "job"),
    *("maintenance", "telephone", "foreign_worker", "loan_status"),
)

_GERMAN_NUMBERS = (
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
    check_choice("version", version, get_args(GermanVersion))
    frame = binarise_german(_read_german()) if version == "paper" else _in_words(_read_german())
    return record.published(Dataset, "german", version, frame, as_frame)


def _read_german() -> pl.DataFrame:
    """UCI's codes, the personal status twice: as sex and as marital status."""
    frame = _bundled("german.data", _GERMAN_COLUMNS, separator=" ")
    personal = pl.col("personal_status")
    return frame.with_columns(
        pl.col(_GERMAN_NUMBERS).cast(pl.Int64), sex=personal, marital_status=personal
    )


def _in_words(codes: pl.DataFrame) -> pl.DataFrame:
    known = record.read_notes("german")
    words = [pl.col(c).replace_strict(levels) for c, levels in known["levels"].items()]
    return codes.with_columns(words).select(*known["raw"]["columns"])


def binarise_german(codes: pl.DataFrame) -> pl.DataFrame:
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


def load_compas(*, as_frame: FrameKind = "polars") -> Dataset:
    """ProPublica's table of 7,214 people with the label two_year_recid, bundled.

    Args:
        as_frame: kind of the frames in the result.
    """
    data = io.BytesIO(record.read_bundled("compas-scores-two-years.csv"))
    frame = pl.read_csv(data, infer_schema_length=None, try_parse_dates=False)
    return record.published(Dataset, "compas", "two-year", frame, as_frame, frame["id"])
