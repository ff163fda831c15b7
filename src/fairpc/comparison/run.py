"""Fit each method on the training part of each fold, score it on the test part."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc import metrics
from fairpc.cluster.table import spread
from fairpc.comparison.methods import named_methods
from fairpc.comparison.record import Comparison, FoldScore
from fairpc.comparison.table import MethodTable, take_rows
from fairpc.errors import ComparisonError, FairpcError, MetricError
from fairpc.errors.arrays import Ints
from fairpc.evidence.classifiers import few_threads
from fairpc.metrics import Fold, stratified_folds
from fairpc.refits.workbench import Progress, Report

Job = tuple[str, int]
"""A method by name, and the number of a fold."""


def compare(
    models: Mapping[str, Any] | Sequence[Any] | None,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any = None,
    cv: int | Iterable[Fold | tuple[npt.ArrayLike, npt.ArrayLike]] = 5,
    groups: npt.ArrayLike | None = None,
    positive: Any = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    client: Any = None,
    progress: Report | None = None,
) -> Comparison:
    """Fit each method on the training part of each fold and score it on the test part.

    Args:
        models: name -> estimator, or estimators, which are cloned; None for the paper's four
            distributions and every baseline that is installed.
        X, y: table and observed labels. Rows whose label or group is missing are used for
            training by methods that can, and never for testing.
        sensitive_features: groups given apart; None where ``sensitive`` of a model names columns.
        cv: number of folds, stratified by label and group, or the folds themselves.
        groups: who each row is about, where persons repeat; a person stays in one fold.
        positive: the class that F1, AUC and gaps are of; None: that of the models, or the last.
        random_state: of the folds, and of the default methods.
        n_jobs: threads; times of fits are then not comparable.
        client: a Dask client, over whose workers the fits are spread; their own fits then use
            what threads a worker has.
        progress: called with a :class:`Progress` before each fit; with a client, after it.
    """
    if client is not None and n_jobs is not None:
        raise ComparisonError("n_jobs and a client were given: a client has its own workers")
    methods = named_methods(models, random_state)
    table = MethodTable.of(X, y, sensitive_features, list(methods.values()), positive)
    folds = _folds(cv, table, groups, random_state)
    jobs = [(name, i) for name in methods for i in range(len(folds))]
    count = _Count(progress, len(jobs))

    task = _Task(methods, table, folds)

    def run(job: Job) -> FoldScore | str:
        count.next(_named(job))
        return task(job)

    if client is None:
        with ThreadPoolExecutor(_threads(n_jobs)) as pool:
            outcomes = dict(zip(jobs, pool.map(run, jobs), strict=True))
    else:
        outcomes = {}
        for job, outcome in zip(jobs, spread(client, _Task.__call__, task, jobs), strict=True):
            count.next(_named(job))
            outcomes[job] = outcome
    return _comparison(methods, table, folds, outcomes)


def _comparison(
    methods: Mapping[str, Any],
    table: MethodTable,
    folds: Sequence[Fold],
    outcomes: Mapping[Job, FoldScore | str],
) -> Comparison:
    """Scores of the methods that ran on every fold; of the others the first reason."""
    failures: dict[str, str] = {}
    for (name, _), outcome in outcomes.items():
        if isinstance(outcome, str):
            failures.setdefault(name, outcome)
    if len(failures) == len(methods):
        name, reason = next(iter(failures.items()))
        raise ComparisonError(f"no method could be run; {name}: {reason}")
    return Comparison(
        scores=tuple(s for s in outcomes.values() if not isinstance(s, str)
                     and s.method not in failures),
        failures=failures,
        filled=tuple(n for n, m in methods.items() if n not in failures and table.filled_for(m)),
        positive=str(table.classes[table.positive]),
        n_rows=table.n_rows,
        n_folds=len(folds),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Task:
    """All that the fits of a comparison have in common."""

    methods: Mapping[str, Any]
    table: MethodTable
    folds: Sequence[Fold]

    def __call__(self, job: Job) -> FoldScore | str:
        """The score of one method on one fold, or why there is none."""
        name, i = job
        try:
            return _score(self.methods[name], self.table, self.folds[i], name, i)
        except FairpcError as error:
            return str(error)


def _named(job: Job) -> str:
    return f"{job[0]}, fold {job[1] + 1}"


@dataclass
class _Count:
    """Counts what is done, from any thread."""

    progress: Report | None
    total: int
    done: int = 0
    lock: Any = field(default_factory=Lock)

    def next(self, what: str) -> None:
        if self.progress is None:
            return
        with self.lock:
            self.progress(Progress(what, self.done, self.total))
            self.done += 1


def _threads(n_jobs: int | None) -> int:
    if n_jobs == 0:
        raise ComparisonError("n_jobs is 0: give a number of threads, or -1 for all cores")
    return 1 if n_jobs is None else n_jobs if n_jobs > 0 else os.cpu_count() or 1


def _score(estimator: Any, table: MethodTable, fold: Fold, name: str, number: int) -> FoldScore:
    """Fit to the rows outside the test part, and score the test rows that can be scored."""
    train, test = fold.fit, fold.test[table.known[fold.test]]
    if not len(test):
        raise ComparisonError(f"fold {number + 1} has no test row with a label and a group")
    with warnings.catch_warnings():
        # A rare level that only the test rows have is read as missing; that is no news here.
        warnings.simplefilter("ignore", UserWarning)
        began = perf_counter()
        with few_threads(len(train)):
            model = table.fit(estimator, train)
        seconds = perf_counter() - began
        probabilities = table.call(model, "predict_proba", train, test)
        decided = table.call(model, "predict", train, test)
        likelihood = _likelihood(model, table, train, test)
    classes = [str(c) for c in model.classes_]
    wanted = str(table.classes[table.positive])
    if wanted not in classes:
        raise ComparisonError(
            f"class {wanted!r} is absent from the training rows of fold {number + 1}: give fewer "
            "folds or more rows"
        )
    score = probabilities[:, classes.index(wanted)]
    chosen = np.array([str(c) == wanted for c in decided])
    truth = table.d[test] == table.positive
    labels = np.array([str(c) for c in table.classes])[table.d[test]]
    return FoldScore(
        method=name,
        fold=number,
        n_test=len(test),
        accuracy=float(np.mean([str(c) for c in decided] == labels)),
        f1=_or_none(lambda: metrics.f1(truth, chosen, positive=True)),
        auc=_or_none(lambda: metrics.auc(truth, score, positive=True)),
        log_likelihood=likelihood,
        discrimination=_or_none(lambda: metrics.largest_gap(score, table.s[test])),
        selection_gap=_or_none(lambda: metrics.largest_gap(chosen.astype(float), table.s[test])),
        fit_seconds=seconds,
    )


def _likelihood(model: Any, table: MethodTable, train: Ints, test: Ints) -> float | None:
    if not hasattr(model, "score_samples"):
        return None
    values = table.call(model, "score_samples", train, test, take_rows(table.y, test))
    mean = float(np.mean(values))
    return mean if np.isfinite(mean) else None


def _or_none(metric: Callable[[], float]) -> float | None:
    """A metric, or None where these rows do not define it."""
    try:
        return metric()
    except MetricError:
        return None


def _folds(
    cv: Any,
    table: MethodTable,
    persons: npt.ArrayLike | None,
    seed: int,
) -> tuple[Fold, ...]:
    if isinstance(cv, int | np.integer):
        strata = table.d.astype(np.int64) * (int(table.s.max()) + 2) + table.s
        return stratified_folds(strata, int(cv), validation=0.0, persons=persons, seed=seed)
    if not isinstance(cv, Iterable) or isinstance(cv, str):
        raise ComparisonError(f"cv is {cv!r}: give a number of folds, or the folds")
    folds = []
    for part in cv:
        if not isinstance(part, Fold):
            train, test = (np.asarray(rows, np.int64) for rows in part)
            part = Fold(train, np.empty(0, np.int64), test)
        if max(part.fit.max(), part.test.max()) >= table.n_rows:
            raise ComparisonError(
                f"a fold names row {max(part.fit.max(), part.test.max())} and the table has "
                f"{table.n_rows} rows: give the folds of this table"
            )
        folds.append(part)
    if not folds:
        raise ComparisonError("cv is empty: give a number of folds, or at least one fold")
    return tuple(folds)
