"""What WEINCE would do with these embeddings: gates, lambda and gradient, batch by batch.

The loss reads tails and rho_0 within a batch, so its answer depends on the batch and not on the
whole set. Batches of the loss's size are drawn from the embeddings and read with the loss's own
code. For anchor i the gradient on negative j is, up to a factor common to all negatives,

    w_j = exp(l_j) ((1 - lambda_i) / tau + lambda_i beta_i / (1 - s_j)),    l_j as in Eq. (3.1),

whatever the positive is; InfoNCE is lambda_i = 0. Divided by its sum it says which negatives the
gradient goes to, and half the sum of absolute differences which part of it WEINCE sends elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..losses.evidence import PRESETS, TailEvidence, TailSettings, evidence_from_tail

#: Share of an anchor's negatives that count as the hardest.
HARDEST = 0.01
#: Presets that are asked.
_ASKED = ("paper", "calibrated")


@dataclass(frozen=True)
class Correction:
    """What one preset does, over the anchors of several batches.

    Shares and means over anchors have a standard error over batches; nan with one batch.

    Attributes:
        preset: ``"paper"`` or ``"calibrated"``.
        temperature: tau of the softmax coordinate.
        batches: batches drawn.
        views: rows per batch M.
        negatives: least number of negatives of an anchor in a batch.
        open_share: share of anchors with evidence, Delta AIC above the preset's margin.
        open_error: its standard error.
        lam: every anchor's lambda, shape ``(anchors,)``.
        lam_mean: mean lambda.
        lam_error: its standard error.
        corrected_share: share of anchors with lambda above 1/2.
        moved: mean part of an anchor's negative gradient that goes elsewhere than with InfoNCE.
        moved_error: its standard error.
        hardest_infonce: mean part of the gradient on the hardest 1 % of negatives, InfoNCE.
        hardest_weince: the same, WEINCE.
    """

    preset: str
    temperature: float
    batches: int
    views: int
    negatives: int
    open_share: float
    open_error: float
    lam: np.ndarray
    lam_mean: float
    lam_error: float
    corrected_share: float
    moved: float
    moved_error: float
    hardest_infonce: float
    hardest_weince: float


def corrections(
    embeddings: np.ndarray,
    *,
    pairs: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    batch_size: int = 256,
    batches: int = 32,
    temperature: float = 0.5,
    seed: int = 0,
) -> list[Correction]:
    """Draw batches and read what WEINCE would do in them, with the paper's and calibrated settings.

    Args:
        embeddings: checked, shape ``(n, d)``.
        pairs: positive pairs, shape ``(p, 2)``; a batch is made of pairs. Without them it is made
            of rows, none of which is anyone's positive.
        labels: codes, shape ``(n,)``; rows of an anchor's label are left out of its negatives.
        batch_size: pairs per batch N; 2N rows. 256 is the paper's. Small sets make smaller batches.
        batches: at most so many, without a row in common; 32 as in the paper's banks.
        temperature: 0.5 is the paper's for images; 0.05 for text.
        seed: of the draws.

    Raises:
        ValueError: if a batch has an anchor without enough negatives for a tail.
    """
    drawn = _draw(len(embeddings), pairs, batch_size, batches, np.random.default_rng(seed))
    readings: dict[str, list[dict[str, np.ndarray]]] = {name: [] for name in _ASKED}
    least = len(embeddings)
    for rows, halves in drawn:
        delta = _shortfalls(embeddings, rows)
        excluded = torch.eye(len(rows), dtype=torch.bool)
        if halves:
            n = len(rows) // 2
            excluded |= torch.eye(n, dtype=torch.bool).repeat(2, 2)
        if labels is not None:
            own = torch.from_numpy(labels[rows])
            excluded |= own[:, None] == own
        delta[excluded] = torch.inf
        least = min(least, int((~excluded).sum(dim=1).min()))
        if least < 4:
            raise ValueError(
                f"an anchor has {least} negatives in a batch of {len(rows)} rows; a tail needs at "
                "least 4: give more rows, or labels with more classes"
            )
        for name in _ASKED:
            readings[name].append(_read(delta, PRESETS[name], temperature))
    found = []
    for name in _ASKED:
        means = {k: [float(r[k].mean()) for r in readings[name]] for k in readings[name][0]}
        lam = np.concatenate([r["lam"] for r in readings[name]])
        found.append(
            Correction(
                preset=name,
                temperature=temperature,
                batches=len(drawn),
                views=len(drawn[0][0]),
                negatives=least,
                open_share=float(np.mean(means["open"])),
                open_error=_error(means["open"]),
                lam=lam,
                lam_mean=float(np.mean(means["lam"])),
                lam_error=_error(means["lam"]),
                corrected_share=float((lam > 0.5).mean()),
                moved=float(np.mean(means["moved"])),
                moved_error=_error(means["moved"]),
                hardest_infonce=float(np.mean(means["hardest_infonce"])),
                hardest_weince=float(np.mean(means["hardest_weince"])),
            )
        )
    return found


def gradient_shares(delta: Tensor, lam: Tensor, beta: Tensor, temperature: float) -> Tensor:
    """Which negatives the gradient goes to, w_j / sum w (see the module).

    Args:
        delta: shortfalls, infinite for what is no negative, shape ``(M, C)``.
        lam: blend weight, shape ``(M,)``.
        beta: tail index, shape ``(M,)``.
        temperature: tau.

    Returns:
        Shape ``(M, C)``; each row sums to 1.
    """
    lam, beta = lam[:, None], beta[:, None]
    logit = (1.0 - lam) * (1.0 - delta) / temperature - lam * beta * torch.log(delta)
    logit = torch.where(torch.isfinite(delta), logit, -torch.inf)
    slope = (1.0 - lam) / temperature + lam * beta / delta
    weight = torch.exp(logit - logit.amax(dim=1, keepdim=True)) * slope
    return weight / weight.sum(dim=1, keepdim=True)


def _read(delta: Tensor, settings: TailSettings, temperature: float) -> dict[str, np.ndarray]:
    delta = delta.clamp_min(settings.floor)
    negatives = torch.isfinite(delta).sum(dim=1)
    k = min(settings.tail_size(int(negatives.median())), int(negatives.min()) - 1)
    smallest = delta.topk(k + 1, dim=1, largest=False, sorted=True).values
    evidence: TailEvidence = evidence_from_tail(smallest, k, settings)
    weince = gradient_shares(delta, evidence.lam, evidence.beta, temperature)
    zero = torch.zeros_like(evidence.lam)
    infonce = gradient_shares(delta, zero, zero, temperature)
    hardest = delta.topk(max(1, round(HARDEST * int(negatives.min()))), dim=1, largest=False)
    return {
        "open": (evidence.delta_aic > settings.evidence_margin).double().numpy(),
        "lam": evidence.lam.numpy(),
        "moved": 0.5 * (weince - infonce).abs().sum(dim=1).numpy(),
        "hardest_infonce": infonce.gather(1, hardest.indices).sum(dim=1).numpy(),
        "hardest_weince": weince.gather(1, hardest.indices).sum(dim=1).numpy(),
    }


def _draw(
    n: int,
    pairs: np.ndarray | None,
    batch_size: int,
    batches: int,
    rng: np.random.Generator,
) -> list[tuple[np.ndarray, bool]]:
    """Rows of each batch, and whether they are two halves of positive pairs.

    Batches share no row, so that they are independent and their spread gives an error.
    """
    if pairs is None:
        size = min(2 * batch_size, n)
        order = rng.permutation(n)
        count = min(batches, n // size)
        return [(order[k * size : (k + 1) * size], False) for k in range(count)]
    used = np.zeros(n, dtype=bool)
    chosen = []
    for i, j in pairs[rng.permutation(len(pairs))].tolist():
        if used[i] or used[j]:  # a row of several pairs is there once
            continue
        used[[i, j]] = True
        chosen.append((i, j))
        if len(chosen) == batches * batch_size:
            break
    size = min(batch_size, len(chosen))
    ends = np.array(chosen)
    return [(ends[k * size : (k + 1) * size].T.ravel(), True) for k in range(len(chosen) // size)]


def _shortfalls(embeddings: np.ndarray, rows: np.ndarray) -> Tensor:
    order = np.argsort(rows)
    z = np.empty((len(rows), embeddings.shape[1]))
    z[order] = embeddings[rows[order]]
    unit = torch.from_numpy(z / np.linalg.norm(z, axis=1, keepdims=True))
    return (1.0 - unit @ unit.T).clamp_min(0.0)


def _error(per_batch: list[float]) -> float:
    if len(per_batch) < 2:
        return math.nan
    return float(np.std(per_batch, ddof=1) / math.sqrt(len(per_batch)))
