"""The losses that a run's config can name besides InfoNCE, WEINCE and the ablation."""

from .endpoint import EndpointLoss
from .infonce import ContrastiveLoss
from .rivals import ArctanhLoss, HardNegativeLoss
from .self_setting import SelfSettingLoss

#: By the name in a config. The loss's own keywords are the config's ``options``.
LOSSES: dict[str, type[ContrastiveLoss]] = {
    "endpoint": EndpointLoss,
    "self-setting": SelfSettingLoss,
    "hard-negatives": HardNegativeLoss,
    "arctanh": ArctanhLoss,
}
