"""Psdd files: what is read, what is written, and what is refused."""

from __future__ import annotations

import math
import time
from itertools import permutations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from bounded import assert_refused, refusal
from fairpc.circuit import Circuit, CircuitBuilder, read_psdd, write_psdd
from fairpc.circuit.graph import PRODUCT, SUM, Graph
from fairpc.errors import CircuitError, FileFormatError, PropertyError
from strategies import _Grower, examples

LOG = {p: repr(math.log(p)) for p in (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75)}

# Two variables. P(x1 = 1) = .5, and then P(x2 = 1) = .2; else x2 is even.
#   P(1, 1) = .5 · .2 = .1    P(1, 0) = .5 · .8 = .4    P(0, 1) = .25    P(0, 0) = .25
SMALL = f"""c a comment
psdd 6
L 0 0 1
L 1 0 -1
c another one
L 2 1 2
L 3 1 -2
T 4 1 2 {LOG[0.2]}
D 5 2 3 0 4 {LOG[0.5]} 1 2 {LOG[0.25]} 1 3 {LOG[0.25]}
"""
SMALL_VTREE = "c\nvtree 3\nL 0 1\nL 1 2\nI 2 0 1\n"
SMALL_JOINT = {(1, 1): 0.1, (1, 0): 0.4, (0, 1): 0.25, (0, 0): 0.25}

# Three variables, x3 on the left; x3 = 1 with probability .3 and then x1 = x2, else independent.
LARGER = f"""psdd 12
L 0 0 3
L 1 0 -3
L 2 1 1
L 3 1 -1
L 4 2 2
L 5 2 -2
D 6 3 2 2 4 {LOG[0.6]} 3 5 {LOG[0.4]}
T 7 1 1 {LOG[0.75]}
T 8 2 2 {LOG[0.5]}
D 9 3 1 7 8 0.0
D 10 4 2 0 6 {LOG[0.3]} 1 9 {LOG[0.7]}
D 11 3 1 8 7 0.0
"""
LARGER_VTREE = "vtree 5\nL 0 3\nL 1 1\nL 2 2\nI 3 1 2\nI 4 0 3\n"


class Folder:
    """A folder for one psdd and one vtree file."""

    def __init__(self, path: Path) -> None:
        self.psdd, self.vtree = path / "a.psdd", path / "a.vtree"

    def read(self, psdd: str, vtree: str | None = None) -> Circuit:
        self.psdd.write_text(psdd)
        if vtree is not None:
            self.vtree.write_text(vtree)
        return read_psdd(self.psdd, None if vtree is None else self.vtree)

    def round_trip(self, circuit: Circuit) -> Circuit:
        write_psdd(circuit, self.psdd, self.vtree)
        return read_psdd(self.psdd, self.vtree, names=circuit.names)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture(scope="module")
def one_folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("psdd"))


def joint(circuit: Circuit) -> dict[tuple[int, ...], float]:
    rows = oracle.all_rows(circuit.graph).tolist()
    return {tuple(r): p for r, p in zip(rows, oracle.joint(circuit).tolist(), strict=True)}


def without_last(text: str) -> str:
    return text[: text.rindex("\n", 0, -1) + 1]


@pytest.mark.parametrize("vtree", [SMALL_VTREE, None])
def test_the_graph_of_a_small_file(folder: Folder, vtree: str | None) -> None:
    b = CircuitBuilder({"X1": 2, "X2": 2})
    x1, not_x1 = b.indicator(0, 1), b.indicator(0, 0)
    x2, not_x2 = b.indicator(1, 1), b.indicator(1, 0)
    t = b.sum([not_x2, x2], [0.8, 0.2])
    root = b.sum(
        [b.product(x1, t), b.product(not_x1, x2), b.product(not_x1, not_x2)], [0.5, 0.25, 0.25]
    )
    expected = b.build(root)
    found = folder.read(SMALL, vtree)
    assert found.graph.same_as(expected.graph)
    assert found.parameters == pytest.approx(expected.parameters, rel=1e-15)
    assert joint(found) == pytest.approx(SMALL_JOINT, rel=1e-15)


def test_marginals_and_columns_of_a_file_whose_vtree_has_another_order(folder: Folder) -> None:
    circuit = folder.read(without_last(LARGER).replace("psdd 12", "psdd 11"), LARGER_VTREE)
    assert circuit.names == ("X1", "X2", "X3")
    rows = [[1, -1, 1], [1, 0, 1], [1, 1, 0], [-1, -1, 1], [1, -1, -1], [-1, -1, -1]]
    expected = [0.3 * 0.6, 0.0, 0.7 * 0.75 * 0.5, 0.3, 0.3 * 0.6 + 0.7 * 0.75, 1.0]
    with np.errstate(divide="ignore"):
        logs = np.log(expected)
    assert circuit.log_marginal(np.array(rows)) == pytest.approx(logs, rel=1e-14, abs=1e-15)


def test_a_decision_with_one_element_is_its_product(folder: Folder) -> None:
    graph = folder.read(without_last(LARGER).replace("psdd 12", "psdd 11"), LARGER_VTREE).graph
    assert np.bincount(graph.kind).tolist() == [6, 5, 4]
    assert (np.diff(graph.child_ptr)[graph.kind == SUM] == 2).all()


def test_nodes_that_the_root_does_not_need_are_left_out(folder: Folder) -> None:
    extra = SMALL.replace("psdd 6", "psdd 8").replace("D 5", f"T 6 1 2 {LOG[0.3]}\nL 7 0 1\nD 5")
    assert folder.read(extra, SMALL_VTREE).graph.same_as(folder.read(SMALL).graph)


def test_equal_lines_stay_apart_where_they_have_parameters(folder: Folder) -> None:
    text = (
        f"psdd 5\nL 0 0 1\nL 1 0 -1\nT 2 1 2 {LOG[0.2]}\nT 3 1 2 {LOG[0.2]}\n"
        f"D 4 2 2 0 2 {LOG[0.5]} 1 3 {LOG[0.5]}\n"
    )
    graph = folder.read(text, SMALL_VTREE).graph
    assert (graph.kind == SUM).sum() == 3
    assert graph.n_parameters == 6


def test_what_has_no_parameters_is_shared(folder: Folder) -> None:
    """Two lines for one literal, and one product in two decisions and a line of its own."""
    half = LOG[0.5]
    text = f"""psdd 12
L 0 1 1
L 1 1 1
L 2 2 2
L 3 1 -1
L 4 2 -2
D 5 3 2 0 2 {half} 3 4 {half}
D 6 3 2 1 2 {LOG[0.25]} 3 4 {LOG[0.75]}
D 7 3 1 1 2 0
L 8 0 3
L 9 0 -3
D 10 4 2 8 5 {half} 9 6 {half}
D 11 4 2 8 7 {half} 9 6 {half}
"""
    graph = folder.read(text, LARGER_VTREE).graph
    assert np.bincount(graph.kind).tolist() == [6, 4, 2]
    assert joint(folder.read(text))[1, 1, 1] == pytest.approx(0.5)


@pytest.mark.parametrize(
    "text",
    [
        SMALL.replace("\n", "\r\n"),
        SMALL.rstrip("\n"),
        SMALL.replace("L 0 0 1\n", "L 0 0 1  \n\n  \n"),
        SMALL.replace(" ", "\t"),
        SMALL.replace("psdd 6", "psdd 9"),  # as Juice.jl counts: lines and elements
        SMALL.replace("psdd 6", "psdd 8"),  # as one file of its model zoo counts
        SMALL.replace("L 0 0 1\nL 1 0 -1", "L 1 0 -1\nL 0 0 +1"),
        SMALL.replace("D 5", "D 500").replace("L 3 1", "L 77 1").replace("1 3 -", "1 77 -"),
        SMALL.replace(f"T 4 1 2 {LOG[0.2]}", f"T 4 1 2 {math.log(0.8)} {LOG[0.2]}"),
        SMALL.replace(LOG[0.5], "-0.693147").replace(LOG[0.25], "-1.38629"),
        "c été ∑\n" + SMALL,
    ],
)
def test_spellings_of_one_file(folder: Folder, text: str) -> None:
    for vtree in (SMALL_VTREE, None):
        assert joint(folder.read(text, vtree)) == pytest.approx(SMALL_JOINT, rel=1e-5)


def test_rounded_weights_are_normalised_and_exact_ones_left_alone(folder: Folder) -> None:
    rounded = SMALL.replace(LOG[0.5], "-0.693147").replace(LOG[0.25], "-1.38629")
    weights = folder.read(rounded).weights(8)
    assert weights.sum() == pytest.approx(1.0, abs=1e-15)
    theta = {"0 4": 0.1, "1 2": 0.2, "1 3": 0.7}
    exact = np.exp([math.log(p) for p in theta.values()])
    assert min(sum(order) for order in permutations(exact)) < 1.0  # to divide would change digits
    logs = " ".join(f"{pair} {math.log(p)!r}" for pair, p in theta.items())
    text = SMALL[: SMALL.index("D 5")] + f"D 5 2 3 {logs}\n"
    assert folder.read(text).weights(8).tolist() == exact.tolist()


@pytest.mark.parametrize("minus", ["-inf", "-Inf", "-Infinity"])
def test_a_weight_of_zero(folder: Folder, minus: str) -> None:
    text = SMALL.replace(f"T 4 1 2 {LOG[0.2]}", f"T 4 1 2 {minus}")
    text = text.replace(f"1 2 {LOG[0.25]} 1 3 {LOG[0.25]}", f"1 2 {LOG[0.5]} 1 3 {minus}")
    assert joint(folder.read(text, SMALL_VTREE)) == {
        (1, 1): 0.0,
        (1, 0): pytest.approx(0.5),
        (0, 1): pytest.approx(0.5),
        (0, 0): 0.0,
    }


def test_names(folder: Folder) -> None:
    folder.psdd.write_text(SMALL)
    assert read_psdd(folder.psdd, names=["sex", "age"]).names == ("sex", "age")
    with pytest.raises(CircuitError, match=r"3 names were given for the 2 variables of .*a\.psdd"):
        read_psdd(folder.psdd, names=["a", "b", "c"])


REFUSED = {
    "empty": ("", "first line that is no comment must be 'psdd COUNT'"),
    "comments only": ("c one\nc two\n", "must be 'psdd COUNT'"),
    "no header": (SMALL.replace("psdd 6\n", ""), "line 2: the first line"),
    "no count": (SMALL.replace("psdd 6", "psdd"), "must be 'psdd COUNT'"),
    "negative count": (SMALL.replace("psdd 6", "psdd -6"), "must be 'psdd COUNT'"),
    "sdd": ("sdd 3\nL 0 0 1\n", "it is an sdd file, which has no probabilities"),
    "swapped": (SMALL_VTREE, "give the psdd first, then the vtree"),
    "header only": ("psdd 0\n", "it has no nodes: the file is truncated"),
    "claims a trillion": (SMALL.replace("psdd 6", f"psdd {10**12}"), "declares 1,000,000,000,000"),
    "claims a googol": (SMALL.replace("psdd 6", f"psdd 1{'0' * 100}"), "is no integer of 64 bits"),
    "claims 10⁵⁰⁰⁰": (SMALL.replace("psdd 6", f"psdd 1{'0' * 5000}"), "is no integer of 64 bits"),
    "claims more": (SMALL.replace("psdd 6", "psdd 10"), "declares 10 nodes and the file has 6"),
    "claims fewer": (SMALL.replace("psdd 6", "psdd 5"), "declares 5 nodes and the file has 6"),
    "root missing": (without_last(SMALL), "declares 6 nodes and the file has 5"),
    "cut in the root": (SMALL[:-25], "line 9: node 5 declares 3 elements and 6 fields follow"),
    "unknown letter": (SMALL.replace("L 3", "F 3"), "line 7: this is no node"),
    "literal too short": (SMALL.replace("L 3 1 -2", "L 3 1"), "line 7: this is no node"),
    "literal too long": (SMALL.replace("L 3 1 -2", "L 3 1 -2 5"), "line 7: this is no node"),
    "T too short": (SMALL.replace(f"2 {LOG[0.2]}", "2"), "line 8: this is no node"),
    "D too short": (SMALL + "D 6 2\n", "line 10: this is no node"),
    "no elements": (SMALL[: SMALL.index("D 5")] + "D 5 2 0\n", "line 9: this is no node"),
    "k too small": (SMALL.replace("2 3 0 4", "2 2 0 4"), "declares 2 elements and 9 fields follow"),
    "k huge": (SMALL.replace("2 3 0 4", f"2 {10**15} 0 4"), "declares 1,000,000,000,000,000 elem"),
    "k too huge": (SMALL.replace("2 3 0 4", f"2 {10**30} 0 4"), "line 9: a field is no number"),
    "k negative": (SMALL.replace("2 3 0 4", "2 -3 0 4"), "declares -3 elements"),
    "word for a number": (SMALL.replace("L 3 1", "L three 1"), "line 7: a field is no number"),
    "fraction for an id": (SMALL.replace("L 3 1", "L 3.0 1"), "line 7: a field is no number"),
    "underscore": (SMALL.replace("L 3 1", "L 0_3 1"), "line 7: an underscore is no part of a"),
    "word for a log": (SMALL.replace(LOG[0.2], "half"), "line 8: a field is no number"),
    "hexadecimal": (SMALL.replace(LOG[0.2], "-0x1p-1"), "line 8: a field is no number"),
    "other digits": (SMALL.replace("L 3 1", "L ٣ 1"), "line 7: a field is no number"),
    "id twice": (SMALL.replace("L 3 1", "L 2 1"), "line 7: node 2 is given twice"),
    "unknown child": (SMALL.replace("1 3 -", "1 9 -"), "line 9: node 5 names node 9, which is not"),
    "own child": (SMALL.replace("1 3 -", "1 5 -"), "line 9: node 5 names node 5, which is not"),
    "forward reference": (
        SMALL.replace("L 3 1 -2\n", "").replace("psdd 6", "psdd 6") + "L 3 1 -2\n",
        "line 8: node 5 names node 3, which is not above it",
    ),
    "variable 0": (SMALL.replace("L 3 1 -2", "L 3 1 0"), "line 7: node 3 names variable 0"),
    "T of a negative": (SMALL.replace("T 4 1 2", "T 4 1 -2"), "line 8: node 4 names variable -2"),
    "variable 2⁴⁰": (SMALL.replace("L 3 1 -2", f"L 3 1 {2**40}"), f"names variable {2**40}"),
    "variable -2⁶³": (SMALL.replace("L 3 1 -2", f"L 3 1 {-(2**63)}"), "node 3 names variable -92"),
    "weights above one": (SMALL.replace(LOG[0.5], LOG[0.7]), "node 5 sum to 1.2: weights are"),
    "weights below one": (SMALL.replace(LOG[0.5], "-inf"), "weights of node 5 sum to 0.5"),
    "positive log": (SMALL.replace(LOG[0.5], "0.5"), "node 5 has the log-probability 0.5: give"),
    "NaN weight": (SMALL.replace(LOG[0.5], "nan"), "node 5 has the log-probability nan"),
    "infinite weight": (SMALL.replace(LOG[0.5], "inf"), "node 5 has the log-probability inf"),
    "overflowing weight": (SMALL.replace(LOG[0.5], "1e999"), "has the log-probability inf"),
    "NaN in T": (SMALL.replace(LOG[0.2], "nan"), "line 8: node 4 has the log-probability nan"),
    "positive T": (SMALL.replace(LOG[0.2], "0.2"), "line 8: node 4 has the log-probability 0.2"),
    "T with two logs": (SMALL.replace(LOG[0.2], f"-1 {LOG[0.2]}"), "of node 4 sum to 0.567"),
    "overlap": (SMALL.replace("0 4 -", "2 4 -"), "split its variables in different ways"),
    "overlap in all": (
        f"psdd 3\nL 0 0 1\nT 1 0 1 {LOG[0.5]}\nD 2 2 1 0 1 0\n",
        "line 4: a prime and a sub of node 2 share variables",
    ),
    "overlap further up": (
        "psdd 6\nL 0 0 1\nL 1 1 2\nL 2 2 3\nD 3 3 1 0 1 0\nD 4 4 1 1 2 0\nD 5 5 1 3 4 0\n",
        "line 7: a prime and a sub of node 5 share variables",
    ),
    "a variable is skipped": (
        SMALL.replace(" 2\n", " 3\n").replace("-2\n", "-3\n").replace("T 4 1 2", "T 4 1 3"),
        "variable 2 does not occur below the last node and variable 3 does",
    ),
    "binary": ("psdd 1\nL 0 0 1\n\0\0\0", "it holds binary data: a psdd file is text"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(folder: Folder, case: str) -> None:
    text, words = REFUSED[case]
    with pytest.raises(FileFormatError) as caught:
        folder.read(text)
    assert words in str(caught.value)
    assert str(folder.psdd) in str(caught.value)
    assert "\n" not in str(caught.value)


AGAINST_VTREE = {
    "unknown place": ("L 3 1", "L 3 9", "line 7: there is no vtree node 9"),
    "literal elsewhere": ("L 3 1", "L 3 0", "line 7: node 3 is over variable 2 and vtree node 0"),
    "literal at an inner node": ("L 3 1", "L 3 2", "line 7: node 3 is over variable 2 and"),
    "T elsewhere": ("T 4 1", "T 4 0", "line 8: node 4 is over variable 2 and vtree node 0"),
    "decision at a leaf": ("D 5 2", "D 5 1", "line 9: node 5 does not split its variables as"),
    "prime and sub swapped": ("0 4 -", "4 0 -", "primes belong to its left child, subs to its"),
    "prime right, sub wrong": ("1 3 -", "1 0 -", "line 9: node 5 does not split its variables as"),
    "root is no root": ("D 5 2 3 0 4", "T 5 1 2 -1\nc", "the root of the vtree is 2"),
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
    with pytest.raises(FileFormatError, match="give the psdd first, then the vtree"):
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
        assert circuit.graph.properties.smooth
        assert circuit.graph.properties.structured_decomposable
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
        "the weights of node 2 sum to 500000",
    ),
    "a deep chain": (chain(130_000, "D 7777777 0 1 0 0 0"), "share variables"),
    "many variables": (
        "psdd 300000\n" + "".join(f"T {i} 0 {i + 1} -1\n" for i in range(300_000)),
        "variable 1 does not occur",
    ),
    "long tokens": (f"psdd 1\nL {'9' * 20_000_000} 0 1\n", "a field is no number of 64 bits"),
    "long fraction": (f"psdd 1\nT 0 0 1 0.{'9' * 20_000_000}\n", "has the log-probability 1"),
    "one long comment": ("c" * 30_000_000, "must be 'psdd COUNT'"),
    "blank lines": ("\n" * 30_000_000, "fields and the limit is"),
    "spaces": ("psdd 1\nL 0 0 1" + " " * 30_000_000, "fields and the limit is"),
    "too large": ("c" * (33 * 2**20), "bytes and the limit is"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_cost_little(folder: Folder, case: str) -> None:
    text, words = HOSTILE[case]
    folder.psdd.write_text(text)
    assert_refused(refusal("fairpc.circuit.psdd", "read_psdd", folder.psdd), words)


def test_hostile_pair(folder: Folder) -> None:
    """A vtree and a psdd that are both as large as they may be."""
    n = 29_000
    vtree = (f"L {2 * i + 1} {i + 2}\nI {2 * i + 2} {2 * i} {2 * i + 1}" for i in range(n))
    folder.vtree.write_text("\n".join([f"vtree {2 * n + 1}", "L 0 1", *vtree, ""]))
    nodes = (f"L {2 * i + 1} {2 * i + 1} {i + 2}\n" for i in range(n))
    repeats = f"T 9999999 {2 * n} 1 -1\n"
    folder.psdd.write_text(f"psdd {n + 1}\n" + "".join(nodes) + repeats)
    found = refusal("fairpc.circuit.psdd", "read_psdd", folder.psdd, folder.vtree)
    assert_refused(found, "is over variable 1 and vtree node 58000 is not its leaf")


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


def random_circuit(rnd: Random, n: int, *, deterministic: bool) -> Circuit:
    return _Grower.of(rnd, (2,) * n, structured=True, max_nodes=60).grow(deterministic)


@st.composite
def binary_circuits(draw: st.DrawFn) -> Circuit:
    """Smooth and structured-decomposable circuits over binary variables."""
    rnd = draw(st.randoms(use_true_random=False))
    return random_circuit(rnd, rnd.randrange(1, 10), deterministic=rnd.randrange(2) == 0)


@pytest.mark.filterwarnings("ignore:.*parameter block:UserWarning")
@settings(max_examples=examples(500))
@given(binary_circuits())
def test_what_is_written_is_the_same_distribution(one_folder: Folder, circuit: Circuit) -> None:
    found = one_folder.round_trip(circuit)
    assert found.names == circuit.names
    assert oracle.joint(found) == pytest.approx(oracle.joint(circuit), rel=1e-13, abs=1e-300)
    loose = read_psdd(one_folder.psdd, names=circuit.names)
    assert loose.graph.same_as(found.graph)


@pytest.mark.filterwarnings("ignore:.*parameter block:UserWarning")
@settings(max_examples=examples(500))
@given(binary_circuits())
def test_what_was_read_is_written_and_read_as_the_same_graph(
    one_folder: Folder, circuit: Circuit
) -> None:
    first = one_folder.round_trip(circuit)
    second = one_folder.round_trip(first)
    assert second.graph.same_as(first.graph)
    assert second.parameters == pytest.approx(first.parameters, rel=1e-14)


@pytest.mark.parametrize("text", [SMALL, without_last(LARGER).replace("psdd 12", "psdd 11")])
def test_hand_written_files_come_back(folder: Folder, text: str) -> None:
    circuit = folder.read(text)
    found = folder.round_trip(circuit)
    assert found.graph.same_as(circuit.graph)
    assert found.parameters == pytest.approx(circuit.parameters, rel=1e-15)


@pytest.mark.parametrize("p", [1e-300, 1e-20, 1e-9, 0.3, 0.5, 1 - 1e-9])
def test_small_probabilities_keep_their_digits(folder: Folder, p: float) -> None:
    for weights in ([p, 1 - p], [1 - p, p]):
        b = CircuitBuilder({"A": 2, "B": 2})
        leaves = [b.categorical("A", weights), b.categorical("B", [0.5, 0.5])]
        found = folder.round_trip(b.build(b.product(*leaves)))
        digits = 2e-16 * (2 + abs(math.log(min(weights))))  # of the logarithm
        assert found.weights(2) == pytest.approx(weights, rel=digits)


def test_exact_zeros_and_ones(folder: Folder) -> None:
    for weights in ([0.0, 1.0], [1.0, 0.0]):
        b = CircuitBuilder({"A": 2, "B": 2})
        a, b0, b1 = b.categorical("A", weights), b.indicator("B", 0), b.indicator("B", 1)
        circuit = b.build(b.sum([b.product(a, b0), b.product(a, b1)], weights))
        found = folder.round_trip(circuit)
        assert found.graph.same_as(circuit.graph)
        assert found.parameters.tolist() == circuit.parameters.tolist()


def test_products_of_many_children_follow_the_vtree(folder: Folder) -> None:
    b = CircuitBuilder({f"V{i}": 2 for i in range(6)})
    tails = [b.categorical(i, [0.1 * i, 1 - 0.1 * i]) for i in range(1, 6)]
    cells = [b.product(b.indicator(0, v), *tails) for v in (0, 1)]
    circuit = b.build(b.sum(cells, [0.25, 0.75]))
    found = folder.round_trip(circuit)
    assert oracle.joint(found) == pytest.approx(oracle.joint(circuit), rel=1e-14)
    sizes = np.diff(found.graph.child_ptr)[found.graph.kind == PRODUCT]
    assert (sizes == 2).all()
    assert len(sizes) == 2 + 4  # the chain over the tails is shared


def test_a_sum_below_a_sum_is_merged(folder: Folder) -> None:
    b = CircuitBuilder({"A": 2, "B": 2})
    a0, a1, b0, b1 = (b.indicator(v, k) for v in (0, 1) for k in (0, 1))
    leaf = b.sum([b.sum([a0, a1], [0.5, 0.5]), a1], [0.5, 0.5])
    inner = b.sum([b.product(a0, b0), b.product(a1, b1)], [0.5, 0.5])
    root = b.sum([inner, b.product(a0, b0), b.product(leaf, b1)], [0.5, 0.25, 0.25])
    circuit = b.build(root)
    found = folder.round_trip(circuit)
    assert (found.graph.kind == SUM).sum() == 2
    assert found.weights(found.graph.root) == pytest.approx([0.5, 0.25, 0.25])
    assert oracle.joint(found) == pytest.approx(oracle.joint(circuit), rel=1e-14)


@pytest.mark.parametrize("kind", ["indicator", "sum of one", "distribution"])
def test_one_variable(folder: Folder, kind: str) -> None:
    b = CircuitBuilder({"A": 2})
    one = b.indicator("A", 1)
    roots = {
        "indicator": one,
        "sum of one": b.sum([b.sum([one]), one], [0.5, 0.5]),
        "distribution": b.categorical("A", [0.25, 0.75]),
    }
    circuit = b.build(roots[kind])
    found = folder.round_trip(circuit)
    assert oracle.joint(found) == pytest.approx(oracle.joint(circuit), rel=1e-15)


def test_deep_circuits_do_not_recurse(folder: Folder) -> None:
    n = 3_000
    b = CircuitBuilder({f"V{i}": 2 for i in range(n)})
    node = b.categorical(0, [0.5, 0.5])
    for i in range(1, n):
        node = b.product(node, b.categorical(i, [0.25, 0.75]))
    found = folder.round_trip(b.build(node))
    assert found.graph.n_variables == n
    assert found.log_marginal(np.ones((1, n), int))[0] == pytest.approx(
        math.log(0.5) + (n - 1) * math.log(0.75)
    )


def test_shared_parameters_are_written_out_with_a_warning(folder: Folder) -> None:
    b = CircuitBuilder({"A": 2, "B": 2})
    tied = [b.categorical(v, [0.25, 0.75], tie="t") for v in ("A", "B")]
    circuit = b.build(b.product(*tied))
    with pytest.warns(UserWarning, match="1 parameter block.* shared by several sum nodes"):
        found = folder.round_trip(circuit)
    assert found.graph.n_parameters == 4
    assert oracle.joint(found) == pytest.approx(oracle.joint(circuit), rel=1e-15)


def test_names_are_comments_that_cannot_break_out(folder: Folder) -> None:
    b = CircuitBuilder({"a\nL 9 9 9": 2, "ü": 2})
    circuit = b.build(b.product(b.indicator(0, 1), b.indicator(1, 0)))
    assert folder.round_trip(circuit).graph.same_as(circuit.graph)
    assert 'c variable 1: "a\\nL 9 9 9"' in folder.psdd.read_text()


def test_what_the_format_cannot_hold(folder: Folder) -> None:
    b = CircuitBuilder({"A": 3})
    with pytest.raises(CircuitError, match="variable 'A' has 3 values and a psdd file holds bin"):
        write_psdd(b.build(b.categorical("A")), folder.psdd, folder.vtree)
    b = CircuitBuilder({"A": 2, "B": 2})
    rough = b.build(b.sum([b.categorical("A"), b.product(b.categorical("A"), b.indicator(1, 0))]))
    with pytest.raises(PropertyError, match="write_psdd needs a smooth circuit"):
        write_psdd(rough, folder.psdd, folder.vtree)
    assert not folder.psdd.exists()


def test_a_circuit_without_a_vtree_is_refused(folder: Folder) -> None:
    b = CircuitBuilder({"A": 2, "B": 2, "C": 2})
    a, bb, c = (b.categorical(v) for v in "ABC")
    ab, bc = (b.sum([b.product(x, y)] * 2) for x, y in ((a, bb), (bb, c)))
    circuit = b.build(b.sum([b.product(ab, c), b.product(a, bc)]))
    with pytest.raises(PropertyError, match="write_psdd needs a structured-decomposable circuit"):
        write_psdd(circuit, folder.psdd, folder.vtree)


def test_graphs_with_repeated_nodes_are_written(folder: Folder) -> None:
    """Equal indicators, and a product of one child, as the builder would not make them."""
    graph = Graph(
        names=("A", "B"),
        arities=np.array([2, 2]),
        kind=np.array([0, 0, 2, 0, 1, 1], np.uint8),
        variable=np.array([0, 0, -1, 1, -1, -1], np.int32),
        value=np.array([1, 1, -1, 0, -1, -1], np.int32),
        child_ptr=np.array([0, 0, 0, 2, 2, 3, 5]),
        child=np.array([0, 1, 2, 3, 4], np.int32),
        block=np.array([-1, -1, 0, -1, -1, -1], np.int32),
        block_ptr=np.array([0, 2]),
    )
    circuit = Circuit(graph, np.array([0.5, 0.5]))
    assert joint(folder.round_trip(circuit)) == joint(circuit)
