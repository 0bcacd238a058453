"""Semantic textual similarity: sentence pairs with human scores, and how an encoder does on them.

Sets by name, their splits, and their files below the data folder as distributed:

``stsb`` (train, dev, test)
    ``stsb/stsb-en-SPLIT.csv``, or ``sts-SPLIT.csv`` with tabs.
``sts12`` to ``sts16`` (test)
    ``STS/STS12-en-test/STS.input.*.txt`` and ``STS.gs.*.txt``.
``sickr`` (train, dev, test)
    ``SICK/SICK_test_annotated.txt``; ``SICK_trial.txt`` for dev.
``grammar`` (dev, test)
    No file: pairs of the built-in grammar, whose scores are known exactly.
``hub:DATASET`` (its own, with ``validation`` for dev)
    Columns sentence1, sentence2 and score.

``STS`` and ``SICK`` are laid out as SentEval (Conneau and Kiela 2018) and SimCSE's evaluation have
them; the archive's own top folders ``SentEval/data/downstream`` may be there or not.

The ``paper`` profile judges on STS-B alone, which the paper reports. All seven sets in one run, if
the files of each are there::

    python -m weince_lib.experiments.text sts=stsb,sts12,sts13,sts14,sts15,sts16,sickr
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .. import paths
from ..errors import InputError
from . import grammar
from .hub import hub_rows

#: Sub-sets of each year that SentEval, and so SimCSE, uses; 2013 is without the licensed SMT.
YEARS = {
    "sts12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "sts13": ("FNWN", "headlines", "OnWN"),
    "sts14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "sts15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "sts16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
NAMES = ("stsb", *YEARS, "sickr", "grammar")
#: Pairs and seed of each split of the grammar.
GRAMMAR_SPLITS = {"dev": (300, 101), "test": (600, 202)}
SICK_FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
#: Where archives put their files below the data folder.
_ABOVE = ("", "SentEval/data/downstream", "senteval/downstream")

#: Sentences to vectors, shape ``(n, d)``: an array, or a tensor on any device.
Encode = Callable[[Sequence[str]], Any]


@dataclass(frozen=True)
class StsPairs:
    """Sentence pairs with gold scores.

    Attributes:
        name: of the data set.
        split: of it.
        first: first sentences.
        second: second sentences.
        scores: gold similarity, float64, shape ``(pairs,)``; only its order counts.
    """

    name: str
    split: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.first)

    def content_hash(self) -> str:
        """SHA-256 of pairs and scores in their order."""
        digest = hashlib.sha256()
        for row in zip(self.first, self.second, self.scores.tolist(), strict=True):
            digest.update("\t".join(map(str, row)).encode() + b"\n")
        return digest.hexdigest()


def load_sts(name: str, split: str, root: Path | str | None = None) -> StsPairs:
    """Read one split of a data set.

    Args:
        name: see the head of this module.
        split: ``"dev"``, ``"test"`` or, where there is one, ``"train"``.
        root: folder of data sets; default :func:`weince_lib.paths.data`.

    Raises:
        ValueError: for an unknown name or split, and for a row that is not UTF-8, has no score,
            an empty sentence or too few columns, which is named.
        FileNotFoundError: with the places that were looked at.
        ConnectionError: for a hub that cannot be reached.
    """
    folder = paths.data() if root is None else Path(root)
    if name == "grammar":
        count, seed = _one_of(name, split, GRAMMAR_SPLITS)
        first, second, scores = grammar.graded_pairs(count, seed)
        return _pairs(name, split, zip(first, second, scores, strict=True))
    if name == "stsb":
        return _pairs(name, split, _stsb_rows(folder, split))
    if name in YEARS:
        _one_of(name, split, {"test": 0})
        rows = (row for part in YEARS[name] for row in _year_rows(folder, name, part))
        return _pairs(name, split, rows)
    if name == "sickr":
        return _pairs(name, split, _sick_rows(folder, _one_of(name, split, SICK_FILES)))
    if name.startswith("hub:"):
        return _pairs(name, split, _hub_rows(name, split))
    raise ValueError(f"unknown STS data {name!r}; known: {', '.join(NAMES)}, hub:DATASET")


def sts_score(encode: Encode, pairs: StsPairs) -> float:
    """Spearman correlation of cosines with the gold scores, times 100, over all pairs at once.

    This is SimCSE's "all" setting: the sub-sets of a year are one list (Gao et al. 2021, B).

    Args:
        encode: sentences to vectors.
        pairs: what to judge by.

    Raises:
        InputError: for vectors that are not finite or of the wrong shape, or cosines that are all
            equal, which have no order.
    """
    similarity = cosines(*vectors(encode, pairs))
    if np.ptp(similarity) == 0 or np.ptp(pairs.scores) == 0:
        raise InputError(
            f"{pairs.name}, {pairs.split}: all {len(pairs)} cosines or all scores are equal, so "
            "there is no rank correlation"
        )
    return 100.0 * float(stats.spearmanr(similarity, pairs.scores).statistic)


def cosines(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosine of each row of ``a`` with the same row of ``b``, shape ``(pairs,)``.

    It is 0 where a vector is zero, as in SentEval.

    Args:
        a: shape ``(pairs, d)``.
        b: the same shape.
    """
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    products: NDArray[np.float64] = (a * b).sum(1)
    return np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)


def vectors(encode: Encode, pairs: StsPairs) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both sides encoded, each float64 of shape ``(pairs, d)``.

    Raises:
        InputError: for vectors that are not finite or of the wrong shape.
    """
    found = []
    for side in (pairs.first, pairs.second):
        raw = encode(list(side))
        if hasattr(raw, "detach"):  # a tensor, on any device and of any precision
            raw = raw.detach().cpu().double().numpy()
        rows = np.asarray(raw, dtype=np.float64)
        if rows.ndim != 2 or len(rows) != len(side):
            raise InputError(
                f"encode gave shape {rows.shape} for {len(side)} sentences; it must give one "
                "vector each"
            )
        if not np.isfinite(rows).all():
            bad = int((~np.isfinite(rows).all(1)).argmax())
            raise InputError(f"encode gave a vector that is not finite for {side[bad]!r}")
        found.append(rows)
    return found[0], found[1]


def _pairs(name: str, split: str, rows: Iterable[tuple[str, str, float]]) -> StsPairs:
    listed = list(rows)
    if not listed:
        raise ValueError(f"STS data {name!r}, split {split!r}, has no pairs")
    first, second, scores = zip(*listed, strict=True)
    return StsPairs(name, split, first, second, np.asarray(scores, dtype=np.float64))


def _one_of(name: str, split: str, known: dict[str, Any]) -> Any:
    if split not in known:
        raise ValueError(f"{name} has no split {split!r}; it has {', '.join(known)}")
    return known[split]


def _first_file(folder: Path, names: Sequence[str], hint: str) -> Path:
    places = [folder / above / name for name in names for above in _ABOVE]
    for path in places:
        if path.is_file():
            return path
    looked = ", ".join(str(folder / name) for name in names)
    raise FileNotFoundError(f"none of these is a file: {looked}. {hint}")


def _score(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where}: the score is {text!r}, not a number; give one or drop the row")
    return value


def _pair(first: Any, second: Any, where: str, score: float) -> tuple[str, str, float]:
    for text in (first, second):
        if not (isinstance(text, str) and text.strip()):
            raise ValueError(
                f"{where}: a sentence is {text!r}; an empty one has no meaning to compare, drop "
                "the row"
            )
    return first, second, score


def _text(path: Path) -> str:
    """A file's text without byte-order mark; what is not UTF-8 is named by its line."""
    raw = path.read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Positions count after a byte-order mark, which the decoder takes off.
        start = error.start + len(raw) - len(error.object)
        line = raw.count(b"\n", 0, start) + 1
        raise ValueError(
            f"{path}, row {line}: byte 0x{raw[start]:02x} is not UTF-8; convert the file, for "
            "example with iconv"
        ) from error


def _lines(path: Path) -> list[str]:
    """A file's lines without their ends, LF or CR LF; other separators are part of the text."""
    lines = _text(path).split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _columns(row: Sequence[str], least: int, where: str) -> Sequence[str]:
    if len(row) < least:
        raise ValueError(f"{where}: {len(row)} columns where {least} are needed: {row!r}")
    return row


def _stsb_rows(folder: Path, split: str) -> Iterable[tuple[str, str, float]]:
    _one_of("stsb", split, {"train": 0, "dev": 0, "test": 0})
    original = f"sts-{split}.csv"
    path = _first_file(
        folder,
        [f"stsb/stsb-en-{split}.csv", f"stsb/{original}", f"STS/STSBenchmark/{original}"],
        "Put the STS Benchmark there, or name its folder's parent with WEINCE_DATA; with a "
        "network, hub:mteb/stsbenchmark-sts reads the same pairs",
    )
    if path.name == original:
        # genre, file, year, number, score, two sentences; quotation marks mean nothing.
        for number, line in enumerate(_lines(path), 1):
            where = f"{path}, row {number}"
            row = _columns(line.split("\t"), 7, where)
            yield _pair(row[5], row[6], where, _score(row[4], where))
        return
    # A field in quotation marks may hold line breaks, so that the reader gets the whole text.
    for number, row in enumerate(csv.reader(io.StringIO(_text(path), newline="")), 1):
        where = f"{path}, row {number}"
        row = _columns(row, 3, where)
        yield _pair(row[0], row[1], where, _score(row[2], where))


def _year_rows(folder: Path, name: str, part: str) -> Iterable[tuple[str, str, float]]:
    place = f"STS/{name.upper()}-en-test"
    hint = f"Get {name.upper()} in SentEval's layout (its download script) or SimCSE's"
    inputs, gold = (
        _first_file(folder, [f"{place}/STS.{kind}.{part}.txt"], hint) for kind in ("input", "gs")
    )
    texts, scores = _lines(inputs), _lines(gold)
    if len(texts) != len(scores):
        raise ValueError(f"{inputs} has {len(texts)} rows, {gold} has {len(scores)} scores")
    for number, (text, score) in enumerate(zip(texts, scores, strict=True), 1):
        if score.strip():  # a pair that nobody scored has an empty line
            where = f"{inputs}, row {number}"
            row = _columns(text.split("\t"), 2, where)
            yield _pair(row[0], row[1], where, _score(score, f"{gold}, row {number}"))


def _sick_rows(folder: Path, file: str) -> Iterable[tuple[str, str, float]]:
    hint = "Get SICK in SentEval's layout (its download script)"
    path = _first_file(folder, [f"SICK/{file}"], hint)
    for number, line in enumerate(_lines(path)[1:], 2):
        where = f"{path}, row {number}"
        row = _columns(line.split("\t"), 4, where)
        yield _pair(row[1], row[2], where, _score(row[3], where))


def _hub_rows(name: str, split: str) -> Iterable[tuple[str, str, float]]:
    rows = hub_rows(name.removeprefix("hub:"), "validation" if split == "dev" else split)
    columns = (rows[column] for column in ("sentence1", "sentence2", "score"))
    for number, (first, second, score) in enumerate(zip(*columns, strict=True), 1):
        where = f"{name}, {split}, row {number}"
        yield _pair(first, second, where, _score(str(score), where))
