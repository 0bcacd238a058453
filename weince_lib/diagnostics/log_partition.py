"""The log-partition function of H1 around a point, tabulated, so that many refits cost little.

For candidates with coordinates x_j = (s_j, -log(1 - s_j)) the log-likelihood of winners is, per
anchor, theta . mean(x_winner) - A(theta) with A the mean of log sum_j exp(theta . x_j). Resampled
or simulated winners change the first term alone. A is smooth and convex; a polynomial in two
variables through Chebyshev points, in a box of some standard errors along the axes in which the
weights are uncorrelated, agrees with it to many digits (``tests/diagnostics`` compares refits with
exact ones).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from .choice_bank import Array, ChoiceBank
from .link_fit import COORDINATES, Design

#: Degree of the polynomial in either variable, and half-width of the box in standard errors.
DEGREE = 7
REACH = 6.0
STEPS = 60


@dataclass(frozen=True)
class Maxima:
    """Maxima over weights that are not negative, one for each set of winners.

    Attributes:
        theta: weights, shape ``(sets, 2)``.
        value: log-likelihood per anchor, up to nothing: the same constant as an exact fit's.
    """

    theta: Array
    value: Array


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

    @staticmethod
    def coordinates(bank: ChoiceBank) -> tuple[Array, Array]:
        """S and -log(1 - s), each of shape ``(all anchors, candidates)``."""
        flat = bank.scores.reshape(-1, bank.scores.shape[-1])
        return COORDINATES["identity"](flat), COORDINATES["shortfall"](flat)

    @classmethod
    def around(cls, bank: ChoiceBank, centre: Array, *, clusters: bool = False) -> LogPartition:
        """Tabulate it around fitted weights.

        Args:
            bank: the choices.
            centre: weights the box is centred at, shape ``(2,)``.
            clusters: take the box from standard errors that let batches differ (for resampled
                batches) and not from those of independent winners.
        """
        design = Design(bank, ("identity", "shortfall"))
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
        winner = np.stack([COORDINATES[n](bank.scores[..., 0]) for n in ("identity", "shortfall")])
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
    ) -> Maxima:
        """Maximum-likelihood weights for several sets of winners at once.

        Args:
            sums: mean coordinates of the winners, shape ``(sets, 2)``.
            free: which weights are fitted; the others are 0.
            weights: of the batches, rows that sum to 1, shape ``(sets, batches)``; equal weights
                by default.

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
        return Maxima(inside, value)

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
