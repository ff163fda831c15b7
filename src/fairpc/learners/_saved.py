"""Classifiers of two classes as numbers that a file can hold: coefficients, or trees.

scikit-learn learns D; what it learned is read out once, compared with what its own object says of
training rows, and evaluated here ever after. So a model gives the same bits before it is saved and
after it is loaded, and a file holds numbers and nothing that could be executed. Df behind altered
labels is learned by our own learners and kept in the same form.

Every learner takes a matrix and its sizes (see ``_design``). Trees are always built from their
content as a file has it, by ``SavedTrees.from_dict``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from fairpc.core import (
    ALTERED,
    Array,
    Bools,
    Bytes,
    Codes,
    FileFormatError,
    Floats,
    Int32s,
    Ints,
    LearningError,
    map_in_order,
    thread_count,
)
from fairpc.data import readonly
from fairpc.learners._boosting import BoostedOdds, Divisions
from fairpc.learners._cross_fit import one_thread
from fairpc.learners._design import LARGEST, Design, standardised
from fairpc.learners._linear import AlteredLabels, LinearOdds

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
BINS: Final = 64
"""Bins of a column of numbers, about, where it has more values: for boosting of Df."""
CHECKED_ROWS: Final = 500
AGREEMENT: Final = 1e-9
"""Training rows on which scikit-learn's answer is compared with ours, and how near it must be."""
CHUNK: Final = 16_384
"""Rows that the kernel is given at once."""
_HUGE: Final = 1e100
"""Coefficients and leaves of a file are smaller: their sums must be finite."""

_NUMBER_FIELDS: Final = ("slope", "mean", "scale", "hole")
_KERNEL_FIELDS: Final = ("start", "feature", "right", "number", "hole", "level_set", "goes_left")
_TREE_FIELDS: Final = frozenset(
    ("baseline", "sizes", "feature", "right", "hole", "threshold", "left_levels", "value")
)
_ANOTHER_SHAPE: Final = (AttributeError, LookupError, TypeError, ValueError)
"""What reading a private attribute raises that another scikit-learn has in another shape."""


@dataclass(frozen=True)
class _Fields:
    """An object of a file, which has these fields and no others."""

    data: Mapping[str, Any]
    what: str
    names: Collection[str]

    def __post_init__(self) -> None:
        if not isinstance(self.data, dict) or set(self.data) != set(self.names):
            raise FileFormatError(f"{self.what} has missing or unknown fields: {ALTERED}")

    def error(self, field: str, rule: str) -> FileFormatError:
        return FileFormatError(f"{field!r} of {self.what} must be {rule}")

    def items(self, field: str) -> list[Any]:
        items = self.data[field]
        if not isinstance(items, list):
            raise self.error(field, "a list")
        return items


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
        return {
            "intercept": self.intercept,
            **{name: getattr(self, name).tolist() for name in _NUMBER_FIELDS},
            "effect": [effect.tolist() for effect in self.effect],
        }

    @classmethod
    def from_dict(cls, data: Any, sizes: Ints) -> Self:
        """The coefficients of a file, for columns of these sizes."""
        record = _Fields(data, "the logistic regression", ("intercept", *_NUMBER_FIELDS, "effect"))
        parts = {name: _numbers(record, name, size=len(sizes)) for name in _NUMBER_FIELDS}
        effects = record.items("effect")
        if len(effects) != len(sizes) or not (parts["scale"] > 0).all():
            raise record.error("effect", f"{len(sizes)} lists, beside positive scales")
        effect = tuple(
            _numbers(record, "effect", size=size, items=some)
            for some, size in zip(effects, sizes.tolist(), strict=True)
        )
        (intercept,) = _numbers(record, "intercept", items=[record.data["intercept"]])
        return cls(intercept=float(intercept), effect=effect, **parts)


@dataclass(frozen=True, eq=False)
class SavedTrees:
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
        from scipy.special import expit

        from fairpc.learners._kernels import leaf_sums

        kernel: Any = leaf_sums
        total = np.full(len(matrix), self.baseline)

        def work(first: int) -> None:
            rows = slice(first, first + CHUNK)
            # A forest compares numbers with thresholds in single precision.
            compared = matrix[rows] if self.boosted else matrix[rows].astype(np.float32)
            compared = np.ascontiguousarray(compared, np.float64)
            kernel(readonly(compared), *self._known, total[rows])

        for _ in map_in_order(work, range(0, len(matrix), CHUNK)):
            pass
        return np.asarray(expit(total)) if self.boosted else total / (len(self.start) - 1)

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
        """The trees of a file, over columns of these sizes; kernels do not look where they read."""
        record = _Fields(data, "the trees", _TREE_FIELDS)
        feature = _whole(record, "feature", -1, len(sizes) - 1)
        n_nodes, inner = len(feature), feature >= 0
        start = np.append(0, np.cumsum(_whole(record, "sizes", 1, n_nodes)))
        if len(start) < 2 or start[-1] != n_nodes:
            raise record.error("sizes", "the numbers of nodes of one tree or more")
        named = inner & (sizes[feature] > 0) if boosted else np.zeros(n_nodes, np.bool_)
        n_inner, n_named = int(inner.sum()), int(named.sum())
        right, hole = np.zeros(n_nodes, np.uint32), np.zeros(n_nodes, np.uint8)
        right[inner] = np.flatnonzero(inner) + _whole(record, "right", 1, n_nodes, size=n_inner)
        _check_shape(record, start, inner, right)
        hole[inner] = _whole(record, "hole", 0, 1, size=n_inner)
        number, level_set = np.zeros(n_nodes), np.full(n_nodes, -1, np.int32)
        level_set[named] = np.arange(n_named)
        number[inner & ~named] = _numbers(
            record, "threshold", size=n_inner - n_named, most=sys.float_info.max
        )
        least, most = (-_HUGE, _HUGE) if boosted else (0.0, 1.0)
        number[~inner] = _numbers(record, "value", least, most, size=n_nodes - n_inner)
        most = _HUGE if boosted else 0.0
        (baseline,) = _numbers(record, "baseline", -most, most, items=[record.data["baseline"]])
        goes_left = np.zeros((n_named, int(sizes.max(initial=1))), np.uint8)
        left_levels = record.items("left_levels")
        if len(left_levels) != n_named:
            raise record.error("left_levels", f"a list of {n_named:,}")
        for row, some, column in zip(goes_left, left_levels, feature[named], strict=True):
            codes = _whole(record, "left_levels", 0, int(sizes[column]) - 1, items=some)
            if (np.diff(codes) <= 0).any():
                raise record.error("left_levels", "lists of rising numbers")
            row[codes] = 1
        nodes = feature.astype(np.int32), right, number, hole, level_set, goes_left
        return cls(boosted, float(baseline), start, *nodes)


def _check_shape(record: _Fields, start: Ints, inner: Bools, right: Array) -> None:
    """Every node but the first of a tree is the child of one node, which stands before it."""
    child = np.concatenate([np.flatnonzero(inner) + 1, right[inner]])
    tree = np.repeat(np.arange(len(start) - 1), np.diff(start))
    parents = np.bincount(child, minlength=len(inner))
    expected = np.ones(len(inner), np.int64)
    expected[start[:-1]] = 0
    within = len(parents) == len(inner) and (parents == expected).all()
    if not within or (tree[child] != np.tile(tree[inner], 2)).any():
        raise record.error("right", "distances to right children, each node having one parent")


def _numbers(
    record: _Fields,
    field: str,
    least: float | None = None,
    most: float = _HUGE,
    *,
    size: int | None = None,
    items: Any = None,
    kinds: frozenset[type] = frozenset((int, float)),
) -> Floats:
    """Numbers of a file in their range, by default at most 1e100 on either side."""
    least = -most if least is None else least
    items = record.items(field) if items is None else items
    fine = isinstance(items, list) and set(map(type, items)) <= kinds
    if not fine or (size is not None and len(items) != size):
        raise record.error(field, "a list of numbers" if size is None else f"{size:,} numbers")
    if not all(least <= item <= most for item in items):  # NaN is not
        raise record.error(field, f"numbers from {least:g} to {most:g}")
    return np.array(items, np.float64)


def _whole(
    record: _Fields,
    field: str,
    least: int,
    most: int,
    *,
    size: int | None = None,
    items: Any = None,
) -> Ints:
    """Whole numbers of a file, in their range."""
    found = _numbers(record, field, least, most, size=size, items=items, kinds=frozenset((int,)))
    return found.astype(np.int64)


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


Learned = SavedLinear | SavedTrees | Opaque


def learn_linear(matrix: Floats, sizes: Ints, y: Ints, weights: Floats) -> SavedLinear:
    """A ridge logistic regression on standardised numbers, levels and holes."""
    from sklearn.linear_model import LogisticRegression

    design = Design.of(matrix, sizes, weights)
    learner = LogisticRegression(C=PENALTY, tol=1e-6, max_iter=1000)
    with one_thread("openmp"):
        learner.fit(design.columns, y, weights)
    coefficients = learner.coef_[0].astype(np.float64)
    return SavedLinear.of(design, sizes, float(learner.intercept_[0]), coefficients)


def learn_boosting(
    matrix: Floats, sizes: Ints, y: Ints, weights: Floats, seed: int
) -> SavedTrees | Opaque:
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
    with one_thread("openmp"):
        learner.fit(matrix, y, None if (weights == 1).all() else weights)
        return _verified(learner, _boosted_content, matrix, sizes, boosted=True)


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
    return _verified(learner, _forest_content, matrix, sizes, boosted=False)


def _verified(
    learner: Any,
    content: Callable[[Any, Ints], dict[str, Any]],
    matrix: Floats,
    sizes: Ints,
    *,
    boosted: bool,
) -> SavedTrees | Opaque:
    """The trees of a learner if they say what it says, else the learner itself."""
    some, opaque = matrix[:: -(-len(matrix) // CHECKED_ROWS)], Opaque(learner)
    try:
        trees = SavedTrees.from_dict(content(learner, sizes), sizes, boosted=boosted)
    except _ANOTHER_SHAPE:
        return opaque
    off = np.abs(trees.probability(some) - opaque.probability(some))
    return trees if (off <= AGREEMENT).all() else opaque


def _boosted_content(learner: Any, sizes: Ints) -> dict[str, Any]:
    """Gradient boosting; it has the categories first, and each code as its own."""
    place = np.argsort(sizes == 0, kind="stable")
    trees = [predictor for (predictor,) in learner._predictors]
    nodes = np.concatenate([tree.nodes for tree in trees])
    leaf = nodes["is_leaf"] != 0
    named = (nodes["is_categorical"] != 0) & ~leaf
    n_sets = np.cumsum([0] + [len(tree.raw_left_cat_bitsets) for tree in trees[:-1]])
    first = np.repeat(n_sets, [len(tree.nodes) for tree in trees])
    words = np.concatenate([tree.raw_left_cat_bitsets for tree in trees])
    bits = words[(first + nodes["bitset_idx"])[named]].astype("<u4").view(np.uint8)
    levels = np.unpackbits(bits, axis=1, bitorder="little")[:, : int(sizes.max(initial=1))]
    return _content(
        [len(tree.nodes) for tree in trees],
        np.where(leaf, -1, place[np.where(leaf, 0, nodes["feature_idx"])]),
        nodes["left"],
        nodes["right"],
        number=np.where(leaf, nodes["value"], nodes["num_threshold"]),
        hole=nodes["missing_go_to_left"],
        named=named,
        left_levels=[np.flatnonzero(some).tolist() for some in levels],
        baseline=float(np.asarray(learner._baseline_prediction).item()),
    )


def _forest_content(learner: Any, sizes: Ints) -> dict[str, Any]:
    trees = [estimator.tree_ for estimator in learner.estimators_]

    def joined(name: str) -> Array:
        return np.concatenate([np.asarray(getattr(tree, name)) for tree in trees])

    left, counts = joined("children_left"), joined("value")[:, 0, :]
    leaf = left < 0
    return _content(
        [tree.node_count for tree in trees],
        np.where(leaf, -1, joined("feature")),
        left,
        joined("children_right"),
        number=np.where(leaf, counts[:, 1] / counts.sum(axis=1), joined("threshold")),
        hole=joined("missing_go_to_left"),
        named=np.zeros(len(leaf), np.bool_),
        left_levels=[],
        baseline=0.0,
    )


def _content(
    sizes: list[int],
    feature: Array,
    left: Array,
    right: Array,
    *,
    number: Floats,
    hole: Array,
    named: Bools,
    left_levels: list[list[int]],
    baseline: float,
) -> dict[str, Any]:
    """Trees whose children are numbered within each, the left one after its parent."""
    inner = feature >= 0
    own = np.concatenate([np.arange(size) for size in sizes])
    if not (left[inner] == own[inner] + 1).all():
        raise ValueError("the nodes are in another order")
    # A split of known from missing values is at infinity, for which JSON has no word.
    thresholds = np.clip(number[inner & ~named], -10 * LARGEST, 10 * LARGEST)
    return {
        "baseline": baseline,
        "sizes": sizes,
        "feature": feature.tolist(),
        "right": (right.astype(np.int64) - own)[inner].tolist(),
        "hole": hole[inner].astype(np.int64).tolist(),
        "threshold": thresholds.tolist(),
        "left_levels": left_levels,
        "value": number[~inner].tolist(),
    }


def corrected_linear(matrix: Floats, sizes: Ints, labels: AlteredLabels) -> SavedLinear:
    """Linear log odds of Df in standardised numbers, levels and holes."""
    design = Design.of(matrix, sizes, labels.weights)
    found = LinearOdds.learned(design.columns, labels)
    return SavedLinear.of(design, sizes, float(found.base[0]), found.coefficients[:, 0])


def corrected_boosting(matrix: Floats, sizes: Ints, labels: AlteredLabels, seed: int) -> SavedTrees:
    """Boosted trees of the log odds of Df: numbers are binned, divided bins are thresholds."""
    edges = [None if size else bin_edges(c) for c, size in zip(matrix.T, sizes, strict=True)]
    codes = np.column_stack([bin_codes(c, own) for c, own in zip(matrix.T, edges, strict=True)])
    n_bins = [0 if own is None else len(own) + 1 for own in edges]
    rng = np.random.default_rng(seed)
    boosted = BoostedOdds.learned(codes, labels, sizes + n_bins, sizes > 0, rng)
    content: dict[str, Any] = {name: [] for name in _TREE_FIELDS}
    for tree in zip(*boosted.trees[0], strict=True):
        _append(content, Divisions(*tree), boosted.start, edges)
    content["baseline"] = float(boosted.base[0])
    return SavedTrees.from_dict(content, sizes, boosted=True)


def bin_edges(column: Floats) -> Floats:
    """Numbers up to which the bins of a column go."""
    known = np.sort(column[~np.isnan(column)])
    values = np.unique(known)
    if len(values) > BINS:
        return np.unique(known[np.arange(1, BINS) * len(known) // BINS])
    return np.asarray((values[:-1] + values[1:]) / 2)


def bin_codes(column: Floats, edges: Floats | None) -> Codes:
    """The bin of each number, -1 where it is missing; codes of levels, without edges, stay."""
    hidden = np.isnan(column)
    known = np.where(hidden, 0.0, column)
    found = known if edges is None else np.searchsorted(edges, known)
    return np.where(hidden, -1, found).astype(np.int16)


def _append(
    content: dict[str, Any], tree: Divisions, start: Ints, edges: list[Floats | None]
) -> None:
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
