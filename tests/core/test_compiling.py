"""Compilation is announced, once, needs no cache, and goes one way."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import config

import fairpc
from fairpc.core import _compiling

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


def test_structure_is_learned_where_nothing_can_be_cached(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "file" / "cache")}
    command = [sys.executable, "-c", NO_CACHE]
    output = subprocess.check_output(
        command, env=environment, text=True, stderr=subprocess.STDOUT
    ).splitlines()
    assert output[-1] == "learned 3"
    notices = [line for line in output if "set NUMBA_CACHE_DIR to a folder that can" in line]
    assert len(output) == 2
    assert len(notices) == 1


def installed(folder: Path) -> Path:
    """A copy of the package, as another environment has it."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(fairpc.__file__).parent, folder / "fairpc", ignore=ignored)
    return folder


def run_installed(site: Path, caches: Path) -> list[str]:
    """What a copy says that keeps its kernels in a user's cache."""
    others = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    homes = dict.fromkeys(("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"), str(caches))
    environment = others | homes | {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", SCRIPT, "int16"]
    output = subprocess.check_output(command, env=environment, text=True, stderr=subprocess.STDOUT)
    return output.splitlines()[1:]


def test_another_environment_finds_what_was_compiled(tmp_path: Path) -> None:
    first, second = installed(tmp_path / "first"), installed(tmp_path / "second")
    assert len(run_installed(first, tmp_path / "user")) == 1
    assert run_installed(second, tmp_path / "user") == []
    # Kernels call those of other modules: another source of one of them is another cache.
    with (second / "fairpc/structure/_kernels.py").open("a") as source:
        source.write("# changed\n")
    assert len(run_installed(second, tmp_path / "user")) == 1
    assert not list(tmp_path.glob("*/fairpc/*/__pycache__"))


READ_ONLY = (
    """
from numba.core import caching

def refuse(self):
    raise PermissionError("read-only")

caching._CacheLocator.ensure_cache_path = refuse
"""
    + SCRIPT
)


def test_compiled_kernels_are_found_where_nothing_can_be_written(tmp_path: Path) -> None:
    run(tmp_path, "int16")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for dtype, notices in (("int16", 0), ("int32", 2)):
        command = [sys.executable, "-c", READ_ONLY, dtype]
        said = subprocess.check_output(
            command, env=environment, text=True, stderr=subprocess.STDOUT
        ).splitlines()
        assert len(said) == 1 + notices


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no mode there")
def test_code_is_kept_where_only_its_owner_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    folder = _compiling.kernel_folder.__wrapped__()
    assert folder is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    for path, mode in ((folder, 0o702), (folder, 0o720), (folder.parent, 0o777)):
        path.chmod(mode)
        assert _compiling.kernel_folder.__wrapped__() is None
        path.chmod(0o700)
    folder.parent.chmod(0o777)
    run(tmp_path, "int16")
    assert not list(tmp_path.rglob("*.nb?"))
    folder.parent.chmod(0o700)
    if os.getuid() == 0:
        os.chown(folder, 12345, 12345)
        assert _compiling.kernel_folder.__wrapped__() is None


def test_a_link_that_is_changed_later_leads_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder like /tmp, somebody else may have made the link, and still owns it."""
    own = tmp_path / "own"
    own.mkdir(0o700)
    (tmp_path / "fairpc").symlink_to(own)
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    folder = _compiling.kernel_folder.__wrapped__()
    assert folder is not None
    assert folder.parent == own.resolve()


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
