"""A folder with a small table, a model of it and its audit; each test gets its own copy."""

from __future__ import annotations

import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from cli.calls import FIT, small_table
from fairpc.cli import main


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fitted")
    (folder / "t.csv").write_text(small_table())
    with pytest.raises(SystemExit) as ended:
        main(["fit", str(folder / "t.csv"), *FIT, "-o", str(folder / "m.fairpc"), "--quiet"])
    assert ended.value.code == 0
    return folder


@pytest.fixture(scope="session")
def audit_of_fitted(fitted: Path) -> str:
    """What ``fairpc audit --json`` prints of the table and its model."""
    printed = StringIO()
    files = [str(fitted / "m.fairpc"), str(fitted / "t.csv")]
    with redirect_stdout(printed), pytest.raises(SystemExit) as ended:
        main(["audit", *files, "--json", "--quiet"])
    assert ended.value.code == 0
    return printed.getvalue()


@pytest.fixture
def folder(fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: t.csv and m.fairpc."""
    for path in fitted.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
