"""Top sets of one group, chosen on other rows than those they are counted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.errors.arrays import Bools, Floats, Positions
from fairpc.evidence.bounds import Tally, tally
from fairpc.evidence.classifiers import Learner, chosen
from fairpc.evidence.cutoffs import MIN_SIZE, best_cut, deal
from fairpc.evidence.features import Distinct

OUTER: Final = 5
INNER: Final = 3


@dataclass(frozen=True, eq=False)
class GroupRows:
    """The rows of one group: distinct features, class numbers, weights, persons."""

    features: Distinct
    labels: Positions
    n_classes: int
    weights: Floats | None
    persons: Positions | None

    @property
    def worth(self) -> float:
        """Independent rows per row: under 1 where persons repeat or weights differ."""
        size = float(len(self.labels))
        if self.persons is not None:
            size = float(len(np.unique(self.persons)))
        if self.weights is not None:
            total = self.weights.sum() ** 2 / np.dot(self.weights, self.weights)
            size *= float(total) / len(self.labels)
        return size / len(self.labels)

    def counts(self, rows: Positions) -> Floats:
        """Weight per distinct row and class, of some rows; classes lie apart in memory."""
        shape = self.n_classes, len(self.features.rows)
        cells = self.labels[rows] * shape[1] + self.features.index[rows]
        weights = None if self.weights is None else self.weights[rows]
        found = np.bincount(cells, weights, shape[0] * shape[1])
        return found.reshape(shape).astype(np.float64).T


@dataclass(frozen=True)
class SeedTally:
    """One way of splitting one group: per class a tally and the median cut-off."""

    tallies: tuple[Tally, ...]
    cuts: tuple[float, ...]
    learners: tuple[str, ...]


def cross_fitted(group: GroupRows, options: Sequence[Learner], seed: int) -> SeedTally:
    """Each of five folds is counted with sets chosen on the other four."""
    rng = np.random.default_rng(seed)
    folds = deal(group.labels, group.persons, OUTER, rng)
    return _counted(group, options, rng, [folds == k for k in range(OUTER)])


def single_split(group: GroupRows, options: Sequence[Learner], seed: int) -> SeedTally:
    """One half chooses the sets, the other counts them."""
    rng = np.random.default_rng(seed)
    return _counted(group, options, rng, [deal(group.labels, group.persons, 2, rng) == 0])


def _counted(
    group: GroupRows,
    options: Sequence[Learner],
    rng: np.random.Generator,
    held_out: Sequence[Bools],
) -> SeedTally:
    inside = np.zeros((len(group.labels), group.n_classes), np.bool_)
    cuts, names = [], []
    pooled = sum(int(part.sum()) for part in held_out) / len(group.labels)
    for part in held_out:
        learner, cut, found = _learned(group, options, rng, np.flatnonzero(~part), pooled)
        rows = np.flatnonzero(part)
        inside[rows] = (found >= cut)[group.features.index[rows]]
        cuts.append(cut)
        names.append(learner.name)
    tallies = tuple(
        tally((group.labels == c).astype(np.float64), inside[:, c], group.weights, group.persons)
        for c in range(group.n_classes)
    )
    return SeedTally(tallies, tuple(np.median(cuts, axis=0).tolist()), tuple(names))


def _learned(
    group: GroupRows,
    options: Sequence[Learner],
    rng: np.random.Generator,
    train: Positions,
    pooled: float,
) -> tuple[Learner, Floats, Floats]:
    """From training rows only: the classifier, a cut-off per class, scores of distinct rows."""
    persons = None if group.persons is None else group.persons[train]
    inner = deal(group.labels[train], persons, INNER, rng)
    parts = [group.counts(train[inner == j]) for j in range(INNER)]
    rows = group.features.rows
    learner, scores, found = chosen(options, rows, parts, rng)
    seen = [part.any(axis=1) for part in parts]
    score = np.concatenate([s[at] for s, at in zip(scores, seen, strict=True)])
    counts = np.concatenate([part[at] for part, at in zip(parts, seen, strict=True)])
    # In independent rows of the training part: weights of mean 1, repeated persons once.
    counts *= group.worth * len(train) / counts.sum()
    # The set must be expected to hold MIN_SIZE of the rows that will be counted.
    size = MIN_SIZE * len(train) / (pooled * len(group.labels))
    totals = counts.sum(axis=1)
    cut = [best_cut(score[:, c], counts[:, c], totals, size) for c in range(group.n_classes)]
    return learner, np.array(cut), found
