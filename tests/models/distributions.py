"""Random distributions of the four models: random circuits below random upper layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import get_args

from hypothesis import strategies as st

from fairpc.circuit import INDICATOR, PRODUCT, Circuit, CircuitBuilder
from fairpc.models import FairDistribution
from fairpc.models._fair_layers import LATENT, Layout, Model, build
from models.forests import shares
from strategies import Grower

MOST: int = 1024
"""Complete rows of the largest distribution."""


def random_layout(rnd: Random, model: Model) -> Layout:
    """Groups, classes and features, as many as can be enumerated."""
    n_groups, n_classes = rnd.choice((2, 2, 3)), rnd.choice((2, 2, 3))
    latent = model in LATENT
    n_components = rnd.choice((1, 1, 2)) if model in ("FairPC", "NLatPC") else 1
    states = n_groups * n_classes ** (1 + latent) * n_components
    arities: list[int] = []
    for _ in range(rnd.randrange(1, 8)):
        arity = rnd.choice((1, 2, 2, 2, 3, 4))
        if states * math.prod(arities) * arity <= MOST:
            arities.append(arity)
    sizes = tuple(arities or [2])
    names = tuple(f"X{j}" for j in range(len(sizes)))
    return Layout(n_groups, n_classes, names, sizes, model, n_components)


def graft(
    b: CircuitBuilder, circuit: Circuit, columns: Sequence[int], key: tuple[int, int, int]
) -> int:
    """Add a circuit to a builder, its variable i as column ``columns[i]``; its root there."""
    g, below = circuit.graph, list[int]()
    for n, kind in enumerate(g.kind.tolist()):
        children = [below[c] for c in g.children(n).tolist()]
        if kind == INDICATOR:
            below.append(b.indicator(columns[g.variable[n]], int(g.value[n])))
        elif kind == PRODUCT:
            below.append(b.product(*children))
        else:
            tie = (key, int(g.block[n]))
            below.append(b.sum(children, circuit.weights(n).tolist(), tie=tie))
    return below[-1]


def random_distribution(rnd: Random, model: Model) -> FairDistribution:
    """Any circuits, deterministic or not; independent features in the naive Bayes models."""
    layout = random_layout(rnd, model)
    zeros = rnd.choice((0.0, 0.3))

    def features(b: CircuitBuilder, f: int, s: int, columns: Sequence[int], k: int) -> int:
        if model in ("LatNB", "TwoNB"):
            rates = [shares(rnd, (a,), zeros).tolist() for a in layout.arities]
            pairs = zip(columns, rates, strict=True)
            return b.product(*(b.categorical(column, rate) for column, rate in pairs))
        grower = Grower.of(rnd, layout.arities, structured=False, max_nodes=30)
        circuit = grower.grow(deterministic=rnd.randrange(2) == 0)
        return graft(b, circuit, columns, key=(f, s, k))

    def cell(b: CircuitBuilder, f: int, s: int, columns: Sequence[int]) -> int:
        parts = [features(b, f, s, columns, k) for k in range(layout.n_components)]
        if layout.component is None:
            return parts[0]
        told = [b.product(b.indicator(layout.component, k), part) for k, part in enumerate(parts)]
        return b.sum(told, shares(rnd, (len(told),), 0.0).tolist())

    sizes = layout.n_groups, layout.n_classes
    rate = shares(rnd, sizes, 0.0)
    if layout.tied:
        rate[:] = rate[0]
    mechanism = shares(rnd, (*sizes, sizes[1]), zeros) if layout.latent else None
    circuit = build(layout, cell, shares(rnd, sizes[:1], 0.0), rate, mechanism)
    return FairDistribution(model, layout, circuit)


@st.composite
def distributions(draw: st.DrawFn) -> FairDistribution:
    """Of every model, with 2 to 3 groups and classes, mixtures and rates of zero among them."""
    model = draw(st.sampled_from(get_args(Model)))
    return random_distribution(draw(st.randoms(use_true_random=False)), model)
