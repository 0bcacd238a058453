"""Whether a profile that is sized for a GPU has one."""

from __future__ import annotations

import torch

from .config import ConfigError


def require_gpu(profile: str) -> None:
    """Stop before a run of hours starts on a processor that would take days.

    Args:
        profile: nothing is asked of any but ``colab``.

    Raises:
        ConfigError: in ``colab`` without a CUDA device.
    """
    if profile == "colab" and not torch.cuda.is_available():
        raise ConfigError("no GPU here; choose one under Runtime > Change runtime type")
