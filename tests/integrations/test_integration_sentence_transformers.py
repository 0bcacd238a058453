"""The sentence-transformers integration against its loss, and in its trainer."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("sentence_transformers")
pytest.importorskip("transformers")

import transformers
from against_library import ON, assert_same
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    MultipleNegativesRankingLoss as Theirs,
)
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from sentence_transformers.util import dot_score

from weince_lib.integrations.sentence_transformers import MultipleNegativesRankingLoss
from weince_lib.losses import SelfSettingLoss
from weince_lib.losses.dense import blended_logits
from weince_lib.losses.evidence import evidence_from_tail

NOUNS = ("cat", "dog", "river", "house", "tree", "car", "bird", "stone")
VERBS = ("runs", "sleeps", "falls", "waits")


@pytest.fixture
def model(tmp_path):
    """A BERT of two small layers with a vocabulary of its own, nothing downloaded."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "now", *NOUNS, *VERBS]
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("\n".join(words))
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
    )
    folder = tmp_path / "bert"
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizer(str(vocab)).save_pretrained(folder)
    encoder = Transformer(str(folder), max_seq_length=16)
    return SentenceTransformer(modules=[encoder, Pooling(32)], device="cpu")


def rows():
    pairs = [(noun, verb) for noun in NOUNS for verb in VERBS]
    return {
        "anchor": [f"the {noun} {verb}" for noun, verb in pairs],
        "positive": [f"now a {noun} {verb}" for noun, verb in pairs],
        "negative": [f"a {noun} {VERBS[VERBS.index(verb) - 1]}" for noun, verb in pairs],
    }


@pytest.mark.parametrize("columns", [2, 3])
def test_off_is_the_librarys_loss_through_a_model(model, columns):
    model.double().eval()  # no dropout, so that both see the same embeddings
    texts = list(rows().values())[:columns]
    ours, theirs = (
        loss([model.preprocess(column) for column in texts], None)
        for loss in (MultipleNegativesRankingLoss(model, correction=None), Theirs(model))
    )
    assert_same(ours, theirs, [p for p in model.parameters() if p.requires_grad], 1e-9)


@pytest.mark.parametrize("columns", [2, 3, 5])
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_off_is_the_librarys_loss_of_embeddings(columns, scale):
    torch.manual_seed(0)
    z = [torch.randn(16, 8, dtype=torch.float64, requires_grad=True) for _ in range(columns)]
    losses = MultipleNegativesRankingLoss(None, scale, correction=None), Theirs(None, scale)
    assert_same(*(loss.compute_loss_from_embeddings(z, None) for loss in losses), z)


def test_on_is_the_blend_over_positives_and_hard_negatives():
    torch.manual_seed(0)
    z = [torch.randn(16, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    ours = MultipleNegativesRankingLoss(None, correction=ON).compute_loss_from_embeddings(z)
    anchors, candidates = F.normalize(z[0]), F.normalize(torch.cat(z[1:]))
    scores, own = anchors @ candidates.T, torch.arange(16)
    delta = (1 - scores.detach()).scatter(1, own[:, None], torch.inf).sort(1).values
    k = ON.tail_size(31)
    evidence = evidence_from_tail(delta[:, : min(k + 1, 31)], k, ON)
    assert (evidence.lam > 0.01).any()
    truth = F.cross_entropy(
        blended_logits(scores, evidence.lam, evidence.beta, 0.05, ON.floor), own
    )
    assert_same(ours, truth, z)


@pytest.mark.parametrize("rule", ["tail", "median", "kl"])
def test_a_loss_that_sets_itself_is_the_same_here(rule):
    torch.manual_seed(0)
    z = [torch.randn(48, 8, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    loss = MultipleNegativesRankingLoss(None, correction=SelfSettingLoss(rule))
    truth = SelfSettingLoss(rule, candidates="bipartite", symmetric=False)
    for _ in range(2):  # the second batch's loss goes by the means of both
        assert_same(loss.compute_loss_from_embeddings(z), truth(*z), z)
    assert loss.settings.statistics() == truth.statistics()
    assert "settings.totals" in loss.state_dict()
    assert loss.get_config_dict()["correction"] == {"rule": rule}


@pytest.mark.parametrize("columns", [2, 3])
def test_trains_in_the_trainer(model, tmp_path, columns):
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("accelerate")
    from sentence_transformers import (
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )

    data = datasets.Dataset.from_dict(dict(list(rows().items())[:columns]))
    args = SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path / "run"),
        per_device_train_batch_size=32,
        max_steps=20,
        learning_rate=3e-3,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
        dataloader_num_workers=0,
        seed=0,
    )
    loss = MultipleNegativesRankingLoss(model)
    trainer = SentenceTransformerTrainer(model=model, args=args, train_dataset=data, loss=loss)
    trainer.train()
    history = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(history) == 20
    assert sum(history[-4:]) < sum(history[:4]) - 1.0
    model.save_pretrained(str(tmp_path / "saved"))  # the model card reads the loss's settings
    assert "MultipleNegativesRankingLoss" in (tmp_path / "saved" / "README.md").read_text()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultipleNegativesRankingLoss(None, 0.0), "scale"),
        (lambda: MultipleNegativesRankingLoss(None, 1.0, dot_score), "cos_sim"),
        (lambda: MultipleNegativesRankingLoss(None, correction="x"), "'x'"),
        (lambda: _loss(torch.ones(3, 2)), "got 1"),
        (lambda: _loss(torch.ones(3, 2), torch.ones(2, 2)), "shape"),
        (lambda: _loss(torch.ones(3, 2), torch.full((3, 2), torch.nan)), "column 1: row 0"),
    ],
)
def test_bad_input_is_one_clear_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def _loss(*columns):
    return MultipleNegativesRankingLoss(None).compute_loss_from_embeddings(list(columns))
