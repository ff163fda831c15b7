"""Structure learning: weighted rows of codes in, circuits out. No models.

    from fairpc.data import Table
    from fairpc.structure import learn

    circuit = learn(Table.of(codes))

In the order of the work (paper, Section "Structure Learning"): ``_trees`` (Chow–Liu),
``_compile`` (a tree as the first circuit, and parameters), ``_search`` (Strudel, exact gain: which
edge is split on what, and when to stop), ``_split`` (what a split does), ``_learn`` (``learn``
and ``learn_cells``, which do all of it). Compiled kernels are imported when something is
learned.
"""

from typing import TYPE_CHECKING

from fairpc.core import on_first_use

if TYPE_CHECKING:
    from fairpc.structure._compile import (
        compile_tree as compile_tree,
        vtree_of_tree as vtree_of_tree,
    )
    from fairpc.structure._learn import (
        CellCircuits as CellCircuits,
        CellSearch as CellSearch,
        learn as learn,
        learn_cells as learn_cells,
    )
    from fairpc.structure._mixture import (
        component_weights as component_weights,
        soft_clusters as soft_clusters,
    )
    from fairpc.structure._search import (
        HELD_OUT as HELD_OUT,
        METHODS as METHODS,
        MODEL_METHODS as MODEL_METHODS,
        Gain as Gain,
        ModelMethod,
        Step as Step,
        Stop as Stop,
        Strudel as Strudel,
    )
    from fairpc.structure._trees import Tree as Tree, chow_liu as chow_liu

__getattr__, __dir__ = on_first_use(__name__)
