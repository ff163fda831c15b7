"""A graph of ONNX while it is made, and how the columns of a table become codes in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from fairpc.core import Array, Ints, NotAnsweredError
from fairpc.exporting._scorer import Input, ScorerProgram

ML: Final = "ai.onnx.ml"
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

    def gather(self, table: str, index: str, axis: int = 0) -> str:
        name: str = self.add("Gather", table, index, axis=axis)
        return name

    def lookup(self, vector: str, index: str) -> str:
        """Elements of a vector: runtimes find them ten times as fast as rows of a table."""
        name: str = self.add("GatherElements", vector, index)
        return name

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
    said = "" if given.written is None else f"the number, not text like {given.written.example}"
    return helper.make_tensor_value_info(given.name, kind, ["rows", 1], doc_string=said)


def feature_codes(graph: OnnxGraph, scorer: ScorerProgram) -> list[str]:
    """Codes of each feature, a vector of rows; what is missing has the number of codes."""
    return [_codes(graph, given) for given in scorer.features]


def group_codes(graph: OnnxGraph, scorer: ScorerProgram) -> str:
    """Group of each row; the number of groups where it is not known."""
    arities = [given.arity for given in scorer.sensitive]
    known = scorer.group_place.reshape(arities)
    place = np.full([arity + 1 for arity in arities], scorer.n_groups)
    place[tuple(slice(arity) for arity in arities)] = np.where(known < 0, scorer.n_groups, known)
    number = _codes(graph, scorer.sensitive[0])
    for given in scorer.sensitive[1:]:
        larger = graph.add("Mul", number, graph.whole(given.arity + 1))
        number = graph.add("Add", larger, _codes(graph, given))
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


def _codes(graph: OnnxGraph, given: Input) -> str:
    if given.kind == "text":
        return _text_codes(graph, given)
    column = graph.add("Reshape", given.name, graph.whole([-1, 1]))
    alone = graph.add("Reshape", given.name, graph.whole([-1]))
    missing = graph.add("Or", graph.add("IsNaN", alone), graph.add("IsInf", alone))
    for mark in given.marks:
        if not isinstance(mark, str):
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
    marks = [mark.strip() for mark in given.marks if isinstance(mark, str)]
    known = (
        dict(given.texts) | {given.missing_text: given.arity} | dict.fromkeys(marks, given.arity)
    )
    code: str = graph.add(
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
