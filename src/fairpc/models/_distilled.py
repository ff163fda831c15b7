"""A scorer that does without the group: it learns what a model decides, and says what that costs.

Where the law forbids the group at decision time, a classifier of the features alone imitates
P(Df | x, s). Rows of two groups that look alike then have one score, so that the fair decision is
kept only as far as the features tell it: the price is measured on rows that were held out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from sklearn.base import clone

from fairpc.core import (
    ALTERED,
    AnyPath,
    Array,
    Codes,
    FileFormatError,
    Floats,
    LearningError,
    Record,
    read_json,
    record,
    serialise,
    write_atomically,
)
from fairpc.data import Level, TableCoding, identifiers, take_rows
from fairpc.evidence import Parity, parity
from fairpc.models._classifiers import TableClassifier
from fairpc.models._file import MAX_BYTES, checksum, json_text
from fairpc.models._fold_classifiers import (
    fitted_classifier,
    frame_of,
    group_columns,
    weight_name,
)

SCORER_FORMAT: Final = "fairpc scorer"
_VERSION: Final = 1
_KEPT: Final = ("gap", "difference", "positive", "threshold", "price")
"""What a file holds of a scorer beside its classifier."""
_HELD_OUT: Final = 0.3
"""Share of the rows on which the price is measured."""


@dataclass(frozen=True)
class DistilPrice(Record):
    """What it costs to decide without the group, on rows that were held out.

    Each of ``gaps`` and ``accuracies`` is of the model with the group, of the model with the group
    hidden, where it can do without, and of the scorer.
    """

    n_rows: int
    agreement: float  #: share that the scorer decides as the model does with the group
    #: largest difference of selection rates between groups
    gaps: tuple[float, float | None, float]
    #: share decided as the fair decision, at the point of the model; None without labels
    accuracies: tuple[float, float | None, float] | None = None

    _computed = ("sentences",)

    @property
    def sentences(self) -> tuple[str, ...]:
        def said(values: tuple[float, float | None, float], unit: str, digits: int) -> str:
            first, hidden, last = (None if v is None else f"{100 * v:.{digits}f}" for v in values)
            middle = "" if hidden is None else f", {hidden} if it must guess the group"
            return f"{first}{unit} for the model with the group{middle}, and {last} for the scorer"

        found = [
            f"The scorer decides as the model does with the group for {self.agreement:.1%} of "
            f"{self.n_rows:,} rows that were held out.",
            f"Selection rates of groups differ by {said(self.gaps, ' points', 1)}.",
        ]
        if self.accuracies is not None:
            found.append(
                "Decided as the fair decision, at the point of the model (if its assumptions hold; "
                "no range is available): "
                f"{said(self.accuracies, '%', 1)}."
            )
        return tuple(found)


@dataclass(frozen=True)
class _SavedScorer:
    """What a file holds of a scorer."""

    classifier: dict[str, Any]
    positive: Level
    threshold: float
    gap: Parity
    difference: float
    price: DistilPrice | None


@dataclass(frozen=True, eq=False)
class Distilled:
    """A model of X alone that imitates P(Df | x, s).

    Attributes:
        estimator: the fitted classifier.
        gap: mean scores of the groups in the rows it was trained on, with intervals.
        difference: mean absolute difference between its scores and those it imitates.
        positive: the class that "positive" means.
        threshold: above which ``predict`` gives it: as many of the rows as the model selects.
        price: what it costs, on held-out rows; None where there were too few.
    """

    estimator: Any
    gap: Parity
    difference: float
    positive: Any = None
    threshold: float = 0.5
    price: DistilPrice | None = None

    @property
    def classes_(self) -> Array:
        return np.asarray(self.estimator.classes_)

    def predict_proba(self, X: Any) -> Floats:
        """P(Df = k | x) of each row, rows × classes; columns that are not used may be there."""
        frame, names = frame_of(X), getattr(self.estimator, "feature_names_in_", None)
        if frame is not None and names is not None:
            X = frame[[str(n) for n in names if n in frame.columns]].to_native()
        return np.asarray(self.estimator.predict_proba(X), np.float64)

    def predict(self, X: Any) -> Array:
        """The decision of each row."""
        classes = self.classes_
        at = classes.tolist().index(self.positive)
        chosen = self.predict_proba(X)[:, at] > self.threshold
        return np.asarray(classes[np.where(chosen, at, 1 - at)])

    def save(self, path: AnyPath) -> None:
        """Write the scorer to one data-only file; ``Distilled.load`` reads it."""
        if not isinstance(self.estimator, TableClassifier):
            raise LearningError(
                f"the estimator is a {type(self.estimator).__name__}, which a file of data alone "
                "cannot hold: keep it with skops.io.dump, or distil without an estimator"
            )
        own = {name: getattr(self, name) for name in _KEPT} | {"classifier": self.estimator}
        content = {"format": SCORER_FORMAT, "version": _VERSION, **serialise(own)}
        content["checksum"] = checksum(content)
        write_atomically(path, json_text(content) + b"\n")

    @classmethod
    def load(cls, path: AnyPath) -> Self:
        """The scorer of a file; a FileFormatError says what is wrong with one that is not."""
        content = read_json(path, MAX_BYTES)
        if not isinstance(content, dict) or content.get("format") != SCORER_FORMAT:
            raise FileFormatError(f"{path} is not a scorer: give a file that `fairpc distil` wrote")
        if content.get("version") != _VERSION or content.get("checksum") != checksum(content):
            raise FileFormatError(f"{path} is not a scorer of this version, unaltered: {ALTERED}")
        own = {n: v for n, v in content.items() if n not in ("format", "version", "checksum")}
        saved = record(_SavedScorer, own, "the file", repair=ALTERED)
        classifier = TableClassifier.from_dict(saved.classifier)
        known = saved.positive in classifier.classes_.tolist() and 0 <= saved.threshold <= 1
        try:
            same = json_text(serialise(saved)) == json_text(own)
        except (ArithmeticError, LookupError, TypeError, ValueError):  # numbers that do not fit
            same = False
        if not (known and same):
            raise FileFormatError(f"{path} contradicts itself, and {ALTERED}")
        return cls(classifier, **{name: getattr(saved, name) for name in _KEPT})

    def __str__(self) -> str:
        price = "" if self.price is None else f" {' '.join(self.price.sentences)}"
        return f"{self.gap.summary()} Its scores differ by {self.difference:.3f} on average.{price}"


@dataclass(frozen=True, eq=False)
class ImitatedRows:
    """What a model says of rows: with the group, without it, and with the row's label."""

    scores: Floats  #: P(Df = positive | x, s)
    decided: Array  #: decisions by them, as bools
    groups: Codes
    hidden: Array | None  #: decisions with the group marginalised
    posterior: Floats | None  #: P(Df = positive | x, s, d)

    def price(self, decided: Array, held: Array) -> DistilPrice:
        """Of decisions of some rows."""
        with_group, groups = self.decided[held], self.groups[held]
        hidden = None if self.hidden is None else self.hidden[held]
        soft: Any = None if self.posterior is None else self.posterior[held]

        def gap(own: Array) -> float:
            rates = [float(own[groups == g].mean()) for g in np.unique(groups)]
            return max(rates) - min(rates)

        def right(own: Array) -> float:
            return float(np.where(own, soft, 1 - soft).mean())

        def each(of: Callable[[Array], float]) -> tuple[float, float | None, float]:
            return of(with_group), None if hidden is None else of(hidden), of(decided)

        agreement = float(np.mean(with_group == decided))
        return DistilPrice(len(held), agreement, each(gap), None if soft is None else each(right))


def group_is_input(coding: TableCoding) -> str:
    """A sentence for the first page of a fit: who uses the model must know what it uses."""
    names = " and ".join(map(repr, coding.groups.column_names))
    return (
        f"Decisions use {names}. Where the law forbids that, `fairpc distil` makes a scorer "
        "without the group and says what that costs."
    )


def without_groups(X: Any, coding: TableCoding) -> Any:
    """Features that the model was fitted to, without the columns of the group."""
    names, inside = group_columns(coding)
    frame = frame_of(X)
    if frame is None:
        places = [int(name[1:]) for name in names] if inside else []
        return np.delete(np.asarray(X), places, axis=1)
    kept = [n for n in frame.columns if n in coding.features.names_in and n not in names]
    return frame[kept].to_native()


def distilled(
    estimator: Any,
    features: Any,
    rows: ImitatedRows,
    coding: TableCoding,
    min_cell: int,
    level: float,
) -> Distilled:
    """A copy of a classifier, fitted to each row once per class, with its score as a weight."""
    if not weight_name(estimator):
        raise LearningError(
            f"{type(estimator).__name__}.fit takes no sample_weight: scores are learned as "
            "weights; give a classifier that does"
        )
    more: dict[str, Any] = {}
    if isinstance(estimator, TableClassifier):
        # Rows that are there twice look like no identifiers, and like twice as many people.
        more = {"identifiers": identifiers(coding.features), "min_cell": 2 * min_cell}
    labels, n = coding.labels, len(rows.scores)
    classes = labels.classes_array()[[1 - labels.positive, labels.positive]]

    def fitted(some: Array) -> tuple[Any, float]:
        """The classifier, and the threshold above which it selects as many as the model."""
        twice = take_rows(features, np.tile(some, 2))
        weights = np.concatenate([rows.scores[some], 1 - rows.scores[some]])
        learned = np.repeat(classes[::-1], len(some))
        model = fitted_classifier(clone(estimator), twice, learned, weights, **more)
        own = scores_of(model, take_rows(features, some))
        share = 1 - rows.decided[some].mean()
        return model, float(np.clip(np.quantile(own, share), 0.0, 1.0))

    def scores_of(model: Any, table: Any) -> Floats:
        found: Floats = model.predict_proba(table)[:, list(model.classes_).index(classes[1])]
        return found

    price, order = None, np.random.default_rng(0).permutation(n)
    held, rest = np.sort(order[: int(_HELD_OUT * n)]), np.sort(order[int(_HELD_OUT * n) :])
    if len(held) and all(len(np.unique(rows.groups[p])) > 1 for p in (held, rest)):
        model, threshold = fitted(rest)
        price = rows.price(scores_of(model, take_rows(features, held)) > threshold, held)
    model, threshold = fitted(np.arange(n))
    own, names = scores_of(model, features), np.array(coding.group_names)[rows.groups]
    gap = parity(own, names, level=level)
    away = float(np.abs(own - rows.scores).mean())
    return Distilled(model, gap, away, classes[1], threshold, price)
