"""A model as a graph of ONNX: named columns in, P(Df = class | row) out."""

from __future__ import annotations

import json
from typing import Final

from onnx import TensorProto, helper

from fairpc.exporting._onnx_circuit import circuit_joint
from fairpc.exporting._onnx_forest import forest_joint
from fairpc.exporting._onnx_graph import ML, OnnxGraph, feature_codes, value_info
from fairpc.exporting._program import Scorer
from fairpc.models import Forest

OUTPUT: Final = "probabilities"
IR: Final = 8
OPSET: Final = 18
OPSET_OF_PATTERNS: Final = 20
"""The versions of ONNX that all these operations are in, and where text is matched by a pattern."""


def onnx_bytes(scorer: Scorer) -> bytes:
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


def _described(scorer: Scorer) -> dict[str, object]:
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
