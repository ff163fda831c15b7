"""The bias mechanism: P(D | Df, S), its intervals, and how many labels were altered, either way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from fairpc.auditing import _blocks as blocks
from fairpc.auditing import _formats as text
from fairpc.auditing._drawing import flow
from fairpc.auditing._job import Job
from fairpc.auditing._rows import AuditedRows
from fairpc.core import AuditError, Floats
from fairpc.evidence import AssumptionTest, Interval, StrataTest, TestsByStratum
from fairpc.models import (
    STRAIGHT_LEVEL,
    BiasAccount,
    CircuitClassifier,
    Draws,
    FittedDecisions,
    LatentDecision,
    ScoredSubject,
    Subject,
    intervals,
    subject_of,
)

_LONG: Final = 16  # rows of a table that is not folded
_SAID: Final = 6  # sentences that are not too many to read
_DRAWN: Final = 8  # groups in pictures
_MISFIT: Final = 0.01  # a difference of rates that is worth a word
REPLICATES: Final = 200
FEWEST_REPLICATES: Final = 50
UPDATES: Final = 500
NAMED: Final = 6
"""Groups that a sentence names; of more, those with the largest share of altered labels."""

DRAW_WORK: Final = 1e12
"""``refit_cost`` × updates that draws may take unasked: about ten seconds of one core."""

_M_STEP: Final = 1000
_DRAWN_ANYWAY: Final = f"audit(…, n_replicates={REPLICATES})"
_OF_CIRCUITS: Final = (
    "The intervals leave out the prior, which pulls the learned value towards D = Df, so that "
    "value may lie outside of its interval. They show how much the rows vary by chance, not what "
    "the data leave open; see the next section."
)
_OF_SCORES: Final = (
    "The intervals belong to one point among all that the data leave open, and keep the "
    "classifiers as they are. They show how much the rows vary by chance; the true mechanism may "
    "lie elsewhere; see the next section."
)
_STRAIGHT: Final = (
    "The labels of the training rows are as they would be if none had been turned (D = Df, not "
    f"rejected at the {1 - STRAIGHT_LEVEL:.0%} level). So the model says that none was: its scores "
    "are those of the label, with the same mean in every group."
)


@dataclass(frozen=True)
class MechanismCell:
    """P(D = label | Df = decision, S = group)."""

    group: str
    decision: str
    label: str
    probability: float  #: as learned
    interval: Interval | None  #: bootstrap interval; None where there is none
    count: float  #: estimated number of audited labels with this decision and label
    training_count: float  #: the same among the training rows


@dataclass(frozen=True)
class LabelChanges:
    """Labels of one group that differ from the latent decision, estimated on the audited rows."""

    group: str
    n: float  #: weight of the group
    up: float  #: labels altered to the positive class
    down: float  #: labels altered from the positive class
    other: float  #: labels altered between other classes


@dataclass(frozen=True)
class MechanismFacts:
    """What the model says about how labels came about, if its assumptions hold."""

    groups: tuple[str, ...]  #: names
    classes: tuple[str, ...]
    positive: str  #: the positive class
    decision_rate: tuple[float, ...]  #: P(Df = k), per class
    #: P(Df = k | group) by group where strata, by their mix, or delta let it differ; else empty
    group_decision_rate: tuple[tuple[float, ...], ...]
    #: share of the positive class among the decisions of each group, estimated on the audited rows
    #: from features and labels; NaN where a group has none
    row_decision_rate: tuple[float, ...]
    cells: tuple[MechanismCell, ...]  #: the table, by group, then decision, then label
    turned: tuple[LabelChanges, ...]  #: per group
    #: one for each way in which labels of a group were altered; or that the model keeps D = Df
    sentences: tuple[str, ...]
    sentence: str  #: the whole in one
    #: bootstrap intervals of ``decision_rate``; empty where there are none
    decision_rate_intervals: tuple[Interval, ...] = ()
    level: float | None = None  #: of each interval; None where there are none
    covered: str = ""  #: what the intervals are around, and what they cover; empty without
    n_replicates: int = 0  #: bootstrap draws behind the intervals
    delta: float = 0.0  #: by how much the rates of two groups may differ, within a stratum

    def rate_of(self, label: str) -> float:
        """P(Df = label) as learned."""
        return self.decision_rate[self.classes.index(label)]


def mechanism_facts(job: Job) -> MechanismFacts:
    """The learned mechanism, and the labels it says were altered among the audited rows."""
    model, rows = job.model, job.rows
    if not model._latent:
        raise AuditError(
            f"{type(model).__name__} has no hidden decision, so no mechanism between it and the "
            "label"
        )
    mechanism, training = model.bias_mechanism_, model.label_counts_
    counts = model._altered_counts(rows.given())
    cells = []
    for s, f, d in np.ndindex(mechanism.shape):
        names = rows.groups[s], rows.classes[f], rows.classes[d]
        share, here, at_fit = (float(of[s, f, d]) for of in (mechanism, counts, training))
        cells.append(MechanismCell(*names, share, None, here, at_fit))
    altered = tuple(
        _altered_labels(name, counts[s], rows.positive) for s, name in enumerate(rows.groups)
    )
    account = BiasAccount(rows.groups, rows.classes, mechanism, counts)
    sentences = account.sentences
    sentence = _sentence(altered, rows.positive_class, bool((rows.s >= 0).any()))
    if isinstance(model, LatentDecision) and model.score_map_.straight:
        sentences, sentence = (_STRAIGHT,), _STRAIGHT
    by_group: tuple[tuple[float, ...], ...] = ()
    if job.strata or job.strata.delta:
        by_group = tuple(map(tuple, model.group_decision_rate_.tolist()))
    totals = counts.sum(axis=(1, 2))
    on_rows = np.full(len(totals), np.nan)
    np.divide(counts[:, rows.positive].sum(axis=1), totals, out=on_rows, where=totals > 0)
    return MechanismFacts(
        groups=rows.groups,
        classes=rows.classes,
        positive=rows.positive_class,
        decision_rate=tuple(float(p) for p in model.fair_rate_),
        group_decision_rate=by_group,
        row_decision_rate=tuple(on_rows.tolist()),
        cells=tuple(cells),
        turned=altered,
        sentences=sentences,
        sentence=sentence,
        delta=job.strata.delta,
    )


def with_intervals(job: Job) -> MechanismFacts:
    """The mechanism with bootstrap intervals, of a model on its own training rows.

    From 50 to 200 draws unless told otherwise, as many as are quick, of all rows: as they are in
    the table, or merged. None unasked of a model whose mechanism was chosen within a set.
    """
    model, settings, n_replicates = job.model, job.settings, job.settings.n_replicates
    rows = job.drawn if job.drawn.n_rows == job.rows.n_rows else job.rows
    if n_replicates == 0:
        raise AuditError("intervals of the mechanism were not asked for")
    _check_drawable(rows, job.own_test)
    if model.warnings_:
        raise AuditError(
            "the fit warned that its mechanism must not be read as what happened: an interval "
            "would look more certain than it is"
        )
    if n_replicates is None:
        n_replicates = _affordable(model, rows)
    subject = _subject(model, rows)
    draws = Draws(n_replicates, UPDATES, settings.level, subject.persons, rows.counts)
    # The plain test says nothing about a model with strata.
    unstratified = None if job.strata or job.test is None else rows.named(job.test)
    report = job.within("mechanism.intervals")
    bootstrap = intervals(subject, draws, unstratified, None, settings.random_state, report)
    if bootstrap.refused is not None:
        raise AuditError(bootstrap.refused)
    facts: MechanismFacts = job.results["mechanism"]
    cells = tuple(
        replace(cell, interval=(float(bootstrap.lower[place]), float(bootstrap.upper[place])))
        for cell, place in zip(facts.cells, np.ndindex(bootstrap.lower.shape), strict=True)
    )
    ends = zip(bootstrap.fair_rate_lower.tolist(), bootstrap.fair_rate_upper.tolist(), strict=True)
    return replace(
        facts,
        cells=cells,
        decision_rate_intervals=tuple(ends),
        level=bootstrap.level,
        covered=_OF_SCORES if subject.kept == "classifiers" else _OF_CIRCUITS,
        n_replicates=bootstrap.n_replicates,
    )


def _subject(model: FittedDecisions, rows: AuditedRows) -> Subject | ScoredSubject:
    """What is fitted again to draws of these rows."""
    if not isinstance(model, LatentDecision):
        return Subject.of_codes(cast(CircuitClassifier, model), rows.coded(), rows.persons)
    given = rows.labels, rows.sensitive, rows.weights, rows.fair_labels, rows.persons
    return subject_of(model, rows.as_at_fit(), *given)


def _affordable(model: FittedDecisions, rows: AuditedRows) -> int:
    """Draws that are made unasked; an AuditError says why there are none."""
    if not isinstance(model, CircuitClassifier):
        raise AuditError(
            f"the mechanism of {type(model).__name__} was chosen among all that the data leave "
            "open, and an interval around it would look more certain than it is: the identified "
            f"set says what is possible. {_DRAWN_ANYWAY} says how much it varies with the rows"
        )
    quick = int(DRAW_WORK / (refit_cost(model, rows) * UPDATES))
    n_replicates = min(REPLICATES, max(FEWEST_REPLICATES, quick))
    if n_replicates > 2 * quick:
        raise AuditError(
            "fitting this model again to draws of these rows takes long. "
            f"{_DRAWN_ANYWAY} does it anyway"
        )
    return n_replicates


def refit_cost(model: CircuitClassifier, rows: AuditedRows) -> float:
    """What one update of EM costs: distinct rows × edges; the M-step is worth a thousand rows."""
    return float(rows.n_distinct + _M_STEP) * model.distribution_.n_edges


def _check_drawable(
    rows: AuditedRows, test: AssumptionTest | StrataTest | TestsByStratum | None
) -> None:
    """An AuditError says what forbids intervals: other rows, or the test."""
    if not rows.same_rows_as_fit:
        other = "other rows were audited: audit the training rows to get them"
        if rows.same_rows_as_fit is None:
            other = "the model's file does not say whether these are its rows: fit it again"
        raise AuditError(
            f"intervals of the mechanism need a bootstrap of the training rows, but {other}"
        )
    if rows.n_rows < rows.n_table:
        raise AuditError(
            "intervals of the mechanism need a bootstrap of all training rows, but their "
            "distinct rows do not fit into memory: allow more memory"
        )
    if test is None:
        raise AuditError(
            "the assumptions behind a mechanism could not be tested on these rows, and an "
            "interval would look more certain than it is"
        )
    if test.rejected:
        raise AuditError(
            "these rows contradict the assumptions behind a mechanism: an interval would "
            "have no meaning"
        )


def _altered_labels(group: str, counts: Floats, positive: int) -> LabelChanges:
    off = counts - np.diag(np.diag(counts))
    up, down = float(off[:, positive].sum()), float(off[positive].sum())
    return LabelChanges(
        group, float(counts.sum()), up, down, max(float(off.sum()) - up - down, 0.0)
    )


def _sentence(altered: tuple[LabelChanges, ...], positive: str, grouped: bool) -> str:
    named = altered
    if len(altered) > NAMED:
        named = tuple(sorted(altered, key=lambda t: -(t.up + t.down) / max(t.n, 1.0))[: NAMED - 1])
    parts = "; ".join(
        f"in group {t.group!r} {text.number_or_none(t.up)} of {t.n:,.0f} labels were turned to "
        f"{positive!r} and {text.number_or_none(t.down)} away from it"
        for t in named
    )
    if len(named) < len(altered):
        parts += f"; no larger share in any of the other {len(altered) - len(named)} groups"
    inferred = "" if grouped else " and with groups that it infers, because they are not known"
    return f"If the assumptions hold{inferred}, the model estimates that {parts}."


def _gist(audit: blocks.Audit, facts: MechanismFacts) -> str:
    if audit.verdict.withdrawn:
        return "Learned by the model, not a finding"
    altered = sum(t.up + t.down + t.other for t in facts.turned)
    total = sum(t.n for t in facts.turned)
    return f"{_estimated(altered)} of {text.count(total)} labels were turned"


def _estimated(n: float) -> str:
    """A number of labels at the beginning of a sentence."""
    said = text.number_or_none(n)
    return said.capitalize() if said == text.NONE else f"An estimated {said}"


@blocks.section("mechanism", "The bias mechanism", _gist)
def show_mechanism(audit: blocks.Audit, facts: MechanismFacts) -> Iterator[blocks.Block]:
    """P(D | Df, S) as learned, and what it would mean for the audited rows."""
    if audit.verdict.rejected:
        yield blocks.Notice(
            "The assumptions behind this section are contradicted by the data.",
            ("What follows is what the model learned. It is not what happened.",),
            alert=True,
        )
    if audit.verdict.drift:
        yield blocks.Notice(
            "The fit warned that its mechanism must not be read as what happened.",
            (*audit.verdict.drift, "What follows is what the model learned, not a finding."),
            alert=True,
        )
    learned = audit.decidable.learned
    if learned is not None and learned.outside:
        yield blocks.Notice(
            "These rows speak against the rate of fair decisions that the model learned.",
            (learned.sentence, "What follows is what the model learned, not a finding."),
            alert=True,
        )
    yield blocks.Paragraph(
        f"{_rate_words(facts)} The mechanism says how often each decision was recorded as each "
        "label, group by group.",
        "lead",
    )
    if len(facts.sentences) <= _SAID and not audit.verdict.withdrawn:
        yield blocks.Points(facts.sentences)
    yield blocks.Paragraph(_on_rows(facts))
    yield _flows(facts)
    if len(facts.groups) > _DRAWN:
        yield blocks.Paragraph(f"The {_DRAWN} largest groups are drawn.", "note")
    yield _altered_table(facts)
    yield _probabilities(audit, facts)
    caption = "Estimated number of audited labels"
    yield _matrix(facts, caption, lambda cell: text.count(cell.count), folded=True)


def _rate_words(facts: MechanismFacts) -> str:
    """P(Df): one for all groups, or with strata one for each, by their mix."""
    if not facts.group_decision_rate:
        rates = ", ".join(
            f"{text.quoted(name)} {text.share(rate)}"
            for name, rate in zip(facts.classes, facts.decision_rate, strict=True)
        )
        return f"The latent decision Df has the same rate in every group by construction: {rates}."
    k = facts.classes.index(facts.positive)
    rates = ", ".join(
        f"{text.share(rates[k])} in group {text.short(group, 40)}"
        for group, rates in zip(facts.groups, facts.group_decision_rate, strict=True)
    )
    if facts.delta:
        return (
            f"Rates of the latent decision Df differ by at most {text.gap(facts.delta)} between "
            "groups, by construction, where the model has strata within each. In the whole table "
            f"the rate of {text.quoted(facts.positive)} is {rates}."
        )
    return (
        "The latent decision Df has the same rate in every group within each stratum, by "
        f"construction. In the whole table the rate of {text.quoted(facts.positive)} is {rates}: "
        "the mix of strata alone makes them differ."
    )


def _on_rows(facts: MechanismFacts) -> str:
    """Why the pictures may have other rates than the model: they count rows, given their labels."""
    known = {g: r for g, r in zip(facts.groups, facts.row_decision_rate, strict=True) if r == r}
    rates = text.listed([f"{text.share(r)} in group {text.short(g, 40)}" for g, r in known.items()])
    said = (
        "The pictures count the audited rows: of each, the likely decision given its features and "
        f"its label. On these rows that makes {text.quoted(facts.positive)} the decision for "
        f"{rates}."
    )
    k = facts.classes.index(facts.positive)
    off = max((abs(r - facts.decision_rate[k]) for r in known.values()), default=0.0)
    if facts.group_decision_rate or off < _MISFIT:
        return said
    return (
        f"{said} Under the model it would be {text.share(facts.decision_rate[k])} in each: the "
        "difference shows how far the model is from these rows."
    )


def _flows(facts: MechanismFacts) -> blocks.Side:
    figures, sizes = [], {t.group: t.n for t in facts.turned}
    largest = sorted(facts.groups, key=lambda g: -sizes[g])[:_DRAWN]
    cells = {(c.group, c.decision, c.label): c.count for c in facts.cells}
    for group in (g for g in facts.groups if g in largest):
        counts = [[cells[group, f, d] for d in facts.classes] for f in facts.classes]
        total = sum(map(sum, counts))
        turned = total - sum(counts[k][k] for k in range(len(counts)))
        name = text.short(group, 40)
        sentence = f"{_estimated(turned)} of {text.count(total)} labels"
        if round(turned):
            share = text.share(turned / total)
            sentence += f" ({share}) differ from the latent decision: the dark bands."
        else:
            sentence += " differ from the latent decision."
        alone = f"From decision to label in group {name}"
        picture = flow(facts.classes, counts, facts.classes.index(facts.positive))
        figures.append(blocks.Figure(f"Group {name}", sentence, picture, name=alone))
    return blocks.Side(figures)


def _altered_table(facts: MechanismFacts) -> blocks.TableBlock:
    positive = text.quoted(facts.positive)
    other = any(t.other >= 0.5 for t in facts.turned)
    head = ["Group", "Labels", f"Turned to {positive}", f"Turned away from {positive}"]
    head += ["Turned otherwise"] if other else []
    rows = []
    for t in facts.turned:
        ways = (t.up, t.down, t.other) if other else (t.up, t.down)
        counts = (f"{text.count(way)} ({text.share(way / t.n)})" if t.n else None for way in ways)
        rows.append([t.group, text.count(t.n), *counts])
    return blocks.TableBlock(
        "Estimated number of labels turned either way, on the audited rows", head, rows
    )


def _probabilities(audit: blocks.Audit, facts: MechanismFacts) -> blocks.TableBlock:
    """A row per group and decision, a column per label."""
    if facts.level is not None:
        note = (
            f"In brackets: bootstrap intervals from {text.counted(facts.n_replicates, 'draw')}, "
            f"{text.share(facts.level, 0)} each. {facts.covered}"
        )
    else:
        why = blocks.reason(audit, "mechanism.intervals", "the audit was made without refits")
        note = f"Without intervals: {why[:1].lower()}{why[1:]}"

    caption = "Mechanism as learned: P(D | Df, S)"
    return _matrix(facts, caption, lambda c: text.bracketed(c.probability, c.interval), note)


def _matrix(
    facts: MechanismFacts,
    caption: str,
    shown: Callable[[MechanismCell], str],
    note: str = "",
    *,
    folded: bool = False,
) -> blocks.TableBlock:
    head = ["Group", "Latent decision"]
    head += [f"Labelled {text.quoted(label)}" for label in facts.classes]
    cells = {(c.group, c.decision, c.label): c for c in facts.cells}
    rows = [
        [
            text.short(group),
            text.short(decision, 40),
            *(shown(cells[group, decision, label]) for label in facts.classes),
        ]
        for group in facts.groups
        for decision in facts.classes
    ]
    return blocks.TableBlock(
        caption, head, rows, words={1}, note=note, folded=folded or len(rows) > _LONG
    )
