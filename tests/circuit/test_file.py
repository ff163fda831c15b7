"""Our own files: bit for bit what was saved, or a sentence."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bounded import assert_refused, refusal
from fairpc.circuit import (
    Circuit,
    CircuitBuilder,
    from_dict,
    load_circuit,
    save_circuit,
    to_dict,
)
from fairpc.circuit._file import SavedCircuit, SavedNodes, SavedVariables
from fairpc.errors import FileFormatError
from strategies import any_circuits, examples

Payload = dict[str, Any]


def small() -> Circuit:
    b = CircuitBuilder({"S": 2, "X": 3})
    leaves = [b.categorical("X", w) for w in ([0.1, 0.2, 0.7], [1 / 3, 1 / 3, 1 / 3])]
    cells = [b.product(b.indicator("S", s), leaf) for s, leaf in enumerate(leaves)]
    return b.build(b.sum(cells, [0.1 + 0.2, 0.7]))


def same(a: Circuit, b: Circuit) -> bool:
    return a.graph.same_as(b.graph) and a.parameters.tobytes() == b.parameters.tobytes()


@pytest.fixture(scope="module")
def one_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("file") / "a.json"


@settings(max_examples=examples(300))
@given(any_circuits())
def test_round_trip_is_exact(one_path: Path, circuit: Circuit) -> None:
    save_circuit(circuit, one_path)
    assert same(load_circuit(one_path), circuit)


@given(st.lists(st.floats(min_value=1e-308, max_value=1e3), min_size=2, max_size=6))
def test_every_bit_of_a_weight_comes_back(one_path: Path, raw: list[float]) -> None:
    b = CircuitBuilder({"X": len(raw)})
    weights = np.array(raw) / np.sum(raw)
    circuit = b.build(b.categorical("X", weights.tolist()))
    save_circuit(circuit, one_path)
    assert same(load_circuit(one_path), circuit)


@given(st.lists(st.text(max_size=8), min_size=2, max_size=2, unique=True))
def test_any_names(one_path: Path, names: list[str]) -> None:
    b = CircuitBuilder(dict.fromkeys(names, 2))
    circuit = b.build(b.product(b.categorical(0), b.categorical(1)))
    save_circuit(circuit, one_path)
    assert load_circuit(one_path).names == tuple(names)


def test_the_content(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    save_circuit(small(), path)
    payload = json.loads(path.read_text())
    assert list(payload) == [
        "format",
        "version",
        "variables",
        "nodes",
        "parameters",
        "checksum",
    ]
    assert payload["format"] == "fairpc circuit"
    assert payload["version"] == 1
    assert payload["variables"] == {"names": ["S", "X"], "arities": [2, 3]}
    assert len(payload["nodes"]["kind"]) == 10
    assert path.read_text().isascii()


def test_the_checksum_is_part_of_the_format() -> None:
    """If this changes, files of earlier versions can no longer be read."""
    b = CircuitBuilder({"ü": 2})
    payload = to_dict(b.build(b.categorical(0, [0.25, 0.75])))
    checksum = "a56863ad109f829372e16fcb8de4b746210a6aafa310919ceac5a73b723ce069"
    assert payload["checksum"] == f"sha256:{checksum}"


def test_other_spellings_of_the_same_content(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    text = json.dumps(to_dict(small()), indent=3, sort_keys=True)
    path.write_text(text.replace("0.7,", "0.70000,").replace("0.2", "2e-1"))
    assert same(load_circuit(path), small())


def test_a_circuit_inside_a_larger_file() -> None:
    inner = json.loads(json.dumps({"circuit": to_dict(small())}))["circuit"]
    assert same(from_dict(inner), small())
    inner["parameters"][0] = 0.5
    with pytest.raises(FileFormatError, match=r"^the circuit of m: its checksum does not fit"):
        from_dict(inner, "the circuit of m")


def resealed(payload: Payload) -> Payload:
    """The payload with the checksum of its content, as a careful forger would make it."""
    nodes = {name: np.array(values, np.int64) for name, values in payload["nodes"].items()}
    nodes.pop("weight", None)
    names, arities = payload["variables"].values()
    variables = SavedVariables(tuple(names), np.array(arities, np.int64))
    saved = SavedCircuit(variables, SavedNodes(**nodes), np.array(payload["parameters"], float))
    payload["checksum"] = saved.checksum
    return payload


def leaves(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to all numbers and strings."""
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in leaves(v, (*path, k))]
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in leaves(v, (*path, i))]
    return [path]


@pytest.mark.parametrize("path", leaves(to_dict(small())), ids=lambda p: ".".join(map(str, p)))
def test_any_altered_value_is_seen(path: tuple[Any, ...]) -> None:
    payload = to_dict(small())
    place: Any = payload
    for key in path[:-1]:
        place = place[key]
    old = place[path[-1]]
    if isinstance(old, float):
        place[path[-1]] = math.nextafter(old, 1.0)
    else:
        place[path[-1]] = old + ("x" if isinstance(old, str) else 1)
    with pytest.raises(FileFormatError):
        from_dict(payload)


def edit(*path: Any, to: Any) -> Callable[[Payload], Payload]:
    def change(payload: Payload) -> Payload:
        place: Any = payload
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to
        return payload

    return change


def drop(*path: Any) -> Callable[[Payload], Payload]:
    def change(payload: Payload) -> Payload:
        place: Any = payload
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]
        return payload

    return change


# Changes after which the checksum is made to fit, so that the checks behind it must see them.
FORGED: dict[str, tuple[Callable[[Payload], Payload], str]] = {
    "newer version": (edit("version", to=2), "its version is '2', not 1: update fairpc"),
    "newest version": (edit("version", to=10**50), "not 1: update fairpc"),
    "version 0": (edit("version", to=0), "not 1: update fairpc"),
    "version true": (edit("version", to=True), "not 1: update fairpc"),
    "version text": (edit("version", to="1"), "not 1: update fairpc"),
    "no version": (drop("version"), "not 1: update fairpc"),
    "other format": (edit("format", to="fairpc model"), "it is not a fairpc circuit file"),
    "no format": (drop("format"), "it is not a fairpc circuit file"),
    "unknown field": (edit("extra", to=1), "has the unknown field 'extra'"),
    "unknown node field": (edit("nodes", "weight", to=[]), "has the unknown field 'weight'"),
    "cycle": (edit("nodes", "child", 0, to=9), "holds no circuit: sum node 3 has the child 9"),
    "far child": (edit("nodes", "child", 0, to=99), "has the child 99"),
    "negative child": (edit("nodes", "child", 0, to=-1), "has the child -1"),
    "wrapping child": (edit("nodes", "child", 0, to=2**32), "does not fit int32"),
    "wrapping kind": (edit("nodes", "kind", 0, to=256), "does not fit uint8"),
    "kind 3": (edit("nodes", "kind", 0, to=3), "has unknown kind 3"),
    "kind -1": (edit("nodes", "kind", 0, to=-1), "does not fit uint8"),
    "arity 0": (edit("variables", "arities", 0, to=0), "has arity 0"),
    "huge arity": (edit("variables", "arities", 0, to=2**31 - 1), "has arity 2147483647"),
    "short child_ptr": (drop("nodes", "child_ptr", -1), "arrays of nodes differ in length"),
    "falling child_ptr": (edit("nodes", "child_ptr", 4, to=99), "child_ptr does not cut the edges"),
    "large block_ptr": (edit("nodes", "block_ptr", -1, to=2**31 - 1), "one parameter per child"),
    "unused block": (edit("nodes", "block_ptr", to=[0, 3, 6, 8, 9]), "belongs to no sum node"),
    "parameter missing": (drop("parameters", -1), "parameters have shape (7,)"),
    "negative weight": (edit("parameters", 0, to=-0.1), "has weight -0.1"),
    "weights above one": (edit("parameters", 0, to=0.9), "has weights that sum to"),
    "infinite weight": (edit("parameters", 0, to=float("inf")), "has weight inf"),
    "one name twice": (edit("variables", "names", to=["S", "S"]), "'S' is named twice"),
    "one name too many": (edit("variables", "names", to=["S", "X", "Y"]), "3 variable names and 2"),
    "no variables": (edit("variables", to={"names": [], "arities": []}), "give at least one name"),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged(case: str) -> None:
    change, words = FORGED[case]
    with pytest.raises(FileFormatError) as caught:
        from_dict(resealed(change(to_dict(small()))), "f.json")
    assert words in str(caught.value)
    assert str(caught.value).startswith("f.json")


MISTYPED: dict[str, tuple[Callable[[Payload], Payload], str]] = {
    "no checksum": (drop("checksum"), "its checksum does not fit its content"),
    "no nodes": (drop("nodes"), "has no 'nodes'"),
    "no kinds": (drop("nodes", "kind"), "has no 'kind'"),
    "wrong checksum": (edit("checksum", to="sha256:00"), "its checksum does not fit its content"),
    "checksum null": (edit("checksum", to=None), "its checksum does not fit its content"),
    "nodes a list": (edit("nodes", to=[]), "nodes is [], not an object"),
    "child an object": (edit("nodes", "child", to={}), "child is"),
    "child a number": (edit("nodes", "child", to=7), "child is"),
    "child fractions": (edit("nodes", "child", 0, to=0.5), "child is"),
    "child booleans": (edit("nodes", "child", 0, to=True), "child is"),
    "child nested": (edit("nodes", "child", 0, to=[0]), "child is"),
    "huge integer": (edit("nodes", "child", 0, to=10**900), "child"),
    "weights text": (edit("parameters", 0, to="0.5"), "parameters is"),
    "weights null": (edit("parameters", 0, to=None), "its checksum does not fit its content"),
    "names numbers": (edit("variables", "names", 0, to=1), "names is 1, not text"),
}


@pytest.mark.parametrize("case", MISTYPED)
def test_mistyped(case: str, tmp_path: Path) -> None:
    change, words = MISTYPED[case]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(change(to_dict(small()))))
    with pytest.raises(FileFormatError) as caught:
        load_circuit(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_every_truncation_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    save_circuit(small(), path)
    data = path.read_bytes()
    assert data.endswith(b"}\n")
    for size in range(len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(FileFormatError, match=r"it is not valid JSON .*: it was truncated or"):
            load_circuit(path)


TEXTS = {
    "empty": (b"", "it is not valid JSON"),
    "a number": (b"5", "it is not a fairpc circuit file"),
    "a list": (b"[]", "it is not a fairpc circuit file"),
    "an empty object": (b"{}", "it is not a fairpc circuit file"),
    "two objects": (b'{"format": 1} {}', "it is not valid JSON (Extra data"),
    "NaN": (b'{"format": NaN}', "it is not valid JSON (NaN is not a number)"),
    "Infinity": (b'{"format": [-Infinity]}', "it is not valid JSON (-Infinity is not a number)"),
    "a key twice": (b'{"format": "fairpc circuit", "format": 1}', "(a key is given twice)"),
    "an inner key twice": (b'{"a": {"b": 1, "b": 1}}', "(a key is given twice)"),
    "comments": (b'{"format": 1} // one', "it is not valid JSON"),
    "single quotes": (b"{'format': 1}", "it is not valid JSON"),
    "binary": (b"\x80\x04\x95", "it is not UTF-8 text (byte 0)"),
    "UTF-16": ("{}".encode("utf-16"), "it is not UTF-8 text"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "it is not valid JSON"),
    "zeros": (b"\0" * 100, "it is not valid JSON"),
    "deep lists": (b"[" * 100_000, "nested too deeply"),
    "deep objects": (b'{"a":' * 100_000, "nested too deeply"),
    "a long number": (b"[" + b"9" * 5000 + b"]", "it is not valid JSON (Exceeds the limit"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_no_json_of_ours(case: str, tmp_path: Path) -> None:
    data, words = TEXTS[case]
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(FileFormatError) as caught:
        load_circuit(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


HEAD = '{"format":"fairpc circuit","version":1,"parameters":['
HOSTILE = {
    "many weights": (HEAD + ",".join(["0.12345678"] * 1_600_000) + "]}", "has no 'variables'"),
    "more weights": (HEAD + ",".join(["0.5"] * 4_000_000) + "]}", "values and the limit is"),
    "empty lists": ("[" + ",".join(["[]"] * 990_000) + "]", "it is not a fairpc circuit file"),
    "more empty lists": ("[" + ",".join(["[]"] * 1_100_000) + "]", "strings or brackets"),
    "many keys": (
        "{" + ",".join(f'"k{i}":0' for i in range(490_000)) + "}",
        "it is not a fairpc circuit file",
    ),
    "deep lists": ("[" * 900_000, "nested too deeply"),
    "long integers": (
        "[" + ",".join(["9" * 999] * 30_000) + "]",
        "it is not a fairpc circuit file",
    ),
    "long fractions": (
        "[" + ",".join(["0." + "1" * 990] * 30_000) + "]",
        "it is not a fairpc circuit file",
    ),
    "one string": ('"' + "a" * 33_000_000 + '"', "it is not a fairpc circuit file"),
    "escapes": ('"' + "\\u00e9" * 5_500_000 + '"', "it is not a fairpc circuit file"),
    "blanks": (" " * 33_000_000, "it is not valid JSON"),
    "too large": (" " * (33 * 2**20), "bytes and the limit is"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_cost_little(tmp_path: Path, case: str) -> None:
    text, words = HOSTILE[case]
    path = tmp_path / "a.json"
    path.write_text(text)
    assert_refused(refusal("fairpc.circuit._file", "load_circuit", path), words)


def test_a_limit_can_be_raised_or_lowered(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    save_circuit(small(), path)
    with pytest.raises(FileFormatError, match=r"the limit is 100: .* larger max_bytes if you"):
        load_circuit(path, max_bytes=100)
    assert same(load_circuit(path, max_bytes=2**40), small())


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    save_circuit(small(), path)

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    b = CircuitBuilder({"A": 2})
    with pytest.raises(OSError, match=r"cannot write the file \(no space left on device\)"):
        save_circuit(b.build(b.categorical("A")), path)
    monkeypatch.undo()
    assert same(load_circuit(path), small())
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
