"""Handwritten digits that come with scikit-learn, single and in pairs: data always at hand.

Single: 1,797 grey images of 8 x 8 pixels. They are the test part of "Optical Recognition of
Handwritten Digits" (Alpaydin and Kaynak, 1998, UCI Machine Learning Repository), so that no
published split into training and test exists. The split here is this project's own: in file order,
every fourth image of each class is a test image. It is stratified, needs no random numbers, and
comes to 1,352 training and 445 test images.

Pairs: two digits side by side, a hundred classes, 00 to 99. The ten classes of the digits or of
Fashion-MNIST leave an anchor few kinds of negatives, while the paper's gain is largest with a
hundred classes. Here a negative may share the anchor's first digit, its second, both (the same
class) or neither. The set is this project's own: images of 8 x 16 pixels, 100 training and 40 test
images a class. Training images are made of training digits only and test images of test digits
only, so that no handwritten digit is in both.

A class (a, b) has one possible image for each digit a and each digit b, about 18,000 in training.
Its images are spread over them by a constant stride near the golden section, without random
numbers; each digit is used about 15 times in training, each pair of digits at most once.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from .data_set import Arrays, DataSet

#: One image in so many, of each class, is a test image.
TEST_EVERY = 4
#: Grey levels of the file run from 0 to this.
TOP_LEVEL = 16
#: Images of each class of pairs.
PER_CLASS = {"train": 100, "test": 40}
#: Cells by which the first image of a class is shifted against that of the class before, so that
#: classes with a digit in common do not all use the same images of it.
START = 1009
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def read(known: DataSet, split: str, home: Path, limit: int) -> Arrays:
    """Read the ``"train"`` or ``"test"`` digits, grey levels 0..16 scaled to 0..255.

    The scale is 255/16 rounded to the nearest whole number (8, the only tie, gives 128).
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255.0 / TOP_LEVEL)).astype(np.uint8)
    labels = bunch.target.astype(np.int64)
    test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        test[np.flatnonzero(labels == label)[TEST_EVERY - 1 :: TEST_EVERY]] = True
    chosen = np.flatnonzero(test == (split == "test"))
    return images[chosen, None], labels[chosen], tuple(str(name) for name in bunch.target_names)


def read_pairs(known: DataSet, split: str, home: Path, limit: int) -> Arrays:
    """Read the ``"train"`` or ``"test"`` pairs, one image of each class at a time."""
    images, labels, _ = read(known, split, home, limit)
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
    names = tuple(f"{number:02d}" for number in range(100))
    return pairs, np.tile(np.arange(100), PER_CLASS[split]), names


def _cells(rows: int, columns: int, start: int, count: int) -> tuple[np.ndarray, ...]:
    """Cells of a grid, spread over it and all different, ``count`` of them."""
    total = rows * columns
    stride = round(total * _GOLDEN)
    while math.gcd(stride, total) != 1:
        stride += 1
    cells = (start + np.arange(count) * stride) % total
    return cells // columns, cells % columns
