"""How strongly parameters are shrunk: towards features that are independent within the cell.

Every sum of a circuit has ``strength`` prior rows, spread as the cell's marginals say.
Where cells have few rows, a strength well above one makes new rows likelier; where they
have many it hardly matters. Held-out rows choose, on trees with D in place of Df:
these need no EM, and counts once made serve every strength.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fairpc.data.table import Table
from fairpc.errors.arrays import Floats
from fairpc.fair.component import TREES, Component, learn_component
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.fit import Options, parameter_prior
from fairpc.fair.mixture import assemble
from fairpc.fair.parts import Part, hold_out
from fairpc.fair.rows import Rows
from fairpc.fair.start import Structure, cells_of
from fairpc.fair.upper import Upper

STRENGTHS: Final = (1.0, 5.0, 20.0)
"""Multiples of the strength that is asked for."""
LEAST_ROWS: Final = 20
"""Distinct rows below which nothing is tried."""
FEW_ROWS: Final = 5000
"""Training rows below which one held-out part decides nothing, and several are drawn."""
N_PARTS: Final = 3
PART: Final = 0.2


def candidates(least: float) -> list[float]:
    """The strengths to choose from; none but zero where no shrinking is asked for."""
    return [least * factor for factor in STRENGTHS] if least > 0 else [0.0]


def choose_strength(
    train: Part, held_out: Part, least: float, rng: np.random.Generator
) -> tuple[float, dict[float, float]]:
    """The strength to take, and the mean held-out log P(x | d, s) of every candidate.

    With ``FEW_ROWS`` training rows at least, ``held_out`` decides; with fewer, parts that
    are held out of the training rows.
    """
    if least == 0 or train.rows.n_rows < LEAST_ROWS:
        return least, {}
    strengths = candidates(least)
    pairs = [(train.rows, held_out.rows)]
    if train.effective < FEW_ROWS:
        pairs = [hold_out(train.rows, PART, rng) for _ in range(N_PARTS)]
    found = [_held_out_scores(cells_of(a), cells_of(b), strengths, rng) for a, b in pairs]
    scores = np.concatenate([s for s, _ in found], axis=1)
    weights = np.concatenate([w for _, w in found])
    if not weights.any():
        return least, {}
    means = scores @ weights / weights.sum()
    return strengths[int(np.argmax(means))], dict(zip(strengths, means.tolist(), strict=True))


def _held_out_scores(
    cells: Sequence[Table],
    held_out: Sequence[Table],
    strengths: Sequence[float],
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """log P(x | d, s) of held-out rows, strengths × rows, and their weights."""
    trees = learn_component(TREES, cells, None, Structure(), strengths[0], rng)
    scores = []
    for strength in strengths:
        circuits = trees.shrunk(strength).circuits
        parts = [c.log_marginal(t.codes) for c, t in zip(circuits, held_out, strict=True)]
        scores.append(np.concatenate(parts))
    return np.stack(scores), np.concatenate([table.weights for table in held_out])


def shrinking_prior(
    model: FairDistribution,
    components: Sequence[Component],
    rows: Rows,
    strength: float,
    options: Options,
) -> Floats:
    """Pseudo-counts of all parameters of ``model``, which is assembled of these components."""
    weights = np.full(len(components), 1.0 / len(components))
    if model.layout.component is not None:
        weights = np.tile(weights, (model.layout.n_classes * model.layout.n_groups, 1))
    base = assemble(rows, [c.base for c in components], weights, Upper.of(model))
    prior: Floats = strength * base.circuit.parameters
    top = model.top
    usual = parameter_prior(model.circuit, model.layout, top, options)
    for upper in (top.group, top.decision, top.mechanism):
        prior[upper] = usual[upper]
    return prior
