"""Small psdd files, a folder to keep them in, and what is asked of them."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import oracle
from fairpc.circuit import Circuit, read_psdd
from psdd_writing import write_psdd
from strategies import Grower

LOG = {p: repr(math.log(p)) for p in (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75)}

# Two variables. P(x1 = 1) = .5, and then P(x2 = 1) = .2; else x2 is even.
#   P(1, 1) = .5 · .2 = .1    P(1, 0) = .5 · .8 = .4    P(0, 1) = .25    P(0, 0) = .25
SMALL = f"""c a comment
psdd 6
L 0 0 1
L 1 0 -1
c another one
L 2 1 2
L 3 1 -2
T 4 1 2 {LOG[0.2]}
D 5 2 3 0 4 {LOG[0.5]} 1 2 {LOG[0.25]} 1 3 {LOG[0.25]}
"""
SMALL_VTREE = "c\nvtree 3\nL 0 1\nL 1 2\nI 2 0 1\n"
SMALL_JOINT = {(1, 1): 0.1, (1, 0): 0.4, (0, 1): 0.25, (0, 0): 0.25}

# Three variables, x3 on the left; x3 = 1 with probability .3 and then x1 = x2, else independent.
LARGER = f"""psdd 12
L 0 0 3
L 1 0 -3
L 2 1 1
L 3 1 -1
L 4 2 2
L 5 2 -2
D 6 3 2 2 4 {LOG[0.6]} 3 5 {LOG[0.4]}
T 7 1 1 {LOG[0.75]}
T 8 2 2 {LOG[0.5]}
D 9 3 1 7 8 0.0
D 10 4 2 0 6 {LOG[0.3]} 1 9 {LOG[0.7]}
D 11 3 1 8 7 0.0
"""
LARGER_VTREE = "vtree 5\nL 0 3\nL 1 1\nL 2 2\nI 3 1 2\nI 4 0 3\n"


class Folder:
    """A folder for one psdd and one vtree file."""

    def __init__(self, path: Path) -> None:
        self.psdd, self.vtree = path / "a.psdd", path / "a.vtree"

    def read(self, psdd: str, vtree: str | None = None) -> Circuit:
        self.psdd.write_text(psdd)
        if vtree is not None:
            self.vtree.write_text(vtree)
        return read_psdd(self.psdd, None if vtree is None else self.vtree)

    def round_trip(self, circuit: Circuit) -> Circuit:
        write_psdd(circuit, self.psdd, self.vtree)
        return read_psdd(self.psdd, self.vtree, names=circuit.names)


def joint(circuit: Circuit) -> dict[tuple[int, ...], float]:
    rows = oracle.all_rows(circuit.graph).tolist()
    return {tuple(r): p for r, p in zip(rows, oracle.joint(circuit).tolist(), strict=True)}


def without_last(text: str) -> str:
    return text[: text.rindex("\n", 0, -1) + 1]


def random_circuit(rnd: Random, n: int, *, deterministic: bool) -> Circuit:
    return Grower.of(rnd, (2,) * n, structured=True, max_nodes=60).grow(deterministic)
