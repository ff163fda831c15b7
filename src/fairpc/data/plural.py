"""Numbers of things in a sentence."""

from __future__ import annotations


def counted(n: int, word: str, plural: str | None = None) -> str:
    """1 row, 2 rows, 48,842 rows."""
    return f"{n:,} {word if n == 1 else plural or word + 's'}"
