"""``fairpc paper NAME``: the paper's tables and figures, on the terminal and in a folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairpc.cli.screen import console
from fairpc.data.plural import counted
from fairpc.errors import FairpcError, FileFormatError
from fairpc.paper.exhibit import Exhibit, Grid, as_json, write
from fairpc.paper.figures import check_extra
from fairpc.paper.reproduction import EXHIBITS, write_page
from fairpc.paper.runs import Runner, Study, default_folder
from fairpc.paper.sources import Sources

TABLES_ONLY: Final = ("real-world", "tests", "recipe")
ALL: Final = "all"
DEFAULT_OUT: Final = Path("fairpc-paper")


def run(
    name: str,
    *,
    data_dir: Path | None,
    splits: Path | None,
    quick: bool,
    out: Path | None,
    cache: Path | None,
    as_json_array: bool,
    quiet: bool,
) -> None:
    """Make one exhibit, or all of them and the page that compares them with the paper."""
    if name not in (*EXHIBITS, ALL):
        raise FairpcError(f"there is no {name!r} in the paper: choose {', '.join(EXHIBITS)} or all")
    for option, folder in (("--data-dir", data_dir), ("--splits", splits)):
        if folder is not None and not folder.is_dir():
            raise FileFormatError(f"{folder}, given with {option}, is no folder: give one")
    # With --json alone nothing is written: the array is the result.
    folder = out or (None if as_json_array else DEFAULT_OUT)
    if folder is not None and name not in TABLES_ONLY:
        check_extra()
    bar = not quiet and sys.stderr.isatty()
    runner = Runner(cache or default_folder(), progress=bar)
    study = Study(Sources(data_dir, splits, quick), runner)
    if name == ALL:
        _run_all(study, folder, as_json_array, quiet)
        return
    exhibit = EXHIBITS[name](study)
    written = [] if folder is None else write(exhibit, folder)
    if as_json_array:
        sys.stdout.write(as_json(exhibit.records) + "\n")
    elif not quiet:
        screen = console()
        show(exhibit, screen)
        _say_written(written, screen)


def _run_all(study: Study, folder: Path | None, as_json_array: bool, quiet: bool) -> None:
    """Every exhibit, and the page; with --json one array of exhibits."""
    screen = console()
    exhibits = []
    for make in EXHIBITS.values():
        exhibit = make(study)
        exhibits.append(exhibit)
        if not (as_json_array or quiet):
            show(exhibit, screen)
    written = [] if folder is None else write_page(exhibits, study, folder)
    if as_json_array:
        records = [{"exhibit": e.name, "records": list(e.records)} for e in exhibits]
        sys.stdout.write(as_json(records) + "\n")
    elif not quiet:
        _say_written(written, screen)


def show(exhibit: Exhibit, out: Console) -> None:
    """Print an exhibit."""
    out.print(Text(exhibit.title, style="bold"))
    out.print()
    for grid in exhibit.grids:
        _show_grid(grid, out)
    for note in exhibit.notes:
        out.print(Text(note))
    if exhibit.claims:
        out.print(Text("\nWhat the paper says:"))
    for claim in exhibit.claims:
        verdict = "confirmed" if claim.holds else "not confirmed"
        out.print(Text.assemble("  ", (verdict, "bold"), f": {claim.statement}"))
        out.print(Text(f"      {claim.evidence}"))
    out.print()


def _show_grid(grid: Grid, out: Console) -> None:
    if grid.title:
        out.print(Text(grid.title))
    shown = Table(*grid.head, box=box.SIMPLE_HEAD if out.is_terminal else None, pad_edge=False)
    for column in shown.columns[1:]:
        column.justify = "right"
    for line in grid.lines:
        shown.add_row(*(_cell(text) for text in line))
    out.print(shown)
    out.print()


def _cell(text: str) -> Text:
    """A cell; what stands between two pairs of stars is bold."""
    shown = Text()
    for i, part in enumerate(text.split("**")):
        shown.append(part, style="bold" if i % 2 else "")
    return shown


def _say_written(paths: list[Path], out: Console) -> None:
    if paths:
        folders = sorted({str(p.parent) for p in paths})
        number = counted(len(paths), "file was", "files were")
        out.print(Text(f"{number} written into {', '.join(folders)}"))
