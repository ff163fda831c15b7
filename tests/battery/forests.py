"""Changes of the forest of a model by somebody who knows what its numbers mean.

Sums stay as they are, boxes are exchanged whole, and lists keep their lengths: a reader that looks
at shapes and sums alone takes them.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, Final

from battery.mutations import changed_tree

_PLANTED: Final = {"tree", "allowed", "shares", "values", "leaf_rate"}


def changed_model(rng: random.Random, content: Any, others: list[Any]) -> tuple[str, Any]:
    """Changed as any JSON, or by somebody who knows what a forest is."""
    planted = content.get("forest") if isinstance(content, dict) else None
    if rng.random() < 0.7 or not (isinstance(planted, dict) and set(planted) == _PLANTED):
        return changed_tree(rng, content, others)
    content = copy.deepcopy(content)
    name = rng.choice(list(_FOREST))
    try:
        _FOREST[name](rng, content["forest"])
    except (LookupError, TypeError, ValueError, AttributeError):  # it was changed before
        return changed_tree(rng, content, others)
    return f"forest: {name}", content


def _a_list(rng: random.Random, part: Any) -> list[Any]:
    """One of the lists of numbers in an array."""
    while isinstance(part[0], list):
        part = rng.choice(part)
    found: list[Any] = part
    return found


def _bit_moved(rng: random.Random, forest: Any) -> None:
    """A value that one box allows is allowed by another one."""
    j = rng.randrange(len(forest["allowed"]))
    n, text = len(forest["tree"]), forest["allowed"][j]
    width = len(text) // n
    boxes = [int(text[width * i : width * (i + 1)], 16) for i in range(n)]
    one, two = rng.randrange(n), rng.randrange(n)
    bit = 1 << rng.randrange(4 * width)
    if boxes[one] & bit:
        boxes[one] ^= bit
        boxes[two] |= bit
    forest["allowed"][j] = "".join(f"{box:0{width}x}" for box in boxes)


def _boxes_exchanged(rng: random.Random, forest: Any) -> None:
    """Two boxes change places in one feature, or in all; their rates stay where they are."""
    n = len(forest["tree"])
    one, two = sorted(rng.sample(range(n), 2))
    for j in range(len(forest["allowed"])) if rng.random() < 0.5 else [0]:
        text = forest["allowed"][j]
        w = len(text) // n
        parts = [text[w * i : w * (i + 1)] for i in range(n)]
        parts[one], parts[two] = parts[two], parts[one]
        forest["allowed"][j] = "".join(parts)


def _certain(name: str) -> Callable[[random.Random, Any], None]:
    """One of the numbers of a distribution is 1, and the others are none."""

    def change(rng: random.Random, forest: Any) -> None:
        numbers = _a_list(rng, forest[name])
        at = rng.randrange(len(numbers))
        numbers[:] = [float(i == at) for i in range(len(numbers))]

    return change


def _rare(rng: random.Random, forest: Any) -> None:
    """Values of a feature, in all groups and classes, that hardly ever occur."""
    values, some = rng.choice(forest["values"]), rng.choice((0.0, 5e-324, 1e-320, 1e-300, 1e-30))
    rare, common = rng.sample(range(len(_a_list(rng, values))), 2)
    for clusters in (c for group in values for c in group):
        for numbers in clusters:
            numbers[common] += numbers[rare] - some
            numbers[rare] = some


def _tree_twice(rng: random.Random, forest: Any) -> None:
    n = len(forest["tree"])
    forest["tree"] += [k + forest["tree"][-1] + 1 for k in forest["tree"]]
    forest["allowed"] = [text * 2 for text in forest["allowed"]]
    for rates in (r for group in forest["leaf_rate"] for r in group):
        rates += rates[:n]


_FOREST: Final[dict[str, Callable[[random.Random, Any], None]]] = {
    "a bit moved": _bit_moved,
    "boxes exchanged": _boxes_exchanged,
    "rare values": _rare,
    "trees twice": _tree_twice,
    "an empty group": _certain("group_rate"),
    "one decision": _certain("decision_rate"),
    "a certain label": _certain("mechanism"),
    "one cluster": _certain("shares"),
    "one box": _certain("leaf_rate"),
}
