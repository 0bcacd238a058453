"""Random-utility models of the three tail geometries, and simulated winners and rankings.

The noise may have any continuous law (paper Table 1). In a coordinate T of its own each geometry is
a function of the score plus noise whose law is the same for every candidate:

========  =========================  =============  ==================
geometry  utility                    T(x)           T(X_s)
========  =========================  =============  ==================
Gumbel    X_s = eta(s) + eps         x              eta(s) + eps
Frechet   X_s = rho(s) Z, Z > 0      log x          log rho(s) + log Z
Weibull   X_s = x_F - q(s) W, W > 0  -log(x_F - x)  -log q(s) - log W
========  =========================  =============  ==================

T increases, so that it does not change who wins: all three are one model, ``index + noise``.

With standard Gumbel noise, U_j = s_j / tau + eps_j (Eq. 2.3), the largest U_j wins with the softmax
probability, and the order of all U_j is a Plackett-Luce ranking (Yellott 1977).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from ..checks import check_at_least, check_positive
from ..links import Array, check_scores
from .likelihood import Integers

if TYPE_CHECKING:
    from scipy.stats._distn_infrastructure import rv_continuous_frozen

    Noise = rv_continuous_frozen[Any]

Geometry = Literal["gumbel", "frechet", "weibull"]

#: Utilities held in memory at a time.
BLOCK = 2_000_000


@dataclass(frozen=True, eq=False)
class IndexModel:
    """Independent utilities T(X_j) = index_j + noise_j; made by the three functions below.

    Attributes:
        geometry: which coordinate T.
        index: eta, log rho or -log q of each entry, shape ``(entries,)``.
        noise: frozen scipy law of eps, Z or W.
        counts: how many candidates an entry stands for, shape ``(entries,)``.
    """

    geometry: Geometry
    index: Array
    noise: Noise
    counts: Integers

    @property
    def candidates(self) -> int:
        """Number of candidates, counts included."""
        return int(self.counts.sum())

    def noise_survival(self, t: Array) -> Array:
        """P(T-noise > t), accurate where it is small."""
        return np.asarray(self._upper("cdf", "sf")(self._in_law(t)))

    def noise_log_survival(self, t: Array) -> Array:
        """Logarithm of :meth:`noise_survival`."""
        return np.asarray(self._upper("logcdf", "logsf")(self._in_law(t)))

    def noise_log_cdf(self, t: Array) -> Array:
        """Logarithm of P(T-noise <= t)."""
        return np.asarray(self._upper("logsf", "logcdf")(self._in_law(t)))

    def noise_log_density(self, t: Array) -> Array:
        """Log-density of the noise in the coordinate T."""
        log_density = np.asarray(self.noise.logpdf(self._in_law(t)))
        if self.geometry == "gumbel":
            return log_density
        return log_density + (t if self.geometry == "frechet" else -t)

    def noise_level(self, survival: Array) -> Array:
        """The t at which :meth:`noise_survival` has this value."""
        return self._coordinate(np.asarray(self._upper("ppf", "isf")(survival)))

    def noise_support(self) -> tuple[float, float]:
        """Ends of the noise's support in the coordinate T."""
        low, high = sorted(self._coordinate(np.array(self.noise.support())).tolist())
        return low, high

    def _upper(self, weibull: str, other: str) -> Callable[[Array], Array]:
        """A method of the law. A small shortfall is a large utility, so tails change sides."""
        return getattr(self.noise, weibull if self.geometry == "weibull" else other)

    def _in_law(self, t: Array) -> Array:
        """The value of eps, Z or W at which the noise in the coordinate T is t."""
        if self.geometry == "gumbel":
            return t
        with np.errstate(over="ignore"):  # the far end of a coordinate is infinity
            return np.exp(t if self.geometry == "frechet" else -t)

    def _coordinate(self, x: Array) -> Array:
        """The inverse of :meth:`_in_law`."""
        if self.geometry == "gumbel":
            return x
        with np.errstate(divide="ignore"):
            return np.log(x) if self.geometry == "frechet" else -np.log(x)


def translation_model(
    eta: npt.ArrayLike, noise: Noise, counts: npt.ArrayLike | None = None
) -> IndexModel:
    """Gumbel-type indexing, X = eta + noise.

    Args:
        eta: eta(s) of each candidate, shape ``(entries,)``.
        noise: continuous frozen law, for instance ``scipy.stats.gumbel_r()``.
        counts: candidates that share each entry's eta; one each by default.

    Raises:
        ValueError: for entries that are not finite (in the other two geometries, not positive),
            fewer than two candidates, counts below 1, or noise that is no frozen continuous law of
            scipy's (there, on positive numbers).
    """
    return _model("gumbel", eta, noise, counts)


def scaling_model(
    rho: npt.ArrayLike, noise: Noise, counts: npt.ArrayLike | None = None
) -> IndexModel:
    """Frechet-type indexing, X = rho Z with Z > 0.

    Args:
        rho: positive scale rho(s) of each candidate, shape ``(entries,)``.
        noise: law of Z on positive numbers, for instance ``scipy.stats.invweibull(alpha)``, which
            is scipy's name for the Frechet law.
        counts: as in :func:`translation_model`, whose errors these are too.
    """
    return _model("frechet", _log_of(rho, "rho"), noise, counts)


def shortfall_model(
    shortfall: npt.ArrayLike,
    noise: Noise,
    counts: npt.ArrayLike | None = None,
) -> IndexModel:
    """Weibull-type indexing, X = x_F - q W with W > 0.

    Args:
        shortfall: positive scale q(s) of each candidate, 1 - s for cosines; shape ``(entries,)``.
        noise: law of W on positive numbers, for instance ``scipy.stats.weibull_min(beta)``.
        counts: as in :func:`translation_model`, whose errors these are too.
    """
    return _model("weibull", -_log_of(shortfall, "shortfall"), noise, counts)


def simulate_winners(model: IndexModel, repetitions: int, seed: int = 0) -> Integers:
    """Draw winners, in blocks that bound the memory.

    Args:
        model: the candidates.
        repetitions: independent choices.
        seed: of numpy's generator.

    Returns:
        Index of the candidate with the largest utility, shape ``(repetitions,)``.
    """
    rng = np.random.default_rng(seed)
    blocks = block_sizes(repetitions, model.candidates)
    return np.concatenate([_draw(model, size, rng).argmax(axis=1) for size in blocks])


def sample_winners(
    scores: npt.ArrayLike, repetitions: int, *, temperature: float = 1.0, seed: int = 0
) -> Integers:
    """Draw the winner of a candidate set many times.

    Args:
        scores: of one candidate set, shape ``(candidates,)``.
        repetitions: independent choices.
        temperature: tau, the scale of the noise in units of the score.
        seed: of numpy's generator.

    Returns:
        Index of the winner, shape ``(repetitions,)``.

    Raises:
        ValueError: for scores of another shape, fewer than two or not finite, a temperature that
            is not positive, or fewer than one repetition.
    """
    blocks = _utilities(scores, repetitions, temperature, seed)
    return np.concatenate([u.argmax(axis=1) for u in blocks]).astype(np.int64)


def sample_rankings(
    scores: npt.ArrayLike, repetitions: int, *, temperature: float = 1.0, seed: int = 0
) -> Integers:
    """Draw whole Plackett-Luce rankings; the first place is :func:`sample_winners`'s winner.

    Arguments and errors are those of :func:`sample_winners`.

    Returns:
        Candidates best first, shape ``(repetitions, candidates)``.
    """
    blocks = _utilities(scores, repetitions, temperature, seed)
    return np.concatenate([np.argsort(-u, axis=1) for u in blocks]).astype(np.int64)


def block_sizes(repetitions: int, candidates: int) -> Iterator[int]:
    """Split repetitions so that no block holds more than :data:`BLOCK` utilities.

    Raises:
        ValueError: for fewer than one repetition.
    """
    check_at_least("repetitions", repetitions, 1)
    most = max(1, BLOCK // candidates)
    for start in range(0, repetitions, most):
        yield min(most, repetitions - start)


def _utilities(
    scores: npt.ArrayLike, repetitions: int, temperature: float, seed: int
) -> Iterator[Array]:
    s = check_scores(scores)
    if s.ndim != 1:
        raise ValueError(f"scores must have shape (candidates,), got {s.shape}")
    location = s / check_positive("temperature", temperature)
    rng = np.random.default_rng(seed)
    for size in block_sizes(repetitions, s.size):
        # Not -log(-log(u)) by hand: u = 0 would give log(0); numpy draws such a u again.
        yield location + rng.gumbel(size=(size, s.size))


def _draw(model: IndexModel, repetitions: int, rng: np.random.Generator) -> Array:
    """Utilities; in the Weibull geometry less the endpoint, which keeps small shortfalls apart."""
    index = np.repeat(model.index, model.counts)
    noise = np.asarray(model.noise.rvs(size=(repetitions, index.size), random_state=rng))
    if model.geometry == "gumbel":
        return index + noise
    return np.exp(index) * noise if model.geometry == "frechet" else -np.exp(-index) * noise


def _model(
    geometry: Geometry,
    index: npt.ArrayLike,
    noise: Noise,
    counts: npt.ArrayLike | None,
) -> IndexModel:
    eta = np.atleast_1d(np.asarray(index, dtype=np.float64))
    many = np.ones(eta.shape, dtype=np.int64) if counts is None else np.asarray(counts)
    if eta.ndim != 1 or many.shape != eta.shape:
        raise ValueError(f"entries of shape {eta.shape} and counts of shape {many.shape}")
    if not np.issubdtype(many.dtype, np.integer) or (many < 1).any():
        raise ValueError("counts must be integers of at least 1")
    # One entry with a count of two or more is a choice too.
    check_scores(np.repeat(eta, 2) if many.sum() > 1 else eta)
    if not isinstance(getattr(noise, "dist", None), stats.rv_continuous):
        raise ValueError(
            f"noise must be a frozen continuous law such as scipy.stats.norm(), got {noise!r}"
        )
    if geometry != "gumbel" and noise.support()[0] < 0:
        raise ValueError(f"the {geometry} geometry needs noise on positive numbers")
    return IndexModel(geometry, eta, noise, many.astype(np.int64))


def _log_of(values: npt.ArrayLike, name: str) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(array) & (array > 0)).all():
        bad = array[~(np.isfinite(array) & (array > 0))].flat[0]
        raise ValueError(f"{name} must be positive and finite, got {bad:g}")
    return np.log(array)
