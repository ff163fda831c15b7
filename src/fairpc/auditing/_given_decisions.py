"""Decisions of anybody: a frozen scorecard, a vendor's score, a column; no model of ours.

Rows, groups and classes are coded as a fit codes them, so that every section that asks only for
rows, labels and decisions is the same for a model of ours and for any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairpc.auditing._rows import AuditedRows, labelled_rows, with_table
from fairpc.core import AuditError, Floats, Positions, check_scores
from fairpc.data import (
    MIN_CELL,
    EncodingOptions,
    GivenNames,
    Labels,
    TableCoding,
    check_rows,
    fit_coding,
    read_columns,
    read_frame,
    resolve,
)
from fairpc.evidence import COPIES
from fairpc.models import GivenTable, Strata

NO_MODEL: Final = "decisions were audited and not a model of fairpc"
DECISIONS: Final = "decisions"
_DECIDES: Final = 0.5


@dataclass(frozen=True, eq=False)
class GivenDecisions:
    """What was decided of the rows of a table, and how the table is coded."""

    name: str  #: class of the estimator that decides, or "decisions"
    coding_: TableCoding
    decided: Positions  #: number of the class of each row
    scores: Floats | None  #: of the positive class; None where there are none
    strata: Strata  #: within what decisions are compared too; none if no columns are given
    reading: Mapping[str, Any]  #: how cells of the table are read, as a fit takes it


def given_decisions(
    decider: Any,
    X: Any,
    y: Any,
    sensitive_features: Any,
    *,
    sample_weight: npt.ArrayLike | None = None,
    scores: npt.ArrayLike | None = None,
    positive: Any = None,
    decision_positive: Any = None,
    given: str | Sequence[str] = (),
    missing_values: Iterable[Any] = (),
    decimal: str = ".",
    names: GivenNames | None = None,
) -> GivenDecisions:
    """Decisions, or those of an estimator, beside a table in memory.

    ``positive`` names the favourable class of the label, ``decision_positive`` that of decisions
    that have other classes than the label. ``missing_values``, ``decimal`` and ``names`` as for a
    fit.
    """
    if y is None or sensitive_features is None:
        lacking = "y" if y is None else "sensitive_features"
        raise AuditError(
            f"{lacking} was not given: decisions are audited beside recorded labels and groups, "
            "give y and sensitive_features"
        )
    named = (given,) if isinstance(given, str) else tuple(given)
    frame = read_frame(X)
    columns = sorted(resolve(frame.names, named, "given"))
    estimator = is_estimator(decider)
    reading: dict[str, Any] = {"missing_values": tuple(missing_values), "decimal": decimal}
    beside = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
    table = GivenTable.of(X, y, **beside, **reading)
    options = EncodingOptions(min_cell=MIN_CELL)
    how: dict[str, Any] = {"positive": positive, "names": names, "options": options}
    coding, _ = fit_coding(table.source, table.roles, **how, given_whole=True)
    labels = coding.labels
    if len(labels.classes) != 2:
        raise AuditError(
            f"the label has {len(labels.classes)} classes: an audit of decisions needs two, make "
            "all but the favourable one the same"
        )
    decisions = decider
    if estimator:
        decisions, scores = _asked(decider, X, labels, scores)
    check_rows(X, frame, decisions, "decision")
    decided = _codes(decisions, labels, decision_positive)
    _refuse_copies(decided, labels.transform(y))
    if scores is not None:
        check_rows(X, frame, scores, "score")
        scores = check_scores(_values(scores, "score"))
    used, name = coding.features.names, type(decider).__name__ if estimator else DECISIONS
    for column in (column for column in columns if column not in used):
        raise AuditError(
            f"column {column!r} of given cannot make strata: it is constant, has a value of its "
            "own in most rows, or is sensitive; name another"
        )
    strata = Strata.of([used.index(c) for c in columns], coding.features.arities)
    return GivenDecisions(name, coding, decided, scores, strata, reading)


def is_estimator(decider: object) -> bool:
    """Whether decisions are asked for, and not given."""
    return hasattr(decider, "predict") or hasattr(decider, "predict_proba")


def _asked(
    estimator: Any, X: Any, labels: Labels, scores: npt.ArrayLike | None
) -> tuple[Any, npt.ArrayLike | None]:
    """What an estimator decides of a table, and its scores of the positive class if it has any."""
    if scores is None and hasattr(estimator, "predict_proba"):
        classes = [_text(c) for c in np.asarray(estimator.classes_).tolist()]
        wanted = _text(labels.positive_class)
        if wanted not in classes:
            raise AuditError(
                f"the estimator has the classes {', '.join(classes)} and not {wanted!r}, the "
                "positive class of y: give labels as it was fitted with"
            )
        scores = np.asarray(estimator.predict_proba(X))[:, classes.index(wanted)]
    if hasattr(estimator, "predict"):
        return np.asarray(estimator.predict(X)), scores
    chosen = np.asarray(scores) >= _DECIDES
    return np.where(chosen, labels.positive, 1 - labels.positive), scores


def _values(column: Any, name: str) -> list[Any]:
    columns = read_columns(column, name).columns
    if len(columns) != 1:
        raise AuditError(f"{name} has {len(columns)} columns: give one value per row")
    values: list[Any] = np.asarray(columns[0]).tolist()
    return values


def _text(value: Any) -> str:
    """A class as text: 1, 1.0, True and "true" are the same."""
    text = f"{value:g}" if isinstance(value, bool | int | float) else str(value).strip()
    return {"true": "1", "false": "0"}.get(text.lower(), text)


def _codes(decisions: Any, labels: Labels, positive: Any) -> Positions:
    """Number of the class that was decided: by its name, by 1 and 0, or by the favourable one."""
    values = _values(decisions, "decision")
    for row, value in enumerate(values):
        if value is None or (isinstance(value, float) and math.isnan(value)):
            raise AuditError(f"the decision is missing in row {row}: leave such rows out")
    texts = [_text(value) for value in values]
    there, classes = sorted(set(texts)), [_text(c) for c in labels.classes]
    if len(there) > 2:
        shown = ", ".join(map(repr, there[:3])) + (", …" if len(there) > 3 else "")
        raise AuditError(
            f"decisions has {len(there)} values ({shown}): give two, the favourable one and the "
            "other; scores of a model go to scores (--score)"
        )
    favourable = classes[labels.positive]
    if positive is not None:
        favourable = _text(positive)
        if favourable not in there:
            raise AuditError(
                f"decision_positive is {positive!r}, and the decisions are "
                f"{' and '.join(map(repr, there))}: name one of them (--decision-positive)"
            )
    elif set(there) <= {"0", "1"} and not set(there) <= set(classes):
        favourable = "1"
    elif not set(there) <= set(classes):
        raise AuditError(
            f"the decisions are {' and '.join(map(repr, there))} and the classes of the label "
            f"{' and '.join(map(repr, classes))}: name the favourable decision with "
            "decision_positive (--decision-positive)"
        )
    chosen = np.array([text == favourable for text in texts], np.bool_)
    return np.where(chosen, labels.positive, 1 - labels.positive).astype(np.intp)


def _refuse_copies(decided: Positions, d: npt.NDArray[Any]) -> None:
    """Decisions that are the recorded labels cannot be judged by them."""
    shares = [(decided == d)[d == k].mean() for k in (0, 1) if (d == k).any()]
    if shares and min(shares) >= COPIES:
        raise AuditError(
            f"the decisions repeat the label in {(decided == d)[d >= 0].mean():.1%} of the rows: "
            "they are the recorded ones, and an audit needs decisions that did not look at these "
            "labels; give those of a model that was made on other rows"
        )


def decided_rows(
    given: GivenDecisions,
    X: Any,
    y: Any,
    sensitive_features: Any,
    sample_weight: npt.ArrayLike | None,
    clusters: npt.ArrayLike | None,
) -> AuditedRows:
    """The rows of the table with what was decided of them."""
    coding = given.coding_
    about = X, y, sensitive_features, sample_weight
    rows = labelled_rows(coding, *about, min_cell=MIN_CELL, warn=False)
    positive = coding.labels.positive
    own = (given.decided == positive).astype(np.float64) if given.scores is None else given.scores
    scores = np.empty((rows.n_rows, 2))
    scores[:, positive], scores[:, 1 - positive] = own, 1 - own
    known: dict[str, Any] = {"labels": coding.labels.inverse(rows.d), "same_rows_as_fit": None}
    known["scored"] = given.scores is not None
    nothing = np.empty((rows.n_rows, 0))
    answered = AuditedRows.of(coding, rows, scores, nothing, given.decided, **known)
    return with_table(answered, rows, X, sensitive_features, clusters)
