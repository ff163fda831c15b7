"""A model as one Python file: the text of :mod:`fairpc.exporting._standalone`, then its tables."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Final

import numpy as np

from fairpc.data import Writing
from fairpc.exporting._program import Densities, Input, Leaf, Node, Product, Scorer
from fairpc.models import Forest

_HEAD: Final = '''"""P(Df = class | row) of a {model} that fairpc {version} exported.

    from {module} import CLASSES, predict_proba, predict_proba_rows

    predict_proba({{{example}: ...}})  # a probability for each of CLASSES

A row is a dict, from the names of columns to text, numbers, dates, True or False. What is None,
NaN, empty text or not there is missing, and so is a level that was not there at fit: it is summed
out. Needs Python 3.10 or newer, and nothing but its own library.
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


def python_text(scorer: Scorer, module: str) -> str:
    """The text of the file, to be imported by this name."""
    from fairpc import __version__

    code = files("fairpc.exporting").joinpath("standalone.py").read_text("utf-8")
    names = [given.name for given in scorer.inputs]
    tables = (repr(_json({name: table})) for name, table in tables_of(scorer).items())
    head = _HEAD.format(
        model=scorer.model,
        version=__version__,
        module=module if module.isidentifier() else "scorer",
        # A name may hold quotation marks and backslashes, which end or spoil a docstring.
        example=_docstring_safe(repr(names[0])),
    )
    tail = _TAIL.format(
        classes=repr(list(scorer.classes)),
        inputs=repr(names),
        tables="\n".join(f"        {table}," for table in tables),
    )
    return head + code[code.index("\nfrom __future__") :] + "\n" + tail


def _docstring_safe(text: str) -> str:
    return text if text.isprintable() and not set(text) & {'"', "\\", "{", "}"} else '"age"'


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def tables_of(scorer: Scorer) -> dict[str, Any]:
    """The tables of a scorer as plain lists, as ``standalone`` reads them."""
    found = scorer.densities
    return {
        "classes": list(scorer.classes),
        "features": [_input(given) for given in scorer.features],
        "sensitive": [_input(given) for given in scorer.sensitive],
        "cells": [list(cell) for cell in scorer.cells],
        "strata": list(scorer.strata.columns),
        "sizes": list(scorer.strata.sizes),
        "rates": scorer.rates.tolist(),
        "rest": scorer.rest,
        "densities": _forest(found) if isinstance(found, Forest) else _circuit(found),
    }


def _input(given: Input) -> dict[str, Any]:
    return {
        "name": given.name,
        "kind": given.kind,
        "texts": dict(given.texts),
        "numbers": [list(pair) for pair in given.numbers.items()],
        "edges": None if given.edges is None else list(given.edges),
        "other": given.other,
        "marks": list(given.marks),
        "written": None if given.written is None else _writing(given.written),
    }


def _writing(found: Writing) -> dict[str, str]:
    return {
        "pattern": found.pattern,
        "separators": found.separators,
        "decimal": found.decimal,
        "unit": found.unit,
        "example": found.example,
    }


def _forest(forest: Forest) -> dict[str, Any]:
    """Boxes by the sets of values that they allow; values by group, feature, class, cluster."""
    values = [[value[g].tolist() for value in forest.values] for g in range(len(forest.shares))]
    return {
        "kind": "forest",
        "sets": [[np.flatnonzero(one).tolist() for one in of.allowed] for of in forest.sets],
        "set_of": [of.of_box.tolist() for of in forest.sets],
        "shares": forest.shares.tolist(),
        "values": values,
        "weight": forest.weight.tolist(),
    }


def _circuit(found: Densities) -> dict[str, Any]:
    return {
        "kind": "circuit",
        "nodes": [_node(node) for node in found.nodes],
        "roots": found.roots.tolist(),
    }


def _node(node: Node) -> list[Any]:
    if isinstance(node, Leaf):
        return ["leaf", node.feature, node.table.tolist()]
    if isinstance(node, Product):
        return ["product", list(node.children), None]
    return ["sum", list(node.children), list(node.weights)]
