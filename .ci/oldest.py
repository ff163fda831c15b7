"""Print the oldest dependencies that pyproject.toml allows, as constraints for pip.

python .ci/oldest.py [EXTRA …]
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))[
    "project"
]


def oldest(requirement: str) -> str:
    """`name>=1.2` as `name==1.2`."""
    found = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", requirement)
    if found is None:
        sys.exit(f"{requirement!r} has no lower bound alone: write it as name>=version")
    return "==".join(found.groups())


def main(extras: list[str]) -> None:
    """Of the core, and of the extras."""
    wanted = [*PROJECT["dependencies"]]
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    print("\n".join(map(oldest, wanted)))


if __name__ == "__main__":
    main(sys.argv[1:])
