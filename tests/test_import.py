"""What ``import fairpc`` costs: no compiler, no learner, no frame library, little time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import fairpc

HEAVY = {"numba", "polars", "scipy", "sklearn", "numpy", "typer"}
LIMIT = 0.3


def fresh(code: str) -> str:
    """What ``code`` prints in a new interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout


def loaded_by(statement: str) -> set[str]:
    code = f"import json, sys; {statement}; print(json.dumps(list(sys.modules)))"
    return {name.partition(".")[0] for name in json.loads(fresh(code))}


def test_import_loads_nothing_heavy() -> None:
    assert not loaded_by("import fairpc") & HEAVY


def test_import_is_quick() -> None:
    code = "import time; t = time.perf_counter(); import fairpc; print(time.perf_counter() - t)"
    assert min(float(fresh(code)) for _ in range(3)) < LIMIT


def test_circuits_load_no_learner_and_no_compiler() -> None:
    assert not loaded_by("import fairpc.circuit") & {"numba", "polars", "sklearn", "typer"}


def test_a_model_reaches_what_it_needs() -> None:
    """What a fit, a review, a cluster or a file takes is loaded by these."""
    code = "from fairpc import FairPC; import sys; print(*sys.modules)"
    ours = [name for name in fresh(code).split() if name.partition(".")[0] == "fairpc"]
    assert len(ours) <= 81


def test_rooms_list_what_they_have_not_loaded_yet() -> None:
    code = "import fairpc.evidence as e; print('parity' in dir(e), 'parity' in vars(e), e.parity)"
    assert fresh(code).startswith("True False <function parity")


@pytest.mark.parametrize("name", fairpc.__all__)
def test_public_names_exist(name: str) -> None:
    assert getattr(fairpc, name) is not None
    assert name in dir(fairpc)


def test_names_arrive_in_a_new_process() -> None:
    assert fresh("import fairpc; print(fairpc.circuit.Circuit.__name__)") == "Circuit\n"


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fairpc.nothing


def test_version_is_the_installed_one() -> None:
    from importlib.metadata import version

    assert fairpc.__version__ == version("fairpc")
