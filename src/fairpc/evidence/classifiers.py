"""Class probabilities from counts of distinct rows, by any scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import numpy as np

from fairpc.errors import MetricError
from fairpc.errors.arrays import Floats
from fairpc.evidence.logistic import logistic_probabilities

ClassifierName = Literal["logistic", "boosting"]
NAMES: Final = {"logistic": "logistic regression", "boosting": "gradient boosting"}
_CHOICE_ROWS: Final = 20_000
# A ranking learned from this many rows is as good as one from more, and the bounds are valid
# under any ranking.
_FIT_ROWS: Final = 50_000
_RARE: Final = 500


class Learner(Protocol):
    """What learns P(class | row) from counts of distinct rows."""

    @property
    def name(self) -> str: ...

    def probabilities(self, rows: Floats, counts: Sequence[Floats]) -> list[Floats]:
        """P(class | row) for every row; a fit for each [row, class] of counts, by itself.

        About 50,000 of the rows with counts are learned from where there are more.
        """
        ...


@dataclass(frozen=True, eq=False)
class Fitted:
    """A scikit-learn classifier, to be cloned and fitted."""

    name: str
    prototype: Any
    takes_weights: bool

    def probabilities(self, rows: Floats, counts: Sequence[Floats]) -> list[Floats]:
        return [self._fit(rows, each) for each in counts]

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


@dataclass(frozen=True, eq=False)
class Logistic:
    """Logistic regression with C = 1; of more than two classes by scikit-learn."""

    several: Learner
    name: str = NAMES["logistic"]

    def probabilities(self, rows: Floats, counts: Sequence[Floats]) -> list[Floats]:
        if any(each.shape[1] != 2 or not each.any(axis=0).all() for each in counts):
            return self.several.probabilities(rows, counts)
        some = [_thinned(each) for each in counts]
        negative, positive = (np.stack([each[:, c] for each in some]) for c in (0, 1))
        found = logistic_probabilities(rows, negative, positive)
        return [np.stack([1 - p, p]).T for p in found]


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
        return _named("logistic"), _named("boosting")
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
    return (Fitted(type(classifier).__name__, classifier, takes),)


def chosen(
    options: Sequence[Learner], rows: Floats, parts: Sequence[Floats], rng: np.random.Generator
) -> tuple[Learner, list[Floats], Floats]:
    """The option with the least log-loss over inner folds, and what it learns.

    Folds come as counts [row, class]. Its probabilities are, per fold, those learned from the
    other folds and, last, those learned from all. Long tables are thinned for the choice only.
    """
    whole = np.asarray(sum(parts), np.float64)
    if len(options) == 1:
        *inner, found = options[0].probabilities(rows, [*_others(parts), whole])
        return options[0], inner, found
    few, thinned = rows, parts
    if len(rows) > _CHOICE_ROWS:
        picked = np.sort(rng.permutation(len(rows))[:_CHOICE_ROWS])
        few, thinned = rows[picked], [part[picked] for part in parts]
    tried = [option.probabilities(few, _others(thinned)) for option in options]
    best = int(np.argmin([log_loss(thinned, scores) for scores in tried]))
    if few is rows:
        return options[best], tried[best], options[best].probabilities(rows, [whole])[0]
    return chosen([options[best]], rows, parts, rng)


def _others(parts: Sequence[Floats]) -> list[Floats]:
    """Per fold, the counts of all others."""
    total = np.asarray(sum(parts), np.float64)
    # What is left of a weight after subtraction may be rounding and not a row.
    return [np.where(total - part > 1e-9 * total, total - part, 0.0) for part in parts]


def log_loss(parts: Sequence[Floats], scores: Sequence[Floats]) -> float:
    """Of counts per fold under the probabilities per fold, summed."""
    pairs = zip(parts, scores, strict=True)
    return -sum(float((c * np.log(np.clip(p, 1e-9, None))).sum()) for c, p in pairs)


def few_threads(n_rows: int) -> AbstractContextManager[object]:
    """One thread for short tables, on which threads wait for each other longer than they work.

    Matrices here have few columns, so that linear algebra gains nothing from threads at all.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    found: AbstractContextManager[object] = threadpool_limits(
        1, user_api=None if n_rows <= _CHOICE_ROWS else "blas"
    )
    return found


def _named(name: str) -> Learner:
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        model: Any = LogisticRegression(C=1.0, solver="newton-cholesky", max_iter=200)
        return Logistic(Fitted(NAMES[name], model, takes_weights=True))
    from sklearn.ensemble import HistGradientBoostingClassifier

    # Rows are merged, so leaves are held back by their weight and not by a number of rows.
    model = HistGradientBoostingClassifier(
        max_iter=60,
        max_leaf_nodes=15,
        min_samples_leaf=1,
        l2_regularization=5.0,
        early_stopping=False,
        random_state=0,
    )
    return Fitted(NAMES[name], model, takes_weights=True)
