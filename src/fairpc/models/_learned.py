"""What plain classifiers have learned, as arrays: coefficients, or trees.

scikit-learn learns; what it learned is read out once, compared with what its own object says of
training rows, and evaluated here ever after. So a model gives the same bits before it is saved and
after it is loaded, and a file holds numbers and nothing that could be executed.

Every learner takes one matrix, rows × columns: numbers as they are, booleans as 0 and 1, categories
as codes from 0 on; NaN = missing. ``sizes`` says how many codes a column has, 0 for numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from fairpc.core import (
    Array,
    Bools,
    Bytes,
    Floats,
    Int32s,
    Ints,
    LearningError,
    map_in_order,
    thread_count,
)
from fairpc.data import Record, readonly

LARGEST: Final = 1e30
"""Numbers beyond this count as this: a forest compares, and sums up, in single precision."""
FURTHEST: Final = 1e6
"""Standard deviations from the mean beyond which a number counts as no farther."""
PENALTY: Final = 0.3
"""Inverse strength of the ridge penalty of a logistic regression."""
EARLY_ROWS: Final = 1000
"""Rows from which boosting holds some out to find when to stop."""
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
_HUGE: Final = 1e100
"""Coefficients and leaves of a file are smaller: their sums must be finite."""

_KERNEL_FIELDS: Final = ("start", "feature", "right", "number", "hole", "level_set", "goes_left")
_TREE_NAMES: Final = "baseline sizes feature right hole threshold left_levels value"
_TREE_FIELDS: Final = frozenset(_TREE_NAMES.split())
_ANOTHER_SHAPE: Final = (AttributeError, LookupError, TypeError, ValueError)
"""What reading a private attribute raises that another scikit-learn has in another shape."""


@dataclass(frozen=True, eq=False)
class Linear:
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

    def probability(self, matrix: Floats) -> Floats:
        """P(second class) of each row."""
        total = np.full(len(matrix), self.intercept)
        for j, (column, effect) in enumerate(zip(matrix.T, self.effect, strict=True)):
            hidden = np.isnan(column)
            if len(effect):
                told = effect[np.where(hidden, 0.0, column).astype(np.intp)]
            else:
                told = self.slope[j] * _standardised(column, self.mean[j], self.scale[j])
            total += np.where(hidden, self.hole[j], told)
        return np.asarray(expit(total))

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, for a file."""
        return {
            "intercept": self.intercept,
            **{name: getattr(self, name).tolist() for name in ("slope", "mean", "scale", "hole")},
            "effect": [effect.tolist() for effect in self.effect],
        }

    @classmethod
    def from_dict(cls, data: Any, sizes: Ints) -> Self:
        """The coefficients of a file, for columns of these sizes."""
        names = ("intercept", "slope", "mean", "scale", "hole", "effect")
        record = Record(data, "the logistic regression", names)
        parts = {
            name: _numbers(record, name, len(sizes)) for name in ("slope", "mean", "scale", "hole")
        }
        if not (parts["scale"] > 0).all():
            raise record.error("scale", "a list of positive numbers")
        effect = tuple(
            _numbers(Record({"effect": some}, record.what, ("effect",)), "effect", int(size))
            for some, size in zip(_items(record, "effect", len(sizes)), sizes, strict=True)
        )
        intercept = record.number("intercept")
        if abs(intercept) > _HUGE:
            raise record.error("intercept", f"at most {_HUGE:g}")
        return cls(intercept=intercept, effect=effect, **parts)


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosted trees or a forest, their nodes in preorder: the left child of a node is the next.

    Attributes:
        boosted: leaves add up to log odds; otherwise their mean is the probability.
        baseline: log odds to which boosted leaves are added.
        start: first node of each tree, and the number of nodes.
        feature: column that a node asks for, -1 in a leaf.
        right: right child of an inner node.
        number: threshold up to which a number goes left; value of a leaf.
        hole: whether what is missing goes left.
        level_set: row of ``goes_left`` for a node that asks for a category, else -1.
        goes_left: whether a code goes left, sets × codes.
    """

    boosted: bool
    baseline: float
    start: Ints
    feature: Int32s
    right: npt.NDArray[np.uint32]
    number: Floats
    hole: Bytes
    level_set: Int32s
    goes_left: Bytes

    @cached_property
    def _known(self) -> list[Array]:
        """What the kernel takes of the trees, in its order."""
        return [readonly(getattr(self, name)) for name in _KERNEL_FIELDS]

    def probability(self, matrix: Floats) -> Floats:
        """P(second class) of each row."""
        from fairpc.models import _learned_kernels as _kernels

        kernels: Any = _kernels
        total = np.full(len(matrix), self.baseline)

        def work(first: int) -> None:
            rows = slice(first, first + CHUNK)
            kernels.leaf_sums(readonly(self._compared(matrix[rows])), *self._known, total[rows])

        for _ in map_in_order(work, range(0, len(matrix), CHUNK)):
            pass
        return np.asarray(expit(total)) if self.boosted else total / (len(self.start) - 1)

    def _compared(self, matrix: Floats) -> Floats:
        """Numbers as they are compared with thresholds: a forest has them in single precision."""
        rounded = matrix if self.boosted else matrix.astype(np.float32)
        return np.ascontiguousarray(rounded, np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, for a file: of all nodes, of inner ones, of those of a kind, of leaves."""
        inner, named = self.feature >= 0, self.level_set >= 0
        return {
            "baseline": self.baseline,
            "sizes": np.diff(self.start).tolist(),
            "feature": self.feature.tolist(),
            "right": (self.right - np.arange(len(inner)))[inner].tolist(),
            "hole": self.hole[inner].tolist(),
            "threshold": self.number[inner & ~named].tolist(),
            "left_levels": [np.flatnonzero(some).tolist() for some in self.goes_left],
            "value": self.number[~inner].tolist(),
        }

    @classmethod
    def from_dict(cls, data: Any, sizes: Ints, *, boosted: bool) -> Self:
        """The trees of a file, over columns of these sizes."""
        record = Record(data, "the trees", _TREE_FIELDS)
        feature = _whole(record, "feature", -1, len(sizes) - 1)
        n_nodes = len(feature)
        start = np.append(0, np.cumsum(_whole(record, "sizes", 1, n_nodes)))
        if len(start) < 2 or start[-1] != n_nodes:
            raise record.error("sizes", "the numbers of nodes of one tree or more")
        inner = feature >= 0
        named = inner & (sizes[feature] > 0) if boosted else np.zeros(n_nodes, np.bool_)
        right, number = np.zeros(n_nodes, np.uint32), np.empty(n_nodes)
        hole, level_set = np.zeros(n_nodes, np.uint8), np.full(n_nodes, -1, np.int32)
        n_inner, n_named = int(inner.sum()), int(named.sum())
        step = _whole(record, "right", 1, n_nodes, n_inner)
        right[inner] = np.flatnonzero(inner) + step
        _check_shape(record, start, inner, right)
        hole[inner] = _whole(record, "hole", 0, 1, n_inner)
        level_set[named] = np.arange(n_named)
        number[inner] = 0.0
        number[inner & ~named] = _numbers(record, "threshold", n_inner - n_named, most=math.inf)
        number[~inner] = _numbers(record, "value", n_nodes - n_inner)
        if not boosted and not ((number[~inner] >= 0) & (number[~inner] <= 1)).all():
            raise record.error("value", "a list of probabilities")
        baseline = record.number("baseline")
        if abs(baseline) > (_HUGE if boosted else 0.0):
            raise record.error("baseline", f"at most {_HUGE:g}, and 0 in a forest")
        goes_left = _level_sets(record, sizes[feature[named]], sizes)
        return cls(
            boosted,
            baseline,
            start,
            feature.astype(np.int32),
            right,
            number,
            hole,
            level_set,
            goes_left,
        )


@dataclass(frozen=True, eq=False)
class Opaque:
    """A classifier whose inside is not what this module knows: it is asked, and not saved."""

    learner: Any

    def probability(self, matrix: Floats) -> Floats:
        """P(second class) of each row."""
        return np.asarray(self.learner.predict_proba(matrix)[:, 1], np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Not possible."""
        import sklearn

        raise LearningError(
            f"the {type(self.learner).__name__} of scikit-learn {sklearn.__version__} is not built "
            "as those that fairpc can write to a file: fit it with another version of scikit-learn"
        )


Learned = Linear | Trees | Opaque


@dataclass(frozen=True, eq=False)
class Design:
    """A matrix as columns of numbers that coefficients go with.

    Attributes:
        columns: of each column in turn the standardised number, or the levels, and the holes.
        mean, scale: of each column of numbers; 0 and 1 of others.
        ends: where the columns of each end.
    """

    columns: Floats
    mean: Floats
    scale: Floats
    ends: Ints

    @classmethod
    def of(cls, matrix: Floats, sizes: Ints, weights: Floats) -> Self:
        mean, scale = _moments(matrix, sizes, weights)
        blocks = []
        for j, (column, size) in enumerate(zip(matrix.T, sizes.tolist(), strict=True)):
            hidden = np.isnan(column)
            if size:
                told = column[:, None] == np.arange(size)
            else:
                told = np.nan_to_num(_standardised(column, mean[j], scale[j]))[:, None]
            blocks.append(np.column_stack([told, hidden]).astype(np.float64))
        ends = np.cumsum([block.shape[1] for block in blocks])
        return cls(np.concatenate(blocks, axis=1), mean, scale, ends)

    def linear(self, sizes: Ints, intercept: float, coefficients: Floats) -> Linear:
        """A logistic regression with these coefficients of the columns."""
        parts = np.split(coefficients, self.ends[:-1])
        each = list(zip(parts, sizes.tolist(), strict=True))
        return Linear(
            intercept=intercept,
            slope=np.array([0.0 if size else part[0] for part, size in each]),
            mean=self.mean,
            scale=self.scale,
            hole=np.array([part[-1] for part in parts]),
            effect=tuple(part[:-1] if size else part[:0] for part, size in each),
        )


def learn_linear(matrix: Floats, sizes: Ints, y: Ints, weights: Floats) -> Linear:
    """A ridge logistic regression on standardised numbers, levels and holes."""
    from sklearn.linear_model import LogisticRegression

    design = Design.of(matrix, sizes, weights)
    learner = LogisticRegression(C=PENALTY, tol=1e-6, max_iter=1000)
    with _one_thread():
        learner.fit(design.columns, y, weights)
    coefficients = learner.coef_[0].astype(np.float64)
    return design.linear(sizes, float(learner.intercept_[0]), coefficients)


def learn_boosting(
    matrix: Floats, sizes: Ints, y: Ints, weights: Floats, seed: int
) -> Trees | Opaque:
    """Gradient boosting by histograms, regularised: a score is to be calibrated, not sharp."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    # Of each class one row at least is held out, and one is not.
    early = len(y) >= EARLY_ROWS and bool((np.bincount(y, minlength=2) > 1).all())
    learner = HistGradientBoostingClassifier(
        learning_rate=0.08,
        max_iter=200 if early else 40,
        max_leaf_nodes=12,
        # Small tables must be split at all.
        min_samples_leaf=40 if early else min(10, max(1, len(y) // 20)),
        l2_regularization=5.0,
        max_features=0.5,
        early_stopping=early,
        n_iter_no_change=8,
        categorical_features=sizes > 0 if sizes.any() else None,
        random_state=seed,
    )
    with _one_thread():
        learner.fit(matrix, y, None if (weights == 1).all() else weights)
        return _verified(learner, _boosted, matrix, sizes)


def learn_forest(
    matrix: Floats, sizes: Ints, y: Ints, weights: Floats, seed: int
) -> Trees | Opaque:
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
    return _verified(learner, _grown, matrix, sizes)


def _verified(
    learner: Any, read: Callable[[Any, Ints], Trees], matrix: Floats, sizes: Ints
) -> Trees | Opaque:
    """The trees of a learner if they say what it says, else the learner itself."""
    some, opaque = matrix[:: -(-len(matrix) // CHECKED_ROWS)], Opaque(learner)
    try:
        found = read(learner, sizes)
        # The kernel does not check where it reads: trees from outside are checked, these too.
        trees = Trees.from_dict(found.to_dict(), sizes, boosted=found.boosted)
    except _ANOTHER_SHAPE:
        return opaque
    off = np.abs(trees.probability(some) - opaque.probability(some))
    return trees if (off <= AGREEMENT).all() else opaque


def _boosted(learner: Any, sizes: Ints) -> Trees:
    """The trees of gradient boosting; it has the categories first, and each code as its own."""
    place = np.argsort(sizes == 0, kind="stable")
    trees = [predictor for (predictor,) in learner._predictors]
    nodes = np.concatenate([tree.nodes for tree in trees])
    leaf, named = nodes["is_leaf"] != 0, _named(nodes)
    words = [
        tree.raw_left_cat_bitsets[tree.nodes["bitset_idx"][_named(tree.nodes)]] for tree in trees
    ]
    bits = np.concatenate(words).astype("<u4").view(np.uint8)
    most = int(sizes.max(initial=1))
    goes_left = np.unpackbits(bits, axis=1, bitorder="little")[:, :most]
    threshold = np.where(named, 0.0, nodes["num_threshold"])
    return preorder(
        [len(tree.nodes) for tree in trees],
        np.where(leaf, -1, place[np.where(leaf, 0, nodes["feature_idx"])]),
        nodes["left"],
        nodes["right"],
        number=np.where(leaf, nodes["value"], threshold),
        hole=nodes["missing_go_to_left"],
        named=named,
        goes_left=goes_left,
        baseline=float(np.asarray(learner._baseline_prediction).item()),
        boosted=True,
    )


def _named(nodes: Array) -> Bools:
    """Which nodes of boosting ask for a category."""
    return np.asarray((nodes["is_categorical"] != 0) & (nodes["is_leaf"] == 0))


def _grown(learner: Any, sizes: Ints) -> Trees:
    """The trees of a random forest."""
    trees = [estimator.tree_ for estimator in learner.estimators_]

    def joined(name: str) -> Array:
        return np.concatenate([np.asarray(getattr(tree, name)) for tree in trees])

    left, counts = joined("children_left"), joined("value")[:, 0, :]
    leaf = left < 0
    value = counts[:, 1] / counts.sum(axis=1)
    return preorder(
        [tree.node_count for tree in trees],
        np.where(leaf, -1, joined("feature")),
        left,
        joined("children_right"),
        number=np.where(leaf, value, joined("threshold")),
        hole=joined("missing_go_to_left"),
        named=np.zeros(len(leaf), np.bool_),
        goes_left=np.zeros((0, 1), np.uint8),
        baseline=0.0,
        boosted=False,
    )


def preorder(
    sizes: list[int],
    feature: Array,
    left: Array,
    right: Array,
    *,
    number: Floats,
    hole: Array,
    named: Bools,
    goes_left: Array,
    baseline: float,
    boosted: bool,
) -> Trees:
    """Trees whose children are numbered within each, the left child after its parent."""
    start = np.append(0, np.cumsum(sizes))
    inner = feature >= 0
    own = np.arange(len(feature)) - np.repeat(start[:-1], sizes)
    if not (left[inner] == own[inner] + 1).all():
        raise ValueError("the nodes are in another order")
    shifted = np.where(inner, right.astype(np.int64) + np.repeat(start[:-1], sizes), 0)
    level_set = np.where(named, np.cumsum(named) - 1, -1)
    return Trees(
        boosted,
        baseline,
        start.astype(np.int64),
        feature.astype(np.int32),
        shifted.astype(np.uint32),
        # A split of known from missing values is at infinity, for which JSON has no word.
        np.clip(number.astype(np.float64), -10 * LARGEST, 10 * LARGEST),
        np.where(inner, hole, 0).astype(np.uint8),
        level_set.astype(np.int32),
        np.ascontiguousarray(goes_left, np.uint8),
    )


def _moments(matrix: Floats, sizes: Ints, weights: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column of numbers; 0 and 1 of others."""
    known = ~np.isnan(matrix) & (sizes == 0)
    filled, mass = np.where(known, matrix, 0.0), np.maximum(weights @ known, 1e-300)
    mean = weights @ filled / mass
    spread = np.sqrt(weights @ np.where(known, (matrix - mean) ** 2, 0.0) / mass)
    return mean, np.where(spread > 0, spread, 1.0)


def _standardised(column: Floats, mean: float, scale: float) -> Floats:
    with np.errstate(over="ignore"):
        return np.clip((column - mean) / scale, -FURTHEST, FURTHEST)


def _one_thread() -> Any:
    # Boosting spins where other work waits for the cores.
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(1, user_api="openmp")


def _items(record: Record, field: str, size: int) -> list[Any]:
    items = record.items(field)
    if len(items) != size:
        raise record.error(field, f"a list of {size:,}")
    return items


def _numbers(record: Record, field: str, size: int, most: float = _HUGE) -> Floats:
    """Finite numbers of a file, no larger than sums can bear."""
    _items(record, field, size)
    values = np.array(record.numbers(field), np.float64)
    if (np.abs(values) > most).any():
        raise record.error(field, f"a list of numbers of at most {most:g}")
    return values


def _whole(record: Record, field: str, least: int, most: int, size: int | None = None) -> Ints:
    """Whole numbers of a file, in their range."""
    items = record.items(field) if size is None else _items(record, field, size)
    if not set(map(type, items)) <= {int} or not all(least <= item <= most for item in items):
        raise record.error(field, f"a list of whole numbers from {least} to {most:,}")
    return np.array(items, np.int64)


def _check_shape(record: Record, start: Ints, inner: Bools, right: Array) -> None:
    """Every node but the first of a tree is the child of one node, which stands before it."""
    child = np.concatenate([np.flatnonzero(inner) + 1, right[inner]])
    tree = np.repeat(np.arange(len(start) - 1), np.diff(start))
    parents = np.bincount(child, minlength=len(inner))
    expected = np.ones(len(inner), np.int64)
    expected[start[:-1]] = 0
    within = len(parents) == len(inner) and (parents == expected).all()
    if not within or (tree[child] != np.tile(tree[inner], 2)).any():
        raise record.error("right", "distances to right children, each node having one parent")


def _level_sets(record: Record, codes: Ints, sizes: Ints) -> Bytes:
    """Which codes go left in the nodes of a file that ask for a category of so many codes."""
    goes_left = np.zeros((len(codes), int(sizes.max(initial=1))), np.uint8)
    for row, some, size in zip(
        goes_left, _items(record, "left_levels", len(codes)), codes.tolist(), strict=True
    ):
        inside = Record({"left_levels": some}, record.what, ("left_levels",))
        left = _whole(inside, "left_levels", 0, size - 1)
        if (np.diff(left) <= 0).any():
            raise inside.error("left_levels", "a list of rising numbers")
        row[left] = 1
    return goes_left
