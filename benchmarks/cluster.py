"""An iteration of EM on a cluster of processes beside the same with threads, in one run.

    python benchmarks/cluster.py                  2 million distinct rows of 40 columns, 2 processes
    python benchmarks/cluster.py --rows 2e5       fewer

Of some iterations the least time on the clock, which lies where other work keeps the cores
busy, and the mean CPU time of all processes, which does so less. The last line is for workers
with the memory settings that Dask gives them, in place of ours.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np

from fairpc.circuit.flows import FlowPlan
from fairpc.circuit.graph import Circuit, FloatArray
from fairpc.cluster import client as cluster
from fairpc.cluster.parts import DaskParts
from fairpc.cluster.passes import exchanged
from fairpc.data.distinct import Distinct, Packing
from fairpc.fair.fit import row_plan
from fairpc.fair.parted import PartedRows
from fairpc.fair.rows import Rows
from fairpc.fair.start import Structure, learn_structure, start_circuit
from fairpc.fair.top import Layout

FEATURES = 38
SAMPLE = 50_000


def wide_rows(n: int, seed: int = 0) -> tuple[Packing, Distinct]:
    """Distinct rows of S, D and 38 features of four values that follow a hidden class."""
    rng = np.random.default_rng(seed)
    packing = Packing((2, 2, *(4,) * FEATURES))
    f = rng.random(n, np.float32) < 0.4
    columns = [rng.integers(0, 2, n).astype(np.int16)]
    columns.append((f ^ (rng.random(n, np.float32) < 0.1)).astype(np.int16))
    for _ in range(FEATURES):
        more = f & (rng.random(n, np.float32) < 0.5)
        columns.append(rng.integers(0, 3, n).astype(np.int16) + more.astype(np.int16))
    return packing, Distinct.of(packing.pack(columns))


def as_rows(distinct: Distinct, packing: Packing) -> Rows:
    codes = packing.unpack(distinct.words)
    names = tuple(f"x{j}" for j in range(FEATURES))
    arities = np.array(packing.arities[2:], np.int64)
    return Rows(codes[:, 0], codes[:, 1], codes[:, 2:], distinct.weights, 2, 2, arities, names)


@dataclass(frozen=True)
class Timed:
    """An iteration: the least seconds on the clock, mean CPU seconds of all processes, flows."""

    clock: float
    cpu: float
    flows: FloatArray


def timed(plan: FlowPlan, theta: FloatArray, repeats: int, cpu: Callable[[], float]) -> Timed:
    """Some iterations, after a first one that makes rows ready."""
    plan(theta)
    before, times = cpu(), []
    for _ in range(repeats):
        begun = time.perf_counter()
        _, flows = plan(theta)
        times.append(time.perf_counter() - begun)
    return Timed(min(times), (cpu() - before) / repeats, flows)


@contextmanager
def on_workers(
    packing: Packing, distinct: Distinct, circuit: Circuit, layout: Layout, n_workers: int
) -> Iterator[tuple[FlowPlan, Callable[[], float]]]:
    """The plan of the rows on processes of their own, and what CPU time they and this one took."""
    step = -(-distinct.n_rows // (8 * n_workers))
    pieces = [
        Distinct(
            np.ascontiguousarray(distinct.words[:, a : a + step]), distinct.weights[a : a + step]
        )
        for a in range(0, distinct.n_rows, step)
    ]
    with cluster.connected(n_workers=n_workers) as client:
        futures = exchanged(client, client.scatter(pieces), distinct.n_rows)
        parts = DaskParts.of(client, futures, packing)
        names = tuple(f"x{j}" for j in range(FEATURES))

        def cpu() -> float:
            return time.process_time() + float(sum(client.run(time.process_time).values()))

        yield PartedRows(parts, names).plan(circuit, layout), cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=2e6)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    packing, distinct = wide_rows(int(args.rows))
    rows = as_rows(distinct, packing)
    sample = rows.take(np.arange(0, rows.n_rows, max(rows.n_rows // SAMPLE, 1)))
    cells = learn_structure(sample, None, Structure("chow-liu"), 1.0, 0)
    layout, circuit = start_circuit("FairPC", sample, cells, 1.0)
    theta = circuit.parameters
    print(
        f"{rows.n_rows:,} distinct rows, {FEATURES + 2} columns, {len(theta):,} parameters, "
        f"{args.workers} threads or processes, least of {args.repeats} iterations"
    )
    here = timed(row_plan(circuit, layout, rows), theta, args.repeats, time.process_time)
    print(f"    {'local':15}{here.clock:.3f} s, {here.cpu:.3f} CPU s an iteration", flush=True)
    for name, settings in (("Dask", cluster.SETTINGS), ("Dask's malloc", {})):
        with (
            patch.object(cluster, "SETTINGS", settings),
            on_workers(packing, distinct, circuit, layout, args.workers) as (plan, cpu),
        ):
            there = timed(plan, theta, args.repeats, cpu)
        difference = np.abs(there.flows - here.flows).max() / here.flows.max()
        print(
            f"    {name:15}{there.clock:.3f} s, {there.cpu:.3f} CPU s an iteration: "
            f"{there.clock / here.clock:.2f} and {there.cpu / here.cpu:.2f} of local; "
            f"flows differ by {difference:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
