"""A folder with a small table and a model of it; each test gets its own copy."""

from __future__ import annotations

import shutil
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


@pytest.fixture
def folder(fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: t.csv and m.fairpc."""
    for path in fitted.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
