"""Two handwritten digits side by side: a hundred classes, 00 to 99, from data always at hand.

The ten classes of the digits or of Fashion-MNIST leave an anchor few kinds of negatives, while the
paper's gain is largest with a hundred classes. Here a negative may share the anchor's first digit,
its second, both (the same class) or neither. The set is this project's own: images of 8 x 16
pixels, 100 training and 40 test images a class. Training images are made of training digits only
and test images of test digits only (:mod:`~weince_lib.vision.datasets.digits`), so that no
handwritten digit is in both.

A class (a, b) has one possible image for each digit a and each digit b, about 18,000 in training.
Its images are spread over them by a constant stride near the golden section, without random
numbers; each digit is used about 15 times in training, each pair of digits at most once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from . import digits
from .image_set import ImageSet

#: Images of each class.
PER_CLASS = {"train": 100, "test": 40}
#: Cells by which the first image of a class is shifted against that of the class before, so that
#: classes with a digit in common do not all use the same images of it.
START = 1009
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def load(split: str) -> ImageSet:
    """Load the ``"train"`` or ``"test"`` pairs, one image of each class at a time."""
    single = digits.load(split)
    images, labels = single.images.numpy(), single.labels.numpy()
    of_digit = [np.flatnonzero(labels == digit) for digit in range(10)]
    left, right = [], []
    for tens in range(10):
        for units in range(10):
            start = START * (10 * tens + units)
            sizes = len(of_digit[tens]), len(of_digit[units])
            first, second = _cells(*sizes, start, PER_CLASS[split])
            left.append(of_digit[tens][first])
            right.append(of_digit[units][second])
    # Shape (classes, images); read column by column, a limited set is balanced.
    order = np.stack(left).T.ravel(), np.stack(right).T.ravel()
    pairs = np.concatenate([images[order[0]], images[order[1]]], axis=-1)
    return ImageSet(
        name="digit-pairs",
        images=torch.from_numpy(pairs),
        labels=torch.arange(100).repeat(PER_CLASS[split]),
        classes=tuple(f"{number:02d}" for number in range(100)),
    )


def _cells(rows: int, columns: int, start: int, count: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Cells of a grid, spread over it and all different, ``count`` of them."""
    total = rows * columns
    stride = round(total * _GOLDEN)
    while math.gcd(stride, total) != 1:
        stride += 1
    cells = (start + np.arange(count) * stride) % total
    return cells // columns, cells % columns
