"""UCI Adult: does a person in the 1994 census earn more than 50,000 dollars?"""

from __future__ import annotations

import io
from typing import Literal

import polars as pl

from fairpc.datasets import bundled
from fairpc.datasets.record import Dataset, FrameKind, Notes, Provenance, Roles, check_option, cut

AdultVersion = Literal["raw", "paper"]
AdultSubset = Literal["all", "train", "test"]

PROVENANCE = Provenance(
    source="UCI Machine Learning Repository, data set 2 (Adult)",
    url="https://archive.ics.uci.edu/dataset/2/adult",
    licence="CC BY 4.0, https://creativecommons.org/licenses/by/4.0/",
    attribution=(
        "B. Becker and R. Kohavi, Adult [Dataset], UCI Machine Learning Repository, 1996, "
        "https://doi.org/10.24432/C5XW20"
    ),
    files=(
        ("adult.data", bundled.SHA256["adult.data"]),
        ("adult.test", bundled.SHA256["adult.test"]),
    ),
)

_COLUMNS = {
    "age": "age in years",
    "workclass": "kind of employer",
    "fnlwgt": "sampling weight: how many people of the population the row stands for",
    "education": "highest education reached",
    "education-num": "the same as a number from 1 (preschool) to 16 (doctorate)",
    "marital-status": "marital status",
    "occupation": "kind of work",
    "relationship": "role in the household",
    "race": "as recorded by the census",
    "sex": "as recorded by the census: Female or Male; the sensitive attribute",
    "capital-gain": "in dollars; 92 % are 0 and 99999 means 'more'",
    "capital-loss": "in dollars; 95 % are 0",
    "hours-per-week": "hours of work per week",
    "native-country": "country of birth",
    "target": "the label: yearly income, <=50K or >50K",
}

_PAPER_COLUMNS = {
    "workclass": "1 = not self-employed and paid ('?' counts here)",
    "fnlwgt": "1 = above the mean of the training rows",
    "education": "1 = some college or more",
    "education-num": "1 = above 10",
    "hours-per-week": "1 = 40 hours or more",
    "marital-status": "1 = no spouse (never married, divorced, separated, widowed)",
    "occupation": "1 = office, professional, sales or protective work ('?' is 0)",
    "relationship": "1 = husband or wife",
    "race": "1 = White",
    "sex": "1 = female; the sensitive attribute",
    "native-country": "1 = United States ('?' is 0)",
    "capital-gain": "1 = any",
    "capital-loss": "1 = any",
    "target": "1 = more than 50,000 dollars; the label",
}

_TRAPS = (
    "fnlwgt is a sampling weight, not a fact about a person.",
    "education and education-num say the same thing twice.",
    "relationship (Husband, Wife) gives sex away: dropping the column sex hides nothing.",
    "capital-gain is 0 in 92 % of the rows: plain quantile bins collapse into one.",
    "The labels of UCI's test part end in a full stop, which is taken off here.",
    "The source has 52 repeated rows, one female Husband and three male Wives; they are kept.",
)

RAW_NOTES = Notes(
    "48,842 people of the 1994 United States census (32,561 in UCI's training part, then 16,281 "
    "in its test part). The label says whether the yearly income is above 50,000 dollars; the "
    "sensitive attribute is sex. Unknown values ('?') of workclass, occupation and "
    "native-country are missing.",
    _COLUMNS,
    _TRAPS,
)

PAPER_NOTES = Notes(
    "The 32,561 training rows of Adult as 12 binary features, sex and a binary label, exactly "
    "as binarised for the paper. Label 1 = more than 50,000 dollars, sex 1 = female.",
    _PAPER_COLUMNS,
    (
        "age was binned and then dropped: it is not in the table.",
        "An unknown value ('?') falls on the other side of each cut and is not missing.",
        "fnlwgt is a sampling weight, not a fact about a person.",
        "education and education-num overlap, as do relationship and marital-status.",
    ),
)

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
    version: AdultVersion = "raw",
    *,
    subset: AdultSubset = "all",
    as_frame: FrameKind = "polars",
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
        frame, notes = binarise(_read("adult.data")), PAPER_NOTES
        roles = Roles("target", "sex", 1)
    else:
        parts = {"all": ("adult.data", "adult.test"), "train": ("adult.data",)}
        names = parts.get(subset, ("adult.test",))
        frame = pl.concat([_read(name) for name in names])
        words = pl.col(pl.String)
        frame, notes = frame.with_columns(words.replace("?", None)), RAW_NOTES
        roles = Roles("target", "sex", ">50K")
    return Dataset(**cut("adult", version, frame, roles, PROVENANCE, notes, as_frame))


def _read(name: str) -> pl.DataFrame:
    """One part of UCI's table, words stripped of the blanks and full stops around them."""
    frame = pl.read_csv(
        io.BytesIO(bundled.read(name)),
        has_header=False,
        new_columns=list(_COLUMNS),
        schema_overrides=[pl.String] * len(_COLUMNS),
        comment_prefix="|",
    ).filter(pl.col("target").is_not_null())
    stripped = frame.with_columns(pl.all().str.strip_chars(" ."))
    return stripped.with_columns(pl.col(_NUMERIC).cast(pl.Int64))


def binarise(raw: pl.DataFrame) -> pl.DataFrame:
    """The authors' binary table of UCI's training part, '?' still being a level of its own."""

    def above(column: str, cut_off: float) -> pl.Expr:
        return pl.col(column) > cut_off

    def among(column: str, levels: tuple[str, ...]) -> pl.Expr:
        return pl.col(column).is_in(levels)

    return raw.select(
        (~among("workclass", _UNPAID_OR_OWN)).alias("workclass"),
        pl.col("fnlwgt") > pl.col("fnlwgt").mean(),
        among("education", _COLLEGE),
        above("education-num", 10),
        above("hours-per-week", 39),
        among("marital-status", _NO_SPOUSE),
        among("occupation", _OFFICE),
        among("relationship", ("Husband", "Wife")),
        pl.col("race") == "White",
        pl.col("sex") == "Female",
        pl.col("native-country") == "United-States",
        above("capital-gain", 0),
        above("capital-loss", 0),
        pl.col("target") == ">50K",
    ).cast(pl.Int64)
