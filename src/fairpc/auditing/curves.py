"""ROC and calibration by group, against the observed label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.auditing.performance import CAPTION
from fairpc.auditing.rows import AuditedRows
from fairpc.metrics import calibration

MAX_POINTS: Final = 101


@dataclass(frozen=True)
class RocCurve:
    """True against false positive rates of one group, None for all rows, over thresholds."""

    group: str | None
    false_positive_rate: tuple[float, ...]
    true_positive_rate: tuple[float, ...]


@dataclass(frozen=True)
class CalibrationPoint:
    """Rows of one group with scores in [low, high): mean score, and share labelled positive."""

    group: str
    low: float
    high: float
    weight: float
    mean_score: float
    positive_rate: float


@dataclass(frozen=True)
class ScoreCurves:
    """How scores relate to the observed label, by group.

    Attributes:
        positive: the class.
        caption: what the curves are measured against.
        roc: of P(decision); all rows first, then each group with both classes. Thinned.
        decision_calibration: of P(decision): it is not meant to match a biased label.
        observed_calibration: of P(D), the label as the model expects it: that one is.
    """

    positive: str
    caption: str
    roc: tuple[RocCurve, ...]
    decision_calibration: tuple[CalibrationPoint, ...]
    observed_calibration: tuple[CalibrationPoint, ...]


def score_curves(rows: AuditedRows) -> ScoreCurves:
    """Curves of the labelled rows; calibration of those whose group is known too."""
    roc = tuple(
        _roc(rows, part, name)
        for name, part in rows.parts()
        if len(np.unique(rows.d[part & (rows.d >= 0)] == rows.positive)) == 2
    )
    return ScoreCurves(
        positive=rows.classes[rows.positive],
        caption=CAPTION,
        roc=roc,
        decision_calibration=_calibration(rows, rows.scores),
        observed_calibration=_calibration(rows, rows.observed),
    )


def _roc(rows: AuditedRows, part: np.ndarray, name: str | None) -> RocCurve:
    from sklearn.metrics import roc_curve

    here = part & (rows.d >= 0)
    false, true, _ = roc_curve(
        rows.d[here] == rows.positive, rows.scores[here, rows.positive],
        sample_weight=rows.each_weight[here],
    )  # fmt: skip
    if len(false) > MAX_POINTS:
        # Evenly along the curve, so that its bends are kept.
        length = false + true
        kept = np.unique(np.searchsorted(length, np.linspace(0, length[-1], MAX_POINTS)))
        kept = np.union1d(kept, [0, len(false) - 1])
        false, true = false[kept], true[kept]
    return RocCurve(name, tuple(false.tolist()), tuple(true.tolist()))


def _calibration(rows: AuditedRows, scores: np.ndarray) -> tuple[CalibrationPoint, ...]:
    here = (rows.d >= 0) & (rows.s >= 0)
    if not here.any():
        return ()
    bins = calibration(
        (rows.d[here] == rows.positive).astype(np.intp), scores[here, rows.positive],
        rows.s[here], positive=1, sample_weight=rows.each_weight[here],
    )  # fmt: skip
    return tuple(
        CalibrationPoint(
            rows.groups[int(b.group)], b.low, b.high, b.weight, b.mean_score, b.positive_rate
        )
        for b in bins
    )
