"""What the data can and cannot decide: test, confidence set, identified set, random starts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from fairpc.auditing import _blocks as blocks
from fairpc.auditing import _formats as text
from fairpc.auditing._assumptions import (
    AssumptionFacts,
    LearnedRate,
    assumption_facts,
    learned_rate,
    show_test,
)
from fairpc.auditing._drawing import Plane, Row, Series, curves, estimates
from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows
from fairpc.auditing._strata import show_own_test
from fairpc.core import AuditError, Bools, Floats, Record
from fairpc.evidence import (
    IdentifiedByStratum,
    IdentifiedWithin,
    TestsByStratum,
    identified_set,
)
from fairpc.models import CircuitClassifier, Stability, stability

if TYPE_CHECKING:
    from fairpc.auditing._audit import Audit

N_BANDS: Final = 10

STARTS: Final = 10
START_UPDATES: Final = 200
START_WORK: Final = 5e11
"""``refit_cost`` × updates that random starts may take unasked: about five seconds of one core."""
_M_STEP: Final = 1000
_STARTS_TAKE_LONG: Final = (
    "fitting this model again to these rows from random starts takes long: "
    f"audit(…, n_starts={STARTS}) does it anyway, and so does fairpc.stability"
)


@dataclass(frozen=True)
class ScoreBand:
    """Rows of one group with scores in one tenth: between what bounds their scores may lie."""

    group: str
    low: float  #: start of the tenth, of the model's own score
    high: float  #: its end
    n: int  #: rows
    score: float  #: mean of the model's score
    lower: float  #: mean lower bound over the identified set
    upper: float  #: mean upper bound


@dataclass(frozen=True)
class StratumRange:
    """P(Df = positive | stratum) that is possible; None where nothing is."""

    stratum: str
    possible: tuple[float, float] | None


@dataclass(frozen=True)
class IdentifiedFacts(Record):
    """Mechanisms and scores that fit the same P(D = 1 | x, s)."""

    positive: str  #: the class
    #: of the set, with strata that share a mechanism; None where sampling error is not in it
    level: float | None
    #: least possible P(Df = positive); ``lower > upper`` is empty; NaN with strata, of which each
    #: has its own
    lower: float
    upper: float  #: largest possible P(Df = positive)
    empty: bool  #: whether nothing is possible; with strata, in some of them
    #: per group its bounds of P(Df), and ranges of b0 = P(D=1 | Df=0), b1 = P(D=1 | Df=1); with
    #: strata that have their own mechanisms per stratum and group
    groups: tuple[Mapping[str, Any], ...]
    strata: tuple[StratumRange, ...]  #: of a model with strata
    #: bounds of a person's score, by group and tenth of the model's score
    bands: tuple[ScoreBand, ...]
    mean_width: float | None  #: mean over rows of upper − lower bound; None where the set is empty
    always: float | None  #: share of rows whose score is above the threshold, whatever is true
    never: float | None  #: share of rows whose score is below it, whatever is true
    open: float | None  #: share of rows where it depends

    _computed = ("sentence",)

    @property
    def sentence(self) -> str:
        """In words."""
        if self.mean_width is None or self.open is None:
            return self._nothing
        width, depends = text.gap(self.mean_width), text.share(self.open)
        if self.strata:
            wide = [r.possible[1] - r.possible[0] for r in self.strata if r.possible is not None]
            return (
                f"If the assumptions hold, {self._known}, the share of hidden decisions "
                f"{self.positive!r} in a stratum may vary over up to {text.gap(max(wide))}: a "
                f"person's score then ranges over {width} on average, and for {depends} of the "
                "rows the decision depends on it."
            )
        return (
            "More rows would not settle it: even if the chances of every label were exactly as "
            f"estimated, anything from {text.span((self.lower, self.upper))} of fair decisions "
            f"could be {self.positive!r}. A person's score could then lie anywhere in a range of "
            f"{width}, on average, and for {depends} of the rows the decision depends on it. Who "
            "ranks above whom within a group is fixed; how high they score is not."
        )

    @property
    def _known(self) -> str:
        if self.level is None:
            return "with P(D | X, S) taken as estimated"
        return f"with {text.share(self.level, 0)} confidence"

    @property
    def _nothing(self) -> str:
        if self.strata:
            return (
                f"No share of hidden decisions {self.positive!r} within strata fits every group, "
                f"{self._known}."
            )
        low = max(self.groups, key=lambda g: g["lower"])
        high = min(self.groups, key=lambda g: g["upper"])
        return (
            "If the chances of every label were exactly as estimated, no share of fair decisions "
            f"{self.positive!r} would fit every group: group {low['group']!r} needs at least "
            f"{text.share(low['lower'])}, group {high['group']!r} at most "
            f"{text.share(high['upper'])}."
        )


@dataclass(frozen=True)
class Decidable:
    """What the data can and cannot decide."""

    test: AssumptionFacts | None  #: without strata; None where these rows do not allow one
    untested: str  #: why there is none; empty where there is one
    #: whether the rows contradict what the model assumes, within its strata if it has any; None
    #: where that was not tested
    rejected: bool | None
    #: P(Df) as learned beside what the test leaves; None without a test, after a rejection, and for
    #: models without Df or with strata, which have one rate in each
    learned: LearnedRate | None
    #: the identified set; None for models without Df
    identified: IdentifiedFacts | None
    #: spread over random starts and half tables; None where it was left out
    stability: Stability | None
    stability_rows: int  #: rows that it is of: a sample of a large table

    @property
    def possible(self) -> str:
        """What is meant by possible."""
        if self.identified is not None and self.identified.level is not None:
            return (
                "Possible: what the labels of all groups together leave, with "
                f"{text.share(self.identified.level, 0)} confidence."
            )
        return "Possible: every value that fits the same P(D | X, S), without sampling error."

    @property
    def headline(self) -> str:
        """Whether these rows contradict the assumptions, in a sentence of the verdict."""
        test = self.test
        if test is None:
            return (
                "The assumptions behind a hidden fair decision were not tested on these rows: "
                f"{self.untested.rstrip('.')}."
            )
        if test.rejected:
            return (
                "These rows contradict the assumptions behind a hidden fair decision "
                f"(p {test.p_words}): no rate of fair decisions fits every group, so a mechanism "
                "learned under them must not be read as what happened."
            )
        limit = 1 - test.level
        if test.p_value < 2 * limit:
            return (
                "The assumptions behind a hidden fair decision only just pass on these rows "
                f"(p {test.p_words}; below {limit:.2g} they fail). That does not show that they "
                "hold, and the narrow range that is left does not mean that the answer is known "
                "well."
            )
        return (
            "These rows do not contradict the assumptions behind a hidden fair decision "
            f"(p {test.p_words}); that does not show that they hold."
        )


def identified_facts(job: Job) -> IdentifiedFacts:
    """The identified set from the model's P(D = 1 | x, s), between held-out ends if tested."""
    model, rows = job.model, job.rows
    if not model._latent:
        raise AuditError(f"{type(model).__name__} has no hidden decision to be identified")
    if len(rows.classes) > 2:
        raise AuditError(
            "the label has more than two classes: the closed form of the set needs two; see the "
            "bounds of the test"
        )
    if job.strata:
        return _identified_within(job)
    kept = rows.comparable(rows.s >= 0)
    scores, groups, counts = rows.observed[kept, rows.positive], rows.s[kept], rows.each_count[kept]
    label_bounds = None if job.test is None or job.test.positive is None else job.test.ends()
    if label_bounds is not None and set(groups.tolist()) - set(label_bounds):
        label_bounds = None  # A group was too small to be tested.
    identified = identified_set(scores, groups, ends=label_bounds, counts=counts)
    room = _room(job, identified.score_lower, identified.score_upper, kept)
    table = rows.named(identified).table()
    positive = rows.positive_class
    return IdentifiedFacts(
        positive, None, identified.lower, identified.upper, identified.empty, table, (), *room
    )


def _room(job: Job, lower: Floats, upper: Floats, kept: Bools) -> tuple[Any, ...]:
    """How far scores and decisions are open: bands, mean width, shares decided always, never, open.

    From the bounds of the scores of the entries that are kept, NaN where nothing is possible.
    """
    rows, known = job.rows, np.isfinite(lower)
    if not known.any():
        return (), None, None, None, None
    kept = kept.copy()
    kept[kept] = known
    lower, upper, counts = lower[known], upper[known], rows.each_count[kept]
    threshold = job.model.threshold_.unknown
    always, never = (
        float(np.average(part, weights=counts)) for part in (lower > threshold, upper <= threshold)
    )
    width = float(np.average(upper - lower, weights=counts))
    return _bands(rows, lower, upper, kept), width, always, never, 1 - always - never


def _identified_within(job: Job) -> IdentifiedFacts:
    """The set under parity within strata: of all together, or of each by itself."""
    rows, strata, test = job.rows, job.strata, job.results.get("strata.test")
    names = cast(CircuitClassifier, job.model).strata_
    where = strata.codes(rows.x)
    known = (rows.s >= 0) & (where >= 0)
    if isinstance(test, TestsByStratum):  # Ends of the others are not known.
        known &= np.isin(where, [s.stratum for s in test.strata])
    kept = rows.comparable(known)
    scores, groups, counts = rows.observed[kept, rows.positive], rows.s[kept], rows.each_count[kept]
    given: dict[str, Any] = {"given": where[kept], "counts": counts}
    level = None
    if isinstance(test, TestsByStratum):
        given["ends"] = {s.stratum: s.test.ends() for s in test.strata}
    elif test is not None and {g.group for g in test.groups} == set(groups.tolist()):
        # Lines are estimated: the confidence set has their error, and that of the ends.
        given["test"], level = test, test.level
    identified: IdentifiedWithin | IdentifiedByStratum
    table: list[Mapping[str, Any]]
    if strata.within:
        identified = by_stratum = identified_set(scores, groups, mechanism="within", **given)
        sets = [(names[a], own) for a, own in zip(identified.strata, by_stratum.sets, strict=True)]
        each = [StratumRange(a, None if own.empty else (own.lower, own.upper)) for a, own in sets]
        table = [{"stratum": a, **row} for a, own in sets for row in own.table()]
    else:
        identified = together = identified_set(scores, groups, **given)
        each = [StratumRange(names[s.stratum], s.pi) for s in together.strata]
        table = list(together.table())
    by_group = tuple({**row, "group": rows.groups[row["group"]]} for row in table)
    room = _room(job, identified.score_lower, identified.score_upper, kept)
    ends = math.nan, math.nan
    return IdentifiedFacts(
        rows.positive_class, level, *ends, identified.empty, by_group, tuple(each), *room
    )


def _bands(rows: AuditedRows, lower: Floats, upper: Floats, kept: Bools) -> tuple[ScoreBand, ...]:
    own, groups, counts = rows.scores[kept, rows.positive], rows.s[kept], rows.each_count[kept]
    place = np.minimum((own * N_BANDS).astype(np.intp), N_BANDS - 1)
    result = []
    for g in np.unique(groups).tolist():
        for band in np.unique(place[groups == g]).tolist():
            here = (groups == g) & (place == band)
            name, n = rows.groups[g], int(counts[here].sum())
            means = (
                float(np.average(values[here], weights=counts[here]))
                for values in (own, lower, upper)
            )
            result.append(ScoreBand(name, band / N_BANDS, (band + 1) / N_BANDS, n, *means))
    return tuple(result)


def spread_over_starts(job: Job) -> Stability:
    """Where EM ends from random starts, the structure kept, a fifth of the rows held out.

    Up to 10 starts unless told otherwise, as many as are quick.
    """
    model, rows, n_starts = job.model, job.sample, job.settings.n_starts
    if not isinstance(model, CircuitClassifier):
        raise AuditError(
            f"{type(model).__name__} is not learned by EM over X, so it has no random starts: "
            "bounds of its scores come from rows that its classifiers have not seen"
        )
    if not model._latent:
        raise AuditError(f"{type(model).__name__} has no hidden decision, so no random starts")
    if n_starts == 0:
        raise AuditError("random starts were not asked for")
    if not (rows.d >= 0).any():
        raise AuditError("no label is known: the model cannot be fitted again to these rows")
    if n_starts is None:
        n_starts = min(STARTS, int(START_WORK / (refit_cost(model, rows) * START_UPDATES)) - 1)
        if n_starts < 2:
            raise AuditError(_STARTS_TAKE_LONG)
    return stability(
        model,
        rows.table,
        rows.labels,
        sensitive_features=rows.sensitive,
        sample_weight=rows.weights,
        fair_labels=rows.fair_labels,
        clusters=rows.persons,
        n_starts=n_starts,
        n_folds=0,
        n_steps=START_UPDATES,
        random_state=job.settings.random_state,
        callback=job.within("decidable.stability"),
    )


def decidable_facts(job: Job) -> Decidable:
    """What the steps before found."""
    test = None if job.test is None else assumption_facts(job.test, job.rows)
    return Decidable(
        test=test,
        untested=job.left_out.get("decidable.test", ""),
        rejected=None if job.own_test is None else job.own_test.rejected,
        learned=None if test is None else learned_rate(job, test),
        identified=job.results["decidable.identified"],
        stability=job.results["decidable.stability"],
        stability_rows=job.sample.n_rows,
    )


def refit_cost(model: CircuitClassifier, rows: AuditedRows) -> float:
    """What one update of EM costs: distinct rows × edges; the M-step is worth a thousand rows."""
    return float(rows.n_distinct + _M_STEP) * model.distribution_.n_edges


_DRAWN: Final = 12


def _gist(_: Audit, decidable: Decidable) -> str:
    word = {True: "contradicted", False: "not contradicted", None: "not tested"}[decidable.rejected]
    learned = decidable.learned
    left = ""
    if learned is not None:
        left = f"; P(Df = {text.short(learned.label, 20)}) from {text.share(learned.lower)} to "
        left += text.share(learned.upper)
    return f"Assumptions {word}{left}"


@blocks.section("decidable", "What the data can and cannot decide", _gist)
def show_decidable(audit: Audit, decidable: Decidable) -> Iterator[blocks.Block]:
    """How much of the account rests on data, and how much on assumptions."""
    yield blocks.Paragraph(
        "Nobody sees a hidden decision. These are the limits of what the data can say about it.",
        "lead",
    )
    yield blocks.Heading("Do the data contradict the assumptions?")
    own = None if audit.strata is None else audit.strata.own
    if own is not None:
        yield show_own_test(own)
    elif decidable.test is None:
        yield blocks.Paragraph(f"Not tested. {text.sentence(decidable.untested)}")
    else:
        yield from show_test(audit, decidable.test)
    tested = decidable.identified is not None and decidable.identified.level is not None
    yield blocks.Heading("What stays open" + ("" if tested else " at any number of rows"))
    if decidable.identified is None:
        yield blocks.absent(audit, "decidable.identified")
    else:
        yield from _show_identified(audit, decidable.identified)
    yield blocks.Heading("Spread over random starts")
    if decidable.stability is None:
        yield blocks.absent(audit, "decidable.stability")
    else:
        yield from _stability(audit, decidable.stability)


def _show_identified(audit: Audit, facts: IdentifiedFacts) -> Iterator[blocks.Block]:
    after_all = f" {_after_all(audit.decidable)}" if facts.empty and not facts.strata else ""
    yield blocks.Paragraph(facts.sentence + after_all)
    if facts.bands:
        yield blocks.KeyNumbers(
            [
                ("Mean width of the bounds of a score, points", text.size(facts.mean_width)),
                ("Decided positively whatever is true", text.share(facts.always)),
                ("Decided negatively whatever is true", text.share(facts.never)),
                ("Depends on what is true", text.share(facts.open)),
            ]
        )
        yield _show_bands(facts, blocks.group_order(audit))
    if any("stratum" in group for group in facts.groups):
        yield blocks.Paragraph(
            "What is possible in each stratum is in the section on strata.", "note"
        )
    else:
        yield _ranges(audit, facts)


def _after_all(decidable: Decidable) -> str:
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


def _show_bands(facts: IdentifiedFacts, order: dict[str, int]) -> blocks.Figure:
    series = []
    for group in order:
        mine = [band for band in facts.bands if band.group == group]
        scores = [band.score for band in mine]
        series.append(Series(group, scores, scores, [(band.lower, band.upper) for band in mine]))
    explained = (
        "Each mark is a tenth of the model's scores. The line at the same place runs from the "
        "lowest to the highest score that fits the data equally well; a mark off its line is a "
        "score that the data exclude, if the assumptions hold."
    )
    cells = [
        (
            band.group,
            f"{text.share(band.low, 0)} to {text.share(band.high, 0)}",
            *(band.n, band.score, band.lower, band.upper),
        )
        for band in facts.bands
    ]
    head = ("Group", "Model's score", "Rows", "Mean score", "Lowest", "Highest")
    caption = "Bounds of a person's score, by tenth of the model's score"
    numbers = blocks.TableBlock(caption, head, cells, words={1}, folded=True)
    plane = Plane("score of the model", "possible scores")
    picture = curves(plane, series, marked=True, joined=False)
    title, alone = "How far a person's score can vary", "Bounds of a person's score"
    return blocks.Figure(title, explained, picture, numbers, alone)


def _ranges(audit: Audit, facts: IdentifiedFacts) -> blocks.TableBlock:
    """What each group leaves possible, beside what the model learned and its interval."""
    label = text.short(facts.positive, 30)
    learned = _learned(audit, facts.positive)
    rate = None if audit.mechanism is None else audit.mechanism.rate_of(facts.positive)
    rows: list[tuple[Any, ...]] = []
    for group in facts.groups:
        name = text.short(group["group"])
        if not facts.strata:
            rows.append((name, f"P(Df = {label}), from this group alone", _span(group, ""), rate))
        if facts.empty and not facts.strata:
            continue  # No value of the mechanism is possible at the estimates themselves.
        for key, given in (("b0", "Df otherwise"), ("b1", f"Df = {label}")):
            quantity = f"P(D = {label} given {given})"
            own = learned.get((group["group"], key), text.NOTHING)
            rows.append((name, quantity, _span(group, f"{key}_"), own))
    head = ("Group", "Quantity", "Possible", "Learned")
    note = (
        f"{audit.decidable.possible} Learned: the model's value, with its bootstrap interval where "
        "there is one."
    )
    return blocks.TableBlock("Identified set of the mechanism", head, rows, words={1}, note=note)


def _span(group: Mapping[str, Any], key: str) -> str:
    low, high = group[f"{key}lower"], group[f"{key}upper"]
    return text.span((low, high)) if -math.inf < low <= high < math.inf else "none"


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


def _stability(audit: Audit, stability: Stability) -> Iterator[blocks.Block]:
    """What moved when EM started elsewhere."""
    yield blocks.Points(stability.summary().splitlines())
    yield _starts(stability, stability.classes.index(audit.data.positive))
    used, n_all = audit.decidable.stability_rows, audit.data.n_rows
    if used < n_all:
        yield blocks.Paragraph(
            f"Fitted to a random sample of {text.count(used)} of the "
            f"{text.counted(n_all, 'audited row')}.",
            "note",
        )


def _starts(stability: Stability, positive: int) -> blocks.Figure:
    label = text.short(stability.classes[positive], 30)
    rows, cells = [], []
    for s, group in enumerate(stability.groups):
        for f, decision in enumerate(stability.classes):
            again = [stability.model, *stability.starts]
            own, *values = (float(run.mechanism[s, f, positive]) for run in again)
            ends = min(own, *values), max(own, *values)
            name = f"{text.short(group, 20)}, Df = {text.short(decision, 20)}"
            rows.append(Row(name, own, ends, s, note=text.share(own)))
            cells.append((name, *map(text.share, (own, *ends))))
    explained = (
        f"Mark: probability of the label {label} in the model, fitted on to the same rows as the "
        "random starts, so that they compare. Line: from the lowest to the highest value over it "
        f"and {text.counted(len(stability.starts), 'random start')}."
    )
    if len(rows) > _DRAWN:
        explained += f" The first {_DRAWN} of {len(rows)} are drawn."
    title = "The mechanism over random starts"
    head = ("Group and latent decision", "From the model", "Lowest", "Highest")
    numbers = blocks.TableBlock(title, head, cells, folded=len(cells) > _DRAWN)
    picture = estimates(rows[:_DRAWN], text.share_tick, extent=(0.0, 1.0))
    return blocks.Figure(title, explained, picture, numbers)
