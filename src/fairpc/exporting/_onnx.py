"""A model as a graph of ONNX: named columns in, P(Df = class | row) out.

Circuits are computed level by level, nodes × rows. Sums over the same children are one product of
matrices: in a Chow–Liu tree those are the tables P(x_j | parent). Other nodes of a level are
gathered, child by child, and joined all at once. Values are plain numbers where none can get too
small for them, and logarithms otherwise. :mod:`fairpc.exporting._onnx_forest` does forests.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
from onnx import TensorProto, helper

from fairpc.exporting._onnx_forest import LOWEST, forest_joint
from fairpc.exporting._onnx_graph import ML, OnnxGraph, allowed_subgroups, feature_codes, value_info
from fairpc.exporting._scorer import TINIEST, Densities, Leaf, Product, ScorerProgram, Sum
from fairpc.models import Forest

OUTPUT: Final = "probabilities"
IR: Final = 8
OPSET: Final = 18
OPSET_OF_PATTERNS: Final = 20
"""The versions of ONNX that all these operations are in, and where text is matched by a pattern."""
FEW: Final = 4
"""Children of a sum that is joined with others of its level, unless it shares them."""


def onnx_bytes(scorer: ScorerProgram) -> bytes:
    """The file."""
    from fairpc import __version__

    names = [given.name for given in scorer.inputs]
    output = OUTPUT
    while output in names:
        output += "_"
    graph = OnnxGraph([*names, output])
    codes = feature_codes(graph, scorer)
    densities = scorer.densities
    if isinstance(densities, Forest):
        joint = forest_joint(graph, scorer, densities, codes)
    else:
        joint = circuit_joint(graph, scorer, densities, codes)
    total = graph.add("ReduceSum", joint, graph.whole([1]), keepdims=1)
    graph.name_output(graph.add("Div", joint, total), output)
    shape: list[str | int] = ["rows", len(scorer.classes)]
    made = graph.graph(
        [value_info(given) for given in scorer.inputs],
        helper.make_tensor_value_info(output, TensorProto.DOUBLE, shape),
    )
    version = OPSET_OF_PATTERNS if graph.needs_patterns else OPSET
    opsets = [helper.make_opsetid("", version), helper.make_opsetid(ML, 3)]
    model = helper.make_model(made, opset_imports=opsets, ir_version=IR)
    model.producer_name, model.producer_version = "fairpc", __version__
    helper.set_model_props(model, {"fairpc": json.dumps(_described(scorer), ensure_ascii=False)})
    data: bytes = model.SerializeToString()
    return data


def _described(scorer: ScorerProgram) -> dict[str, object]:
    """What a program that loads the graph may want to know."""
    return {
        "model": scorer.model,
        "classes": list(scorer.classes),
        "positive": scorer.classes[scorer.positive],
        "sensitive": [given.name for given in scorer.sensitive],
        "missing": {
            given.name: given.missing_text if given.kind == "text" else "NaN"
            for given in scorer.inputs
        },
        # The graph takes numbers: text that is written like this is to be read before.
        "written": scorer.written,
    }


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
            children = () if isinstance(node, Leaf) else node.children
            self.level.append(1 + max((self.level[c] for c in children), default=-1))
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
        names = [name for _, name in parts]
        self.values.append(
            names[0] if len(names) == 1 else self.graph.add("Concat", *names, axis=0)
        )

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
        node = self.nodes[n]
        children = () if isinstance(node, Leaf) else node.children
        return sorted(children, key=lambda c: (self.level[c], c))

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
        return str(graph.add("Add", graph.add("Log", total), top)) if self.logs else total

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
        whole = parts[0] if len(parts) == 1 else self.graph.add("Concat", *parts, axis=0)
        return self.graph.gather(whole, self.graph.whole([order.index(n) for n in nodes]))
