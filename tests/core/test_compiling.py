"""Compilation is announced, once, needs no cache, and goes one way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import fairpc

SCRIPT = """
import logging
import sys
logging.basicConfig(level=logging.INFO, format="%(message)s")
import numba
import numpy as np
from fairpc.data._kernels import pair_ids

numba.njit(lambda x: x + 1)(2)
print("foreign code was compiled", flush=True)
for name in sys.argv[1:]:
    a = np.zeros(3, name)
    pair_ids(a, a, 1, 1, np.empty(3, np.int64), np.empty(3, np.int64))
"""


def run(folder: Path, *dtypes: str) -> list[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", SCRIPT, *dtypes]
    output = subprocess.check_output(command, env=environment, text=True, stderr=subprocess.STDOUT)
    return output.splitlines()


def test_the_first_compilation_is_logged_and_later_processes_need_none(tmp_path: Path) -> None:
    said = "compiling what this needs for the first time: some seconds, and then it is kept"
    foreign = "foreign code was compiled"
    assert run(tmp_path, "int16", "int32") == [foreign, said]
    assert run(tmp_path, "int16", "int32") == [foreign]
    assert run(tmp_path, "int32", "int64") == [foreign, said]


NO_CACHE = """
import warnings
from numba.core import caching

def refuse(self):
    raise PermissionError("read-only")

caching._CacheLocator.ensure_cache_path = refuse
import numpy as np
from fairpc.data._table import Table
from fairpc.structure import learn

codes = np.random.default_rng(0).integers(0, 2, (60, 3)).astype(np.int16)
circuit = learn(Table.of(codes), method="chow-liu")
print("learned", circuit.graph.n_variables, flush=True)
"""


def test_structure_is_learned_where_nothing_can_be_cached() -> None:
    command = [sys.executable, "-c", NO_CACHE]
    output = subprocess.check_output(command, text=True, stderr=subprocess.STDOUT).splitlines()
    assert output[-1] == "learned 3"
    notices = [line for line in output if "set NUMBA_CACHE_DIR to a folder that can" in line]
    assert len(output) == 2
    assert len(notices) == 1


FIRST = """
import gc
import numpy as np
from numba.core import event
from fairpc.data._kernels import pair_ids

class Watch(event.Listener):
    def on_start(self, event):
        print("collects" if gc.isenabled() else "garbage waits")

    def on_end(self, event):
        pass

event.register("numba:compile", Watch())
a = np.zeros(3, np.int16)
pair_ids(a, a, 1, 1, np.empty(3, np.int64), np.empty(3, np.int64))
print("collected" if gc.isenabled() else "never collected")
"""


def test_garbage_waits_while_kernels_are_compiled(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", FIRST]
    printed = subprocess.check_output(command, env=environment, text=True).splitlines()
    assert set(printed[:-1]) == {"garbage waits"}
    assert printed[-1] == "collected"


def test_there_is_one_way_to_compile() -> None:
    package = Path(fairpc.__file__).parent
    using = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"^\s*(import|from) numba|njit\(", path.read_text(), re.MULTILINE)
    }
    assert using == {"core/_compiling.py"}
