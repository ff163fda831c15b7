"""Profiles of hypothesis: "fast" by default, "all" by HYPOTHESIS_PROFILE=all.

Both are derandomized, so that the same commit always sees the same examples.
How many examples "all" and "fast" mean is said by ``strategies.examples``.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

for name in ("fast", "all"):
    settings.register_profile(
        name,
        max_examples=100 if name == "all" else 10,
        deadline=None,
        derandomize=True,
        print_blob=True,
        # All but Phase.explain, which takes minutes on circuits and says little.
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        # Growing a circuit draws much; that is what it is for.
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
# A shell starts background jobs with Ctrl-C ignored, and children inherit that; tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_configure(config: pytest.Config) -> None:
    """NumPy warns of what compiled code does silently: log 0, 0 · inf, integers that wrap."""
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        for words in ("overflow", "divide by zero", "invalid value"):
            config.addinivalue_line("filterwarnings", f"ignore:{words} encountered:RuntimeWarning")


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port of this machine that refuses connections: it is ours, and nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
