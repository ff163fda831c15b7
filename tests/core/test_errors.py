"""What fairpc raises and says."""

from __future__ import annotations

import pytest

from fairpc.core import counted


@pytest.mark.parametrize(
    ("n", "word", "plural", "said"),
    [
        (0, "row", None, "0 rows"),
        (1, "row", None, "1 row"),
        (1234, "row", None, "1,234 rows"),
        (1, "row counts", "rows count", "1 row counts"),
        (2, "class", "classes", "2 classes"),
    ],
)
def test_one_is_not_many(n: int, word: str, plural: str | None, said: str) -> None:
    assert counted(n, word, plural) == said
