"""Benchmarks of the circuit engine: ratios within one run, and the figures behind them.

python benchmarks/engine.py            all of them
python benchmarks/engine.py a c        some of them, by letter

Seconds are of the processor, and `make bench` allows one thread (FAIRPC_THREADS, OMP_NUM_THREADS);
two threads are compared with one by the clock.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from adult_like import DF, Codes, adult_rows, latent_circuit, with_holes
from clock import best, timed
from fairpc.circuit import Circuit, RowPlan, laplace, prepare
from fairpc.circuit._chunks import project
from fairpc.circuit._em import fit
from fairpc.circuit._program import Program, program_of
from fairpc.data import Table, check_codes
from numpy_twin import flows as twin_flows, log_values as twin_log_values


def rows_apart(program: Program, rows: Codes, theta: npt.NDArray[np.float64], down: bool) -> None:
    """The general kernel with every row standing alone: no merging of any kind."""
    codes = check_codes(rows, program.graph.arities)
    step = 256
    for start in range(0, len(codes), step):
        chunk = project(program, codes, start, min(start + step, len(codes)), merge=False)
        val = np.empty(chunk.n_values)
        chunk.upward(theta, val)
        if down:
            flow = np.zeros(chunk.n_values)
            flow[chunk.root] = 1.0
            chunk.downward(theta, val, flow, np.zeros(program.graph.n_edges))


def against_numpy(circuit: Circuit, rows: Codes) -> None:
    print("(a) against the NumPy twin, one thread")
    program, theta = program_of(circuit.graph), circuit.parameters
    some = rows[:4000]
    for name, sample in (("Df hidden", some), ("30 % missing", with_holes(some, 0.3))):
        twin = best(partial(twin_log_values, circuit, sample), 3)
        apart = best(partial(rows_apart, program, sample, theta, False))
        ours = best(partial(circuit.log_marginal, sample, n_threads=1))
        print(
            f"    marginals, {name:13s} twin {1e6 * twin / len(some):7.2f} µs/row"
            f"   rows apart {twin / apart:4.0f} ×   merged per scope {twin / ours:4.0f} ×"
        )
        twin = best(partial(twin_flows, circuit, sample), 2)
        apart = best(partial(rows_apart, program, sample, theta, True))
        table = Table.of(sample, arities=circuit.arities)
        general, active = (
            best(partial(prepare(circuit.graph, table, path=path, n_threads=1), theta))
            for path in ("general", "active")
        )
        print(
            f"    flows,     {name:13s} twin {1e6 * twin / len(some):7.2f} µs/row"
            f"   rows apart {twin / apart:4.0f} ×   merged per scope {twin / general:4.0f} ×"
            f"   active {twin / active:4.0f} ×"
        )


def em_iterations(circuit: Circuit, rows: Codes) -> None:
    print("(b) EM iteration, one thread")
    program, theta = program_of(circuit.graph), circuit.parameters
    prior = laplace(circuit.graph, 1.0)
    for name, sample in (("Df hidden", rows), ("30 % missing", with_holes(rows, 0.3))):
        table = Table.of(sample, arities=circuit.arities)
        apart = best(partial(rows_apart, program, sample, theta, True), 3)
        plan, made = timed(partial(prepare, circuit.graph, table, n_threads=1))
        general = prepare(circuit.graph, table, path="general", n_threads=1)
        scoped, active = (best(partial(p, theta)) for p in (general, plan))
        print(
            f"    {name}, {len(rows)} rows, {plan.n_distinct} distinct, {plan.n_active} active: "
            f"rows apart {1e3 * apart:.2f} ms,\n        merged per scope {1e3 * scoped:.2f} ms "
            f"({apart / scoped:.0f} ×), active {1e3 * active:.3f} ms ({apart / active:.0f} ×; "
            f"plan {1e3 * made:.0f} ms)"
        )
        seconds = best(partial(fit, plan, theta, prior=prior, max_iter=500, tol=0), 2)
        print(f"        500 EM iterations in all {seconds:.3f} s")


def faster(one: Callable[[], object], two: Callable[[], object]) -> float:
    """By how much the second is faster, by the clock."""
    return best(one, 5, time.perf_counter) / best(two, 5, time.perf_counter)


def throughput(circuit: Circuit, rows: Codes) -> None:
    print("(c) rows per second")
    whole = rows.copy()
    whole[:, DF] = np.random.default_rng(0).integers(0, 2, len(rows))
    large = np.tile(whole, (8, 1))
    cases = {
        "complete": large,
        "30 % missing": with_holes(large, 0.3),
        "half missing": with_holes(large, 0.5),
    }
    for name, sample in cases.items():
        one = best(partial(circuit.log_marginal, sample, n_threads=1), 5)
        threads = (partial(circuit.log_marginal, sample, n_threads=k) for k in (1, 2))
        print(
            f"    marginals, {name:13s} {len(sample) / one / 1e6:6.2f} M/s on one thread, "
            f"{faster(*threads):.2f} × on two"
        )
    for name, sample in cases.items():
        table = Table.of(sample, arities=circuit.arities)
        plans = [prepare(circuit.graph, table, n_threads=k) for k in (1, 2)]
        asked = [partial(p, circuit.parameters) for p in plans]
        one = best(asked[0], 5)
        print(
            f"    flows,     {name:13s} {len(sample) / one / 1e6:6.2f} M/s on one thread, "
            f"{faster(*asked):.2f} × on two, "
            f"{plans[0].n_distinct} distinct of {len(sample)}"
        )


def prepared(circuit: Circuit, rows: Codes) -> RowPlan:
    return prepare(circuit.graph, Table.of(rows, arities=circuit.arities))


def growth(circuit: Circuit) -> None:
    print("(d) growth")
    rng = np.random.default_rng(0)
    for power in (4, 5, 6, 7):
        rows = circuit.sample(10**power, rng)
        _, likelihood = timed(partial(circuit.log_marginal, rows))
        plan, made = timed(partial(prepared, circuit, rows))
        iteration = best(partial(plan, circuit.parameters), 3)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"    10^{power} rows: likelihood {likelihood:7.3f} s, plan {made:7.3f} s for "
            f"{plan.n_distinct:6d} distinct, EM iteration {1e3 * iteration:7.3f} ms, "
            f"peak memory {peak:.2f} GB"
        )
    for power in (4, 5, 6):
        rows = with_holes(circuit.sample(10**power, rng), 0.3)
        plan, made = timed(partial(prepared, circuit, rows))
        iteration = best(partial(plan, circuit.parameters), 3)
        print(
            f"    10^{power} rows, 30 % missing: {plan.n_distinct:7d} distinct, "
            f"plan {made:6.3f} s, EM iteration {1e3 * iteration:7.2f} ms, "
            f"{1e6 * iteration / plan.n_distinct:.2f} µs per distinct row"
        )
    rows, _ = adult_rows()
    for splits in (50, 100, 200, 400, 800):
        larger = latent_circuit(rows, splits)
        holes = with_holes(rows, 0.3)
        g = larger.graph
        one = best(partial(larger.log_marginal, holes, n_threads=1), 3)
        print(
            f"    {g.n_nodes:5d} nodes, {g.n_edges:5d} edges: {1e6 * one / len(rows):.3f} µs/row"
            f" at 30 % missing, {1e9 * one / len(rows) / g.n_edges:.3f} ns per row and edge"
        )


COLD = """
import time; start = time.perf_counter(); cpu = time.process_time()
import sys; sys.path.insert(0, {here!r})
import numpy as np
from fairpc.circuit import CircuitBuilder
from fairpc.circuit._expected_flows import prepare, row_flows
from fairpc.data import Table
b = CircuitBuilder({{"S": 2, "X": 3}})
cells = [b.product(b.indicator("S", s), b.categorical("X", [.2, .3, .5])) for s in range(2)]
c = b.build(b.sum(cells, [.4, .6]))
rows = c.sample(100, 0); holes = rows.copy(); holes[::2, 1] = -1
c.log_marginal(holes); c.conditionals(holes); c.mpe(holes); c.sample_given(holes, 0)
row_flows(c, holes[:2])
t = Table.of(holes, arities=c.arities)
for path in ("active", "general"):
    plan = prepare(c.graph, t, path=path); plan(c.parameters)
tiny = c.with_parameters([1e-300, 1 - 1e-300, 0, 1e-300, 1 - 1e-300, 0, 1e-300, 1 - 1e-300][: c.graph.n_parameters])
prepare(c.graph, t)(tiny.parameters)
print(f"{{time.perf_counter() - start:.2f}} {{time.process_time() - cpu:.2f}}")
"""  # noqa: E501


def compile_time() -> None:
    print("(e) cold compilation of every engine kernel, and the second process")
    code = COLD.format(here=str(Path(__file__).parent))
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        for name in ("cold", "second process"):
            run = subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, text=True
            )
            print(f"    {name:15s} {run.stdout.strip() or run.stderr[-500:]} s (wall, CPU)")
    importing = (
        "import time; t = time.perf_counter(); import fairpc; "
        "print(f'{time.perf_counter() - t:.3f}')"
    )
    run = subprocess.run([sys.executable, "-c", importing], capture_output=True, text=True)
    print(f"    import fairpc   {run.stdout.strip()} s")


def main(chosen: list[str]) -> None:
    rows, source = adult_rows()
    circuit = latent_circuit(rows)
    g = circuit.graph
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, NumPy {np.__version__}"
    )
    print(
        f"{source}: {len(rows)} rows × {rows.shape[1]} columns; circuit of {g.n_nodes} nodes, "
        f"{g.n_edges} edges, {g.n_parameters} parameters"
    )
    benchmarks: dict[str, Callable[[], None]] = {
        "a": lambda: against_numpy(circuit, rows),
        "b": lambda: em_iterations(circuit, rows),
        "c": lambda: throughput(circuit, rows),
        "d": lambda: growth(circuit),
        "e": compile_time,
    }
    for letter in chosen or benchmarks:
        benchmarks[letter]()


if __name__ == "__main__":
    main(sys.argv[1:])
