"""A fitted model as a graph of ONNX, which scores rows without fairpc."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairpc.core import AnyPath, MissingExtraError, OptionError, write_atomically
from fairpc.exporting._scorer import ScorerProgram
from fairpc.models import Forest

if TYPE_CHECKING:
    from fairpc.models import FittedModel

OUTPUT: Final = "probabilities"
IR: Final = 8
OPSET: Final = 18
OPSET_OF_PATTERNS: Final = 20
"""The versions of ONNX that all these operations are in, and where text is matched by a pattern."""


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        path: the file.
        inputs: names of the columns that it reads, and what each holds: "text", "number",
            "boolean", "date".
        classes: whose probabilities it gives, in order.
        n_bytes: size of the file.
    """

    path: str
    inputs: dict[str, str]
    classes: tuple[str, ...]
    n_bytes: int


def export(model: FittedModel, path: AnyPath) -> Exported:
    """Write a fitted model to a file of ONNX that gives P(Df = class | row) without fairpc.

    Columns are given as they are in the table: values become codes inside the file. What is
    missing is marginalised, also the group, and levels that were not seen at fit count as missing.
    Of models without Df it is P(D = class | row). It needs ``fairpc[onnx]``.

    Args:
        model: a fitted FairPC, NLatPC, LatNB or TwoNB.
        path: the file, whose name ends with ``.onnx``.
    """
    check_suffix(path)
    scorer = ScorerProgram.of(model)
    if find_spec("onnx") is None:
        raise MissingExtraError("an ONNX file is made with onnx: pip install 'fairpc[onnx]'")
    data = onnx_bytes(scorer)
    write_atomically(path, data)
    inputs: dict[str, Any] = {given.name: given.kind for given in scorer.inputs}
    return Exported(str(path), inputs, tuple(map(str, scorer.classes)), len(data))


def check_suffix(path: AnyPath) -> None:
    """An OptionError where a file of ONNX is called something else."""
    suffix = Path(path).suffix
    if suffix.lower() != ".onnx":
        raise OptionError(
            f"{str(path)!r} ends with {suffix or 'no suffix'!r}: a model is exported as ONNX, use "
            "a name that ends with .onnx"
        )


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
    }
