"""Kernels compiled aside are those that a fit calls, and stay in the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairpc.cli import ahead

COMPILED = """
import sys
from numba.core import event

class Watch(event.Listener):
    def on_start(self, event):
        print("compiles", event.data["dispatcher"].__name__)

    def on_end(self, event):
        pass

event.register("numba:compile", Watch())
from fairpc.cli import main
main(sys.argv[1:])
"""


def run(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, *arguments]
    return subprocess.check_output(command, env=environment, cwd=folder, text=True)


@pytest.mark.slow
def test_a_fit_compiles_nothing_after_all_stages(tmp_path: Path) -> None:
    run(tmp_path, "-m", "fairpc.cli.ahead", str(os.getpid()), *ahead.STAGES)
    run(tmp_path, "-c", COMPILED, "data", "german", "-o", "german.csv")
    roles = "--label", "loan_status", "--sensitive", "sex", "-o", "model.fairpc"
    for structure in ("auto", "strudel"):
        fit = "fit", "german.csv", *roles, "--structure", structure
        assert "compiles" not in run(tmp_path, "-c", COMPILED, *fit)


def test_the_first_run_starts_a_process_and_later_ones_do_not(tmp_path: Path) -> None:
    code = (
        "from fairpc.cli import ahead\n"
        "ahead._started = print\n"
        "ahead.compile_aside(('boxes', 'state'))"
    )
    os_threads = {"FAIRPC_THREADS": "2", "NUMBA_CACHE_DIR": str(tmp_path)}

    def printed(**more: str) -> str:
        environment = os.environ | os_threads | more
        return subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)

    assert printed(FAIRPC_THREADS="1", NUMBA_CACHE_DIR=str(tmp_path / "alone")) == ""
    assert printed() == "('boxes', 'state')\n"
    assert printed() == ""


@pytest.mark.parametrize("name", ahead.STAGES)
def test_no_stage_reaches_beyond_an_array(name: str) -> None:
    """Compiled code would write there unseen; as Python it is an error."""
    code = f"from fairpc.cli import ahead; ahead.STAGES[{name!r}](); print('called')"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    assert subprocess.check_output(command, env=environment, text=True) == "called\n"


def test_stages_end_with_the_process_they_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setitem(ahead.STAGES, "boxes", lambda: called.append("boxes"))
    ahead.main([str(os.getppid()), "boxes"])
    assert called == ["boxes"]
    ahead.main([str(os.getpid()), "boxes"])
    assert called == ["boxes"]
