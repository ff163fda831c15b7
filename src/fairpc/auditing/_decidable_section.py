"""What the data can and cannot decide: test, confidence set, identified set, random starts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairpc.auditing import _decidable as facts
from fairpc.auditing import _text as text
from fairpc.auditing import _view as view
from fairpc.auditing._audit import Audit
from fairpc.auditing._drawing import Mark, Plane, Row, Series, curves, estimates, ranges
from fairpc.auditing._strata import OwnStrata

_DRAWN: Final = 12


def _gist(_: Audit, found: facts.Decidable) -> str:
    word = {True: "contradicted", False: "not contradicted", None: "not tested"}[found.rejected]
    learned = found.learned
    left = ""
    if learned is not None:
        left = f"; P(Df = {text.short(learned.label, 20)}) from {text.share(learned.lower)} to "
        left += text.share(learned.upper)
    return f"Assumptions {word}{left}"


@view.section("decidable", "What the data can and cannot decide", _gist)
def decidable(audit: Audit, found: facts.Decidable) -> Iterator[view.Block]:
    """How much of the account rests on data, and how much on assumptions."""
    yield view.Paragraph(
        "Nobody sees a hidden decision. These are the limits of what the data can say about it.",
        "lead",
    )
    yield view.Heading("Do the data contradict the assumptions?")
    own = None if audit.strata is None else audit.strata.own
    if own is not None:
        yield _within(own)
    elif found.test is None:
        yield view.Paragraph(f"Not tested. {view.sentence(found.untested)}")
    else:
        yield from _test(audit, found.test)
    tested = found.identified is not None and found.identified.level is not None
    yield view.Heading("What stays open" + ("" if tested else " at any number of rows"))
    if found.identified is None:
        yield view.absent(audit, "decidable.identified")
    else:
        yield from _identified(audit, found.identified)
    yield view.Heading("Spread over random starts")
    if found.stability is None:
        yield view.absent(audit, "decidable.stability")
    else:
        yield from _stability(audit, found.stability)


def _within(own: OwnStrata) -> view.Block:
    """The test of what a model with strata assumes."""
    test, where = own.test, "The section on strata below shows it beside the test without strata."
    if test is None:
        return view.Paragraph(f"Not tested within strata. {view.sentence(own.untested)}")
    if test.rejected:
        return view.Notice(
            "Rejected: the data contradict the assumptions, within strata too.",
            (
                f"p {test.p_words}: {test.outcome}. At least one of these fails: fair decisions "
                "are independent of the group within strata; the label depends on the features "
                "through the fair decision only; in every group a label is most likely under the "
                "fair decision of the same name"
                + ("." if own.mechanism == "within" else "; labels are bent alike in all strata."),
                where,
            ),
            alert=True,
        )
    return view.Notice(
        "Not rejected: the data do not contradict the assumptions within strata.",
        (
            f"p {test.p_words}, on {text.counted(test.n_rows, 'row')}. That they are not rejected "
            "does not show that they are true: some violations cannot be seen however many rows "
            "there are.",
            f"{where} {own.argued}",
        ),
    )


def _test(audit: Audit, test: facts.AssumptionFacts) -> Iterator[view.Block]:
    yield view.Notice(
        "Rejected: the data contradict the assumptions."
        if test.rejected
        else "Not rejected: the data do not contradict the assumptions.",
        (_outcome(test),),
        alert=test.rejected,
    )
    if test.what_to_do:
        yield view.Paragraph("What can be done:")
        yield view.Points(test.what_to_do)
    for one in test.sets:
        yield _confidence_set(audit, one, test)
    yield from _bending(test)
    fits = text.listed([f"{name} ({text.counted(n, 'fit')})" for name, n in test.classifiers])
    used = text.counted(test.n_known, "row")
    if test.n_rows < test.n_known:
        used = f"{text.count(test.n_rows)} of the {used} whose label and group are known,"
    yield view.Paragraph(
        f"Computed on {used} by {test.method} over "
        f"{text.counted(test.n_seeds, 'way')} of splitting; classifiers: {fits}.",
        "note",
    )


def _bending(test: facts.AssumptionFacts) -> Iterator[view.Block]:
    """What is left where the label depends on features otherwise than through Df."""
    yield view.Paragraph(
        "One of the assumptions is that features change the label through the fair decision only. "
        "If they also change its odds, given the fair decision and the group, by a limited factor "
        f"between two people, more rates are possible. {test.tolerance}".strip()
    )
    if len(test.sets) > 1:
        return
    label = text.short(test.sets[0].label, 40)
    cells = []
    for bent in test.bending:
        low, high = float(bent.lower), float(bent.upper)  # type: ignore[arg-type]
        ends = ("none", "none") if low > high else (text.share(low), text.share(high))
        cells.append((text.number(bent.gamma, 2), *ends))
    head = ("Factor", f"Lowest P(Df = {label})", "Highest")
    yield view.Table("Possible rates where features bend labels too", head, cells)


def _outcome(test: facts.AssumptionFacts) -> str:
    if test.rejected:
        return (
            f"p {test.p_words}. No rate of fair decisions fits every group"
            f"{_clash(test.sets)}. At least one of these fails: fair decisions are independent "
            "of the group; the label depends on the features through the fair decision only; in "
            "every group a label is most likely under the fair decision of the same name."
        )
    rates = "; ".join(
        f"{text.quoted(one.label)} from {text.share(one.lower)} to {text.share(one.upper)}"
        for one in test.sets
    )
    return (
        f"p {test.p_words}. Rates of fair decisions with {text.share(test.level, 0)} "
        f"confidence, if the assumptions are true: {rates}. That they are not rejected does "
        "not show that they are true: some violations cannot be seen however many rows there are."
    )


def _clash(sets: tuple[facts.ConfidenceSet, ...]) -> str:
    """Which groups exclude each other; of more than two classes no two groups need do so."""
    if len(sets) > 1:
        return ""
    (one,) = sets
    low = max(one.groups, key=lambda bar: bar.lower)
    high = min(one.groups, key=lambda bar: bar.upper)
    return (
        f": of {text.quoted(one.label)}, group {text.short(low.group, 40)} needs at least "
        f"{text.share(low.lower)}, group {text.short(high.group, 40)} at most "
        f"{text.share(high.upper)}"
    )


def _confidence_set(
    audit: Audit, one: facts.ConfidenceSet, test: facts.AssumptionFacts
) -> view.Figure:
    order = view.group_order(audit)
    label, ends = text.short(one.label, 40), (text.share(one.lower), text.share(one.upper))
    seen = "The bars do not overlap: no single rate fits every group."
    if not one.empty:
        seen = (
            f"The bars overlap from {ends[0]} to {ends[1]} (shaded): any rate in there fits every "
            "group."
        )
    explained = (
        f"Each bar is the range of P(Df = {label}) that one group alone leaves possible, at the "
        f"{text.share(test.level, 0)} level. {seen}"
    )
    rows, cells = [], []
    for bar in one.groups:
        span = (bar.lower, bar.upper)
        rows.append(Row(bar.group, None, span, order[bar.group], note=text.span(span)))
        cells.append((text.short(bar.group), text.count(bar.n), *map(text.share, span)))
    whole = ("none", "none") if one.empty else ends
    cells.append(("Overlap of all groups", "", *whole))
    caption, head = f"Confidence set of P(Df = {label})", ("Group", "Rows", "Lowest", "Highest")
    rate = _decision_rate(audit, one.label)
    marks = () if rate is None else (Mark(rate, f"learned {text.share(rate)}"),)
    learned = audit.decidable.learned
    if learned is not None and learned.outside and learned.label == one.label:
        explained += f" {learned.sentence}"
    overlap = None if one.empty else (one.lower, one.upper)
    picture = ranges(rows, overlap, marks=marks, axis=f"P(Df = {label})")
    title = f"Possible rates of {text.quoted(one.label)}"
    return view.Figure(title, explained, picture, view.Table(caption, head, cells))


def _identified(audit: Audit, found: facts.IdentifiedFacts) -> Iterator[view.Block]:
    yield view.Paragraph(_open(audit.decidable, found))
    if found.bands:
        width = text.NOTHING if found.mean_width is None else text.number(100 * found.mean_width, 1)
        yield view.KeyNumbers(
            [
                ("Mean width of the bounds of a score, points", width),
                ("Decided positively whatever is true", text.share(found.always)),
                ("Decided negatively whatever is true", text.share(found.never)),
                ("Depends on what is true", text.share(found.open)),
            ]
        )
        yield _bands(found, view.group_order(audit))
    if any("stratum" in group for group in found.groups):
        yield view.Paragraph(
            "What is possible in each stratum is in the section on strata.", "note"
        )
    else:
        yield _ranges(audit, found)


def _open(decidable: facts.Decidable, found: facts.IdentifiedFacts) -> str:
    label = text.short(found.positive, 40)
    if found.strata:
        return found.sentence
    if found.empty:
        return f"{found.sentence} {_after_all(decidable)}"
    return (
        f"With P(D | X, S) known exactly, P(Df = {label}) could still be anything from "
        f"{text.share(found.lower)} to {text.share(found.upper)}. Who ranks above whom within a "
        "group is fixed; how high they score is not."
    )


def _after_all(decidable: facts.Decidable) -> str:
    """What an empty set at point estimates means, beside a test that allows for errors."""
    test = decidable.test
    if test is None:
        return "The assumptions were not tested, so chance may explain that or not."
    if test.rejected:
        return "The test above says that chance does not explain that."
    (one,) = test.sets
    return (
        "Estimates have errors, and the test above says that chance may explain that: it leaves "
        f"{text.share(one.lower)} to {text.share(one.upper)}. So no ranges of the mechanism are "
        "given here, and none of a person's score."
    )


def _bands(found: facts.IdentifiedFacts, order: dict[str, int]) -> view.Figure:
    series = []
    for group in order:
        mine = [band for band in found.bands if band.group == group]
        scores = [band.score for band in mine]
        series.append(Series(group, scores, scores, [(band.lower, band.upper) for band in mine]))
    explained = (
        "Each mark is a tenth of the model's scores. The line at the same place runs from the "
        "lowest to the highest score that fits the data equally well; a mark off its line is a "
        "score that the data exclude, if the assumptions hold."
    )
    cells = [
        (
            text.short(band.group),
            f"{text.share(band.low, 0)} to {text.share(band.high, 0)}",
            text.count(band.n),
            *map(text.share, (band.score, band.lower, band.upper)),
        )
        for band in found.bands
    ]
    head = ("Group", "Model's score", "Rows", "Mean score", "Lowest", "Highest")
    caption = "Bounds of a person's score, by tenth of the model's score"
    numbers = view.Table(caption, head, cells, words={1}, folded=True)
    plane = Plane("score of the model", "possible scores")
    picture = curves(plane, series, marked=True, joined=False)
    title, alone = "How far a person's score can vary", "Bounds of a person's score"
    return view.Figure(title, explained, picture, numbers, alone)


def _ranges(audit: Audit, found: facts.IdentifiedFacts) -> view.Table:
    """What each group leaves possible, beside what the model learned and its interval."""
    label = text.short(found.positive, 30)
    learned = _learned(audit, found.positive)
    rate = text.share(_decision_rate(audit, found.positive))
    rows = []
    for group in found.groups:
        name = text.short(group["group"])
        if not found.strata:
            rows.append((name, f"P(Df = {label}), from this group alone", _span(group, ""), rate))
        if found.empty and not found.strata:
            continue  # No value of the mechanism is possible at the estimates themselves.
        for key, given in (("b0", "Df otherwise"), ("b1", f"Df = {label}")):
            quantity = f"P(D = {label} given {given})"
            own = learned.get((group["group"], key), text.NOTHING)
            rows.append((name, quantity, _span(group, f"{key}_"), own))
    head = ("Group", "Quantity", "Possible", "Learned")
    note = (
        f"{possible(found)} Learned: the model's value, with its bootstrap interval where there is "
        "one."
    )
    return view.Table("Identified set of the mechanism", head, rows, words={1}, note=note)


def possible(found: facts.IdentifiedFacts | None) -> str:
    """What is meant by possible."""
    if found is not None and found.level is not None:
        return (
            "Possible: what the labels of all groups together leave, with "
            f"{text.share(found.level, 0)} confidence."
        )
    return "Possible: every value that fits the same P(D | X, S), without sampling error."


def _span(group: Mapping[str, Any], key: str) -> str:
    low, high = group[f"{key}lower"], group[f"{key}upper"]
    return text.span((low, high)) if -math.inf < low <= high < math.inf else "none"


def _decision_rate(audit: Audit, label: str) -> float | None:
    """P(Df = label) as learned."""
    found = audit.mechanism
    return None if found is None else found.decision_rate[found.classes.index(label)]


def _learned(audit: Audit, positive: str) -> dict[tuple[str, str], str]:
    found = audit.mechanism
    if found is None or len(found.classes) != 2:
        return {}
    result = {}
    for cell in found.cells:
        if cell.label == positive:
            name = "b1" if cell.decision == positive else "b0"
            result[cell.group, name] = text.bracketed(cell.probability, cell.interval)
    return result


def _stability(audit: Audit, found: facts.Stability) -> Iterator[view.Block]:
    """What moved when EM started elsewhere."""
    yield view.Points(found.summary().splitlines())
    yield _starts(found, found.classes.index(audit.data.positive))
    used, n_all = audit.decidable.stability_rows, audit.data.n_rows
    if used < n_all:
        yield view.Paragraph(
            f"Fitted to a random sample of {text.count(used)} of the "
            f"{text.counted(n_all, 'audited row')}.",
            "note",
        )


def _starts(found: facts.Stability, positive: int) -> view.Figure:
    label = text.short(found.classes[positive], 30)
    rows, cells = [], []
    for s, group in enumerate(found.groups):
        for f, decision in enumerate(found.classes):
            again = [found.model, *found.starts]
            own, *values = (float(run.mechanism[s, f, positive]) for run in again)
            ends = min(own, *values), max(own, *values)
            name = f"{text.short(group, 20)}, Df = {text.short(decision, 20)}"
            rows.append(Row(name, own, ends, s, note=text.share(own)))
            cells.append((name, *map(text.share, (own, *ends))))
    explained = (
        f"Mark: probability of the label {label} in the model, fitted on to the same rows as the "
        "random starts, so that they compare. Line: from the lowest to the highest value over it "
        f"and {text.counted(len(found.starts), 'random start')}."
    )
    if len(rows) > _DRAWN:
        explained += f" The first {_DRAWN} of {len(rows)} are drawn."
    title = "The mechanism over random starts"
    head = ("Group and latent decision", "From the model", "Lowest", "Highest")
    numbers = view.Table(title, head, cells, folded=len(cells) > _DRAWN)
    picture = estimates(rows[:_DRAWN], text.share_tick, ends=(0.0, 1.0))
    return view.Figure(title, explained, picture, numbers)
