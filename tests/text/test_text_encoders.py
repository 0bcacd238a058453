"""Encoders, where their weights come from, and tokenised corpora."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from text_models import Lines

from weince_lib.text import weights
from weince_lib.text.encoders import (
    StaticEncoder,
    TinyTransformer,
    TransformerEncoder,
    load_transformer,
    masked_mean,
)
from weince_lib.text.simcse import SimCSE, encode
from weince_lib.text.tokens import SentenceTokenizer, tokenise, word_tokenizer
from weince_lib.text.weights import ModelFolderError

SENTENCES = ("a dog runs", "The cat sleeps in a house", "birds sing")


def tokenizer(**how):
    return SentenceTokenizer(word_tokenizer(SENTENCES), **how)


@pytest.fixture
def folder(tmp_path):
    """A BERT of one small layer, saved as `save_pretrained` does."""
    transformers = pytest.importorskip("transformers")
    words = word_tokenizer(SENTENCES)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=words.get_vocab_size(),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "bert")
    words.save(str(tmp_path / "bert" / "tokenizer.json"))
    return tmp_path / "bert"


def test_static_is_the_mean_of_word_embeddings():
    table = torch.randn(9, 4, generator=torch.Generator().manual_seed(1))
    ids, mask = torch.tensor([[1, 2, 3], [4, 0, 0]]), torch.tensor([[1, 1, 1], [1, 0, 0]])
    found = StaticEncoder(table).eval()(ids, mask)
    torch.testing.assert_close(found, torch.stack([table[1:4].mean(0), table[4]]))
    torch.testing.assert_close(found, masked_mean(table[ids], mask))


def test_static_dropout_is_unbiased_and_makes_two_views():
    """Mean of 4,000 draws; 4.5 standard errors, 16 numbers: false alarm below 2e-4."""
    encoder = StaticEncoder(torch.randn(9, 4, generator=torch.Generator().manual_seed(1)), 0.5)
    ids = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8]]).expand(4000, -1)
    torch.manual_seed(0)
    drawn = encoder(ids, torch.ones_like(ids)).detach()
    assert len(drawn.unique(dim=0)) > 100
    # A draw that lost all eight tokens (1 in 256) keeps them at weight 1, which is the mean too.
    error = (drawn.mean(0) - encoder.eval()(ids[:1], torch.ones_like(ids[:1]))).abs()
    assert (error < 4.5 * drawn.std(0) / 4000**0.5).all()


def test_static_never_loses_a_whole_sentence():
    encoder = StaticEncoder(torch.ones(3, 2), 0.9)
    found = encoder(torch.ones(500, 1, dtype=torch.long), torch.ones(500, 1, dtype=torch.long))
    assert (found > 0).all()


@pytest.mark.parametrize("kind", ["static", "tiny", "cls", "mean"])
def test_padding_changes_nothing(kind, folder):
    torch.manual_seed(0)
    words = tokenizer()
    encoder = {
        "static": lambda: StaticEncoder(torch.randn(words.size, 8)),
        "tiny": lambda: TinyTransformer(words.size, width=8, heads=2),
        "cls": lambda: load_transformer(folder, pooling="cls"),
        "mean": lambda: load_transformer(folder, pooling="mean"),
    }[kind]()
    together = encode(encoder, words, SENTENCES)
    apart = torch.cat([encode(encoder, words, [sentence]) for sentence in SENTENCES])
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)
    assert encoder.feature_dim == together.shape[1] == 8
    assert all(module.training for module in encoder.modules())  # as a new one is


def test_head_is_for_training_only(folder):
    model = SimCSE(load_transformer(folder), "mlp").eval()
    ids, mask = tokenizer()(SENTENCES)
    h = model.encoder(ids, mask)
    linear = model.head[0]
    expected = torch.tanh(h @ linear.weight.T + linear.bias)
    torch.testing.assert_close(model(ids, mask), expected)
    torch.testing.assert_close(encode(model.encoder, tokenizer(), SENTENCES), h.detach())


def test_bad_encoders():
    with pytest.raises(ValueError, match="token_dropout"):
        StaticEncoder(torch.ones(2, 2), 1.0)
    with pytest.raises(ValueError, match="'max'"):
        TransformerEncoder(torch.nn.Linear(1, 1), "max")
    with pytest.raises(ValueError, match="'two'"):
        SimCSE(StaticEncoder(torch.ones(2, 2)), "two")


def test_word_embeddings_and_hash(folder):
    path = weights.weights_file(folder)
    table = weights.word_embeddings(folder)
    assert table.shape == (tokenizer().size, 8)
    digest = weights.weights_hash(path)
    assert weights.check_hash(path, digest) == weights.check_hash(path, "") == digest
    with pytest.raises(ModelFolderError, match=f"{digest}.*abc"):
        weights.check_hash(path, "abc")


@pytest.mark.parametrize("file", ["tokenizer.json", "model.safetensors", "config.json"])
def test_a_folder_that_lacks_a_part(folder, file):
    (folder / file).unlink()
    with pytest.raises(ModelFolderError, match=file):
        weights.model_folder(str(folder))


def test_pickled_weights_are_read_as_weights_only(folder):
    safe = folder / "model.safetensors"
    expected = encode(load_transformer(folder), tokenizer(), SENTENCES)
    tensors = dict(weights.read_weights(safe))
    safe.unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    torch.testing.assert_close(
        weights.word_embeddings(folder), tensors["embeddings.word_embeddings.weight"]
    )
    torch.testing.assert_close(encode(load_transformer(folder), tokenizer(), SENTENCES), expected)


class Evil:
    def __reduce__(self):
        raise_if_run = "open('ran', 'w')"
        return eval, (raise_if_run,)


def test_a_pickle_with_code_is_refused(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ModelFolderError, match=r"pytorch_model\.bin"):
        weights.word_embeddings(folder)
    with pytest.raises(ModelFolderError, match=r"pytorch_model\.bin"):
        load_transformer(folder)
    assert not (tmp_path / "ran").exists()


def test_damaged_weights_and_no_embeddings(folder):
    path = folder / "model.safetensors"
    save_file({"head": torch.ones(2)}, path)
    with pytest.raises(ModelFolderError, match="embeddings"):
        weights.word_embeddings(folder)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(ModelFolderError, match="damaged"):
        weights.word_embeddings(folder)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelFolderError, match="tokenizer"):
        weights.read_tokenizer(folder)


def rewritten(folder, change):
    """Write the folder's weights anew, each under its changed name; an empty name drops it."""
    path = folder / "model.safetensors"
    tensors = {change(name): value for name, value in weights.read_weights(path).items()}
    tensors.pop("", None)
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    "change",
    [
        lambda name: f"distil.{name}",  # of another model altogether
        lambda name: "" if "attention.output" in name else name,  # a part
    ],
)
def test_weights_of_another_model_are_refused(folder, change):
    """transformers would fill in random values and go on."""
    rewritten(folder, change)
    with pytest.raises(ModelFolderError, match=r"model\.safetensors"):
        load_transformer(folder)


def test_weights_with_heads_or_without_pooler_are_taken(folder):
    """As of a checkpoint for masked words: ``bert.`` before each name, a head, no pooler."""
    expected = encode(load_transformer(folder), tokenizer(), SENTENCES)

    def masked(name):
        return "cls.predictions.bias" if name == "pooler.dense.bias" else f"bert.{name}"

    rewritten(folder, lambda name: "" if name == "pooler.dense.weight" else masked(name))
    torch.testing.assert_close(encode(load_transformer(folder), tokenizer(), SENTENCES), expected)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors", b""),
        ("model.safetensors", None),
        ("config.json", b"{}"),
        ("config.json", b"[1]"),
        ("config.json", b"{"),
        ("config.json", b"\xff"),
        ("config.json", b'{"model_type": "none"}'),
    ],
)
def test_a_damaged_folder_is_one_clear_error(folder, file, content):
    path = folder / file
    path.write_bytes(path.read_bytes()[:-9] if content is None else content)
    with pytest.raises(ModelFolderError, match="bert"):
        load_transformer(folder)


def test_an_unreachable_hub_says_what_to_do(monkeypatch):
    hub = pytest.importorskip("huggingface_hub")

    def unreachable(*args, **kwargs):
        raise OSError("no route")

    monkeypatch.setattr(hub, "snapshot_download", unreachable)
    with pytest.raises(ConnectionError, match="Offline"):
        weights.model_folder("no-such/model")


def test_special_tokens_and_length(folder):
    words = tokenizer(max_length=3)
    assert [len(ids) for ids in words.ids(SENTENCES)] == [3, 3, 2]
    ids, mask = words(SENTENCES)
    assert ids.shape == mask.shape == (3, 3)
    assert mask.sum(1).tolist() == [3, 3, 2]
    unknown = tokenizer().ids(["zebra", "…"])
    assert all(row for row in unknown)  # nothing is ever empty
    with pytest.raises(ValueError, match="max_length"):
        tokenizer(max_length=0)


def test_a_corpus_is_tokenised_once(tmp_path):
    corpus, words = Lines(SENTENCES * 3000), tokenizer(max_length=5)
    made = tokenise(corpus, words, folder=tmp_path)
    assert isinstance(made.table, np.memmap)
    assert made.table.dtype == np.uint16
    rows = torch.tensor([8999, 0, 4])
    expected = words([corpus.lines[i] for i in rows])
    for part, wanted in zip(made.batch(rows), expected, strict=True):
        assert torch.equal(part, wanted)

    class Unread(Lines):
        def __iter__(self):
            raise AssertionError("read again")

    again = tokenise(Unread(corpus.lines), tokenizer(max_length=5), folder=tmp_path)
    assert np.array_equal(again.table, made.table)
    assert [p.suffix for p in tmp_path.iterdir()] == [".uint16"]
    other = tokenise(corpus, tokenizer(max_length=4), folder=tmp_path)
    assert other.digest != made.digest


def test_a_cut_off_or_lying_corpus(tmp_path):
    words = tokenizer()
    made = tokenise(Lines(SENTENCES), words, folder=tmp_path)
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:-1])  # as after a full disk
    assert np.array_equal(tokenise(Lines(SENTENCES), words, folder=tmp_path).table, made.table)

    class Lying(Lines):
        def __len__(self):
            return 5

    with pytest.raises(ValueError, match=r"5 sentences.*3"):
        tokenise(Lying(SENTENCES, "other"), words, folder=tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())
    with pytest.raises(ValueError, match="empty"):
        tokenise(Lines(()), words, folder=tmp_path)
