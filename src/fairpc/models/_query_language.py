"""Queries in words: ``Df=good | age > 37, sex=?``, read, understood and answered exactly.

Grammar: targets, a bar, what is known. Terms are separated by commas. A term is a
name; or a name, one of = != < <= > >=, and a value; or a name between two values,
``1000 <= amount < 5000``. ``name=?`` says that a value is
not known. Df (the decision), D (the recorded label) and S (the group) are reserved; a
column of such a name is written in quotes, as is what holds a comma, a bar or a sign.

What is said of a variable weighs its codes: 1 where a code fits, 0 where not, and for an
interval of numbers the share of the bin that lies in it. One pass of the circuit then gives
the probability.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import product
from numbers import Real
from typing import Any, Final

import numpy as np

from fairpc.core import EvidenceError, Floats, QueryError, TableError, TableWarning
from fairpc.data import Column, Encoding, Groups, Labels, dates_of, read_values
from fairpc.evidence import Interval, LabelBounds
from fairpc.models._distribution import FairDistribution
from fairpc.models._fair_layers import DF, S
from fairpc.models._query_events import CodeSet, Event, Said, both
from fairpc.models._query_ranges import NOT_KNOWN, QueryRanges

UNKNOWN: Final = "?"
PART: Final = "part of "
_WHOLE: Final = 1e-12
MAX_ROWS: Final = 100_000
"""A query that asks for more combinations of values than this is refused."""

_TERM: Final = re.compile(
    r"""\s*(?:(?P<first>[^=<>!,|"']+?)\s*(?P<before><=|>=|<|>)
           (?=\s*(?:"(?:[^"]|"")*"|'(?:[^']|'')*'|[^=<>!,|"']+)(?:<|>)))?
        \s*(?P<name>"(?:[^"]|"")*"|'(?:[^']|'')*'|[^=<>!,|"']+)\s*
        (?:(?P<sign>!=|<=|>=|=|<|>)\s*
           (?P<value>"(?:[^"]|"")*"|'(?:[^']|'')*'|[^,|"']*)\s*)?
        (?P<end>,|\||$)""",
    re.VERBOSE,
)
_WRAPPED: Final = re.compile(r"\s*P\s*\((.*)\)\s*", re.DOTALL)

_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Term:
    """A name, and what is said of it."""

    name: str  #: of a column, or Df, D, S
    quoted: bool = False  #: the name stood in quotes and is a column's
    sign: str = ""  #: "=", "!=", "<", "<=", ">", ">="; empty where there is no value
    value: str | None = None  #: None where it is not known, or asked for
    also: tuple[str, str] | None = None  #: a second sign and value, of a name between two

    @property
    def asked(self) -> str:
        """The value, with its sign unless that is "="."""
        first = "" if self.also is None else " ".join(self.also) + ", "
        return f"{self.value}" if self.sign == "=" else f"{first}{self.sign} {self.value}"

    def __str__(self) -> str:
        if self.also is not None:
            return f"{self.also[1]} {_MIRRORED[self.also[0]]} {self.name} {self.sign} {self.value}"
        return self.name if self.value is None else f"{self.name} {self.sign} {self.value}"


@dataclass(frozen=True)
class Query:
    """What is asked, given what is known."""

    targets: tuple[Term, ...]
    given: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Reading:
    """How a term was understood: "height = 1.7" as the bin "[1.66, 1.72)"."""

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
        ranges: of each row what held-out labels leave possible; NaN where that is not available,
            None where a row does not depend on the mechanism.
        given_range: the same of what is known.
    """

    rows: tuple[tuple[tuple[str, ...], float], ...]
    readings: tuple[Reading, ...]
    given_probability: float
    ranges: tuple[Interval | None, ...] = ()
    given_range: Interval | None = None


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
        if len(parts) == 2 and match["sign"] is None:
            raise QueryError(
                f"{term.name!r} stands after the bar without a value: write {term.name}=value for "
                f"what is known, {term.name}=? for what is not, or ask for it before the bar"
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
    also = None if match["first"] is None else (_MIRRORED[match["before"]], match["first"].strip())
    if also is not None and (match["sign"][0] == "=" or also[0][0] == match["sign"][0]):
        raise QueryError(
            f"{name!r} stands between signs that are not an interval: write low <= {name} < high"
        )
    return Term(name, quoted, match["sign"], value, also)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """What the words of a query mean in one model."""

    distribution: FairDistribution
    features: Encoding
    labels: Labels
    groups: Groups
    bounds: LabelBounds | None = None  #: what held-out labels leave possible, where it is known

    def answer(self, query: Query) -> Answer:
        """Probability of the targets given what is known, by exact passes over the circuit."""
        readings: list[Reading] = []

        def read(term: Term) -> tuple[int, list[tuple[str, Said]]]:
            """Variable, and the values that are asked for: a value that is given is one event."""
            if term.value is None:
                return self._alternatives(term)
            variable, said, words = self._meant(term)
            readings.append(Reading(term, words))
            return variable, [(term.asked, said)]

        known: Event = {}
        for term in query.given:
            if self._says_nothing(term):
                readings.append(Reading(term, (UNKNOWN,)))
                continue
            variable, fitting = read(term)
            if term.value is not None:
                known = both(known, {variable: fitting[0][1]})
        (total,) = self.log_masses([known])
        if total == -math.inf:
            words = ", ".join(str(reading.term) for reading in readings)
            raise EvidenceError(f"'{words}' has probability zero: leave out or change a value")
        for term in filter(self._says_nothing, query.targets):
            raise QueryError(
                f"{term.value!r} means missing in {term.name!r}: ask for a value that it can have"
            )
        asked = list(map(read, query.targets))
        if math.prod(len(fitting) for _, fitting in asked) > MAX_ROWS:
            raise QueryError("the query asks for too many combinations: give values to some")
        labels, events = [], []
        for combination in product(*(fitting for _, fitting in asked)):
            event = known
            for (variable, _), (_, said) in zip(asked, combination, strict=True):
                event = both(event, {variable: said})
            labels.append(tuple(label for label, _ in combination))
            events.append(event)
        shares = np.exp(np.minimum(self.log_masses(events) - total, 0.0)).tolist()
        rows, possible = tuple(zip(labels, shares, strict=True)), self._ranges()
        ranges = tuple(possible(event, known) for event in events)
        return Answer(rows, tuple(readings), math.exp(total), ranges, possible(known, {}))

    def _ranges(self) -> Callable[[Event, Event], Interval | None]:
        """What an event may be given another: None where Df is in neither."""
        bounds, found = self.bounds, None
        if bounds is not None and len(self.labels.classes) == 2:
            label, share = self.distribution.layout.d, self.distribution.subgroup_rate
            found = QueryRanges(self.log_masses, label, self.labels.positive, share, bounds)

        def of(event: Event, known: Event) -> Interval | None:
            if not self.distribution.layout.latent or DF not in event:
                return None
            return NOT_KNOWN if found is None else found.of(event, known)

        return of

    def log_masses(self, events: Sequence[Event]) -> Floats:
        """log of the probability of each event: of rows whose variables are as it says."""
        arities = list(self.distribution.layout.variables.values())
        named = sorted({variable for event in events for variable in event})
        if not named:
            return np.zeros(len(events))
        everything = {v: Said(frozenset(range(arities[v]))) for v in named}
        weights = {
            v: np.stack([self.weights(v, event.get(v, everything[v])) for event in events])
            for v in named
        }
        return self.distribution.circuit.log_weighted(weights)

    def weights(self, variable: int, said: Said) -> Floats:
        """Of each code of a variable of the circuit: the share of it that fits."""
        layout = self.distribution.layout
        columns = dict(zip(layout.x, self.features.columns, strict=True))
        return said.weights(list(layout.variables.values())[variable], columns.get(variable))

    def _alternatives(self, term: Term) -> tuple[int, list[tuple[str, Said]]]:
        """Variable of the circuit, and each of its values."""
        variable, column, cells = self._variable(term)
        labels = self.groups.names if column is None else column.labels
        codes = [_of_cells(cells, frozenset([code])) for code in range(len(labels))]
        return variable, [(label, Said(some)) for label, some in zip(labels, codes, strict=True)]

    def _meant(self, term: Term) -> tuple[int, Said, tuple[str, ...]]:
        """Variable of the circuit, what a term with a value says of it, and that in words."""
        variable, column, cells = self._variable(term)
        if column is None:
            said = self._chosen(term)
            return variable, said, tuple(self.groups.names[g] for g in sorted(said.codes))
        said = _fitting(column, term)
        if term.also is not None:
            sign, value = term.also
            said = said & _fitting(column, replace(term, sign=sign, value=value, also=None))
        codes = replace(said, codes=_of_cells(cells, said.codes))
        return variable, codes, _in_words(column, term, said)

    def _says_nothing(self, term: Term) -> bool:
        """Whether the value of a term is a word or a number for "missing"."""
        _, column, _ = self._variable(term)
        return term.sign == "=" and column is not None and self._is_unknown(column, term.value)

    def _is_unknown(self, column: Column, value: object) -> bool:
        """Whether a value is missing, or a word or a number for that."""
        cell, sentinels = np.array([value], dtype=object), self.features.missing_values
        return bool(read_values(column.name, cell, sentinels).missing()[0])

    def event(self, values: Mapping[str, Any]) -> Event:
        """What values of variables say, by the names of a query; what is missing says nothing.

        A pair is an interval, as ``_between`` reads it. A name that is both a feature's and
        reserved is the feature's.
        """
        event: Event = {}
        for name, value in values.items():
            term = Term(name, quoted=name in self.features.names)
            variable, column, cells = self._variable(term)
            if column is None:
                said = Said(frozenset([self._group(value)]))
            elif isinstance(value, tuple):
                said = _between(column, value)
            elif self._is_unknown(column, value):
                continue
            else:
                said = _equal(column, name, value)
            event = both(event, {variable: replace(said, codes=_of_cells(cells, said.codes))})
        return event

    def _chosen(self, term: Term) -> Said:
        """Groups by their names."""
        if term.sign not in ("=", "!="):
            raise QueryError(f"groups have no order: write S = or S !=, not S {term.sign}")
        group = frozenset([self._group(term.value)])
        return Said(group if term.sign == "=" else frozenset(range(len(self.groups.cells))) - group)

    def _group(self, value: object) -> int:
        code = self.groups.code(value)
        if code is None:
            names = self.groups.readable_names(self.labels.classes)
            raise QueryError(f"S has no value {value!r}: {_suggestion(str(value), names)}")
        return code

    def _variable(self, term: Term) -> tuple[int, Column | None, Sequence[int] | None]:
        """Variable of the circuit and the column that it codes, None where groups go by names.

        Of a column that is a part of the groups, also its code in each of them.
        """
        layout = self.distribution.layout
        role = "" if term.quoted else term.name
        if role == "S":
            return S, None, None
        if role == "Df" and not layout.latent:
            raise QueryError(f"{self.distribution.model} has no Df: ask for D, which it predicts")
        if role in ("Df", "D"):
            return DF if role == "Df" else layout.d, self.labels.column, None
        name = self._column_name(term.name)
        if name == self.labels.name:
            return layout.d, self.labels.column, None
        if name in self.groups.column_names:
            j = self.groups.column_names.index(name)
            return S, self.groups.columns[j], [cell[j] for cell in self.groups.cells]
        at = self.features.names.index(name)
        return layout.x[at], self.features.columns[at], None

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


def _of_cells(cells: Sequence[int] | None, codes: CodeSet) -> CodeSet:
    """Groups whose part of a crossing has one of these codes; the codes themselves without one."""
    if cells is None:
        return codes
    return frozenset(g for g, code in enumerate(cells) if code in codes)


def _fitting(column: Column, term: Term) -> Said:
    """What a term with a value says of its column."""
    value = str(term.value)
    if term.sign not in ("=", "!="):
        return _compared(column, term.sign, value)
    equal, every = _equal(column, term.name, value), frozenset(range(column.arity))
    if term.sign == "=":
        return equal
    if equal.spans is not None:
        ((low, high),) = equal.spans
        return Said(every, ((-math.inf, low), (high, math.inf)))
    (code,) = equal.codes
    if not _alone(column, code, value):
        raise QueryError(
            f"{term.value!r} is one of several values in {column.labels[code]!r} of "
            f"{term.name!r}, which the model does not distinguish: leave all of them out with "
            f"{term.name} != '{column.labels[code]}'"
        )
    return Said(every - equal.codes)


def _equal(column: Column, name: str, value: object) -> Said:
    """That a column has a value: a level, a label, a number or a date."""
    code, labelled = _code(column, name, value), str(value).strip() in column.labels
    if column.binned and column.integral and not labelled:
        number = _bound(column, value)
        span = number, math.nextafter(number, math.inf)
        if column.intervals.between(*span).any():  # beyond the kept ones it stands for its bin
            return Said(frozenset(range(column.arity)), (span,))
    return Said(frozenset([code]))


def _in_words(column: Column, term: Term, said: Said) -> tuple[str, ...]:
    """Labels of the codes that a term fits, in whole or in part."""
    if term.sign == "=" and said.spans is not None:
        return (str(term.value),)
    share = said.weights(column.arity, column)
    return tuple(
        label if weight > 1 - _WHOLE else PART + label
        for label, weight in zip(column.labels, share.tolist(), strict=True)
        if weight > 0
    )


def _code(column: Column, name: str, value: object) -> int:
    try:
        values = read_values(column.name, np.array([value], dtype=object))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            # A query is written as programs write numbers, however the table does.
            code = int(replace(column, decimal=".").codes(values)[0])
    except TableError:
        code = -1
    if code < 0:
        kind = {"number": " or a number", "date": " or a date"}.get(column.kind, "")
        raise QueryError(
            f"{name!r} has no value {value!r}: {_suggestion(str(value), column.labels)}{kind}"
        )
    return code


def _alone(column: Column, code: int, value: str) -> bool:
    """Whether a code means this value and no other, or is called by its own label."""
    if value.strip() == column.labels[code]:
        return True
    if not column.binned:
        return code < len(column.levels)
    return bool(column.intervals.widths[code] == 0)


def _compared(column: Column, sign: str, value: str) -> Said:
    """What one comparison says of a column."""
    _refuse_unordered(column, f"write = or !=, not {sign}")
    bound, after = _bound(column, value), sign in (">", "<=")
    # ">" begins just above a number, and "<=" ends there.
    cut = math.nextafter(bound, math.inf) if after else bound
    span = (cut, math.inf) if sign in (">", ">=") else (-math.inf, cut)
    return _interval(column, *span)


def _interval(column: Column, low: float, high: float) -> Said:
    """That a column of numbers or dates lies between two, the lower one included."""
    if column.binned:
        return Said(frozenset(range(column.arity)), ((low, high),))
    levels = np.array(column.levels, np.float64)
    return Said(frozenset(np.flatnonzero((levels >= low) & (levels < high)).tolist()))


def _between(column: Column, bounds: tuple[Any, ...]) -> Said:
    """That a column lies in (low, high): numbers, or dates as such or as text; None is no limit."""
    _refuse_unordered(column, "give a value, not an interval")
    if len(bounds) != 2:
        raise QueryError(f"an interval of {column.name!r} has {len(bounds)} ends: give (low, high)")
    low, high = bounds
    low = -math.inf if low is None else _bound(column, low)
    return _interval(column, low, math.inf if high is None else _bound(column, high))


def _refuse_unordered(column: Column, instead: str) -> None:
    numeric = not column.binned and not column.textual and column.kind != "boolean"
    if not (column.binned or (numeric and not column.has_other)):
        raise QueryError(f"{column.name!r} has no order: {instead}")


def _bound(column: Column, value: object) -> float:
    """A number, or a date in microseconds, given as such or as text."""
    dated = column.kind == "date"
    try:
        if dated:
            (number,) = map(float, dates_of([str(value)]))
        else:
            number = float(value) if isinstance(value, Real) else float(str(value))
    except (ValueError, OverflowError):  # of text that is not characters, too
        number = math.nan
    if math.isnan(number):
        kind, like = ("date", "dates like 2024-05-31") if dated else ("number", "numbers")
        raise QueryError(f"{value!r} is not a {kind}: {column.name!r} holds {like}")
    return number


def _suggestion(given: str, known: Sequence[str]) -> str:
    """The closest of the known words, else the first ones."""
    lower = {word.lower(): word for word in reversed(known)}
    close = [lower[word] for word in get_close_matches(given.lower(), lower, n=3)]
    if close:
        return "did you mean " + " or ".join(map(repr, close))
    return "use one of " + ", ".join(map(repr, known[:8])) + (", …" if len(known) > 8 else "")
