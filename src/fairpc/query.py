"""Queries in words: ``Df=good | age=37, sex=?``, read, understood and answered exactly.

Grammar: targets, a bar, what is known. Terms are separated by commas. A term is a
name; or a name, one of = != < <= > >=, and a value. ``name=?`` says that a value is
not known. Df (the decision), D (the observed label) and S (the group) are reserved; a
column of such a name is written in quotes, as is what holds a comma, a bar or a sign.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from typing import Final

import numpy as np
import polars as pl

from fairpc.data.codes_of import code_values
from fairpc.data.encoding import Encoding
from fairpc.data.groups import Groups
from fairpc.data.labels import Labels
from fairpc.data.schema import Column
from fairpc.data.values import read_values, to_dates
from fairpc.errors import EvidenceError, QueryError, TableError, TableWarning
from fairpc.fair.distribution import FairDistribution
from fairpc.fair.top import DF, S

UNKNOWN: Final = "?"
MAX_ROWS: Final = 100_000
"""A query that sums over more combinations of values than this is refused."""

_TERM: Final = re.compile(
    r"""\s*(?P<name>"(?:[^"]|"")*"|'(?:[^']|'')*'|[^=<>!,|"']+)\s*
        (?:(?P<sign>!=|<=|>=|=|<|>)\s*
           (?P<value>"(?:[^"]|"")*"|'(?:[^']|'')*'|[^,|"']*)\s*)?
        (?P<end>,|\||$)""",
    re.VERBOSE,
)
_WRAPPED: Final = re.compile(r"\s*P\s*\((.*)\)\s*", re.DOTALL)

CodeSet = frozenset[int]


@dataclass(frozen=True)
class Term:
    """A name, and what is said of it.

    Attributes:
        name: of a column, or Df, D, S.
        quoted: the name stood in quotes and is a column's.
        sign: "=", "!=", "<", "<=", ">", ">="; empty where there is no value.
        value: as text; None where it is not known, or asked for.
    """

    name: str
    quoted: bool = False
    sign: str = ""
    value: str | None = None

    @property
    def asked(self) -> str:
        """The value, with its sign unless that is "="."""
        return f"{self.value}" if self.sign == "=" else f"{self.sign} {self.value}"

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name} {self.sign} {self.value}"


@dataclass(frozen=True)
class Query:
    """What is asked, given what is known."""

    targets: tuple[Term, ...]
    given: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Reading:
    """How a term was understood: "age = 37" as the bin "35 to 41"."""

    term: Term
    values: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """Probabilities of what was asked.

    Attributes:
        rows: the asked values, in the order of the targets, and their probability given what
            is known; one row where every target has a value.
        readings: how each term with a value was understood.
        given_probability: probability of what is known.
    """

    rows: tuple[tuple[tuple[str, ...], float], ...]
    readings: tuple[Reading, ...]
    given_probability: float


def parse(text: str) -> Query:
    """The query of a text; a QueryError shows where it cannot be read."""
    wrapped = _WRAPPED.fullmatch(text)
    rest = wrapped[1] if wrapped else text
    if not rest.strip():
        raise QueryError("the query is empty: ask for something, such as 'Df | age=37'")
    parts: list[list[Term]] = [[]]
    end = ","
    while end != "":
        match = _TERM.match(rest)
        term = None if match is None else _term(match)
        if match is None or term is None:
            raise QueryError(
                f"the query cannot be read at {rest.strip()[:40]!r}: write names, or name=value, "
                "separated by commas; put values with commas, bars or quotes into quotes"
            )
        parts[-1].append(term)
        rest, end = rest[match.end() :], match["end"]
        if end == "|":
            if len(parts) == 2:
                raise QueryError("the query has two bars: what is known stands after one bar")
            parts.append([])
            end = "|" if rest.strip() else ""
        elif end == "," and not rest.strip():
            raise QueryError("the query ends with a comma: add a term, or take the comma away")
    return Query(tuple(parts[0]), tuple(parts[1]) if len(parts) == 2 else ())


def _unquoted(text: str) -> tuple[str, bool]:
    """What a name or a value says, and whether it stands in quotes."""
    mark = text[:1]
    if mark in ("'", '"'):
        return text[1:-1].replace(mark * 2, mark), True
    return text.strip(), False


def _term(match: re.Match[str]) -> Term | None:
    """The term that was matched; None where it has no name."""
    name, quoted = _unquoted(match["name"])
    if not name or match["sign"] is None:
        return Term(name, quoted) if name else None
    value, literal = _unquoted(match["value"])
    if not value and not literal:
        raise QueryError(f"{name!r} has no value after {match['sign']!r}: give one, or '?'")
    if value == UNKNOWN and not literal:
        return Term(name, quoted)
    return Term(name, quoted, match["sign"], value)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """What the words of a query mean in one model."""

    distribution: FairDistribution
    features: Encoding
    labels: Labels
    groups: Groups

    def answer(self, query: Query) -> Answer:
        """Probability of the targets given what is known, by exact sums over the circuit."""
        readings: list[Reading] = []

        def read(term: Term) -> tuple[int, list[tuple[str, CodeSet]]]:
            """Variable, and the values that are asked for: a value that is given is one event."""
            variable, fitting = self._alternatives(term)
            if term.value is not None:
                readings.append(Reading(term, tuple(label for label, _ in fitting)))
                fitting = [(term.asked, frozenset().union(*(codes for _, codes in fitting)))]
            return variable, fitting

        known: dict[int, CodeSet] = {}
        for term in query.given:
            variable, fitting = read(term)
            if term.value is not None:
                _restrict(known, variable, fitting[0][1])
        total = self._log_mass(known)
        if total == -math.inf:
            words = ", ".join(str(reading.term) for reading in readings)
            raise EvidenceError(f"'{words}' has probability zero: leave out or change a value")
        asked = list(map(read, query.targets))
        if math.prod(len(fitting) for _, fitting in asked) > MAX_ROWS:
            raise QueryError("the query asks for too many combinations: give values to some")
        rows = []
        for combination in product(*(fitting for _, fitting in asked)):
            event = dict(known)
            for (variable, _), (_, codes) in zip(asked, combination, strict=True):
                _restrict(event, variable, codes)
            probability = math.exp(min(self._log_mass(event) - total, 0.0))
            rows.append((tuple(label for label, _ in combination), probability))
        return Answer(tuple(rows), tuple(readings), math.exp(total))

    def _alternatives(self, term: Term) -> tuple[int, list[tuple[str, CodeSet]]]:
        """Variable of the circuit, and the values that fit the term, each with its codes."""
        layout = self.distribution.layout
        role = "" if term.quoted else term.name
        if role == "S":
            return S, _chosen(term, self.groups.names)
        if role == "Df" and not layout.latent:
            raise QueryError(f"{self.distribution.model} has no Df: ask for D, which it predicts")
        if role in ("Df", "D"):
            return DF if role == "Df" else layout.d, _fitting(self.labels.column, term)
        name = self._column_name(term.name)
        if name == self.labels.name:
            return layout.d, _fitting(self.labels.column, term)
        if name in self.groups.column_names:
            j = self.groups.column_names.index(name)
            return S, [
                (
                    label,
                    frozenset(g for g, cell in enumerate(self.groups.cells) if cell[j] in codes),
                )
                for label, codes in _fitting(self.groups.columns[j], term)
            ]
        column = layout.x[self.features.names.index(name)]
        return column, _fitting(self.features.column(name), term)

    def _column_name(self, given: str) -> str:
        """The column that is meant: exactly, or but for blanks around its name."""
        known = (self.labels.name, *self.groups.column_names, *self.features.names)
        if given in known:
            return given
        stripped = [name for name in known if name.strip() == given.strip()]
        if len(stripped) == 1:
            return stripped[0]
        for dropped in self.features.dropped:
            if dropped.name == given:
                raise QueryError(dropped.message + ": ask without it")
        words = (*(("Df",) if self.distribution.layout.latent else ()), "D", "S", *known)
        raise QueryError(f"there is no {given!r} in the model: {_suggestion(given, words)}")

    def _log_mass(self, event: dict[int, CodeSet]) -> float:
        """log of the total probability of rows whose variables have codes of these sets."""
        sets = [sorted(codes) for codes in event.values()]
        n_rows = math.prod(len(codes) for codes in sets)
        if n_rows > MAX_ROWS:
            raise QueryError("the query sums over too many values: make some terms narrower")
        if not n_rows:
            return -math.inf
        rows = np.full((n_rows, len(self.distribution.layout.variables)), -1, np.int16, order="F")
        for variable, column in zip(event, zip(*product(*sets), strict=True), strict=True):
            rows[:, variable] = column
        return float(np.logaddexp.reduce(self.distribution.circuit.log_marginal(rows)))


def _restrict(event: dict[int, CodeSet], variable: int, codes: CodeSet) -> None:
    event[variable] = event[variable] & codes if variable in event else codes


def _chosen(term: Term, names: Sequence[str]) -> list[tuple[str, CodeSet]]:
    """Groups by their names."""
    every = [(name, frozenset([i])) for i, name in enumerate(names)]
    if term.value is None:
        return every
    if term.sign not in ("=", "!="):
        raise QueryError(f"groups have no order: write S = or S !=, not S {term.sign}")
    if term.value not in names:
        raise QueryError(f"S has no value {term.value!r}: {_suggestion(term.value, names)}")
    return [(name, codes) for name, codes in every if (name == term.value) == (term.sign == "=")]


def _fitting(column: Column, term: Term) -> list[tuple[str, CodeSet]]:
    """Values of a column that fit a term, each with its code."""
    if term.value is None:
        codes: Iterable[int] = range(column.arity)
    elif term.sign in ("=", "!="):
        code = _code(column, term)
        if term.sign == "!=" and not _alone(column, code, term.value):
            raise QueryError(
                f"{term.value!r} is one of several values in {column.labels[code]!r} of "
                f"{term.name!r}, which the model does not distinguish: leave all of them out with "
                f"{term.name} != '{column.labels[code]}'"
            )
        codes = [c for c in range(column.arity) if (c == code) == (term.sign == "=")]
    else:
        codes = _compared(column, term.sign, term.value)
    return [(column.labels[c], frozenset([c])) for c in codes]


def _code(column: Column, term: Term) -> int:
    values = read_values(column.name, np.array([term.value], dtype=object))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            code = int(code_values(column, values)[0])
    except TableError:
        code = -1
    if code < 0:
        kind = {"number": " or a number", "date": " or a date"}.get(column.kind, "")
        raise QueryError(
            f"{term.name!r} has no value {term.value!r}: "
            f"{_suggestion(str(term.value), column.labels)}{kind}"
        )
    return code


def _alone(column: Column, code: int, value: str) -> bool:
    """Whether a code means this value and no other, or is called by its own label."""
    if value.strip() == column.labels[code]:
        return True
    if not column.binned:
        return code < len(column.levels)
    inner = 0 < code < column.arity - 1
    return inner and column.integral and column.edges[code] - column.edges[code - 1] == 1.0


def _compared(column: Column, sign: str, value: str) -> list[int]:
    """CodeSet whose values are all on the asked side; a QueryError where a bin is on both."""
    numeric = not column.binned and not column.textual and column.kind != "boolean"
    if not (column.binned or (numeric and not column.has_other)):
        raise QueryError(f"{column.name!r} has no order: write = or !=, not {sign}")
    bound = _bound(column, value)
    if numeric:
        sides = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
        return np.flatnonzero(sides[sign](np.array(column.levels, float), bound)).tolist()
    if sign in (">", "<="):
        if not column.integral:
            raise QueryError(
                f"a bin of {column.name!r} holds its lower edge: write "
                f"{'>=' if sign == '>' else '<'} in place of {sign}"
            )
        bound = math.floor(bound) + 1.0
    if bound not in column.edges:
        shown = ", ".join(repr(label) for label in column.labels)
        raise QueryError(
            f"{value!r} lies inside a bin of {column.name!r}, which the model does not cut: "
            f"compare at an edge of {shown}"
        )
    cut = column.edges.index(bound) + 1
    return list(range(cut, column.arity) if sign in (">", ">=") else range(cut))


def _bound(column: Column, value: str) -> float:
    if column.kind == "date":
        bound = to_dates(pl.Series([value]))[0]
        if math.isnan(bound):
            raise QueryError(f"{value!r} is no date: {column.name!r} holds dates like 2024-05-31")
        return float(bound)
    try:
        return float(value)
    except ValueError:
        raise QueryError(f"{value!r} is no number: {column.name!r} holds numbers") from None


def _suggestion(given: str, known: Sequence[str]) -> str:
    """The closest of the known words, else the first ones."""
    lower = {word.lower(): word for word in reversed(known)}
    close = [lower[word] for word in get_close_matches(given.lower(), lower, n=3)]
    if close:
        return "did you mean " + " or ".join(map(repr, close))
    return "use one of " + ", ".join(map(repr, known[:8])) + (", …" if len(known) > 8 else "")
