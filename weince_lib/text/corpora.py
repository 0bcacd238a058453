"""Sentences to train on, by name: built in, from a file, or from the hub.

``grammar``
    Of a small generative grammar (:mod:`.grammar`); needs nothing.
``wordnet``
    WordNet's glosses, about 117,000; needs Debian's ``wordnet-base``.
``file:PATH``
    A UTF-8 text file, one a line.
``wiki``
    SimCSE's 10⁶ from Wikipedia; needs ``wiki1m_for_simcse.txt`` in the data folder.
``hub:DATASET[:COLUMN]``
    A column of a data set's ``train`` split; needs ``datasets`` and a network.

A corpus streams: going through it twice reads it twice, and a file of any length needs the memory
of one line.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from .. import paths
from ..errors import MissingPackageError, one_line
from . import grammar

#: Where Debian's package has WordNet.
WORDNET = Path("/usr/share/wordnet")
#: Sentences of the grammar without a limit.
GRAMMAR_SIZE = 2048
#: SimCSE's training file (Gao et al. 2021).
WIKI_FILE = "wiki1m_for_simcse.txt"
#: A copy of its sentences that ``datasets`` reads by name, in a column ``text``.
WIKI_ON_HUB = "hub:sentence-transformers/wiki1m-for-simcse"
#: Columns of a hub's data set taken for the text where none is named, in this order.
USUAL_COLUMNS = ("text", "sentence", "sent0")
#: How the names of corpora look, for messages.
NAMES = "grammar, wordnet, wiki, file:PATH, hub:DATASET[:COLUMN]"


@dataclass(frozen=True)
class Corpus:
    """Sentences in a fixed order.

    Attributes:
        name: as given to :func:`load_corpus`.
        opened: gives a new iterator over the sentences.
        size: number of sentences.
        digest: SHA-256 of the sentences, each ended by a newline, in UTF-8.
    """

    name: str
    opened: Callable[[], Iterator[str]] = field(repr=False, compare=False)
    size: int
    digest: str

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[str]:
        return self.opened()

    def content_hash(self) -> str:
        """SHA-256 of the sentences in their order; equal for equal text wherever it came from."""
        return self.digest


def load_corpus(name: str, *, limit: int = 0, root: Path | str | None = None) -> Corpus:
    """Open a corpus, check it and count it; one pass over its sentences.

    Args:
        name: see the head of this module.
        limit: use the first so many sentences; 0 is all of them, and 2,048 of the grammar, which
            has as many as are asked for.
        root: folder of data sets, for ``wiki``; default :func:`weince_lib.paths.data`.

    Raises:
        ValueError: for an unknown name, a negative limit, an empty corpus, a blank line, or bytes
            that are not UTF-8, with the line's number.
        FileNotFoundError: for a file that is not there, with where to get it.
        MissingPackageError: without WordNet's files or the ``datasets`` package.
        ConnectionError: for a hub that cannot be reached, with what to do offline.
    """
    if limit < 0:
        raise ValueError(f"limit = {limit}: use 0 for all sentences, or a number of them")
    kind, _, rest = name.partition(":")
    if name == "grammar":
        count = limit or GRAMMAR_SIZE
        return _counted(name, lambda: grammar.sentences(count))
    if name == "wordnet":
        glosses = tuple(islice(wordnet_glosses(), limit or None))
        return _counted(name, lambda: iter(glosses))
    if name == "wiki":
        path = (paths.data() if root is None else Path(root)) / WIKI_FILE
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is missing; get {WIKI_FILE} from the data set "
                "princeton-nlp/datasets-for-simcse on the Hugging Face hub and put it there, or "
                f"name the folder it lies in with WEINCE_DATA; with a network, {WIKI_ON_HUB} is a "
                "copy"
            )
        return _from_file(name, path, limit)
    if kind == "file" and rest:
        return _from_file(name, Path(rest).expanduser(), limit)
    if kind == "hub" and rest:
        # A column cannot hold a slash, so that a colon in a local folder's name does no harm.
        dataset, _, column = rest.rpartition(":") if ":" in rest else (rest, "", "")
        (texts,) = hub_columns(dataset, "train", *([column] if column else []))
        return _counted(name, lambda: _stripped(name, islice(texts, limit or None)))
    raise ValueError(f"unknown corpus {name!r}; known: {NAMES}")


def wordnet_synsets(folder: Path | str = WORDNET) -> Iterator[str]:
    """What WordNet says of each synset, definition and examples, in the files' order.

    Args:
        folder: holds ``data.noun``, ``data.verb``, ``data.adj`` and ``data.adv``.

    Raises:
        MissingPackageError: if one of the files is not there.
    """
    for part in ("noun", "verb", "adj", "adv"):
        path = Path(folder) / f"data.{part}"
        if not path.is_file():
            raise MissingPackageError(
                f"{path} is missing; it comes with Debian's wordnet-base: apt install wordnet-base"
            )
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                # The licence at the head of each file is indented; a synset's text follows a bar.
                text = line.partition(" | ")[2]
                if not line.startswith(" ") and text:
                    yield text


def wordnet_glosses(folder: Path | str = WORDNET) -> Iterator[str]:
    """Definitions of :func:`wordnet_synsets` without their examples, each once."""
    glosses = (text.partition('; "')[0].strip() for text in wordnet_synsets(folder))
    return iter(dict.fromkeys(gloss for gloss in glosses if gloss))


def hub_columns(name: str, split: str, *columns: str) -> list[Iterable[Any]]:
    """Columns of one split of a data set, which is downloaded if it is not in the cache.

    The rows stay on disk. Without a network the library tries for half a minute before it looks
    into its cache; with ``HF_HUB_OFFLINE=1`` in the environment it looks there at once.

    Args:
        name: on the hub, such as ``mteb/stsbenchmark-sts``, or a local folder.
        split: ``"train"``, ``"test"`` or whatever the data set has.
        columns: their names; by default the usual one for text, or the only one.

    Raises:
        MissingPackageError: without the ``datasets`` package.
        ConnectionError: if the hub cannot be reached or has no such data set, with what to do.
        ValueError: for a split that is not there, with the library's own words; for a column that
            is not; if none is named and there is neither a usual one nor a single one.
    """
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        raise MissingPackageError(
            "datasets is not installed, which reads the hub; pip install datasets"
        ) from error
    try:
        rows = datasets.load_dataset(name, split=split)
    except (OSError, RuntimeError) as error:
        # No network, offline mode, and an unknown or closed data set all look alike from here.
        raise ConnectionError(
            f"data set {name!r} could not be had from the hub "
            f"({type(error).__name__}: {one_line(error)[:200]}). Check its name. "
            "Offline: load it once on a machine with a network and copy its cache ($HF_HOME; "
            "HF_HUB_OFFLINE=1 reads it at once), or write its sentences to a text file, one a "
            "line, and use file:PATH"
        ) from error
    there = list(rows.column_names)
    if not columns:
        usual = [column for column in USUAL_COLUMNS if column in there]
        if not usual and len(there) != 1:
            raise ValueError(
                f"data set {name} has columns {', '.join(there)}; name the one with the "
                f"sentences: hub:{name}:COLUMN"
            )
        columns = ((usual or there)[0],)
    for column in columns:
        if column not in there:
            raise ValueError(f"data set {name} has no column {column!r}; it has {', '.join(there)}")
    return [rows[column] for column in columns]


def corpus_file(path: Path | str) -> Path:
    """The path of a corpus's file; ``FileNotFoundError`` unless it is there."""
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is not a file; a corpus is UTF-8 text, one sentence a line"
        )
    return path


def utf8_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file with their ends, one at a time, without a byte-order mark.

    Only a line feed ends a line; other separators are part of the text.

    Raises:
        ValueError: for a line that is not UTF-8, with its number.
    """
    with path.open("rb") as lines:
        for number, raw in enumerate(lines, 1):
            try:
                yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number}: byte 0x{error.object[error.start]:02x} is not UTF-8; "
                    "convert the file, for example with iconv"
                ) from error


def _from_file(name: str, path: Path, limit: int) -> Corpus:
    path = corpus_file(path).absolute()
    checked = _stamp(path)

    def opened() -> Iterator[str]:
        # Length and hash were taken from the file as it was then.
        if _stamp(path) != checked:
            raise ValueError(f"{path} has changed since it was opened; load the corpus again")
        yield from _stripped(str(path), islice(utf8_lines(path), limit or None))

    return _counted(name, opened)


def _stamp(path: Path) -> tuple[int, ...]:
    if not path.is_file():
        return ()
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _counted(name: str, opened: Callable[[], Iterator[str]]) -> Corpus:
    digest, size = hashlib.sha256(), 0
    for text in opened():
        digest.update(text.encode() + b"\n")
        size += 1
    if not size:
        raise ValueError(f"corpus {name!r} is empty; it needs at least one sentence")
    return Corpus(name, opened, size, digest.hexdigest())


def _stripped(where: str, values: Iterable[object]) -> Iterator[str]:
    for number, value in enumerate(values, 1):
        text = value.strip() if isinstance(value, str) else ""
        if not text:
            raise ValueError(f"{where}, line {number} has no text but {value!r}; remove it")
        yield text
