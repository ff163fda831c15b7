"""``fairpc demo``: the main job on census data; with ``--circuit`` the engine on Figure 2."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fairpc.circuit.builder import CircuitBuilder
from fairpc.circuit.em import fit, laplace, maximum_likelihood
from fairpc.circuit.flows import prepare, row_flows
from fairpc.circuit.graph import SUM, Circuit
from fairpc.cli.compare import show as show_comparison
from fairpc.cli.fit import estimator as model_of
from fairpc.cli.fit import facts, show_learned
from fairpc.cli.options import Learner, Roles
from fairpc.cli.screen import Screen, grid, print_json, say
from fairpc.cli.tables import LabelledTable
from fairpc.data.atomic import check_writable
from fairpc.data.source import Warned
from fairpc.data.table import MISSING, Table
from fairpc.errors.arrays import Codes

if TYPE_CHECKING:
    from fairpc.auditing import Audit
    from fairpc.comparison import Comparison
    from fairpc.estimators.base import CircuitClassifier

Facts = dict[str, Any]

# The structure search of the paper, without the recipe on top of it: seconds, not a minute.
STRUCTURE: Final = "strudel"
# A sampling weight, and a copy of another column: facts about the table, not about a person.
ROLES: Final = Roles(["target"], ["sex"], positive=">50K", drop=["fnlwgt", "education-num"])
SOURCE: Final = "UCI Adult"


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demo found: the fit, the comparison, the audit of rows that were held out."""

    fit: dict[str, Any]
    comparison: Comparison
    audit: Audit


def run(output: str, circuit: bool, rows: int, seed: int, screen: Screen) -> None:
    """Fit, compare, audit, and write the report; or show the engine."""
    if circuit:
        run_circuit(rows, seed, screen)
        return
    check_writable(output)
    began = perf_counter()
    warned = Warned()
    with warned.watching():
        found = demonstrate(seed, screen)
    found.audit.save(output)
    seconds = perf_counter() - began
    if screen.json:
        audit = found.audit.to_dict()
        parts = {name: audit[name] for name in ("verdict", "labels", "decidable", "parity")}
        facts = {"fit": found.fit, "comparison": found.comparison.to_dict(), "audit": parts}
        print_json(facts | {"report": output, "seconds": seconds})
    elif screen.talks:
        show(found)
        say(f"\nThe whole report is in {output} ({seconds:.0f} s in all).", "bold")
    screen.notes(warned)


def demonstrate(seed: int, screen: Screen) -> Demo:
    """Fit to UCI's training part; compare and audit on its test part."""
    from fairpc.auditing import audit
    from fairpc.baselines import LR
    from fairpc.comparison import compare
    from fairpc.refits.workbench import progress

    train, test = _table("train"), _table("test")
    learner = Learner(structure=STRUCTURE, seed=seed)
    estimator = model_of(learner, ROLES, verbose=screen.shows_progress)
    began = perf_counter()
    model: CircuitClassifier = estimator.fit(train.X, train.y)
    fitted = facts(model, train, perf_counter() - began)
    rows = np.arange(train.height + test.height)
    folds = [(rows[: train.height], rows[train.height :])]
    both, y = train.X.vstack(test.X), train.y.append(test.y)
    models = {"FairPC": estimator, "LR": LR()}
    with progress(screen.shows_progress, None) as step:
        comparison = compare(models, both, y, cv=folds, positive=ROLES.positive, progress=step)
        # Other methods are compared above, on all rows.
        record = audit(model, test.X, test.y, random_state=seed, baselines=False, progress=step)
    return Demo(fitted, comparison, record)


def _table(part: Any) -> LabelledTable:
    from fairpc.datasets import load_adult

    frame = load_adult(subset=part).frame.drop(ROLES.drop)
    counts = frame.group_by("target").len()
    return LabelledTable(SOURCE, ROLES, frame.drop("target"), frame["target"].clone(), counts)


def show(found: Demo) -> None:
    """Print what was learned, how it compares, and what the audit says."""
    from fairpc.evidence.assumptions import WHAT_TO_DO

    fitted = found.fit
    say(
        f"{SOURCE}: {fitted['rows']:,} people of the 1994 United States census (UCI's training "
        "part). The label says whether the income is above 50,000 dollars; the groups are by sex.\n"
        f"FairPC with the paper's structure search ({STRUCTURE}); `fairpc fit` without --structure "
        "takes longer and fits better.\n",
    )
    show_learned(fitted)
    say("\nCompared with logistic regression (LR), on UCI's test part, which neither has seen:\n")
    show_comparison(found.comparison)
    say("\nWhat an audit of the test part says:\n")
    for i, sentence in enumerate(found.audit.verdict.sentences):
        say(sentence, "bold" if i == 0 else "")
    if found.audit.verdict.rejected:
        say("\nWhat to do when the assumptions are rejected:", "bold")
        for advice in WHAT_TO_DO:
            say(f"  - {advice}")
    say(f"\n{found.audit.verdict.disclaimer}")


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
    table, _ = Table.of(observed, arities=truth.arities, names=truth.names).merged()
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


def run_circuit(rows: int, seed: int, screen: Screen) -> None:
    """Show the engine on the paper's Figure 2: one JSON object, or tables."""
    found = circuit_facts(rows, seed)
    if screen.json:
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
    say("Exact queries: unknown values are summed out.\n")
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
