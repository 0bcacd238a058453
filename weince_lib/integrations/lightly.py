"""WEINCE in the place of ``lightly.loss.NTXentLoss``.

from weince_lib.integrations.lightly import NTXentLoss
criterion = NTXentLoss(temperature=0.5)
loss = criterion(out0, out1)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from lightly.loss import NTXentLoss as LightlyNTXentLoss
from torch import Tensor

from weince_lib.losses.arguments import check_temperature, loss_dtype
from weince_lib.losses.candidates import CandidateProblem, NormalizeRows, stack_views
from weince_lib.losses.distributed import gather_rows
from weince_lib.losses.self_setting import SelfSettingLoss

from ._core import Correction, check_partners, contrastive_loss, resolve_correction, world


class NTXentLoss(LightlyNTXentLoss):
    """NT-Xent of two views with the WEINCE correction; lightly's constructor, call and bank.

    Without a bank, an anchor's candidates are all other views of the batch, of all processes with
    ``gather_distributed``. With a bank, the anchors are ``out0`` and the candidates of each are its
    own ``out1`` and the bank, as in MoCo; the tail is then the bank's.

    Args:
        temperature: tau of the softmax part; lightly's default, which is the paper's for images.
        memory_bank_size: ``(entries, d)``, or 0 for none.
        gather_distributed: take candidates, and rho_0, from all processes. As in lightly, without
            a process group it changes nothing. All processes must hold equally many pairs.
        correction: tail settings, the name of a preset, or a ``SelfSettingLoss``, which takes no
            temperature and whose means are part of this module's state; None is lightly's own loss.

    Raises:
        ValueError: for a temperature that is not positive, a memory bank without ``d``, or an
            unknown correction.
    """

    def __init__(
        self,
        temperature: float = 0.5,
        memory_bank_size: int | Sequence[int] = 0,
        gather_distributed: bool = False,
        *,
        correction: Correction | SelfSettingLoss = "paper",
    ) -> None:
        check_temperature(temperature)
        super().__init__(temperature, memory_bank_size, gather_distributed)
        self.settings = resolve_correction(correction, sets_itself=True)

    def forward(self, out0: Tensor, out1: Tensor) -> Tensor:
        """Loss of two views of one batch.

        Args:
            out0: first views, shape ``(N, d)``; rows need not be normalised.
            out1: second views, same shape. With a bank, these are the keys: they are stored in it
                whenever ``out0`` takes a gradient.

        Returns:
            Scalar, in nats per anchor.

        Raises:
            ValueError: if the views do not match, or hold numbers no cosine can be taken of.
        """
        check_partners(out0=out0, out1=out1)
        gather = self.gather_distributed and world()[1] > 1
        if self.memory_bank.size[0]:
            problem = self._bank_problem(out0, out1)
        elif gather:
            problem = _gathered_two_view(out0, out1)
        else:
            problem = CandidateProblem.two_view(out0, out1)
        return contrastive_loss(problem, 1.0 / self.temperature, self.settings, all_ranks=gather)

    def _bank_problem(self, out0: Tensor, out1: Tensor) -> CandidateProblem:
        n, device = out0.shape[0], out0.device
        keys: Tensor = NormalizeRows.apply(out1)
        _, bank = self.memory_bank(keys.to(out1.dtype), update=out0.requires_grad)
        bank = NormalizeRows.apply(bank.T.to(device))
        candidates = torch.cat([keys, bank])
        # The other keys of the batch are no candidates: they share the anchors' identity.
        identity = torch.zeros(candidates.shape[0], dtype=torch.long, device=device)
        identity[n:] = 1
        return CandidateProblem(
            anchors=NormalizeRows.apply(out0),
            candidates=candidates,
            positives=torch.arange(n, device=device),
            anchor_ids=identity[:n],
            candidate_ids=identity,
            dtype=loss_dtype(out0),
            differentiable=n,
            fewest_negatives=bank.shape[0],
        )

    def extra_repr(self) -> str:
        """Temperature and settings, for ``print(loss)``."""
        return f"temperature={self.temperature}, correction={self.settings}"


def _gathered_two_view(out0: Tensor, out1: Tensor) -> CandidateProblem:
    """This process's 2N views against those of all; first all first views, then all second."""
    n = out0.shape[0]
    rank, size = world()
    anchors: Tensor = NormalizeRows.apply(stack_views(out0, out1))
    everyone = gather_rows(anchors).unflatten(0, (size, 2, n))
    mine = torch.arange(rank * n, rank * n + n, device=out0.device)
    first, second = mine, mine + size * n
    return CandidateProblem(
        anchors=anchors,
        candidates=everyone.transpose(0, 1).flatten(0, 2),
        positives=torch.cat([second, first]),
        own=torch.cat([first, second]),
        dtype=loss_dtype(out0),
    )
