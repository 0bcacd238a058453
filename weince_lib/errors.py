"""Errors that a user can mend, and how a command shows them.

Every error class of this package derives from :class:`WeinceError`, except that of ``hosted.py``,
which runs before the package can be imported. Its message is one line that names the value and what
to do. A command shows such an error, and any error of the operating system (a full disk, a file
that is not there), as that line. Everything else is a fault of the program: it keeps its traceback,
with a note that says so.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager


class WeinceError(Exception):
    """An error whose cause lies outside the program; the message says what to change."""


class InputError(WeinceError, ValueError):
    """Data or settings of the user that cannot be used."""


class MissingPackageError(WeinceError, ImportError):
    """A package or its data is not installed; the message names it."""


#: What a command shows as one line.
SHOWN = (WeinceError, OSError)
#: The note that a traceback of anything else carries.
UNEXPECTED = (
    "This error is a fault of weince_lib, or an input that it does not check yet. Please report "
    "it together with the lines above."
)
_ADVICE = {
    errno.ENOSPC: "free some space, or write to another folder",
    errno.EDQUOT: "free some space, or write to another folder",
    errno.EROFS: "the file system is read-only; write to another folder",
    errno.EACCES: "change its permissions, or choose another place",
    errno.EPERM: "change its permissions, or choose another place",
    errno.ENAMETOOLONG: "choose a shorter name",
}


@contextmanager
def checking_input() -> Iterator[None]:
    """Take a ``ValueError`` of the block for one about the user's input.

    For blocks that only read and check what a user gave: the library's functions raise
    ``ValueError`` for that, as Python's own do.

    Raises:
        InputError: in place of a ``ValueError``, with its message.
    """
    try:
        yield
    except WeinceError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error


def one_line(error: BaseException) -> str:
    """An error's message as one line: what happened, to which file, and what to do about it."""
    if isinstance(error, OSError) and error.strerror and error.errno is not None:
        place = f"{error.filename}: " if error.filename is not None else ""
        advice = _ADVICE.get(error.errno)
        return f"{place}{error.strerror}" + (f"; {advice}" if advice else "")
    return " ".join(str(error).split()) or type(error).__name__
