"""``python -m fairpc.compile`` leaves nothing to compile."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fairpc

PACKAGE = Path(fairpc.__file__).parent
KERNEL = re.compile(r"^@(?:strict_)?kernel\ndef (\w+)", re.MULTILINE)


def kernels() -> set[str]:
    """Those of all modules, as files of the cache name them."""
    return {
        f"{path.stem}.{name}-fairpc.{path.parent.name}.{path.stem}"
        for path in PACKAGE.glob("*/*_kernels.py")
        for name in KERNEL.findall(path.read_text("utf-8"))
    }


@pytest.mark.slow
def test_every_kernel_is_compiled_and_a_fit_finds_it(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    printed = subprocess.check_output(
        [sys.executable, "-m", "fairpc.compile"], env=environment, text=True
    )
    folder = Path(printed.removeprefix("All kernels are compiled, in ").strip())
    assert folder.parent == tmp_path / "fairpc"
    assert len(kernels()) > 30
    assert {re.sub(r"-\d+\.\w+$", "", path.stem) for path in folder.glob("*.nbi")} == kernels()
    before = sorted(path.name for path in folder.iterdir())
    for words in (["data", "loans", "-o", "l.csv"], FIT):
        command = [sys.executable, "-c", "from fairpc.cli import main; main()", *words]
        subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True)
    assert sorted(path.name for path in folder.iterdir()) == before


FIT = [
    "fit",
    "l.csv",
    "--label",
    "approved",
    "--positive",
    "yes",
    "--sensitive",
    "sex",
    "-o",
    "m.fairpc",
]
