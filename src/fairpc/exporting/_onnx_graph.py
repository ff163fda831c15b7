"""A graph of ONNX: columns of a table become codes, and the codes P(f, x, s) by circuits.

Circuits are computed level by level, nodes × rows. Sums over the same children are one product of
matrices: in a Chow–Liu tree those are the tables P(x_j | parent). Other nodes of a level are
gathered, child by child, and joined all at once. Values are plain numbers where none can get too
small for them, and logarithms otherwise. :mod:`fairpc.exporting._onnx_forest` does forests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from fairpc.core import Array, Ints, NotAnsweredError
from fairpc.exporting._scorer import (
    TINIEST,
    Densities,
    Input,
    Leaf,
    Product,
    ScorerProgram,
    Sum,
)

ML: Final = "ai.onnx.ml"
FEW: Final = 4
"""Children of a sum that is joined with others of its level, unless it shares them."""
LOWEST: Final = -1e300
"""In place of the logarithm of zero, where two are subtracted."""
_BLANK: Final = r"[\s\x0b\x1c-\x1f\x{85}\pZ]*"
"""What Python strips from text, as a pattern of RE2."""
_SPECIAL: Final = frozenset(r"\.+*?()|[]{}^$")


class OnnxGraph:
    """Nodes and constants, each under a name of its own."""

    def __init__(self, taken: Sequence[str]) -> None:
        self.prefix = "/"
        while any(name.startswith(self.prefix) for name in taken):
            self.prefix += "/"
        self.nodes: list[NodeProto] = []
        self.constants: dict[Any, str] = {}
        self.initial: list[TensorProto] = []
        self.needs_patterns = False

    def add(self, op: str, *inputs: str, domain: str = "", **given: Any) -> str:
        """Add a node; the name of its output."""
        name = f"{self.prefix}{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], domain=domain, **given))
        return name

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        """A constant array; equal ones are one."""
        array = np.array(value, dtype, order="C")
        key = array.shape, array.dtype.str, array.tobytes()
        if key not in self.constants:
            name = f"{self.prefix}constant{len(self.initial)}"
            self.constants[key] = name
            self.initial.append(numpy_helper.from_array(array, name))
        return self.constants[key]

    def whole(self, value: Any) -> str:
        """A constant of whole numbers."""
        return self.constant(value, np.int64)

    def gather(self, table: str, index: str) -> str:
        return self.add("Gather", table, index, axis=0)

    def lookup(self, vector: str, index: str) -> str:
        """Elements of a vector: runtimes find them ten times as fast as rows of a table."""
        return self.add("GatherElements", vector, index)

    def all_of(self, op: str, names: Sequence[str]) -> str:
        """Names joined pair by pair, so that no chain of operations gets long."""
        left = list(names)
        while len(left) > 1:
            paired = [self.add(op, *left[i : i + 2]) for i in range(0, len(left) - 1, 2)]
            left = [*paired, *left[len(left) // 2 * 2 :]]
        return left[0]

    def name_output(self, made: str, name: str) -> None:
        """Call the output of the last node by another name."""
        self.nodes[-1].output[list(self.nodes[-1].output).index(made)] = name

    def graph(self, inputs: Sequence[ValueInfoProto], output: ValueInfoProto) -> GraphProto:
        return helper.make_graph(self.nodes, "fairpc", inputs, [output], self.initial)


def value_info(given: Input) -> ValueInfoProto:
    """A column as an input, rows × 1."""
    if not given.name:
        raise NotAnsweredError(
            "a column has no name, and inputs of ONNX have one: rename it and fit again"
        )
    kind = TensorProto.STRING if given.kind == "text" else TensorProto.DOUBLE
    return helper.make_tensor_value_info(given.name, kind, ["rows", 1])


def group_codes(graph: OnnxGraph, scorer: ScorerProgram) -> str:
    """Group of each row; the number of groups where it is not known."""
    arities = [given.arity for given in scorer.sensitive]
    known = scorer.group_place.reshape(arities)
    place = np.full([arity + 1 for arity in arities], scorer.n_groups)
    place[tuple(slice(arity) for arity in arities)] = np.where(known < 0, scorer.n_groups, known)
    number = codes_of(graph, scorer.sensitive[0])
    for given in scorer.sensitive[1:]:
        larger = graph.add("Mul", number, graph.whole(given.arity + 1))
        number = graph.add("Add", larger, codes_of(graph, given))
    return graph.gather(graph.whole(place.ravel()), number)


def allowed_subgroups(graph: OnnxGraph, scorer: ScorerProgram, codes: Sequence[str]) -> str:
    """Whether what is known of each row allows each subgroup, rows × subgroups."""
    strata = scorer.strata
    subgroup = np.arange(len(scorer.rates))
    table = _known_or_all(subgroup // strata.n, scorer.n_groups)
    parts = [graph.gather(graph.constant(table, np.bool_), group_codes(graph, scorer))]
    values = np.array([strata.values(a) for a in (subgroup % strata.n).tolist()], np.int64)
    for k, j in enumerate(strata.columns):
        table = _known_or_all(values[:, k], strata.sizes[k])
        parts.append(graph.gather(graph.constant(table, np.bool_), codes[j]))
    return graph.all_of("And", parts)


def _known_or_all(value: Ints, n_values: int) -> Array:
    """Row v says what has the value v, a last row says everything."""
    return np.concatenate([np.arange(n_values)[:, None] == value, np.ones((1, len(value)), bool)])


def codes_of(graph: OnnxGraph, given: Input) -> str:
    """Codes of a column, a vector of rows; what is missing has the number of codes."""
    if given.kind == "text":
        return _text_codes(graph, given)
    column = graph.add("Reshape", given.name, graph.whole([-1, 1]))
    alone = graph.add("Reshape", given.name, graph.whole([-1]))
    missing = graph.add("Or", graph.add("IsNaN", alone), graph.add("IsInf", alone))
    for mark in given.marks:
        missing = graph.add("Or", missing, graph.add("Equal", alone, graph.constant(mark)))
    if given.edges is None:
        numbers = list(given.numbers)
        other = given.arity if given.other < 0 else given.other
        places = np.array([*given.numbers.values()]) - other
        equal = graph.add("Equal", column, graph.constant([numbers]))
        # One at most is equal, so 32 bits hold the code, and runtimes multiply those fast.
        weights = graph.constant(places[:, None], np.float32)
        codes = graph.add("MatMul", _as(graph, equal, "FLOAT"), weights)
        codes = graph.add("Reshape", codes, graph.whole([-1]))
        code = graph.add("Add", codes, graph.constant(other, np.float32))
    elif given.edges:
        above = graph.add("GreaterOrEqual", column, graph.constant([given.edges]))
        code = graph.add("ReduceSum", _as(graph, above, "FLOAT"), graph.whole([1]), keepdims=0)
    else:
        code = graph.add("Mul", alone, graph.constant(0.0))
    # The code of a missing value is thrown away, but it must be one.
    return graph.add("Where", missing, graph.whole(given.arity), _as(graph, code, "INT64"))


def _text_codes(graph: OnnxGraph, given: Input) -> str:
    text = graph.add("Reshape", given.name, graph.whole([-1]))
    marks = list(map(str, given.marks))
    known = (
        dict(given.texts) | {given.missing_text: given.arity} | dict.fromkeys(marks, given.arity)
    )
    code = graph.add(
        "LabelEncoder",
        text,
        domain=ML,
        keys_strings=list(known),
        values_int64s=list(known.values()),
        default_int64=given.arity if given.other < 0 else given.other,
    )
    if not marks:
        return code
    graph.needs_patterns = True
    pattern = f"{_BLANK}(?:{'|'.join(map(_escaped, marks))}){_BLANK}"
    marked = graph.add("RegexFullMatch", text, pattern=pattern)
    return graph.add("Where", marked, graph.whole(given.arity), code)


def _escaped(text: str) -> str:
    return "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in text)


def _as(graph: OnnxGraph, name: str, kind: str) -> str:
    return graph.add("Cast", name, to=getattr(TensorProto, kind))


def circuit_joint(
    graph: OnnxGraph, scorer: ScorerProgram, densities: Densities, codes: Sequence[str]
) -> str:
    """P(f, x, s) but for a factor of each row, rows × classes."""
    logs = densities.least < TINIEST
    levels = _Levels(graph, densities, [codes[j] for j in scorer.rest], codes[0], logs)
    by_row = graph.add("Transpose", levels.gathered(densities.roots.ravel().tolist()), perm=[1, 0])
    dense = graph.add("Reshape", by_row, graph.whole([-1, *densities.roots.shape]))
    with np.errstate(divide="ignore"):
        rates = graph.constant(np.log(scorer.rates) if logs else scorer.rates)
    joint = graph.add("Add" if logs else "Mul", dense, rates)
    allowed = graph.add("Unsqueeze", allowed_subgroups(graph, scorer, codes), graph.whole([2]))
    joint = graph.add("Where", allowed, joint, graph.constant(-np.inf if logs else 0.0))
    if logs:
        top = graph.add("ReduceMax", joint, graph.whole([1, 2]), keepdims=1)
        top = graph.add("Max", top, graph.constant(LOWEST))
        joint = graph.add("Exp", graph.add("Sub", joint, top))
    return graph.add("ReduceSum", joint, graph.whole([1]), keepdims=0)


class _Levels:
    """Values of the nodes, a matrix for each level."""

    def __init__(
        self, graph: OnnxGraph, densities: Densities, codes: Sequence[str], of_rows: str, logs: bool
    ) -> None:
        self.graph, self.nodes, self.logs = graph, densities.nodes, logs
        self.level: list[int] = []
        for node in self.nodes:
            self.level.append(1 + max((self.level[c] for c in node.children), default=-1))
        self.place = [0] * len(self.nodes)
        self.values: list[str] = []
        by_level: dict[int, list[int]] = defaultdict(list)
        for n, level in enumerate(self.level):
            by_level[level].append(n)
        self._keep(self._leaves(by_level[0], codes, of_rows))
        for level in range(1, max(by_level) + 1):
            self._keep(self._inner(by_level[level]))

    def _keep(self, parts: list[tuple[list[int], str]]) -> None:
        """The next level: nodes and their values, one part after the other."""
        first = 0
        for nodes, _ in parts:
            for k, n in enumerate(nodes):
                self.place[n] = first + k
            first += len(nodes)
        self.values.append(self._joined([name for _, name in parts]))

    def _joined(self, parts: list[str]) -> str:
        return parts[0] if len(parts) == 1 else self.graph.add("Concat", *parts, axis=0)

    def _leaves(
        self, nodes: list[int], codes: Sequence[str], of_rows: str
    ) -> list[tuple[list[int], str]]:
        """What has one feature, looked up by its code; a product of nothing is 1."""
        graph = self.graph
        by_feature: dict[int, list[int]] = defaultdict(list)
        for n in nodes:
            node = self.nodes[n]
            by_feature[node.feature if isinstance(node, Leaf) else -1].append(n)
        parts = []
        for j, some in by_feature.items():
            if j < 0:
                one = graph.constant([[0.0 if self.logs else 1.0]])
                shape = graph.add(
                    "Concat", graph.whole([len(some)]), graph.add("Shape", of_rows), axis=0
                )
                parts.append((some, graph.add("Expand", one, shape)))
                continue
            tables = [node.table for n in some if isinstance(node := self.nodes[n], Leaf)]
            with np.errstate(divide="ignore"):
                table = np.log(np.stack(tables, 1)) if self.logs else np.stack(tables, 1)
            by_row = graph.gather(graph.constant(table), codes[j])
            parts.append((some, graph.add("Transpose", by_row, perm=[1, 0])))
        return parts

    def _inner(self, nodes: list[int]) -> list[tuple[list[int], str]]:
        """Products, sums that share their children, and other sums."""
        products: dict[tuple[int, ...], list[int]] = defaultdict(list)
        sharing: dict[tuple[int, ...], list[int]] = defaultdict(list)
        sums: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for n in nodes:
            node = self.nodes[n]
            if isinstance(node, Product):
                products[self._levels_below(n)].append(n)
            elif isinstance(node, Sum):
                sharing[tuple(sorted(node.children))].append(n)
        for children, some in list(sharing.items()):
            if len(some) == 1 and len(children) <= FEW:
                del sharing[children]
                sums[self._levels_below(some[0])] += some
        return [
            *((some, self._products(some)) for some in products.values()),
            *((some, self._shared(some, children)) for children, some in sharing.items()),
            *((some, self._sums(some)) for some in sums.values()),
        ]

    def _children(self, n: int) -> list[int]:
        """Children in the order of their levels."""
        return sorted(self.nodes[n].children, key=lambda c: (self.level[c], c))

    def _levels_below(self, n: int) -> tuple[int, ...]:
        return tuple(self.level[c] for c in self._children(n))

    def _weights(self, n: int) -> dict[int, float]:
        node = self.nodes[n]
        return dict(zip(node.children, node.weights, strict=True)) if isinstance(node, Sum) else {}

    def _products(self, nodes: list[int]) -> str:
        """Products whose children are in the same levels."""
        factors = [self._in_level(list(column)) for column in self._columns(nodes)]
        return self.graph.all_of("Add" if self.logs else "Mul", factors)

    def _columns(self, nodes: list[int]) -> list[tuple[int, ...]]:
        """First children, second children, and so on."""
        return list(zip(*map(self._children, nodes), strict=True))

    def _sums(self, nodes: list[int]) -> str:
        """Sums of few children that are in the same levels."""
        graph, terms = self.graph, []
        for column in self._columns(nodes):
            pairs = zip(nodes, column, strict=True)
            weights = np.array([[self._weights(n)[c]] for n, c in pairs])
            weight = graph.constant(np.log(weights) if self.logs else weights)
            value = self._in_level(list(column))
            terms.append(graph.add("Add" if self.logs else "Mul", value, weight))
        if not self.logs:
            return graph.all_of("Add", terms)
        top = graph.add("Max", *terms, graph.constant(LOWEST))
        scaled = [graph.add("Exp", graph.add("Sub", term, top)) for term in terms]
        return graph.add("Add", graph.add("Log", graph.all_of("Add", scaled)), top)

    def _shared(self, nodes: list[int], children: tuple[int, ...]) -> str:
        """Sums over the same children, by a product of matrices for each level of these."""
        graph = self.graph
        by_level: dict[int, list[int]] = defaultdict(list)
        for c in children:
            by_level[self.level[c]].append(c)
        values = [self._in_level(some) for some in by_level.values()]
        top = ""
        if self.logs:
            most = [graph.add("ReduceMax", v, graph.whole([0]), keepdims=1) for v in values]
            top = graph.add("Max", *most, graph.constant(LOWEST))
            values = [graph.add("Exp", graph.add("Sub", value, top)) for value in values]
        weights = [self._weights(n) for n in nodes]
        parts = [
            graph.add("MatMul", graph.constant([[w[c] for c in some] for w in weights]), value)
            for some, value in zip(by_level.values(), values, strict=True)
        ]
        total = graph.all_of("Add", parts)
        return graph.add("Add", graph.add("Log", total), top) if self.logs else total

    def _in_level(self, nodes: list[int]) -> str:
        """Values of some nodes of one level."""
        values = self.values[self.level[nodes[0]]]
        return self.graph.gather(values, self.graph.whole([self.place[n] for n in nodes]))

    def gathered(self, nodes: list[int]) -> str:
        """Values of any nodes."""
        by_level: dict[int, list[int]] = defaultdict(list)
        for n in dict.fromkeys(nodes):
            by_level[self.level[n]].append(n)
        parts = [self._in_level(some) for some in by_level.values()]
        order = [n for some in by_level.values() for n in some]
        places = self.graph.whole([order.index(n) for n in nodes])
        return self.graph.gather(self._joined(parts), places)
