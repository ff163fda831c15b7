"""What it costs a reader to refuse a file, measured in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

_CODE = """
import importlib, json, re, sys, time
from pathlib import Path
module, function, *arguments = sys.argv[1:]
read = getattr(importlib.import_module(module), function)
from fairpc.errors import FileFormatError
start = time.process_time()
sum(i * i for i in range(2_000_000))
yardstick = time.process_time() - start
start = time.process_time()
try:
    read(*arguments)
    message = None
except FileFormatError as error:
    message = str(error)
seconds = time.process_time() - start
status = Path("/proc/self/status")
peak = re.search(r"VmHWM:\\s*(\\d+)", status.read_text()) if status.exists() else None
print(json.dumps([message, seconds / yardstick, int(peak[1]) / 1024 if peak else 0.0]))
"""


@dataclass(frozen=True)
class Refusal:
    """The sentence (None if accepted), its cost, and the peak memory (0 where not known).

    The cost is in units of two million products in Python, about .13 s, in the same process: a busy
    machine slows down both.
    """

    message: str | None
    cost: float
    mebibytes: float


def refusal(module: str, function: str, *arguments: object) -> Refusal:
    """What happens when ``function`` reads a hostile file."""
    done = subprocess.run(
        [sys.executable, "-c", _CODE, module, function, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return Refusal(*json.loads(done.stdout))


def assert_refused(found: Refusal, words: str) -> None:
    """Refused with these words, within about 2 s of an idle machine, and 512 MB."""
    assert found.message is not None, "the file was accepted"
    assert words in found.message
    assert "\n" not in found.message
    assert found.cost < 15
    assert found.mebibytes < 512
