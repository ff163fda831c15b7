"""``fairpc data``: a bundled data set as a table file."""

from __future__ import annotations

import sys
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from fairpc.cli._screen import Screen, grid, print_json, say
from fairpc.cli._tables import STDOUT, target_of
from fairpc.core import FairpcError, counted
from fairpc.data import write_table

if TYPE_CHECKING:
    from fairpc.datasets import Dataset

DATASETS: Final = {
    "adult": ("income above 50,000 dollars, 1994 census; sex", ("raw", "paper")),
    "german": ("loan repaid; sex", ("raw", "paper")),
    "compas": ("arrested again within two years; race", ("two-year", "raw", "paper")),
    "synthetic": ("the paper's process, with known biased labels", ()),
}
"""What each is about, and its versions, of which the first is the default."""

SYNTHETIC_ROWS: Final = 10_000


def run(
    name: str | None,
    output: str | None,
    version: str | None,
    rows: int | None,
    seed: int,
    screen: Screen,
) -> None:
    """Write a data set to a file; without a name, list what there is."""
    if name is None:
        _list(screen)
        return
    if output is None:
        raise FairpcError(f"{name} needs an output: give a file, -o {name}.csv, or -o - for stdout")
    target = target_of(output, screen)
    data = _load(name, version, rows, seed)
    write_table([data.frame], data.frame.schema, target)
    facts = {
        "name": data.name,
        "version": data.version,
        "rows": data.frame.height,
        "columns": dict(data.columns),
        "label": data.label,
        "positive": str(data.positive),
        "sensitive": data.sensitive_attribute,
        "description": data.description,
        "traps": list(data.traps),
        **{k: getattr(data.provenance, k) for k in ("source", "url", "licence", "attribution")},
        "output": output,
    }
    if screen.json:
        print_json(facts)
    elif screen.talks:
        _say(facts, sys.stderr if output == STDOUT else sys.stdout)


def _load(name: str, version: str | None, rows: int | None, seed: int) -> Dataset:
    from fairpc import datasets

    if name not in DATASETS:
        raise FairpcError(f"there is no data set {name!r}: choose {', '.join(DATASETS)}")
    _, versions = DATASETS[name]
    if version is not None and version not in versions:
        known = f"choose {', '.join(versions)}" if versions else "leave --version out"
        raise FairpcError(f"{name} has no version {version!r}: {known}")
    if name == "synthetic":
        return datasets.make_synthetic(n_samples=rows or SYNTHETIC_ROWS, random_state=seed)
    if rows is not None:
        raise FairpcError(f"{name} has a fixed number of rows: leave --rows out")
    loaded: Dataset = getattr(datasets, f"load_{name}")(version or versions[0])
    return loaded


def _say(facts: dict[str, Any], stream: Any) -> None:
    lines = [
        facts["description"],
        *(f"Mind: {trap}" for trap in facts["traps"]),
        f"{facts['source']}; {facts['licence']}",
        f"{counted(facts['rows'], 'row')}, {counted(len(facts['columns']), 'column')} are in "
        f"{facts['output']}.",
    ]
    if facts["output"] != STDOUT:
        lines.append(
            f"Next: fairpc fit {quote(facts['output'])} --label {quote(facts['label'])} "
            f"--positive {quote(facts['positive'])} --sensitive {quote(facts['sensitive'])} "
            + ("--drop Df " if "Df" in facts["columns"] else "")
            + "-o model.fairpc"
        )
    print("\n".join(lines), file=stream)


def _list(screen: Screen) -> None:
    if screen.json:
        known = DATASETS.items()
        print_json([{"name": name, "about": a, "versions": list(v)} for name, (a, v) in known])
        return
    lines = [(name, about, ", ".join(v) or "-") for name, (about, v) in DATASETS.items()]
    grid(("name", "what it is", "versions"), lines, right=False)
    say("Write one with: fairpc data NAME -o FILE")
