"""A fit that is killed at any moment goes on, and ends with the same bits."""

from __future__ import annotations

import hashlib
import io
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

from fairpc import FairPC, LatNB, load
from fairpc.circuit.em import Step
from fairpc.data.atomic import read_sealed, write_sealed
from fairpc.errors import FileFormatError, LearningError
from fairpc.fair import journal
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
    monkeypatch.setattr(journal, "EVERY", 0.0)


class Stop(Exception):
    pass


def stopping_at(n: int) -> Any:
    count = iter(range(1, 10**9))

    def callback(step: Step) -> None:
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

    def interrupt(step: Step) -> None:
        if step.iteration == 5:
            signal.raise_signal(signal.SIGINT)

    settings: dict[str, Any] = {"random_state": 0, "max_iter": 30, "tol": 0.0}
    whole = LatNB("sex", **settings).fit(X, y)
    with pytest.raises(KeyboardInterrupt):
        LatNB("sex", **settings).fit(X, y, checkpoint=tmp_path, callback=interrupt)
    assert list(tmp_path.glob("em-*.npz"))
    assert same(whole, LatNB("sex", **settings).fit(X, y, checkpoint=tmp_path))


def test_a_checkpoint_of_another_fit_is_refused(tmp_path: Path) -> None:
    frame = table(300)
    X, y = frame.drop("label"), frame["label"]
    LatNB("sex", random_state=0, max_iter=3).fit(X, y, checkpoint=tmp_path)
    with pytest.raises(LearningError, match="another max_iter=…: go on with the same"):
        LatNB("sex", random_state=0, max_iter=4).fit(X, y, checkpoint=tmp_path)
    with pytest.raises(LearningError, match="another table"):
        LatNB("sex", random_state=0, max_iter=3).fit(X[:200], y[:200], checkpoint=tmp_path)
    with pytest.raises(LearningError, match="another max_memory=…: go on with the same"):
        LatNB("sex", random_state=0, max_iter=3).fit(X, y, checkpoint=tmp_path, max_memory="1MB")
    with pytest.raises(LearningError, match="needs a whole number"):
        LatNB("sex", max_iter=3).fit(X, y, checkpoint=tmp_path / "new")
    odd: Any
    for odd in ("", 5):
        with pytest.raises(LearningError, match=f"checkpoint is {odd!r}: give the path"):
            LatNB("sex", random_state=0).fit(X, y, checkpoint=odd)
    run = next(tmp_path.glob("em-*.npz"))
    run.write_bytes(run.read_bytes()[:-40])
    with pytest.raises(FileFormatError, match="is damaged"):
        LatNB("sex", random_state=0, max_iter=3).fit(X, y, checkpoint=tmp_path)
    (tmp_path / "fit.json").write_text("[]")
    with pytest.raises(FileFormatError, match="holds no checkpoint"):
        LatNB("sex", random_state=0, max_iter=3).fit(X, y, checkpoint=tmp_path)


LEFT = ".{}.fairpc-0123456789abcdef.tmp"
"""Name of a file that a killed write leaves behind."""


def fit_quickly(folder: Path) -> LatNB:
    frame = table(300)
    model = LatNB("sex", random_state=0, max_iter=3, guard=False)
    return model.fit(frame.drop("label"), frame["label"], checkpoint=folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_only_what_a_killed_fit_left_is_removed(tmp_path: Path) -> None:
    theirs = dict.fromkeys(
        (
            ".editor.tmp",
            LEFT.format("thesis.tex"),
            ".coding.json.tmp",
            "deep/.x.tmp",
            f"deep/{LEFT.format('fit.json')}",
            f"parts/{LEFT.format('letter')}",
        ),
        b"not ours",
    )
    fit_quickly(tmp_path)
    ours = [
        LEFT.format("em-000.npz"),
        LEFT.format("fit.json"),
        f"parts/{LEFT.format('parts.json')}",
    ]
    for name in [*theirs, *ours]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"not ours")
    fit_quickly(tmp_path)
    found = contents(tmp_path)
    assert {name: found.get(name) for name in theirs} == theirs
    assert not set(ours) & set(found)


def test_a_folder_without_the_mark_loses_nothing(tmp_path: Path) -> None:
    for name in (LEFT.format("coding.json"), ".x.tmp", "notes.txt"):
        (tmp_path / name).write_bytes(b"not ours")
    before = contents(tmp_path)
    (tmp_path / LEFT.format("fit.json")).write_bytes(b"the mark, half written")
    fit_quickly(tmp_path)
    assert set(before) <= set(contents(tmp_path))
    assert not (tmp_path / LEFT.format("fit.json")).exists()


@pytest.mark.parametrize("name", ["fit.json", "coding.json", "rows.npz", "em-000.npz"])
def test_a_folder_of_somebody_else_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    for each in (name, ".x.tmp", LEFT.format(name)):
        (tmp_path / each).write_bytes(b"{}")
    before = contents(tmp_path)
    with pytest.raises(FileFormatError, match="no checkpoint: give another folder"):
        fit_quickly(tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.skipif(os.name != "posix", reason="links")
@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("name", ["fit.json", "em-000.npz", "em-007.npz", "parts"])
@pytest.mark.parametrize("dangling", [False, True])
def test_links_out_of_the_folder_are_refused(
    tmp_path: Path, marked: bool, name: str, dangling: bool
) -> None:
    folder, far = tmp_path / "fit", tmp_path / "far"
    folder.mkdir()
    if marked:
        fit_quickly(folder)
    if not dangling:
        far.mkdir()
        (far / LEFT.format("part-000000.arrow")).write_bytes(b"not ours")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(far)
    with pytest.raises(FileFormatError, match="is a link: a checkpoint holds its files itself"):
        fit_quickly(folder)
    assert far.exists() != dangling
    assert dangling or contents(far) == {LEFT.format("part-000000.arrow"): b"not ours"}


def fit_from_files(folder: Path, memory: str | None) -> FairPC:
    path = folder / "t.parquet"
    if not path.exists():
        table(2000).write_parquet(path)
    model = FairPC("sex", structure="chow-liu", random_state=0, max_iter=3, guard=False)
    return model.fit(path, "label", checkpoint=folder / "fit", max_memory=memory)


@pytest.mark.parametrize(
    ("memory", "kept"),
    [
        (None, {"fit.json", "coding.json", "rows.npz", "em-000.npz"}),
        ("1MB", {"fit.json", "coding.json", "parts.json", "part-000000.arrow", "em-000.npz"}),
    ],
)
def test_a_byte_that_was_altered_is_noticed(
    tmp_path: Path, memory: str | None, kept: set[str]
) -> None:
    whole = fit_from_files(tmp_path, memory)
    files = [path for path in (tmp_path / "fit").rglob("*") if path.is_file()]
    assert kept <= {path.name for path in files}
    chance = random.Random(0)
    for path in files:
        data = path.read_bytes()
        place = chance.randrange(len(data))
        for altered in (
            data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :],
            data[:place],
            b"",
            data + b"\n",
        ):
            if path.name == "fit.json" and altered == data + b"\n":
                continue  # space after JSON means nothing
            path.write_bytes(altered)
            with pytest.raises((FileFormatError, LearningError)) as caught:
                fit_from_files(tmp_path, memory)
            assert "\n" not in str(caught.value)
        path.write_bytes(data)
    assert same(whole, fit_from_files(tmp_path, memory))


def test_files_of_another_checkpoint_are_refused(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for k, folder in enumerate(folders):
        folder.mkdir()
        table(2000, seed=k).write_parquet(folder / "t.parquet")
        fit_from_files(folder, None)
    for name in ("coding.json", "rows.npz", "em-000.npz"):
        one, two = (folder / "fit" / name for folder in folders)
        own = one.read_bytes()
        one.write_bytes(two.read_bytes())
        with pytest.raises(FileFormatError, match=f"{name} is damaged, or was altered or put"):
            fit_from_files(folders[0], None)
        one.write_bytes(own)


def test_arrays_that_grow_when_they_are_read_are_refused(tmp_path: Path) -> None:
    """Zeros that are compressed are a thousand times as large in memory as on disk."""
    buffer, path = io.BytesIO(), tmp_path / "rows.npz"
    np.savez_compressed(buffer, words=np.zeros(10**6), weights=np.zeros(1))
    write_sealed(path, buffer.getvalue(), "mark")
    with pytest.raises(FileFormatError, match="what is inside is larger than the file"):
        journal.read_arrays(path, "mark", ("words", "weights"))


def test_a_run_that_began_elsewhere_is_refused(tmp_path: Path) -> None:
    frame = table(300)
    X, y = frame.drop("label"), frame["label"]
    for name, seed in (("a", 0), ("b", 1)):
        model = LatNB("sex", init="random", random_state=seed, max_iter=3, guard=False)
        model.fit(X, y, checkpoint=tmp_path / name)
    marks = (
        hashlib.sha256((tmp_path / name / "fit.json").read_bytes()).hexdigest() for name in "ab"
    )
    one, two = (tmp_path / name / "em-000.npz" for name in "ab")
    ours, theirs = marks
    write_sealed(one, read_sealed(two, 10**9, theirs), ours)
    with pytest.raises(FileFormatError, match="another start"):
        model.set_params(random_state=0).fit(X, y, checkpoint=tmp_path / "a")


def test_a_streamed_table_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(500).write_parquet(tmp_path / "t.parquet")
    settings: dict[str, Any] = {"random_state": 0, "max_iter": 10, "structure": "chow-liu"}
    folder = tmp_path / "fit"
    first = FairPC("sex", **settings).fit(tmp_path / "t.parquet", "label", checkpoint=folder)
    monkeypatch.setattr("fairpc.data.summary.summarise", None)
    monkeypatch.setattr("fairpc.data.table_coding.RowEncoder.__call__", None)
    again = FairPC("sex", **settings).fit(tmp_path / "t.parquet", "label", checkpoint=folder)
    assert same(first, again)
    assert again.coding_.features == first.coding_.features
    table(500, seed=1).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(LearningError, match="another table"):
        FairPC("sex", **settings).fit(tmp_path / "t.parquet", "label", checkpoint=folder)


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
            kept += (folder / f"killed{round_}" / "em-000.npz").exists()
            assert ended in (0, -number, 128 + number)
        if not target.exists():
            assert parent.run(*task, *rest) == 0
        assert same(alone, load(target))
        # A kill while the model is saved leaves what was half written beside it, and not here.
        assert not list((folder / f"killed{round_}").rglob(".*.tmp"))
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
