"""A long corpus is checked and tokenised in the memory of a few thousand sentences."""

import random
import tracemalloc

import pytest

from weince_lib.text.corpora import load_corpus
from weince_lib.text.tokens import CHUNK, SentenceTokenizer, tokenise, word_tokenizer

LINES = 50_000
WORDS = [f"{a}{b}" * 5 for a in ("mon", "tar", "ris") for b in ("ven", "lum", "das")]  # few, long


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """50,000 different lines of about 200 characters; 10 MB."""
    draw = random.Random(0)
    found = tmp_path_factory.mktemp("long") / "lines.txt"
    with found.open("w") as out:
        out.writelines(f"{n} {' '.join(draw.choices(WORDS, k=6))}\n" for n in range(LINES))
    return found


def peak(work):
    """Largest memory Python holds at once during some work."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def tokenised(corpus, folder):
    words = SentenceTokenizer(word_tokenizer(WORDS), max_length=8)
    return tokenise(corpus, words, folder=folder)


def test_tokenising_needs_the_memory_of_a_chunk(path, tmp_path):
    size = path.stat().st_size
    assert size > 9e6 and LINES > 10 * CHUNK
    whole = peak(lambda: tokenised(load_corpus(f"file:{path}"), tmp_path / "streamed"))
    few = peak(lambda: tokenised(load_corpus(f"file:{path}", limit=2 * CHUNK), tmp_path / "few"))
    # A chunk of lines, the one being replaced, and their ids; not a sixth of the file.
    assert whole < 1.2 * few
    assert whole < size / 2

    # What both bounds have to notice: all lines at once.
    assert peak(lambda: list(load_corpus(f"file:{path}"))) > max(size, 1.2 * few)
