"""COMPAS: risk scores of defendants in Broward County, Florida, 2013 and 2014."""

from __future__ import annotations

import io
from datetime import date
from typing import Literal

import polars as pl

from fairpc.datasets import bundled
from fairpc.datasets.compas_notes import (
    PAPER_NOTES,
    RAW_NOTES,
    SCORES_PROVENANCE,
    TWO_YEAR_NOTES,
    TWO_YEAR_PROVENANCE,
)
from fairpc.datasets.compas_source import read_scores
from fairpc.datasets.record import Dataset, FrameKind, Roles, check_option, cut

CompasVersion = Literal["two-year", "raw", "paper"]
CompasScale = Literal["recidivism", "violence", "failure to appear"]

# What is known when a person is screened; the rest of the table is about what came after.
_TWO_YEAR_FEATURES = (
    *("sex", "age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"),
    *("days_b_screening_arrest", "c_days_from_compas", "c_charge_degree"),
)
_RAW_FEATURES = (
    *("Agency_Text", "Sex_Code_Text", "Language", "LegalStatus", "CustodyStatus"),
    *("MaritalStatus", "Age"),
)
_SCALES = {
    "recidivism": "Risk of Recidivism",
    "violence": "Risk of Violence",
    "failure to appear": "Risk of Failure to Appear",
}
# Two spellings of one group each.
_SAME_GROUP = {"African-Am": "African-American", "Oriental": "Asian"}

PAPER_TODAY = date(2018, 8, 29)
"""The day on which the authors computed ages; any other day gives another table."""


def load_compas(
    version: CompasVersion = "two-year",
    *,
    scale: CompasScale = "recidivism",
    as_frame: FrameKind = "polars",
) -> Dataset:
    """COMPAS, in one of three tables.

    Args:
        version: "two-year" is ProPublica's table of 7,214 people with the label
            two_year_recid, bundled. "raw" is made from the 60,843 scores: one row
            per assessment, age at screening, persons numbered; the label says
            whether the score is High. "paper" is the binarised table used in the
            paper, made from the same scores. The scores are downloaded once
            (``pip install 'fairpc[data]'``), or read from the folder FAIRPC_DATA.
        scale: which of the three scores of an assessment is the label; for
            version="raw" only.
        as_frame: kind of the frames in the result.
    """
    check_option("version", version, CompasVersion)
    check_option("scale", scale, CompasScale)
    if version == "two-year":
        frame, notes, provenance = _two_year(), TWO_YEAR_NOTES, TWO_YEAR_PROVENANCE
        roles = Roles("two_year_recid", "race", 0, _TWO_YEAR_FEATURES)
        persons = frame["id"]
    elif version == "raw":
        frame, notes, provenance = assessments(read_scores(), scale), RAW_NOTES, SCORES_PROVENANCE
        roles = Roles("Risk", "Ethnic_Code_Text", "not High", _RAW_FEATURES)
        persons = frame["Person_ID"]
    else:
        scores = _paper_rows(read_scores())
        frame, notes, provenance = binarise(scores), PAPER_NOTES, SCORES_PROVENANCE
        roles = Roles("ScoreText_", "Ethnic_Code_Text_", 1)
        persons = scores["Person_ID"].cast(pl.Int64)
    return Dataset(**cut("compas", version, frame, roles, provenance, notes, as_frame, persons))


def _two_year() -> pl.DataFrame:
    data = bundled.read("compas-scores-two-years.csv")
    return pl.read_csv(io.BytesIO(data), infer_schema_length=None, try_parse_dates=False)


def assessments(scores: pl.DataFrame, scale: CompasScale) -> pl.DataFrame:
    """One row per assessment with a score on ``scale``, and the age on the day of screening."""
    whole = ("Person_ID", "AssessmentID", "Case_ID", "RecSupervisionLevel", "DecileScore")
    screened = pl.col("Screening_Date").str.split(" ").list.first().str.to_date("%m/%d/%y")
    born = _born(2000 + _part("DateOfBirth", 2))
    chosen = scores.filter(
        pl.col("DisplayText") == _SCALES[scale], pl.col("ScoreText").is_not_null()
    ).with_columns(
        pl.col(whole).cast(pl.Int64), pl.col("RawScore").cast(pl.Float64), Screening_Date=screened
    )
    # Nobody is screened before being born: such a two-digit year belongs to 19xx.
    century = pl.when(born > pl.col("Screening_Date")).then(1900).otherwise(2000)
    return chosen.with_columns(
        pl.col("Ethnic_Code_Text").replace(_SAME_GROUP),
        Age=_age(_born(century + _part("DateOfBirth", 2)), pl.col("Screening_Date")),
        Risk=pl.when(pl.col("ScoreText") == "High")
        .then(pl.lit("High"))
        .otherwise(pl.lit("not High")),
    ).drop("DateOfBirth", "IsCompleted", "IsDeleted", "AssessmentReason", "DisplayText")


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
