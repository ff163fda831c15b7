"""Attacks on the file of a checkpoint: a fit that goes on there ends with the same bits, or not.

Beside it lie files of somebody else, which must stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from battery.attacks import Difference, Suite, Verdict
from battery.mutations import changed_bytes, changed_tree, dumps
from battery.on_models import people
from fairpc import LatNB, load
from fairpc.models import _checkpoint as checkpoint

_THEIRS: Final = ("fit.bak", "fit~", ".fit.tmp", ".fit.0123456789abcdef.tmp", "fit.json")
"""Names that look like those of a checkpoint, and are not."""


class Checkpoints(Suite):
    name, full = "checkpoints", 700

    def prepare(self) -> None:
        checkpoint.EVERY = 0.0
        table, other = self.folder / "t.parquet", self.folder / "other.parquet"
        people(120).write_parquet(table)
        people(120, seed=1).write_parquet(other)
        self.table, self.attacked = table, self.folder / "attacked"
        self.kept: dict[str, bytes] = {}
        self.others: dict[str, bytes] = {}  # the same fit of other rows
        self.before: dict[str, Any] = {}
        path = self.folder / "fit"
        for memory in ("4GB", "100KB"):
            for source, files in ((other, self.others), (table, self.kept)):
                path.unlink(missing_ok=True)
                self.before[memory] = self.fit(path, memory, source)
                files[memory] = path.read_bytes()

    def fit(self, path: Path, memory: str, table: Path | None = None) -> Any:
        model = LatNB("sex", max_iter=4, min_iter=1, tol=0.0, random_state=0)
        return model.fit(table or self.table, "hired", checkpoint=path, max_memory=memory)

    def attack(self, rng: random.Random) -> tuple[str, Callable[[], Verdict]]:
        memory, folder = rng.choice(list(self.kept)), self.attacked
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in _THEIRS:
            (folder / name).write_bytes(name.encode())
        path = folder / "fit"
        path.write_bytes(self.kept[memory])
        kind = rng.choice(list(_ATTACKS))
        signed = _ATTACKS[kind](rng, path, self.others[memory])
        return f"{kind}, {memory}", lambda: self._go_on(path, memory, signed)

    def _go_on(self, path: Path, memory: str, signed: bool) -> Verdict:
        try:
            model = self.fit(path, memory)
        finally:
            odd = [name for name in _THEIRS if (path.parent / name).read_bytes() != name.encode()]
            if odd or {p.name for p in path.parent.iterdir()} - {*_THEIRS, "fit"}:
                raise Difference(f"altered, or files left behind: {odd}", Verdict.FOREIGN)
        same = _learned(model) == _learned(self.before[memory])
        if not (same or signed):
            raise Difference("the fit ended with other numbers")
        model.save(self.folder / "gone-on.fairpc")
        load(self.folder / "gone-on.fairpc")  # verifies what the model claims
        return Verdict.SAME if same else Verdict.OTHER


def _learned(model: Any) -> list[bytes]:
    arrays = [model.circuit_.parameters, model.circuit_.graph.child, model.label_counts_]
    arrays += [model.history_[name] for name in sorted(model.history_)]
    return [np.asarray(a).tobytes() for a in arrays]


def sealed(text: bytes) -> bytes:
    """A checkpoint with this text, by somebody who knows how it is sealed."""
    return text + b"\nsha256:" + hashlib.sha256(text).hexdigest().encode() + b"\n"


def unsealed(data: bytes) -> bytes:
    return data.rpartition(b"\nsha256:")[0]


def _bytes(rng: random.Random, path: Path, others: bytes) -> bool:
    path.write_bytes(changed_bytes(rng, path.read_bytes())[1])
    return False


def _resealed(rng: random.Random, path: Path, others: bytes) -> bool:
    text = unsealed(path.read_bytes())
    content, chance = json.loads(text), rng.random()
    if chance < 0.2:
        text = changed_bytes(rng, text)[1]
    elif chance < 0.6:
        text = dumps(changed_tree(rng, content, [content])[1])
    else:
        run = rng.choice(list(content["runs"].values()))
        _change_array(rng, run, rng.choice(("parameters", "odds", "history")))
        text = dumps(content)
    path.write_bytes(sealed(text))
    return True


def _change_array(rng: random.Random, run: dict[str, Any], name: str) -> None:
    array = np.frombuffer(b64decode(run[name]), "<f8").copy()
    change = rng.choice(("number", "shorter", "longer", "half", "text", "step"))
    if change == "number" and len(array):
        array[rng.randrange(len(array))] = rng.choice((np.nan, np.inf, -1, 0, 1e308, 2.5))
    elif change == "shorter":
        array = array[:-1]
    elif change == "longer":
        array = np.append(array, 0.5)
    data = array.tobytes()[: -4 if change == "half" else None]
    run[name] = "no array" if change == "text" else b64encode(data).decode()
    if change == "step":
        run["iteration"] = rng.choice((-1, 0, True, 2.0, 10**12, 10**40, "2"))


def _gone(rng: random.Random, path: Path, others: bytes) -> bool:
    path.unlink()
    return False


def _folder(rng: random.Random, path: Path, others: bytes) -> bool:
    path.unlink()
    path.mkdir()
    return False


def _of_others(rng: random.Random, path: Path, others: bytes) -> bool:
    """The checkpoint of a fit of other rows; or its runs as if they were of this fit."""
    if rng.random() < 0.5:
        path.write_bytes(others)
        return False
    content = json.loads(unsealed(path.read_bytes()))
    runs = json.loads(unsealed(others))["runs"]
    if rng.random() < 0.5:
        runs = dict(zip(content["runs"], runs.values(), strict=False))
    path.write_bytes(sealed(dumps(content | {"runs": runs})))
    return True


def _link(rng: random.Random, path: Path, others: bytes) -> bool:
    path.unlink()
    path.symlink_to(path.parent / rng.choice(_THEIRS))
    return False


def _unreadable(rng: random.Random, path: Path, others: bytes) -> bool:
    if hasattr(os, "mkfifo"):
        path.unlink()
        os.mkfifo(path)
    return False


_ATTACKS: Final[dict[str, Callable[[random.Random, Path, bytes], bool]]] = {
    "bytes": _bytes,
    "sealed again": _resealed,
    "sealed again, twice as often": _resealed,
    "gone": _gone,
    "a folder": _folder,
    "of other rows": _of_others,
    "a link": _link,
    "a pipe": _unreadable,
}
"""What is done to the file; whether somebody did it who can make seals."""
