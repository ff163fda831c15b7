"""Times of the search for discrimination patterns on Adult, and ours ÷ a naive twin.

    python benchmarks/patterns.py

The naive twin asks the same model about every candidate, one query each, in one batch. The
published binarised table is read from FAIRPC_PAPER_DATA, or from ../shared/data/paper beside the
repository, and left out where it is in neither.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import numpy as np

from adult_like import paper_table
from fairpc import FairPC
from fairpc.datasets import load_adult
from fairpc.models import FairDistribution

SIZE = 3
SHARES = (0.01, 0.001, 0.0)


def models() -> Iterator[tuple[str, FairPC]]:
    adult = load_adult()
    kinds = {
        "raw, auto": FairPC(random_state=0),
        "raw, strudel": FairPC(structure="strudel", random_state=0),
        "raw, 4 components": FairPC(n_components=4, random_state=0),
    }
    for name, model in kinds.items():
        yield name, model.fit(adult.X, adult.y, sensitive_features=adult.sensitive)
    table = paper_table("adult")
    if table is not None:
        rows = table.rows
        yield "published", FairPC(random_state=0).fit(rows.x, rows.d, sensitive_features=rows.s)


def naive(distribution: FairDistribution, positive: int, size: int) -> float:
    """The largest difference of P(Df = positive), a query per candidate."""
    arities = distribution.layout.arities
    x = [np.full((1, len(arities)), -1, np.int16)]
    for k in range(1, size + 1):
        for named in itertools.combinations(range(len(arities)), k):
            values = np.indices([arities[j] for j in named]).reshape(k, -1).T
            some = np.full((len(values), len(arities)), -1, np.int16)
            some[:, named] = values
            x.append(some)
    every = np.concatenate(x)
    of_all = distribution.decision(None, every)[:, positive]
    differences = [
        np.abs(distribution.decision(np.full(len(every), s), every)[:, positive] - of_all).max()
        for s in range(distribution.layout.n_groups)
    ]
    return float(max(differences))


def main() -> None:
    for name, model in models():
        kind = type(model.distribution_).__name__
        model.discrimination_patterns(size=1)  # compiles what is to be compiled
        print(f"{name} ({kind}, {sum(model.coding_.features.arities)} values)")
        for share in SHARES:
            began = time.perf_counter(), time.process_time()
            found = model.discrimination_patterns(size=SIZE, min_share=share)
            wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
            print(
                f"  size {SIZE}, min_share {share:5.3f}: {wall:5.2f} s, CPU {cpu:5.2f} s; "
                f"{found.n_candidates:,} candidates, {found.n_evaluated:,} evaluated, "
                f"{found.n_rare:,} rare, {found.n_bounded:,} bounded; {found.n_found:,} found"
            )
        began_at = time.process_time()
        ours = model.discrimination_patterns(size=2, min_share=0, threshold=0, top=1)
        took = time.process_time() - began_at
        began_at = time.process_time()
        theirs = naive(model.distribution_, model.coding_.labels.positive, 2)
        twin = time.process_time() - began_at
        assert abs(abs(ours.patterns[0].difference) - theirs) < 1e-9
        print(f"  size 2, min_share 0: ours {took:.2f} s, naive {twin:.2f} s: {took / twin:.3f}")


if __name__ == "__main__":
    main()
