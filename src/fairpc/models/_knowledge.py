"""Prior knowledge about P(Df) and P(D | Df, S), as bounds that EM keeps.

With a free P(x | f, s) the rows alone leave many mechanisms that fit alike. What
is known beforehand narrows them: a rate of fair decisions, labels that were only ever
lowered in a group, limits of the mechanism.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NoReturn, cast, get_args

import numpy as np

from fairpc.circuit import SLACK
from fairpc.core import Floats, LearningError, serialise
from fairpc.data import Groups, TableCoding
from fairpc.models._top_em import Limits

Direction = Literal["lowered", "raised"]
Rate = float | tuple[float, float]
Entry = tuple[Any, Any, Any]


@dataclass(frozen=True)
class Knowledge:
    """What is known beforehand; classes and groups go by their values or names: F, or sex=F.

    Attributes:
        fair_rate: P(Df = positive) of two classes, a number or (least, largest); or a mapping
            from classes to either.
        one_sided: a mapping from groups to "lowered" (no label was ever altered from another
            fair decision into the positive class) or "raised" (no positive fair decision ever
            got another label); for two classes.
        mechanism_bounds: a mapping from (group, fair decision, label) to a number or (least,
            largest) for P(D = label | Df = decision, S = group); group None means every group.

    Mappings are kept as tuples of pairs, so that the record cannot be changed.
    """

    fair_rate: Rate | Mapping[Any, Rate] | tuple[tuple[Any, Rate], ...] | None = None
    one_sided: Mapping[Any, Direction] | tuple[tuple[Any, Direction], ...] | None = None
    mechanism_bounds: Mapping[Entry, Rate] | tuple[tuple[Entry, Rate], ...] | None = None

    def __post_init__(self) -> None:
        rate = self.fair_rate
        if isinstance(rate, Mapping) or _is_pairs(rate):
            pairs = _pairs("fair_rate", rate)
            rate = tuple((c, _range(f"fair_rate of class {c!r}", r)) for c, r in pairs)
        elif rate is not None:
            rate = _range("fair_rate", rate)
        sides = _pairs("one_sided", self.one_sided)
        for group, side in sides:
            if side not in get_args(Direction):
                raise LearningError(
                    f"one_sided of group {group!r} is {side!r}: choose 'lowered' or 'raised'"
                )
        boxes = []
        for key, r in _pairs("mechanism_bounds", self.mechanism_bounds):
            if not isinstance(key, tuple | list) or len(key) != 3:
                raise LearningError(
                    f"mechanism_bounds has the key {key!r}: give (group, fair decision, label)"
                )
            boxes.append((tuple(key), _range(f"mechanism_bounds of {tuple(key)}", r)))
        object.__setattr__(self, "fair_rate", rate)
        object.__setattr__(self, "one_sided", sides or None)
        object.__setattr__(self, "mechanism_bounds", tuple(boxes) or None)

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) is not None for f in fields(self))

    def and_also(self, other: Knowledge) -> Knowledge:
        """This knowledge with what the other one says in its place."""
        said = {f.name: getattr(other, f.name) for f in fields(other)}
        return replace(self, **{name: value for name, value in said.items() if value is not None})

    def limits(self, groups: Groups, classes: Sequence[Any], positive: int) -> Limits:
        """Bounds of P(Df) and of the mechanism of these groups and classes."""
        n, k = len(groups.cells), len(classes)
        rate = np.zeros(k), np.ones(k)
        for f, r in self._rates(classes, positive):
            _narrow(rate, f, r)
        mechanism = np.zeros((n, k, k)), np.ones((n, k, k))
        for group, side in cast("Iterable[tuple[Any, Direction]]", self.one_sided or ()):
            if k != 2:
                raise LearningError(
                    f"one_sided was given and the label has {k} classes: it needs two; give "
                    "mechanism_bounds instead"
                )
            f = 1 - positive if side == "lowered" else positive
            _narrow(mechanism, (_group(group, groups), f, 1 - f), 0.0)
        for (group, f, d), r in cast("Iterable[tuple[Entry, Rate]]", self.mechanism_bounds or ()):
            cell = _class(f, classes), _class(d, classes)
            for s in range(n) if group is None else [_group(group, groups)]:
                _narrow(mechanism, (s, *cell), r)
        result = Limits(*rate, *mechanism)
        _refuse_empty(result, groups, classes)
        return result

    def _rates(self, classes: Sequence[Any], positive: int) -> Iterable[tuple[int, Rate]]:
        """What is said of the rate of each fair decision."""
        rate: Any = self.fair_rate
        if rate is None:
            return []
        if _is_pairs(rate):
            return [(_class(c, classes), r) for c, r in rate]
        if len(classes) != 2:
            raise LearningError(
                f"fair_rate is one rate and the label has {len(classes)} classes: give a mapping "
                "from classes to rates"
            )
        low, high = _low_high(rate)
        return [(positive, (low, high)), (1 - positive, (1 - high, 1 - low))]

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON-safe data: lists in place of tuples."""
        return {f.name: serialise(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_dict(cls, data: Any) -> Knowledge:
        """The knowledge of ``to_dict``."""
        known = {f.name for f in fields(cls)}
        if not isinstance(data, dict) or set(data) - known:
            raise LearningError(f"knowledge is {data!r}: give an object with {', '.join(known)}")
        return cls(**{name: _tuples(value) for name, value in data.items()})

    def __str__(self) -> str:
        rate: Any = self.fair_rate
        pairs = rate if _is_pairs(rate) else [] if rate is None else [("positive", rate)]
        parts = [f"P(Df = {c}) {_words(r)}" for c, r in pairs]
        for group, side in cast("Iterable[tuple[Any, str]]", self.one_sided or ()):
            parts.append(f"labels of group {group} were only ever {side}")
        for (group, f, d), r in cast("Iterable[tuple[Entry, Rate]]", self.mechanism_bounds or ()):
            where = "every S" if group is None else f"S = {group}"
            parts.append(f"P(D = {d} | Df = {f}, {where}) {_words(r)}")
        return "; ".join(parts) or "nothing"


def limits_of_coding(knowledge: Knowledge | None, coding: TableCoding) -> Limits | None:
    """What is known about the groups and classes of a coding; None where nothing is."""
    if not knowledge:
        return None
    if not isinstance(knowledge, Knowledge):
        raise LearningError(f"knowledge is {knowledge!r}: give a fairpc.Knowledge")
    return knowledge.limits(coding.groups, coding.labels.classes, coding.labels.positive)


def _refuse_empty(limits: Limits, groups: Groups, classes: Sequence[Any]) -> None:
    """A LearningError where the limits leave no distribution."""
    if _empty(limits.rate_lower, limits.rate_upper):
        raise LearningError(
            "fair_rate leaves no P(Df): least rates may sum to 1 at most, largest to 1 at least"
        )
    for s, f in np.ndindex(len(groups.cells), len(classes)):
        if _empty(limits.mechanism_lower[s, f], limits.mechanism_upper[s, f]):
            raise LearningError(
                f"the bounds of P(D | Df = {classes[f]}, S = {groups.names[s]}) leave nothing "
                "that sums to 1: widen one of them"
            )


def _is_pairs(rate: Any) -> bool:
    """Whether a rate is one of several classes: a tuple of pairs, not a pair of numbers."""
    return isinstance(rate, tuple) and bool(rate) and isinstance(rate[0], tuple)


def _pairs(name: str, given: Any) -> tuple[tuple[Any, Any], ...]:
    if given is None:
        return ()
    items = tuple(given.items()) if isinstance(given, Mapping) else tuple(given)
    if not all(isinstance(item, tuple) and len(item) == 2 for item in items):
        raise LearningError(f"{name} is {given!r}: give a mapping")
    return items


def _range(name: str, rate: Any) -> Rate:
    """A probability, or a pair of them in order."""
    try:
        values = np.asarray(rate, np.float64)
        limits = [float(v) for v in np.atleast_1d(values)]
    except (TypeError, ValueError):
        limits = []
    if len(limits) not in (1, 2) or not 0 <= limits[0] <= limits[-1] <= 1:
        raise LearningError(f"{name} is {rate!r}: give a number from 0 to 1, or (least, largest)")
    return limits[0] if len(limits) == 1 else (limits[0], limits[1])


def _low_high(rate: Rate) -> tuple[float, float]:
    return rate if isinstance(rate, tuple) else (rate, rate)


def _narrow(limits: tuple[Floats, Floats], at: Any, rate: Rate) -> None:
    """Cut the range of one probability."""
    low, high = _low_high(rate)
    limits[0][at], limits[1][at] = max(limits[0][at], low), min(limits[1][at], high)


def _empty(lower: Floats, upper: Floats) -> bool:
    return bool((lower > upper).any() or lower.sum() > 1 + SLACK or upper.sum() < 1 - SLACK)


def _group(name: Any, groups: Groups) -> int:
    code = groups.code(name)
    return _refused("group", name, groups.names) if code is None else code


def _class(name: Any, classes: Sequence[Any]) -> int:
    found = [k for k, known in enumerate(classes) if name in (known, str(known))]
    return found[0] if found else _refused("class", name, map(str, classes))


def _refused(what: str, name: Any, known: Iterable[str]) -> NoReturn:
    raise LearningError(
        f"knowledge names the {what} {name!r}, which is not there: use {', '.join(known)}"
    )


def _words(rate: Rate) -> str:
    low, high = _low_high(rate)
    return f"= {low:g}" if low == high else f"from {low:g} to {high:g}"


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
