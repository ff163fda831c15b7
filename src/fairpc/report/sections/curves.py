"""ROC and calibration by group, against the observed label."""

from __future__ import annotations

from fairpc.report import text
from fairpc.report.drawing.curves import Plane, Series
from fairpc.report.drawing.curves import curves as drawn
from fairpc.report.sections.absent import Facts, absent
from fairpc.report.sections.labels import group_order
from fairpc.report.view import Block, Figure, Notice, Section, Side, Table

TITLE = "ROC and calibration, by group"


def curves(facts: Facts) -> Section:
    """How scores relate to the observed label."""
    found = facts["curves"]
    if found is None:
        return absent(facts, "curves", TITLE)
    figures = []
    if found["roc"]:
        figures.append(_roc(facts, found))
    for key, title, words in (
        (
            "decision_calibration",
            "Score of the decision against the label",
            "Share labelled positive at each level of the score P(Df | X, S). It is not meant to "
            "lie on the diagonal: it would, only if the labels were unbiased.",
        ),
        (
            "observed_calibration",
            "Expected label against the label",
            "Share labelled positive at each level of P(D | X, S), the label as the model expects "
            "it. This one is meant to lie on the diagonal.",
        ),
    ):
        if found[key]:
            figures.append(_calibration(facts, found[key], title, words))
    blocks: list[Block] = [
        Notice("Measured against the observed label.", (found["caption"],)),
        Side(tuple(figures)),
    ]
    return Section("curves", TITLE, tuple(blocks))


def _roc(facts: Facts, found: Facts) -> Figure:
    order = group_order(facts)
    mine = sorted(
        (curve for curve in found["roc"] if curve["group"] is not None),
        key=lambda curve: order[curve["group"]],
    )
    sentence = (
        "True against false positive rate as the threshold falls. The higher a curve, the better "
        "the scores order that group's labels."
    )
    series = [Series(c["group"], c["false_positive_rate"], c["true_positive_rate"]) for c in mine]
    cells = [
        (text.short(c["group"]), text.share(x), text.share(y)) for c in mine for x, y in _tenths(c)
    ]
    numbers = Table.of(
        "ROC curve at every tenth of the false positive rate",
        ("Group", "False positive rate", "True positive rate"), cells, folded=True,
    )  # fmt: skip
    svg = drawn(
        "ROC curve by group", sentence, Plane("false positive rate", "true positive rate"), series,
        diagonal="scores at random",
    )  # fmt: skip
    return Figure("ROC curve", sentence, svg, numbers)


def _tenths(curve: Facts) -> list[tuple[float, float]]:
    """The curve at false positive rates 0, .1, …, 1: the last point up to each."""
    points = list(zip(curve["false_positive_rate"], curve["true_positive_rate"], strict=True))
    return [(k / 10, max(y for x, y in points if x <= k / 10 + 1e-12)) for k in range(11)]


def _calibration(facts: Facts, points: list[Facts], title: str, sentence: str) -> Figure:
    groups = group_order(facts)
    series = []
    for group in groups:
        mine = [point for point in points if point["group"] == group]
        series.append(
            Series(group, [p["mean_score"] for p in mine], [p["positive_rate"] for p in mine])
        )
    cells = [
        (
            text.short(p["group"]),
            f"{text.share(p['low'], 0)} to {text.share(p['high'], 0)}",
            text.count(p["weight"]),
            text.share(p["mean_score"]),
            text.share(p["positive_rate"]),
        )
        for p in points
    ]
    head = ("Group", "Scores", "Rows", "Mean score", "Labelled positive")
    numbers = Table.of(title, head, cells, words={1}, folded=True)
    svg = drawn(
        title, sentence, Plane("mean score", "share labelled positive"), series,
        diagonal="score equals share", marked=True,
    )  # fmt: skip
    return Figure(title, sentence, svg, numbers)
