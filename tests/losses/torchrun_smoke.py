"""One step of ``DistributedDataParallel`` under torchrun, compared with one process.

python -m torch.distributed.run --standalone --nproc-per-node 2 tests/losses/torchrun_smoke.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from weince_lib.losses import WEINCELoss


def main() -> None:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 6)).double()
    x0 = torch.randn(12, 8, dtype=torch.float64)
    x1 = x0 + 0.3 * torch.randn(12, 8, dtype=torch.float64)
    options = {"min_tail": 8, "cap_sharpness": 1.0, "evidence_sharpness": 0.2}
    WEINCELoss(**options)(encoder(x0), encoder(x1)).backward()
    expected = [p.grad.clone() for p in encoder.parameters()]
    encoder.zero_grad()

    dist.init_process_group("gloo")
    rank, n = dist.get_rank(), 12 // dist.get_world_size()
    mine = slice(rank * n, (rank + 1) * n)
    model = DistributedDataParallel(encoder)
    z0, z1 = model(torch.cat([x0[mine], x1[mine]])).chunk(2)
    WEINCELoss(gather_distributed=True, **options)(z0, z1).backward()
    for parameter, gradient in zip(encoder.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-9, atol=1e-12)
    print(f"rank {rank} of {dist.get_world_size()} agrees with one process", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
