"""The published circuits: whose variables are what, whose fold is whose, and their scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairpc.circuit import Circuit, CircuitBuilder
from fairpc.errors import FileFormatError
from published import paper_folder
from reproduction import circuits
from reproduction.circuits import column_order, own_fold, read_circuits, score
from reproduction.distributions import FAIRPC_EQUAL
from reproduction.runs import Runner, Study, Task
from reproduction.sources import PaperTable, Sources
from small_folder import small_folder, small_study

OWN_FOLDS = {
    "compas": list(range(10)),
    "adult": [1, 0, *range(2, 10)],
    "german": [1, 2, 0, *range(3, 10)],
}
"""Folds of the files in order, as the notes on the data say."""


@pytest.fixture(scope="module")
def sources() -> Sources:
    folder = paper_folder()
    return Sources(folder, folder / "splits")


def folder_of(sources: Sources) -> Path:
    assert sources.data_dir is not None
    return sources.data_dir


def test_label_and_last_column_change_places() -> None:
    assert column_order(["a", "label", "b", "c"], "label") == ["a", "c", "b", "label", "Df"]
    assert column_order(["a", "label"], "label") == ["a", "label", "Df"]


@pytest.mark.parametrize("name", OWN_FOLDS)
def test_published_circuits_fit_their_folds(name: str, sources: Sources) -> None:
    """Marginals are those of the columns, which a wrong order of variables would not be."""
    table = sources.table(name)
    found = read_circuits(folder_of(sources), table)
    assert [own_fold(c, table) for c in found] == OWN_FOLDS[name]
    circuit, fold = found[4], table.folds[4]
    codes = circuits.codes_of(circuit, table)
    for j, variable in enumerate(circuit.names[:-1]):
        row = np.full((1, len(circuit.names)), -1, np.int16)
        row[0, j] = 1
        rate = float(np.exp(circuit.log_marginal(row)[0]))
        # EM with smoothing keeps the means of columns nearly.
        assert rate == pytest.approx(codes[fold.train, j].mean(), abs=0.02), variable


def test_scores_are_those_of_enumeration() -> None:
    """A circuit of three columns and Df, against its joint table."""
    rng = np.random.default_rng(0)
    order = ("ScoreText_", "x", "Ethnic_Code_Text_", "Df")
    joint = rng.dirichlet(np.ones(16)).reshape(2, 2, 2, 2)
    circuit = _circuit(order, joint)
    table = _table(rng)
    outcome = score(circuit, table, 0)
    test = table.folds[0].test
    x, s, d = table.rows.x[test, 0], table.rows.s[test], table.rows.d[test]
    with_label = joint[d, x, s]
    np.testing.assert_allclose(outcome.log_likelihood, np.log(with_label.sum(axis=1)))
    unlabelled = joint[:, x, s].sum(axis=0)
    np.testing.assert_allclose(outcome.scores, unlabelled[:, 1] / unlabelled.sum(axis=1))
    cells = joint.sum(axis=1)  # [d, s, f]
    np.testing.assert_allclose(
        outcome.mechanism[:, :, 1], (cells[1] / cells.sum(axis=0)), atol=1e-12
    )


def _circuit(names: tuple[str, ...], joint: np.ndarray) -> Circuit:
    b = CircuitBuilder(dict.fromkeys(names, 2))
    cells = [
        b.product(*(b.indicator(n, v) for n, v in zip(names, values, strict=True)))
        for values in np.ndindex(*joint.shape)
    ]
    return b.build(b.sum(cells, joint.ravel().tolist()))


def _table(rng: np.random.Generator) -> PaperTable:
    from fairpc.metrics import Fold
    from fairpc.models import Rows

    s, d, x = rng.integers(0, 2, (3, 60))
    rows = Rows.of(s, d, x[:, None], arities=[2], names=["x"])
    parts = np.split(np.arange(60), [40, 50])
    return PaperTable("compas", rows, (Fold(*parts),))


@pytest.mark.parametrize(("name", "fold", "same"), [("german", 3, True), ("german", 4, False)])
def test_some_of_our_fits_are_the_published_circuits(
    name: str, fold: int, same: bool, sources: Sources
) -> None:
    """German folds 4 and 5: one search takes the authors' splits to the end, the other does not."""
    table = sources.table(name)
    ours = Task(table, fold, FAIRPC_EQUAL).run()
    theirs = score(read_circuits(folder_of(sources), table)[fold], table, fold)
    assert circuits.is_same(ours, theirs) == same


@pytest.mark.parametrize("name", OWN_FOLDS)
def test_our_em_finds_the_published_parameters_on_the_published_structure(
    name: str, sources: Sources
) -> None:
    """All thirty agree to 4e-6; another start, or a free P(S, Df), would not."""
    table = sources.table(name)
    circuit = read_circuits(folder_of(sources), table)[4]
    found = circuits.relearned(circuit, table, 4)
    assert np.abs(found - circuit.parameters).max() < 1e-5


def test_a_circuit_of_other_folds_is_refused() -> None:
    rng = np.random.default_rng(1)
    joint = rng.dirichlet(np.ones(16)).reshape(2, 2, 2, 2)
    circuit = _circuit(("ScoreText_", "x", "Ethnic_Code_Text_", "Df"), joint)
    with pytest.raises(FileFormatError, match="that of no fold: give with --splits"):
        own_fold(circuit, _table(rng))


def test_a_quick_look_scores_the_circuits_of_its_folds(sources: Sources, tmp_path: Path) -> None:
    """Two folds; file 2 of German belongs to the third."""
    study = Study(replace(sources, quick=True), Runner(tmp_path, n_jobs=1))
    exhibit = circuits.exhibit(study)
    assert "file 2 to fold 3" in exhibit.notes[0]
    assert {r["dataset"] for r in exhibit.records} == set(OWN_FOLDS)
    assert "of 6 folds" in exhibit.notes[4]


def test_without_the_files_it_says_so(tmp_path: Path) -> None:
    study = small_study(small_folder(tmp_path / "authors"), tmp_path / "cache")
    exhibit = circuits.exhibit(study)
    assert not exhibit.records
    assert exhibit.notes[0].startswith("Left out: the circuits are read from")
