"""Keys of sentence runs: what makes two runs one, and that committed records keep theirs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weince_lib.records import store
from weince_lib.runs.text_config import text_config
from weince_lib.studies.text_evidence import ready_made
from weince_lib.text.weights import ModelFolderError

LINES = b"a dog runs\na cat sleeps\n"
PARTS = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"1"}


def key(**settings):
    canonical = text_config("paper", **settings).canonical()
    return store.content_key("text", canonical)


def corpus(path, content=LINES):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return f"file:{path}"


def model(path, **changed):
    path.mkdir(parents=True)
    for name, content in PARTS.items():
        (path / name).write_bytes(changed.get(name.partition(".")[0], content))
    return str(path)


def test_committed_records_keep_their_keys():
    """Keys of the committed table of cpu-static; a change of these would orphan its records."""
    run = text_config("cpu", loss="infonce", seed=1).canonical()
    assert store.content_key("text", run) == "e5314ccabbd63600"
    assert store.content_key("text-evidence", ready_made().canonical()) == "49e86fd660d4c834"
    assert (run["corpus"], run["model"]) == ("wordnet", "all-MiniLM-L6-v2")
    table = Path(__file__).parents[2] / "paper" / "results" / "studies" / "cpu-static.csv"
    assert ",e5314ccabbd63600," in table.read_text(encoding="utf-8")


def test_a_corpus_is_its_name_and_its_bytes(tmp_path):
    here = corpus(tmp_path / "a" / "lines.txt")
    there = corpus(tmp_path / "b" / "lines.txt")
    other = corpus(tmp_path / "c" / "lines.txt", LINES + b"birds sing\n")
    renamed = corpus(tmp_path / "a" / "text.txt")
    assert key(corpus=here) == key(corpus=there)
    assert len({key(corpus=c) for c in (here, other, renamed)}) == 3
    assert str(tmp_path) not in str(text_config("paper", corpus=here).canonical())


def test_a_corpus_that_changes_is_hashed_again(tmp_path):
    path = tmp_path / "lines.txt"
    config = text_config("paper", corpus=corpus(path))
    before = config.canonical()
    assert config.canonical() == before
    path.write_bytes(LINES.replace(b"dog", b"fox"))  # of the same length
    os.utime(path, ns=(1, 1))
    assert config.canonical() != before
    path.write_bytes(LINES)
    assert config.canonical() == before


def test_a_corpus_that_is_not_there_is_named(tmp_path):
    config = text_config("paper", corpus=f"file:{tmp_path / 'none.txt'}")
    with pytest.raises(FileNotFoundError, match=r"none\.txt is not a file; a corpus is UTF-8"):
        config.canonical()


def test_a_folder_is_its_name_and_all_that_the_model_depends_on(tmp_path):
    """The same model in two places is one run; other weights, words or layers are another."""
    keys = {
        place: key(model=model(tmp_path / place / "bert", **changed))
        for place, changed in {
            "a": {},
            "b": {},
            "weights": {"model": b"2"},
            "words": {"tokenizer": b"{ }"},
            "layers": {"config": b"{ }"},
        }.items()
    }
    assert keys["a"] == keys["b"]
    assert len(set(keys.values())) == 4
    config = text_config("paper", model=str(tmp_path / "a" / "bert"))
    assert str(tmp_path) not in str(config.canonical())
    (tmp_path / "a" / "bert" / "tokenizer.json").unlink()
    with pytest.raises(ModelFolderError, match="has no tokenizer"):
        config.canonical()
