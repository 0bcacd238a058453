"""What a run's own loss does at the end of training: how sharp it is, how much it corrects."""

from __future__ import annotations

import copy
import statistics

import torch
from torch import nn

from ..losses import sharpness
from ..losses.sharpness import as_ablation
from ..records.store import Metric
from ..vision import ImageSet, SimCLR, augmentation
from ..vision.training import epoch_generator
from .config import VisionConfig

#: Batches looked at. Their entropies agree within about 1 %, so that eight are plenty.
BATCHES = 8
#: Names of the metrics.
NAMES = ("negative_entropy", "mean_lambda")


@torch.no_grad()
def loss_metrics(
    model: SimCLR, loss: nn.Module, images: ImageSet, config: VisionConfig
) -> list[Metric]:
    """Sharpness of the trained run's loss on batches as training would have seen next.

    The images, their order and their views are those that an epoch after the last would begin
    with; the network takes them as in training, with the statistics of each batch, and stays as it
    is.

    Args:
        model: the trained network.
        loss: the run's loss as training left it. One that the sharpness is not known of (a test's
            own) has no metrics.
        images: of the contrastive training.
        config: of the run.

    Returns:
        ``negative_entropy`` (mean entropy of the gradient over negatives, in nats) and
        ``mean_lambda``, each the mean over :data:`BATCHES` batches, with split ``"train"``.
    """
    try:
        as_ablation(loss)
    except TypeError:
        return []
    device = next(model.parameters()).device
    network = copy.deepcopy(model).train()
    augment = augmentation(config.dataset)
    generator = epoch_generator(config.seed, config.epochs, device)
    order = torch.randperm(len(images), generator=generator, device=device).cpu()
    found = []
    for rows in order.split(config.batch_size)[:BATCHES]:
        if len(rows) == config.batch_size:
            views = augment(images.images[rows].to(device), generator)
            found.append(sharpness(loss, network(views[0]), network(views[1])))
    return [
        Metric(name, statistics.fmean(getattr(s, name) for s in found), "train") for name in NAMES
    ]
