"""Attacks on .psdd and .vtree files, which have no checksum.

A file that is read must mean what its lines say: a slow reader that shares no code evaluates
them line by line.
"""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from battery.attacks import Difference, Suite, Verdict
from battery.mutations import changed_bytes, changed_lines
from circuit.psdd_files import LARGER, LARGER_VTREE, SMALL, SMALL_VTREE, random_circuit
from fairpc.circuit import read_psdd
from psdd_writing import write_psdd

_NEAR: Final = 1e-3
"""Weights that sum to 1 but for 1e-5 are scaled, at each of some dozen nodes."""


def evaluated(text: bytes, row: tuple[int, ...]) -> float:
    """The probability of a row by the lines of a psdd file, as they stand."""
    lines: dict[int, list[bytes]] = {}
    last = 0
    for line in text.split(b"\n"):
        words = line.split()
        if words and not line.startswith(b"c") and words[0] != b"psdd":
            last = int(words[1])
            lines[last] = words

    @cache
    def value(node: int) -> float:
        words = lines[node]
        if words[0] == b"D":
            elements = zip(words[4::3], words[5::3], words[6::3], strict=True)
            return sum(value(int(p)) * value(int(s)) * math.exp(float(w)) for p, s, w in elements)
        literal = int(words[3])
        true = row[abs(literal) - 1] == (literal > 0)
        if words[0] == b"L":
            return float(true)
        p = math.exp(float(words[-1]))
        return p if true else 1 - p

    return value(last)


def n_variables(text: bytes) -> int:
    """Variables of a psdd file, by the largest of its literals."""
    words = [line.split() for line in text.split(b"\n")]
    return max(abs(int(w[3])) for w in words if w and w[0] in (b"L", b"T"))


class Psdds(Suite):
    name, full = "psdd", 2_000

    def prepare(self) -> None:
        self.psdd, self.vtree = self.folder / "a.psdd", self.folder / "a.vtree"
        self.files = [
            (SMALL.encode(), SMALL_VTREE.encode()),
            (LARGER.encode(), LARGER_VTREE.encode()),
        ]
        for k in range(6):
            circuit = random_circuit(random.Random(k), 2 + k % 4, deterministic=k % 2 == 0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of parameters that are no longer shared
                write_psdd(circuit, self.psdd, self.vtree)
            self.files.append((self.psdd.read_bytes(), self.vtree.read_bytes()))

    def attack(self, rng: random.Random) -> tuple[str, Callable[[], Verdict]]:
        psdd, vtree = before = rng.choice(self.files)
        change = changed_bytes if rng.random() < 0.4 else changed_lines
        if rng.random() < 0.3:
            kind, vtree = change(rng, vtree)
            kind += " of the vtree"
        else:
            kind, psdd = change(rng, psdd)
            while rng.random() < 0.3:
                psdd = change(rng, psdd)[1]
        with_vtree = rng.random() < 0.7 or "vtree" in kind
        return kind, lambda: self._read(psdd, vtree if with_vtree else None, before[0])

    def _read(self, psdd: bytes, vtree: bytes | None, before: bytes) -> Verdict:
        self.psdd.write_bytes(psdd)
        self.vtree.write_bytes(vtree or b"")
        circuit = read_psdd(self.psdd, None if vtree is None else self.vtree)
        rows = list(itertools.product((0, 1), repeat=len(circuit.names)))
        found = np.exp(circuit.log_marginal(np.array(rows, np.int16)))
        said = np.array([evaluated(psdd, row) for row in rows])
        if not np.allclose(found, said, atol=_NEAR, rtol=0):
            raise Difference(f"it is read as {found} and says {said}")
        if not math.isclose(found.sum(), 1.0, rel_tol=1e-9):
            raise Difference(f"its probabilities sum to {found.sum()}")
        write_psdd(circuit, self.psdd, self.vtree)
        again = read_psdd(self.psdd, self.vtree)
        if not np.allclose(np.exp(again.log_marginal(np.array(rows, np.int16))), found):
            raise Difference("written and read again it is another")
        if psdd == before:
            return Verdict.SAME
        if n_variables(before) != len(circuit.names):  # a smaller circuit of the file is its last
            return Verdict.OTHER
        was = [evaluated(before, row) for row in rows]
        return Verdict.SAME if np.allclose(was, said, atol=1e-12) else Verdict.OTHER
