"""Options of the commands, each declared once: its name, type, bounds, default and help.

Options that go together are a record. ``declared`` lets a command take such a record where Typer
knows single options only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from inspect import Parameter, Signature, signature
from math import isfinite
from typing import Annotated, Any, Final, Literal, get_type_hints

import typer

from fairpc.cli._screen import log_to
from fairpc.core import OptionError


def argument(metavar: str, text: str) -> Any:
    """What a command is given by position."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


def option(metavar: str | None, text: str, *names: str, **more: Any) -> Any:
    """What a command is given by name; flags have no ``metavar``."""
    return typer.Option(*names, metavar=metavar, help=text, **more)


def output(text: str) -> Any:
    """Where a command writes."""
    return option("FILE", text, "--output", "-o")


Table = Annotated[
    str,
    argument(
        "TABLE",
        "CSV, TSV, Parquet or Feather file; a folder or pattern of such; a sheet of a workbook "
        "(book.xlsx::Loans); or - for stdin.",
    ),
]
ModelFile = Annotated[str, argument("MODEL", "A file that fit wrote.")]
AnswersFile = Annotated[
    str | None,
    option("FILE", "What people have to state, in TOML; `fairpc file answers` writes the form."),
]
ReviewedFiles = Annotated[
    list[str] | None,
    option("FILE", "Rows that `fairpc review` drew, with answers; may be repeated, one per batch."),
]
Structure = Annotated[
    str,
    option(
        "NAME",
        "auto chooses on held-out rows; forest holds Df to the label; strudel is the paper's; "
        "chow-liu is one tree.",
    ),
]
Bins = Annotated[
    int | None,
    option(
        "N",
        "Approximate bins per numeric column; 8, or 32 for a forest.",
        "--bins",
        min=2,
        max=1000,
    ),
]
Seed = Annotated[int, option("N", "Random seed.", "--seed", min=0, max=2**32 - 1)]
MaxMemory = Annotated[
    str | None,
    option(
        "SIZE",
        "Memory for rows, in bytes or text like 4GB. If rows need more, fit keeps them on disk, "
        "and audit takes a sample.",
    ),
]

MinCell = Annotated[
    int,
    option(
        "K",
        "Levels, bins, groups and strata of fewer people are merged or suppressed, in the model, "
        "its file and what is made of it; 1: none.",
        min=1,
        max=1000,
    ),
]
Weight = Annotated[
    str | None,
    option("COL", "A column of weights: how many people a row stands for. It is no feature."),
]

AllowUnseen = Annotated[
    list[str] | None,
    option(
        "COL",
        "A column that may hold 20 values or more and none that was there at fit: all count as "
        "missing. May be repeated; otherwise such a column is an error.",
    ),
]

THRESHOLD: Final = 0.5
LATENT: Final = "latent"
"""The model that has a classifier."""
OF_THE_FIT: Final = ("model", "classifier", "weight", "equal_rates")
"""Fields of ``ModelOptions`` that are no settings of a model."""


@dataclass(frozen=True)
class TextFormat:
    """How a text table is to be read, where that cannot be told from it."""

    delimiter: Annotated[
        str | None, option("CHAR", "Character between values, or tab; detected by default.")
    ] = None
    encoding: Annotated[
        str | None, option("NAME", "Encoding of a text file that is not UTF-8: cp1252, …")
    ] = None


@dataclass(frozen=True)
class ColumnOptions:
    """Which column is what, and what its values mean; of ``labels`` there is one."""

    labels: Annotated[
        list[str], option("COL", "Column of the observed decision.", "--label", show_default=False)
    ]
    sensitive: Annotated[
        list[str],
        option(
            "COL",
            "The sensitive attribute; may be repeated, several are crossed into groups.",
            show_default=False,
        ),
    ]
    positive: Annotated[
        str | None, option("CLASS", "The favourable class; by default the last in sorted order.")
    ] = None
    numeric: Annotated[
        list[str], option("COL", "A column that holds numbers; may be repeated.")
    ] = field(default_factory=list)
    categorical: Annotated[
        list[str],
        option("COL", "A column of names, even if they look like numbers; may be repeated."),
    ] = field(default_factory=list)
    drop: Annotated[list[str], option("COL", "A column to leave out; may be repeated.")] = field(
        default_factory=list
    )
    missing: Annotated[
        list[str],
        option(
            "TEXT",
            "A value that means missing, such as '?'; may be repeated. Empty cells are always "
            "missing.",
        ),
    ] = field(default_factory=list)
    decimal: Annotated[
        Literal[".", ","] | None,
        option(
            "MARK",
            "The mark before decimals, . or , (1.234,50 has a comma); told by the values of each "
            "column by default.",
        ),
    ] = None

    def __post_init__(self) -> None:
        if (n := len(self.labels)) > 1:
            raise OptionError(f"--label is given {n} times: there is one label, give it once")

    @property
    def label(self) -> str:
        return self.labels[0]

    @property
    def sentinels(self) -> tuple[str | float, ...]:
        """What means "missing", as text and, where it is a number, as that."""
        return ("", *self.missing, *(n for n in map(as_number, self.missing) if n is not None))

    @property
    def settings(self) -> dict[str, Any]:
        """The same as arguments of a model."""
        return {
            "sensitive": self.sensitive,
            "positive": self.positive,
            "numeric": tuple(self.numeric),
            "categorical": tuple(c for c in self.categorical if c not in self.sensitive),
            "missing_values": self.sentinels,
            "decimal": self.decimal,
        }


@dataclass(frozen=True)
class ModelOptions:
    """Which model is fitted, and how.

    A field that has the name of an argument of a model sets it, if the model has one.
    """

    model: Annotated[
        str,
        option(
            "NAME",
            "FairPC, NLatPC, LatNB or TwoNB; or latent: Df from the scores of a classifier of the "
            "label.",
        ),
    ] = "FairPC"
    classifier: Annotated[
        Literal["hgb", "logistic", "forest"] | None,
        option(
            "NAME",
            "With --model latent: hgb, gradient boosting (the default); logistic, logistic "
            "regression; forest, a random forest.",
        ),
    ] = None
    structure: Structure = "auto"
    n_components: Annotated[
        int | None,
        option(
            "N",
            "Circuits mixed in each P(x | Df, S); default: auto chooses.",
            "--components",
            min=1,
            max=64,
        ),
    ] = None
    n_bins: Bins = None
    numbers: Annotated[
        Literal["density", "bins"],
        option(
            "NAME",
            "What is known of a number: density, the number itself; or bins, only its bin.",
        ),
    ] = "density"
    monotone: Annotated[
        list[str],
        option(
            "COL",
            "A numeric column in whose bins the rate of the positive label only rises, or only "
            "falls; may be repeated.",
        ),
    ] = field(default_factory=list)
    given: Annotated[
        list[str],
        option(
            "COL",
            "A column that may rightly matter: Df is then independent of the group within each of "
            "its values (a stratum), not in the whole table. May be repeated; several are crossed.",
        ),
    ] = field(default_factory=list)
    mechanism: Annotated[
        Literal["shared", "within"],
        option(
            "NAME",
            "With --given: shared, labels are altered alike in all strata of a group; within, each "
            "stratum has a P(D | Df, S) of its own.",
        ),
    ] = "shared"
    delta: Annotated[
        float,
        option(
            "DIFFERENCE",
            "By how much P(Df) of two groups may differ, such as .05; 0: Df is independent of the "
            "group.",
            "--rates-may-differ",
            min=0.0,
            max=1.0,
        ),
    ] = 0.0
    min_cell: MinCell = 5
    weight: Weight = None
    equal_mass: Annotated[
        bool,
        option(
            None,
            "Give Df the same mass in the training rows of every group, by a shift in each update "
            "of EM; not in the paper, and the likelihood may fall.",
            "--equal-mass",
        ),
    ] = False
    threshold: Annotated[
        float,
        option(
            "P", "P(Df = positive class) above which the decision is positive.", min=0.0, max=1.0
        ),
    ] = THRESHOLD
    equal_rates: Annotated[
        bool,
        option(
            None,
            "Give each group a threshold of its own, so that the positive decision is equally "
            "frequent in all of them in this table, as nearly as equal scores allow.",
            "--equal-rates",
        ),
    ] = False
    random_state: Seed = 0

    def __post_init__(self) -> None:
        if self.equal_rates and self.threshold != THRESHOLD:
            raise OptionError(
                "--threshold is one for all groups, and --equal-rates is one for each: leave one "
                "of the two out"
            )
        if self.equal_rates and self.weight is not None:
            raise OptionError(
                "--equal-rates counts rows, and --weight weighs them: leave one of the two out"
            )
        if self.mechanism != "shared" and not self.given:
            raise OptionError(
                f"--mechanism {self.mechanism} is about strata: give their columns with --given, "
                "or leave it out"
            )
        if self.classifier is not None and self.model != LATENT:
            raise OptionError(
                f"--classifier is for --model {LATENT}: give that, or leave --classifier out"
            )

    def settings(self, known: Collection[str]) -> dict[str, Any]:
        """Those arguments of a model that it knows; an error where another one is asked for."""
        chosen = {name: v for name, v in vars(self).items() if name not in OF_THE_FIT}
        usual = {each.name: _default(each) for each in fields(self)}
        for name, value in chosen.items():
            if name not in known and value != usual[name]:
                raise OptionError(
                    f"{flag(ModelOptions, name)} is not for --model {self.model}: leave it out, or "
                    "take --model FairPC"
                )
        return {name: value for name, value in chosen.items() if name in known}


@dataclass(frozen=True)
class Keeping:
    """What of a long fit is kept on disk."""

    checkpoint: Annotated[
        str | None,
        option("FILE", "Saves the fit in a file: if it is stopped, the same command resumes it."),
    ] = None
    max_memory: MaxMemory = None


@dataclass(frozen=True)
class Engine:
    """Who reads a table and does the work: this process, or workers of Dask."""

    engine: Annotated[
        Literal["local", "dask"],
        option(
            "NAME", "local, or dask: workers read the table and do the work, here or on a cluster."
        ),
    ] = "local"
    scheduler: Annotated[
        str | None,
        option(
            "ADDRESS",
            "Of a Dask scheduler, such as tcp://10.0.0.1:8786. Default: processes on this machine.",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.scheduler is not None and not self.clustered:
            raise OptionError("--scheduler is an address of Dask: give --engine dask too")

    @property
    def clustered(self) -> bool:
        return self.engine == "dask"


@dataclass(frozen=True)
class DecisionOptions:
    """Decisions of any model as columns of a table; without them a model of fairpc decides."""

    decision: Annotated[
        str | None,
        option(
            "COL",
            "Audit a column of decisions, of whatever made them: give TABLE alone, no MODEL. The "
            "rows must not have trained what decides.",
        ),
    ] = None
    score: Annotated[
        str | None,
        option("COL", "With --decision: the scores, 0 to 1, that the decisions came from."),
    ] = None
    sensitive: Annotated[
        list[str],
        option(
            "COL",
            "With --decision: the sensitive attribute; may be repeated, several are crossed.",
        ),
    ] = field(default_factory=list)
    positive: Annotated[
        str | None,
        option(
            "CLASS",
            "With --decision: the favourable class of label and decision; by default the last "
            "in sorted order.",
        ),
    ] = None
    given: Annotated[
        list[str],
        option(
            "COL",
            "With --decision: a column that may rightly matter; gaps are also given between people "
            "who are alike in it. May be repeated.",
        ),
    ] = field(default_factory=list)
    drop: Annotated[
        list[str],
        option("COL", "With --decision: a column to leave out; may be repeated."),
    ] = field(default_factory=list)

    def __post_init__(self) -> None:
        set_ = [each.name for each in fields(self) if getattr(self, each.name)]
        if set_ and self.decision is None:
            raise OptionError(
                f"--{set_[0]} goes with --decision, a column of decisions: give it, or leave out "
                f"--{set_[0]}; a model of fairpc has its own"
            )


@dataclass(frozen=True)
class Limit:
    """The gap between groups that an audit allows; None: any."""

    fail_over: Annotated[
        float | None,
        option(
            "GAP",
            "End with exit code 1 if the upper bound of the gap between groups is larger, or if "
            "these rows cannot tell.",
            min=0.0,
            max=1.0,
        ),
    ] = None
    gap: Annotated[
        Literal["decisions", "scores", "either"],
        option("WHICH", "What --fail-over looks at: decisions, scores (their means), or either."),
    ] = "decisions"


def as_number(text: str) -> float | None:
    """The finite number that a text is, if it is one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def declared(run: Callable[..., None]) -> Callable[..., None]:
    """A function as Typer wants it: each record among its parameters as the options it holds.

    One of the records is ``screen``, on which the log appears while the function runs.
    """
    records: dict[str, Any] = {}
    options: list[Parameter] = []
    for parameter in signature(run, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation):
            records[parameter.name] = parameter.annotation
            options += _options(parameter.annotation)
        else:
            options.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    def call(**given: Any) -> None:
        made = {
            name: record(**{each.name: given.pop(each.name) for each in fields(record)})
            for name, record in records.items()
        }
        log_to(made["screen"])
        run(**given, **made)

    call.__doc__ = run.__doc__
    # Help lists what must be given first.
    options.sort(key=lambda each: each.default is not Parameter.empty)
    call.__signature__ = Signature(options)  # type: ignore[attr-defined]
    call.__annotations__ = {}
    return call


def _options(record: Any) -> Iterator[Parameter]:
    types = get_type_hints(record, include_extras=True)
    for each in fields(record):
        default = _default(each)
        yield Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if default is MISSING else default,
            annotation=types[each.name],
        )


def _default(of: Field[Any]) -> Any:
    return of.default if of.default_factory is MISSING else of.default_factory()


def flag(record: type, name: str) -> str:
    """What the option of a field is called."""
    # Typer keeps the first name where a default would be.
    declared = get_type_hints(record, include_extras=True)[name].__metadata__[0].default
    return declared if isinstance(declared, str) else f"--{name.replace('_', '-')}"
