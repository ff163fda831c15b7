"""A small hiring table with sex and race, some unknown and one rare, and audits of it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl

from fairpc import LatNB
from fairpc.auditing import Audit, audit

QUICK: dict[str, Any] = {"n_seeds": 1}
NASTY = (
    "<script>alert(1)</script>",
    "a | b",
    "two\nlines",
    "**bold** _it_ `code` [x](http://evil.example) ![i](x)",
    "https://evil.example www.evil.example me@evil.example",
    "# heading #",
    "\u202eturned",
)


def people(n: int = 600) -> tuple[pl.DataFrame, Any]:
    rng = np.random.default_rng(1)
    f = rng.integers(0, 2, n)
    race = rng.choice(["Asian", "Black", "White", "Native"], n, p=[0.3, 0.3, 0.39, 0.01])
    sex = [None if rng.random() < 0.05 else str(v) for v in rng.choice(["F", "M"], n)]
    columns = {
        "sex": sex,
        "race": race.tolist(),
        "degree": np.where(rng.random(n) < 0.8, f, 1 - f).tolist(),
        "years": np.round(rng.normal(5 + 4 * f, 3).clip(0), 1).tolist(),
        "town": rng.choice(["Bronx", "Queens"], n).tolist(),
    }
    return pl.DataFrame(columns), np.where(rng.random(n) < 0.9, f, 0)


@cache
def fitted() -> LatNB:
    X, y = people()
    named = pl.Series("hired", np.array(["no", "yes"])[y])
    return LatNB(["sex", "race"], max_iter=30, min_cell=1).fit(X, named)


@cache
def audited() -> Audit:
    X, y = people()
    named = pl.Series("hired", np.array(["no", "yes"])[y])
    return audit(fitted(), X, named, **QUICK)


@cache
def nasty() -> Audit:
    """Every name, of columns, levels, groups and classes, wants to be markup."""
    rng = np.random.default_rng(0)
    n, names = 300, list(NASTY)
    table = pl.DataFrame({name: rng.choice(names, n).tolist() for name in names})
    groups = {f"S {name}": rng.choice(names[:3], n).tolist() for name in names[:2]}
    labels = pl.Series(NASTY[3], rng.choice(["<b>no</b>", "y|es\n"], n).tolist())
    model = LatNB(max_iter=5, min_cell=1).fit(
        table, labels, sensitive_features=pl.DataFrame(groups)
    )
    sensitive = pl.DataFrame(groups)
    return audit(model, table, labels, sensitive_features=sensitive, **QUICK)
