"""The circuit C = (G, θ) of the paper: a frozen graph, and parameters apart from it.

Section "Probabilistic Circuits": inner nodes are sums and products, leaves are
input distributions; here every leaf is an indicator [X = v], and a general
discrete leaf is a sum of indicators. Nodes are stored children first, root
last. The weights of a sum node are a *parameter block*; sum nodes that name
the same block share their parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from fairpc.core import Array, Bools, Bytes, CircuitError, Floats, Int32s, Ints
from fairpc.data import MAX_ARITY

D = TypeVar("D")

INDICATOR: Final = 0
PRODUCT: Final = 1
SUM: Final = 2
KIND_NAMES: Final = ("indicator", "product", "sum")

WEIGHT_TOLERANCE: Final = 1e-8


def frozen(array: npt.ArrayLike, dtype: npt.DTypeLike) -> Array:
    """A read-only copy: whoever holds the original cannot change ours."""
    given = np.asarray(array)
    result = np.array(given, dtype=dtype, order="C")
    if result.dtype.kind != "f" and not np.array_equal(result, given):
        raise CircuitError(f"some number of a graph does not fit {result.dtype}: give smaller ones")
    result.flags.writeable = False
    return result


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """The structure G: nodes in topological order (children first, root last), edges in CSR form.

    Attributes:
        names: name of each variable.
        arities: number of values of each variable.
        kind: INDICATOR, PRODUCT or SUM, per node.
        variable, value: what an indicator node [variable = value] tests; -1 elsewhere.
        child_ptr, child: the children of node n are ``child[child_ptr[n]:child_ptr[n + 1]]``.
        block: parameter block of a sum node, -1 elsewhere. Equal blocks are shared parameters.
        block_ptr: block b owns the parameters ``block_ptr[b]:block_ptr[b + 1]``.
    """

    names: tuple[str, ...]
    arities: Ints
    kind: Bytes
    variable: Int32s
    value: Int32s
    child_ptr: Ints
    child: Int32s
    block: Int32s
    block_ptr: Ints

    def __post_init__(self) -> None:
        freeze = object.__setattr__
        freeze(self, "names", tuple(self.names))
        for name, dtype in _DTYPES.items():
            freeze(self, name, frozen(getattr(self, name), dtype))
        _check_variables(self)
        _check_nodes(self)
        _check_edges(self)
        _check_blocks(self)

    @property
    def n_nodes(self) -> int:
        return len(self.kind)

    @property
    def n_edges(self) -> int:
        return len(self.child)

    @property
    def n_variables(self) -> int:
        return len(self.names)

    @property
    def n_parameters(self) -> int:
        return int(self.block_ptr[-1])

    @property
    def root(self) -> int:
        return self.n_nodes - 1

    def children(self, node: int) -> Int32s:
        return self.child[self.child_ptr[node] : self.child_ptr[node + 1]]

    @cached_property
    def edge_node(self) -> Int32s:
        """Parent of each edge."""
        return frozen(np.repeat(np.arange(self.n_nodes), np.diff(self.child_ptr)), np.int32)

    @cached_property
    def edge_parameter(self) -> Int32s:
        """Parameter of each sum edge, -1 for product edges."""
        block = self.block[self.edge_node]
        position = np.arange(self.n_edges) - self.child_ptr[self.edge_node]
        return frozen(np.where(block < 0, -1, self.block_ptr[block] + position), np.int32)

    @cached_property
    def parameter_block(self) -> Int32s:
        """Block of each parameter."""
        return frozen(
            np.repeat(np.arange(len(self.block_ptr) - 1), np.diff(self.block_ptr)), np.int32
        )

    @cached_property
    def scopes(self) -> tuple[int, ...]:
        """Variables below each node, as bit masks (bit i = variable i)."""
        masks: list[int] = []
        variable, ptr, child = self.variable.tolist(), self.child_ptr.tolist(), self.child.tolist()
        for n, v in enumerate(variable):
            mask = 1 << v if v >= 0 else 0
            for c in child[ptr[n] : ptr[n + 1]]:
                mask |= masks[c]
            masks.append(mask)
        return tuple(masks)

    def once(self, make: Callable[[Graph], D]) -> D:
        """What ``make`` derives from the graph, made at the first call: the graph never changes."""
        if make not in self._derived:
            self._derived[make] = make(self)
        found: D = self._derived[make]
        return found

    @cached_property
    def _derived(self) -> dict[Callable[[Graph], Any], Any]:
        return {}

    def name(self, node: int) -> str:
        """``sum node 7``, or ``indicator node 2 [sex = 1]``."""
        text = f"{KIND_NAMES[self.kind[node]]} node {node}"
        if self.kind[node] == INDICATOR:
            text += f" [{self.names[self.variable[node]]} = {self.value[node]}]"
        return text

    def uniform(self) -> Floats:
        """Parameters that are uniform in every block."""
        sizes = np.diff(self.block_ptr)
        return np.repeat(1.0 / np.maximum(sizes, 1), sizes)

    def random(self, rng: np.random.Generator, concentration: float = 1.0) -> Floats:
        """Parameters drawn from a symmetric Dirichlet distribution in every block."""
        draws = rng.gamma(concentration, size=self.n_parameters)
        # A gamma draw with a small shape can be exactly zero; a block must not be all zero.
        draws = np.maximum(draws, np.finfo(float).tiny)
        return draws / np.add.reduceat(draws, self.block_ptr[:-1])[self.parameter_block]

    def same_as(self, other: Graph) -> bool:
        """Whether both graphs are equal, array by array."""
        return self.names == other.names and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in _DTYPES
        )


_DTYPES: Final[dict[str, npt.DTypeLike]] = {
    "arities": np.int64,
    "kind": np.uint8,
    "variable": np.int32,
    "value": np.int32,
    "child_ptr": np.int64,
    "child": np.int32,
    "block": np.int32,
    "block_ptr": np.int64,
}


@dataclass(frozen=True, eq=False, repr=False)
class WeightedGraph:
    """C = (G, θ) as data alone: a graph and one probability vector per parameter block."""

    graph: Graph
    parameters: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", check_parameters(self.graph, self.parameters))

    @property
    def names(self) -> tuple[str, ...]:
        return self.graph.names

    @property
    def arities(self) -> Ints:
        return self.graph.arities

    def weights(self, node: int) -> Floats:
        """Weights of a sum node, one per child."""
        g = self.graph
        if g.kind[node] != SUM:
            raise CircuitError(f"{g.name(node)} has no weights: only sum nodes do", node)
        b = g.block[node]
        return self.parameters[g.block_ptr[b] : g.block_ptr[b + 1]]


def variable_index(names: tuple[str, ...], variable: int | str) -> int:
    """Column of a variable given by name or number."""
    if isinstance(variable, str):
        if variable not in names:
            known = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
            raise CircuitError(f"there is no variable {variable!r}: the circuit has {known}")
        return names.index(variable)
    if not 0 <= variable < len(names):
        raise CircuitError(f"there is no variable {variable}: columns are 0 to {len(names) - 1}")
    return int(variable)


def _check_variables(g: Graph) -> None:
    if not g.names or len(g.arities) != len(g.names):
        raise CircuitError(
            f"{len(g.names)} variable names and {len(g.arities)} arities were given: "
            "give at least one name, and one arity per name"
        )
    if len(set(g.names)) != len(g.names):
        twice = next(n for n in g.names if g.names.count(n) > 1)
        raise CircuitError(f"variable {twice!r} is named twice: give each variable its own name")
    if (j := first_of((g.arities < 1) | (g.arities > MAX_ARITY))) is not None:
        raise CircuitError(
            f"variable {g.names[j]!r} has arity {g.arities[j]}: an arity lies between 1 and "
            f"{MAX_ARITY}"
        )


def _check_nodes(g: Graph) -> None:
    n = g.n_nodes
    if n == 0:
        raise CircuitError("the circuit has no nodes: a circuit needs at least a root")
    if {len(g.variable), len(g.value), len(g.block), len(g.child_ptr) - 1} != {n}:
        raise CircuitError("the arrays of nodes differ in length: give one entry per node")
    if (odd := first_of(g.kind > SUM)) is not None:
        raise CircuitError(f"node {odd} has unknown kind {g.kind[odd]}: use 0, 1 or 2", odd)
    leaf = g.kind == INDICATOR
    known = (g.variable >= 0) & (g.variable < g.n_variables)
    if (node := first_of(leaf & ~known)) is not None:
        rule = f"tests variable {g.variable[node]}, and there are {g.n_variables} variables"
        raise CircuitError(f"indicator node {node} {rule}", node)
    arity = g.arities[np.where(known, g.variable, 0)]
    _refuse(g, leaf & ((g.value < 0) | (g.value >= arity)), "tests a value that is not there")
    named = (g.variable != -1) | (g.value != -1)
    _refuse(g, ~leaf & named, "names a variable: only indicators do, use -1")


def _check_edges(g: Graph) -> None:
    sizes = np.diff(g.child_ptr)
    if g.child_ptr[0] != 0 or g.child_ptr[-1] != g.n_edges or (sizes < 0).any():
        raise CircuitError("child_ptr does not cut the edges: it must rise from 0 to their number")
    leaf = g.kind == INDICATOR
    _refuse(g, (sizes == 0) & ~leaf, "has no children: give it at least one")
    _refuse(g, (sizes > 0) & leaf, "has children: an indicator is a leaf")
    parent = np.repeat(np.arange(g.n_nodes), sizes)
    if (edge := first_of((g.child < 0) | (g.child >= parent))) is not None:
        node = int(parent[edge])
        rule = "nodes are numbered from 0, children before parents"
        raise CircuitError(f"{g.name(node)} has the child {g.child[edge]}: {rule}", node)
    seen = np.zeros(g.n_variables, bool)
    seen[g.variable[leaf]] = True
    if (unseen := first_of(~seen)) is not None:
        raise CircuitError(
            f"variable {g.names[unseen]!r} is tested by no node: leave it out of the variables"
        )
    reached = np.zeros(g.n_nodes, bool)
    reached[g.child] = True
    reached[g.root] = True
    _refuse(g, ~reached, "is not a descendant of the root (the last node): leave it out")


def _check_blocks(g: Graph) -> None:
    is_sum = g.kind == SUM
    n_blocks = len(g.block_ptr) - 1
    if n_blocks < 0 or g.block_ptr[0] != 0 or (np.diff(g.block_ptr) < 1).any():
        raise CircuitError("block_ptr does not cut the parameters: it must rise from 0")
    wrong = np.where(is_sum, (g.block < 0) | (g.block >= n_blocks), g.block != -1)
    rule = f"a sum node names one of the {n_blocks} blocks, other nodes -1"
    _refuse(g, wrong, f"has another parameter block: {rule}")
    sizes, block_sizes = np.diff(g.child_ptr), np.append(np.diff(g.block_ptr), 0)
    wrong = is_sum & (sizes != block_sizes[g.block])
    _refuse(g, wrong, "has not one parameter per child: give as many")
    used = np.zeros(n_blocks, bool)
    used[g.block[is_sum]] = True
    if (block := first_of(~used)) is not None:
        raise CircuitError(f"parameter block {block} belongs to no sum node: leave it out")


def _refuse(g: Graph, wrong: Bools, rule: str) -> None:
    """A CircuitError about the first node that breaks a rule."""
    if (node := first_of(wrong)) is not None:
        raise CircuitError(f"{g.name(node)} {rule}", node)


def first_of(mask: Bools) -> int | None:
    """Place of the first that is true, None where none is."""
    return int(np.argmax(mask)) if mask.any() else None


def check_parameters(graph: Graph, parameters: npt.ArrayLike) -> Floats:
    """θ as a frozen float64 array, one probability vector per block; or a CircuitError."""
    theta: Floats = frozen(parameters, np.float64)
    if theta.shape != (graph.n_parameters,):
        raise CircuitError(
            f"parameters have shape {theta.shape}: the graph has {graph.n_parameters} of them"
        )
    if not len(theta):
        return theta
    if (bad := first_of(~(theta >= 0) | ~np.isfinite(theta))) is not None:
        node = graph.block.tolist().index(graph.parameter_block[bad])
        raise CircuitError(
            f"{graph.name(node)} has weight {theta[bad]}: weights are numbers from 0 to 1", node
        )
    totals = np.add.reduceat(theta, graph.block_ptr[:-1])
    if (block := first_of(np.abs(totals - 1.0) > WEIGHT_TOLERANCE)) is not None:
        node = graph.block.tolist().index(block)
        raise CircuitError(
            f"{graph.name(node)} has weights that sum to {totals[block]:.9g}: "
            "divide them by their sum",
            node,
        )
    return theta
