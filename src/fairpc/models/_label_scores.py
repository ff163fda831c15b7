"""What classifiers say of D on rows that they have not seen.

D is independent of X given (Df, S), so P(D | x, s) is all that X says of Df: a score. In each of
five folds of the rows, boosted trees and linear log odds learn D from X and S on the other folds;
once the mechanism is known, they learn Df behind the labels (:mod:`fairpc.models._learners`). Their
shares in the score are those under which the labels are likeliest.

The mechanism follows from the scores (``_score_mechanism``), forests are grown from
them (:mod:`fairpc.models._forest_fit`), and circuits are compared with them
(:mod:`fairpc.models._choice`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.core import Bools, Codes, Floats, Ints, LearningError, map_in_order
from fairpc.models._informative_columns import narrowed, telling_columns
from fairpc.models._learners import Boosted, Labelled, Linear
from fairpc.models._rows import Rows
from fairpc.models._top import TopRates
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
MOST_LEVELS: Final = 32
"""Levels up to which a category has coefficients in the logistic regression."""
MANY_CLASSES: Final = 10
"""Classes above which logistic regression learns alone: boosting grows a tree for each class in
every step."""
SHARE_TOLERANCE: Final = 1e-8
"""Nats per row below which the shares of learners have settled."""
FLOOR: Final = 1e-4
"""Share of the scores that is spread over all classes: a log must be finite."""


@dataclass(frozen=True, eq=False)
class Scores:
    """What was learned of D: P(D | x, s) by the learners of every fold.

    Attributes:
        given: P(D = d | x, s) of each row by the learners of a fold that it is in, folds × rows ×
            classes; zeros where it is not in the fold.
        drawn: P(D = d | x, S = s) of rows on which trees are grown, folds × rows × groups ×
            classes; with strata P(D = d | x, S = s, A = a), of subgroups.
        held: weight of each row in each fold, rows × folds.
        columns: the features that make no strata which each fold learned from; all, but of a wide
            table.
    """

    given: Floats
    drawn: Floats
    held: Floats
    columns: tuple[Ints, ...] = ()


def label_scores(
    rows: Rows,
    ordered: Sequence[bool] | None,
    rng: np.random.Generator,
    drawn: Codes | None = None,
) -> Scores:
    """P(D | x, s) of every row by learners of every fold that know nothing of the mechanism."""
    learning = ScoreLearning.of(rows, ordered, rng, drawn)
    return learning.mixed(learning.told())


@dataclass(frozen=True, eq=False)
class Told:
    """P(D | x, s) by each learner of each fold, whose shares are not known yet.

    Attributes:
        own: of the rows of the fold, folds × learners × rows × classes.
        said: of the drawn rows, folds × learners × rows × subgroups × classes.
    """

    own: Floats
    said: Floats


@dataclass(frozen=True, eq=False)
class ScoreLearning:
    """Rows dealt into folds, and all that is drawn before the folds are learned side by side.

    Attributes:
        rows: the table.
        numbers: of each feature, whether its values have an order.
        drawn: further rows that are scored, of the features that make no strata.
        held: weight of each row in each fold, rows × folds.
        kept: the features that each fold learns from.
        draws: what else is drawn for each fold.
    """

    rows: Rows
    numbers: Sequence[bool]
    drawn: Codes
    held: Floats
    kept: tuple[Ints, ...]
    draws: tuple[_Draws, ...]

    @classmethod
    def of(
        cls,
        rows: Rows,
        ordered: Sequence[bool] | None,
        rng: np.random.Generator,
        drawn: Codes | None = None,
    ) -> ScoreLearning:
        held = dealt(rows, N_FOLDS, rng)
        x = rows.by_subgroup().x[:0] if drawn is None else drawn
        kept = tuple(telling_columns(rows, _other_folds(held, k)) for k in range(N_FOLDS))
        draws = tuple(_Draws.of(held, k, rng) for k in range(N_FOLDS))
        return cls(rows, which_ordered(rows, ordered), x, held, kept, draws)

    @property
    def columns(self) -> tuple[Ints, ...]:
        """The features of each fold, counted among those that make no strata."""
        rest = np.array(self.rows.strata.rest(len(self.rows.names)))
        return tuple(np.flatnonzero(np.isin(rest, some)) for some in self.kept)

    def told(self, rates: TopRates | None = None) -> Told:
        """Learners of D, or, where the mechanism is known, of Df."""
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        rows, columns = self.rows, self.columns
        mechanism = np.eye(rows.n_classes)[None]
        if rates is not None:
            each = (rates.of_subgroup(g, rows.strata)[1] for g in range(rows.n_subgroups))
            mechanism = np.stack(list(each))

        folds = [
            _Fold(
                narrowed(rows, kept),
                self.drawn[:, columns[k]],
                [self.numbers[j] for j in kept],
                np.flatnonzero(self.held[:, k] > 0),
                self.draws[k],
                mechanism,
            )
            for k, kept in enumerate(self.kept)
        ]
        kinds = [_linear] if rows.n_classes > MANY_CLASSES else [_linear, _boosted]
        # What takes longest is begun first.
        tasks = [(m, k) for m in reversed(range(len(kinds))) for k in range(N_FOLDS)]

        def learned(task: tuple[int, int]) -> tuple[Floats, Floats]:
            m, k = task
            return folds[k].told(kinds[m](folds[k]))

        # Folds have the cores: threads of linear algebra below them would wait for each other.
        with threadpool_limits(1):
            found = dict(zip(tasks, map_in_order(learned, tasks), strict=True))
        own, said = (
            np.stack(
                [np.stack([found[m, k][i] for m in range(len(kinds))]) for k in range(N_FOLDS)]
            )
            for i in range(2)
        )
        return Told(own, said)

    def mixed(self, *told: Told) -> Scores:
        """The scores of all learners together, with the shares that fit held-out labels best."""
        own = np.concatenate([each.own for each in told], axis=1)
        row, fold = np.nonzero(self.held)
        likely = np.log(own[fold, :, row, self.rows.d[row]])
        shares = component_weights(likely, self.held[row, fold], tol=SHARE_TOLERANCE)
        said = np.concatenate([each.said for each in told], axis=1)
        given = np.einsum("kmrd,m->krd", own, shares)
        return Scores(given, np.einsum("kmrgd,m->krgd", said, shares), self.held, self.columns)


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
    each = rows.each
    row = np.repeat(known, each[known].astype(np.int64))
    mixed = rng.permutation(len(row))
    cell = groups[row[mixed]].astype(np.int64) * rows.n_classes + rows.d[row[mixed]]
    turn = np.empty(len(row), np.int64)
    turn[mixed[np.argsort(cell, kind="stable")]] = np.arange(len(row)) % n_folds
    held = np.zeros((rows.n_rows, n_folds))
    np.add.at(held, (row, turn), 1.0)
    return held * rows.unit[:, None]


def _other_folds(held: Floats, fold: int) -> Floats:
    """Weight of each row in the folds that one learns from: the others, if they have rows."""
    weights: Floats = held.sum(axis=1) - held[:, fold]
    return weights if weights.any() else held.sum(axis=1)


def value_orders(rows: Rows, weights: Floats, numbers: Sequence[bool]) -> tuple[Ints, ...]:
    """Of each feature the place of each value, by labels that have these weights."""
    return tuple(_order(rows, weights, j, number) for j, number in enumerate(numbers))


def _order(rows: Rows, weights: Floats, j: int, number: bool) -> Ints:
    """Place of each value of a feature: numbers as they are, others by their label rates."""
    arity = int(rows.arities[j])
    if number:
        return np.arange(arity)
    known = (rows.x[:, j] >= 0) & (rows.d >= 0)
    w, codes, d = weights[known], rows.x[known, j], rows.d[known]
    counts = np.bincount(codes, w, arity)
    sums = np.bincount(codes, w * d, arity)
    mean = sums.sum() / max(counts.sum(), 1e-12)
    rate = (sums + ORDER_ROWS * mean) / (counts + ORDER_ROWS)
    return np.argsort(np.argsort(rate, kind="stable"), kind="stable")


@dataclass(frozen=True, eq=False)
class _Draws:
    """What is drawn for a fold, before folds are learned side by side.

    Attributes:
        used: the rows that are learned from.
        weights: of all rows.
        seed: of boosting.
    """

    used: Ints
    weights: Floats
    seed: int

    @classmethod
    def of(cls, held: Floats, fold: int, rng: np.random.Generator) -> _Draws:
        weights = _other_folds(held, fold)
        used = np.flatnonzero(weights > 0)
        if len(used) > LEARNING_ROWS:
            used = np.sort(rng.choice(used, LEARNING_ROWS, replace=False))
        return cls(used, weights, int(rng.integers(1 << 31)))


Learned = Callable[[Ints, Codes], Floats]
"""P(Df | x, s) of some rows in some groups."""


@dataclass(frozen=True, eq=False)
class _Fold:
    """The table of a fold, and further rows that are scored in every subgroup.

    Attributes:
        rows: all rows, with the columns that the fold learns from.
        drawn: the further rows.
        numbers: of each feature, whether its values have an order.
        here: the rows that the fold holds.
        draws: what it learns from.
        mechanism: that of each subgroup, or one of all rows, by which D = Df.
    """

    rows: Rows
    drawn: Codes
    numbers: Sequence[bool]
    here: Ints
    draws: _Draws
    mechanism: Floats

    @property
    def kinds(self) -> Codes:
        """Which mechanism bent the label of each row."""
        return self.rows.subgroups if len(self.mechanism) > 1 else np.zeros_like(self.rows.d)

    @property
    def labelled(self) -> Labelled:
        """The rows to learn from."""
        used = self.draws.used
        weights = self.draws.weights[used]
        return Labelled.of(self.rows.d[used], weights, self.kinds[used], self.mechanism)

    @property
    def named(self) -> Bools:
        """The features whose values have no order.

        Categories are in none here: one that is found with the labels to be learned shows more of
        them than new rows have.
        """
        return ~np.array(self.numbers, np.bool_) & (self.rows.arities > 2)

    @property
    def x(self) -> Codes:
        """The rows, then the further ones in every stratum."""
        strata = self.rows.strata
        wide = strata.widened(self.drawn, len(self.rows.names))
        return np.concatenate([self.rows.x, *(strata.placed(wide, a) for a in range(strata.n))])

    def told(self, decided: Learned) -> tuple[Floats, Floats]:
        """P(D | x, s) by a learner: of the rows of the fold, and of the drawn rows."""
        rows, here, mechanism, n = self.rows, self.here, self.mechanism, len(self.drawn)
        own = np.zeros((rows.n_rows, rows.n_classes))
        said = np.zeros((n, rows.n_subgroups, rows.n_classes))
        q = decided(here, rows.s[here])
        own[here] = np.einsum("rf,rfd->rd", q, mechanism[self.kinds[here]])
        for g in range(rows.n_subgroups if n else 0):
            s, a = divmod(g, rows.strata.n)
            q = decided(rows.n_rows + a * n + np.arange(n), np.full(n, s))
            said[:, g] = q @ mechanism[g if len(mechanism) > 1 else 0]
        floor = FLOOR / rows.n_classes
        own[here] = (1 - FLOOR) * own[here] + floor
        return own, (1 - FLOOR) * said + floor


def _linear(fold: _Fold) -> Learned:
    """Linear log odds of a fold's labels."""
    rows, used, named = fold.rows, fold.draws.used, fold.named
    table = _linear_columns(fold.x, rows, named)

    def crossed(some: Ints, groups: Codes) -> Floats:
        dummies = [(groups == g).astype(np.float64)[:, None] for g in range(1, rows.n_groups)]
        scaled = table[some, : np.count_nonzero(~named)]
        return np.column_stack([table[some], *dummies, *(d * scaled for d in dummies)])

    linear = Linear.learned(crossed(used, rows.s[used]), fold.labelled)
    return lambda some, groups: linear.decided(crossed(some, groups))


def _boosted(fold: _Fold) -> Learned:
    """Boosted trees of a fold's labels."""
    rows, used, x = fold.rows, fold.draws.used, fold.x

    def beside(some: Ints, groups: Codes) -> Codes:
        return np.column_stack([x[some], groups])

    sizes = np.append(rows.arities, rows.n_groups)
    named = np.append(fold.named, rows.n_groups > 2)
    rng = np.random.default_rng(fold.draws.seed)
    boosted = Boosted.learned(beside(used, rows.s[used]), fold.labelled, sizes, named, rng)
    return lambda some, groups: boosted.decided(beside(some, groups))


def _linear_columns(x: Codes, rows: Rows, named: Bools) -> Floats:
    """Codes of numbers, scaled, with holes at the mean, then a column for each level."""
    places = np.where(x >= 0, x, np.nan)[:, ~named]
    known = rows.x[:, ~named] >= 0
    n = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, rows.x[:, ~named], 0).sum(axis=0) / n
    spread = np.sqrt(np.where(known, (rows.x[:, ~named] - mean) ** 2, 0.0).sum(axis=0) / n)
    scaled = np.nan_to_num((places - mean) / np.where(spread > 0, spread, 1.0))
    levels = [
        (x[:, [j]] == np.arange(rows.arities[j])).astype(np.float64)
        for j in np.flatnonzero(named & (rows.arities <= MOST_LEVELS))
    ]
    return np.column_stack([scaled, *levels])
