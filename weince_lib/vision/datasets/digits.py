"""The handwritten digits that come with scikit-learn: 1,797 grey images of 8 x 8 pixels.

They are the test part of "Optical Recognition of Handwritten Digits" (Alpaydin and Kaynak, 1998,
UCI Machine Learning Repository), so that no published split into training and test exists. The
split here is this project's own: in file order, every fourth image of each class is a test image.
It is stratified, needs no random numbers, and comes to 1,352 training and 445 test images.
"""

from __future__ import annotations

import numpy as np
import torch

from .image_set import ImageSet

#: One image in so many, of each class, is a test image.
TEST_EVERY = 4
#: Grey levels of the file run from 0 to this.
TOP_LEVEL = 16


def load(split: str) -> ImageSet:
    """Load the ``"train"`` or ``"test"`` images, grey levels 0..16 scaled to 0..255.

    The scale is 255/16 rounded to the nearest whole number (8, the only tie, gives 128).
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255.0 / TOP_LEVEL)).astype(np.uint8)
    labels = bunch.target.astype(np.int64)
    chosen = np.flatnonzero(_is_test(labels) == (split == "test"))
    return ImageSet(
        name="digits",
        images=torch.from_numpy(images[chosen, None]),
        labels=torch.from_numpy(labels[chosen]),
        classes=tuple(str(name) for name in bunch.target_names),
    )


def _is_test(labels: np.ndarray) -> np.ndarray:
    """Mark positions 3, 7, 11, ... among the images of each class; shape ``(n,)``, boolean."""
    test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        test[np.flatnonzero(labels == label)[TEST_EVERY - 1 :: TEST_EVERY]] = True
    return test
