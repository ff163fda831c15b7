"""Whole files: written entirely or not at all, read entirely or refused."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fairpc.core._errors import FileFormatError

if sys.platform != "win32":  # which has no such locks
    import fcntl

AnyPath = str | os.PathLike[str]
_PIECE: Final = 2**20
_FOLDER: Final = "fairpc-"
_LOCK: Final = ".fairpc-lock"
_TEMPORARY: Final = re.compile(r"\..{1,100}\.fairpc-[0-9a-f]{16}\.tmp")


def write_atomically(path: AnyPath, data: bytes) -> None:
    """Write ``data`` to ``path``, whole or not at all; see ``replacing``."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: AnyPath) -> Iterator[Path]:
    """A new file to write into; when the block ends well it is ``path``, else it is gone.

    A crash leaves the old file or the new one, never a part: the new one lies in the same folder,
    reaches the disk, and then takes the name of the target (``rename`` is atomic). Until then only
    its owner may read it. A link is followed; the permissions of a file that is replaced are kept.
    An OSError of the same kind, with a sentence that names ``path``, says why it could not be done.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = _mode_of(target)
        if os.fspath(path).endswith(("/", os.sep)):
            raise OSError(errno.EISDIR, "its name is that of a folder")
        temporary, lock = _begun(target)
        try:
            yield temporary
            if lock is not None:
                temporary.chmod(mode)
            _sync(temporary, os.O_RDWR)
            temporary.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        finally:
            if lock is not None:
                os.close(lock)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OSError(
            error.errno,
            f"cannot write the file ({reason}): check the folder, its permissions and free space",
            os.fspath(path),
        ) from error
    # Makes the rename durable. Where folders cannot be synced, the file system orders it itself.
    with contextlib.suppress(OSError):
        _sync(target.parent, os.O_RDONLY)


def _begun(target: Path) -> tuple[Path, int | None]:
    """A new file beside the target, and the descriptor that locks it while this process lives."""
    while True:
        temporary = target.with_name(f".{_cut(target.name)}.fairpc-{secrets.token_hex(8)}.tmp")
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        if sys.platform == "win32":  # which renames no file that is open
            os.close(descriptor)
            return temporary, None
        with contextlib.suppress(OSError):  # not all file systems have locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)  # it was removed as a left-over before it was locked


def _remove_left_over(path: Path, lock: Path) -> None:
    """Remove a file or a folder of ours whose process has ended: nobody holds its lock."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        state = path.lstat()
        if state.st_uid != os.geteuid():
            return
        descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if stat.S_ISDIR(state.st_mode):
                shutil.rmtree(path)
            elif stat.S_ISREG(state.st_mode):
                path.unlink()
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder for rows of a table, which its owner alone may open; it goes with the block.

    What killed processes of the same user left of such folders goes when the next one is made.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        _remove_left_over(left, left / _LOCK)
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as name:  # of mode 700
        path = Path(name)
        new = path / f"{_LOCK}-new"
        lock = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            if sys.platform != "win32":
                with contextlib.suppress(OSError):  # not all file systems have locks
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    new.rename(path / _LOCK)  # under this name it is locked from the start
            yield path
        finally:
            os.close(lock)


def private_file(path: Path) -> Path:
    """A new file that its owner alone may read, to be written."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return path


def _cut(name: str) -> str:
    """The first 100 bytes of a name, whole characters only: file systems count bytes."""
    return name.encode(errors="ignore")[:100].decode(errors="ignore") or "file"


def check_writable(path: AnyPath) -> None:
    """Raise the OSError that ``replacing`` would, before long work; remove what writers left."""
    with contextlib.suppress(_Unchanged), replacing(path):
        raise _Unchanged
    for left in Path(os.path.realpath(path)).parent.glob(".*.fairpc-*.tmp"):
        if _TEMPORARY.fullmatch(left.name):
            _remove_left_over(left, left)


class _Unchanged(Exception):  # noqa: N818 - no error: it ends a block that shall replace nothing
    pass


def read_whole(path: AnyPath, max_bytes: int) -> bytes:
    """All bytes of a regular file of at most ``max_bytes``; a larger one is refused unread."""
    info = Path(path).stat()
    # Asked before opening: to open a pipe is to wait for somebody to write into it.
    if not stat.S_ISREG(info.st_mode):
        raise FileFormatError(f"{os.fspath(path)} is not a regular file: give the path of one")
    data = b""
    if info.st_size <= max_bytes:
        with Path(path).open("rb") as file:
            data = file.read(info.st_size)
            # A file may have more than the file system says: read on, up to the limit.
            while len(data) <= max_bytes and (more := file.read(_PIECE)):
                data += more
    size = max(info.st_size, len(data))
    if size > max_bytes:
        raise FileFormatError(
            f"{os.fspath(path)} has {size:,} bytes and the limit is {max_bytes:,}: "
            "give a smaller file, or a larger max_bytes if you trust this one"
        )
    return data


def _mode_of(target: Path) -> int:
    """Permissions of the file to be replaced; where there is none yet, those of a new one."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mask = os.umask(0o077)  # it can be asked for only by setting it
        os.umask(mask)
        return 0o666 & ~mask
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(mode):
        # Replacing a device or a pipe by a file would destroy it.
        raise OSError(errno.EINVAL, "it is not a regular file")
    if not os.access(target, os.W_OK):
        raise OSError(errno.EACCES, "it is write-protected")
    return stat.S_IMODE(mode)


def _sync(path: Path, flags: int) -> None:
    """Put what was written onto the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
