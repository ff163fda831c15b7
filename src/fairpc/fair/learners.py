"""Learners of Df whose labels a known mechanism has bent: boosted trees, and linear log odds.

Both minimise the loss of the label that a score of Df predicts,

    −log Σ_f P(f | x, s) P(d | f, s),

(forward correction: Patrini et al., CVPR 2017). Where D = Df it is the usual loss of a classifier
of D. A learner of bent labels must tell by how much each group was bent before it can tell who is
alike; one that knows the mechanism learns what is common to all groups from all rows.

Trees are grown from histograms of codes, the leaf that gains most first, as in scikit-learn's
``HistGradientBoostingClassifier``; that takes no loss of one's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.special import expit, logit

from fairpc.errors.arrays import Bools, Codes, Floats, Ints
from fairpc.fair.additive import shares_of

RATE: Final = 0.15
SHRINKING: Final = 5.0
"""Of boosting: the share of a step that is taken, and the curvature that is added to a leaf's."""
LEAVES: Final = (8, 16)
LARGE: Final = 20_000
"""Leaves of a tree: few, because labels that were bent are noisy; more from so many rows on."""
EARLY_ROWS: Final = 1000
EARLY_SHARE: Final = 0.125
ROUNDS: Final = (40, 300)
LEAF_ROWS: Final = (10, 40)
PATIENCE: Final = 10
"""Rows from which some are held out to say when to stop, and their share; rounds, and the fewest
rows of a leaf, with fewer rows and with more; and the rounds without a gain that end boosting."""
PENALTY: Final = 10.0
LINEAR_STEPS: Final = 100
LINEAR_TOLERANCE: Final = 1e-3
"""Of linear log odds: the weight of squared coefficients, steps, and the slope that ends them."""
WIDEST: Final = 20.0
"""Log odds beyond which a class is certain."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows to learn from.

    Attributes:
        d, weights: label and weight of each row.
        kind: which mechanism bent its label.
        mechanism: P(D = d | Df = f), kinds × classes × classes.
    """

    d: Ints
    weights: Floats
    kind: Ints
    mechanism: Floats

    @classmethod
    def of(
        cls, d: Codes | Ints, weights: Floats, kind: Codes | Ints, mechanism: Floats
    ) -> Labelled:
        """Rows by their codes."""
        return cls(d.astype(np.int64), weights, kind.astype(np.int64), mechanism)

    @property
    def given(self) -> tuple[Ints, Floats, Ints, Floats]:
        """What kernels take of the rows."""
        return self.d, self.weights, self.kind, self.mechanism

    @property
    def n_classes(self) -> int:
        return int(self.mechanism.shape[1])

    @property
    def n_odds(self) -> int:
        """Log odds of a row: of class 1 against 0, or of each of more than two classes."""
        return 1 if self.n_classes == 2 else self.n_classes

    def take(self, rows: Ints) -> Labelled:
        return Labelled(self.d[rows], self.weights[rows], self.kind[rows], self.mechanism)

    def start(self) -> Floats:
        """Log odds of P(Df) that fits the labels, by a few steps of EM."""
        counts = np.zeros(self.mechanism.shape[::2])
        np.add.at(counts, (self.kind, self.d), self.weights)
        rate = np.full(self.n_classes, 1.0 / self.n_classes)
        for _ in range(50):
            joint = rate[None, :, None] * self.mechanism
            joint /= np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
            rate = np.einsum("kfd,kd->f", joint, counts) / max(counts.sum(), 1e-300)
        rate = np.clip(rate, 1e-6, 1.0)
        rate /= rate.sum()
        return np.asarray(logit(rate[1:]) if self.n_classes == 2 else np.log(rate), np.float64)


_Tree = tuple[Ints, Bools, Floats]
"""Divisions, what stays in each, and the steps of the leaves; of one tree, or of several."""


def shares(odds: Floats) -> Floats:
    """P(f) of each row, of its log odds."""
    if odds.shape[1] == 1:
        return np.concatenate([expit(-odds), expit(odds)], axis=1)
    return shares_of(odds)


@dataclass(frozen=True, eq=False)
class Boosted:
    """Boosted trees of the log odds of Df over codes.

    Attributes:
        start: first place of each column.
        base: log odds of all rows.
        trees: of each of the log odds the trees that are added, as
            :func:`fairpc.fair._boosting_kernels.add_trees` takes them.
    """

    start: Ints
    base: Floats
    trees: tuple[_Tree, ...]

    @classmethod
    def learned(
        cls, codes: Codes, rows: Labelled, arities: Ints, named: Bools, rng: np.random.Generator
    ) -> Boosted:
        """Learn from rows × columns of codes, -1 where they are missing; ``named`` columns have no
        order."""
        start, base = np.append(0, np.cumsum(arities + 1)), rows.start()
        many, x = len(rows.d) >= EARLY_ROWS, _places(codes, start)
        whole = _Part.of(x, rows, base)
        n_rounds, size = ROUNDS[many], (LEAVES[len(x) >= LARGE], LEAF_ROWS[many])
        if many:
            held = rng.permutation(len(x)) < EARLY_SHARE * len(x)
            fitted, judged = (
                _Part.of(x[here], rows.take(np.flatnonzero(here)), base) for here in (~held, held)
            )
            n_rounds = _rounds(_Grower.of(fitted, start, named, size), judged, rng)
        grower = _Grower.of(whole, start, named, size)
        trees: list[list[_Tree]] = [[] for _ in base]
        for _ in range(n_rounds):
            for own, tree in zip(trees, grower.round(rng), strict=True):
                own.append(tree)
        return cls(start, base, tuple(_stacked(own) for own in trees))

    def decided(self, codes: Codes) -> Floats:
        """P(Df = f | x) of rows × columns of codes."""
        from fairpc.fair._boosting_kernels import add_trees

        x = _places(codes, self.start)
        odds = np.tile(self.base, (len(codes), 1)).T.copy()
        for own, trees in zip(odds, self.trees, strict=True):
            add_trees(x, *trees, own)
        return shares(odds.T)


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows that trees are grown on, or judged by, and what the trees so far say of them."""

    x: Ints
    rows: Labelled
    odds: Floats
    slope: Floats
    bend: Floats

    @classmethod
    def of(cls, x: Ints, rows: Labelled, base: Floats) -> _Part:
        odds = np.tile(base[:, None], (1, len(x)))
        return cls(x, rows, odds, np.empty_like(odds), np.empty_like(odds))

    def derive(self) -> None:
        """Slope and bend at the odds."""
        from fairpc.fair._boosting_kernels import corrected_slopes

        corrected_slopes(self.odds, *self.rows.given, self.slope, self.bend)

    def loss(self) -> float:
        from fairpc.fair._boosting_kernels import corrected_loss

        return float(corrected_loss(self.odds, *self.rows.given))


@dataclass(frozen=True, eq=False)
class _Grower:
    """What all trees of a fit have in common, and arrays that each of them works in."""

    part: _Part
    start: Ints
    named: Bools
    limits: tuple[float, float, float]
    work: tuple[Any, ...]
    at: Ints

    @classmethod
    def of(cls, part: _Part, start: Ints, named: Bools, size: tuple[int, int]) -> _Grower:
        """``size``: leaves of a tree, and the fewest rows of one."""
        n_leaves, least = size
        n_rows, n_places = len(part.x), int(start[-1])
        work = (
            *np.empty((2, n_rows), np.int64),
            np.empty((n_leaves, n_places + 1, 3)),
            np.empty((n_leaves, n_places), np.bool_),
            np.empty(n_places, np.int64),
            np.empty(n_places),
            np.empty((n_leaves, 3), np.int64),
            np.empty(n_leaves),
        )
        limits = float(least), SHRINKING, RATE
        return cls(part, start, named, limits, work, np.empty(n_rows, np.int64))

    def round(self, rng: np.random.Generator) -> list[_Tree]:
        """A tree of each of the log odds."""
        self.part.derive()
        shape = len(self.work[-1]), len(self.named)
        return [self.grow(f, rng.random(shape)) for f in range(len(self.part.odds))]

    def grow(self, f: int, drawn: Floats) -> _Tree:
        """A tree of one of the log odds, which moves them."""
        from fairpc.fair._boosting_kernels import grow

        part, slopes = self.part, (self.part.slope[f], self.part.bend[f])
        n = len(drawn)
        made = (
            np.full((n - 1, 2), -1, np.int64),
            np.zeros((n - 1, int(self.start[-1])), np.bool_),
            np.zeros(n),
        )
        grow(part.x, self.start, self.named, *slopes, drawn, self.limits, self.work, *made, self.at)
        part.odds[f] += made[2][self.at]
        return made


def _rounds(grower: _Grower, judged: _Part, rng: np.random.Generator) -> int:
    """After how many rounds rows that were held out are told best."""
    from fairpc.fair._boosting_kernels import add_trees

    best, n_best = judged.loss(), 0
    for t in range(1, ROUNDS[True] + 1):
        for odds, tree in zip(judged.odds, grower.round(rng), strict=True):
            add_trees(judged.x, *_stacked([tree]), odds)
        loss = judged.loss()
        if loss < best:
            best, n_best = loss, t
        elif t - n_best >= PATIENCE:
            break
    return max(n_best, 1)


def _stacked(trees: Sequence[_Tree]) -> _Tree:
    divided, stays, values = (np.stack(parts) for parts in zip(*trees, strict=True))
    return divided, stays, values


def _places(codes: Codes, start: Ints) -> Ints:
    """Place of each value; what is missing, and what nobody had, is in the column's last."""
    own = np.where(codes < 0, np.diff(start) - 1, codes)
    return np.ascontiguousarray(own + start[:-1], np.int32)


@dataclass(frozen=True, eq=False)
class Linear:
    """Log odds of Df that are linear in columns of numbers.

    Attributes:
        coefficients: columns × log odds.
        base: log odds where all columns are 0.
    """

    coefficients: Floats
    base: Floats

    @classmethod
    def learned(cls, table: Floats, rows: Labelled) -> Linear:
        """Ridge regression under the corrected loss, by L-BFGS from the log odds of P(Df)."""
        from scipy.optimize import minimize

        from fairpc.fair._boosting_kernels import corrected_loss, corrected_slopes

        n, total = rows.n_odds, float(rows.weights.sum())
        slope, bend = np.empty((2, n, len(table)))

        def objective(theta: Floats) -> tuple[float, Floats]:
            own = theta.reshape(n, -1)
            odds = np.clip(own[:, 1:] @ table.T + own[:, :1], -WIDEST, WIDEST)
            corrected_slopes(odds, *rows.given, slope, bend)
            down = np.column_stack([-slope.sum(axis=1), PENALTY * own[:, 1:] - slope @ table])
            loss = float(corrected_loss(odds, *rows.given))
            loss += PENALTY * float(np.square(own[:, 1:]).sum()) / 2
            return loss / total, down.ravel() / total

        first = np.column_stack([rows.start(), np.zeros((n, table.shape[1]))])
        limits = {"maxiter": LINEAR_STEPS, "gtol": LINEAR_TOLERANCE}
        found = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B", options=limits)
        own = found.x.reshape(n, -1)
        return cls(own[:, 1:].T.copy(), own[:, 0].copy())

    def decided(self, table: Floats) -> Floats:
        """P(Df = f | x) of rows of the table."""
        return shares(np.clip(table @ self.coefficients + self.base, -WIDEST, WIDEST))
