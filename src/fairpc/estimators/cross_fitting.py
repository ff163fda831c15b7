"""Classifiers of D and of S for a table: one for each fold, which has not seen that fold's rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from fairpc.data.frame import take_rows
from fairpc.data.table_coding import TableCoding
from fairpc.errors import LearningError, counted
from fairpc.errors.arrays import Floats, Positions
from fairpc.estimators.classifier_rows import GroupView, fitted_classifier, scores_by
from fairpc.estimators.classifiers import TableClassifier
from fairpc.evidence.crossfit import deal
from fairpc.fair.rows import Rows


@dataclass(frozen=True, eq=False)
class CrossFit:
    """How classifiers are fitted to the rows of a table.

    Attributes:
        view: the group as a column of the tables that classifiers get.
        n_folds: of the cross-fit.
        per_group: one classifier per group in place of one that sees S.
        missing_values: values that mean "missing", for our own classifier.
        n_jobs: folds fitted at once, as in scikit-learn.
        rng: of folds, and of our own classifier.
    """

    view: GroupView
    n_folds: int
    per_group: bool
    missing_values: tuple[Any, ...]
    n_jobs: int | None
    rng: np.random.Generator

    def folds(self, rows: Rows, persons: Positions | None, coding: TableCoding) -> Positions:
        """A fold per row: whichever is left out, each classifier has rows of both classes."""
        folds = deal(rows.s.astype(np.intp) * 2 + rows.d, persons, self.n_folds, self.rng)
        found = len(np.unique(folds))
        if found < self.n_folds:
            what = "rows" if persons is None else "persons"
            raise LearningError(
                f"cv is {self.n_folds} and there are {found} {what}: give at most as many"
            )
        taught = rows.s if self.per_group else np.zeros_like(rows.s)
        for g, c in np.ndindex(rows.n_groups if self.per_group else 1, 2):
            own = folds[(taught == g) & (rows.d == c)]
            if len(np.unique(own)) < 2:
                group = f"group {coding.group_names[g]!r}" if self.per_group else "the table"
                advice = "per_group=False" if self.per_group else "rows of two classes"
                label = f"{counted(len(own), 'row')} with label {coding.labels.classes[c]!r}"
                raise LearningError(
                    f"{group} has {label}: a classifier must see both labels whichever fold is "
                    f"left out, so give them in two folds; take {advice}, or give more rows"
                )
        return folds

    def of_labels(
        self, given: Any, table: Any, rows: Rows, folds: Positions, positive: int, weighted: bool
    ) -> list[tuple[Any, ...]]:
        """Per fold a classifier of the other folds, or one for each group."""
        from joblib import Parallel, delayed  # type: ignore[import-untyped]

        labels = (rows.d == positive).astype(np.int64)
        whole = self.view.table(table, rows.s)
        parts = [folds != k for k in range(self.n_folds)]
        if self.per_group:
            parts = [part & (rows.s == g) for part in parts for g in range(rows.n_groups)]
        seeds = self.rng.integers(1 << 31, size=len(parts))
        jobs = (
            delayed(fitted_classifier)(
                self._classifier(given, int(seed)),
                take_rows(whole, at),
                labels[at],
                rows.weights[at] if weighted else None,
            )
            for seed, at in zip(seeds, map(np.flatnonzero, parts), strict=True)
        )
        fitted = Parallel(n_jobs=self.n_jobs)(jobs)
        each = rows.n_groups if self.per_group else 1
        return [tuple(fitted[k : k + each]) for k in range(0, len(fitted), each)]

    def of_groups(self, given: Any, table: Any, rows: Rows) -> tuple[Any, ...]:
        """Classifiers of S from X: of each group against the others, one where there are two."""
        from joblib import Parallel, delayed

        wanted = range(rows.n_groups) if rows.n_groups > 2 else range(1, 2)
        without = self.view.features(table)
        seeds = self.rng.integers(1 << 31, size=rows.n_groups)
        jobs = (
            delayed(fitted_classifier)(
                self._classifier(given, int(seeds[g])),
                without,
                (rows.s == g).astype(np.int64),
                None,
            )
            for g in wanted
        )
        return tuple(Parallel(n_jobs=self.n_jobs)(jobs))

    def _classifier(self, given: Any, seed: int) -> Any:
        """A copy of a classifier that was given, or ours."""
        if given is None:
            return TableClassifier(missing_values=self.missing_values, random_state=seed)
        return clone(given)


def held_out_scores(
    table: Any, rows: Rows, folds: Positions, estimators: list[tuple[Any, ...]], view: GroupView
) -> Floats:
    """P(D = positive | x, s) of each row, by the classifier that had not seen it."""
    scores = np.empty(rows.n_rows)
    for k, classifiers in enumerate(estimators):
        here = np.flatnonzero(folds == k)
        scores[here] = scores_by(
            classifiers, view.table(take_rows(table, here), rows.s[here]), rows.s[here]
        )
    return scores
