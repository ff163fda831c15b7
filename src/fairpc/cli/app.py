"""The commands and their options. Each imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairpc.cli import options as opt

if TYPE_CHECKING:
    from fairpc.cli.fit import Learner
    from fairpc.cli.screen import Voice
    from fairpc.cli.tables import Reading, Roles

EXIT_CODES = (
    "Exit codes: 0 done, 1 the gap of audit --fail-over was exceeded, 2 bad input, "
    "130 interrupted (Ctrl-C), 143 ended (SIGTERM)."
)

app = typer.Typer(
    name="fairpc",
    help="Decisions learned from biased labels: fit a table, score it, audit it, ask it.\n\n"
    "Start with: fairpc demo",
    epilog=EXIT_CODES,
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
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; with any command.")
    ] = False,
) -> None:
    """Options that hold for every command; ``main`` takes care of ``--debug``."""


def _voice(json: bool, quiet: bool) -> Voice:
    from fairpc.cli.screen import Voice, hear

    voice = Voice(json, quiet)
    hear(voice)
    return voice


def _reading(delimiter: str | None, encoding: str | None) -> Reading:
    from fairpc.cli.tables import Reading

    # In most shells a tab is hard to type.
    return Reading("\t" if delimiter in ("\\t", "tab") else delimiter, encoding)


def _roles(
    label: list[str],
    sensitive: list[str],
    positive: str | None,
    numeric: list[str] | None,
    categorical: list[str] | None,
    drop: list[str] | None,
    missing: list[str] | None,
) -> Roles:
    from fairpc.cli.tables import Roles
    from fairpc.errors import OptionError

    if len(label) > 1:
        raise OptionError(f"--label is given {len(label)} times: there is one label, give it once")
    return Roles(
        label[0], tuple(sensitive), positive, tuple(numeric or ()), tuple(categorical or ()),
        tuple(drop or ()), tuple(missing or ()),
    )  # fmt: skip


def _learner(model: str, structure: str, components: int | None, bins: int, seed: int) -> Learner:
    from fairpc.cli.fit import Learner

    return Learner(model, structure, components, bins, seed)


@app.command("demo")
def _demo(
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where the report goes.")
    ] = "fairpc-demo.html",
    circuit: Annotated[
        bool, typer.Option("--circuit", help="Show the circuit engine on the paper's Figure 2.")
    ] = False,
    rows: Annotated[
        int,
        typer.Option(
            min=100, max=10_000_000, metavar="N", help="Rows that --circuit samples for EM."
        ),
    ] = 100_000,
    seed: opt.Seed = 0,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Fit, compare and audit census data; write a report.

    The data, UCI Adult, come with the package.
    """
    if circuit:
        from fairpc.cli.figure_two import run as run_circuit

        run_circuit(rows=rows, seed=seed, as_json=json)
    else:
        from fairpc.cli.demo import run

        run(output, seed=seed, voice=_voice(json, quiet))


@app.command("fit")
def _fit(
    table: opt.Table,
    label: opt.Label,
    sensitive: opt.Sensitive,
    output: opt.Output,
    positive: opt.Positive = None,
    numeric: opt.Numeric = None,
    categorical: opt.Categorical = None,
    drop: opt.Drop = None,
    missing: opt.Missing = None,
    model: opt.Model = "FairPC",
    structure: opt.Structure = "auto",
    components: opt.Components = None,
    bins: opt.Bins = 8,
    seed: opt.Seed = 0,
    delimiter: opt.Delimiter = None,
    encoding: opt.Encoding = None,
    checkpoint: opt.CheckpointFolder = None,
    max_memory: opt.MaxMemory = None,
    engine: opt.EngineName = "local",
    scheduler: opt.Scheduler = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Learn a model from a table of past decisions.

    A line per column says how it was read, and sentences say what was learned.

    Example: fairpc fit loans.csv --label repaid --sensitive sex -o loans.fairpc
    """
    from fairpc.cli.engine import Engine
    from fairpc.cli.fit import Keeping, run

    run(
        table, output,
        roles=_roles(label, sensitive, positive, numeric, categorical, drop, missing),
        reading=_reading(delimiter, encoding),
        learner=_learner(model, structure, components, bins, seed),
        voice=_voice(json, quiet), keeping=Keeping(checkpoint, max_memory),
        engine=Engine(engine, scheduler),
    )  # fmt: skip


@app.command("predict")
def _predict(
    model: opt.ModelFile,
    table: opt.Table,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            show_default=False,
            help="The table with the scores: .csv, .tsv, .parquet, .feather; - for stdout.",
        ),
    ],
    decide: Annotated[
        bool, typer.Option("--decide", help="Append the column 'decision', too.")
    ] = False,
    delimiter: opt.Delimiter = None,
    encoding: opt.Encoding = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Append P(Df = class) to every row of a table.

    The columns are called p_df_<class>. The table is streamed: it may be larger than memory.
    The output appears whole or not at all. Empty cells are summed out, exactly. Of models
    without Df it is P(D = class).

    Example: fairpc predict loans.fairpc new.parquet -o scored.parquet
    """  # fmt: skip
    from fairpc.cli.predict import run

    run(
        model, table, output, decide=decide, reading=_reading(delimiter, encoding),
        voice=_voice(json, quiet),
    )  # fmt: skip


@app.command("audit")
def _audit(
    model: opt.ModelFile,
    table: opt.Table,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="The report, one HTML file."),
    ] = None,
    fail_over: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="GAP",
            help="End with exit code 1 if the upper bound of the gap between groups is larger.",
        ),
    ] = None,
    gap: Annotated[
        str,
        typer.Option(
            metavar="WHICH", help="What --fail-over looks at: scores, decisions, or either."
        ),
    ] = "either",
    label: Annotated[
        str | None,
        typer.Option(metavar="COL", help="The label, if it is not named as it was at fit."),
    ] = None,
    trade_off: Annotated[
        bool | None,
        typer.Option(
            "--trade-off/--no-trade-off",
            show_default=False,
            help="Fit other methods for the report, too, which takes longest; default with -o.",
        ),
    ] = None,
    seed: opt.Seed = 0,
    max_memory: opt.MaxMemory = None,
    delimiter: opt.Delimiter = None,
    encoding: opt.Encoding = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Test a model and its assumptions on a table; write the report.

    Example: fairpc audit loans.fairpc new.csv -o report.html

    In CI: fairpc audit loans.fairpc new.csv --fail-over 0.05
    """
    from fairpc.cli.audit import run

    over = run(
        model, table, output, fail_over=fail_over, gap=gap, label=label,
        trade_off=trade_off, seed=seed, max_memory=max_memory,
        reading=_reading(delimiter, encoding), voice=_voice(json, quiet),
    )  # fmt: skip
    if over:
        raise typer.Exit(1)


@app.command("query")
def _query(
    model: opt.ModelFile,
    text: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            show_default=False,
            help="'Df=good | age=37, sex=?': what is asked, a bar, what is known.",
        ),
    ],
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Ask a model for an exact probability.

    Df is the decision, D the observed label, S the group; other names are columns. A name
    without a value asks for all its values. Numbers fall into their bins; < <= > >= work at the
    edges of bins. '?' means not known. Put values with commas or bars into quotes.

    Examples: "Df=good | sex=female", "Df | age=37, job=?", "D, Df | S=male"
    """
    from fairpc.cli.query import run

    run(model, text, voice=_voice(json, quiet))


@app.command("compare")
def _compare(
    table: opt.Table,
    label: opt.Label,
    sensitive: opt.Sensitive,
    cv: Annotated[
        int, typer.Option(min=2, max=100, metavar="N", help="Folds of the cross-validation.")
    ] = 10,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            metavar="NAME",
            help="FairPC, NLatPC, LatNB, TwoNB, LR, FairLR, Reweight, Reduction, Rand; may be "
            "repeated. Default: FairPC, TwoNB, LR, FairLR, Reweight.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="The numbers as a table file."),
    ] = None,
    positive: opt.Positive = None,
    numeric: opt.Numeric = None,
    categorical: opt.Categorical = None,
    drop: opt.Drop = None,
    missing: opt.Missing = None,
    structure: opt.Structure = "auto",
    bins: opt.Bins = 8,
    seed: opt.Seed = 0,
    delimiter: opt.Delimiter = None,
    encoding: opt.Encoding = None,
    engine: opt.EngineName = "local",
    scheduler: opt.Scheduler = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Compare models with other methods by cross-validation.

    Example: fairpc compare loans.csv --label repaid --sensitive sex --cv 5
    """
    from fairpc.cli.compare import run
    from fairpc.cli.engine import Engine

    run(
        table, cv=cv, methods=tuple(methods or ()), output=output,
        roles=_roles(label, sensitive, positive, numeric, categorical, drop, missing),
        reading=_reading(delimiter, encoding),
        learner=_learner("FairPC", structure, None, bins, seed),
        voice=_voice(json, quiet), engine=Engine(engine, scheduler),
    )  # fmt: skip


@app.command("data")
def _data(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="adult, german, compas, synthetic; none lists them."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The table: .csv, .tsv, .parquet, .feather; - for stdout.",
        ),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="NAME", help="raw or paper; compas: two-year, too."),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, max=100_000_000, metavar="N", help="Rows to draw, for synthetic."),
    ] = None,
    seed: opt.Seed = 0,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Write a data set that comes with the package to a table file.

    Example: fairpc data german -o german.csv
    """
    from fairpc.cli.data import run

    run(name, output, version=version, rows=rows, seed=seed, voice=_voice(json, quiet))


@app.command("paper")
def _paper(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help="real-world, tests, bars, trade-off, curves, synthetic, init, missing, guarantee, "
            "recipe, or all",
        ),
    ],
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The authors' folder (processed/, synthetic/); else our loaders."
        ),
    ] = None,
    splits: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The authors' folds, a folder per table; else our own."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="2 folds instead of 10.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the files; fairpc-paper unless --json."),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder in which finished runs are kept.")
    ] = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Run the paper's experiments.

    Tables go to the terminal, files into a folder.
    """
    from fairpc.cli.paper import run

    run(
        name, data_dir=data_dir, splits=splits, quick=quick, out=out, cache=cache,
        as_json_array=json, quiet=quiet,
    )  # fmt: skip
