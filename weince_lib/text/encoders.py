"""Sentence encoders with one interface: ``encoder(input_ids, attention_mask)`` -> ``(n, d)``.

``static``: the mean of word embeddings. ``transformer``: any model of ``transformers``. ``tiny``: a
transformer small enough to train from scratch in seconds. In training mode dropout makes two
passes of one sentence differ, which is the only augmentation (Gao et al. 2021, SimCSE).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import MissingPackageError, one_line
from .weights import ModelFolderError, checked_folder, read_weights, weights_file

Pooling = Literal["cls", "mean"]


def masked_mean(hidden: Tensor, attention_mask: Tensor) -> Tensor:
    """Mean of token states ``(n, length, d)`` where the mask ``(n, length)`` is 1, not 0."""
    weights = attention_mask.to(hidden.dtype)[..., None]
    return (hidden * weights).sum(1) / weights.sum(1).clamp_min(1.0)


class StaticEncoder(nn.Module):
    """The mean of a sentence's word embeddings.

    In training a token is left out of the mean with probability ``token_dropout``, and the others
    are scaled by 1 / (1 - p). Dropout of single coordinates would need a tensor
    ``(n, length, d)``, which ``embedding_bag`` never makes.

    Args:
        embeddings: initial word embeddings, shape ``(vocabulary, d)``; all are trained.
        token_dropout: probability of leaving a token out. Sentences are short, so that a half
            leaves about six tokens of a gloss's twelve in each view.
    """

    def __init__(self, embeddings: Tensor, token_dropout: float = 0.5) -> None:
        super().__init__()
        if not 0.0 <= token_dropout < 1.0:
            raise ValueError(f"token_dropout must lie in [0, 1), got {token_dropout}")
        self.words = nn.Parameter(embeddings.detach().float().clone())
        self.token_dropout = token_dropout
        self.feature_dim = embeddings.shape[1]

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Encode ``(n, length)`` token ids to ``(n, d)``."""
        there = attention_mask.to(self.words.dtype)
        weights = F.dropout(there, self.token_dropout, self.training)
        # A sentence that lost all of its tokens has no direction; it keeps them all instead.
        weights = torch.where(weights.sum(1, keepdim=True) > 0, weights, there)
        weights = weights / there.sum(1, keepdim=True).clamp_min(1.0)
        return F.embedding_bag(
            input_ids, self.words, per_sample_weights=weights.to(self.words.dtype), mode="sum"
        )


class TransformerEncoder(nn.Module):
    """A model of ``transformers`` and a pooling of its last hidden states.

    Args:
        model: takes ``input_ids`` and ``attention_mask``, gives ``last_hidden_state``.
        pooling: ``"cls"``, the first token's state, or ``"mean"`` over tokens.
    """

    def __init__(self, model: nn.Module, pooling: Pooling = "cls") -> None:
        super().__init__()
        if pooling not in ("cls", "mean"):
            raise ValueError(f"unknown pooling {pooling!r}; known: cls, mean")
        self.model = model
        self.pooling = pooling
        self.feature_dim = int(cast(Any, model).config.hidden_size)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Encode ``(n, length)`` token ids to ``(n, d)``."""
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return hidden[:, 0] if self.pooling == "cls" else masked_mean(hidden, attention_mask)


class TinyTransformer(nn.Module):
    """A transformer of two layers with mean pooling, trained from scratch.

    ``vocabulary`` and ``max_length`` count tokens, ``width`` is a multiple of ``heads``, and the
    dropout of 0.1 is SimCSE's.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
        max_length: int = 32,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(0.02 * torch.randn(max_length, width))
        self.dropout = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.feature_dim = width

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Encode ``(n, length)`` token ids to ``(n, width)``."""
        states = self.words(input_ids) + self.places[: input_ids.shape[1]]
        padding = attention_mask == 0
        states = self.layers(self.dropout(states), src_key_padding_mask=padding)
        return masked_mean(self.norm(states), attention_mask)


def load_transformer(folder: Path, *, pooling: Pooling = "cls") -> TransformerEncoder:
    """A transformer from a local folder; see :func:`.weights.model_folder` for one from the hub.

    Raises:
        MissingPackageError: without ``transformers``.
        ModelFolderError: for a folder without tokenizer or weights, and for weights or a
            configuration that cannot be read or do not belong together.
    """
    try:
        from transformers import AutoModel
        from transformers.utils import logging
    except ImportError as error:
        raise MissingPackageError("transformers is not installed; pip install transformers") from (
            error
        )
    checked_folder(folder)
    path = weights_file(folder)
    if path.suffix != ".safetensors":
        read_weights(path)  # refuses a pickle that is more than weights
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model, report = AutoModel.from_pretrained(
            str(folder), local_files_only=True, output_loading_info=True
        )
    except Exception as error:  # transformers has no class of its own for what may be wrong here
        raise ModelFolderError(
            f"{folder}: transformers cannot load it ({one_line(error)[:200]}); save the model "
            "there anew with save_pretrained"
        ) from error
    finally:
        if bars:
            logging.enable_progress_bar()
    # What the file lacks has random values, and transformers only warns. A pooler is not used.
    lacking = sorted(name for name in report["missing_keys"] if "pooler" not in name)
    if lacking:
        raise ModelFolderError(
            f"{path} has no values for {len(lacking)} of the model's tensors, the first is "
            f"{lacking[0]}: these are another model's weights, or a part of them; copy the file "
            "that belongs to config.json"
        )
    # It comes in evaluation mode, other than every other new module.
    return TransformerEncoder(model.train(), pooling)
