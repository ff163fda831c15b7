"""Disparity of the observed labels."""

from __future__ import annotations

from fairpc.report import text
from fairpc.report.sections.absent import Facts, absent
from fairpc.report.sections.gaps import means, ratios
from fairpc.report.view import Block, Heading, Paragraph, Section

TITLE = "Disparity of the observed labels"


def labels(facts: Facts) -> Section:
    """How often each group was given each label."""
    found = facts["labels"]
    if found is None:
        return absent(facts, "labels", TITLE)
    blocks: list[Block] = [
        Paragraph(found["sentence"], "lead"),
        Paragraph(
            "This is what was recorded. It does not say why: groups may differ in what the label "
            "measures, in how it was given, or in both."
        ),
    ]
    order = group_order(facts)
    several = len(found["disparities"]) > 1
    for disparity in found["disparities"]:
        label = text.quoted(disparity["label"])
        if several:
            blocks.append(Heading(f"Class {label}"))
        what = f"The share of rows labelled {label}"
        blocks.append(means(disparity, f"Rows labelled {label}, by group", what, order))
        blocks.append(ratios(disparity, "Impact ratio of the labels"))
    return Section("labels", TITLE, tuple(blocks))


def group_order(facts: Facts) -> dict[str, int]:
    """Place of each group: its colour and mark are the same all over the page."""
    return {group["name"]: i for i, group in enumerate(facts["data"]["groups"])}
