"""The bias mechanism: a table, a flow picture per group, labels turned either way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairpc.report import text
from fairpc.report.drawing.flow import flow
from fairpc.report.sections.absent import Facts, absent, reason
from fairpc.report.view import Block, Figure, Notice, Paragraph, Points, Section, Side, Table

TITLE = "The bias mechanism"

_LONG: Final = 16
_SAID: Final = 6
_DRAWN: Final = 8


def mechanism(facts: Facts) -> Section:
    """P(D | Df, S) as learned, and what it would mean for the audited rows."""
    found = facts["mechanism"]
    if found is None:
        return absent(facts, "mechanism", TITLE)
    blocks: list[Block] = []
    if facts["verdict"]["rejected"]:
        blocks.append(
            Notice(
                "The assumptions behind this section are contradicted by the data.",
                ("What follows is what the model learned. It is not what happened.",),
                alert=True,
            )
        )
    blocks += [Paragraph(_rates(found), "lead")]
    if len(found["sentences"]) <= _SAID:
        blocks.append(Points(tuple(found["sentences"])))
    blocks.append(_flows(found))
    if len(found["groups"]) > _DRAWN:
        blocks.append(Paragraph(f"The {_DRAWN} largest groups are drawn.", "note"))
    blocks += [_turned(found), _probabilities(facts, found), _counts(found)]
    return Section("mechanism", TITLE, tuple(blocks))


def _rates(found: Facts) -> str:
    rates = ", ".join(
        f"{text.quoted(name)} {text.share(rate)}"
        for name, rate in zip(found["classes"], found["decision_rate"], strict=True)
    )
    return (
        f"The latent decision Df has the same rate in every group by construction: {rates}. The "
        "mechanism says how often each decision was recorded as each label, group by group."
    )


def _flows(found: Facts) -> Side:
    figures = []
    sizes = {t["group"]: t["n"] for t in found["turned"]}
    largest = sorted(found["groups"], key=lambda g: -sizes[g])[:_DRAWN]
    for group in (g for g in found["groups"] if g in largest):
        cells = [cell for cell in found["cells"] if cell["group"] == group]
        counts = [
            [next(c["count"] for c in cells if c["decision"] == f and c["label"] == d)
             for d in found["classes"]]
            for f in found["classes"]
        ]  # fmt: skip
        total = sum(map(sum, counts))
        turned = total - sum(counts[k][k] for k in range(len(counts)))
        name = text.short(group, 40)
        share = text.share(turned / total) if total else text.NOTHING
        sentence = (
            f"An estimated {text.count(turned)} of {text.count(total)} labels ({share}) differ "
            "from the latent decision: the dark bands."
        )
        svg = flow(f"From decision to label in group {name}", sentence, found["classes"], counts)
        figures.append(Figure(f"Group {name}", sentence, svg))
    return Side(tuple(figures))


def _turned(found: Facts) -> Table:
    positive = text.quoted(found["positive"])
    other = any(t["other"] >= 0.5 for t in found["turned"])
    head = ["Group", "Labels", f"Turned to {positive}", f"Turned away from {positive}"]
    rows = []
    for t in found["turned"]:
        row = [text.short(t["group"]), text.count(t["n"])]
        row += [_with_share(t[way], t["n"]) for way in ("up", "down", "other")[: 3 if other else 2]]
        rows.append(row)
    if other:
        head.append("Turned otherwise")
    return Table.of("Estimated number of labels turned either way, on the audited rows", head, rows)


def _with_share(value: float, total: float) -> str:
    return f"{text.count(value)} ({text.share(value / total)})" if total else text.NOTHING


def _probabilities(facts: Facts, found: Facts) -> Table:
    """A row per group and decision, a column per label."""

    def shown(cell: Facts) -> str:
        return text.bracketed(cell["probability"], cell["interval"])

    if found["level"] is not None:
        note = (
            f"In brackets: bootstrap intervals from {text.counted(found['n_replicates'], 'draw')}, "
            f"{text.share(found['level'], 0)} each, around where more updates of EM take the "
            "mechanism. They cover sampling noise given the structure, not what the data leave "
            "open; see the next section."
        )
    else:
        why = reason(facts, "mechanism.intervals", "the audit was made without refits")
        note = f"Without intervals: {why[:1].lower()}{why[1:]}"
    return _matrix(found, "Mechanism as learned: P(D | Df, S)", shown, note, folded=False)


def _counts(found: Facts) -> Table:
    return _matrix(
        found, "Estimated number of audited labels", lambda cell: text.count(cell["count"]), "",
        folded=True,
    )  # fmt: skip


def _matrix(
    found: Facts, caption: str, shown: Callable[[Facts], str], note: str, *, folded: bool
) -> Table:
    head = ["Group", "Latent decision"]
    head += [f"Labelled {text.quoted(label)}" for label in found["classes"]]
    cells = {(c["group"], c["decision"], c["label"]): c for c in found["cells"]}
    rows = [
        [
            text.short(group),
            text.short(decision, 40),
            *(shown(cells[group, decision, label]) for label in found["classes"]),
        ]
        for group in found["groups"]
        for decision in found["classes"]
    ]
    return Table.of(caption, head, rows, words={1}, note=note, folded=folded or len(rows) > _LONG)
