"""Where the checkout is, and the data beside it; who imports this can import ``reproduction``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # of a script only its own folder is on the path


def data_folder(variable: str, name: str) -> Path | None:
    """The folder that a variable names, or that beside the repository; None where neither is."""
    found = Path(os.environ.get(variable) or ROOT.parent / "shared" / "data" / name)
    return found if found.is_dir() else None
