"""Learners of Df whose labels a known mechanism has bent: boosted trees, and linear log odds.

Both minimise the loss of the label that a score of Df predicts,

    −log Σ_f P(f | x, s) P(d | f, s),

(forward correction: Patrini et al., CVPR 2017). Where D = Df it is the usual loss of a classifier
of D. A learner of bent labels must tell by how much each group was bent before it can tell who is
alike; one that knows the mechanism learns what is common to all groups from all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit, logit

from fairpc.core import Bools, Codes, Floats, Ints
from fairpc.learners import Cells, Grower, Limits, Trees, places, stacked
from fairpc.models._additive import shares_of

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
        trees: of each of the log odds the trees that are added.
    """

    start: Ints
    base: Floats
    trees: tuple[Trees, ...]

    @classmethod
    def learned(
        cls, codes: Codes, rows: Labelled, arities: Ints, named: Bools, rng: np.random.Generator
    ) -> Boosted:
        """Learn from rows × columns of codes, -1 where they are missing; ``named`` columns have no
        order."""
        base, many = rows.start(), len(rows.d) >= EARLY_ROWS
        limits = Limits(LEAF_ROWS[many], 0.0, SHRINKING, RATE)
        n_rounds, n_leaves = ROUNDS[many], LEAVES[len(codes) >= LARGE]

        def booster(here: Ints) -> _Booster:
            cells = Cells.of(codes[here].T, arities, named)
            grower = Grower.of(cells, np.arange(len(here)), n_leaves, limits)
            return _Booster.of(grower, rows.take(here), base)

        if many:
            drawn = rng.permutation(len(codes)) < EARLY_SHARE * len(codes)
            held, fitted = np.flatnonzero(drawn), booster(np.flatnonzero(~drawn))
            n_rounds = _rounds(fitted, codes[held], rows.take(held), base, rng)
        whole = booster(np.arange(len(codes)))
        rounds = [whole.round(rng) for _ in range(n_rounds)]
        own = tuple(stacked(trees) for trees in zip(*rounds, strict=True))
        return cls(whole.grower.cells.start, base, own)

    def decided(self, codes: Codes) -> Floats:
        """P(Df = f | x) of rows × columns of codes."""
        x = places(codes.T, self.start)
        odds = np.tile(self.base, (len(codes), 1)).T.copy()
        for own, trees in zip(odds, self.trees, strict=True):
            trees.add_to(own, x)
        return shares(odds.T)


@dataclass(frozen=True, eq=False)
class _Booster:
    """Rows that trees are grown on, and what the trees so far say of them."""

    grower: Grower
    rows: Labelled
    odds: Floats
    slope: Floats
    bend: Floats

    @classmethod
    def of(cls, grower: Grower, rows: Labelled, base: Floats) -> _Booster:
        odds = np.tile(base[:, None], (1, len(rows.d)))
        return cls(grower, rows, odds, np.empty_like(odds), np.empty_like(odds))

    def round(self, rng: np.random.Generator) -> list[Trees]:
        """A tree of each of the log odds, which moves them."""
        from fairpc.models._loss_kernels import corrected_slopes

        corrected_slopes(self.odds, *self.rows.given, self.slope, self.bend)
        made = []
        for odds, slope, bend in zip(self.odds, self.slope, self.bend, strict=True):
            made.append(self.grower.grow(slope, bend, rng.random(self.grower.shape)))
            odds += made[-1].values[self.grower.at]
        return made


def _rounds(
    booster: _Booster, codes: Codes, held: Labelled, base: Floats, rng: np.random.Generator
) -> int:
    """After how many rounds rows that were held out are told best."""
    from fairpc.models._loss_kernels import corrected_loss

    x, odds = places(codes.T, booster.grower.cells.start), np.tile(base[:, None], (1, len(codes)))
    best, n_best = corrected_loss(odds, *held.given), 0
    for t in range(1, ROUNDS[True] + 1):
        for own, tree in zip(odds, booster.round(rng), strict=True):
            stacked([tree]).add_to(own, x)
        loss = corrected_loss(odds, *held.given)
        if loss < best:
            best, n_best = loss, t
        elif t - n_best >= PATIENCE:
            break
    return max(n_best, 1)


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

        from fairpc.models._loss_kernels import corrected_loss, corrected_slopes

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
