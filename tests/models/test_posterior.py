"""P(Df | x, s, d) and P(S | x) of forests and of circuits, against enumeration of all rows."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import oracle
from fairpc.errors import EvidenceError
from fairpc.models import FairDistribution, ForestDistribution
from models.forests import Sizes, forests, random_forest
from strategies import examples

S, F = 0, 1


def enumerated(rows: oracle.Array, p: oracle.Array, column: int, known: list[int]) -> oracle.Array:
    """P(column = v | s, f, d, x as far as they are known), by sums over all complete rows."""
    agrees = np.ones(len(rows), bool)
    for j, value in enumerate(known):
        agrees &= (value < 0) | (rows[:, j] == value)
    sums = [
        math.fsum(p[agrees & (rows[:, column] == v)]) for v in range(int(rows[:, column].max()) + 1)
    ]
    total = math.fsum(sums)
    return np.array(sums) / total if total > 0 else np.array([])


def check(m: ForestDistribution, of: FairDistribution, rnd: Random) -> None:
    """Rows with holes in S, D and X: each answer is that of the enumeration, or both have none."""
    layout, rates = m.layout, m.top_rates
    joint = oracle.forest_joint(m.forest, rates.group_rate, rates.decision_rate, rates.mechanism)
    for _ in range(12):
        s, d = rnd.randrange(-1, layout.n_groups), rnd.randrange(-1, layout.n_classes)
        x = [rnd.randrange(-1, a) for a in layout.arities]
        codes = np.array([x], np.int16)
        given_s, given_d = (np.array([v], np.int16) for v in (s, d))
        decision = enumerated(*joint, F, [s, -1, d, *x])
        group = enumerated(*joint, S, [-1, -1, -1, *x])
        if len(group):
            oracle.agree(of.group(codes)[0], group)
        if len(decision):
            oracle.agree(of.posterior(given_s, given_d, codes)[0], decision)
        else:
            with pytest.raises(EvidenceError):
                of.posterior(given_s, given_d, codes)


@settings(max_examples=examples(100))
@given(forests(), st.randoms(use_true_random=False))
def test_forests(m: ForestDistribution, rnd: Random) -> None:
    check(m, m, rnd)


@settings(max_examples=examples(50))
@given(forests(), st.randoms(use_true_random=False))
def test_circuits(m: ForestDistribution, rnd: Random) -> None:
    check(m, FairDistribution("FairPC", m.layout, m.circuit), rnd)


def test_all_groups_or_labels_may_be_left_out() -> None:
    """None is a column of holes; a known group is certain."""
    rnd = Random(0)
    m = random_forest(rnd, Sizes((2, 3)))
    x = np.array([[0, -1], [1, 2], [-1, -1]], np.int16)
    holes = np.full(3, -1, np.int16)
    for of in (m, FairDistribution("FairPC", m.layout, m.circuit)):
        oracle.agree(of.posterior(None, None, x), of.posterior(holes, holes, x))
        oracle.agree(of.posterior(None, None, x), of.decision(None, x))
        oracle.agree(of.group(x)[2], m.group_rate)
        oracle.agree(of.posterior(None, None, x)[2], m.top_rates.decision_rate)


def test_by_hand() -> None:
    """Without features: P(Df=1) = .4, P(D=1 | Df=1, s=0) = .5, P(D=1 | Df=0, s=0) = .1.

    P(Df=1 | D=1, s=0) = .4·.5 / (.4·.5 + .6·.1) = .2/.26.
    """
    m = random_forest(Random(1), Sizes((2,)))
    mechanism = np.array([[[0.9, 0.1], [0.5, 0.5]], [[1.0, 0.0], [0.2, 0.8]]])
    rates = type(m.rates)(np.array([0.3, 0.7]), np.array([0.6, 0.4]), mechanism)
    known = ForestDistribution(m.layout, m.forest, rates)
    hidden, one = np.full((1, 1), -1, np.int16), np.array([1], np.int16)
    found = known.posterior(np.array([0], np.int16), one, hidden)[0]
    assert found == pytest.approx([0.06 / 0.26, 0.2 / 0.26])
    # Over groups: .3·(.06, .2) + .7·(0, .32).
    found = known.posterior(None, one, hidden)[0]
    assert found == pytest.approx(np.array([0.018, 0.284]) / 0.302)
