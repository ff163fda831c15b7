"""The frame of the page: one file, with a policy that allows its own scripts and no others."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from fairpc.report import text
from fairpc.report.view import Section

_ALWAYS: Final = ("page.js",)
_QUESTIONS: Final = ("engine.js", "what_if.js")


@dataclass(frozen=True)
class Page:
    """What is written: title, sections, and the data of the questions, if there are any."""

    title: str
    subtitle: str
    version: str
    sections: tuple[Section, ...]
    closing: str
    data: Mapping[str, Any] | None = None

    def html(self) -> str:
        """The page as text; the same page gives the same bytes."""
        css = _static("page.css")
        names = _ALWAYS if self.data is None else (*_ALWAYS, *_QUESTIONS)
        scripts = [_static(name) for name in names]
        return (
            _environment()
            .get_template("page.html")
            .render(
                title=self.title,
                subtitle=self.subtitle,
                version=self.version,
                sections=self.sections,
                closing=self.closing,
                css=css,
                scripts=scripts,
                policy=policy(scripts, css),
                data=None if self.data is None else embedded(self.data),
            )
            .lstrip()
            + "\n"
        )


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


def _static(name: str) -> str:
    return (files("fairpc.report") / "static" / name).read_text("utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("fairpc.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = text.prose
    return environment
