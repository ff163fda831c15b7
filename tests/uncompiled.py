"""Test files run again by themselves, their kernels as plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent


def run_uncompiled(file: str) -> None:
    """Run the ``main`` of a test file without the compiler; what it prints is shown if it fails."""
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(TESTS)]))
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, str(Path(file).resolve())],
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
