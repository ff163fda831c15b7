"""Commands of a user without a home, where root has installed the package: nothing can be kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fairpc

NOBODY = "65534"
NOTICE = "no folder for compiled code can be written"


def as_nobody(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of this user, who may read everything and write to ``folder`` alone."""
    setpriv = [shutil.which("setpriv"), f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    if setpriv[0] is None or os.geteuid() != 0 or Path(fairpc.__file__).stat().st_uid != 0:
        pytest.skip("needs root, a package that belongs to root, and setpriv")
    # The interpreter of a developer may lie where others cannot read.
    reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    command = [sys.executable, "-c", "from fairpc.cli import main; main()", *arguments]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TMPDIR": str(folder)}
    return subprocess.run(
        [*map(str, setpriv), *reading, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("theirs")
    for parent in (*folder.parents[:2], folder):
        parent.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(folder, int(NOBODY), int(NOBODY))
    return folder


@pytest.mark.slow
def test_every_command_works_with_one_notice(folder: Path) -> None:
    roles = ("--label", "loan_status", "--sensitive", "sex", "-o", "m.fairpc")
    commands = (
        ("data", "german", "-o", "g.csv"),
        ("fit", "g.csv", *roles),
        ("predict", "m.fairpc", "g.csv", "-o", "p.csv"),
        ("audit", "m.fairpc", "g.csv", "-o", "r.html"),
        ("demo",),
    )
    for command in commands:
        ended = as_nobody(folder, *command)
        said = ended.stderr
        assert ended.returncode == 0, said
        assert said.count(NOTICE) == (command[0] != "data"), said
        assert "compiling what this needs" not in said
        assert "Traceback" not in said
    assert {"m.fairpc", "p.csv", "r.html"} <= {path.name for path in folder.iterdir()}
