"""The pytorch-metric-learning integration against its NTXentLoss, and in its interfaces."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("pytorch_metric_learning")

from against_library import ON, assert_same
from pytorch_metric_learning.distances import LpDistance
from pytorch_metric_learning.losses import CrossBatchMemory, SelfSupervisedLoss
from pytorch_metric_learning.losses import NTXentLoss as Theirs
from pytorch_metric_learning.miners import MultiSimilarityMiner, TripletMarginMiner
from pytorch_metric_learning.reducers import AvgNonZeroReducer, MeanReducer

from weince_lib import weince_loss
from weince_lib.integrations.metric_learning import NTXentLoss

TWO_VIEW = torch.arange(20).repeat(2)
GENERAL = torch.tensor([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4, 5, 5, 0, 1, 6, 6, 7, 8, 8] * 2)
LABELS = {"two views": TWO_VIEW, "general": GENERAL, "singletons": torch.arange(40) // 3}


def embeddings(n=40, d=6, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=dtype).requires_grad_()


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
@pytest.mark.parametrize("reducer", [None, AvgNonZeroReducer()], ids=["mean", "non-zero"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_off_is_the_librarys_loss(labels, reducer, dtype, tolerance):
    z = embeddings(dtype=dtype)
    ours = NTXentLoss(0.2, correction=None, reducer=reducer)(z, labels)
    assert_same(ours, Theirs(0.2, reducer=reducer)(z, labels), [z], tolerance)


def test_off_is_the_librarys_loss_with_references():
    z, ref = embeddings(), embeddings(30, seed=1)
    call = {"labels": GENERAL, "ref_emb": ref, "ref_labels": GENERAL[:30].flip(0)}
    assert_same(NTXentLoss(0.2, correction=None)(z, **call), Theirs(0.2)(z, **call), [z, ref])


@pytest.mark.parametrize("miner", [MultiSimilarityMiner(0.3), TripletMarginMiner(0.5)])
def test_off_is_the_librarys_loss_with_a_miner(miner):
    z = embeddings()
    mined = miner(z, GENERAL)
    assert len(mined[0]) > 0
    ours = NTXentLoss(0.2, correction=None)(z, GENERAL, mined)
    assert_same(ours, Theirs(0.2)(z, GENERAL, mined), [z])


def test_off_inside_the_librarys_wrappers():
    z0, z1 = embeddings(20), embeddings(20, seed=1)
    wrapped = [SelfSupervisedLoss(x) for x in (NTXentLoss(0.2, correction=None), Theirs(0.2))]
    assert_same(*(loss(z0, z1) for loss in wrapped), [z0, z1])
    memories = [
        CrossBatchMemory(x, embedding_size=6, memory_size=64)
        for x in (NTXentLoss(0.2, correction=None), Theirs(0.2))
    ]
    for seed in range(3):
        z = embeddings(seed=seed)
        assert_same(*(memory(z, GENERAL) for memory in memories), [z])


def test_no_pairs_is_zero_as_in_the_library():
    z = embeddings(6)
    for labels in (torch.arange(6), torch.zeros(6)):
        assert NTXentLoss()(z, labels) == Theirs()(z, labels) == 0


def test_on_with_two_views_is_weince():
    z = embeddings()
    ours = NTXentLoss(0.5, correction=ON)(z, TWO_VIEW)
    truth = weince_loss(z[:20], z[20:], 0.5, ON, impl="reference")
    assert_same(ours, truth, [z])
    assert abs(ours - Theirs(0.5)(z, TWO_VIEW)) > 1e-3


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
@pytest.mark.parametrize("settings", ["paper", "calibrated", ON], ids=["paper", "calibrated", "on"])
def test_streamed_and_mined_agree(labels, settings):
    """Two ways to the same numbers: blocks of labelled pairs, and a matrix of all scores."""
    z = embeddings()
    streamed = NTXentLoss(0.5, correction=settings)(z, labels)
    each = NTXentLoss(0.5, correction=settings, reducer=_Mean())(z, labels)
    assert_same(streamed, each, [z])


class _Mean(MeanReducer):
    """The default in all but type, so that every pair's loss is asked for."""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NTXentLoss(0.0), "temperature"),
        (lambda: NTXentLoss(distance=LpDistance()), "CosineSimilarity"),
        (lambda: NTXentLoss(correction="x"), "'x'"),
        (lambda: NTXentLoss()(torch.full((4, 2), torch.inf), torch.arange(4)), "row 0"),
    ],
)
def test_bad_input_is_one_clear_error(make, message):
    with pytest.raises(ValueError, match=message):
        make()
