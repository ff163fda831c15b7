"""How methods are run: one on a fold, with its seconds; many jobs, what is kept left out; and a
table as each method takes it: whole, without the sensitive columns, or without holes.

A method learns from training rows and decides about others. What rows are is for its maker to say:
numbers of rows of a table here, codes in the reproduction of the paper, frames in the benchmarks.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from functools import partial
from time import perf_counter, process_time
from typing import Any, Protocol

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from fairpc import core, data
from fairpc.comparison._baseline_surface import Baseline
from fairpc.core import Array, Bools, Codes, FairpcError, Floats, Ints
from fairpc.learners import few_threads
from fairpc.models import CircuitClassifier, GivenTable


@dataclass(frozen=True, eq=False)
class Decided:
    """What a method says of some rows."""

    scores: Floats | None  #: of the positive decision; None where a method only decides
    decisions: Array  #: the decision, or the chance of the positive one
    log_likelihood: Floats | None = None  #: log P(x, s, d), of distributions

    @classmethod
    def by_half(cls, scores: Floats) -> Decided:
        """Decisions for scores above one half."""
        return cls(scores, (scores > 0.5).astype(np.float64))


@dataclass(frozen=True, eq=False)
class FittedMethod:
    """What a method learned: a rule, and its model where somebody may ask it more."""

    decide: Callable[[Any], Decided]
    model: Any = None


Method = Callable[[Any, int], FittedMethod]
"""Training rows and a seed to what was learned."""


@dataclass(frozen=True, eq=False)
class Run:
    """A method on one fold."""

    fitted: FittedMethod
    decided: Decided  #: of the test rows
    seconds: float  #: of the fit, by the clock
    cpu: float  #: of the fit, of the processor


def run_method(method: Method, train: Any, test: Any, seed: int = 0) -> Run:
    """Fit a method to training rows and apply it to test rows."""
    began, cpu = perf_counter(), process_time()
    fitted = method(train, seed)
    seconds, cpu = perf_counter() - began, process_time() - cpu
    return Run(fitted, fitted.decide(test), seconds, cpu)


class Kept(Protocol):
    """Where results of jobs are found again."""

    def get(self, job: Any) -> Any:
        """What was kept of a job; None where nothing was."""

    def put(self, job: Any, result: Any) -> None:
        """Keep a result."""


Spread = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[tuple[int, Any]]]
"""Deals jobs out: gives the number of each, and what came of it, as they end."""


def one_by_one(work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    return ((i, work(job)) for i, job in enumerate(jobs))


def in_threads(n_threads: int) -> Spread:
    def spread(work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        pool = ThreadPoolExecutor(n_threads)
        core.interruptible_waits()
        try:
            yield from enumerate(pool.map(work, jobs))
        finally:
            # Whoever interrupts does not wait for the fits that have begun.
            pool.shutdown(wait=False, cancel_futures=True)

    return spread


def run_jobs(
    work: Callable[[Any], Any],
    jobs: Sequence[Any],
    *,
    spread: Spread = one_by_one,
    kept: Kept | None = None,
    done: Callable[[Any], object] = lambda job: None,
) -> list[Any]:
    """What comes of each job, in their order; what was kept is not run again.

    ``done`` is called with each job as soon as there is a result.
    """
    results = [None if kept is None else kept.get(job) for job in jobs]
    for job, result in zip(jobs, results, strict=True):
        if result is not None:
            done(job)
    left = [i for i, result in enumerate(results) if result is None]
    for k, result in spread(work, [jobs[i] for i in left]):
        results[left[k]] = result
        if kept is not None:
            kept.put(jobs[left[k]], result)
        done(jobs[left[k]])
    return results


@dataclass(frozen=True, eq=False)
class MethodTable:
    """The table as each method wants it, and codes of label and group to score by."""

    whole: Any  #: X as given
    features: Any  #: X without the sensitive columns
    sensitive: Any  #: the groups, as given or as columns of X
    y: Any  #: the labels as given
    typed: pl.DataFrame  #: the features as numbers and text, for methods that take no missing cells
    identifiers: tuple[str, ...]  #: features that are not among them, because fits drop them
    #: what is to be said of features that give the label away: with them, every method looks good
    leaks: tuple[Warning | str, ...]
    s: Codes  #: of the groups, -1 where missing
    d: Codes  #: of the labels, -1 where missing
    classes: tuple[str, ...]  #: of the label, as text
    positive: int  #: number of the positive class

    @classmethod
    def of(
        cls, X: Any, y: Any, sensitive_features: Any, estimators: Sequence[Any], positive: Any
    ) -> MethodTable:
        frame = data.read_frame(X)
        named = next((_sensitive(e) for e in estimators if _sensitive(e)), None)
        wanted = (positive, *(getattr(e, "positive", None) for e in estimators))
        positive = next((p for p in wanted if p is not None), None)
        sentinels = next((m for e in estimators if (m := getattr(e, "missing_values", ()))), ())
        decimal = next((m for e in estimators if (m := getattr(e, "decimal", None))), ".")
        given = GivenTable.of(
            X,
            y,
            sensitive=named,
            sensitive_features=sensitive_features,
            missing_values=sentinels,
            decimal=decimal,
        )
        features, sensitive = X, sensitive_features
        if named:
            features, sensitive = (
                _only(X, frame, names) for names in (given.roles.features, given.roles.sensitive)
            )
        labels = data.fit_labels(y, positive=positive, missing_values=sentinels)
        groups = data.fit_groups(sensitive, missing_values=sentinels)
        s, d = groups.transform(sensitive), labels.transform(y)
        data.check_apart(groups, labels, s, d)
        typed = typed_columns(data.read_frame(features), sentinels, decimal)
        coding, leaks = _coded(given)
        # A fitted model has decided, perhaps on more rows than there are here.
        coding = next((e.coding_ for e in estimators if hasattr(e, "coding_")), coding)
        unused = {} if coding is None else data.identifiers(coding.features)
        ids = tuple(name for name in typed.columns if name in unused)
        classes = tuple(str(c) for c in labels.classes)
        tables = X, features, sensitive, y, typed.drop(data.exactly(ids)), ids, leaks
        return cls(*tables, s, d, classes, labels.positive)

    @property
    def n_rows(self) -> int:
        return len(self.d)

    @property
    def known(self) -> Bools:
        """Rows whose label and group are known."""
        return (self.d >= 0) & (self.s >= 0)

    @property
    def labels(self) -> Array:
        """Classes of the rows, as text."""
        return np.array(self.classes)[self.d]

    def method(self, estimator: Any) -> Method:
        """An estimator as a method, which is given numbers of rows."""

        def fit(train: Ints, seed: int) -> FittedMethod:
            with few_threads(len(train)):
                model = self.fit(estimator, train)
            return FittedMethod(partial(self._decided, model, train), model)

        return fit

    def _decided(self, model: Any, train: Ints, test: Ints) -> Decided:
        """Scores of the positive class, or None where the model never saw it; classes, as text."""
        classes, wanted = [str(c) for c in model.classes_], self.classes[self.positive]
        scores = self.call(model, "predict_proba", train, test)
        decisions = np.array([str(c) for c in self.call(model, "predict", train, test)])
        likelihood = None
        if hasattr(model, "score_samples"):
            y = data.take_rows(self.y, test)
            likelihood = self.call(model, "score_samples", train, test, y)
        known = scores[:, classes.index(wanted)] if wanted in classes else None
        return Decided(known, decisions, likelihood)

    def filled_for(self, estimator: Any) -> bool:
        """Whether cells must be filled for a method."""
        return isinstance(estimator, Baseline) and any(self.typed.null_count().row(0))

    def fit(self, estimator: Any, train: Ints) -> Any:
        """A clone fitted to the training rows; baselines to those with label and group."""
        from sklearn.base import clone

        # clone would also clone, and so empty, a fitted model whose structure is kept.
        kept = isinstance(estimator, CircuitClassifier)
        model = copy(estimator) if kept else clone(estimator)
        if kept:
            # Of the folds only the scores are reported; the comparison reports its own progress.
            model.guard, model.verbose = False, 0
        if isinstance(model, Baseline):
            train = train[self.known[train]]
            if _sensitive(model):
                model.set_params(sensitive=None)
        y = data.take_rows(self.y, train)
        X, given = self._inputs(model, train, train)
        model.fit(X, y, **_accepted(model.fit, given))
        return model

    def call(self, model: Any, name: str, train: Ints, test: Ints, *more: Any) -> Array:
        """What a method of the fitted model answers for the test rows."""
        X, given = self._inputs(model, train, test)
        call = getattr(model, name)
        return np.asarray(call(X, *more, **_accepted(call, given)))

    def _inputs(self, model: Any, train: Ints, rows: Ints) -> tuple[Any, dict[str, Any]]:
        """X and keyword arguments of some rows, as the method takes them."""
        if _sensitive(model):
            return data.take_rows(self.whole, rows), {}
        groups = {"sensitive_features": data.take_rows(self.sensitive, rows)}
        if isinstance(model, Baseline):
            return _filled(self.typed, train, rows), groups
        return data.take_rows(self.features, rows), groups


def typed_columns(frame: data.Frame, missing_values: Iterable[Any], decimal: str) -> pl.DataFrame:
    """Columns as numbers or text, null = missing: what ordinary classifiers can be given."""
    columns = {}
    for name, column in zip(frame.names, frame.columns, strict=True):
        values = data.read_values(name, column, missing_values, parse=True, decimal=decimal)
        if values.type == "text":
            columns[name] = values.data.cast(pl.String)
        else:
            numbers = np.where(values.missing(), np.nan, values.data.astype(np.float64))
            columns[name] = pl.Series(numbers).fill_nan(None)
    return pl.DataFrame(columns)


def _coded(table: GivenTable) -> tuple[data.TableCoding | None, tuple[Warning | str, ...]]:
    """The table as a fit would code it, None where it cannot; and the leaks that it warns of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            coding, _ = data.fit_coding(table.source, table.roles)
        except FairpcError:
            return None, ()  # methods that cannot take the table say why
    kinds = core.LeakWarning | core.SameAsLabelWarning
    return coding, tuple(w.message for w in said if issubclass(w.category, kinds))


def _filled(typed: pl.DataFrame, train: Ints, rows: Ints) -> pl.DataFrame:
    """Rows without holes: a level of its own for text, the mean of the training rows else."""
    columns = {}
    for column in typed[rows].iter_columns():
        # A method of a series asks for its column by name, which may look like a pattern.
        nameless = column.alias("")
        if column.dtype == pl.String:
            columns[column.name] = nameless.fill_null("(missing)")
        else:
            mean = typed[column.name][train].mean()
            columns[column.name] = nameless.fill_null(0.0 if mean is None else mean)
    return pl.DataFrame(columns)


def _sensitive(estimator: Any) -> tuple[str | int, ...]:
    """Sensitive columns that an estimator names."""
    named = getattr(estimator, "sensitive", None)
    if named is None:
        return ()
    return (named,) if isinstance(named, str | int) else tuple(named)


def _accepted(call: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Arguments that a method names; a pipeline's ``**params`` name none."""
    parameters = inspect.signature(call).parameters
    return {name: value for name, value in given.items() if name in parameters}


def _only(X: Any, frame: data.Frame, names: Sequence[str]) -> Any:
    """Some columns of a frame or array, in its own library."""
    native = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(native, nw.DataFrame):
        return native[list(names)].to_native()
    return np.asarray(X)[:, [frame.names.index(n) for n in names]]
