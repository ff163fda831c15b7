"""Settings of an estimator: each declared once, with its default and what it must be; as data.

And what they name in a coded table: the strata that the columns of ``given`` make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import numpy as np

from fairpc.core import Floats, LearningError, TableWarning, counted, warn_caller
from fairpc.data import (
    DECIMALS,
    MIN_CELL,
    GivenNames,
    Labels,
    TableCoding,
    few_labelled,
    resolve,
)
from fairpc.models._knowledge import Knowledge
from fairpc.models._priors import SMOOTHING
from fairpc.models._rows import Rows, TrainingRows
from fairpc.models._strata import Strata
from fairpc.models._tables import listed
from fairpc.structure import ModelMethod

if TYPE_CHECKING:
    from fairpc.circuit import Circuit
    from fairpc.models._estimators import CircuitClassifier

T = TypeVar("T", bound=TrainingRows)
Sensitive = str | int | Sequence[str | int] | None
StructureChoice = Literal["auto", "forest", ModelMethod]

SMALL: Final = 30
"""Rows of a group in a stratum under which the stratum is named."""
NAMED: Final = 5
"""Small strata that are named at most."""


def is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_column(value: Any) -> bool:
    return isinstance(value, str) or is_whole(value)


def _is_value(value: Any) -> bool:
    return isinstance(value, str) or _is_number(value)


def _is_list(value: Any, is_item: Callable[[Any], bool]) -> bool:
    """Whether a value is a list of such items; a text is one word, not a list of its letters."""
    return isinstance(value, Iterable) and not isinstance(value, str) and all(map(is_item, value))


def _are_columns(value: Any) -> bool:
    return _is_column(value) or _is_list(value, _is_column)


def _are_names(value: Any) -> bool:
    """Whether a value says what columns, or some values of theirs, are called."""
    if not isinstance(value, Mapping):
        return value is None
    texts = [*value]
    for names in value.values():
        texts += [*names, *names.values()] if isinstance(names, Mapping) else [names]
    return all(isinstance(text, str) for text in texts)


def _is_seed(value: Any) -> bool:
    if is_whole(value):
        return bool(0 <= value < 2**32)
    known = np.random.Generator | np.random.RandomState
    return value is None or value is np.random or isinstance(value, known)


def _rule(words: str, keeps: Callable[[Any], bool]) -> Mapping[str, Any]:
    """What a setting must be, in words and as a function: metadata of its field."""
    return {"words": words, "keeps": keeps}


COLUMN_WORDS: Final = "the name or number of a column, or a list of them"
WHOLE: Final = _rule("a whole number", is_whole)
NUMBER: Final = _rule("a number", _is_number)
WHOLE_OR_NONE: Final = _rule("a whole number, or None", lambda v: v is None or is_whole(v))
NUMBER_OR_NONE: Final = _rule("a number, or None", lambda v: v is None or _is_number(v))
TRUTH: Final = _rule("True or False", lambda v: isinstance(v, bool | np.bool_))
LEVEL: Final = _rule("True, False or a whole number", lambda v: isinstance(v, Integral | np.bool_))
COLUMNS: Final = _rule(COLUMN_WORDS, _are_columns)
COLUMNS_OR_NONE: Final = _rule(COLUMN_WORDS, lambda v: v is None or _are_columns(v))
VALUES: Final = _rule("a list of texts and numbers", lambda v: _is_list(v, _is_value))
DECIMAL: Final = _rule("the mark before decimals, '.' or ','", lambda v: v in DECIMALS)
DIFFERENCE: Final = _rule(
    "a difference of rates from 0 to 1, such as .05", lambda v: _is_number(v) and 0 <= v <= 1
)
FOLDS: Final = _rule("a number of folds from 2 to 100", lambda v: is_whole(v) and 2 <= v <= 100)
KNOWLEDGE: Final = _rule("a fairpc.Knowledge", lambda v: v is None or isinstance(v, Knowledge))
PEOPLE: Final = _rule("a number of people from 1 on", lambda v: is_whole(v) and v >= 1)
NAMES: Final = _rule("names by column and value: {'sex': {'F': 'women'}}", _are_names)
SEED: Final = _rule("a whole number from 0 to 2**32 - 1, a generator of numpy, or None", _is_seed)


@dataclass(eq=False, repr=False, kw_only=True)
class Settings:
    """The parameters of the models, in the order in which ``help`` shows them.

    They are set as they are given, as scikit-learn asks; ``fit`` checks them.
    """

    sensitive: Sensitive = field(default=None, kw_only=False, metadata=COLUMNS_OR_NONE)
    positive: Any = None
    names: GivenNames | None = field(default=None, metadata=NAMES)
    given: Sequence[str | int] | str | int = field(default=(), metadata=COLUMNS)
    delta: float = field(default=0.0, metadata=DIFFERENCE)
    structure: StructureChoice | CircuitClassifier | Circuit = "auto"
    init: Literal["prior", "random"] = "prior"
    smoothing: float = field(default=SMOOTHING, metadata=NUMBER)
    mechanism_prior: float | None = field(default=None, metadata=NUMBER_OR_NONE)
    knowledge: Knowledge | None = None
    max_splits: int = field(default=1000, metadata=WHOLE)
    patience: int = field(default=100, metadata=WHOLE)
    max_iter: int = field(default=500, metadata=WHOLE)
    tol: float = field(default=1e-6, metadata=NUMBER)
    min_iter: int = field(default=20, metadata=WHOLE)
    validation_fraction: float = field(default=0.1, metadata=NUMBER)
    threshold: float = field(default=0.5, metadata=NUMBER)
    n_bins: int | None = field(default=None, metadata=WHOLE_OR_NONE)
    rare: float = field(default=0.005, metadata=NUMBER)
    min_cell: int = field(default=MIN_CELL, metadata=PEOPLE)
    numeric: Sequence[str | int] = field(default=(), metadata=COLUMNS)
    categorical: Sequence[str | int] = field(default=(), metadata=COLUMNS)
    missing_values: tuple[Any, ...] = field(default=(), metadata=VALUES)
    decimal: Literal[".", ","] = field(default=".", metadata=DECIMAL)
    guard: bool = field(default=True, metadata=TRUTH)
    random_state: Any = field(default=None, metadata=SEED)
    verbose: int = field(default=0, metadata=LEVEL)


@dataclass(eq=False, repr=False, kw_only=True)
class ScoreSettings:
    """The parameters of LatentDecision, in their order."""

    estimator: Any = field(default=None, kw_only=False)
    sensitive: Sensitive = field(default=None, metadata=COLUMNS_OR_NONE)
    positive: Any = None
    names: GivenNames | None = field(default=None, metadata=NAMES)
    given: Sequence[str | int] | str | int = field(default=(), metadata=COLUMNS)
    delta: float = field(default=0.0, metadata=DIFFERENCE)
    cv: int = field(default=5, metadata=FOLDS)
    knowledge: Knowledge | None = field(default=None, metadata=KNOWLEDGE)
    threshold: float = field(default=0.5, metadata=NUMBER)
    missing_values: Sequence[Any] = field(default=(), metadata=VALUES)
    numeric: Sequence[str | int] = field(default=(), metadata=COLUMNS)
    decimal: Literal[".", ","] = field(default=".", metadata=DECIMAL)
    min_cell: int = field(default=MIN_CELL, metadata=PEOPLE)
    random_state: Any = field(default=None, metadata=SEED)


def generator(random_state: Any) -> np.random.Generator:
    """A generator from what scikit-learn allows as a random state."""
    from sklearn.utils import check_random_state

    if isinstance(random_state, np.random.Generator):
        return random_state
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return np.random.default_rng(seed)


def check_settings(
    settings: Mapping[str, Any], of: type[Settings | ScoreSettings] = Settings
) -> None:
    """A LearningError names the first setting whose type is wrong; ranges are checked in use."""
    rules = {f.name: f.metadata for f in fields(of) if f.metadata}
    for name, value in settings.items():
        if name in rules and not rules[name]["keeps"](value):
            raise LearningError(f"{name} is {value!r}: give {rules[name]['words']}")


def check_validation_data(given: Any) -> None:
    """The same for the validation rows that ``fit`` is given."""
    if given is not None and not (isinstance(given, tuple | list) and len(given) == 3):
        raise LearningError(
            "validation_data is not (X, y, sensitive features): give all three; the last is None "
            "if the sensitive columns are in X"
        )


def serialised(value: Any) -> Any:
    """A setting as JSON; None for what is none (a random generator has no spelling)."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Knowledge):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [serialised(v) for v in value]
    return value if isinstance(value, str | int | float | bool) else None


def strata_of(given: Any, coding: TableCoding, delta: float = 0.0) -> Strata:
    """The strata that the columns of ``given`` make under a coding, and how rates may differ."""
    features = coding.features
    columns = []
    for item in listed(given):
        (name,) = resolve(features.names_in, item, "given")
        if name in coding.sensitive:
            raise LearningError(
                f"column {name!r} is sensitive and in given: decisions cannot be independent of "
                "it within its own values; leave it out of one of the two"
            )
        if name not in features.names:
            reason = next(d.reason for d in features.dropped if d.name == name)
            raise LearningError(f"column {name!r} is in given and was dropped: {reason}")
        columns.append(features.names.index(name))
    return Strata.of(tuple(dict.fromkeys(columns)), features.arities, float(delta))


def refuse_many(labels: Labels, who: str) -> None:
    """A LearningError where labels have more classes than ``who`` can tell apart."""
    if len(labels.classes) > 2:
        # The words in brackets are those that scikit-learn's tools look for.
        raise LearningError(
            f"label {labels.name!r} has {len(labels.classes)} classes, and {who} tells two apart "
            "(Only binary classification is supported): merge classes into two, or take FairPC "
            "with structure='strudel', which keeps them all"
        )


def refuse_rate(knowledge: Knowledge | None, given: Any) -> None:
    """A LearningError where one rate of fair decisions is stated for several strata."""
    if knowledge and listed(given) and knowledge.fair_rate is not None:
        raise LearningError(
            "fair_rate and given cannot be combined: every stratum has a rate of its own, and EM "
            "would hold each to it; state bounds of the mechanism, or leave one out"
        )


def stratum_names(strata: Strata, coding: TableCoding) -> tuple[str, ...]:
    """What each stratum is called: "hours=40 to 50, job=clerk"."""
    columns = [coding.features.columns[j] for j in strata.columns]
    return tuple(
        ", ".join(
            f"{column.name}={column.labels[v]}"
            for column, v in zip(columns, strata.values(a), strict=True)
        )
        for a in range(strata.n)
    )


def named_strata(some: Sequence[int], strata: Strata, coding: TableCoding) -> str:
    """The first of some strata by their names."""
    names = stratum_names(strata, coding)
    return "; ".join(names[a] for a in some[:NAMED]) + ("; …" if len(some) > NAMED else "")


def subgroup_rows(rows: TrainingRows, strata: Strata, *, labelled: bool = False) -> Floats:
    """How many rows of the table, or with a label, each subgroup has, [s, a]."""

    def counts(some: Rows) -> Floats:
        own = some.subgroups
        known = (own >= 0) & ((some.d >= 0) | (not labelled))
        return np.asarray(np.bincount(own[known], some.each[known], some.n_subgroups), np.float64)

    total: Floats = sum(rows.map(counts), np.zeros(()))
    return total.reshape(-1, strata.n)


def without_few(rows: T, strata: Strata, min_cell: int) -> T:
    """Rows with strata; those of a group that has under ``min_cell`` labelled rows in one are of
    none. Their labels count as missing where all such strata of the group are as few together: the
    group less its other strata would tell them.
    """
    made: T = rows.with_strata(strata)  # type: ignore[assignment] # of its own class
    if not strata or min_cell == 1:
        return made
    counts, labelled = (subgroup_rows(made, strata, labelled=own) for own in (False, True))
    hidden = (counts > 0) & (labelled < min_cell)
    unlabelled = np.flatnonzero(few_labelled((labelled * hidden).sum(axis=1), min_cell))
    counts, few = counts.ravel(), np.flatnonzero(hidden)
    if len(few):
        warn_caller(
            f"{counted(len(few), 'group has', 'groups have')} fewer than {min_cell} labelled rows "
            f"in a stratum: {counted(int(counts[few].sum()), 'row counts', 'rows count')} as of "
            "unknown stratum (min_cell)",
            TableWarning,
        )
    return made.hiding(few, unlabelled)  # type: ignore[return-value]


def rounded_counts(counts: Floats, min_cell: int) -> Floats:
    """Counts [s, f, d]; to multiples of ``min_cell`` in groups of which fewer have some label.

    The others would give it away: the rows of each group are known.
    """
    labels = counts.sum(axis=1, keepdims=True)
    few = ((labels > 0) & (labels < min_cell)).any(axis=2, keepdims=True)
    return np.where(few, np.round(counts / min_cell) * min_cell, counts)


def small_strata(rows: TrainingRows, strata: Strata, coding: TableCoding) -> str:
    """A sentence that names strata in which a group has few rows; empty where none has."""
    if not strata:
        return ""
    n = subgroup_rows(rows, strata).min(axis=0)
    small = np.flatnonzero(n < SMALL)
    if not len(small):
        return ""
    shown = named_strata(small.tolist(), strata, coding)
    return (
        f"{counted(len(small), 'stratum has', 'strata have')} under {SMALL} rows of some group "
        f"({shown}): what is learned there leans on the other strata; merge values, or give fewer "
        "columns"
    )
