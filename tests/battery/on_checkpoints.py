"""Attacks on the folder of a checkpoint: a fit that goes on there ends with the same bits, or not.

Beside it lie files of somebody else, in the folder and outside of it, which must stay as they are.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from battery.attacks import Difference, Suite, Verdict
from battery.mutations import changed_bytes, changed_tree, dumps
from battery.on_models import people
from fairpc import LatNB, load
from fairpc.data.atomic import write_sealed
from fairpc.fair import journal

_NAMES: Final = (
    *("notes.txt", "em-0.npz", "fit.json.bak", ".fit.json.tmp", "em-00a.npz", ".em-000.npz.swp"),
    *(
        ".rows.npz.fairpc-0123456789abcdef.tm",
        "parts.old",
        "coding.json~",
        ".x.fairpc-0123456789abcdef.tmp",
    ),
)
"""Names that look like those of a checkpoint, and are not."""
_SEALED: Final = 73
"""Bytes of the line with which a sealed file ends."""


class Checkpoints(Suite):
    name, full = "checkpoints", 700

    def prepare(self) -> None:
        journal.EVERY = 0.0
        self.table, self.outside = self.folder / "t.parquet", self.folder / "outside"
        people(120).write_parquet(self.table)
        self.before: dict[str, Any] = {}
        self.kept: dict[str, Path] = {}
        for memory in ("4GB", "100KB"):
            folder = self.folder / f"kept {memory}"
            self.before[memory] = self._fit(folder, memory)
            self.kept[memory] = folder
        # The same fit of other rows: its files have the same names, sizes and columns.
        self.others = {memory: self.folder / f"others {memory}" for memory in self.kept}
        rows = self.table.read_bytes()
        people(120, seed=1).write_parquet(self.table)
        for memory, folder in self.others.items():
            self._fit(folder, memory)
        self.table.write_bytes(rows)
        for memory, folder in self.kept.items():  # the time of the table is part of the mark
            shutil.rmtree(folder)
            self.before[memory] = self._fit(folder, memory)

    def _fit(self, folder: Path, memory: str) -> Any:
        model = LatNB("sex", max_iter=4, min_iter=1, tol=0.0, random_state=0)
        return model.fit(self.table, "hired", checkpoint=folder, max_memory=memory)

    def attack(self, rng: random.Random) -> tuple[str, Callable[[], Verdict]]:
        memory = rng.choice(list(self.kept))
        folder = self.folder / "attacked"
        for old in (folder, self.outside):
            if old.is_symlink():
                old.unlink()
            shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(self.kept[memory], folder)
        self.outside.mkdir()
        (self.outside / "theirs").write_bytes(b"theirs")
        (self.outside / "more").mkdir()
        (self.outside / "more" / "part-000000.arrow").write_bytes(b"theirs too")
        for name in rng.sample(_NAMES, 3):
            (folder / name).write_bytes(name.encode())
        files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name not in _NAMES)
        kind = rng.choice(list(_ATTACKS))
        self.of_others = self.others[memory]
        signed = _ATTACKS[kind](self, rng, folder, rng.choice(files))
        theirs = {p: p.read_bytes() for p in folder.rglob("*") if p.name in _NAMES}
        return f"{kind}, {memory}", lambda: self._go_on(folder, memory, theirs, signed)

    def _go_on(self, folder: Path, memory: str, theirs: dict[Path, bytes], signed: bool) -> Verdict:
        outside = _content(self.outside)
        try:
            model = self._fit(folder, memory)
        finally:
            gone = [p.name for p, data in theirs.items() if _read(p) != data]
            if gone or _content(self.outside) != outside:
                raise Difference(f"altered or removed: {gone or 'outside'}", Verdict.FOREIGN)
        same = _learned(model) == _learned(self.before[memory])
        if not (same or signed):
            raise Difference("the fit ended with other numbers")
        model.save(self.folder / "gone-on.fairpc")
        load(self.folder / "gone-on.fairpc")  # verifies what the model claims
        return Verdict.SAME if same else Verdict.OTHER


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _content(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def _learned(model: Any) -> list[bytes]:
    arrays = [model.circuit_.parameters, model.circuit_.graph.child, model.label_counts_]
    arrays += [model.history_[name] for name in sorted(model.history_)]
    return [np.asarray(a).tobytes() for a in arrays]


def _bytes(suite: Checkpoints, rng: random.Random, folder: Path, file: Path) -> bool:
    file.write_bytes(changed_bytes(rng, file.read_bytes())[1])
    return False


def _mark(folder: Path) -> str:
    import hashlib

    return hashlib.sha256((folder / "fit.json").read_bytes()).hexdigest()


def _resealed(suite: Checkpoints, rng: random.Random, folder: Path, file: Path) -> bool:
    """Altered by somebody who knows how files are sealed."""
    if file.name == "fit.json" or file.suffix == ".arrow":
        return _bytes(suite, rng, folder, file)
    data = file.read_bytes()[:-_SEALED]
    if file.suffix == ".npz" and rng.random() < 0.8:
        data = _changed_arrays(rng, data)
    elif file.suffix == ".json" and rng.random() < 0.8:
        import json

        content = json.loads(data)
        data = dumps(changed_tree(rng, content, [content])[1])
    else:
        data = changed_bytes(rng, data)[1]
    write_sealed(file, data, _mark(folder))
    return True


def _changed_arrays(rng: random.Random, data: bytes) -> bytes:
    with np.load(io.BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files}
    name = rng.choice(list(arrays))
    array = arrays[name]
    change = rng.choice(
        ("number", "shape", "type", "gone", "more", "empty", "object-like", "huge", "packed")
    )
    if change == "number" and array.size:
        array = array.copy()
        odd = rng.choice((np.nan, np.inf, -1, 0, 1e308, 2.5))
        with np.errstate(all="ignore"):
            array.flat[rng.randrange(array.size)] = np.array(odd).astype(array.dtype)
        arrays[name] = array
    elif change == "shape":
        arrays[name] = rng.choice((array.ravel()[:-1], array[None], array.ravel(), array[::-1]))
    elif change == "type":
        with np.errstate(all="ignore"):
            arrays[name] = array.astype(rng.choice(("f4", "i8", "c16", "U8", "u1", ">f8", "?")))
    elif change == "gone":
        del arrays[name]
    elif change == "more":
        arrays["../more"] = array
    elif change == "empty":
        arrays[name] = array[:0] if array.ndim else array
    elif change == "huge":
        return _claiming(rng, arrays, name)
    elif change == "packed":
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays | {name: np.zeros(10**7)})
        return buffer.getvalue()
    else:
        arrays[name] = np.zeros(3, [("a", "f8"), ("b", "U4")])
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _claiming(rng: random.Random, arrays: dict[str, Any], name: str) -> bytes:
    """Arrays of which one says that it has more numbers than there are bytes."""
    shape = rng.choice(((10**12,), (2**62, 4), (-1,), (10**9, 0, 10**9), (1,) * 70))
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for one, array in arrays.items():
            member = io.BytesIO()
            if one == name:
                np.lib.format.write_array_header_1_0(member, header)
                member.write(bytes(24))
            else:
                np.save(member, array)
            packed.writestr(f"{one}.npy", member.getvalue())
    return buffer.getvalue()


def _gone(suite: Checkpoints, rng: random.Random, folder: Path, file: Path) -> bool:
    file.unlink()
    return False


def _folder(suite: Checkpoints, rng: random.Random, folder: Path, file: Path) -> bool:
    file.unlink()
    file.mkdir()
    return False


def _exchanged(suite: Checkpoints, rng: random.Random, folder: Path, file: Path) -> bool:
    others = sorted(p for p in suite.folder.glob("kept*/**/*") if p.is_file())
    shutil.copy(rng.choice(others), file)
    return False


def _of_others(suite: Checkpoints, rng: random.Random, folder: Path, file: Path) -> bool:
    """Files of a fit of other rows in place of its own: one, some, or all but the mark.

    Some are sealed again for this fit, by somebody who knows how.
    """
    theirs = sorted(p for p in suite.of_others.rglob("*") if p.is_file() and p.name != "fit.json")
    some = rng.sample(theirs, rng.choice((1, 1, 2, len(theirs))))
    sealed = rng.random() < 0.6
    for path in some:
        target = folder / path.relative_to(suite.of_others)
        if sealed and path.suffix != ".arrow":
            write_sealed(target, path.read_bytes()[:-_SEALED], _mark(folder))
        else:
            shutil.copy(path, target)
    return sealed


def _other_mark(suite: Checkpoints, rng: random.Random, folder: Path, file: Path) -> bool:
    """The mark of a fit of other rows, or a whole checkpoint of them."""
    if rng.random() < 0.5:
        shutil.copy(suite.of_others / "fit.json", folder / "fit.json")
    else:
        shutil.copytree(suite.of_others, folder, dirs_exist_ok=True)
    return False


class _Payload:
    """What would write a file, if a reader executed what it reads."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return Path.write_bytes, (self.target, b"executed")


def _pickled(suite: Checkpoints, rng: random.Random, folder: Path, file: Path) -> bool:
    arrays = [p for p in sorted(folder.rglob("*.npz")) if p.name not in _NAMES]
    path, buffer = rng.choice(arrays), io.BytesIO()
    with np.load(io.BytesIO(path.read_bytes()[:-_SEALED])) as read:
        names = read.files
    payload = np.array([_Payload(suite.outside / "theirs")], dtype=object)
    arrays_of: dict[str, Any] = dict.fromkeys(names, payload)
    np.savez(buffer, **arrays_of)
    write_sealed(path, buffer.getvalue(), _mark(folder))
    return True


def _link(suite: Checkpoints, rng: random.Random, folder: Path, file: Path) -> bool:
    file.unlink()
    file.symlink_to(suite.outside / rng.choice(("theirs", "nothing", "more/part-000000.arrow")))
    return False


def _linked_folder(suite: Checkpoints, rng: random.Random, folder: Path, file: Path) -> bool:
    parts = folder / "parts"
    shutil.rmtree(parts, ignore_errors=True)
    parts.symlink_to(suite.outside / "more")
    return False


def _left_over(suite: Checkpoints, rng: random.Random, folder: Path, file: Path) -> bool:
    """What a killed fit had begun to write, or what looks like it and is a link."""
    name = file.with_name(f".{file.name}.fairpc-0123456789abcdef.tmp")
    if rng.random() < 0.5:
        name.write_bytes(b"begun")
    else:
        name.symlink_to(suite.outside / "theirs")
    return False


def _unreadable(suite: Checkpoints, rng: random.Random, folder: Path, file: Path) -> bool:
    if hasattr(os, "mkfifo"):
        file.unlink()
        os.mkfifo(file)
    return False


_ATTACKS: Final[dict[str, Callable[[Checkpoints, random.Random, Path, Path], bool]]] = {
    "bytes": _bytes,
    "sealed again": _resealed,
    "sealed again, twice as often": _resealed,
    "gone": _gone,
    "a folder": _folder,
    "exchanged": _exchanged,
    "of other rows": _of_others,
    "the mark of other rows": _other_mark,
    "pickled": _pickled,
    "a link": _link,
    "a linked folder": _linked_folder,
    "a left-over": _left_over,
    "a pipe": _unreadable,
}
"""What is done to the folder; whether somebody did it who can make seals."""
