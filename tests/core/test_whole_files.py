"""Whole files: the old one or the new one, never a part; nothing left behind."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairpc.core import (
    check_writable,
    private_file,
    private_folder,
    read_whole,
    write_atomically,
)
from fairpc.errors import FileFormatError

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX permissions and pipes")


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_writes_a_new_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a.bin", b"\0\r\nnew")
    assert (tmp_path / "a.bin").read_bytes() == b"\0\r\nnew"
    assert names(tmp_path) == ["a.bin"]


def test_replaces_a_file_also_by_a_shorter_one(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"the old content")
    write_atomically(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a.bin"]


@posix
def test_permissions_are_kept_or_follow_the_umask(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"x")
    old.chmod(0o640)
    before = os.umask(0o027)
    try:
        write_atomically(old, b"y")
        write_atomically(new, b"y")
    finally:
        os.umask(before)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


@posix
def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("failing", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, error: BaseException
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os if failing == "fsync" else Path, failing, fail)
    with pytest.raises(type(error)) as caught:
        write_atomically(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]
    if isinstance(error, OSError):
        assert "cannot write the file (no space left)" in str(caught.value)
        assert str(path) in str(caught.value)
        assert ".tmp" not in str(caught.value)


def test_missing_folder(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a.bin"
    with pytest.raises(FileNotFoundError, match=r"cannot write the file .*none/a\.bin"):
        write_atomically(path, b"")


def test_a_folder_is_no_target(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        write_atomically(tmp_path, b"")
    assert names(tmp_path) == []


def test_permission_denied_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", "a secret temporary name")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError) as caught:
        write_atomically(tmp_path / "a.bin", b"")
    monkeypatch.undo()
    text = str(caught.value)
    assert "cannot write the file (permission denied): check the folder" in text
    assert "secret" not in text
    assert "\n" not in text


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may write anything")
def test_a_write_protected_file_is_respected(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="write-protected"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"


@posix
def test_a_pipe_is_neither_replaced_nor_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        write_atomically(pipe, b"new")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(FileFormatError, match="not a regular file"):
        read_whole(pipe, 10)


def test_reads_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"0123456789")
    assert read_whole(path, 10) == b"0123456789"
    with pytest.raises(FileFormatError, match=r"a\.bin has 10 bytes and the limit is 9"):
        read_whole(path, 9)


def test_a_sparse_giant_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "giant"
    with path.open("wb") as file:
        file.truncate(2**40)
    start = time.perf_counter()
    with pytest.raises(FileFormatError, match="1,099,511,627,776 bytes"):
        read_whole(path, 2**20)
    assert time.perf_counter() - start < 1


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_a_file_larger_than_its_size_says_is_refused() -> None:
    assert Path("/proc/self/maps").stat().st_size == 0
    with pytest.raises(FileFormatError, match="the limit is 16"):
        read_whole("/proc/self/maps", 16)


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_whole(tmp_path / "none", 10)


KILLED = """
import os, signal, sys
from fairpc.core._whole_files import replacing
with replacing(sys.argv[1]) as temporary:
    temporary.write_text("secret")
    print(temporary.name, flush=True)
    if sys.argv[2:]:
        input()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@posix
def test_what_a_killed_writer_left_is_private_and_the_next_run_removes_it(tmp_path: Path) -> None:
    program = [sys.executable, "-c", KILLED, str(tmp_path / "out.csv")]
    killed = subprocess.run(program, capture_output=True, text=True, check=False)
    left = tmp_path / killed.stdout.strip()
    assert left.read_text() == "secret"
    assert stat.S_IMODE(left.stat().st_mode) == 0o600
    name = ".{}.fairpc-0123456789abcdef.tmp"
    (tmp_path / name.format("folder")).mkdir()
    (tmp_path / name.format("link")).symlink_to(tmp_path / "theirs")
    theirs = ["theirs", ".x.0123456789abcdef.tmp", ".x.fairpc-1.tmp", "x.fairpc-1.tmp"]
    for other in theirs:
        (tmp_path / other).write_text("theirs")
    kept = sorted([*theirs, name.format("folder"), name.format("link")])
    pipe = subprocess.PIPE
    with subprocess.Popen([*program, "wait"], stdin=pipe, stdout=pipe, text=True) as writer:
        assert writer.stdout is not None
        in_use = writer.stdout.readline().strip()
        check_writable(tmp_path / "other.csv")
        assert names(tmp_path) == sorted([*kept, in_use])
        writer.communicate("\n")
    check_writable(tmp_path / "other.csv")
    assert names(tmp_path) == kept


WRITER = """
import sys
from fairpc.core._whole_files import write_atomically
a, b = (letter * 3_000_000 for letter in (b"a", b"b"))
print("ready", flush=True)
while True:
    write_atomically(sys.argv[1], a)
    write_atomically(sys.argv[1], b)
"""


@posix
@pytest.mark.parametrize("delay", [0.0, 0.007, 0.019, 0.043])
def test_a_kill_leaves_the_old_or_the_new_file(tmp_path: Path, delay: float) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
    content = path.read_bytes()
    assert content in (b"old", b"a" * 3_000_000, b"b" * 3_000_000)


@posix
def test_rows_on_disk_are_their_owners_alone_and_are_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders of mode 700 with files of mode 600; those of killed processes go with the next."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = (
        f"import os, tempfile; tempfile.tempdir = {str(tmp_path)!r}\n"
        "from fairpc.core import private_file, private_folder\n"
        "with private_folder() as f:\n    private_file(f / 'part'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (left,) = tmp_path.iterdir()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (left, left / "part")]
    assert modes == [0o700, 0o600]
    other = tmp_path / "fairpc-of-somebody-else"
    other.mkdir()
    with private_folder() as first, private_folder() as second:
        assert {first, second, other} == set(tmp_path.iterdir())
        with pytest.raises(FileExistsError):
            private_file(private_file(first / "part"))
    assert list(tmp_path.iterdir()) == [other]
