"""Fit each method on the training part of each fold, score it on the test part."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.cluster import spread
from fairpc.comparison import _metrics as metrics
from fairpc.comparison._baselines import Boosting, every_baseline
from fairpc.comparison._compared import Comparison, FairRanges, FoldScore
from fairpc.comparison._runner import Decided, MethodTable, in_threads, run_jobs, run_method
from fairpc.core import Array, ComparisonError, FairpcError, Ints, MetricError, warn_caller
from fairpc.evidence import ErrorRates, error_rates
from fairpc.learners import Fold, stratified_folds
from fairpc.models import FairPC, LatNB, NLatPC, TwoNB

_JUDGE: Final = "scores of the label"
"""A method that is fitted for its scores alone, which bound the mechanism."""
Job = tuple[str, int]
"""A method by name, and the number of a fold."""
Outcome = tuple[FoldScore, Decided] | str
"""The score of a method on a fold and what it decided, or why there is none."""


def compare(
    models: Mapping[str, Any] | Sequence[Any] | None,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any = None,
    cv: int | Iterable[Fold | tuple[npt.ArrayLike, npt.ArrayLike]] = 5,
    groups: npt.ArrayLike | None = None,
    positive: Any = None,
    decisions: Mapping[str, npt.ArrayLike] | None = None,
    against_fair: bool = True,
    random_state: int = 0,
    n_jobs: int | None = None,
    client: Any = None,
) -> Comparison:
    """Fit each method on the training part of each fold and score it on the test part.

    All are judged against the recorded label and, for two classes, as ranges against the latent
    fair decision, see :func:`fairpc.evidence.error_rates`. Columns that give the label away are
    warned of, as in a fit.

    Args:
        models: name -> estimator, or estimators, which are cloned; None for the paper's four
            distributions and every baseline that is installed.
        X, y: table and recorded labels. Rows whose label or group is missing are used for
            training by methods that can, and never for testing.
        sensitive_features: groups given apart; None where ``sensitive`` of a model names columns.
        cv: number of folds, stratified by label and group, or the folds themselves.
        groups: who each row is about, where persons repeat; a person stays in one fold.
        positive: the class that F1, AUC and gaps are of; None: that of the models, or the last.
        decisions: name -> decisions that were made already, by a rule that did not look at these
            labels, one per row: classes of ``y``, or 1 and 0. They must not be columns of X.
        against_fair: whether to give ranges against the latent fair decision; they need boosting.
        random_state: of the folds, and of the default methods.
        n_jobs: threads; times of fits are then not comparable.
        client: a Dask client, over whose workers the fits are spread; their own fits then use
            what threads a worker has.
    """
    if client is not None and n_jobs is not None:
        raise ComparisonError("n_jobs and a client were given: a client has its own workers")
    methods = {} if decisions and models == {} else _named_methods(models, random_state)
    table = MethodTable.of(X, y, sensitive_features, list(methods.values()), positive)
    folds = _folds(cv, table, groups, random_state)
    for leak in table.leaks:
        warn_caller(leak)
    made = {str(name): _decided(table, name, own) for name, own in (decisions or {}).items()}
    if both := set(made) & set(methods):
        raise ComparisonError(f"{both.pop()!r} names a method and decisions: rename one of them")
    work = _Work(methods, table, folds, made, against_fair and len(table.classes) == 2)
    names = [*methods, *made]
    if work.judged and work.judge not in methods:
        names.append(_JUDGE)
    jobs = [(name, i) for name in names for i in range(len(folds))]
    return work.comparison(jobs, _run(work, jobs, n_jobs, client))


def _run(work: _Work, jobs: Sequence[Job], n_jobs: int | None, client: Any) -> Sequence[Outcome]:
    """What comes of each job: here, in threads, or on the workers of a client."""

    def on_cluster(work: Any, left: Sequence[Job]) -> Iterable[tuple[int, Any]]:
        return enumerate(spread(client, _Work.__call__, work, left))

    if client is not None:
        return run_jobs(work, jobs, spread=on_cluster)
    if n_jobs == 0:
        raise ComparisonError("n_jobs is 0: give a number of threads, or -1 for all cores")
    n_threads = 1 if n_jobs is None else n_jobs if n_jobs > 0 else os.cpu_count() or 1
    return run_jobs(work, jobs, spread=in_threads(n_threads))


def _decided(table: MethodTable, name: Any, given: npt.ArrayLike) -> Array:
    """Decisions as classes of the label, in text."""
    values = np.array(
        [
            f"{v:d}"
            if isinstance(v, int)
            else f"{v:.15g}"
            if isinstance(v, float)
            else f"{v}".strip()
            for v in np.asarray(given).tolist()
        ]
    )
    if values.shape != (table.n_rows,):
        raise ComparisonError(
            f"decisions {name!r} have shape {values.shape} and the table {table.n_rows} rows: give "
            "one per row"
        )
    there, classes = set(values.tolist()), table.classes
    if there <= set(classes):
        return values
    if there <= {"0", "1"} and len(classes) == 2:
        ordered = np.array([classes[1 - table.positive], classes[table.positive]])
        return np.asarray(ordered[values.astype(np.intp)])
    odd = sorted(there - set(classes))[0]
    raise ComparisonError(
        f"decisions {name!r} have the value {odd!r}: give classes of the label, "
        f"{', '.join(map(repr, classes[:5]))}, or 1 and 0"
    )


def _named_methods(
    models: Mapping[str, Any] | Sequence[Any] | None, random_state: int
) -> dict[str, Any]:
    """Estimators by name; of several of one class the later ones are numbered."""
    if models is None:
        kinds = FairPC, NLatPC, LatNB, TwoNB
        circuits = {kind.__name__: kind(random_state=random_state) for kind in kinds}
        return circuits | every_baseline(random_state)
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


@dataclass(frozen=True, eq=False)
class _Work:
    """The fits of a comparison: what they have in common, and what comes of them."""

    methods: Mapping[str, Any]
    table: MethodTable
    folds: Sequence[Fold]
    made: Mapping[str, Array]  #: decisions that were made already
    judged: bool  #: whether methods are judged against the latent fair decision, too

    @property
    def judge(self) -> str:
        """The method whose scores bound the mechanism."""
        known = (name for name, model in self.methods.items() if type(model) is Boosting)
        return next(known, _JUDGE)

    def __call__(self, job: Job) -> Outcome:
        """The score of one method on one fold and what it decided, or why there is none."""
        try:
            return self.score(*job)
        except FairpcError as error:
            return str(error)

    def score(self, name: str, number: int) -> tuple[FoldScore, Decided]:
        """Fit to the rows outside the test part, and score the test rows that can be scored."""
        table, fold = self.table, self.folds[number]
        train, test = fold.fit, self._tested(number)
        if not len(test):
            raise ComparisonError(f"fold {number + 1} has no test row with a label and a group")
        wanted, seconds = table.classes[table.positive], 0.0
        if name in self.made:
            decided = Decided(None, self.made[name][test])
        else:
            with warnings.catch_warnings():
                # A rare level that only the test rows have is read as missing; no news here.
                warnings.simplefilter("ignore", UserWarning)
                model = Boosting() if name == _JUDGE else self.methods[name]
                run = run_method(table.method(model), train, test)
            decided, seconds = run.decided, run.seconds
            if decided.scores is None:
                raise ComparisonError(
                    f"class {wanted!r} is absent from the training rows of fold {number + 1}: give "
                    "fewer folds or more rows"
                )
        s, chosen, labels = table.s[test], decided.decisions == wanted, table.labels[test]
        scores, logs = decided.scores, decided.log_likelihood
        likelihood = math.nan if logs is None else logs.mean()
        found = FoldScore(
            method=name,
            fold=number,
            n_test=len(test),
            accuracy=float(np.mean(decided.decisions == labels)),
            f1=_or_none(metrics.f1, labels == wanted, chosen, positive=True),
            auc=_or_none(metrics.auc, labels == wanted, scores, positive=True),
            log_likelihood=float(likelihood) if math.isfinite(likelihood) else None,
            discrimination=_or_none(metrics.largest_gap, scores, s),
            selection_gap=_or_none(metrics.largest_gap, chosen.astype(float), s),
            fit_seconds=seconds,
        )
        return found, decided

    def _tested(self, number: int) -> Ints:
        test = self.folds[number].test
        return test[self.table.known[test]]

    def comparison(self, jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> Comparison:
        """Scores of the methods that ran on every fold; of the others the first reason."""
        failures: dict[str, str] = {}
        found: dict[str, list[tuple[FoldScore, Decided]]] = {}
        for (name, _), outcome in zip(jobs, outcomes, strict=True):
            if isinstance(outcome, str):
                failures.setdefault(name, outcome)
            else:
                found.setdefault(name, []).append(outcome)
        ran = {name: own for name, own in found.items() if name not in failures}
        fair, no_fair = self._against_fair(ran, failures)
        ran.pop(_JUDGE, None)
        failures.pop(_JUDGE, None)
        if not ran:
            name, reason = next(iter(failures.items()))
            raise ComparisonError(f"no method could be run; {name}: {reason}")
        filled = (name for name in ran if name in self.methods)
        return Comparison(
            scores=tuple(score for own in ran.values() for score, _ in own),
            failures=failures,
            filled=tuple(n for n in filled if self.table.filled_for(self.methods[n])),
            identifiers=self.table.identifiers,
            positive=self.table.classes[self.table.positive],
            n_rows=self.table.n_rows,
            n_folds=len(self.folds),
            fair=fair,
            no_fair=no_fair,
        )

    def _against_fair(
        self, ran: Mapping[str, list[tuple[FoldScore, Decided]]], failures: Mapping[str, str]
    ) -> tuple[dict[str, FairRanges], dict[str, str]]:
        """Ranges of every method, from what it decided about rows that it was not fitted to."""
        fair: dict[str, FairRanges] = {}
        why: dict[str, str] = {}
        names = [name for name in ran if name != _JUDGE]
        if not self.judged:
            return fair, why
        if self.judge not in ran:
            return fair, dict.fromkeys(names, failures[self.judge])
        table, wanted = self.table, self.table.classes[self.table.positive]
        rows = np.concatenate([self._tested(i) for i in range(len(self.folds))])
        rows, first = np.unique(rows, return_index=True)
        scores = np.concatenate([d.scores for _, d in ran[self.judge]])[first]
        y, s = (table.labels[rows] == wanted).astype(int), table.s[rows]
        for name in names:
            decided = np.concatenate([d.decisions == wanted for _, d in ran[name]])[first]
            try:
                found = error_rates(
                    decided.astype(int), y, s, label_scores=scores, simultaneous=True
                )
            except MetricError as error:
                why[name] = str(error)
            else:
                fair[name] = _ranges(found)
        return fair, why


def _ranges(found: ErrorRates) -> FairRanges:
    """Accuracy over all groups, and the largest gaps between two."""
    sizes = np.array([g.effective_n for g in found.groups.values()])
    ends = np.array([tuple(g.accuracy) for g in found.groups.values()])
    low, high = (sizes @ ends / sizes.sum()).tolist()
    gaps = []
    for rate in ("tpr", "fpr"):
        each = np.array([tuple(getattr(pair, rate)) for pair in found.differences])
        least = np.maximum(np.maximum(each[:, 0], -each[:, 1]), 0.0).max()
        gaps.append((float(least), float(np.abs(each).max())))
    return FairRanges((low, high), *gaps)


def _or_none(metric: Callable[..., float], *values: Any, **options: Any) -> float | None:
    """A metric, or None where these rows do not define it."""
    if any(value is None for value in values):
        return None
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
