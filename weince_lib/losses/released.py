"""The whole objective of the release's WEINCE training script.

    L = WEINCE with beta = 1  +  0.5 * Weibit over the 50 hardest negatives
                              +  0.5 * softmax over the same 50,

where the paper describes the first term alone, with a fitted beta_i, and the release's InfoNCE
script trains with InfoNCE alone. Facts about the release are those this project's audit lists;
where they leave something open (the rounding of a tail's size, whether a batch's fit of beta counts
in its own loss), the choice is named where it is made.
"""

from __future__ import annotations

from .ablation import AblationLoss, AblationSettings
from .presets import preset

#: What the release's script trains with.
RELEASED = AblationSettings(tail=preset("release"), softmax_weight=0.5, weibit_weight=0.5)


class ReleasedLoss(AblationLoss):
    """The release's training objective: ``ReleasedLoss(0.5)(z0, z1)``.

    It keeps the running tail index of its Weibit term as a buffer; see
    :class:`~weince_lib.losses.hard_negatives.BatchTailIndex`.

    Args:
        temperature: tau; 0.5 for images in the release.
        validate: look for zero and non-finite rows, on a CPU only.

    Raises:
        ValueError: for a temperature that is no positive number.
    """

    def __init__(self, temperature: float = 0.5, *, validate: bool = True) -> None:
        super().__init__(temperature, RELEASED, validate=validate)
