"""The pairs a streamed bank has kept, on disk block by block, so that a cut run goes on."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import files

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

    Args:
        folder: made if it is missing.
        key: what the blocks depend on: settings and hashes, plain JSON values.

    Raises:
        ValueError: if the folder holds blocks made from something else.
    """

    def __init__(self, folder: Path, key: dict[str, Any]) -> None:
        self._folder = folder
        self._blocks = folder / "blocks"
        note = folder / "bank.json"
        if note.is_file():
            held = json.loads(note.read_text(encoding="utf-8"))
            changed = sorted(k for k in key.keys() | held.keys() if key.get(k) != held.get(k))
            if changed:
                raise ValueError(
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

    def load_bank(self) -> dict[str, np.ndarray] | None:
        """The arrays of the finished bank, or ``None``."""
        return _load(self._folder / "bank.npz")

    def save_bank(self, arrays: dict[str, np.ndarray]) -> None:
        """Write the finished bank and drop the blocks it was put together from."""
        _save(self._folder / "bank.npz", arrays)
        shutil.rmtree(self._blocks, ignore_errors=True)


def _load(path: Path) -> dict[str, np.ndarray] | None:
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as held:
        return {name: held[name] for name in held.files}


def _save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with files.replacing(path) as aside, aside.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def spans(size: int, step: int) -> Iterator[slice]:
    """``range(size)`` in slices of ``step``."""
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))
