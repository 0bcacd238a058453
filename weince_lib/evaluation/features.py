"""Frozen features: their precision, and a place on disk, under a key made from their content.

The key is a hash of the encoder's weights and of the images, so features are never taken for those
of another encoder or data set, and a changed one is simply not found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from .. import files


def features_key(encoder: nn.Module, images_hash: str) -> str:
    """Sixteen hex digits for the features of some images under an encoder.

    Args:
        encoder: its structure (as printed), parameters and buffers count; the device does not.
        images_hash: what names the images by content, such as ``ImageSet.content_hash()``.

    Raises:
        ValueError: for an empty ``images_hash``, under which all image sets would be one.
    """
    if not images_hash:
        raise ValueError("images_hash is empty; give a hash of the images, not a name")
    digest = hashlib.sha256(f"{encoder}\n{images_hash}\n".encode())
    for name, tensor in sorted(encoder.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}\n".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def cached_features(
    encoder: nn.Module,
    images: Tensor,
    images_hash: str,
    *,
    folder: Path,
    extract: Callable[[nn.Module, Tensor], Tensor],
) -> Tensor:
    """Frozen features of images, read from disk if they have been computed before.

    Args:
        encoder: the trained encoder.
        images: what ``extract`` takes, shape ``(n, C, H, W)``.
        images_hash: a hash of ``images``.
        folder: where ``<key>.npy`` files lie; made if need be. A file that is damaged, or of
            another length, is computed and written anew; so a folder can be deleted at any time.
        extract: computes features on the CPU, shape ``(n, d)``, floating point; for instance
            :func:`weince_lib.vision.extract_features`.

    Returns:
        Features, shape ``(n, d)``, exactly as ``extract`` gave them.
    """
    path = folder / f"{features_key(encoder, images_hash)}.npy"
    try:
        found = torch.from_numpy(np.load(path, allow_pickle=False))
        if found.ndim == 2 and len(found) == len(images):
            return found
    except (OSError, ValueError, EOFError):
        pass  # not there yet, or cut off
    features = extract(encoder, images)
    folder.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as aside, aside.open("wb") as file:
        np.save(file, features.numpy(), allow_pickle=False)
    return features


def full_precision(features: Tensor) -> Tensor:
    """Features in float32, or float64 if they came so; half precision blurs near neighbours."""
    return features if features.dtype == torch.float64 else features.float()
