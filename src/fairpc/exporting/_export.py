"""A fitted model to a file that scores without fairpc; the suffix says in which language.

A Python file is the text of :mod:`fairpc.exporting._standalone`, then the tables of the model.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fairpc.core import AnyPath, MissingExtraError, OptionError, write_atomically
from fairpc.data import Writing
from fairpc.exporting._scorer import Input, Leaf, Product, ScorerProgram, Sum
from fairpc.models import Forest

if TYPE_CHECKING:
    from fairpc.models import FittedModel

SUFFIXES: Final = (".onnx", ".sql", ".py")
TABLE: Final = "applicants"
"""What a query calls the table by default."""

OUTPUT: Final = "probabilities"
IR: Final = 8
OPSET: Final = 18
OPSET_OF_PATTERNS: Final = 20
"""The versions of ONNX that all these operations are in, and where text is matched by a pattern."""

_COLUMN_FIELDS: Final = ["name", "kind", "texts", "numbers", "edges", "other", "marks", "written"]
_WRITING_FIELDS: Final = ("pattern", "separators", "decimal", "unit", "example")
_HEAD: Final = '''"""P(Df = class | row) of a {model} that fairpc {version} exported.

    from {module} import CLASSES, predict_proba, predict_proba_rows

    predict_proba({{{example}: ...}})  # a probability for each of CLASSES

A row is a dict, from the names of columns to text, numbers, dates, True or False. What is None,
NaN, empty text or not there is missing, and so is a level that was not there at fit: it is
marginalised. Needs Python 3.10 or newer, and nothing but its own library.
"""
'''
_TAIL: Final = '''
CLASSES = {classes}
INPUTS = {inputs}
_SCORER = Scorer(
    read(
{tables}
    )
)


def predict_proba(row: Mapping[str, Any]) -> list[float]:
    """P(Df = class | row), in the order of ``CLASSES``."""
    return _SCORER.predict_proba(row)


def predict_proba_rows(rows: Iterable[Mapping[str, Any]]) -> list[list[float]]:
    """``predict_proba`` of each of some rows."""
    return _SCORER.predict_proba_rows(rows)
'''


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        path: the file.
        format: "onnx", "sql" or "py".
        inputs: names of the columns that it reads, and what each holds: "text", "number",
            "boolean", "date".
        written: columns of numbers that were text such as "1.234,5 €" at fit, with an example of
            each. Queries and Python files read such text; a graph of ONNX takes the numbers.
        classes: whose probabilities it gives, in order.
        n_bytes: size of the file.
    """

    path: str
    format: str
    inputs: dict[str, str]
    written: dict[str, str]
    classes: tuple[str, ...]
    n_bytes: int


def export(model: FittedModel, path: AnyPath, *, table: str = TABLE) -> Exported:
    """Write a fitted model to a file that gives P(Df = class | row) without fairpc.

    Columns are given as they are in the table: values become codes inside the file. What is
    missing is marginalised, also the group, and levels that were not seen at fit count as missing.
    Of models without Df it is P(D = class | row).

    Args:
        model: a fitted FairPC, NLatPC, LatNB or TwoNB.
        path: the file; its suffix says what is written. ``.onnx``: a graph for ONNX Runtime, needs
            ``fairpc[onnx]``. ``.sql``: one SELECT, for SQLite and DuckDB. ``.py``: one file of
            Python, which needs nothing else.
        table: what a query calls the table that it scores.
    """
    suffix = check_suffix(path)
    scorer = ScorerProgram.of(model)
    if suffix == ".onnx":
        if find_spec("onnx") is None:
            raise MissingExtraError("an ONNX file is made with onnx: pip install 'fairpc[onnx]'")
        data = onnx_bytes(scorer)
    elif suffix == ".sql":
        from fairpc.exporting._sql import sql_text

        data = sql_text(scorer, table).encode()
    else:
        data = python_text(scorer, Path(path).stem).encode()
    write_atomically(path, data)
    inputs: dict[str, Any] = {given.name: given.kind for given in scorer.inputs}
    classes = tuple(map(str, scorer.classes))
    return Exported(str(path), suffix[1:], inputs, scorer.written, classes, len(data))


def check_suffix(path: AnyPath) -> str:
    """The suffix of a file to write; an OptionError where it is none of ours."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise OptionError(
            f"{str(path)!r} ends with {suffix or 'no suffix'!r}: the suffix says what is written, "
            f"use {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        )
    return suffix


def onnx_bytes(scorer: ScorerProgram) -> bytes:
    """The file."""
    from onnx import TensorProto, helper

    from fairpc import __version__
    from fairpc.exporting._onnx_forest import forest_joint
    from fairpc.exporting._onnx_graph import ML, OnnxGraph, circuit_joint, codes_of, value_info

    names = [given.name for given in scorer.inputs]
    output = OUTPUT
    while output in names:
        output += "_"
    graph = OnnxGraph([*names, output])
    codes = [codes_of(graph, given) for given in scorer.features]
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


def python_text(scorer: ScorerProgram, module: str) -> str:
    """The text of the file, to be imported by this name."""
    from fairpc import __version__

    code = files("fairpc.exporting").joinpath("_standalone.py").read_text("utf-8")
    names = [given.name for given in scorer.inputs]
    as_json = partial(json.dumps, separators=(",", ":"), allow_nan=False, default=_as_json)
    tables = (repr(as_json({name: table})) for name, table in tables_of(scorer).items())
    example = repr(names[0])
    # A name may hold quotation marks and backslashes, which end or spoil a docstring.
    sound = example.isprintable() and not set(example) & {*'"\\{}'}
    head = _HEAD.format(
        model=scorer.model,
        version=__version__,
        module=module if module.isidentifier() else "scorer",
        example=example if sound else '"age"',
    )
    tail = _TAIL.format(
        classes=repr(list(scorer.classes)),
        inputs=repr(names),
        tables="\n".join(f"        {table}," for table in tables),
    )
    return head + code[code.index("\nfrom __future__") :] + "\n" + tail


def tables_of(scorer: ScorerProgram) -> dict[str, Any]:
    """The tables of a scorer, as ``_standalone`` reads them."""
    written = scorer.densities
    if isinstance(written, Forest):
        # Boxes by the sets of values that they allow; values by group, feature, class, cluster.
        groups = range(len(written.shares))
        densities: dict[str, Any] = {
            "kind": "forest",
            "sets": [[np.flatnonzero(one) for one in of.allowed] for of in written.sets],
            "set_of": [of.of_box for of in written.sets],
            "shares": written.shares,
            "values": [[value[g] for value in written.values] for g in groups],
            "weight": written.weight,
        }
    else:
        densities = {"kind": "circuit", "nodes": written.nodes, "roots": written.roots}
    return {
        "classes": scorer.classes,
        "features": scorer.features,
        "sensitive": scorer.sensitive,
        "cells": scorer.cells,
        "strata": scorer.strata.columns,
        "sizes": scorer.strata.sizes,
        "rates": scorer.rates,
        "rest": scorer.rest,
        "densities": densities,
    }


def _as_json(value: Any) -> Any:
    """A record or an array as what JSON has."""
    if isinstance(value, Input):
        known = {name: getattr(value, name) for name in _COLUMN_FIELDS}
        return known | {"texts": dict(value.texts), "numbers": list(value.numbers.items())}
    if isinstance(value, Writing):
        return {name: getattr(value, name) for name in _WRITING_FIELDS}
    if isinstance(value, Leaf):
        return ["leaf", value.feature, value.table]
    if isinstance(value, Product):
        return ["product", value.children, None]
    if isinstance(value, Sum):
        return ["sum", value.children, value.weights]
    return value.tolist()
