"""Numbers of people that are too small to be reported: what a record says in their place.

A record that counts people loses the numbers that are about fewer of them than a limit, and of the
count it says no more than "fewer than 5". Where one part of a whole is hidden, the next smaller
part is hidden with it, or the whole would give it away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, Self, TypeVar

import numpy as np

from fairpc.core._arrays import Bools, Floats, Ints

R = TypeVar("R")
COUNTS: Final = frozenset(
    ("n", "n_rows", "n_selected", "n_labelled", "n_grouped", "n_unknown", "n_left_out")
)
"""Fields that are numbers of people."""
WHOLES: Final = {"n_selected": "n"}
"""Part -> whole: who is not in a part is a part, too."""
PARTED: Final = frozenset(("strata", "categories", "classes"))
"""Fields whose records are the parts of one whole."""
_NONE: Final = 1e-9  # people, by rounding of sums of weights


class Fewer(int):
    """A number of people that is reported as a limit, or not at all; its largest value."""

    limit: int | None

    @classmethod
    def than(cls, limit: int) -> Self:
        """Under a limit."""
        made = cls(limit - 1)
        made.limit = limit
        return made

    @classmethod
    def hidden(cls, value: int) -> Self:
        """Not small, and not shown: it would give away a number that is."""
        made = cls(value)
        made.limit = None
        return made

    def __str__(self) -> str:
        return "not shown" if self.limit is None else f"fewer than {self.limit}"

    __repr__ = __str__

    def __format__(self, form: str) -> str:
        return str(self)


def is_few(n: Any, least: int) -> bool:
    """Whether a number of people is too small to be reported, and not zero."""
    return isinstance(n, int) and not isinstance(n, bool) and 0 < n < least


def few_labels(hits: Floats | Ints, others: Floats | Ints, least: int) -> Bools:
    """Which parts of a whole tell of few people with a label, or of few without; and as many others
    as it takes, the smallest first, that the whole does not give them away."""

    def few(n: Floats | Ints) -> Bools:
        return np.asarray((n > _NONE) & (n < least - _NONE))

    hidden = few(hits) | few(others)
    for i in np.argsort(hits + others, kind="stable"):
        pooled = np.array([hits[hidden].sum(), others[hidden].sum()])
        if not hidden.any() or not few(pooled).any():
            break
        hidden[i] |= hits[i] + others[i] > 0
    return hidden


def without_few(record: R, least: int) -> R:
    """A record, and all within it, that tells no number about fewer than ``least`` people."""
    return record if least <= 1 else _value(record, least, "")


def _value(value: Any, least: int, name: str) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _record(value, least)
    if isinstance(value, Mapping):
        return {key: _value(own, least, "") for key, own in value.items()}
    if isinstance(value, tuple | list):
        parts = [_value(own, least, "") for own in value]
        if name in PARTED:
            parts = _without_complement(value, parts, least)
        return type(value)(parts) if type(value) in (tuple, list) else value
    return value


def _record(record: Any, least: int) -> Any:
    given = {f.name: getattr(record, f.name) for f in fields(record) if f.init}
    made = {name: _value(own, least, name) for name, own in given.items()}
    main = next((given[name] for name in ("n", "n_rows") if name in given), None)
    if is_few(main, least) or any(_parts_few(given, part, least) for part in WHOLES):
        made = {name: _blank(own) for name, own in made.items()}
    elif isinstance(main, tuple) and any(is_few(n, least) for n in main):
        made = {name: _blanked_at(own, main, least) for name, own in made.items()}
    for name in COUNTS & set(made):
        if is_few(given[name], least):
            made[name] = Fewer.than(least)
        elif name in WHOLES and _parts_few(given, name, least):
            made[name] = Fewer.hidden(given[name])
    changed = {name: own for name, own in made.items() if own is not given[name]}
    return replace(record, **changed) if changed else record


def _parts_few(given: Mapping[str, Any], part: str, least: int) -> bool:
    """Whether a part of a whole, or the rest of it, is of few people."""
    whole = given.get(WHOLES[part])
    if part not in given or not isinstance(whole, int):
        return False
    return is_few(given[part], least) or is_few(whole - given[part], least)


def _without_complement(given: Sequence[Any], parts: list[Any], least: int) -> list[Any]:
    """Where the total gives the hidden parts away, the smallest of the others is hidden, too."""
    sizes = [int(own.n) for own in given if isinstance(getattr(own, "n", None), int)]
    few = [n for n in sizes if is_few(n, least)]
    # One part is the total less the others; two of one person each are known by their sum.
    if len(sizes) < len(given) or not few or (len(few) > 1 and sum(few) >= least):
        return parts
    rest = [i for i, n in enumerate(sizes) if n >= least]
    if rest:
        i = min(rest, key=lambda i: sizes[i])
        parts[i] = replace(_blank(parts[i]), n=Fewer.hidden(sizes[i]))
    return parts


def _blank(value: Any) -> Any:
    """A number as one that is not known; names and counts as they are."""
    if isinstance(value, float):
        return math.nan
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        return type(value)(map(_blank, value))
    if is_dataclass(value) and not isinstance(value, type):
        names = (f.name for f in fields(value) if f.init)
        return replace(value, **{name: _blank(getattr(value, name)) for name in names})
    return value


def _blanked_at(value: Any, n: tuple[Any, ...], least: int) -> Any:
    """Numbers, one per count, without those of few people."""
    if not isinstance(value, tuple) or len(value) != len(n):
        return value
    few = [is_few(own, least) for own in n]
    if value is n or value == n:
        return tuple(Fewer.than(least) if f else own for f, own in zip(few, value, strict=True))
    return tuple(_blank(own) if f else own for f, own in zip(few, value, strict=True))
