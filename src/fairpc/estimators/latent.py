"""Df on top of any classifier: a scikit-learn meta-estimator around a map of its scores.

Within the model, P(Df | x, s) is a line in P(D | x, s) for each group. So a user keeps the
classifier that predicts D best, and its scores become those of the fair decision, with bounds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from fairpc.cluster.table import is_dask
from fairpc.data.atomic import AnyPath
from fairpc.data.columns import Options as EncodingOptions
from fairpc.data.fit_encoding import fit_coding, resolve
from fairpc.data.frame import Frame, read_frame, take_rows
from fairpc.data.source import is_source
from fairpc.data.table_coding import TableCoding
from fairpc.errors import (
    ContradictionWarning,
    LearningError,
    NotAnsweredError,
    TableError,
    TableWarning,
    counted,
)
from fairpc.errors.arrays import Array, Codes, Floats, Ints, Positions, check_clusters
from fairpc.estimators.classifiers import TableClassifier
from fairpc.estimators.decisions import FittedDecisions, over_groups
from fairpc.estimators.score_map import LEVEL, Method, ScoredRows, ScoreMap, Select, fit_score_map
from fairpc.estimators.settings import Sensitive, generator, is_whole
from fairpc.estimators.tables import GivenTable, check_fit_input
from fairpc.estimators.training import rows_in_order
from fairpc.evidence import Parity, parity
from fairpc.evidence.crossfit import deal
from fairpc.fair.distribution import fixed
from fairpc.fair.knowledge import Knowledge, limits_of_coding
from fairpc.fair.rows import Rows
from fairpc.fair.training_rows import rows_fingerprint

ERRORS: Final = 2.0
"""Standard errors by which a classifier must tell labels better than the groups' rates."""
APART: Final = "sensitive_feature"
"""Name of the column of groups that were given as an array."""

REFUSED: Final = {
    "sample": "draw rows",
    "score_samples": "tell how probable rows are",
    "complete": "complete rows",
    "probability": "answer questions about X",
    "explain": "sum values of a row out",
    "circuit_": "give a circuit",
    "plot": "draw one",
}
"""What a model of P(D | x, s) alone cannot do."""


class LatentDecision(FittedDecisions, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """P(Df | x, s) from any classifier of D that sees X and S, with bounds.

    D is a noisy, group-dependent copy of a hidden decision Df, independent of X given (Df, S), and
    Df is independent of S: the assumptions of :class:`FairPC`. Then P(D = 1 | x, s) is a line in
    P(Df = 1 | x, s) for each group. The classifier is fitted on all rows but one fold, for each
    fold; scores of the rows left out calibrate it within each group and give P(Df), the mechanism
    and what the data leave open of them. Predictions are means over the classifiers of the folds.

    Args:
        estimator: a classifier with ``predict_proba``, or a Pipeline; None takes gradient boosting
            on tables as they are. It is given the rows as they came, with the group: columns of X
            that ``sensitive`` names stay, groups given apart are added under their own name, as a
            number where X is an array.
        sensitive: columns of X that are the sensitive attribute; or give ``sensitive_features``.
        positive: the class that is meant by "positive"; the last one by default.
        cv: folds.
        calibration: "isotonic", "sigmoid", or None where the classifier is calibrated.
        select: the point of the identified set: "prior", least bending, or "middle".
        knowledge: what is known beforehand about P(Df) and P(D | Df, S).
        sensitive_estimator: classifier of S from X, for rows whose group is not known; None: like
            ``estimator``; False: none, such rows are then refused.
        per_group: one classifier per group in place of one that sees S.
        threshold: score above which ``predict`` gives the positive class.
        missing_values: values that mean "missing" in groups and labels, and for the default
            classifier in features.
        random_state: of folds and of the default classifier.
        n_jobs: folds fitted at once, as in scikit-learn.
    """

    score_map_: ScoreMap

    def __init__(
        self,
        estimator: Any = None,
        *,
        sensitive: Sensitive = None,
        positive: Any = None,
        cv: int = 5,
        calibration: Method | None = "isotonic",
        select: Select = "prior",
        knowledge: Knowledge | None = None,
        sensitive_estimator: Any = None,
        per_group: bool = False,
        threshold: float = 0.5,
        missing_values: Sequence[Any] = (),
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.sensitive = sensitive
        self.positive = positive
        self.cv = cv
        self.calibration = calibration
        self.select = select
        self.knowledge = knowledge
        self.sensitive_estimator = sensitive_estimator
        self.per_group = per_group
        self.threshold = threshold
        self.missing_values = missing_values
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        clusters: npt.ArrayLike | None = None,
        fair_labels: Any = None,
    ) -> Self:
        """Fit to a table, its labels and its groups.

        Rows without a label or a group are left out, with a warning.

        Args:
            X: frame or array, as the classifier takes it.
            y: observed labels, of two classes.
            sensitive_features: groups given apart from X, as in fairlearn.
            sample_weight: weight per row.
            clusters: who each row is about, where persons repeat; a person stays in one fold.
            fair_labels: the fair decision of each row where it is known by other means, missing
                where not; they narrow what is possible.
        """
        threshold, rng = fixed(self.threshold), generator(self.random_state)
        self._check_settings()
        if is_source(X) or is_dask(X):
            raise TableError(
                "a streamed table was given: a classifier needs its rows in memory; read it, or "
                "use FairPC"
            )
        check_fit_input(self, X, y)
        given = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        coding = self._fit_coding(X, y, fair_labels, **given)
        all_rows = rows_in_order(
            coding, X, y, sensitive_features, sample_weight, fair_labels=fair_labels
        )
        persons = check_clusters(clusters, all_rows.n_rows)
        view = GroupView.of(coding, X, all_rows.s)
        used = np.flatnonzero((all_rows.s >= 0) & (all_rows.d >= 0) & (all_rows.weights > 0))
        _warn_left_out(all_rows, len(used))
        rows = all_rows.take(used)
        who = None if persons is None else np.unique(persons[used], return_inverse=True)[1]
        folds = _folds(rows, who, self.cv, coding, rng)
        table = X if len(used) == all_rows.n_rows else take_rows(X, used)
        weighted = sample_weight is not None
        estimators = self._fit_folds(table, rows, folds, coding, view, rng, weighted)
        scores = self._held_out(table, rows, folds, estimators, view)
        scored = ScoredRows(rows, scores, folds, coding.labels.positive, who)
        found = fit_score_map(
            scored,
            coding.groups.names,
            calibration=self.calibration,
            select=self.select,
            limits=limits_of_coding(self.knowledge, coding),
        )
        groups = self._fit_groups(table, rows, view, rng)
        self._store(coding, view, estimators, groups, found, scored)
        self.threshold_ = threshold
        self.data_fingerprint_ = rows_fingerprint(all_rows)
        for sentence in self.warnings_:
            warnings.warn(sentence, ContradictionWarning, stacklevel=2)
        return self

    def _check_settings(self) -> None:
        """A LearningError names the first setting that is wrong."""
        if self.estimator is not None and not hasattr(self.estimator, "predict_proba"):
            raise LearningError(
                f"estimator is a {type(self.estimator).__name__} without predict_proba: give a "
                "classifier that has it, or wrap it in scikit-learn's CalibratedClassifierCV"
            )
        if not (is_whole(self.cv) and 2 <= self.cv <= 100):
            raise LearningError(f"cv is {self.cv!r}: give a number of folds from 2 to 100")
        if not (self.knowledge is None or isinstance(self.knowledge, Knowledge)):
            raise LearningError(f"knowledge is {self.knowledge!r}: give a fairpc.Knowledge")

    def _fit_coding(self, X: Any, y: Any, fair_labels: Any, **given: Any) -> TableCoding:
        """How groups and labels become codes; features too, for what is said of the table."""
        table = GivenTable.of(
            X,
            y,
            sensitive=self.sensitive,
            fair_labels=fair_labels,
            missing_values=self.missing_values,
            **given,
        )
        options = EncodingOptions(categorical=resolve(table.roles.names, (), "categorical"))
        coding, _ = fit_coding(table.source, table.roles, positive=self.positive, options=options)
        classes = coding.labels.classes
        if len(classes) > 2:
            raise LearningError(
                f"label {coding.labels.name!r} has {len(classes)} classes: LatentDecision takes "
                "two classes, because one line per group turns their scores into Df; merge "
                "classes, or use FairPC. Only binary classification is supported"
            )
        return coding

    def _fit_folds(
        self,
        table: Any,
        rows: Rows,
        folds: Positions,
        coding: TableCoding,
        view: GroupView,
        rng: np.random.Generator,
        weighted: bool,
    ) -> list[tuple[Any, ...]]:
        """Per fold a classifier of the other folds, or one for each group."""
        from joblib import Parallel, delayed  # type: ignore[import-untyped]

        labels = (rows.d == coding.labels.positive).astype(np.int64)
        whole = view.table(table, rows.s)
        parts = [folds != k for k in range(int(self.cv))]
        if self.per_group:
            parts = [part & (rows.s == g) for part in parts for g in range(rows.n_groups)]
        seeds = rng.integers(1 << 31, size=len(parts))
        jobs = (
            delayed(_fitted)(
                self._classifier(int(seed)),
                take_rows(whole, at),
                labels[at],
                rows.weights[at] if weighted else None,
            )
            for seed, at in zip(seeds, map(np.flatnonzero, parts), strict=True)
        )
        fitted = Parallel(n_jobs=self.n_jobs)(jobs)
        each = rows.n_groups if self.per_group else 1
        return [tuple(fitted[k : k + each]) for k in range(0, len(fitted), each)]

    def _classifier(self, seed: int) -> Any:
        if self.estimator is None:
            return TableClassifier(missing_values=tuple(self.missing_values), random_state=seed)
        return clone(self.estimator)

    def _held_out(
        self,
        table: Any,
        rows: Rows,
        folds: Positions,
        estimators: list[tuple[Any, ...]],
        view: GroupView,
    ) -> Floats:
        """P(D = positive | x, s) of each row, by the classifier that had not seen it."""
        scores = np.empty(rows.n_rows)
        for k, classifiers in enumerate(estimators):
            here = np.flatnonzero(folds == k)
            scores[here] = _scores(
                classifiers, view.table(take_rows(table, here), rows.s[here]), rows.s[here]
            )
        return scores

    def _fit_groups(
        self, table: Any, rows: Rows, view: GroupView, rng: np.random.Generator
    ) -> tuple[Any, ...]:
        """Classifiers of S from X: of each group against the others, one where there are two."""
        if self.sensitive_estimator is False:
            return ()
        from joblib import Parallel, delayed

        wanted = range(rows.n_groups) if rows.n_groups > 2 else range(1, 2)
        without = view.features(table)
        seeds = rng.integers(1 << 31, size=rows.n_groups)
        estimator = self.sensitive_estimator

        def classifier(g: int) -> Any:
            return self._classifier(int(seeds[g])) if estimator is None else clone(estimator)

        jobs = (
            delayed(_fitted)(classifier(g), without, (rows.s == g).astype(np.int64), None)
            for g in wanted
        )
        return tuple(Parallel(n_jobs=self.n_jobs)(jobs))

    def _store(
        self,
        coding: TableCoding,
        view: GroupView,
        estimators: list[tuple[Any, ...]],
        groups: tuple[Any, ...],
        found: ScoreMap,
        scored: ScoredRows,
    ) -> None:
        """Set what was learned, all at once: a fit that fails leaves the object as it was."""
        self.coding_ = coding
        self.group_view_ = view
        self.estimators_ = estimators
        self.group_estimators_ = groups
        self.score_map_ = found
        self.knowledge_ = self.knowledge or Knowledge()
        self.n_anchors_ = scored.rows.n_anchors
        self.warnings_ = tuple(_findings(found, scored, coding))
        q = found.decision(scored.scores[None], scored.groups)
        positive = found.posterior(q, scored.labels, scored.groups)
        counts = np.zeros((len(view.levels), 2, 2))
        p = scored.positive
        for f, share in ((p, positive), (1 - p, 1 - positive)):
            np.add.at(counts[:, f], (scored.groups, scored.rows.d), share * scored.rows.weights)
        self.label_counts_ = counts

    @property
    def bias_mechanism_(self) -> Floats:
        """P(D = d | Df = f, S = s), indexed [s, f, d]."""
        found, p = self._map(), self._coding().labels.positive
        result = np.empty((len(found.shifts), 2, 2))
        order = [1 - p, p]
        result[:, order, p] = found.mechanism
        result[:, order, 1 - p] = 1 - found.mechanism
        return result

    @property
    def fair_rate_(self) -> Floats:
        """P(Df)."""
        rate: Floats = self._by_class(np.array([self._map().decision_rate]))[0]
        return rate

    @property
    def group_rate_(self) -> Floats:
        """P(S)."""
        return self._map().group_rate

    @property
    def fair_rate_set_(self) -> tuple[float, float]:
        """The P(Df = positive) that held-out labels leave possible, with 95 % confidence.

        The first is larger than the second where they leave none.
        """
        return self._map().ends.rate_set(LEVEL)

    def _map(self) -> ScoreMap:
        check_is_fitted(self, "score_map_")
        return self.score_map_

    def _by_class(self, positive: Floats) -> Floats:
        """P(positive) as a column per class."""
        columns = [1 - positive, positive]
        return np.column_stack(columns if self._coding().labels.positive else columns[::-1])

    def _decided(self, X: Any, sensitive_features: Any) -> tuple[Floats, Codes | None]:
        asked = self._asked(X, sensitive_features)
        return self._by_class(asked.over_groups(self._map().decision)), asked.groups

    def _observed(self, X: Any, sensitive_features: Any) -> Floats:
        found = self._map()
        asked = self._asked(X, sensitive_features)
        return self._by_class(
            asked.over_groups(lambda scores, s: found.observed(scores, s).mean(axis=0))
        )

    def _posterior(self, X: Any, labels: Codes, sensitive_features: Any) -> Floats:
        found, positive = self._map(), self._coding().labels.positive
        asked = self._asked(X, sensitive_features)
        d = np.where(labels < 0, -1, labels == positive).astype(np.intp)

        def said(rows: Ints, s: Codes) -> Floats:
            q = found.decision(asked.scores(rows, s), s.astype(np.intp))
            return found.posterior(q, d[rows], s.astype(np.intp))

        def chances(rows: Ints) -> Floats:
            """P(s | x, d) ∝ P(s | x) P(d | x, s): the label tells of the group too."""
            shares = asked.chances(rows)
            for g in range(shares.shape[1]):
                s = np.full(len(rows), g, np.int16)
                r = found.observed(asked.scores(rows, s), s.astype(np.intp)).mean(axis=0)
                shares[:, g] *= np.where(d[rows] < 0, 1.0, np.where(d[rows] == 1, r, 1 - r))
            total = np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
            return np.asarray(shares / total, np.float64)

        return self._by_class(over_groups(asked.groups, asked.n_rows, said, chances))

    def _bounds(self, X: Any, sensitive_features: Any, level: float | None) -> Floats:
        found = self._map()
        asked = self._asked(X, sensitive_features)
        return asked.over_groups(lambda scores, s: found.bounds(scores, s, level))

    def _model_gap(self) -> float:
        """Df is independent of S under the model, whatever was learned."""
        self._map()
        return 0.0

    def _asked(self, X: Any, sensitive_features: Any) -> Asked:
        """Rows that something is asked of, as the classifiers take them."""
        coding = self._coding()
        self._check_width(X)
        frame = read_frame(X)
        self._check_columns(frame)
        groups = coding.group_codes(X, frame, sensitive_features)
        return Asked(self, X, groups, frame.n_rows)

    def _check_columns(self, frame: Frame) -> None:
        features = self._coding().features
        lacking = [name for name in features.names if name not in frame.names]
        if lacking and not (frame.from_array or features.from_array):
            raise TableError(
                f"column {lacking[0]!r} is not in the table: a classifier needs every column of "
                "the fit; give it, or use FairPC, which sums it out"
            )

    def distil(
        self,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: Any = None,
        level: float = 0.95,
    ) -> Distilled:
        """A model of X alone that imitates the scores, for places where S must not be used.

        It is trained on each row once per class with P(Df = class | x, s) as its weight. What
        differs between groups in X it may still tell: the gap between the groups' mean scores on
        these rows is given with its interval.

        Args:
            estimator: a classifier that takes ``sample_weight``; not fitted, it is cloned.
            X: rows, with columns that ``sensitive`` names, which are left out for the model.
            sensitive_features: their groups, if given apart.
            level: of the interval.
        """
        if not _weight_name(estimator):
            raise LearningError(
                f"{type(estimator).__name__}.fit takes no sample_weight: scores are learned as "
                "weights; give a classifier that does"
            )
        scores, groups = self._scores(X, sensitive_features=sensitive_features)
        features = self.group_view_.features(X)
        n, classes = len(scores), self.classes_
        positive = self._coding().labels.positive
        twice = take_rows(features, np.tile(np.arange(n), 2))
        labels = np.repeat(classes[[positive, 1 - positive]], n)
        model = _fitted(clone(estimator), twice, labels, np.concatenate([scores, 1 - scores]))
        own = model.predict_proba(features)[:, list(model.classes_).index(classes[positive])]
        if groups is None or (groups < 0).any():
            raise LearningError("the groups of the rows are not known: a gap needs them")
        names = np.array(self._coding().groups.names)[groups]
        gap = parity(own, names, level=level)
        return Distilled(model, gap, float(np.abs(own - scores).mean()))

    def save(self, path: AnyPath) -> None:
        """Write the fitted model to one data-only file; ``fairpc.load`` reads it.

        Classifiers of fairpc can be written, as numbers; others are refused with a sentence.
        """
        from fairpc.estimators.file import save

        save(self, path)

    def __getattr__(self, name: str) -> Any:
        if name in REFUSED:
            raise NotAnsweredError(
                f"LatentDecision cannot {REFUSED[name]}: it has no distribution of X; use FairPC"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # A decision that does not depend on S need not be near a label that does.
        tags.classifier_tags.poor_score = True
        if self.estimator is None:
            tags.input_tags.allow_nan = True
            tags.input_tags.categorical = True
            tags.input_tags.string = True
        return tags


@dataclass(frozen=True, eq=False)
class Distilled:
    """A model of X alone that imitates P(Df | x, s).

    Attributes:
        estimator: the fitted model.
        gap: mean scores of the groups in the rows it was trained on, with intervals.
        difference: mean absolute difference between its scores and those it imitates.
    """

    estimator: Any
    gap: Parity
    difference: float

    def __str__(self) -> str:
        return f"{self.gap.summary()} Its scores differ by {self.difference:.3f} on average."


@dataclass(frozen=True, eq=False)
class GroupView:
    """How classifiers see the group of a row.

    Attributes:
        names: columns of the group.
        levels: of each group, its value in each of these columns.
        inside: whether they are columns of X; else they are added to it.
        library: of the frames at fit; "" for arrays.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]
    inside: bool
    library: str

    @classmethod
    def of(cls, coding: TableCoding, X: Any, s: Codes) -> GroupView:
        """The value that stands for a group is that of its first row, where S is in X."""
        frame, groups = read_frame(X), coding.groups
        library = _library(X)
        if not coding.sensitive:
            names = tuple(APART if n == "sensitive" else n for n in groups.column_names)
            taken = [n for n in names if n in frame.names]
            if taken:
                raise TableError(
                    f"X has a column {taken[0]!r}, as the groups given apart are called: rename "
                    "one of them, or name the column of X as sensitive"
                )
            return cls(names, _levels(coding), False, library)
        names = coding.sensitive
        first = [int(np.flatnonzero(s == g)[0]) for g in range(len(groups.names))]
        columns = [frame.column(name) for name in names]
        levels = tuple(tuple(_plain(column[row]) for column in columns) for row in first)
        return cls(names, levels, True, library)

    def table(self, X: Any, s: Codes) -> Any:
        """Rows with their groups, as classifiers take them."""
        return self._native(X) if self.inside else self.taken_as(X, s)

    def taken_as(self, X: Any, s: Codes) -> Any:
        """Rows as if they were of these groups."""
        native = self._native(X)
        values = {name: [level[j] for level in self.levels] for j, name in enumerate(self.names)}
        frame = nw.from_native(native, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            columns = [_series(frame, name, np.array(each)[s]) for name, each in values.items()]
            return frame.with_columns(*columns).to_native()
        array = np.asarray(native)
        if not self.inside:
            # A number, so that an array of numbers stays one.
            return np.column_stack([array, s.astype(array.dtype if array.dtype != object else int)])
        array = array.copy()
        places = [int(name[1:]) for name in self.names]
        for j, place in enumerate(places):
            array[:, place] = np.array([level[j] for level in self.levels])[s]
        return array

    def features(self, X: Any) -> Any:
        """Rows without their groups."""
        native = self._native(X)
        if not self.inside:
            return native
        frame = nw.from_native(native, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            return frame.drop(*self.names, strict=False).to_native()
        array = np.asarray(native)
        return np.delete(array, [int(name[1:]) for name in self.names], axis=1)

    def _native(self, X: Any) -> Any:
        """A batch of a file as a frame of the library that the classifiers know."""
        if not isinstance(X, Frame):
            return X
        frame = X.to_polars()
        return frame.to_pandas() if self.library == "pandas" else frame


@dataclass(frozen=True, eq=False)
class Asked:
    """Rows that a fitted model is asked about.

    Attributes:
        model: the fitted model.
        X: the rows.
        groups: their groups, -1 where one is not known; None where none is given.
        n_rows: how many there are.
    """

    model: LatentDecision
    X: Any
    groups: Codes | None
    n_rows: int

    def over_groups(self, of: Callable[[Floats, Positions], Floats]) -> Floats:
        """What a function of scores [classifier, row] and groups says; see ``over_groups``."""

        def said(rows: Ints, s: Codes) -> Floats:
            return of(self.scores(rows, s), s.astype(np.intp))

        return over_groups(self.groups, self.n_rows, said, self.chances)

    def scores(self, rows: Ints, s: Codes) -> Floats:
        """P(D = positive | x, s) of rows as if of these groups, by each fold's classifiers."""
        model, view = self.model, self.model.group_view_
        if not len(rows):
            return np.empty((len(model.estimators_), 0))
        own = self.groups is not None and (self.groups[rows] == s).all()
        table = (view.table if own else view.taken_as)(self._rows(rows), s)
        return np.stack([_scores(classifiers, table, s) for classifiers in model.estimators_])

    def _rows(self, rows: Ints) -> Any:
        if len(rows) == self.n_rows:
            return self.X
        return self.X.taken(rows) if isinstance(self.X, Frame) else take_rows(self.X, rows)

    def chances(self, rows: Ints) -> Floats:
        """P(s | x) of rows whose group is not known."""
        model = self.model
        if not model.group_estimators_:
            raise LearningError(
                f"the group of {counted(len(rows), 'row')} is not known: give the groups, or fit "
                "with a sensitive_estimator"
            )
        table = model.group_view_.features(self._rows(rows))
        each = [_positive(classifier, table) for classifier in model.group_estimators_]
        if len(each) == 1:
            return np.column_stack([1 - each[0], each[0]])
        chances = np.column_stack(each) + 1e-12
        return np.asarray(chances / chances.sum(axis=1, keepdims=True), np.float64)


def _series(frame: nw.DataFrame[Any], name: str, values: Array) -> nw.Series[Any]:
    """A column for a frame, with its index where it has one."""
    series = nw.new_series(name, values.tolist(), backend=frame.implementation)
    index = nw.maybe_get_index(frame)
    return series if index is None else nw.maybe_set_index(series, index=index)


def _library(X: Any) -> str:
    native = nw.from_native(X, eager_only=True, pass_through=True)
    return native.implementation.value if isinstance(native, nw.DataFrame) else ""


def _levels(coding: TableCoding) -> tuple[tuple[Any, ...], ...]:
    """Of each group its value in each sensitive column; a label where values were binned."""
    from fairpc.data.codes_of import decoded_levels

    names = [decoded_levels(column) for column in coding.groups.columns]
    return tuple(
        tuple(levels[c] for levels, c in zip(names, cell, strict=True))
        for cell in coding.groups.cells
    )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _scores(classifiers: tuple[Any, ...], table: Any, s: Codes) -> Floats:
    """P(D = positive | x, s) by one classifier, or by that of each row's group."""
    if len(classifiers) == 1:
        return _positive(classifiers[0], table)
    found = np.empty(len(s))
    for g, classifier in enumerate(classifiers):
        here = np.flatnonzero(s == g)
        if len(here):
            found[here] = _positive(classifier, take_rows(table, here))
    return found


def _positive(classifier: Any, table: Any) -> Floats:
    """P(1) of a classifier of 0 and 1."""
    scores = np.asarray(classifier.predict_proba(table), np.float64)
    if scores.ndim != 2 or scores.shape[1] != 2 or not np.isfinite(scores).all():
        raise LearningError(
            f"predict_proba of {type(classifier).__name__} gives shape {scores.shape} or numbers "
            "that are not finite: it must give two probabilities for each row"
        )
    return scores[:, 1]


def _fitted(classifier: Any, table: Any, labels: Any, weights: Floats | None) -> Any:
    """The classifier, fitted; weights go to where it takes them."""
    if weights is None:
        return classifier.fit(table, labels)
    name = _weight_name(classifier)
    if not name:
        raise LearningError(
            f"sample_weight is given and {type(classifier).__name__}.fit takes none: give a "
            "classifier that takes weights, or leave the weights out"
        )
    return classifier.fit(table, labels, **{name: weights})


def _weight_name(classifier: Any) -> str:
    """The argument of ``fit`` that weights have; empty where there is none."""
    steps = getattr(classifier, "steps", None)
    if steps:
        last, final = steps[-1]
        inner = _weight_name(final)
        return f"{last}__{inner}" if inner else ""
    return "sample_weight" if has_fit_parameter(classifier, "sample_weight") else ""


def _warn_left_out(rows: Rows, n_used: int) -> None:
    lost = int((rows.weights > 0).sum()) - n_used
    if lost:
        warnings.warn(
            f"{counted(lost, 'row')} of {rows.n_rows} have no label or no group: they are left "
            "out; FairPC can learn from them",
            TableWarning,
            stacklevel=3,
        )


def _folds(
    rows: Rows, persons: Positions | None, n_folds: int, coding: TableCoding, rng: Any
) -> Positions:
    """A fold per row, with rows of both classes of every group in all of them."""
    cells = rows.s.astype(np.intp) * 2 + rows.d
    folds = deal(cells, persons, n_folds, rng)
    for g, c in np.ndindex(rows.n_groups, 2):
        own = cells == 2 * g + c
        outside = min((int((own & (folds != k)).sum()) for k in range(n_folds)), default=0)
        inside = min(int((own & (folds == k)).sum()) for k in range(n_folds))
        if not (inside and outside):
            name, label = coding.groups.names[g], coding.labels.classes[c]
            raise LearningError(
                f"group {name!r} has {counted(int(own.sum()), 'row')} with label {label!r}: each "
                f"of {n_folds} folds needs one (n_samples = {rows.n_rows}); lower cv, merge "
                "groups, or give more rows"
            )
    return folds


def _findings(found: ScoreMap, scored: ScoredRows, coding: TableCoding) -> list[str]:
    """What must be said of a fit before anything else."""
    sentences = []
    lower, upper = found.ends.rate_set(LEVEL)
    if lower > upper:
        sentences.append(
            f"The labels contradict the assumptions ({LEVEL:.0%} confidence): no P(Df = "
            f"{coding.labels.positive_class}) fits every group, {lower:.3f} is the least that one "
            f"needs and {upper:.3f} the most that another allows; Df cannot be independent of the "
            "group, or the label depends on features otherwise than through Df, or what was stated "
            "as known is wrong."
        )
    if _gain(found, scored) < ERRORS:
        sentences.append(
            "The classifier tells the labels of rows that it has not seen no better than the rates "
            "of the groups do: scores of Df then say little; give features that tell decisions "
            "apart, or another classifier."
        )
    return sentences


def _gain(found: ScoreMap, scored: ScoredRows) -> float:
    """How labels of unseen rows go with the rank of their score in its group, in standard errors.

    Ranks, because scores are calibrated before they are used: overstated ones may rank well.
    """
    from scipy.stats import rankdata

    groups, w = scored.groups, scored.rows.weights
    ranks = np.empty(len(w))
    for g in range(len(found.shifts)):
        here = groups == g
        rank = rankdata(scored.scores[here]) / here.sum()
        ranks[here] = rank - np.average(rank, weights=w[here])
    rates = np.array([g.rate for g in found.ends.groups])[groups]
    each = w * (scored.labels - rates) * ranks
    error = float(np.sqrt((each * each).sum()))
    return float(each.sum()) / error if error > 0 else 0.0
