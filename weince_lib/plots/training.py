"""Figures about image data and training runs."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from torch import Tensor

from .style import LOSS_COLOURS, LOSS_NAMES, PAGE_WIDTH, style


def training_history(history: Sequence[dict[str, float]], loss: str) -> Figure:
    """Loss per epoch, and for WEINCE the mean blend weight and the median tail index.

    Args:
        history: one row per epoch, as :func:`weince_lib.vision.train` returns it.
        loss: the loss's label, for its colour and name.
    """
    panels = [("loss", "loss (nats per anchor)")]
    if "lam" in history[0]:
        panels += [("lam", "mean λ over anchors"), ("beta", "median β̂ over anchors")]
    epochs = range(1, len(history) + 1)
    with style():
        figure, axes = plt.subplots(
            1, len(panels), figsize=(PAGE_WIDTH * len(panels) / 3, 2.2), squeeze=False
        )
        for panel, (name, label) in zip(axes[0], panels, strict=True):
            panel.plot(epochs, [row[name] for row in history], color=LOSS_COLOURS[loss])
            panel.set(xlabel="epoch", ylabel=label)
        figure.suptitle(LOSS_NAMES[loss], fontsize=9)
    return figure


def view_pairs(images: Tensor, views: tuple[Tensor, Tensor]) -> Figure:
    """Images above their two augmented views.

    Args:
        images: uint8, shape ``(n, C, H, W)``, one column each.
        views: two float batches in [0, 1] of the same shape.
    """
    rows = (("image", images.float() / 255), ("view 1", views[0]), ("view 2", views[1]))
    with style():
        figure, axes = plt.subplots(
            3, len(images), figsize=(PAGE_WIDTH, PAGE_WIDTH * 3 / len(images)), squeeze=False
        )
        for panels, (name, batch) in zip(axes, rows, strict=True):
            for panel, image in zip(panels, batch, strict=True):
                panel.imshow(
                    image.permute(1, 2, 0).squeeze(-1).numpy(), cmap="gray", vmin=0, vmax=1
                )
                panel.set(xticks=[], yticks=[])
                panel.grid(visible=False)
            panels[0].set_ylabel(name)
    return figure
