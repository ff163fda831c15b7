"""Circuits as ``.psdd`` and ``.vtree`` text files, the format of Juice.jl.

A psdd file holds comment lines that start with ``c``, a header ``psdd COUNT``,
and nodes, children first and the root last::

    L id vtree literal                           [X = 1], or [X = 0] for a negative literal
    T id vtree variable log(p)                   X = 1 with probability p
    D id vtree k  {prime sub log(theta)} × k     sum of k products prime × sub

A vtree file holds ``vtree COUNT``, leaves ``L id variable`` and inner nodes
``I id left right``, the root last. Variables are numbered from 1.
"""

from __future__ import annotations

import io
import math
import os
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import numpy as np

from fairpc.circuit._builder import CircuitBuilder
from fairpc.circuit._circuit import Circuit
from fairpc.circuit._graph import first_of
from fairpc.core import (
    AnyPath,
    Bools,
    CircuitError,
    FileFormatError,
    Floats,
    Ints,
    read_whole,
)

MAX_BYTES: Final = 32 * 2**20
"""Largest file that is read unless the caller says otherwise."""
TOLERANCE: Final = 1e-5
"""How far weights may sum from one: what six significant digits of log θ can lose."""

_Pair = tuple[int, int]

_EXACT: Final = 1e-12  # nearer to one than this, the weights are left as they are
_L, _T, _D = b"LTD"
_SIZES: Final = {b"L": (4, 4), b"T": (5, 6), b"D": (7, math.inf)}  # fields of a line
_GRAMMAR: Final = (
    "a node is 'L id vtree literal', 'T id vtree variable log(p)' or "
    "'D id vtree k {prime sub log(theta)} × k'"
)


def read_psdd(
    psdd_path: AnyPath,
    vtree_path: AnyPath | None = None,
    *,
    names: Sequence[str] | None = None,
    max_bytes: int = MAX_BYTES,
) -> Circuit:
    """The circuit of a psdd file; variable i of the file is column i - 1.

    A T is a sum over both indicators, a D a sum of products, or the product
    itself if it has one element. Nodes that several lines name stay shared, and
    each T and D has parameters of its own. Products have no line, so equal ones
    are one node. Nodes that the root (the last line) does not need are left out.

    Args:
        psdd_path: the nodes.
        vtree_path: the vtree, along which all decisions must split; without it, they must agree
            with each other on one.
        names: names of the variables, ``X1`` … ``Xn`` if None.
        max_bytes: files larger than this are refused.

    Raises:
        FileFormatError: a file is truncated, altered or no such file; names file and line.
    """
    vtree = None if vtree_path is None else read_vtree(vtree_path, max_bytes)
    nodes = _Nodes(os.fspath(psdd_path), vtree)
    count = _read_lines(psdd_path, "psdd", max_bytes, nodes.add)
    # Counts first: of all that is wrong with a truncated file, that it is truncated says most.
    nodes.check_count(count)
    n = nodes.check_root()
    if names is not None and len(names) != n:
        raise CircuitError(
            f"{len(names)} names were given for the {n} variables of {nodes.path}: "
            "give one per variable"
        )
    return nodes.circuit(names or [f"X{i}" for i in range(1, n + 1)])


def _read_lines(
    path: AnyPath, word: str, max_bytes: int, add: Callable[[list[bytes]], None]
) -> int:
    """Hand the fields of each line below the header to ``add``; the count that the header has.

    What ``add`` refuses becomes an error that names the line.
    """
    data = read_whole(path, max_bytes)
    count = None
    for number, line in enumerate(io.BytesIO(data), 1):
        tokens = line.split()
        if not tokens or line.startswith(b"c"):
            continue
        try:
            if count is not None:
                add(tokens)
            elif tokens[0] == word.encode() and len(tokens) == 2:
                count = int(tokens[1])
            else:
                _fail(path, f"it is not a {word} file: its first line must be '{word} COUNT'")
        except KeyError as error:
            rule = "list children before their parents"
            _fail(path, f"line {number} names node {error}, which is not above it: {rule}")
        except (ValueError, OverflowError) as error:
            _fail(path, f"line {number}: {str(error)[:200]}")
    if count is None:
        _fail(path, f"it is not a {word} file: its first line must be '{word} COUNT'")
    return count


def _fail(path: AnyPath, problem: str) -> NoReturn:
    raise FileFormatError(f"{os.fspath(path)}: {problem}")


class _Nodes:
    """The nodes of a file, line by line, and where they sit.

    Every line has a place in the vtree: minus the number of a leaf's variable, or the number of
    a pair of places, one for all primes, one for all subs of a decision. Without a vtree the
    decisions define one, and must agree about it.

    Attributes:
        letter, number: L, T or D, and the literal, the variable or the number of elements.
        prime, sub: of each element of a decision, lines counted from 0.
    """

    def __init__(self, path: str, vtree: Vtree | None) -> None:
        self.path = path
        self._pairs: dict[_Pair, int] = {}
        self._root = None if vtree is None else vtree.number_pairs(self._pairs)
        self._at: dict[int, int] = {}  # lines by id
        self.letter, self.number, self.prime, self.sub, self._place = (array("q") for _ in range(5))
        self._log, self._log_p, self._log_q = array("d"), array("d"), array("d")

    def add(self, tokens: list[bytes]) -> None:
        """The next line; a ValueError where it is not a node."""
        letter, size = tokens[0], len(tokens)
        least, most = _SIZES.get(letter, (1, 0))
        if not least <= size <= most:
            raise ValueError(f"this is not a node: {_GRAMMAR}")
        own, _, number = array("q", map(int, tokens[1:4]))  # refuses more than 64 bits
        if own in self._at:
            raise ValueError(f"node {own} is given twice: give each node its own id")
        if letter == b"D":
            place = self._decision(own, number, tokens[4:])
        elif not number or (letter == b"T" and number < 0):
            raise ValueError(f"node {own} names variable {number}: they count from 1")
        else:
            place = -abs(number)
        if letter == b"T":
            # Some tools write log(1 - p) too, before log(p).
            self._log_p.append(float(tokens[-1]))
            self._log_q.append(float(tokens[4]) if size == 6 else math.nan)
        self._at[own] = len(self._at)
        self.letter.append(letter[0])
        self.number.append(number)
        self._place.append(place)

    def _decision(self, own: int, number: int, tokens: list[bytes]) -> int:
        if len(tokens) != 3 * number:
            raise ValueError(f"node {own} declares {number:,} elements: {_GRAMMAR}")
        primes = [self._at[int(token)] for token in tokens[::3]]
        subs = [self._at[int(token)] for token in tokens[1::3]]
        place = self._place
        sides = {(place[p], place[s]) for p, s in zip(primes, subs, strict=True)}
        if len(sides) > 1 or (self._root is not None and not sides <= self._pairs.keys()):
            raise ValueError(
                f"the elements of node {own} split its variables in different ways, or not as the "
                "vtree does: primes are over what is left of a vtree node, subs over what is right"
            )
        self.prime.extend(primes)
        self.sub.extend(subs)
        self._log.extend(map(float, tokens[2::3]))
        return self._pairs.setdefault(sides.pop(), len(self._pairs))

    def check_count(self, declared: int) -> None:
        """The header counts the lines; Juice.jl counts the elements as well, more or less.

        So a larger count is believed if everything is below the last node: a file
        that was cut before its root has loose ends.
        """
        found = len(self._at)
        juice = 0 < found <= declared <= found + len(self._log) and self._all_needed()
        if not juice and (declared != found or not found):
            _fail(
                self.path,
                f"the header declares {declared:,} nodes and the file has {found:,}: "
                "the file is truncated or its header is wrong",
            )

    def _needed(self) -> bytearray:
        """Which lines the last one needs."""
        found = bytearray(len(self.letter))
        found[-1] = 1
        stop = len(self.prime)
        for n in range(len(found) - 1, -1, -1):
            start = stop - self.number[n] if self.letter[n] == _D else stop
            if found[n]:
                for child in (*self.prime[start:stop], *self.sub[start:stop]):
                    found[child] = 1
            stop = start
        return found

    def _all_needed(self) -> bool:
        """Whether the last line needs all others; literals may be needed by a T alone."""
        lines = list(zip(self._needed(), self.letter, self.number, strict=True))
        literals = {number for used, _, number in lines if used}
        literals |= {-number for used, letter, number in lines if used and letter == _T}
        return all(used or (letter == _L and number in literals) for used, letter, number in lines)

    def check_root(self) -> int:
        """The last line is the root of the vtree, or of its own one; gives their variables."""
        root, pairs = self._place[-1], list(self._pairs)
        if self._root not in (None, root):
            _fail(
                self.path,
                "the last node is not over the variables of the whole vtree: the file is "
                "truncated, or the two do not belong together",
            )
        seen, stack = {root}, [root]
        while stack:
            place = stack.pop()
            for side in pairs[place] if place >= 0 else ():
                if side in seen:
                    _fail(self.path, "a prime and a sub share variables: they need different ones")
                seen.add(side)
                stack.append(side)
        variables = sorted(-place for place in seen if place < 0)
        if variables[-1] != len(variables):
            gap = next(i for i, v in enumerate(variables, 1) if i != v)
            _fail(
                self.path,
                f"variable {gap} does not occur below the last node and variable {variables[-1]} "
                "does: a psdd is over the variables 1 to n",
            )
        return len(variables)

    def circuit(self, names: Sequence[str]) -> Circuit:
        """Each T and each D of several elements has weights of its own."""
        builder = CircuitBuilder(dict.fromkeys(names, 2))
        of_leaf, of_element = (w.tolist() for w in self._weights())
        home: list[int] = []  # the node of each line
        at, leaf = 0, 0
        lines = zip(self._needed(), self.letter, self.number, strict=True)
        for n, (needed, letter, number) in enumerate(lines):
            node = -1
            if needed and letter == _L:
                node = builder.indicator(abs(number) - 1, int(number > 0))
            elif needed and letter == _T:
                node = builder.categorical(number - 1, of_leaf[leaf], tie=n)
            elif needed:
                span = slice(at, at + number)
                pairs = zip(self.prime[span], self.sub[span], strict=True)
                products = [builder.product(home[p], home[s]) for p, s in pairs]
                node = products[0]
                if number > 1:
                    node = builder.sum(products, of_element[span], tie=n)
            home.append(node)
            at += number if letter == _D else 0
            leaf += letter == _T
        return builder.build(home[-1])

    def _weights(self) -> tuple[Floats, Floats]:
        """(1 - p, p) of each T; and of each element θ, divided by their sum if that is not 1."""
        letter, number = np.asarray(self.letter), np.asarray(self.number)
        true, decision = np.flatnonzero(letter == _T), np.flatnonzero(letter == _D)
        size = number[decision]
        log, log_p, log_q = map(np.asarray, (self._log, self._log_p, self._log_q))
        both = ~np.isnan(log_q)
        for where, logs in (
            (np.repeat(decision, size), log),
            (true, log_p),
            (true[both], log_q[both]),
        ):
            rule = "log-probabilities are not above 0"
            self._check(where, logs, logs <= TOLERANCE, f"has the log-probability {{}}: {rule}")
        self._check_totals(true[both], np.exp(log_p[both]) + np.exp(log_q[both]))
        theta = np.exp(log)
        if len(theta):
            totals = np.add.reduceat(theta, np.cumsum(size) - size)
            self._check_totals(decision, totals)
            totals[np.abs(totals - 1.0) <= _EXACT] = 1.0
            theta /= np.repeat(totals, size)
        log_p = np.minimum(log_p, 0.0)
        return np.stack([-np.expm1(log_p), np.exp(log_p)], axis=1), theta

    def _check_totals(self, where: Ints, totals: Floats) -> None:
        sound = np.abs(totals - 1.0) <= TOLERANCE
        self._check(where, totals, sound, "has weights that sum to {}: they must sum to 1")

    def _check(self, where: Ints, values: Floats, sound: Bools, problem: str) -> None:
        if (bad := first_of(~sound)) is not None:
            node = list(self._at)[where[bad]]
            _fail(self.path, f"node {node} {problem.format(f'{values[bad]:.9g}')}")


@dataclass(frozen=True, eq=False)
class Vtree:
    """A vtree as arrays, children first and the root last.

    Attributes:
        left, right: children of the inner nodes, -1 at leaves.
        variable: column of the leaves, -1 at inner nodes.
    """

    left: Ints
    right: Ints
    variable: Ints

    def number_pairs(self, pairs: dict[tuple[int, int], int]) -> int:
        """The place of each node into ``pairs`` (see :class:`_Nodes`); that of the root."""
        places: list[int] = []
        columns = self.left.tolist(), self.right.tolist(), self.variable.tolist()
        for a, b, v in zip(*columns, strict=True):
            pair = (places[a], places[b]) if v < 0 else (0, 0)
            places.append(-v - 1 if v >= 0 else pairs.setdefault(pair, len(pairs)))
        return places[-1]


def read_vtree(path: AnyPath, max_bytes: int) -> Vtree:
    """The vtree of a file; a FileFormatError says what is wrong with it."""
    index: dict[int, int] = {}
    nodes: list[tuple[int, int, int]] = []
    loose: dict[int, None] = {}

    def add(tokens: list[bytes]) -> None:
        if (tokens[0], len(tokens)) not in ((b"L", 3), (b"I", 4)):
            raise ValueError("a vtree node is 'L id variable' or 'I id left right'")
        node, *rest = array("q", map(int, tokens[1:]))
        if node in index:
            raise ValueError(f"vtree node {node} is given twice: give each node its own id")
        for child in rest if len(rest) == 2 else ():
            del loose[child]  # each is above, and below one parent
        index[node] = len(nodes)
        loose[node] = None
        nodes.append((index[rest[0]], index[rest[1]], -1) if len(rest) == 2 else (-1, -1, rest[0]))

    count = _read_lines(path, "vtree", max_bytes, add)
    numbers = sorted(variable for left, _, variable in nodes if left < 0)
    if not len(nodes) == count == 2 * len(numbers) - 1 or len(loose) != 1:
        _fail(
            path,
            f"the header declares {count:,} vtree nodes and the file has {len(nodes):,}, "
            f"{len(loose)} of them without a parent: a vtree has one root, the last",
        )
    if numbers != list(range(1, len(numbers) + 1)):
        _fail(path, f"its leaves do not name the variables 1 to {len(numbers)}, each once")
    left, right, variable = np.array(nodes, np.int64).T
    columns = np.where(left < 0, variable - 1, -1)
    return Vtree(left, right, columns)
