"""``fairpc data``: tables that come with the package, as files."""

from __future__ import annotations

import sys
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import fairpc.cli._options as opt
from fairpc.cli._screen import Screen, grid, print_json, say
from fairpc.cli._tables import STDOUT, target_of
from fairpc.core import FairpcError, counted
from fairpc.data import write_table

if TYPE_CHECKING:
    from fairpc.datasets import Dataset

DATASETS: Final = {
    "loans": ("loan applications with a planted bias; sex", ("applications", "truth")),
    "adult": ("income above 50,000 dollars, 1994 census; sex", ("raw", "paper")),
    "german": ("loan repaid; sex", ("raw", "paper")),
    "compas": ("arrested again within two years; race", ("two-year", "raw", "paper")),
    "synthetic": ("the paper's process, with known biased labels", ()),
}
"""What each is about, and its versions, of which the first is the default."""
TRUTHS: Final = ("Df", "deserving")
"""Columns that no model may learn from."""
SYNTHETIC_ROWS: Final = 10_000


def data(
    name: Annotated[
        str | None,
        opt.argument("NAME", "loans, adult, german, compas, synthetic; none: list them."),
    ] = None,
    output: Annotated[
        str | None, opt.output("The table: .csv, .tsv, .parquet, .feather; - for stdout.")
    ] = None,
    version: Annotated[
        str | None, opt.option("NAME", "raw or paper; compas: two-year, too; loans: truth.")
    ] = None,
    rows: Annotated[
        int | None, opt.option("N", "Rows to draw, for synthetic.", min=1, max=100_000_000)
    ] = None,
    seed: opt.Seed = 0,
    *,
    screen: Screen,
) -> None:
    """Write a data set that comes with the package to a table file.

    Example: fairpc data german -o german.csv
    """
    if name is None:
        _list(screen)
        return
    if output is None:
        raise FairpcError(f"{name} needs an output: give a file, -o {name}.csv, or -o - for stdout")
    target = target_of(output, screen)
    dataset = _load(name, version, rows, seed)
    write_table([dataset.frame], dataset.frame.schema, target)
    about = {
        "name": dataset.name,
        "version": dataset.version,
        "rows": dataset.frame.height,
        "columns": dict(dataset.columns),
        "label": dataset.label,
        "positive": str(dataset.positive),
        "sensitive": dataset.sensitive_attribute,
        "description": dataset.description,
        "traps": list(dataset.traps),
        **{k: getattr(dataset.provenance, k) for k in ("source", "url", "licence", "attribution")},
        "output": output,
    }
    if screen.json:
        print_json(about)
    elif screen.prints_text:
        print(_words(about), file=sys.stderr if output == STDOUT else sys.stdout)


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


def _words(about: dict[str, Any]) -> str:
    lines = [
        about["description"],
        *(f"Mind: {trap}" for trap in about["traps"]),
        f"{about['source']}; {about['licence']}",
        f"{counted(about['rows'], 'row')}, {counted(len(about['columns']), 'column')} are in "
        f"{about['output']}.",
    ]
    if about["output"] != STDOUT:
        lines.append(
            f"Next: fairpc fit {quote(about['output'])} --label {quote(about['label'])} "
            f"--positive {quote(about['positive'])} --sensitive {quote(about['sensitive'])} "
            + "".join(f"--drop {name} " for name in TRUTHS if name in about["columns"])
            + "-o model.fairpc"
        )
    return "\n".join(lines)


def _list(screen: Screen) -> None:
    if screen.json:
        known = DATASETS.items()
        print_json([{"name": name, "about": a, "versions": list(v)} for name, (a, v) in known])
        return
    lines = [(name, about, ", ".join(v) or "-") for name, (about, v) in DATASETS.items()]
    grid(("name", "what it is", "versions"), lines, right=False)
    say("Write one with: fairpc data NAME -o FILE")
