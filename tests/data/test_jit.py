"""The first compilation is announced, once, and only that of our own kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import logging
logging.basicConfig(level=logging.INFO, format="%(message)s")
import numba
import numpy as np
from fairpc.data._kernels import pair_ids

numba.njit(lambda x: x + 1)(2)
print("foreign code was compiled", flush=True)
for dtype in (np.int16, np.int32):
    a = np.zeros(3, dtype)
    pair_ids(a, a, 1, 1, np.empty(3, np.int64), np.empty(3, np.int64))
"""


def run(folder: Path) -> list[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", SCRIPT]
    output = subprocess.check_output(command, env=environment, text=True, stderr=subprocess.STDOUT)
    return output.splitlines()


def test_the_first_compilation_is_logged_and_later_processes_need_none(tmp_path: Path) -> None:
    first = run(tmp_path)
    assert first[0] == "foreign code was compiled"
    assert len(first) == 2
    assert first[1].startswith("compiling for this machine, once")
    assert run(tmp_path) == ["foreign code was compiled"]
