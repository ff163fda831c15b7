"""Cuts of bins: between people, not at one of them, and on the same side in 32 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from fairpc.data._binning import Atoms, bin_codes, choose_edges, distinct_edges

MIN_CELL = 5


def atoms_of(values: Any, labels: Any = None, *, date: bool = False) -> Atoms:
    found, place, n = np.unique(
        np.asarray(values, np.float64), return_inverse=True, return_counts=True
    )
    classes = None
    if labels is not None:
        classes = np.zeros((len(found), 2))
        np.add.at(classes, (place, np.asarray(labels, np.intp)), 1.0)
    integral = not date and bool((found == np.floor(found)).all())
    return Atoms(found, n.astype(np.float64), classes, integral, date)


def salaries(seed: int, n: int = 1200) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    pay = np.unique(np.round(rng.normal(50_000, 9000, n)))
    return pay, rng.random(len(pay)) < pay / 100_000


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_bins", [8, 32])
def test_no_cut_is_the_salary_of_a_person(seed: int, n_bins: int) -> None:
    pay, hired = salaries(seed)
    for atoms in (atoms_of(pay), atoms_of(pay, hired), atoms_of(pay / 7)):
        edges = choose_edges(atoms, n_bins, 0.005, MIN_CELL)
        assert len(edges) > 3
        assert not set(edges) & set(atoms.values.tolist())
        assert min(np.bincount(bin_codes(edges, atoms.values))) >= MIN_CELL


@pytest.mark.parametrize("seed", range(4))
def test_a_cut_says_nothing_of_its_neighbours(seed: int) -> None:
    """Whoever is next to a cut may earn anything up to the next person: the cut is the same."""
    pay = salaries(seed)[0] + 0.37
    edges = choose_edges(atoms_of(pay), 32, 0.005, MIN_CELL)
    changed = []
    for edge in edges:
        at = int(np.searchsorted(pay, edge))
        ways = (at, edge + 0.011), (at, pay[at + 1] - 0.011), (at - 1, pay[at - 2] + 0.011)
        for i, to in ways:
            moved = pay.copy()
            moved[i] = to
            changed.append(choose_edges(atoms_of(moved), 32, 0.005, MIN_CELL) != edges)
    # The fifth person from a cut, who bounds where it may lie, is next to it once in a while.
    assert sum(changed) <= 1


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_numbers_of_32_bits_are_in_the_same_bins(data: st.DataObject) -> None:
    """Heavy values, tenths, numbers near each other, large ones: as they are and in 32 bits."""
    scale = data.draw(st.sampled_from([0.1, 0.01, 1 / 3, 1e-6, 1e5 / 3]))
    ticks = data.draw(st.lists(st.integers(-400, 400), min_size=40, max_size=300))
    heavy = data.draw(st.lists(st.integers(-400, 400), max_size=3))
    values = np.array(ticks + heavy * 60) * scale
    atoms = atoms_of(values)
    if len(atoms.values) < 2:
        return
    narrow = values.astype(np.float32).astype(np.float64)
    for min_cell in (1, MIN_CELL):
        for edges in (
            choose_edges(atoms, 8, 0.005, min_cell),
            distinct_edges(atoms, 0.0, min_cell),
        ):
            np.testing.assert_array_equal(bin_codes(edges, values), bin_codes(edges, narrow))
            assert list(edges) == sorted(set(edges))
            if edges:
                assert min(np.bincount(bin_codes(edges, values))) >= min_cell


@settings(max_examples=60, deadline=None)
@given(
    ticks=st.lists(st.integers(0, 300), min_size=20, max_size=400),
    n_bins=st.integers(2, 16),
    kind=st.sampled_from(["number", "date", "broken"]),
)
def test_bins_keep_their_people_and_cuts_are_of_many(
    ticks: list[int], n_bins: int, kind: str
) -> None:
    """Where a cut is somebody's value, many have it, or every number around is somebody's."""
    scale = {"number": 1.0, "date": 86_400_000_000.0, "broken": 0.7}[kind]
    atoms = atoms_of(np.array(ticks) * scale, date=kind == "date")
    edges = choose_edges(atoms, n_bins, 0.0, MIN_CELL)
    if not edges:
        return
    codes = bin_codes(edges, atoms.values)
    assert np.bincount(codes, atoms.weights).min() >= MIN_CELL
    people = dict(zip(atoms.values.tolist(), atoms.weights.tolist(), strict=True))
    for edge in edges:
        if 0 < people.get(edge, 0) < MIN_CELL:
            assert kind != "broken"
            assert {edge - scale, edge + scale} & set(people)


def test_a_frame_of_32_bits_is_scored_alike() -> None:
    """A model that was fitted to 64-bit numbers, and is asked about the same in 32 bits."""
    from fairpc import LatNB

    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"a": rng.integers(0, 60, 800) / 10, "b": rng.lognormal(0, 1, 800)})
    y = (frame["b"] + frame["a"] > 4).to_numpy()
    model = LatNB(max_iter=3, min_iter=1, guard=False)
    model.fit(frame, y, sensitive_features=np.arange(800) % 2)
    narrow = frame.with_columns(pl.all().cast(pl.Float32))
    np.testing.assert_array_equal(
        model.predict_proba(frame, sensitive_features=np.arange(800) % 2),
        model.predict_proba(narrow, sensitive_features=np.arange(800) % 2),
    )
