"""The verdict in words, first of all."""

from __future__ import annotations

from fairpc.report import text
from fairpc.report.sections.absent import Facts
from fairpc.report.view import Block, Notice, Paragraph, Points, Section
from fairpc.report.view import Facts as KeyNumbers

TITLE = "Verdict"


def verdict(facts: Facts) -> Section:
    """The findings; a rejection of the assumptions stands out."""
    found = facts["verdict"]
    rejected = found["rejected"]
    consequences = (
        (
            "Everything below that speaks of fair decisions or of a bias mechanism rests on "
            "assumptions which these rows contradict. Read it as a description of the model, not "
            "of the world.",
        )
        if rejected
        else ()
    )
    blocks: list[Block] = [
        Notice(found["headline"], consequences, alert=bool(rejected)),
        Points(tuple(s for s in found["sentences"] if s != found["headline"])),
        KeyNumbers(tuple(_key_numbers(facts))),
        Paragraph(f"{found['disclaimer']} No statistic can settle whether a decision was just."),
    ]
    return Section("verdict", TITLE, tuple(blocks))


def _key_numbers(facts: Facts) -> list[tuple[str, str]]:
    data, labels, parity = facts["data"], facts["labels"], facts["parity"]
    groups = str(len(data["groups"])) if data["n_grouped"] else "not known"
    pairs = [("Rows audited", text.count(data["n_rows"])), ("Groups", groups)]
    if labels is not None:
        worst = max(labels["disparities"], key=lambda d: d["gap"] or 0.0)
        ratio = worst["parity"]["largest"]["impact_ratio"]
        pairs.append(("Gap in observed labels, points", text.number(100 * worst["gap"], 1)))
        pairs.append(("Impact ratio of the labels", text.number(ratio, 2)))
    if parity is not None:
        for key, name in (("scores", "mean scores"), ("decisions", "decisions")):
            gap = max(d["gap"] for d in parity[key])
            pairs.append((f"Gap in {name}, points", text.number(100 * gap, 1)))
    rejected = facts["verdict"]["rejected"]
    word = {True: "rejected", False: "not rejected", None: "not tested"}[rejected]
    return [*pairs, ("Assumptions", word)]
