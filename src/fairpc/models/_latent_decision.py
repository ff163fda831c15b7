"""Df on top of any classifier: a scikit-learn meta-estimator around a map of its scores.

Within the model, P(Df | x, s) is a line in P(D | x, s) for each group. So a user keeps the
classifier that predicts D best, and its scores become those of the fair decision, with bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Self

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from fairpc.core import (
    Codes,
    ColumnWarning,
    ContradictionWarning,
    LearningError,
    NotAnsweredError,
    Positions,
    Say,
    TableError,
    TableWarning,
    check_clusters,
    counted,
    fingerprint,
    warn_caller,
)
from fairpc.data import (
    IDENTIFIES,
    SMALL,
    Encoding,
    EncodingOptions,
    Frame,
    TableCoding,
    Warned,
    fit_coding,
    identifiers,
    is_dask,
    is_source,
    leaving_out,
    read_frame,
    take_rows,
    warn_of_dropped,
)
from fairpc.evidence import LEVEL, LabelBounds
from fairpc.models._classifiers import TableClassifier
from fairpc.models._decisions import FittedDecisions, GivenRows
from fairpc.models._fold_classifiers import (
    FoldClassifiers,
    GroupView,
    SecondRound,
    check_classifier,
    frame_of,
    held_out_scores,
    in_order,
)
from fairpc.models._knowledge import limits_of_coding
from fairpc.models._model import fixed
from fairpc.models._review import Reviewed, ReviewRows
from fairpc.models._reviewed_fit import ReviewedRates, knowledge_after, refuse_beside_review
from fairpc.models._rows import Rows, rows_fingerprint
from fairpc.models._score_map import ScoreMap
from fairpc.models._score_map_fit import (
    ScoredRows,
    calibrated,
    findings,
    fit_score_map,
    held_to,
)
from fairpc.models._scored import ScoredModel, TableRows
from fairpc.models._settings import (
    ScoreSettings,
    check_settings,
    generator,
    refuse_many,
    refuse_rate,
    rounded_counts,
    small_strata,
    strata_of,
    without_few,
)
from fairpc.models._strata import UNDIVIDED, Strata
from fairpc.models._tables import (
    GivenTable,
    check_fit_input,
    listed,
    rows_in_order,
    warn_of_leaks,
)

REFUSED: Final = {
    "sample": "draw rows",
    "score_samples": "tell how probable rows are",
    "complete": "complete rows",
    "probability": "answer questions about X",
    "contributions": "sum values of a row out",
    "circuit_": "give a circuit",
}
"""What a model of P(D | x, s) alone cannot do."""
_QUICK: Final = (
    *("sensitive", "positive", "names", "missing_values", "numeric", "decimal", "random_state"),
)
"""Settings of any model that the quick one of a review takes."""


class LatentDecision(  # type: ignore[misc]
    ScoreSettings,
    FittedDecisions,
    MetaEstimatorMixin,  # type: ignore[misc]
    ClassifierMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """P(Df | x, s) from any classifier of D that sees X and S, with bounds.

    D is a noisy, group-dependent copy of a latent fair decision Df, independent of X given (Df, S),
    and Df is independent of S: the assumptions of :class:`FairPC`. Then P(D = 1 | x, s) is a line
    in P(Df = 1 | x, s) for each group. The classifier is fitted on all rows but one fold, for each
    fold; scores of the rows left out calibrate it within each group and give P(Df), the mechanism
    and the identified set. Predictions are means over the classifiers of the folds. A row whose
    group is not known has the score NaN: :class:`FairPC` marginalises the group.

    The default classifier is followed by others: once the mechanism is known, gradient boosting
    and a logistic regression learn Df behind the labels, in the same folds, and have a share in the
    scores. A classifier that is given stays alone.

    Args:
        estimator: a classifier with ``predict_proba``, or a Pipeline; None takes gradient boosting
            on tables as they are. It is given the rows as they came, with the group: columns of X
            that ``sensitive`` names stay, groups given apart are added under their own name, as
            numbers where X holds no text. The default classifier, and others of fairpc, leave out
            columns whose text or whole number differs in every row.
        sensitive: columns of X that are the sensitive attribute; or give ``sensitive_features``.
        positive: the class that is meant by "positive"; the last one by default.
        names: what people call values of the label and of groups, by column: ``{"sex": {"F":
            "women"}}``; audits use them. Values that differ by case alone need one.
        given: legitimate factors, columns of X, numbers in bins: Df is then independent of S
            within each crossing of their values, and may differ between them, as P(D | Df, S) may.
            They stay features.
        delta: by how much P(Df | s) of two groups may differ; 0 makes Df independent of S.
        cv: folds.
        knowledge: what is known beforehand about P(Df) and P(D | Df, S).
        threshold: score above which ``predict`` gives the positive class.
        missing_values: values that mean "missing" in groups and labels, and for the default
            classifier in features.
        numeric: columns of numbers that the default classifier keeps, even if every row has its
            own.
        decimal: the decimal mark of numbers that are text, "." or ",". The default classifier is
            given them as numbers.
        min_cell: levels, groups and strata of fewer people are not kept apart, nor named in files;
            1 keeps all.
        random_state: of folds and of the default classifier.
    """

    score_map_: ScoreMap

    _strata: Strata = UNDIVIDED
    _say: Say = staticmethod(lambda text: None)  #: shows what a fit is doing
    _needs_table = True  # what a classifier uses is its own affair
    _marginalises = False

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        clusters: npt.ArrayLike | None = None,
        reviewed: Reviewed | None = None,
    ) -> Self:
        """Fit to a table, its labels and its groups.

        Rows without a label, a group or, with ``given``, a stratum are left out, with a warning.

        Args:
            X: frame or array, as the classifier takes it.
            y: recorded labels, of two classes.
            sensitive_features: groups given apart from X, as in fairlearn.
            sample_weight: weight per row; whole ones count rows: divide survey ones by their mean.
            clusters: who each row is about, where persons repeat; a person stays in one fold.
            reviewed: answers for rows of X that were drawn with known chances. They decide the
                mechanism and the fair rates, which are tied unless the review contradicts it.
        """
        self._check_settings()
        refuse_beside_review(reviewed, X, self.given, sample_weight)
        threshold, rng = fixed(self.threshold), generator(self.random_state)
        if is_source(X) or is_dask(X):
            raise TableError(
                "a streamed table was given: a classifier needs its rows in memory; read it, or "
                "use FairPC"
            )
        check_fit_input(self, X, y)
        given_table = self._given_table(X, y, sensitive_features, sample_weight)
        coding = self._fit_coding(given_table)
        strata = strata_of(self.given, coding, self.delta)
        refuse_rate(self.knowledge, self.given)
        given = X, y, sensitive_features, sample_weight
        hidden = given_table.hidden_labels(coding)
        all_rows = without_few(
            rows_in_order(coding, *given, warn=False, hidden=hidden), strata, int(self.min_cell)
        )
        ours = isinstance(self.estimator, TableClassifier | None)
        view = GroupView.of(coding, X, own=ours)
        table, rows, who = _used(X, all_rows, clusters)
        _refuse_unlabelled(coding, rows)
        _warn_left_out(all_rows, rows.n_rows)
        warn_of_leaks(given_table, rows, coding)
        _warn_small(coding, small_strata(rows, strata, coding))
        cross = FoldClassifiers(self, view, coding, rng)
        folds, positive = cross.folds(rows, who), coding.labels.positive
        self._say("fitting classifiers of the recorded label")
        whole = cross.table(self.estimator, view.table(table, rows.s), rows.weights)
        estimators = cross.of_labels(whole, rows, folds, sample_weight is not None)
        _warn_of_identifiers(coding.features, estimators[0])
        scores = held_out_scores(whole, folds, estimators)
        scored = ScoredRows(rows, scores, folds, positive, who)
        score_map = fit_score_map(
            scored,
            coding.group_names,
            limits=limits_of_coding(self.knowledge, coding),
        )
        ends = score_map.ends.without_few(int(self.min_cell))
        score_map, held = replace(score_map, ends=ends), None
        if reviewed is not None:
            answers = reviewed.taken(_positions(all_rows))
            held = _review_of(answers, coding, scored, score_map, table)
            score_map, scored = held_to(score_map, scored, held, coding)
            strata = scored.rows.strata
        second = None
        if self.estimator is None and not score_map.straight:
            # Classifiers that know how labels were altered tell more of Df.
            self._say("fitting classifiers of the fair decision")
            known = whole, scored, score_map, estimators
            second, scored = SecondRound.learned(cross, *known)
            score_map = calibrated(score_map, scored)
        fair = ScoredModel(score_map, estimators, second, view, (), strata, positive)
        self._store(coding, fair, scored, held)
        validate_data(self, X, skip_check_array=True)  # notes its columns
        self.threshold_ = threshold
        self.data_fingerprint_ = rows_fingerprint(all_rows)
        for sentence in self.warnings_:
            warn_caller(sentence, ContradictionWarning)
        return self

    def _given_table(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> GivenTable:
        return GivenTable.of(
            X,
            y,
            sensitive=self.sensitive,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            missing_values=self.missing_values,
            numeric=listed(self.numeric),
            decimal=self.decimal,
        )

    def _check_settings(self) -> None:
        """A LearningError names the first setting that is wrong."""
        check_settings(self.get_params(deep=False), ScoreSettings)
        if self.estimator is not None:
            check_classifier(self.estimator)

    def _fit_coding(self, table: GivenTable) -> TableCoding:
        """How groups and labels become codes; features too, for what is said of the table."""
        coding, _ = fit_coding(
            table.source,
            table.roles,
            positive=self.positive,
            names=self.names,
            options=EncodingOptions(numeric=table.roles.numeric, min_cell=int(self.min_cell)),
            given_whole=True,
        )
        refuse_many(coding.labels, "LatentDecision")
        return coding

    def _store(
        self,
        coding: TableCoding,
        fair: ScoredModel,
        scored: ScoredRows,
        held: ReviewedRates | None,
    ) -> None:
        """Set what was learned, all at once: a fit that fails leaves the object as it was."""
        self.coding_ = coding
        self.names_ = coding.names_of(self.names)
        self.table_options_ = {}
        self._strata = fair.strata
        self.group_view_ = fair.view
        self.estimators_ = fair.classifiers
        self.second_round_ = fair.second_round
        self.score_map_ = fair.score_map
        self.knowledge_ = knowledge_after(self.knowledge, held, coding)
        reviewed = () if held is None else held.warnings
        self.warnings_ = (*reviewed, *findings(fair.score_map, scored, coding))
        self.folds_ = scored.folds
        self.fold_rows_ = _name_in_order(scored.rows)
        counts = fair.altered_by_scores(scored)
        self.label_counts_ = rounded_counts(counts, int(self.min_cell))

    def cross_fitted(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        clusters: npt.ArrayLike | None = None,
    ) -> ScoredRows:
        """The rows of the fit with the scores that P(Df) and the mechanism were learned from.

        Each is scored by the classifier that had not seen its fold. What a row was in is not kept
        in files, so a model that was loaded has no answer.
        """
        coding = self._coding()
        given = X, y, sensitive_features, sample_weight
        hidden = self._given_table(*given).hidden_labels(coding)
        all_rows = rows_in_order(coding, *given, hidden=hidden)
        own_rows = without_few(all_rows, self._strata, int(self.min_cell))
        table, rows, who = _used(X, own_rows, clusters)
        if not hasattr(self, "folds_"):
            raise LearningError(
                "this LatentDecision was loaded from a file, which does not say what fold each row "
                "was in: scores of rows that a classifier has not seen need it; fit it again"
            )
        if _name_in_order(rows) != self.fold_rows_:
            raise LearningError(
                "these are not the rows of the fit in their order: only of those it is known which "
                "classifier has not seen them; give X, y and groups as they were given to fit"
            )
        whole = self.group_view_.table(table, rows.s)
        scores = held_out_scores(whole, self.folds_, self.estimators_)
        scored = ScoredRows(rows, scores, self.folds_, coding.labels.positive, who)
        if self.second_round_ is None:
            return scored
        return self.second_round_.held_out(scored, whole, self.score_map_)

    @property
    def label_ends_(self) -> LabelBounds:  # type: ignore[override]
        """What held-out labels leave possible."""
        return self._map().ends

    @property
    def fair_rate_set_(self) -> tuple[float, float]:
        """The P(Df = positive) that held-out labels leave possible, with 95 % confidence; the first
        is larger than the second where they leave none."""
        return self._map().rate_set(LEVEL)

    def _map(self) -> ScoreMap:
        check_is_fitted(self, "score_map_")
        return self.score_map_

    def _fair(self) -> ScoredModel:
        return ScoredModel(
            self._map(),
            self.estimators_,
            self.second_round_,
            self.group_view_,
            getattr(self, "feature_names_in_", ()),
            self._strata,
            self._coding().labels.positive,
        )

    def _evidence(self, X: Any, sensitive_features: Any) -> tuple[Codes | None, TableRows]:
        coding = self._coding()
        self._check_width(X)
        frame = read_frame(X)
        self._check_columns(frame)
        groups = coding.group_codes(X, frame, sensitive_features)
        strata = None
        if self._strata or all(isinstance(c, TableClassifier) for c in self.estimators_):
            codes = coding.features.transform(frame, allow_absent=True)  # names levels that are new
            strata = self._strata_of(codes)
        else:
            coding.features.aligned(frame)  # warns of a frame where the fit had an array
        return groups, TableRows(self._as_fitted(X), frame.n_rows, strata)

    def _features_of(self, given: GivenRows) -> TableRows:
        return TableRows(given.table, given.codes.n_rows, self._strata_of(given.codes.x))

    def _strata_of(self, x: Codes) -> Positions | None:
        """Stratum of each row of codes, -1 where it is not known; None without strata."""
        return np.asarray(self._strata.codes(x), np.intp) if self._strata else None

    def _as_fitted(self, X: Any) -> Any:
        """Rows as classifiers know them: frames by name, arrays by position."""
        if isinstance(X, Frame):
            return X
        library, frame = self.group_view_.library, frame_of(X)
        if not library:
            array = np.asarray(X) if frame is None else frame.to_numpy()
            self._check_width(array)
            return array
        names = list(getattr(self, "feature_names_in_", ()))
        if frame is not None:
            return in_order(X, names)
        columns = dict(zip(names, np.asarray(X).T, strict=True))
        backend: Any = library
        return nw.from_dict(columns, backend=backend).to_native()

    def _check_columns(self, frame: Frame) -> None:
        features = self._coding().features
        lacking = [name for name in features.names if name not in frame.names]
        if lacking and not (frame.from_array or features.from_array):
            raise TableError(
                f"column {lacking[0]!r} is not in the table: a classifier needs every column of "
                "the fit; give it, or use FairPC, which sums it out"
            )

    def __getattr__(self, name: str) -> Any:
        if hasattr(type(self), name):
            check_is_fitted(self, "score_map_")  # a property that found nothing
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


def quick_decision(
    settings: Mapping[str, Any], X: Any, y: Any, sensitive_features: Any = None
) -> LatentDecision:
    """A LatentDecision on a logistic regression, fitted in seconds: where to look for a review.

    ``settings`` are those of any model; those about the table, and the seed, are taken.
    """
    own = {name: settings[name] for name in _QUICK if name in settings}
    about = {name: own[name] for name in ("missing_values", "random_state") if name in own}
    given = {} if sensitive_features is None else {"sensitive_features": sensitive_features}
    classifier = TableClassifier("logistic", **about)
    how: dict[str, Any] = {"random_state": 0}
    model = LatentDecision(classifier, **how | own)
    with Warned().watching():
        return model.fit(X, y, **given)


def _used(
    X: Any, all_rows: Rows, clusters: npt.ArrayLike | None
) -> tuple[Any, Rows, Positions | None]:
    """Of rows with a label, a subgroup and weight: the table, their codes, their persons."""
    persons = check_clusters(clusters, all_rows.n_rows)
    used = _positions(all_rows)
    table = X if len(used) == all_rows.n_rows else take_rows(X, used)
    who = None if persons is None else np.unique(persons[used], return_inverse=True)[1]
    return table, all_rows.take(used), who


def _review_of(
    answers: Reviewed, coding: TableCoding, scored: ScoredRows, score_map: ScoreMap, X: Any
) -> ReviewedRates:
    """What answers for the scored rows say of the rates, by the scores before the review."""
    observed = score_map.observed(scored.scores[None], scored.groups)[0]
    own = np.arange(scored.rows.n_rows), observed, scored.scores > 0.5, score_map.ends
    about = ReviewRows.of_codes(coding, scored.rows, *own, X)
    return ReviewedRates.of(about, answers, coding.group_names)


def _positions(rows: Rows) -> Positions:
    """Where rows have a label, a subgroup and weight."""
    return np.flatnonzero((rows.subgroups >= 0) & (rows.d >= 0) & (rows.weights > 0))


def _name_in_order(rows: Rows) -> str:
    """A name for rows that says their order too."""
    return fingerprint(rows.s, rows.d, rows.x)


def _refuse_unlabelled(coding: TableCoding, rows: Rows) -> None:
    """A LearningError where a group has no label that counts."""
    n = np.bincount(rows.s, minlength=len(coding.groups.names))
    if not n.all():
        raise LearningError(
            f"group {coding.group_names[int(np.argmin(n))]!r} has too few labelled rows (fewer "
            "than min_cell count as none): give more labels, or merge it with another group"
        )


def _warn_left_out(rows: Rows, n_used: int) -> None:
    lost = int((rows.weights > 0).sum()) - n_used
    if lost:
        lacking = "no label, no group or no stratum" if rows.strata else "no label or no group"
        warn_caller(
            f"{counted(lost, 'row')} of {rows.n_rows} {'has' if lost == 1 else 'have'} {lacking} "
            "and cannot be used here; FairPC can learn from such rows",
            TableWarning,
        )


def _warn_small(coding: TableCoding, strata: str) -> None:
    if strata:
        warn_caller(strata, TableWarning)
    small = coding.small_groups()
    if small:
        named = ", ".join(f"{name} ({counted(n, 'row')})" for name, n in small)
        warn_caller(
            f"hardly anything can be learned about groups of under {SMALL} rows: {named}; merge "
            "them with others, or give more rows",
            TableWarning,
        )


def _warn_of_identifiers(features: Encoding, classifier: Any) -> None:
    """Name identifiers that a classifier learns from, and columns that ours leaves out by itself.

    ``features`` says which columns a circuit would drop; a classifier is given the whole table.
    """
    apart = classifier.encoding_.dropped if isinstance(classifier, TableClassifier) else ()
    warn_of_dropped(apart)
    unused = {column.name for column in apart}
    for name, why in identifiers(features).items():
        if name in unused or why != IDENTIFIES:
            continue
        warn_caller(
            ColumnWarning(
                f"column {name!r} has a different value in every row, like an identifier, and the "
                f"classifier is given it: leave it out with {leaving_out(name)}"
            )
        )
