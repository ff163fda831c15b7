"""Questions that the page answers itself, by evaluating the circuit in the browser."""

from __future__ import annotations

from typing import Any

from fairpc.report import text
from fairpc.report.packing import packed_circuit
from fairpc.report.sections.absent import Facts, absent
from fairpc.report.view import Block, Choice, Paragraph, Section, WhatIf

TITLE = "What if: ask the model"


def what_if(facts: Facts) -> Section:
    """A form with every feature and the group; anything may stay unknown."""
    found = facts["what_if"]
    if found is None:
        return absent(facts, "what_if", TITLE)
    choices = tuple(
        Choice(v["column"], _name(v, facts), tuple(text.short(value) for value in v["values"]))
        for v in _asked(found)
    )
    blocks: list[Block] = [
        Paragraph(
            "Set what is known about a person and leave the rest unknown. The page evaluates the "
            "circuit here, exactly; nothing leaves this file.",
            "lead",
        ),
        Paragraph(
            "The answers are those of the model, with its assumptions and its errors. That a value "
            "moves a probability does not mean that changing it would change a life."
        ),
        WhatIf(choices),
    ]
    return Section("what_if", TITLE, tuple(blocks))


def questions(facts: Facts) -> dict[str, Any] | None:
    """The circuit and the names, as the script of the page reads them."""
    found = facts["what_if"]
    if found is None:
        return None
    columns = {v["role"]: v for v in found["variables"] if v["role"] != "feature"}
    latent = "decision" in columns
    return {
        "circuit": packed_circuit(found["circuit"]),
        "roles": {
            "group": columns["group"]["column"],
            "decision": found["decision"],
            "observed": columns["label"]["column"],
            "positive": found["positive"],
        },
        "classes": [text.short(value, 40) for value in columns["label"]["values"]],
        "decisionName": "P(Df | known)" if latent else "P(D | known)",
        "observedName": "P(D | known)",
        "variables": [
            {
                "column": v["column"],
                "name": _name(v, facts),
                "values": [text.short(value, 60) for value in v["values"]],
            }
            for v in _asked(found)
        ],
    }


def _asked(found: Facts) -> list[Facts]:
    """The group, then the features."""
    group = [v for v in found["variables"] if v["role"] == "group"]
    return group + [v for v in found["variables"] if v["role"] == "feature"]


def _name(variable: Facts, facts: Facts) -> str:
    if variable["role"] == "group":
        return f"{text.listed(facts['data']['sensitive'])} (group)"
    return text.short(variable["name"], 60)
