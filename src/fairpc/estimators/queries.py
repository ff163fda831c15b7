"""What a fitted model can be asked: scores, decisions, any probability, what was learned.

What is asked of rows is also answered for tables that are read in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from fairpc.circuit.graph import Circuit
from fairpc.cluster.client import need_dask
from fairpc.cluster.table import by_partition, is_dask
from fairpc.data.source import Warned, is_source, open_source
from fairpc.data.table_coding import TableCoding
from fairpc.errors import EvidenceError, LearningError, MissingExtraError, TableError
from fairpc.errors.arrays import Array, Codes, Floats
from fairpc.estimators.tables import FittedColumns, check_not_apart
from fairpc.fair.distribution import (
    BiasAccount,
    Contribution,
    FairDistribution,
    Threshold,
    equalised,
    fixed,
    for_rate,
    leave_one_out,
)

if TYPE_CHECKING:
    from fairpc.plots import ModelPlots

P = ParamSpec("P")
R = TypeVar("R")

PREFIXES: Final = {"predict_proba": "p_df_", "predict_observed_proba": "p_d_"}
"""Of the columns of lazy predictions, before the name of each class."""

LAZY: Final = ("predict", *PREFIXES)
"""Methods that are lazy for a Dask frame."""


def in_batches(method: Callable[P, R]) -> Callable[P, R]:
    """A method of a classifier that gives something per row, and takes tables in parts too.

    Of a file, a folder, a glob or a polars lazy frame it gives what it gives of the table in
    memory, while a few batches of rows are there at a time; ``y`` then names a column. Of a Dask
    frame, decisions become a lazy series, probabilities a lazy frame with a column per class.
    """
    names = tuple(signature(method).parameters)

    @wraps(method)
    def either(*args: P.args, **kwargs: P.kwargs) -> R:
        given: dict[str, Any] = {**dict(zip(names, args, strict=False)), **kwargs}
        model, table = given.pop("self"), given.pop("X", None)
        if is_dask(table):
            lazily: Any = _lazy(model, method.__name__, table, given)
            return lazily  # type: ignore[no-any-return]
        if is_source(table):
            joined: Any = _streamed(model, method, names, table, given)
            return joined  # type: ignore[no-any-return]
        return method(*args, **kwargs)

    return either


def check_not_dask(table: Any) -> None:
    """A TableError where a table is a Dask frame."""
    if is_dask(table):
        raise TableError(
            f"a Dask frame was given: fit, {', '.join(LAZY)} take one, this takes its rows, "
            "frame.compute(), or the files that it was read from"
        )


def _streamed(
    model: Any,
    method: Callable[..., Any],
    names: tuple[str, ...],
    table: Any,
    given: Mapping[str, Any],
) -> Any:
    """What the method gives of each batch, one after the other; warnings are given once."""
    apart = dict(given)
    label = apart.pop("y", None)
    check_not_apart(**apart)
    source = open_source(table)
    columns = FittedColumns.of(source, model._coding(), label=label)
    warned = Warned()
    with warned.watching():
        parts = [
            method(model, **{name: rows[name] for name in names if name in rows})
            for rows in source.map(columns.columns, columns.given)
        ]
    if not parts:
        raise TableError("the table is empty: it has no rows, give at least one")
    warned.warn(stacklevel=3)
    if not isinstance(parts[0], tuple):
        return np.concatenate(parts)
    columns_of = zip(*parts, strict=True)
    return tuple(None if some[0] is None else np.concatenate(some) for some in columns_of)


def _lazy(model: Any, method: str, frame: Any, given: Mapping[str, Any]) -> Any:
    need_dask()
    for name, value in given.items():
        if value is not None:
            raise TableError(
                f"{name} were given separately from a Dask frame: make them columns of it, "
                "because its partitions are read one by one"
            )
    classes = model.classes_  # says so where the model is not fitted
    if method not in LAZY:
        check_not_dask(frame)
    call = getattr(model, method)
    if method not in PREFIXES:
        return by_partition(frame, call, ["decision"], classes.dtype)
    return by_partition(frame, call, [f"{PREFIXES[method]}{c}" for c in classes], np.float64)


class FittedQueries:
    """Queries of a fitted model; what they read is set by ``fit`` or by ``fairpc.load``.

    What is asked of rows is also answered for tables that are read in batches: the path of
    a file, a folder, a glob, a polars lazy frame. The groups are then columns of it. The
    result is that for the table in memory: an array with a row per row, in their order.
    """

    coding_: TableCoding
    distribution_: FairDistribution
    threshold_: Threshold
    label_counts_: Floats
    warnings_: tuple[str, ...]
    n_features_in_: int

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
    def circuit_(self) -> Circuit:
        """The distribution as a circuit: S, Df if there is one, D, then the features used."""
        return self._distribution().circuit

    @property
    def bias_mechanism_(self) -> Floats:
        """P(D = d | Df = f, S = s), indexed [s, f, d]."""
        return self._distribution().mechanism

    @property
    def fair_rate_(self) -> Floats:
        """P(Df); without a latent decision P(D)."""
        distribution = self._distribution()
        result: Floats = distribution.group_rate @ distribution.decision_rate
        return result

    @property
    def group_rate_(self) -> Floats:
        """P(S)."""
        return self._distribution().group_rate

    def _coding(self) -> TableCoding:
        check_is_fitted(self, "coding_")
        return self.coding_

    def _distribution(self) -> FairDistribution:
        check_is_fitted(self, "distribution_")
        return self.distribution_

    @in_batches
    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """P(Df = k | what is known of each row), rows × classes.

        Models without a latent decision give P(D = k | …). An absent group is summed out.
        Of a Dask frame it is lazy: a Dask frame with a column ``p_df_<class>`` each.
        """
        return self._distribution().decision(*self._evidence(X, sensitive_features))

    @in_batches
    def predict_observed_proba(self, X: Any, *, sensitive_features: Any = None) -> Floats:
        """P(D = k | what is known of each row): the label as it would be observed."""
        return self._distribution().observed(*self._evidence(X, sensitive_features))

    @in_batches
    def predict(self, X: Any, *, sensitive_features: Any = None) -> Array:
        """The decision of each row: by ``threshold_`` for two classes, else the likeliest class.

        Of a Dask frame it is a lazy Dask series.
        """
        groups, features = self._evidence(X, sensitive_features)
        scores = self._distribution().decision(groups, features)
        if scores.shape[1] > 2:
            return np.asarray(self.classes_[scores.argmax(axis=1)])
        positive = self._coding().labels.positive
        chosen = self.threshold_.decide(scores[:, positive], groups)
        return np.asarray(self.classes_[np.where(chosen, positive, 1 - positive)])

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        *,
        sensitive_features: Any = None,
    ) -> float:
        """Accuracy of ``predict`` against the observed label, which may be biased.

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
        scores, groups = self._scores(X, sensitive_features=sensitive_features)
        if not equalise:
            if selection_rate is None:
                raise LearningError("nothing was chosen: give value, selection_rate or equalise")
            self.threshold_ = for_rate(scores, selection_rate)
            return self
        if groups is None:
            raise LearningError("the groups of the rows are not known: equalising needs them")
        self.threshold_ = equalised(scores, groups, len(self.groups_), selection_rate)
        return self

    @in_batches
    def score_samples(self, X: Any, y: Any = None, *, sensitive_features: Any = None) -> Floats:
        """log P of each encoded row (bins are masses); what is missing is summed out.

        ``y`` is the name of a column where X is read in batches.
        """
        coding = self._coding()
        groups, features = self._evidence(X, sensitive_features)
        labels = None if y is None else coding.labels.transform(y)
        return self._distribution().log_likelihood(groups, labels, features)

    def sample(self, n: int, random_state: int | None = None, *, library: str = "polars") -> Any:
        """Complete rows drawn from the model, as a frame: features, group, label, decision."""
        codes = self._distribution().circuit.sample(n, np.random.default_rng(random_state))
        return _frame(self._columns(codes), library)

    def complete(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, library: str = "polars"
    ) -> Any:
        """The most probable completion of each row, jointly with its group, label and decision.

        What is known stays; numbers come back as their bins. A mixture or a forest is completed
        with its most probable component, so the decision here need not be that of ``predict``.
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
        columns: dict[str, Any] = {**coding.features.inverse(codes[:, list(layout.x)])}
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
        known = dict(given or {})
        condition, both = self._row(known), self._row(known | dict(event))
        clash = any(name in known and known[name] != event[name] for name in event)
        circuit = self._distribution().circuit
        total = circuit.log_marginal(condition)[0]
        if np.isneginf(total):
            raise EvidenceError(f"{known} has probability zero: leave out a value", 0)
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
            scores, groups = self._scores(X, sensitive_features=sensitive_features)
            if groups is None:
                raise LearningError("the groups of the rows are not known: a gap needs them")
            means = [scores[groups == s].mean() for s in np.unique(groups[groups >= 0])]
            gaps["rows"] = float(max(means) - min(means))
        return gaps

    def explain_bias(self) -> BiasAccount:
        """The learned mechanism in sentences, with the estimated number of labels turned."""
        coding = self._coding()
        classes = tuple(map(str, coding.labels.classes))
        counts = self.label_counts_
        return BiasAccount(coding.groups.names, classes, self.bias_mechanism_, counts)

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

    @in_batches
    def _scores(self, X: Any, *, sensitive_features: Any = None) -> tuple[Floats, Codes | None]:
        """P(decision = positive) of each row, and its group, None where no group is given."""
        groups, features = self._evidence(X, sensitive_features)
        scores = self._distribution().decision(groups, features)
        return scores[:, self._coding().labels.positive], groups

    @in_batches
    def _labels(self, X: Any, y: Any) -> Array:
        """The labels of the rows, as classes."""
        return self._coding().labels.inverse(self._coding().labels.transform(y))

    def _evidence(
        self, X: Any, sensitive_features: Any, *, allow_absent: bool = False
    ) -> tuple[Codes | None, Codes]:
        """Codes of S, None where it is not given, and of X; arrays must be as wide as at fit."""
        coding = self._coding()
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] != self.n_features_in_:
            raise TableError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input: array columns are matched by position"
            )
        return coding.evidence(X, sensitive_features, allow_absent=allow_absent)


def _frame(columns: dict[str, Any], library: str) -> Any:
    if library == "dict":
        return columns
    if library == "polars":
        import polars as pl

        return pl.DataFrame(columns, strict=False)
    if library == "pandas":
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError(
                "pandas is not installed: pip install 'fairpc[frames]', or take library='polars'"
            ) from error
        return pd.DataFrame(columns)
    raise LearningError(f"library is {library!r}: choose 'polars', 'pandas' or 'dict'")
