"""Sentences about arguments of Python, said for who gives options.

In our errors an argument begins the sentence ("n_bins is 'a': …") or stands with an equals sign
("name it with numeric=…", "structure='auto'"); ordinary words have none.
"""

from __future__ import annotations

import re
from typing import Final

OPTIONS: Final = {
    "categorical": "--categorical",
    "checkpoint": "--checkpoint",
    "max_memory": "--max-memory",
    "missing_values": "--missing",
    "n_bins": "--bins",
    "n_components": "--components",
    "numeric": "--numeric",
    "positive": "--positive",
    "random_state": "--seed",
    "sensitive": "--sensitive",
    "structure": "--structure",
}
"""Argument of the models and of ``fit``, and the option that sets it."""

_NAMES: Final = "|".join(OPTIONS)
_BEGINS: Final = re.compile(rf"(^|: )({_NAMES})(?= is )")
_SET: Final = re.compile(rf"(?<![\w'\"])({_NAMES})=(?:…|'(\w+)')")


def as_options(text: str) -> str:
    """A sentence with options in place of arguments."""
    text = _BEGINS.sub(lambda m: m[1] + OPTIONS[m[2]], text)
    return _SET.sub(lambda m: OPTIONS[m[1]] + (f" {m[2]}" if m[2] else ""), text)
