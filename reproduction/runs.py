"""Methods × tables × folds, side by side, with a progress bar; what was once run is kept.

An outcome is kept under the hash of all it depends on: rows, fold, setting and the
source of the package. An interrupted run goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import fairpc
from fairpc.comparison._runner import run_jobs
from fairpc.core import fingerprint
from fairpc.metrics import discrimination
from reproduction.distributions import FoldRows
from reproduction.methods import (
    ALL_METHODS,
    Outcome,
    is_distribution,
    load,
    run,
    save,
)
from reproduction.sources import PaperTable, Sources

_FORMAT: Final = 1
_CLASSIFIER_CODE: Final = ("comparison", "learners")
_DISTRIBUTION_CODE: Final = ("circuit", "comparison", "data", "models", "structure")
_LIBRARIES: Final = ("fairlearn", "numpy", "scikit-learn", "scipy")

Runs = dict[tuple[str, str], list[Outcome]]
"""Outcomes of the folds, by table and method."""


@dataclass(frozen=True, eq=False)
class Task:
    """A method on one fold of a table; ``missing`` as in :func:`run`.

    The seed is the number of the fold, and another one for each further ``start`` of a method
    that starts at random.
    """

    table: PaperTable
    fold: int
    method: str
    missing: float | None = None
    start: int = 0

    @property
    def seed(self) -> int:
        return self.fold + 100 * self.start

    @cached_property
    def key(self) -> str:
        """Hash of all that the outcome depends on."""
        rows, fold = self.table.rows, self.table.folds[self.fold]
        data = fingerprint(rows.s, rows.d, rows.x, fold.train, fold.valid, fold.test)
        packages = _DISTRIBUTION_CODE if is_distribution(self.method) else _CLASSIFIER_CODE
        text = f"{_FORMAT};{_code(packages)};{self.method};{self.seed};{self.missing};{data}"
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def rows(self) -> FoldRows:
        """The rows of the fold."""
        rows, fold = self.table.rows, self.table.folds[self.fold]
        return FoldRows(rows.take(fold.train), rows.take(fold.valid), rows.take(fold.test))

    def run(self, rows: FoldRows | None = None) -> Outcome:
        """The outcome; tasks of one fold may share its ``rows``, and with them its structure."""
        return run(self.method, rows or self.rows, self.seed, self.missing)


@dataclass(frozen=True)
class Runner:
    """Runs tasks."""

    folder: Path  #: where outcomes are kept
    n_jobs: int | None = None  #: processes; None: one per core
    progress: bool = False  #: whether to show a bar on stderr

    def __call__(self, tasks: Sequence[Task], what: str) -> list[Outcome]:
        """Outcomes in the order of the tasks; ``what`` names them beside the bar."""
        with _bar(self.progress) as bar:
            shown = bar.add_task(what, total=len(tasks))
            options: Any = {"kept": self, "done": lambda task: bar.advance(shown)}
            return run_jobs(Task.run, tasks, spread=self._by_fold, **options)

    def get(self, task: Task) -> Outcome | None:
        """What was kept of a task."""
        return load(self._path(task))

    def put(self, task: Task, outcome: Outcome) -> None:
        """Keep an outcome."""
        save(outcome, self._path(task))

    def _by_fold(self, work: Any, tasks: Sequence[Task]) -> Iterable[tuple[int, Outcome]]:
        """Tasks of one fold, which share its structure, one after another; folds side by side."""
        joblib: Any = import_module("joblib")
        folds: dict[tuple[int, int], list[tuple[int, Task]]] = {}
        for i, task in enumerate(tasks):
            folds.setdefault((id(task.table), task.fold), []).append((i, task))
        n_jobs = min(self.n_jobs or joblib.cpu_count(), max(len(folds), 1))
        if n_jobs == 1:
            return (found for jobs in folds.values() for found in _work(work, jobs))
        with joblib.parallel_config(backend="loky", n_jobs=n_jobs, inner_max_num_threads=1):
            pool = joblib.Parallel(return_as="generator_unordered", batch_size=1)
            results = pool(joblib.delayed(_work_apart)(work, jobs) for jobs in folds.values())
        return (found for every in results for found in every)

    def _path(self, task: Task) -> Path:
        return self.folder / task.key[:2] / f"{task.key}.npz"


def default_folder() -> Path:
    """Where outcomes are kept unless said otherwise."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fairpc" / "paper"


def _bar(shown: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), disable=not shown)


def _work(work: Any, jobs: Sequence[tuple[int, Task]]) -> Iterator[tuple[int, Outcome]]:
    rows = jobs[0][1].rows
    return ((index, work(task, rows)) for index, task in jobs)


def _work_apart(work: Any, jobs: Sequence[tuple[int, Task]]) -> list[tuple[int, Outcome]]:
    """The same in a process apart, which leaves the other cores to other processes."""
    os.environ.setdefault("FAIRPC_THREADS", "1")
    return list(_work(work, jobs))


@cache
def _code(packages: tuple[str, ...]) -> str:
    """Hash of the source of some of our packages, and of the versions of libraries."""
    here, root = Path(__file__).parent, Path(fairpc.__file__).parent
    files = [path for name in packages for path in sorted((root / name).rglob("*.py"))]
    digest = hashlib.sha256()
    own = ("distributions.py", "methods.py") if packages == _DISTRIBUTION_CODE else ("methods.py",)
    for path in (*files, *(here / name for name in own)):
        digest.update(f"{path.name};".encode())
        digest.update(path.read_bytes())
    for name in _LIBRARIES:
        try:
            digest.update(f"{name} {version(name)};".encode())
        except PackageNotFoundError:
            digest.update(f"{name};".encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class Study:
    """Where the tables of one command come from, how tasks are run, and what exhibits share."""

    sources: Sources
    runner: Runner

    @cached_property
    def real_world(self) -> tuple[tuple[PaperTable, ...], tuple[str, ...]]:
        """The real-world tables, and a sentence for each that is absent."""
        return self.sources.real_world()

    @cached_property
    def real_world_runs(self) -> Runs:
        """Every method on every fold of the real-world tables."""
        return self.run(self.real_world[0], ALL_METHODS, "real-world tables")

    def run(self, tables: Sequence[PaperTable], methods: Sequence[str], what: str) -> Runs:
        """Each method on each fold of each table."""
        tasks = [
            Task(table, fold, method)
            for table in tables
            for method in methods
            for fold in range(len(table.folds))
        ]
        found: Runs = {(t.name, m): [] for t in tables for m in methods}
        for task, outcome in zip(tasks, self.runner(tasks, what), strict=True):
            found[task.table.name, task.method].append(outcome)
        return found


def held_out_gap(table: PaperTable, fold: int, outcome: Outcome) -> float:
    """Difference of mean scores between groups on the test rows, signed."""
    return discrimination(outcome.scores, table.rows.s[table.folds[fold].test])
