"""Who may import whom: each module is parsed, and its imports compared with CONTRIBUTING.md.

An import counts wherever it stands: at the top, inside a function, or under ``TYPE_CHECKING`` (to
know a type is to depend on it).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "src" / "fairpc"
CONTRIBUTING = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8")

ROOT = ""
"""The package's own ``__init__``."""
OUTSIDE = {"reproduction", "benchmarks"}
"""What lies beside the package, and is not in the wheel."""
ROOT_NAMES = {"__version__"}
"""What may be taken from the package itself."""
COMPILING = "fairpc.core._compiling"
"""Imported by itself: it loads the compiler, which ``fairpc.core`` must not."""


def listed(first: str) -> list[str]:
    """The lines of an indented listing of CONTRIBUTING.md that begins with this."""
    lines = CONTRIBUTING.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"    {first}"))
    stop = next(i for i in range(start, len(lines)) if not lines[i].startswith("    "))
    return [line[4:] for line in lines[start:stop]]


def directions() -> dict[str, set[str]]:
    """Room -> what it may import besides itself, read from the listing."""
    allowed: dict[str, set[str]] = {}
    for line in listed("core:"):
        room, _, names = line.partition(":")
        words = {name.strip() for name in names.split(",")} - {"nothing"}
        for word in [w for w in words if w.startswith("what ")]:
            words.remove(word)
            words |= allowed[word.split()[1]]
        allowed[room] = set(allowed) if words == {"every room above"} else words
    return allowed


ROOMS = directions()
SINGLE = {p.stem for p in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
"""Modules beside the rooms, under names that people import or run; no room imports them."""
ALLOWED = ROOMS | dict.fromkeys(SINGLE, set(ROOMS) - {"cli"}) | {ROOT: {*ROOMS, *SINGLE} - {"cli"}}
ALLOWED["__main__"] = {"cli"}


def room_of(path: Path) -> str:
    first = path.parts[0].removesuffix(".py")
    return ROOT if first == "__init__" else first


def _imported(node: ast.AST) -> Iterator[str]:
    """Dotted modules that one statement or call imports."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module="fairpc", names=names):
            yield from (f"fairpc.{a.name}" for a in names if a.name not in ROOT_NAMES)
        case ast.ImportFrom(module=str(module), names=names):
            room = re.fullmatch(r"fairpc\.\w+", module)
            inner = [a.name for a in names if room and a.name.startswith("_")]
            yield from (f"{module}.{name}" for name in inner)
            if len(inner) < len(names):
                yield module
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(module)), *_],
        ):
            yield module


def violations(source: str, path: Path) -> list[str]:
    """Imports of ``source``, the module at ``path`` under the package, that are not allowed."""
    here = room_of(path)
    found = []
    for node in ast.walk(ast.parse(source)):
        for module in _imported(node):
            package, _, rest = module.partition(".")
            target, _, inner = rest.partition(".")
            ours = package == "fairpc"
            kernels = path.stem.endswith("_kernels") and inner.endswith("_kernels")
            wrong = ours and target not in {here, *ALLOWED[here]}
            private = ours and target != here and inner and not kernels and module != COMPILING
            own = module == f"fairpc.{here}" and path.stem != "__init__"
            if package in OUTSIDE or wrong or private or own:
                found.append(f"{path}:{node.lineno} imports {module}")  # type: ignore[attr-defined]
    return found


def files() -> list[Path]:
    return sorted(p.relative_to(PACKAGE) for p in PACKAGE.rglob("*.py"))


def test_every_room_has_a_direction() -> None:
    assert {room_of(path) for path in files()} == set(ALLOWED)
    assert len(ROOMS) <= 13


@pytest.mark.parametrize("path", files(), ids=str)
def test_directions(path: Path) -> None:
    assert violations((PACKAGE / path).read_text("utf-8"), path) == []


def test_inner_modules_say_that_they_are_private() -> None:
    inner = [path for path in files() if len(path.parts) > 1 and path.name != "__init__.py"]
    assert [path for path in inner if not path.name.startswith("_")] == []


def _module(path: Path) -> str:
    return ".".join(("fairpc", *path.with_suffix("").parts)).removesuffix(".__init__")


def _reached() -> dict[str, set[str]]:
    """Module -> modules that it imports, late ones included; types alone are left out.

    What the ``__init__`` of a room imports for types is what it loads on first use.
    """
    known = {_module(path): PACKAGE / path for path in files()}
    reached: dict[str, set[str]] = {}
    for module, file in known.items():
        tree = ast.parse(file.read_text("utf-8"))
        typed = [
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.If) and "TYPE_CH" in ast.dump(n.test) and file.stem != "__init__"
        ]
        passed = {inner for block in typed for inner in ast.walk(block)}
        imported = {m for node in ast.walk(tree) if node not in passed for m in _imported(node)}
        reached[module] = (imported & set(known)) - {module}
    return reached


def test_modules_have_no_cycle() -> None:
    left = _reached()
    while True:
        wanted = {target for targets in left.values() for target in targets}
        kept = {m: t & set(left) for m, t in left.items() if t & set(left) and m in wanted}
        if kept == left:
            break
        left = kept
    assert left == {}


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("circuit/_em.py", "import fairpc.models"),
        ("circuit/_em.py", "from fairpc.structure import learn"),
        ("circuit/_em.py", "from fairpc import structure"),
        ("circuit/_em.py", "from fairpc import FairPC"),
        ("circuit/_em.py", "def f():\n    from fairpc.models import FairPC"),
        ("circuit/_em.py", "if TYPE_CHECKING:\n    from fairpc.models import FairPC"),
        ("circuit/_em.py", "import importlib\nimportlib.import_module('fairpc.models')"),
        ("circuit/_em.py", "from fairpc.data._table import Table"),
        ("circuit/_em.py", "from fairpc.data import _table"),
        ("circuit/_em.py", "from fairpc.circuit import Graph"),
        ("data/_table.py", "from fairpc.circuit import Circuit"),
        ("evidence/_gaps.py", "from fairpc.data import Table"),
        ("cluster/_plan.py", "from fairpc.models import FairPC"),
        ("auditing/_gaps.py", "from fairpc.cli import main"),
        ("__init__.py", "from fairpc.cli import main"),
        ("cli/_fit.py", "from reproduction.runs import Study"),
    ],
)
def test_a_wrong_direction_is_found(path: str, source: str) -> None:
    assert violations(source, Path(path))


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("circuit/_em.py", "import numpy\nfrom fairpc.circuit._graph import Graph"),
        ("circuit/_em.py", "from fairpc.core import CircuitError\nfrom fairpc.data import Table"),
        ("circuit/_em.py", "from fairpc import __version__, data"),
        ("circuit/_circuit.py", "from fairpc.circuit import _picture as picture"),
        ("circuit/_kernels.py", "from fairpc.core._compiling import kernel"),
        ("structure/_split.py", "def f():\n    from fairpc.circuit import Circuit"),
        ("cli/_fit.py", "from fairpc.models import FairPC"),
        ("circuit/_em.py", "import fairpcx.models"),
    ],
)
def test_a_right_direction_passes(path: str, source: str) -> None:
    assert violations(source, Path(path)) == []
