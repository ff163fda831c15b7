"""The page of an audit: one file, with a policy that allows its own scripts and no others."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from fairpc.auditing import (  # noqa: F401
    _agreement_section,
    _decidable_section,
    _gaps_section,
    _mechanism_section,
    _overview_section,
    _patterns_section,
    _strata_section,
)
from fairpc.auditing import _text as text
from fairpc.auditing._audit import Audit
from fairpc.auditing._background_section import questions
from fairpc.auditing._view import shown

_CLOSING: Final = ("limits", "provenance")
"""Sections that end the page; the others come in the order of the record."""


def render(audit: Audit) -> str:
    """An audit as one HTML page; equal facts, equal bytes."""
    data, made, asked = audit.data, audit.provenance, questions(audit)
    scripts = [static("page.js")]
    if asked is not None:
        scripts += [static("engine.js"), static("what_if.js")]
    css = static("page.css")
    names = [field.name for field in fields(Audit) if field.name != "left_out"]
    template = environment().get_template("page.html")
    page = template.render(
        title=f"{text.short(data.label, 60)} by {text.listed(data.sensitive)}",
        subtitle=f"A {made.model} model on {text.counted(data.n_rows, 'row')}, "
        f"audited {made.date[:10]}",
        version=text.name(made.versions.get("fairpc", "")),
        sections=[shown(audit, name) for name in sorted(names, key=_CLOSING.__contains__)],
        closing=audit.verdict.disclaimer,
        css=css,
        scripts=scripts,
        policy=policy(scripts, css),
        data=None if asked is None else embedded(asked),
    )
    return page.lstrip() + "\n"


def policy(scripts: Sequence[str], css: str) -> str:
    """A Content-Security-Policy that allows these scripts and this style, and no request at all."""
    allowed = " ".join(_digest(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_digest(css)}; "
        "base-uri 'none'; form-action 'none'"
    )


def embedded(data: Mapping[str, Any]) -> str:
    """JSON that can stand inside a script element: it holds no sign that HTML would read."""
    written = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        written = written.replace(sign, f"\\u{ord(sign):04x}")
    return written


def _digest(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def static(name: str) -> str:
    """A script or a style of a page."""
    return (files("fairpc.auditing") / "static" / name).read_text("utf-8")


@cache
def environment() -> Environment:
    """Templates in which every text is escaped, and none hides or reorders what is shown."""
    made = Environment(
        loader=PackageLoader("fairpc.auditing"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: text.visible(value) if isinstance(value, str) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["prose"] = text.prose
    return made
