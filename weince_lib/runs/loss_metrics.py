"""What a run's own loss does at the end of training: how sharp it is, how much it corrects."""

from __future__ import annotations

import copy
import math
import statistics

import torch
from torch import nn

from ..losses import LOSSES, sharpness
from ..losses.sharpness import KNOWN
from ..records.store import Metric
from ..training import epoch_generator
from ..vision import ImageSet, SimCLR, augmentation
from .config import VisionConfig

#: Batches looked at. Their entropies agree within about 1 %, so that eight are plenty.
BATCHES = 8
#: Names of the metrics.
NAMES = ("negative_entropy", "mean_lambda", "same_class_push")


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
        Of :data:`NAMES` those that the loss has, each the mean over :data:`BATCHES` batches, with
        split ``"train"``: ``negative_entropy`` (mean entropy of the gradient over negatives, in
        nats), ``mean_lambda``, and of :data:`~weince_lib.losses.LOSSES` ``same_class_push`` (share
        of the push on negatives that falls on the anchor's own class).
    """
    if not isinstance(loss, KNOWN):
        return []
    # The losses that were there before have records without the push on their own class.
    labelled = isinstance(loss, tuple(LOSSES.values())) and bool(images.classes)
    device = next(model.parameters()).device
    network = copy.deepcopy(model).train()
    augment = augmentation(config.dataset)
    generator = epoch_generator(config.seed, config.epochs, device)
    order = torch.randperm(len(images), generator=generator, device=device).cpu()
    found = []
    for rows in order.split(config.batch_size)[:BATCHES]:
        if len(rows) == config.batch_size:
            views = augment(images.images[rows].to(device), generator)
            labels = images.labels[rows] if labelled else None
            found.append(sharpness(loss, network(views[0]), network(views[1]), labels))
    means = {name: statistics.fmean(getattr(s, name) for s in found) for name in NAMES}
    return [Metric(name, mean, "train") for name, mean in means.items() if not math.isnan(mean)]
