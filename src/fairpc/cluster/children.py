"""What the workers of this machine load first."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Leave Ctrl-C, which a terminal sends to all, to the process that ends its workers with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
