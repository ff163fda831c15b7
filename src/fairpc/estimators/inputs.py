"""What a user gives to fit and predict, as rows of codes: frames, labels, sensitive columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fairpc.data.encode import fit_encoding
from fairpc.data.encoding import Encoding
from fairpc.data.frame import Frame, read_columns, read_frame
from fairpc.data.groups import Groups, fit_groups
from fairpc.data.labels import Labels, fit_labels
from fairpc.data.plural import counted
from fairpc.data.table import check_weights
from fairpc.errors import TableError, TableWarning
from fairpc.errors.arrays import Codes
from fairpc.fair.rows import Rows
from fairpc.fair.top import Layout


@dataclass(frozen=True, eq=False)
class Coding:
    """How tables become codes: features, label, groups; and where the groups come from.

    Attributes:
        sensitive: names of the columns of X that are S; empty if they are given apart.
    """

    features: Encoding
    labels: Labels
    groups: Groups
    sensitive: tuple[str, ...]

    def rows(
        self,
        X: Any,
        y: Any,
        sensitive_features: Any = None,
        sample_weight: npt.ArrayLike | None = None,
        fair_labels: Any = None,
    ) -> Rows:
        """Codes of labelled rows; ``fair_labels`` are decisions known of some of them."""
        frame = read_frame(X)
        _same_length(frame, y, "label")
        _same_index(X, y, "labels")
        groups = self.group_codes(X, frame, sensitive_features)
        rows = Rows(
            groups if groups is not None else np.full(frame.n_rows, -1, np.int16),
            self.labels.transform(y),
            self.features.transform(frame),
            check_weights(sample_weight, frame.n_rows),
            len(self.groups.names),
            len(self.labels.classes),
            np.array(self.features.arities, np.int64),
            self.features.names,
        )
        if fair_labels is None:
            return rows
        _same_length(frame, fair_labels, "fair label")
        _same_index(X, fair_labels, "fair labels")
        return rows.with_fair_decisions(self._fair_codes(fair_labels))

    def value_names(self, layout: Layout) -> dict[str, tuple[str, ...]]:
        """What the values of the variables of a circuit are called, by variable."""
        variables, classes = list(layout.variables), self.labels.column.labels
        named = {variables[0]: self.groups.names, variables[layout.d]: classes}
        named[variables[layout.decision]] = classes
        return named | {column.name: column.labels for column in self.features.columns}

    def _fair_codes(self, fair_labels: Any) -> Codes:
        """Codes of decisions known by other means: a value that is no class is a mistake."""
        with warnings.catch_warnings():
            warnings.simplefilter("error", TableWarning)
            try:
                return self.labels.transform(fair_labels)
            except TableWarning:
                classes = ", ".join(str(c) for c in self.labels.classes)
                raise TableError(
                    f"fair_labels hold a value that is no class of the label: use {classes}, and "
                    "leave out what is not known"
                ) from None

    def evidence(
        self, X: Any, sensitive_features: Any = None, *, allow_absent: bool = False
    ) -> tuple[Codes | None, Codes]:
        """Codes of S, None where it is not given, and of X."""
        frame = read_frame(X)
        features = self.features.transform(frame, allow_absent=allow_absent)
        return self.group_codes(X, frame, sensitive_features), features

    def group_codes(self, X: Any, frame: Frame, sensitive_features: Any) -> Codes | None:
        """Groups of the rows: from columns of X, or given apart; None if neither is there."""
        if self.sensitive:
            _not_both(sensitive_features)
            if not set(self.sensitive) & set(frame.names):
                return None
            return self.groups.transform(_columns(frame, self.sensitive), allow_absent=True)
        if sensitive_features is None:
            return None
        _same_length(frame, sensitive_features, "sensitive feature")
        _same_index(X, sensitive_features, "sensitive features")
        return self.groups.transform(sensitive_features)


def fit_coding(
    X: Any,
    y: Any,
    *,
    sensitive: str | int | Sequence[str | int] | None,
    sensitive_features: Any,
    sample_weight: npt.ArrayLike | None,
    positive: Any,
    missing_values: Iterable[Any],
    options: Mapping[str, Any],
) -> Coding:
    """Learn how tables become codes; ``options`` are those of ``fit_encoding``."""
    frame = read_frame(X)
    weights = check_weights(sample_weight, frame.n_rows)
    _same_length(frame, y, "label")
    _same_index(X, y, "labels")
    missing = tuple(missing_values)
    chosen = _chosen(frame, sensitive)
    if chosen:
        _not_both(sensitive_features)
        groups = fit_groups(_columns(frame, chosen), sample_weight=weights, missing_values=missing)
    elif sensitive_features is None:
        raise TableError(
            "no sensitive attribute was given: name columns of X as sensitive=…, or give "
            "sensitive_features to fit"
        )
    else:
        _same_length(frame, sensitive_features, "sensitive feature")
        _same_index(X, sensitive_features, "sensitive features")
        groups = fit_groups(sensitive_features, sample_weight=weights, missing_values=missing)
    labels = fit_labels(y, positive=positive, sample_weight=weights, missing_values=missing)
    if len(chosen) == len(frame.names):
        raise TableError(
            f"the table has n_features = {len(chosen)}, all of them sensitive: give features too"
        )
    features = fit_encoding(
        frame, y=labels.transform(y), sample_weight=weights, missing_values=missing,
        drop=chosen, **options,
    )  # fmt: skip
    return Coding(features, labels, groups, chosen)


def _chosen(frame: Frame, sensitive: str | int | Sequence[str | int] | None) -> tuple[str, ...]:
    """Names of the sensitive columns of X."""
    if sensitive is None:
        return ()
    given = [sensitive] if isinstance(sensitive, str | int | np.integer) else list(sensitive)
    names = []
    for item in given:
        if isinstance(item, str):
            if item not in frame.names:
                raise TableError(
                    f"sensitive column {item!r} is not in the table: it has "
                    f"{', '.join(frame.names[:8])}{', …' if len(frame.names) > 8 else ''}"
                )
            names.append(item)
        elif -len(frame.names) <= item < len(frame.names):
            names.append(frame.names[item])
        else:
            raise TableError(
                f"sensitive column {item} is not in the table: it has {len(frame.names)} columns"
            )
    return tuple(dict.fromkeys(names))


def _columns(frame: Frame, names: tuple[str, ...]) -> Frame:
    kept = tuple(name for name in names if name in frame.names)
    columns = tuple(frame.column(name) for name in kept)
    return Frame(kept, columns, frame.n_rows, from_array=False)


def _not_both(sensitive_features: Any) -> None:
    if sensitive_features is not None:
        raise TableError(
            "sensitive columns were named and sensitive_features given: use one of the two"
        )


def _same_length(frame: Frame, values: Any, what: str) -> None:
    length = read_columns(values, "values").n_rows
    if length != frame.n_rows:
        rows = counted(frame.n_rows, "row")
        raise TableError(f"{rows} and {counted(length, what)}: give one per row")


def _same_index(X: Any, values: Any, what: str) -> None:
    """Two pandas objects must have one index: joining them silently would mix up rows."""
    ours, theirs = getattr(X, "index", None), getattr(values, "index", None)
    if ours is None or theirs is None or callable(ours) or callable(theirs):
        return
    if not ours.equals(theirs):
        raise TableError(
            f"the index of the {what} differs from that of the table: align them, or give "
            "arrays with .to_numpy()"
        )
