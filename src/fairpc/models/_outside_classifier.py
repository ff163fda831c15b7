"""E[f(X, S) | S] of an outside classifier f under a fitted model (paper, Definition 1).

A tree is constant on the box of each leaf, so its expectation is Σ P(box | e) · value, where
P(box | e) is a marginal in which each variable may have some of its values: one upward pass of a
smooth and decomposable circuit. Linear scores are sums over columns, and exact too. Anything else
is averaged over rows drawn from the model, with the standard error of that mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from fairpc.circuit import INDICATOR, PRODUCT, Circuit, refuse_impossible, require
from fairpc.core import (
    Array,
    Bools,
    Codes,
    Floats,
    Ints,
    LearningError,
    Record,
    check_choice,
    check_number,
    counted,
)

Response = Literal["probability", "score"]
N_DRAWS: Final = 10_000
_CHECKED: Final = 200
_AGREEMENT: Final = 1e-6
"""Random rows on which what was read off a classifier is compared with what it says, and how
near it must be; boosting keeps its numbers in 32 bits."""
_MAX_BOXES: Final = 1 << 20
_LINEAR_STEPS: Final = ("OneHotEncoder", "StandardScaler", "MinMaxScaler", "MaxAbsScaler")
"""Steps of a pipeline that treat each column by itself, so that a linear score stays a sum."""
CELLS: Final = 1 << 22
"""Node values that are held at once."""


@dataclass(frozen=True, eq=False)
class ExpectedPrediction(Record):
    """E[f(X, S) | S = s] of a classifier f, one number per group.

    Attributes:
        groups: the groups.
        means: the expectations, in this order.
        errors: their standard errors; zeros where the expectations are exact.
        exact: whether they are.
        how: how they were computed, in words.
    """

    groups: tuple[Any, ...]
    means: Floats
    errors: Floats
    exact: bool
    how: str

    _computed = ("gap", "gap_error")

    @property
    def gap(self) -> float:
        """Mean of the last group minus mean of the first: what Definition 1 wants to be zero."""
        return float(self.means[-1] - self.means[0])

    @property
    def gap_error(self) -> float:
        """Standard error of the gap; groups are drawn apart."""
        return float(np.hypot(self.errors[-1], self.errors[0]))


@dataclass(frozen=True, eq=False)
class Additive:
    """A constant plus a number per column and value."""

    constant: float
    tables: tuple[Floats, ...]

    def __call__(self, codes: Ints) -> Floats:
        parts = [table[column] for table, column in zip(self.tables, codes.T, strict=True)]
        result: Floats = self.constant + np.sum(parts, axis=0)
        return result


@dataclass(frozen=True, eq=False)
class ClassifierResponse:
    """What a classifier says of rows of codes: a probability of one class, or its score."""

    classifier: Any
    response: Response
    positive: Any

    def __call__(self, codes: Ints) -> Floats:
        rows = np.asarray(codes, np.float64)
        try:
            if self.response == "probability" and hasattr(self.classifier, "predict_proba"):
                return np.asarray(self.classifier.predict_proba(rows))[:, self.column]
            if self.response == "score" and hasattr(self.classifier, "decision_function"):
                score = np.asarray(self.classifier.decision_function(rows), np.float64)
                if score.ndim == 1:
                    return score if self.column == 1 else -score
                return score[:, self.column]
            return np.asarray(self.classifier.predict(rows), np.float64).reshape(len(rows))
        except ValueError as error:
            raise LearningError(
                f"the classifier refuses rows of codes ({error}): train it on the columns that "
                "encode gives, and let it take every value of them"
            ) from error

    @property
    def column(self) -> int:
        """Of the class that is asked for; the last by default."""
        classes = getattr(self.classifier, "classes_", None)
        if classes is None:
            return 1
        known = list(np.asarray(classes).tolist())
        if self.positive is None:
            return len(known) - 1
        if self.positive not in known:
            raise LearningError(
                f"the classifier has no class {self.positive!r}: positive is one of "
                f"{', '.join(map(repr, known))}"
            )
        return known.index(self.positive)


def expected_prediction(
    circuit: Circuit,
    classifier: Any,
    inputs: Sequence[int],
    evidence: Codes,
    groups: tuple[Any, ...],
    *,
    response: Response = "probability",
    positive: Any = None,
    n_draws: int = N_DRAWS,
    random_state: int | None = None,
) -> ExpectedPrediction:
    """The expectation for each row of evidence, one per group; ``inputs`` are f's variables."""
    check_choice("response", response, ("probability", "score"))
    check_number("n_draws", n_draws, 2)
    answers = ClassifierResponse(classifier, response, positive)
    sizes = [int(circuit.arities[j]) for j in inputs]
    read = read_function(answers, sizes)
    nothing = np.zeros(len(evidence))
    if isinstance(read, Boxes):
        means = expected_boxes(circuit, read, inputs, evidence)
        how = f"exact: a sum over {counted(len(read.value), 'box', 'boxes')} of trees"
        return ExpectedPrediction(groups, means, nothing, True, how)
    if isinstance(read, Additive):
        tables = dict(zip(inputs, read.tables, strict=True))
        means = read.constant + circuit.expectation_of_sum(tables, evidence)
        return ExpectedPrediction(groups, means, nothing, True, "exact: a sum over columns")
    rng = np.random.default_rng(random_state)
    drawn = [circuit.sample_given(np.repeat(row[None], n_draws, 0), rng) for row in evidence]
    said = [answers(codes[:, list(inputs)].astype(np.int64)) for codes in drawn]
    means = np.array([each.mean() for each in said])
    errors = np.array([each.std(ddof=1) / np.sqrt(n_draws) for each in said])
    how = f"a mean over {n_draws:,} rows drawn from each group"
    return ExpectedPrediction(groups, means, errors, False, how)


def read_function(answers: ClassifierResponse, sizes: Sequence[int]) -> Boxes | Additive | None:
    """What a classifier says as a sum over boxes or columns; None where it is neither.

    What is read off is compared with the classifier on random rows, and given up if it differs.
    """
    function = _boxes_of(answers, sizes) or _additive_of(answers, sizes)
    if function is None:
        return None
    rng = np.random.default_rng(0)
    some = np.column_stack([rng.integers(size, size=_CHECKED) for size in sizes])
    said = answers(some)
    if isinstance(function, Boxes):
        # A constant that all rows share, such as the start of boosting, is a box of its own.
        shift = float(np.median(said - function(some)))
        everything = tuple(
            np.vstack([box, np.ones((1, box.shape[1]), np.bool_)]) for box in function.allowed
        )
        function = Boxes(everything, np.append(function.value, shift))
    scale = max(float(np.abs(said).max()), 1.0)
    return function if np.abs(function(some) - said).max() <= _AGREEMENT * scale else None


def _boxes_of(answers: ClassifierResponse, sizes: Sequence[int]) -> Boxes | None:
    """The boxes of trees whose sum the answers are, up to a constant."""
    model = answers.classifier
    # A probability of boosting is a nonlinear function of a sum of trees: no sum itself.
    nonlinear = answers.response == "probability" and hasattr(model, "predict_proba")
    if hasattr(model, "_predictors"):
        if nonlinear or any(len(trees) != 1 for trees in model._predictors):
            return None
        parts = [_hist_boxes(tree, sizes) for (tree,) in model._predictors]
        sign = 1.0 if answers.column == 1 else -1.0
    elif hasattr(model, "estimators_") and hasattr(model, "learning_rate"):
        if nonlinear or np.shape(model.estimators_)[1:] != (1,):
            return None
        trees = [tree.tree_ for tree in model.estimators_[:, 0]]
        parts = [_tree_boxes(tree, tree.value[:, 0, 0], sizes) for tree in trees]
        sign = float(model.learning_rate) * (1.0 if answers.column == 1 else -1.0)
    elif hasattr(model, "tree_"):
        parts, sign = [_single_tree_boxes(model, answers, sizes)], 1.0
    elif hasattr(model, "estimators_") and all(hasattr(t, "tree_") for t in model.estimators_):
        parts = [_single_tree_boxes(tree, answers, sizes) for tree in model.estimators_]
        sign = 1.0 / len(model.estimators_)
    else:
        return None
    if not parts or sum(len(part.value) for part in parts) > _MAX_BOXES:
        return None
    allowed = tuple(np.concatenate(each) for each in zip(*(p.allowed for p in parts), strict=True))
    return Boxes(allowed, sign * np.concatenate([part.value for part in parts]))


def _single_tree_boxes(tree: Any, answers: ClassifierResponse, sizes: Sequence[int]) -> Boxes:
    """A single tree, or one of a forest: shares of the class, or means."""
    value = np.asarray(tree.tree_.value)[:, 0, :]
    if hasattr(answers.classifier, "classes_"):
        value = (value / value.sum(axis=1, keepdims=True))[:, answers.column]
    else:
        value = value[:, 0]
    return _tree_boxes(tree.tree_, value, sizes)


def _tree_boxes(tree: Any, value: Floats, sizes: Sequence[int]) -> Boxes:
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)

    def goes_left(node: int) -> Bools:
        below: Bools = np.arange(sizes[tree.feature[node]]) <= tree.threshold[node]
        return below

    return _leaves(value, left, right, np.asarray(tree.feature), goes_left, sizes)


def _hist_boxes(tree: Any, sizes: Sequence[int]) -> Boxes:
    """A tree of histogram boosting; a split may also send a set of categories to the left."""
    nodes = tree.nodes
    leaf = nodes["is_leaf"] != 0
    left = np.where(leaf, -1, nodes["left"].astype(np.int64))
    right = np.where(leaf, -1, nodes["right"].astype(np.int64))

    def goes_left(node: int) -> Bools:
        codes = np.arange(sizes[nodes["feature_idx"][node]])
        if not nodes["is_categorical"][node]:
            below: Bools = codes <= nodes["num_threshold"][node]
            return below
        words = tree.raw_left_cat_bitsets[nodes["bitset_idx"][node]].astype("<u4")
        chosen: Bools = np.unpackbits(words.view(np.uint8), bitorder="little")[codes] != 0
        return chosen

    return _leaves(nodes["value"], left, right, nodes["feature_idx"], goes_left, sizes)


def _leaves(value: Array, *tree: Any) -> Boxes:
    """The boxes of the leaves of one tree, as ``leaf_boxes`` takes it, and their values."""
    leaves, allowed = leaf_boxes(*tree)
    return Boxes(tuple(allowed), np.array([float(value[leaf]) for leaf in leaves]))


def _additive_of(answers: ClassifierResponse, sizes: Sequence[int]) -> Additive | None:
    """A linear score as a table per column: what one value changes, all others being the first."""
    steps = [step for _, step in getattr(answers.classifier, "steps", [])]
    last = steps.pop() if steps else answers.classifier
    nonlinear = answers.response == "probability" and hasattr(last, "predict_proba")
    linear_steps = all(type(step).__name__ in _LINEAR_STEPS for step in steps)
    if nonlinear or not linear_steps or not hasattr(last, "coef_") or hasattr(last, "dual_coef_"):
        return None
    first = np.zeros((1, len(sizes)), np.int64)
    constant = float(answers(first)[0])
    tables = []
    for j, size in enumerate(sizes):
        rows = np.repeat(first, size, axis=0)
        rows[:, j] = np.arange(size)
        tables.append(answers(rows) - constant)
    return Additive(constant, tuple(tables))


@dataclass(frozen=True, eq=False)
class Boxes:
    """A function of some variables: the sum of the values of the boxes that hold a row."""

    allowed: tuple[Bools, ...]  #: per variable whether a box allows a value; boxes × values
    value: Floats  #: what each box adds; with several columns, as many functions

    def __call__(self, codes: Ints) -> Floats:
        """The function at rows of codes of its variables."""
        holds = np.ones((len(codes), len(self.value)), np.bool_)
        for column, box in zip(codes.T, self.allowed, strict=True):
            holds &= box[:, column].T
        result: Floats = holds @ self.value
        return result


def leaf_boxes(
    left: Array,
    right: Array,
    feature: Array,
    goes_left: Callable[[int], Bools],
    sizes: Sequence[int],
) -> tuple[list[int], list[Bools]]:
    """The leaves of a tree that can be reached, and the values that each allows, per feature.

    ``left`` is negative at leaves; ``goes_left`` says which values a node sends to the left. On the
    way only features that are cut are kept: a wide table has thousands of others.
    """
    waiting: list[tuple[int, dict[int, Bools]]] = [(0, {})]
    boxes: dict[int, dict[int, Bools]] = {}
    while waiting:
        node, box = waiting.pop()
        if left[node] < 0:
            boxes[node] = box
            continue
        j, side = int(feature[node]), goes_left(node)
        for child, half in ((left[node], side), (right[node], ~side)):
            narrowed = box[j] & half if j in box else half
            if narrowed.any():
                waiting.append((int(child), {**box, j: narrowed}))
    allowed = [np.ones((len(boxes), size), np.bool_) for size in sizes]
    for i, box in enumerate(boxes.values()):
        for j, inside in box.items():
            allowed[j][i] = inside
    return list(boxes), allowed


def box_masses(circuit: Circuit, allowed: Mapping[int, Bools], n_boxes: int) -> Floats:
    """P(every variable j has a value that the box allows), for each box.

    ``allowed`` gives boxes × values for some variables; others may have any value.
    """
    require(circuit.graph, "the mass of a box", "smooth", "decomposable")
    step = max(CELLS // circuit.graph.n_nodes, 1)
    parts = [
        _masses(circuit, {j: box[first : first + step] for j, box in allowed.items()}, n)
        for first in range(0, n_boxes, step)
        for n in [min(step, n_boxes - first)]
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _masses(circuit: Circuit, allowed: Mapping[int, Bools], n_boxes: int) -> Floats:
    graph = circuit.graph
    values = np.empty((graph.n_nodes, n_boxes))
    for node in range(graph.n_nodes):
        if graph.kind[node] == INDICATOR:
            box = allowed.get(int(graph.variable[node]))
            values[node] = 1.0 if box is None else box[:, graph.value[node]]
        elif graph.kind[node] == PRODUCT:
            values[node] = values[graph.children(node)].prod(axis=0)
        else:
            values[node] = circuit.weights(node) @ values[graph.children(node)]
    result: Floats = values[graph.root].copy()
    return result


def expected_boxes(
    circuit: Circuit, boxes: Boxes, variables: Sequence[int], evidence: Codes
) -> Floats:
    """E[f(variables) | e] of a function of boxes for each row of evidence, exactly."""
    refuse_impossible(circuit.log_marginal(evidence))
    n_boxes = len(boxes.value)
    found = []
    for row in evidence:
        known = {j: np.arange(circuit.arities[j])[None] == v for j, v in enumerate(row) if v >= 0}
        whole = {j: np.broadcast_to(one, (n_boxes, one.shape[1])) for j, one in known.items()}
        for j, box in zip(variables, boxes.allowed, strict=True):
            whole[j] = box & whole[j] if j in whole else box
        total = box_masses(circuit, known, 1)[0]
        found.append(box_masses(circuit, whole, n_boxes) @ boxes.value / total)
    return np.array(found)
