"""Calls of ``fairpc.evidence`` with odd arrays: an answer, or a sentence."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pandas as pd
import polars as pl

from battery.attacks import Difference, Suite, Verdict
from fairpc import evidence

_N: Final = 40


class Arrays(Suite):
    name, full = "arrays", 1_500

    def prepare(self) -> None:
        """Nothing is written."""

    def attack(self, rng: random.Random) -> tuple[str, Callable[[], Verdict]]:
        name = rng.choice(list(_CALLS))
        positional, options = _CALLS[name]
        draw = np.random.default_rng(rng.randrange(2**32))
        given = [_sound(kind, draw) for kind in positional]
        named = {k: _sound(kind, draw) for k, kind in options.items() if rng.random() < 0.15}
        if name == "test_assumptions":  # eleven are asked for otherwise, and take their time
            named.setdefault("n_seeds", 1)
        words, places = [], [*range(len(given)), *options]
        for place in rng.sample(places, min(len(places), rng.choice((1, 1, 1, 2)))):
            old = given[place] if isinstance(place, int) else _sound(options[place], draw)
            change = rng.choice(list(_ODD))
            odd = _ODD[change](old, draw, rng)
            words.append(f"{place} {change}")
            if isinstance(place, int):
                given[place] = odd
            else:
                named[place] = odd
        return f"{name}: {', '.join(words)}", lambda: _called(name, given, named)


def _called(name: str, given: list[Any], named: dict[str, Any]) -> Verdict:
    """The answer, which is readable, and the same for equal arrays of another kind."""
    call = getattr(evidence, name)
    with np.errstate(all="ignore"):
        found = call(*given, **named)
        said = _read(found)
        again = _read(call(*map(_listed, given), **{k: _listed(v) for k, v in named.items()}))
    if said != again:
        raise Difference(f"{said[:150]} became {again[:150]}")
    return Verdict.SAME


def _listed(value: Any) -> Any:
    """The same values as a plain list, where an array has them."""
    if isinstance(value, np.ma.MaskedArray) or not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind not in "biuf" or value.dtype.itemsize > 8 or value.ndim != 1:
        return value
    return value.tolist()


def _read(found: Any) -> str:
    asked = [getattr(found, name, None) for name in ("summary", "to_dict", "gaps")]
    return " ".join(repr(method()) for method in asked if callable(method)) or repr(found)


def _sound(kind: str, draw: np.random.Generator) -> Any:
    """What such an argument should be."""
    match kind:
        case "scores":
            return draw.random(_N)
        case "groups":
            return np.array(["a", "b"])[np.arange(_N) % 2]
        case "labels":
            return draw.integers(0, 2, _N)
        case "table":
            return draw.normal(size=(_N, 3))
        case "strata":
            return np.array(["u", "v", "w"])[draw.integers(0, 3, _N)]
        case "weights":
            return draw.random(_N) + 0.5
        case "counts":
            return draw.integers(1, 5, _N)
        case "persons":
            return draw.integers(0, 20, _N)
        case "shares":
            return draw.dirichlet([1, 1, 1], _N)
        case _:
            return _FIXED[kind]


_FIXED: Final[dict[str, Any]] = {
    "level": 0.9,
    "number": 0.5,
    "whole": 3,
    "one": 1,
    "test": "cross-fit",
    "classifier": "logistic",
    "seeds": [0, 1],
    "ends": {"a": (0.0, 1.0), "b": (0.1, 0.9)},
    "range": (0.2, 0.8),
}
"""Sound options that are not arrays."""

_Odd = Callable[[Any, np.random.Generator, random.Random], Any]


def _with(*values: Any) -> _Odd:
    """One cell, or the whole argument, replaced by an odd value."""

    def change(old: Any, draw: np.random.Generator, rng: random.Random) -> Any:
        value = rng.choice(values)
        if not isinstance(old, np.ndarray) or rng.random() < 0.15:
            return value
        cells = old.astype(object)
        cells.flat[rng.randrange(cells.size)] = value
        if rng.random() < 0.5 and isinstance(value, float | int) and old.dtype.kind in "if":
            with np.errstate(all="ignore"):
                try:
                    return cells.astype(np.float64)
                except (TypeError, ValueError, OverflowError):
                    return cells
        return cells

    return change


class _Nameless:
    """An object that cannot be compared or hashed."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise TypeError("no")


def _array(value: Any) -> Any:
    return np.asarray(value, None if isinstance(value, np.ndarray | float | int) else object)


def _as(dtype: str) -> _Odd:
    def change(old: Any, draw: np.random.Generator, rng: random.Random) -> Any:
        array = _array(old)
        try:
            with np.errstate(all="ignore"):
                return array.astype(dtype)
        except (TypeError, ValueError, OverflowError):
            return np.zeros(array.shape).astype(dtype)

    return change


def _masked(old: Any, draw: np.random.Generator, rng: random.Random) -> Any:
    array = _array(old)
    return np.ma.MaskedArray(array, mask=draw.random(array.shape) < 0.2)


def _structured(old: Any, draw: np.random.Generator, rng: random.Random) -> Any:
    return np.zeros(len(np.atleast_1d(old)), [("a", "f8"), ("b", "U3")])


def _cells(array: Any, inside: Any) -> Any:
    """An array of objects that are not numbers, or groups."""
    found = np.empty(array.shape, dtype=object)
    for place in range(found.size):
        found.flat[place] = inside
    return found


def _shape(make: Callable[[Any], Any]) -> _Odd:
    return lambda old, draw, rng: make(_array(old))


_ODD: Final[dict[str, _Odd]] = {
    "NaN": _with(np.nan, None, float("nan"), np.datetime64("NaT", "s"), pd.NA, pd.NaT),
    "infinite": _with(np.inf, -np.inf, 1e308, -1e308, 1e999),
    "out of range": _with(-1, 2, -0.5, 1.5, 0, 1e-320, 10**30, 2**63, -(10**400), 10**400),
    "text": _with("x", "", "0.5", "\ud800", "\x1b[31m", "a" * 100_000, b"bytes", "nan"),
    "objects": _with([], {}, (1, 2), {1}, object(), [1, [2]], _Nameless(), Decimal("0.5")),
    "numbers of other kinds": _with(Fraction(1, 2), Decimal("NaN"), 1j, True, np.float16(0.5)),
    "times": _with(
        dt.date(2020, 1, 1), dt.datetime.now(dt.UTC), dt.timedelta(1), np.datetime64(0, "s")
    ),
    "complex": _as("c16"),
    "bool": _as("?"),
    "int8": _as("i1"),
    "float16": _as("f2"),
    "long double": _as("g"),
    "big-endian": _as(">f8"),
    "unsigned": _as("u8"),
    "datetimes": _as("M8[s]"),
    "durations": _as("m8[s]"),
    "strings": _as("U8"),
    "byte strings": _as("S8"),
    "void": _as("V8"),
    "object": _as("O"),
    "masked": _masked,
    "structured": _structured,
    "empty": _shape(lambda a: a[:0] if a.ndim else a),
    "short": _shape(lambda a: a[:-1] if a.ndim else a),
    "one row": _shape(lambda a: a[:1] if a.ndim else a),
    "two rows": _shape(lambda a: a[:2] if a.ndim else a),
    "long": _shape(lambda a: np.concatenate([a, a]) if a.ndim else a),
    "two columns": _shape(lambda a: np.stack([a, a], axis=-1)),
    "one column": _shape(lambda a: a[..., None]),
    "three axes": _shape(lambda a: a[..., None, None]),
    "no axis": _shape(lambda a: a.ravel()[0] if a.size else a),
    "constant": _shape(lambda a: np.full_like(a, a.ravel()[0]) if a.size else a),
    "reversed": _shape(lambda a: a[::-1] if a.ndim else a),
    "read-only": _shape(lambda a: np.broadcast_to(a.ravel()[0], a.shape) if a.size else a),
    "list": _shape(lambda a: a.tolist()),
    "ragged": _shape(lambda a: [[1, 2], [3], *a.tolist()] if a.ndim else [[1], [1, 2]]),
    "set": _shape(lambda a: set(map(repr, a.ravel().tolist()))),
    "mapping": _shape(lambda a: {"a": a}),
    "generator": _shape(lambda a: (v for v in a.ravel())),
    "pandas": _shape(lambda a: pd.Series(a) if a.ndim == 1 else pd.DataFrame(np.atleast_2d(a))),
    "pandas with holes": _shape(
        lambda a: (
            pd.Series(a, dtype="object").where(np.arange(len(a)) % 7 > 0) if a.ndim == 1 else a
        )
    ),
    "nullable": _shape(
        lambda a: (
            pd.array([None, *a.tolist()[1:]], dtype="Float64")
            if a.ndim == 1 and a.dtype.kind in "if" and len(a)
            else a
        )
    ),
    "categories": _shape(lambda a: pd.Categorical(a) if a.ndim == 1 else a),
    "polars": _shape(lambda a: pl.Series(a) if a.ndim == 1 else a),
    "negative": _shape(lambda a: -a if a.dtype.kind in "if" else a),
    "zeros": _shape(lambda a: np.zeros(a.shape)),
    "huge": _shape(lambda a: np.full(a.shape, 10**30, dtype=object)),
    "largest": _shape(lambda a: np.full(a.shape, 2**64 - 1, np.uint64)),
    "tiny": _shape(lambda a: a * 5e-324 if a.dtype.kind == "f" else a),
    "large": _shape(lambda a: a * 1e308 if a.dtype.kind == "f" else a),
    "empty categories": _shape(
        lambda a: (
            pd.Categorical(a, categories=[*dict.fromkeys(a.tolist()), "nobody", "b2"])
            if a.ndim == 1 and a.dtype.kind in "Uif"
            else a
        )
    ),
    "one group": _shape(lambda a: np.full(a.shape, "a")),
    "a group of one": _shape(lambda a: np.array(["a"] * (a.size - 1) + ["b"]) if a.size else a),
    "a group each": _shape(lambda a: np.arange(a.size)),
    "lists inside": _shape(lambda a: _cells(a, [0.5])),
    "arrays inside": _shape(lambda a: _cells(a, np.ones(2))),
    "numbers and text": _shape(lambda a: np.array([*a.ravel().tolist()[1:], "x"], dtype=object)),
    "matrix": _shape(lambda a: np.asmatrix(a) if a.ndim and a.dtype.kind in "if" else a),
    "every other": _shape(lambda a: np.repeat(a, 2, axis=0)[::2] if a.ndim else a),
    "polars with holes": _shape(
        lambda a: pl.Series([None, *a.tolist()[1:]]) if a.ndim == 1 and a.size else a
    ),
    "polars categories": _shape(
        lambda a: pl.Series(a).cast(pl.Categorical) if a.ndim == 1 and a.dtype.kind == "U" else a
    ),
    "arrow": _shape(lambda a: pl.Series(a).to_arrow() if a.ndim == 1 and a.size else a),
    "a frame": _shape(lambda a: pl.DataFrame({"a": a}) if a.ndim == 1 else a),
    "a lazy frame": _shape(lambda a: pl.LazyFrame({"a": a}) if a.ndim == 1 else a),
    "a file": lambda old, draw, rng: rng.choice(("/etc/passwd", "../t.csv", b"t.csv")),
    "a function": lambda old, draw, rng: len,
    "a word": lambda old, draw, rng: rng.choice(("x", "auto", "mixture", "shared")),
    "a number": lambda old, draw, rng: rng.choice((0, 1, -1, 0.5, np.nan, np.inf, 10**400, True)),
}

_CALLS: Final[dict[str, tuple[tuple[str, ...], dict[str, str]]]] = {
    "parity": (
        ("scores", "groups"),
        {
            "given": "strata",
            "threshold": "number",
            "level": "level",
            "clusters": "persons",
            "sample_weight": "weights",
            "counts": "counts",
        },
    ),
    "equal_rates": (
        ("scores", "groups"),
        {"y": "labels", "threshold": "number", "rate": "number", "sample_weight": "weights"},
    ),
    "identified_set": (
        ("scores", "groups"),
        {
            "given": "strata",
            "ends": "ends",
            "pi": "range",
            "n_points": "whole",
            "counts": "counts",
        },
    ),
    "test_assumptions": (
        ("table", "labels", "groups"),
        {
            "given": "strata",
            "positive": "one",
            "level": "level",
            "n_seeds": "whole",
            "seeds": "seeds",
            "clusters": "persons",
            "sample_weight": "weights",
            "classifier": "classifier",
            "method": "test",
        },
    ),
}
"""Positional arguments and options of each function, by what they should be."""
