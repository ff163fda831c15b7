"""The kernels' logic without the compiler, in an interpreter of its own.

Run by itself (``NUMBA_DISABLE_JIT=1 python test_without_jit.py``) this file does the work; under
pytest it starts itself that way.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from uncompiled import run_uncompiled


def check() -> None:
    """Searches of all kinds on small tables, each step against a full evaluation."""
    from fairpc.structure import Gain, Stop, Strudel, learn
    from structure import oracle_structure as oracle
    from structure.tables import circuit_of, random_table, state_of

    methods: tuple[Strudel | Gain, ...] = (
        Strudel(stop=Stop(max_splits=6)),
        Gain(0.0, 0.0, stop=Stop(max_splits=6)),
    )
    for seed, method in enumerate(methods):
        for whole in (True, False):
            rng = np.random.default_rng(seed)
            table = random_table(rng, 40, [2, 3, 2, 2], whole=whole)
            state = state_of([table], smoothing=2.0)
            for _ in method.search(state):
                circuit = circuit_of(state.learned(0), table.arities)
                oracle.check_structure(circuit.graph)
                full = oracle.log_likelihood(circuit, table.codes, table.weights.tolist())
                assert abs(state.log_likelihood - full) < 1e-9 * abs(full)
            state.undo()
    holes = random_table(np.random.default_rng(9), 40, [2, 3, 2], missing=0.2)
    oracle.check_structure(learn(holes, method="gain", random_state=0).graph)


def test_without_the_compiler() -> None:
    run_uncompiled(__file__)


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).resolve().parent))  # its modules are those of a package
    check()
