"""The pairs a streamed bank has kept, on disk block by block, so that a cut run goes on."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import files
from ..errors import InputError, one_line

#: Rows digested in one go.
_CHUNK = 65_536


def digest(array: np.ndarray) -> str:
    """A hash of an array's shape, dtype and content."""
    state = hashlib.blake2b(f"{array.shape} {array.dtype}".encode(), digest_size=16)
    for start in range(0, len(array), _CHUNK):
        state.update(np.ascontiguousarray(array[start : start + _CHUNK]).data)
    return state.hexdigest()


class BlockStore:
    """A folder with one file per finished block and a note of what they were made from.

    A damaged file is one that is not there: it is made anew, with a warning that names it.

    Args:
        folder: made if it is missing.
        key: what the blocks depend on: settings and hashes, plain JSON values.

    Raises:
        InputError: if the folder holds blocks made from something else, or its note is damaged.
    """

    def __init__(self, folder: Path, key: dict[str, Any]) -> None:
        self._folder = folder
        self._blocks = folder / "blocks"
        note = folder / "bank.json"
        if note.is_file():
            try:
                held = dict(json.loads(note.read_text(encoding="utf-8")))
            except (ValueError, TypeError) as error:
                raise InputError(
                    f"{note} is damaged, so that nobody knows what the bank beside it was made "
                    f"from ({one_line(error)}); delete the folder {folder}"
                ) from error
            changed = sorted(k for k in key.keys() | held.keys() if key.get(k) != held.get(k))
            if changed:
                raise InputError(
                    f"{folder} holds a bank made with other {', '.join(changed)}; choose another "
                    "folder, or delete this one"
                )
        else:
            files.write_text(note, json.dumps(key, indent=1, sort_keys=True) + "\n")

    def load(self, block: int) -> dict[str, np.ndarray] | None:
        """The arrays of a finished block, or ``None``."""
        return _load(self._blocks / f"{block:05d}.npz")

    def save(self, block: int, arrays: dict[str, np.ndarray]) -> None:
        """Write a block, whole or not at all."""
        _save(self._blocks / f"{block:05d}.npz", arrays)

    def load_bank(self, names: Collection[str]) -> dict[str, np.ndarray] | None:
        """The arrays of the finished bank, or ``None``; without all of ``names`` it is damaged."""
        return _load(self._folder / "bank.npz", names)

    def save_bank(self, arrays: dict[str, np.ndarray]) -> None:
        """Write the finished bank and drop the blocks it was put together from."""
        _save(self._folder / "bank.npz", arrays)
        shutil.rmtree(self._blocks, ignore_errors=True)


def _load(path: Path, names: Collection[str] = ()) -> dict[str, np.ndarray] | None:
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
        if missing := set(names) - arrays.keys():
            raise ValueError(f"it lacks {', '.join(sorted(missing))}")
    except Exception as error:  # a damaged archive raises errors of many kinds
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's
        warnings.warn(f"{path} is damaged ({one_line(error)}); it is made anew", stacklevel=4)
        return None
    return {name: arrays[name] for name in names or arrays}


def _save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with files.replacing(path) as aside, aside.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def spans(size: int, step: int) -> Iterator[slice]:
    """``range(size)`` in slices of ``step``."""
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))
