"""The nodes of a ``.psdd`` file as flat arrays, and the checks that need no more than them."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NoReturn

import numpy as np

from fairpc.circuit.vtree import NodeLines
from fairpc.errors import FileFormatError
from fairpc.errors.arrays import Bools, Floats, Ints

LITERAL: Final = ord("L")
TRUE: Final = ord("T")
DECISION: Final = ord("D")

_GRAMMAR: Final = (
    "a node is 'L id vtree literal', 'T id vtree variable log(p)' or "
    "'D id vtree k {prime sub log(theta)} × k'"
)


@dataclass(frozen=True, eq=False)
class PsddNodes:
    """The nodes of a file: one entry per line, and apart from them one per element of a decision.

    Attributes:
        kind: the letter of the line.
        number: the literal, the variable or the number of elements.
        log_p, log_q: log(p) and log(1 - p) of each T; NaN where the file leaves out the latter.
    """

    lines: NodeLines
    line: Ints
    kind: Ints
    id: Ints
    vtree: Ints
    number: Ints
    log_p: Floats
    log_q: Floats
    prime_id: Ints
    sub_id: Ints
    element_log: Floats

    @cached_property
    def decisions(self) -> Ints:
        return np.flatnonzero(self.kind == DECISION)

    @cached_property
    def sums(self) -> Bools:
        """T nodes, and decisions with more than one element."""
        found: Bools = (self.kind == TRUE) | ((self.kind == DECISION) & (self.number > 1))
        return found

    @cached_property
    def single(self) -> Ints:
        """Decisions with one element."""
        return np.flatnonzero((self.kind == DECISION) & (self.number == 1))

    @cached_property
    def true(self) -> Ints:
        return np.flatnonzero(self.kind == TRUE)

    @cached_property
    def starts(self) -> Ints:
        """First element of each decision, and at the end the number of elements."""
        return starts_of(self.number[self.decisions])

    @cached_property
    def owner(self) -> Ints:
        """Decision that each element belongs to."""
        return np.repeat(self.decisions, self.number[self.decisions])

    @cached_property
    def variable(self) -> Ints:
        """Column of the literals and T nodes, -1 for decisions."""
        return np.where(self.kind == DECISION, -1, np.abs(self.number) - 1)

    @cached_property
    def _by_id(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.id, kind="stable")
        ids = self.id[order]
        twice = np.flatnonzero(ids[1:] == ids[:-1])
        if len(twice):
            node = int(order[twice + 1].min())
            self.fail(node, f"node {self.id[node]} is given twice: give each node its own id")
        return ids, order

    @cached_property
    def prime(self) -> Ints:
        return self._find(self.prime_id)

    @cached_property
    def sub(self) -> Ints:
        return self._find(self.sub_id)

    def _find(self, wanted: Ints) -> Ints:
        """Nodes by id; each must stand above the decision that names it."""
        ids, order = self._by_id
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        node = order[at]
        bad = first_of((ids[at] != wanted) | (node >= self.owner))
        if bad is not None:
            owner = int(self.owner[bad])
            self.fail(
                owner,
                f"node {self.id[owner]} names node {wanted[bad]}, which is not above it: "
                "list children before their parents",
            )
        return node

    def fail(self, node: int, problem: str) -> NoReturn:
        self.lines.fail(problem, int(self.line[node]))


def parse_nodes(lines: NodeLines) -> PsddNodes:
    columns: list[array[Any]] = [array("q") for _ in range(5)]
    numbers, kinds, ids, vtrees, values = columns
    elements: list[array[Any]] = [array("q"), array("q"), array("d")]
    logs: list[array[Any]] = [array("d"), array("d")]
    for number, t in lines:
        letter, size = t[0], len(t)
        try:
            if letter == b"D" and size >= 7:
                values.append(int(t[3]))
                if size != 4 + 3 * values[-1]:
                    _bad_length(lines, number, t)
                elements[0].extend(map(int, t[4::3]))
                elements[1].extend(map(int, t[5::3]))
                elements[2].extend(map(float, t[6::3]))
            elif letter == b"L" and size == 4:
                values.append(int(t[3]))
            elif letter == b"T" and 5 <= size <= 6:
                values.append(int(t[3]))
                # Some tools write log(1 - p) too, before log(p).
                logs[0].append(float(t[-1]))
                logs[1].append(float(t[4]) if size == 6 else math.nan)
            else:
                lines.fail(f"this is no node: {_GRAMMAR}", number)
            ids.append(int(t[1]))
            vtrees.append(int(t[2]))
        except FileFormatError:
            raise
        except (ValueError, OverflowError) as error:
            lines.fail(f"a field is no number of 64 bits ({error}): {_GRAMMAR}", number)
        kinds.append(letter[0])
        numbers.append(number)
    arrays = [np.frombuffer(c, c.typecode) for c in (*columns, *logs, *elements)]
    nodes = PsddNodes(lines, *arrays)
    _check_leaves(nodes)
    return nodes


def _bad_length(lines: NodeLines, number: int, tokens: list[bytes]) -> NoReturn:
    node, k = lines.integers([tokens[1], tokens[3]], number)
    lines.fail(
        f"node {node} declares {k:,} elements and {len(tokens) - 4:,} fields follow: "
        "give prime, sub and log(theta) for each element",
        number,
    )


def _check_leaves(nodes: PsddNodes) -> None:
    limit = np.iinfo(np.int32).max
    leaf = nodes.kind != DECISION
    bad = first_of(leaf & ((nodes.variable < 0) | (nodes.variable >= limit)))
    bad = bad if bad is not None else first_of((nodes.kind == TRUE) & (nodes.number < 0))
    if bad is not None:
        nodes.fail(
            bad, f"node {nodes.id[bad]} names variable {nodes.number[bad]}: they count from 1"
        )


def starts_of(sizes: Ints) -> Ints:
    """Offsets of consecutive pieces, from 0 to their total."""
    result = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=result[1:])
    return result


def first_of(mask: Bools) -> int | None:
    return int(np.argmax(mask)) if mask.any() else None
