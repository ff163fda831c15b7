"""The circuit: how large it is, which properties it has, how it looks."""

from __future__ import annotations

from dataclasses import dataclass

from fairpc.circuit.picture import depth, summary, to_svg
from fairpc.estimators.base import CircuitClassifier


@dataclass(frozen=True)
class CircuitFacts:
    """The distribution as a circuit.

    Attributes:
        model: "FairPC", "NLatPC", "LatNB" or "TwoNB".
        n_nodes, n_edges, n_parameters, depth: its size.
        n_components: circuits mixed inside each P(x | f, s).
        variables: names, in the order of the columns.
        summary: size and properties, a line each.
        svg: a drawing; of a large circuit its top.
    """

    model: str
    n_nodes: int
    n_edges: int
    n_parameters: int
    depth: int
    n_components: int
    variables: tuple[str, ...]
    summary: str
    svg: str


def circuit_facts(model: CircuitClassifier) -> CircuitFacts:
    """Facts about the circuit of a model."""
    circuit, layout = model.circuit_, model.distribution_.layout
    graph, variables = circuit.graph, list(layout.variables)
    names = variables[0], variables[layout.d], variables[layout.decision]
    return CircuitFacts(
        model=type(model).__name__,
        n_nodes=graph.n_nodes,
        n_edges=graph.n_edges,
        n_parameters=graph.n_parameters,
        depth=depth(graph),
        n_components=layout.n_components,
        variables=graph.names,
        summary=summary(circuit),
        svg=to_svg(circuit, labels=model.coding_.value_names(*names)),
    )
