"""``fairpc paper NAME``: the paper's tables and figures, on the terminal and in a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from rich.text import Text

from fairpc.cli.screen import Screen, console, grid
from fairpc.errors import FairpcError, FileFormatError, counted
from fairpc.paper.exhibit import Exhibit, as_json, write
from fairpc.paper.figures import check_extra
from fairpc.paper.reproduction import EXHIBITS, write_page
from fairpc.paper.runs import Runner, Study, default_folder
from fairpc.paper.sources import Sources

TABLES_ONLY: Final = ("real-world", "circuits", "protocol", "tests", "recipe")
ALL: Final = "all"
DEFAULT_OUT: Final = Path("fairpc-paper")


def run(
    name: str,
    data_dir: Path | None,
    splits: Path | None,
    quick: bool,
    output: Path | None,
    cache: Path | None,
    screen: Screen,
) -> None:
    """Make one exhibit, or all of them and the page that compares them with the paper."""
    if name not in (*EXHIBITS, ALL):
        raise FairpcError(f"there is no {name!r} in the paper: choose {', '.join(EXHIBITS)} or all")
    for option, folder in (("--data-dir", data_dir), ("--splits", splits)):
        if folder is not None and not folder.is_dir():
            raise FileFormatError(f"{folder}, given with {option}, is no folder: give one")
    # With --json alone nothing is written: the array is the result.
    folder = output or (None if screen.json else DEFAULT_OUT)
    if folder is not None and name not in TABLES_ONLY:
        check_extra()
    runner = Runner(cache or default_folder(), progress=screen.on_terminal)
    study = Study(Sources(data_dir, splits, quick), runner)
    exhibits = []
    for each in EXHIBITS if name == ALL else [name]:
        exhibits.append(EXHIBITS[each](study))
        if screen.talks:
            show(exhibits[-1])
    written: list[Path] = []
    if folder is not None:
        whole = name == ALL
        written = write_page(exhibits, study, folder) if whole else write(exhibits[0], folder)
    if screen.json:
        # One array: of the numbers or, of all exhibits, of them.
        every = [{"exhibit": e.name, "records": list(e.records)} for e in exhibits]
        sys.stdout.write(as_json(every if name == ALL else exhibits[0].records) + "\n")
    elif written and screen.talks:
        folders = sorted({str(p.parent) for p in written})
        number = counted(len(written), "file was", "files were")
        console().print(Text(f"{number} written into {', '.join(folders)}"))


def show(exhibit: Exhibit) -> None:
    """Print an exhibit."""
    out = console()
    out.print(Text(exhibit.title, style="bold"))
    out.print()
    for shown in exhibit.grids:
        if shown.title:
            out.print(Text(shown.title))
        grid(shown.head, [[_cell(text) for text in line] for line in shown.lines])
    for note in exhibit.notes:
        out.print(Text(note))
    if exhibit.claims:
        out.print(Text("\nWhat the paper says:"))
    for claim in exhibit.claims:
        verdict = "confirmed" if claim.holds else "not confirmed"
        out.print(Text.assemble("  ", (verdict, "bold"), f": {claim.statement}"))
        out.print(Text(f"      {claim.evidence}"))
    out.print()


def _cell(text: str) -> Text:
    """A cell; what stands between two pairs of stars is bold."""
    shown = Text()
    for i, part in enumerate(text.split("**")):
        shown.append(part, style="bold" if i % 2 else "")
    return shown
