"""Wide products, many rows with holes, and small likelihoods against enumeration."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

import oracle
from fairpc.circuit import PRODUCT, Circuit, CircuitBuilder, _program as program, prepare
from fairpc.data import Table
from fairpc.structure import Stop, Strudel, learn_cells
from strategies import examples, many


def split_circuit() -> Circuit:
    """Eight features after forty splits: products within products, shared by many sums."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 3, 2000)
    rows = (rng.random((2000, 8)) < rng.random((3, 8))[cluster]).astype(int)
    cells = learn_cells([Table.of(rows)], method=Strudel(stop=Stop(40)))
    builder = CircuitBuilder({f"X{i}": 2 for i in range(8)})
    return builder.build(cells.graft(builder, 0, range(8)))


def test_many_rows_with_holes_against_enumeration() -> None:
    c = split_circuit()
    rng = np.random.default_rng(2)
    holes = rng.integers(-1, 2, (many(40_000), 8)).astype(np.int16)
    some = rng.integers(0, len(holes), 200)
    found = c.log_marginal(holes)
    assert (found == c.log_marginal(holes, n_threads=2)).all()
    oracle.agree(found[some], np.log(oracle.marginals(c, holes[some])))
    found = c.posterior("X2", holes)[some]
    for row, shares in zip(holes[some], found, strict=True):
        oracle.agree(shares, oracle.conditionals(c, row[None])[2][0])


def test_small_likelihoods_keep_their_digits() -> None:
    b = CircuitBuilder({"A": 2, "B": 2, "C": 2})
    tiny = [1e-200, 1 - 1e-200]
    product = b.product(*(b.categorical(x, tiny) for x in "ABC"))
    c = b.build(product)
    rows = np.tile([[0, 0, -1], [0, -1, 1], [0, 0, 0]], (many(1000), 1))
    found = c.log_marginal(rows)
    oracle.agree(found[:3], np.log(1e-200) * np.array([2.0, 1.0, 3.0]))


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_flows_of_wide_products_against_enumeration(seed: int, n_features: int) -> None:
    """A naive Bayes model, whose products have a factor for each feature."""
    rng = np.random.default_rng(seed)
    names = [f"X{i}" for i in range(n_features)]
    b = CircuitBuilder({"D": 2} | dict.fromkeys(names, 2))
    cells = [
        b.product(
            b.indicator("D", d),
            *(b.categorical(x, rng.dirichlet([1.0, 1.0]).tolist()) for x in names),
        )
        for d in range(2)
    ]
    c = b.build(b.sum(cells, [0.3, 0.7]))
    paired, plain = program.paired(c.graph), program.program_of(c.graph)
    assert (paired is plain) == (n_features < program.MOST_FACTORS)
    products = paired.arrays.kind == PRODUCT
    assert np.diff(paired.arrays.child_ptr)[products].max() <= program.MOST_FACTORS
    codes = rng.integers(-1, 2, (30, n_features + 1))
    plan = prepare(c.graph, Table.of(codes, arities=c.arities), path="active")
    logs, flows = plan(c.parameters)
    truth = oracle.expected_flows(c, codes).sum(axis=0)
    oracle.agree(flows, oracle.by_parameter(c.graph, truth))
    oracle.agree(logs, np.log(oracle.marginals(c, codes)).sum())
