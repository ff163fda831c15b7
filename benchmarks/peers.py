"""Other libraries of circuits and mixtures beside this one: the same model, rows and start.

    pip install 'fairpc[peers]'
    python benchmarks/peers.py                   all of them, as a table in Markdown
    python benchmarks/peers.py --rows 5000

The model is one that all can write down: a mixture of 8 components of independent categories, over
UCI's Adult (numbers in 8 bins, at most 16 levels). All do full EM from the same parameters, on one
thread, in a process of their own, and seconds are of the processor. Where a library takes weights,
equal rows are merged for it.
What cannot be imported here is named with the reason.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from clock import best

Codes = npt.NDArray[np.int16]
Floats = npt.NDArray[np.float64]

COMPONENTS = 8
BINS = 8
LEVELS = 16
STEPS = 30
"""Updates of EM whose held-out likelihood all are to reach, but for CLOSE nats a row."""
CLOSE = 0.01
MOST_STEPS = 60
LEAST = -60.0
"""A held-out row counts at least so much: without a prior some are impossible."""
MISSING = 0.3
LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "FAIRPC_THREADS")
ONE_THREAD = dict.fromkeys(LIMITS, "1")


class Rows:
    """Training rows, the distinct ones with their weights, held-out ones, and where EM starts."""

    def __init__(self, n_rows: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        codes = rng.permutation(adult_codes())
        self.train, self.held_out = codes[:n_rows], codes[n_rows : n_rows + n_rows // 4]
        self.distinct, weights = np.unique(self.train, axis=0, return_counts=True)
        self.weights = weights.astype(np.float64)
        self.arities = [int(k) for k in codes.max(axis=0) + 1]
        self.shares = rng.dirichlet(np.full(COMPONENTS, 20.0))
        self.values = [rng.dirichlet(np.full(k, 5.0), COMPONENTS) for k in self.arities]
        self.holes = np.where(rng.random(self.train.shape) < MISSING, -1, self.train)

    @property
    def padded(self) -> Floats:
        """P(x_j = v | component), components × features × the most values; what is not is 1e-12."""
        result = np.full((COMPONENTS, len(self.arities), max(self.arities)), 1e-12)
        for j, value in enumerate(self.values):
            result[:, j, : value.shape[1]] = value
        result /= result.sum(axis=2, keepdims=True)
        return result


def adult_codes() -> Codes:
    from fairpc.datasets import load_adult

    columns = []
    for column in load_adult().frame:
        values = column.to_numpy()
        if column.dtype.is_numeric():
            cuts = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1]))
            columns.append(np.searchsorted(cuts, values, side="right"))
            continue
        _, codes, counts = np.unique(values.astype(str), return_inverse=True, return_counts=True)
        rank = np.empty(len(counts), np.int64)
        rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
        columns.append(np.minimum(rank[codes], LEVELS - 1))
    return np.stack(columns, axis=1).astype(np.int16)


class Model(Protocol):
    """One library: an update of EM on its training rows, and log-likelihoods; -1 = missing."""

    merged: bool

    def step(self) -> None: ...

    def logs(self, codes: npt.NDArray[Any]) -> Floats: ...


class Fairpc:
    merged = True

    def __init__(self, rows: Rows) -> None:
        from fairpc.circuit import CircuitBuilder, _em as em, prepare
        from fairpc.data import Table

        names = {f"x{j}": k for j, k in enumerate(rows.arities)}
        b = CircuitBuilder(names)
        parts = [
            b.product(
                *(b.categorical(x, v[c].tolist()) for x, v in zip(names, rows.values, strict=True))
            )
            for c in range(COMPONENTS)
        ]
        self.circuit = b.build(b.sum(parts, rows.shares.tolist()))
        table = Table.of(rows.distinct, rows.weights, arities=np.array(rows.arities))
        self.plan = prepare(self.circuit.graph, table)
        self.maximize = em.maximize
        self.theta = self.circuit.parameters

    def step(self) -> None:
        _, flows = self.plan(self.theta)
        none = np.zeros(len(flows))
        self.theta = self.maximize(self.circuit.graph, flows, none, self.theta)

    def logs(self, codes: npt.NDArray[Any]) -> Floats:
        return self.circuit.with_parameters(self.theta).log_marginal(codes)


class Pomegranate:
    merged = True

    def __init__(self, rows: Rows) -> None:
        import torch
        from pomegranate.distributions import Categorical
        from pomegranate.gmm import GeneralMixtureModel

        torch.set_num_threads(1)
        self.torch = torch
        parts = [Categorical(torch.tensor(p)) for p in rows.padded]
        self.model = GeneralMixtureModel(parts, priors=torch.tensor(rows.shares))
        self.rows = torch.tensor(rows.distinct.astype(np.int64))
        self.weights = torch.tensor(rows.weights)

    def step(self) -> None:
        self.model.summarize(self.rows, sample_weight=self.weights)
        self.model.from_summaries()

    def logs(self, codes: npt.NDArray[Any]) -> Floats:
        torch = self.torch
        given = torch.tensor(codes.astype(np.int64))
        if (codes < 0).any():
            given = torch.masked.MaskedTensor(given.clamp(min=0), mask=given >= 0)
        with torch.no_grad():
            return np.asarray(self.model.log_probability(given), np.float64)


class Cirkit:
    merged = True

    def __init__(self, rows: Rows) -> None:
        import torch
        from cirkit.backend.torch.em_optimizer import EM
        from cirkit.backend.torch.queries import IntegrateQuery
        from cirkit.pipeline import PipelineContext
        from cirkit.templates.tensor_factorizations import cp
        from cirkit.templates.utils import Parameterization

        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float64)
        self.torch = torch
        plain = Parameterization(activation="none", initialization="dirichlet")
        symbolic = cp(
            tuple(rows.arities),
            COMPONENTS,
            input_layer="categorical",
            input_params={"probs": plain},
            weight_param=plain,
        )
        self.circuit = PipelineContext(backend="torch", semiring="lse-sum").compile(symbolic)
        self._start(rows)
        self.optimizer = EM(self.circuit, lr=1.0, pseudocount=0.0)
        self.integrate = IntegrateQuery(self.circuit)
        self.rows = torch.tensor(rows.distinct.astype(np.int64))
        self.weights = torch.tensor(rows.weights)

    def _start(self, rows: Rows) -> None:
        """The parameters of input layers, which hold several features each, and of the sum."""
        torch = self.torch
        for layer in self.circuit.layers:
            for parameter in layer.parameters():
                if hasattr(layer, "num_categories"):
                    features = layer.scope_idx.reshape(-1).tolist()
                    values = np.stack([rows.values[j] for j in features])
                else:
                    values = rows.shares
                parameter.data = torch.tensor(values).reshape(parameter.shape)

    def step(self) -> None:
        self.optimizer.zero_grad()
        (self.weights * self.circuit(self.rows).reshape(-1)).sum().backward()
        self.optimizer.step()

    def logs(self, codes: npt.NDArray[Any]) -> Floats:
        torch = self.torch
        given = torch.tensor(codes.astype(np.int64))
        with torch.no_grad():
            if (codes < 0).any():
                found = self.integrate(given.clamp(min=0), integrate_vars=given < 0)
            else:
                found = self.circuit(given)
        return np.asarray(found.reshape(-1), np.float64)


class Spflow:
    merged = False  # its EM takes no weights

    def __init__(self, rows: Rows) -> None:
        import torch
        from spflow.learn.expectation_maximization import expectation_maximization
        from spflow.meta.data import Scope
        from spflow.modules.leaves import Categorical
        from spflow.modules.products import Product
        from spflow.modules.sums import Sum

        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float64)
        self.torch = torch
        n = len(rows.arities)
        probs = torch.tensor(rows.padded.transpose(1, 0, 2)[:, :, None, :])
        leaf = Categorical(Scope(list(range(n))), out_channels=COMPONENTS, probs=probs)
        weights = torch.tensor(rows.shares[None, :, None, None])
        self.model = Sum(Product(leaf), weights=weights)
        self.em = expectation_maximization
        self.rows = torch.tensor(rows.train.astype(np.float64))

    def step(self) -> None:
        self.em(self.model, self.rows, max_steps=1)

    def logs(self, codes: npt.NDArray[Any]) -> Floats:
        torch = self.torch
        given = torch.tensor(np.where(codes < 0, np.nan, codes.astype(np.float64)))
        with torch.no_grad():
            return np.asarray(self.model.log_likelihood(given).reshape(-1), np.float64)


LIBRARIES: dict[str, tuple[str, Callable[[Rows], Model]]] = {
    "fairpc": ("fairpc", Fairpc),
    "pomegranate": ("pomegranate", Pomegranate),
    "cirkit": ("libcirkit", Cirkit),
    "SPFlow": ("spflow", Spflow),
}


def measured(name: str, n_rows: int, target: float | None) -> dict[str, Any]:
    """What one library takes; without a target it sets one."""
    rows = Rows(n_rows)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    LIBRARIES[name][1](rows).step()  # what is compiled or loaded once is not counted
    model = LIBRARIES[name][1](rows)

    def held_out() -> float:
        return float(np.maximum(model.logs(rows.held_out), LEAST).mean())

    found: dict[str, Any] = {"start": held_out()}
    spent, reached, steps = 0.0, found["start"], 0
    while steps < (STEPS if target is None else MOST_STEPS) and (
        target is None or reached < target
    ):
        began = time.process_time()
        model.step()
        spent += time.process_time() - began
        steps += 1
        reached = held_out()
    found |= {"steps": steps, "seconds": spent, "reached": reached}
    found["iteration"] = best(model.step)
    found["memory"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    found["complete"] = len(rows.train) / best(lambda: model.logs(rows.train))
    try:
        whole = model.logs(rows.holes)
        found["holes"] = len(whole) / best(lambda: model.logs(rows.holes))
        found["holes_mean"] = float(whole.mean())
    except Exception as error:  # noqa: BLE001 - a peer's failure is what the table says
        found["holes_error"] = f"{type(error).__name__}: {error}".splitlines()[0][:120]
    found["merged"], found["distinct"] = model.merged, len(rows.distinct)
    return found


def in_process(name: str, n_rows: int, target: float | None) -> dict[str, Any]:
    """The same in a process of its own, or the reason why not."""
    words = [sys.executable, __file__, "--rows", str(n_rows), "--only", name]
    words += [] if target is None else ["--target", repr(target)]
    done = subprocess.run(words, env=os.environ | ONE_THREAD, capture_output=True, text=True)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1][:200]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def version(name: str) -> str:
    """The name with the version that is installed; a checkout has none."""
    try:
        return f"{name} {importlib.metadata.version(LIBRARIES[name][0])}"
    except importlib.metadata.PackageNotFoundError:
        return name


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def show(all_found: dict[str, dict[str, Any]], n_rows: int, target: float) -> None:
    ours = all_found["fairpc"]
    print(
        f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}; {n_rows} rows "
        f"of Adult, {ours['distinct']} distinct; one thread; the held-out likelihood to reach is "
        f"{target:.4f} a row\n"
    )
    print(
        "| library | EM iteration | to the held-out likelihood | rows per second | with 30 % "
        "missing | memory |\n|---|---|---|---|---|---|"
    )
    for name, found in all_found.items():
        if "failed" in found:
            print(f"| {name} | does not run here: {found['failed']} | | | | |")
            continue
        rows = "distinct rows" if found["merged"] else "all rows"
        reached = f"{found['seconds']:.3g} s, {found['steps']} steps"
        if found["reached"] < target:
            reached = f"not in {found['steps']} steps ({found['reached']:.3f})"
        elif name != "fairpc":
            reached += f" ({ours['seconds'] / found['seconds']:.3g})"
        ratio = {
            key: "" if name == "fairpc" else f" ({ours[key] / found[key]:.3g})"
            for key in ("iteration", "complete", "holes", "memory")
            if found.get(key)
        }
        holes = found.get("holes_error") or f"{found['holes'] / 1e3:.4g} k{ratio['holes']}"
        print(
            f"| {version(name)}, {rows} | {1e3 * found['iteration']:.3g} ms"
            f"{ratio['iteration']} | {reached} | {found['complete'] / 1e3:.4g} k"
            f"{ratio['complete']} | {holes} | {found['memory']:.0f} MB{ratio.get('memory', '')} |"
        )
    print(
        "\nIn parentheses ours ÷ theirs. Mean held-out log-likelihood at the start: "
        + ", ".join(f"{n} {f['start']:.6f}" for n, f in all_found.items() if "start" in f)
        + "; with 30 % missing, after EM: "
        + ", ".join(f"{n} {f['holes_mean']:.4f}" for n, f in all_found.items() if "holes_mean" in f)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--only", choices=LIBRARIES, help="print what one library takes, as JSON")
    parser.add_argument("--target", type=float)
    given = parser.parse_args()
    if given.only:
        print(json.dumps(measured(given.only, given.rows, given.target)))
        return
    target = in_process("fairpc", given.rows, None)["reached"] - CLOSE
    found = {name: in_process(name, given.rows, target) for name in LIBRARIES}
    show(found, given.rows, target)


if __name__ == "__main__":
    main()
