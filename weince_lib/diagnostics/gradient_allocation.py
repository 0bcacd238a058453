"""Where a loss puts its gradient, and where positives lose (paper C.2, Figure 6).

Freeze an encoder, draw many random sets of K negatives for each anchor, and compare two things over
the cosine of the negative: how often a negative there beats the positive (risk), and how much of
the loss's gradient negatives there receive. For a softmax fitted to the winners both would agree,
as its gradient is the probability that a negative wins, over tau.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from scipy import special

from ..evaluation import Interval
from ..losses import TailSettings
from ..losses.evidence import evidence_from_tail
from .choice_bank import Array, ChoiceBank
from .link_fit import FLOOR

#: Bins of cosine: fine ones for distances along the axis, ten times wider ones for what is drawn.
FINE = np.linspace(-1.0, 1.0, 201)
COARSE = FINE[::10]

Distance = Literal["total variation", "wasserstein"]


@dataclass(frozen=True)
class Subsets:
    """Random sets of K negatives for each anchor.

    Attributes:
        positive: cosine of each anchor's positive, shape ``(anchors,)``.
        negatives: shape ``(anchors, draws, K)``.
    """

    positive: Array
    negatives: Array


def draw_subsets(choices: ChoiceBank, size: int, draws: int, *, seed: int = 0) -> Subsets:
    """Draw sets of ``size`` negatives without replacement, ``draws`` for each anchor.

    Negatives at cosine 1 are the anchor's own item once more and are not drawn.

    Args:
        choices: of one large batch; about 1,536 negatives in the paper.
        size: K.
        draws: sets per anchor.
        seed: of the draws.

    Raises:
        ValueError: if there are not so many negatives, or not so many of some anchor's are no
            duplicates of it.
    """
    flat = choices.scores.reshape(-1, choices.scores.shape[-1])
    available = flat.shape[1] - 1
    identical = choices.identical.reshape(-1, available)
    if not 1 <= size <= available:
        raise ValueError(f"size must lie between 1 and the {available} negatives, got {size}")
    if (most := int(identical.sum(axis=1).max())) > available - size:
        raise ValueError(
            f"{most} of the {available} negatives of an anchor are at cosine 1, duplicates of it, "
            f"which leaves too few for sets of {size}; remove repeated items"
        )
    generator = np.random.default_rng(seed)
    chosen = np.empty((len(flat), draws, size))
    for draw in range(draws):
        # The places of the smallest of independent uniforms are a set drawn without replacement.
        keys = generator.random((len(flat), available), dtype=np.float32)
        keys[identical] = 2.0  # behind all others
        places = np.argpartition(keys, size - 1, axis=1)[:, :size]
        chosen[:, draw] = np.take_along_axis(flat[:, 1:], places, axis=1)
    return Subsets(flat[:, 0].copy(), chosen)


def culprits(subsets: Subsets) -> Array:
    """Cosine of the negative that beat the positive, NaN where none did, ``(anchors, draws)``."""
    best = subsets.negatives.max(axis=-1)
    return np.where(best > subsets.positive[:, None], best, np.nan)


def exact_risk(choices: ChoiceBank, size: int, edges: Array = COARSE) -> Array:
    """Expected number of lost draws per anchor and bin, over all sets of ``size`` negatives.

    The j-th most similar of n negatives is the best of a random set of K with probability
    C(n - j, K - 1) / C(n, K).

    Returns:
        Shape ``(anchors, bins)``; a row sums to the probability that the positive loses.
    """
    flat = choices.scores.reshape(-1, choices.scores.shape[-1])
    identical = choices.identical.reshape(len(flat), -1)
    # Duplicates of the anchor are in no set; at cosine -1 they come last.
    ranked = -np.sort(-np.where(identical, -1.0, flat[:, 1:]), axis=1)
    n = ranked.shape[1] - identical.sum(axis=1, keepdims=True)
    left = n - np.arange(1, ranked.shape[1] + 1)
    log_choose = special.gammaln(n + 1) - special.gammaln(size + 1) - special.gammaln(n - size + 1)
    with np.errstate(invalid="ignore"):
        log_p = (
            special.gammaln(left + 1)
            - special.gammaln(size)
            - special.gammaln(np.maximum(left - size + 2, 1))
            - log_choose
        )
    p = np.where(left >= size - 1, np.exp(log_p), 0.0)
    return histogram(ranked, np.where(ranked > flat[:, :1], p, 0.0), edges)


#: Maps subsets to lambda and beta, each of shape ``(anchors, draws)`` or a scalar.
Blend = Callable[[Subsets], tuple[Array | float, Array | float]]


@dataclass(frozen=True)
class LossGradient:
    """A loss of the paper's family: logits (1 - lambda) s / tau - lambda beta log(1 - s).

    Attributes:
        temperature: tau; of no effect where lambda is 1.
        blend: gives lambda and beta.
    """

    temperature: float
    blend: Blend

    def on_negatives(self, subsets: Subsets) -> Array:
        """|dL / ds_j| = p_j ((1 - lambda) / tau + lambda beta / (1 - s_j)), one anchor's loss.

        Returns:
            Shape ``(anchors, draws, K)``, nats per unit of cosine.
        """
        lam, beta = (np.asarray(x, dtype=np.float64)[..., None] for x in self.blend(subsets))
        scale = (1.0 - lam) / self.temperature
        shortfall = np.maximum(1.0 - subsets.negatives, FLOOR)
        logits = scale * subsets.negatives - lam * beta * np.log(shortfall)
        positive = subsets.positive[:, None, None]
        winner = scale * positive - lam * beta * np.log(np.maximum(1.0 - positive, FLOOR))
        shift = np.maximum(logits.max(axis=-1, keepdims=True), winner)
        p = np.exp(logits - shift)
        p /= p.sum(axis=-1, keepdims=True) + np.exp(winner - shift)
        return np.asarray(p * (scale + lam * beta / shortfall))


def infonce(temperature: float = 0.5) -> LossGradient:
    """InfoNCE; 0.5 is the paper's training temperature."""
    return LossGradient(temperature, lambda _: (0.0, 0.0))


def weibit(beta: float = 1.0) -> LossGradient:
    """The pure shortfall loss. The paper gives no beta for its Figure 6; 1 is the release's."""
    return LossGradient(1.0, lambda _: (1.0, beta))


def weince(settings: TailSettings, temperature: float = 0.5) -> LossGradient:
    """WEINCE; one draw of all anchors is a batch, whose tails give lambda and beta."""

    def blend(subsets: Subsets) -> tuple[Array, Array]:
        anchors, draws, size = subsets.negatives.shape
        k = settings.tail_size(size)
        lam, beta = np.empty((anchors, draws)), np.empty((anchors, draws))
        for draw in range(draws):
            delta = torch.from_numpy(1.0 - subsets.negatives[:, draw]).clamp_min(settings.floor)
            smallest = delta.topk(min(k + 1, size), dim=1, largest=False, sorted=True).values
            evidence = evidence_from_tail(smallest, k, settings)
            lam[:, draw], beta[:, draw] = evidence.lam.numpy(), evidence.beta.numpy()
        return lam, beta

    return LossGradient(temperature, blend)


def histogram(values: Array, weights: Array, edges: Array = FINE) -> Array:
    """Weight in each bin of cosine, anchor by anchor.

    Args:
        values: cosines, shape ``(anchors, ...)``; NaN is left out.
        weights: the same shape.
        edges: of the bins, ascending; values beyond them count in the outer bins.

    Returns:
        Shape ``(anchors, bins)``.
    """
    anchors, bins = len(values), len(edges) - 1
    flat, mass = values.reshape(anchors, -1), weights.reshape(anchors, -1)
    known = ~np.isnan(flat)
    place = np.clip(
        np.searchsorted(edges, np.where(known, flat, 0.0), side="right") - 1, 0, bins - 1
    )
    place += bins * np.arange(anchors)[:, None]
    total = np.bincount(place.ravel(), np.where(known, mass, 0.0).ravel(), minlength=anchors * bins)
    return np.asarray(total.reshape(anchors, bins), dtype=np.float64)


@dataclass(frozen=True)
class Allocation:
    """Risk and gradients of several losses over bins of cosine, for one K.

    Attributes:
        size: K.
        lost: share of draws in which a negative beat the positive.
        risk: lost draws, shape ``(anchors, bins)``, bins :data:`FINE`.
        gradient: by loss, summed |dL / ds_j|, the same shape.
        fitted_temperature: of the softmax that explains the winners best, where it was fitted.
    """

    size: int
    lost: float
    risk: Array
    gradient: Mapping[str, Array]
    fitted_temperature: float = math.nan

    def shares(self) -> dict[str, Array]:
        """Share of the risk and of each loss's gradient in each of the :data:`COARSE` bins."""
        sums = {"risk": self.risk} | dict(self.gradient)
        return {
            name: (h.sum(axis=0) / h.sum()).reshape(len(COARSE) - 1, -1).sum(axis=1)
            for name, h in sums.items()
        }

    def distance(
        self,
        loss: str,
        measure: Distance = "total variation",
        *,
        over: str = "",
        repetitions: int = 499,
        seed: int = 0,
    ) -> Interval:
        """Distance between a loss's gradient and the risk, with a bootstrap over anchors.

        The anchors are the units; they share one bank of negatives and one encoder.

        Args:
            loss: a key of ``gradient``.
            measure: ``"total variation"`` over :data:`COARSE` bins, between 0 and 1 (the share of
                gradient that lies in the wrong bins), or ``"wasserstein"``, in units of cosine
                (how far it lies from where it should).
            over: another loss: the difference of its distance and this one's, positive where
                ``loss`` is nearer the risk.
            repetitions: of the bootstrap.
            seed: of the bootstrap.
        """
        anchors = len(self.risk)
        draw = np.random.default_rng(seed)
        # The first row is the sample itself.
        counts = np.vstack(
            [
                np.ones(anchors),
                draw.multinomial(anchors, np.full(anchors, 1 / anchors), repetitions),
            ]
        )
        risk = counts @ self.risk
        value = distance(counts @ self.gradient[loss], risk, measure)
        if over:
            value = distance(counts @ self.gradient[over], risk, measure) - value
        low, high = np.quantile(value[1:], (0.025, 0.975))
        return Interval(float(value[0]), float(low), float(high), anchors)

    def below_risk(self, loss: str, share: float = 0.05) -> float:
        """Share of a loss's gradient below the cosine that all but ``share`` of the risk is above.

        A loss that follows the risk puts ``share`` there.
        """
        risk = np.cumsum(self.risk.sum(axis=0))
        gradient = np.concatenate([[0.0], np.cumsum(self.gradient[loss].sum(axis=0))])
        at = np.interp(share, np.concatenate([[0.0], risk / risk[-1]]), FINE)
        return float(np.interp(at, FINE, gradient / gradient[-1]))


def distance(first: Array, second: Array, measure: Distance = "total variation") -> Array:
    """Distance between rows of histograms over :data:`FINE`, each normalised to 1.

    Raises:
        ValueError: for an unknown measure.
    """
    if measure not in get_args(Distance):
        raise ValueError(f"unknown distance {measure!r}; known: {', '.join(get_args(Distance))}")
    p, q = (x / x.sum(axis=-1, keepdims=True) for x in (first, second))
    if measure == "wasserstein":
        width = FINE[1] - FINE[0]
        return np.asarray(width * np.abs(np.cumsum(p - q, axis=-1)).sum(axis=-1))
    wide = (p - q).reshape(*p.shape[:-1], len(COARSE) - 1, -1).sum(axis=-1)
    return np.asarray(0.5 * np.abs(wide).sum(axis=-1))


def allocate(
    subsets: Subsets,
    losses: Mapping[str, LossGradient],
    *,
    fitted_temperature: float = math.nan,
) -> Allocation:
    """Risk and gradients on the same subsets.

    Args:
        subsets: of :func:`draw_subsets`.
        losses: by name.
        fitted_temperature: kept with the result.

    Raises:
        ValueError: if no negative beats its positive in any draw: there is no risk to compare with.
    """
    lost = culprits(subsets)
    failed = np.isfinite(lost)
    if not failed.any():
        raise ValueError("no negative beats its positive in any draw; use more negatives")
    gradient = {
        name: histogram(subsets.negatives, loss.on_negatives(subsets))
        for name, loss in losses.items()
    }
    risk = histogram(lost, np.ones_like(lost))
    return Allocation(
        subsets.negatives.shape[-1], float(failed.mean()), risk, gradient, fitted_temperature
    )


def distance_curve(
    subsets: Subsets, family: Callable[[float], LossGradient], values: Sequence[float]
) -> list[float]:
    """Total variation between gradient and risk over temperatures (or tail indices).

    Args:
        subsets: of :func:`draw_subsets`.
        family: :func:`infonce` or :func:`weibit`.
        values: of its setting.
    """
    risk = allocate(subsets, {}).risk.sum(axis=0)
    return [
        float(distance(histogram(subsets.negatives, g).sum(axis=0), risk))
        for g in (family(value).on_negatives(subsets) for value in values)
    ]
