"""Error rates of decisions by group: against the recorded label, and against the fair decision.

The recorded label is the thing in doubt, so rates against it may order groups the wrong way round.
Rates against the latent fair decision are ranges: what the labels leave open, and sampling error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, groupby
from operator import attrgetter
from typing import Any, Final, Literal

import numpy as np

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._drawing import Mark, Plane, Row, Series, curves, estimates
from fairpc.auditing._job import Job
from fairpc.core import AuditError, Record, few_labels
from fairpc.evidence import (
    MIN_ROWS,
    THROUGH_DF,
    ErrorRates,
    GroupErrorRates,
    PairErrorRates,
    ScoreBin,
    error_rates,
    held_out_scores,
    some_of,
)

REVIEW: Final = (
    "Have some files reviewed by somebody who does not see the label: a few hundred checked "
    "decisions give these rates as estimates instead of ranges."
)
_AFTER_REVIEW: Final = (
    "The review under Verdict has these rates as estimates: quote those. Below is what the labels "
    "alone leave."
)
_RATES: Final = {
    "tpr": ("True positive rate", "of those whose fair decision is positive, the share selected"),
    "fpr": ("False positive rate", "of those whose fair decision is not, the share selected"),
    "accuracy": ("Accuracy", "share decided as the fair decision"),
    "precision": ("Precision", "of those selected, the share whose fair decision is positive"),
    "selection": ("Selection rate", "share selected"),
}
_DRAWN: Final = 12
Notion = Literal["tpr", "fpr"]
_SIGNS: Final = {"lower": "lower", "higher": "higher", "undecided": "open"}
TWO_WAYS: Final = (
    "If it is the fair rates that differ, the ranges of error rates hold; if a feature alters "
    "labels by itself, they can miss the truth."
)
"""What follows for error rates where labels contradict equal fair rates."""


@dataclass(frozen=True)
class ErrorFacts(Record):
    """Error rates of the decisions, and what they say about the notions that people ask for."""

    rates: ErrorRates
    n_rows: int  #: rows with label and group; a sample of a large table
    people: Mapping[str, str] = field(default_factory=dict)  #: groups as a sentence says them

    _computed = ("conclusions", "open")

    @property
    def open(self) -> bool:
        """Whether a difference of true or false positive rates is not decidable."""
        return any(self._open("tpr")) or any(self._open("fpr"))

    def _open(self, rate: Notion) -> list[bool]:
        return [pair.is_open(rate) for pair in self.rates.differences]

    def quoted(self, rate: Notion) -> PairErrorRates:
        """The groups that are surely farthest apart; else those whose open difference is nearest
        to a sign; else, where all are small, those that may differ most."""

        def rank(pair: PairErrorRates) -> tuple[bool, bool, float]:
            low, high = getattr(pair, rate)
            sure, open_ = max(low, -high), pair.is_open(rate)
            small = not open_ and sure <= 0
            return sure > 0, open_, -1.0 if np.isnan(low) else max(high, -low) if small else sure

        return max(self.rates.differences, key=rank)

    @property
    def conclusions(self) -> tuple[str, str]:
        """What can be concluded about equal opportunity and about equalised odds."""
        (tpr, unequal), (fpr, apart) = self._said("tpr"), self._said("fpr")
        unsure, unsure_too = any(self._open("tpr")), any(self._open("fpr"))
        first = "Equal opportunity is open." if unsure else "Then equal opportunity nearly holds."
        odds = "Equalised odds are open" + (", too." if unsure else ".")
        if unequal:
            first = "Then equal opportunity does not hold."
            odds = "Without equal opportunity, equalised odds do not hold either."
        elif apart:
            odds = "Then equalised odds do not hold."
        elif not (unsure or unsure_too):
            odds = "Then equalised odds nearly hold, too."
        return f"{tpr} {first}", f"{fpr} {odds}"

    @property
    def reviews(self) -> int | None:
        """Files whose review would decide what is open, equal opportunity first, if known; None
        where that takes all of them."""
        tpr, fpr = self.quoted("tpr"), self.quoted("fpr")
        if self.is_vacuous("tpr"):  # what would be noticed then is a difference that nobody expects
            return None
        return tpr.tpr_reviews if tpr.is_open("tpr") else fpr.fpr_reviews

    def is_vacuous(self, rate: Notion) -> bool:
        """Whether labels leave so much possible of a rate that no difference is a finding."""
        return self.quoted(rate).is_vacuous(rate)

    def _said(self, rate: Notion) -> tuple[str, bool]:
        """The sentence of the pair that is quoted, and whether its difference has a sign."""
        pair = self.quoted(rate)
        at = 2 * self.rates.differences.index(pair) + (rate == "fpr")
        sentence = self.rates.sentences[at]
        for group, who in self.people.items():
            sentence = sentence.replace(repr(group), who)
        return sentence, pair.sign(rate) != "undecided"


def error_facts(job: Job) -> ErrorFacts:
    """Error rates on the rows of the test, whose held-out sets bound the mechanism."""
    rows, tested = job.drawn, job.tested
    if rows.same_rows_as_fit:
        raise AuditError(
            "how often decisions err against the fair decision can be said only of rows that the "
            "model was not fitted to: audit others, and this part shows it"
        )
    if tested is None:
        raise AuditError(job.left_out["decidable.test"])
    rows, kept, (features, labels, groups) = tested.rows, tested.kept, tested.given
    persons, weights = some_of(rows.persons, kept), some_of(rows.weights, kept)
    hits, ids = labels == rows.positive, np.unique(groups, return_inverse=True)[1]
    given: dict[str, Any] = {"X": tested.fit}
    if job.strata:  # held-out sets of the whole table say nothing of a stratum
        names, where = np.array(job.model.strata_), job.strata.codes(rows.x)[kept]
        cells = np.zeros((len(names), int(ids.max()) + 1, 2))
        np.add.at(cells, (where, ids, hits.astype(np.intp)), 1)
        present = cells[np.unique(where)]
        if (present.sum(axis=2) < MIN_ROWS).any() or not present.all():
            raise AuditError(
                f"error rates within strata need {MIN_ROWS} rows and both labels of every group in "
                "each: merge strata or groups"
            )
        given = {"given": names[where]}
    found = error_rates(
        rows.decided[kept],
        labels,
        groups,
        **given,
        label_scores=held_out_scores(features, hits.astype(np.intp), ids, weights, persons),
        scores=rows.scores[kept, rows.positive] if rows.scored else None,
        level=job.settings.level,
        # Of many pairs the one that is farthest apart is quoted.
        simultaneous=len(np.unique(groups)) > 2,
        positive=rows.positive,
        clusters=persons,
        sample_weight=weights,
    )
    found = replace(found, calibration=tuple(_told(found.calibration, job.min_cell)))
    return ErrorFacts(rows.named(found), int(kept.sum()), job.names.people)


def _told(bins: Sequence[ScoreBin], least: int) -> Iterator[ScoreBin]:
    """Bins without those that tell of few people with a label, or without."""
    for _, own in groupby(bins, key=attrgetter("group")):
        mine = list(own)
        n = np.array([one.n for one in mine])
        hits = n * [one.recorded for one in mine]
        yield from compress(mine, ~few_labels(hits, n - hits, least))


@blocks.section("error_rates", "Error rates against the fair decision")
def show_error_rates(audit: blocks.Audit, facts: ErrorFacts) -> Iterator[blocks.Block]:
    """Rates by group against label and fair decision, differences, calibration."""
    yield blocks.Paragraph(
        "Equal opportunity asks for equal true positive rates, equalised odds for equal false "
        "positive rates too. Both are usually measured against the recorded label, which is the "
        "thing in doubt. The ranges below are against the fair decision: every value in them is "
        f"possible if {THROUGH_DF}, with sampling error.",
        "lead",
    )
    test = audit.decidable.test
    if test is not None and test.rejected:
        yield blocks.Paragraph(f"These labels contradict equal fair rates. {TWO_WAYS}")
    if audit.review is not None:
        yield blocks.Paragraph(_AFTER_REVIEW)
    else:
        doubt = (facts.rates.doubt,) if facts.rates.doubt else ()
        yield blocks.Points([*doubt, *facts.conclusions, *((REVIEW,) if facts.open else ())])
    yield blocks.Side([_by_group(audit, facts, rate) for rate in ("tpr", "fpr")])
    yield _groups_table(facts)
    yield _differences(facts)
    if facts.rates.calibration:
        yield _calibration(audit, facts)
    yield blocks.Heading("What these ranges assume")
    yield blocks.Points(blocks.sentences("of_decisions"))


def _by_group(audit: blocks.Audit, facts: ErrorFacts, rate: str) -> blocks.Figure:
    order = blocks.group_order(audit)
    rows = []
    for name, group in list(facts.rates.groups.items())[:_DRAWN]:
        limits, recorded = _limits(group, rate), getattr(group.recorded, rate)
        rows.append(Row(name, recorded, limits, order[name], text.span(limits)))
    title, means = _RATES[rate]
    sentence = (
        f"{means[0].upper()}{means[1:]}. Line: what is possible against the fair decision. Mark: "
        "the rate against the recorded label."
    )
    return blocks.Figure(title, sentence, estimates(rows, text.share_tick, extent=(0.0, 1.0)))


def _groups_table(facts: ErrorFacts) -> blocks.TableBlock:
    rates = facts.rates
    cells: list[tuple[Any, ...]] = []
    for key, (title, _) in _RATES.items():
        for name, group in rates.groups.items():
            range_ = getattr(group, key)
            both = text.span(tuple(range_)), text.span(range_.identified)
            cells.append((title, name, getattr(group.recorded, key), *both))
    small = [name for name, group in rates.groups.items() if group.small]
    head = ("Rate", "Group", "Against the label", "Against the fair decision", "Identified set")
    together = "all together" if rates.simultaneous else "each by itself"
    note = (
        f"Computed on {text.counted(facts.n_rows, 'row')}. Ranges hold at "
        f"{text.share(rates.level, 0)}, {together}; the "
        "identified set is what would stay open with any number of rows. Positive means "
        f"“{text.short(rates.positive, 40)}”."
    )
    if small:
        note += f" Few rows, to be read with care: {text.listed(small)}."
    caption = "Error rates against the recorded label and against the fair decision"
    return blocks.TableBlock(caption, head, cells, words={1}, note=note, folded=len(cells) > 20)


def _differences(facts: ErrorFacts) -> blocks.Figure:
    rows, cells = [], []
    for pair in facts.rates.differences[:_DRAWN]:
        name = f"{text.short(pair.last, 30)} {text.MINUS} {text.short(pair.first, 30)}"
        for series, rate in enumerate(("tpr", "fpr")):
            title, limits = _RATES[rate][0], _limits(pair, rate)
            recorded = getattr(pair.recorded, rate)
            span, sign = text.span(limits, text.points), _SIGNS[pair.sign(rate)]  # type: ignore[arg-type]
            rows.append(Row(f"{title}: {name}", recorded, limits, series, span))
            cells.append((f"{title}: {name}", text.points(recorded), span, sign))
    sentence = (
        "Line: the differences that are possible against the fair decision. Mark: the difference "
        "against the recorded label. A line that does not touch zero is a difference "
        f"if {THROUGH_DF}."
    )
    head = ("Difference, points", "Against the label", "Against the fair decision", "Direction")
    table = blocks.TableBlock("Differences of error rates between groups", head, cells, words={3})
    marks = (Mark(0.0, "no gap"),)
    picture = estimates(rows, text.points_tick, marks=marks, axis="percentage points")
    return blocks.Figure("Differences between groups", sentence, picture, table)


def _limits(of: GroupErrorRates | PairErrorRates, rate: str) -> tuple[float, float] | None:
    low, high = getattr(of, rate)
    return None if text.missing(low) else (low, high)


def _calibration(audit: blocks.Audit, facts: ErrorFacts) -> blocks.Figure:
    series, cells = [], []
    for group in blocks.group_order(audit):
        mine = [b for b in facts.rates.calibration if b.group == group]
        known = [b for b in mine if not text.missing(b.fair.low)]
        limits = [(b.fair.low, b.fair.high) for b in known]
        scores, recorded = [b.mean_score for b in known], [b.recorded for b in known]
        series.append(Series(group, scores, recorded, limits))
        for b in mine:
            bin_ = f"{text.share(b.low, 0)} to {text.share(b.high, 0)}"
            fair = text.span((b.fair.low, b.fair.high))
            cells.append((group, bin_, b.n, b.mean_score, b.recorded, fair))
    sentence = (
        "Of the rows with a score, the share that is positive: lines are what is possible of the "
        "fair decision, marks the recorded label. A line off the diagonal is a score that says too "
        "much or too little about fair decisions of that group."
    )
    head = ("Group", "Scores", "Rows", "Mean score", "Labelled positive", "Fair positive")
    table = blocks.TableBlock("Calibration by bin of the score", head, cells, {1}, folded=True)
    plane = Plane("mean score", "share positive")
    picture = curves(plane, series, diagonal="score equals share", joined=False)
    title = "Calibration against the fair decision"
    return blocks.Figure(title, sentence, picture, table)
