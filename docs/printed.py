"""Runs the examples of README.md and of the pages in docs/, and writes into them what they print.

    python docs/printed.py                     every page and notebook, rewritten in place
    python docs/printed.py README.md           some of them
    python docs/printed.py --check             rewrite nothing; end with 1 if something differs

What is run, in the order of a page, in one name space and one folder:

- a block ``python``; a block ``text`` right below it is what it prints;
- each ``$ command`` of a block ``console``; the lines below it are what it prints;
- the code cells of a notebook; their output is what they print.

``<!-- from FILE -->`` … ``<!-- end -->`` holds the first table of a file in benchmarks/results,
which a benchmark wrote. The image below ``<!-- top of FILE -->`` shows the top of an HTML file that
the page's examples wrote; Chromium takes it anew where it is installed. Where output has … in it,
that stands for anything: such output is compared and not rewritten.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *(p for p in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in p.parts),
]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))

RELATIVE, UNITS = 0.05, 3
"""How far a printed number may be off: 5 % of it, or three units of its last digit, whichever is
more. Models give the same bits on one machine; other libraries and processors move last digits."""

_BLOCK = re.compile(
    r"^```(?P<language>python|console)\n(?P<text>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?"
    r"|^<!-- from (?P<file>\S+) -->\n(?P<table>.*?)^<!-- end -->\n",
    re.MULTILINE | re.DOTALL,
)
_PICTURE = re.compile(r"^<!-- top of (?P<file>\S+) -->\n!\[.*\]\((?P<picture>\S+)\)$", re.MULTILINE)
_BROWSER = "chromium"
_SHOWN = "headless no-sandbox disable-gpu disable-background-networking no-first-run"
_SHOWN += " hide-scrollbars window-size=900,1500"
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
_SECONDS = re.compile(r"\b\d+(?:\.\d+)?(?= ?s\b)")
_PROGRESS = re.compile(r"^fairpc: note: compiling.*\n|^.*, [\d,]+ s: .*\n", re.MULTILINE)
_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


class Shown(NamedTuple):
    """What an example printed, and what its page says that it prints."""

    where: str
    code: str
    found: str
    expected: str
    span: tuple[int, int]  #: of the expected text in the page

    @property
    def loose(self) -> bool:
        return "…" in self.expected

    def agrees(self) -> bool:
        if self.loose:
            wanted = self.expected.replace("…", "...")
            return doctest.OutputChecker().check_output(wanted, self.found, _FLAGS)
        return same(self.expected, self.found)


def same(expected: str, found: str) -> bool:
    """The same words, and numbers within the tolerance; seconds may be any."""
    one, other = (_SECONDS.sub("T", text.strip()) for text in (expected, found))
    words = [re.sub(r"[ \t─━-]+", " ", _NUMBER.sub("#", text)) for text in (one, other)]
    if [line.strip() for line in words[0].splitlines()] != [
        w.strip() for w in words[1].splitlines()
    ]:
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(_near(a, b) for a, b in pairs)


def _near(a: str, b: str) -> bool:
    digits = len(a.partition(".")[2])
    x, y = (float(text.replace(",", "")) for text in (a, b))
    return abs(x - y) <= max(RELATIVE * abs(x), UNITS * 10.0**-digits) + 1e-12


def examples(page: Path) -> list[re.Match[str]]:
    return list(_BLOCK.finditer(page.read_text("utf-8")))


def run(page: Path) -> list[Shown]:
    """Run a page in the present folder."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    shown: list[Shown] = []
    for block in examples(page):
        if block["file"]:
            shown.append(_copied(page, block))
        elif block["language"] == "console":
            shown += _commands(page, block)
        elif ">>>" in block["text"]:
            _session(block["text"], scope, page)
        else:
            found = _executed(block["text"], scope, page)
            if block["shown"] is not None:
                shown.append(
                    Shown(page.name, block["text"], found, block["shown"], block.span("shown"))
                )
    return shown


def _copied(page: Path, block: re.Match[str]) -> Shown:
    text = (ROOT / block["file"]).read_text("utf-8")
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    if table is None:
        raise ValueError(f"{block['file']} has no table")
    return Shown(page.name, block["file"], table[0], block["table"], block.span("table"))


def _executed(text: str, scope: dict[str, Any], page: Path) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, str(page), "exec"), scope)
    return printed.getvalue()


def _session(text: str, scope: dict[str, Any], page: Path) -> None:
    test = doctest.DocTestParser().get_doctest(text, scope, page.name, str(page), 0)
    test.globs = scope  # the parser copies it
    lines: list[str] = []
    runner = doctest.DocTestRunner(optionflags=_FLAGS)
    if runner.run(test, out=lines.append, clear_globs=False).failed:
        raise AssertionError("".join(lines))


def _commands(page: Path, block: re.Match[str]) -> Iterator[Shown]:
    """Each command, which must end well, where its page shows what it prints."""
    at = block.start("text")
    for part in re.split(r"^(?=\$ )", block["text"], flags=re.MULTILINE):
        start, at = at, at + len(part)
        if not part.startswith("$ "):
            continue
        lines = part.splitlines(keepends=True)
        n = 1
        while lines[n - 1].rstrip("\n").endswith("\\"):
            n += 1
        command = "".join(lines[:n])[2:].replace("\\\n", " ").strip()
        code, found = _called(command)
        if code:
            raise AssertionError(f"$ {command}\n{found}")
        expected = "".join(lines[n:])
        if expected.strip():
            head = start + len("".join(lines[:n]))
            yield Shown(page.name, command, found, expected, (head, at))


def _called(command: str) -> tuple[Any, str]:
    """A command of ours in this process, which has imported everything; others by a shell."""
    words = shlex.split(command)
    if words[0] != "fairpc" or {"|", "&&", ";"} & set(words):
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            command,
            shell=True,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr
    from fairpc.cli import main

    printed, errors = io.StringIO(), io.StringIO()
    into = Path(words[words.index(">") + 1]) if ">" in words else None
    given = words[1 : words.index(">")] if into else words[1:]
    code: Any = None
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(errors),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        try:
            main(given)
        except SystemExit as ended:
            code = ended.code
    if into:
        into.write_text(printed.getvalue(), "utf-8")
    return code, ("" if into else printed.getvalue()) + _PROGRESS.sub("", errors.getvalue())


def take_pictures(page: Path) -> None:
    """What a browser shows of the HTML files that the examples of a page wrote."""
    from PIL import Image

    for image in _PICTURE.finditer(page.read_text("utf-8")):
        if shutil.which(_BROWSER) is None:
            print(f"{image['picture']}: not taken, because {_BROWSER} is not installed")
            continue
        picture = page.parent / image["picture"]
        own = f"user-data-dir={Path('browser').resolve()}", f"screenshot={picture}"
        options = (f"--{option}" for option in (*_SHOWN.split(), *own))
        command = [_BROWSER, *options, Path(image["file"]).resolve().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        Image.open(picture).convert("RGB").quantize(128).save(picture, optimize=True)


def run_notebook(notebook: Path) -> list[tuple[str, str, str]]:
    """Code, what it printed and what the notebook shows, cell by cell."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            code = "".join(cell["source"])
            shown = "".join(text for out in cell["outputs"] for text in out["text"])
            found.append((code, _executed(code, scope, notebook), shown))
    return found


def rewrite_notebook(notebook: Path, printed: list[str]) -> None:
    content = json.loads(notebook.read_text("utf-8"))
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    for n, (cell, found) in enumerate(zip(cells, printed, strict=True), 1):
        stream = {
            "name": "stdout",
            "output_type": "stream",
            "text": found.splitlines(keepends=True),
        }
        cell["execution_count"], cell["outputs"] = n, [stream] if found else []
    notebook.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


def rewritten(text: str, shown: list[Shown]) -> str:
    for each in sorted(shown, key=lambda s: s.span, reverse=True):
        if not each.loose:
            body = "\n".join(line.rstrip() for line in each.found.strip("\n").splitlines())
            text = text[: each.span[0]] + body + "\n" + text[each.span[1] :]
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    asked = [page.resolve() for page in given.pages] or [*PAGES, *NOTEBOOKS]
    os.environ.update(COLUMNS="100", MPLBACKEND="agg")
    off = 0
    for page in asked:
        name = page.relative_to(ROOT)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            if page.suffix == ".ipynb":
                cells = run_notebook(page)
                apart = [code for code, found, shown in cells if not same(shown, found)]
                if not given.check:
                    rewrite_notebook(page, [found for _, found, _ in cells])
            elif not examples(page):
                continue
            else:
                shown = run(page)
                apart = [each.code for each in shown if not each.agrees()]
                if not given.check:
                    text = page.read_text("utf-8")
                    page.write_text(rewritten(text, shown), "utf-8")
                    take_pictures(page)
        off += len(apart)
        print(f"{name}: {len(apart)} outputs differ" if apart else f"{name}: as printed")
        for code in apart:
            print("    " + code.strip().replace("\n", "\n    ")[:300])
    return int(given.check and off > 0)


if __name__ == "__main__":
    sys.exit(main())
