"""The open_clip integration against its ClipLoss, and in its own training loop."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("open_clip")

import open_clip
from against_library import ON, assert_same
from open_clip.loss import ClipLoss as Theirs

from weince_lib.integrations.open_clip import ClipLoss
from weince_lib.losses import SelfSettingLoss, blended_logits
from weince_lib.losses.evidence import evidence_from_tail


def features(n=24, d=8, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(n, d, generator=generator, dtype=dtype)
    text = image + 0.7 * torch.randn(n, d, generator=generator, dtype=dtype)
    scale = torch.tensor(2.5, dtype=dtype)
    return [x.requires_grad_() for x in (image, text, scale)]


def value(loss, inputs, normalise=True):
    image, text, log_scale = inputs
    if normalise:
        image, text = F.normalize(image, dim=1), F.normalize(text, dim=1)
    return loss(image, text, log_scale.exp())


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_off_is_open_clips_loss(normalise, dtype, tolerance):
    inputs = features(dtype=dtype)
    if not normalise:  # dot products of any size
        tolerance *= 10
    ours = value(ClipLoss(correction=None), inputs, normalise)
    assert_same(ours, value(Theirs(), inputs, normalise), inputs, tolerance)


def test_constructor_and_call_are_open_clips():
    image, text, log_scale = features()
    args = {"local_loss": True, "gather_with_grad": True, "cache_labels": True, "rank": 0}
    ours, theirs = ClipLoss(**args, world_size=1, correction=None), Theirs(**args, world_size=1)
    call = {"logit_scale": log_scale.exp(), "logit_bias": torch.tensor(-10.0), "output_dict": True}
    got, expected = ours(image, text, **call), theirs(image, text, **call)
    assert got.keys() == expected.keys() == {"contrastive_loss"}
    torch.testing.assert_close(got["contrastive_loss"], expected["contrastive_loss"])
    assert isinstance(ours, Theirs)


def test_on_is_the_blend_both_ways():
    """Against dense algebra, each direction with evidence of its own."""
    inputs = features()
    image, text, scale = F.normalize(inputs[0]), F.normalize(inputs[1]), inputs[2].exp()
    terms = []
    for scores in (image @ text.T, text @ image.T):
        n = len(scores)
        rows = torch.arange(n)
        delta = (1 - scores.detach()).scatter(1, rows[:, None], torch.inf).sort(1).values
        k = ON.tail_size(n - 1)
        evidence = evidence_from_tail(delta[:, : min(k + 1, n - 1)], k, ON)
        lam, beta = evidence.lam, evidence.beta
        assert (lam > 0.01).any()
        logits = blended_logits(scores, lam, beta, 1.0, ON.floor)
        logits = logits + ((1 - lam) * (scale - 1))[:, None] * scores
        terms.append(F.cross_entropy(logits, rows))
    assert_same(value(ClipLoss(correction=ON), inputs), (terms[0] + terms[1]) / 2, inputs)


class Batches:
    """What open_clip's loop asks of a data loader: the same pairs, shuffled, batch after batch."""

    def __init__(self, images, texts, batch_size, batches):
        self.images, self.texts = images, texts
        self.batch_size, self.num_batches = batch_size, batches
        self.num_samples = batch_size * batches

    def __iter__(self):
        for _ in range(self.num_batches):
            rows = torch.randperm(len(self.images))[: self.batch_size]
            yield self.images[rows], self.texts[rows]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_trains_in_open_clips_loop(accumulate):
    loop = pytest.importorskip("open_clip_train.train")
    torch.manual_seed(0)
    tower = {"width": 32, "layers": 1}
    model = open_clip.CLIP(
        embed_dim=16,
        vision_cfg={**tower, "image_size": 16, "patch_size": 8, "head_width": 16},
        text_cfg={**tower, "context_length": 8, "vocab_size": 50, "heads": 2},
        output_dict=True,
    )
    loader = Batches(torch.randn(48, 3, 16, 16), torch.randint(1, 49, (48, 8)), 24, 24)
    args = argparse.Namespace(
        device="cpu", precision="fp32", distill=False, accum_freq=accumulate, skip_scheduler=True,
        horovod=False, grad_clip_norm=1.0, rank=0, local_rank=0, log_every_n_steps=1,
        batch_size=24, world_size=1, wandb=False, log_local=False, distributed=False,
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    history = []
    writer = SimpleNamespace(
        add_scalar=lambda name, value, step: name == "train/loss" and history.append(value)
    )
    data = {"train": SimpleNamespace(dataloader=loader, set_epoch=lambda epoch: None)}
    loop.train_one_epoch(
        model, data, ClipLoss(), 0, optimizer, None, None, None, args, tb_writer=writer
    )
    assert len(history) == 24 // accumulate
    assert sum(history[-4:]) < sum(history[:4]) - 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClipLoss(correction="none"), "'none'"),
        (lambda: ClipLoss(correction=SelfSettingLoss("kl")), "temperature of its own"),
        (lambda: ClipLoss()(torch.ones(3, 2), torch.ones(2, 2), 1.0), "shape"),
        (lambda: ClipLoss()(*torch.full((2, 3, 2), torch.nan), 1.0), "image_features: row 0"),
        (lambda: ClipLoss()(torch.ones(3), torch.ones(3), 1.0), "image_features"),
    ],
)
def test_bad_input_is_one_clear_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()
