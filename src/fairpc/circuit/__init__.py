"""Probabilistic circuits: exact queries, expected flows, EM, files. No word about fairness.

    from fairpc.circuit import CircuitBuilder, fit, prepare

From the bottom up: ``_graph`` (G, the frozen structure, and θ), ``_properties`` (smooth,
decomposable, deterministic), ``_program`` and ``_chunks`` (a graph and rows made ready for
``_kernels``), ``_expected_flows`` (the paper's Algorithm 1, and plans for it), ``_circuit``
(``Circuit``, whose methods are the queries), ``_parameter_bounds`` and ``_em``; then ``_builder``,
``_psdd`` and ``_file``, which make circuits. A missing cell is marginalised at the leaves:
``upward`` in ``_kernels``. Compiled kernels are imported at the first query.
"""

from typing import TYPE_CHECKING

from fairpc.core import on_first_use

if TYPE_CHECKING:
    from fairpc.circuit._builder import CircuitBuilder as CircuitBuilder
    from fairpc.circuit._circuit import Circuit as Circuit, refuse_impossible
    from fairpc.circuit._em import (
        AnyStep,
        EMStep,
        EMStep as Step,
        Stopping as Stopping,
        em as em,
        fit as fit,
        laplace as laplace,
        log_prior,
        maximize as maximize,
    )
    from fairpc.circuit._expected_flows import (
        FlowPlan as FlowPlan,
        PartPlan,
        RowPlan,
        circuit_flows as circuit_flows,
        contexts as contexts,
        expected_flows as expected_flows,
        node_flows as node_flows,
        plan_bytes,
        plan_once,
        prepare as prepare,
        row_flows as row_flows,
    )
    from fairpc.circuit._file import (
        from_dict,
        load_circuit as load_circuit,
        save_circuit as save_circuit,
        to_dict,
    )
    from fairpc.circuit._graph import (
        INDICATOR,
        PRODUCT,
        SUM,
        WEIGHT_TOLERANCE,
        Graph as Graph,
    )
    from fairpc.circuit._parameter_bounds import SLACK, Bounds, Near, filled
    from fairpc.circuit._psdd import Vtree, read_psdd as read_psdd

__getattr__, __dir__ = on_first_use(__name__)
