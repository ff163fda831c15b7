"""How rows are ranked: features as numbers, and class probabilities from counts of distinct rows.

Logistic regressions with two classes are fitted here, several at once, by Newton's method, to the
minimum of scikit-learn's ``LogisticRegression(C=1)``. The test of the assumptions fits hundreds of
them on a few dozen distinct rows each, where checking arguments takes scikit-learn longer than
solving.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    Array,
    Bools,
    Floats,
    MetricError,
    Positions,
    as_numbers,
    check_table,
    missing,
)
from fairpc.learners._label_boosting import binned, boosted, cells
from fairpc.learners._trees import Cells

NAMES: Final = {"logistic": "logistic regression", "boosting": "gradient boosting"}
_CHOICE_ROWS: Final = 20_000
# A ranking learned from this many rows is as good as one from more, and the bounds are valid
# under any ranking.
_FIT_ROWS: Final = 50_000
_RARE: Final = 500
_MAX_LEVELS: Final = 32
_MAX_CELLS: Final = 2**40
_HUGE: Final = 1e150  # squares of such numbers, summed, are still finite
_MAX_STEPS: Final = 100
# Of the Newton decrement per row: the step that is then taken squares it.
_TOLERANCE: Final = 1e-9
# Numbers in the products of columns, up to which fits share them; beyond, each makes its own.
_SHARED: Final = 2**21
# Of more columns than the first, our classifiers learn from as many as the second says.
WIDE: Final = 100
STRONGEST: Final = 60
# Classes above which logistic regression is ours alone, and solved without second derivatives:
# boosting grows a tree for each in every step.
MANY_CLASSES: Final = 10
# Standard errors of the log-loss by which a classifier is ahead for sure.
_SURE: Final = 2.0


def design(x: npt.ArrayLike) -> Floats:
    """One or more numeric columns per feature; labels are not looked at.

    0/1 columns stay as they are, other numbers are standardised, anything else
    becomes one column per level (the 31 most frequent, the rest in one). A
    missing cell takes the column's mean, and a column of its own marks it.
    """
    table = check_table("X", x)
    columns = [column for j in range(table.shape[1]) for column in _columns(table[:, j], j)]
    if not columns:
        raise MetricError("every feature of X has one value only: give features that vary")
    return np.column_stack(columns)


def _columns(values: Array, j: int) -> list[Floats]:
    hidden = missing(values)
    if hidden.all():
        return []
    column = _numeric(values, hidden, j)
    columns = _levels(values, hidden) if column is None else [column]
    if hidden.any():
        columns.append(hidden.astype(np.float64))
    return [column for column in columns if np.ptp(column) > 0]


def _numeric(values: Array, hidden: Bools, j: int) -> Floats | None:
    known = as_numbers(values[~hidden])
    if known is None:
        return None
    if not (np.abs(known) < _HUGE).all():
        raise MetricError(
            f"column {j} of X holds an infinite value, or one beyond {_HUGE:g}: give finite "
            "numbers or NaN"
        )
    centre = known.mean()
    column = np.full(len(values), centre)
    column[~hidden] = known
    if not np.isin(known, (0.0, 1.0)).all():
        spread = known.std()
        column = (column - centre) / (spread if spread > 0 else 1.0)
    return column


def _levels(values: Array, hidden: Bools) -> list[Floats]:
    names, codes = np.unique(values[~hidden].astype(str), return_inverse=True)
    if len(names) > _MAX_LEVELS:
        rank = np.argsort(np.argsort(-np.bincount(codes), kind="stable"))
        codes = np.minimum(rank[codes], _MAX_LEVELS - 1)
    every = np.full(len(values), -1)
    every[~hidden] = codes
    return [(every == level).astype(np.float64) for level in range(int(codes.max()) + 1)]


def distinct(matrix: Floats) -> tuple[Floats, Positions]:
    """The distinct rows, and which of them each row is; where few are equal, rows as they are."""
    cells, size = np.zeros(len(matrix), np.intp), 1
    for column in matrix.T:
        values, codes = np.unique(column, return_inverse=True)
        cells = cells * len(values) + codes
        size *= len(values)
        if size * len(matrix) > _MAX_CELLS:
            kept, cells = np.unique(cells, return_inverse=True)
            size = len(kept)
            if size > len(matrix) / 2:
                break
    _, first, index = np.unique(cells, return_index=True, return_inverse=True)
    if len(first) > len(matrix) / 2:
        return matrix, np.arange(len(matrix))
    return matrix[first], index


@dataclass(frozen=True, eq=False)
class Features:
    """Rows of numbers that classifiers learn from and score, and what is found of them once."""

    matrix: Floats

    def __len__(self) -> int:
        return len(self.matrix)

    @cached_property
    def cells(self) -> Cells:
        """The values as boosting tells them apart; labels are not looked at."""
        return cells(binned(self.matrix))


@dataclass(frozen=True, eq=False)
class Learner:
    """A scikit-learn classifier, to be cloned and fitted to counts of distinct rows.

    One that a user gives learns from all columns, however many.
    """

    name: str
    prototype: Any
    takes_weights: bool = True

    def probabilities(self, rows: Features, counts: Sequence[Floats]) -> list[Floats]:
        """P(class | row) for every row; a fit for each [row, class] of counts, by itself.

        About 50,000 of the rows with counts are learned from where there are more.
        """
        return [self._fit(rows.matrix, each) for each in counts]

    def _fit(self, rows: Floats, counts: Floats) -> Floats:
        from sklearn.base import clone

        present = np.flatnonzero(counts.any(axis=0))
        found = np.zeros_like(counts)
        if len(present) == 1:
            found[:, present[0]] = 1.0
            return found
        some = _thinned(counts)
        y, picked = np.nonzero(some.T)
        weights = some[picked, y]
        model = clone(self.prototype)
        if self.takes_weights:
            model.fit(rows[picked], y, sample_weight=weights)
        else:
            times = np.rint(weights).astype(np.intp)
            model.fit(rows[np.repeat(picked, times)], np.repeat(y, times))
        found[:, present] = model.predict_proba(rows)
        return found


class Own(Learner):
    """One of ours. Of a wide table each fit learns from the columns that its own rows speak for."""

    def probabilities(self, rows: Features, counts: Sequence[Floats]) -> list[Floats]:
        if rows.matrix.shape[1] <= WIDE:
            return self._learned(rows, counts)
        return [
            self._learned(Features(rows.matrix[:, strongest(rows.matrix, each)]), [each])[0]
            for each in counts
        ]

    def _learned(self, rows: Features, counts: Sequence[Floats]) -> list[Floats]:
        return super().probabilities(rows, counts)


class Logistic(Own):
    """Logistic regression with C = 1; of more than two classes by scikit-learn."""

    def _learned(self, rows: Features, counts: Sequence[Floats]) -> list[Floats]:
        if counts[0].shape[1] > MANY_CLASSES:
            from sklearn.base import clone

            model = clone(self.prototype).set_params(solver="lbfgs")
            return Learner(self.name, model).probabilities(rows, counts)
        if any(each.shape[1] != 2 or not each.any(axis=0).all() for each in counts):
            return super()._learned(rows, counts)
        some = [_thinned(each) for each in counts]
        negative, positive = (np.stack([each[:, c] for each in some]) for c in (0, 1))
        found = logistic_probabilities(rows.matrix, negative, positive)
        return [np.stack([1 - p, p]).T for p in found]


class Boosting(Own):
    """Gradient boosting on columns of at most 34 values; see ``_label_boosting``."""

    def _learned(self, rows: Features, counts: Sequence[Floats]) -> list[Floats]:
        if not all(each.any(axis=0).all() for each in counts):
            return [self._of_present(rows, each) for each in counts]
        return [boosted(rows.cells, _thinned(each)) for each in counts]

    def _of_present(self, rows: Features, counts: Floats) -> Floats:
        """A fit of the classes that have counts."""
        present = np.flatnonzero(counts.any(axis=0))
        found = np.zeros_like(counts)
        found[:, present] = 1.0
        if len(present) > 1:
            found[:, present] = boosted(rows.cells, _thinned(counts[:, present]))
        return found


def strongest(rows: Floats, counts: Floats) -> Positions:
    """The columns whose means differ most between the classes, in units of their spread.

    Labels of other rows than those that are counted must not choose: the choice is part of a fit.
    """
    n = counts.sum(axis=0)
    present = n > 0
    means = (counts.T @ rows)[present] / n[present, None]
    share = n[present] / n.sum()
    centre = share @ means
    between = share @ (means - centre) ** 2
    spread = counts.sum(axis=1) @ (rows - centre) ** 2 / n.sum()
    ratio = np.divide(between, spread, out=np.zeros_like(between), where=spread > 0)
    return np.sort(np.argsort(-ratio, kind="stable")[:STRONGEST])


def _thinned(counts: Floats) -> Floats:
    """About 50,000 of the cells (row, class) that have counts, where there are more.

    Classes lose cells in proportion, but none is thinned to under 500: a rare one must stay.
    """
    n_cells = np.count_nonzero(counts, axis=0)
    share = _FIT_ROWS / int(n_cells.sum())
    if share >= 1:
        return counts
    rng = np.random.default_rng(0)
    some = np.zeros_like(counts)
    for c, n in enumerate(n_cells.tolist()):
        take = min(max(round(n * share), _RARE), n)
        kept = np.flatnonzero(counts[:, c])[rng.choice(n, take, replace=False, shuffle=False)]
        some[kept, c] = counts[kept, c]
    return some


def learners(classifier: Any, weighted: bool, n_classes: int = 2) -> tuple[Learner, ...]:
    """The classifier that was asked for; both of ours, to choose from, for None."""
    if classifier is None:
        both = _named("logistic"), _named("boosting")
        return both[:1] if n_classes > MANY_CLASSES else both
    if isinstance(classifier, str):
        if classifier not in NAMES:
            raise MetricError(
                f"classifier is {classifier!r}: give 'logistic', 'boosting', "
                "None to choose between them, or a scikit-learn classifier"
            )
        return (_named(classifier),)
    if not (hasattr(classifier, "fit") and hasattr(classifier, "predict_proba")):
        raise MetricError(
            f"classifier is a {type(classifier).__name__} without fit and predict_proba: "
            "give a scikit-learn classifier that predicts probabilities"
        )
    from sklearn.utils.validation import has_fit_parameter

    takes = bool(has_fit_parameter(classifier, "sample_weight"))
    if weighted and not takes:
        raise MetricError(
            f"sample_weight is given and {type(classifier).__name__}.fit takes none: "
            "give a classifier that takes weights, or leave the weights out"
        )
    return (Learner(type(classifier).__name__, classifier, takes),)


Chosen = tuple[Learner, list[Floats], Floats]
"""A classifier, and its probabilities: per inner fold learned from the others, and from all."""


def chosen(
    options: Sequence[Learner],
    rows: Features,
    parts: Sequence[Sequence[Floats]],
    rng: np.random.Generator,
) -> list[Chosen]:
    """For each training part the option with the least log-loss over its inner folds.

    The folds of a part come as counts [row, class]. Folds are compared one after the other, and no
    more than it takes to be sure. Long tables are thinned for the choice only.
    """
    left_out = [others(folds) for folds in parts]
    tried: list[list[list[Floats]]] = [[[] for _ in options] for _ in parts]
    best = [0] * len(parts)
    if len(options) > 1:
        picked = np.arange(len(rows))
        if len(rows) > _CHOICE_ROWS:
            picked = np.sort(rng.permutation(len(rows))[:_CHOICE_ROWS])
        few = rows if len(picked) == len(rows) else Features(rows.matrix[picked])
        compared = [[fold[picked] for fold in folds] for folds in parts]
        best = _compared(options, few, compared, tried)
        if few is not rows:
            tried = [[[] for _ in options] for _ in parts]
    found: list[Chosen | None] = [None] * len(parts)
    for o in sorted(set(best)):
        option, own = options[o], [k for k, b in enumerate(best) if b == o]
        lacking = [
            [*left_out[k][len(tried[k][o]) :], np.asarray(sum(parts[k]), np.float64)] for k in own
        ]
        told = iter(option.probabilities(rows, [each for part in lacking for each in part]))
        for k, part in zip(own, lacking, strict=True):
            *rest, last = (next(told) for _ in part)
            found[k] = option, [*tried[k][o], *rest], last
    return [each for each in found if each is not None]


def _compared(
    options: Sequence[Learner],
    rows: Features,
    parts: Sequence[Sequence[Floats]],
    tried: list[list[list[Floats]]],
) -> list[int]:
    """Which option is best for each part; ``tried`` gets what each has said of which fold."""
    best, unsure = [0] * len(parts), list(range(len(parts)))
    left_out = [others(folds) for folds in parts]
    for n in range(len(parts[0])):
        for o, option in enumerate(options):
            told = option.probabilities(rows, [left_out[k][n] for k in unsure])
            for k, scores in zip(unsure, told, strict=True):
                tried[k][o].append(scores)
        judged = {k: _least_loss(parts[k][: n + 1], tried[k]) for k in unsure}
        for k, (option_of_part, _) in judged.items():
            best[k] = option_of_part
        unsure = [k for k, (_, sure) in judged.items() if not sure]
        if not unsure:
            break
    return best


def _least_loss(folds: Sequence[Floats], tried: Sequence[Sequence[Floats]]) -> tuple[int, bool]:
    """Which scores tell the classes of the folds best, and whether that is sure."""
    counts = np.concatenate([fold.ravel() for fold in folds])
    at = counts > 0
    w = counts[at] / counts.sum()
    logs = [
        np.log(np.clip(np.concatenate([s.ravel() for s in scores])[at], 1e-9, None))
        for scores in tried
    ]
    means = np.array([w @ log for log in logs])
    best, second = np.argsort(-means, kind="stable")[:2].tolist()
    ahead = logs[best] - logs[second]
    gain = means[best] - means[second]
    # Weights may have any scale: what counts is how many cells they are spread over.
    error = np.sqrt(w @ (ahead - gain) ** 2 * (w @ w))
    return best, bool(gain > _SURE * error)


def others(folds: Sequence[Floats]) -> list[Floats]:
    """Per fold, the counts of all others."""
    total = np.asarray(sum(folds), np.float64)
    # What is left of a weight after subtraction may be rounding and not a row.
    return [np.where(total - fold > 1e-9 * total, total - fold, 0.0) for fold in folds]


def few_threads(n_rows: int) -> AbstractContextManager[object]:
    """One thread for short tables, on which threads wait for each other longer than they work.

    Matrices here have few columns, so that linear algebra gains nothing from threads at all.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    found: AbstractContextManager[object] = threadpool_limits(
        1, user_api=None if n_rows <= _CHOICE_ROWS else "blas"
    )
    return found


def one_thread() -> AbstractContextManager[object]:
    """One thread, however long the table: where others use the cores, threads wait and spin."""
    from threadpoolctl import threadpool_limits

    found: AbstractContextManager[object] = threadpool_limits(1)
    return found


def _named(name: str) -> Learner:
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        model: Any = LogisticRegression(C=1.0, solver="newton-cholesky", max_iter=200)
        return Logistic(NAMES[name], model)
    return Boosting(NAMES[name], None)


def logistic_probabilities(rows: Floats, negative: Floats, positive: Floats) -> Floats:
    """P(positive | row) as [fit, row]; each fit learns from counts [fit, row] of both classes."""
    from scipy.special import expit

    n_at_once = len(negative)
    if rows.shape[0] * (rows.shape[1] + 1) ** 2 > _SHARED:
        n_at_once = 1
    start, told = None, []
    for k in range(0, len(negative), n_at_once):
        some = slice(k, k + n_at_once)
        seen = np.flatnonzero((negative[some] + positive[some]).any(axis=0))
        # Fits have most of their rows in common: the last one is a good start.
        start = coefficients(rows[seen], negative[some, seen], positive[some, seen], start)
        told.append(expit(start[:, :-1] @ rows.T + start[:, -1:]))
    return np.concatenate(told)


def coefficients(
    rows: Floats, negative: Floats, positive: Floats, start: Floats | None = None
) -> Floats:
    """Per fit the slopes and, last, the intercept, which alone is not shrunk.

    Both classes must occur in every fit.
    """
    fits = _Fits.of(rows, negative, positive)
    beta = np.zeros((len(negative), rows.shape[1] + 1))
    beta[:, -1] = np.log(positive.sum(axis=1) / negative.sum(axis=1))
    beta = beta if start is None else start
    found, open_fits = beta.copy(), np.arange(len(beta))
    loss, p = fits.at(beta)
    for _ in range(_MAX_STEPS):
        step, decrement = fits.newton(beta, p)
        done = decrement <= _TOLERANCE * fits.total.sum(axis=1)
        found[open_fits] = beta - step
        if done.all():
            return found
        if done.any():
            fits = replace(fits, total=fits.total[~done], positive=fits.positive[~done])
            open_fits = open_fits[~done]
            beta, step, decrement, loss = (a[~done] for a in (beta, step, decrement, loss))
        share = np.ones((len(beta), 1))
        tried, p = fits.at(beta - step)
        # Far from the minimum a full step may overshoot; it is halved until it gains.
        while (bad := (tried > loss - 1e-4 * share[:, 0] * decrement) & (share[:, 0] > 1e-6)).any():
            share[bad] /= 2
            tried, p = fits.at(beta - share * step)
        beta, loss = beta - share * step, tried
    found[open_fits] = beta
    return found


@dataclass(frozen=True, eq=False)
class _Fits:
    """Penalised losses on the same rows, each with counts of its own."""

    x: Floats
    products: Floats | None
    total: Floats
    positive: Floats
    penalty: Floats

    @classmethod
    def of(cls, rows: Floats, negative: Floats, positive: Floats) -> _Fits:
        x = np.column_stack([rows, np.ones(len(rows))])
        products = None
        if x.shape[0] * x.shape[1] ** 2 <= _SHARED:
            products = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
        penalty = np.append(np.ones(rows.shape[1]), 0.0)
        return cls(x, products, negative + positive, positive, penalty)

    def at(self, beta: Floats) -> tuple[Floats, Floats]:
        """The losses, and the probabilities [fit, row]."""
        eta = beta @ self.x.T
        small = np.exp(-np.abs(eta))
        p = np.where(eta >= 0, 1.0, small) / (1 + small)
        softplus = np.maximum(eta, 0.0) + np.log(1 + small)
        loss = (self.total * softplus - self.positive * eta).sum(axis=1)
        return loss + 0.5 * (beta * beta) @ self.penalty, p

    def newton(self, beta: Floats, p: Floats) -> tuple[Floats, Floats]:
        """The steps to be subtracted, and what they promise to gain, twice."""
        gradient = (self.total * p - self.positive) @ self.x + self.penalty * beta
        weights, size = self.total * p * (1 - p), self.x.shape[1]
        if self.products is None:
            # Of a matrix and itself NumPy computes one half, and copies it to the other.
            scaled = (self.x * w[:, None] for w in np.sqrt(weights))
            hessian = np.stack([each.T @ each for each in scaled])
        else:
            hessian = (weights @ self.products).reshape(-1, size, size)
        hessian += np.diag(self.penalty)
        try:
            step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        except np.linalg.LinAlgError:  # all rows that count are certain: the loss is flat
            step = (np.linalg.pinv(hessian) @ gradient[..., None])[..., 0]
        return step, (gradient * step).sum(axis=1)
