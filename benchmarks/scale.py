"""Time and memory of a streamed fit by the number of rows, each measured in a process of its own.

    python benchmarks/scale.py                      10, 20 and 50 million rows
    python benchmarks/scale.py --rows 200e6         that many as well
    python benchmarks/scale.py --wide               rows of which hardly two are equal, on disk
    python benchmarks/scale.py --audit              an audit and predictions of files, not a fit
    python benchmarks/scale.py --model              what a row costs, and what that predicts

Files are made in a temporary folder and removed. Memory is the largest resident
size of the process, imports and all.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.optimize import nnls

FILE_ROWS = 5_000_000
YES_NO = pl.Series(["no", "yes"])
LEVELS = pl.Series(["low", "middle", "high"])


def make_rows(n: int, rng: np.random.Generator) -> pl.DataFrame:
    """Twelve columns: text of few levels, a boolean, a whole number, a real number."""
    f = rng.random(n, np.float32) < 0.4
    sex = rng.integers(0, 2, n, np.uint8)
    flip = rng.random(n, np.float32) < np.where(sex, 0.2, 0.05).astype(np.float32)
    columns: dict[str, Any] = {
        "sex": pl.Series(["F", "M"]).gather(sex),
        "label": (f ^ flip).astype(np.int8),
    }
    for j in range(5):
        high = rng.random(n, np.float32) < np.where(f, 0.7 - 0.08 * j, 0.35).astype(np.float32)
        columns[f"answer{j}"] = YES_NO.gather(high.astype(np.uint8))
    for j in range(2):
        level = rng.integers(0, 2, n, np.uint8) + (f & (rng.integers(0, 2, n, np.uint8) > 0))
        columns[f"level{j}"] = LEVELS.gather(level)
    columns["member"] = rng.random(n, np.float32) < 0.3
    columns["age"] = np.clip(rng.normal(40 + 4 * f, 12, n), 17, 95).astype(np.int16)
    columns["income"] = np.exp(rng.standard_normal(n, np.float32) + 10 + f).astype(np.float64)
    return pl.DataFrame(columns)


def make_wide_rows(n: int, rng: np.random.Generator) -> pl.DataFrame:
    """Forty columns of which hardly two rows are equal."""
    f = rng.random(n, np.float32) < 0.4
    sex = rng.integers(0, 2, n, np.uint8)
    columns: dict[str, Any] = {
        "sex": pl.Series(["F", "M"]).gather(sex),
        "label": (f ^ (rng.random(n, np.float32) < 0.1)).astype(np.int8),
    }
    for j in range(38):
        columns[f"x{j}"] = rng.integers(0, 3, n, np.int8) + (f & (rng.random(n) < 0.5))
    return pl.DataFrame(columns)


def make_files(folder: Path, n: int, wide: bool = False) -> None:
    rng = np.random.default_rng(0)
    make = make_wide_rows if wide else make_rows
    step = FILE_ROWS if not wide else 1_000_000
    for k, start in enumerate(range(0, n, step)):
        make(min(step, n - start), rng).write_parquet(folder / f"{k:04}.parquet")


def measure(source: str, structure: str, memory: str | None) -> None:
    """In a process of its own: a warm-up that loads the kernels, then one fit; prints JSON."""
    from fairpc.data import Distinct, Roles, RowEncoder, find, fit_coding, source_of

    table = source_of(find(source))
    features = tuple(name for name in table.names if name not in ("sex", "label"))
    roles = Roles("label", ("sex",), features)
    found: dict[str, Any] = {"bytes": table.n_bytes}
    if structure == "none":
        begun, cpu = time.perf_counter(), time.process_time()
        encoder = RowEncoder(fit_coding(table, roles)[0], roles)
        found["columns"] = time.perf_counter() - begun
        begun = time.perf_counter()
        rows = table.distinct(encoder)
        found["rows"] = time.perf_counter() - begun
        found["cpu"] = time.process_time() - cpu
        assert isinstance(rows, Distinct)
        found |= {"distinct": rows.n_rows, "weight": rows.weights.sum()}
    else:
        from fairpc import FairPC

        head = table.frame.head(2000).collect()
        settings: dict[str, Any] = {"structure": structure, "random_state": 0}
        if memory:
            settings |= {"max_iter": 10, "tol": 0.0}
        FairPC("sex", **settings).fit(head.drop("label"), head["label"])
        begun, cpu = time.perf_counter(), time.process_time()
        model = FairPC("sex", **settings).fit(source, "label", max_memory=memory)
        found["fit"] = time.perf_counter() - begun
        found["cpu"] = time.process_time() - cpu
        found |= {"iterations": model.n_iter_, "parameters": len(model.circuit_.parameters)}
    found["peak"] = peak_bytes()
    sys.stdout.write(json.dumps(found))


def measure_audit(source: str, memory: str | None) -> None:
    """In a process of its own: a model of the first rows, its audit and its scores; prints JSON."""
    from fairpc import FairPC, audit
    from fairpc.data import find, source_of

    table = source_of(find(source))
    head = table.frame.head(50_000).collect()
    model = FairPC("sex", structure="chow-liu", random_state=0)
    model.fit(head.drop("label"), head["label"])
    found: dict[str, Any] = {"bytes": table.n_bytes, "before": peak_bytes()}
    begun, cpu = time.perf_counter(), time.process_time()
    record = audit(model, source, "label", max_memory=memory)
    found["audit"] = time.perf_counter() - begun
    found["cpu"] = time.process_time() - cpu
    found |= {"read": record.provenance.seconds["scores"], "audited": record.data.n_rows}
    found["peak"] = peak_bytes()
    begun = time.perf_counter()
    found["scores"] = len(model.predict_proba(source))
    found["predict"] = time.perf_counter() - begun
    found["peak_predict"] = peak_bytes()
    sys.stdout.write(json.dumps(found))


def peak_bytes() -> int:
    """The largest resident size of this process; ``getrusage`` would count its parent's."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measured(source: Path, structure: str, memory: str | None = None) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", str(source), structure, memory or ""]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(result.stdout))


def print_long(sizes: Sequence[int], structures: Sequence[str]) -> None:
    print("rows | MB on disk | columns s | rows s | CPU s | CPU µs per row | peak MB | distinct")
    for n in sizes:
        with tempfile.TemporaryDirectory(prefix="fairpc-scale-") as folder:
            make_files(Path(folder), n)
            got = measured(Path(folder), "none")
            print(
                f"{n:,} | {got['bytes'] / 1e6:,.0f} | {got['columns']:.1f} | {got['rows']:.1f} | "
                f"{got['cpu']:.1f} | {got['cpu'] / n * 1e6:.3f} | {got['peak'] / 1e6:,.0f} | "
                f"{got['distinct']:,}",
                flush=True,
            )
            for structure in structures:
                fit = measured(Path(folder), structure)
                print(
                    f"  fit, {structure}: {fit['fit']:.1f} s in all ({fit['cpu']:.1f} CPU s), "
                    f"{fit['iterations']} iterations, {fit['parameters']:,} parameters, "
                    f"peak {fit['peak'] / 1e6:,.0f} MB",
                    flush=True,
                )


def print_wide(sizes: Sequence[int], memory: str) -> None:
    print(
        f"40 columns, max_memory={memory}, 10 iterations: rows | fit s | CPU s | iterations | "
        "peak MB"
    )
    for n in sizes:
        with tempfile.TemporaryDirectory(prefix="fairpc-scale-") as folder:
            make_files(Path(folder), n, wide=True)
            fit = measured(Path(folder), "chow-liu", memory)
            print(
                f"{n:,} | {fit['fit']:.1f} | {fit['cpu']:.1f} | {fit['iterations']} | "
                f"{fit['peak'] / 1e6:,.0f}",
                flush=True,
            )


def print_audit(sizes: Sequence[int], memory: str | None, wide: bool) -> None:
    print("rows | audited | read s | audit s | CPU s | peak MB | predict_proba s | peak MB then")
    for n in sizes:
        with tempfile.TemporaryDirectory(prefix="fairpc-scale-") as folder:
            make_files(Path(folder), n, wide)
            got = measured(Path(folder), "audit", memory)
            print(
                f"{n:,} | {got['audited']:,} | {got['read']:.1f} | {got['audit']:.1f} | "
                f"{got['cpu']:.1f} | {got['peak'] / 1e6:,.0f} | {got['predict']:.1f} | "
                f"{got['peak_predict'] / 1e6:,.0f}",
                flush=True,
            )


@dataclass(frozen=True)
class Cost:
    """Constants fitted to measurements, in CPU seconds, and what a round trip is assumed to take.

    Attributes:
        cell: to read a row's column twice and code it.
        row: to pack a row and merge it with equal ones, once for each 64-bit word of its key.
        merge: to merge two sorted tables of distinct rows, per row and word.
        ready: to make a distinct row ready for EM, per class and feature.
        term: of an iteration, per distinct row that is ready, class and feature.
        edge: the same per distinct row and edge of the circuit.
        once: of an iteration, per distinct row for which there is no room, class and feature.
        held: bytes of a row that is ready, per class and feature.
    """

    cell: float
    row: float
    merge: float
    ready: float
    term: float
    edge: float
    once: float
    held: float
    cores: int = 2
    memory: float = 16e9
    latency: float = 0.01
    bandwidth: float = 1e8
    fan_in: int = 16

    def levels(self, workers: int) -> int:
        return math.ceil(math.log(workers, self.fan_in)) if workers > 1 else 0

    def compressing(self, rows: float, columns: int, words: int, workers: int) -> float:
        return rows * (columns * self.cell + words * self.row) / (workers * self.cores)

    def merging(self, distinct: float, words: int, workers: int) -> float:
        one = self.fan_in * distinct * (words * self.merge + 8 * (words + 1) / self.bandwidth)
        return self.levels(workers) * one

    def iteration(self, distinct: float, features: int, workers: int, parameters: int) -> float:
        terms = distinct * 2 * features / workers
        ready = min(terms, self.memory / 2 / self.held)
        work = (ready * self.term + (terms - ready) * self.once) / self.cores
        return work + self.levels(workers) * (self.latency + wire(parameters) / self.bandwidth)


def wire(parameters: int) -> int:
    """Bytes to and from a worker per iteration: parameters out; flows and likelihood back."""
    return 8 * (2 * parameters + 1)


@dataclass(frozen=True)
class Sample:
    """What a table of some size took, in CPU seconds."""

    rows: int
    columns: int
    words: int
    passes: float
    distinct: int
    merging: float
    making_ready: float
    iteration: float
    once: float
    held: int
    edges: int
    parameters: int

    @property
    def features(self) -> int:
        return self.columns - 2


def sampled(rows: int, wide: bool) -> Sample:
    """Measure a table: both passes, a merge, what EM does with its distinct rows."""
    from fairpc.circuit import plan_bytes, plan_once
    from fairpc.data import Distinct, Roles, RowEncoder, add_distinct, fit_coding, open_source
    from fairpc.models import Rows
    from fairpc.models._fit import Structure, initial_model, learn_structure

    with tempfile.TemporaryDirectory(prefix="fairpc-scale-") as folder:
        make_files(Path(folder), rows, wide)
        source = open_source(folder)
        features = tuple(name for name in source.names if name not in ("sex", "label"))
        roles = Roles("label", ("sex",), features)
        encoder = RowEncoder(fit_coding(source, roles)[0], roles)
        distinct = source.distinct(encoder)
        assert isinstance(distinct, Distinct)
        passes = _least(lambda: fit_coding(source, roles), 3)
        passes += _least(lambda: source.distinct(encoder), 3)
    merging = _least(lambda: add_distinct([distinct, distinct]), 3)
    packing = encoder.packing
    coded = packing.rows(distinct)
    codes = Rows.coded(coded, packing.arities, encoder.coding.features.names)
    some = codes.take(np.arange(0, codes.n_rows, max(codes.n_rows // 50_000, 1)))
    cells = learn_structure(some, None, Structure("chow-liu"), 1.0, 0)
    start = initial_model("FairPC", some, cells, 1.0)
    layout, circuit = start.layout, start.circuit
    some.plan(circuit, layout)(circuit.parameters)  # compiles
    ready = _least(lambda: codes.plan(circuit, layout), 3)
    plan = codes.plan(circuit, layout)
    iteration = _least(lambda: plan(circuit.parameters))
    once = _least(lambda: plan_once(circuit.graph, plan.table, 1)(circuit.parameters), 3)
    return Sample(
        rows,
        len(source.names),
        len(distinct.words),
        passes,
        distinct.n_rows,
        merging,
        ready,
        iteration,
        once,
        plan_bytes(plan),
        circuit.graph.n_edges,
        circuit.graph.n_parameters,
    )


def fitted(samples: Sequence[Sample]) -> Cost:
    """Constants by least squares of relative errors, none below 0."""

    def rate(sizes: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
        return list(nnls(np.array(sizes) / np.array(seconds)[:, None], np.ones(len(seconds)))[0])

    cell, row = rate(
        [(s.rows * s.columns, s.rows * s.words) for s in samples], [s.passes for s in samples]
    )
    (merge,) = rate([(2 * s.distinct * s.words,) for s in samples], [s.merging for s in samples])
    terms = [(s.distinct * 2.0 * s.features,) for s in samples]
    (ready,) = rate(terms, [s.making_ready for s in samples])
    (term,) = rate(terms, [s.iteration for s in samples])
    (edge,) = rate([(s.distinct * s.edges,) for s in samples], [s.iteration for s in samples])
    (once,) = rate(terms, [s.once for s in samples])
    (held,) = rate(terms, [s.held for s in samples])
    return Cost(cell, row, merge, ready, term, edge, once, held)


def _least(call: Callable[[], object], repeats: int = 7) -> float:
    """The least CPU time of some calls."""
    times = []
    for _ in range(repeats):
        cpu = time.process_time()
        call()
        times.append(time.process_time() - cpu)
    return min(times)


def print_model() -> None:
    """Constants, how far off they are, and what they say of tables that were not measured."""
    samples = [
        sampled(rows, wide)
        for wide, sizes in ((False, (1_000_000, 4_000_000)), (True, (250_000, 1_000_000)))
        for rows in sizes
    ]
    cost = fitted(samples)
    print(
        f"compress, both passes: {cost.cell * 1e9:.0f} ns per row and column, and "
        f"{cost.row * 1e9:.0f} ns per row and word of its key"
    )
    print(f"merge: {cost.merge * 1e9:.0f} ns per distinct row of a part and word")
    print(
        f"make ready for EM: {cost.ready * 1e9:.1f} ns per distinct row, class and feature; "
        f"{cost.held:.1f} bytes"
    )
    print(
        f"iteration: {cost.term * 1e9:.2f} ns per distinct row, class and feature, or "
        f"{cost.edge * 1e9:.3f} ns per distinct row and edge; "
        f"{cost.once * 1e9:.1f} ns where there is no room"
    )
    print()
    print(
        "rows × columns | distinct | edges | passes, s: measured, model | "
        "iteration, ms: measured, by terms, by edges | bytes on the wire"
    )
    for one in samples:
        passes = one.rows * (one.columns * cost.cell + one.words * cost.row)
        terms = one.distinct * 2 * one.features * cost.term
        print(
            f"{one.rows:,} × {one.columns} | {one.distinct:,} | {one.edges:,} | "
            f"{one.passes:.2f}, {passes:.2f} | {one.iteration * 1e3:.0f}, {terms * 1e3:.0f}, "
            f"{one.distinct * one.edges * cost.edge * 1e3:.0f} | {wire(one.parameters):,}"
        )
    print()
    _print_predictions(cost, samples[-1].words, samples[-1].parameters)


def _print_predictions(cost: Cost, words: int, parameters: int) -> None:
    """For a narrow table of 200,000 distinct rows, and one of 40 columns without equal rows."""
    print(
        "rows | workers | 12 columns, 2e5 distinct: compress, merge | 40 columns, all distinct: "
        "compress, iteration, 100 iterations"
    )
    for rows in (1e9, 1e11):
        for workers in (1, 10, 100, 1000):
            one = cost.iteration(rows, 38, workers, parameters)
            narrow = cost.compressing(rows, 12, 1, workers), cost.merging(2e5, 1, workers)
            wide = cost.compressing(rows, 40, words, workers), one, 100 * one
            columns = (", ".join(map(_time, times)) for times in (narrow, wide))
            print(f"{rows:.0e} | {workers} | {' | '.join(columns)}")
    print()
    for rows in (1e7, 1e8, 1e9, 1e11):
        most = rows * 2 * 38 * cost.term / cost.cores / cost.latency
        print(
            f"{rows:.0e} wide rows: past about {most:,.0f} workers an iteration waits for the wire"
        )


def _time(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="*", default=[10e6, 20e6, 50e6])
    parser.add_argument("--structures", nargs="*", default=["chow-liu", "auto"])
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--audit", action="store_true")
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = [int(n) for n in given.rows]
    if given.measure:
        source, structure, memory = given.measure
        if structure == "audit":
            measure_audit(source, memory or None)
        else:
            measure(source, structure, memory or None)
    elif given.audit:
        print_audit(sizes, given.memory if given.wide else None, given.wide)
    elif given.model:
        print_model()
    elif given.wide:
        print_wide(sizes, given.memory)
    else:
        print_long(sizes, given.structures)


if __name__ == "__main__":
    main()
