"""What an encoding knows of a column, and how that is written to and read from a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast, get_args

import numpy as np

from fairpc.core import FairpcError, FileFormatError, Floats, TableError
from fairpc.data._binning import bin_labels, value_label
from fairpc.data._categories import Level
from fairpc.data._density import DAY, DENSITY_FIELDS, ColumnDensity
from fairpc.data._table import MAX_ARITY
from fairpc.data._writing import Writing

Kind = Literal["category", "number", "boolean", "date"]
KINDS: Final = get_args(Kind)

T = TypeVar("T")

_INT64: Final = 2**63
_OPTIONAL: Final = ("density", "written")
"""Fields of a column that older files do not have."""
_LAST_DATE: Final = 2.5e17  # microseconds; the calendar of Python ends with the year 9999


class Saved:
    """A dataclass that is written to files: nested records become objects, tuples lists."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-safe data."""
        return {name: _plain(getattr(self, name)) for name in fields_of(type(self))}


def fields_of(kind: Any) -> tuple[str, ...]:
    """Names of the fields of a dataclass."""
    return tuple(kind.__dataclass_fields__)


def _plain(value: Any) -> Any:
    if isinstance(value, Saved | ColumnDensity):
        return value.to_dict()
    if isinstance(value, Writing):
        return asdict(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


@dataclass(frozen=True)
class Column(Saved):
    """How one column becomes codes.

    Attributes:
        name: name in the table.
        kind: categories and booleans have levels, numbers and dates have edges.
        levels: value of each code; if levels were merged, one code more follows, "other".
        merged: levels that share the code "other".
        open: "other" also takes values that were not seen; too many were merged to list them.
        edges: ascending; bin i is [edges[i - 1], edges[i]), the first and last bins are open.
        integral: the numbers are whole.
        missing_share: share of the training weight without a value.
        done: what was done, in words.
        density: P(x | bin) of numbers and dates; None where bins are all that is known.
        written: how numbers are written that are text in the table; None as programs write them.
    """

    name: str
    kind: Kind
    levels: tuple[Level, ...] = ()
    merged: tuple[Level, ...] = ()
    open: bool = False
    edges: tuple[float, ...] = ()
    integral: bool = False
    missing_share: float = 0.0
    done: str = ""
    density: ColumnDensity | None = None
    written: Writing | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise TableError(f"column {self.name!r} is of kind {self.kind!r}: use one of {KINDS}")
        if not 0 <= self.missing_share <= 1:
            raise TableError(f"column {self.name!r}: its missing share lies between 0 and 1")
        if self.binned:
            self._check_edges()
        else:
            self._check_levels()
        if self.arity > MAX_ARITY:
            raise TableError(f"column {self.name!r} has {self.arity} values: at most {MAX_ARITY}")

    @property
    def binned(self) -> bool:
        """Whether codes are bins, not levels."""
        return self.kind in ("number", "date")

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A readable name per code."""
        if self.binned:
            return bin_labels(self.edges, integral=self.integral, date=self.kind == "date")
        texts = tuple(str(level) for level in self.levels)
        if not self.has_other:
            return texts
        other = "other"
        while other in texts:
            other = f"({other})"
        return (*texts, other)

    @property
    def has_other(self) -> bool:
        """Whether the last code stands for merged levels."""
        return bool(self.merged) or self.open

    @property
    def arity(self) -> int:
        """Number of codes."""
        if self.binned:
            return len(self.edges) + 1
        return len(self.levels) + self.has_other

    @property
    def textual(self) -> bool:
        """Whether the levels are text."""
        return not self.binned and isinstance((*self.levels, *self.merged)[0], str)

    @property
    def unit(self) -> float:
        """What a density is per: a day in microseconds for dates, 1 for numbers."""
        return DAY if self.kind == "date" else 1.0

    @property
    def measure(self) -> str:
        """What a probability of a value is, in words: a mass, or a density and per what."""
        if self.density is None:
            return "mass of a bin" if self.binned else "mass"
        if self.density.step:
            return "mass"
        points = [value_label(v, date=self.kind == "date") for v in self.density.points]
        masses = f", mass at {', '.join(points)}" if points else ""
        return f"density per {'day' if self.kind == 'date' else 'unit'}{masses}"

    def _check_edges(self) -> None:
        if self.levels or self.merged or self.open:
            raise TableError(f"column {self.name!r} is binned: it has edges and no levels")
        if not all(math.isfinite(edge) for edge in self.edges):
            raise TableError(f"column {self.name!r} has an edge that is not finite")
        if any(a >= b for a, b in pairwise(self.edges)):
            raise TableError(
                f"column {self.name!r} has the edges {list(self.edges)}: edges must ascend"
            )
        if self.kind == "date" and any(abs(edge) > _LAST_DATE for edge in self.edges):
            raise TableError(
                f"column {self.name!r} has an edge beyond the calendar: give dates of the years 1 "
                "to 9999, or drop the column"
            )
        density = self.density
        if density is not None and density.edges != self.edges:
            raise TableError(f"column {self.name!r} has a density of other bins: fit it again")
        if density is not None and density.step not in (0.0, DAY if self.kind == "date" else 1.0):
            raise TableError(f"column {self.name!r} has a density of another unit: fit it again")

    def _check_levels(self) -> None:
        known = (*self.levels, *self.merged)
        if not known:
            raise TableError(f"column {self.name!r} has no levels: a category needs at least one")
        if self.edges or self.density is not None:
            raise TableError(f"column {self.name!r} is a category: it has levels and no edges")
        if len({type(level) for level in known}) > 1:
            raise TableError(f"column {self.name!r} has levels of several types: use one")
        if len(set(known)) < len(known):
            raise TableError(f"column {self.name!r} has a level twice: levels must differ")
        if self.kind == "boolean" and known != (False, True):
            raise TableError(f"column {self.name!r} is boolean: its levels are false and true")
        if any(isinstance(v, bool) for v in known) != (self.kind == "boolean"):
            raise TableError(f"column {self.name!r}: only a boolean has the levels false and true")

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-safe data; what older files lack only where there is some."""
        data = super().to_dict()
        return {k: v for k, v in data.items() if k not in _OPTIONAL or v is not None}

    @classmethod
    def from_dict(cls, data: Any) -> Column:
        """The column of ``to_dict``; a FileFormatError says what is wrong with anything else."""
        given = data if isinstance(data, dict) else {}
        fields = [name for name in fields_of(cls) if name in given or name not in _OPTIONAL]
        record = Record(data, "a column", fields)
        return record.build(
            lambda: cls(
                name=record.text("name"),
                kind=cast(Kind, record.text("kind")),
                levels=record.levels("levels"),
                merged=record.levels("merged"),
                open=record.flag("open"),
                edges=record.numbers("edges"),
                integral=record.flag("integral"),
                missing_share=record.number("missing_share"),
                done=record.text("done"),
                **_newer(record),
            )
        )


def _newer(record: Record) -> dict[str, Any]:
    """What older files of a column do not have."""
    found: dict[str, Any] = {}
    if "density" in record.data:
        found["density"] = _density(record.data["density"], record.numbers("edges"))
    if "written" in record.data:
        found["written"] = _writing(record.data["written"])
    return found


def _writing(data: Any) -> Writing:
    record = Record(data, "how a column is written", fields_of(Writing))
    return Writing(**{name: record.text(name) for name in fields_of(Writing)})


def _density(data: Any, edges: tuple[float, ...]) -> ColumnDensity:
    record = Record(data, "a density", DENSITY_FIELDS)
    lists = {name: record.numbers(name) for name in DENSITY_FIELDS if name != "step"}
    return ColumnDensity(edges=edges, **lists, step=record.number("step"))


class Dropped(NamedTuple):
    """A column that is not used, and why."""

    name: str
    reason: str

    @property
    def message(self) -> str:
        return f"column {self.name!r} is not used: {self.reason}"


@dataclass(frozen=True)
class Record:
    """A JSON object that is read field by field and believed in nothing."""

    data: Mapping[str, Any]
    what: str
    fields: Collection[str]

    def __post_init__(self) -> None:
        if not isinstance(self.data, dict):
            raise FileFormatError(
                f"{self.what} is not a JSON object: give the file as it was saved"
            )
        if set(self.data) != set(self.fields):
            odd = sorted(str(key) for key in set(self.data) ^ set(self.fields))
            raise FileFormatError(
                f"{self.what} has missing or unknown fields ({', '.join(odd)[:200]}): "
                "give the file as it was saved"
            )

    def error(self, field: str, rule: str) -> FileFormatError:
        return FileFormatError(f"{field!r} of {self.what} must be {rule}")

    def build(self, make: Callable[[], T]) -> T:
        """What ``make`` returns; its complaints are complaints about the file."""
        try:
            return make()
        except FileFormatError:
            raise
        except FairpcError as error:
            raise FileFormatError(f"{self.what} is not valid: {error}") from error

    def _typed(self, field: str, kind: type[T], rule: str) -> T:
        value = self.data[field]
        if not isinstance(value, kind):
            raise self.error(field, rule)
        return value

    def text(self, field: str) -> str:
        return self._typed(field, str, "text")

    def flag(self, field: str) -> bool:
        return self._typed(field, bool, "true or false")

    def whole(self, field: str, least: int = 0) -> int:
        value = self.data[field]
        if type(value) is not int or not least <= value < _INT64:
            raise self.error(field, f"a whole number of at least {least}")
        return value

    def number(self, field: str) -> float:
        return _number(self.data[field], self.error(field, "a finite number of double precision"))

    def items(self, field: str) -> list[Any]:
        return self._typed(field, list, "a list")

    def numbers(self, field: str) -> tuple[float, ...]:
        fault = self.error(field, "a list of finite numbers of double precision")
        return tuple(_number(value, fault) for value in self.items(field))

    def array(self, field: str, *n_axes: int) -> Floats:
        """Numbers in lists of lists, of one of these numbers of axes."""
        fault = self.error(field, f"numbers in lists within lists, {n_axes[-1]} deep")
        flat, depth = [self.data[field]], 0
        while flat and all(type(part) is list for part in flat):
            flat, depth = list(chain.from_iterable(flat)), depth + 1
        if depth not in n_axes or not set(map(type, flat)) <= {float}:
            raise fault
        try:
            return np.array(self.data[field], np.float64)
        except ValueError:  # lists of several lengths
            raise fault from None

    def columns(self, field: str) -> tuple[Column, ...]:
        return tuple(Column.from_dict(item) for item in self.items(field))

    def texts(self, field: str) -> tuple[str, ...]:
        values = self.items(field)
        if not all(isinstance(value, str) for value in values):
            raise self.error(field, "a list of text")
        return tuple(values)

    def levels(self, field: str) -> tuple[Level, ...]:
        values = self.items(field)
        for value in values:
            whole = type(value) is int and abs(value) < _INT64
            real = isinstance(value, float) and math.isfinite(value)
            if not (whole or real or isinstance(value, str | bool)):
                raise self.error(field, "a list of text, finite numbers or true and false")
        return tuple(values)


def _number(value: Any, fault: FileFormatError) -> float:
    try:
        real = isinstance(value, int | float) and not isinstance(value, bool)
        number = float(value) if real else math.nan
    except OverflowError:
        raise fault from None
    # A whole number beyond 2**53 may be none of double precision: it would be read as another.
    if not math.isfinite(number) or number != value:
        raise fault
    return number
