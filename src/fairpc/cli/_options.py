"""Options that several commands share, and how options are declared: name, type, bounds, help.

Options that go together are a record. ``declared`` lets a command take such a record where Typer
knows single options only, and puts each option into its panel of the help.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from inspect import Parameter, Signature, cleandoc, signature
from math import isfinite
from shlex import join, quote
from typing import Annotated, Any, ClassVar, Final, Literal, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from fairpc.cli._screen import log_to
from fairpc.core import OptionError, TableError


def argument(metavar: str, text: str) -> Any:
    """What a command is given by position."""
    return typer.Argument(metavar=metavar, help=text, show_default=False)


def option(metavar: str | None, text: str, *names: str, **more: Any) -> Any:
    """What a command is given by name; flags have no ``metavar``."""
    return typer.Option(*names, metavar=metavar or " ", help=text, **more)


def output(text: str) -> Any:
    """Where a command writes."""
    return option("FILE", text, "--output", "-o")


Table = Annotated[
    str,
    argument(
        "TABLE",
        "A CSV, TSV, Parquet or Feather file; a folder or pattern of such; or - for stdin.",
    ),
]
ModelFile = Annotated[str, argument("MODEL", "A file that fit wrote.")]
ReviewedFiles = Annotated[
    list[str] | None,
    option("FILE", "Rows that `fairpc review` drew, with answers, by batch.", "--reviewed"),
]
Structure = Annotated[
    str, option("NAME", "auto, chosen on held-out rows; forest, strudel (the paper's), chow-liu.")
]
Bins = Annotated[
    int | None, option("N", "Approximate bins per numeric column.", "--bins", min=2, max=1000)
]
Seed = Annotated[int, option("N", "Random seed.", "--seed", min=0, max=2**32 - 1)]
MaxMemory = Annotated[
    str | None, option("SIZE", "Memory for rows, such as 4GB; beyond it, disk or a sample is used.")
]
Scheduler = Annotated[
    str | None, option("ADDRESS", "Of your Dask cluster, which does the work: tcp://10.0.0.1:8786.")
]
MinCell = Annotated[
    int, option("K", "Fewer people than this are merged or left out; 1: none.", min=1, max=1000)
]
Weight = Annotated[str | None, option("COL", "How many people a row stands for; not a feature.")]
Positive = Annotated[
    str | None, option("CLASS", "The favourable class; approved, hired, paid, … are known.")
]
DecisionPositive = Annotated[
    str | None, option("VALUE", "The favourable decision, if decisions have other values.")
]
Drop = Annotated[list[str], option("COL", "A column to leave out.")]
Missing = Annotated[
    list[str], option("TEXT", "A value that means missing, such as '?', besides empty cells.")
]
Decimal = Annotated[
    Literal[".", ","], option("MARK", "Before decimals of numbers that are text: . or ,.")
]
AllowUnseen = Annotated[
    list[str] | None, option("COL", "A column that may hold new values alone: they are missing.")
]

THRESHOLD: Final = 0.5
LATENT: Final = "latent"
"""The model that has a classifier."""
OF_THE_FIT: Final = ("model", "classifier", "weight", "equal_rates")
"""Fields of ``ModelOptions`` that are not settings of a model."""
PANELS: Final = {
    "Columns": (
        *("numeric", "categorical", "drop", "missing", "decimal", "weight", "name"),
        *("delimiter", "encoding", "allow_unseen", "min_cell"),
    ),
    "Model": (
        *("model", "classifier", "structure", "n_bins"),
        *("delta", "mechanism_prior", "held_to"),
    ),
    "Decisions": ("threshold", "equal_rates", "decide", "decide_as", "fail_over", "gap"),
    "Resources": ("random_state", "seed", "max_memory", "scheduler"),
    "Output": ("verbose", "json", "quiet", "safe_csv", "all_digits"),
}
"""Panels of the help, by the parameters in them; what is in none stands first."""


class NoPositiveError(TableError):
    """Which class of a label is favourable must be said: these are the classes."""

    def __init__(self, message: str, classes: Sequence[str]) -> None:
        super().__init__(message)
        self.classes = tuple(classes)

    def again(self, typed: Sequence[str]) -> str:
        """The error, and the command as it was typed with what is lacking."""
        first, *others = (f"--positive {quote(name)}" for name in self.classes)
        command = join(("fairpc", *typed))
        return f"{self}: add it, as in `{command} {first}`, or {' or '.join(others)}"


@dataclass(frozen=True)
class TextFormat:
    """How a text table is to be read, where that cannot be seen from it."""

    delimiter: Annotated[str | None, option("CHAR", "Between values; else detected.")] = None
    encoding: Annotated[str | None, option("NAME", "Of text that is not UTF-8: cp1252, …")] = None


@dataclass(frozen=True)
class Naming:
    """What values are called where people read of them."""

    name: Annotated[
        list[str],
        option(
            "COL=VALUE:NAME",
            "What people call a value, such as deny=yes:refused; deny=:refusals names the column.",
        ),
    ] = field(default_factory=list)

    def __post_init__(self) -> None:
        for text in self.name:
            column, _, rest = text.partition("=")
            if not (column and rest.partition(":")[2].strip()):
                raise OptionError(
                    f"--name is {text!r}: give a column, one of its values and what that is "
                    "called, such as --name deny=yes:refused"
                )

    @property
    def names(self) -> dict[str, dict[str, str]]:
        """Column -> value -> what it is called."""
        found: dict[str, dict[str, str]] = {}
        for text in self.name:
            column, _, rest = text.partition("=")
            value, _, display = rest.partition(":")
            found.setdefault(column, {})[value] = display.strip()
        return found


@dataclass(frozen=True)
class ColumnOptions:
    """Which column is what, and what its values mean; of ``labels`` there is one."""

    labels: Annotated[
        list[str], option("COL", "Column of the recorded decision.", "--label", show_default=False)
    ]
    sensitive: Annotated[
        list[str], option("COL", "Sensitive attribute; several are crossed.", show_default=False)
    ]
    positive: Positive = None
    numeric: Annotated[list[str], option("COL", "A column that holds numbers.")] = field(
        default_factory=list
    )
    categorical: Annotated[
        list[str], option("COL", "A column of names, even if they look like numbers.")
    ] = field(default_factory=list)
    drop: Drop = field(default_factory=list)
    missing: Missing = field(default_factory=list)
    decimal: Decimal = "."

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
        str, option("NAME", "FairPC, NLatPC, LatNB, TwoNB; or latent: from scores of a classifier.")
    ] = "FairPC"
    classifier: Annotated[
        Literal["hgb", "logistic", "forest"] | None,
        option("NAME", "With --model latent: hgb, gradient boosting (default); logistic; forest."),
    ] = None
    structure: Structure = "auto"
    n_bins: Bins = None
    given: Annotated[
        list[str],
        option(
            "COL",
            "A legitimate factor: groups then have the same fair rate within each of its values (a "
            "stratum), not in the whole table. Several are crossed.",
        ),
    ] = field(default_factory=list)
    delta: Annotated[
        float,
        option(
            "GAP",
            "By how much the fair rates of groups may differ: 0.05 for 5 points.",
            "--rates-may-differ",
            min=0.0,
            max=1.0,
        ),
    ] = 0.0
    mechanism_prior: Annotated[
        float | None,
        option(
            "ROWS",
            "Prior rows per group and fair decision, nine of ten recorded as they should be: they "
            "choose the point, in place of the usual rule.",
            min=0.0,
        ),
    ] = None
    min_cell: MinCell = 5
    weight: Weight = None
    threshold: Annotated[
        float, option("P", "Score above which the decision is favourable.", min=0.0, max=1.0)
    ] = THRESHOLD
    equal_rates: Annotated[
        bool,
        option(None, "A threshold for each group: equal shares of this table.", "--equal-rates"),
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
class DecisionOptions:
    """Decisions of any model as columns of a table; without them a model of fairpc decides."""

    PANEL: ClassVar = "Decisions of any model: TABLE alone, without MODEL"
    decision: Annotated[
        str | None, option("COL", "Decisions, of whatever made them; not trained on these rows.")
    ] = None
    decision_positive: DecisionPositive = None
    score: Annotated[str | None, option("COL", "The scores, 0 to 1, that they came from.")] = None
    sensitive: Annotated[
        list[str], option("COL", "The sensitive attribute; several are crossed.")
    ] = field(default_factory=list)
    positive: Positive = None
    given: Annotated[
        list[str], option("COL", "A legitimate factor: gaps between people alike in it, too.")
    ] = field(default_factory=list)
    drop: Drop = field(default_factory=list)
    missing: Missing = field(default_factory=list)
    decimal: Decimal = "."

    def __post_init__(self) -> None:
        given = ((f, getattr(self, f.name)) for f in fields(self))
        set_ = [flag(type(self), f.name) for f, value in given if value and value != f.default]
        if set_ and self.decision is None:
            raise OptionError(
                f"{set_[0]} goes with --decision, a column of decisions: give it, or leave out "
                f"{set_[0]}; a model of fairpc has its own"
            )


@dataclass(frozen=True)
class Limit:
    """The gap between groups that an audit allows; None: any."""

    fail_over: Annotated[
        float | None,
        option(
            "GAP",
            "Exit code 1 if the gap between groups may be larger, or these rows cannot tell.",
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
            record: Any = records.setdefault(parameter.name, parameter.annotation)
            own = signature(record, eval_str=True).parameters
            for each in fields(record):
                made = own[each.name].replace(default=_default(each), kind=Parameter.KEYWORD_ONLY)
                options.append(_placed(made, getattr(record, "PANEL", None)))
        else:
            options.append(_placed(parameter.replace(kind=Parameter.KEYWORD_ONLY)))

    def call(**given: Any) -> None:
        made = {
            name: record(**{each.name: given.pop(each.name) for each in fields(record)})
            for name, record in records.items()
        }
        log_to(made["screen"])
        run(**given, **made)

    paragraphs = cleandoc(run.__doc__ or "").split("\n\n")
    call.__doc__ = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    # Help lists what must be given first, and panels in their order.
    options.sort(key=lambda each: (each.default is not Parameter.empty, _place(each)))
    call.__signature__ = Signature(options)  # type: ignore[attr-defined]
    call.__annotations__ = {}
    return call


def _place(parameter: Parameter) -> int:
    panel = parameter.annotation.__metadata__[0].rich_help_panel
    return [None, DecisionOptions.PANEL, *PANELS].index(panel)


def _placed(parameter: Parameter, panel: str | None = None) -> Parameter:
    """An option in its panel of the help, which says where it may be repeated."""
    name = parameter.name
    kind, info = parameter.annotation.__origin__, copy(parameter.annotation.__metadata__[0])
    by_name = isinstance(info, OptionInfo)
    info.rich_help_panel = panel or next(
        (p for p, some in PANELS.items() if by_name and name in some), None
    )
    if list[str] in (kind, *get_args(kind)) and by_name and name != "labels":
        info.help = f"{info.help} May be repeated."
    return parameter.replace(annotation=Annotated[kind, info])


def _default(of: Field[Any]) -> Any:
    if of.default_factory is not MISSING:
        return of.default_factory()
    return Parameter.empty if of.default is MISSING else of.default


def flag(record: type, name: str) -> str:
    """What the option of a field is called."""
    # Typer keeps the first name where a default would be.
    declared = get_type_hints(record, include_extras=True)[name].__metadata__[0].default
    return declared if isinstance(declared, str) else f"--{name.replace('_', '-')}"


def as_typed(*records: Any, **options: Any) -> str:
    """What was given of some records, then of options, as it is typed: a space before each."""
    given = [
        (flag(type(record), each.name), getattr(record, each.name))
        for record in records
        for each in fields(record)
        if getattr(record, each.name) != _default(each)
    ]
    words = ""
    for name, value in [*given, *((f"--{n.replace('_', '-')}", v) for n, v in options.items())]:
        for one in value if isinstance(value, list) else () if value is None else (value,):
            words += f" {name}" if one is True else f" {name} {quote(str(one))}"
    return words
