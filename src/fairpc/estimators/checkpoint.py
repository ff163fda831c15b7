"""A folder in which a long fit is kept, so that it can be killed and go on."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairpc.circuit.file import parse_json
from fairpc.data.atomic import (
    AnyPath,
    read_sealed,
    read_whole,
    replaced_by,
    write_atomically,
    write_sealed,
)
from fairpc.data.distinct import Distinct, Packing
from fairpc.data.parts import Parts, RowParts
from fairpc.data.source import Source
from fairpc.data.table_coding import TableCoding
from fairpc.errors import Argument, FairpcError, FileFormatError, LearningError
from fairpc.fair.journal import Journal, read_arrays, write_arrays

FORMAT: Final = "fairpc checkpoint"
VERSION: Final = 2
_MAX_BYTES: Final = 1 << 34
_IDLE: Final = ("verbose", "n_jobs")  # settings that change nothing about the result
_FIT: Final = "fit.json"
_PARTS: Final = "parts"
_OWN: Final = re.compile(r"fit\.json|coding\.json|rows\.npz|parts|em-\d{3,}\.npz")
_OWN_PARTS: Final = re.compile(r"parts\.json|part-\d{6,}\.arrow")
"""Names of what a checkpoint writes, and of what it writes to its folder of rows."""


@dataclass(frozen=True)
class Checkpoint:
    """The folder of one fit: what it is a fit of, its rows if they were streamed, its runs of EM.

    Every file is written whole or not at all, with a checksum that also covers ``mark``, which
    names the fit; it is verified before the file is used. What others keep in the folder is left
    alone.
    """

    folder: Path
    mark: str

    @classmethod
    def open(cls, path: AnyPath, settings: Mapping[str, Any], data: str) -> Checkpoint:
        """The checkpoint in a folder, made if it is not there.

        A LearningError says in what the fit that it was made for differs from this one.
        """
        from fairpc import __version__

        given: Any = path
        if not (isinstance(given, str | os.PathLike) and os.fspath(given)):
            raise LearningError(Argument("checkpoint"), f" is {given!r}: give the path of a folder")
        folder = Path(path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise FileFormatError(
                f"{folder} is, or lies in, a file: a checkpoint is a folder, give another name"
            ) from None
        kept = {name: value for name, value in settings.items() if name not in _IDLE}
        kept = json.loads(json.dumps(kept, sort_keys=True))
        fit = {"format": FORMAT, "version": VERSION, "fairpc": __version__, "data": data}
        fit |= {"settings": kept}
        told = json.dumps(fit, sort_keys=True).encode()
        file, entries = folder / _FIT, _entries(folder)
        _refuse_links(entries)
        if file in entries:
            _compare(folder, _read_json(file), fit)
        else:
            _refuse_strangers(folder, entries)
            write_atomically(file, told)
            # Before the mark was there, nothing but the mark can have been begun.
            entries = [path for path in entries if replaced_by(path.name) == _FIT]
        _remove_left_overs(entries)
        return cls(folder, hashlib.sha256(told).hexdigest())

    @property
    def journal(self) -> Journal:
        """A journal at its beginning."""
        return Journal(self.folder, self.mark)

    @property
    def parts(self) -> Path:
        """The folder of rows that do not fit into memory."""
        return self.folder / _PARTS

    def keep_coding(self, coding: TableCoding) -> None:
        """Keep how the table becomes codes."""
        write_sealed(self._coding, json.dumps(coding.to_dict()).encode(), self.mark)

    def coding(self) -> TableCoding | None:
        """The coding that was kept; None if none was."""
        path = self._coding
        if not path.exists():
            return None
        data = read_sealed(path, _MAX_BYTES, self.mark)
        try:
            return TableCoding.from_dict(parse_json(data, os.fspath(path), _MAX_BYTES))
        except (FairpcError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise FileFormatError(f"{path} holds no coding ({error}): use a new folder") from error

    def keep_rows(self, rows: Distinct | RowParts) -> None:
        """Keep the distinct rows of a streamed table, or the list of their parts on disk."""
        if isinstance(rows, Distinct):
            write_arrays(self._rows, self.mark, words=rows.words, weights=rows.weights)
        elif isinstance(rows, Parts):
            rows.keep(self.mark)

    def rows(self, packing: Packing) -> Distinct | Parts | None:
        """The rows that were kept; None if none were."""
        path = self._rows
        if not path.exists():
            parts = Parts.find(self.parts, self.mark)
            if parts is not None and parts.packing != packing:
                raise FileFormatError(f"{self.parts} holds rows of another table: use a new folder")
            return parts
        data = read_arrays(path, self.mark, ("words", "weights"))
        words, weights = data["words"], data["weights"]
        shape = len(packing.words) + packing.unit, len(weights)
        if words.shape != shape or words.dtype != np.uint64 or weights.dtype != np.float64:
            raise FileFormatError(f"{path} holds rows of another table: use a new folder")
        return Distinct(words, weights)

    @property
    def _coding(self) -> Path:
        return self.folder / "coding.json"

    @property
    def _rows(self) -> Path:
        return self.folder / "rows.npz"


def identity(source: Source) -> str:
    """A name for the files of a table: paths, sizes and times; empty for a lazy frame."""
    if not source.paths:
        return ""
    stats = [(os.fspath(path), path.stat()) for path in source.paths]
    return json.dumps([[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats])


def _entries(folder: Path) -> list[Path]:
    """What lies in a checkpoint under a name of ours, whole or begun; no link is followed."""
    found = [path for path in folder.iterdir() if _is_own(path.name, _OWN)]
    parts = folder / _PARTS
    if parts in found and parts.is_dir() and not parts.is_symlink():
        found += [path for path in parts.iterdir() if _is_own(path.name, _OWN_PARTS)]
    return sorted(found)


def _is_own(name: str, names: re.Pattern[str]) -> bool:
    return names.fullmatch(replaced_by(name) or name) is not None


def _refuse_links(entries: Iterable[Path]) -> None:
    """An error where writing, reading or removing a file would do so outside of the folder."""
    for path in entries:
        if path.is_symlink():
            raise FileFormatError(
                f"{path} is a link: a checkpoint holds its files itself, use a new folder"
            )


def _refuse_strangers(folder: Path, entries: Iterable[Path]) -> None:
    """An error where a folder without the mark has files that would be taken for those of a fit."""
    for path in entries:
        if replaced_by(path.name) is None:
            raise FileFormatError(
                f"{folder} holds {path.name} and no {_FIT}, so it is no checkpoint: give another "
                "folder, or a new one"
            )


def _remove_left_overs(entries: Iterable[Path]) -> None:
    """Remove what a killed fit had begun to write."""
    for path in entries:
        if replaced_by(path.name) is not None and path.is_file():
            path.unlink(missing_ok=True)


def _compare(folder: Path, old: Any, new: Mapping[str, Any]) -> None:
    if not isinstance(old, dict) or old.get("format") != FORMAT:
        raise FileFormatError(f"{folder} holds no checkpoint: give another folder, or a new one")
    for field, what in (("version", "format"), ("fairpc", "fairpc"), ("data", "table")):
        if old.get(field) != new[field]:
            raise LearningError(
                f"the checkpoint in {folder} is of another {what}: go on with the same one, or "
                "use a new folder"
            )
    if set(old) != set(new):
        raise FileFormatError(f"{folder / _FIT} has other fields than it should: use a new folder")
    theirs, ours = old.get("settings"), new["settings"]
    if theirs != ours:
        known = theirs if isinstance(theirs, dict) else {}
        # A setting of None is not one that is lacking.
        both = set(ours) & set(known)
        odd = next(k for k in sorted({*ours, *known}) if k not in both or known[k] != ours[k])
        raise LearningError(
            f"the checkpoint in {folder} was made with another ",
            Argument(odd, "…"),
            ": go on with the same settings, or use a new folder",
        )


def _read_json(path: Path) -> Any:
    return parse_json(read_whole(path, _MAX_BYTES), os.fspath(path), _MAX_BYTES)
