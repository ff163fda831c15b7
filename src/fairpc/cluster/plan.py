"""EM over parts on workers: parameters go out, one sum of flows comes back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self
from uuid import uuid4

import numpy as np

from fairpc.circuit.graph import Graph
from fairpc.cluster.held import HeldParts, Preparation
from fairpc.cluster.sums import ROOT, Flows, Sums, added
from fairpc.cluster.workers import results
from fairpc.errors import CodesError
from fairpc.errors.arrays import Floats

LOOK: Final = 10.0
"""Seconds between two looks at who has which parts."""

FAN_IN: Final = 16
"""Sums that are added at a time before they come here."""


@dataclass(eq=False)
class DaskPlan:
    """A FlowPlan over parts on workers.

    Each thread of the workers holds some parts, in a task that is done again where its worker
    dies. At each call it gets one task more, which goes where its parts are: nothing waits
    in a queue from which Dask could move it to a worker that lacks them.

    Attributes:
        graph: the circuit's structure.
        n_rows, total_weight: of all parts.
        client: to whom tasks are given.
        parts: futures of the parts.
        preparation: future of how parts are made ready.
    """

    graph: Graph
    n_rows: int
    total_weight: float
    client: Any = field(repr=False)
    parts: tuple[Any, ...] = field(repr=False)
    preparation: Any = field(repr=False)
    _held: tuple[Any, ...] = field(default=(), repr=False)
    _looked: float = field(default=-np.inf, repr=False)

    @classmethod
    def of(
        cls,
        client: Any,
        parts: Sequence[Any],
        preparation: Preparation,
        n_rows: int,
        total_weight: float,
    ) -> Self:
        """A plan of parts on workers, which get to know the circuit."""
        from fairpc.cluster.tasks import itself

        sent = client.submit(itself, preparation, pure=False)
        return cls(preparation.graph, n_rows, total_weight, client, tuple(parts), sent)

    def __call__(self, parameters: Floats, weights: Floats | None = None) -> tuple[float, Floats]:
        log_likelihood, flows = self._sum(parameters, weights, HeldParts.flows)
        return float(log_likelihood), flows

    def batch(self, parameters: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
        """Several parameter sets in one go."""
        return self._sum(parameters, weights, HeldParts.flows_of_sets)

    def _sum(
        self, parameters: Floats, weights: Floats | None, evaluate: Callable[..., Sums]
    ) -> Flows:
        """Log-likelihoods and flows, added in the order of the parts."""
        if weights is not None:
            raise CodesError("rows on workers have the weights they came with: give None")
        self._settle()
        client, n_parts = self.client, len(self.parts)
        theta = np.asarray(parameters, np.float64)
        # A name for the tasks of this call alone: Dask takes one that many tasks share for a
        # name of tasks without data, and gives them to anyone.
        name = f"flows-{uuid4().hex}"
        sums = [
            client.submit(evaluate, held, theta, key=(name, g)) for g, held in enumerate(self._held)
        ]
        while len(sums) > FAN_IN:
            some = (sums[k : k + FAN_IN] for k in range(0, len(sums), FAN_IN))
            sums = [client.submit(added, group, n_parts, pure=False) for group in some]
        return added(results(client, sums, "a part of the rows"), n_parts)[ROOT]

    def _settle(self) -> None:
        """See to it that each thread of the workers holds about as many parts as any other.

        Asked at the beginning and then now and again, for workers come and go.
        """
        if time.monotonic() - self._looked < LOOK:
            return
        client, n_parts = self.client, len(self.parts)
        threads = client.nthreads()
        n = max(1, min(n_parts, sum(threads.values())))
        known = self._held if len(self._held) == n else (None,) * n
        holders = client.who_has([held for held in known if held is not None])
        where = [held and next(iter(holders.get(held.key, ())), None) for held in known]
        self._held = tuple(
            held if held is not None and here == there else self._hold(g, n, there)
            for g, (held, here, there) in enumerate(
                zip(known, where, placed(where, threads), strict=True)
            )
        )
        self._looked = time.monotonic()

    def _hold(self, group: int, n_groups: int, address: str | None) -> Any:
        """A future of a group of parts made ready by a worker; by another if that is gone."""
        n_parts = len(self.parts)
        start, stop = group * n_parts // n_groups, (group + 1) * n_parts // n_groups
        return self.client.submit(
            HeldParts.of, self.preparation, start, list(self.parts[start:stop]), n_parts,
            pure=False, workers=address, allow_other_workers=address is not None,
        )  # fmt: skip


def placed(where: Sequence[str | None], threads: Mapping[str, int]) -> list[str | None]:
    """Where groups of parts are to be: each stays while its worker has a thread for it."""
    free = Counter(dict(threads))
    stay: list[str | None] = []
    for address in where:
        if address is not None and free[address] > 0:
            free[address] -= 1
            stay.append(address)
        else:
            stay.append(None)
    rest = free.elements()
    return [address or next(rest, None) for address in stay]
