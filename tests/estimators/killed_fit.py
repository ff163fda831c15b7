"""A program to be killed: it fits, or saves again and again, and says when it begins."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from fairpc import FairPC, load
from fairpc.fair import journal


def main() -> None:
    task, source, folder, target = sys.argv[1:5]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if task == "save":
        models = [load(path) for path in sorted(Path(source).glob("*.json"))]
        while True:
            for model in models:
                model.save(target)
    journal.EVERY = 0.02
    options = {"structure": task, "max_iter": 120, "tol": 0.0, "random_state": 0}
    model = FairPC("sex", **options)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(source, "label", checkpoint=folder, max_memory=sys.argv[5])
    model.save(target)


if __name__ == "__main__":
    main()
