"""Batches of a frozen model: their cosines, and the choices in them and in parts of them."""

import itertools
import math

import numpy as np
import pytest
import torch
from link_samples import random_bank
from torch import nn

from weince_lib.diagnostics import ChoiceBank, ScoreBank, choices_of, two_view_bank
from weince_lib.losses.candidates import two_view_scores
from weince_lib.vision import TwoViewAugment, build_simclr


def numbered_images(count=20):
    """Random images; the first pixel holds the image's number."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (count, 1, 8, 8), dtype=torch.uint8, generator=generator)
    images[:, 0, 0, 0] = torch.arange(count)
    return images


def noisy(batch, generator):
    x = batch.float() / 255
    view0, view1 = (x + 0.1 * torch.randn(x.shape, generator=generator) for _ in range(2))
    return view0, view1


class Recording(nn.Module):
    """An untrained encoder with a batch norm that keeps its embeddings; can spoil one row."""

    def __init__(self, call=-1, row=0, value=0.0):
        super().__init__()
        options = {"channels": 1, "image_size": 8, "width": 4, "projection_dim": 8, "seed": 3}
        self.inner = build_simclr("resnet-small", **options)
        self.call, self.row, self.value = call, row, value
        self.z = []

    def forward(self, x):
        z = self.inner(x)
        if len(self.z) == self.call:
            z[self.row] = self.value
        self.z.append(z)
        return z


@pytest.mark.parametrize(("batches", "n"), [(1, 2), (3, 4), (2, 7)])
def test_negatives_are_every_unordered_pair_once_without_the_positives(batches, n):
    _, positives = two_view_scores(torch.rand(n, 3) + 0.1, torch.rand(n, 3) + 0.1)
    # A score that says which batch and which pair it is.
    scores = torch.empty(batches, 2 * n, 2 * n)
    for b, i, j in itertools.product(range(batches), range(2 * n), range(2 * n)):
        scores[b, i, j] = 10_000 * b + 100 * min(i, j) + max(i, j)
    expected = [
        10_000 * b + 100 * i + j
        for b in range(batches)
        for i, j in itertools.combinations(range(2 * n), 2)
        if j != i + n
    ]
    assert sorted(ScoreBank(scores, positives).negatives().tolist()) == expected


def test_scores_are_cosines_of_the_models_embeddings():
    model, n, batches = Recording(), 5, 3
    bank = two_view_bank(model, numbered_images(), noisy, batches=batches, batch_size=n)
    assert bank.positives.tolist() == [5, 6, 7, 8, 9, 0, 1, 2, 3, 4]
    for b in range(batches):
        z = torch.cat(model.z[2 * b : 2 * b + 2]).detach().double()
        z /= z.norm(dim=1, keepdim=True)
        torch.testing.assert_close(bank.scores[b].double(), z @ z.T, atol=1e-6, rtol=0)


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_used_in_evaluation_mode_and_left_as_it_was(training):
    model = Recording().train(training)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    two_view_bank(model, numbered_images(), noisy, batches=1, batch_size=4)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert {m.training for m in model.modules()} == {training}
    # In evaluation mode the other images of a batch do not matter.
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randperm(20, generator=generator)[:4]
    view0, _ = noisy(numbered_images()[drawn], generator)
    alone = torch.cat([model.inner.eval()(view[None]) for view in view0])
    torch.testing.assert_close(model.z[0], alone.detach())
    broken = Recording(call=0, value=math.nan).train(training)
    with pytest.raises(ValueError, match="row 0"):
        two_view_bank(broken, numbered_images(), noisy, batches=1, batch_size=4)
    assert {m.training for m in broken.modules()} == {training}


def test_the_seed_decides_everything():
    def bank(seed):
        images, augment = numbered_images(), TwoViewAugment()
        return two_view_bank(Recording(), images, augment, batches=2, batch_size=6, seed=seed)

    state = torch.get_rng_state()
    first = bank(4).scores
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(1)
    assert torch.equal(bank(4).scores, first)
    assert not torch.equal(bank(5).scores, first)
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize("disjoint", [False, True])
def test_images_are_drawn_without_replacement(disjoint):
    batches = []

    def recorded(batch, generator):
        batches.append(batch[:, 0, 0, 0].tolist())
        return noisy(batch, generator)

    options = {"batches": 4, "batch_size": 5, "disjoint": disjoint}
    two_view_bank(Recording(), numbered_images(), recorded, **options)
    assert [len(set(batch)) for batch in batches] == [5] * 4
    assert (len(set(itertools.chain(*batches))) == 20) == disjoint


@pytest.mark.parametrize(
    ("model", "count", "options", "message"),
    [
        (Recording(0, 2, 0.0), 20, {}, "z0: row 2 .*is zero.*1 of 4"),
        (Recording(3, 0, math.nan), 20, {}, "z1: row 0 .*NaN.*1 of 4"),
        (Recording(2, 3, math.inf), 20, {}, "z0: row 3 .*infinity.*1 of 4"),
        (Recording(), 3, {}, "3 images.*batch_size"),
        (Recording(), 7, {"disjoint": True}, "7 images"),
        (Recording(), 20, {"batches": 0}, "batches"),
    ],
)
def test_bad_input_of_a_bank(model, count, options, message):
    with pytest.raises(ValueError, match=message):
        two_view_bank(
            model, numbered_images(count), noisy, **{"batches": 2, "batch_size": 4} | options
        )


def test_candidates_are_all_views_but_the_anchor_and_the_positive_comes_first():
    draw = torch.Generator().manual_seed(0)
    parts = [two_view_scores(*torch.randn(2, 5, 3, generator=draw)) for _ in range(3)]
    bank = ScoreBank(torch.stack([scores for scores, _ in parts]), parts[0][1])
    choices = choices_of(bank)
    assert choices.scores.shape == (3, 10, 9) and choices.scores.dtype == np.float64
    for b, i in itertools.product(range(3), range(10)):
        row = bank.scores[b, i].double().tolist()
        positive = (i + 5) % 10
        assert choices.scores[b, i, 0] == row[positive]
        others = sorted(row[j] for j in range(10) if j not in (i, positive))
        assert sorted(choices.scores[b, i, 1:]) == others
    assert (choices.batches, choices.anchors, choices.negatives) == (3, 30, 8)
    assert np.array_equal(choices_of(bank, every=2).scores, choices.scores[:, ::2])


def test_hardest_keeps_the_winner_and_the_most_similar():
    bank = random_bank()
    kept = bank.hardest(4).scores
    assert np.array_equal(kept[..., 0], bank.scores[..., 0])
    expected = np.sort(bank.scores[..., 1:], axis=-1)[..., -4:]
    assert np.array_equal(np.sort(kept[..., 1:], axis=-1), expected)


def test_hardest_candidates_are_the_nearest_whoever_won():
    bank = random_bank(batches=2, anchors=30, candidates=8)
    kept = bank.hardest_candidates(3).scores[0]
    expected = []
    for row in bank.scores.reshape(-1, 8):
        nearest = sorted(row)[-4:]
        if row[0] in nearest:
            expected.append([row[0], *sorted(x for x in nearest if x != row[0])])
    assert 0 < len(expected) < 60
    assert np.array_equal(np.column_stack([kept[:, :1], np.sort(kept[:, 1:])]), expected)
    with pytest.raises(ValueError, match="winner"):
        ChoiceBank(np.array([[[-0.9, 0.1, 0.2, 0.3]]])).hardest_candidates(1)


def test_pools_are_nested_random_and_repeatable():
    bank = random_bank()
    small, large = bank.pool(5, seed=3).scores, bank.pool(11, seed=3).scores
    assert np.array_equal(small, large[..., :6])
    assert np.array_equal(small[..., 0], bank.scores[..., 0])
    assert not np.array_equal(small, bank.pool(5, seed=4).scores)
    for row, source in zip(large.reshape(-1, 12), bank.scores.reshape(-1, 20), strict=True):
        assert len(set(row)) == 12 and set(row) <= set(source)
    # Each of 19 negatives is in a pool of 5 with the same probability.
    share = np.mean(
        [np.isin(bank.scores[0, 0, 1:], bank.pool(5, seed=s).scores[0, 0]) for s in range(400)],
        axis=0,
    )
    assert np.abs(share - 5 / 19).max() < 5 * np.sqrt(5 / 19 * 14 / 19 / 400)


def test_other_winners_change_places_with_the_first():
    bank = random_bank(batches=1, anchors=2, candidates=4)
    moved = bank.with_winners(np.array([[2, 0]])).scores
    assert moved[0, 0].tolist() == bank.scores[0, 0][[2, 1, 0, 3]].tolist()
    assert moved[0, 1].tolist() == bank.scores[0, 1].tolist()


@pytest.mark.parametrize(
    ("scores", "word"),
    [
        (np.zeros((3, 4)), "shape"),
        (np.zeros((2, 3, 1)), "two candidates"),
        (np.full((1, 2, 3), np.nan), r"scores\[0, 0, 0\] is nan"),
        (np.array([[[0.5, 0.1], [0.2, 1.5]]]), r"scores\[0, 1, 1\] is 1.5"),
    ],
)
def test_what_is_no_bank_of_cosines_is_an_error(scores, word):
    with pytest.raises(ValueError, match=word):
        ChoiceBank(scores)


@pytest.mark.parametrize("method", ["hardest", "pool", "hardest_candidates"])
@pytest.mark.parametrize("count", [0, 20])
def test_more_negatives_than_there_are_is_an_error(method, count):
    with pytest.raises(ValueError, match="19 negatives"):
        getattr(random_bank(), method)(count)
