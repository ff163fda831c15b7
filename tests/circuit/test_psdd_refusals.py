"""Psdd files: what is refused, and that a hostile file costs little."""

from __future__ import annotations

import math
import time
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

import oracle
from bounded import assert_refused, refusal
from circuit.psdd_files import (
    LARGER,
    LARGER_VTREE,
    LOG,
    SMALL,
    SMALL_JOINT,
    SMALL_VTREE,
    Folder,
    joint,
    random_circuit,
    without_last,
)
from fairpc.circuit import read_psdd
from fairpc.errors import FileFormatError
from psdd_writing import write_psdd
from strategies import examples

REFUSED = {
    "empty": "",
    "comments only": "c one\nc two\n",
    "no header": SMALL.replace("psdd 6\n", ""),
    "no count": SMALL.replace("psdd 6", "psdd"),
    "negative count": SMALL.replace("psdd 6", "psdd -6"),
    "sdd": "sdd 3\nL 0 0 1\n",
    "swapped": SMALL_VTREE,
    "header only": "psdd 0\n",
    "claims a trillion": SMALL.replace("psdd 6", f"psdd {10**12}"),
    "claims a googol": SMALL.replace("psdd 6", f"psdd 1{'0' * 100}"),
    "claims more": SMALL.replace("psdd 6", "psdd 10"),
    "claims fewer": SMALL.replace("psdd 6", "psdd 5"),
    "root missing": without_last(SMALL),
    "cut in the root": SMALL[:-25],
    "unknown letter": SMALL.replace("L 3", "F 3"),
    "literal too short": SMALL.replace("L 3 1 -2", "L 3 1"),
    "T too short": SMALL.replace(f"2 {LOG[0.2]}", "2"),
    "no elements": SMALL[: SMALL.index("D 5")] + "D 5 2 0\n",
    "k too small": SMALL.replace("2 3 0 4", "2 2 0 4"),
    "k huge": SMALL.replace("2 3 0 4", f"2 {10**15} 0 4"),
    "k negative": SMALL.replace("2 3 0 4", "2 -3 0 4"),
    "word for a number": SMALL.replace("L 3 1", "L three 1"),
    "word for a log": SMALL.replace(LOG[0.2], "half"),
    "id twice": SMALL.replace("L 3 1", "L 2 1"),
    "unknown child": SMALL.replace("1 3 -", "1 9 -"),
    "own child": SMALL.replace("1 3 -", "1 5 -"),
    "forward reference": SMALL.replace("L 3 1 -2\n", "").replace("psdd 6", "psdd 6") + "L 3 1 -2\n",
    "variable 0": SMALL.replace("L 3 1 -2", "L 3 1 0"),
    "T of a negative": SMALL.replace("T 4 1 2", "T 4 1 -2"),
    "variable 2⁴⁰": SMALL.replace("L 3 1 -2", f"L 3 1 {2**40}"),
    "variable -2⁶³": SMALL.replace("L 3 1 -2", f"L 3 1 {-(2**63)}"),
    "weights above one": SMALL.replace(LOG[0.5], LOG[0.7]),
    "weights below one": SMALL.replace(LOG[0.5], "-inf"),
    "positive log": SMALL.replace(LOG[0.5], "0.5"),
    "NaN weight": SMALL.replace(LOG[0.5], "nan"),
    "NaN in T": SMALL.replace(LOG[0.2], "nan"),
    "positive T": SMALL.replace(LOG[0.2], "0.2"),
    "T with two logs": SMALL.replace(LOG[0.2], f"-1 {LOG[0.2]}"),
    "overlap": SMALL.replace("0 4 -", "2 4 -"),
    "overlap in all": f"psdd 3\nL 0 0 1\nT 1 0 1 {LOG[0.5]}\nD 2 2 1 0 1 0\n",
    "overlap further up": (
        "psdd 6\nL 0 0 1\nL 1 1 2\nL 2 2 3\nD 3 3 1 0 1 0\nD 4 4 1 1 2 0\nD 5 5 1 3 4 0\n"
    ),
    "a variable is skipped": SMALL.replace(" 2\n", " 3\n")
    .replace("-2\n", "-3\n")
    .replace("T 4 1 2", "T 4 1 3"),
    "binary": "psdd 1\nL 0 0 1\n\0\0\0",
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(folder: Folder, case: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        folder.read(REFUSED[case])
    assert str(folder.psdd) in str(caught.value)
    assert "\n" not in str(caught.value)


WORDS = {
    "root missing": "declares 6 nodes and the file has 5: the file is truncated",
    "unknown letter": "line 7: this is not a node",
    "id twice": "line 7: node 2 is given twice",
    "unknown child": "line 9 names node 9, which is not above it",
    "weights above one": "node 5 has weights that sum to 1.2",
    "overlap": "line 9: the elements of node 5 split its variables in different ways",
    "a variable is skipped": "variable 2 does not occur below the last node and variable 3 does",
}


@pytest.mark.parametrize("case", WORDS)
def test_an_error_names_the_line_or_the_node(folder: Folder, case: str) -> None:
    with pytest.raises(FileFormatError, match=WORDS[case]):
        folder.read(REFUSED[case])


AGAINST_VTREE = {
    "prime and sub swapped": ("0 4 -", "4 0 -", "line 9: the elements of node 5 split its"),
    "prime right, sub wrong": ("1 3 -", "1 0 -", "line 9: the elements of node 5 split its"),
    "root is not a root": (
        "D 5 2 3 0 4",
        "T 5 1 2 -1\nc",
        "is not over the variables of the whole",
    ),
}


@pytest.mark.parametrize("case", AGAINST_VTREE)
def test_refused_against_a_vtree(folder: Folder, case: str) -> None:
    old, new, words = AGAINST_VTREE[case]
    assert SMALL.count(old) == 1
    with pytest.raises(FileFormatError) as caught:
        folder.read(SMALL.replace(old, new), SMALL_VTREE)
    assert words in str(caught.value)
    assert str(folder.psdd) in str(caught.value)


def test_swapped_files(folder: Folder) -> None:
    with pytest.raises(FileFormatError, match="it is not a vtree file"):
        folder.read(SMALL_VTREE, SMALL)


@pytest.mark.parametrize("vtree", [SMALL_VTREE, None])
@pytest.mark.parametrize("header", ["psdd 6", "psdd 9"])
def test_every_truncation_is_refused_or_harmless(
    folder: Folder, vtree: str | None, header: str
) -> None:
    """A cut inside the last digits changes a weight by less than the tolerance, or is seen."""
    text = SMALL.replace("psdd 6", header)
    for size in range(len(text) - 1):
        try:
            found = folder.read(text[:size], vtree)
        except FileFormatError:
            continue
        assert joint(found) == pytest.approx(SMALL_JOINT, abs=1e-5)
        assert size > len(text) - 15


@pytest.mark.filterwarnings("ignore:.*parameter block:UserWarning")
def test_a_lost_line_is_seen_unless_nothing_is_lost(folder: Folder) -> None:
    """A literal that only T nodes use need not be there."""
    circuit = random_circuit(Random(3), 7, deterministic=True)
    write_psdd(circuit, folder.psdd, folder.vtree)
    lines = folder.psdd.read_text().splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if line.startswith("psdd")) + 1
    accepted = []
    for i in range(first, len(lines)):
        folder.psdd.write_text("".join(lines[:i] + lines[i + 1 :]))
        for vtree in (folder.vtree, None):
            try:
                found = read_psdd(folder.psdd, vtree)
            except FileFormatError:
                continue
            assert lines[i].startswith("L")
            assert oracle.joint(found) == pytest.approx(oracle.joint(circuit), rel=1e-13)
            accepted.append(i)
        folder.psdd.write_text("".join(lines[:i]))
        with pytest.raises(FileFormatError):
            read_psdd(folder.psdd)
    assert len(lines) - first > 30
    assert len(accepted) < 20


@settings(max_examples=examples(500))
@given(st.data())
def test_altered_files_raise_nothing_else(one_folder: Folder, data: st.DataObject) -> None:
    raw = bytearray(LARGER.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    one_folder.psdd.write_bytes(bytes(raw))
    one_folder.vtree.write_text(LARGER_VTREE)
    for vtree in (one_folder.vtree, None):
        try:
            circuit = read_psdd(one_folder.psdd, vtree)
        except FileFormatError:
            continue
        assert circuit.properties().smooth
        assert circuit.properties().structured_decomposable
        assert oracle.joint(circuit).sum() == pytest.approx(1.0)


def chain(n: int, last: str) -> str:
    pairs = (f"L {2 * i + 1} 0 {i + 2}\nD {2 * i + 2} 0 1 {2 * i} {2 * i + 1} 0" for i in range(n))
    return "\n".join([f"psdd {2 * n + 2}", "L 0 0 1", *pairs, last, ""])


HOSTILE = {
    "short lines": (
        "psdd 400000\n" + "".join(f"L {i} 0 1\n" for i in range(399_999)) + "L 0 0 1\n",
        "node 0 is given twice",
    ),
    "a line of elements": (
        "psdd 3\nL 0 0 1\nL 1 1 2\nD 2 2 500000 " + "0 1 0 " * 500_000 + "\n",
        "node 2 has weights that sum to 500000",
    ),
    "a deep chain": (chain(130_000, "D 7777777 0 1 0 0 0"), "share variables"),
    "many variables": (
        "psdd 300000\n" + "".join(f"T {i} 0 {i + 1} -1\n" for i in range(300_000)),
        "variable 1 does not occur",
    ),
    "long tokens": (f"psdd 1\nL {'9' * 20_000_000} 0 1\n", "line 2: "),
    "long fraction": (f"psdd 1\nT 0 0 1 0.{'9' * 20_000_000}\n", "has the log-probability 1"),
    "one long comment": ("c" * 30_000_000, "must be 'psdd COUNT'"),
    "too large": ("c" * (33 * 2**20), "bytes and the limit is"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_cost_little(folder: Folder, case: str) -> None:
    text, words = HOSTILE[case]
    folder.psdd.write_text(text)
    assert_refused(refusal("fairpc.circuit._psdd", "read_psdd", folder.psdd), words)


def test_hostile_pair(folder: Folder) -> None:
    """A vtree and a psdd that are both as large as they may be."""
    n = 29_000
    vtree = (f"L {2 * i + 1} {i + 2}\nI {2 * i + 2} {2 * i} {2 * i + 1}" for i in range(n))
    folder.vtree.write_text("\n".join([f"vtree {2 * n + 1}", "L 0 1", *vtree, ""]))
    nodes = (f"L {2 * i + 1} {2 * i + 1} {i + 2}\n" for i in range(n))
    repeats = f"T 9999999 {2 * n} 1 -1\n"
    folder.psdd.write_text(f"psdd {n + 1}\n" + "".join(nodes) + repeats)
    found = refusal("fairpc.circuit._psdd", "read_psdd", folder.psdd, folder.vtree)
    assert_refused(found, "is not over the variables of the whole vtree")


def test_tens_of_thousands_of_nodes_are_read_at_once(folder: Folder) -> None:
    rnd = Random(0)
    leaves = [f"T {i} {i % 2} {i % 2 + 1} {math.log(rnd.random())!r}" for i in range(20_000)]
    pairs = [(2 * rnd.randrange(10_000), 2 * rnd.randrange(10_000) + 1) for _ in range(40_000)]
    weight = repr(math.log(1 / 40_000))
    elements = " ".join(f"{p} {s} {weight}" for p, s in pairs)
    folder.psdd.write_text(
        "\n".join(["psdd 20001", *leaves, f"D 20000 2 {len(pairs)} {elements}", ""])
    )
    start = time.process_time()
    circuit = read_psdd(folder.psdd)
    assert time.process_time() - start < 1.5
    assert circuit.graph.n_edges > 100_000
