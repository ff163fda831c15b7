"""The bias mechanism: a table, a flow picture per group, labels turned either way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from fairpc.auditing import _text as text
from fairpc.auditing import _view as view
from fairpc.auditing._audit import Audit
from fairpc.auditing._drawing import flow
from fairpc.auditing._mechanism import MechanismCell, MechanismFacts

_LONG: Final = 16
_SAID: Final = 6
_DRAWN: Final = 8
_MISFIT: Final = 0.01


def _gist(audit: Audit, found: MechanismFacts) -> str:
    if audit.verdict.withdrawn:
        return "Learned by the model, not a finding"
    turned = sum(t.up + t.down + t.other for t in found.turned)
    total = sum(t.n for t in found.turned)
    return f"{_estimated(turned)} of {text.count(total)} labels were turned"


def _estimated(n: float) -> str:
    """A number of labels at the beginning of a sentence."""
    said = text.number_or_none(n)
    return said.capitalize() if said == text.NONE else f"An estimated {said}"


@view.section("mechanism", "The bias mechanism", _gist)
def mechanism(audit: Audit, found: MechanismFacts) -> Iterator[view.Block]:
    """P(D | Df, S) as learned, and what it would mean for the audited rows."""
    if audit.verdict.rejected:
        yield view.Notice(
            "The assumptions behind this section are contradicted by the data.",
            ("What follows is what the model learned. It is not what happened.",),
            alert=True,
        )
    if audit.verdict.drift:
        yield view.Notice(
            "The fit warned that its mechanism must not be read as what happened.",
            (*audit.verdict.drift, "What follows is what the model learned, not a finding."),
            alert=True,
        )
    learned = audit.decidable.learned
    if learned is not None and learned.outside:
        yield view.Notice(
            "These rows speak against the rate of fair decisions that the model learned.",
            (learned.sentence, "What follows is what the model learned, not a finding."),
            alert=True,
        )
    yield view.Paragraph(
        f"{_rates(found)} The mechanism says how often each decision was recorded as each label, "
        "group by group.",
        "lead",
    )
    if len(found.sentences) <= _SAID and not audit.verdict.withdrawn:
        yield view.Points(found.sentences)
    yield view.Paragraph(_on_rows(found))
    yield _flows(found)
    if len(found.groups) > _DRAWN:
        yield view.Paragraph(f"The {_DRAWN} largest groups are drawn.", "note")
    yield _turned(found)
    yield _probabilities(audit, found)
    caption = "Estimated number of audited labels"
    yield _matrix(found, caption, lambda cell: text.count(cell.count), folded=True)


def _rates(found: MechanismFacts) -> str:
    """P(Df): one for all groups, or with strata one for each, by their mix."""
    if not found.group_decision_rate:
        rates = ", ".join(
            f"{text.quoted(name)} {text.share(rate)}"
            for name, rate in zip(found.classes, found.decision_rate, strict=True)
        )
        return f"The latent decision Df has the same rate in every group by construction: {rates}."
    k = found.classes.index(found.positive)
    rates = ", ".join(
        f"{text.share(rates[k])} in group {text.short(group, 40)}"
        for group, rates in zip(found.groups, found.group_decision_rate, strict=True)
    )
    return (
        "The latent decision Df has the same rate in every group within each stratum, by "
        f"construction. In the whole table the rate of {text.quoted(found.positive)} is {rates}: "
        "the mix of strata alone makes them differ."
    )


def _on_rows(found: MechanismFacts) -> str:
    """Why the pictures may have other rates than the model: they count rows, given their labels."""
    known = {g: r for g, r in zip(found.groups, found.row_decision_rate, strict=True) if r == r}
    rates = text.listed([f"{text.share(r)} in group {text.short(g, 40)}" for g, r in known.items()])
    said = (
        "The pictures count the audited rows: of each, the likely decision given its features and "
        f"its label. On these rows that makes {text.quoted(found.positive)} the decision for "
        f"{rates}."
    )
    k = found.classes.index(found.positive)
    off = max((abs(r - found.decision_rate[k]) for r in known.values()), default=0.0)
    if found.group_decision_rate or off < _MISFIT:
        return said
    return (
        f"{said} Under the model it would be {text.share(found.decision_rate[k])} in each: the "
        "difference shows how far the model is from these rows."
    )


def _flows(found: MechanismFacts) -> view.Side:
    figures, sizes = [], {t.group: t.n for t in found.turned}
    largest = sorted(found.groups, key=lambda g: -sizes[g])[:_DRAWN]
    cells = {(c.group, c.decision, c.label): c.count for c in found.cells}
    for group in (g for g in found.groups if g in largest):
        counts = [[cells[group, f, d] for d in found.classes] for f in found.classes]
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
        picture = flow(found.classes, counts, found.classes.index(found.positive))
        figures.append(view.Figure(f"Group {name}", sentence, picture, name=alone))
    return view.Side(figures)


def _turned(found: MechanismFacts) -> view.Table:
    positive = text.quoted(found.positive)
    other = any(t.other >= 0.5 for t in found.turned)
    head = ["Group", "Labels", f"Turned to {positive}", f"Turned away from {positive}"]
    head += ["Turned otherwise"] if other else []
    rows = []
    for t in found.turned:
        ways = (t.up, t.down, t.other) if other else (t.up, t.down)
        counts = (
            f"{text.count(way)} ({text.share(way / t.n)})" if t.n else text.NOTHING for way in ways
        )
        rows.append([text.short(t.group), text.count(t.n), *counts])
    return view.Table(
        "Estimated number of labels turned either way, on the audited rows", head, rows
    )


def _probabilities(audit: Audit, found: MechanismFacts) -> view.Table:
    """A row per group and decision, a column per label."""
    if found.level is not None:
        note = (
            f"In brackets: bootstrap intervals from {text.counted(found.n_replicates, 'draw')}, "
            f"{text.share(found.level, 0)} each. {found.covered}"
        )
    else:
        why = view.reason(audit, "mechanism.intervals", "the audit was made without refits")
        note = f"Without intervals: {why[:1].lower()}{why[1:]}"

    caption = "Mechanism as learned: P(D | Df, S)"
    return _matrix(found, caption, lambda c: text.bracketed(c.probability, c.interval), note)


def _matrix(
    found: MechanismFacts,
    caption: str,
    shown: Callable[[MechanismCell], str],
    note: str = "",
    *,
    folded: bool = False,
) -> view.Table:
    head = ["Group", "Latent decision"]
    head += [f"Labelled {text.quoted(label)}" for label in found.classes]
    cells = {(c.group, c.decision, c.label): c for c in found.cells}
    rows = [
        [
            text.short(group),
            text.short(decision, 40),
            *(shown(cells[group, decision, label]) for label in found.classes),
        ]
        for group in found.groups
        for decision in found.classes
    ]
    return view.Table(caption, head, rows, words={1}, note=note, folded=folded or len(rows) > _LONG)
