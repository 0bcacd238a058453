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

from ..losses.similarity import ZERO_NORM

#: Rows looked at in one go, so that a file larger than memory can be checked.
_CHUNK = 65_536
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
    return check_labels(_read(Path(path), ("labels", "label", "y"), text=True), rows)


def check_rows(embeddings: Any, name: str = "embeddings", least: int = 2) -> np.ndarray:
    """Return embeddings as a floating-point matrix whose rows all have a direction.

    Args:
        embeddings: array or tensor, shape ``(rows, d)``.
        name: what the error calls them.
        least: fewest rows.

    Raises:
        ValueError: unless the array is a numeric matrix with enough rows, all of them finite and
            not zero (the first bad row is named), and not all pointing the same way.
    """
    if isinstance(embeddings, torch.Tensor):
        embeddings = embeddings.detach().cpu()
        if embeddings.dtype == torch.bfloat16:
            embeddings = embeddings.float()
        embeddings = embeddings.numpy()
    z = np.asanyarray(embeddings)
    if z.ndim != 2:
        raise ValueError(f"{name} must be 2-D, one row per item, got shape {z.shape}")
    if z.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be real numbers, got dtype {z.dtype}")
    if z.shape[0] < least or z.shape[1] < 2:
        raise ValueError(
            f"{name}: {z.shape[0]} rows of {z.shape[1]} columns; at least {least} rows and 2 "
            "columns are needed"
        )
    if z.dtype.kind in "iu" or z.dtype.itemsize > 8:
        z = z.astype(np.float64)
    first, same = np.asarray(z[0], dtype=np.float64), True
    for start in range(0, z.shape[0], _CHUNK):
        part = np.asarray(z[start : start + _CHUNK])
        _check_part(part, start, name)
        if same:
            few = part[:4096].astype(np.float64)
            cosine = few @ first / (np.linalg.norm(few, axis=1) * np.linalg.norm(first))
            same = bool((cosine > 1.0 - 1e-9).all()) and (
                len(part) <= 4096 or bool(np.allclose(part[4096:], first))
            )
    if same:
        raise ValueError(
            f"{name}: all {z.shape[0]} rows point the same way, so there is no tail to look at; "
            "has the encoder collapsed, or the wrong array been saved?"
        )
    return z


def check_pair_rows(pairs: Any, rows: int, name: str = "pairs") -> np.ndarray:
    """Return positive pairs as int64 row numbers, shape ``(pairs, 2)``.

    Raises:
        ValueError: for another shape, numbers that are not whole, rows out of range (the first
            such pair is named), and a row paired with itself.
    """
    array = np.asarray(pairs.cpu() if isinstance(pairs, torch.Tensor) else pairs)
    if array.ndim != 2 or array.shape[1] != 2 or not len(array):
        raise ValueError(
            f"{name} must hold two row numbers a line, shape (pairs, 2), got {array.shape}"
        )
    if array.dtype.kind not in "fiu" or (array.dtype.kind == "f" and (array % 1 != 0).any()):
        raise ValueError(f"{name} must be whole row numbers, got dtype {array.dtype}")
    array = array.astype(np.int64)
    for bad, what in (
        (((array < 0) | (array >= rows)).any(axis=1), f"outside the rows 0 to {rows - 1}"),
        (array[:, 0] == array[:, 1], "a row paired with itself"),
    ):
        if bad.any():
            at = int(np.argmax(bad))
            raise ValueError(
                f"{name}: pair {at} is {tuple(array[at].tolist())}, {what}; "
                f"{int(bad.sum())} of {len(array)} such pairs (rows are counted from 0)"
            )
    return array


def check_labels(labels: Any, rows: int) -> np.ndarray:
    """Return labels as codes from 0, int64, shape ``(rows,)``.

    Raises:
        ValueError: unless there is one label a row and at least two different ones.
    """
    array = np.asarray(labels.cpu() if isinstance(labels, torch.Tensor) else labels)
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if array.shape != (rows,):
        raise ValueError(f"labels must have shape ({rows},), one a row, got {array.shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"labels: row {int(np.argmin(np.isfinite(array)))} has no label")
    names, codes = np.unique(array.astype(str) if array.dtype == object else array, False, True)
    if len(names) < 2:
        raise ValueError("labels: all rows have the same label, so there are no negatives")
    return codes.astype(np.int64)


def _check_part(part: np.ndarray, start: int, name: str) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        norm = np.sqrt(np.einsum("ij,ij->i", part, part, dtype=np.float64))
    finite = np.isfinite(norm)
    if not finite.all():  # the norm of finite numbers may overflow, which leaves no direction too
        row = int(np.argmin(finite))
        raise ValueError(
            f"{name}: row {start + row} holds NaN or infinity (or numbers too large to square); "
            "drop or mend such rows"
        )
    zero = norm < ZERO_NORM
    if zero.any():
        raise ValueError(
            f"{name}: row {start + int(np.argmax(zero))} is zero, so it has no cosine; "
            f"{int(zero.sum())} such rows here: drop them"
        )


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
    return readers[kind]()


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
        if "bject" in str(error):  # NumPy's word for pickled content
            raise ValueError(
                f"{path.name} holds Python objects, a pickle, which runs code when it is read: "
                "refused. Save a plain numeric array"
            ) from None
        raise ValueError(f"{path.name} cannot be read: {error}") from error


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
            first = pandas.to_numeric(frame.iloc[0], errors="coerce")
            rest = pandas.to_numeric(frame.iloc[1:2].squeeze(axis=0), errors="coerce")
            if first.isna().all() and (text or not rest.isna().all()):
                frame = pandas.read_csv(path, low_memory=False)
    except (ValueError, OSError) as error:
        raise ValueError(f"{path.name} cannot be read: {error}") from error
    if frame.shape[1] == 1 and len(frame) and hasattr(frame.iloc[0, 0], "__len__") and not text:
        return np.stack([np.asarray(row) for row in frame.iloc[:, 0]])  # a column of vectors
    if not text:
        for column in frame.columns:
            if frame[column].dtype.kind not in "fiu":
                raise ValueError(
                    f"{path.name}: column {column!r} is not numeric; keep the embedding's columns"
                )
    return np.asarray(frame.to_numpy())


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
        raise ImportError(
            f"reading {path.name} needs {package}: pip install 'weince-lib[{_EXTRA[package]}]'"
        ) from error
