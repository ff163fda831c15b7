"""Settings of an estimator as data."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpc.fair.knowledge import Knowledge


def plain(value: Any) -> Any:
    """A setting as JSON; None for what is none (a random generator has no spelling)."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Knowledge):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool) else None
