"""Levels of a category: counted, rare ones merged, looked up."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairpc.core import Array, Codes, Floats
from fairpc.data._values import EXACT, Values, by_hash, number_texts

Level = str | int | float | bool

MAX_MERGED: Final = 256
"""Merged levels beyond this number are not listed: "other" then takes every other value."""

_DIRECT: Final = 1 << 16
_HEAD: Final = 1000


def levels_of(values: Values) -> tuple[Level, ...]:
    """The distinct values, in alphabetical or numeric order; whole numbers are integers."""
    if values.type == "text":
        return tuple(values.data.drop_nulls().unique().sort().to_list())
    known = values.data[~values.missing()]
    if values.type == "boolean":
        return tuple(bool(v) for v in np.unique(known))
    distinct, _ = distinct_numbers(known)
    if is_integral(distinct):
        return tuple(int(v) for v in distinct.tolist())
    return tuple(distinct.tolist())


def is_integral(numbers: Array) -> bool:
    """Whether all are whole numbers that a float holds exactly; NaN is ignored."""
    if numbers.dtype.kind in "iu":
        return True
    # The first ones are asked first: most fractions are seen at once.
    return _all_integral(numbers[:_HEAD]) and _all_integral(numbers[_HEAD:])


def _all_integral(numbers: Array) -> bool:
    known = numbers[~np.isnan(numbers)]
    return bool(np.all((known == np.floor(known)) & (np.abs(known) < EXACT)))


def merge_rare(weights: Floats, rare: float, max_levels: int) -> tuple[list[int], list[int]]:
    """Which levels stay and which share the level "other", by their number.

    Levels under a share ``rare`` of the weight merge, and the lightest ones
    beyond ``max_levels``. One level alone is not merged: that would only hide its name.
    """
    light = weights < rare * weights.sum()
    if light.sum() == 1:
        light[:] = False
    kept = np.flatnonzero(~light)
    room = max_levels if len(kept) == len(weights) else max_levels - 1
    if len(kept) > room:
        heaviest = kept[np.argsort(-weights[kept], kind="stable")][: max_levels - 1]
        kept = np.sort(heaviest)
    merged = np.setdiff1d(np.arange(len(weights)), kept)
    return kept.tolist(), merged.tolist()


def look_up_text(levels: dict[str, int], texts: Any) -> Codes:
    """Code of each text of a polars series; -1 where it is null or no level."""
    found = by_hash(texts, levels, -1)
    if found is not None:
        return found.astype(np.int16)
    codes = np.array([*levels.values(), -1], np.int16)
    return np.asarray(codes[number_texts(texts, list(levels))], np.int16)


def look_up_numbers(levels: dict[float, int], data: Array) -> Codes:
    """Code of each number; -1 where it is NaN or no level."""
    order = sorted(levels)
    codes = np.array([levels[v] for v in order], np.int16)
    known = np.array(order)
    low, span = int(order[0]), int(order[-1]) - int(order[0]) + 1
    direct = span < _DIRECT and abs(low) < EXACT
    if direct and data.dtype.kind in "iu" and known.dtype.kind == "i":
        table = np.full(span + 2, -1, np.int16)
        table[known - low + 1] = codes
        # Clipped before the subtraction, so that no integer overflows.
        wide = np.clip(data.astype(np.int64, copy=False), low - 1, low + span)
        return table[wide - (low - 1)]
    place = np.searchsorted(known, data)
    place[place == len(known)] = 0
    return np.where(known[place] == data, codes[place], np.int16(-1))


def distinct_numbers(data: Array) -> tuple[Array, Array]:
    """As np.unique with its inverse; without sorting where integers lie close together."""
    if data.dtype.kind in "iu" and len(data):
        low, high = int(data.min()), int(data.max())
        if high - low < _DIRECT:
            offset = np.subtract(data, low, dtype=np.int64)
            counts = np.bincount(offset, minlength=high - low + 1)
            present = np.flatnonzero(counts)
            if len(present) == len(counts):
                return present + low, offset
            rank = np.cumsum(counts > 0) - 1
            return present + low, rank[offset]
    return np.unique(data, return_inverse=True)
