"""UCI Statlog German credit: was a loan repaid?"""

from __future__ import annotations

import io
from typing import Literal

import polars as pl

from fairpc.datasets import bundled
from fairpc.datasets.record import Dataset, FrameKind, Notes, Provenance, Roles, check_option, cut

GermanVersion = Literal["raw", "paper"]

PROVENANCE = Provenance(
    source="UCI Machine Learning Repository, data set 144 (Statlog, German credit data)",
    url="https://archive.ics.uci.edu/dataset/144/statlog+german+credit+data",
    licence="CC BY 4.0, https://creativecommons.org/licenses/by/4.0/",
    attribution=(
        "H. Hofmann, Statlog (German Credit Data) [Dataset], UCI Machine Learning Repository, "
        "1994, https://doi.org/10.24432/C5NC77"
    ),
    files=(("german.data", bundled.SHA256["german.data"]),),
)

# Columns of the file in their order; sex and marital status share the ninth.
_FILE_COLUMNS = (
    *("checking_status", "duration", "credit_history", "purpose", "credit_amount"),
    *("saving_account", "employment", "income", "personal_status", "guarantor", "residence"),
    *("property", "age", "installation_plan", "housing", "existing_credit", "job"),
    *("maintenance", "telephone", "foreign_worker", "loan_status"),
)

_COLUMNS = {
    "checking_status": "balance of the checking account, in Deutsche Mark",
    "duration": "of the loan, in months",
    "credit_history": "how earlier loans were paid",
    "purpose": "of the loan",
    "credit_amount": "in Deutsche Mark",
    "saving_account": "savings, in Deutsche Mark",
    "employment": "years in the present employment",
    "income": "instalment as a class of disposable income: 1 = the smallest share, 4 = the largest",
    "guarantor": "further debtors",
    "residence": "class of the years in the present home, 1 to 4",
    "property": "most valuable property",
    "age": "in years",
    "installation_plan": "other instalment plans",
    "housing": "rented, owned or free",
    "existing_credit": "class of the number of loans at this bank, 1 to 4",
    "job": "qualification",
    "maintenance": "number of dependants, 1 or 2 (2 = two or more)",
    "telephone": "yes or none",
    "foreign_worker": "yes or no",
    "sex": "female or male, from the personal status; the sensitive attribute",
    "marital_status": "the rest of the personal status",
    "loan_status": "the label: good or bad",
}

# Attribute codes as UCI's documentation explains them.
_LEVELS: dict[str, dict[str, str]] = {
    "checking_status": {
        "A11": "below 0",
        "A12": "0 to 200",
        "A13": "200 or more",
        "A14": "no account",
    },
    "credit_history": {
        "A30": "no loans, or all paid back duly",
        "A31": "all loans at this bank paid back duly",
        "A32": "loans paid back duly till now",
        "A33": "delay in the past",
        "A34": "critical account, or loans elsewhere",
    },
    "purpose": {
        "A40": "new car",
        "A41": "used car",
        "A42": "furniture",
        "A43": "radio or television",
        "A44": "appliances",
        "A45": "repairs",
        "A46": "education",
        "A48": "retraining",
        "A49": "business",
        "A410": "other",
    },
    "saving_account": {
        "A61": "below 100",
        "A62": "100 to 500",
        "A63": "500 to 1000",
        "A64": "1000 or more",
        "A65": "unknown or none",
    },
    "employment": {
        "A71": "unemployed",
        "A72": "below 1 year",
        "A73": "1 to 4 years",
        "A74": "4 to 7 years",
        "A75": "7 years or more",
    },
    "guarantor": {"A101": "none", "A102": "co-applicant", "A103": "guarantor"},
    "property": {
        "A121": "real estate",
        "A122": "savings agreement or life insurance",
        "A123": "car or other",
        "A124": "unknown or none",
    },
    "installation_plan": {"A141": "bank", "A142": "stores", "A143": "none"},
    "housing": {"A151": "rented", "A152": "owned", "A153": "free"},
    "job": {
        "A171": "unskilled, not resident",
        "A172": "unskilled, resident",
        "A173": "skilled",
        "A174": "management or self-employed",
    },
    "telephone": {"A191": "none", "A192": "yes"},
    "foreign_worker": {"A201": "yes", "A202": "no"},
    "sex": {"A91": "male", "A92": "female", "A93": "male", "A94": "male"},
    "marital_status": {
        "A91": "divorced or separated",
        "A92": "divorced, separated or married",
        "A93": "single",
        "A94": "married or widowed",
    },
    "loan_status": {"1": "good", "2": "bad"},
}

_NUMERIC = (
    *("duration", "credit_amount", "income", "residence", "age", "existing_credit"),
    "maintenance",
)

_PAPER_COLUMNS = {
    "duration": "1 = more than 12 months",
    "credit_amount": "1 = 2,800 Deutsche Mark or more",
    "age": "1 = above 30",
    "maintenance": "1 = one dependant, 0 = two or more",
    "telephone": "1 = yes",
    "foreign_worker": "1 = yes",
    "loan_status": "1 = good; the label",
    "checking_status": "1 = an account that is not overdrawn",
    "credit_history": "1 = delay in the past, critical account, or loans elsewhere",
    "purpose": "1 = car, repairs, education or business",
    "saving_account": "1 = 500 Deutsche Mark or more",
    "employment": "1 = 4 years or more",
    "income": "1 = class 3 or 4",
    "sex": "1 = female; the sensitive attribute",
    "marital_status": "1 = single man",
    "guarantor": "1 = there is a guarantor",
    "residence": "1 = class 3 or 4",
    "property": "1 = real estate, savings agreement or life insurance",
    "installation_plan": "1 = no other instalment plan",
    "housing": "1 = owned",
    "existing_credit": "1 = more than one loan at this bank",
    "job": "1 = skilled, management or self-employed",
}

_SHARED_TRAPS = (
    "There is no single woman in the table: marital status gives sex away, and the code read as "
    "'female' is doubtful (U. Grömping, South German Credit Data: Correcting a Widely Used Data "
    "Set, 2019, finds several codes of UCI's documentation wrong).",
    "Only 1,000 loans were chosen, and the bad ones (30 %) are over-represented: rates are not "
    "those of the bank, and differences between methods are mostly noise.",
    "Only granted loans are in the table: what refused applicants would have done is unknown.",
)

RAW_NOTES = Notes(
    "1,000 loans of a bank in southern Germany, 1973 to 1975, with 20 features. The label says "
    "whether the contract was kept; the sensitive attribute is sex, which the source joins with "
    "marital status in one column. Codes are replaced by the words of UCI's documentation.",
    _COLUMNS,
    _SHARED_TRAPS,
)

PAPER_NOTES = Notes(
    "The 1,000 loans as 20 binary features, sex and a binary label, exactly as binarised for the "
    "paper. Label 1 = good, sex 1 = female.",
    _PAPER_COLUMNS,
    (
        *_SHARED_TRAPS,
        "checking_status 0 mixes overdrawn accounts, the worst risks, with people who have no "
        "account at this bank, the best.",
    ),
)


def load_german(version: GermanVersion = "raw", *, as_frame: FrameKind = "polars") -> Dataset:
    """UCI German credit, bundled.

    Args:
        version: "raw" has words for UCI's codes, and sex apart from marital
            status; "paper" is the binarised table used in the paper.
        as_frame: kind of the frames in the result.
    """
    check_option("version", version, GermanVersion)
    codes = _read()
    if version == "paper":
        frame, notes = binarise(codes), PAPER_NOTES
        roles = Roles("loan_status", "sex", 1)
    else:
        frame, notes = _in_words(codes), RAW_NOTES
        roles = Roles("loan_status", "sex", "good")
    return Dataset(**cut("german", version, frame, roles, PROVENANCE, notes, as_frame))


def _read() -> pl.DataFrame:
    """UCI's codes, the personal status twice: as sex and as marital status."""
    frame = pl.read_csv(
        io.BytesIO(bundled.read("german.data")),
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
    words = [pl.col(c).replace_strict(levels) for c, levels in _LEVELS.items()]
    return codes.with_columns(words).select(*_COLUMNS)


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
