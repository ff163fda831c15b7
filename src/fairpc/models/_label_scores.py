"""What classifiers say of D on rows that they have not seen.

D is independent of X given (Df, S), so P(D | x, s) is all that X says of Df: a score. In each of
five folds of the rows, boosted trees and linear log odds learn D from X and S on the other folds;
once the mechanism is known, they learn Df behind the labels (:mod:`fairpc.learners`). Their
shares in the score are those under which the labels are likeliest.

The mechanism follows from the scores (``_score_mechanism``), forests are grown from
them (:mod:`fairpc.models._forest_fit`), and circuits are compared with them
(:mod:`fairpc.models._selection`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from fairpc.core import Bools, Codes, Floats, Int32s, Ints, LearningError, map_in_order, one_thread
from fairpc.learners import (
    AlteredLabels,
    BoostedOdds,
    LinearOdds,
    coded_columns,
    deal,
    informative_columns,
)
from fairpc.models._rows import Rows
from fairpc.models._top_em import TopRates
from fairpc.structure import component_weights

DRAWS: Final = 0
"""Seed of folds, learners and trees: a forest does not depend on ``random_state``, so that nobody
can draw again until decisions please. Other draws would turn about one decision in a hundred."""
N_FOLDS: Final = 5
"""Folds of the rows: what is said of a row was learned from the others."""
ORDER_ROWS: Final = 10.0
"""Rows by which the label rates are shrunk that put categories into order."""
LEARNING_ROWS: Final = 60_000
"""Distinct rows from which a learner learns at most; all are scored and counted."""
SHARE_TOLERANCE: Final = 1e-8
"""Nats per row below which the shares of learners have settled."""
MOST_ROWS: Final = 2**31
"""Rows that are dealt to folds at most, each in eight bytes."""

FLOOR: Final = 1e-4
"""Share of the scores that is spread over all classes: a log must be finite."""

Decided = Callable[[Ints, Codes], Floats]
"""P(Df | x, s) of some rows in some groups."""


@dataclass(frozen=True, eq=False)
class Scores:
    """What was learned of D: P(D | x, s) by the learners of every fold."""

    #: P(D = d | x, s) of each row by the learners of a fold that it is in, folds × rows × classes;
    #: zeros where it is not in the fold
    given: Floats
    #: P(D = d | x, S = s) of rows on which trees are grown, folds × rows × groups × classes; with
    #: strata P(D = d | x, S = s, A = a), of subgroups
    drawn: Floats
    held: Floats  #: weight of each row in each fold, rows × folds
    #: the features that make no strata which each fold learned from; all, but of a wide table
    columns: tuple[Ints, ...] = ()


class LearnerScores(NamedTuple):
    """P(D | x, s) by each learner of each fold, whose shares are not known yet."""

    given: Floats  #: of the rows of the fold, folds × learners × rows × classes
    drawn: Floats  #: of the drawn rows, folds × learners × rows × subgroups × classes
    n_rounds: tuple[int, ...]  #: of boosting, by fold


@dataclass(frozen=True, eq=False)
class ScoreLearning:
    """Rows dealt into folds, and all that is drawn before the folds are learned side by side."""

    rows: Rows  #: the table
    numbers: Bools  #: of each feature, whether its values have an order
    drawn: Codes  #: further rows that are scored, of the features that make no strata
    held: Floats  #: weight of each row in each fold, rows × folds
    kept: tuple[Ints, ...]  #: the features that each fold learns from
    #: of each fold the rows that are learned from, and the seed of boosting
    draws: tuple[tuple[Ints, int], ...]

    @classmethod
    def of(
        cls,
        rows: Rows,
        ordered: Sequence[bool] | None,
        rng: np.random.Generator,
        drawn: Codes | None = None,
    ) -> ScoreLearning:
        held = dealt(rows, N_FOLDS, rng)
        others = [_other_folds(held, k) for k in range(N_FOLDS)]
        cells = np.where((rows.s >= 0) & (rows.d >= 0), rows.s * rows.n_classes + rows.d, -1)
        known = cells.astype(np.int64), (rows.n_groups, rows.n_classes)
        kept = tuple(
            informative_columns(rows.x, rows.arities, *known, each, rows.strata.columns)
            for each in others
        )
        x = rows.by_subgroup().x[:0] if drawn is None else drawn
        draws = tuple((_learned_from(each, rng), int(rng.integers(1 << 31))) for each in others)
        return cls(rows, np.array(which_ordered(rows, ordered), np.bool_), x, held, kept, draws)

    @property
    def columns(self) -> tuple[Ints, ...]:
        """The features of each fold, counted among those that make no strata."""
        rest = np.array(self.rows.strata.rest(len(self.rows.names)))
        return tuple(np.flatnonzero(np.isin(rest, some)) for some in self.kept)

    @cached_property
    def _whole(self) -> LearnerRows:
        """What folds that learn from all columns have in common."""
        every = np.arange(len(self.rows.names))
        return LearnerRows.of(self, every, np.arange(self.drawn.shape[1]))

    def by_learner(
        self, rates: TopRates | None = None, first: LearnerScores | None = None
    ) -> LearnerScores:
        """Learners of D, or, where the mechanism is known, of Df, which boost for as many rounds as
        those of D did at ``first``."""
        rows = self.rows
        mechanism = np.eye(rows.n_classes)[None]
        if rates is not None:
            each = (rates.of_subgroup(g, rows.strata)[1] for g in range(rows.n_subgroups))
            mechanism = np.stack(list(each))
        kinds = [_linear, _boosted]
        # What takes longest is begun first.
        tasks = [(m, k) for m in reversed(range(len(kinds))) for k in range(N_FOLDS)]

        def learned(task: tuple[int, int]) -> tuple[Floats, Floats, int]:
            m, k = task
            return self._of_fold(k, kinds[m], mechanism, first and first.n_rounds[k])

        # Folds have the cores: threads of linear algebra below them would wait for each other.
        with one_thread():
            found = dict(zip(tasks, map_in_order(learned, tasks), strict=True))
        order = [[found[m, k] for m in range(len(kinds))] for k in range(N_FOLDS)]
        given, drawn = (
            np.stack([np.stack([both[i] for both in fold]) for fold in order]) for i in range(2)
        )
        return LearnerScores(given, drawn, tuple(fold[-1][2] for fold in order))

    def _of_fold(
        self,
        k: int,
        learn: Callable[..., tuple[Decided, int]],
        mechanism: Floats,
        n_rounds: int | None,
    ) -> tuple[Floats, Floats, int]:
        """P(D | x, s) by a learner of the other folds: of the rows of a fold, and of drawn rows;
        and the rounds that it took."""
        every = len(self.kept[k]) == len(self.rows.names)
        coded = self._whole if every else LearnerRows.of(self, self.kept[k], self.columns[k])
        rows, strata = coded.rows, self.rows.strata
        used, seed = self.draws[k]
        kinds = rows.subgroups if len(mechanism) > 1 else np.zeros_like(rows.d)
        weights = _other_folds(self.held, k)[used]
        labels = AlteredLabels.of(rows.d[used], weights, kinds[used], mechanism)
        decided, n_rounds = learn(coded, used, labels, seed, n_rounds)

        here, n = np.flatnonzero(self.held[:, k] > 0), len(self.drawn)
        own = np.zeros((rows.n_rows, rows.n_classes))
        said = np.zeros((n, rows.n_subgroups, rows.n_classes))
        q = decided(here, rows.s[here])
        own[here] = np.einsum("rf,rfd->rd", q, mechanism[kinds[here]])
        for g in range(rows.n_subgroups if n else 0):
            s, a = divmod(g, strata.n)
            q = decided(rows.n_rows + a * n + np.arange(n), np.full(n, s))
            said[:, g] = q @ mechanism[g if len(mechanism) > 1 else 0]
        floor = FLOOR / rows.n_classes
        own[here] = (1 - FLOOR) * own[here] + floor
        return own, (1 - FLOOR) * said + floor, n_rounds

    def mixed(self, *learned: LearnerScores) -> Scores:
        """The scores of all learners together, with the shares that fit held-out labels best."""
        row, fold = np.nonzero(self.held)
        own = [each.given[fold, :, row, self.rows.d[row]] for each in learned]
        likely = np.log(np.concatenate(own, axis=1))
        shares = component_weights(likely, self.held[row, fold], tol=SHARE_TOLERANCE)

        def together(parts: list[Floats]) -> Floats:
            # One learner after the other: all of them side by side would be the largest array.
            each = (part[:, m] for part in parts for m in range(part.shape[1]))
            total: Floats = sum(share * said for share, said in zip(shares, each, strict=True))
            return total

        given = together([each.given for each in learned])
        drawn = together([each.drawn for each in learned])
        return Scores(given, drawn, self.held, self.columns)


def which_ordered(rows: Rows, ordered: Sequence[bool] | None) -> Sequence[bool]:
    return [False] * len(rows.names) if ordered is None else ordered


def dealt(rows: Rows, n_folds: int, rng: np.random.Generator) -> Floats:
    """Weight of each row in each fold: rows of the table are dealt, of which one may be several."""
    groups = rows.subgroups
    known = np.flatnonzero((groups >= 0) & (rows.d >= 0) & (rows.weights > 0))
    if not len(known):
        raise LearningError(
            "no row has both a group and a label: a forest and its score are learned from such "
            "rows; give some"
        )
    total = rows.each[known].sum()
    if total > MOST_ROWS:
        raise LearningError(
            f"the weights are whole and count {total:.3g} rows, and a forest deals rows one by "
            f"one, at most {MOST_ROWS:.0g}: divide the weights by their mean"
        )
    row = np.repeat(known, rows.each[known].astype(np.int64))
    cells = groups[row].astype(np.int64) * rows.n_classes + rows.d[row]
    held = np.zeros((rows.n_rows, n_folds))
    np.add.at(held, (row, deal(cells, None, n_folds, rng)), 1.0)
    return held * rows.unit[:, None]


def _other_folds(held: Floats, fold: int) -> Floats:
    """Weight of each row in the folds that one learns from: the others, if they have rows."""
    weights: Floats = held.sum(axis=1) - held[:, fold]
    return weights if weights.any() else held.sum(axis=1)


def _learned_from(weights: Floats, rng: np.random.Generator) -> Ints:
    used = np.flatnonzero(weights > 0)
    if len(used) > LEARNING_ROWS:
        used = np.sort(rng.choice(used, LEARNING_ROWS, replace=False))
    return used


def _narrowed(rows: Rows, columns: Ints) -> Rows:
    """The rows with some of their columns, those of strata among them."""
    if len(columns) == len(rows.names):
        return rows
    place = {int(j): k for k, j in enumerate(columns)}
    return replace(
        rows,
        x=np.asfortranarray(rows.x[:, columns]),
        arities=rows.arities[columns],
        names=tuple(rows.names[j] for j in columns),
        strata=replace(rows.strata, columns=tuple(place[j] for j in rows.strata.columns)),
    )


def value_orders(rows: Rows, weights: Floats, numbers: Sequence[bool]) -> tuple[Ints, ...]:
    """Of each feature the place of each value: numbers as they are, others by their label rates,
    of labels that have these weights."""
    return tuple(
        np.arange(int(rows.arities[j])) if number else _rate_order(rows, weights, j)
        for j, number in enumerate(numbers)
    )


def _rate_order(rows: Rows, weights: Floats, j: int) -> Ints:
    arity = int(rows.arities[j])
    known = (rows.x[:, j] >= 0) & (rows.d >= 0)
    w, codes, d = weights[known], rows.x[known, j], rows.d[known]
    counts = np.bincount(codes, w, arity)
    sums = np.bincount(codes, w * d, arity)
    mean = sums.sum() / max(counts.sum(), 1e-12)
    rate = (sums + ORDER_ROWS * mean) / (counts + ORDER_ROWS)
    return np.argsort(np.argsort(rate, kind="stable"), kind="stable")


@dataclass(frozen=True, eq=False)
class LearnerRows:
    """Rows as learners take them: those of the table, then the drawn ones in each stratum."""

    rows: Rows  #: of the table, with the columns that are learned from
    x: Codes  #: codes of all
    #: whether the values of a column have no order: one that is found with the labels to be learned
    #: shows more of them than new rows have
    named: Bools

    @classmethod
    def of(cls, learning: ScoreLearning, kept: Ints, columns: Ints) -> LearnerRows:
        """Of some columns; ``columns`` are those among the ones that make no strata."""
        rows = _narrowed(learning.rows, kept)
        wide = rows.strata.widened(learning.drawn[:, columns], len(rows.names))
        x = [rows.x, *(rows.strata.placed(wide, a) for a in range(rows.strata.n))]
        named = ~learning.numbers[kept] & (rows.arities > 2)
        return cls(rows, np.concatenate(x), named)

    @cached_property
    def table(self) -> tuple[Floats, Int32s, int]:
        """Columns that coefficients go with."""
        return coded_columns(self.x, self.rows.x, self.rows.arities, self.named)

    def crossed(self, some: Ints, groups: Codes) -> Any:
        """The columns, and numbers of each group with slopes of their own; sparse if some are 0."""
        from scipy.sparse import csr_array

        values, columns, width = self.table
        n_more, n_numbers = self.rows.n_groups - 1, np.count_nonzero(~self.named)
        shape = len(some), width + n_more * (1 + n_numbers)
        own, other = values[some], (groups > 0)[:, None]
        values = np.hstack([own, other, other * own[:, :n_numbers]])
        if values.shape == shape:
            return values
        group = np.maximum(groups, 1)[:, None].astype(np.int32) - 1
        slopes = width + n_more + group * n_numbers + np.arange(n_numbers, dtype=np.int32)
        places = np.hstack([columns[some], width + group, slopes])
        heads = np.arange(len(values) + 1) * values.shape[1]
        return csr_array((values.ravel(), places.ravel(), heads), shape)

    def beside(self, some: Ints, groups: Codes) -> Codes:
        """The codes, and the groups as one more column."""
        return np.column_stack([self.x[some], groups])


def _linear(
    coded: LearnerRows, used: Ints, labels: AlteredLabels, seed: int, n_rounds: int | None
) -> tuple[Decided, int]:
    """Linear log odds of a fold's labels, which need neither seed nor rounds."""
    linear = LinearOdds.learned(coded.crossed(used, coded.rows.s[used]), labels)
    return (lambda some, groups: linear.decided(coded.crossed(some, groups))), 0


def _boosted(
    coded: LearnerRows, used: Ints, labels: AlteredLabels, seed: int, n_rounds: int | None
) -> tuple[Decided, int]:
    """Boosted trees of a fold's labels."""
    n_groups = coded.rows.n_groups
    sizes = np.append(coded.rows.arities, n_groups)
    unordered = np.append(coded.named, n_groups > 2)
    learned_from = coded.beside(used, coded.rows.s[used]), labels, sizes, unordered
    boosted = BoostedOdds.learned(*learned_from, np.random.default_rng(seed), n_rounds)
    return (lambda some, groups: boosted.decided(coded.beside(some, groups))), boosted.n_rounds
