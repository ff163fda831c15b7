"""Rows of one person are not independent: levels by simulation, and COMPAS by person."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from evidence.arrays import published, repeated
from fairpc.evidence import parity, test_assumptions
from published import paper_folder, use_raw_compas
from reproduction.sources import Sources


def test_gaps_cover_by_person_only() -> None:
    """Persons with one to four equal rows: rows taken for independent cover far too seldom."""
    hits = np.zeros(2)
    for seed in range(400):
        rng = np.random.default_rng(seed)
        s = rng.integers(0, 2, 200)
        y = rng.random(200) < np.where(s == 1, 0.3, 0.5)
        who = np.repeat(np.arange(200), rng.integers(1, 5, 200))
        for i, clusters in enumerate((who, None)):
            low, high = parity(y[who], s[who], clusters=clusters).difference_interval
            hits[i] += low <= -0.2 <= high
    assert binomtest(int(hits[0]), 400, 0.95, "less").pvalue > 0.01
    assert hits[1] / 400 < 0.85


@pytest.mark.slow
def test_level_by_person_only() -> None:
    covered = rejected = naive = 0
    for seed in range(200):
        x, y, s, who = repeated(np.random.default_rng(seed), 1_000)
        found = test_assumptions(x, y, s, classifier="logistic", clusters=who)
        alike = test_assumptions(x, y, s, classifier="logistic")
        covered += found.lower <= 0.5 <= found.upper
        rejected += found.rejected
        naive += alike.lower <= 0.5 <= alike.upper
    assert binomtest(covered, 200, 0.95, "less").pvalue > 0.01
    assert binomtest(rejected, 200, 0.05, "greater").pvalue > 0.01
    assert binomtest(naive, 200, 0.95, "less").pvalue < 0.01


def test_paper_compas(monkeypatch: pytest.MonkeyPatch) -> None:
    """The authors' file has each assessment up to three times; its persons are in the raw one."""
    use_raw_compas(monkeypatch)
    who = Sources(paper_folder()).table("compas").persons
    assert who is not None
    x, y, s = published("compas")
    rows = test_assumptions(x, y, s, classifier="logistic", n_seeds=3)
    persons = test_assumptions(x, y, s, classifier="logistic", n_seeds=3, clusters=who)
    assert all(2 * g.effective_n < g.n for g in persons.groups)
    assert persons.lower == pytest.approx(0.828, abs=0.02)
    assert persons.upper == pytest.approx(0.868, abs=0.02)
    assert persons.upper - persons.lower > rows.upper - rows.lower
