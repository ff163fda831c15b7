"""Df from classifiers of D as a model: those of each fold, and the map that turns their scores.

Predictions are means over the classifiers of the folds. Where the group of a row is not known, they
are means over groups too, under P(s | x) of classifiers of the group.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpc.core import Codes, Floats, Ints, LearningError, Positions, counted
from fairpc.data import Frame, take_rows
from fairpc.evidence import LabelBounds
from fairpc.models._fold_classifiers import (
    GroupView,
    SecondRound,
    in_order,
    positive_scores,
)
from fairpc.models._model import over_groups
from fairpc.models._rows import Rows
from fairpc.models._score_map import ScoreMap, Subgroups, mean_of
from fairpc.models._score_map_fit import ScoredRows
from fairpc.models._strata import Strata

OfScores = Callable[[Floats, Subgroups], Floats]
"""Of scores [classifier, row] and the subgroups of the rows."""


@dataclass(frozen=True, eq=False)
class TableRows:
    """Features of rows as classifiers take them."""

    table: Any  #: the rows as they came, with the columns of the fit
    n_rows: int
    strata: Positions | None = None  #: -1 where one is not known; None where the model has none

    def take(self, rows: Ints) -> Any:
        """Some rows of the table."""
        if len(rows) == self.n_rows:
            return self.table
        return (
            self.table.taken(rows) if isinstance(self.table, Frame) else take_rows(self.table, rows)
        )

    def at(self, rows: Ints, groups: Codes) -> Subgroups:
        """Subgroups of some rows, as if of these groups."""
        strata = None if self.strata is None else self.strata[rows]
        return Subgroups(groups.astype(np.intp), strata)


@dataclass(frozen=True, eq=False)
class ScoredModel:
    """What :class:`fairpc.models._distribution.FairDistribution` answers, by scores of rows."""

    score_map: ScoreMap  #: what turns scores into Df
    classifiers: list[Any]  #: of D, that of each fold
    second_round: SecondRound | None  #: classifiers of Df, where they have a share in the scores
    group_classifiers: tuple[Any, ...]  #: of S, for rows whose group is not known; may be none
    view: GroupView  #: how classifiers see the group of a row
    columns: Sequence[str]  #: names of the columns of the fit, in their order; none for arrays
    strata: Strata  #: within which Df is independent of S
    positive: int  #: code of the positive class

    latent = True

    @property
    def group_rate(self) -> Floats:
        return self.score_map.group_rate

    @property
    def fair_rate(self) -> Floats:
        return self.score_map.rates(self.positive).decision_rate

    @property
    def mechanism(self) -> Floats:
        return self.score_map.rates(self.positive).mechanism

    @property
    def subgroup_rate(self) -> Floats:
        return self.score_map.by_stratum.share

    @property
    def stratum_rate(self) -> Floats:
        return self.by_class(self.score_map.by_stratum.stratum_decision_rate)

    @property
    def decision_rate(self) -> Floats:
        own, share = self.score_map.by_stratum, self.subgroup_rate
        if own.decision_rate.ndim == 2:
            return self.by_class(own.group_decision_rate)
        rates: Floats = (share / share.sum(axis=1, keepdims=True)) @ self.stratum_rate
        return rates

    @property
    def subgroup_mechanism(self) -> Floats:
        own = self.score_map.by_stratum.mechanism
        each = np.stack([1 - own, own], axis=3)
        return each if self.positive else each[:, :, ::-1, ::-1]

    @property
    def fingerprint(self) -> str:
        """Of the map: what the classifiers say of the training rows is in it."""
        text = json.dumps(self.score_map.to_dict(), sort_keys=True)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    def parity_gap(self) -> Floats:
        """Df is independent of S under the model, within its strata, unless rates may differ."""
        own = self.score_map.by_stratum
        apart = np.ptp(np.where(own.share > 0, own.rates, own.stratum_decision_rate), axis=0)
        return np.full(2, apart.max())

    def decision(self, s: Codes | None, x: TableRows) -> Floats:
        return self.by_class(self._mean(s, x, self.score_map.decision))

    def observed(self, s: Codes | None, x: TableRows) -> Floats:
        found = self.score_map
        return self.by_class(self._mean(s, x, lambda r, at: mean_of(found.observed(r, at.groups))))

    def answers(self, s: Codes | None, x: TableRows) -> tuple[Floats, Floats]:
        found = self.score_map

        def both(scores: Floats, at: Subgroups) -> Floats:
            observed = mean_of(found.observed(scores, at.groups))
            return np.column_stack([found.decision(scores, at), observed])

        decided, observed = self._mean(s, x, both).T
        return self.by_class(decided), self.by_class(observed)

    def posterior(self, s: Codes | None, d: Codes, x: TableRows) -> Floats:
        found, labels = self.score_map, self._labels(d)

        def said(rows: Ints, g: Codes) -> Floats:
            at = x.at(rows, g)
            q = found.decision(self._scores(s, x, rows, g), at)
            return found.posterior(q, labels[rows], at)

        def chances(rows: Ints) -> Floats:
            return self._chances_given(x, rows, labels[rows])

        return self.by_class(over_groups(s, x.n_rows, said, chances))

    def bounds(
        self,
        s: Codes | None,
        x: TableRows,
        positive: int,
        label_bounds: LabelBounds,
        level: float | None,
    ) -> Floats:
        """Of the map's own ends, and with what is not known of the scores themselves."""
        found = self.score_map
        return self._mean(s, x, lambda scores, at: found.bounds(scores, at, level))

    def altered(self, rows: Rows, x: TableRows) -> Floats:
        labels = self._labels(rows.d)
        shares = np.eye(rows.n_groups)[rows.s]
        unknown = np.flatnonzero(rows.s < 0)
        if len(unknown):
            shares[unknown] = self._chances_given(x, unknown, labels[unknown])
        counts = np.zeros((rows.n_groups, 2, 2))
        for g in range(rows.n_groups):
            some = np.flatnonzero(shares[:, g])
            s = np.full(len(some), g, np.int16)
            at = x.at(some, s)
            q = self.score_map.decision(self._scores(rows.s, x, some, s), at)
            q = self._anchored(q, rows.take(some))
            weights = rows.weights[some] * shares[some, g]
            counts += self.score_map.altered(q, labels[some], at, weights)
        return self._in_order(counts)

    def altered_by_scores(self, scored: ScoredRows) -> Floats:
        """``altered``, of the training rows by scores of classifiers that had not seen them."""
        q = self._anchored(self.score_map.decision(scored.last[None], scored.at), scored.rows)
        counts = self.score_map.altered(q, scored.labels, scored.at, scored.rows.weights)
        return self._in_order(counts)

    def _anchored(self, q: Floats, rows: Rows) -> Floats:
        """P(Df = positive) of rows, or what is known of it."""
        return q if rows.f is None else np.where(rows.f < 0, q, rows.f == self.positive)

    def by_class(self, positive: Floats) -> Floats:
        """P(positive) as a column per class."""
        columns = [1 - positive, positive]
        return np.column_stack(columns if self.positive else columns[::-1])

    def _in_order(self, counts: Floats) -> Floats:
        """Counts [s, f, d], where 1 is the positive class, by the codes of the classes."""
        return counts if self.positive else counts[:, ::-1, ::-1]

    def _labels(self, d: Codes) -> Positions:
        return np.where(d < 0, -1, d == self.positive).astype(np.intp)

    def _mean(self, s: Codes | None, x: TableRows, of: OfScores) -> Floats:
        """What a function of scores says of each row in its group; see ``over_groups``."""

        def said(rows: Ints, g: Codes) -> Floats:
            return of(self._scores(s, x, rows, g), x.at(rows, g))

        return over_groups(s, x.n_rows, said, lambda rows: self._chances(x, rows))

    def _scores(self, s: Codes | None, x: TableRows, rows: Ints, g: Codes) -> Floats:
        """P(D = positive | x, g) of rows as if of groups g, by each fold's classifiers."""
        if not len(rows):
            return np.empty((len(self.classifiers), 0))
        own = s is not None and (s[rows] == g).all()
        table = (self.view.table if own else self.view.taken_as)(x.take(rows), g)
        if self.view.inside:
            table = in_order(table, self.columns)
        each = [positive_scores(classifier, table) for classifier in self.classifiers]
        second = self.second_round
        if second is not None:
            b = self.score_map.mechanism_of(x.at(rows, g))
            each = [second.scores(first, k, table, b) for k, first in enumerate(each)]
        return np.stack(each)

    def _chances(self, x: TableRows, rows: Ints) -> Floats:
        """P(s | x) of rows whose group is not known."""
        if not self.group_classifiers:
            raise LearningError(
                f"the group of {counted(len(rows), 'row')} is not known: give the groups, or fit "
                "with a sensitive_estimator"
            )
        table = self.view.features(x.take(rows))
        each = [positive_scores(classifier, table) for classifier in self.group_classifiers]
        if len(each) == 1:
            return np.column_stack([1 - each[0], each[0]])
        chances = np.column_stack(each) + 1e-12
        return np.asarray(chances / chances.sum(axis=1, keepdims=True), np.float64)

    def _chances_given(self, x: TableRows, rows: Ints, labels: Positions) -> Floats:
        """P(s | x, d) ∝ P(s | x) P(d | x, s): the label, -1 if not known, tells of the group."""
        shares = self._chances(x, rows)
        for g in range(shares.shape[1]):
            s = np.full(len(rows), g, np.int16)
            scores = self._scores(None, x, rows, s)
            r = mean_of(self.score_map.observed(scores, s.astype(np.intp)))
            shares[:, g] *= np.where(labels < 0, 1.0, np.where(labels == 1, r, 1 - r))
        total = np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
        return np.asarray(shares / total, np.float64)
