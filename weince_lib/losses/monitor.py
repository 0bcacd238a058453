"""Watching the tail evidence while a model trains, without waiting for the device."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .arguments import check_number
from .evidence import TailEvidence

#: Share of anchors with a negative at cosine 1 from which :class:`TailMonitor` warns.
DUPLICATES = 0.01
#: With a larger floor a negative at it need not be at cosine 1.
LARGEST_FLOOR = 1e-5
#: Holds the share that this process was warned of by the loss itself.
_told: list[float] = []


def warn_of_duplicates(share: float, coincide: float) -> None:
    """Warn that a share of the anchors has a negative at cosine 1, and say what to do."""
    warnings.warn(
        f"{100 * share:.1f} % of the anchors have a negative at cosine 1 (1 - cosine up to "
        f"{coincide:g}). If items are in a batch more than once, name them: loss(z0, z1, ids=ids) "
        "leaves an item's repeats out of its negatives. If not, the encoder maps different items "
        "to one point",
        stacklevel=3,
    )


def look_for_duplicates(rho: Tensor, floor: float) -> None:
    """Warn, once in a process, if many anchors' smallest negative shortfall ``rho`` is the floor.

    With a floor of more than 1e-5 nothing can be told.
    """
    if floor > LARGEST_FLOOR or _told:
        return
    share = float((rho <= 2 * floor).float().mean())
    if share > DUPLICATES:
        _told.append(share)
        warn_of_duplicates(share, 2 * floor)


class TailMonitor:
    """Running summaries of :class:`TailEvidence` over steps.

    Each number of :meth:`summary`, the only call that waits for the device, is the mean over steps
    of a step's statistic. A mean of quantiles is not the quantile of all anchors, but needs no
    record of them. Under data parallelism each process sees the anchors its evidence holds.

    Args:
        margin: Delta AIC above which an anchor's gate counts as open; the paper's m = 2 by default.
            Take the loss's own: ``TailMonitor(loss.settings.evidence_margin)``.
        quantiles: of beta and rho over a step's anchors, by nearest rank, beside the median.
        corrected: lambda above which an anchor counts as corrected.
        coincide: shortfall 1 - cosine up to which a negative counts as at cosine 1; twice the
            loss's default floor, to which every smaller shortfall is raised.

    Raises:
        ValueError: for a quantile outside (0, 1] or a number that is not finite.

    Warns:
        UserWarning: once for each monitor, from :meth:`summary`, if more than 1 % of the anchors
            have a negative at cosine 1. Such pairs are most often one item that is in the batch
            more than once, and the endpoint part of the loss pushes them apart with all its force.
    """

    def __init__(
        self,
        margin: float = 2.0,
        quantiles: Sequence[float] = (0.1, 0.9),
        corrected: float = 0.5,
        coincide: float = 2e-6,
    ) -> None:
        for name, value in (("margin", margin), ("corrected", corrected), ("coincide", coincide)):
            check_number(name, value, "be finite")
        for q in quantiles:
            check_number("quantiles", q, "lie in (0, 1]")
        self.margin = margin
        self.quantiles = tuple(quantiles)
        self.corrected = corrected
        self.coincide = coincide
        self._warned = False
        #: Names of the numbers in the summary, in its order.
        self.names: tuple[str, ...] = (
            "lam",
            "beta",
            "rho",
            "gate_open",
            "corrected",
            *(f"{name}_q{100 * q:g}" for name in ("beta", "rho") for q in self.quantiles),
            "duplicates",
        )
        self.reset()

    def reset(self) -> None:
        """Forget every step."""
        self.steps = 0
        self._sums: Tensor | None = None

    @torch.no_grad()
    def update(self, evidence: TailEvidence) -> None:
        """Add one step's evidence; does not wait for the device.

        Raises:
            ValueError: if the evidence holds no anchor.
        """
        count = evidence.rho.numel()
        if count == 0:
            raise ValueError("the evidence holds no anchor; nothing to summarise")
        beta, rho = evidence.beta.detach().sort().values, evidence.rho.detach().sort().values
        # No beta could be read where it is 0, whatever Delta AIC says.
        gate_open = (evidence.delta_aic > self.margin) & (evidence.beta > 0)
        corrected = evidence.lam > self.corrected
        ranks = [max(1, math.ceil(q * count - 1e-9)) - 1 for q in (0.5, *self.quantiles)]
        row = torch.stack(
            [
                evidence.lam.detach().mean(),
                beta[ranks[0]],
                rho[ranks[0]],
                gate_open.to(rho.dtype).mean(),
                corrected.to(rho.dtype).mean(),
                *(values[rank] for values in (beta, rho) for rank in ranks[1:]),
                (rho <= self.coincide).to(rho.dtype).mean(),
            ]
        )
        # A step of NaN, which a trainer leaves out, must not take the others along.
        fine = ~torch.isnan(row).any()
        row = torch.cat([torch.where(fine, row, 0.0), fine.to(row)[None]])
        # A long run adds up more steps than float32 can count; Apple's devices have no float64.
        row = row.to(torch.float32 if row.device.type == "mps" else torch.float64)
        self._sums = row if self._sums is None else self._sums.to(row) + row
        self.steps += 1

    def summary(self) -> dict[str, float]:
        """Means over the steps since the last :meth:`reset`; waits for the device once.

        Returns:
            ``lam`` (mean lambda), ``beta`` and ``rho`` (medians over anchors), ``gate_open``
            (share of anchors with Delta AIC above the margin), ``corrected`` (share with lambda
            above 1/2), ``beta_q10``, ``beta_q90``, ``rho_q10``, ``rho_q90`` for the default
            quantiles, and ``duplicates`` (share of anchors with a negative at cosine 1). Steps
            with NaN among them are left out. Empty before the first step.
        """
        if self._sums is None:
            return {}
        *sums, steps = self._sums.tolist()
        found = {
            name: value / steps if steps else math.nan
            for name, value in zip(self.names, sums, strict=True)
        }
        if found["duplicates"] > DUPLICATES and not self._warned:
            self._warned = True
            warn_of_duplicates(found["duplicates"], self.coincide)
        return found

    def state(self) -> dict[str, Any]:
        """Sums and number of steps as plain values, to go on from in another process."""
        sums = None if self._sums is None else self._sums.tolist()
        return {"steps": self.steps, "sums": sums}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what :meth:`state` gave."""
        self.steps = state["steps"]
        sums = state["sums"]
        # On the CPU until the first update, which takes it to where the evidence is.
        self._sums = None if sums is None else torch.tensor(sums, dtype=torch.float64)
