"""The one type every data set is turned into: bytes, labels, class names."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

#: The label of every image of a set without classes.
UNLABELLED = -1


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Labelled images of one size, in memory; or unlabelled ones, for contrastive training alone.

    Pixels stay ``uint8`` so that a set takes a quarter of the space of its float form, and so that
    its content hash does not depend on how a library scales to floats.

    Attributes:
        name: what the set was asked for by, as records show it, such as ``"fashion-mnist"``.
        images: ``uint8``, shape ``(n, C, H, W)``, with C = 1 (grey) or 3 (RGB).
        labels: ``int64``, shape ``(n,)``, indices into ``classes``; all -1 without classes.
        classes: names of the classes; empty for an unlabelled set.

    Raises:
        ValueError: for another dtype or shape, or a label that names no class.
    """

    name: str
    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
            raise ValueError(
                f"{self.name}: images must be uint8 of shape (n, 1 or 3, H, W), "
                f"got {images.dtype} of shape {tuple(images.shape)}"
            )
        if labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
            raise ValueError(
                f"{self.name}: labels must be int64 of shape ({images.shape[0]},), one per image, "
                f"got {labels.dtype} of shape {tuple(labels.shape)}"
            )
        if not self.classes:
            if bool((labels != UNLABELLED).any()):
                raise ValueError(
                    f"{self.name}: without classes every label must be {UNLABELLED}, "
                    f"got {int(labels[labels != UNLABELLED][0])}"
                )
        elif len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < len(self.classes):
            raise ValueError(
                f"{self.name}: labels run from {int(labels.min())} to {int(labels.max())}, "
                f"but there are {len(self.classes)} classes"
            )

    def __len__(self) -> int:
        return self.images.shape[0]

    def __repr__(self) -> str:
        shape = "x".join(str(size) for size in self.images.shape[1:])
        return (
            f"ImageSet({self.name!r}, {len(self)} images of {shape}, {len(self.classes)} classes)"
        )

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256()
        for tensor in (self.images, self.labels):
            array = tensor.contiguous().cpu().numpy()
            # Little-endian by name, so that the hash is the same on every machine.
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            digest.update(f"{array.dtype.name} {array.shape}\n".encode())
            digest.update(array.data)
        return digest.hexdigest()

    def content_hash(self) -> str:
        """SHA-256 (hex) of images and labels, their shapes and dtypes; computed once.

        Order counts, class names and :attr:`name` do not. The tensors are taken as constant:
        writing into them does not change a hash already computed.
        """
        return self._digest

    def subset(self, indices: Tensor | Sequence[int]) -> ImageSet:
        """The images at ``indices`` (``int64``, shape ``(m,)``), in that order, as a copy.

        Raises:
            ValueError: if ``indices`` is not a list of whole numbers, such as a boolean mask.
            IndexError: for an index outside the set.
        """
        chosen = torch.as_tensor(indices)
        if chosen.numel() == 0:
            chosen = chosen.long().reshape(0)
        if chosen.dtype in (torch.bool, torch.uint8) or chosen.is_floating_point():
            raise ValueError(f"indices must be whole numbers, got {chosen.dtype}; see nonzero()")
        return replace(self, images=self.images[chosen.long()], labels=self.labels[chosen.long()])

    def limit(self, n: int) -> ImageSet:
        """The first ``n`` images, or all of them for ``n = 0`` and for ``n`` beyond the end.

        Raises:
            ValueError: for a negative ``n``.
        """
        check_limit(n)
        return self if n == 0 or n >= len(self) else self.subset(torch.arange(n))


def check_limit(n: int) -> None:
    """Raise ``ValueError`` unless ``n`` is a number of images; 0 stands for all."""
    if n < 0:
        raise ValueError(f"limit must be 0 (all images) or a positive number of images, got {n}")
