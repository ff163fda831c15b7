"""Classifiers of D and of Df for a table: its rows as they take them, and fits on folds.

A classifier that a user gives gets the rows as they came, with their groups as columns. Those of a
fold have not seen its rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from fairpc.core import (
    Array,
    Codes,
    FairpcError,
    Floats,
    Ints,
    LearningError,
    Positions,
    TableError,
    TableWarning,
    counted,
)
from fairpc.data import (
    Encoding,
    Frame,
    Level,
    TableCoding,
    identifiers,
    read_classes,
    read_frame,
    read_values,
    take_rows,
)
from fairpc.learners import AlteredLabels, ClassifierKind, Edges, EncodedTable, deal
from fairpc.models._classifiers import TableClassifier, sentinels
from fairpc.models._label_scores import FLOOR, SHARE_TOLERANCE
from fairpc.models._rows import Rows
from fairpc.models._score_map import ScoreMap
from fairpc.models._score_map_fit import ScoredRows
from fairpc.models._settings import ScoreSettings
from fairpc.structure import component_weights

APART: Final = "sensitive_feature"
"""Name of the column of groups that were given as an array."""
SECOND: Final[tuple[Literal["hgb", "logistic"], ...]] = ("hgb", "logistic")
"""Classifiers of Df that are learned once the mechanism is known."""


@dataclass(frozen=True, eq=False)
class GroupView:
    """How classifiers see the group of a row."""

    names: tuple[str, ...]  #: columns of the group
    levels: tuple[tuple[Level, ...], ...]  #: of each group, its values in them; none if inside
    inside: bool  #: whether they are columns of X; else they are added to it
    library: str  #: of the frames at fit; "" for arrays
    #: how columns of numbers are written that are text, which our classifiers are given as numbers
    written: Encoding | None = None

    @classmethod
    def of(cls, coding: TableCoding, X: Any, *, own: bool) -> GroupView:
        """A group that is given apart is a number if X holds no text, because most classifiers
        take none; that of fairpc, its ``own``, does.
        """
        frame, groups = read_frame(X), coding.groups
        given, written = frame_of(X), coding.features if own else None
        library = "" if given is None else given.implementation.value
        names, inside = group_columns(coding)
        if not inside:
            taken = [n for n in names if n in frame.names]
            if taken:
                raise TableError(
                    f"X has a column {taken[0]!r}, as the groups given apart are called: rename "
                    "one of them, or name the column of X as sensitive"
                )
            # A column may be text, or whatever an object may be.
            types = () if given is None else given.schema.values()
            text = own or any(type_ in (nw.String, nw.Object) for type_ in types)
            levels = _levels(coding) if text else groups.cells
            return cls(names, levels, False, library, written)
        return cls(names, (), True, library, written)

    def table(self, X: Any, s: Codes) -> Any:
        """Rows with their groups, as classifiers take them."""
        native = self._native(X)
        if self.inside:
            return native
        frame = frame_of(native)
        if frame is not None:
            values = zip(self.names, zip(*self.levels, strict=True), strict=True)
            columns = (series_of(frame, name, np.array(each)[s]) for name, each in values)
            return frame.with_columns(*columns).to_native()
        array = np.asarray(native)
        # A number, so that an array of numbers stays one.
        return np.column_stack([array, s.astype(array.dtype if array.dtype != object else int)])

    def _native(self, X: Any) -> Any:
        """A batch of a file as a frame of the library that the classifiers know."""
        if isinstance(X, Frame):
            frame = X.to_polars()
            X = frame.to_pandas() if self.library == "pandas" else frame
        if self.inside:
            X = _without_blanks(X, self.names)
        return X if self.written is None else _unwritten(X, self.written)


def frame_of(X: Any) -> nw.DataFrame[Any] | None:
    """A frame of any library; None for an array."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def _without_blanks(X: Any, names: Sequence[str]) -> Any:
    """A table whose groups have no blanks around them, which are no part of a group."""
    frame, table = frame_of(X), read_frame(X)
    changed = dict[str, list[Any]]()
    for name in (name for name in names if name in table.names):
        given, bare = (read(name, table.column(name)) for read in (read_values, read_classes))
        if bare.type == "text" and not given.data.equals(bare.data):
            changed[name] = bare.data.to_list()
    if not changed:
        return X
    if frame is not None:
        # What is left of a text may be none of the values that its type allows.
        frame = frame.with_columns(nw.col(*changed).cast(nw.String))
        columns = (series_of(frame, name, np.array(v, object)) for name, v in changed.items())
        return frame.with_columns(*columns).to_native()
    array = np.array(X, dtype=object)
    for name, values in changed.items():
        array[:, table.names.index(name)] = values
    return array


def _unwritten(X: Any, features: Encoding) -> Any:
    """A frame whose numbers are numbers where they were written as text in a way of their own."""
    frame = frame_of(X)
    if frame is None:
        return X
    changed = []
    for column in features.columns:
        if column.decimal != "." and column.name in frame.columns:
            values = read_values(column.name, frame[column.name], features.missing_values)
            if values.type == "text" and not values.missing().all():
                changed.append(series_of(frame, column.name, column.numbers(values)))
    return frame.with_columns(*changed).to_native() if changed else X


def series_of(frame: nw.DataFrame[Any], name: str, values: Array) -> nw.Series[Any]:
    """A column for a frame, of the type that it has there, with its index where it has one."""
    series = nw.new_series(name, values.tolist(), backend=frame.implementation)
    if name in frame.columns and frame.schema[name] in (nw.Categorical, nw.Enum):
        series = series.cast(frame.schema[name])
    index = nw.maybe_get_index(frame)
    if index is None:
        return series
    # narwhals would look at each value of an index.
    return nw.from_native(series.to_native().set_axis(index), series_only=True)


def in_order(table: Any, names: Sequence[str]) -> Any:
    """A frame with the columns of the fit, in their order; scikit-learn notes names of text."""
    frame = frame_of(table)
    if frame is None or not len(names):
        return table
    return frame[[name for name in names if name in frame.columns]].to_native()


def group_columns(coding: TableCoding) -> tuple[tuple[str, ...], bool]:
    """Names of the columns of the group as classifiers see them, and whether X has them."""
    if coding.sensitive:
        return coding.sensitive, True
    names = coding.groups.column_names
    return tuple(APART if name == "sensitive" else name for name in names), False


def _levels(coding: TableCoding) -> tuple[tuple[Any, ...], ...]:
    """Of each group its value in each sensitive column; a label where values were binned."""
    names = [column.decoded_levels for column in coding.groups.columns]
    return tuple(
        tuple(levels[c] for levels, c in zip(names, cell, strict=True))
        for cell in coding.groups.cells
    )


def positive_scores(classifier: Any, table: Any) -> Floats:
    """P(1) of a classifier of 0 and 1."""
    if isinstance(table, EncodedRows):
        return np.asarray(classifier.learned_.probability(table.under(classifier)), np.float64)
    with warnings.catch_warnings():
        # A level that one fold lacks is known to others.
        warnings.simplefilter("ignore", TableWarning)
        scores = np.asarray(_asked_of(classifier, "predict_proba", table), np.float64)
    # NaN is not inside.
    inside = bool(((scores >= 0) & (scores <= 1)).all())
    if scores.shape != (len(table), 2) or not inside:
        raise LearningError(
            f"predict_proba of {type(classifier).__name__} gives shape {scores.shape} for "
            f"{counted(len(table), 'row')}, or numbers that are not from 0 to 1: it must give two "
            "probabilities for each row"
        )
    return scores[:, 1]


def check_classifier(classifier: Any) -> None:
    """A LearningError where an estimator is no classifier with probabilities."""
    if isinstance(classifier, type) or not hasattr(classifier, "get_params"):
        raise LearningError(
            f"estimator is {classifier!r}: give a classifier of scikit-learn's kind, as an object"
        )
    if not hasattr(classifier, "predict_proba"):
        raise LearningError(
            f"estimator is a {type(classifier).__name__} without predict_proba: give a classifier "
            "that has it, or wrap it in scikit-learn's CalibratedClassifierCV"
        )


def fitted_classifier(
    classifier: Any, table: Any, labels: Any, weights: Floats | None, **more: Any
) -> Any:
    """The classifier, fitted; weights go to where it takes them."""
    if weights is None:
        return _asked_of(classifier, "fit", table, labels, **more)
    name = weight_name(classifier)
    if not name:
        raise LearningError(
            f"sample_weight is given and {type(classifier).__name__}.fit takes none: give a "
            "classifier that takes weights, or leave the weights out"
        )
    return _asked_of(classifier, "fit", table, labels, **{name: weights}, **more)


def _asked_of(classifier: Any, method: str, *args: Any, **kwargs: Any) -> Any:
    """What a classifier answers; a LearningError says what it could not take."""
    try:
        return getattr(classifier, method)(*args, **kwargs)
    except FairpcError:
        raise
    except ValueError as error:
        said = str(error).strip().split("\n")[0].rstrip(".")
        raise LearningError(
            f"{type(classifier).__name__}.{method} does not take these rows ({said}): put what it "
            "needs into a Pipeline, or leave the estimator out, which takes tables as they are"
        ) from error


def weight_name(classifier: Any) -> str:
    """The argument of ``fit`` that weights have; empty where there is none."""
    steps = getattr(classifier, "steps", None)
    if steps:
        last, final = steps[-1]
        inner = weight_name(final)
        return f"{last}__{inner}" if inner else ""
    return "sample_weight" if has_fit_parameter(classifier, "sample_weight") else ""


def part_of(table: Any, here: Ints) -> Any:
    """Some rows of a table, as it came or encoded."""
    if isinstance(table, EncodedRows):
        return EncodedRows(table.table, table.rows[here])
    return take_rows(table, here)


class EncodedRows(NamedTuple):
    """Some rows of a table that is encoded already, for classifiers of ours."""

    table: EncodedTable
    rows: Ints

    def learned_from(self, kind: ClassifierKind) -> tuple[Encoding, Floats, Edges]:
        """What a classifier that learns from these rows knows of the table, its matrix, and the
        edges of its bins."""
        encoding = self.table.encoding(kind, self.rows)
        matrix = self.table.matrix(kind, encoding, self.rows)
        return encoding, matrix, self.table.edges(kind, encoding)

    def under(self, classifier: TableClassifier) -> Floats:
        """The matrix that a classifier of other rows is asked about."""
        return self.table.matrix(classifier.kind, classifier.encoding_, self.rows)


@dataclass(frozen=True, eq=False)
class FoldClassifiers:
    """How classifiers are fitted to the rows of a table."""

    own: ScoreSettings  #: what is asked for
    view: GroupView  #: the group as a column of the tables that classifiers get
    coding: TableCoding
    rng: np.random.Generator  #: of folds, and of our own classifier

    def folds(self, rows: Rows, persons: Positions | None) -> Positions:
        """A fold per row: whichever is left out, each classifier has rows of both classes."""
        n_folds = int(self.own.cv)
        folds = deal(rows.s.astype(np.intp) * 2 + rows.d, persons, n_folds, self.rng)
        found = len(np.unique(folds))
        if found < n_folds:
            what = "rows" if persons is None else "persons"
            raise LearningError(
                f"cv is {n_folds} and there are {found} {what}: give at most as many"
            )
        for c, name in enumerate(self.coding.labels.classes):
            own = folds[rows.d == c]
            if len(np.unique(own)) < 2:
                raise LearningError(
                    f"the table has {counted(len(own), 'row')} with label {name!r}: a classifier "
                    "must see both labels whichever fold is left out; give more rows of it"
                )
        return folds

    def table(self, given: Any, table: Any, weights: Floats) -> Any:
        """A table encoded as ours take it, read once; as it came for other classifiers.

        Ours is given what distinguishes rows of the whole table: a fold may look otherwise.
        """
        if isinstance(given, TableClassifier):
            missing, ours = given.missing_values, given.kind != "forest"
        else:
            missing, ours = tuple(self.own.missing_values), given is None
        if not ours:
            return table
        known = sentinels(missing), identifiers(self.coding.features), int(self.own.min_cell)
        encoded = EncodedTable(read_frame(table), weights, *known)
        return EncodedRows(encoded, np.arange(len(weights)))

    def of_labels(self, table: Any, rows: Rows, folds: Positions, weighted: bool) -> list[Any]:
        """Per fold a classifier of the other folds."""
        labels = (rows.d == self.coding.labels.positive).astype(np.int64)
        parts = [folds != k for k in range(int(self.own.cv))]
        seeds = self.rng.integers(1 << 31, size=len(parts))
        weights = rows.weights if weighted else None
        fits = (
            self._fit(self.own.estimator, int(seed), table, at, labels, weights)
            for seed, at in zip(seeds, map(np.flatnonzero, parts), strict=True)
        )
        return list(fits)

    def of_decisions(
        self,
        table: EncodedRows,
        scored: ScoredRows,
        score_map: ScoreMap,
        of_labels: list[Any],
    ) -> list[tuple[Any, ...]]:
        """Per fold our classifiers of Df, learned from labels that the mechanism has altered.

        Boosting takes as many rounds as that of the labels of the same rows did.
        """
        rows, b = scored.rows, score_map.by_stratum.mechanism
        altered_by = scored.groups * b.shape[1] + scored.strata
        mechanisms = np.stack([1 - b, b], axis=-1).reshape(-1, 2, 2)
        every = AlteredLabels.of(scored.labels, rows.weights, altered_by, mechanisms)
        parts = [np.flatnonzero(scored.folds != k) for k in range(len(of_labels))]
        seeds = self.rng.integers(1 << 31, size=len(parts))
        n_rounds = [len(classifier.learned_.nodes.sizes) for classifier in of_labels]

        def classifier(kind: Literal["hgb", "logistic"], k: int) -> Any:
            encoding, matrix, edges = part_of(table, parts[k]).learned_from(kind)
            given = encoding, matrix, every.take(parts[k]), edges, int(seeds[k]), n_rounds[k]
            return TableClassifier.behind(kind, *given)

        fitted, n = [classifier(kind, k) for k in range(len(parts)) for kind in SECOND], len(SECOND)
        return [tuple(fitted[k : k + n]) for k in range(0, len(fitted), n)]

    def _fit(
        self, given: Any, seed: int, table: Any, at: Ints, labels: Ints, weights: Floats | None
    ) -> Any:
        """A copy of what was given, or ours, fitted to some rows."""
        model = given
        if given is None:
            missing = tuple(self.own.missing_values)
            model = TableClassifier(missing_values=missing, random_state=seed)
        weights = None if weights is None else weights[at]
        some = part_of(table, at)
        if isinstance(some, EncodedRows):
            own = np.ones(len(at)) if weights is None else weights
            encoding, matrix, edges = some.learned_from(model.kind)
            known = np.array([0, 1]), encoding, matrix, labels[at], own, edges
            return clone(model).fit_encoded(*known)
        more: dict[str, Any] = {}
        if isinstance(model, TableClassifier):
            more["identifiers"] = identifiers(self.coding.features)
            more["min_cell"] = int(self.own.min_cell)
        return fitted_classifier(clone(model), some, labels[at], weights, **more)


@dataclass(frozen=True, eq=False)
class SecondRound:
    """What was learned once the mechanism was known, and how much of the score it makes."""

    estimators: list[tuple[Any, ...]]  #: per fold the classifiers of Df
    shares: Floats  #: of the classifier of D in the score, and of each of these

    @classmethod
    def learned(
        cls,
        cross: FoldClassifiers,
        table: EncodedRows,
        scored: ScoredRows,
        score_map: ScoreMap,
        of_labels: list[Any],
    ) -> tuple[SecondRound, ScoredRows]:
        """Classifiers of Df, with the shares under which held-out labels are likeliest; scores."""
        estimators = cross.of_decisions(table, scored, score_map, of_labels)
        said = _held_out(estimators, scored, table, score_map)
        r = np.clip(said, FLOOR, 1 - FLOOR)
        likely = np.log(np.where(scored.labels == 1, r, 1 - r)).T
        weights = scored.rows.weights
        shares = component_weights(np.ascontiguousarray(likely), weights, tol=SHARE_TOLERANCE)
        found = cls(estimators, shares)
        return found, replace(scored, second=found._together(said))

    def scores(self, first: Floats, k: int, table: Any, b: Floats) -> Floats:
        """P(D = positive | x, s) by all classifiers of a fold, of what that of D says.

        ``b`` has P(D = positive | Df = f) of each row, [row, f].
        """
        return self._together(_each(first, self.estimators[k], table, b))

    def held_out(self, scored: ScoredRows, table: Any, score_map: ScoreMap) -> ScoredRows:
        """The rows with scores by the classifiers that had not seen them."""
        said = _held_out(self.estimators, scored, table, score_map)
        return replace(scored, second=self._together(said))

    def _together(self, said: Floats) -> Floats:
        """The share of each classifier in what it says, added up.

        One after the other: a product of matrices rounds a row otherwise beside other rows.
        """
        total = np.zeros(said.shape[1])
        for share, own in zip(self.shares, said, strict=True):
            total += share * own
        return total


def _each(first: Floats, of_df: tuple[Any, ...], table: Any, b: Floats) -> Floats:
    """P(D = positive | x, s) by the classifier of D, and by those of Df, [classifier, row]."""
    q = [positive_scores(classifier, table) for classifier in of_df]
    return np.stack([first, *(b[:, 0] + (b[:, 1] - b[:, 0]) * own for own in q)])


def _held_out(
    estimators: list[tuple[Any, ...]], scored: ScoredRows, table: Any, score_map: ScoreMap
) -> Floats:
    """The same of all rows, by the classifiers that had not seen them."""
    b = score_map.mechanism_of(scored.at)
    said = np.empty((1 + len(SECOND), len(b)))
    for k, of_df in enumerate(estimators):
        here = np.flatnonzero(scored.folds == k)
        said[:, here] = _each(scored.scores[here], of_df, part_of(table, here), b[here])
    return said


def held_out_scores(table: Any, folds: Positions, estimators: list[Any]) -> Floats:
    """P(D = positive | x, s) of each row, by the classifier that had not seen it."""
    scores = np.empty(len(folds))
    for k, classifier in enumerate(estimators):
        here = np.flatnonzero(folds == k)
        scores[here] = positive_scores(classifier, part_of(table, here))
    return scores
