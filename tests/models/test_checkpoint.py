"""A fit that is killed at any moment goes on, and ends with the same bits."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

from fairpc import FairPC, LatNB, load
from fairpc.circuit import EMStep, em
from fairpc.errors import FileFormatError, InterruptedWarning, LearningError
from fairpc.models import _checkpoint as checkpoint
from killing import Parent, forking


def table(n: int = 3000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    f = rng.random(n) < 0.45
    sex = rng.choice(["F", "M"], n)
    noise = np.where(sex == "F", 0.25, 0.05)
    label = np.where(rng.random(n) < noise, ~f, f).astype(int)
    columns: dict[str, Any] = {"sex": sex, "label": label}
    for j in range(6):
        columns[f"x{j}"] = (rng.random(n) < np.where(f, 0.7 - 0.05 * j, 0.3)).astype(int)
    columns["age"] = rng.integers(18, 80, n) + 5 * f
    columns["hole"] = [None if r < 0.2 else "abc"[int(r * 100) % 3] for r in rng.random(n)]
    return pl.DataFrame(columns)


def same(one: Any, two: Any) -> bool:
    """Whether two fitted models agree in every bit of what was learned."""
    ours, theirs = one.history_, two.history_
    return (
        np.array_equal(one.circuit_.parameters, two.circuit_.parameters)
        and np.array_equal(one.circuit_.graph.child, two.circuit_.graph.child)
        and np.array_equal(one.label_counts_, two.label_counts_)
        and set(ours) == set(theirs)
        and all(np.array_equal(ours[k], theirs[k], equal_nan=True) for k in ours)
    )


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step is written."""
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)


class Stop(Exception):
    pass


def stopping_at(n: int) -> Any:
    count = iter(range(1, 10**9))

    def callback(step: EMStep) -> None:
        if next(count) == n:
            raise Stop

    return callback


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(
    ("structure", "equal_mass"), [("chow-liu", True), ("strudel", False), ("auto", False)]
)
def test_a_fit_that_fails_again_and_again_ends_with_the_same_bits(
    structure: Any, equal_mass: bool, tmp_path: Path
) -> None:
    frame = table(300 if structure == "auto" else 800)
    X, y = frame.drop("label"), frame["label"]
    settings: dict[str, Any] = {"structure": structure, "equal_mass": equal_mass}
    settings |= {"random_state": 3, "max_iter": 40}
    whole = FairPC("sex", **settings).fit(X, y)
    stops = 0
    for n in (1, 7, 2, 30, 55, 80):
        try:
            model = FairPC("sex", **settings)
            model.fit(X, y, checkpoint=tmp_path / "fit", callback=stopping_at(n))
        except Stop:
            stops += 1
    assert stops >= 3
    resumed = FairPC("sex", **settings).fit(X, y, checkpoint=tmp_path / "fit")
    assert same(whole, resumed)


@pytest.mark.usefixtures("often")
def test_an_interrupt_leaves_a_checkpoint_that_goes_on(tmp_path: Path) -> None:
    frame = table(800)
    X, y = frame.drop("label"), frame["label"]

    def interrupt(step: EMStep) -> None:
        if step.iteration == 5:
            signal.raise_signal(signal.SIGINT)

    settings: dict[str, Any] = {"random_state": 0, "max_iter": 30, "tol": 0.0}
    whole = LatNB("sex", **settings).fit(X, y)
    path = tmp_path / "fit"
    with pytest.raises(KeyboardInterrupt):
        LatNB("sex", **settings).fit(X, y, checkpoint=path, callback=interrupt)
    assert n_runs(path)
    seen: list[int] = []
    resumed = LatNB("sex", **settings)
    resumed.fit(X, y, checkpoint=path, callback=lambda step: seen.append(step.iteration))
    assert same(whole, resumed)
    assert seen == list(range(5, 31))


def test_a_run_that_follows_an_interrupted_one_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began where the interrupted one was left, and not where that one ends."""
    table(3000).write_parquet(tmp_path / "t.parquet")
    model = FairPC("sex", structure="chow-liu", random_state=0, max_iter=20, tol=0.0)
    given: dict[str, Any] = {"X": tmp_path / "t.parquet", "y": "label", "max_memory": "1MB"}
    whole = clone(model).fit(**given)

    def interrupted(*args: Any, **options: Any) -> Iterator[EMStep]:
        for step in em(*args, **options):
            if step.iteration == 3:
                monkeypatch.undo()
                raise KeyboardInterrupt
            yield step

    monkeypatch.setattr("fairpc.models._fit.em", interrupted)
    with pytest.warns(InterruptedWarning, match="of iteration 2"):
        clone(model).fit(checkpoint=tmp_path / "fit", **given)
    assert same(whole, clone(model).fit(checkpoint=tmp_path / "fit", **given))


def n_runs(path: Path) -> int:
    """How many runs of EM a checkpoint holds; 0 where there is none."""
    return len(content(path)["runs"]) if path.exists() else 0


def content(path: Path) -> Any:
    return json.loads(path.read_bytes().splitlines()[0])


def write_sealed(path: Path, altered: Any) -> None:
    """What somebody would write who knows how a checkpoint is sealed."""
    text = json.dumps(altered, separators=(",", ":")).encode()
    path.write_bytes(text + b"\nsha256:" + hashlib.sha256(text).hexdigest().encode() + b"\n")


def fit_quickly(path: Any, n: int = 300, memory: str | None = None, **settings: Any) -> LatNB:
    frame = table(n)
    model = LatNB("sex", **{"random_state": 0, "max_iter": 3, "guard": False} | settings)
    return model.fit(frame.drop("label"), frame["label"], checkpoint=path, max_memory=memory)


def test_a_checkpoint_of_another_fit_is_refused(tmp_path: Path) -> None:
    path, missing = tmp_path / "fit", ("?", float("nan"))
    fit_quickly(path, missing_values=missing)
    before = path.read_bytes()
    fit_quickly(path, missing_values=missing, verbose=1)  # which changes nothing about a fit
    for what, other in (
        ("was made with another max_iter=…: go on with the same settings", {"max_iter": 4}),
        ("was made with another missing_values=…", {"missing_values": ("?",)}),
        ("was made with another max_memory=…", {"memory": "1MB"}),
        ("is of another table", {"n": 299}),
    ):
        with pytest.raises(LearningError, match=f"fit {what}"):
            fit_quickly(path, **{"missing_values": missing} | other)
    with pytest.raises(LearningError, match="needs a whole number"):
        fit_quickly(path, random_state=None)
    for odd in ("", 5):
        with pytest.raises(LearningError, match=f"checkpoint is {odd!r}: give the path of a file"):
            fit_quickly(odd)
    assert path.read_bytes() == before


def test_what_is_not_a_checkpoint_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    folder, theirs = tmp_path / "kept", tmp_path / "t.csv"
    folder.mkdir()
    (folder / "fit.json").write_bytes(b"{}")
    theirs.write_bytes(b"sex,label\n")
    with pytest.raises(FileFormatError, match="kept is a folder: a checkpoint is one file"):
        fit_quickly(folder)
    with pytest.raises(FileFormatError, match=r"t\.csv is not a checkpoint: use a new"):
        fit_quickly(theirs)
    with pytest.raises(OSError, match="cannot write the file"):
        fit_quickly(tmp_path / "nowhere" / "fit")
    assert theirs.read_bytes() == b"sex,label\n"
    assert sorted(tmp_path.rglob("*")) == [folder, folder / "fit.json", theirs]


def test_a_byte_that_was_altered_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "fit"
    whole = fit_quickly(path)
    data = path.read_bytes()
    chance = random.Random(0)
    for place in (0, 30, *(chance.randrange(len(data)) for _ in range(20)), len(data) - 1):
        for altered in (
            data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :],
            data[:place],
            data + b"\n",
        ):
            path.write_bytes(altered)
            with pytest.raises(FileFormatError, match="is damaged or was|is not a checkpoint") as e:
                fit_quickly(path)
            assert "\n" not in str(e.value)
    path.write_bytes(data)
    assert same(whole, fit_quickly(path))


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fit"
    fit_quickly(path)
    write_sealed(path, content(path) | {"fairpc": "0.1.0"})
    with pytest.raises(LearningError, match="fit is of another version of fairpc: go on with that"):
        fit_quickly(path)


@pytest.mark.parametrize("field", ["parameters", "odds", "history", "iteration", "runs"])
def test_a_run_that_was_altered_is_refused(tmp_path: Path, field: str) -> None:
    path = tmp_path / "fit"
    fit_quickly(path)
    altered = content(path)
    [run] = altered["runs"].values()
    if field == "runs":
        altered["runs"] = []
    elif field == "iteration":
        run[field] += 1
    else:
        run[field] = "AAAAAAAA8D8="
    write_sealed(path, altered)
    with pytest.raises(FileFormatError, match="fit holds no (fit|run)"):
        fit_quickly(path)


def test_a_run_that_began_elsewhere_is_not_gone_on_with(tmp_path: Path) -> None:
    """Runs are kept by what they start from: those of another fit, put there, change nothing."""
    path, other = tmp_path / "fit", tmp_path / "other"
    whole = fit_quickly(path, init="random")
    fit_quickly(other, init="random", random_state=1)
    write_sealed(path, content(path) | {"runs": content(other)["runs"]})
    assert same(whole, fit_quickly(path, init="random"))


def test_rows_beside_the_training_rows_belong_to_a_run(tmp_path: Path) -> None:
    frame, other = table(300), table(200, seed=1)
    for rows in (frame[:100], other):
        model = LatNB("sex", random_state=0, max_iter=5, guard=False)
        beside: Any = {"eval_set": {"other": (rows.drop("label"), rows["label"], None)}}
        alone = clone(model).fit(frame.drop("label"), frame["label"], **beside)
        model.fit(frame.drop("label"), frame["label"], checkpoint=tmp_path / "fit", **beside)
        assert same(alone, model)


def test_a_table_in_files_may_move_but_not_change(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"random_state": 0, "max_iter": 10, "structure": "chow-liu"}
    kept: dict[str, Any] = {"checkpoint": tmp_path / "fit", "max_memory": "1MB"}
    table(3000).write_parquet(tmp_path / "t.parquet")
    first = FairPC("sex", **settings).fit(tmp_path / "t.parquet", "label", **kept)
    assert n_runs(tmp_path / "fit") == 2
    (tmp_path / "t.parquet").rename(tmp_path / "moved.parquet")
    assert same(first, FairPC("sex", **settings).fit(tmp_path / "moved.parquet", "label", **kept))
    table(3000, seed=1).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(LearningError, match="another table"):
        FairPC("sex", **settings).fit(tmp_path / "t.parquet", "label", **kept)


@pytest.fixture
def parent() -> Iterator[Parent]:
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    with forking() as program:
        yield program


def kill_fits(
    parent: Parent, folder: Path, structure: str, memory: str, n_kills: int, number: int = 9
) -> None:
    """Kill a fit at random moments until it ends; it then is the fit that was left alone."""
    table(2000).write_parquet(folder / "t.parquet")
    task = ("fit", structure, folder / "t.parquet")
    begun = time.monotonic()
    assert parent.run(*task, folder / "alone", memory, folder / "alone.json") == 0
    duration = time.monotonic() - begun
    alone = load(folder / "alone.json")
    chance, killed, kept, target = random.Random(0), 0, 0, folder / "killed.json"
    for round_ in range(10 * n_kills):
        rest = (folder / f"killed{round_}", memory, target)
        while (killed < n_kills or not kept) and killed < 9 * n_kills and not target.exists():
            # Short enough that some kills fall into reading, learning and every run of EM. While
            # nothing was kept, later by and by: the machine may be slower than it was at first.
            after = chance.uniform(0, 0.5 * duration * (1 if kept else 1 + killed / n_kills))
            ended = parent.run(*task, *rest, kill_after=after, number=number)
            killed += ended in (-number, 128 + number)
            kept += n_runs(folder / f"killed{round_}") > 0
            assert ended in (0, -number, 128 + number)
        if not target.exists():
            assert parent.run(*task, *rest) == 0
        assert same(alone, load(target))
        target.unlink()
        if killed >= n_kills and kept:
            break
    assert killed >= n_kills
    assert kept


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_fit_goes_on(parent: Parent, tmp_path: Path, number: int) -> None:
    kill_fits(parent, tmp_path, "chow-liu", "4GB", 3, number)


@pytest.mark.slow
@pytest.mark.parametrize(("structure", "memory"), [("auto", "4GB"), ("chow-liu", "1MB")])
def test_fifty_kills_of_a_fit(parent: Parent, tmp_path: Path, structure: str, memory: str) -> None:
    kill_fits(parent, tmp_path, structure, memory, 50)


def kill_saves(parent: Parent, folder: Path, n_kills: int) -> None:
    models = folder / "models"
    models.mkdir()
    frame = table(300)
    for k in range(2):
        model = LatNB("sex", max_iter=5 + k, tol=0.0, random_state=0)
        model.fit(frame.drop("label"), frame["label"]).save(models / f"{k}.json")
    both = [path.read_bytes() for path in sorted(models.glob("*.json"))]
    target = folder / "saved.json"
    target.write_bytes(both[0])
    chance = random.Random(1)
    for _ in range(n_kills):
        assert parent.run("save", models, target, kill_after=chance.uniform(0.02, 0.4)) == -9
        assert target.read_bytes() in both
        load(target)


def test_a_killed_save_leaves_the_old_or_the_new_file(parent: Parent, tmp_path: Path) -> None:
    kill_saves(parent, tmp_path, 5)


@pytest.mark.slow
def test_fifty_kills_of_a_save(parent: Parent, tmp_path: Path) -> None:
    kill_saves(parent, tmp_path, 50)
