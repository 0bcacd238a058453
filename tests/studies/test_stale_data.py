"""A record is of its data: when its name comes to stand for others, it is not taken for theirs."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from PIL import Image

from weince_lib.experiments import (
    run_tail,
    run_vision,
    score_bank,
    tail_config,
    trained_model,
    training_images,
    vision_config,
)
from weince_lib.records.store import StaleRecordError
from weince_lib.studies import floors
from weince_lib.vision.datasets import content_of


def write_images(folder, seed):
    """96 and 24 images of 8 x 8 in two classes."""
    random = np.random.default_rng(seed)
    for split, count in (("train", 48), ("test", 12)):
        for label in ("cat", "dog"):
            (folder / split / label).mkdir(parents=True)
            for k in range(count):
                pixels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / split / label / f"{k:03d}.png")
    return folder


@pytest.fixture
def link(tmp_path):
    """A link to a folder of images, with another one to point it to."""
    for name, seed in (("first", 0), ("second", 1)):
        write_images(tmp_path / name, seed)
    link = tmp_path / "images"
    link.symlink_to(tmp_path / "first")
    return link


def point(link, name):
    link.unlink()
    link.symlink_to(link.with_name(name))


def config_of(link):
    return vision_config(
        "quick",
        dataset=f"imagefolder:{link}",
        width=4,
        epochs=1,
        batch_size=16,
        probe_epochs=2,
        probe_seeds=(1,),
        split_seeds=(1,),
        loss="infonce",
    )


def test_a_link_pointed_elsewhere_is_refused_and_back_again_is_found(link):
    config = config_of(link)
    record = run_vision(config, profile="quick", device="cpu")
    tail = tail_config(config)
    bank = score_bank(tail)
    measured = run_tail(tail, bank, profile="quick")
    assert run_vision(config, profile="quick", device="cpu") == record
    assert run_tail(tail, bank, profile="quick").key == measured.key
    point(link, "second")
    for call in (
        lambda: run_vision(config, profile="quick", device="cpu"),
        lambda: trained_model(config, training_images(config)),
        lambda: run_tail(tail, bank, profile="quick"),
    ):
        with pytest.raises(StaleRecordError) as caught:
            call()
        line = str(caught.value)
        assert record.path.name in line and str(link) in line and "remove" in line
        assert "\n" not in line
    point(link, "first")
    assert run_vision(config, profile="quick", device="cpu") == record
    # Data that are gone contradict nothing: finished work stays.
    link.unlink()
    assert run_vision(config, profile="quick", device="cpu") == record


@pytest.mark.parametrize("split", ["train", "test"])
def test_floors_are_of_their_data_too(link, tmp_path, split):
    config = config_of(link)
    floor = floors.Floor("pixels", config)
    made = floors.make(floor, device="cpu")
    assert floors.make(floor, device="cpu").key == made.key
    changed = tmp_path / "second"
    other = "test" if split == "train" else "train"
    shutil.rmtree(changed / other)
    shutil.copytree(tmp_path / "first" / other, changed / other)
    point(link, "second")
    with pytest.raises(StaleRecordError, match="other data"):
        floors.make(floor, device="cpu")


def test_the_hash_is_of_files_and_labels_alone(tmp_path, link):
    name = f"imagefolder:{link}"
    first = content_of(name, "train")
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    assert content_of(f"imagefolder:{tmp_path / 'copy'}", "train") == first
    point(link, "second")
    assert content_of(name, "train") != first
    point(link, "first")
    assert content_of(name, "train") == first
    assert content_of(name, "train", limit=10) != first
    # One file replaced in place, by one of the same size.
    path = tmp_path / "first" / "train" / "cat" / "000.png"
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    assert content_of(name, "train") != first
    assert content_of("digits", "train") == ""
    assert content_of(f"imagefolder:{tmp_path / 'nowhere'}", "train") == ""


def test_a_replaced_corpus_and_replaced_pairs_are_refused(tmp_path, monkeypatch):
    pytest.importorskip("tokenizers")
    from weince_lib.runs.text import run_text
    from weince_lib.runs.text_config import text_config
    from weince_lib.text import load_corpus

    monkeypatch.setenv("WEINCE_DATA", str(tmp_path))
    corpus = tmp_path / "wiki1m_for_simcse.txt"
    sentences = list(load_corpus("grammar", limit=80))
    corpus.write_text("\n".join(sentences))
    pairs = tmp_path / "SICK"
    pairs.mkdir()
    for name in ("SICK_trial.txt", "SICK_test_annotated.txt"):
        rows = [
            f"{k}\t{a}\t{b}\t{k % 5 + 1}\tE"
            for k, (a, b) in enumerate(zip(sentences[:40], sentences[40:], strict=True))
        ]
        head = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
        (pairs / name).write_text("\n".join([head, *rows]))
    config = text_config(
        "quick", corpus="wiki", sts=("sickr",), epochs=1, batch_size=16, evaluate_every=5
    )
    record = run_text(config, profile="quick", device="cpu")
    assert run_text(config, profile="quick", device="cpu") == record
    whole = {path: path.read_text() for path in (corpus, pairs / "SICK_test_annotated.txt")}
    for path, text in whole.items():
        path.write_text(text.replace(sentences[0], "Another sentence altogether."))
        with pytest.raises(StaleRecordError, match=r"other data than wiki, sickr holds now"):
            run_text(config, profile="quick", device="cpu")
        path.write_text(text)
    assert run_text(config, profile="quick", device="cpu") == record
    corpus.unlink()
    shutil.rmtree(pairs)
    assert run_text(config, profile="quick", device="cpu") == record
