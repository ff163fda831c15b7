"""What the four models have in common as classifiers: validate, encode, call, store."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from fairpc.circuit.em import Step
from fairpc.circuit.graph import Circuit
from fairpc.cluster.table import is_dask
from fairpc.data.atomic import AnyPath
from fairpc.data.frame import read_frame
from fairpc.data.source import is_source
from fairpc.errors import EvidenceError, LearningError, TableError
from fairpc.estimators.inputs import Codes, Coding, fit_coding
from fairpc.estimators.lazy import lazy_on_dask
from fairpc.estimators.progress import progress, reading
from fairpc.estimators.settings import plain
from fairpc.estimators.streaming import labelled_rows, roles_of
from fairpc.estimators.training import FitFolder, Training, name_of
from fairpc.fair.compressed import merged
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.explanation import BiasAccount, Contribution, leave_one_out, turned_labels
from fairpc.fair.fit import Fitted, Options
from fairpc.fair.journal import Journal
from fairpc.fair.knowledge import Knowledge, Limits
from fairpc.fair.parted import fit_parted
from fairpc.fair.recipe import AutoFitted
from fairpc.fair.rows import Rows
from fairpc.fair.starts import FittedFromStarts
from fairpc.fair.threshold import Threshold, equalised, fixed, for_rate
from fairpc.fair.top import Model

if TYPE_CHECKING:
    from fairpc.plots import ModelPlots

FloatArray = npt.NDArray[np.float64]
Triple = Sequence[Any]
"""(X, y, sensitive features)."""


class CircuitClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of FairPC, NLatPC, LatNB and TwoNB."""

    _model: Model
    _journal: Journal | None = None

    # Parameters that every model has; each class sets them in its own __init__.
    sensitive: Any
    positive: Any
    knowledge: Knowledge | None
    threshold: float
    n_bins: int
    rare: float
    numeric: Sequence[str | int]
    categorical: Sequence[str | int]
    missing_values: tuple[Any, ...]
    random_state: Any
    verbose: int

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        fair_labels: Any = None,
        validation_data: Triple | None = None,
        eval_set: Mapping[str, Triple] | None = None,
        callback: Callable[[Step], object] | None = None,
        checkpoint: AnyPath | None = None,
        max_memory: int | str | None = None,
    ) -> Self:
        """Fit to a table, its labels and its groups.

        Args:
            X: frame or array; missing values are allowed. Or a table that is read in batches,
                however long: the path of a Parquet, CSV or Arrow file, a folder, a glob, a
                polars lazy frame, or a Dask frame, whose workers then read it.
            y: observed labels; missing ones are allowed. The name of a column where X is
                read in batches, as is then ``sample_weight``.
            sensitive_features: groups given apart from X, as in fairlearn; one column or more.
            sample_weight: weight per row.
            fair_labels: the fair decision of each row where it is known by other means, missing
                where not; EM is held to them.
            validation_data: (X, y, sensitive) of rows that choose structure, never parameters.
            eval_set: name -> (X, y, sensitive); their likelihood per iteration is in ``history_``.
            callback: called with each EM step.
            checkpoint: a folder in which the fit is kept; the same call goes on with it, and ends
                with the same bits as if it had not been stopped.
            max_memory: bytes, or text like "4GB": where the distinct rows of a streamed table take
                more, they stay on disk, structure is learned on a sample, and EM reads them in
                parts. Half of the machine's memory by default.
        """
        threshold = fixed(self.threshold)
        settings = {name: plain(value) for name, value in self.get_params(deep=False).items()}
        with FitFolder(checkpoint, settings, max_memory) as folder:
            training = self._training(X, y, sensitive_features, sample_weight, fair_labels, folder)
            coding = training.coding
            limits = self._limits(coding, fair_labels)
            validation = None if validation_data is None else self._triple(coding, validation_data)
            evaluation = {k: self._triple(coding, some) for k, some in (eval_set or {}).items()}
            self._journal = None if folder.checkpoint is None else folder.checkpoint.journal
            try:
                with progress(type(self).__name__, self.verbose, callback) as step:
                    fitted = self._fit_training(
                        training, validation, evaluation, limits, step, folder.sample_rows
                    )
                self._store(training, fitted, threshold)
            finally:
                self._journal = None
        return self

    def _fit_training(
        self,
        training: Training,
        validation: Rows | None,
        evaluation: Mapping[str, Rows],
        limits: Limits | None,
        step: Callable[[Step], object],
        sample_rows: int,
    ) -> Fitted:
        """Fit to rows in memory; to rows on disk, with the structure of a sample of them."""
        rows = training.rows
        if isinstance(rows, Rows):
            return self._fit_rows(rows, validation, evaluation, limits, step)
        sample = rows.sample(sample_rows, self._rng())
        on_sample = self._fit_rows(sample, validation, {}, limits, step)
        return fit_parted(on_sample, rows, self._em_options(limits), step)

    def _training(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any,
        sample_weight: Any,
        fair_labels: Any,
        folder: FitFolder,
    ) -> Training:
        """The coding of a table and its rows, equal ones merged."""
        options = {
            "n_bins": self.n_bins, "rare": self.rare,
            "numeric": self.numeric, "categorical": self.categorical,
        }  # fmt: skip
        if is_source(X) or is_dask(X):
            apart = {"sensitive_features": sensitive_features, "fair_labels": fair_labels}
            for name in (name for name, given in apart.items() if given is not None):
                raise TableError(
                    f"{name} were given with a table that is streamed: its rows have no number to "
                    "go by, so make them a column of it, or read it into memory"
                )
            source = folder.opened(X)
            roles = roles_of(source, y, self.sensitive, sample_weight, self.missing_values)
            with reading(type(self).__name__, self.verbose) as watch:
                training = folder.streamed(
                    source, roles, coding=self._given_coding(), positive=self.positive,
                    options=options, watch=watch,
                )  # fmt: skip
            self.feature_names_in_ = np.array(training.coding.features.names_in, dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
            return training
        self._check_fit_input(X, y)
        coding = self._given_coding() or fit_coding(
            X, y, sensitive=self.sensitive, sensitive_features=sensitive_features,
            sample_weight=sample_weight, positive=self.positive,
            missing_values=self.missing_values, options=options,
        )  # fmt: skip
        rows = coding.rows(X, y, sensitive_features, sample_weight, fair_labels)
        return folder.known_by_rows(Training(coding, merged(rows)))

    def _triple(self, coding: Coding, data: Triple) -> Rows:
        """Rows beside the training rows, in memory or in files."""
        if len(data) != 3:
            raise LearningError(
                "rows beside the training rows are given as (X, y, sensitive features); the last "
                "is None where the sensitive columns are in X"
            )
        X, y, sensitive = data
        if is_source(X):
            return labelled_rows(X, y, coding, self.missing_values)
        return merged(coding.rows(X, y, sensitive))

    def _check_fit_input(self, X: Any, y: Any) -> None:
        """What scikit-learn asks of every classifier, in its words where its tools read them."""
        name = type(self).__name__
        if y is None:
            raise TableError(
                f"This {name} estimator requires y to be passed, but the target y is None: give "
                "the observed labels"
            )
        frame = read_frame(X)
        validate_data(self, X, skip_check_array=True)
        if frame.n_rows == 1:
            raise TableError("the table has n_samples = 1: a fit needs rows of two classes")
        if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1 and isinstance(y, np.ndarray):
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected: it is read as one",
                DataConversionWarning, stacklevel=3,
            )  # fmt: skip

    def _given_coding(self) -> Coding | None:
        """The coding of a model whose structure is kept; None to learn one."""
        return None

    def _fit_rows(
        self,
        rows: Rows,
        validation: Rows | None,
        evaluation: Mapping[str, Rows],
        limits: Limits | None,
        callback: Callable[[Step], object],
    ) -> Fitted:
        """Fit the model of this class to rows of codes."""
        raise LearningError(f"{type(self).__name__} is a base class: use FairPC or another model")

    def _em_options(self, limits: Limits | None = None) -> Options:
        """How EM is run where the structure is given: smoothing, priors, when it stops."""
        raise LearningError(f"{type(self).__name__} is a base class: use FairPC or another model")

    def _limits(self, coding: Coding, fair_labels: Any = None) -> Limits | None:
        """What the stated knowledge says about the groups and classes of this coding."""
        if not self.knowledge and fair_labels is None:
            return None
        if self._model not in ("FairPC", "LatNB"):
            given = "fair_labels were" if fair_labels is not None else "knowledge was"
            raise LearningError(
                f"{given} given to {type(self).__name__}, which has no latent decision that it "
                "could be about: use FairPC or LatNB"
            )
        if not self.knowledge:
            return None
        if not isinstance(self.knowledge, Knowledge):
            raise LearningError(f"knowledge is {self.knowledge!r}: give a fairpc.Knowledge")
        groups = list(zip(coding.groups.values, coding.groups.names, strict=True))
        return self.knowledge.limits(groups, coding.labels.classes, coding.labels.positive)

    def _evidence(
        self, X: Any, sensitive_features: Any, *, allow_absent: bool = False
    ) -> tuple[Codes | None, Codes]:
        """Codes of S, None where it is not given, and of X; arrays must be as wide as at fit."""
        coding = self._coding()
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] != self.n_features_in_:
            raise TableError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input: columns of an array go by position"
            )
        return coding.evidence(X, sensitive_features, allow_absent=allow_absent)

    def _rng(self) -> np.random.Generator:
        """A generator from what scikit-learn allows as a random state."""
        if isinstance(self.random_state, np.random.Generator):
            return self.random_state
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return np.random.default_rng(seed)

    def _store(self, training: Training, fitted: Fitted, threshold: Threshold) -> None:
        """Set what was learned, all at once: a fit that fails leaves the object as it was."""
        rows = training.rows
        self.coding_ = training.coding
        self.distribution_ = fitted.distribution
        self.history_ = fitted.history
        self.converged_ = fitted.converged
        self.choices_ = fitted.choices if isinstance(fitted, AutoFitted) else None
        self.starts_ = fitted.starts if isinstance(fitted, FittedFromStarts) else ()
        self.n_iter_ = max(len(fitted.history["objective"]) - 1, 1)
        self.threshold_ = threshold
        if isinstance(rows, Rows):
            self.label_counts_ = turned_labels(fitted.distribution, rows)
        else:
            self.label_counts_ = rows.label_counts(fitted.distribution)
        self.data_fingerprint_ = name_of(rows)
        self.knowledge_ = self.knowledge or Knowledge()
        self.n_anchors_ = rows.n_anchors if isinstance(rows, Rows) else 0

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Classes of the label, in sorted order."""
        return self._coding().labels.classes_array()

    @property
    def positive_class_(self) -> Any:
        """The class that "positive" means."""
        return self._coding().labels.positive_class

    @property
    def groups_(self) -> npt.NDArray[Any]:
        """Groups of the sensitive attribute."""
        return np.array(self._coding().groups.values)

    @property
    def circuit_(self) -> Circuit:
        """The distribution as a circuit: S, Df if there is one, D, then the features used."""
        return self._distribution().circuit

    @property
    def bias_mechanism_(self) -> FloatArray:
        """P(D = d | Df = f, S = s), indexed [s, f, d]."""
        return self._distribution().mechanism

    @property
    def fair_rate_(self) -> FloatArray:
        """P(Df); without a latent decision P(D)."""
        distribution = self._distribution()
        result: FloatArray = distribution.group_rate @ distribution.decision_rate
        return result

    @property
    def group_rate_(self) -> FloatArray:
        """P(S)."""
        return self._distribution().group_rate

    def _coding(self) -> Coding:
        check_is_fitted(self, "coding_")
        return self.coding_

    def _distribution(self) -> FairDistribution:
        check_is_fitted(self, "distribution_")
        return self.distribution_

    @lazy_on_dask
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """P(Df = k | what is known of each row), rows × classes.

        Models without a latent decision give P(D = k | …). An absent group is summed out.
        Of a Dask frame it is lazy: a Dask frame with a column ``p_df_<class>`` each.
        """
        return self._distribution().decision(*self._evidence(X, sensitive_features))

    @lazy_on_dask
    def predict_observed_proba(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """P(D = k | what is known of each row): the label as it would be observed."""
        return self._distribution().observed(*self._evidence(X, sensitive_features))

    @lazy_on_dask
    def predict(self, X: Any, *, sensitive_features: Any = None) -> npt.NDArray[Any]:
        """The decision of each row: by ``threshold_`` for two classes, else the likeliest class.

        Of a Dask frame it is a lazy Dask series.
        """
        coding = self._coding()
        groups, features = self._evidence(X, sensitive_features)
        scores = self._distribution().decision(groups, features)
        if scores.shape[1] > 2:
            return np.asarray(self.classes_[scores.argmax(axis=1)])
        positive = coding.labels.positive
        chosen = self.threshold_.decide(scores[:, positive], groups)
        return np.asarray(self.classes_[np.where(chosen, positive, 1 - positive)])

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

        A number (``value``); a ``selection_rate`` reached on the given rows; or, with
        ``equalise``, a threshold per group so that each group's rate on these rows
        is the same. That is a step of its own: equal mean scores are not equal rates.
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
        coding = self._coding()
        groups, features = self._evidence(X, sensitive_features)
        scores = self._distribution().decision(groups, features)[:, coding.labels.positive]
        if not equalise:
            if selection_rate is None:
                raise LearningError("nothing was chosen: give value, selection_rate or equalise")
            self.threshold_ = for_rate(scores, selection_rate)
            return self
        if groups is None:
            raise LearningError("the groups of the rows are not known: equalising needs them")
        self.threshold_ = equalised(scores, groups, len(coding.groups.names), selection_rate)
        return self

    def score_samples(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> FloatArray:
        """log P of each encoded row (bins are masses); what is missing is summed out."""
        coding = self._coding()
        groups, features = self._evidence(X, sensitive_features)
        labels = None if y is None else coding.labels.transform(y)
        return self._distribution().log_likelihood(groups, labels, features)

    def sample(self, n: int, random_state: int | None = None, *, library: str = "polars") -> Any:
        """Complete rows drawn from the model, as a frame: features, group, label, decision."""
        circuit = self._distribution().circuit
        return _frame(
            self._columns(circuit.sample(n, np.random.default_rng(random_state))), library
        )

    def complete(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, library: str = "polars"
    ) -> Any:
        """The most probable completion of each row, jointly with its group, label and decision.

        What is known stays; numbers come back as their bins.
        """
        coding = self._coding()
        groups, features = self._evidence(X, sensitive_features, allow_absent=True)
        labels = None if y is None else coding.labels.transform(y)
        distribution = self._distribution()
        codes, _ = distribution.circuit.mpe(distribution.layout.codes(groups, labels, features))
        return _frame(self._columns(codes), library)

    def _columns(self, codes: Codes) -> dict[str, Any]:
        """Complete rows of the circuit as columns of values: features, S, D, Df."""
        coding, layout = self._coding(), self._distribution().layout
        columns: dict[str, Any] = dict(
            coding.features.inverse(codes[:, layout.x.start : layout.x.stop])
        )
        columns["S"] = [coding.groups.values[s] for s in codes[:, 0]]
        columns["D"] = coding.labels.inverse(codes[:, layout.d]).tolist()
        if layout.latent:
            columns["Df"] = coding.labels.inverse(codes[:, layout.decision]).tolist()
        return columns

    def probability(
        self, event: Mapping[str, Any], given: Mapping[str, Any] | None = None
    ) -> float:
        """P(event | given), exactly, for any values of any variables.

        Names are those of features, and "S", "D", "Df": a group, an observed class, a
        decision. ``probability({"Df": "good"}, {"S": "F", "job": "clerk"})``.
        """
        condition = self._row(given or {})
        both = self._row(dict(given or {}) | dict(event))
        clash = [n for n in event if n in (given or {}) and (given or {})[n] != event[n]]
        circuit = self._distribution().circuit
        total = circuit.log_marginal(condition)[0]
        if np.isneginf(total):
            raise EvidenceError(f"{dict(given or {})} has probability zero: leave out a value", 0)
        return 0.0 if clash else float(np.exp(circuit.log_marginal(both)[0] - total))

    def _row(self, values: Mapping[str, Any]) -> Codes:
        """One row of the circuit with these values, the rest missing."""
        coding, layout = self._coding(), self._distribution().layout
        row = np.full((1, len(layout.variables)), -1, np.int16)
        roles = {"S": 0, "D": layout.d} | ({"Df": layout.decision} if layout.latent else {})
        for name, value in values.items():
            if name in coding.features.names:
                column = layout.x[coding.features.names.index(name)]
                row[0, column] = coding.features.code(name, value)
            elif name in roles:
                known = coding.groups.values if name == "S" else coding.labels.classes
                if value not in known:
                    shown = ", ".join(str(v) for v in known)
                    raise TableError(f"{name!r} has no value {value!r}: use one of {shown}")
                row[0, roles[name]] = known.index(value)
            else:
                raise TableError(
                    f"there is no variable {name!r}: use {', '.join(roles)} or a feature"
                )
        return row

    def parity_gap(self, X: Any = None, *, sensitive_features: Any = None) -> dict[str, float]:
        """Gap between groups in P(decision = positive): under the model and, apart, on rows.

        ``model`` is the largest difference of P(decision | S = s) by exact query; it is
        zero for every model but TwoNB. ``rows`` is the largest difference of the mean
        scores of the groups in the given rows; the first says nothing about it.
        """
        coding, distribution = self._coding(), self._distribution()
        positive = coding.labels.positive
        gaps = {"model": float(distribution.parity_gap()[positive])}
        if X is not None:
            groups, features = self._evidence(X, sensitive_features)
            if groups is None:
                raise LearningError("the groups of the rows are not known: a gap needs them")
            scores = distribution.decision(groups, features)[:, positive]
            means = [scores[groups == s].mean() for s in np.unique(groups[groups >= 0])]
            gaps["rows"] = float(max(means) - min(means))
        return gaps

    def explain_bias(self) -> BiasAccount:
        """The learned mechanism in sentences, with the estimated number of labels turned."""
        coding = self._coding()
        return BiasAccount(
            coding.groups.names, tuple(str(c) for c in coding.labels.classes),
            self.bias_mechanism_, self.label_counts_,
        )  # fmt: skip

    def explain(self, row: Any, *, sensitive_features: Any = None) -> tuple[Contribution, ...]:
        """How each known value of one row moved its score, exactly, by leaving it out.

        ``row`` is a frame or array with a single row; largest changes first.
        """
        coding = self._coding()
        groups, features = self._evidence(row, sensitive_features, allow_absent=True)
        if len(features) != 1:
            raise LearningError(f"{len(features)} rows were given: explain takes one at a time")
        group = -1 if groups is None else int(groups[0])
        _, changes = leave_one_out(self._distribution(), group, features[0], coding.labels.positive)
        values = coding.features.inverse(features)
        known = [("group", None if group < 0 else coding.groups.values[group])]
        known += [(name, values[name][0]) for name in coding.features.names]
        parts = [
            Contribution(name, value, float(change))
            for (name, value), change in zip(known, changes, strict=True)
            if value is not None
        ]
        return tuple(sorted(parts, key=lambda part: -abs(part.change)))

    @property
    def plot(self) -> ModelPlots:
        """Pictures of the model, drawn with matplotlib."""
        from fairpc.plots import ModelPlots

        self._distribution()
        return ModelPlots(self)

    def save(self, path: AnyPath) -> None:
        """Write the fitted model to one data-only file; ``fairpc.load`` reads it."""
        from fairpc.estimators.file import save

        save(self, path)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        # A decision that does not depend on S need not be near a label that does.
        tags.classifier_tags.poor_score = self._model != "TwoNB"
        return tags


def _frame(columns: dict[str, Any], library: str) -> Any:
    if library == "dict":
        return columns
    if library == "polars":
        import polars as pl

        return pl.DataFrame(columns, strict=False)
    if library == "pandas":
        import pandas as pd

        return pd.DataFrame(columns)
    raise LearningError(f"library is {library!r}: choose 'polars', 'pandas' or 'dict'")
