"""How sure a link's gain is: tests and intervals with whole batches as units (paper D.5).

Anchors of a batch share their candidates, so that a test over anchors would count the same
evidence many times. Batches are the units here; they in turn share one encoder (and, drawn from one
data set, images), so that all of this speaks about that encoder. Over encoders, use the t-interval
of :func:`weince_lib.evaluation.t_interval` with one number per encoder seed.

Tests and intervals by resampling need many refits of H1. For candidates with coordinates
x_j = (s_j, -log(1 - s_j)) the log-likelihood of winners is, per anchor,
theta . mean(x_winner) - A(theta) with A the mean of log sum_j exp(theta . x_j). Resampled or
simulated winners change the first term alone. A is smooth and convex; :class:`LogPartition`
tabulates it once, as a polynomial in two variables through Chebyshev points, in a box of some
standard errors along the axes in which the weights are uncorrelated. It agrees with A to many
digits (``tests/diagnostics`` compares refits with exact ones).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev
from scipy import stats

from ..checks import check_at_least, check_values
from ..evaluation import Interval, t_interval
from .choice_bank import Array, ChoiceBank
from .link_fit import BLEND, COORDINATES, Design, LinkFit, fit_link

#: Up to so many batches all 2^G signs are gone through; beyond, they are drawn.
MAX_ENUMERATED = 12
#: Of the tabulated log-partition: degree in either variable, half-width of the box in standard
#: errors, and most Newton steps of a refit.
DEGREE = 7
REACH = 6.0
STEPS = 60


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
        p_bootstrap: (b + 1) / (B + 1) of a parametric bootstrap.
        simulated: its B statistics.
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
        repetitions: B of the bootstrap.
        seed: of its winners.
    """
    design = Design(bank, BLEND)
    h0 = fit_link(design.only((0,)))
    h1 = fit_link(design, np.array([h0.theta[0], 0.1]))
    statistic = max(0.0, 2.0 * (h1.log_likelihood - h0.log_likelihood))
    simulated = simulated_ratios(bank, h0, repetitions=repetitions, seed=seed)
    beyond = int((simulated >= statistic).sum())
    p_bootstrap = (beyond + 1) / (repetitions + 1)
    return RatioTest(statistic, boundary_p(statistic), p_bootstrap, simulated)


def simulated_ratios(
    bank: ChoiceBank, h0: LinkFit, *, repetitions: int = 199, seed: int = 0
) -> Array:
    """Likelihood ratios of winners simulated from the fitted softmax, scores held fixed.

    The log-likelihood of a set of winners is theta . (sums of the winners' coordinates) minus a
    log-partition function that does not depend on them and is tabulated around the softmax fit.

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
    _, both = partition.maximise(sums)
    _, softmax = partition.maximise(sums, free=(True, False))
    return np.maximum(0.0, 2.0 * (both - softmax)) * bank.anchors


def simulate_sums(
    bank: ChoiceBank, inverse_temperature: float, *, repetitions: int, seed: int
) -> Array:
    """Mean coordinates (s, -log(1 - s)) of winners drawn from a softmax.

    Returns:
        Shape ``(repetitions, 2)``, means over all anchors.
    """
    draw = np.random.default_rng(seed)
    scores = bank.scores.reshape(bank.anchors, -1)
    identical = bank.identical.reshape(bank.anchors, -1)
    sums = np.zeros((repetitions, 2))
    for s, left_out in zip(scores, identical, strict=True):
        logits = inverse_temperature * s
        weights = np.exp(logits - logits.max())
        weights[1:][left_out] = 0.0  # no candidates
        cumulative = np.cumsum(weights)
        uniform = draw.random(repetitions) * cumulative[-1]
        winners = s[np.minimum(np.searchsorted(cumulative, uniform), len(s) - 1)]
        for c, name in enumerate(BLEND):
            sums[:, c] += COORDINATES[name](winners)
    return sums / bank.anchors


def bootstrap_blend(bank: ChoiceBank, *, repetitions: int = 999, seed: int = 0) -> Interval:
    """Lambda of H1 with the 95 % percentile interval of a bootstrap over batches.

    With fewer than ten batches percentile intervals are too short.

    Args:
        bank: the choices H1 is fitted to.
        repetitions: resamples of whole batches.
        seed: of the resampling.
    """
    h1 = fit_link(Design(bank, BLEND))
    partition = LogPartition.around(bank, h1.theta, clusters=True)
    draw = np.random.default_rng(seed)
    counts = draw.multinomial(bank.batches, np.full(bank.batches, 1 / bank.batches), repetitions)
    weights = counts / bank.batches
    theta, _ = partition.maximise(weights @ partition.batch_sums, weights=weights)
    lam = theta[:, 1] / theta.sum(axis=1)
    low, high = np.percentile(lam, (2.5, 97.5))
    return Interval(float(h1.blend[1]), float(low), float(high), bank.batches)


@dataclass(frozen=True)
class LogPartition:
    """A polynomial for each batch's log-partition function in a box of weights.

    Attributes:
        centre: of the box, shape ``(2,)``.
        axes: theta = centre + axes @ u with u in the square [-1, 1]^2, shape ``(2, 2)``.
        coefficients: Chebyshev coefficients, shape ``(batches, DEGREE + 1, DEGREE + 1)``.
        batch_sums: mean coordinates of each batch's winners, shape ``(batches, 2)``.
    """

    centre: Array
    axes: Array
    coefficients: Array
    batch_sums: Array

    @classmethod
    def around(cls, bank: ChoiceBank, centre: Array, *, clusters: bool = False) -> LogPartition:
        """Tabulate it around fitted weights.

        Args:
            bank: the choices.
            centre: weights the box is centred at, shape ``(2,)``.
            clusters: take the box from standard errors that let batches differ (for resampled
                batches) and not from those of independent winners.
        """
        design = Design(bank, BLEND)
        centre = np.asarray(centre, dtype=np.float64)
        _, _, hessian = design.derivatives(centre)
        bread = np.linalg.inv(-hessian)
        covariance = bread / bank.anchors
        if clusters:
            meat = np.cov(design.batch_scores(centre).T) / bank.batches
            # With few batches theirs can be singular; the sum of both covers either.
            covariance = covariance + bread @ meat @ bread
        axes = np.asarray(REACH * np.linalg.cholesky(covariance), dtype=np.float64)
        nodes = chebyshev.chebpts1(DEGREE + 1)
        winner = np.stack([COORDINATES[n](bank.scores[..., 0]) for n in BLEND])
        values = np.empty((bank.batches, DEGREE + 1, DEGREE + 1))
        for i, u in enumerate(nodes):
            for j, v in enumerate(nodes):
                theta = centre + axes @ np.array([u, v])
                along = np.einsum("c,cba->ba", theta, winner)
                values[:, i, j] = (along - design.log_probability(theta)).mean(axis=1)
        inverse = np.linalg.inv(chebyshev.chebvander(nodes, DEGREE))
        coefficients = np.einsum("iu,buv,jv->bij", inverse, values, inverse)
        return cls(centre, axes, coefficients, winner.mean(axis=2).T)

    def maximise(
        self, sums: Array, *, free: tuple[bool, bool] = (True, True), weights: Array | None = None
    ) -> tuple[Array, Array]:
        """Maximum-likelihood weights, not negative, for several sets of winners at once.

        Args:
            sums: mean coordinates of the winners, shape ``(sets, 2)``.
            free: which weights are fitted; the others are 0.
            weights: of the batches, rows that sum to 1, shape ``(sets, batches)``; equal weights
                by default.

        Returns:
            Weights, shape ``(sets, 2)``, and the log-likelihood per anchor, shape ``(sets,)``, the
            same as an exact fit's.

        Raises:
            ValueError: if a maximum lies outside the tabulated box.
        """
        c = self.coefficients
        if weights is None:
            mean = np.broadcast_to(c.mean(axis=0), (len(sums), *c.shape[1:]))
        else:
            mean = np.einsum("sb,bij->sij", weights, c)
        inside = self._newton(sums, mean, np.array(free))
        if all(free):
            # A concave function whose free maximum has a negative weight has its constrained one
            # where that weight is 0.
            for kept in (0, 1):
                out = inside[:, 1 - kept] < 0.0
                if out.any():
                    only = np.array([kept == 0, kept == 1])
                    inside[out] = self._newton(sums[out], mean[out], only)
        value = (inside * sums).sum(axis=1) - self._partition(mean, inside)[0]
        return inside, value

    def _newton(self, sums: Array, mean: Array, free: npt.NDArray[np.bool_]) -> Array:
        theta = np.where(free, self.centre, 0.0) + np.zeros_like(sums)
        for _ in range(STEPS):
            _, gradient, hessian = self._partition(mean, theta)
            wanted = np.where(free, sums - gradient, 0.0)
            for c in np.flatnonzero(~free):
                hessian[:, c, :] = hessian[:, :, c] = 0.0
                hessian[:, c, c] = 1.0
            step = np.linalg.solve(hessian, wanted[..., None])[..., 0]
            # The polynomial means nothing outside its box: what leaves it stops at its edge.
            theta = np.where(free, theta + step, 0.0)
            reach = np.abs(self._inside(theta)).max(axis=1, keepdims=True)
            theta = np.where(reach > 1.0, theta - step * (1.0 - 0.9 / reach), theta)
            if float(np.abs(step).max(initial=0.0)) < 1e-9 * float(np.abs(self.axes).max()):
                break
        if (np.abs(self._inside(theta)) > 1.0).any():
            raise ValueError(
                f"a refit left the box of {REACH:g} standard errors around {self.centre}; the bank "
                "is too small for resampling, use more batches"
            )
        return theta

    def _partition(self, mean: Array, theta: Array) -> tuple[Array, Array, Array]:
        """A, its gradient and its Hessian at one theta per set."""
        u = self._inside(theta)
        powers = [[_basis(u[:, c], order) for order in range(3)] for c in (0, 1)]

        def at(i: int, j: int) -> Array:
            return np.asarray(np.einsum("si,sij,sj->s", powers[0][i], mean, powers[1][j]))

        inverse = np.linalg.inv(self.axes)
        gradient = np.stack([at(1, 0), at(0, 1)], axis=1) @ inverse
        cross = at(1, 1)
        hessian = np.stack([at(2, 0), cross, cross, at(0, 2)], axis=1).reshape(-1, 2, 2)
        return at(0, 0), gradient, inverse.T @ hessian @ inverse

    def _inside(self, theta: Array) -> Array:
        """Weights as variables of the square."""
        return np.asarray(np.linalg.solve(self.axes, (theta - self.centre).T).T)


def _basis(u: Array, order: int) -> Array:
    """Chebyshev polynomials 0 to DEGREE or their derivatives, shape ``(points, DEGREE + 1)``."""
    unit = np.eye(DEGREE + 1)
    derived = chebyshev.chebder(unit, order, axis=1) if order else unit
    return np.asarray(chebyshev.chebvander(u, DEGREE - order) @ derived.T)
