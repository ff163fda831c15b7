"""Tables of an audit that several documents show; every number is one of the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fairpc.auditing import _text as text
from fairpc.auditing import _view as view
from fairpc.auditing._agreement import Estimate
from fairpc.auditing._audit import Audit
from fairpc.auditing._gaps import Disparity
from fairpc.auditing._learning import ScoreLearning
from fairpc.auditing._table import Missing

_FEW_GROUPS: Final = 4
"""Groups up to which a table has a column for each: paper is not wider."""
_PAIRS: Final = 10
_AGREEMENT: Final = (
    (("Accuracy", "accuracy"), ("True positives", "true_positive_rate")),
    (("False positives", "false_positive_rate"), ("Precision", "precision")),
)
"""Two tables of two rates each: with their intervals more are wider than paper."""


def findings(audit: Audit) -> Iterator[view.Block]:
    """What the audit found, in the words of its verdict; a rejection stands out."""
    found = audit.verdict
    yield view.Notice(found.headline, alert=bool(found.rejected or found.drift))
    yield view.Points([sentence for sentence in found.sentences if sentence != found.headline])


def rows_of(audit: Audit) -> Iterator[view.Block]:
    """How many rows there are, of which classes and groups."""
    data = audit.data
    sampled = ""
    if data.n_rows < data.n_table:
        sampled = f" A random sample of {text.count(data.n_rows)} of them was audited."
    weighted = ""
    if data.weighted:
        weighted = f" Rows carry weights that sum to {text.count(data.weight)}; rates are weighted."
    same = {
        True: "They are the rows that the model was fitted to: agreement with them flatters.",
        False: "They are not the rows that the model was fitted to, as a whole; some may be.",
        None: "Whether they are the rows that the model was fitted to is not known.",
    }[data.same_rows_as_fit]
    yield view.Paragraph(
        f"The audited table has {text.counted(data.n_table, 'row')}.{sampled}{weighted} The label "
        f"is {text.quoted(data.label)}, its favourable class {text.quoted(data.positive)}. The "
        f"label is known in {text.count(data.n_labelled)} rows and the group in "
        f"{text.count(data.n_grouped)}. {same}"
    )
    groups = [
        (text.short(g.name), text.count(g.n), text.share(g.share), text.count(g.training_rows))
        for g in data.groups
    ]
    head = ("Group", "Audited rows", "Share", "Training rows")
    yield view.Table(f"Groups by {text.listed(data.sensitive)}", head, groups)
    classes = [(text.short(c.name), text.count(c.n), text.share(c.share)) for c in data.classes]
    yield view.Table("Classes of the label", ("Class", "Audited rows", "Share"), classes)


def missing(audit: Audit) -> view.Block:
    """Missing values, overall and by group."""
    data = audit.data
    holes = sorted((c for c in data.missing if c.share), key=lambda c: -c.share)
    if not holes:
        return view.Paragraph("No value is missing: each feature, label and group is known.")
    caption = "Missing values, overall and by group"
    if len(data.groups) <= _FEW_GROUPS:
        names = [text.short(g.name, 30) for g in data.groups]
        rows = [(*_hole(c), *map(text.share, _by_group(c))) for c in holes]
        return view.Table(caption, ("Column", "All", *names), rows, note=data.missing_words)
    head = ("Column", "All", "Least in a group", "Most in a group")
    rows = []
    for hole in holes:
        known = [share for share in _by_group(hole) if share is not None]
        ends = (min(known, default=None), max(known, default=None))
        rows.append((*_hole(hole), *map(text.share, ends)))
    return view.Table(caption, head, rows, note=data.missing_words)


def _hole(found: Missing) -> tuple[str, str]:
    role = "" if found.role == "feature" else f" ({found.role})"
    return text.short(found.column) + role, text.share(found.share)


def _by_group(found: Missing) -> Sequence[float | None]:
    """Shares by group; whether the group is known has none."""
    return [None for _ in found.by_group] if found.role == "group" else found.by_group


def noted(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
) -> view.Table:
    """A table whose last column holds remarks; without them it has no such column."""
    last = len(head) - 1
    if any(row[last] for row in rows):
        return view.Table(caption, head, rows, words={last}, note=note)
    return view.Table(caption, head[:last], [row[:last] for row in rows], note=note)


def columns(audit: Audit) -> view.Block:
    """What was done with each column of the training table."""
    if not audit.data.columns:
        return view.Paragraph("The classifier takes the columns as they are.")
    rows = []
    for column in audit.data.columns:
        name, done = column.get("column"), text.short(column.get("done"), 200)
        # The record says of them that they were left out of the features.
        role = "sensitive attribute, not a feature" if name in audit.data.sensitive else done
        rows.append((text.short(name), role))
    return view.Table("Columns, and what was done with each", ("Column", "Done"), rows, words={1})


def rates(disparities: Sequence[Disparity], what: str) -> Iterator[view.Table]:
    """Rate of each group, then differences and ratios of each pair."""
    for found in disparities:
        label = text.quoted(found.label)
        groups = [
            (
                text.short(g.group),
                text.count(g.n),
                text.share(g.mean),
                "few rows" if g.small else "",
            )
            for g in found.parity.groups
        ]
        yield noted(f"{what} {label}, by group", ("Group", "Rows", "Rate", "Note"), groups)
        pairs = [
            (
                f"{text.short(p.last, 40)} {text.MINUS} {text.short(p.first, 40)}",
                text.bracketed(p.difference, p.difference_interval, text.points),
                text.number(p.impact_ratio),
            )
            for p in sorted(found.parity.pairs, key=lambda p: -abs(p.difference))[:_PAIRS]
        ]
        note = f"Intervals hold together at the {text.share(found.parity.level, 0)} level."
        if (n := len(found.parity.pairs)) > _PAIRS:
            note += f" The {_PAIRS} largest differences of {n} pairs; the record has all."
        if found.too_small:
            note += f" Too few rows to compare: {text.listed(found.too_small)}."
        head = ("Pair", "Difference, points", "Smaller rate over larger")
        yield view.Table(f"{what} {label}: pairs of groups", head, pairs, note=note)


def by_attribute(audit: Audit) -> Iterator[view.Table]:
    """Decisions by each sensitive attribute alone and by two of more crossed; none of one alone.

    All of them crossed are the groups.
    """
    n = len(audit.data.sensitive)
    if audit.parity is None or n < 2:
        return
    for part in (p for p in audit.parity.categories if len(p.attributes) < n):
        rows = [
            (text.short(", ".join(c.levels)), text.count(c.n), text.share(c.selection_rate))
            for c in part.categories
        ]
        by = " × ".join(text.short(name, 40) for name in part.attributes)
        caption = f"Share decided {text.quoted(part.label)}, by {by}"
        yield view.Table(caption, ("Category", "Rows", "Rate"), rows)


def agreement(audit: Audit) -> Iterator[view.Block]:
    """Agreement with the observed label, by group."""
    found = audit.group_metrics
    if found is None:
        yield view.absent(audit, "group_metrics")
        return
    yield view.Paragraph(found.caption)
    note = f"In brackets: {text.share(found.level, 0)} intervals, each by itself."
    if found.on_training_rows:
        note += " The rows are those of the fit, so the numbers flatter."
    caption = f"Against the observed label; positive is {text.quoted(found.positive)}"
    for part in _AGREEMENT:
        rows = [
            (
                "All rows" if g.group is None else text.short(g.group),
                text.count(g.n),
                *(_estimate(getattr(g, name)) for _, name in part),
            )
            for g in found.groups
        ]
        yield view.Table(caption, ("Group", "Rows", *(n for n, _ in part)), rows, note=note)


def _estimate(found: Estimate) -> str:
    return text.bracketed(found.value, found.interval)


def claims(audit: Audit) -> Iterator[view.Block]:
    """What is assumed, what follows from it, and what does not."""
    limits = audit.limits
    for title, items in (
        ("Assumed", limits.assumptions),
        ("Holds exactly under these assumptions", limits.guaranteed),
        ("Does not follow", limits.limits),
    ):
        if items:
            yield view.Heading(title)
            yield view.Points(items)


def algorithm(audit: Audit) -> list[tuple[str, str]]:
    """What the model is, by name and value."""
    made, circuit = audit.provenance, audit.circuit
    pairs = [("Model class", text.name(made.model)), ("Model hash", text.name(made.model_hash))]
    if circuit is not None:
        size = f"{text.count(circuit.n_nodes)} nodes, {text.count(circuit.n_parameters)} parameters"
        pairs.append(("Circuit", size))
    names = ", ".join(f"{text.name(k)} {text.name(v)}" for k, v in made.versions.items())
    return [*pairs, ("Software", names)]


def learned(audit: Audit) -> view.Block:
    """How the model was learned, in words."""
    found = audit.learning
    if isinstance(found, ScoreLearning):
        return view.Points(found.sentences)
    ended = "It stopped by itself" if found.converged else "It was stopped by the limit"
    updates = f"Parameters were learned by {text.counted(found.n_iter, 'update')} of EM."
    return view.Points([*found.choices, f"{updates} {ended}."])


def thresholds(audit: Audit) -> str:
    """What makes a score a decision, in words."""
    found = () if audit.parity is None else audit.parity.thresholds
    if not found:
        return "the most probable class, or not known"
    if len(found) == 1:
        return f"a score above {text.share(found[0])}"
    pairs = zip(audit.data.groups, found, strict=False)
    return "a score above " + ", ".join(
        f"{text.share(t)} for {text.short(g.name, 40)}" for g, t in pairs
    )
