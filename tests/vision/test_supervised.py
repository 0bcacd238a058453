"""Training with labels: it learns, resumes, and sees the views of contrastive training."""

import itertools
import os
import signal

import pytest
import torch

from weince_lib.training import CheckpointError, NonFiniteLossError, TrainingInterrupted
from weince_lib.vision import (
    TrainingSettings,
    TwoViewAugment,
    augmentation,
    build_encoder,
    load,
    train_supervised,
)

DIGITS = load("digits", "train", limit=256)
SETTINGS = TrainingSettings(epochs=3, batch_size=64, learning_rate=3e-3)


def encoder():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build_encoder("resnet-small", channels=1, image_size=8, width=4)


def trained(settings=SETTINGS, model=None, images=DIGITS.images, **more):
    model = model or encoder()
    return model, train_supervised(
        model, images, DIGITS.labels, augmentation("digits"), settings, **more
    )


def test_loss_falls_and_accuracy_rises():
    _, history = trained(TrainingSettings(epochs=12, batch_size=64, learning_rate=3e-3))
    assert history[-1]["loss"] < 0.8 * history[0]["loss"]
    assert history[-1]["accuracy"] > max(30, history[0]["accuracy"])


def test_a_run_that_was_cut_off_ends_like_one_that_was_not(tmp_path):
    whole, history = trained()
    path = tmp_path / "checkpoint.safetensors"
    shorter = TrainingSettings(epochs=1, batch_size=64, learning_rate=3e-3)
    trained(shorter, checkpoint=path, fingerprint={"run": 1})
    before = torch.get_rng_state()
    other = encoder()
    for parameter in other.parameters():
        parameter.data.zero_()  # all comes from the checkpoint
    resumed, again = trained(model=other, checkpoint=path, fingerprint={"run": 1})
    assert again == history
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(CheckpointError, match="another config"):
        trained(checkpoint=path, fingerprint={"run": 2})


@pytest.mark.usefixtures("ctrl_c")
def test_stopped_within_an_epoch_it_ends_in_the_same_bits(tmp_path, monkeypatch):
    whole, history = trained()
    path, views = tmp_path / "checkpoint.safetensors", itertools.count()
    view = TwoViewAugment.view

    def stopping(*given, **more):
        if next(views) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return view(*given, **more)

    with monkeypatch.context() as patch, pytest.raises(TrainingInterrupted, match="1 of 3 epochs"):
        patch.setattr(TwoViewAugment, "view", stopping)
        trained(checkpoint=path)
    resumed, again = trained(checkpoint=path)
    assert again == history
    assert all(map(torch.equal, whole.state_dict().values(), resumed.state_dict().values()))


def test_the_view_is_the_first_of_the_two():
    augment = augmentation("digits")
    generators = [torch.Generator().manual_seed(5) for _ in range(2)]
    both = augment(DIGITS.images[:40], generators[0])
    torch.testing.assert_close(augment.view(DIGITS.images[:40], generators[1]), both[0])


def test_too_few_images_and_losses_that_are_not_finite_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"256.*300"):
        trained(TrainingSettings(epochs=1, batch_size=300))
    path = tmp_path / "checkpoint.safetensors"
    wild = TrainingSettings(epochs=2, batch_size=64, learning_rate=float("inf"))
    with pytest.raises(NonFiniteLossError):
        trained(wild, checkpoint=path)
    assert not path.exists()
