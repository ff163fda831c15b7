"""Vtrees: binary trees over the variables that say how a circuit splits them.

Read from the ``.vtree`` files that go with ``.psdd`` files (``vtree COUNT``,
then ``L id variable`` and ``I id left right``, children first), or derived
from the scopes of a structured-decomposable circuit.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

import numpy as np

from fairpc.circuit._graph import INDICATOR, PRODUCT, Graph
from fairpc.circuit._properties import NestedScopes
from fairpc.core import AnyPath, FileFormatError, Ints, read_whole

_SHORTEST: Final = 6  # bytes of the shortest node or element: what bounds a believable count

_SPACES: Final = (b" ", b"\n", b"\t", b"\r", b"\v", b"\f")
_BYTES_PER_FIELD: Final = 20  # of a real file: time to read goes with fields, not with bytes


@dataclass(frozen=True, eq=False)
class Vtree:
    """A vtree as arrays, children first and the root last.

    Attributes:
        ids: number of each node in its file.
        left, right: children of the inner nodes, -1 at leaves.
        variable: column of the leaves, -1 at inner nodes.
    """

    ids: Ints
    left: Ints
    right: Ints
    variable: Ints

    @property
    def root(self) -> int:
        return len(self.ids) - 1

    def scopes(self) -> list[int]:
        """Variables below each node, as bit masks."""
        masks: list[int] = []
        for a, b, v in zip(*self._columns(), strict=True):
            masks.append(1 << v if v >= 0 else masks[a] | masks[b])
        return masks

    def text(self) -> str:
        """The vtree in the format of its files."""
        ids = self.ids.tolist()
        lines = [f"vtree {len(ids)}"]
        for n, a, b, v in zip(ids, *self._columns(), strict=True):
            lines.append(f"L {n} {v + 1}" if v >= 0 else f"I {n} {ids[a]} {ids[b]}")
        return "\n".join(lines) + "\n"

    def _columns(self) -> tuple[list[int], list[int], list[int]]:
        return self.left.tolist(), self.right.tolist(), self.variable.tolist()


def vtree_of(graph: Graph) -> Vtree:
    """A vtree that a smooth and structured-decomposable graph respects.

    The scopes of its nodes, ordered by inclusion, are a tree. Of the parts of a
    scope, those that only indicators test come first: decisions on them are
    then primes that exclude each other. Next come parts with many nodes, so
    that what is common to many products can be shared; then the first in the
    graph.
    """
    leaf = graph.kind == INDICATOR
    nodes: dict[int, list[int]] = {}
    for n, scope in enumerate(graph.scopes):
        nodes.setdefault(scope, []).append(n)
    factor = np.zeros(graph.n_nodes, bool)
    factor[graph.child[(graph.kind == PRODUCT)[graph.edge_node]]] = True

    def rank(part: int) -> tuple[bool, int, int]:
        factors = [n for n in nodes[part] if factor[n]]
        return not leaf[factors].all(), -len(factors), nodes[part][0]

    tree = [(-1, -1, v) for v in range(graph.n_variables)]
    node_of = {1 << v: v for v in range(graph.n_variables)}
    nested = NestedScopes(graph.n_variables)
    for scope in sorted(nodes, key=int.bit_count):
        if scope.bit_count() > 1:
            *others, last = sorted(nested.parts(scope), key=rank)
            node_of[scope] = node_of[last]
            for part in reversed(others):
                tree.append((node_of[part], node_of[scope], -1))
                node_of[scope] = len(tree) - 1
            nested.join(scope)
    left, right, variable = np.array(tree, np.int64).T
    return Vtree(np.arange(len(tree)), left, right, variable)


def read_vtree(path: AnyPath, max_bytes: int) -> Vtree:
    """The vtree of a file; a FileFormatError names the line at fault."""
    lines = NodeLines(path, "vtree", max_bytes)
    index: dict[int, int] = {}
    nodes: list[tuple[int, int, int]] = []
    loose: dict[int, None] = {}
    for line, tokens in lines:
        if (tokens[0], len(tokens)) not in ((b"L", 3), (b"I", 4)):
            lines.fail("a vtree node is 'L id variable' or 'I id left right'", line)
        node, *rest = lines.integers(tokens[1:], line)
        if node in index:
            lines.fail(f"vtree node {node} is given twice: give each node its own id", line)
        for child in rest if len(rest) == 2 else ():
            if child not in loose:
                lines.fail(
                    f"vtree node {node} has the child {child}, which is not above it or has "
                    "another parent: list children first, each below one parent",
                    line,
                )
            del loose[child]
        index[node] = len(nodes)
        loose[node] = None
        nodes.append((index[rest[0]], index[rest[1]], -1) if len(rest) == 2 else (-1, -1, rest[0]))
    _check_vtree(lines, nodes, len(loose))
    left, right, variable = np.array(nodes, np.int64).T
    columns = np.where(left < 0, variable - 1, -1)
    return Vtree(np.array(list(index), np.int64), left, right, columns)


def _check_vtree(lines: NodeLines, nodes: list[tuple[int, int, int]], roots: int) -> None:
    if len(nodes) != lines.count:
        lines.fail(
            f"the header declares {lines.count:,} vtree nodes and the file has {len(nodes):,}: "
            "the file is truncated or its header is wrong"
        )
    if roots != 1:
        lines.fail(f"it has {roots} vtree nodes without a parent: a vtree has one root, the last")
    numbers = sorted(variable for left, _, variable in nodes if left < 0)
    for expected, found in enumerate(numbers, 1):
        if expected != found:
            lines.fail(
                f"its {len(numbers)} leaves do not name the variables 1 to {len(numbers)}, each "
                f"once: look at variable {min(expected, found)}"
            )


class NodeLines:
    """The lines below the header of a ``.psdd`` or ``.vtree`` file, as (number, tokens)."""

    def __init__(self, path: AnyPath, word: str, max_bytes: int) -> None:
        self.path = os.fspath(path)
        self._data = read_whole(path, max_bytes)
        if b"\0" in self._data:
            self.fail(f"it holds binary data: a {word} file is text")
        fields = sum(map(self._data.count, _SPACES))
        if fields > max_bytes // _BYTES_PER_FIELD:
            self.fail(
                f"it has {fields:,} fields and the limit is {max_bytes // _BYTES_PER_FIELD:,}: "
                "give a smaller file, or a larger max_bytes if you trust this one"
            )
        self._rest = self._split()
        self.count = self._header(word)

    def __iter__(self) -> Iterator[tuple[int, list[bytes]]]:
        return self._rest

    def _split(self) -> Iterator[tuple[int, list[bytes]]]:
        for number, line in enumerate(io.BytesIO(self._data), 1):
            tokens = line.split()
            if tokens and not line.startswith(b"c"):
                if b"_" in line:  # Python would take 1_0 for ten
                    self.fail("an underscore is no part of a number: remove it", number)
                yield number, tokens

    def _header(self, word: str) -> int:
        """The number of nodes that the file claims to have."""
        line, tokens = next(self._rest, (None, [b""]))
        if {word, tokens[0].decode("latin-1")} == {"psdd", "vtree"}:
            self.fail(f"it is no {word} file but the other: give the psdd first, then the vtree")
        if tokens[0] == b"sdd":
            self.fail("it is an sdd file, which has no probabilities: give a psdd file")
        if len(tokens) != 2 or tokens[0] != word.encode() or not tokens[1].isdigit():
            self.fail(f"the first line that is no comment must be '{word} COUNT'", line)
        (count,) = self.integers(tokens[1:], line)
        if count > len(self._data) // _SHORTEST:
            self.fail(
                f"the header declares {count:,} nodes and the file has {len(self._data):,} bytes, "
                "too few for them: the file is truncated or its header is wrong",
                line,
            )
        return count

    def integers(self, tokens: list[bytes], line: int | None) -> list[int]:
        """The tokens as integers of at most 64 bits."""
        for token in tokens:
            try:
                if abs(int(token)) < 2**63:
                    continue
            except ValueError:
                pass
            text = token[:40].decode("ascii", "backslashreplace")
            self.fail(f"'{text}' is no integer of 64 bits", line)
        return [int(token) for token in tokens]

    def fail(self, problem: str, line: int | None = None) -> NoReturn:
        where = self.path if line is None else f"{self.path}, line {line}"
        raise FileFormatError(f"{where}: {problem}")
