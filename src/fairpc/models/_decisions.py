"""What any fitted model of a decision can be asked: scores, decisions, bounds, soft labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from fairpc.core import (
    AnyPath,
    Array,
    Codes,
    ContradictionWarning,
    Floats,
    LearningError,
    TableError,
    TableWarning,
    check_level,
    counted,
    warn_caller,
)
from fairpc.data import (
    Names,
    TableCoding,
    check_rows,
    check_weights,
    read_frame,
    take_rows,
)
from fairpc.evidence import LEVEL, LabelBounds
from fairpc.models._batches import in_batches
from fairpc.models._bias_account import BiasAccount, contradictions, mechanism_ranges, rates_alike
from fairpc.models._knowledge import Knowledge
from fairpc.models._model import Threshold, equalised, fixed, for_rate
from fairpc.models._review import Reviewable
from fairpc.models._rows import Rows
from fairpc.models._settings import stratum_names

if TYPE_CHECKING:
    from fairpc.models._distilled import Distilled
    from fairpc.models._distribution import FairDistribution
    from fairpc.models._scored import ScoredModel

FairModel: TypeAlias = "FairDistribution | ScoredModel"
"""What was learned: circuits and forest circuits, or a map of scores. Both answer the same."""

YES, NO, OPEN = "yes", "no", "open"
"""Decisions that every possible mechanism agrees about, and those that depend on it."""

_REJECTED: Final = (
    "the data contradict the assumptions: no rate of fair decisions fits every group, so "
    "bounds are NaN; see fairpc.evidence.test_assumptions or `fairpc audit`"
)
_NO_BOUNDS: Final = (
    "bounds of scores need labels that were held out at fit: fit with guard=True to at least 300 "
    "rows with groups and labels"
)


def _over_strata(ranges: Floats) -> Floats:
    """The range over all strata, of [s, a, …, end]; NaN where some stratum has none."""
    least, most = ranges[..., 0].min(axis=1), ranges[..., 1].max(axis=1)
    return np.stack([least, most], axis=-1)


@dataclass(frozen=True, eq=False)
class GivenRows:
    """Rows that a fitted model is asked about."""

    codes: Rows  #: their groups, labels, features and weights
    #: the same rows as they came, with the columns of the fit; None where equal rows are merged
    table: Any = None


class FittedDecisions(Reviewable, ABC):
    """What every fitted model answers; it is set by ``fit`` or by ``fairpc.load``.

    What is asked of rows is also answered for tables that are read in batches: the path of
    a file, a folder, a glob, a polars lazy frame. The groups are then columns of it. The
    result is that for the table in memory: an array with a row per row, in their order.
    """

    coding_: TableCoding
    label_ends_: LabelBounds | None
    threshold_: Threshold
    min_cell: int
    label_counts_: Floats
    mechanism_without_prior_: Floats | None = None  #: where there are prior rows
    prior_rows_: float
    warnings_: tuple[str, ...]
    n_features_in_: int
    knowledge_: Knowledge
    data_fingerprint_: str
    table_options_: Mapping[str, str]
    names_: Names
    threshold: float
    decimal: str
    get_params: Callable[..., dict[str, Any]]

    _needs_table: ClassVar[bool] = False
    """Whether rows must be asked about as they came, with all columns of the fit, not as codes."""
    _marginalises: ClassVar[bool] = True
    """Whether rows have scores if their group is not known; else these are NaN."""

    @property
    def classes_(self) -> Array:
        """Classes of the label, in sorted order."""
        return self._coding().labels.classes_array()

    @property
    def positive_class_(self) -> Any:
        """The class that "positive" means."""
        return self._coding().labels.positive_class

    @property
    def groups_(self) -> Array:
        """Groups of the sensitive attribute."""
        return np.array(self._coding().groups.values)

    @property
    def bias_mechanism_(self) -> Floats:
        """P(D = d | Df = f, S = s), indexed [s, f, d]."""
        return self._fair().mechanism

    @property
    def fair_rate_(self) -> Floats:
        """P(Df), the mean over groups where they differ; without a latent fair decision P(D)."""
        return self._fair().fair_rate

    @property
    def group_rate_(self) -> Floats:
        """P(S)."""
        return self._fair().group_rate

    @property
    def subgroup_rate_(self) -> Floats:
        """P(S = s, A = a), indexed [s, a]; one stratum without ``given``."""
        return self._fair().subgroup_rate

    @property
    def stratum_rate_(self) -> Floats:
        """P(Df = f | A = a), indexed [a, f]: the same in every group unless ``delta`` is over 0."""
        return self._fair().stratum_rate

    @property
    def stratum_mechanism_(self) -> Floats:
        """P(D = d | Df = f, S = s, A = a), indexed [s, a, f, d]."""
        return self._fair().subgroup_mechanism

    @property
    def group_decision_rate_(self) -> Floats:
        """P(Df = f | S = s), indexed [s, f]: groups differ by their mix of strata, or ``delta``."""
        return self._fair().decision_rate

    @property
    def strata_(self) -> tuple[str, ...]:
        """Names of the strata within which Df is independent of S; one, "", without any."""
        return stratum_names(self._fair().strata, self._coding())

    @abstractmethod
    def _fair(self) -> FairModel:
        """What was learned; scikit-learn's NotFittedError before a fit."""

    @abstractmethod
    def _evidence(self, X: Any, sensitive_features: Any) -> tuple[Codes | None, Any]:
        """Groups, None where none is given, and features of rows as the model takes them."""

    @abstractmethod
    def _features_of(self, given: GivenRows) -> Any:
        """The same features of rows that are encoded already."""

    def _coding(self) -> TableCoding:
        check_is_fitted(self, "coding_")
        return self.coding_

    @property
    def _latent(self) -> bool:
        """Whether there is a latent fair decision Df; else the decision is D."""
        return self._fair().latent

    def _possible(self) -> LabelBounds:
        """What held-out labels leave possible; a LearningError where it was not looked at."""
        if not self._latent:
            raise LearningError(
                f"{type(self).__name__} has no latent fair decision, so no bounds of its score: "
                "use FairPC or LatNB"
            )
        if self.label_ends_ is None:
            raise LearningError(_NO_BOUNDS)
        return self.label_ends_

    def _decided(self, X: Any, sensitive_features: Any) -> tuple[Floats, Codes | None]:
        """P(decision = k) of each row, and its group; None where no group is given."""
        groups, features = self._evidence(X, sensitive_features)
        return self._fair().decision(groups, features), groups

    def _answers(self, given: GivenRows) -> tuple[Floats, Floats]:
        """P(decision = k | x, s) and P(D = k | x, s) of each row."""
        return self._fair().answers(given.codes.s, self._features_of(given))

    def _altered_counts(self, given: GivenRows) -> Floats:
        """Expected weight of the rows with Df = f and D = d in group s, [s, f, d]."""
        return self._fair().altered(given.codes, self._features_of(given))

    def save(self, path: AnyPath) -> None:
        """Write the fitted model to one data-only file; ``fairpc.load`` reads it.

        Of classifiers those of fairpc can be written, as numbers; others are refused.
        """
        from fairpc.models._file import save

        self._fair()
        save(self, path)

    @in_batches
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """P(Df = k | what is known of each row), rows × classes.

        Models without a latent fair decision give P(D = k | …). An absent group is marginalised;
        ``LatentDecision`` cannot, and gives NaN.
        Of a Dask frame it is lazy: a Dask frame with a column ``p_df_<class>`` each.
        """
        return self._decided(X, sensitive_features)[0]

    @in_batches
    def predict_observed_proba(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """P(D = k | what is known of each row): the label as it would be observed."""
        return self._fair().observed(*self._evidence(X, sensitive_features))

    @in_batches
    def predict(self, X: Any, *, sensitive_features: Any = None) -> Array:
        """The decision of each row: by ``threshold_`` for two classes, else the likeliest class.

        Of a Dask frame it is a lazy Dask series.
        """
        scores, groups = self._decided(X, sensitive_features)
        if np.isnan(scores).any():
            raise LearningError(
                "a row whose group is not known has no decision: give the groups, or use FairPC, "
                "which marginalises the group"
            )
        if scores.shape[1] > 2:
            return np.asarray(self.classes_[scores.argmax(axis=1)])
        positive = self._coding().labels.positive
        chosen = self.threshold_.decide(scores[:, positive], groups)
        return np.asarray(self.classes_[np.where(chosen, positive, 1 - positive)])

    @in_batches
    def predict_bounds(
        self,
        X: Any,
        *,
        sensitive_features: Any = None,
        level: float | None = None,
        decisions: bool = False,
    ) -> Any:
        """Least and largest P(Df = positive | x, s) over the identified set, rows × 2.

        Labels leave several mechanisms possible, however many rows there are, and each gives
        other scores; the order of rows within a group is the same in all, if strata have no
        mechanisms of their own. With strata the set is that within them. Where an absent group is
        marginalised, so are its bounds. Without ``level`` sampling error is not in them. NaN, with
        a warning, where the data contradict the assumptions.

        Args:
            X: rows.
            sensitive_features: their groups, if given apart.
            level: of bounds that have the sampling error in them, such as .95. A model or
                classifier that cannot have the shape of P(D | x, s) gives one score to rows that
                differ: the bounds are then of the mean over all rows with that score.
            decisions: also give "yes", "no" or "open" for each row: whether its score is above the
                threshold whatever is true, below it, or depends.
        """
        if len(self.classes_) > 2:
            raise LearningError(
                "the label has more than two classes, and bounds of a score need two: merge classes"
            )
        if level is not None:
            check_level(level)
        possible, positive = self._possible(), self._coding().labels.positive
        groups, features = self._evidence(X, sensitive_features)
        bounds = self._fair().bounds(groups, features, positive, possible, level)
        scored: Any = self._marginalises or (groups is not None and groups >= 0)
        if (np.isnan(bounds[:, 0]) & scored).any():
            warn_caller(_REJECTED, ContradictionWarning)
        if not decisions:
            return bounds
        above, below = (self.threshold_.decide(bounds[:, k], groups) for k in (0, 1))
        said = np.where(above, YES, np.where(below, OPEN, NO))
        return bounds, np.where(np.isnan(bounds[:, 0]), OPEN, said)

    @in_batches
    def posterior(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Floats:
        """P(Df = k | x, s, d), rows × classes: what a row's own label adds; soft labels.

        Where the label is missing it is that of ``predict_proba``. ``y`` is the name of a column
        where X is read in batches.
        """
        check_rows(X, read_frame(X), y, "label")
        codes = self._coding().labels.transform(y)
        groups, features = self._evidence(X, sensitive_features)
        return self._fair().posterior(groups, codes, features)

    def relabel(
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> tuple[Any, Array, Floats]:
        """Rows, labels and weights from which any learner that takes weights can learn Df.

        Each row is there once for every class, with P(Df = class | x, s, d) as its weight; what
        has no weight is left out.
        """
        soft = self.posterior(X, y, sensitive_features=sensitive_features)
        soft *= check_weights(sample_weight, len(soft))[:, None]
        code, row = np.nonzero(soft.T)
        return take_rows(X, row), np.asarray(self.classes_[code]), soft[row, code]

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        *,
        sensitive_features: Any = None,
    ) -> float:
        """Accuracy of ``predict`` against the recorded label, which may be biased.

        ``y`` is the name of a column where X is read in batches.
        """
        from sklearn.metrics import accuracy_score

        if isinstance(y, str):
            y = self._labels(X, y)
        decisions = self.predict(X, sensitive_features=sensitive_features)
        return float(accuracy_score(np.asarray(y), decisions, sample_weight=sample_weight))

    def choose_threshold(
        self,
        X: Any = None,
        *,
        value: float | None = None,
        selection_rate: float | None = None,
        equalise: bool = False,
        sensitive_features: Any = None,
    ) -> Self:
        """Choose what ``predict`` uses from now on.

        A number (``value``); a ``selection_rate`` reached on the given rows; or, with ``equalise``,
        a threshold per group so that each group's rate on these rows is the same. That is a step of
        its own: equal mean scores are not equal rates.
        """
        if len(self.classes_) > 2:
            raise LearningError("the label has more than two classes: thresholds need two")
        if value is not None:
            if selection_rate is not None or equalise:
                raise LearningError("a threshold and a selection rate were given: give one")
            self.threshold_ = fixed(value)
            return self
        if X is None:
            raise LearningError("no rows were given: a selection rate needs some")
        scores, groups = self._scores(X, sensitive_features=sensitive_features)
        known = ~np.isnan(scores)
        scores, groups = scores[known], None if groups is None else groups[known]
        if not equalise:
            if selection_rate is None:
                raise LearningError("nothing was chosen: give value, selection_rate or equalise")
            self.threshold_ = for_rate(scores, selection_rate)
            return self
        if groups is None:
            raise LearningError("the groups of the rows are not known: equalising needs them")
        self.threshold_ = equalised(scores, groups, len(self.groups_), selection_rate)
        return self

    def parity_gap(self, X: Any = None, *, sensitive_features: Any = None) -> dict[str, float]:
        """Gap between groups in P(decision = positive): under the model and, apart, on rows.

        ``model`` is the largest difference of P(decision | S = s) by exact query, within any
        stratum where the model has some; it is zero, or ``delta`` at most, for every model but
        TwoNB. ``rows`` is the
        largest difference of the mean scores of the groups in the given rows, whatever their
        strata; the first says nothing about it.
        """
        gaps = {"model": float(self._fair().parity_gap()[self._coding().labels.positive])}
        if X is not None:
            scores, groups = self._scores(X, sensitive_features=sensitive_features)
            if groups is None or (groups < 0).all():
                known = ", ".join(map(str, self.groups_))
                raise LearningError(
                    f"no row has a group that was there at fit ({known}): a gap needs rows of them"
                )
            means = [scores[groups == s].mean() for s in np.unique(groups[groups >= 0])]
            gaps["rows"] = float(max(means) - min(means))
        return gaps

    def distil(
        self,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        level: float = 0.95,
    ) -> Distilled:
        """A scorer of X alone that imitates this model, for places where S must not be used.

        It is trained on each row once per class with P(Df = class | x, s) as its weight. What
        differs between groups in X it may still tell: its price says how much is lost, on rows
        that were held out.

        Args:
            estimator: a classifier that takes ``sample_weight``; not fitted, it is cloned. None
                takes gradient boosting on tables as they are, which ``save`` can write.
            X: rows, with columns that ``sensitive`` names, which are left out for the scorer.
            y: recorded labels, for its accuracy against the fair decision at the point.
            sensitive_features: groups of the rows, if given apart.
            level: of the interval of its gap.
        """
        if len(self.classes_) > 2:
            raise LearningError("the label has more than two classes: a scorer needs two")
        positive = self._coding().labels.positive
        groups, features = self._evidence(X, sensitive_features)
        if groups is None or (groups < 0).all():
            raise LearningError("the groups of the rows are not known: a gap needs them")
        if (groups < 0).any():
            known = np.flatnonzero(groups >= 0)
            warn_caller(
                f"the group of {counted(len(groups) - len(known), 'row')} is not known: left out "
                "of the scorer and of its gap",
                TableWarning,
            )
            parts = (
                None if of is None else take_rows(of, known) for of in (X, y, sensitive_features)
            )
            X, y, sensitive_features = parts
            return self.distil(estimator, X, y, sensitive_features=sensitive_features, level=level)
        scores = self._fair().decision(groups, features)[:, positive]
        hidden = None
        if self._marginalises:
            nobody = np.full_like(groups, -1)
            without = self._fair().decision(nobody, features)[:, positive]
            hidden = self.threshold_.decide(without, nobody)
        soft = None
        if y is not None:
            soft = self.posterior(X, y, sensitive_features=sensitive_features)[:, positive]
        decided = self.threshold_.decide(scores, groups)
        from fairpc.models._classifiers import TableClassifier
        from fairpc.models._distilled import ImitatedRows, distilled, without_groups

        rows = ImitatedRows(scores, decided, groups, hidden, soft)
        own = TableClassifier(random_state=0) if estimator is None else estimator
        coding, least = self._coding(), int(self.min_cell)
        return distilled(own, without_groups(X, coding), rows, coding, least, level)

    @property
    def mechanism_range_(self) -> Floats:
        """Least and largest P(D = positive | Df = f, S = s), [s, f, 2], f by its class.

        Each holds at 95 % confidence, over everything that held-out labels leave possible; NaN
        where they contradict the assumptions. With strata it is that of
        ``stratum_mechanism_range_`` over all of them.
        """
        found = self._mechanism_ranges()
        return found if found.ndim == 3 else _over_strata(found)

    @property
    def stratum_mechanism_range_(self) -> Floats:
        """Least and largest P(D = positive | Df = f, S = s, A = a), [s, a, f, 2]."""
        found = self._mechanism_ranges()
        return found if found.ndim == 4 else found[:, None]

    def _mechanism_ranges(self) -> Floats:
        positive = self._coding().labels.positive
        return mechanism_ranges(self._possible(), positive)[..., positive, :]

    @property
    def fair_rates_(self) -> Floats:
        """P(Df = k | S = s), [s, k]: equal rows but by the mix of strata, or up to ``delta``."""
        return self._fair().decision_rate

    def explain_bias(self) -> BiasAccount:
        """How labels were altered, in sentences: the range that labels leave, then the point."""
        coding = self._coding()
        classes = tuple(map(str, coding.labels.classes))
        point = coding.group_names, classes, self.bias_mechanism_, self.label_counts_
        bounds = self.label_ends_ if self._latent else None
        bare = self.mechanism_without_prior_
        prior = 0.0 if bare is None else self.prior_rows_
        if bounds is None:
            return BiasAccount(*point, prior_rows=prior, without_prior=bare)
        ranges = mechanism_ranges(bounds, coding.labels.positive)
        clash = " ".join(contradictions(bounds, coding, self._fair().strata))
        if ranges.ndim == 5:
            ranges = _over_strata(ranges)
        low, high = bounds.rate_set(LEVEL, self.subgroup_rate_)
        return BiasAccount(
            *(*point, ranges, clash, rates_alike(bounds), prior),
            without_prior=bare,
            rate=float(self.fair_rate_[coding.labels.positive]),
            rate_range=(low, high) if low <= high else None,
        )

    @in_batches
    def _scores(self, X: Any, *, sensitive_features: Any = None) -> tuple[Floats, Codes | None]:
        """P(decision = positive) of each row, and its group, None where no group is given."""
        scores, groups = self._decided(X, sensitive_features)
        return scores[:, self._coding().labels.positive], groups

    @in_batches
    def _labels(self, X: Any, y: Any) -> Array:
        """The labels of the rows, as classes."""
        return self._coding().labels.inverse(self._coding().labels.transform(y))

    def _check_width(self, X: Any) -> None:
        """A TableError where an array is not as wide as at fit."""
        self._coding()  # says so where the model is not fitted
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] != self.n_features_in_:
            raise TableError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input: array columns are matched by position"
            )
