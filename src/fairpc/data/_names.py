"""What people call columns and their values, and values that only look like two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from shlex import quote

from fairpc.core import TableError, alike

GivenNames = Mapping[str, str | Mapping[str, str]]
"""Column -> its own name, or value -> what it is called, in which "" is the column."""
Names = Mapping[str, Mapping[str, str]]
"""The same, where each column has a mapping."""


def checked_names(given: GivenNames | None, known: Mapping[str, Iterable[str]]) -> Names:
    """Names of some columns, whose values are ``known``; a TableError for others."""
    asked = dict[str, dict[str, str]]()
    for column, names in (given or {}).items():
        if column not in known:
            raise TableError(
                f"names has the column {column!r}: name values of {', '.join(map(repr, known))}"
            )
        texts = {"": names} if isinstance(names, str) else names
        own = asked[column] = {value.strip(): name for value, name in texts.items()}
        values = tuple(known[column])
        for value in own:
            if value and value not in values:
                there = ", ".join(map(repr, values[:10]))
                raise TableError(f"names has the value {value!r} of {column!r}, which has {there}")
        called = [own.get(value, value) for value in values]
        if not all(name.strip() for name in own.values()):
            raise TableError(f"names of {column!r} has one without a letter: give words")
        if len(set(called)) < len(called):
            raise TableError(f"names gives two values of {column!r} the same name: use two names")
    return asked


def refuse_alike(
    what: str, column: str, values: Iterable[object], names: GivenNames | None = None
) -> None:
    """A TableError where two values of a label or group differ by case alone, as slips do.

    Who calls one of them by another name says that they are two.
    """
    given = (names or {}).get(column, {})
    own = {} if isinstance(given, str) else {value.strip(): n for value, n in given.items()}
    called = {own.get(value, value): value for value in values if isinstance(value, str)}
    if (pair := alike(called)) is None:
        return
    one, other = (called[name] for name in pair)
    named = quote(f"{column}={other}:NAME")
    raise TableError(
        f"{what} {column!r} has {one!r} and {other!r}, which differ by case alone: write both one "
        f"way, or, if they are not the same, give one a name at the fit (--name {named}; "
        f"names={{{column!r}: {{{other!r}: NAME}}}})"
    )
