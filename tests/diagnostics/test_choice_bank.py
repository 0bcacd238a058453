"""Choices: the positive first, every other view a candidate, subsets that keep what they should."""

import numpy as np
import pytest
import torch
from link_samples import random_bank

from weince_lib.diagnostics import ScoreBank
from weince_lib.diagnostics.choice_bank import ChoiceBank, choices_of
from weince_lib.losses.candidates import two_view_scores


def small_bank():
    draw = torch.Generator().manual_seed(0)
    parts = [two_view_scores(*torch.randn(2, 5, 3, generator=draw)) for _ in range(3)]
    return ScoreBank(torch.stack([scores for scores, _ in parts]), parts[0][1])


def test_candidates_are_all_views_but_the_anchor_and_the_positive_comes_first():
    bank = small_bank()
    choices = choices_of(bank)
    assert choices.scores.shape == (3, 10, 9)
    assert choices.scores.dtype == np.float64
    for b in range(3):
        for i in range(10):
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
    whole = bank.hardest(bank.negatives).scores
    assert np.array_equal(np.sort(whole, axis=-1), np.sort(bank.scores, axis=-1))


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


def test_pools_are_nested_random_and_repeatable():
    bank = random_bank()
    small, large = bank.pool(5, seed=3).scores, bank.pool(11, seed=3).scores
    assert np.array_equal(small, large[..., :6])
    assert np.array_equal(small[..., 0], bank.scores[..., 0])
    assert not np.array_equal(small, bank.pool(5, seed=4).scores)
    for row, source in zip(large.reshape(-1, 12), bank.scores.reshape(-1, 20), strict=True):
        assert len(set(row)) == 12
        assert set(row) <= set(source)
    # Each of 19 negatives is in a pool of 5 with the same probability: 240 anchors, mean 63.
    share = np.mean(
        [np.isin(bank.scores[0, 0, 1:], bank.pool(5, seed=s).scores[0, 0]) for s in range(400)],
        axis=0,
    )
    assert np.abs(share - 5 / 19).max() < 5 * np.sqrt(5 / 19 * 14 / 19 / 400)


def test_other_winners_change_places_with_the_first():
    bank = random_bank(batches=1, anchors=2, candidates=4)
    moved = bank.with_winners(np.array([[2, 0]])).scores
    before = bank.scores
    assert moved[0, 0].tolist() == before[0, 0][[2, 1, 0, 3]].tolist()
    assert moved[0, 1].tolist() == before[0, 1].tolist()


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


def test_no_winner_among_the_nearest_is_an_error():
    with pytest.raises(ValueError, match="no winner"):
        ChoiceBank(np.array([[[-0.9, 0.1, 0.2, 0.3]]])).hardest_candidates(1)
