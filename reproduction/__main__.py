"""``python -m reproduction NAME``: the paper's tables and figures, printed and in a folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.text import Text

from fairpc.cli._screen import complain, console, grid
from fairpc.core import counted
from fairpc.errors import FairpcError
from reproduction.exhibit import Exhibit, as_json, write
from reproduction.figures import check_extra
from reproduction.page import EXHIBITS, write_page
from reproduction.runs import Runner, Study, default_folder
from reproduction.sources import Sources

TABLES_ONLY: Final = ("real-world", "circuits", "protocol", "tests", "selection")
ALL: Final = "all"
DEFAULT_OUT: Final = Path("fairpc-paper")
BAD_INPUT: Final = 2


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder: give one")
    return Path(text)


def options(words: Sequence[str] | None) -> argparse.Namespace:
    """What was asked for on the command line."""
    parser = argparse.ArgumentParser(
        "python -m reproduction",
        description="Run the paper's experiments. Tables go to the terminal, files into a folder.",
    )
    every = (*EXHIBITS, ALL)
    parser.add_argument("name", choices=every, metavar="NAME", help=", ".join(every))
    for option, kind, text in (
        ("--data-dir", _folder, "the authors' folder (processed/, …); else our loaders"),
        ("--splits", _folder, "the authors' folds, a folder per table; else our own"),
        ("--cache", Path, "folder in which finished runs are kept"),
        ("--output", Path, f"folder for the files; {DEFAULT_OUT} unless --json"),
    ):
        names = (option, "-o") if option == "--output" else (option,)
        parser.add_argument(*names, type=kind, metavar="DIR", help=text)
    parser.add_argument("--quick", action="store_true", help="2 folds instead of 10")
    parser.add_argument("--json", action="store_true", help="print one JSON value, nothing else")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    """Make one exhibit, or all of them and the page that compares them with the paper."""
    try:
        run(options(words))
    except FairpcError as error:
        complain(str(error))
        raise SystemExit(BAD_INPUT) from None


def run(given: argparse.Namespace) -> None:
    # With --json alone nothing is written: the array is the result.
    folder = given.output or (None if given.json else DEFAULT_OUT)
    whole = given.name == ALL
    if folder is not None and given.name not in TABLES_ONLY:
        check_extra()
    runner = Runner(given.cache or default_folder(), progress=sys.stderr.isatty())
    study = Study(Sources(given.data_dir, given.splits, given.quick), runner)
    exhibits = []
    for name in EXHIBITS if whole else [given.name]:
        exhibits.append(EXHIBITS[name](study))
        if not given.json:
            show(exhibits[-1])
    written: list[Path] = []
    if folder is not None:
        written = write_page(exhibits, study, folder) if whole else write(exhibits[0], folder)
    if given.json:
        # One array: of the numbers or, of all exhibits, of them.
        every = [{"exhibit": e.name, "records": list(e.records)} for e in exhibits]
        sys.stdout.write(as_json(every if whole else exhibits[0].records) + "\n")
    elif written:
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


if __name__ == "__main__":
    main()
