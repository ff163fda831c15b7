"""Forests: the fast path, the circuit and the enumeration of all rows say the same."""

from __future__ import annotations

import itertools
import json
import math
import os
import warnings
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import oracle
from fairpc.core import Floats
from fairpc.errors import EvidenceError, LearningError
from fairpc.models import (
    FairDistribution,
    Forest,
    ForestDistribution,
    Rows,
    _forest as forest_module,
)
from models.forests import Sizes, forests, random_forest
from models.tables import largest_dependence
from strategies import examples
from uncompiled import run_uncompiled

Array = oracle.Array


def rows_of(m: ForestDistribution, rnd: Random, n: int = 12) -> Rows:
    """Rows with holes anywhere, among them in S and D, and weights."""
    layout = m.layout
    columns = [
        [rnd.randrange(-1, a) for _ in range(n)]
        for a in (layout.n_groups, layout.n_classes, *layout.arities)
    ]
    s, d, *x = (np.array(c, np.int16) for c in columns)
    weights = np.array([rnd.random() + 0.1 for _ in range(n)])
    codes = np.asfortranarray(np.stack(x, axis=1))
    arities = np.array(layout.arities)
    top = layout.n_groups, layout.n_classes
    return Rows(s, d, codes, weights, *top, arities, layout.names)


class Twin:
    """Everything by enumeration of all complete rows (s, f, d, x)."""

    def __init__(self, m: ForestDistribution) -> None:
        rates = m.top_rates
        self.n_groups, self.n_classes = rates.mechanism.shape[:2]
        given = rates.group_rate, rates.decision_rate, rates.mechanism
        self.rows, self.p = oracle.forest_joint(m.forest, *given)

    def of(self, *known: int) -> Array:
        """P of the complete rows that agree with s, f, d, x…, zero for the others."""
        agrees = np.ones(len(self.rows), bool)
        for column, value in enumerate(known):
            if value >= 0:
                agrees &= self.rows[:, column] == value
        return np.where(agrees, self.p, 0.0)

    def log(self, *known: int) -> float:
        total = math.fsum(self.of(*known))
        return math.log(total) if total > 0 else -math.inf

    def posterior(self, column: int, *known: int) -> Array | None:
        """P(column = v | known); None where that is impossible."""
        p = self.of(*known)
        total = math.fsum(p)
        if total == 0:
            return None
        here = [math.fsum(p[self.rows[:, column] == v]) for v in range(self.n_classes)]
        return np.array(here) / total


def check_against_the_twin(m: ForestDistribution, rnd: Random) -> None:
    twin, rows = Twin(m), rows_of(m, rnd)
    assert math.fsum(twin.p) == pytest.approx(1.0, abs=1e-12)
    plain = FairDistribution(m.model, m.layout, m.circuit)
    x = rows.x.tolist()
    likely = [twin.log(s, -1, d, *z) for s, d, z in zip(rows.s, rows.d, x, strict=True)]
    oracle.agree(m.log_likelihood(rows.s, rows.d, rows.x), likely)
    oracle.agree(plain.log_likelihood(rows.s, rows.d, rows.x), likely)
    hidden = [twin.log(-1, -1, -1, *z) for z in x]
    oracle.agree(m.log_likelihood(None, None, rows.x), hidden)
    groups = np.maximum(rows.s, 0)
    dense = m.forest.log_densities(rows.x, groups)
    summed = [
        [oracle.forest_density(m.forest, s, f, z) for f in range(twin.n_classes)]
        for s, z in zip(groups.tolist(), map(tuple, x), strict=True)
    ]
    oracle.agree(np.exp(dense), summed)
    rates = m.top_rates
    for i, (s, z) in enumerate(zip(groups.tolist(), x, strict=True)):
        for f in range(twin.n_classes):
            apart = math.log(rates.group_rate[s] * rates.decision_rate[f])
            oracle.agree(dense[i, f], twin.log(s, f, -1, *z) - apart)
    for column, name in ((1, "decision"), (2, "observed")):
        for s in (rows.s, None):
            known = [-1] * len(x) if s is None else s.tolist()
            pairs = zip(known, x, strict=True)
            truth = [twin.posterior(column, g, -1, -1, *z) for g, z in pairs]
            possible = [i for i, p in enumerate(truth) if p is not None]
            given = None if s is None else s[possible]
            expected = np.array([truth[i] for i in possible]).reshape(-1, twin.n_classes)
            for one in (m, plain):
                oracle.agree(getattr(one, name)(given, rows.x[possible]), expected)
                if len(possible) < len(x):
                    with pytest.raises(EvidenceError, match="probability zero"):
                        getattr(one, name)(s, rows.x)
    check_turned(m, plain, twin, rows)


def check_turned(m: ForestDistribution, plain: FairDistribution, twin: Twin, rows: Rows) -> None:
    """Expected (s, f, d) of rows."""
    known = np.stack([rows.s, np.full(rows.n_rows, -1, np.int16), rows.d], axis=1)
    evidence = np.concatenate([known, rows.x], axis=1).tolist()
    possible = np.array([i for i, e in enumerate(evidence) if twin.log(*e) > -math.inf], int)
    if not len(possible):
        return
    counts = np.zeros((twin.n_groups, twin.n_classes, twin.n_classes))
    total = 0.0
    for i in possible.tolist():
        p = twin.of(*evidence[i])
        p = rows.weights[i] * p / math.fsum(p)
        np.add.at(counts, tuple(twin.rows[:, :3].T), p)
        total += rows.weights[i] * twin.log(*evidence[i])
    for one in (m, plain):
        found, likelihood = one.altered_and_likelihood(rows.take(possible))
        oracle.agree(found, counts)
        oracle.agree(likelihood, total)


def test_a_forest_has_a_hash_without_its_circuit() -> None:
    m, other = (random_forest(Random(seed), Sizes((2, 3))) for seed in (0, 1))
    again = ForestDistribution(m.layout, Forest.from_dict(m.forest.to_dict()), m.rates)
    assert m.fingerprint == again.fingerprint != other.fingerprint
    turned = replace(m.rates, mechanism=m.rates.mechanism[:, ::-1])
    assert ForestDistribution(m.layout, m.forest, turned).fingerprint != m.fingerprint
    assert "circuit" not in vars(m)


@settings(max_examples=examples(200))
@given(forests())
def test_edges_are_counted_without_the_circuit(m: ForestDistribution) -> None:
    n_edges = m.n_edges
    assert "circuit" not in vars(m)
    assert n_edges == m.circuit.graph.n_edges


@settings(max_examples=examples(200))
@given(forests(), st.randoms(use_true_random=False))
def test_fast_path_circuit_and_enumeration_agree(m: ForestDistribution, rnd: Random) -> None:
    check_against_the_twin(m, rnd)


@settings(max_examples=examples(60))
@given(forests())
def test_the_circuit_is_deterministic_and_both_independencies_hold(m: ForestDistribution) -> None:
    properties = m.circuit.properties()
    assert properties.smooth
    assert properties.decomposable
    assert properties.deterministic
    assert m.parity_gap().max() < 1e-9
    assert max(largest_dependence(m)) < 1e-9


@settings(max_examples=examples(50))
@given(forests(), st.randoms(use_true_random=False))
def test_labels_say_nothing_more_of_x_given_the_decision(
    m: ForestDistribution, rnd: Random
) -> None:
    """D ⟂ X given (Df, S) for whole rows of X with holes, by exact query of the circuit."""
    rows = rows_of(m, rnd)
    layout = m.layout
    for s, f in np.ndindex(layout.n_groups, layout.n_classes):
        codes = layout.codes(np.full(12, s), None, rows.x)
        codes[:, layout.decision] = f
        cell = np.full_like(codes, -1)
        cell[:, :2] = codes[:, :2]
        given_cell = np.exp(m.circuit.log_marginal(codes) - m.circuit.log_marginal(cell))
        for d in range(layout.n_classes):
            labelled, label = codes.copy(), cell.copy()
            labelled[:, layout.d] = label[:, layout.d] = d
            both, alone = (np.exp(m.circuit.log_marginal(c)) for c in (labelled, label))
            np.testing.assert_allclose(both, given_cell * alone, rtol=0, atol=1e-9)


@settings(max_examples=examples(50))
@given(forests())
def test_a_forest_comes_back_from_data_bit_for_bit(m: ForestDistribution) -> None:
    forest = m.forest
    again = Forest.from_dict(json.loads(json.dumps(forest.to_dict())))
    for name in ("tree", "shares", "leaf_rate"):
        np.testing.assert_array_equal(getattr(again, name), getattr(forest, name))
    for name in ("allowed", "values"):
        for one, two in zip(getattr(again, name), getattr(forest, name), strict=True):
            np.testing.assert_array_equal(one, two)
            assert one.dtype == two.dtype
    whole = ForestDistribution(m.layout, again, m.top_rates)
    np.testing.assert_array_equal(whole.circuit.parameters, m.circuit.parameters)
    np.testing.assert_array_equal(whole.circuit.graph.child, m.circuit.graph.child)


def test_a_forest_of_one_leaf_says_of_the_decision_what_its_densities_say() -> None:
    m = random_forest(Random(0), Sizes((2, 3), n_trees=1, n_clusters=1, n_leaves=1))
    assert m.layout.component is None
    check_against_the_twin(m, Random(1))
    x = rows_of(m, Random(2)).x
    nobody = np.zeros(len(x), int)
    rate = np.tile(m.decision_rate[0], (len(x), 1))
    assert np.abs(m.decision(nobody, x) - rate).max() > 0.01

    def of_the_first_class(array: Floats) -> Floats:
        return np.repeat(array[:, :1], array.shape[1], axis=1)

    forest = m.forest
    values = tuple(of_the_first_class(value) for value in forest.values)
    plain = replace(forest, shares=of_the_first_class(forest.shares), values=values)
    silent = ForestDistribution(replace(m.layout, n_components=1), plain, m.rates)
    np.testing.assert_allclose(silent.decision(nobody, x), rate, atol=1e-12)


@pytest.mark.parametrize(("n_trees", "n_leaves"), [(1, 65), (2, 64), (3, 70)])
def test_more_boxes_than_bits_of_a_word(n_trees: int, n_leaves: int) -> None:
    sizes = Sizes((5, 4, 6), n_trees=n_trees, n_leaves=n_leaves)
    m = random_forest(Random(n_leaves), sizes, zeros=0.2)
    assert len(m.forest.tree) == n_trees * n_leaves
    check_against_the_twin(m, Random(3))


def test_no_rows_have_no_probabilities() -> None:
    m = random_forest(Random(0), Sizes((2, 3)))
    none = np.empty((0, 2), np.int16)
    assert m.decision(np.empty(0, np.int16), none).shape == (0, 2)
    assert m.decision(None, none).shape == (0, 2)
    assert m.observed(None, none).shape == (0, 2)
    assert m.group(none).shape == (0, 2)
    assert m.log_likelihood(None, None, none).shape == (0,)


def test_chunks_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    m = random_forest(Random(4), Sizes((3, 4, 2), n_leaves=8))
    x = np.random.default_rng(0).integers(-1, 2, (500, 3)).astype(np.int16)
    s = np.arange(500) % 2
    whole = m.log_likelihood(s, None, x)
    monkeypatch.setattr(forest_module, "CHUNK", 7)
    np.testing.assert_array_equal(m.log_likelihood(s, None, x), whole)


def test_other_parameters_make_it_a_circuit_like_any_other() -> None:
    m = random_forest(Random(5), Sizes((2, 2)))
    theta = m.circuit.graph.uniform()
    other = m.with_parameters(theta)
    assert type(other) is FairDistribution
    x = np.array([[0, 1], [-1, 0]], np.int16)
    expected = other.circuit.log_marginal(other.layout.codes(None, None, x))
    np.testing.assert_array_equal(other.log_likelihood(None, None, x), expected)


def test_a_value_that_cannot_occur_has_log_probability_minus_infinity() -> None:
    """x = 2 has probability zero in every cluster; it must not become NaN."""
    values = np.array([[[[0.5, 0.5, 0.0]]] * 2, [[[0.25, 0.75, 0.0]]] * 2])
    forest = Forest(
        np.zeros(1, int),
        (np.ones((1, 3), bool),),
        np.ones((2, 2, 1)),
        (values,),
        np.ones((2, 2, 1)),
    )
    out = forest.log_densities(np.array([[2], [0], [-1]], np.int16), [0, 1, 0])
    np.testing.assert_allclose(out[:, 0], [-np.inf, np.log(0.25), 0.0])


@settings(max_examples=examples(20))
@given(forests())
def test_of_no_rows_nothing_is_said(m: ForestDistribution) -> None:
    x, s = np.zeros((0, len(m.layout.names)), np.int16), np.zeros(0, np.int16)
    for known in (None, s):
        assert m.decision(known, x).shape == (0, m.layout.n_classes)
        assert m.observed(known, x).shape == (0, m.layout.n_classes)
        assert m.posterior(known, s, x).shape == (0, m.layout.n_classes)
        assert m.log_likelihood(known, s, x).shape == (0,)
    assert m.group(x).shape == (0, m.layout.n_groups)


def one_leaf(**changed: Any) -> Forest:
    fields: dict[str, Any] = {
        "tree": np.zeros(2, int),
        "allowed": (np.eye(2, dtype=bool),),
        "shares": np.ones((2, 2, 1)),
        "values": (np.full((2, 2, 1, 2), 0.5),),
        "leaf_rate": np.full((2, 2, 2), 0.5),
    }
    return Forest(**fields | changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"tree": np.array([1, 1])},
        {"tree": np.array([0, 2])},
        {"tree": np.array([0, -1])},
        {"tree": np.array([[0], [0]]), "leaf_rate": np.ones((2, 2, 2))},
        {"allowed": (np.array([[True, False], [False, False]]),)},
        {"allowed": (np.ones((2, 3), bool),)},
        {"allowed": (np.ones((1, 2), bool),)},
        {"shares": np.full((2, 2, 1), 0.5)},
        {"shares": np.ones((2, 1))},
        {"values": (np.full((2, 2, 1, 2), 0.6),)},
        {"values": (np.array([[[[1.0, 0.0]]] * 2, [[[0.5, 0.5]]] * 2]),)},
        {"values": (np.full((2, 1, 2), 0.5),)},
        {"values": (), "allowed": ()},
        {"leaf_rate": np.full((2, 2, 2), np.nan)},
        {"leaf_rate": np.tile([1.5, -0.5], (2, 2, 1))},
        {"leaf_rate": np.full((2, 2, 2), 0.6)},
        {"leaf_rate": np.full((2, 2, 2, 1), 0.5)},
        {"leaf_rate": np.full((3, 2, 2), 0.5)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(changed: dict[str, Any]) -> None:
    assert one_leaf().n_trees == 1
    with pytest.raises(LearningError, match="do not fit together"):
        one_leaf(**changed)


def in_one_box(forest: Forest) -> bool:
    """Whether every x is in one box of each tree, by looking at each."""
    arities = [box.shape[1] for box in forest.allowed]
    inside = [
        np.logical_and.reduce([box[:, v] for box, v in zip(forest.allowed, x, strict=True)])
        for x in itertools.product(*map(range, arities))
    ]
    n_trees = int(forest.tree[-1]) + 1
    return all((np.bincount(forest.tree[held], minlength=n_trees) == 1).all() for held in inside)


@settings(max_examples=examples(100))
@given(forests(), st.randoms(use_true_random=False))
def test_boxes_that_overlap_or_leave_rows_out_are_refused(
    m: ForestDistribution, rnd: Random
) -> None:
    """A bit of a box is turned; where a box is then empty, or all is well, nothing is asked."""
    assert in_one_box(m.forest)
    allowed = [box.copy() for box in m.forest.allowed]
    j = rnd.randrange(len(allowed))
    at = rnd.randrange(len(allowed[j])), rnd.randrange(allowed[j].shape[1])
    allowed[j][at] = not allowed[j][at]
    if allowed[j][at[0]].any():
        with pytest.raises(LearningError, match=r"boxes of a tree overlap|do not fit together"):
            replace(m.forest, allowed=tuple(allowed))


def test_one_row_of_a_billion_in_no_box_is_found() -> None:
    """Nine features of ten values: one corner is in no box, and no density would show it."""
    n, corner = 9, np.arange(10) > 0
    boxes = [[np.ones(10, bool)] * n for _ in range(n)]
    for i in range(n):  # the rows whose first feature above 0 is the i-th
        boxes[i] = [~corner] * i + [corner] + [np.ones(10, bool)] * (n - i - 1)
    none = [~corner] * n
    fields: dict[str, Any] = {
        "shares": np.ones((2, 2, 1)),
        "values": (np.full((2, 2, 1, 10), 0.1),) * n,
    }

    def made(some: list[list[Any]]) -> Forest:
        rate = np.full((2, 2, len(some)), 1 / len(some))
        allowed = tuple(np.array([box[j] for box in some]) for j in range(n))
        return Forest(np.zeros(len(some), int), allowed, leaf_rate=rate, **fields)

    assert made([*boxes, none]).n_trees == 1
    for some in (boxes, [*boxes, none, none]):
        with pytest.raises(LearningError, match="boxes of a tree overlap, or leave rows out"):
            made(some)


@pytest.mark.parametrize("rare", [0.0, 5e-324, 1e-300, 1e-200, 1e-20])
@pytest.mark.parametrize("beside", [0.0, 1e-9])
def test_a_box_holds_so_much_that_its_density_is_a_number(rare: float, beside: float) -> None:
    """Two boxes, one of which allows one value: a file may say that nearly nothing is in it.

    The value beside it, which is never alone, keeps the least x from telling what a box holds.
    """
    values: Floats = np.array([[[[1.0 - beside, beside, rare]]] * 2] * 2)
    boxes = np.array([[1, 1, 0], [0, 0, 1]], bool)
    fields = np.zeros(2, int), (boxes,), np.ones((2, 2, 1)), (values,), np.full((2, 2, 2), 0.5)
    if rare < forest_module.LEAST_MASS:
        with pytest.raises(LearningError, match="do not fit together"):
            Forest(*fields)
    else:
        dense = Forest(*fields).log_densities(np.array([[2], [-1]], np.int16), [0, 1])
        np.testing.assert_allclose(np.exp(dense), [[0.5] * 2, [1.0] * 2], rtol=1e-12)


def test_too_large_a_forest_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 40_000
    with pytest.raises(LearningError, match="40000 leaves of 1 clusters each"):
        one_leaf(tree=np.arange(n), leaf_rate=np.ones((2, 2, n)), allowed=(np.ones((n, 2)) > 0,))
    monkeypatch.setattr(forest_module, "MAX_CELLS", 3)
    with pytest.raises(LearningError, match="their product may be 3"):
        one_leaf()


def test_features_are_more_than_the_bits_of_a_word() -> None:
    """What a box cuts is kept in words of 64 features: both words count, and their last bits."""
    rnd = Random(3)
    m = random_forest(rnd, Sizes((2,) * 130, n_leaves=40, n_clusters=3))
    cut = {j for j, box in enumerate(m.forest.allowed) if not box.all()}
    assert cut & set(range(64))
    assert cut & set(range(64, 128))
    holes = np.array([[rnd.random() < 0.7 for _ in range(130)] for _ in range(5)])
    values = np.array([[rnd.randrange(2) for _ in range(130)] for _ in range(5)])
    x = np.where(holes, -1, values).astype(np.int16)
    for s in range(2):
        dense = m.forest.log_densities(x, np.full(len(x), s))
        slow = [
            [oracle.forest_density(m.forest, s, f, tuple(z)) for f in range(2)] for z in x.tolist()
        ]
        np.testing.assert_allclose(np.exp(dense), slow, rtol=1e-10)


def test_a_density_is_the_average_of_what_trees_say() -> None:
    """By hand: two trees of two leaves over one feature of three values, P(x) = .5 .3 .2.

    Tree 0 cuts {0} | {1, 2} with rates .8, .2 and tree 1 {0, 1} | {2} with .6, .4, so that
    P(1) = (.2 · .3/.5 + .6 · .3/.8) / 2 = (.12 + .225) / 2 = .1725.
    """
    values: Floats = np.array([[[[0.5, 0.3, 0.2]]] * 2] * 2)
    boxes = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 0], [0, 0, 1]], bool)
    rate = np.tile([0.8, 0.2, 0.6, 0.4], (2, 2, 1))
    forest = Forest(np.array([0, 0, 1, 1]), (boxes,), np.ones((2, 2, 1)), (values,), rate)
    out = np.exp(forest.log_densities(np.array([[1]], np.int16), [0]))
    np.testing.assert_allclose(out, 0.1725, rtol=1e-12)


@settings(max_examples=examples(40), deadline=None)
@given(forests())
def test_each_tree_decides_as_a_forest_of_its_own(m: ForestDistribution) -> None:
    forest = m.forest
    every = np.indices([value.shape[3] for value in forest.values])
    x = every.reshape(len(forest.values), -1).T.astype(np.int16)
    for s in range(m.layout.n_groups):
        rate = np.tile(m.rates.decision_rate, (len(x), 1))
        found = forest.tree_decisions(x, np.full(len(x), s), rate)
        for k in range(forest.n_trees):
            of_tree = forest.tree == k
            alone = replace(
                forest,
                tree=np.zeros(int(of_tree.sum()), np.int64),
                allowed=tuple(box[of_tree] for box in forest.allowed),
                leaf_rate=forest.leaf_rate[:, :, of_tree],
            )
            here = np.isfinite(alone.log_densities(x, np.full(len(x), s))).any(axis=1)
            decided = ForestDistribution(m.layout, alone, m.rates).decision(
                np.full(int(here.sum()), s), x[here]
            )
            np.testing.assert_allclose(found[here, k], decided, atol=1e-10)


def test_the_kernel_without_jit() -> None:
    run_uncompiled(__file__)


def main() -> None:
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        raise SystemExit("set NUMBA_DISABLE_JIT=1")
    warnings.filterwarnings("ignore", "(divide by zero|overflow) encountered")
    quiet = settings(
        max_examples=5,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    quiet(given(forests(), st.randoms(use_true_random=False))(check_against_the_twin))()
    big = random_forest(Random(6), replace(Sizes((4, 5, 4)), n_trees=1, n_leaves=66))
    check_against_the_twin(big, Random(7))


if __name__ == "__main__":
    main()
