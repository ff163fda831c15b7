"""Who may import whom: each module of the package is parsed, and its imports compared with a table.

An import counts wherever it stands: at the top, inside a function, or under
``TYPE_CHECKING`` (to know a type is to depend on it).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "fairpc"

CORE = {"data", "threads", "boosting", "circuit", "structure", "fair"}
PLAIN = {"evidence", "metrics"}
MODELS = CORE | PLAIN | {"estimators", "query"}

# What each part of the package may import besides itself and ``errors``.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "threads": set(),
    "data": set(),
    "boosting": {"data"},
    "circuit": {"data", "threads"},
    "structure": {"data", "circuit"},
    "fair": {"data", "threads", "boosting", "circuit", "structure"},
    "evidence": {"boosting", "threads"},
    "metrics": set(),
    "query": {"data", "circuit", "fair"},
    "plots": PLAIN,
    "estimators": CORE | PLAIN | {"query", "plots", "cluster"},
    "baselines": {"data", "metrics"},
    "datasets": {"data", "circuit", "fair"},
    "cluster": {"data", "circuit"},
    "refits": MODELS,
    "exporting": MODELS,
    "comparison": MODELS | {"refits", "baselines", "plots", "cluster"},
    "auditing": MODELS | {"refits", "baselines", "comparison"},
    "report": {"auditing"},
    "filings": {"auditing", "data", "report"},
    "cli": MODELS
    | {"refits", "auditing", "baselines", "comparison", "datasets", "plots", "report"}
    | {"cluster", "exporting", "filings"},
}
# The package's own __init__ names what is public, and nothing names the command line.
ROOT = ""
ALLOWED[ROOT] = set(ALLOWED) - {"cli"}
# Methods that open what lies above their record: each import is late, in one function, and named
# here. ``Audit.save`` writes the page; ``model.plot.tradeoff`` compares, then draws.
LATE: dict[str, set[str]] = {
    "auditing/_audit.py": {"report"},
    "plots.py": {"comparison"},
}
# What lies beside the package, and is not in the wheel.
OUTSIDE = {"reproduction", "benchmarks"}
# What may be taken from the package itself rather than from one of its parts.
ROOT_NAMES = {"__version__"}


def part_of(path: Path) -> str:
    """Part of the package that a file belongs to: its folder, or its name at the top."""
    first = path.parts[0].removesuffix(".py")
    return ROOT if first == "__init__" else first


def _absolute(node: ast.ImportFrom, path: Path) -> str:
    """The dotted module that ``from … import`` names, relative dots resolved."""
    if not node.level:
        return node.module or ""
    folders = ("fairpc", *path.parts[:-1])
    base = folders[: len(folders) - node.level + 1]
    return ".".join([*base, *filter(None, [node.module])])


def _modules(node: ast.AST, path: Path) -> Iterator[str]:
    """Dotted names that one statement or call imports."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(names=names):
            module = _absolute(node, path)
            if module == "fairpc":
                yield from (f"fairpc.{a.name}" for a in names if a.name not in ROOT_NAMES)
            else:
                yield module
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(module)), *_],
        ):
            yield module


def _late(tree: ast.AST) -> set[ast.AST]:
    """Nodes inside a function: run when it is called, not when the module is imported."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))
    return {inner for function in functions for inner in ast.walk(function)}


def violations(source: str, path: Path) -> list[str]:
    """Imports of ``source``, the module at ``path`` under the package, that the table forbids."""
    here = part_of(path)
    tree = ast.parse(source)
    late = _late(tree)
    found = []
    for node in ast.walk(tree):
        for module in _modules(node, path):
            package, _, rest = module.partition(".")
            target = rest.partition(".")[0]
            allowed = {here, "errors", *ALLOWED[here]}
            if node in late:
                allowed |= LATE.get(path.as_posix(), set())
            if package in OUTSIDE or (package == "fairpc" and target not in allowed):
                found.append(f"{path}:{node.lineno} imports {module}")  # type: ignore[attr-defined]
    return found


def files() -> list[Path]:
    return sorted(p.relative_to(PACKAGE) for p in PACKAGE.rglob("*.py"))


def test_every_part_is_in_the_table() -> None:
    assert {part_of(path) for path in files()} <= set(ALLOWED)


@pytest.mark.parametrize("path", files(), ids=str)
def test_directions(path: Path) -> None:
    assert violations((PACKAGE / path).read_text("utf-8"), path) == []


def test_the_table_has_no_cycle() -> None:
    ready: set[str] = set()
    while ready != set(ALLOWED):
        step = {part for part, targets in ALLOWED.items() if targets - {"errors"} <= ready}
        assert step > ready, f"a cycle among {sorted(set(ALLOWED) - ready)}"
        ready = step


def test_nothing_imports_the_command_line() -> None:
    assert not any("cli" in targets for targets in ALLOWED.values())


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("circuit/em.py", "import fairpc.fair"),
        ("circuit/em.py", "from fairpc.structure.vtree import balanced"),
        ("circuit/em.py", "from fairpc import structure"),
        ("circuit/em.py", "from fairpc import FairPC"),
        ("circuit/em.py", "import fairpc"),
        ("circuit/em.py", "from ..structure import vtree"),
        ("circuit/em.py", "from .. import structure"),
        ("circuit/__init__.py", "from ..structure import vtree"),
        ("circuit/em.py", "def f():\n    from fairpc.fair import fit"),
        ("circuit/em.py", "if TYPE_CHECKING:\n    from fairpc.fair import Distribution"),
        ("circuit/em.py", "import importlib\nimportlib.import_module('fairpc.fair.fit')"),
        ("data/table.py", "from fairpc.circuit import Circuit"),
        ("evidence/parity.py", "from fairpc.data import Table"),
        ("metrics/scores.py", "from fairpc.evidence import parity"),
        ("report/page.py", "from fairpc.estimators import FairPC"),
        ("cluster/plan.py", "from fairpc.fair import fit"),
        ("auditing/gaps.py", "from fairpc.cli import main"),
        ("auditing/_audit.py", "from fairpc.report import render"),
        ("auditing/gaps.py", "def f():\n    from fairpc.report import render"),
        ("__init__.py", "from fairpc.cli import main"),
        ("errors.py", "from fairpc.data import Table"),
        ("cli/fit.py", "from reproduction.runs import Study"),
    ],
)
def test_a_wrong_direction_is_found(path: str, source: str) -> None:
    assert len(violations(source, Path(path))) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("circuit/em.py", "import numpy\nfrom fairpc.circuit.graph import Graph"),
        ("circuit/em.py", "from fairpc.errors import CircuitError\nfrom fairpc.data import Table"),
        ("circuit/em.py", "from .graph import Graph\nfrom ..data import Table"),
        ("circuit/em.py", "from fairpc import __version__, data"),
        ("structure/strudel.py", "def f():\n    from fairpc.circuit import flows"),
        ("report/page.py", "from fairpc.auditing import Audit"),
        ("auditing/_audit.py", "def f():\n    from fairpc.report import render"),
        ("cli/fit.py", "from fairpc.estimators import FairPC"),
        ("circuit/em.py", "import fairpcx.fair"),
    ],
)
def test_a_right_direction_passes(path: str, source: str) -> None:
    assert violations(source, Path(path)) == []
