"""A study: where the data come from, how tasks are run, and what several exhibits share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from fairpc.paper.methods import ALL_METHODS, METHODS
from fairpc.paper.outcome import Outcome
from fairpc.paper.runs import Runner, Task
from fairpc.paper.sources import PaperTable, Sources

Runs = dict[tuple[str, str], list[Outcome]]
"""Outcomes of the folds, by table and method."""


@dataclass(frozen=True)
class Study:
    """The data and the runner of one command.

    Attributes:
        sources: tables and folds.
        runner: runs tasks, or finds their outcomes.
        methods: the methods of the comparisons.
    """

    sources: Sources
    runner: Runner
    methods: tuple[str, ...] = field(default=ALL_METHODS)

    @cached_property
    def real_world(self) -> tuple[tuple[PaperTable, ...], tuple[str, ...]]:
        """The real-world tables, and a sentence for each that is absent."""
        tables, absent = self.sources.real_world()
        return tuple(tables), tuple(absent)

    @cached_property
    def real_world_runs(self) -> Runs:
        """Every method on every fold of the real-world tables."""
        return self.run(self.real_world[0], self.methods, "real-world tables")

    def run(self, tables: Sequence[PaperTable], methods: Sequence[str], what: str) -> Runs:
        """Each method on each fold of each table."""
        tasks = [
            Task(table, fold, method)
            # Long ones first, so that no process is left alone with one at the end.
            for method in sorted(methods, key=_by_cost)
            for table in tables
            for fold in range(len(table.folds))
        ]
        found: Runs = {(t.name, m): [] for t in tables for m in methods}
        for task, outcome in zip(tasks, self.runner(tasks, what), strict=True):
            found[task.table.name, task.method].append(outcome)
        return found

    def with_seed(self, seed: int) -> Study:
        """The same on other folds and draws: our own, from this seed."""
        return Study(replace(self.sources, splits=None, seed=seed), self.runner, self.methods)


def _by_cost(method: str) -> int:
    order = ("Reduction", "Reweight", "FairPC-auto", "FairPC-rand", "FairPC", *METHODS)
    return order.index(method) if method in order else len(order)
