"""The page of an audit: five chapters, of which those without facts are not shown; and its card.

What an audit cannot know a card names as to be filled in. No name from data can be markup.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from markupsafe import Markup

from fairpc.auditing import _blocks as blocks, _formats as text
from fairpc.auditing._given_decisions import DECISIONS, NO_MODEL

_HYPHEN: Final = "\N{NON-BREAKING HYPHEN}"
# What begins markup anywhere in a line. Signs of HTML become entities, which every dialect reads.
_SIGNS: Final = re.compile(r"([\\`*_\[\]|~$^#])")
_ENTITIES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_LINKS: Final = re.compile(r"(?i)\b(https?|ftp|mailto|xmpp)(:)|\b(www)(\.)|(?<=\w)()(@)(?=\w)")
# What begins a list, a rule or a heading at the start of a line.
_START: Final = re.compile(r"^(\d+(?=[.)](?:\s|$)))?([+=.)-])")


def render(audit: blocks.Audit) -> str:
    """An audit as one HTML page; equal facts, equal bytes."""
    data, made = audit.data, audit.provenance
    what = "Decisions" if made.model == DECISIONS else f"A {made.model} model"
    date = made.date[:10].replace("-", _HYPHEN)
    title = data.title or f"{text.short(data.label, 60)} by {text.listed(data.sensitive)}"
    chapters = []
    for key, name, sections, gist in CHAPTERS:
        shown = tuple(part for section in sections for part in _part(audit, section))
        if shown:
            chapters.append(blocks.Chapter(key, name, gist(audit), shown))
    version = text.name(made.versions.get("fairpc", ""))
    return blocks.page(
        title=title,
        subtitle=f"{what} on {text.counted(data.n_rows, 'row')}, audited {date}",
        version=version,
        chapters=chapters,
        closing=f"Made with fairpc {version}.",
    )


def _part(audit: blocks.Audit, name: str) -> Iterator[blocks.Section]:
    (title, show), facts = blocks.SHOWN[name], getattr(audit, name)
    if facts is not None:
        yield blocks.Section(name, title, tuple(show(audit, facts)))
    elif name == "error_rates" and audit.left_out.get(name, NO_MODEL) != NO_MODEL:
        # People ask for these first: where they are not there, the page says what would give them.
        why = blocks.Paragraph(blocks.reason(audit, name), "note")
        yield blocks.Section(name, title, (why,))


def _gaps(audit: blocks.Audit) -> str:
    parts = {
        "Recorded": () if audit.labels is None else audit.labels.disparities,
        "decided": () if audit.parity is None else audit.parity.decisions,
    }
    gaps = {name: max(d.gap for d in found) for name, found in parts.items() if found}
    said = ", ".join(f"{name} {text.size(gap)}" for name, gap in gaps.items())
    return f"{said[:1].upper()}{said[1:]} points apart" if said else ""


def _bias(audit: blocks.Audit) -> str:
    facts = audit.mechanism
    if facts is None:
        return "How often decisions err" if audit.error_rates is not None else ""
    if facts.withheld or audit.verdict.withdrawn:
        return "Learned by the model, not a finding"
    known = [c for c in facts.altered if c.range and c.decision == facts.positive]
    if not known:
        return "A point, whose range is not known"
    named = sorted(known, key=lambda cell: -cell.range[1] if cell.range else 0.0)[:2]
    each = ", ".join(f"{text.short(c.group, 20)} {text.at_most(c.range)}" for c in named)
    return f"Deserved {audit.data.due}, recorded otherwise: {each}"


def _evidence(audit: blocks.Audit) -> str:
    found = audit.decidable
    word = {True: "contradicted", False: "not contradicted", None: "not tested"}[found.rejected]
    learned = found.learned
    left = "" if learned is None else f"; fair rate {text.span((learned.lower, learned.upper))}"
    return f"Assumptions {word}{left}"


CHAPTERS: Final[tuple[tuple[str, str, tuple[str, ...], Callable[[blocks.Audit], str]], ...]] = (
    ("verdict", "Verdict", ("verdict", "review"), lambda _: ""),
    (
        "gaps",
        "Gaps",
        ("labels", "parity", "group_hidden", "factors", "subgroups"),
        _gaps,
    ),
    ("label-bias", "Label bias", ("mechanism", "error_rates", "strata"), _bias),
    (
        "evidence",
        "Evidence",
        ("decidable", "review_plan", "group_metrics"),
        _evidence,
    ),
    (
        "appendix",
        "Appendix",
        ("data", "provenance"),
        lambda _: "The data, versions and settings",
    ),
)
"""Key and title of each chapter, the sections of the audit that are its parts, and its gist."""


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
