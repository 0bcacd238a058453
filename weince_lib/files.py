"""Files that are whole or absent: written aside, then moved into place."""

from __future__ import annotations

import errno
import os
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``; move it into place if the block succeeds.

    A crash inside the block leaves ``path`` as it was. The temporary file keeps the suffix, since
    some writers choose a format by it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    aside = Path(name)
    try:
        yield aside
        # A name alone is not enough after a power cut: the bytes have to be on disk first.
        with aside.open("rb") as written:
            os.fsync(written.fileno())
        umask = os.umask(0)
        os.umask(umask)
        aside.chmod(0o666 & ~umask)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path``, whole or not at all."""
    with replacing(path) as aside:
        aside.write_text(text, encoding="utf-8")


def unpack_tar(archive: Path, target: Path) -> None:
    """Unpack a tar archive of plain files and folders; nothing is written outside ``target``.

    Raises:
        tarfile.TarError: for a file that is no tar archive, and for a member that is a link or a
            device, or whose place is outside.
    """
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):
            opened.extractall(target, filter="data")
        else:  # Python 3.11.0 to 3.11.3 have no filters
            for member in opened.getmembers():
                place = Path(member.name)
                outside = place.is_absolute() or ".." in place.parts
                if outside or not (member.isfile() or member.isdir()):
                    raise tarfile.TarError(f"{member.name!r} is no plain file of the archive")
            opened.extractall(target)
        # To the end, where a compressed file has its checksum.
        while opened.fileobj and opened.fileobj.read(2**20):
            pass


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file ``path``; another process that asks for it waits.

    On file systems that know no locks, as some mounted drives are, the block runs without: there
    one session works alone, and waiting would never end.
    """
    from filelock import FileLock

    if not _locks_work(path):
        yield
        return
    with FileLock(path):
        yield


def _locks_work(path: Path) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows, which has locks of its own
        return True
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            unknown = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOLCK)
            if error.errno in unknown:
                return False
            raise
    return True
