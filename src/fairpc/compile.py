"""``python -m fairpc.compile``: compile every kernel once, for images and continuous integration.

A kernel is compiled when it is first called, so each is called here, on a small table.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import polars as pl

from fairpc.core._compiling import kernel_folder
from fairpc.data import Table
from fairpc.datasets import load_loans
from fairpc.models import FairPC, LatentDecision
from fairpc.structure import learn

N_ROWS = 400
N_IMPROBABLE = 1000
"""Columns whose values are so improbable together that kernels of extended range are called."""


def call_kernels() -> None:
    """Fit and ask each kind of model, with missing values and without."""
    loans = load_loans()
    rng = np.random.default_rng(0)
    table, y, s = (part.head(N_ROWS) for part in (loans.X, loans.y, loans.sensitive))
    hole = pl.Series(rng.random(N_ROWS) < 0.3)
    holed = table.with_columns(pl.when(~hole).then(pl.col("age")).alias("age"))
    split = FairPC(structure="strudel", random_state=0)
    forest = FairPC(structure="forest", random_state=0)
    for model, learned in ((FairPC(random_state=0), table), (split, holed), (forest, holed)):
        model.fit(learned, y, sensitive_features=s)
        model.predict_proba(holed, sensitive_features=s)
        model.score_samples(holed, y, sensitive_features=s)
        model.complete(holed, sensitive_features=s)
        model.sample(1, random_state=0)
    LatentDecision(random_state=0).fit(holed, y, sensitive_features=s)
    coins = rng.integers(0, 2, (40, N_IMPROBABLE)).astype(np.int16)
    learn(Table.of(coins), method="chow-liu").conditionals(1 - coins[:1])


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a fit says of the table is of no use here
        call_kernels()
    folder = kernel_folder()
    if folder is None:
        sys.exit("no folder for compiled code is safe: set NUMBA_CACHE_DIR to one of your own")
    sys.stdout.write(f"All kernels are compiled, in {folder}\n")


if __name__ == "__main__":
    main()
