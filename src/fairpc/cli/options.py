"""Options that several commands share, so that they are spelled and explained once."""

from __future__ import annotations

from typing import Annotated

import typer

_TABLE = "CSV, TSV, Parquet or Feather file; a folder or pattern of such; or - for stdin."

Table = Annotated[str, typer.Argument(metavar="TABLE", help=_TABLE, show_default=False)]
ModelFile = Annotated[
    str, typer.Argument(metavar="MODEL", help="A file that fit wrote.", show_default=False)
]
Label = Annotated[
    list[str],
    typer.Option(
        "--label", metavar="COL", help="The decision that was observed.", show_default=False
    ),
]
Sensitive = Annotated[
    list[str],
    typer.Option(
        "--sensitive", metavar="COL", show_default=False,
        help="The sensitive attribute; may be repeated, several are crossed into groups.",
    ),
]  # fmt: skip
Positive = Annotated[
    str | None,
    typer.Option(
        "--positive", metavar="CLASS", help="The favourable class; else the last in order."
    ),
]
Numeric = Annotated[
    list[str] | None,
    typer.Option("--numeric", metavar="COL", help="A column that holds numbers; may be repeated."),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        "--categorical", metavar="COL",
        help="A column whose values are names, also if they are numbers; may be repeated.",
    ),
]  # fmt: skip
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="COL", help="A column to leave out; may be repeated."),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--missing", metavar="TEXT",
        help="A value that means that nothing is known, such as '?'; may be repeated; empty cells "
        "always do.",
    ),
]  # fmt: skip
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter", metavar="CHAR", help="What separates values, or tab; else it is guessed."
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", metavar="NAME", help="Of a text file that is not UTF-8: cp1252, …"),
]
Model = Annotated[
    str, typer.Option("--model", metavar="NAME", help="FairPC, NLatPC, LatNB or TwoNB.")
]
Structure = Annotated[
    str,
    typer.Option(
        "--structure", metavar="NAME",
        help="auto chooses on held-out rows; strudel is the paper's; chow-liu is one tree.",
    ),
]  # fmt: skip
Components = Annotated[
    int | None,
    typer.Option(
        min=1, max=64, metavar="N", help="Circuits mixed in each P(x | Df, S); auto chooses."
    ),
]
Bins = Annotated[
    int, typer.Option(min=2, max=1000, metavar="N", help="Bins of a numeric column, about.")
]
Seed = Annotated[
    int, typer.Option(min=0, max=2**32 - 1, metavar="N", help="Seed of what is random.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")]
Output = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FILE", help="The model file to write.", show_default=False
    ),
]
CheckpointFolder = Annotated[
    str | None,
    typer.Option(
        "--checkpoint", metavar="DIR",
        help="A folder that keeps the fit: stopped, it goes on from there when called again.",
    ),
]  # fmt: skip
MaxMemory = Annotated[
    str | None,
    typer.Option(
        "--max-memory", metavar="SIZE",
        help="Bytes, or text like 4GB: of rows that take more, fit keeps the rest on disk, and "
        "audit takes a sample.",
    ),
]  # fmt: skip
EngineName = Annotated[
    str,
    typer.Option(
        "--engine", metavar="NAME",
        help="local, or dask: workers read the table and do the work, here or on a cluster.",
    ),
]  # fmt: skip
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler", metavar="ADDRESS",
        help="Of a Dask scheduler, such as tcp://10.0.0.1:8786; processes on this machine without.",
    ),
]  # fmt: skip
