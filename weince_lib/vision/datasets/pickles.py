"""Reading pickled arrays of unknown origin without running what is in them.

A pickle can call any importable function while it is read. CIFAR and ImageNet-32 are published as
pickles of dictionaries, lists, strings, numbers and numpy arrays; rebuilding the arrays takes the
few names below, and every other name is refused.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

# How numpy rebuilds an array, up to pickle protocol 4 and from 5 on; both moved between versions.
_reconstruct = np.zeros(1).__reduce_ex__(4)[0]
_from_buffer = np.zeros(1).__reduce_ex__(5)[0]


def _latin1(text: str, encoding: str) -> bytes:
    """What ``_codecs.encode`` does for arrays pickled by Python 3 in an old protocol."""
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError(f"it encodes as {encoding!r}, which no array does")
    return text.encode("latin1")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): _latin1,
}


class ArrayUnpickler(pickle.Unpickler):
    """Unpickler for plain Python values and numpy arrays; strings of Python 2 are latin-1."""

    def __init__(self, file: Any) -> None:
        super().__init__(file, encoding="latin1")

    def find_class(self, module: str, name: str) -> Any:
        """Give the few names an array needs.

        Raises:
            pickle.UnpicklingError: for any other.
        """
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, and only numpy arrays are admitted"
            ) from None


def read_pickle(path: Path) -> dict[str, Any]:
    """Read a pickled dictionary of plain values and arrays.

    Raises:
        ValueError: naming the file, if it is no such pickle or asks for anything else.
    """
    try:
        with path.open("rb") as file:
            content = ArrayUnpickler(file).load()
    except OSError:
        raise
    except Exception as error:  # a damaged pickle raises nearly anything
        raise ValueError(
            f"{path} cannot be read: {str(error) or type(error).__name__}; "
            "delete it and get it again"
        ) from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}, expected a dictionary")
    return content
