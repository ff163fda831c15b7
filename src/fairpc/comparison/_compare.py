"""Fit each method on the training part of each fold, score it on the test part."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import count
from threading import Lock
from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from fairpc.cluster import spread
from fairpc.comparison import _scores as metrics
from fairpc.comparison._baselines import default_baselines
from fairpc.comparison._runner import MethodTable, in_threads, run_jobs, run_method
from fairpc.core import (
    ComparisonError,
    FairpcError,
    MetricError,
    MissingExtraError,
    Record,
    check_choice,
    serialise,
)
from fairpc.learners import Fold, stratified_folds
from fairpc.models import FairPC, LatNB, NLatPC, Progress, Report, TwoNB, trade_off

CAPTION: Final = (
    "Every number is of rows that the method was not fitted to. Accuracy, F1 and AUC are measured "
    "against the observed label, which may be biased: more agreement is not simply better."
)
Job = tuple[str, int]
"""A method by name, and the number of a fold."""


@dataclass(frozen=True)
class FoldScore:
    """One method on the test rows of one fold; None where a number is not defined.

    Attributes:
        n_test: test rows with a known label and group.
        accuracy, f1, auc: against the observed label; F1 and AUC of the positive class.
        log_likelihood: mean log P(x, s, d) of the test rows, in nats; of distributions only.
        discrimination: largest difference between groups of the mean score of the positive class.
        selection_gap: the same of positive decisions.
        fit_seconds: time of the fit.
    """

    method: str
    fold: int
    n_test: int
    accuracy: float
    f1: float | None
    auc: float | None
    log_likelihood: float | None
    discrimination: float | None
    selection_gap: float | None
    fit_seconds: float


_SCORES: Final = tuple(f.name for f in fields(FoldScore))[3:]


@dataclass(frozen=True, eq=False)
class Comparison(Record):
    """What a comparison found.

    Attributes:
        scores: per method and fold.
        failures: method -> why it could not be run; such a method has no scores.
        filled: methods that take no missing cells; theirs were filled (a level of its own, or
            the mean of the training rows).
        identifiers: columns that ordinary classifiers were not given, because every row has its
            own value, or nearly; our models drop them by themselves, by the same rule.
        positive: the class that F1, AUC and gaps are of.
        n_rows, n_folds: what was compared on.
        caption: what the numbers mean.
    """

    scores: tuple[FoldScore, ...]
    failures: Mapping[str, str]
    filled: tuple[str, ...]
    identifiers: tuple[str, ...]
    positive: str
    n_rows: int
    n_folds: int
    caption: str = CAPTION

    _computed: ClassVar[tuple[str, ...]] = ("means",)

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """Methods that could be run, in the order in which they were given."""
        return tuple(dict.fromkeys(score.method for score in self.scores))

    def means(self) -> tuple[dict[str, Any], ...]:
        """Per method the mean over folds of each score, and its standard deviation (``…_sd``)."""
        result = []
        for method in self.methods:
            mine = [score for score in self.scores if score.method == method]
            row: dict[str, Any] = {"method": method, "folds": len(mine)}
            for name in _SCORES:
                known = [getattr(s, name) for s in mine if getattr(s, name) is not None]
                row[name] = float(np.mean(known)) if known else None
                row[f"{name}_sd"] = float(np.std(known, ddof=1)) if len(known) > 1 else None
            result.append(row)
        return tuple(result)

    @property
    def frame(self) -> pl.DataFrame:
        """:meth:`means` as a polars frame, a row per method."""
        return pl.DataFrame(self.means(), infer_schema_length=None)

    @property
    def per_fold(self) -> pl.DataFrame:
        """The scores as a polars frame, a row per method and fold."""
        rows = [serialise(score) for score in self.scores]
        return pl.DataFrame(rows, infer_schema_length=None)

    def to_frame(self, library: Literal["polars", "pandas", "pyarrow"] = "polars") -> Any:
        """:attr:`frame` in a library of choice."""
        check_choice("library", library, ("polars", "pandas", "pyarrow"), ComparisonError)
        if library == "polars":
            return self.frame
        try:
            return self.frame.to_pandas() if library == "pandas" else self.frame.to_arrow()
        except ImportError as error:
            raise MissingExtraError(
                f"{library} is not installed: pip install 'fairpc[frames]'"
            ) from error

    def plot(self, ax: Any = None) -> Any:
        """Accuracy against discrimination, a mark per method (matplotlib); the axes."""
        return trade_off(self.means(), caption=self.caption, ax=ax)

    def _repr_html_(self) -> str:
        return str(self.frame._repr_html_())


def default_models(random_state: int = 0) -> dict[str, Any]:
    """The paper's four distributions and the baselines; fairlearn's where it is installed."""
    circuits = {
        kind.__name__: kind(random_state=random_state) for kind in (FairPC, NLatPC, LatNB, TwoNB)
    }
    return circuits | default_baselines(random_state)


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

    Columns that give the label away are warned of, as in a fit.

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
    methods = _named_methods(models, random_state)
    table = MethodTable.of(X, y, sensitive_features, list(methods.values()), positive)
    folds = _folds(cv, table, groups, random_state)
    table.warn_of_leaks()
    work = _Work(methods, table, folds)
    jobs = [(name, i) for name in methods for i in range(len(folds))]
    begun, lock = count(), Lock()

    def report(job: Job) -> None:
        if progress is not None:
            with lock:
                what = f"{job[0]}, fold {job[1] + 1}"
                progress(Progress(what, next(begun), len(jobs), "fit"))

    def reported(job: Job) -> FoldScore | str:
        report(job)
        return work(job)

    if client is None:
        outcomes = run_jobs(reported, jobs, spread=in_threads(_n_threads(n_jobs)))
    else:
        outcomes = run_jobs(work, jobs, spread=partial(_on_cluster, client), done=report)
    return work.comparison(jobs, outcomes)


def _named_methods(
    models: Mapping[str, Any] | Sequence[Any] | None, random_state: int
) -> dict[str, Any]:
    """Estimators by name; of several of one class the later ones are numbered."""
    if models is None:
        return default_models(random_state)
    if isinstance(models, Mapping):
        named = {str(name): model for name, model in models.items()}
    elif hasattr(models, "fit"):
        named = {type(models).__name__: models}
    elif not isinstance(models, Iterable):
        raise ComparisonError(f"models is {models!r}: give classifiers, by name or in a list")
    else:
        named = {}
        for model in models:
            name = type(model).__name__
            before = sum(other.split(" ")[0] == name for other in named)
            named[f"{name} {before + 1}" if before else name] = model
    for name, model in named.items():
        if not hasattr(model, "fit") or not hasattr(model, "predict_proba"):
            raise ComparisonError(
                f"model {name!r} is a {type(model).__name__}: give classifiers with fit and "
                "predict_proba"
            )
    if not named:
        raise ComparisonError("no models were given: give at least one, or None for the defaults")
    return named


def _n_threads(n_jobs: int | None) -> int:
    if n_jobs == 0:
        raise ComparisonError("n_jobs is 0: give a number of threads, or -1 for all cores")
    return 1 if n_jobs is None else n_jobs if n_jobs > 0 else os.cpu_count() or 1


def _on_cluster(client: Any, work: Any, jobs: Sequence[Job]) -> Iterable[tuple[int, Any]]:
    return enumerate(spread(client, _Work.__call__, work, jobs))


@dataclass(frozen=True, eq=False)
class _Work:
    """The fits of a comparison: what they have in common, and what comes of them."""

    methods: Mapping[str, Any]
    table: MethodTable
    folds: Sequence[Fold]

    def __call__(self, job: Job) -> FoldScore | str:
        """The score of one method on one fold, or why there is none."""
        try:
            return self.score(*job)
        except FairpcError as error:
            return str(error)

    def score(self, name: str, number: int) -> FoldScore:
        """Fit to the rows outside the test part, and score the test rows that can be scored."""
        table, fold = self.table, self.folds[number]
        train, test = fold.fit, fold.test[table.known[fold.test]]
        if not len(test):
            raise ComparisonError(f"fold {number + 1} has no test row with a label and a group")
        with warnings.catch_warnings():
            # A rare level that only the test rows have is read as missing; that is no news here.
            warnings.simplefilter("ignore", UserWarning)
            run = run_method(table.method(self.methods[name]), train, test)
        decided, wanted = run.decided, table.classes[table.positive]
        if decided.scores is None:
            raise ComparisonError(
                f"class {wanted!r} is absent from the training rows of fold {number + 1}: give "
                "fewer folds or more rows"
            )
        s, chosen, labels = table.s[test], decided.decisions == wanted, table.labels[test]
        likelihood = math.nan if decided.log_likelihood is None else decided.log_likelihood.mean()
        return FoldScore(
            method=name,
            fold=number,
            n_test=len(test),
            accuracy=float(np.mean(decided.decisions == labels)),
            f1=_or_none(metrics.f1, labels == wanted, chosen, positive=True),
            auc=_or_none(metrics.auc, labels == wanted, decided.scores, positive=True),
            log_likelihood=float(likelihood) if math.isfinite(likelihood) else None,
            discrimination=_or_none(metrics.largest_gap, decided.scores, s),
            selection_gap=_or_none(metrics.largest_gap, chosen.astype(float), s),
            fit_seconds=run.seconds,
        )

    def comparison(self, jobs: Sequence[Job], outcomes: Sequence[FoldScore | str]) -> Comparison:
        """Scores of the methods that ran on every fold; of the others the first reason."""
        failures: dict[str, str] = {}
        for (name, _), outcome in zip(jobs, outcomes, strict=True):
            if isinstance(outcome, str):
                failures.setdefault(name, outcome)
        if len(failures) == len(self.methods):
            name, reason = next(iter(failures.items()))
            raise ComparisonError(f"no method could be run; {name}: {reason}")
        ran = {name: model for name, model in self.methods.items() if name not in failures}
        scores = (s for s in outcomes if not isinstance(s, str) and s.method in ran)
        return Comparison(
            scores=tuple(scores),
            failures=failures,
            filled=tuple(name for name, model in ran.items() if self.table.filled_for(model)),
            identifiers=self.table.identifiers,
            positive=self.table.classes[self.table.positive],
            n_rows=self.table.n_rows,
            n_folds=len(self.folds),
        )


def _or_none(metric: Callable[..., float], *values: Any, **options: Any) -> float | None:
    """A metric, or None where these rows do not define it."""
    try:
        return metric(*values, **options)
    except MetricError:
        return None


def _folds(
    cv: Any, table: MethodTable, persons: npt.ArrayLike | None, seed: int
) -> tuple[Fold, ...]:
    if isinstance(cv, int | np.integer):
        strata = table.d.astype(np.int64) * (int(table.s.max()) + 2) + table.s
        return stratified_folds(strata, int(cv), validation=0.0, persons=persons, seed=seed)
    if not isinstance(cv, Iterable) or isinstance(cv, str):
        raise ComparisonError(f"cv is {cv!r}: give a number of folds, or the folds")
    folds = []
    for fold in cv:
        if not isinstance(fold, Fold):
            train, test = (np.asarray(rows, np.int64) for rows in fold)
            fold = Fold(train, np.empty(0, np.int64), test)
        last = max(fold.fit.max(), fold.test.max())
        if last >= table.n_rows:
            raise ComparisonError(
                f"a fold names row {last} and the table has {table.n_rows} rows: give the folds of "
                "this table"
            )
        folds.append(fold)
    if not folds:
        raise ComparisonError("cv is empty: give a number of folds, or at least one fold")
    return tuple(folds)
