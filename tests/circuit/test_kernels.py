"""Manners of the compiled kernels: one signature each, cached, also from a read-only install."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fairpc

USE = """
import numpy as np
from fairpc.circuit import CircuitBuilder
from fairpc.circuit._em import fit
from fairpc.circuit._expected_flows import prepare, row_flows
from fairpc.circuit._chunks import Listed
from fairpc.data import Table

Listed.left = 0  # small plans would be made in Python
b = CircuitBuilder({"S": 2, "X": 3, "Y": 2})
cells = [
    b.product(b.indicator("S", s), b.categorical("X", [.2, .3, .5]), b.categorical("Y", [.5, .5]))
    for s in range(2)
]
c = b.build(b.sum(cells, [.4, .6]))
for n in (1, 300):
    rows = c.sample(n, 0)
    holes = rows.copy()
    holes[::2, 1] = -1
    c.log_weighted({"S": [1, 0], "X": [.5, 0., 1.]})
    c.log_weighted({"X": np.ones((n, 3))})
    for codes in (rows, holes, np.asfortranarray(holes), holes.astype(int)):
        c.log_marginal(codes)
        c.conditionals(codes)
        c.mpe(codes)
        c.sample_given(codes, 0)
        row_flows(c, codes)
        table = Table.of(codes, arities=c.arities)
        for path in ("auto", "active", "general"):
            plan = prepare(c.graph, table, path=path)
            fit(plan, c.parameters, max_iter=2)
        tiny = np.full(c.graph.n_parameters, 1e-300)
        tiny[c.graph.block_ptr[1:] - 1] = 1.0
        for path in ("active", "general"):
            prepare(c.graph, table, path=path)(tiny)
"""

COUNT = """
from fairpc.circuit import _kernels
from fairpc.data import _kernels as data_kernels
for module in (_kernels, data_kernels):
    for name, kernel in vars(module).items():
        if hasattr(kernel, "signatures") and kernel.__module__ == module.__name__:
            print(name, len(kernel.signatures))
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled")
def test_each_kernel_is_compiled_for_one_signature() -> None:
    done = run(USE + COUNT)
    assert done.returncode == 0, done.stderr
    counts = {name: int(n) for name, n in map(str.split, done.stdout.splitlines())}
    # A kernel that only other kernels call is not loaded where those come from the cache.
    assert {name: n for name, n in counts.items() if n > 1} == {}
    assert {name for name, n in counts.items() if n == 0 and not name.startswith("_")} == set()


@pytest.mark.slow
def test_a_read_only_install_keeps_its_cache_elsewhere(tmp_path: Path) -> None:
    package = tmp_path / "site" / "fairpc"
    source = Path(fairpc.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    # A file where Numba would make its folder: root may write anywhere else.
    for folder in [package, *(p for p in package.rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("")
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "PYTHONPATH": str(package.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "XDG_CACHE_HOME": str(home),
        "HOME": str(home),
    }
    first = run("import fairpc; print(fairpc.__file__)\n" + USE, **environment)
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith(str(package))
    assert list(home.rglob("*.nbi"))
    hits = (
        "\nfrom fairpc.circuit import _kernels"
        "\nprint(sum(_kernels.upward.stats.cache_hits.values()))"
    )
    second = run(USE + hits, **environment)
    assert second.stdout.strip() == "1", second.stderr
