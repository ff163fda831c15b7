"""Small tables and models for the tests of the audit."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from fairpc.auditing import Audit
from fairpc.auditing._job import AuditSettings, Job, ReadTable
from fairpc.auditing._rows import audited_rows
from fairpc.models import CircuitClassifier, FairPC, LatNB, NLatPC, TwoNB

QUICK: dict[str, Any] = {"n_seeds": 1}
MODELS = {"FairPC": FairPC, "NLatPC": NLatPC, "LatNB": LatNB, "TwoNB": TwoNB}


def table(
    n: int = 400, *, n_groups: int = 2, n_classes: int = 2, seed: int = 0
) -> tuple[pl.DataFrame, Any, Any]:
    """Features, labels and groups: some labels of the first group are altered."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, n_groups, n)
    f = rng.integers(0, n_classes, n)
    d = np.where((s == 0) & (rng.random(n) < 0.3), 0, f)
    d = np.where(rng.random(n) < 0.05, rng.integers(0, n_classes, n), d)
    columns: dict[str, Any] = {
        f"x{j}": np.where(rng.random(n) < 0.25, rng.integers(0, 3, n), f) for j in range(4)
    }
    columns["city"] = np.array(["ab", "cd", "ef"])[np.where(rng.random(n) < 0.3, 0, s % 3)]
    columns["amount"] = np.round(rng.normal(f * 1.5, 1.0), 3)
    groups = np.array([f"g{k}" for k in range(n_groups)])[s]
    return pl.DataFrame(columns), np.array(["no", "perhaps", "yes"])[[0, 2, 1]][d], groups


def biased(n: int, *, seed: int, kept: float, apart: float) -> tuple[pl.DataFrame, Any, Any, Any]:
    """Features, labels biased against "f", groups and fair decisions.

    ``kept`` is P(label | fair decision) of "f", ``apart`` how far it moves the first feature.
    """
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    fair = rng.random(n) < 0.5
    label = rng.random(n) < np.where(fair, np.where(sex == "f", kept, 0.95), 0.05)
    X = pl.DataFrame({"a": rng.normal(size=n) + apart * fair, "b": rng.normal(size=n) + fair})
    return X, np.array(["no", "yes"])[label.astype(int)], sex, fair


@cache
def fitted(name: str = "FairPC", n_groups: int = 2, n_classes: int = 2) -> CircuitClassifier:
    """A small model of each kind on :func:`table`."""
    features, labels, groups = table(n_groups=n_groups, n_classes=n_classes)
    options: dict[str, Any] = {"structure": "chow-liu"} if name in ("FairPC", "NLatPC") else {}
    model: CircuitClassifier = MODELS[name](random_state=0, max_iter=60, **options)
    return model.fit(features, labels, sensitive_features=groups)


def settings(*, n_seeds: int | None = None, max_test_rows: int | None = None) -> AuditSettings:
    """Options of an audit: as they are by default, but for samples."""
    return AuditSettings(
        level=0.95,
        random_state=0,
        n_seeds=n_seeds,
        classifier="logistic",
        max_test_rows=max_test_rows,
        max_memory=None,
    )


def job_of_table(n_seeds: int | None, *, of_fit: bool = True) -> Job:
    """An audit of the table in memory, its rows read, known as those of the fit or not."""
    X, y, s = table()
    rows = audited_rows(fitted(), X, y, s, None)
    rows = replace(rows, same_rows_as_fit=of_fit)
    return Job(fitted(), settings(n_seeds=n_seeds), results={"scores": ReadTable(rows, rows)})


def plain_json(record: Audit) -> Any:
    """As JSON and back; a NaN would be an error."""
    return json.loads(json.dumps(record.to_dict(), allow_nan=False))
