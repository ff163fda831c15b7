"""The command line as a whole: version, help, and one sentence for what is wrong."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest

import fairpc
from fairpc.cli import main
from fairpc.errors import FairpcError


def ended_with(arguments: list[str]) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended_with(["--version"]) == 0
    assert capsys.readouterr().out == f"fairpc {fairpc.__version__}\n"
    module = [sys.executable, "-m", "fairpc", "--version"]
    assert subprocess.check_output(module, text=True) == f"fairpc {fairpc.__version__}\n"


COMMANDS = ("demo", "fit", "predict", "audit", "query", "export", "data")


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ended_with(arguments) == 0
    assert "Usage: fairpc" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nothing"], ["demo", "--rows", "many"], ["--nothing"]])
def test_wrong_words_end_with_code_two(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended_with(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("fairpc: ")
    assert error.endswith(" --help\n")
    assert error.count("\n") == 1


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        raise FairpcError("column 'sex' has 1 value: give a column with two")

    monkeypatch.setattr("fairpc.cli._bundled.demonstrate", run)


@pytest.mark.usefixtures("broken")
def test_our_errors_are_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended_with(["demo"]) == 2
    shown = capsys.readouterr()
    assert shown.err == "fairpc: column 'sex' has 1 value: give a column with two\n"
    assert shown.out == ""


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("arguments", [["--debug", "demo"], ["demo", "--debug"]])
def test_debug_shows_the_traceback(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended_with(arguments) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback (most recent call last):")
    assert shown.endswith("FairpcError: column 'sex' has 1 value: give a column with two\n")


def test_without_words_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended_with([]) == 2
    shown = capsys.readouterr()
    assert all(f"│ {name} " in shown.out for name in COMMANDS)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, ""),
        (KeyError("x"), 2, "please report it"),
        (MemoryError(), 2, "not enough memory"),
        (OSError(28, "No space left on device", "m.fairpc"), 2, "m.fairpc: No space left"),
        (BrokenPipeError(), 0, ""),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 0, ""),
        (SystemExit(143), 143, ""),
    ],
)
def test_every_end_has_its_code(
    error: BaseException,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("fairpc.cli._bundled._list", run)
    monkeypatch.setattr("os.dup2", lambda *_: None)
    monkeypatch.setattr("os.open", lambda *_: 1)
    monkeypatch.setattr("sys.stdout.fileno", lambda: 1, raising=False)
    assert ended_with(["data"]) == code
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.count("\n") <= 1


def test_help_loads_no_compiler() -> None:
    code = (
        "import sys\nfrom fairpc.cli import main\n"
        "try:\n    main(['--help'])\n"
        "finally:\n    assert not {'numba', 'scipy', 'sklearn', 'polars'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="closes a descriptor by a shell")
def test_a_closed_stdout_is_said_before_the_work(folder: Path) -> None:
    words = "-m fairpc inspect m.fairpc"
    done = subprocess.run(
        f"{quote(sys.executable)} {words} >&-",
        shell=True,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("fairpc: stdout is closed")
    assert len(done.stderr.splitlines()) == 1
