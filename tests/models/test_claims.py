"""A file that claims a model holds it: other ties, orders and shapes are refused when it loads."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc import FairPC, LatNB, NLatPC, TwoNB, load
from fairpc.circuit import WEIGHT_TOLERANCE, Circuit, CircuitBuilder, to_dict
from fairpc.errors import CircuitError, FileFormatError
from fairpc.models import FairDistribution, Strata
from fairpc.models._claims import verify_claims
from fairpc.models._file import _checksum
from fairpc.models._top import Layout, build

Forge = Callable[[CircuitBuilder], int]
MODELS: Any = {"FairPC": FairPC, "LatNB": LatNB, "NLatPC": NLatPC, "TwoNB": TwoNB}


@cache
def saved(name: str) -> str:
    """The file of a small model: S and D with two values, features a and b."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({k: rng.choice(["n", "y"], 200) for k in ("sex", "a", "b")})
    chosen = {"structure": "chow-liu"} if name in ("FairPC", "NLatPC") else {}
    guard = {"guard": False} if name in ("FairPC", "LatNB") else {}
    model = MODELS[name]("sex", random_state=0, max_iter=2, **chosen, **guard)
    with TemporaryDirectory() as folder:
        model.fit(frame, rng.integers(0, 2, 200)).save(Path(folder) / "m")
        return (Path(folder) / "m").read_text()


def loaded(folder: Path, name: str, circuit: Circuit) -> Any:
    """What ``load`` makes of the file with another circuit, and the checksums that fit it."""
    content = json.loads(saved(name)) | {"circuit": to_dict(circuit)}
    path = folder / "forged"
    path.write_text(json.dumps(content | {"checksum": _checksum(content)}))
    return load(path)


def circuit_of(
    name: str,
    rates: tuple[tuple[float, float], ...] = ((0.3, 0.7), (0.3, 0.7)),
    *,
    cell: Callable[[CircuitBuilder, int, int], tuple[int, ...]] | None = None,
    tied: bool = True,
    groups: tuple[int, int] = (0, 1),
    values: tuple[int, int] = (0, 1),
) -> Circuit:
    """A circuit in the shape of a model, and one thing changed."""
    latent = name in ("FairPC", "LatNB")
    names = ("S", "Df", "D", "a", "b") if latent else ("S", "D", "a", "b")
    b = CircuitBuilder(dict.fromkeys(names, 2))
    below = []
    for g, s in enumerate(groups):
        cells = []
        for f in range(2):
            own: tuple[int, ...] = (b.categorical("a", [0.4, 0.6]), b.categorical("b", [0.2, 0.8]))
            if cell is not None:
                own = cell(b, g, f)
            elif latent:
                leaves = [b.indicator("D", v) for v in values]
                own = (b.sum(leaves, [0.9 - 0.5 * f, 0.1 + 0.5 * f], tie=("D", g, f)), *own)
            cells.append(b.product(b.indicator("Df" if latent else "D", f), *own))
        tie = "decision" if tied else ("decision", g)
        below.append(b.product(b.indicator("S", s), b.sum(cells, rates[g], tie=tie)))
    return b.build(b.sum(below, [0.5, 0.5], tie="S"))


@pytest.mark.parametrize("name", MODELS)
def test_the_shape_of_the_model_loads(name: str, tmp_path: Path) -> None:
    model = loaded(tmp_path, name, circuit_of(name, tied=name != "TwoNB"))
    assert model.distribution_.parity_gap().max() < 1e-12


def test_two_groups_with_other_rates_are_no_fair_model(tmp_path: Path) -> None:
    unequal = ((0.3, 0.7), (0.6, 0.4))
    for name in ("FairPC", "LatNB", "NLatPC"):
        for rates in (unequal, unequal[:1] * 2):
            with pytest.raises(FileFormatError, match="do not share the parameters of the decis"):
                loaded(tmp_path, name, circuit_of(name, rates, tied=False))
    loaded(tmp_path, "TwoNB", circuit_of("TwoNB", unequal, tied=False))


def mechanism_of_x(b: CircuitBuilder, g: int, f: int) -> tuple[int, ...]:
    """D follows the feature a."""
    pairs = [b.product(b.indicator("D", v), b.indicator("a", v)) for v in range(2)]
    return b.sum(pairs, [0.4, 0.6]), b.categorical("b", [0.2, 0.8])


def tied_features(b: CircuitBuilder, g: int, f: int) -> tuple[int, ...]:
    """b follows a, as in a tree."""
    pairs = [b.product(b.indicator("a", v), b.indicator("b", v)) for v in range(2)]
    return b.categorical("D", [0.9, 0.1], tie=("D", g, f)), b.sum(pairs, [0.4, 0.6])


def slack(b: CircuitBuilder, g: int, f: int) -> tuple[int, ...]:
    """Weights that sum to 1 as nearly as a circuit must, and differ by group."""
    own = (
        b.categorical("a", [0.4, 0.6 + 0.9 * WEIGHT_TOLERANCE * g * f]),
        b.categorical("b", [0.2, 0.8]),
    )
    return b.categorical("D", [0.9, 0.1], tie=("D", g, f)), *own


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cell": mechanism_of_x}, "no sum over the values of D alone"),
        ({"values": (1, 0)}, "no sum over the values of D alone, in their order"),
        ({"groups": (0, 0)}, "the same group twice|tested by no node|lacks"),
        ({"cell": slack}, r"P\(decision\) differs between groups"),
    ],
)
def test_other_shapes_are_refused_in_a_sentence(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(FileFormatError, match=message) as caught:
        loaded(tmp_path, "FairPC", circuit_of("FairPC", **change))
    assert "\n" not in str(caught.value)


def test_naive_models_have_independent_features(tmp_path: Path) -> None:
    circuit = circuit_of("FairPC", cell=tied_features)
    loaded(tmp_path, "FairPC", circuit)
    with pytest.raises(FileFormatError, match="features together that the model takes as indep"):
        loaded(tmp_path, "LatNB", circuit)


@pytest.mark.parametrize("within", [False, True])
def test_strata_share_what_they_claim_to_share(within: bool) -> None:
    def distribution(built: bool, claimed: bool) -> FairDistribution:
        layouts = [
            Layout(2, 2, ("a", "b"), (2, 2), True, True, strata=Strata((0,), (2,), w))
            for w in (built, claimed)
        ]
        mechanism = np.tile([[0.9, 0.1], [0.2, 0.8]], (4 if built else 2, 1, 1))
        circuit = build(
            layouts[0],
            lambda b, f, s, columns: b.categorical(columns[0], [0.5, 0.5]),
            np.full(4, 0.25),
            np.array([[0.3, 0.7], [0.6, 0.4]] * 2),
            mechanism,
        )
        return FairDistribution("FairPC", layouts[1], circuit)

    verify_claims(distribution(within, within))
    if within:
        with pytest.raises(CircuitError, match="do not share the mechanism of their group"):
            verify_claims(distribution(True, False))
