"""Corpora by name: what they hold, that they stream, and what bad input is told."""

import sys
import tracemalloc
from itertools import islice
from types import SimpleNamespace

import pytest

from weince_lib.errors import MissingPackageError
from weince_lib.text import grammar
from weince_lib.text.corpora import WIKI_FILE, WORDNET, load_corpus, wordnet_glosses
from weince_lib.text.tokens import SentenceTokenizer, tokenise, word_tokenizer

NOUNS = (
    "  1 This software and database is being provided to you\n"
    "00001740 03 n 01 entity 0 003 ~ 00001930 n 0000 | that which is perceived  \n"
    "00002684 03 n 02 object 0 000 | a tangible entity; an entity that can cast a shadow; "
    '"it was full of rackets, balls and other objects"  \n'
    "00002685 03 n 02 copy 0 000 | that which is perceived\n"
)


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file_is_read_line_by_line_without_mark_or_line_ends(tmp_path):
    path = write(
        tmp_path / "a.txt", b"\xef\xbb\xbfFirst one. \r\nZweite \xc3\xa4.\nlast\xe2\x80\xa8one"
    )
    corpus = load_corpus(f"file:{path}")
    assert list(corpus) == list(corpus) == ["First one.", "Zweite ä.", "last\u2028one"]
    assert len(corpus) == 3 and corpus.name == f"file:{path}"
    assert list(load_corpus(f"file:{path}", limit=2)) == ["First one.", "Zweite ä."]


def test_content_hash_is_of_the_sentences_and_their_order(tmp_path):
    texts = {"a": "x\ny\n", "b": "x\r\n y", "c": "y\nx\n", "d": "xy\n", "e": "x\ny\nz\n"}
    found = {n: load_corpus(f"file:{write(tmp_path / n, t)}") for n, t in texts.items()}
    hashes = {n: c.content_hash() for n, c in found.items()}
    assert hashes["a"] == hashes["b"]
    assert len(set(hashes.values())) == 4
    assert load_corpus(f"file:{tmp_path / 'e'}", limit=2).content_hash() == hashes["a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is empty"),
        (b"one\n \ntwo\n", "line 2"),
        (b"one\ntwo\ncaf\xe9 au lait\n", r"line 3.*0xe9.*iconv"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path, text, message):
    path = write(tmp_path / "bad.txt", text)
    with pytest.raises(ValueError, match=message) as caught:
        load_corpus(f"file:{path}")
    assert "bad.txt" in str(caught.value)


def test_a_file_that_changes_after_it_was_checked_is_refused(tmp_path):
    path = write(tmp_path / "a.txt", "one\n")
    corpus = load_corpus(f"file:{path}")
    write(path, "one\ntwo\n")
    with pytest.raises(ValueError, match="has changed"):
        list(corpus)


def test_wiki_is_looked_for_in_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WEINCE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"princeton-nlp/datasets-for-simcse.*WEINCE_DATA"):
        load_corpus("wiki")
    write(tmp_path / WIKI_FILE, "One.\nTwo.\n")
    assert list(load_corpus("wiki")) == list(load_corpus("wiki", root=tmp_path)) == ["One.", "Two."]


def test_names_and_limits_that_are_none():
    for name in ("wikipedia", "file:", "hub:", "Grammar"):
        with pytest.raises(ValueError, match=f"'{name}'.*grammar, wordnet"):
            load_corpus(name)
    with pytest.raises(ValueError, match="-1"):
        load_corpus("grammar", limit=-1)
    with pytest.raises(FileNotFoundError, match="/no/such"):
        load_corpus("file:/no/such")


def test_wordnet_glosses_without_licence_examples_and_repeats(tmp_path):
    for part in ("noun", "verb", "adj", "adv"):
        write(tmp_path / f"data.{part}", NOUNS if part == "noun" else f"1 00 | one of {part}\n")
    assert list(wordnet_glosses(tmp_path)) == [
        "that which is perceived",
        "a tangible entity; an entity that can cast a shadow",
        "one of verb",
        "one of adj",
        "one of adv",
    ]
    (tmp_path / "data.adj").unlink()
    with pytest.raises(MissingPackageError, match=r"data\.adj is missing.*wordnet-base"):
        list(wordnet_glosses(tmp_path))


@pytest.mark.skipif(not (WORDNET / "data.noun").exists(), reason="needs Debian's wordnet-base")
def test_the_installed_wordnet():
    corpus = load_corpus("wordnet", limit=500)
    assert len(corpus) == len(set(corpus)) == 500
    assert next(iter(corpus)).startswith("that which is perceived or known or inferred")


class HubSet(dict):
    column_names = property(list)


@pytest.fixture
def hub(monkeypatch):
    """Stands for the ``datasets`` package; give it columns, or an error to raise."""
    state = SimpleNamespace(columns={}, error=None, asked=None)

    def load_dataset(name, *, split):
        state.asked = (name, split)
        if state.error:
            raise state.error
        return HubSet(state.columns)

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return state


def test_a_column_of_a_hub_data_set(hub):
    hub.columns = {"id": [1, 2], "text": ["a b", " c "], "title": ["t", "u"]}
    assert list(load_corpus("hub:owner/name")) == ["a b", "c"]
    assert hub.asked == ("owner/name", "train")
    assert list(load_corpus("hub:owner/name:title", limit=1)) == ["t"]
    with pytest.raises(ValueError, match=r"'body'.*id, text, title"):
        load_corpus("hub:owner/name:body")
    hub.columns = {"one": ["a"], "two": ["b"]}
    with pytest.raises(ValueError, match="hub:owner/name:COLUMN"):
        load_corpus("hub:owner/name")
    hub.columns = {"text": ["a", None]}
    with pytest.raises(ValueError, match=r"line 2.*None"):
        load_corpus("hub:owner/name")


def test_a_hub_out_of_reach_or_a_missing_package_says_what_to_do(hub, monkeypatch):
    for error in (ConnectionError("no route"), FileNotFoundError("no such set")):
        hub.error = error
        with pytest.raises(ConnectionError, match=r"'owner/name'.*HF_HOME.*file:PATH"):
            load_corpus("hub:owner/name")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingPackageError, match="datasets"):
        load_corpus("hub:owner/name")


def test_grammar_is_the_same_everywhere_and_as_long_as_asked():
    corpus = load_corpus("grammar", limit=3)
    assert list(corpus) == list(islice(load_corpus("grammar"), 3)) == list(grammar.sentences(3))
    # Python's random.random() keeps its values, so this hash is a constant of the project.
    assert load_corpus("grammar").content_hash().startswith("7574c14adac7")
    assert len(load_corpus("grammar")) == 2048 and len(load_corpus("grammar", limit=9000)) == 9000


def test_grammar_scores_by_hand():
    a = (0, 4, 9, 17)
    cases = {
        (0, 4, 9, 17): 5.0,
        (1, 4, 9, 17): 5 * (0.7 + 0.3 * 0.4),  # another concept of the agent's topic
        (3, 4, 9, 17): 5 * 0.7,  # an agent of another topic
        (3, 9, 0, 14): 0.0,
        (3, 9, 0, 15): 5 * 0.15 * 0.4,
    }
    for other, expected in cases.items():
        assert grammar.agreement(a, other) == pytest.approx(expected, abs=1e-12)
        assert grammar.agreement(other, a) == grammar.agreement(a, other)


def peak(work):
    """Largest memory Python holds at once during some work."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_long_file_is_tokenised_in_the_memory_of_a_chunk(tmp_path):
    line = "monven tarlum risdas " * 9
    path = write(tmp_path / "long.txt", "".join(f"{n} {line}\n" for n in range(50_000)))
    words = SentenceTokenizer(word_tokenizer([line]), max_length=8)
    name, size = f"file:{path}", path.stat().st_size
    assert size > 9e6
    whole = peak(lambda: tokenise(load_corpus(name), words, folder=tmp_path / "whole"))
    assert whole < size / 2
    assert peak(lambda: list(load_corpus(name))) > size  # what the bound has to notice
