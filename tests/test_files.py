"""Files are replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from weince_lib import files


@pytest.fixture
def umask() -> Iterator[None]:
    """Restore the process's umask after a test that changes it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_the_new_file_appears_only_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "record.json"
    with files.replacing(path) as aside:
        aside.write_bytes(b"\x00new\r\n")
        assert not path.exists()
    assert path.read_bytes() == b"\x00new\r\n"
    assert names(path.parent) == ["record.json"]


@pytest.mark.parametrize("crash", [RuntimeError, KeyboardInterrupt])
def test_a_crash_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, crash: type[BaseException]
) -> None:
    path = tmp_path / "record.json"
    for existed in (False, True):
        if existed:
            path.write_text("old")
        with pytest.raises(crash), files.replacing(path) as aside:
            aside.write_text("half of the ne")
            raise crash
        assert names(tmp_path) == ["record.json"] * existed
    assert path.read_text() == "old"


def test_a_kill_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text("old")
    script = f"""
import os, runpy, signal
from pathlib import Path
with runpy.run_path({files.__file__!r})["replacing"](Path({str(path)!r})) as aside:
    aside.write_text("half of the ne")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    # Nobody was left to remove the half; it stays hidden and in nobody's way.
    assert [name for name in names(tmp_path) if not name.startswith(".")] == ["record.json"]
    files.write_text(path, "new")
    assert path.read_text() == "new"


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_follow_the_umask(tmp_path: Path, umask: None, mask: int, mode: int) -> None:
    os.umask(mask)
    path = tmp_path / "record.json"
    with files.replacing(path) as aside:
        aside.write_text("new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert os.umask(mask) == mask  # reading the umask has not changed it


def test_write_text_is_utf8_with_the_text_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "table.csv"
    files.write_text(path, "λ,β̂\n1,2\n")
    assert path.read_bytes() == "λ,β̂\n1,2\n".encode()
    files.write_text(path, "")
    assert path.read_bytes() == b""


def test_a_lock_keeps_a_second_holder_out(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with files.locked(path), pytest.raises(Timeout):
        FileLock(path).acquire(timeout=0)
    with FileLock(path).acquire(timeout=0):
        pass  # free again


def test_where_the_file_system_knows_no_locks_the_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", unknown)
    ran = []
    with files.locked(tmp_path / ".lock"):
        ran.append(1)
    assert ran == [1]


def test_another_error_of_the_lock_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("fcntl.flock", broken)
    with pytest.raises(OSError, match="Input/output"), files.locked(tmp_path / ".lock"):
        pass


@pytest.mark.parametrize("filters", [True, False])
def test_an_archive_is_unpacked_and_nothing_outside_its_folder(tmp_path, monkeypatch, filters):
    if not filters:  # as in Python 3.11.0 to 3.11.3
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    elif not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python has no filters")
    (tmp_path / "one.txt").write_text("one")
    good, bad = tmp_path / "good.tar.gz", tmp_path / "bad.tar"
    with tarfile.open(good, "w:gz") as made:
        made.add(tmp_path / "one.txt", "folder/one.txt")
    files.unpack_tar(good, tmp_path / "out")
    assert (tmp_path / "out" / "folder" / "one.txt").read_text() == "one"
    with tarfile.open(bad, "w") as made:
        made.add(tmp_path / "one.txt", "../escaped.txt")
    with pytest.raises(tarfile.TarError):
        files.unpack_tar(bad, tmp_path / "out")
    assert not (tmp_path / "escaped.txt").exists()
