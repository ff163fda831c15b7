"""Gaps between groups: in observed labels, in scores, in decisions at one or many thresholds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from fairpc.auditing import _gaps as facts
from fairpc.auditing import _text as text
from fairpc.auditing import _view as view
from fairpc.auditing._audit import Audit
from fairpc.auditing._drawing import Ends, Mark, Plane, Row, Series, bars, curves, estimates

FOUR_FIFTHS: Final = 0.8
_DRAWN: Final = 12
_LONG: Final = 10


def _gap_words(disparities: Sequence[facts.Disparity]) -> str:
    return f"up to {_points(max(d.gap for d in disparities))} points"


@view.section(
    "labels",
    "Disparity of the observed labels",
    lambda _, found: f"Rates of the groups differ by {_gap_words(found.disparities)}",
)
def labels(audit: Audit, found: facts.LabelDisparity) -> Iterator[view.Block]:
    """How often each group was given each label."""
    yield view.Paragraph(found.sentence, "lead")
    yield view.Paragraph(
        "This is what was recorded. It does not say why: groups may differ in what the label "
        "measures, in how it was given, or in both."
    )
    order = view.group_order(audit)
    for disparity in found.disparities:
        label = text.quoted(disparity.label)
        if len(found.disparities) > 1:
            yield view.Heading(f"Class {label}")
        what = f"The share of rows labelled {label}"
        yield _means(disparity, f"Rows labelled {label}, by group", what, order)
        yield _ratios(disparity, "Impact ratio of the labels")


@view.section(
    "parity",
    "Parity: under the model, and on these rows",
    lambda _, found: (
        f"Mean scores differ by {_gap_words(found.scores)}, decisions by "
        f"{_gap_words(found.decisions)}"
    ),
)
def parity(audit: Audit, found: facts.ParityFacts) -> Iterator[view.Block]:
    """What is equal between groups, with a bound where it is not exact."""
    yield view.Paragraph(_sentence(found), "lead")
    pairs = [("Gap under the model, points", _points(found.model_gap))]
    if found.mix_gap is not None:
        pairs = [
            ("Gap within strata under the model, points", _points(found.model_gap)),
            ("Gap by the mix of strata under the model, points", _points(found.mix_gap)),
        ]
    for name, part in (("mean scores", found.scores), ("decisions", found.decisions)):
        worst = max(part, key=lambda d: d.gap)
        shown = f"{_points(worst.gap)} (at most {_points(worst.gap_upper)})"
        pairs.append((f"Gap of {name}, points", shown))
    yield view.KeyNumbers(pairs)
    if found.n_unknown:
        rows = text.counted(found.n_unknown, "row")
        yield view.Paragraph(f"Left out here: {rows} whose group is not known.", "note")
    yield view.Heading("Before thresholding: mean scores")
    yield from _gaps(audit, found.scores, "mean score for")
    yield view.Heading("After thresholding: decisions")
    yield from _gaps(audit, found.decisions, "share decided")
    yield from _by_attribute(audit, found)
    if found.curve:
        yield view.Heading("At other thresholds")
        yield _curve(audit, found.curve)
    if found.equal_rates is not None:
        yield _equal_rates(found.equal_rates)


def _by_attribute(audit: Audit, found: facts.ParityFacts) -> Iterator[view.Block]:
    """Each attribute by itself, where the groups are several of them crossed."""
    if len(audit.data.sensitive) < 2:
        return
    yield view.Heading("By each attribute alone")
    for part in found.categories:
        if len(part.attributes) == 1:
            rows = [
                (text.short(c.levels[0]), text.count(c.n), text.share(c.selection_rate))
                for c in part.categories
            ]
            caption = f"Share decided {text.quoted(part.label)}, by {text.listed(part.attributes)}"
            yield view.Table(caption, ("Category", "Rows", "Rate"), rows)


def _sentence(found: facts.ParityFacts) -> str:
    under = facts.under_model(found.model_gap, found.mix_gap)
    return (
        f"{under}. On rows that is not exact: a model is not the data, and a threshold turns equal "
        "means into unequal rates. The bounds say how far the gaps may go beyond what was seen."
    )


def _points(value: float) -> str:
    return text.number(100 * value, 1)


def _gaps(audit: Audit, disparities: Sequence[facts.Disparity], what: str) -> Iterator[view.Figure]:
    order = view.group_order(audit)
    for disparity in disparities:
        label = text.quoted(disparity.label)
        named = f"{what} {label}"
        title = f"{named[:1].upper()}{named[1:]}, by group"
        yield _means(disparity, title, f"The {named}", order)
        if disparity.parity.kind == "rate":
            yield _ratios(disparity, f"Impact ratio of the decision {label}")
        else:
            yield _differences(disparity, f"Differences of mean scores for {label}")


def _means(disparity: facts.Disparity, title: str, what: str, order: dict[str, int]) -> view.Figure:
    """Rate or mean score of each group as a bar; ``what`` begins the sentence about it."""
    groups = disparity.parity.groups
    rows = [Row(g.group, g.mean, series=order[g.group]) for g in groups]
    low, high = (pick(groups, key=lambda g: g.mean) for pick in (min, max))
    sentence = (
        f"{what} is lowest in group {text.short(low.group, 40)}, {text.share(low.mean)}, and "
        f"highest in group {text.short(high.group, 40)}, {text.share(high.mean)}."
    )
    head = ["Group", "Rows", "Rate" if disparity.parity.kind == "rate" else "Mean"]
    cells = [[text.short(g.group), text.count(g.n), text.share(g.mean)] for g in groups]
    if any(g.small for g in groups):
        head.append("Note")
        for cell, g in zip(cells, groups, strict=True):
            cell.append("few rows" if g.small else "")
    return view.Figure(title, sentence, bars(rows), view.Table(title, head, cells, words={3}))


def _ratios(disparity: facts.Disparity, title: str) -> view.Figure:
    """The smaller mean over the larger, per pair, against four fifths and equality."""
    finite = {p: p.impact_ratio for p in disparity.parity.pairs if math.isfinite(p.impact_ratio)}
    pairs = sorted(disparity.parity.pairs, key=lambda p: finite.get(p, math.inf))[:_DRAWN]
    rows = [
        Row(_pair(p), finite.get(p), _ratio_interval(p), note=text.number(p.impact_ratio, 2))
        for p in pairs
    ]
    mark = {
        "below": "at least one pair of groups is below four fifths, and chance does not explain it",
        "above": "every pair of groups is above four fifths, allowing for chance",
        "undecided": "these rows do not decide whether every pair is above four fifths",
    }[disparity.parity.four_fifths]
    sentence = (
        f"The impact ratio is the smaller mean over the larger; 1 is equality. Here {mark}. The "
        f"four-fifths mark is a rule of thumb of US employment law, not a test of fairness."
    )
    marks = (Mark(FOUR_FIFTHS, "four fifths"), Mark(1.0, "equal"))
    picture = estimates(rows, text.number_tick, marks=marks, ends=_ratio_ends(rows))
    return view.Figure(title, sentence, picture, _pair_table(disparity))


def _ratio_ends(rows: list[Row]) -> Ends:
    """Around four fifths and equality, and as far as the intervals go."""
    numbers = [n for row in rows for n in (row.value, *(row.interval or ())) if n is not None]
    finite = [n for n in numbers if math.isfinite(n)]
    return max(min([0.7, *finite]) - 0.05, 0.0), max([1.05, *finite]) + 0.05


def _differences(disparity: facts.Disparity, title: str) -> view.Figure:
    """Differences with their intervals, per pair, against zero."""
    sentence = (
        f"The largest gap is {_points(disparity.gap)} points, and at most "
        f"{_points(disparity.gap_upper)} allowing for chance."
    )
    pairs = sorted(disparity.parity.pairs, key=lambda p: -abs(p.difference))[:_DRAWN]
    rows = []
    for p in pairs:
        name, note = _pair(p, text.MINUS), text.points(p.difference)
        rows.append(Row(name, p.difference, p.difference_interval, note=note))
    zero = (Mark(0.0, "no gap"),)
    picture = estimates(rows, text.points_tick, marks=zero, axis="percentage points")
    return view.Figure(title, sentence, picture, _pair_table(disparity))


def _pair_table(disparity: facts.Disparity) -> view.Table:
    """Every pair: difference, ratio, their intervals, and the test where there is one."""
    found, tests = disparity.parity, disparity.significance
    head = ["Pair", "Difference, points", "Impact ratio", "Four fifths"]
    rows = [
        [
            _pair(pair, text.MINUS),
            text.bracketed(pair.difference, pair.difference_interval, text.points),
            text.bracketed(pair.impact_ratio, _ratio_interval(pair), text.number),
            pair.four_fifths,
        ]
        for pair in found.pairs
    ]
    together = text.share(found.level, 0)
    note = f"In brackets: intervals that hold together at the {together} level."
    if tests:
        head.append("p")
        for row, test in zip(rows, tests, strict=True):
            row.append(text.p_value(test.p_value))
        names = sorted({test.test for test in tests})
        note += f" p-values: {' or '.join(names)}, adjusted for the number of comparisons."
    if found.clustered:
        note += " Persons repeat; the intervals take that into account."
    if disparity.too_small:
        note += f" Too few rows to compare: {text.listed(disparity.too_small)}."
    caption, folded = "Differences and ratios between groups", len(rows) > _LONG
    return view.Table(caption, head, rows, words={3}, note=note, folded=folded)


def _pair(pair: facts.PairGap, between: str = "and") -> str:
    return f"{text.short(pair.last, 40)} {between} {text.short(pair.first, 40)}"


def _ratio_interval(pair: facts.PairGap) -> Ends | None:
    """Interval of the smaller mean over the larger."""
    low, high = pair.impact_interval
    return (low, high) if math.isfinite(pair.ratio) and math.isfinite(low) else None


def _curve(audit: Audit, records: Sequence[facts.Parity]) -> view.Figure:
    cuts = [record.threshold or 0.0 for record in records]
    worst = max(records, key=lambda r: abs(r.difference))
    sentence = (
        "Share of each group whose score is at or above a common threshold. The gap is largest at "
        f"{text.share(worst.threshold, 0)}: {text.points(worst.difference)} points."
    )
    means = [{m.group: m.mean for m in record.groups} for record in records]
    names = [group for group in view.group_order(audit) if group in means[0]]
    head = ["Threshold", *(text.short(name, 30) for name in names), "Largest gap", "Interval"]
    cells = [
        (
            text.share(record.threshold, 0),
            *(text.share(mean[name]) for name in names),
            text.points(record.difference),
            text.span(record.difference_interval, text.points),
        )
        for record, mean in zip(records, means, strict=True)
    ]
    note = f"All intervals hold together at the {text.share(records[0].level, 0)} level."
    title = "Selection rates over thresholds"
    numbers = view.Table(
        "Selection rates over common thresholds", head, cells, folded=True, note=note
    )
    series = [Series(name, cuts, [mean[name] for mean in means]) for name in names]
    picture = curves(Plane("threshold", "share selected"), series, marked=True)
    return view.Figure(title, sentence, picture, numbers)


def _equal_rates(equal: facts.EqualRates) -> view.Table:
    labelled = equal.accuracy is not None
    head = ["Group", "Own threshold", "Rate", "Rate at common threshold"]
    head += ["Agreement", "Agreement at common threshold"] if labelled else []
    rows = []
    for group in equal.groups:
        cut = text.share(group.threshold) if math.isfinite(group.threshold) else "nobody"
        shares = group.rate, group.rate_before, group.accuracy, group.accuracy_before
        rows.append([text.short(group.group), cut, *map(text.share, shares)][: len(head)])
    note = ""
    if labelled:
        note = (
            f"Agreement with the observed label, which may be biased, goes from "
            f"{text.share(equal.accuracy_before)} to {text.share(equal.accuracy)}."
        )
    caption = f"Thresholds per group that would select {text.share(equal.rate)} of each group"
    return view.Table(caption, head, rows, note=note)
