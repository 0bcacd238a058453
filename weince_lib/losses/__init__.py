"""InfoNCE and WEINCE, the tail evidence that blends them, and the parts of a gain one by one.

The way of a batch, from ``WEINCELoss(...)(z0, z1)`` to its gradient:

==============  =================================================================================
``weince``      the module and the function, with the settings of the tail
``infonce``     what all losses of embeddings share: keywords, base of the modules, the driver
``candidates``  from ``z0`` and ``z1`` to unit rows, anchors, candidates and positives
``passes``      the two passes, and between them the blend weights of all anchors
``evidence``    the first: fits of every tail, blend weights, presets
``streaming``   the second: loss and gradient over blocks of anchors
==============  =================================================================================

``link`` is the family of logits that joins InfoNCE to the endpoint link, ``endpoint`` its loss;
``self_setting`` has losses with nothing to tune, ``annealed`` one whose temperature falls during
training, ``rivals`` those of others.

Beside them stand ``dense`` (the same in plain operations, for explicit scores and as reference),
``ablation``, ``sharpness``, ``queue``, ``distributed``, ``monitor``, and the checks in
``arguments``.
"""

from .ablation import RELEASED, AblationLoss, AblationSettings, ReleasedLoss
from .annealed import AnnealedLoss
from .dense import (
    blended_logits,
    endpoint_from_scores,
    infonce_from_scores,
    weince_from_scores,
)
from .endpoint import EndpointLoss, endpoint_loss
from .evidence import PRESETS, TailEvidence, TailSettings, preset, tail_evidence
from .infonce import ContrastiveLoss, InfoNCELoss, infonce_loss
from .link import EndpointLink, endpoint_coordinate
from .monitor import TailMonitor
from .queue import NegativeQueue
from .rivals import ArctanhLoss, HardNegativeLoss
from .self_setting import RULES, SelfSettingLoss
from .sharpness import Sharpness, sharpness
from .weince import WEINCELoss, weince_loss

#: The losses that a run's config can name besides InfoNCE, WEINCE and the ablation, by that name.
#: A loss's own keywords are the config's ``options``.
LOSSES: dict[str, type[ContrastiveLoss]] = {
    "endpoint": EndpointLoss,
    "self-setting": SelfSettingLoss,
    "annealed": AnnealedLoss,
    "hard-negatives": HardNegativeLoss,
    "arctanh": ArctanhLoss,
}

__all__ = [
    "LOSSES",
    "PRESETS",
    "RELEASED",
    "RULES",
    "AblationLoss",
    "AblationSettings",
    "AnnealedLoss",
    "ArctanhLoss",
    "ContrastiveLoss",
    "EndpointLink",
    "EndpointLoss",
    "HardNegativeLoss",
    "InfoNCELoss",
    "NegativeQueue",
    "ReleasedLoss",
    "SelfSettingLoss",
    "Sharpness",
    "TailEvidence",
    "TailMonitor",
    "TailSettings",
    "WEINCELoss",
    "blended_logits",
    "endpoint_coordinate",
    "endpoint_from_scores",
    "endpoint_loss",
    "infonce_from_scores",
    "infonce_loss",
    "preset",
    "sharpness",
    "tail_evidence",
    "weince_from_scores",
    "weince_loss",
]
