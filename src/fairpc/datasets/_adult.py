"""UCI Adult: does a person in the 1994 census earn more than 50,000 dollars?"""

from __future__ import annotations

import io
from typing import Literal

import polars as pl

from fairpc.datasets import _record as record
from fairpc.datasets._record import Dataset, FrameKind, check_option

AdultVersion = Literal["raw", "paper"]
AdultSubset = Literal["all", "train", "test"]

_NUMERIC = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
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
    check_option("version", version, AdultVersion)
    check_option("subset", subset, AdultSubset)
    if version == "paper":
        frame = binarise(_read("adult.data"))
    else:
        parts = {"train": "adult.data", "test": "adult.test"}
        frame = pl.concat([_read(name) for part, name in parts.items() if subset in ("all", part)])
        frame = frame.with_columns(pl.col(pl.String).replace("?", None))
    return record.published("adult", version, frame, as_frame)


def _read(name: str) -> pl.DataFrame:
    """One part of UCI's table, words stripped of the blanks and full stops around them."""
    columns = list(record.read_notes("adult")["raw"]["columns"])
    frame = pl.read_csv(
        io.BytesIO(record.read_bundled(name)),
        has_header=False,
        new_columns=columns,
        schema_overrides=[pl.String] * len(columns),
        comment_prefix="|",
    ).filter(pl.col("target").is_not_null())
    stripped = frame.with_columns(pl.all().str.strip_chars(" ."))
    return stripped.with_columns(pl.col(_NUMERIC).cast(pl.Int64))


def binarise(raw: pl.DataFrame) -> pl.DataFrame:
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
