"""Files that are whole or absent: written aside, then moved into place."""

from __future__ import annotations

import errno
import os
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
