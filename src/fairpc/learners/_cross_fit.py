"""Classifiers of counted rows: those that a user gives, ours, and the choice between them on folds.

Fits on folds differ only in how often each distinct row counts, as [row, class] of counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from fairpc.core import Floats, MetricError, Positions, one_thread
from fairpc.learners._boosting import Cells, bin_cells, binned, boosted_probabilities
from fairpc.learners._design import INFORMATIVE, WIDE
from fairpc.learners._linear import logistic_probabilities

NAMES: Final = {"logistic": "logistic regression", "boosting": "gradient boosting"}
_CHOICE_ROWS: Final = 20_000
_FIT_ROWS: Final = 50_000
_RARE: Final = 500
"""Rows that classifiers are compared on, cells (row, class) that they learn from, and those that a
class keeps, at most. A ranking learned from so many is as good as one from more, and the bounds are
valid under any ranking."""
_SURE: Final = 2.0
"""Standard errors of the log-loss by which a classifier is better for sure."""


@dataclass(frozen=True, eq=False)
class Features:
    """Rows of numbers that classifiers learn from and score, and what is found of them once."""

    matrix: Floats

    def __len__(self) -> int:
        return len(self.matrix)

    @cached_property
    def cells(self) -> Cells:
        """The values as boosting tells them apart; labels are not looked at."""
        return bin_cells(binned(self.matrix))


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
        return [_of_present(each, lambda some: self._fit(rows.matrix, some)) for each in counts]

    def _fit(self, rows: Floats, counts: Floats) -> Floats:
        from sklearn.base import clone

        y, picked = np.nonzero(counts.T)
        weights = counts[picked, y]
        model = clone(self.prototype)
        if self.takes_weights:
            model.fit(rows[picked], y, sample_weight=weights)
        else:
            times = np.rint(weights).astype(np.intp)
            model.fit(rows[np.repeat(picked, times)], np.repeat(y, times))
        return np.asarray(model.predict_proba(rows), np.float64)


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


class LogisticLearner(Own):
    """Logistic regression with C = 1."""

    def _learned(self, rows: Features, counts: Sequence[Floats]) -> list[Floats]:
        if not all(each.any(axis=0).all() for each in counts):
            return super()._learned(rows, counts)
        some = [_thinned(each) for each in counts]
        negative, positive = (np.stack([each[:, c] for each in some]) for c in (0, 1))
        found = logistic_probabilities(rows.matrix, negative, positive)
        return [np.stack([1 - p, p]).T for p in found]


class BoostingLearner(Own):
    """Gradient boosting on columns of at most 34 values."""

    def _learned(self, rows: Features, counts: Sequence[Floats]) -> list[Floats]:
        return [
            _of_present(each, lambda c: boosted_probabilities(rows.cells, c)) for each in counts
        ]


def _of_present(counts: Floats, fit: Callable[[Floats], Floats]) -> Floats:
    """P(class | row) by a fit of the classes that have counts; one alone is certain."""
    present = np.flatnonzero(counts.any(axis=0))
    if len(present) == counts.shape[1] > 1:
        return fit(_thinned(counts))
    found = np.zeros_like(counts)
    found[:, present] = 1.0 if len(present) == 1 else fit(_thinned(counts[:, present]))
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
    return np.sort(np.argsort(-ratio, kind="stable")[:INFORMATIVE])


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


def learners(classifier: Any, weighted: bool) -> tuple[Learner, ...]:
    """The classifier that was asked for; both of ours, to choose from, for None."""
    if classifier is None:
        return tuple(map(_named, NAMES))
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


def _named(name: str) -> Learner:
    if name == "boosting":
        return BoostingLearner(NAMES[name], None)
    from sklearn.linear_model import LogisticRegression

    own = LogisticRegression(C=1.0, solver="newton-cholesky", max_iter=200)
    return LogisticLearner(NAMES[name], own)


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
        # Of what is picked rows lie together, not classes: sums take twenty times as long.
        some = [[fold[picked] for fold in folds] for folds in parts]
        best = _compared(options, few, parts if few is rows else some, tried)
        if few is not rows:
            tried = [[[] for _ in options] for _ in parts]
    found: list[Chosen | None] = [None] * len(parts)
    for o in sorted(set(best)):
        option, own = options[o], [k for k, b in enumerate(best) if b == o]
        lacking = [
            [*left_out[k][len(tried[k][o]) :], np.asarray(sum(parts[k]), np.float64)] for k in own
        ]
        said = iter(option.probabilities(rows, [each for part in lacking for each in part]))
        for k, part in zip(own, lacking, strict=True):
            *rest, last = (next(said) for _ in part)
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
            said = option.probabilities(rows, [left_out[k][n] for k in unsure])
            for k, scores in zip(unsure, said, strict=True):
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
    better = logs[best] - logs[second]
    gain = means[best] - means[second]
    # Weights may have any scale: what counts is how many cells they are spread over.
    error = np.sqrt(w @ (better - gain) ** 2 * (w @ w))
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
    return one_thread(None if n_rows <= _CHOICE_ROWS else "blas")
