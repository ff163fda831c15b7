"""Discrimination patterns: the search finds what enumeration finds, and accounts for the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import oracle
from fairpc.circuit import CircuitBuilder
from fairpc.models import (
    FairDistribution,
    Question,
    _forest_decisions as forest_module,
    _patterns as patterns,
)
from fairpc.models._fair_layers import Layout, build
from fairpc.models._patterns import Counts, PatternArrays, assignments, search
from models.distributions import distributions, random_distribution
from models.forests import Sizes, forests, random_forest
from strategies import examples

ALL = Question("decision", 1, 3, 0.0, 0.0)
CLOSE = 1e-9


def groups_of(m: FairDistribution) -> oracle.Array:
    """The values of S, each by itself; of three also the first two together."""
    members = np.eye(m.layout.n_groups, dtype=bool)
    return np.vstack([members, members[0] | members[1]]) if len(members) > 2 else members


def candidates(m: FairDistribution, asked: Question) -> list[oracle.Pattern]:
    """By enumeration of all complete rows."""
    rows, p = oracle.all_rows(m.circuit.graph), oracle.joint(m.circuit)
    layout = m.layout
    column = layout.d if asked.of == "label" else layout.decision
    positive = rows[:, column] == asked.positive
    features = rows[:, layout.x.start : layout.x.stop]
    return oracle.pattern_candidates(features, p, rows[:, 0], positive, groups_of(m), asked.size)


def on_the_edge(one: oracle.Pattern, asked: Question) -> bool:
    """Whether rounding may decide if this is a pattern."""
    near = abs(abs(one.difference) - asked.threshold) < CLOSE
    return near or abs(one.share - asked.min_share) < CLOSE


def check(m: FairDistribution, asked: Question) -> None:
    """The search against the enumeration: the patterns, their numbers, and the account."""
    everything = candidates(m, asked)
    found, counts = search(m, groups_of(m), asked)
    expected = {
        (one.group, one.x): one
        for one in everything
        if one.share >= asked.min_share and abs(one.difference) > asked.threshold
    }
    keys = list(zip(found.group.tolist(), map(tuple, found.x.tolist()), strict=True))
    assert len(set(keys)) == len(keys)
    known = {(one.group, one.x): one for one in everything}
    for key in set(keys) ^ set(expected):
        assert on_the_edge(known[key], asked)
    said = [known[key] for key in keys]
    oracle.agree(found.difference, [one.difference for one in said])
    oracle.agree(found.rate, [one.rate for one in said])
    oracle.agree(found.share, [one.share for one in said])
    assert (np.diff(np.abs(found.difference)) <= 0).all()
    assert counts.n_evaluated + counts.n_rare + counts.n_bounded == len(everything)
    assert counts.n_found == len(found)


questions = st.builds(
    Question,
    st.sampled_from(["label", "decision"]),
    st.integers(0, 1),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.02, 0.1, 0.3]),
    st.sampled_from([0.0, 0.01, 0.05, 0.2]),
)


@settings(max_examples=examples(300), deadline=None)
@given(distributions(), questions)
def test_the_search_misses_nothing(m: FairDistribution, asked: Question) -> None:
    check(m, replace(asked, size=min(asked.size, len(m.layout.arities))))


@settings(max_examples=examples(100), deadline=None)
@given(forests(), questions)
def test_nor_does_it_in_forests(m: FairDistribution, asked: Question) -> None:
    assume(math.prod(m.circuit.arities.tolist()) <= oracle.MAX_STATES)
    check(m, replace(asked, size=min(asked.size, len(m.layout.arities))))


@settings(max_examples=examples(50), deadline=None)
@given(forests(), st.sampled_from(["label", "decision"]), st.randoms(use_true_random=False))
def test_forests_and_their_circuits_extend_alike(m: FairDistribution, of: str, rnd: Random) -> None:
    first = rnd.randrange(len(m.layout.arities))
    shape = 5, len(m.layout.arities)
    x = np.full(shape, -1, np.int16)
    for j in range(first):
        x[:, j] = [rnd.randrange(-1, m.layout.arities[j]) for _ in range(5)]
    circuit = FairDistribution(m.model, m.layout, m.circuit)
    ours, theirs = (d.joint_with_values(x, first, of, 1) for d in (m, circuit))  # type: ignore[arg-type]
    oracle.agree(ours, theirs)


@pytest.mark.parametrize(
    "make",
    [
        lambda rnd: random_distribution(rnd, "FairPC"),
        lambda rnd: random_forest(rnd, Sizes((3, 2, 3, 2), n_groups=3)),
    ],
)
def test_blocks_make_no_difference(
    make: Callable[[Random], FairDistribution], monkeypatch: pytest.MonkeyPatch
) -> None:
    m = make(Random(4))
    asked = replace(ALL, size=min(3, len(m.layout.arities)), threshold=0.01)
    whole, counts = search(m, groups_of(m), asked)
    monkeypatch.setattr(patterns, "CELLS", 1)
    monkeypatch.setattr(forest_module, "EXTENDED", 2)
    parts, again = search(m, groups_of(m), asked)
    assert len(whole) > 5
    assert counts == again
    oracle.agree(parts.difference, whole.difference)


@settings(max_examples=examples(50), deadline=None)
@given(distributions(), st.integers(1, 10), st.sampled_from([1, 1 << 21]))
def test_the_first_few_are_the_largest(m: FairDistribution, top: int, cells: int) -> None:
    asked = replace(ALL, size=min(2, len(m.layout.arities)), threshold=0.01)
    every, counts = search(m, groups_of(m), asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patterns, "CELLS", cells)
        few, same = search(m, groups_of(m), replace(asked, top=top))
    assert same == counts
    assert len(few) == min(top, len(every))
    oracle.agree(np.abs(few.difference), np.abs(every.difference[:top]))


@settings(max_examples=examples(50), deadline=None)
@given(distributions())
def test_pareto_optimal_patterns_by_definition(m: FairDistribution) -> None:
    asked = replace(ALL, size=min(2, len(m.layout.arities)), threshold=0.01)
    every = search(m, groups_of(m), asked)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patterns, "CELLS", 1)
        kept, counts = search(m, groups_of(m), replace(asked, kept="pareto"))
        first = search(m, groups_of(m), replace(asked, kept="pareto", top=2))[0]
    size, share = np.abs(every.difference), every.share
    for difference, of in zip(kept.difference, kept.share, strict=True):
        assert not ((size > abs(difference) + CLOSE) & (share > of + CLOSE)).any()
    for difference, of in zip(size, share, strict=True):
        # Each is kept, or some kept one is at least as large in both.
        as_large = np.abs(kept.difference) >= difference - CLOSE
        assert (as_large & (kept.share >= of - CLOSE)).any()
    assert counts.n_found == len(every)
    assert (np.diff(kept.share) > 0).all()
    assert first.x.tolist() == kept.x[:2].tolist()


def test_by_hand() -> None:
    # S and X have two values each, D depends on both:
    #   P(S=1) = .5, P(D=1 | S) = .2, .6, P(X=1 | D, S=0) = .5, .5, P(X=1 | D, S=1) = .1, .9.
    #   P(S=1, D=1, X=1) = .27, P(S=1, D=0, X=1) = .02, P(S=0, D=1, X=1) = .05, P(S=0, X=1) = .25.
    #   P(D=1 | S=1, X=1) = .27/.29 and P(D=1 | X=1) = .32/.54.
    layout = Layout(2, 2, ("x",), (2,), "TwoNB")
    ones = np.array([[0.5, 0.5], [0.1, 0.9]])

    def features(b: CircuitBuilder, d: int, s: int, columns: Sequence[int]) -> int:
        return b.categorical(columns[0], [1 - ones[s, d], ones[s, d]])

    rate = np.array([[0.8, 0.2], [0.4, 0.6]])
    circuit = build(layout, features, np.array([0.5, 0.5]), rate, None)
    m = FairDistribution("TwoNB", layout, circuit)
    found, counts = search(m, np.eye(2, dtype=bool), replace(ALL, size=1))
    assert counts == Counts(size=1, n_evaluated=6, n_rare=0, n_bounded=0, n_found=6)
    at = found.x[:, 0].tolist().index(1), found.group.tolist()
    (one,) = (i for i in range(6) if found.x[i, 0] == 1 and at[1][i] == 1)
    oracle.agree(found.rate[one], 0.27 / 0.29)
    oracle.agree(found.difference[one], 0.27 / 0.29 - 0.32 / 0.54)
    oracle.agree(found.share[one], 0.29)
    alone = [i for i in range(6) if found.x[i, 0] == -1]
    oracle.agree(np.sort(found.difference[alone]), [-0.2, 0.2])


part = st.floats(0, 1)
kept_part = st.sampled_from([0.0, 1.0]) | part


@settings(max_examples=examples(1000))
@given(st.tuples(*[part] * 4), st.tuples(*[kept_part] * 4), st.floats(0, 0.5))
def test_no_extension_exceeds_the_bound(
    whole: tuple[float, ...], kept: tuple[float, ...], least: float
) -> None:
    a, b, a_other, b_other = (p * q for p, q in zip(whole, kept, strict=True))
    share = a + b
    if share < max(least, 1e-12):
        return
    difference = a / share - (a + a_other) / (share + a_other + b_other)
    bound = float(patterns._bound(*(np.array(p) for p in whole), least=least))
    assert abs(difference) <= bound + CLOSE


def test_the_bound_is_reached() -> None:
    # a = m, b = 0, a' = 0 and b' as it was: 1 - m / (m + b').
    bound = patterns._bound(*map(np.array, (0.3, 0.2, 0.0, 0.4)), least=0.1)
    oracle.agree(bound, 1 - 0.1 / 0.5)
    # Not enough of a to fill m: a = .05, b = .05.
    bound = patterns._bound(*map(np.array, (0.05, 0.2, 0.0, 0.4)), least=0.1)
    oracle.agree(bound, 0.5 - 0.05 / 0.5)


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_assignments_are_counted(size: int) -> None:
    arities = (2, 3, 1, 4)
    counted = [0] * (size + 1)
    for states in np.ndindex(*(a + 1 for a in arities)):
        named = sum(v > 0 for v in states)
        if named <= size:
            counted[named] += 1
    later = assignments(arities, size)
    assert (1, *later[0]) == tuple(counted)
    assert later[1:] == assignments(arities[1:], size)


def test_what_is_ruled_out_is_said() -> None:
    m = random_forest(Random(3), Sizes((3, 3, 3, 2)))
    total = 2 * (1 + sum(assignments(m.layout.arities, 3)[0]))
    for asked in (
        replace(ALL, min_share=0.1),
        replace(ALL, min_share=0.1, threshold=0.3),
    ):
        _, counts = search(m, np.eye(2, dtype=bool), asked)
        assert counts.n_evaluated + counts.n_rare + counts.n_bounded == total
        assert counts.n_rare > 0
        assert (counts.n_bounded > 0) == (asked.threshold > 0)


@pytest.mark.parametrize("min_share", [0.0, 0.05])
def test_a_search_may_end_early(min_share: float) -> None:
    m = random_forest(Random(3), Sizes((3, 3, 3, 2)))
    asked = replace(ALL, min_share=min_share, threshold=0.02)
    for size, most_work in ((1, m.extension_work), (2, 11 * m.extension_work), (3, None)):
        short, counts = search(m, np.eye(2, dtype=bool), replace(asked, most_work=most_work))
        whole, expected = search(m, np.eye(2, dtype=bool), replace(asked, size=size))
        assert counts == expected
        assert counts.size == size
        assert short.x.tolist() == whole.x.tolist()


def test_patterns_of_equal_difference_have_an_order() -> None:
    x = np.array([[0, -1], [-1, 1], [1, -1], [0, 0]], np.int16)
    size, share = np.array([0.1, -0.3, 0.3, -0.1]), np.array([0.2, 0.1, 0.4, 0.2])
    found = PatternArrays(np.array([1, 0, 0, 1]), x, size, size, share).ordered()
    assert found.x.tolist() == [[1, -1], [-1, 1], [0, -1], [0, 0]]
    assert math.isclose(found.share[0], 0.4)
