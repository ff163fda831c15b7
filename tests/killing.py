"""Processes to be killed: a program forks them, so that all is imported once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROGRAM = Path(__file__).with_name("models") / "killed_fit.py"


class Parent:
    """The program that forks children to be killed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout

    def run(self, *task: object, kill_after: float | None = None, number: int = 9) -> int:
        """How a child ended that was given a task, and killed after so many seconds."""
        self._in.write(json.dumps([str(item) for item in task]) + "\n")
        self._in.flush()
        child = int(self._out.readline())
        if kill_after is not None:
            time.sleep(kill_after)
            with suppress(ProcessLookupError):
                os.kill(child, number)
        return int(self._out.readline())


@contextmanager
def forking(**environment: str) -> Iterator[Parent]:
    """The program, for a block."""
    pipe = subprocess.PIPE
    # A fork waits for the threads of BLAS, now and then for ever: there are to be none.
    alone = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    settings = os.environ | alone | environment
    command = [sys.executable, str(PROGRAM)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=settings) as process:
        try:
            yield Parent(process)
        finally:
            process.kill()
