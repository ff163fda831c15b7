"""What moved the score of one person, value by value, exactly: facts for a statement of reasons.

Each change is the score with all that is known, minus the score with one value summed out.
Values that go together share their effect, so the changes need not add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from fairpc.core import AuditError, FairpcError, Record
from fairpc.data import Frame, read_frame
from fairpc.models import Contribution, FittedQueries


@dataclass(frozen=True)
class Reason:
    """One known value, and how it moved the score."""

    column: str  #: the feature, or the sensitive columns
    value: str  #: as the model reads it: a level, or a bin
    given: str  #: as it was given
    change: float  #: the score minus the score without this value
    without: float  #: the score without it


@dataclass(frozen=True)
class Reasons(Record):
    """The score of one person, what was decided, and what moved the score."""

    model: str  #: class of the model
    model_hash: str  #: of its circuit
    latent: bool  #: whether the score is of Df; of the observed label otherwise
    label: str  #: name of the label
    positive: str  #: the class that the score is of
    score: float  #: P(Df = positive | what is known)
    decision: str  #: what ``predict`` says
    #: scores above it are decided positively; None for more than two classes, of which the most
    #: probable is taken
    threshold: float | None
    bounds: tuple[float, float] | None  #: what the labels leave possible; None where not known
    no_bounds: str  #: why there are none; empty where there are
    lowered: tuple[Reason, ...]  #: values that lowered the score, the largest change first
    raised: tuple[Reason, ...]  #: values that raised it, the largest change first
    unmoved: tuple[Reason, ...]  #: values without which the score is the same
    group: Reason | None  #: the sensitive attribute; None where it was not given
    sensitive: tuple[str, ...]  #: names of the sensitive columns
    unknown: tuple[str, ...]  #: features that were not given, which are summed out
    drift: tuple[str, ...]  #: what the guard said at fit: Df is not about the label
    date: str  #: when this was computed, UTC
    version: str  #: of fairpc

    @property
    def adverse(self) -> bool:
        """Whether the decision is another than the positive class."""
        return self.decision != self.positive


def reasons(model: FittedQueries, row: Any, *, sensitive_features: Any = None) -> Reasons:
    """What moved the score of the person in a frame with one row; columns may be absent."""
    if not isinstance(model, FittedQueries):
        raise AuditError(
            f"the model is a {type(model).__name__}: reasons need values summed out, which "
            "FairPC, NLatPC, LatNB and TwoNB can; fit one of these"
        )
    parts = model.explain(row, sensitive_features=sensitive_features)
    coding, frame = model.coding_, read_frame(row)
    row = _completed(row, frame, coding.features.names)
    groups = model._groups(row, sensitive_features)
    proba = model.predict_proba(row, sensitive_features=sensitive_features)
    score = float(proba[0, coding.labels.positive])
    told = [_reason(part, score, frame, coding.groups.column_names) for part in parts]
    moved = [r for r, part in zip(told, parts, strict=True) if not part.sensitive]
    known = {part.feature for part in parts if not part.sensitive}
    bounds, no_bounds = _bounds(model, row, sensitive_features)
    return Reasons(
        model=type(model).__name__,
        model_hash=model._fingerprint(),
        latent=model._latent,
        label=coding.labels.name,
        positive=str(model.positive_class_),
        score=score,
        decision=str(model.predict(row, sensitive_features=sensitive_features)[0]),
        threshold=_threshold(model, groups),
        bounds=bounds,
        no_bounds=no_bounds,
        lowered=tuple(r for r in moved if r.change < 0),
        raised=tuple(r for r in moved if r.change > 0),
        unmoved=tuple(r for r in moved if r.change == 0),
        group=next((r for r, part in zip(told, parts, strict=True) if part.sensitive), None),
        sensitive=coding.groups.column_names,
        unknown=tuple(name for name in coding.features.names if name not in known),
        drift=model.warnings_,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        version=version("fairpc"),
    )


def _completed(row: Any, frame: Frame, names: tuple[str, ...]) -> Any:
    """A row with empty cells in the columns that are absent."""
    absent = [name for name in names if name not in frame.names]
    if not absent or frame.from_array:
        return row
    import polars as pl

    return frame.to_polars().with_columns(pl.lit(None, pl.String).alias(name) for name in absent)


def _reason(part: Contribution, score: float, frame: Frame, sensitive: tuple[str, ...]) -> Reason:
    name = ", ".join(sensitive) if part.sensitive else part.feature
    given = str(part.value)
    if not part.sensitive and part.feature in frame.names:
        given = str(np.asarray(frame.column(part.feature))[0])
    return Reason(name, str(part.value), given, part.change, score - part.change)


def _threshold(model: FittedQueries, groups: Any) -> float | None:
    if len(model.classes_) != 2:
        return None
    found = model.threshold_
    if not found.by_group:
        return found.values[0]
    known = groups is not None and groups[0] >= 0
    return found.values[int(groups[0])] if known else found.unknown


def _bounds(
    model: FittedQueries, row: Any, sensitive_features: Any
) -> tuple[tuple[float, float] | None, str]:
    """The least and the largest score that the labels leave possible, or why they are not known."""
    try:
        (low, high), *_ = model.predict_bounds(row, sensitive_features=sensitive_features)
    except FairpcError as error:
        return None, str(error)
    if np.isnan(low) or np.isnan(high):
        return None, "the labels contradict the assumptions, so that nothing is possible"
    return (float(low), float(high)), ""
