"""Bounds within strata: each is the plain problem of its rows, bounds of scores, files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from fairpc.core import Floats
from fairpc.errors import FileFormatError
from fairpc.evidence import around, label_bounds, read_bounds

BENT = np.array([[0.02, 0.6], [0.1, 0.95], [0.05, 0.8]])
PI = np.array([0.2, 0.5, 0.8])


def drawn(seed: int, n: int = 3000, n_groups: int = 2) -> dict[str, Any]:
    """Rows with their exact r and q, strata whose rates differ, labels bent by ``BENT``."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, n_groups, n)
    a = np.where(rng.random(n) < 0.4 * (s == 0), 0, rng.integers(0, 3, n))
    q = rng.beta(3 * PI[a], 3 * (1 - PI[a]))
    r = BENT[s, 0] + (BENT[s, 1] - BENT[s, 0]) * q
    labels = (rng.random(n) < r).astype(np.intp)
    return {"q": q, "r": r, "s": s, "a": a, "labels": labels, "folds": rng.integers(0, 5, n)}


def ends(rows: dict[str, Any], **given: Any) -> Any:
    names = tuple(f"g{k}" for k in range(int(rows["s"].max()) + 1))
    given |= {"strata": rows["a"], "n_strata": 3}
    return label_bounds(rows["labels"], rows["r"], rows["s"], rows["folds"], names, **given)


def bounds(found: Any, rows: dict[str, Any], level: float | None) -> Floats:
    """The set itself: bounds are widened to a score, so each end is seen from the other side."""
    given = rows["r"], rows["r"], rows["s"], level, rows["a"]
    sides = (np.full(len(rows["r"]), side) for side in (1.0, 0.0))
    lower, upper = (around(side, found.score_bounds(*given)) for side in sides)
    return np.column_stack([lower[:, 0], upper[:, 1]])


@pytest.mark.parametrize("level", [None, 0.9])
def test_a_mechanism_within_strata_is_the_plain_problem_of_each(level: float | None) -> None:
    rows = drawn(5)
    found = bounds(ends(rows), rows, level)
    for a in range(3):
        here = rows["a"] == a
        own = {name: value[here] for name, value in rows.items()}
        plain = label_bounds(own["labels"], own["r"], own["s"], own["folds"], ("g0", "g1"))
        at = None if level is None else 1 - (1 - level) / 3
        assert np.array_equal(found[here], bounds(plain, own, at))


def test_a_stratum_that_is_not_known_may_be_any() -> None:
    rows = drawn(6)
    found = ends(rows)
    each = [bounds(found, rows | {"a": np.full(3000, a)}, None) for a in range(3)]
    either = bounds(found, rows | {"a": np.full(3000, -1)}, None)
    assert np.array_equal(either[:, 0], np.min([b[:, 0] for b in each], axis=0))
    assert np.array_equal(either[:, 1], np.max([b[:, 1] for b in each], axis=0))


def test_nothing_is_known_of_a_subgroup_without_rows() -> None:
    rows = drawn(6)
    kept = (rows["s"] == 0) | (rows["a"] < 2)
    found = ends({name: value[kept] for name, value in rows.items()})
    missing = (rows["s"] == 1) & (rows["a"] == 2)
    assert (bounds(found, rows, None)[missing] == [0.0, 1.0]).all()
    assert (bounds(found, rows, None)[~missing, 0] > 0).any()


def test_levels_have_more_in_them_and_all_hold_the_truth() -> None:
    rows = drawn(8, n_groups=3)
    found = ends(rows)
    share = np.zeros((3, 3))
    np.add.at(share, (rows["s"], rows["a"]), 1 / len(rows["s"]))
    narrow, wide = (bounds(found, rows, level) for level in (0.8, 0.99))
    assert (wide[:, 0] <= narrow[:, 0] + 1e-12).all()
    assert (wide[:, 1] >= narrow[:, 1] - 1e-12).all()
    assert ((wide[:, 0] <= rows["q"]) & (rows["q"] <= wide[:, 1])).all()
    low, high = found.rate_set(0.95, share)
    assert low < rows["q"].mean() < high


def test_labels_that_are_altered_otherwise_in_a_stratum_contradict_nothing() -> None:
    rows = drawn(9, 12_000)
    flipped = (rows["a"] == 1) & (rows["s"] == 1)
    r = np.where(flipped, 0.1 + 0.15 * rows["q"], rows["r"])
    labels = (np.random.default_rng(0).random(12_000) < r).astype(np.intp)
    rows |= {"r": r, "labels": labels}
    assert ends(rows).rejected(0.95) == []


def test_the_same_bits_after_a_file() -> None:
    rows = drawn(11)
    found = ends(rows, weights=np.linspace(0.5, 2, 3000))
    data = json.loads(json.dumps(found.to_dict()))
    again = read_bounds(data, 3)
    assert again == found
    assert np.array_equal(bounds(again, rows, 0.9), bounds(found, rows, 0.9))
    others: tuple[Any, ...] = (None, [], {}, 3, {**data, "groups": data["groups"][:1]})
    for other in others:
        with pytest.raises(FileFormatError):
            read_bounds(other, 3)
    with pytest.raises(FileFormatError, match="not of the strata"):
        read_bounds(data, 4)


@pytest.mark.slow
def test_sets_hold_the_truth_as_often_as_they_say() -> None:
    """Of 60 draws seven misses fail; a set that holds .95 has them with a chance of .03 at most."""
    held = 0
    for seed in range(60):
        rows = drawn(100 + seed, 2000)
        found = bounds(ends(rows), rows, 0.95)
        held += bool(((found[:, 0] <= rows["q"]) & (rows["q"] <= found[:, 1])).all())
    assert binom.cdf(held, 60, 0.95) > 0.01
