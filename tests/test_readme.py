"""The examples of README.md run, and print what they say they print."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def examples() -> str:
    """All Python blocks, one after the other: later ones may use earlier names."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.M | re.S))


def test_examples_print_what_they_say() -> None:
    test = doctest.DocTestParser().get_doctest(examples(), {}, "README.md", str(README), 0)
    assert len(test.examples) >= 10
    shown: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(
        test, out=shown.append
    )
    assert result.failed == 0, "".join(shown)


def test_linked_files_exist() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README.read_text("utf-8"))
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []
