"""Bounds within strata: boxes against their definition, bounds of scores, files."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom

from fairpc.core import Floats
from fairpc.errors import FileFormatError
from fairpc.evidence import Known, Sample, SharedBounds, around, label_bounds, read_bounds
from fairpc.evidence._held_out_bounds import HeldOutRates
from fairpc.evidence._top_sets import ClassRates
from strategies import examples

BENT = np.array([[0.02, 0.6], [0.1, 0.95], [0.05, 0.8]])
PI = np.array([0.2, 0.5, 0.8])


def rate(mean: float, n: int) -> Sample:
    return Sample(mean, n, mean * (1 - mean) / n, math.inf)


def exact(bent: Floats, pi: Floats, gap: float = 0.02, n: int = 10**7) -> SharedBounds:
    """Ends of so many rows that nothing is by chance; scores keep ``gap`` away from b0 and b1."""
    groups, cells = [], []
    for s, (b0, b1) in enumerate(bent.tolist()):
        rates = (b0 + (b1 - b0) * pi).tolist()
        mean = float(np.mean(rates))
        positive = ClassRates(n, rate(mean, n), n // 9, rate(b1 - gap, n // 9), 0.0)
        negative = ClassRates(n, rate(1 - mean, n), n // 9, rate(1 - b0 - gap, n // 9), 0.0)
        groups.append(HeldOutRates(f"g{s}", positive, negative))
        cells.append(tuple(rate(r, n) for r in rates))
    return SharedBounds(tuple(groups), tuple(cells), tuple(Known() for _ in groups))


def drawn(seed: int, n: int = 3000, n_groups: int = 2) -> dict[str, Any]:
    """Rows with their exact r and q, strata whose rates differ, labels bent by ``BENT``."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, n_groups, n)
    a = np.where(rng.random(n) < 0.4 * (s == 0), 0, rng.integers(0, 3, n))
    q = rng.beta(3 * PI[a], 3 * (1 - PI[a]))
    r = BENT[s, 0] + (BENT[s, 1] - BENT[s, 0]) * q
    labels = (rng.random(n) < r).astype(np.intp)
    return {"q": q, "r": r, "s": s, "a": a, "labels": labels, "folds": rng.integers(0, 5, n)}


def ends(rows: dict[str, Any], *, within: bool, **given: Any) -> Any:
    names = tuple(f"g{k}" for k in range(int(rows["s"].max()) + 1))
    given |= {"strata": rows["a"], "n_strata": 3, "within": within}
    return label_bounds(rows["labels"], rows["r"], rows["s"], rows["folds"], names, **given)


def bounds(found: Any, rows: dict[str, Any], level: float | None) -> Floats:
    """The set itself: bounds are widened to a score, so each end is seen from the other side."""
    given = rows["r"], rows["r"], rows["s"], level, rows["a"]
    sides = (np.full(len(rows["r"]), side) for side in (1.0, 0.0))
    lower, upper = (around(side, found.score_bounds(*given)) for side in sides)
    return np.column_stack([lower[:, 0], upper[:, 1]])


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("known", [Known(), Known((0.08, 0.1), (0.9, 0.97))])
def test_boxes_are_all_mechanisms_that_fit_and_no_others(n_groups: int, known: Known) -> None:
    """The slow twin tries every (b00, b10) of a grid, and maps it onto each group by its line."""
    found = exact(BENT[:n_groups], PI)
    found = found.with_known((Known(), known, Known())[:n_groups])
    b00, b10 = np.meshgrid(np.linspace(0, 1, 801), np.linspace(0, 1, 801), indexing="ij")
    possible, mapped = b00 < b10, []
    for s in range(n_groups):
        beta = (BENT[s, 1] - BENT[s, 0]) / (BENT[0, 1] - BENT[0, 0])
        b0, b1 = (BENT[s, 0] + beta * (b - BENT[0, 0]) for b in (b00, b10))
        own = found.known[s]
        possible &= (b0 >= own.b0[0] - 1e-9) & (b0 <= min(BENT[s, 0] + 0.02, own.b0[1]) + 1e-9)
        possible &= (b1 <= own.b1[1] + 1e-9) & (b1 >= max(BENT[s, 1] - 0.02, own.b1[0]) - 1e-9)
        mapped.append((b0, b1))
    boxes = found.boxes(None)
    assert boxes is not None
    for (b0, b1), box in zip(mapped, boxes, strict=True):
        for each, range_ in zip((b0, b1), box, strict=True):
            ends = each[possible].min(), each[possible].max()
            assert range_ == pytest.approx(ends, abs=0.004)
    rng = np.random.default_rng(0)
    for s, box in enumerate(boxes):
        r = rng.uniform(BENT[s, 0] + 0.02, BENT[s, 1] - 0.02, 5)
        b0, b1 = (b[possible][:, None] for b in mapped[s])
        q = np.clip((r - b0) / (b1 - b0), 0, 1)
        wide = around(np.full(5, 0.5), found.score_bounds(r, r, np.full(5, s), None))
        assert wide[:, 0] == pytest.approx(np.minimum(q.min(axis=0), 0.5), abs=0.02)
        assert wide[:, 1] == pytest.approx(np.maximum(q.max(axis=0), 0.5), abs=0.02)
        assert box[0][1] < box[1][0]


def test_rates_of_strata_are_found() -> None:
    found = exact(BENT, PI)
    assert found.stratum_rates(BENT, 0.0) == pytest.approx(PI, abs=1e-9)
    # Ten prior rows are nothing beside ten million, and all there is where no row is.
    assert found.stratum_rates(BENT, 10.0) == pytest.approx(PI, abs=1e-5)
    cells = tuple((*own[:2], None) for own in found.cells)
    lacking = replace(found, cells=cells).stratum_rates(BENT, 10.0)
    assert lacking[:2] == pytest.approx(PI[:2], abs=1e-5)
    assert PI[0] < lacking[2] < PI[1]


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_the_nearest_mechanism_is_possible(wanted: list[float]) -> None:
    b = np.sort(np.array(wanted).reshape(2, 2), axis=1)
    found = NEAR.nearest(b, 0.95)
    boxes = NEAR.boxes(0.95)
    assert boxes is not None
    for own, box in zip(found.tolist(), boxes, strict=True):
        for value, (low, high) in zip(own, box, strict=True):
            assert low - 0.01 <= value <= high + 0.01
    # Rates on the line of the mechanism are those of the strata, as far as chance goes.
    line = found[1, 0] + (found[1, 1] - found[1, 0]) * NEAR.stratum_rates(found, 0.0)
    rates = np.array([cell.mean for cell in NEAR.cells[1] if cell is not None])
    assert line == pytest.approx(rates, abs=0.08)


NEAR = ends(drawn(7), within=False)


def test_a_possible_mechanism_is_its_own_nearest() -> None:
    assert NEAR.nearest(BENT[:2], 0.95) == pytest.approx(BENT[:2], abs=0.005)


def test_strata_that_do_not_differ_tell_no_line() -> None:
    """The line is then any through one point, and the set is that of plain parity, nearly."""
    rows = drawn(3)
    alike = rows | {"a": np.random.default_rng(0).integers(0, 3, len(rows["a"]))}
    weak = ends(alike, within=False)
    assert weak.boxes(None) == weak.boxes(0.95)
    told = ends(rows, within=False)
    assert told.boxes(None) != told.boxes(0.95)


def test_a_group_that_shares_no_stratum_has_its_ends_alone() -> None:
    rows = drawn(4)
    rows["a"] = np.where(rows["s"] == 0, 0, 1 + rows["a"] % 2)
    boxes = ends(rows, within=False).boxes(0.95)
    largest = int(np.bincount(rows["s"]).argmax())
    assert boxes[1 - largest][0][0] == 0.0
    assert boxes[1 - largest][1][1] == 1.0
    assert boxes[1 - largest][0][1] < 0.2


@pytest.mark.parametrize("level", [None, 0.9])
def test_a_mechanism_within_strata_is_the_plain_problem_of_each(level: float | None) -> None:
    rows = drawn(5)
    found = bounds(ends(rows, within=True), rows, level)
    for a in range(3):
        here = rows["a"] == a
        own = {name: value[here] for name, value in rows.items()}
        plain = label_bounds(own["labels"], own["r"], own["s"], own["folds"], ("g0", "g1"))
        at = None if level is None else 1 - (1 - level) / 3
        assert np.array_equal(found[here], bounds(plain, own, at))


def test_a_stratum_that_is_not_known_may_be_any() -> None:
    rows = drawn(6)
    found = ends(rows, within=True)
    each = [bounds(found, rows | {"a": np.full(3000, a)}, None) for a in range(3)]
    either = bounds(found, rows | {"a": np.full(3000, -1)}, None)
    assert np.array_equal(either[:, 0], np.min([b[:, 0] for b in each], axis=0))
    assert np.array_equal(either[:, 1], np.max([b[:, 1] for b in each], axis=0))


def test_nothing_is_known_of_a_subgroup_without_rows() -> None:
    rows = drawn(6)
    kept = (rows["s"] == 0) | (rows["a"] < 2)
    found = ends({name: value[kept] for name, value in rows.items()}, within=True)
    missing = (rows["s"] == 1) & (rows["a"] == 2)
    assert (bounds(found, rows, None)[missing] == [0.0, 1.0]).all()
    assert (bounds(found, rows, None)[~missing, 0] > 0).any()


@pytest.mark.parametrize("within", [False, True])
def test_levels_have_more_in_them_and_all_hold_the_truth(within: bool) -> None:
    rows = drawn(8, n_groups=3)
    found = ends(rows, within=within)
    share = np.zeros((3, 3))
    np.add.at(share, (rows["s"], rows["a"]), 1 / len(rows["s"]))
    narrow, wide = (bounds(found, rows, level) for level in (0.8, 0.99))
    assert (wide[:, 0] <= narrow[:, 0] + 1e-12).all()
    assert (wide[:, 1] >= narrow[:, 1] - 1e-12).all()
    assert ((wide[:, 0] <= rows["q"]) & (rows["q"] <= wide[:, 1])).all()
    low, high = found.rate_set(0.95, share)
    assert low < rows["q"].mean() < high


def test_labels_that_are_bent_otherwise_in_a_stratum_are_seen() -> None:
    rows = drawn(9, 12_000)
    flipped = (rows["a"] == 1) & (rows["s"] == 1)
    r = np.where(flipped, 0.1 + 0.15 * rows["q"], rows["r"])
    labels = (np.random.default_rng(0).random(12_000) < r).astype(np.intp)
    rows |= {"r": r, "labels": labels}
    shared = ends(rows, within=False)
    assert shared.boxes(0.95) is None
    for level in (None, 0.95):
        assert np.isnan(bounds(shared, rows, level)).all()
    assert shared.rate_set(0.95, np.full((2, 3), 1 / 6)) == (1.0, 0.0)
    assert np.array_equal(shared.nearest(BENT[:2], 0.95), BENT[:2])
    assert ends(rows, within=True).rejected(0.95) == []


def test_known_boxes_that_labels_exclude_leave_nothing() -> None:
    shared = ends(drawn(10), within=False)
    impossible = shared.with_known((Known((0.5, 0.6), (0.7, 0.8)), Known()))
    assert impossible.boxes(0.95) is None


@pytest.mark.parametrize("within", [False, True])
def test_the_same_bits_after_a_file(within: bool) -> None:
    rows = drawn(11)
    found = ends(rows, within=within, weights=np.linspace(0.5, 2, 3000))
    data = json.loads(json.dumps(found.to_dict()))
    again = read_bounds(data, 3, within=within)
    assert again == found
    assert np.array_equal(bounds(again, rows, 0.9), bounds(found, rows, 0.9))
    others: tuple[Any, ...] = (None, [], {}, 3, {**data, "groups": data["groups"][:1]})
    for other in others:
        with pytest.raises(FileFormatError):
            read_bounds(other, 3, within=within)
    with pytest.raises(FileFormatError, match="not of the strata"):
        read_bounds(data, 4, within=within)


@pytest.mark.slow
@pytest.mark.parametrize("within", [False, True])
def test_sets_hold_the_truth_as_often_as_they_say(within: bool) -> None:
    """Of 60 draws seven misses fail; a set that holds .95 has them with a chance of .03 at most."""
    held = 0
    for seed in range(60):
        rows = drawn(100 + seed, 2000)
        found = bounds(ends(rows, within=within), rows, 0.95)
        held += bool(((found[:, 0] <= rows["q"]) & (rows["q"] <= found[:, 1])).all())
    assert binom.cdf(held, 60, 0.95) > 0.01
