"""The circuit engine on the paper's Figure 2: exact queries, expected flows, EM with Df hidden."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, Final

import numpy as np

from fairpc.circuit import SUM, Circuit, CircuitBuilder, laplace, prepare
from fairpc.circuit._em import fit, maximum_likelihood
from fairpc.circuit._expected_flows import row_flows
from fairpc.cli._screen import grid, print_json, say
from fairpc.core import Codes
from fairpc.data import Table
from fairpc.data._table import MISSING

Facts = dict[str, Any]

# The process of Section "Synthetic Data": S = 1 is the minority, and D favours the majority.
P_S: Final = (0.7, 0.3)
P_DF: Final = (0.5, 0.5)
P_D: Final = {(0, 0): 0.4, (0, 1): 0.9, (1, 0): 0.1, (1, 1): 0.8}  # P(D = 1 | s, f)
P_X1: Final = {(0, 0): 0.25, (0, 1): 0.8, (1, 0): 0.15, (1, 1): 0.7}
P_X2: Final = {
    (0, 0): (0.6, 0.3, 0.1),
    (0, 1): (0.1, 0.3, 0.6),
    (1, 0): (0.7, 0.2, 0.1),
    (1, 1): (0.2, 0.3, 0.5),
}
CELLS: Final = tuple(P_D)
VARIABLES: Final = {"S": 2, "Df": 2, "D": 2, "X1": 2, "X2": 3}
DF: Final = list(VARIABLES).index("Df")
D: Final = list(VARIABLES).index("D")

EVIDENCE: Final[tuple[dict[str, int], ...]] = (
    {},
    {"S": 0},
    {"S": 1},
    {"D": 1},
    {"S": 1, "D": 0},
    {"X1": 1, "X2": 2},
    {"S": 1, "D": 0, "X1": 1, "X2": 2},
)
FLOW_EVIDENCE: Final = {"S": 1, "D": 0, "X1": 1, "X2": 2}
TRUST: Final = 0.9  # EM starts from P(D = f | f, s) near this


def figure_two() -> Circuit:
    """Figure 2 over S, Df, D and two features.

    The paper's θ1 to θ4 are φ_s · φ_f: here a sum over S with, below each value,
    a sum over Df. These inner sums share their parameters, so Df is independent of S.
    """
    b = CircuitBuilder(VARIABLES)

    def cell(s: int, f: int) -> int:
        key = s, f
        return b.product(
            b.indicator("Df", f),
            b.categorical("D", (1.0 - P_D[key], P_D[key]), tie=("D", key)),
            b.categorical("X1", (1.0 - P_X1[key], P_X1[key]), tie=("X1", key)),
            b.categorical("X2", P_X2[key], tie=("X2", key)),
        )

    groups = [
        b.product(b.indicator("S", s), b.sum([cell(s, 0), cell(s, 1)], P_DF, tie="Df"))
        for s in (0, 1)
    ]
    return b.build(b.sum(groups, P_S))


def _codes_of(evidence: Iterable[Mapping[str, int]]) -> Codes:
    """Evidence by name as rows of codes, -1 where nothing is known."""
    return np.array([[e.get(v, MISSING) for v in VARIABLES] for e in evidence], np.int16)


def _mechanism(circuit: Circuit) -> list[float]:
    """P(D = 1 | Df, S) of each cell, by exact queries."""
    evidence = _codes_of({"S": s, "Df": f} for s, f in CELLS)
    return [float(p) for p in circuit.conditionals(evidence)[D][:, 1]]


def _query_facts(circuit: Circuit) -> list[Facts]:
    """P(e) and P(Df = 1 | e) for evidence with more and less missing."""
    codes = _codes_of(EVIDENCE)
    log_p, given = circuit.log_marginal(codes), circuit.conditionals(codes)
    return [
        {"evidence": e, "probability": math.exp(lp), "p_df": float(p)}
        for e, lp, p in zip(EVIDENCE, log_p, given[DF][:, 1], strict=True)
    ]


def _flow_facts(circuit: Circuit) -> list[Facts]:
    """Expected flows of the red and the green edge of Figure 2, beside P(Df | S = 1, d, x)."""
    graph = circuit.graph
    group = graph.children(graph.root)[FLOW_EVIDENCE["S"]]
    inner = next(c for c in graph.children(group) if graph.kind[c] == SUM)
    codes = _codes_of([FLOW_EVIDENCE])
    flow = row_flows(circuit, codes)[0, graph.child_ptr[inner] : graph.child_ptr[inner + 1]]
    given = circuit.conditionals(codes)[DF][0]
    return [
        {"edge": edge, "df": f, "flow": float(flow[f]), "p_df": float(given[f])}
        for edge, f in (("red", 1), ("green", 0))
    ]


def _em_facts(truth: Circuit, rows: int, seed: int) -> Facts:
    """Sample rows, hide Df, and learn all parameters back by EM."""
    began = perf_counter()
    observed = truth.sample(rows, np.random.default_rng(seed))
    observed[:, DF] = MISSING
    table = Table.of(observed, arities=truth.arities, names=truth.names).merged()
    graph, prior = truth.graph, laplace(truth.graph, 1.0)
    start = maximum_likelihood(graph, _trusting(table), prior=prior)
    result = fit(prepare(graph, table), start.parameters, prior=prior, tol=1e-9)
    learned = start.with_parameters(result.parameters)
    columns = zip(CELLS, _mechanism(truth), _mechanism(start), _mechanism(learned), strict=True)
    return {
        "rows": rows,
        "distinct_rows": table.n_rows,
        "seed": seed,
        "iterations": result.n_iter,
        "converged": bool(result.converged),
        "log_likelihood": [float(ll) / rows for ll in result.history["log_likelihood"]],
        "true_log_likelihood": float(table.weights @ truth.log_marginal(table.codes)) / rows,
        "mechanism": [
            {"s": s, "df": f, "true": p, "start": p0, "learned": p1}
            for (s, f), p, p0, p1 in columns
        ],
        "seconds": perf_counter() - began,
    }


def _trusting(table: Table) -> Table:
    """Rows completed as if D were right nine times out of ten: Df = D, or else the other value."""
    same, other = table.codes.copy(), table.codes.copy()
    same[:, DF] = table.codes[:, D]
    other[:, DF] = 1 - table.codes[:, D]
    weights = np.concatenate([TRUST * table.weights, (1.0 - TRUST) * table.weights])
    return Table.of(np.vstack([same, other]), weights, arities=table.arities, names=table.names)


def circuit_facts(rows: int, seed: int) -> Facts:
    """What the circuit demo shows, as plain data."""
    circuit = figure_two()
    graph = circuit.graph
    size = {"nodes": graph.n_nodes, "edges": graph.n_edges, "parameters": graph.n_parameters}
    return {
        "circuit": size | {"properties": {p.name: bool(p) for p in circuit.properties()}},
        "queries": _query_facts(circuit),
        "flows": _flow_facts(circuit),
        "em": _em_facts(circuit, rows, seed),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows that are sampled for EM")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    found = circuit_facts(given.rows, given.seed)
    if given.json:
        print_json(found)
    else:
        _show_circuit(found)
        _show_em(found["em"])


def _show_circuit(found: Facts) -> None:
    size = found["circuit"]
    held = [name.replace("_", "-") for name, holds in size["properties"].items() if holds]
    say("A probabilistic circuit over S, Df, D, X1, X2 (Figure 2 of the paper):")
    say(
        f"{size['nodes']} nodes, {size['edges']} edges, {size['parameters']} parameters; "
        f"{', '.join(held)}.\n"
    )
    say("Exact queries: whatever is not known is marginalised.\n")
    grid(
        ("known", "P(known)", "P(Df = 1 | known)"),
        [
            (_words(q["evidence"]), f"{q['probability']:.6f}", f"{q['p_df']:.6f}")
            for q in found["queries"]
        ],
    )
    say("Df is independent of S in this circuit: P(Df = 1 | S) is the same for both groups.\n")
    say(f"Expected flows given {_words(FLOW_EVIDENCE)}: they are the posterior of Df.\n")
    grid(
        ("edge of Figure 2", "expected flow", "P(Df | known)"),
        [
            (f"{e['edge']} (S = 1, Df = {e['df']})", f"{e['flow']:.10f}", f"{e['p_df']:.10f}")
            for e in found["flows"]
        ],
    )


def _words(evidence: Mapping[str, int]) -> str:
    return ", ".join(f"{v} = {x}" for v, x in evidence.items()) or "nothing"


def _show_em(found: Facts) -> None:
    curve, cells, shown = found["log_likelihood"], found["mechanism"], ("true", "start", "learned")
    say(
        f"EM on {found['rows']:,} sampled rows ({found['distinct_rows']} distinct) in which Df is "
        f"hidden: {found['iterations']} iterations.\n"
        f"Log-likelihood per row: {curve[0]:.5f} at the start, {curve[-1]:.5f} at the end; "
        f"of the circuit that made the rows: {found['true_log_likelihood']:.5f}.\n"
    )
    grid(
        ("P(D = 1 | Df, S)", *shown),
        [(f"Df = {m['df']}, S = {m['s']}", *(f"{m[k]:.3f}" for k in shown)) for m in cells],
    )
    say(
        "P(D | Df, S) is recovered because X1 and X2 are independent given Df and S here. "
        "With a free P(X1, X2 | Df, S) the data would leave a range of answers."
    )


if __name__ == "__main__":
    main()
