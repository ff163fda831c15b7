"""An iteration of EM on a cluster of processes beside the same with threads, in one run.

    python benchmarks/cluster.py                  2 million distinct rows of 40 columns, 2 processes
    python benchmarks/cluster.py --rows 2e5       fewer
    python benchmarks/cluster.py --keep-nothing   workers without room for rows that are ready

Least and median time of an iteration on the clock, which lies where other work keeps the cores
busy; mean CPU time and page faults of all processes, which do so less. Workers are started anew
in each round, in turn with our settings of malloc and with those that Dask gives them.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import dask
import numpy as np
from distributed import Client, LocalCluster

from fairpc.circuit import Circuit, FlowPlan
from fairpc.cluster import _plan as cluster_plan
from fairpc.cluster._plan import DaskParts
from fairpc.cluster._table import exchanged
from fairpc.core import Floats
from fairpc.data import Distinct, Packing
from fairpc.models import Rows
from fairpc.models._fair_layers import Layout
from fairpc.models._fit import Structure, initial_model, learn_structure
from fairpc.models._rows import PartedRows

SETTINGS: Mapping[str, int] = {
    "MALLOC_TRIM_THRESHOLD_": 1 << 30,
    "MALLOC_MMAP_THRESHOLD_": 1 << 25,
}
"""Environment of workers. Dask has them give memory back to the system at once, and every
iteration of EM would then ask for the same pages again, zeroed."""
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
    return packing, packing.distinct(columns)


def as_rows(distinct: Distinct, packing: Packing) -> Rows:
    names = tuple(f"x{j}" for j in range(FEATURES))
    return Rows.coded(packing.rows(distinct), packing.arities, names)


Use = tuple[float, int]
"""CPU seconds and page faults of processes so far."""


def use() -> Use:
    """What this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_minflt


@dataclass
class Timed:
    """Iterations: seconds on the clock of each; CPU seconds and page faults of all; flows."""

    ready: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)
    cpu: float = 0.0
    faults: int = 0
    flows: Floats = field(default_factory=lambda: np.zeros(0))

    def run(
        self,
        make: Callable[[], FlowPlan],
        theta: Floats,
        repeats: int,
        used: Callable[[], Use],
    ) -> None:
        """Some iterations more, after a first one that makes rows ready."""
        begun = time.perf_counter()
        plan = make()
        plan(theta)
        self.ready.append(time.perf_counter() - begun)
        cpu, faults = used()
        for _ in range(repeats):
            begun = time.perf_counter()
            _, self.flows = plan(theta)
            self.clock.append(time.perf_counter() - begun)
        cpu_after, faults_after = used()
        self.cpu += cpu_after - cpu
        self.faults += faults_after - faults

    def __str__(self) -> str:
        n = len(self.clock)
        return (
            f"ready in {min(self.ready):5.1f} s; an iteration: least {min(self.clock):.3f} s, "
            f"median {float(np.median(self.clock)):.3f} s, {self.cpu / n:.3f} CPU s, "
            f"{self.faults / n:,.0f} page faults"
        )


def keep_nothing() -> None:
    """Have a worker think that it has no memory in which rows could be kept ready."""
    cluster_plan._room = lambda: 0


@contextmanager
def on_workers(
    packing: Packing,
    distinct: Distinct,
    circuit: Circuit,
    layout: Layout,
    n_workers: int,
    settings: Mapping[str, int],
    keep: bool,
) -> Iterator[tuple[Callable[[], FlowPlan], Callable[[], Use]]]:
    """What makes the plan of the rows on processes of their own, and what they and this one use."""
    step = -(-distinct.n_rows // (8 * n_workers))
    pieces = [
        Distinct(
            np.ascontiguousarray(distinct.words[:, a : a + step]), distinct.weights[a : a + step]
        )
        for a in range(0, distinct.n_rows, step)
    ]
    environ = {f"distributed.nanny.pre-spawn-environ.{k}": v for k, v in settings.items()}
    here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "threads_per_worker": 1}
    with (
        dask.config.set(environ),
        LocalCluster(n_workers=n_workers, **here) as workers,
        Client(workers) as client,
    ):
        if not keep:
            client.run(keep_nothing)
        futures = exchanged(client, client.scatter(pieces), distinct.n_rows)
        parts = DaskParts.of(client, futures, packing)
        names = tuple(f"x{j}" for j in range(FEATURES))

        def used() -> Use:
            both = [use(), *client.run(use).values()]
            return sum(cpu for cpu, _ in both), sum(faults for _, faults in both)

        yield lambda: PartedRows(parts, names).plan(circuit, layout), used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=2e6)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=10, help="iterations of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep-nothing", action="store_true")
    args = parser.parse_args()
    keep = not args.keep_nothing
    packing, distinct = wide_rows(int(args.rows))
    rows = as_rows(distinct, packing)
    sample = rows.take(np.arange(0, rows.n_rows, max(rows.n_rows // SAMPLE, 1)))
    cells = learn_structure(sample, None, Structure("chow-liu"), 1.0, 0)
    start = initial_model("FairPC", sample, cells, 1.0)
    layout, circuit = start.layout, start.circuit
    theta = circuit.parameters
    print(
        f"{rows.n_rows:,} distinct rows, {FEATURES + 2} columns, {len(theta):,} "
        f"parameters, {args.workers} threads or processes, {args.rounds} rounds of "
        f"{args.repeats} iterations"
    )
    here = Timed()
    theirs: Mapping[str, int] = {}
    there = {"Dask": (Timed(), SETTINGS), "Dask's malloc": (Timed(), theirs)}
    for k in range(args.rounds):
        here.run(lambda: rows.plan(circuit, layout), theta, args.repeats, use)
        for timed, settings in list(there.values())[:: 1 if k % 2 == 0 else -1]:
            given = packing, distinct, circuit, layout, args.workers, settings, keep
            with on_workers(*given) as (make, used):
                timed.run(make, theta, args.repeats, used)
    print(f"    {'local':15}{here}", flush=True)
    for name, (timed, _) in there.items():
        difference = np.abs(timed.flows - here.flows).max() / here.flows.max()
        print(f"    {name:15}{timed}")
        print(
            f"    {'':15}{min(timed.clock) / min(here.clock):.2f} of local at least, "
            f"{np.median(timed.clock) / np.median(here.clock):.2f} in the median, "
            f"{timed.cpu / here.cpu:.2f} of its CPU time; flows differ by {difference:.1e}"
        )


if __name__ == "__main__":
    main()
