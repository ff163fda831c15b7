"""What the data can and cannot decide: the test, its set, the identified set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._assumptions import (
    AssumptionFacts,
    LearnedRate,
    assumption_facts,
    learned_rate,
    show_test,
)
from fairpc.auditing._job import Job
from fairpc.auditing._strata import show_own_test
from fairpc.core import AuditError, Bools, Floats, Record
from fairpc.evidence import (
    LEVEL,
    IdentifiedByStratum,
    IdentifiedSet,
    StratumBounds,
    TestsByStratum,
    identified_set,
)


@dataclass(frozen=True)
class StratumRange:
    """P(Df = positive | stratum) that is possible; None where nothing is."""

    stratum: str
    possible: tuple[float, float] | None


@dataclass(frozen=True)
class IdentifiedFacts(Record):
    """Mechanisms and scores that fit the same P(D = 1 | x, s)."""

    positive: str  #: the class
    #: least possible P(Df = positive); ``lower > upper`` is empty; NaN with strata, of which each
    #: has its own
    lower: float
    upper: float  #: largest possible P(Df = positive)
    empty: bool  #: whether nothing is possible; with strata, in some of them
    #: per group its bounds of P(Df), and ranges of b0 = P(D=1 | Df=0), b1 = P(D=1 | Df=1); with
    #: strata per stratum and group
    groups: tuple[Mapping[str, Any], ...]
    strata: tuple[StratumRange, ...]  #: of a model with strata
    mean_width: float | None  #: mean over rows of upper − lower bound; None where the set is empty
    always: float | None  #: share of rows whose score is above the threshold, whatever is true
    never: float | None  #: share of rows whose score is below it, whatever is true
    open: float | None  #: share of rows where it depends

    _computed = ("sentence",)

    @property
    def sentence(self) -> str:
        """In words."""
        known = "with P(D | X, S) taken as estimated"
        if self.mean_width is None or self.open is None:
            if self.strata:
                return (
                    f"No share of fair decisions {self.positive!r} within strata fits every group, "
                    f"{known}."
                )
            low = max(self.groups, key=lambda g: g["lower"])
            high = min(self.groups, key=lambda g: g["upper"])
            return (
                "If the chances of every label were exactly as estimated, no share of fair "
                f"decisions {self.positive!r} would fit every group: group {low['group']!r} needs "
                f"at least {text.share(low['lower'])}, group {high['group']!r} at most "
                f"{text.share(high['upper'])}."
            )
        width, depends = text.gap(self.mean_width), text.share(self.open)
        if self.lower > self.upper:
            return (
                "At the estimates of the fit the groups' ranges of fair decisions "
                f"{self.positive!r} miss each other by {text.gap(self.lower - self.upper)}, which "
                "chance may explain. At the rate between them a person's score could lie anywhere "
                f"in a range of {width}, on average, and for {depends} of the rows the decision "
                "depends on it."
            )
        if self.strata:
            wide = [r.possible[1] - r.possible[0] for r in self.strata if r.possible is not None]
            return (
                f"If the assumptions hold, {known}, the share of fair decisions "
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


def identified_facts(job: Job) -> IdentifiedFacts:
    """The identified set: by the bounds of the fit, if it has some without strata.

    Then scores have bounds here where ``predict_bounds`` has them. Else from the model's
    P(D = 1 | x, s), between held-out ends if tested.
    """
    model, rows = job.model, job.rows
    if not model._latent:
        raise AuditError(f"{type(model).__name__} has no latent fair decision to be identified")
    if len(rows.classes) > 2:
        raise AuditError(
            "the label has more than two classes: the closed form of the set needs two, merge "
            "classes"
        )
    bounds = model.label_ends_
    if isinstance(bounds, StratumBounds):
        return _by_fit(job, bounds)
    if bounds is not None and bounds.rejected(LEVEL):
        raise AuditError(
            "the labels of the fit contradict the assumptions within its strata, so no score has "
            "bounds"
        )
    return _by_scores(job)


def _by_fit(job: Job, bounds: StratumBounds) -> IdentifiedFacts:
    """What the held-out labels of the fit leave, at their estimates; nothing where they reject."""
    model, rows, rejected = job.model, job.rows, bounds.rejected(LEVEL)
    low, high = bounds.point_set()
    table = []
    shown = dict(zip(job.coding.group_names, rows.groups, strict=True))
    for own in bounds.ranges():
        start, stop = max(low - bounds.delta, own.lower), min(high + bounds.delta, own.upper)
        row = own.row([own.mechanism(pi) for pi in own.corners(start, stop)])
        table.append(row | {"group": shown.get(own.group, own.group)})
    kept, features = rows.comparable(rows.s >= 0), model._features_of(rows.given())
    found = model._fair().bounds(rows.s, features, rows.positive, bounds, None)[kept]
    room = _room(job, found[:, 0], found[:, 1], kept)
    return IdentifiedFacts(rows.positive_class, low, high, rejected, tuple(table), (), *room)


def _by_scores(job: Job) -> IdentifiedFacts:
    """The set from the model's P(D = 1 | x, s), between held-out ends if tested."""
    rows = job.rows
    strata, test, where = job.strata, job.own_test, job.strata.codes(rows.x)
    known = (rows.s >= 0) & (where >= 0)
    if isinstance(test, TestsByStratum):  # Ends of the others are not known.
        known &= np.isin(where, [s.stratum for s in test.strata])
    kept = rows.comparable(known)
    scores, groups = rows.observed[kept, rows.positive], rows.s[kept]
    given: dict[str, Any] = {"counts": rows.each_count[kept], "delta": strata.delta}
    if strata:
        given["given"] = where[kept]
    if isinstance(test, TestsByStratum):
        given["ends"] = {s.stratum: s.test.ends() for s in test.strata}
    elif test is not None and test.positive is not None:
        tested = test.ends()  # not of groups that are too small to be tested
        given["ends"] = tested if set(groups.tolist()) <= set(tested) else None
    identified: IdentifiedSet | IdentifiedByStratum = identified_set(scores, groups, **given)
    ends, ranges = (math.nan, math.nan), list[StratumRange]()  # of strata each has its own
    table: Sequence[Mapping[str, Any]] = ()
    if isinstance(identified, IdentifiedSet):
        ends, table = (identified.lower, identified.upper), identified.table()
    else:
        names = job.model.strata_
        for a, own in zip(identified.strata, identified.sets, strict=True):
            ranges.append(StratumRange(names[a], None if own.empty else (own.lower, own.upper)))
            # Numbers of rows are those of ``OwnStrata``, where few are hidden.
            rows_of = ({k: v for k, v in row.items() if k != "n"} for row in own.table())
            table = [*table, *({"stratum": names[a], **row} for row in rows_of)]
    return IdentifiedFacts(
        rows.positive_class,
        *ends,
        identified.empty,
        tuple({**row, "group": rows.groups[row["group"]]} for row in table),
        tuple(ranges),
        *_room(job, identified.score_lower, identified.score_upper, kept),
    )


def _room(job: Job, lower: Floats, upper: Floats, kept: Bools) -> tuple[Any, ...]:
    """How far scores and decisions are open: mean width, shares decided always, never, open.

    From the bounds of the scores of the entries that are kept, NaN where nothing is possible.
    """
    rows, known = job.rows, np.isfinite(lower)
    if not known.any():
        return None, None, None, None
    kept = kept.copy()
    kept[kept] = known
    lower, upper, counts = lower[known], upper[known], rows.each_count[kept]
    threshold = job.model.threshold_.unknown
    above, below = lower > threshold, upper <= threshold
    each = upper - lower, above, below, ~(above | below)
    return tuple(float(np.average(part, weights=counts)) for part in each)


def decidable_facts(job: Job) -> Decidable:
    """What the steps before found."""
    test, tested = None, job.tested
    if tested is not None:
        test = assumption_facts(tested.unstratified, job.rows, quoted=tested.quoted)
    return Decidable(
        test=test,
        untested=job.left_out.get("decidable.test", ""),
        rejected=None if job.own_test is None else job.own_test.rejected,
        learned=None if test is None else learned_rate(job, test),
        identified=job.results["decidable.identified"],
    )


_NOT_ASSUMED: Final = (
    "Equal fair rates are among these assumptions. The error rates against the fair decision in "
    "this report do not use them."
)


@blocks.section("decidable", "Do the data contradict the assumptions?")
def show_decidable(audit: blocks.Audit, decidable: Decidable) -> Iterator[blocks.Block]:
    """How much of the account rests on data, and how much on assumptions."""
    own = audit.strata
    if own is not None:
        yield show_own_test(own)
    elif decidable.test is None:
        yield blocks.Paragraph(f"Not tested. {text.sentence(decidable.untested)}")
    else:
        yield from show_test(audit, decidable.test)
    if not audit.data.fitted:
        yield blocks.Paragraph(_NOT_ASSUMED, "note")
    elif decidable.identified is not None:
        yield blocks.Heading("What stays open at any number of rows")
        yield from _show_identified(audit, decidable.identified)


def _show_identified(audit: blocks.Audit, facts: IdentifiedFacts) -> Iterator[blocks.Block]:
    said, test = facts.sentence, audit.decidable.test
    if facts.empty and not facts.strata:
        # What an empty set at point estimates means, beside a test that allows for errors.
        after_all = "The assumptions were not tested, so chance may explain that or not."
        if test is not None and test.rejected:
            after_all = "The test above says that chance does not explain that."
        elif test is not None:
            after_all = (
                "Estimates have errors, and the test above says that chance may explain that: it "
                f"leaves {text.share(test.sets[0].lower)} to {text.share(test.sets[0].upper)}. So "
                "no ranges of the mechanism are given here, and none of a person's score."
            )
        said = f"{said} {after_all}"
    yield blocks.Paragraph(said)
    if facts.mean_width is not None:
        yield blocks.KeyNumbers(
            [
                ("Mean width of the bounds of a score, points", text.size(facts.mean_width)),
                ("Decided positively whatever is true", text.share(facts.always)),
                ("Decided negatively whatever is true", text.share(facts.never)),
                ("Depends on what is true", text.share(facts.open)),
            ]
        )
    if any("stratum" in group for group in facts.groups):
        yield blocks.Paragraph("What is possible in each stratum is in the part on strata.", "note")
