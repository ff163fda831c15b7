"""Do ranges of a small group hold beside a large one? Draws at the ends of what is possible.

    python benchmarks/small_groups.py [--draws N] [--sizes N …]

In both groups the least and the largest P(D = 1 | x, s) are b0 and b1 themselves, so that the truth
lies at an end of every range that a table without chance would give. A feature shows the fair
decision of all rows, of a fifth of them, or of none in the small group; the scores are the true
P(D = 1 | x, s), so that nothing but sampling is at work. A draw whose labels reject the assumptions
counts as one that missed.
"""

from __future__ import annotations

import argparse
import platform
from collections import defaultdict
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt

from fairpc.evidence._held_out_bounds import HeldOutRates, Known, StratumBounds
from fairpc.evidence._top_sets import class_rates

Floats = npt.NDArray[np.float64]
Mechanism = tuple[float, float]  # P(D = 1 | Df = 0), P(D = 1 | Df = 1)
SIZES: Final = (5, 8, 12, 30, 100, 1_000)
LARGE: Final = 4_000
RATES: Final = (0.02, 0.1, 0.5, 0.9, 0.98)
#: of the small group and of the large one
MECHANISMS: Final[tuple[tuple[Mechanism, Mechanism], ...]] = (
    ((0.0, 1.0), (0.0, 1.0)),
    ((0.1, 0.7), (0.05, 0.95)),
    ((0.3, 0.95), (0.0, 0.8)),
    ((0.0, 0.2), (0.0, 0.9)),
    ((0.8, 1.0), (0.1, 1.0)),
)
SHOWN: Final = (1.0, 0.2, 0.0)
"""Share of the small group's rows that show the fair decision; of the large one's, half do."""
FOLDS: Final = 5
LEVEL: Final = 0.95


def draw(
    n: int, rate: float, mechanism: Mechanism, shown: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Labels and P(D = 1 | x, s) of the rows of a group."""
    b = np.array(mechanism)
    fair = (rng.random(n) < rate).astype(np.intp)
    mean = (1 - rate) * b[0] + rate * b[1]
    scores = np.where(rng.random(n) < shown, b[fair], mean)
    return (rng.random(n) < b[fair]).astype(np.float64), scores


def held(
    n: int, rate: float, pair: tuple[Mechanism, Mechanism], shown: float, rng: np.random.Generator
) -> tuple[Floats, bool]:
    """Which ranges hold the truth, [s, f]; and whether they say that one group's labels were
    altered more."""
    labels, scores = draw(n, rate, pair[0], shown, rng)
    small = HeldOutRates.of("small", labels, scores, rng.permutation(n) % FOLDS, None, None)
    labels, scores = draw(LARGE, rate, pair[1], 0.5, rng)
    # Cuts found on other folds would be these, at ten times the time.
    at_b0, at_b1 = (scores == b for b in pair[1])
    rates = class_rates(labels, at_b1, None, None), class_rates(1 - labels, at_b0, None, None)
    bounds = StratumBounds((small, HeldOutRates("large", *rates)), known=(Known(), Known()))
    low, high = np.moveaxis(bounds.mechanism_range(LEVEL), 2, 0)
    truth = np.array(pair)
    inside = (low <= truth + 1e-9) & (truth <= high + 1e-9)
    return inside.astype(np.float64), bool((low.max(axis=0) > high.min(axis=0)).any())


def line(n: int, n_draws: int) -> str:
    """Of the small group and of the large one at each rate, the coverage of the least covered
    entry; the least of them; and how often ranges lie apart where no label was altered."""
    cells, said = defaultdict(list), [0.0]
    for i, (rate, pair, shown) in enumerate(product(RATES, MECHANISMS, SHOWN)):
        rng = np.random.default_rng([i, n])
        found = [held(n, rate, pair, shown, rng) for _ in range(n_draws)]
        cells[rate].append(np.mean([inside for inside, _ in found], axis=0))
        if pair[0] == pair[1]:
            said.append(float(np.mean([differs for _, differs in found])))
    least = [np.array(cells[rate]).min(axis=(0, 2)) for rate in RATES]
    shown_cells = " | ".join(f"{small:.3f} {large:.3f}" for small, large in least)
    return f"{n:5} | {shown_cells} | {np.min(least):.3f} | {max(said):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options = parser.parse_args()
    least = LEVEL - 2 * np.sqrt(LEVEL * (1 - LEVEL) / options.draws)
    print(
        f"{platform.machine()}, Python {platform.python_version()}; {options.draws} draws per cell "
        f"beside a group of {LARGE:,} rows. Coverage at {LEVEL} of b0\nand b1, the least covered "
        f"over {len(MECHANISMS)} pairs of mechanisms and {len(SHOWN)} shares of rows that show the "
        f"fair decision;\n{LEVEL} less two standard errors is {least:.3f}. Left: the small group; "
        "right: the large one. *Apart*: draws whose ranges lie apart\nthough no label was altered."
    )
    rates = " | ".join(f"rate {rate:<6.2f}" for rate in RATES)
    print(f" rows | {rates} | least | apart", flush=True)
    for n in options.sizes:
        print(line(n, options.draws), flush=True)


if __name__ == "__main__":
    main()
