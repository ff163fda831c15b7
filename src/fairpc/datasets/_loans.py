"""Loan applications that nobody made: who deserves a loan is known, and the bias is planted."""

from __future__ import annotations

from typing import Final, Literal, get_args

import numpy as np
import polars as pl

from fairpc.core import check_choice
from fairpc.datasets import _record as record
from fairpc.datasets._record import FrameKind, TruthDataset

LoansVersion = Literal["applications", "truth"]

N_APPLICATIONS: Final = 5_000
SEED: Final = 2021
FAIR_RATE: Final = 0.45
"""P(deserving), the same for women and men."""
REFUSED_WOMEN: Final = 0.3
REFUSED_MEN: Final = 0.05
GRANTED: Final = 0.02
"""The rule: of the deserving these shares are refused, of the others this share is granted a loan,
whatever else the application says."""


def load_loans(
    version: LoansVersion = "applications", *, as_frame: FrameKind = "polars"
) -> TruthDataset:
    """5,000 loan applications with a bias that was planted in their labels; always the same rows.

    45 % of women and of men deserve a loan, and what an application says depends on that alone. Of
    the deserving, three in ten women and one in twenty men are refused; of the others, one in
    fifty is granted a loan.

    Args:
        version: "applications", or "truth": the same rows, and who deserves a loan beside them.
        as_frame: kind of the frames in the result.
    """
    check_choice("version", version, get_args(LoansVersion))
    frame = _drawn(np.random.default_rng(SEED))
    shown = frame if version == "truth" else frame.drop("deserving")
    truth = record.as_kind(frame["deserving"], as_frame)
    return record.published(TruthDataset, "loans", version, shown, as_frame, df=truth)


def _drawn(rng: np.random.Generator) -> pl.DataFrame:
    """The rows: sex and deserving, then the features given deserving, then the recorded label."""
    n = N_APPLICATIONS
    woman, deserving = rng.random(n) < 0.5, rng.random(n) < FAIR_RATE
    purposes = np.array(["car", "education", "home", "other"])
    tastes = np.where(deserving[:, None], [0.3, 0.2, 0.4, 0.1], [0.35, 0.15, 0.2, 0.3])
    purpose = purposes[(rng.random((n, 1)) > tastes.cumsum(axis=1)[:, :3]).sum(axis=1)]
    income = 24 + rng.gamma(5, 3.2, n) + 16 * deserving
    refused = rng.random(n) < np.where(woman, REFUSED_WOMEN, REFUSED_MEN)
    granted = rng.random(n) < GRANTED
    columns = {
        "sex": np.where(woman, "F", "M"),
        "age": np.clip(rng.normal(38 + 6 * deserving, 10).round(), 19, 80).astype(np.int64),
        "income": income.round(1),
        "amount": (4 + rng.gamma(2.5, 4, n) * np.where(deserving, 0.9, 1.2)).round(1),
        "years_employed": rng.gamma(np.where(deserving, 2.4, 1.1), 3).round(1),
        "late_payments": rng.poisson(np.where(deserving, 0.5, 2.6)),
        "owns_home": rng.random(n) < np.where(deserving, 0.65, 0.25),
        "purpose": purpose,
        "approved": np.where(np.where(deserving, ~refused, granted), "yes", "no"),
        "deserving": np.where(deserving, "yes", "no"),
    }
    return pl.DataFrame(columns)
