"""The command ``fairpc``. Each command imports what it needs when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fairpc.errors import FairpcError

BAD_INPUT = 2

app = typer.Typer(
    name="fairpc",
    help="Exact probabilistic circuits, and decisions learned from biased labels.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from fairpc import __version__

        typer.echo(f"fairpc {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options that hold for every command; ``main`` takes care of ``--debug``."""


@app.command("demo")
def _demo(
    rows: Annotated[
        int, typer.Option(min=100, max=10_000_000, help="Rows to sample for EM.")
    ] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the circuit engine on the circuit of the paper's Figure 2."""
    from fairpc.cli.demo import run

    run(rows=rows, seed=seed, as_json=json)


@app.command("paper")
def _paper(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="real-world, tests, bars, trade-off, curves, synthetic, init, missing, guarantee, "
            "recipe, or all",
        ),
    ],
    data_dir: Annotated[
        Path | None,
        typer.Option(help="The authors' folder (processed/, synthetic/); else our loaders."),
    ] = None,
    splits: Annotated[
        Path | None, typer.Option(help="The authors' folds, a folder per table; else our own.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="2 folds instead of 10.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files; fairpc-paper unless --json.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder in which finished runs are kept.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but JSON.")] = False,
) -> None:
    """Run the paper's experiments: tables on the terminal, files into a folder."""
    from fairpc.cli.paper import run

    run(
        name, data_dir=data_dir, splits=splits, quick=quick, out=out, cache=cache,
        as_json_array=json, quiet=quiet,
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: a FairpcError is one sentence on stderr and exit code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # --debug is taken out here so that it may stand anywhere on the line.
    rest = [word for word in given if word != "--debug"]
    try:
        app(args=rest, prog_name="fairpc")
    except FairpcError as error:
        if len(rest) < len(given):
            raise
        print(f"fairpc: {error}", file=sys.stderr)  # noqa: T201
        raise SystemExit(BAD_INPUT) from None
