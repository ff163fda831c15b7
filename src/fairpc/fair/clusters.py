"""A mixture of trees inside each P(x | f, s), each for a cluster of the cell's rows.

Where structures of all rows differ in shape alone, clusters differ in what they
describe: more likely rows where there are many, at the price of more parameters
and of weights that each cell has for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fairpc.data.table import Table
from fairpc.errors.arrays import Floats
from fairpc.fair.component import CLUSTER, Component, learn_component
from fairpc.fair.start import Structure
from fairpc.structure import soft_clusters

N_ITER: Final = 30
"""Iterations of the latent class model: where EM over the whole model starts."""


def learn_clusters(
    cells: Sequence[Table],
    n_clusters: int,
    structure: Structure,
    strength: float,
    rng: np.random.Generator,
) -> tuple[list[Component], Floats]:
    """A component for each cluster, and the clusters' shares of the rows: cells × clusters.

    Clusters are the classes of a latent class model of each cell; EM over the whole
    model moves them afterwards.
    """
    posteriors = [soft_clusters(table, n_clusters, rng, n_iter=N_ITER) for table in cells]
    components = []
    for k in range(n_clusters):
        parts = [
            replace(table, weights=table.weights * posterior[:, k])
            for table, posterior in zip(cells, posteriors, strict=True)
        ]
        components.append(learn_component(CLUSTER, parts, None, structure, strength, rng))
    masses = [p.T @ table.weights for table, p in zip(cells, posteriors, strict=True)]
    return components, np.stack([_shares(mass) for mass in masses])


def _shares(mass: Floats) -> Floats:
    """The parts of a whole; of an empty one, equal parts."""
    mass = mass + 1.0 / len(mass)
    result: Floats = mass / mass.sum()
    return result
