"""The circuit C = (G, θ) of the paper: a frozen graph, and parameters apart from it.

Section "Probabilistic Circuits": inner nodes are sums and products, leaves are
input distributions; here every leaf is an indicator [X = v], and a general
discrete leaf is a sum of indicators. Nodes are stored children first, root
last. The weights of a sum node are a *parameter block*; sum nodes that name
the same block share their parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core import Array, Bools, Bytes, CircuitError, Codes, Floats, Int32s, Ints
from fairpc.data import MAX_ARITY

if TYPE_CHECKING:
    from fairpc.circuit._program import Program
    from fairpc.circuit._properties import Properties
    from fairpc.circuit._queries import Function

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

    @cached_property
    def properties(self) -> Properties:
        """Structural properties; computed once, since the graph never changes."""
        from fairpc.circuit._properties import Properties

        return Properties(self)

    @cached_property
    def program(self) -> Program:
        """What kernels take of a smooth and decomposable graph; made once, too."""
        from fairpc.circuit._program import compiled

        return compiled(self)

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
class Circuit:
    """A probabilistic circuit C = (G, θ): a graph and one probability vector per parameter block.

    Rows are integer codes, one column per variable, -1 = missing. Queries are
    methods; each refuses a circuit that lacks the structural property it needs.
    """

    graph: Graph
    parameters: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", check_parameters(self.graph, self.parameters))

    def __repr__(self) -> str:
        from fairpc.circuit._picture import summary

        return summary(self)

    def _repr_html_(self) -> str:
        from fairpc.circuit._picture import to_html

        return to_html(self)

    def to_dot(
        self, max_nodes: int = 60, *, labels: Mapping[str, Sequence[str]] | None = None
    ) -> str:
        """The circuit in the DOT language of Graphviz, root on top.

        Of a circuit with more than ``max_nodes`` nodes the top layers are written, with dashed
        rims where children are left out, and the rest is counted. Beyond a dozen nodes, a sum
        over all indicators of one variable is a box with the variable and its probabilities.
        ``labels`` names the values of some variables; of the others numbers are shown.
        """
        from fairpc.circuit._picture import to_dot

        return to_dot(self, max_nodes, labels or {})

    def with_parameters(self, parameters: npt.ArrayLike) -> Circuit:
        """The same structure with other parameters."""
        return Circuit(self.graph, np.asarray(parameters, np.float64))

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

    def properties(self) -> Properties:
        """Smooth, decomposable, deterministic, structured; each with its first violation."""
        return self.graph.properties

    def log_likelihood(self, codes: npt.ArrayLike, *, n_threads: int | None = None) -> Floats:
        """log P(x) of complete rows."""
        from fairpc.circuit import _queries as queries

        return queries.log_likelihood(self, codes, n_threads=n_threads)

    def log_marginal(self, codes: npt.ArrayLike, *, n_threads: int | None = None) -> Floats:
        """log P(e) of rows in which any value may be missing (-1)."""
        from fairpc.circuit import _queries as queries

        return queries.log_marginal(self, codes, n_threads=n_threads)

    def posterior(
        self, variable: int | str, codes: npt.ArrayLike, *, n_threads: int | None = None
    ) -> Floats:
        """P(variable = v | e) for each row: rows × values."""
        from fairpc.circuit import _queries as queries

        return queries.posterior(self, variable, codes, n_threads=n_threads)

    def conditionals(self, codes: npt.ArrayLike) -> tuple[Floats, ...]:
        """P(X_j = v | e) of every variable at once: one array (rows, arity) per variable."""
        from fairpc.circuit import _queries as queries

        return queries.conditionals(self, codes)

    def joint_with_values(self, codes: npt.ArrayLike, variables: Sequence[int | str]) -> Floats:
        """P(e, X_j = v) for every value of some variables: rows × their values."""
        from fairpc.circuit import _queries as queries

        return queries.joint_with_values(self, codes, variables)

    def log_weighted(self, weights: Mapping[Any, npt.ArrayLike]) -> Floats:
        """log E[∏ w_j(X_j)] by one pass: evidence that is a set of values, or soft."""
        from fairpc.circuit import _queries as queries

        return queries.log_weighted(self, weights)

    def mpe(self, codes: npt.ArrayLike) -> tuple[Codes, Floats]:
        """Most probable completion of each row, and its log-probability (deterministic)."""
        from fairpc.circuit import _queries as queries

        return queries.mpe(self, codes)

    def sample(self, n: int, rng: np.random.Generator | int | None = None) -> Codes:
        """``n`` independent complete rows."""
        from fairpc.circuit import _queries as queries

        return queries.sample(self, n, rng)

    def sample_given(
        self, codes: npt.ArrayLike, rng: np.random.Generator | int | None = None
    ) -> Codes:
        """Each row completed by a draw from P(missing | known)."""
        from fairpc.circuit import _queries as queries

        return queries.sample_given(self, codes, rng)

    def expectation(
        self, function: Function, variables: Sequence[int | str], codes: npt.ArrayLike | None = None
    ) -> Floats:
        """E[f(A) | e] of a function of a few variables A."""
        from fairpc.circuit import _queries as queries

        return queries.expectation(self, function, variables, codes)

    def expectation_of_sum(
        self, tables: Mapping[Any, npt.ArrayLike], codes: npt.ArrayLike | None = None
    ) -> Floats:
        """E[Σ_j g_j(X_j) | e] for any number of variables."""
        from fairpc.circuit import _queries as queries

        return queries.expectation_of_sum(self, tables, codes)

    def entropy(self) -> float:
        """−E[log P(x)] in nats (deterministic)."""
        from fairpc.circuit._queries import entropy

        return entropy(self)

    def kl(self, other: Circuit) -> float:
        """KL(self ‖ other) in nats (both deterministic, structured alike)."""
        from fairpc.circuit._queries import kl

        return kl(self, other)


def variable_index(graph: Graph, variable: int | str) -> int:
    """Column of a variable given by name or number."""
    if isinstance(variable, str):
        if variable not in graph.names:
            known = ", ".join(graph.names[:8]) + (", …" if graph.n_variables > 8 else "")
            raise CircuitError(f"there is no variable {variable!r}: the circuit has {known}")
        return graph.names.index(variable)
    if not 0 <= variable < graph.n_variables:
        raise CircuitError(
            f"there is no variable {variable}: columns are 0 to {graph.n_variables - 1}"
        )
    return int(variable)


def _check_variables(g: Graph) -> None:
    if not g.names:
        raise CircuitError("the circuit has no variables: give at least one")
    if len(g.arities) != len(g.names):
        raise CircuitError(
            f"{len(g.names)} variable names and {len(g.arities)} arities were given: "
            "give one arity per name"
        )
    if len(set(g.names)) != len(g.names):
        twice = next(n for n in g.names if g.names.count(n) > 1)
        raise CircuitError(f"variable {twice!r} is named twice: give each variable its own name")
    for name, arity in zip(g.names, g.arities, strict=True):
        if not 1 <= arity <= MAX_ARITY:
            raise CircuitError(
                f"variable {name!r} has arity {arity}: an arity lies between 1 and {MAX_ARITY}"
            )


def _check_nodes(g: Graph) -> None:
    n = g.n_nodes
    if n == 0:
        raise CircuitError("the circuit has no nodes: a circuit needs at least a root")
    shapes = (len(g.variable), len(g.value), len(g.block), len(g.child_ptr) - 1)
    if shapes != (n, n, n, n):
        raise CircuitError("the arrays of nodes differ in length: give one entry per node")
    if (odd := first_of(g.kind > SUM)) is not None:
        raise CircuitError(f"node {odd} has unknown kind {g.kind[odd]}: use 0, 1 or 2", odd)
    leaf = g.kind == INDICATOR
    known = (g.variable >= 0) & (g.variable < g.n_variables)
    if (node := first_of(leaf & ~known)) is not None:
        raise CircuitError(
            f"indicator node {node} tests variable {g.variable[node]}, and there are "
            f"{g.n_variables} variables",
            node,
        )
    arity = g.arities[np.where(known, g.variable, 0)]
    if (node := first_of(leaf & ((g.value < 0) | (g.value >= arity)))) is not None:
        name = g.names[g.variable[node]]
        raise CircuitError(
            f"indicator node {node} tests {name} = {g.value[node]}, and the values of {name!r} "
            f"are 0 to {arity[node] - 1}",
            node,
        )
    if (node := first_of(~leaf & ((g.variable != -1) | (g.value != -1)))) is not None:
        raise CircuitError(f"{g.name(node)} names a variable: only indicators do, use -1", node)


def _check_edges(g: Graph) -> None:
    sizes = np.diff(g.child_ptr)
    if g.child_ptr[0] != 0 or g.child_ptr[-1] != g.n_edges or (sizes < 0).any():
        raise CircuitError("child_ptr does not cut the edges: it must rise from 0 to their number")
    if (node := first_of((sizes == 0) & (g.kind != INDICATOR))) is not None:
        raise CircuitError(f"{g.name(node)} has no children: give it at least one", node)
    if (node := first_of((sizes > 0) & (g.kind == INDICATOR))) is not None:
        raise CircuitError(f"{g.name(node)} has children: an indicator is a leaf", node)
    parent = np.repeat(np.arange(g.n_nodes), sizes)
    if (edge := first_of((g.child < 0) | (g.child >= g.n_nodes))) is not None:
        node = int(parent[edge])
        raise CircuitError(
            f"{g.name(node)} has the unknown child {g.child[edge]}: nodes are numbered "
            f"0 to {g.n_nodes - 1}",
            node,
        )
    if (edge := first_of(g.child >= parent)) is not None:
        raise _out_of_order(g, int(parent[edge]), int(g.child[edge]))
    seen = np.zeros(g.n_variables, bool)
    seen[g.variable[g.kind == INDICATOR]] = True
    if (unseen := first_of(~seen)) is not None:
        raise CircuitError(
            f"variable {g.names[unseen]!r} is tested by no node: leave it out of the variables"
        )
    reached = np.zeros(g.n_nodes, bool)
    reached[g.child] = True
    reached[g.root] = True
    if (node := first_of(~reached)) is not None:
        raise CircuitError(
            f"{g.name(node)} is no descendant of the root (the last node): leave it out", node
        )


def _out_of_order(g: Graph, node: int, child: int) -> CircuitError:
    """An edge points forward: say whether that closes a cycle or is only out of order."""
    came = {child: -1}  # where each node below the child was reached from, depth first
    stack = [child]
    while stack and node not in came:
        for c in g.children(above := stack.pop()).tolist():
            if c not in came:
                came[c] = above
                stack.append(c)
    if node not in came:
        return CircuitError(
            f"{g.name(node)} comes before its child {child}: list children before parents", node
        )
    trail = [node]
    while trail[-1] != child:
        trail.append(came[trail[-1]])
    cycle = " -> ".join(map(str, [node, *trail[::-1]]))
    return CircuitError(f"{g.name(node)} lies on the cycle {cycle}: remove an edge of it", node)


def _check_blocks(g: Graph) -> None:
    is_sum = g.kind == SUM
    n_blocks = len(g.block_ptr) - 1
    if n_blocks < 0 or g.block_ptr[0] != 0 or (np.diff(g.block_ptr) < 1).any():
        raise CircuitError("block_ptr does not cut the parameters: it must rise from 0")
    node = first_of(np.where(is_sum, (g.block < 0) | (g.block >= n_blocks), g.block != -1))
    if node is not None:
        raise CircuitError(
            f"{g.name(node)} has parameter block {g.block[node]}: a sum node names one of the "
            f"{n_blocks} blocks, other nodes -1",
            node,
        )
    sizes = np.diff(g.child_ptr)
    block_sizes = np.diff(g.block_ptr)
    if (node := first_of(is_sum & (sizes != np.append(block_sizes, 0)[g.block]))) is not None:
        raise CircuitError(
            f"{g.name(node)} has {sizes[node]} children and {block_sizes[g.block[node]]} "
            "parameters: give one parameter per child",
            node,
        )
    used = np.zeros(n_blocks, bool)
    used[g.block[is_sum]] = True
    if (block := first_of(~used)) is not None:
        raise CircuitError(f"parameter block {block} belongs to no sum node: leave it out")


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
