"""A program that is asked to end removes what it had begun."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import signal, sys, tempfile, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup hands down that it is ignored
import fairpc.cli._bundled
from fairpc.cli import main
from fairpc.core._whole_files import replacing

def slow(*_, **__):
    with replacing("out.csv") as path, tempfile.TemporaryDirectory(dir=".") as folder:
        print("begun", flush=True)
        time.sleep(60)

fairpc.cli._bundled._load = slow
main(["data", "german", "-o", "out.csv"])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_an_ended_command_leaves_nothing(name: str, tmp_path: Path) -> None:
    pipe, number = subprocess.PIPE, getattr(signal, name)
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert len(list(tmp_path.iterdir())) == 2
        process.send_signal(number)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert not list(tmp_path.iterdir())


DONE = """
import atexit, os, signal, sys
from fairpc.cli import main
atexit.register(os.kill, os.getpid(), signal.SIGTERM)
sys.argv = ["fairpc", *sys.argv[1:]]
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["export", "no.fairpc"], 2)])
def test_a_signal_after_the_work_does_not_change_how_it_ended(words: list[str], code: int) -> None:
    ended = subprocess.run([sys.executable, "-c", DONE, *words], capture_output=True, timeout=120)
    assert ended.returncode == code


WAITING = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
import numpy as np
import polars
import fairpc.cli._bundled
from fairpc.cli import main
from fairpc.comparison import compare
from fairpc.core._running import map_in_order

def sleep(*_):
    os.write(1, b"begun\\n")  # in one piece, also where two threads write
    time.sleep(600)

class Slow:
    def get_params(self, deep=False): return {}
    def fit(self, X, y): sleep()
    def predict_proba(self, X): ...

def compared(*_, **__):
    x = np.arange(40) % 5
    compare([Slow()], x[:, None], x % 2, sensitive_features=np.arange(40) % 3, cv=2)

def mapped(*_, **__):
    list(map_in_order(sleep, range(9), 2))

fairpc.cli._bundled._load = {"compared": compared, "mapped": mapped}[sys.argv.pop()]
sys.argv[1:] = ["data", "german", "-o", "-"]
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(
    ("work", "number", "code"),
    [("compared", signal.SIGTERM, 143), ("mapped", signal.SIGINT, 130)],
)
def test_work_of_threads_is_not_waited_for(work: str, number: signal.Signals, code: int) -> None:
    pipe, command = subprocess.PIPE, [sys.executable, "-c", WAITING, work]
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "begun\n"
            process.send_signal(number)
            errors = process.communicate(timeout=120)[1]
        finally:
            process.kill()
    assert process.returncode == code
    assert "Traceback" not in errors


CALLED_BACK = """
import ctypes, signal, time
from fairpc.core._running import ending_on_signals

with ending_on_signals():
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGTERM))()
    time.sleep(60)
print("went on")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_signal_in_what_foreign_code_calls_back_is_not_lost() -> None:
    """Numba compiles so: an exit that is raised there is printed and forgotten."""
    command = [sys.executable, "-c", CALLED_BACK]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 128 + signal.SIGTERM
    assert ended.stdout == ended.stderr == ""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_signal_that_is_ignored_stays_so() -> None:
    code = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from fairpc.core._running import ending_on_signals\n"
        "with ending_on_signals(): signal.raise_signal(signal.SIGHUP)\n"
        "print('went on')"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "went on\n"
