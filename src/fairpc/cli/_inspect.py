"""``fairpc inspect``: what a model file holds, and what that tells of the people in its table."""

from __future__ import annotations

from typing import Final

import fairpc.cli._options as opt
import fairpc.cli._tables as tables
from fairpc import models
from fairpc.cli._screen import Screen, grid, print_json, say

SHOWN: Final = 6
"""Values of a column that are listed on a terminal; JSON has all."""


def inspect(model_file: opt.ModelFile, screen: Screen) -> None:
    """Say what a model file holds: columns, levels, smallest cells, and what they disclose.

    Example: fairpc inspect loans.fairpc
    """
    found = models.disclosure(tables.loaded(model_file, then="nothing else"))
    facts = models.file_facts(model_file)
    if screen.json:
        print_json(facts | found.to_dict())
        return
    say(
        f"{facts['file']}: a {found.model} in {facts['bytes']:,} bytes, {facts['format']}, "
        f"written by {facts['written_by']}",
        "bold",
    )
    say(f"Checksum {facts['checksum']}: the file is as it was written, by whomever\n")
    held = [
        (column.column, column.role, column.kind, _listed(column.kind, column.values))
        for column in found.columns
    ]
    grid(("column", "role", "kind", "values"), held, right=False)
    if found.not_held:
        say(f"Known by name alone: {', '.join(found.not_held)}\n")
    grid(("group", "rows"), [(name, f"{n:,}") for name, n in found.groups.items()])
    for sentence in found.sentences:
        say(f"- {sentence}")


def _listed(kind: str, values: tuple[str, ...]) -> str:
    if kind in ("number", "date"):
        return f"{len(values)} bins, {values[0]} to {values[-1]}" if values else "cuts of trees"
    more = f" and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return ", ".join(value or "(empty)" for value in values[:SHOWN]) + more
