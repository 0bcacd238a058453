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

from weince_lib.vision.datasets import cifar, imagenet32, loading, stl10, tiny_imagenet

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


def python2_pickle(content):
    """A pickle as CIFAR's are: Python 2, protocol 2, an old numpy."""
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump(content)
    return file.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def python3_pickle(content):
    """A pickle as ImageNet-32's are: Python 3 of 2017, protocol 3, an old numpy."""
    return pickle.dumps(content, protocol=3).replace(
        b"numpy._core.multiarray", b"numpy.core.multiarray"
    )


def md5(content):
    return hashlib.md5(content).hexdigest()


def pixels(rng, n, side):
    return rng.integers(0, 256, (n, 3, side, side), dtype=np.uint8)


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def publish(monkeypatch, spec, **changes):
    """Take a small set for the published one."""
    small = dataclasses.replace(spec, **changes)
    known = dataclasses.replace(loading.DATA_SETS[spec.name], published=lambda: small)
    monkeypatch.setitem(loading.DATA_SETS, spec.name, known)
    return small


def make_cifar(monkeypatch, home, name):
    """Four images in each batch; returns images and labels by split."""
    spec = cifar.spec(name)
    rng, files, truth = np.random.default_rng(spec.classes), {}, {}
    for split, batches in spec.files.items():
        images = pixels(rng, 4 * len(batches), 32)
        labels = rng.integers(0, spec.classes, len(images))
        for k, file in enumerate(batches):
            rows = slice(4 * k, 4 * k + 4)
            content = {
                "batch_label": f"batch {k + 1} of {len(batches)}",
                "data": images[rows].reshape(4, -1),
                "filenames": [f"image_{row}.png" for row in range(4)],
                cifar.KEYS[spec.classes][0]: labels[rows].tolist(),
            }
            if name == "cifar100":
                content["coarse_labels"] = (labels[rows] // 5).tolist()
            files[file] = python2_pickle(content)
        truth[split] = (images, labels)
    names = [f"class {k}" for k in range(spec.classes)]
    files[spec.common[0]] = python2_pickle({cifar.KEYS[spec.classes][1]: names})
    write(home / spec.folder, files)
    publish(
        monkeypatch,
        spec,
        md5={file: md5(content) for file, content in files.items()},
        counts={split: len(labels) for split, (_, labels) in truth.items()},
    )
    return truth


def make_imagenet32(monkeypatch, home):
    """Ten batches of three images and one of five; labels from 1."""
    spec = imagenet32.SPEC
    rng, files, truth = np.random.default_rng(32), {}, {}
    for split, batches in spec.files.items():
        n = 3 if split == "train" else 5
        images = pixels(rng, n * len(batches), 32)
        labels = rng.integers(1, 1001, len(images))
        labels[:2] = 1, 1000
        for k, file in enumerate(batches):
            rows = slice(n * k, n * k + n)
            content = {"data": images[rows].reshape(n, -1), "labels": labels[rows].tolist()}
            if split == "train":
                content["mean"] = images[rows].reshape(n, -1).mean(axis=0)
            files[file] = python3_pickle(content)
        truth[split] = (images, labels - 1)
    write(home / spec.folder, files)
    publish(
        monkeypatch,
        spec,
        md5={file: md5(content) for file, content in files.items()},
        counts={split: len(labels) for split, (_, labels) in truth.items()},
    )
    return truth


def make_stl10(monkeypatch, home, per_class=1, unlabelled=7):
    """Some images of each class, and more without one; columns first, labels from 1."""
    spec = stl10.spec()
    rng, files, truth = np.random.default_rng(96), {}, {}
    for split in ("train", "test", "unlabeled"):
        n = unlabelled if split == "unlabeled" else 10 * per_class
        images = pixels(rng, n, 96)
        labels = np.full(n, -1) if split == "unlabeled" else rng.permutation(np.arange(n) % 10)
        files[spec.files[split][0]] = np.ascontiguousarray(images.transpose(0, 1, 3, 2)).tobytes()
        if split != "unlabeled":
            files[spec.files[split][1]] = (labels + 1).astype(np.uint8).tobytes()
        truth[split] = (images, labels)
    write(home / spec.folder, files)
    publish(
        monkeypatch,
        spec,
        md5={file: md5(content) for file, content in files.items()},
        counts={split: len(labels) for split, (_, labels) in truth.items()},
    )
    return truth


def jpeg(image):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG")
    return file.getvalue()


def make_tiny_imagenet(monkeypatch, home, *, zipped):
    """Three classes of two training images and five validation images.

    Returns what Pillow reads from each file, by its name in the set.
    """
    spec = tiny_imagenet.SPEC
    rng, files = np.random.default_rng(64), {}
    for wnid in WNIDS:
        for k in range(2):
            image = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
            files[f"train/{wnid}/images/{wnid}_{k}.JPEG"] = jpeg(image)
        files[f"train/{wnid}/{wnid}_boxes.txt"] = f"{wnid}_0.JPEG\t0\t10\t63\t58\n".encode()
    lines = []
    for k in range(5):
        image = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
        grey = k == 3  # some of the published images are grey
        files[f"val/images/val_{k}.JPEG"] = jpeg(image[:, :, 0] if grey else image)
        lines.append(f"val_{k}.JPEG\t{WNIDS[k % 3]}\t0\t32\t44\t62\n")
    files["val/val_annotations.txt"] = "".join(lines).encode()
    files["test/images/test_0.JPEG"] = jpeg(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8))
    files["wnids.txt"] = "".join(f"{wnid}\n" for wnid in WNIDS).encode()
    archive = spec.archive
    if zipped:
        home.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(home / archive.file, "w") as file:
            for name, content in files.items():
                file.writestr(f"{spec.folder}/{name}", content)
        found = md5((home / archive.file).read_bytes())
        archive = dataclasses.replace(archive, md5=found)
    else:
        write(home / spec.folder, files)
    publish(monkeypatch, spec, archive=archive, counts={"train": 6, "test": 5}, classes=3)
    return {
        name: np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).transpose(2, 0, 1)
        for name, content in files.items()
        if name.endswith(".JPEG")
    }
