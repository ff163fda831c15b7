"""Gaps of scores and decisions between groups: under the model, and on the audited rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpc.auditing.disparity import Disparity, disparity
from fairpc.auditing.naming import named
from fairpc.auditing.numbers import gap, number, share
from fairpc.auditing.rows import AuditedRows
from fairpc.errors.arrays import Bools
from fairpc.estimators.base import CircuitClassifier
from fairpc.evidence import EqualRates, Parity, equal_rates, parity_curve

THRESHOLDS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True)
class ParityFacts:
    """What is equal between groups, and what is not.

    Attributes:
        model_gap: largest difference between groups of P(decision | S) by exact query, over the
            classes; zero by construction for all models but TwoNB. It says nothing about rows.
        scores: gaps in mean scores on these rows, before thresholding; per class shown.
        decisions: gaps in selection rates on these rows, after thresholding; per class shown.
        thresholds: what ``predict`` uses: one, or one per group; empty for more than two classes.
        curve: gaps in selection rates over common thresholds, all intervals together at the
            level; empty for more than two classes.
        equal_rates: group thresholds that would equalise selection rates on these rows, and
            their price; None for more than two classes.
        gap: largest absolute difference between groups on these rows, of scores and decisions.
        gap_upper: upper bound of it: the farthest end of all the intervals.
        n_unknown: rows left out because their group is not known.
        sentences: in words.
    """

    model_gap: float
    scores: tuple[Disparity, ...]
    decisions: tuple[Disparity, ...]
    thresholds: tuple[float, ...]
    curve: tuple[Parity, ...]
    equal_rates: EqualRates | None
    gap: float
    gap_upper: float
    n_unknown: int
    sentences: tuple[str, ...]


def parity_facts(model: CircuitClassifier, rows: AuditedRows, level: float) -> ParityFacts:
    """Gaps on the rows whose group is known."""
    kept = rows.comparable(rows.s >= 0)
    classes = rows.shown_classes
    scores = tuple(
        disparity(rows, rows.scores[:, k], kept, rows.classes[k], level, n_classes=len(classes))
        for k in classes
    )
    decisions = tuple(
        disparity(
            rows, (rows.decided == k).astype(np.float64), kept, rows.classes[k], level,
            n_classes=len(classes), tested=True,
        )
        for k in classes
    )  # fmt: skip
    both = scores + decisions
    binary = len(rows.classes) == 2
    model_gap = float(model.distribution_.parity_gap().max())
    return ParityFacts(
        model_gap=model_gap,
        scores=scores,
        decisions=decisions,
        thresholds=model.threshold_.values if binary else (),
        curve=_curve(rows, kept, level) if binary else (),
        equal_rates=_equal_rates(rows, kept, model.threshold_.unknown) if binary else None,
        gap=max(d.gap for d in both),
        gap_upper=max(d.gap_upper for d in both),
        n_unknown=rows.number(rows.s < 0),
        sentences=_sentences(model_gap, scores, decisions, level),
    )


def _curve(rows: AuditedRows, kept: Bools, level: float) -> tuple[Parity, ...]:
    found = parity_curve(
        rows.scores[kept, rows.positive], rows.s[kept], THRESHOLDS, level=level,
        **rows.weighing(kept).arguments,
    )  # fmt: skip
    return tuple(named(record, rows.groups) for record in found)


def _equal_rates(rows: AuditedRows, kept: Bools, threshold: float) -> EqualRates:
    labelled = bool((rows.d[kept] >= 0).all())
    found = equal_rates(
        rows.scores[kept, rows.positive], rows.s[kept],
        (rows.d[kept] == rows.positive).astype(np.intp) if labelled else None,
        threshold=threshold,
        rate=float(np.average(
            rows.decided[kept] == rows.positive, weights=rows.each_weight[kept]
        )),
        sample_weight=rows.each_weight[kept],
    )  # fmt: skip
    return named(found, rows.groups)


def _sentences(
    model_gap: float,
    scores: tuple[Disparity, ...],
    decisions: tuple[Disparity, ...],
    level: float,
) -> tuple[str, ...]:
    under = (
        "Under the model the groups have the same mean score, by construction"
        if model_gap < 1e-9
        else f"Under the model the mean scores of the groups differ by up to {gap(model_gap)}"
    )
    score, decision = (max(part, key=lambda d: d.gap_upper) for part in (scores, decisions))
    return (
        f"{under}. On these rows mean scores differ by {gap(score.gap)}, at most "
        f"{number(100 * score.gap_upper, 1)} with {share(level, 0)} confidence.",
        f"After thresholding, selection rates differ by {gap(decision.gap)}, at most "
        f"{number(100 * decision.gap_upper, 1)}: equal mean scores are not equal rates.",
    )
