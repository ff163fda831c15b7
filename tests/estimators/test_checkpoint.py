"""A fit that is killed at any moment goes on, and ends with the same bits."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairpc import FairPC, LatNB, load
from fairpc.circuit.em import Step
from fairpc.errors import FileFormatError, LearningError
from fairpc.fair import journal

PROGRAM = Path(__file__).with_name("killed_fit.py")


def table(n: int = 3000, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    f = rng.random(n) < 0.45
    sex = rng.choice(["F", "M"], n)
    noise = np.where(sex == "F", 0.25, 0.05)
    columns: dict[str, Any] = {
        "sex": sex, "label": np.where(rng.random(n) < noise, ~f, f).astype(int)
    }  # fmt: skip
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
    frame = table(800)
    X, y = frame.drop("label"), frame["label"]
    settings: dict[str, Any] = {
        "structure": structure, "equal_mass": equal_mass, "random_state": 3, "max_iter": 40,
    }  # fmt: skip
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
    with pytest.raises(LearningError, match="another max_iter: go on with the same"):
        LatNB("sex", random_state=0, max_iter=4).fit(X, y, checkpoint=tmp_path)
    with pytest.raises(LearningError, match="another table"):
        LatNB("sex", random_state=0, max_iter=3).fit(X[:200], y[:200], checkpoint=tmp_path)
    with pytest.raises(LearningError, match="needs a whole number"):
        LatNB("sex", max_iter=3).fit(X, y, checkpoint=tmp_path / "new")
    run = next(tmp_path.glob("em-*.npz"))
    run.write_bytes(run.read_bytes()[:-40])
    with pytest.raises(FileFormatError, match="is damaged"):
        LatNB("sex", random_state=0, max_iter=3).fit(X, y, checkpoint=tmp_path)
    (tmp_path / "fit.json").write_text("[]")
    with pytest.raises(FileFormatError, match="holds no checkpoint"):
        LatNB("sex", random_state=0, max_iter=3).fit(X, y, checkpoint=tmp_path)


def test_a_run_that_began_elsewhere_is_refused(tmp_path: Path) -> None:
    frame = table(300)
    X, y = frame.drop("label"), frame["label"]
    for name, seed in (("a", 0), ("b", 1)):
        model = LatNB("sex", init="random", random_state=seed, max_iter=3)
        model.fit(X, y, checkpoint=tmp_path / name)
    (tmp_path / "a" / "em-000.npz").write_bytes((tmp_path / "b" / "em-000.npz").read_bytes())
    with pytest.raises(FileFormatError, match="another start"):
        LatNB("sex", init="random", random_state=0, max_iter=3).fit(X, y, checkpoint=tmp_path / "a")


def test_a_streamed_table_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(500).write_parquet(tmp_path / "t.parquet")
    settings: dict[str, Any] = {"random_state": 0, "max_iter": 10, "structure": "chow-liu"}
    folder = tmp_path / "fit"
    first = FairPC("sex", **settings).fit(tmp_path / "t.parquet", "label", checkpoint=folder)
    monkeypatch.setattr("fairpc.data.passes.summarise", None)
    monkeypatch.setattr("fairpc.data.passes.BatchEncoder.__call__", None)
    again = FairPC("sex", **settings).fit(tmp_path / "t.parquet", "label", checkpoint=folder)
    assert same(first, again)
    assert again.coding_.features == first.coding_.features
    table(500, seed=1).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(LearningError, match="another table"):
        FairPC("sex", **settings).fit(tmp_path / "t.parquet", "label", checkpoint=folder)


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """The program, at its task; it is over when the block is."""
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready"
            yield process
        finally:
            process.kill()


def run(*arguments: object) -> float:
    """Let the program end, and say how long it took."""
    with started(*arguments) as process:
        begun = time.monotonic()
        assert process.wait(300) == 0, process.communicate()[1]
        return time.monotonic() - begun


def kill_until_it_ends(
    structure: str, memory: str, n_kills: int, folder: Path, number: int = signal.SIGKILL
) -> None:
    """Kill a fit at random moments; afterwards let it end, and compare it with one left alone."""
    table().write_parquet(folder / "t.parquet")
    duration = run(structure, folder / "t.parquet", folder / "alone", folder / "alone.json", memory)
    chance = random.Random(0)
    kept = 0
    arguments = (structure, folder / "t.parquet", folder / "killed", folder / "killed.json", memory)
    for k in range(n_kills):
        with started(*arguments) as process:
            try:
                process.wait(chance.uniform(0, duration))
            except subprocess.TimeoutExpired:
                process.send_signal(number)
                process.wait(60)
        for file in (folder / "killed").rglob("*.json"):
            json.loads(file.read_bytes())
        kept += (folder / "killed" / "em-000.npz").exists()
        if (folder / "killed.json").exists() and k + 1 < n_kills:
            load(folder / "killed.json")
            for path in sorted((folder / "killed").rglob("*"), reverse=True):
                path.unlink() if path.is_file() else path.rmdir()
    run(*arguments)
    assert kept
    assert same(load(folder / "alone.json"), load(folder / "killed.json"))
    assert not list(folder.rglob(".*.tmp"))


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_fit_goes_on(tmp_path: Path, number: int) -> None:
    kill_until_it_ends("chow-liu", "4GB", 2, tmp_path, number)


@pytest.mark.slow
@pytest.mark.parametrize(("structure", "memory"), [("auto", "4GB"), ("chow-liu", "2MB")])
def test_fifty_kills_of_a_fit(tmp_path: Path, structure: str, memory: str) -> None:
    kill_until_it_ends(structure, memory, 50, tmp_path)


def kill_saves(folder: Path, n_kills: int) -> None:
    models = folder / "models"
    models.mkdir()
    frame = table(300)
    for k in range(2):
        model = LatNB("sex", max_iter=5 + k, tol=0.0, random_state=0)
        model.fit(frame.drop("label"), frame["label"]).save(models / f"{k}.json")
    both = [path.read_bytes() for path in sorted(models.glob("*.json"))]
    target = folder / "saved.json"
    target.write_bytes(both[0])
    chance, seen = random.Random(1), set()
    for _ in range(n_kills):
        with started("save", models, "-", target) as process:
            time.sleep(chance.uniform(0.1, 0.4))
            process.kill()
        load(target)
        seen.add(both.index(target.read_bytes()))
    assert seen <= {0, 1}


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_killed_save_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    kill_saves(tmp_path, 2)


@pytest.mark.slow
def test_fifty_kills_of_a_save(tmp_path: Path) -> None:
    kill_saves(tmp_path, 50)
