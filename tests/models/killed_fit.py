"""A program whose children are to be killed: each saves again and again, or runs a command.

It reads a task per line, forks a child for it, writes the child's number, and when the
child is over how it ended. All is imported once, and nothing is run before a fork.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from pathlib import Path

from fairpc import load
from fairpc.cli import main as main_of_commands
from fairpc.errors import FairpcError


def save(models: str, target: str) -> None:
    """Save one model after the other to the same file, for ever."""
    loaded = [load(path) for path in sorted(Path(models).glob("*.json"))]
    while True:
        for model in loaded:
            model.save(target)


def child(task: str, *arguments: str) -> int:
    warnings.simplefilter("ignore")
    try:
        if task == "save":
            save(*arguments)
        main_of_commands(list(arguments))
    except SystemExit as end:
        return int(end.code or 0)
    except FairpcError:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    warnings.simplefilter("ignore")  # a fork of a process with threads is meant
    for line in sys.stdin:
        number = os.fork()
        if not number:
            os.dup2(2, 1)  # what a command prints must not pass for an answer of this program
            code = 1
            try:
                code = child(*json.loads(line))
            finally:
                os._exit(code)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
        status = os.waitpid(number, 0)[1]
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
