"""Psdd files: what is read."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from circuit.psdd_files import (
    LARGER,
    LARGER_VTREE,
    LOG,
    SMALL,
    SMALL_JOINT,
    SMALL_VTREE,
    Folder,
    joint,
    without_last,
)
from fairpc.circuit import SUM, CircuitBuilder, read_psdd
from fairpc.errors import CircuitError


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
