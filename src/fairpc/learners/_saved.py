"""Classifiers of two classes as numbers that a file can hold: coefficients, or trees.

Boosted trees are our own. What scikit-learn learned is read out once, compared with what its own
object says of training rows, and evaluated here ever after. So a model gives the same bits before
it is saved and after it is loaded, and a file holds numbers and nothing that could be executed.

Every learner takes a matrix and its sizes (see ``_design``). Trees are always made of
:class:`TreeNodes`, which is what a file has.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final, Self

import numpy as np

from fairpc.core import (
    ALTERED,
    Array,
    Bools,
    FileFormatError,
    Floats,
    Ints,
    LearningError,
    map_in_order,
    one_thread,
    record,
    serialise,
    thread_count,
)
from fairpc.data import readonly
from fairpc.learners._boosting import BoostedOdds, Divisions
from fairpc.learners._design import LARGEST, Design, Edges, bin_codes, edges_of, standardised
from fairpc.learners._linear import AlteredLabels, LinearOdds

PENALTY: Final = 0.3
"""Inverse strength of the ridge penalty of a logistic regression."""
N_TREES: Final = 200
LEAF_ROWS: Final = 10
MOST_LEAVES: Final = 1000
DRAWN_ROWS: Final = 100_000
"""Forest: trees, fewest rows of a leaf, most leaves of a tree, and most rows that one is grown on.
Leaves of many rows keep the probabilities from the ends, and a file short."""
CHECKED_ROWS: Final = 500
AGREEMENT: Final = 1e-9
"""Training rows on which scikit-learn's answer is compared with ours, and how near it must be."""
CHUNK: Final = 16_384
"""Rows that the kernel is given at once."""
HUGE: Final = 1e100
"""Coefficients, thresholds and leaves of a file are at most this: their sums must be finite."""

_ANOTHER_SHAPE: Final = (AttributeError, LookupError, TypeError, ValueError)
"""What reading a private attribute raises that another scikit-learn has in another shape."""


@dataclass(frozen=True, eq=False)
class SavedLinear:
    """A logistic regression: the log odds are a sum over columns.

    Attributes:
        intercept: log odds where all columns say nothing.
        slope, mean, scale: of each column of numbers, per standard deviation from its mean.
        hole: what a missing value adds, per column.
        effect: what each code adds, per column; empty for numbers.
    """

    intercept: float
    slope: Floats
    mean: Floats
    scale: Floats
    hole: Floats
    effect: tuple[Floats, ...]

    @classmethod
    def of(cls, design: Design, sizes: Ints, intercept: float, coefficients: Floats) -> Self:
        """These coefficients of the columns of a design."""
        parts = np.split(coefficients, design.stops[:-1])
        each = list(zip(parts, sizes.tolist(), strict=True))
        return cls(
            intercept=intercept,
            slope=np.array([0.0 if size else part[0] for part, size in each]),
            mean=design.mean,
            scale=design.scale,
            hole=np.array([part[-1] for part in parts]),
            effect=tuple(part[:-1] if size else part[:0] for part, size in each),
        )

    def probability(self, matrix: Floats) -> Floats:
        """P(second class) of each row."""
        from scipy.special import expit

        total = np.full(len(matrix), self.intercept)
        for j, (column, effect) in enumerate(zip(matrix.T, self.effect, strict=True)):
            hidden = np.isnan(column)
            if len(effect):
                added = effect[np.where(hidden, 0.0, column).astype(np.intp)]
            else:
                added = self.slope[j] * standardised(column, self.mean[j], self.scale[j])
            total += np.where(hidden, self.hole[j], added)
        return np.asarray(expit(total))

    def to_dict(self) -> dict[str, Any]:
        return dict(serialise(self.__dict__))

    @classmethod
    def from_dict(cls, data: Any, sizes: Ints) -> Self:
        """The coefficients of a file, for columns of these sizes."""
        found = record(cls, data, "the logistic regression", exact=True, repair=ALTERED)
        numbers = found.slope, found.mean, found.scale, found.hole
        every = [[found.intercept], *numbers, *found.effect]
        if not (
            all(part.shape == sizes.shape for part in numbers)
            and [part.shape for part in found.effect] == [(n,) for n in sizes.tolist()]
            and all(_between(part, -HUGE, HUGE) for part in every)
            and (found.scale > 0).all()
        ):
            raise FileFormatError(f"the coefficients do not fit the columns: {ALTERED}")
        return found


@dataclass(frozen=True, eq=False)
class TreeNodes:
    """Trees as a file has them, nodes in preorder: the left child of a node is the next.

    Attributes:
        baseline: log odds to which boosted leaves are added.
        sizes: nodes of each tree.
        feature: column that each node asks for, -1 in a leaf.
        right: how far behind each inner node its right child is.
        hole: whether what is missing goes left, at each inner node.
        threshold: up to which a number goes left, where one is asked for.
        left_levels: codes that go left, where a category is asked for.
        value: of each leaf.
    """

    baseline: float
    sizes: Ints
    feature: Ints
    right: Ints
    hole: Ints
    threshold: Floats
    left_levels: tuple[Ints, ...]
    value: Floats

    def levels_at(self, sizes: Ints, *, boosted: bool) -> Ints:
        """How many codes the category has that a node asks for; 0 at other nodes.

        A forest has an order of codes, and asks for numbers alone.
        """
        return np.where(self.feature >= 0, sizes.take(self.feature, mode="clip"), 0) * boosted

    def check(self, sizes: Ints, *, boosted: bool) -> None:
        """A FileFormatError where these are not trees over columns of these sizes."""
        inner, n_nodes = self.feature >= 0, len(self.feature)
        levels = self.levels_at(sizes, boosted=boosted)
        levels = levels[levels > 0]
        n_inner, n_named = int(inner.sum()), len(levels)
        counts = len(self.right), len(self.hole), len(self.threshold), len(self.left_levels)
        leaves = (-HUGE, HUGE) if boosted else (0.0, 1.0)
        if not (
            _between(self.feature, -1, len(sizes) - 1)
            and _between(self.sizes, 1, n_nodes)
            and len(self.sizes) > 0
            and self.sizes.sum() == n_nodes
            and counts == (n_inner, n_inner, n_inner - n_named, n_named)
            and len(self.value) == n_nodes - n_inner
            and _between(self.right, 1, n_nodes)
            and self._has_shape(inner)
            and _between(self.hole, 0, 1)
            and _between(self.threshold, -HUGE, HUGE)
            and _between(self.value, *leaves)
            and _between([self.baseline], -HUGE * boosted, HUGE * boosted)
            and all(map(_rising_below, self.left_levels, levels))
        ):
            raise FileFormatError(f"the trees do not fit together: {ALTERED}")

    def _has_shape(self, inner: Bools) -> bool:
        """Whether every node but the first of a tree is the child of one node before it."""
        parent = np.flatnonzero(inner)
        child = np.concatenate([parent + 1, parent + self.right])
        tree = np.repeat(np.arange(len(self.sizes)), self.sizes)
        expected = np.ones(len(inner), np.int64)
        expected[np.cumsum(self.sizes) - self.sizes] = 0
        parents = np.bincount(child, minlength=len(inner))
        return np.array_equal(parents, expected) and bool(
            (tree[child] == np.tile(tree[inner], 2)).all()
        )


def _between(numbers: Any, least: float, most: float) -> bool:
    """Whether a row of numbers is within limits; NaN is not."""
    found = np.asarray(numbers)
    return found.ndim == 1 and bool(((found >= least) & (found <= most)).all())


def _rising_below(codes: Ints, n: int) -> bool:
    """Whether these are codes of a category of n levels, each once and in order."""
    return _between(codes, 0, n - 1) and bool((np.diff(codes) > 0).all())


@dataclass(frozen=True, eq=False)
class SavedTrees:
    """Boosted trees or a forest over columns of some sizes.

    Attributes:
        boosted: leaves add up to log odds; otherwise their mean is the probability.
        sizes: of the columns.
        nodes: the trees.
    """

    boosted: bool
    sizes: Ints
    nodes: TreeNodes

    def __post_init__(self) -> None:
        # Kernels do not look where they read.
        self.nodes.check(self.sizes, boosted=self.boosted)

    @cached_property
    def arrays(self) -> tuple[Array, ...]:
        """What the kernel takes of the trees, in its order.

        The first node of each tree, and their number; of each node the column that it asks for, the
        right child, the threshold or the value of a leaf, whether holes go left, and the row of
        the last array if it asks for a category; there, whether each code goes left.
        """
        nodes, inner = self.nodes, self.nodes.feature >= 0
        named = nodes.levels_at(self.sizes, boosted=self.boosted) > 0
        right, hole = np.zeros(len(inner), np.uint32), np.zeros(len(inner), np.uint8)
        number, level_set = np.zeros(len(inner)), np.full(len(inner), -1, np.int32)
        right[inner] = np.flatnonzero(inner) + nodes.right
        hole[inner] = nodes.hole
        number[inner & ~named], number[~inner] = nodes.threshold, nodes.value
        level_set[named] = np.arange(len(nodes.left_levels))
        goes_left = np.zeros((len(nodes.left_levels), int(self.sizes.max(initial=1))), np.uint8)
        for row, codes in zip(goes_left, nodes.left_levels, strict=True):
            row[codes] = 1
        start = np.append(0, np.cumsum(nodes.sizes))
        feature = nodes.feature.astype(np.int32)
        every = start, feature, right, number, hole, level_set, goes_left
        return tuple(readonly(part) for part in every)

    def probability(self, matrix: Floats) -> Floats:
        """P(second class) of each row."""
        from scipy.special import expit

        from fairpc.learners._kernels import leaf_sums

        total = np.full(len(matrix), self.nodes.baseline)

        def work(first: int) -> None:
            rows = slice(first, first + CHUNK)
            # A forest compares numbers with thresholds in single precision.
            compared = matrix[rows] if self.boosted else matrix[rows].astype(np.float32)
            compared = readonly(np.ascontiguousarray(compared, np.float64))
            given = compared, *self.arrays, total[rows]
            leaf_sums(*given)

        for _ in map_in_order(work, range(0, len(matrix), CHUNK)):
            pass
        return np.asarray(expit(total)) if self.boosted else total / len(self.nodes.sizes)

    def to_dict(self) -> dict[str, Any]:
        """The nodes, for a file."""
        return dict(serialise(self.nodes.__dict__))

    @classmethod
    def from_dict(cls, data: Any, sizes: Ints, *, boosted: bool) -> Self:
        """The trees of a file."""
        nodes = record(TreeNodes, data, "the trees", exact=True, repair=ALTERED)
        return cls(boosted, sizes, nodes)


@dataclass(frozen=True, eq=False)
class Opaque:
    """A classifier whose inside is not what this module knows: it is asked, and not saved."""

    learner: Any

    def probability(self, matrix: Floats) -> Floats:
        """P(second class) of each row."""
        return np.asarray(self.learner.predict_proba(matrix)[:, 1], np.float64)

    def to_dict(self) -> dict[str, Any]:
        raise LearningError(
            f"the {type(self.learner).__name__} is not built as those that fairpc can write to a "
            "file: fit it with another version of scikit-learn"
        )


Learned = SavedLinear | SavedTrees | Opaque


def learn_linear(matrix: Floats, sizes: Ints, y: Ints, weights: Floats) -> SavedLinear:
    """A ridge logistic regression on standardised numbers, levels and holes."""
    from sklearn.linear_model import LogisticRegression

    learner = LogisticRegression(C=PENALTY, tol=1e-6, max_iter=1000)
    # Threads would wait for each other, and last bits would depend on their number.
    with one_thread():
        design = Design.of(matrix, sizes, weights)
        learner.fit(design.columns, y, weights)
    coefficients = learner.coef_[0].astype(np.float64)
    return SavedLinear.of(design, sizes, float(learner.intercept_[0]), coefficients)


def learn_boosting(
    matrix: Floats, sizes: Ints, y: Ints, weights: Floats, seed: int, edges: Edges | None = None
) -> SavedTrees:
    """Boosted trees of labels that nothing altered."""
    labels = AlteredLabels.of(y, weights, np.zeros_like(y), np.eye(2)[None])
    known = edges_of(matrix, sizes) if edges is None else edges
    return corrected_boosting(matrix, sizes, labels, seed, known)


def learn_forest(
    matrix: Floats, sizes: Ints, y: Ints, weights: Floats, seed: int
) -> SavedTrees | Opaque:
    """A random forest with leaves of some rows; codes have an order, that of their label rates."""
    from sklearn.ensemble import RandomForestClassifier

    learner = RandomForestClassifier(
        N_TREES,
        min_samples_leaf=max(LEAF_ROWS, -(-len(y) // MOST_LEAVES)),
        max_features="sqrt",
        max_samples=DRAWN_ROWS if len(y) > DRAWN_ROWS else None,
        n_jobs=thread_count(None),
        random_state=seed,
    )
    learner.fit(matrix, y, None if (weights == 1).all() else weights)
    return _verified(learner, matrix, sizes)


def _verified(learner: Any, matrix: Floats, sizes: Ints) -> SavedTrees | Opaque:
    """The trees of a learner if they say what it says, else the learner itself."""
    some, opaque = matrix[:: -(-len(matrix) // CHECKED_ROWS)], Opaque(learner)
    try:
        trees = SavedTrees(False, sizes, _forest_nodes(learner))
    except _ANOTHER_SHAPE:
        return opaque
    off = np.abs(trees.probability(some) - opaque.probability(some))
    return trees if (off <= AGREEMENT).all() else opaque


def _forest_nodes(learner: Any) -> TreeNodes:
    trees = [estimator.tree_ for estimator in learner.estimators_]
    n_nodes = [tree.node_count for tree in trees]

    def joined(name: str) -> Array:
        return np.concatenate([np.asarray(getattr(tree, name)) for tree in trees])

    left, counts = joined("children_left"), joined("value")[:, 0, :]
    inner = left >= 0
    # Children are numbered within their tree.
    own = np.concatenate([np.arange(n) for n in n_nodes])[inner]
    if not (left[inner] == own + 1).all():
        raise ValueError("the nodes are in another order")
    return TreeNodes(
        0.0,
        np.array(n_nodes),
        np.where(inner, joined("feature"), -1),
        joined("children_right").astype(np.int64)[inner] - own,
        joined("missing_go_to_left")[inner].astype(np.int64),
        # A split of known from missing values is at infinity, for which JSON has no word.
        np.clip(joined("threshold")[inner], -10 * LARGEST, 10 * LARGEST),
        (),
        (counts[:, 1] / counts.sum(axis=1))[~inner],
    )


def corrected_linear(matrix: Floats, sizes: Ints, labels: AlteredLabels) -> SavedLinear:
    """Linear log odds of Df in standardised numbers, levels and holes."""
    with one_thread():
        design = Design.of(matrix, sizes, labels.weights)
        found = LinearOdds.learned(design.columns, labels)
    return SavedLinear.of(design, sizes, found.base, found.coefficients)


def corrected_boosting(
    matrix: Floats,
    sizes: Ints,
    labels: AlteredLabels,
    seed: int,
    edges: Edges,
    n_rounds: int | None = None,
) -> SavedTrees:
    """Boosted trees of the log odds of Df: numbers are binned, divided bins are thresholds."""
    codes = np.column_stack([bin_codes(c, own) for c, own in zip(matrix.T, edges, strict=True)])
    n_bins = [0 if own is None else len(own) + 1 for own in edges]
    rng = np.random.default_rng(seed)
    boosted = BoostedOdds.learned(codes, labels, sizes + n_bins, sizes > 0, rng, n_rounds)
    content: dict[str, Any] = {part.name: [] for part in fields(TreeNodes)}
    for tree in zip(*boosted.trees, strict=True):
        _append(content, Divisions(*tree), boosted.start, edges)
    content["baseline"] = boosted.base
    return SavedTrees.from_dict(content, sizes, boosted=True)


def _append(content: dict[str, Any], tree: Divisions, start: Ints, edges: Edges) -> None:
    """Add a tree of bins to a content: what stays in a leaf is on the left."""
    first = len(content["feature"])

    def grow(leaf: int, after: int) -> None:
        node = len(content["feature"])
        here = np.flatnonzero(tree.divided[after:, 0] == leaf)
        if not len(here):
            content["feature"].append(-1)
            content["value"].append(float(tree.values[leaf]))
            return
        k = after + int(here[0])
        column = int(tree.divided[k, 1])
        *stays, hole = tree.stays[k, start[column] : start[column + 1]].tolist()
        content["feature"].append(column)
        content["hole"].append(int(hole))
        own = edges[column]
        if own is None:
            content["left_levels"].append(np.flatnonzero(stays).tolist())
        else:
            # Beyond all numbers where only what is missing does not stay.
            last = sum(stays) - 1
            content["threshold"].append(float(own[last]) if last < len(own) else 10 * LARGEST)
        place = len(content["right"])
        content["right"].append(0)
        grow(leaf, k + 1)
        content["right"][place] = len(content["feature"]) - node
        grow(k + 1, k + 1)

    grow(0, 0)
    content["sizes"].append(len(content["feature"]) - first)
