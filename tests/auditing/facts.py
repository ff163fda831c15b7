"""Facts of small audits for tests of the page: an ordinary one, a hostile one, odd ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl

from fairpc import FairPC, LatentDecision, LatNB, NLatPC
from fairpc.auditing import Audit, audit
from fairpc.datasets import load_german
from fairpc.models import TableClassifier

QUICK: dict[str, Any] = {"n_seeds": 1}
SCRIPT = "<script>alert(1)</script>"
HOSTILE = (
    SCRIPT,
    "\"quotes\" and 'apostrophes' & </td>",
    "\u202eright to left\u202c שלום",
    "emoji 🎈👩‍🚒",
    "x" * 300,
    "line\nbreak",
)


@cache
def german() -> tuple[FairPC, Audit]:
    """A model of German credit and its audit."""
    data = load_german()
    model = FairPC(structure="chow-liu", random_state=0)
    model.fit(data.X, data.y, sensitive_features=data.sensitive)
    return model, audit(model, data.X, data.y, sensitive_features=data.sensitive, **QUICK)


@cache
def scored() -> Audit:
    """Scores of a classifier turned into those of Df: there is no circuit."""
    data = load_german()
    model = LatentDecision(TableClassifier("logistic"), cv=3, random_state=0)
    model.fit(data.X, data.y, sensitive_features=data.sensitive)
    return audit(model, data.X, data.y, sensitive_features=data.sensitive, **QUICK)


@cache
def strata() -> Audit:
    """Df depends on hours, and hours on sex; parity without strata is rejected."""
    X, y = rejected_without_strata()
    model = FairPC("sex", given="hours", structure="forest", random_state=0).fit(X, y)
    return audit(model, X, y, **QUICK)


def rejected_without_strata(n: int = 4000) -> tuple[pl.DataFrame, Any]:
    """Fair decisions depend on hours alone, and men work more; labels err alike in both groups."""
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, n)
    a = (rng.random(n) < np.array([0.2, 0.8])[s]).astype(int) + (rng.random(n) < 0.3)
    f = (rng.random(n) < np.array([0.1, 0.5, 0.9])[a]).astype(int)
    sure = rng.random(n) < 0.6
    columns: dict[str, Any] = {"sex": np.array(["f", "m"])[s], "hours": [f"h{k}" for k in a]}
    columns["x"] = np.where(sure, f * 2, 1)
    columns["noise"] = rng.normal(size=n)
    d = (rng.random(n) < np.array([0.03, 0.95])[f]).astype(int)
    return pl.DataFrame(columns), np.array(["no", "yes"])[d]


@cache
def hostile() -> tuple[LatNB, Audit]:
    """Every name in the table, of columns, levels, groups and classes, wants to be a page."""
    rng = np.random.default_rng(0)
    n = 400
    names = list(HOSTILE)
    table = pl.DataFrame({name: rng.choice(names, n).tolist() for name in names})
    groups = rng.choice([SCRIPT, HOSTILE[1], "y" * 300], n)
    labels = rng.choice([HOSTILE[2], "</script><img src=x onerror=alert(2)>"], n)
    sensitive = pl.DataFrame({"<b>sex</b>\n": groups.tolist()})
    given = pl.Series("<i>label</i>", labels.tolist())
    model = LatNB(max_iter=30).fit(table, given, sensitive_features=sensitive)
    return model, audit(model, table, given, sensitive_features=sensitive, **QUICK)


def _three_classes(rng: np.random.Generator, n: int = 600) -> tuple[pl.DataFrame, Any, Any]:
    groups = rng.integers(0, 3, n)
    fair = rng.integers(0, 3, n)
    table = pl.DataFrame(
        {
            f"x{j}": ((fair + (rng.random(n) < 0.3) * rng.integers(0, 3, n)) % 3).tolist()
            for j in range(4)
        }
    )
    labels = np.where(rng.random(n) < 0.1 * groups, rng.integers(0, 3, n), fair)
    return table, labels, groups


@cache
def three_classes() -> Audit:
    """Three classes and three groups."""
    table, labels, groups = _three_classes(np.random.default_rng(1))
    model = LatNB(max_iter=30).fit(table, labels, sensitive_features=groups)
    options: dict[str, Any] = {"n_seeds": 1}
    return audit(model, table, labels, sensitive_features=groups, **options)


@cache
def without_labels() -> Audit:
    """A model without Df, on rows without labels and in part without groups."""
    data = load_german()
    model = NLatPC(structure="chow-liu").fit(data.X, data.y, sensitive_features=data.sensitive)
    X, groups = data.X.head(200), data.sensitive[:200]
    return audit(model, X, None, sensitive_features=groups, n_seeds=1)
