"""What verifying costs when models are loaded: load ÷ the same load that believes its file.

    python benchmarks/loading.py [MODEL.fairpc ...]

Without files, models of Adult are fitted first. Both loads are run in turns and the least CPU
seconds of each are compared. Both parse the file within its limits and compare its checksum; what
is left out in one is every look at what the file claims.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from clock import timed
from fairpc import FairPC, LatentDecision, load
from fairpc.datasets import load_adult
from fairpc.models import Forest
from fairpc.models import _circuit_file as circuit_file
from fairpc.models import _file as file

ROUNDS = 40


def models(folder: Path) -> Iterator[Path]:
    """Files of models of Adult."""
    adult = load_adult()
    kinds: dict[str, Any] = {
        "forest": FairPC(structure="forest", random_state=0),
        "strudel": FairPC(structure="strudel", random_state=0),
        "4 components": FairPC(n_components=4, random_state=0),
        "latent": LatentDecision(random_state=0),
    }
    for name, model in kinds.items():
        path = folder / f"{name}.fairpc"
        model.fit(adult.X, adult.y, sensitive_features=adult.sensitive).save(path)
        yield path


@contextmanager
def believing() -> Iterator[None]:
    """A block in which no claim of a file is verified."""
    with ExitStack() as stack:
        for holder, name in (
            (file, "_verify_read"),
            (circuit_file, "verify_claims"),
            (circuit_file, "verify_parity"),
        ):
            stack.enter_context(mock.patch.object(holder, name))
        for name in ("_shapes_fit", "_numbers_fit", "_boxes_fit"):
            stack.enter_context(mock.patch.object(Forest, name, return_value=True))
        yield


def main() -> None:
    """Print a line per file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'model':16}{'MB':>8}{'believed, ms':>14}{'verified, ms':>14}{'ratio':>8}")
        for path in given.files or models(Path(folder)):
            load(path)
            found: list[tuple[float, float]] = []
            for _ in range(ROUNDS):
                _, verified = timed(partial(load, path))
                with believing():
                    found.append((timed(partial(load, path))[1], verified))
            believed, verified = map(min, zip(*found, strict=True))
            size = path.stat().st_size / 2**20
            times = f"{1e3 * believed:14.1f}{1e3 * verified:14.1f}{verified / believed:8.2f}"
            print(f"{path.stem:16}{size:8.2f}{times}")


if __name__ == "__main__":
    main()
