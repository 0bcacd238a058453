"""Score banks: every negative pair once, reproducible draws, one clear error."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from weince_lib.diagnostics import ScoreBank, two_view_bank
from weince_lib.losses.candidates import two_view_scores
from weince_lib.vision import TwoViewAugment, build_simclr


def numbered_images(count: int = 20) -> Tensor:
    """Random images; the first pixel holds the image's number."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (count, 1, 8, 8), dtype=torch.uint8, generator=generator)
    images[:, 0, 0, 0] = torch.arange(count)
    return images


def noisy(batch: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = batch.float() / 255
    view0, view1 = (x + 0.1 * torch.randn(x.shape, generator=generator) for _ in range(2))
    return view0, view1


def frozen_model() -> nn.Module:
    """An untrained encoder with a batch norm, left in training mode."""
    return build_simclr(
        "resnet-small", channels=1, image_size=8, width=4, projection_dim=8, seed=3
    ).train()


class Recording(nn.Module):
    """Passes embeddings on and keeps them; can spoil one row of one call."""

    def __init__(self, call: int = -1, row: int = 0, value: float = 0.0) -> None:
        super().__init__()
        self.inner = frozen_model()
        self.call, self.row, self.value = call, row, value
        self.z: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        z = self.inner(x)
        if len(self.z) == self.call:
            z[self.row] = self.value
        self.z.append(z)
        return z


# Negatives -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("batches", "n"), [(1, 2), (3, 4), (2, 7)])
def test_negatives_are_every_unordered_pair_once_without_the_positives(
    batches: int, n: int
) -> None:
    _, positives = two_view_scores(torch.rand(n, 3) + 0.1, torch.rand(n, 3) + 0.1)
    # A score that says which batch and which pair it is.
    scores = torch.empty(batches, 2 * n, 2 * n)
    for b, i, j in itertools.product(range(batches), range(2 * n), range(2 * n)):
        scores[b, i, j] = 10_000 * b + 100 * min(i, j) + max(i, j)
    found = ScoreBank(scores, positives).negatives()
    expected = [
        10_000 * b + 100 * i + j
        for b in range(batches)
        for i in range(2 * n)
        for j in range(i + 1, 2 * n)
        if j != i + n
    ]
    assert found.shape == (batches * 2 * n * (n - 1),)
    assert sorted(found.tolist()) == expected


# The bank ------------------------------------------------------------------------------------


def test_scores_are_cosines_of_the_models_embeddings() -> None:
    model, n, batches = Recording(), 5, 3
    bank = two_view_bank(model, numbered_images(), noisy, batches=batches, batch_size=n)
    assert bank.scores.shape == (batches, 2 * n, 2 * n)
    assert bank.scores.dtype == torch.float32
    assert not bank.scores.requires_grad
    assert bank.positives.tolist() == [5, 6, 7, 8, 9, 0, 1, 2, 3, 4]
    assert len(model.z) == 2 * batches
    for b in range(batches):
        rows = torch.cat(model.z[2 * b : 2 * b + 2]).double().tolist()
        for i, j in itertools.product(range(2 * n), repeat=2):
            dot = sum(x * y for x, y in zip(rows[i], rows[j], strict=True))
            cosine = dot / (math.hypot(*rows[i]) * math.hypot(*rows[j]))
            assert bank.scores[b, i, j].item() == pytest.approx(cosine, abs=1e-6)


def test_the_model_is_used_in_evaluation_mode_and_left_as_it_was() -> None:
    model = frozen_model()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    two_view_bank(model, numbered_images(), noisy, batches=2, batch_size=4)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert {m.training for m in model.modules()} == {True}
    # In evaluation mode the other images of a batch do not matter.
    recording = Recording()
    two_view_bank(recording, numbered_images(), noisy, batches=1, batch_size=4)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randperm(20, generator=generator)[:4]
    view0, _ = noisy(numbered_images()[drawn], generator)
    alone = torch.cat([model.eval()(view[None]) for view in view0])
    torch.testing.assert_close(recording.z[0], alone.detach())


def test_evaluation_mode_is_kept_and_training_mode_restored_after_an_error() -> None:
    model = frozen_model().eval()
    two_view_bank(model, numbered_images(), noisy, batches=1, batch_size=4)
    assert {m.training for m in model.modules()} == {False}
    broken = Recording(call=0, value=math.nan)
    with pytest.raises(ValueError, match="row 0"):
        two_view_bank(broken, numbered_images(), noisy, batches=1, batch_size=4)
    assert {m.training for m in broken.modules()} == {True}


def test_the_seed_decides_everything() -> None:
    def bank(seed: int) -> Tensor:
        model, augment = frozen_model(), TwoViewAugment()
        images = numbered_images()
        return two_view_bank(model, images, augment, batches=2, batch_size=6, seed=seed).scores

    state = torch.get_rng_state()
    first = bank(4)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(1)
    assert torch.equal(bank(4), first)
    assert not torch.equal(bank(5), first)
    assert not torch.equal(first[0], first[1])


def test_images_are_drawn_without_replacement_within_a_batch() -> None:
    batches: list[list[int]] = []

    def recorded(batch: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        assert batch.dtype == torch.uint8
        batches.append(batch[:, 0, 0, 0].tolist())
        return noisy(batch, generator)

    two_view_bank(frozen_model(), numbered_images(), recorded, batches=12, batch_size=15)
    assert [len(set(batch)) for batch in batches] == [15] * 12
    assert len({tuple(batch) for batch in batches}) == 12
    assert set(itertools.chain(*batches)) == set(range(20))


# Bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "view", "row"), [(0, "z0", 2), (1, "z1", 3), (3, "z1", 0), (2, "z0", 3)]
)
@pytest.mark.parametrize(
    ("value", "says"), [(0.0, "is zero"), (math.nan, "NaN"), (math.inf, "infinity")]
)
def test_bad_embeddings_name_the_view_and_row(
    call: int, view: str, row: int, value: float, says: str
) -> None:
    model = Recording(call, row, value)
    with pytest.raises(ValueError, match=f"{view}: row {row} .*{says}.*1 of 4"):
        two_view_bank(model, numbered_images(), noisy, batches=2, batch_size=4)


def test_too_few_images() -> None:
    with pytest.raises(ValueError, match="3 images make no batch of 4; lower batch_size"):
        two_view_bank(frozen_model(), numbered_images(3), noisy, batches=1, batch_size=4)


def test_no_batches() -> None:
    with pytest.raises(ValueError, match="batches must be at least 1, got 0"):
        two_view_bank(frozen_model(), numbered_images(), noisy, batches=0, batch_size=4)
