"""Structure learning: weighted rows of codes in, circuits out. No EM, no models.

    from fairpc.data import Table
    from fairpc.structure import learn

    circuit = learn(Table.of(codes))

Names are imported at first use; compiled kernels when something is learned.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairpc.structure.cells import CellCircuits as CellCircuits
    from fairpc.structure.cells import CellSearch as CellSearch
    from fairpc.structure.cells import learn_cells as learn_cells
    from fairpc.structure.compile import compile_tree as compile_tree
    from fairpc.structure.compile import graft as graft
    from fairpc.structure.compile import tree_circuit as tree_circuit
    from fairpc.structure.density import learn as learn
    from fairpc.structure.gain import Gain as Gain
    from fairpc.structure.mixture import Mixture as Mixture
    from fairpc.structure.mixture import bootstrap_weights as bootstrap_weights
    from fairpc.structure.mixture import component_weights as component_weights
    from fairpc.structure.mixture import learn_mixture as learn_mixture
    from fairpc.structure.mixture import soft_clusters as soft_clusters
    from fairpc.structure.parameters import Smoothing as Smoothing
    from fairpc.structure.search import Step as Step
    from fairpc.structure.search import Stop as Stop
    from fairpc.structure.strudel import Strudel as Strudel
    from fairpc.structure.tree import Tree as Tree
    from fairpc.structure.tree import chow_liu as chow_liu
    from fairpc.structure.vtree import vtree_of_tree as vtree_of_tree

_MODULE_OF = {
    "CellCircuits": "cells",
    "CellSearch": "cells",
    "Gain": "gain",
    "Mixture": "mixture",
    "Smoothing": "parameters",
    "Step": "search",
    "Stop": "search",
    "Strudel": "strudel",
    "Tree": "tree",
    "bootstrap_weights": "mixture",
    "chow_liu": "tree",
    "compile_tree": "compile",
    "component_weights": "mixture",
    "graft": "compile",
    "learn": "density",
    "learn_cells": "cells",
    "learn_mixture": "mixture",
    "soft_clusters": "mixture",
    "tree_circuit": "compile",
    "vtree_of_tree": "vtree",
}

__all__ = [
    "CellCircuits",
    "CellSearch",
    "Gain",
    "Mixture",
    "Smoothing",
    "Step",
    "Stop",
    "Strudel",
    "Tree",
    "bootstrap_weights",
    "chow_liu",
    "compile_tree",
    "component_weights",
    "graft",
    "learn",
    "learn_cells",
    "learn_mixture",
    "soft_clusters",
    "tree_circuit",
    "vtree_of_tree",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
