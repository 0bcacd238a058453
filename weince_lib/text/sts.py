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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .. import paths
from ..errors import InputError
from . import grammar
from .corpora import hub_columns, utf8_lines

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

Pair = tuple[str, str, float]
#: Where a row stands, for messages, and its cells.
Row = tuple[str, Sequence[Any]]
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
        """SHA-256 (hex) of pairs and scores in their order."""
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
        pairs: Iterable[Pair] = zip(*grammar.graded_pairs(count, seed), strict=True)
    elif name == "stsb":
        pairs = _stsb(folder, split)
    elif name in YEARS:
        _one_of(name, split, {"test": 0})
        pairs = (pair for part in YEARS[name] for pair in _year(folder, name, part))
    elif name == "sickr":
        file = _one_of(name, split, SICK_FILES)
        path = _first_file(folder, [f"SICK/{file}"], "Get SICK in SentEval's layout")
        pairs = _checked(_tabbed(path), 1, 2, 3, skip=1)
    elif name.startswith("hub:"):
        there = "validation" if split == "dev" else split
        columns = hub_columns(name.removeprefix("hub:"), there, "sentence1", "sentence2", "score")
        rows = enumerate(zip(*columns, strict=True), 1)
        pairs = _checked(((f"{name}, {split}, row {n}", row) for n, row in rows), 0, 1, 2)
    else:
        raise ValueError(f"unknown STS data {name!r}; known: {', '.join(NAMES)}, hub:DATASET")
    listed = list(pairs)
    if not listed:
        raise ValueError(f"STS data {name!r}, split {split!r}, has no pairs")
    first, second, scores = zip(*listed, strict=True)
    return StsPairs(name, split, first, second, np.asarray(scores, dtype=np.float64))


def sts_score(encode: Encode, pairs: StsPairs) -> float:
    """Spearman correlation of cosines with the gold scores, times 100, over all pairs at once.

    This is SimCSE's "all" setting: the sub-sets of a year are one list (Gao et al. 2021, B). A
    cosine is 0 where a vector is zero, as in SentEval.

    Args:
        encode: sentences to vectors.
        pairs: what to judge by.

    Raises:
        InputError: for vectors that are not finite or of the wrong shape, or cosines that are all
            equal, which have no order.
    """
    a, b = (_vectors(encode, side) for side in (pairs.first, pairs.second))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    products: NDArray[np.float64] = (a * b).sum(1)
    similarity = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    if np.ptp(similarity) == 0 or np.ptp(pairs.scores) == 0:
        raise InputError(
            f"{pairs.name}, {pairs.split}: all {len(pairs)} cosines or all scores are equal, so "
            "there is no rank correlation"
        )
    return 100.0 * float(stats.spearmanr(similarity, pairs.scores).statistic)


def _vectors(encode: Encode, sentences: Sequence[str]) -> NDArray[np.float64]:
    raw = encode(list(sentences))
    if hasattr(raw, "detach"):  # a tensor, on any device and of any precision
        raw = raw.detach().cpu().double().numpy()
    rows = np.asarray(raw, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != len(sentences):
        raise InputError(
            f"encode gave shape {rows.shape} for {len(sentences)} sentences; it must give one "
            "vector each"
        )
    if not np.isfinite(rows).all():
        bad = int((~np.isfinite(rows).all(1)).argmax())
        raise InputError(f"encode gave a vector that is not finite for {sentences[bad]!r}")
    return rows


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


def _tabbed(path: Path) -> Iterator[Row]:
    """The rows of a file whose columns tabs separate; quotation marks mean nothing."""
    for number, line in enumerate(utf8_lines(path), 1):
        cells = line.removesuffix("\n").removesuffix("\r").split("\t")
        yield f"{path}, row {number}", cells


def _checked(
    rows: Iterable[Row], first: int, second: int, score: int, *, skip: int = 0
) -> Iterator[Pair]:
    """Two sentences and a score of each row, from the columns with these numbers."""
    least = 1 + max(first, second, score)
    for where, row in islice(rows, skip, None):
        if len(row) < least:
            raise ValueError(f"{where}: {len(row)} columns where {least} are needed: {row!r}")
        for text in (row[first], row[second]):
            if not (isinstance(text, str) and text.strip()):
                raise ValueError(
                    f"{where}: a sentence is {text!r}; an empty one has no meaning to compare, "
                    "drop the row"
                )
        try:
            value = float(row[score])
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(
                f"{where}: the score is {row[score]!r}, not a number; give one or drop the row"
            )
        yield row[first], row[second], value


def _stsb(folder: Path, split: str) -> Iterator[Pair]:
    _one_of("stsb", split, {"train": 0, "dev": 0, "test": 0})
    original = f"sts-{split}.csv"
    path = _first_file(
        folder,
        [f"stsb/stsb-en-{split}.csv", f"stsb/{original}", f"STS/STSBenchmark/{original}"],
        "Put the STS Benchmark there, or name its folder's parent with WEINCE_DATA; with a "
        "network, hub:mteb/stsbenchmark-sts reads the same pairs",
    )
    if path.name == original:  # genre, file, year, number, score, two sentences
        return _checked(_tabbed(path), 5, 6, 4)
    # A field in quotation marks may hold line breaks, so that the reader gets the whole text.
    text = io.StringIO("".join(utf8_lines(path)), newline="")
    rows = ((f"{path}, row {number}", row) for number, row in enumerate(csv.reader(text), 1))
    return _checked(rows, 0, 1, 2)


def _year(folder: Path, name: str, part: str) -> Iterator[Pair]:
    place = f"STS/{name.upper()}-en-test"
    hint = f"Get {name.upper()} in SentEval's layout (its download script) or SimCSE's"
    inputs, gold = (
        _first_file(folder, [f"{place}/STS.{kind}.{part}.txt"], hint) for kind in ("input", "gs")
    )
    texts, scores = list(_tabbed(inputs)), list(_tabbed(gold))
    if len(texts) != len(scores):
        raise ValueError(f"{inputs} has {len(texts)} rows, {gold} has {len(scores)} scores")
    rows = (
        (f"{where} (score: {gold.name})", [score, *cells])
        for (where, cells), (_, (score, *_)) in zip(texts, scores, strict=True)
        if score.strip()  # a pair that nobody scored has an empty line
    )
    return _checked(rows, 1, 2, 0)
