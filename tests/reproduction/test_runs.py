"""Tables, folds and runs: read, run once, kept, and resumed."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from fairpc.errors import FairpcError, FileFormatError, LearningError
from fairpc.models import Rows
from fairpc.models._fit import initial_model
from published import paper_folder
from reproduction import methods
from reproduction.distributions import (
    FAIRPC_AUTO,
    FAIRPC_EQUAL,
    FAIRPC_RAND,
    FAIRPC_RAND_TOP,
    LATNB_MOVED,
    PROTOCOL,
    STARTS,
    FoldRows,
    fit_method,
    moved_labels,
    with_holes,
)
from reproduction.methods import ALL_METHODS, Outcome, load, run, save
from reproduction.runs import Runner, Task
from reproduction.sources import Sources, drawn, own_folds, read_table
from small_folder import N_ROWS, small_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_folder(tmp_path_factory.mktemp("authors"))


def test_tables_and_folds_are_read(folder: Path) -> None:
    table = Sources(folder, folder / "splits").table("adult")
    assert table.rows.names == ("a", "b", "c", "d")
    assert table.rows.n_rows == N_ROWS
    assert len(table.folds) == 4
    assert sum(len(f.test) for f in table.folds) == N_ROWS
    assert len(Sources(folder, folder / "splits", quick=True).table("adult").folds) == 2


def test_folds_of_our_own_have_every_group_and_label(folder: Path) -> None:
    table = Sources(folder).table("german")
    assert len(table.folds) == 10
    for fold in table.folds:
        cells = table.rows.d[fold.test] * 2 + table.rows.s[fold.test]
        assert set(cells.tolist()) == {0, 1, 2, 3}


def test_a_person_is_in_one_part_only(folder: Path) -> None:
    rows = Sources(folder).table("compas").rows
    persons = np.arange(rows.n_rows) // 3
    for fold in own_folds(rows, 0, persons):
        parts = [set(persons[part].tolist()) for part in (fold.train, fold.valid, fold.test)]
        assert not parts[0] & parts[1]
        assert not (parts[0] | parts[1]) & parts[2]


def test_what_is_missing_is_said(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="processed/adult_binerized.csv does not exist"):
        Sources(tmp_path).table("adult")
    with pytest.raises(FileFormatError, match="is not a folder"):
        Sources(folder, tmp_path / "nothing").table("adult")
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,0\n")
    with pytest.raises(FileFormatError, match="no column 'target'"):
        read_table(path, "target", "sex")
    path.write_text("target,sex,x\n1,zero,1\n")
    with pytest.raises(FileFormatError, match="whole numbers"):
        read_table(path, "target", "sex")


def test_without_a_folder_compas_may_be_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRPC_DATA", str(tmp_path))
    tables, absent = Sources(quick=True).real_world()
    assert [t.name for t in tables] == ["adult", "german"]
    assert len(absent) == 1
    assert absent[0].startswith("COMPAS is left out: ")


def test_drawn_tables_repeat_and_know_their_truth() -> None:
    one, two, other = drawn(10, 0, 3), drawn(10, 0, 3), drawn(10, 1, 3)
    assert np.array_equal(one.rows.x, two.rows.x)
    assert not np.array_equal(one.rows.x, other.rows.x)
    assert one.truth is not None
    assert one.model is not None
    assert len(one.folds) == 3


@pytest.mark.parametrize("method", [*dict.fromkeys((*ALL_METHODS, *STARTS)), FAIRPC_AUTO])
def test_every_method_runs_and_its_outcome_is_kept(
    method: str, folder: Path, tmp_path: Path
) -> None:
    if method == "Reduction":
        pytest.importorskip("fairlearn")
    table = Sources(folder, folder / "splits").table("compas")
    task = Task(table, 0, method)
    outcome = task.run()
    n = len(table.folds[0].test)
    assert outcome.scores.shape == outcome.predicted.shape == (n,)
    assert ((outcome.scores >= 0) & (outcome.scores <= 1)).all()
    assert len(outcome.log_likelihood) == (n if methods.is_distribution(method) else 0)
    save(outcome, tmp_path / "o.npz")
    again = load(tmp_path / "o.npz")
    assert again is not None
    for field in fields(Outcome):
        a, b = getattr(outcome, field.name), getattr(again, field.name)
        np.testing.assert_array_equal(a, b)


def test_an_outcome_repeats_and_another_seed_gives_another(folder: Path) -> None:
    table = Sources(folder, folder / "splits").table("compas")
    one, same = (Task(table, 0, FAIRPC_RAND).run().log_likelihood for _ in range(2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, Task(table, 0, FAIRPC_RAND, start=1).run().log_likelihood)


def test_the_promise_is_exact_where_there_is_one(folder: Path) -> None:
    table = Sources(folder, folder / "splits").table("compas")
    for method in ("FairPC", "LatNB", "NLatPC"):
        assert abs(Task(table, 0, method).run().parity_gap) < 1e-9
    assert abs(Task(table, 0, "2NB").run().parity_gap) > 1e-6


def test_an_unknown_method_is_refused(folder: Path) -> None:
    table = Sources(folder).table("adult")
    with pytest.raises(LearningError, match="no method 'Magic'"):
        Task(table, 0, "Magic").run()
    rows = table.rows
    with pytest.raises(LearningError, match="not run on rows with holes"):
        run("LatNB", FoldRows(rows, rows, rows), 0, missing=0.5)


def test_the_key_changes_with_all_that_matters(folder: Path) -> None:
    table = Sources(folder, folder / "splits").table("adult")
    other = Sources(folder, folder / "splits").table("german")
    tasks = [
        Task(table, 0, "FairPC"),
        Task(table, 1, "FairPC"),
        Task(table, 0, "LatNB"),
        Task(other, 0, "FairPC"),
        Task(table, 0, "FairPC", missing=0.0),
        Task(table, 0, "FairPC", missing=0.5),
        Task(table, 0, "FairPC", start=1),
    ]
    assert len({task.key for task in tasks}) == len(tasks)
    assert Task(table, 0, "FairPC").key == tasks[0].key


def test_a_run_goes_on_where_it_stopped(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Sources(folder, folder / "splits").table("adult")
    tasks = [Task(table, k, "LR") for k in range(4)]
    runner = Runner(tmp_path, n_jobs=1)
    runner(tasks[:2], "two")
    ran: list[int] = []
    original = Task.run

    def counted(task: Task, rows: FoldRows | None = None) -> Outcome:
        ran.append(task.fold)
        return original(task, rows)

    monkeypatch.setattr(Task, "run", counted)
    outcomes = runner(tasks, "four")
    assert ran == [2, 3]
    direct = [original(task) for task in tasks]
    for a, b in zip(outcomes, direct, strict=True):
        np.testing.assert_array_equal(a.scores, b.scores)


def test_a_broken_file_is_run_again(folder: Path, tmp_path: Path) -> None:
    task = Task(Sources(folder, folder / "splits").table("adult"), 0, "LR")
    runner = Runner(tmp_path, n_jobs=1)
    runner([task], "one")
    (path,) = tmp_path.rglob("*.npz")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert load(path) is None
    assert len(runner([task], "one")) == 1
    assert load(path) is not None


@pytest.mark.slow
def test_processes_give_the_same_numbers(folder: Path, tmp_path: Path) -> None:
    table = Sources(folder, folder / "splits").table("adult")
    tasks = [Task(table, k, m) for m in ("FairPC", "LR") for k in range(2)]
    apart = Runner(tmp_path / "a", n_jobs=2)(tasks, "two processes")
    here = Runner(tmp_path / "b", n_jobs=1)(tasks, "one process")
    for a, b in zip(apart, here, strict=True):
        np.testing.assert_array_equal(a.scores, b.scores)


def test_holes_are_as_many_as_asked_and_only_in_features() -> None:
    rows = drawn(10, 0, 2).rows
    holed = with_holes(rows, 0.3, np.random.default_rng(0))
    assert (holed.x < 0).mean() == pytest.approx(0.3, abs=0.01)
    assert (rows.x >= 0).all()
    assert (holed.x[holed.x >= 0] == rows.x[holed.x >= 0]).all()


def test_hidden_cells_leave_no_trace(folder: Path) -> None:
    """What is hidden may change structure, never parameters: with all hidden, X is uniform."""
    table = Sources(folder, folder / "splits").table("adult")
    outcome = Task(table, 0, "FairPC", missing=1.0).run()
    given = outcome.log_likelihood + len(table.rows.names) * np.log(2)
    # P(s, d) times a uniform P(x): four values at most.
    assert len(np.unique(given.round(9))) <= 4


def test_authors_hide_groups_and_labels_too() -> None:
    rows = drawn(10, 0, 2).rows
    holed = with_holes(rows, 0.3, np.random.default_rng(0), everywhere=True)
    for hidden, whole in ((holed.s, rows.s), (holed.d, rows.d), (holed.x, rows.x)):
        assert (hidden < 0).mean() == pytest.approx(0.3, abs=0.02)
        assert (hidden[hidden >= 0] == whole[hidden >= 0]).all()


def test_without_holes_the_authors_protocol_is_their_fit(folder: Path) -> None:
    table = Sources(folder, folder / "splits").table("adult")
    complete, holed = (Task(table, 0, FAIRPC_EQUAL, missing=p).run() for p in (None, 0.0))
    np.testing.assert_array_equal(complete.scores, holed.scores)


def test_structure_is_learned_once_a_fold(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(Sources(folder, folder / "splits").table("adult"), 0, "FairPC")
    rows = task.rows
    shared = {m: replace(task, method=m).run(rows) for m in ("NLatPC", FAIRPC_RAND, "FairPC")}
    for method, outcome in shared.items():
        alone = replace(task, method=method).run()
        np.testing.assert_array_equal(outcome.scores, alone.scores)
    assert rows.cells is rows.cells


def test_labels_are_moved_until_rates_are_equal() -> None:
    """Group 0: 60 of 100 positive; group 1: 10 of 100. 25 labels move, each rate is then .35."""
    s = np.repeat([0, 1], 100)
    d = np.concatenate([np.arange(100) < 60, np.arange(100) < 10]).astype(int)
    rate, mechanism = moved_labels(Rows.of(s, d, np.zeros((200, 1), int), arities=[2]))
    assert rate == pytest.approx(0.35)
    # Of the 65 negative fair decisions in group 0, 25 are seen positive; all 35 positive ones are.
    # In group 1 no negative one is, and 10 of the 35 positive ones.
    np.testing.assert_allclose(mechanism, [[25 / 65, 1.0], [0.0, 10 / 35]])


@pytest.mark.parametrize("method", [FAIRPC_EQUAL, FAIRPC_RAND_TOP, LATNB_MOVED])
def test_starts_of_the_authors(method: str, folder: Path) -> None:
    rows = Task(Sources(folder, folder / "splits").table("adult"), 0, method).rows
    model, start = STARTS[method]
    cells = rows.cells if model == "FairPC" else None
    given = initial_model(model, rows.train, cells, 1.0)
    found = start(given, rows.train, np.random.default_rng(0))
    assert abs(found.parity_gap()[1]) < 1e-12
    np.testing.assert_allclose(found.mechanism.sum(axis=2), 1.0)
    x = np.setdiff1d(np.arange(len(given.circuit.parameters)), found.top.mechanism.ravel())
    x = np.setdiff1d(x, [*found.top.group, *found.top.decision.ravel()])
    kept = np.array_equal(found.circuit.parameters[x], given.circuit.parameters[x])
    assert kept == (method != LATNB_MOVED)
    if method == FAIRPC_EQUAL:
        np.testing.assert_array_equal(found.mechanism, [np.eye(2), np.eye(2)])
    if method == LATNB_MOVED:
        rate, mechanism = moved_labels(rows.train)
        np.testing.assert_allclose(found.mechanism[:, :, 1], mechanism)
        np.testing.assert_allclose(found.decision_rate, np.tile([1 - rate, rate], (2, 1)))


@pytest.mark.parametrize("method", ["NLatPC", "2NB"])
def test_one_update_is_all_where_nothing_is_hidden(method: str, folder: Path) -> None:
    """The closed form, against what 500 iterations of the general fit end with."""
    from fairpc.models._fit import Options, fit

    task = Task(Sources(folder, folder / "splits").table("adult"), 0, method)
    rows = task.rows
    slow = fit(STARTS[method][0], rows.train, validation=rows.valid, options=Options(tol=0))
    fast = fit_method(method, rows, 0)
    np.testing.assert_allclose(
        fast.distribution.circuit.parameters, slow.distribution.circuit.parameters, atol=1e-12
    )


def test_random_starts_are_aligned(folder: Path) -> None:
    table = Sources(folder, folder / "splits").table("compas")
    for fold in range(4):
        outcome = Task(table, fold, FAIRPC_RAND).run()
        np.testing.assert_allclose(outcome.mechanism_curve[-1], outcome.mechanism)


def test_curves_are_of_the_test_rows_at_each_step(folder: Path) -> None:
    table = Sources(folder, folder / "splits").table("compas")
    outcome = Task(table, 0, "FairPC").run()
    assert len(outcome.curve) == len(outcome.mechanism_curve) == PROTOCOL.max_iter + 1
    assert outcome.curve[-1] == pytest.approx(outcome.mean_log_likelihood, abs=1e-9)
    assert not len(Task(table, 0, "LatNB").run().curve)


def test_other_seeds_are_other_folds(folder: Path) -> None:
    sources = Sources(folder)
    one, two = (replace(sources, seed=k).table("adult").folds[0].test for k in (0, 1))
    assert not np.array_equal(one, two)


def test_given_tables_must_be_there(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FairpcError, match="does not exist"):
        Sources(tmp_path).real_world()
    with pytest.raises(FairpcError, match="does not exist"):
        Sources(folder).synthetic(10)


def test_synthetic_tables_of_the_authors() -> None:
    folder = paper_folder()
    sources = Sources(folder, folder / "splits")
    for n_features in (12, 27):
        table = sources.synthetic(n_features)
        assert table.rows.x.shape == (10_000, n_features)
        assert table.truth is not None
        assert table.model is None
        assert len(table.folds) == 10
    assert sources.synthetic(28).model is not None
