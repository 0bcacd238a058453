import math

import pytest
import torch

from weince_lib.evaluation import stratified_split


def imbalanced_labels():
    """Classes 0, 1, 3 (2 is absent) with 23, 5 and 41 rows, in a mixed order."""
    labels = torch.tensor([0] * 23 + [1] * 5 + [3] * 41)
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]


def test_counts_per_class_and_cover():
    labels = imbalanced_labels()
    split = stratified_split(labels, seed=7)
    # Transcription of Appendix F.1: floor(0.2 n_c) of each class to validation, the rest to train.
    for label, n in ((0, 23), (1, 5), (3, 41)):
        held_out = [i for i in split.validation.tolist() if labels[i] == label]
        kept = [i for i in split.train.tolist() if labels[i] == label]
        assert len(held_out) == math.floor(0.2 * n)
        assert len(kept) == n - math.floor(0.2 * n)
    both = split.train.tolist() + split.validation.tolist()
    assert sorted(both) == list(range(len(labels)))


def test_floor_of_an_inexact_product():
    # 0.29 * 100 is 28.999... in floating point; the rule means 29.
    assert len(stratified_split(torch.zeros(100).long(), seed=1, fraction=0.29).validation) == 29


def test_every_row_is_held_out_equally_often():
    labels = torch.zeros(10).long()
    counts = torch.zeros(10)
    for seed in range(600):
        counts[stratified_split(labels, seed=seed).validation] += 1
    # Binomial(600, 0.2): mean 120, standard deviation 9.8; 5 standard deviations either way.
    assert counts.sum() == 1200
    assert ((counts - 120).abs() < 49).all()


@pytest.mark.parametrize(
    ("labels", "fraction", "message"),
    [
        (torch.tensor([0] * 10 + [1] * 4), 0.2, "class 1 has 4 rows.*at least 5"),
        (torch.tensor([0, -1, 0]), 0.2, "row 1 is -1"),
        (torch.tensor([0.0, 1.0]), 0.2, "integers"),
        (torch.zeros(10).long(), 0.0, "fraction"),
    ],
)
def test_bad_input(labels, fraction, message):
    with pytest.raises(ValueError, match=message):
        stratified_split(labels, seed=1, fraction=fraction)
