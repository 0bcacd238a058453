"""How sure a link's gain is: tests and intervals with whole batches as units (paper D.5).

Anchors of a batch share their candidates, so that a test over anchors would count the same
evidence many times. Batches are the units here; they in turn share one encoder (and, drawn from one
data set, images), so that all of this speaks about that encoder. Over encoders, use the t-interval
of :func:`weince_lib.evaluation.t_interval` with one number per encoder seed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from ..checks import check_at_least, check_values
from ..evaluation import Interval, t_interval
from .choice_bank import Array, ChoiceBank
from .link_fit import Design, LinkFit, fit_link
from .log_partition import LogPartition

#: Up to so many batches all 2^G signs are gone through; beyond, they are drawn.
MAX_ENUMERATED = 12


@dataclass(frozen=True)
class GainTest:
    """The mean held-out gain of one link over another.

    Attributes:
        per_batch: mean gain of each held-out batch, nats per anchor, shape ``(batches,)``.
        interval: mean with its t-interval over batches.
        bootstrap: mean with the percentile interval of a bootstrap over batches, as in the paper.
        p_t: one-sided p of the t-test on batch means, t with G - 1 degrees of freedom.
        p_wild: the same by a wild bootstrap-t, for few batches.
    """

    per_batch: Array
    interval: Interval
    bootstrap: Interval
    p_t: float
    p_wild: float

    @property
    def ratio(self) -> Interval:
        """Exp of the mean gain: the geometric mean ratio of the winners' probabilities."""
        i = self.interval
        return Interval(math.exp(i.mean), math.exp(i.low), math.exp(i.high), i.n)


def gain_test(per_batch: npt.ArrayLike, *, repetitions: int = 1999, seed: int = 0) -> GainTest:
    """Test "no gain" against "some gain" on batch means.

    Args:
        per_batch: mean gain of each batch, shape ``(batches,)``.
        repetitions: of the bootstraps; p-values are multiples of 1 / (repetitions + 1).
        seed: of the bootstraps.

    Raises:
        ValueError: for fewer than two batches, or values that are not finite.
    """
    gains = check_values(per_batch, "per_batch")
    check_at_least("batches of a test", len(gains), 2)
    draw = np.random.default_rng(seed)
    resampled = draw.choice(gains, size=(repetitions, len(gains))).mean(axis=1)
    low, high = np.quantile(resampled, (0.025, 0.975))
    mean = float(gains.mean())
    return GainTest(
        gains,
        t_interval(gains.tolist()),
        Interval(mean, float(low), float(high), len(gains)),
        _p_t(gains),
        wild_bootstrap_p(gains, repetitions=repetitions, seed=seed + 1),
    )


def _p_t(gains: Array) -> float:
    if np.ptp(gains) == 0.0:  # H1 fitted to be H0: every gain is 0
        return 1.0 if gains[0] <= 0.0 else 0.0
    return float(stats.ttest_1samp(gains, 0.0, alternative="greater").pvalue)


def wild_bootstrap_p(gains: npt.ArrayLike, *, repetitions: int = 1999, seed: int = 0) -> float:
    """One-sided p of a wild bootstrap-t of the mean, with Rademacher signs and the null imposed.

    Each batch's mean keeps its size and gets a random sign (Cameron, Gelbach and Miller 2008,
    Review of Economics and Statistics 90, 414-427). With up to 12 batches all 2^G signs are taken
    and the p-value is that of an exact sign-flip test; it cannot be below 2^-G. Beyond, signs are
    drawn and p = (b + 1) / (B + 1).

    Args:
        gains: batch means, shape ``(batches,)``.
        repetitions: B.
        seed: of the signs.
    """
    x = np.asarray(gains, dtype=np.float64)
    count = len(x)
    exact = count <= MAX_ENUMERATED
    if exact:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=count)))
    else:
        signs = np.random.default_rng(seed).choice((1.0, -1.0), size=(repetitions, count))
    observed = _t(x[None])[0]
    # Rounding must not make a sign pattern beat itself.
    beyond = int((_t(signs * x) >= observed - 1e-9 * abs(observed)).sum())
    return beyond / len(signs) if exact else (beyond + 1) / (len(signs) + 1)


def _t(x: Array) -> Array:
    """T statistics of the rows; 0 for rows of zeros, infinite for equal entries."""
    mean, spread = x.mean(axis=1), x.std(axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = mean * math.sqrt(x.shape[1]) / spread
    return np.where(mean == 0.0, 0.0, t)


@dataclass(frozen=True)
class RatioTest:
    """The likelihood-ratio test of H0 (softmax) inside H1 (blend), for independent anchors.

    Attributes:
        statistic: 2 (l_1 - l_0).
        p_boundary: from 1/2 chi2_0 + 1/2 chi2_1, right at the boundary lambda = 0 (Self and Liang
            1987).
        p_bootstrap: (b + 1) / (B + 1) of a parametric bootstrap; NaN where none was made.
        simulated: its B statistics, empty where none was made.
    """

    statistic: float
    p_boundary: float
    p_bootstrap: float
    simulated: Array


def boundary_p(statistic: float) -> float:
    """p-value of a likelihood ratio at the boundary, from 1/2 chi2_0 + 1/2 chi2_1.

    The 5 % point is 2.706.
    """
    return 1.0 if statistic <= 0.0 else 0.5 * float(stats.chi2.sf(statistic, df=1))


def likelihood_ratio(bank: ChoiceBank, *, repetitions: int = 199, seed: int = 0) -> RatioTest:
    """Likelihood-ratio test of H0, with its parametric bootstrap (paper D.5).

    Both p-values take anchors as independent and H0's link as exactly true: they test the link's
    form in this bank. That anchors of a batch share candidates is fine here, as the scores are
    held fixed and only the winners are random.

    Args:
        bank: the choices.
        repetitions: B of the bootstrap; 0 leaves it out.
        seed: of its winners.
    """
    design = Design(bank, ("identity", "shortfall"))
    h0 = fit_link(design.only((0,)))
    h1 = fit_link(design, np.array([h0.theta[0], 0.1]))
    statistic = max(0.0, 2.0 * (h1.log_likelihood - h0.log_likelihood))
    simulated = np.empty(0)
    p_bootstrap = math.nan
    if repetitions:
        simulated = simulated_ratios(bank, h0, repetitions=repetitions, seed=seed)
        beyond = int((simulated >= statistic).sum())
        p_bootstrap = (beyond + 1) / (repetitions + 1)
    return RatioTest(
        statistic,
        boundary_p(statistic),
        p_bootstrap,
        simulated,
    )


def simulated_ratios(
    bank: ChoiceBank, h0: LinkFit, *, repetitions: int = 199, seed: int = 0
) -> Array:
    """Likelihood ratios of winners simulated from the fitted softmax, scores held fixed.

    The log-likelihood of a set of winners is theta . (sums of the winners' coordinates) minus a
    log-partition function that does not depend on them. That function is tabulated once around the
    softmax fit, so that a repetition costs nothing beyond its winners.

    Args:
        bank: the choices.
        h0: the softmax fitted to it.
        repetitions: number of simulated sets of winners.
        seed: of the winners.

    Returns:
        Statistics 2 (l_1 - l_0), shape ``(repetitions,)``.
    """
    partition = LogPartition.around(bank, np.array([h0.theta[0], 0.0]))
    sums = simulate_sums(bank, h0.theta[0], repetitions=repetitions, seed=seed)
    both = partition.maximise(sums)
    softmax = partition.maximise(sums, free=(True, False))
    return np.maximum(0.0, 2.0 * (both.value - softmax.value)) * bank.anchors


def simulate_sums(
    bank: ChoiceBank, inverse_temperature: float, *, repetitions: int, seed: int
) -> Array:
    """Mean coordinates (s, -log(1 - s)) of winners drawn from a softmax.

    Returns:
        Shape ``(repetitions, 2)``, means over all anchors.
    """
    draw = np.random.default_rng(seed)
    x = LogPartition.coordinates(bank)
    identical = bank.identical.reshape(len(x[0]), -1)
    sums = np.zeros((repetitions, 2))
    for row in range(len(x[0])):
        logits = inverse_temperature * x[0][row]
        weights = np.exp(logits - logits.max())
        weights[1:][identical[row]] = 0.0  # no candidates
        cumulative = np.cumsum(weights)
        uniform = draw.random(repetitions) * cumulative[-1]
        winners = np.minimum(np.searchsorted(cumulative, uniform), len(logits) - 1)
        sums[:, 0] += x[0][row][winners]
        sums[:, 1] += x[1][row][winners]
    return sums / bank.anchors


def bootstrap_blend(
    bank: ChoiceBank, *, repetitions: int = 999, confidence: float = 0.95, seed: int = 0
) -> Interval:
    """Lambda of H1 with the percentile interval of a bootstrap over batches.

    Args:
        bank: the choices H1 is fitted to.
        repetitions: resamples of whole batches.
        confidence: nominal level; with fewer than ten batches percentile intervals are too short.
        seed: of the resampling.
    """
    h1 = fit_link(Design(bank, ("identity", "shortfall")))
    partition = LogPartition.around(bank, h1.theta, clusters=True)
    draw = np.random.default_rng(seed)
    counts = draw.multinomial(bank.batches, np.full(bank.batches, 1 / bank.batches), repetitions)
    weights = counts / bank.batches
    found = partition.maximise(weights @ partition.batch_sums, weights=weights)
    lam = found.theta[:, 1] / found.theta.sum(axis=1)
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(lam, (tail, 100.0 - tail))
    return Interval(float(h1.blend[1]), float(low), float(high), bank.batches)
