"""Df from classifiers of D as a model: those of each fold, and the map that turns their scores.

Predictions are means over the classifiers of the folds. They are NaN where the group of a row is
not known: there is no distribution of X to infer it from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpc.core import Codes, Floats, Ints, Positions, TableWarning, warn_caller
from fairpc.data import Frame, take_rows
from fairpc.evidence import LabelBounds
from fairpc.models._fold_classifiers import (
    GroupView,
    SecondRound,
    in_order,
    positive_scores,
)
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
            q = found.decision(self._scores(x, rows, g), at)
            return found.posterior(q, labels[rows], at)

        return self.by_class(_of_known(s, x.n_rows, said))

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
        some = np.flatnonzero(rows.s >= 0)
        s = rows.s[some]
        at = x.at(some, s)
        q = self.score_map.decision(self._scores(x, some, s), at)
        counts = self.score_map.altered(q, self._labels(rows.d[some]), at, rows.weights[some])
        return self._in_order(counts)

    def altered_by_scores(self, scored: ScoredRows) -> Floats:
        """``altered``, of the training rows by scores of classifiers that had not seen them."""
        q = self.score_map.decision(scored.last[None], scored.at)
        counts = self.score_map.altered(q, scored.labels, scored.at, scored.rows.weights)
        return self._in_order(counts)

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
        """What a function of scores says of each row in its group."""

        def said(rows: Ints, g: Codes) -> Floats:
            return of(self._scores(x, rows, g), x.at(rows, g))

        return _of_known(s, x.n_rows, said)

    def _scores(self, x: TableRows, rows: Ints, g: Codes) -> Floats:
        """P(D = positive | x, g) of rows of groups g, by each fold's classifiers."""
        if not len(rows):
            return np.empty((len(self.classifiers), 0))
        table = self.view.table(x.take(rows), g)
        if self.view.inside:
            table = in_order(table, self.columns)
        each = [positive_scores(classifier, table) for classifier in self.classifiers]
        second = self.second_round
        if second is not None:
            b = self.score_map.mechanism_of(x.at(rows, g))
            each = [second.scores(first, k, table, b) for k, first in enumerate(each)]
        return np.stack(each)


def _of_known(s: Codes | None, n_rows: int, said: Callable[[Ints, Codes], Floats]) -> Floats:
    """What is said of each row whose group is known; NaN, with a warning, of the others."""
    groups = np.full(n_rows, -1, np.int16) if s is None else s
    known = np.flatnonzero(groups >= 0)
    if len(known) < n_rows:
        warn_caller(
            "rows whose group is not known have no score (NaN): give their groups, or use FairPC, "
            "which marginalises the group",
            TableWarning,
        )
    found = said(known, groups[known])
    result = np.full((n_rows, *found.shape[1:]), np.nan)
    result[known] = found
    return result
