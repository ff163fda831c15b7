"""A model card in Markdown, from the facts of an audit.

What an audit cannot know is named as to be filled in. No name from data can be markup.
"""

from __future__ import annotations

import re
from typing import Any, Final

from markupsafe import Markup

from fairpc.auditing import _blocks as blocks, _formats as text

# What begins markup anywhere in a line. Signs of HTML become entities, which every dialect reads.
_SIGNS: Final = re.compile(r"([\\`*_\[\]|~$^#])")
_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_LINKS: Final = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)|(?<=\w)()(@)(?=\w)")
# What begins a list, a rule or a heading at the start of a line.
_START: Final = re.compile(r"^(\d+(?=[.)](?:\s|$)))?([+=.)-])")


def model_card(audit: blocks.Audit) -> str:
    """The card of what was audited; its front matter is YAML, each value written as JSON."""
    made = blocks.environment().overlay(finalize=escaped)
    made.filters["estimate"] = lambda one: text.bracketed(one.value, one.interval)
    return made.get_template("card.md").render(audit=audit, text=text).lstrip()


def escaped(value: Any) -> Any:
    """A text in one line that Markdown shows as it is, wherever it stands."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    line = " ".join(text.breaks(text.prose(value)).split())
    line = _SIGNS.sub(r"\\\1", line.translate(_ENTITIES))
    line = _LINKS.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", line)
    return Markup(_START.sub(r"\1\\\2", line))  # noqa: S704 - HTML was escaped above
