"""The command ``fairpc``: options and help of its commands, whose modules are imported to run them.

What goes wrong is one sentence on stderr and an exit code.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Final, NoReturn

import typer

from fairpc.cli import _options as opt
from fairpc.cli._screen import Screen, complain
from fairpc.core import FairpcError, ending_on_signals

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
STOPPED: Final = (INTERRUPTED, 143, 129)
"""Codes of Ctrl-C, SIGTERM and SIGHUP."""

# polars reads ahead, several groups of rows per core: of a file with groups of a million rows
# that is more memory than all the rest. It looks at this when it first opens a file.
POLARS: Final = {
    "POLARS_ROW_GROUP_PREFETCH_SIZE": "1",
    "POLARS_RECORD_BATCH_PREFETCH_SIZE": "1",
}

app = typer.Typer(
    name="fairpc",
    help="Learn decisions from biased labels: fit a table, score it, audit it, query it.\n\n"
    "Start with: fairpc demo",
    epilog="Exit codes: 0 done, 1 audit --fail-over failed, 2 bad input, "
    "130 interrupted (Ctrl-C), 143 ended (SIGTERM), 129 (SIGHUP).",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    Exit codes: 0 done; 1 ``audit --fail-over`` failed; 2 bad input;
    130 interrupted; 143 ended by SIGTERM, 129 by SIGHUP, both with the same cleaning up.
    ``--debug`` may stand anywhere and shows the traceback instead of a sentence.
    """
    for name, value in POLARS.items():
        os.environ.setdefault(name, value)
    try:
        _run(list(sys.argv[1:] if arguments is None else arguments), last=arguments is None)
    except SystemExit as ended:
        if arguments is None and ended.code in STOPPED:
            # All is cleaned up, and threads would be waited for until their work is done.
            with suppress(OSError):
                sys.stdout.flush()
            os._exit(ended.code)
        raise


def _run(given: list[str], *, last: bool) -> NoReturn:
    """Run a command, and end with its code; ``last`` if the program then ends."""
    rest = [word for word in given if word != "--debug"]
    if rest[:1] == ["paper"]:
        complain("the paper's experiments left fairpc: run `python -m reproduction` in a checkout")
        raise SystemExit(BAD_INPUT)
    try:
        with ending_on_signals(last=last), warnings.catch_warnings():
            warnings.showwarning = _note
            code = app(args=rest, prog_name="fairpc", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _stop_writing()
    except SystemExit as ended:
        # Typer ends with code 1, which is that of a gap, where it meets a broken pipe first.
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        _stop_writing()
    except BaseException as error:
        # A panic of polars is no Exception, and code 1 is that of a gap.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if len(rest) < len(given):
            traceback.print_exception(error)
        elif not rest:
            print(error, file=sys.stderr)  # noqa: T201 - the help, for a call without words
        else:
            complain(_sentence(error))
        raise SystemExit(BAD_INPUT) from None
    if code == INTERRUPTED:  # typer turns Ctrl-C into this code
        complain("interrupted")
    raise SystemExit(code if isinstance(code, int) else 0)


def _stop_writing() -> NoReturn:
    """Whoever reads our output has seen enough; what is buffered has nowhere to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(0) from None


def _note(message: Warning | str, *_: object, **__: object) -> None:
    """A warning of a library, in one line and without its place in the code."""
    complain("note: " + " ".join(str(message).split()))


def _sentence(error: BaseException) -> str:
    """What went wrong, for a reader who writes no Python."""
    if isinstance(error, typer.TyperException):
        text, context = error.format_message(), getattr(error, "ctx", None)
        if "\n" in text or context is None:
            return text
        return f"{text.rstrip('.')}: see {context.command_path} --help"
    if isinstance(error, FairpcError):
        return str(error)
    if isinstance(error, OSError):
        reason = (error.strerror or str(error)).removesuffix(".")
        return f"{error.filename}: {reason}" if error.filename else reason
    if isinstance(error, MemoryError):
        return "there is not enough memory: give fewer rows or columns, or fewer --bins"
    return (
        f"an error that should not happen ({type(error).__name__}: {error}): please report it "
        "with what --debug shows"
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


def _command(name: str, runs: str) -> Callable[[Callable[..., None]], None]:
    """Declare a command by the signature of a function; ``runs`` is "module.function" of it."""

    def register(signature: Callable[..., None]) -> None:
        app.command(name)(opt.declared(signature, *runs.split(".")))

    return register


@_command("demo", "demo.run")
def _demo(
    output: Annotated[str, opt.output("The report file to write.")] = "fairpc-demo.html",
    seed: opt.Seed = 0,
    *,
    screen: Screen,
) -> None:
    """Fit, compare and audit census data; write a report.

    The data, UCI Adult, come with the package.
    """


@_command("fit", "fit.run")
def _fit(
    table: opt.Table,
    roles: opt.Roles,
    output: Annotated[str, opt.output("The model file to write.")],
    learner: opt.Learner,
    text: opt.TextFormat,
    keeping: opt.Keeping,
    engine: opt.Engine,
    screen: Screen,
) -> None:
    """Learn a model from a table of past decisions.

    A line per column says how it was read, and sentences say what was learned.

    Example: fairpc fit loans.csv --label approved --sensitive sex -o loans.fairpc
    """


@_command("predict", "predict.run")
def _predict(
    model_file: opt.ModelFile,
    table: opt.Table,
    output: Annotated[
        str, opt.output("The table with the scores: .csv, .tsv, .parquet, .feather; - for stdout.")
    ],
    bounds: Annotated[
        bool,
        opt.option(
            None,
            "Append p_df_lower and p_df_upper, too: the P(Df = positive class) that the labels "
            "leave possible.",
            "--bounds",
        ),
    ] = False,
    decide: Annotated[
        bool, opt.option(None, "Append the column 'decision', too.", "--decide")
    ] = False,
    decide_as: Annotated[
        str | None, opt.option("COL", "As --decide, with another name for the column.")
    ] = None,
    safe_csv: Annotated[
        bool,
        opt.option(
            None,
            "Write ' before text that begins with = + - @, a tab or a carriage return, which a "
            "spreadsheet would take for a formula.",
            "--safe-csv",
        ),
    ] = False,
    allow_unseen: opt.AllowUnseen = None,
    *,
    text: opt.TextFormat,
    screen: Screen,
) -> None:
    """Append P(Df = class) to every row of a table.

    The columns are called p_df_<class>. The table is streamed: it may be larger than memory.
    The output appears whole or not at all. Empty cells are summed out, exactly; a model of
    --model latent takes them as its classifier does. Of models without Df it is P(D = class).

    Example: fairpc predict loans.fairpc new.parquet -o scored.parquet
    """


@_command("audit", "audit.run")
def _audit(
    model_file: opt.ModelFile,
    table: opt.Table,
    output: Annotated[str | None, opt.output("The report, one HTML file.")] = None,
    *,
    limit: opt.Limit,
    label: Annotated[
        str | None, opt.option("COL", "The label column, if it has another name than at fit.")
    ] = None,
    trade_off: Annotated[
        bool | None,
        opt.option(
            None,
            "Also fit other methods for the report (slow); default with -o.",
            "--trade-off/--no-trade-off",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None,
        opt.option(
            "COL",
            "Also give the gaps between groups within each level of a column, such as a branch.",
        ),
    ] = None,
    weight: opt.Weight = None,
    allow_unseen: opt.AllowUnseen = None,
    seed: opt.Seed = 0,
    max_memory: opt.MaxMemory = None,
    text: opt.TextFormat,
    screen: Screen,
) -> None:
    """Test a model and its assumptions on a table; write the report.

    The table is read as the fit was told to read its own, and its weights are used.

    Example: fairpc audit loans.fairpc new.csv -o report.html

    In CI: fairpc audit loans.fairpc new.csv --fail-over 0.05
    """


@_command("query", "predict.ask")
def _query(
    model_file: opt.ModelFile,
    question: Annotated[
        str,
        opt.argument("QUERY", "'Df=good | age=37, sex=?': what you ask, a bar, what you know."),
    ],
    screen: Screen,
) -> None:
    """Ask a model for an exact probability.

    Df is the decision, D the observed label, S the group; other names are columns. A name
    without a value asks for all its values. Numbers fall into their bins; < <= > >= work at the
    edges of bins. '?' means not known. Put values with commas or bars into quotes.

    Examples: "Df=good | sex=female", "Df | age=37, job=?", "D, Df | S=male"
    """


@_command("explain", "file.explain")
def _explain(
    model_file: opt.ModelFile,
    person: Annotated[
        str | None,
        opt.argument("PERSON", "'age=37, job=clerk, sex=F': what is known of one person."),
    ] = None,
    table: Annotated[
        str | None, opt.option("TABLE", "A table to take the person from, with --row.")
    ] = None,
    row: Annotated[
        int | None, opt.option("N", "Which row of --table, counted from 1.", min=1)
    ] = None,
    answers: opt.AnswersFile = None,
    output: Annotated[
        str | None, opt.output("A statement of reasons: .html or .md; - for Markdown on stdout.")
    ] = None,
    *,
    text: opt.TextFormat,
    screen: Screen,
) -> None:
    """Say what moved the score of one person, value by value.

    Each change is exact: the score, minus the score when this one value is not known.

    Example: fairpc explain loans.fairpc "age=37, amount=4000" -o reasons.html
    """


@_command("file", "file.run")
def _file(
    paper: Annotated[
        str,
        opt.argument(
            "PAPER",
            "card, a model card; ll144, New York City's tables; annex-iv, sections of the EU AI "
            "Act; or answers, an empty form for what people have to state.",
        ),
    ],
    audit_file: Annotated[
        str | None, opt.argument("AUDIT", "What `fairpc audit --json` printed; - for stdin.")
    ] = None,
    answers: opt.AnswersFile = None,
    output: Annotated[
        str | None, opt.output("The paper: .html or .md; Markdown on stdout by default.")
    ] = None,
    *,
    screen: Screen,
) -> None:
    """Write a paper that people must file, from an audit.

    What the tool cannot know is marked as to be filled in, or comes from --answers.

    Example: fairpc audit loans.fairpc new.csv --json > audit.json

    fairpc file card audit.json --answers answers.toml -o card.html
    """


@_command("export", "export.run")
def _export(
    model_file: opt.ModelFile,
    output: Annotated[str, opt.output("The file to write: .onnx, .sql or .py.")],
    table: Annotated[
        str | None,
        opt.option("NAME", "What a query calls the table; default: applicants.", "--table"),
    ] = None,
    *,
    screen: Screen,
) -> None:
    """Write a model as a file that scores rows without fairpc.

    .onnx is a graph for ONNX Runtime, .sql one SELECT for SQLite and DuckDB, .py one file of
    Python without dependencies. Columns are given as they are in the table, and what is missing
    is summed out, exactly.

    Example: fairpc export loans.fairpc -o loans.onnx
    """


@_command("compare", "compare.run")
def _compare(
    table: opt.Table,
    cv: Annotated[int, opt.option("N", "Folds of the cross-validation.", min=2, max=100)] = 10,
    methods: Annotated[
        list[str] | None,
        opt.option(
            "NAME",
            "FairPC, NLatPC, LatNB, TwoNB, LatentDecision, LR, FairLR, Reweight, Reduction, Rand; "
            "may be repeated. Default: FairPC, TwoNB, LR, FairLR, Reweight.",
            "--method",
        ),
    ] = None,
    output: Annotated[str | None, opt.output("The numbers as a table file.")] = None,
    *,
    roles: opt.Roles,
    structure: opt.Structure = "auto",
    bins: opt.Bins = None,
    seed: opt.Seed = 0,
    text: opt.TextFormat,
    engine: opt.Engine,
    screen: Screen,
) -> None:
    """Compare models with other methods by cross-validation.

    Example: fairpc compare loans.csv --label approved --sensitive sex --cv 5
    """


@_command("data", "data.run")
def _data(
    name: Annotated[
        str | None, opt.argument("NAME", "adult, german, compas, synthetic; no name: list them.")
    ] = None,
    output: Annotated[
        str | None, opt.output("The table: .csv, .tsv, .parquet, .feather; - for stdout.")
    ] = None,
    version: Annotated[
        str | None, opt.option("NAME", "raw or paper; compas: two-year, too.")
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
