"""The paper's data sets in little, in the formats they are published in."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import pickle
import struct
import zipfile
from typing import ClassVar

import numpy as np
from PIL import Image

from weince_lib.vision.datasets import DATA_SETS, pickled

WNIDS = ("n02124075", "n04067472", "n01443537")  # not sorted, as in the published list


class Python2Pickler(pickle._Pickler):
    """Writes strings as Python 2 did: bytes without an encoding (opcodes U and T)."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_string(self, text):
        content = text.encode("latin1") if isinstance(text, str) else text
        if len(content) < 256:
            self.write(pickle.SHORT_BINSTRING + struct.pack("<B", len(content)) + content)
        else:
            self.write(pickle.BINSTRING + struct.pack("<i", len(content)) + content)
        self.memoize(text)

    dispatch[str] = save_string
    dispatch[bytes] = save_string


def old_pickle(content, name):
    """A pickle of an old numpy: of Python 2, protocol 2, for CIFAR; of Python 3 for ImageNet-32."""
    file = io.BytesIO()
    if name == "imagenet32":
        pickle.dump(content, file, protocol=3)
    else:
        Python2Pickler(file, protocol=2).dump(content)
    return file.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def md5(content):
    return hashlib.md5(content).hexdigest()


def publish(monkeypatch, name, *, classes=0, counts=None, **changes):
    """Take a small set for the published one; ``changes`` are of what is published."""
    known = DATA_SETS[name]
    counts = counts or {}
    shape = dataclasses.replace(
        known.shape,
        labelled=counts.get("train", known.shape.labelled),
        test=counts.get("test", known.shape.test),
        classes=classes or known.shape.classes,
    )
    published = dataclasses.replace(known.published, **changes)
    small = dataclasses.replace(known, shape=shape, published=published)
    monkeypatch.setitem(DATA_SETS, name, small)


def write(monkeypatch, home, name, content, truth):
    """Write the files of a set and take them for the published ones; returns the truth."""
    published = DATA_SETS[name].published
    (home / published.folder).mkdir(parents=True)
    for file, data in content.items():
        (home / published.folder / file).write_bytes(data)
    publish(
        monkeypatch,
        name,
        files={
            split: {file: md5(content[file]) for file in files}
            for split, files in published.files.items()
        },
        counts={split: len(labels) for split, (_, labels) in truth.items()},
    )
    return truth


def make(monkeypatch, home, name, per_class=1):
    """A set of a few images below ``home``; returns images and labels by split."""
    if name == "stl10":
        return make_stl10(monkeypatch, home, per_class)
    known = DATA_SETS[name]
    label_key, names_key, first_label = pickled.KEYS[known.shape.classes]
    rng, content, truth = np.random.default_rng(known.shape.classes), {}, {}
    for split, files in known.published.files.items():
        batches = [file for file in files if "meta" not in file]
        images = rng.integers(0, 256, (4 * len(batches), 3, 32, 32), dtype=np.uint8)
        labels = rng.integers(0, known.shape.classes, len(images))
        labels[:2] = 0, known.shape.classes - 1
        for k, file in enumerate(batches):
            rows = slice(4 * k, 4 * k + 4)
            batch = {
                "batch_label": f"batch {k + 1} of {len(batches)}",
                "data": images[rows].reshape(4, -1),
                label_key: (labels[rows] + first_label).tolist(),
                "coarse_labels": [0] * 4,
            }
            content[file] = old_pickle(batch, name)
        truth[split] = (images, labels)
    for file in {file for files in known.published.files.values() for file in files} - set(content):
        names = [f"class {k}" for k in range(known.shape.classes)]
        content[file] = old_pickle({names_key: names}, name)
    return write(monkeypatch, home, name, content, truth)


def make_stl10(monkeypatch, home, per_class):
    """Some images of each class, and seven without one; columns first, labels from 1."""
    rng, content, truth = np.random.default_rng(96), {}, {}
    for split, files in DATA_SETS["stl10"].published.files.items():
        n = 7 if split == "unlabeled" else 10 * per_class
        images = rng.integers(0, 256, (n, 3, 96, 96), dtype=np.uint8)
        labels = np.full(n, -1) if split == "unlabeled" else rng.permutation(np.arange(n) % 10)
        columns_first = np.ascontiguousarray(images.transpose(0, 1, 3, 2))
        parts = columns_first.tobytes(), (labels + 1).astype(np.uint8).tobytes()
        content |= zip(files, parts, strict=False)
        truth[split] = (images, labels)
    return write(monkeypatch, home, "stl10", content, truth)


def make_tiny_imagenet(monkeypatch, home):
    """A zip of three classes of two training images and five validation images.

    Returns what Pillow reads from each file, by its name in the set.
    """
    rng, content = np.random.default_rng(64), {}

    def jpeg(*, grey=False):
        image, file = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8), io.BytesIO()
        Image.fromarray(image[:, :, 0] if grey else image).save(file, "JPEG")
        return file.getvalue()

    for wnid in WNIDS:
        for k in range(2):
            content[f"train/{wnid}/images/{wnid}_{k}.JPEG"] = jpeg()
        content[f"train/{wnid}/{wnid}_boxes.txt"] = f"{wnid}_0.JPEG\t0\t10\t63\t58\n".encode()
    for k in range(5):
        content[f"val/images/val_{k}.JPEG"] = jpeg(grey=k == 3)  # some published images are grey
    lines = [f"val_{k}.JPEG\t{WNIDS[k % 3]}\t0\t32\t44\t62\n" for k in range(5)]
    content["val/val_annotations.txt"] = "".join(lines).encode()
    content["test/images/test_0.JPEG"] = jpeg()
    content["wnids.txt"] = "".join(f"{wnid}\n" for wnid in WNIDS).encode()
    published = DATA_SETS["tiny-imagenet"].published
    home.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(home / published.archive, "w") as file:
        for name, data in content.items():
            file.writestr(f"{published.folder}/{name}", data)
    known_md5 = md5((home / published.archive).read_bytes())
    counts = {"train": 6, "test": 5}
    publish(monkeypatch, "tiny-imagenet", counts=counts, classes=3, archive_md5=known_md5)
    return {
        name: np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).transpose(2, 0, 1)
        for name, data in content.items()
        if name.endswith(".JPEG")
    }
