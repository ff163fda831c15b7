"""Folders for psdd files."""

from __future__ import annotations

from pathlib import Path

import pytest

from circuit.psdd_files import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture(scope="module")
def one_folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("psdd"))
