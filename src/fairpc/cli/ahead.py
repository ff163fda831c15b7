"""Kernels compiled side by side, on the first run after an installation.

A process compiles each kernel when it first calls it. Where the first one is not in the cache,
other processes compile as well, those that a fit calls later, and leave the machine code in the
cache: the first process finds it there when it gets so far. What is not there in time is compiled
as ever. Where the first process needs at once what another compiles, it compiles its own share and
waits (:func:`compile_rest`). Kernels are compiled by calling them on next to nothing, so their
signatures are those of real calls.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from fairpc.circuit import Circuit, CircuitBuilder
from fairpc.data import Table

MOST_PROCESSES: Final = 2
"""Beside the first one; more have too little to do."""
LONGEST_WAIT: Final = 60.0
"""Seconds to wait for other processes."""
ARITIES: Final = (2, 3, 2)

_running: list[subprocess.Popen[bytes]] = []


def compile_aside(stages: Sequence[str]) -> None:
    """Look for the kernel that every fit needs first; if it is not there, let others help.

    ``stages`` are names of :data:`STAGES`, in the order in which others compile them.
    """
    from fairpc.data.jit import at_first_compilation
    from fairpc.data.table import distinct_rows
    from fairpc.threads import thread_count

    n_processes = min(thread_count() - 1, MOST_PROCESSES)

    def start() -> None:
        with suppress(OSError):  # a fit needs no other process
            _running.extend(_started(stages[k::n_processes]) for k in range(n_processes))

    at_first_compilation(start)
    distinct_rows(np.zeros((1, 1), np.int16), np.array([2]))


def compile_rest(stages: Sequence[str]) -> None:
    """Compile these stages here, then wait for what others compile; nothing if nobody does."""
    if not _running:
        return
    for name in stages:
        STAGES[name]()
    for process in _running:
        with suppress(subprocess.TimeoutExpired):  # then this process compiles it too
            process.wait(LONGEST_WAIT)


def _started(stages: Sequence[str]) -> subprocess.Popen[bytes]:
    """A process that ends with these stages, or when this one has ended.

    It imports nothing from the working directory (``-P``), as the command itself does not.
    """
    return subprocess.Popen(  # noqa: S603 - our own interpreter, and words of ours
        [sys.executable, "-P", "-m", "fairpc.cli.ahead", str(os.getpid()), *stages],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _table(seed: int = 0) -> Table:
    """Complete rows in which every value occurs."""
    codes = np.random.default_rng(seed).integers(0, ARITIES, (40, len(ARITIES)))
    return Table.of(codes, arities=np.array(ARITIES))


def _circuit() -> Circuit:
    """Variables that are independent in each of two groups."""
    b = CircuitBuilder({f"x{i}": k for i, k in enumerate(ARITIES)})
    cells = [
        b.product(
            b.indicator("x0", s),
            b.categorical("x1", [0.2, 0.3, 0.5]),
            b.categorical("x2", [0.5] * 2),
        )
        for s in range(2)
    ]
    return b.build(b.sum(cells, [0.4, 0.6]))


def _boxes() -> None:
    """The densities of a forest."""
    from fairpc.fair.forest import Forest

    allowed = (np.eye(2, dtype=bool), np.ones((2, 2), bool))
    half, one = np.full((1, 1, 1, 2), 0.5), np.ones((1, 1, 1))
    forest = Forest(np.zeros(2, np.int64), allowed, one, (half, half), half[0])
    forest.log_densities(np.zeros((1, 2), np.int16), np.zeros(1, np.int16))


def _losses() -> None:
    """Linear log odds, whose loss boosting has too."""
    from fairpc.fair.learners import Labelled, Linear

    table = _table()
    d, weights = table.codes[:, 0], np.ones(table.n_rows)
    rows = Labelled.of(d, weights, np.zeros_like(d), np.eye(2)[None])
    Linear.learned(table.codes.astype(np.float64), rows)


def _trees() -> None:
    """Boosted trees, grown and asked."""
    from fairpc.boosting import Cells, Grower, Limits, stacked

    table = _table()
    named = np.zeros(len(ARITIES), np.bool_)
    cells = Cells.of(table.codes.T, table.arities, named)
    grower = Grower.of(cells, np.arange(table.n_rows), 2, Limits(1.0, 0.0, 1.0, 1.0))
    slope, bend = np.ones((2, table.n_rows))
    tree = grower.grow(slope, bend, np.zeros(grower.shape))
    stacked([tree]).add_to(np.zeros(table.n_rows), cells.x)


def _queries() -> None:
    """Likelihoods and posteriors of a circuit."""
    _circuit().log_marginal(_table().codes)


def _passes() -> None:
    """EM over complete rows, once they are terms: a row whose likelihood is a parameter."""
    from fairpc.circuit.active import ActiveTerms
    from fairpc.circuit.program import Workspace, kernels

    one, parameter = 0, kernels().FIRST
    root = np.array([[parameter, one]], np.uint32)
    terms = ActiveTerms(1, parameter + 1, np.empty((0, 4), np.uint32), root)
    terms.flows(np.ones(1), np.ones(1), Workspace())


def _terms() -> None:
    """Complete rows as terms."""
    from fairpc.circuit.flows import prepare
    from fairpc.circuit.program import Listed

    Listed.left = 0  # so few rows would be listed in Python
    circuit = _circuit()
    prepare(circuit.graph, _table(), path="active")(circuit.parameters)


def _flows() -> None:
    """EM over rows with holes."""
    from fairpc.circuit.flows import prepare

    circuit = _circuit()
    prepare(circuit.graph, _table(), path="general")(circuit.parameters)


def _counts() -> None:
    """Chow–Liu trees."""
    from fairpc.structure.trees import mutual_information, pair_counts

    table = _table()
    mutual_information(np.ones((sum(ARITIES), sum(ARITIES))), table.arities)
    for weights in (table.weights, table.weights / 3):
        pair_counts(table.codes.T, weights, table.arities)


def _state() -> None:
    """The circuits of trees, before any split."""
    from fairpc.structure import METHODS
    from fairpc.structure.compile import compile_tree, vtree_of_tree
    from fairpc.structure.parameters import Smoothing
    from fairpc.structure.split import CellRows, SplitState
    from fairpc.structure.trees import Tree

    table, tree = _table(), Tree.of([-1, 0, 0])
    vtree = vtree_of_tree(tree)
    columns = np.ascontiguousarray(table.codes.T)
    weights = np.ones((table.n_rows, 3))
    rows = CellRows(columns, weights, vtree, compile_tree(tree, vtree, table.arities))
    state = SplitState([rows], table.arities, Smoothing(1.0, "marginal"))
    METHODS["chow-liu"].search(state, np.random.default_rng(0)).best()


def _splits() -> None:
    """Splits of edges by gain, and as in Strudel: kept, and taken back as held-out rows want it."""
    from fairpc.structure import learn

    learn(_table(), method="gain")
    for seed in range(2):
        learn(_table(), method="strudel", validation=_table(seed))


STAGES: Final[dict[str, Callable[[], None]]] = {
    "counts": _counts,
    "terms": _terms,
    "queries": _queries,
    "boxes": _boxes,
    "state": _state,
    "passes": _passes,
    "losses": _losses,
    "trees": _trees,
    "splits": _splits,
    "flows": _flows,
}
"""What calls some kernels, by name, in the order in which another process compiles them. The first
process begins with "losses", "trees" and "passes", and needs "state" after "counts": two processes
that compile the same in the same order would help nobody. Only some fits have splits or rows with
holes."""


def main(arguments: Sequence[str]) -> None:
    """Call the kernels of the stages named after the process that this one is for."""
    parent, *stages = arguments
    for name in stages:
        if os.getppid() == int(parent):
            STAGES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
