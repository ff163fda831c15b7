"""Sums over parts in one order, whoever has which of them.

Parts are the leaves of a binary tree that depends on their number alone. Who has all
parts below a node adds them up and sends one sum; what is left is added where those
of several meet. So the sum is the same to the bit for any number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from fairpc.errors.arrays import Floats

Flows = tuple[Any, Floats]
"""Log-likelihood and flows, of one set of parameters or of several."""

Sums = Mapping[int, Flows]
"""Sums by node of the tree: 1 is the root, 2n and 2n + 1 are below n."""

ROOT = 1


def leaf(part: int, n_parts: int) -> int:
    """The node of a part."""
    return _width(n_parts) + part


def added(sums: Iterable[Sums], n_parts: int) -> Sums:
    """Sums of several together, as far up the tree as they go."""
    known = dict(chain.from_iterable(some.items() for some in sums))
    end = _width(n_parts) + n_parts
    above = {node // 2 for node in known}
    while above:
        risen = set()
        for node in above - {0}:
            left, right = 2 * node, 2 * node + 1
            if left in known and right in known:
                (one, flows), (two, more) = known.pop(left), known.pop(right)
                known[node] = one + two, flows + more
                risen.add(node // 2)
            elif left in known and _first_leaf(right, n_parts) >= end:
                known[node] = known.pop(left)
                risen.add(node // 2)
        above = risen
    return known


def _width(n_parts: int) -> int:
    """Leaves of the tree, with and without a part: a power of two."""
    return 1 << (n_parts - 1).bit_length()


def _first_leaf(node: int, n_parts: int) -> int:
    """The first leaf below a node."""
    return node << (_width(n_parts).bit_length() - node.bit_length())
