"""Embeddings, pairs and labels from files; nothing in a file is ever executed.

Pickles run code when they are read, so they are refused: by their name, and by the readers, which
are told to take arrays only. A large ``.npy`` file is mapped, not read.
"""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import MissingPackageError, one_line
from .embedding_checks import check_labels, check_pair_rows, check_rows

#: Key that is taken where a file holds several arrays.
KEYS = ("embeddings", "embedding", "z", "features")
_PICKLES = (".pkl", ".pickle", ".joblib", ".dill")
_EXTRA = {"pandas": "companion", "pyarrow": "diagnose", "safetensors": "diagnose"}


def load_embeddings(path: str | Path) -> np.ndarray:
    """Read a matrix of embeddings, one row per item.

    Args:
        path: ``.npy``, ``.npz``, ``.pt``/``.pth`` (tensors only), ``.safetensors``, ``.csv`` (with
            or without a header) or ``.parquet``. Of several arrays in a file the one named
            ``embeddings`` is taken (or ``embedding``, ``z``, ``features``).

    Returns:
        Shape ``(rows, d)``, float16, float32 or float64; checked by :func:`check_rows`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: for a pickle, another kind of file, several arrays without a known name, columns
            that are not numbers, and as :func:`check_rows`.
        ImportError: if the reader's package is missing, with the extra to install.
    """
    name = Path(path).name
    return check_rows(_read(Path(path), KEYS), name)


def load_pairs(path: str | Path, rows: int) -> np.ndarray:
    """Read positive pairs: two row numbers a line, counted from 0.

    Args:
        path: any kind of file that :func:`load_embeddings` reads.
        rows: number of embeddings.

    Returns:
        Shape ``(pairs, 2)``, int64; checked by :func:`check_pair_rows`.

    Raises:
        FileNotFoundError, ValueError, ImportError: as :func:`load_embeddings` and
            :func:`check_pair_rows`.
    """
    return check_pair_rows(_read(Path(path), ("pairs",)), rows, Path(path).name)


def load_labels(path: str | Path, rows: int) -> np.ndarray:
    """Read one label a row; rows with the same label are no negatives of each other.

    Args:
        path: any kind of file that :func:`load_embeddings` reads; text labels are allowed.
        rows: number of embeddings.

    Returns:
        Codes from 0, shape ``(rows,)``, int64.

    Raises:
        FileNotFoundError, ValueError, ImportError: as :func:`load_embeddings` and
            :func:`check_labels`.
    """
    labels = _read(Path(path), ("labels", "label", "y"), text=True)
    if Path(path).suffix.lower() == ".csv" and len(labels) == rows + 1:
        labels = labels[1:]  # a header
    return check_labels(labels, rows)


def _read(path: Path, keys: tuple[str, ...], text: bool = False) -> Any:
    readers: dict[str, Callable[[], Any]] = {
        ".npy": lambda: _numpy(path, keys),
        ".npz": lambda: _numpy(path, keys),
        ".pt": lambda: _torch(path, keys),
        ".pth": lambda: _torch(path, keys),
        ".safetensors": lambda: _safetensors(path, keys),
        ".csv": lambda: _table(path, text),
        ".parquet": lambda: _table(path, text),
    }
    kind = path.suffix.lower()
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    if kind in _PICKLES:
        raise ValueError(
            f"{path.name} is a pickle, which runs code when it is read: refused. Save the array "
            "with numpy.save or safetensors"
        )
    if kind not in readers:
        raise ValueError(f"{path.name}: unknown kind of file; known: {', '.join(readers)}")
    try:
        return readers[kind]()
    except (ValueError, MissingPackageError):
        raise
    except Exception as error:  # what a reader raises for a damaged file may be of any kind
        raise ValueError(
            f"{path.name} cannot be read ({type(error).__name__}: {one_line(error)}); it is "
            "damaged or of another kind than its name says: save it anew"
        ) from error


def _numpy(path: Path, keys: tuple[str, ...]) -> Any:
    with path.open("rb") as file:
        magic = file.read(6)
    expected = b"\x93NUMPY" if path.suffix.lower() == ".npy" else b"PK"
    if not magic.startswith(expected):
        raise ValueError(
            f"{path.name} is not a NumPy file; a pickle is refused, as reading it would run code. "
            "Save the array with numpy.save"
        )
    try:
        if path.suffix.lower() == ".npy":
            return np.load(path, mmap_mode="r", allow_pickle=False)
        with np.load(path, allow_pickle=False) as held:
            name = _choose(list(held.files), keys, path.name)
            return held[name]
    except (ValueError, zipfile.BadZipFile, EOFError, OSError) as error:
        # NumPy's words for pickled content.
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            raise ValueError(
                f"{path.name} holds Python objects, a pickle, which runs code when it is read: "
                "refused. Save a plain numeric array"
            ) from None
        raise ValueError(
            f"{path.name} cannot be read ({one_line(error)}); it is damaged: save it anew with "
            "numpy.save"
        ) from error


def _torch(path: Path, keys: tuple[str, ...]) -> Any:
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for what is no file of tensors
        raise ValueError(
            f"{path.name} is not a file of plain tensors (weights only), so it was refused and not "
            "executed; save the matrix itself with torch.save(tensor, path)"
        ) from error
    if isinstance(held, torch.Tensor):
        return held
    if not isinstance(held, dict):
        raise ValueError(f"{path.name} holds a {type(held).__name__}; save the matrix itself")
    tensors = {str(k): v for k, v in held.items() if isinstance(v, torch.Tensor)}
    return tensors[_choose(list(tensors), keys, path.name)]


def _safetensors(path: Path, keys: tuple[str, ...]) -> Any:
    safetensors = _need("safetensors", path)
    try:
        with safetensors.safe_open(str(path), framework="pt") as held:
            return held.get_tensor(_choose(list(held.keys()), keys, path.name))
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error


def _table(path: Path, text: bool) -> np.ndarray:
    pandas = _need("pandas", path)
    try:
        if path.suffix.lower() == ".parquet":
            _need("pyarrow", path)
            frame = pandas.read_parquet(path)
        else:
            frame = pandas.read_csv(path, header=None, low_memory=False)
            if not text and _is_header(frame, pandas):
                frame = pandas.read_csv(path, low_memory=False)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    if frame.shape[1] == 1 and len(frame) and hasattr(frame.iloc[0, 0], "__len__") and not text:
        return np.stack([np.asarray(row) for row in frame.iloc[:, 0]])  # a column of vectors
    if not text:
        if str(frame.columns[0]).startswith("Unnamed"):
            raise ValueError(
                f"{path.name}: the first column has no name, so it is a saved index and no part of "
                "the embedding; save the table with index=False"
            )
        for column in frame.columns:
            if frame[column].dtype.kind not in "fiu":
                raise ValueError(
                    f"{path.name}: column {column!r} is not numeric; keep the embedding's columns"
                )
    return np.asarray(frame.to_numpy())


def _is_header(frame: Any, pandas: Any) -> bool:
    """Whether the first row holds names: words, or pandas' own 0, 1, 2, ..."""
    first = pandas.to_numeric(frame.iloc[0], errors="coerce").to_numpy(dtype=np.float64)
    if len(frame) < 2:
        return False
    second = pandas.to_numeric(frame.iloc[1], errors="coerce").to_numpy(dtype=np.float64)
    words = np.isnan(first).all() and not np.isnan(second).all()
    numbers = first[~np.isnan(first)]
    counted = numbers.size > 1 and np.array_equal(numbers, np.arange(numbers.size))
    return bool(words or counted)


def _choose(names: list[str], keys: tuple[str, ...], file: str) -> str:
    if len(names) == 1:
        return names[0]
    for key in keys:
        if key in names:
            return key
    raise ValueError(
        f"{file} holds {len(names)} arrays ({', '.join(names[:6])}); "
        f"name the one to use {keys[0]!r}"
    )


def _need(package: str, path: Path) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingPackageError(
            f"reading {path.name} needs {package}: pip install 'weince-lib[{_EXTRA[package]}]'"
        ) from error
