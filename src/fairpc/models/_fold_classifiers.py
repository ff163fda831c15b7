"""Classifiers of D, of Df and of S for a table: for each fold, whose rows they have not seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from joblib import Parallel, delayed  # type: ignore[import-untyped]
from sklearn.base import clone

from fairpc.core import Floats, Ints, LearningError, Positions, counted
from fairpc.data import TableCoding, take_rows
from fairpc.learners import AlteredLabels, deal
from fairpc.models._classifier_rows import GroupView, fitted_classifier, positive_scores, scores_by
from fairpc.models._classifiers import TableClassifier
from fairpc.models._label_scores import FLOOR, SHARE_TOLERANCE
from fairpc.models._rows import Rows
from fairpc.models._score_map import ScoreMap
from fairpc.models._score_map_fit import ScoredRows
from fairpc.structure import component_weights

SECOND: Final[tuple[Literal["hgb", "logistic"], ...]] = ("hgb", "logistic")
"""Classifiers of Df that are learned once the mechanism is known."""


@dataclass(frozen=True, eq=False)
class FoldClassifiers:
    """How classifiers are fitted to the rows of a table.

    Attributes:
        view: the group as a column of the tables that classifiers get.
        n_folds: of the cross-fit.
        per_group: one classifier per group in place of one that sees S.
        missing_values: values that mean "missing", for our own classifier.
        identifiers: columns that tell rows apart, which our own classifier leaves out, and why.
        n_jobs: folds fitted at once, as in scikit-learn.
        rng: of folds, and of our own classifier.
    """

    view: GroupView
    n_folds: int
    per_group: bool
    missing_values: tuple[Any, ...]
    identifiers: Mapping[str, str]
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
        labels = (rows.d == positive).astype(np.int64)
        whole = self.view.table(table, rows.s)
        parts = [folds != k for k in range(self.n_folds)]
        if self.per_group:
            parts = [part & (rows.s == g) for part in parts for g in range(rows.n_groups)]
        seeds = self.rng.integers(1 << 31, size=len(parts))
        return self._by_fold(
            self._fit(
                given,
                int(seed),
                take_rows(whole, at),
                labels[at],
                rows.weights[at] if weighted else None,
            )
            for seed, at in zip(seeds, map(np.flatnonzero, parts), strict=True)
        )

    def of_decisions(
        self, table: Any, rows: Rows, folds: Positions, positive: int, score_map: ScoreMap
    ) -> list[tuple[Any, ...]]:
        """Per fold our classifiers of Df, learned from labels that the mechanism has altered."""
        every = AlteredLabels.of(rows.d == positive, rows.weights, *_mechanisms(rows, score_map))
        whole = self.view.table(table, rows.s)
        parts = [np.flatnonzero(folds != k) for k in range(self.n_folds)]
        seeds = self.rng.integers(1 << 31, size=self.n_folds)
        how = self.missing_values, self.identifiers
        behind = delayed(TableClassifier.behind)
        return self._by_fold(
            behind(kind, take_rows(whole, at), every.take(at), *how, int(seed))
            for seed, at in zip(seeds, parts, strict=True)
            for kind in SECOND
        )

    def of_groups(self, given: Any, table: Any, rows: Rows) -> tuple[Any, ...]:
        """Classifiers of S from X: of each group against the others, one where there are two."""
        without = self.view.features(table)
        seeds = self.rng.integers(1 << 31, size=rows.n_groups)
        wanted = range(rows.n_groups) if rows.n_groups > 2 else range(1, 2)
        fits = (
            self._fit(given, int(seeds[g]), without, (rows.s == g).astype(np.int64), None)
            for g in wanted
        )
        return tuple(Parallel(n_jobs=self.n_jobs)(fits))

    def _fit(self, given: Any, seed: int, *rows: Any) -> Any:
        """The fit of a copy of a classifier that was given, or of ours, to be done.

        Ours is told what tells rows apart in the whole table: a fold may look otherwise.
        """
        fit = delayed(fitted_classifier)
        if given is None:
            given = TableClassifier(missing_values=self.missing_values, random_state=seed)
        if isinstance(given, TableClassifier):
            return fit(clone(given), *rows, identifiers=self.identifiers)
        return fit(clone(given), *rows)

    def _by_fold(self, fits: Iterable[Any]) -> list[tuple[Any, ...]]:
        fitted = Parallel(n_jobs=self.n_jobs)(fits)
        each = len(fitted) // self.n_folds
        return [tuple(fitted[k : k + each]) for k in range(0, len(fitted), each)]


def _mechanisms(rows: Rows, score_map: ScoreMap) -> tuple[Ints, Floats]:
    """Which mechanism altered the label of each row, and P(D = d | Df = f) of each."""
    b = score_map.by_stratum.mechanism
    kinds = rows.s.astype(np.int64) * b.shape[1] + rows.strata.codes(rows.x)
    return kinds, np.stack([1 - b, b], axis=-1).reshape(-1, 2, 2)


@dataclass(frozen=True, eq=False)
class SecondRound:
    """What was learned once the mechanism was known, and how much of the score it makes.

    Attributes:
        estimators: per fold the classifiers of Df.
        shares: of the classifier of D in the score, and of each of these.
    """

    estimators: list[tuple[Any, ...]]
    shares: Floats

    @classmethod
    def learned(
        cls,
        estimators: list[tuple[Any, ...]],
        scored: ScoredRows,
        table: Any,
        view: GroupView,
        b: Floats,
    ) -> tuple[SecondRound, Floats]:
        """Classifiers of Df, with the shares under which held-out labels are likeliest; scores."""
        said = _held_out(estimators, scored, table, view, b)
        r = np.clip(said, FLOOR, 1 - FLOOR)
        likely = np.log(np.where(scored.labels == 1, r, 1 - r)).T
        weights = scored.rows.weights
        shares = component_weights(np.ascontiguousarray(likely), weights, tol=SHARE_TOLERANCE)
        found = cls(estimators, shares)
        return found, found._together(said)

    def scores(self, first: Floats, k: int, table: Any, b: Floats) -> Floats:
        """P(D = positive | x, s) by all classifiers of a fold, of what that of D says.

        ``b`` has P(D = positive | Df = f) of each row, [row, f].
        """
        return self._together(_each(first, self.estimators[k], table, b))

    def held_out(self, scored: ScoredRows, table: Any, view: GroupView, b: Floats) -> Floats:
        """Scores of rows by the classifiers that had not seen them."""
        return self._together(_held_out(self.estimators, scored, table, view, b))

    def _together(self, said: Floats) -> Floats:
        """The share of each classifier in what it says, added up.

        One after the other: a product of matrices rounds a row otherwise beside other rows.
        """
        total = np.zeros(said.shape[1])
        for share, own in zip(self.shares, said, strict=True):
            total += share * own
        return total


def _each(first: Floats, of_df: tuple[Any, ...], table: Any, b: Floats) -> Floats:
    """P(D = positive | x, s) by the classifier of D, and by those of Df, [classifier, row]."""
    q = [positive_scores(classifier, table) for classifier in of_df]
    return np.stack([first, *(b[:, 0] + (b[:, 1] - b[:, 0]) * own for own in q)])


def _held_out(
    estimators: list[tuple[Any, ...]], scored: ScoredRows, table: Any, view: GroupView, b: Floats
) -> Floats:
    """The same of all rows, by the classifiers that had not seen them."""
    said = np.empty((1 + len(SECOND), len(b)))
    for of_df, here, part in _unseen(estimators, table, scored.rows, scored.folds, view):
        said[:, here] = _each(scored.scores[here], of_df, part, b[here])
    return said


def held_out_scores(
    table: Any, rows: Rows, folds: Positions, estimators: list[tuple[Any, ...]], view: GroupView
) -> Floats:
    """P(D = positive | x, s) of each row, by the classifier that had not seen it."""
    scores = np.empty(rows.n_rows)
    for classifiers, here, part in _unseen(estimators, table, rows, folds, view):
        scores[here] = scores_by(classifiers, part, rows.s[here])
    return scores


def _unseen(
    estimators: list[tuple[Any, ...]], table: Any, rows: Rows, folds: Positions, view: GroupView
) -> Iterator[tuple[tuple[Any, ...], Ints, Any]]:
    """The classifiers of each fold, and the rows that they have not seen, as they take them."""
    for k, classifiers in enumerate(estimators):
        here = np.flatnonzero(folds == k)
        yield classifiers, here, view.table(take_rows(table, here), rows.s[here])
