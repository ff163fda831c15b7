"""Structure learning: weighted rows of codes in, circuits out. No models.

    from fairpc.data import Table
    from fairpc.structure import learn

    circuit = learn(Table.of(codes))

In the order of the work (paper, Section "Structure Learning"): ``_trees`` (Chow–Liu),
``_compile`` (a tree as the first circuit, and parameters), ``_search`` (Strudel, exact gain: which
edge is split on what, and when to stop), ``_split`` (what a split does), ``_learn`` (``learn``
and ``learn_cells``, which do all of it). ``_hidden`` and ``_ensemble`` are the
densities without determinism, whose states are latent and fitted by EM of their own. Compiled
kernels are imported when something is learned.
"""

from typing import TYPE_CHECKING

from fairpc.core import on_first_use

if TYPE_CHECKING:
    from fairpc.structure._compile import (
        Smoothing,
        compile_tree,
        graft,
        vtree_of_tree,
    )
    from fairpc.structure._ensemble import Ensemble, HiddenTrees, component_weights, learn_ensemble
    from fairpc.structure._hidden import HiddenTree, soft_clusters
    from fairpc.structure._learn import (
        CellCircuits,
        CellSearch,
        bootstrap_weights,
        learn,
        learn_cells,
    )
    from fairpc.structure._search import (
        HELD_OUT,
        METHODS,
        MODEL_METHODS,
        Gain,
        ModelMethod,
        Step,
        Stop,
        Strudel,
    )
    from fairpc.structure._trees import Tree, chow_liu

__all__ = [
    "HELD_OUT",
    "METHODS",
    "MODEL_METHODS",
    "CellCircuits",
    "CellSearch",
    "Ensemble",
    "Gain",
    "HiddenTree",
    "HiddenTrees",
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
    "learn_ensemble",
    "soft_clusters",
    "vtree_of_tree",
]

__getattr__, __dir__ = on_first_use(__name__)
