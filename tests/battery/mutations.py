"""Changes of bytes, of lines of text and of JSON, drawn at random; none knows a format."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

Json = Any
Change = Callable[[random.Random, bytes], bytes]

RAW: Final = ("1e999", "-1e999", "1E400", "NaN", "Infinity", "-Infinity", "1" * 400, "-0", "1e-999")
"""Numbers that JSON can spell, or that Python reads although JSON has no word for them."""
_RAW_MARK: Final = "\x00raw:"

ODD: Final[tuple[Json, ...]] = (
    *(None, True, False, 0, 1, -1, 2, 255, 2**15, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1),
    *(10**30, 10**300, 0.5, -0.5, 1.5, 1e308, -1e308, 5e-324, 1e-12, 12.7, -0.0, 0.1 + 0.2),
    *("", "x", "0", "*", "^a$", "^.*$", "\ud800", "a\udfffb", "\x00", "\x1b[31m", "\u202e", "é"),
    *("../../etc/passwd", "__class__", "=1+1", "auto", "FairPC", "a" * 100_000, "\n", "nan"),
    *([], {}, [[]], [None], {"a": 1}, [1, "a"], [0.5, 0.5], [[0.5], [0.5, 0.5]], {"": []}),
)
"""Values that readers trip over."""


def raw(text: str) -> str:
    """A string that ``dumps`` writes as this text, without quotation marks."""
    return f"{_RAW_MARK}{text}"


def dumps(content: Json) -> bytes:
    """JSON, in which what ``raw`` made stands as it is."""
    text = json.dumps(content, separators=(",", ":"))
    mark = json.dumps(_RAW_MARK)[:-1]
    for some in RAW:
        text = text.replace(f'{mark}{some}"', some)
    return text.encode()


def changed_bytes(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """A few bytes altered, lost, doubled, moved."""
    name = rng.choice(list(_BYTES))
    return f"bytes: {name}", _BYTES[name](rng, data) if data else b"x"


def _place(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 1, 2, 8, 64, 1000)))


def _flipped(rng: random.Random, data: bytes) -> bytes:
    altered = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 3, 20))):
        altered[rng.randrange(len(altered))] ^= 1 << rng.randrange(8)
    return bytes(altered)


def _digit(rng: random.Random, data: bytes) -> bytes:
    places = [i for i, b in enumerate(data) if 48 <= b <= 57] or [0]
    at = rng.choice(places)
    return data[:at] + str(rng.randrange(10)).encode() + data[at + 1 :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _lost(rng: random.Random, data: bytes) -> bytes:
    start, stop = _place(rng, data)
    return data[:start] + data[stop:]


def _doubled(rng: random.Random, data: bytes) -> bytes:
    start, stop = _place(rng, data)
    return data[:stop] + data[start:]


def _moved(rng: random.Random, data: bytes) -> bytes:
    start, stop = _place(rng, data)
    rest = data[:start] + data[stop:]
    at = rng.randrange(len(rest) + 1)
    return rest[:at] + data[start:stop] + rest[at:]


def _noise(rng: random.Random, data: bytes) -> bytes:
    start, stop = _place(rng, data)
    return data[:start] + rng.randbytes(stop - start) + data[stop:]


_SIGNS: Final = (
    *(b" ", b"\n", b"\r\n", b"\0", b"\xef\xbb\xbf", b"\xff"),
    *(b"{", b"]", b",", b'"', b"\\u", b"-"),
)
"""Bytes that mean something to a reader."""


def _inserted(rng: random.Random, data: bytes) -> bytes:
    start, _ = _place(rng, data)
    return data[:start] + rng.choice(_SIGNS) + data[start:]


def _zeros(rng: random.Random, data: bytes) -> bytes:
    start, stop = _place(rng, data)
    return data[:start] + bytes(stop - start) + data[stop:]


_BYTES: Final[dict[str, Change]] = {
    "flipped": _flipped,
    "a digit": _digit,
    "cut": _cut,
    "lost": _lost,
    "doubled": _doubled,
    "moved": _moved,
    "noise": _noise,
    "inserted": _inserted,
    "zeros": _zeros,
    "emptied": lambda rng, data: b"",
    "twice": lambda rng, data: data + data,
}


def changed_tree(rng: random.Random, content: Json, others: Sequence[Json]) -> tuple[str, Json]:
    """A place deep inside of JSON altered; some values are taken from ``others``."""
    content = copy.deepcopy(content)
    for _ in range(20):
        holder, key = _inside(rng, content)
        name = rng.choice(list(_TREE))
        if _TREE[name](rng, holder, key, others):
            return f"tree: {name}", content
    holder[key] = None
    return "tree: nulled", content


def _inside(rng: random.Random, content: Json) -> tuple[Any, Any]:
    """A place: deep ones as likely as those at the top, or every kind as likely as any other."""
    if rng.random() < 0.5:
        kinds: dict[tuple[str, ...], list[tuple[Any, Any]]] = {}
        _walk(content, (), kinds)
        if kinds:
            return rng.choice(rng.choice(list(kinds.values())))
    holder, part = None, content
    key: Any = None
    while isinstance(part, dict | list) and part and (holder is None or rng.random() < 0.8):
        holder = part
        key = rng.choice(list(part)) if isinstance(part, dict) else rng.randrange(len(part))
        part = part[key]
    return holder, key


_ENDS: Final = 3
"""Items at either end of a long list that stand for all of them."""


def _walk(
    part: Json, kind: tuple[str, ...], kinds: dict[tuple[str, ...], list[tuple[Any, Any]]]
) -> None:
    """Collect places by their kind: the names on the way to them, whatever the place in a list."""
    if isinstance(part, dict):
        keys: list[Any] = list(part)
    else:
        n = len(part) if isinstance(part, list) else 0
        keys = [i for i in range(n) if i < _ENDS or i >= n - _ENDS]
    for key in keys:
        here = (*kind, key if isinstance(part, dict) else "")
        kinds.setdefault(here, []).append((part, key))
        _walk(part[key], here, kinds)


def _odd(rng: random.Random, holder: Any, key: Any, others: Sequence[Json]) -> bool:
    holder[key] = rng.choice(ODD) if rng.random() < 0.8 else raw(rng.choice(RAW))
    return True


def _nudged(rng: random.Random, holder: Any, key: Any, others: Sequence[Json]) -> bool:
    value = holder[key]
    if isinstance(value, bool):
        holder[key] = rng.choice((not value, int(value)))
    elif isinstance(value, int):
        near = (value + 1, value - 1, -value, value * 2)
        holder[key] = rng.choice((*near, float(value), str(value), value + 0.5, value > 0))
    elif isinstance(value, float):
        moved = value * (1 + 1e-6)
        holder[key] = rng.choice((moved, -value, value + 1, 1 - value, str(value), value > 0.5))
    elif isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        inserted = value[:at] + rng.choice("x 0f\n") + value[at:]
        replaced = value[:at] + rng.choice("x 0f") + value[at + 1 :]
        holder[key] = rng.choice((inserted, replaced, value[:at], value.swapcase(), [value]))
    else:
        return False
    return True


def _gone(rng: random.Random, holder: Any, key: Any, others: Sequence[Json]) -> bool:
    del holder[key]
    return True


def _more(rng: random.Random, holder: Any, key: Any, others: Sequence[Json]) -> bool:
    if isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
    else:
        holder[rng.choice((f"{key}_", "", "__class__", "é"))] = holder[key]
    return True


def _swapped(rng: random.Random, holder: Any, key: Any, others: Sequence[Json]) -> bool:
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    other = rng.choice(keys)
    holder[key], holder[other] = holder[other], holder[key]
    return True


def _shortened(rng: random.Random, holder: Any, key: Any, others: Sequence[Json]) -> bool:
    value = holder[key]
    if not (isinstance(value, list) and value):
        return False
    holder[key] = rng.choice((value[:-1], value[1:], value[::-1], [], value[:1], value + value))
    return True


def _scaled(rng: random.Random, holder: Any, key: Any, others: Sequence[Json]) -> bool:
    """All numbers of a list: what belongs together stays together."""
    value = holder[key]
    if not isinstance(value, list) or not all(type(v) is float for v in value):
        return False
    by = rng.choice((0.0, -1.0, 0.5, 2.0, 1 + 1e-7, 1e300))
    holder[key] = [v * by if abs(v * by) < 1e308 else 1e308 for v in value]
    return bool(value)


def _moved_mass(rng: random.Random, holder: Any, key: Any, others: Sequence[Json]) -> bool:
    """From one number of a list to another, so that their sum stays: some, all, or too much."""
    value = holder[key]
    if not (isinstance(value, list) and len(value) > 1 and all(type(v) is float for v in value)):
        return False
    value = holder[key] = list(value)
    i, j = rng.sample(range(len(value)), 2)
    some = value[i] * rng.choice((1e-7, 0.1, 0.5, 1.0, 1.0, 1 + 1e-9, 2.0, -1.0))
    value[i], value[j] = value[i] - some, value[j] + some
    if value[i] == 0:
        value[i] = rng.choice((0.0, -0.0, 5e-324, 1e-310, 1e-300, 1e-160, 1e-17, -1e-17))
    return True


def _shuffled(rng: random.Random, holder: Any, key: Any, others: Sequence[Json]) -> bool:
    """What stands in a list, in another order: groups, strata, levels, trees."""
    value = holder[key]
    if not (isinstance(value, list) and len(value) > 1):
        return False
    holder[key] = rng.sample(value, len(value))
    return True


def _transplanted(rng: random.Random, holder: Any, key: Any, others: Sequence[Json]) -> bool:
    """What stands at a place of this name, wherever it is, in another file."""
    if not isinstance(holder, dict):
        return False
    kinds: dict[tuple[str, ...], list[tuple[Any, Any]]] = {}
    _walk(rng.choice(others), (), kinds)
    places = [place for kind, found in kinds.items() if kind[-1] == key for place in found]
    if not places:
        return False
    there, at = rng.choice(places)
    holder[key] = copy.deepcopy(there[at])
    return True


def _grafted(rng: random.Random, holder: Any, key: Any, others: Sequence[Json]) -> bool:
    """What stands at this name, or anywhere, in another file."""
    other = rng.choice(others)
    if isinstance(holder, dict) and isinstance(other, dict) and key in other:
        holder[key] = copy.deepcopy(other[key])
    else:
        place, at = _inside(rng, other)
        holder[key] = copy.deepcopy(place[at])
    return True


_TREE: Final[dict[str, Callable[[random.Random, Any, Any, Sequence[Json]], bool]]] = {
    "odd value": _odd,
    "nudged": _nudged,
    "gone": _gone,
    "more": _more,
    "swapped": _swapped,
    "shortened": _shortened,
    "scaled": _scaled,
    "moved mass": _moved_mass,
    "shuffled": _shuffled,
    "transplanted": _transplanted,
    "grafted": _grafted,
}


def equal(one: Json, two: Json) -> bool:
    """Whether JSON says the same: 1 and 1.0 do, 1 and true do not."""
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, dict) and isinstance(two, dict):
        return set(one) == set(two) and all(equal(one[k], two[k]) for k in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(equal, one, two))
    return bool(one == two)


def changed_lines(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """A line, or a field of one, altered, lost, doubled, swapped."""
    name = rng.choice(list(_LINES))
    lines = data.split(b"\n")
    _LINES[name](rng, lines)
    return f"lines: {name}", b"\n".join(lines)


_WORDS: Final = (
    *(b"0", b"1", b"-1", b"2", b"7", b"1.5", b"-0.0", b"-inf", b"inf", b"nan", b"1e999", b"-1e999"),
    *(b"9" * 30, b"9223372036854775808", b"-9223372036854775808", b"x", b"L", b"T", b"D", b"c"),
    *(b"", b"-", b"1_0", b"0x1", b"\xff", "٣".encode(), b"psdd", b"vtree", b"-745", b"-1e308"),
)


def _field(rng: random.Random, lines: list[bytes]) -> None:
    at = rng.randrange(len(lines))
    words = lines[at].split(b" ")
    place = rng.randrange(len(words))
    if rng.random() < 0.5:
        other = rng.choice(lines).split(b" ")
        words[place] = rng.choice(other)
    else:
        words[place] = rng.choice(_WORDS)
    lines[at] = b" ".join(words)


def _swapped_fields(rng: random.Random, lines: list[bytes]) -> None:
    at = rng.randrange(len(lines))
    words = lines[at].split(b" ")
    i, j = rng.randrange(len(words)), rng.randrange(len(words))
    words[i], words[j] = words[j], words[i]
    lines[at] = b" ".join(words)


def _swapped_lines(rng: random.Random, lines: list[bytes]) -> None:
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]


def _line_gone(rng: random.Random, lines: list[bytes]) -> None:
    del lines[rng.randrange(len(lines))]


def _line_twice(rng: random.Random, lines: list[bytes]) -> None:
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))


def _nudged_log(rng: random.Random, lines: list[bytes]) -> None:
    at = rng.randrange(len(lines))
    words = lines[at].split(b" ")
    numbers = [i for i, word in enumerate(words) if b"." in word]
    if numbers:
        place = rng.choice(numbers)
        size = rng.choice((1e-12, 1e-7, 1e-6, 1e-4, 0.1, 10.0))
        try:
            words[place] = repr(float(words[place]) * (1 + size)).encode()
        except ValueError:
            words[place] = b"-1"
    lines[at] = b" ".join(words)


def _renumbered(rng: random.Random, lines: list[bytes]) -> None:
    """A number wherever it stands as one of a node: huge, negative, or that of another node.

    The second turns a tree into a loop, or two nodes into one.
    """
    nodes = [i for i, line in enumerate(lines) if len(line.split(b" ")) > 2]
    if not nodes:
        return
    old = lines[rng.choice(nodes)].split(b" ")[1]
    other = lines[rng.choice(nodes)].split(b" ")[1]
    new = rng.choice((*_HUGE, other, other, other))
    for i in nodes if rng.random() < 0.6 else rng.sample(nodes, 1):
        lines[i] = b" ".join(new if word == old else word for word in lines[i].split(b" "))


_HUGE: Final = (b"2147483648", b"4294967296", b"99999999999", b"9" * 30, b"-1", b"9" * 5000)


_LINES: Final[dict[str, Callable[[random.Random, list[bytes]], None]]] = {
    "a field": _field,
    "fields swapped": _swapped_fields,
    "swapped": _swapped_lines,
    "gone": _line_gone,
    "twice": _line_twice,
    "nudged": _nudged_log,
    "renumbered": _renumbered,
    "reversed": lambda rng, lines: lines.reverse(),
    "many": lambda rng, lines: lines.extend([rng.choice(lines)] * 3000),
}
