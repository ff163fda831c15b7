"""Class probabilities from counts of distinct rows, by any scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from fairpc.errors import MetricError
from fairpc.evidence.check import Floats

ClassifierName = Literal["logistic", "boosting"]
NAMES: Final = {"logistic": "logistic regression", "boosting": "gradient boosting"}
_CHOICE_ROWS: Final = 20_000
# A ranking learned from this many rows is as good as one from more, and the bounds are valid
# under any ranking.
_FIT_ROWS: Final = 50_000


@dataclass(frozen=True, eq=False)
class Learner:
    """A classifier to be cloned and fitted on counts [row, class] of distinct rows."""

    name: str
    prototype: Any
    takes_weights: bool

    def probabilities(self, rows: Floats, counts: Floats) -> Floats:
        """P(class | row) for every row, learned from (at most 50,000 of) those with counts."""
        from sklearn.base import clone

        present = np.flatnonzero(counts.any(axis=0))
        found = np.zeros(counts.shape)
        if len(present) == 1:
            found[:, present[0]] = 1.0
            return found
        parts = [np.flatnonzero(counts[:, k]) for k in present]
        picked = np.concatenate(parts)
        y = np.repeat(present, [len(part) for part in parts])
        if len(picked) > _FIT_ROWS:
            some = np.sort(np.random.default_rng(0).permutation(len(picked))[:_FIT_ROWS])
            picked, y = picked[some], y[some]
        weights = counts[picked, y]
        model = clone(self.prototype)
        if self.takes_weights:
            model.fit(rows[picked], y, sample_weight=weights)
        else:
            times = np.rint(weights).astype(np.intp)
            model.fit(rows[np.repeat(picked, times)], np.repeat(y, times))
        found[:, present] = model.predict_proba(rows)
        return found


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
    return (Learner(type(classifier).__name__, classifier, takes),)


def chosen(
    options: Sequence[Learner], rows: Floats, parts: Sequence[Floats], rng: np.random.Generator
) -> tuple[Learner, list[Floats]]:
    """The option with the least log-loss over inner folds, and its probabilities there.

    Folds come as counts [row, class]; each is predicted from the others. Long
    tables are thinned for the choice, never for the probabilities.
    """
    if len(options) == 1:
        return options[0], inner_probabilities(options[0], rows, parts)
    few, thinned = rows, parts
    if len(rows) > _CHOICE_ROWS:
        picked = np.sort(rng.permutation(len(rows))[:_CHOICE_ROWS])
        few, thinned = rows[picked], [part[picked] for part in parts]
    found = [inner_probabilities(option, few, thinned) for option in options]
    best = int(np.argmin([log_loss(thinned, scores) for scores in found]))
    if few is rows:
        return options[best], found[best]
    return options[best], inner_probabilities(options[best], rows, parts)


def inner_probabilities(option: Learner, rows: Floats, parts: Sequence[Floats]) -> list[Floats]:
    """Per fold, P(class | row) learned from the other folds."""
    total = np.asarray(sum(parts), np.float64)
    # What is left of a weight after subtraction may be rounding and not a row.
    rest = [np.where(total - part > 1e-9 * total, total - part, 0.0) for part in parts]
    return [option.probabilities(rows, counts) for counts in rest]


def log_loss(parts: Sequence[Floats], scores: Sequence[Floats]) -> float:
    """Of counts per fold under the probabilities per fold, summed."""
    pairs = zip(parts, scores, strict=True)
    return -sum(float((c * np.log(np.clip(p, 1e-9, None))).sum()) for c, p in pairs)


def few_threads(n_rows: int) -> AbstractContextManager[object]:
    """One thread for short tables, on which threads wait for each other longer than they work."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(1) if n_rows <= _CHOICE_ROWS else nullcontext()


def _named(name: str) -> Learner:
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        model: Any = LogisticRegression(C=1.0, solver="newton-cholesky", max_iter=200)
    else:
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
    return Learner(NAMES[name], model, takes_weights=True)
