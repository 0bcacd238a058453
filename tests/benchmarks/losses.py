"""What the losses cost: time against plain autograd InfoNCE, and peak memory.

    python -m tests.benchmarks.losses [--sizes 256 1024 4096] [--memory-size 16384] [--seconds 20]
        [--skip reference metric-learning] [--cosine 0.97] [--cpu-time]

Times are medians of interleaved runs of forward and backward together, as ratios to plain autograd
InfoNCE in the same run: a busy machine slows all of them alike. ``--skip`` leaves out contestants
by a part of their name: at N = 4,096 the slow ones take minutes a round. ``--cosine`` is the
typical cosine between different items; near 1, as after training, all products are in float64.
Peak memory is taken in a fresh process each, above the process with its inputs. On a CUDA device
the loss stage and the whole step of a ResNet-18 are measured too.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import subprocess
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.benchmarks.timing import clock_of, in_turn, megabytes_used, parser_of
from weince_lib.losses import RULES, EndpointLoss, InfoNCELoss, SelfSettingLoss, WEINCELoss

D = 128
TEMPERATURE = 0.5
BASELINE = "plain autograd InfoNCE"
#: What the endpoint link may cost a tenth more than.
STREAMING = "InfoNCE, streaming"
Loss = Callable[[Tensor, Tensor], Tensor]


def plain_infonce(z0: Tensor, z1: Tensor) -> Tensor:
    """InfoNCE as most would write it."""
    n = z0.shape[0]
    z = F.normalize(torch.cat([z0, z1]), dim=1)
    logits = z @ z.T / TEMPERATURE
    itself = torch.eye(2 * n, dtype=torch.bool, device=z.device)
    target = torch.arange(2 * n, device=z.device).roll(n)
    return F.cross_entropy(logits.masked_fill(itself, float("-inf")), target)


def pytorch_metric_learning_infonce() -> Loss:
    # With one positive per anchor SupConLoss is InfoNCE. The library's NTXentLoss compares every
    # positive pair with every negative pair: 0.5 GB at N = 256 and 34 GB at N = 1,024.
    from pytorch_metric_learning.losses import SupConLoss

    loss = SupConLoss(temperature=TEMPERATURE)

    def run(z0: Tensor, z1: Tensor) -> Tensor:
        labels = torch.arange(z0.shape[0], device=z0.device).repeat(2)
        return loss(torch.cat([z0, z1]), labels)

    return run


def lightly_infonce() -> Loss:
    from lightly.loss import NTXentLoss

    return NTXentLoss(temperature=TEMPERATURE)


def contestants() -> dict[str, Callable[[], Loss]]:
    """Every loss by name; other libraries' where they are installed."""
    losses: dict[str, Callable[[], Loss]] = {BASELINE: lambda: plain_infonce}
    if importlib.util.find_spec("lightly"):
        losses["lightly InfoNCE"] = lightly_infonce
    if importlib.util.find_spec("pytorch_metric_learning"):
        losses["pytorch-metric-learning InfoNCE"] = pytorch_metric_learning_infonce
    for impl in ("reference", "streaming"):
        losses[f"InfoNCE, {impl}"] = lambda impl=impl: InfoNCELoss(TEMPERATURE, impl=impl)
        for name in ("paper", "calibrated"):
            losses[f"WEINCE {name}, {impl}"] = lambda name=name, impl=impl: WEINCELoss.from_preset(
                name, TEMPERATURE, impl=impl
            )
    for curvature in (0.9, 1.0):
        losses[f"endpoint {curvature:g}, streaming"] = lambda g=curvature: EndpointLoss(
            TEMPERATURE, curvature=g
        )
    for rule in RULES:
        losses[f"self-setting {rule}, streaming"] = lambda rule=rule: SelfSettingLoss(rule)
    return losses


def batch(n: int, device: str = "cpu", cosine: float = 0.0) -> tuple[Tensor, Tensor]:
    """Two noisy views of n random items whose mutual cosines lie about ``cosine``."""
    generator = torch.Generator().manual_seed(0)
    items = torch.randn(n, D, generator=generator)
    # Of a view's squared length D (1.49 + shift^2), D shift^2 is common to all.
    items += (1.49 * cosine / (1.0 - cosine)) ** 0.5
    z0, z1 = ((items + 0.7 * torch.randn(n, D, generator=generator)).to(device) for _ in range(2))
    return z0.requires_grad_(), z1.requires_grad_()


def once(loss: Loss, z0: Tensor, z1: Tensor) -> None:
    """One forward and backward."""
    z0.grad = z1.grad = None
    loss(z0, z1).backward()
    if z0.is_cuda:
        torch.cuda.synchronize()


def print_peak(name: str, n: int) -> None:
    """Peak of one forward and backward above what was there before, in MiB, for :func:`peak`."""
    loss = contestants()[name]()
    once(loss, *batch(4))  # imports, thread pools
    z = batch(n)
    z[0].grad, z[1].grad = torch.zeros_like(z[0]), torch.zeros_like(z[1])
    before = megabytes_used()
    once(loss, *z)
    print(megabytes_used() - before)


def peak(name: str, n: int) -> float:
    """Peak memory above the inputs in MiB, of one forward and backward in a fresh process."""
    command = [sys.executable, "-m", "tests.benchmarks.losses", "--peak", name, "--sizes", str(n)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def cpu_section(options: argparse.Namespace) -> None:
    """Print time ratios per size and peak memory."""
    clock = clock_of(options)
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, d = {D}, float32, "
        f"cosines about {options.cosine:g}"
    )
    made = {
        name: make()
        for name, make in contestants().items()
        if name == BASELINE or not any(part in name for part in options.skip)
    }
    for n in options.sizes:
        z = batch(n, cosine=options.cosine)
        calls = {name: functools.partial(once, loss, *z) for name, loss in made.items()}
        medians = in_turn(calls, clock, seconds=options.seconds)
        print(f"\nN = {n}{'time':>33s}{'ratio':>8s}{'peak memory above inputs':>28s}")
        for name, median in medians.items():
            ratio = median / medians[BASELINE]
            used = peak(name, n)
            print(f"{name:30s}{median * 1e3:9.1f} ms{ratio:8.2f}{used:24.0f} MiB", flush=True)
        for name in (name for name in medians if "streaming" in name and STREAMING in medians):
            print(f"{name:30s}{medians[name] / medians[STREAMING]:8.2f} of {STREAMING}")
    print(f"\nN = {options.memory_size}{'peak memory above inputs':>43s}")
    for name in (name for name in made if "streaming" in name):
        print(f"{name:30s}{peak(name, options.memory_size):16.0f} MiB", flush=True)


def cuda_section(steps: int = 50) -> None:
    """Print the loss stage and the whole training step at the paper's size (Tiny-ImageNet)."""
    from torchvision.models import resnet18

    n, device = 256, "cuda"
    made = {name: make() for name, make in contestants().items() if "reference" not in name}
    print(
        f"\n{torch.cuda.get_device_name()}: N = {n}; the paper (L40S): loss stage 0.65 -> 2.11 ms,"
    )
    print("step 253.3 -> 255.0 ms")
    z = batch(n, device)
    stage = in_turn({name: functools.partial(once, made[name], *z) for name in made}, seconds=10)
    network = resnet18(num_classes=D).to(device)
    optimiser = torch.optim.Adam(network.parameters(), 3e-4)
    images = torch.randn(2 * n, 3, 64, 64, device=device)

    def step(loss: Loss) -> None:
        optimiser.zero_grad(set_to_none=True)
        z0, z1 = network(images).chunk(2)
        loss(z0, z1).backward()
        optimiser.step()
        torch.cuda.synchronize()

    calls = {name: functools.partial(step, loss) for name, loss in made.items()}
    whole = in_turn(calls, rounds=steps, warm_up=3)
    for name in made:
        print(
            f"{name:30s}{stage[name] * 1e3:8.3f} ms {stage[name] / stage[BASELINE]:6.2f}"
            f"{whole[name] * 1e3:10.2f} ms {100 * (whole[name] / whole[BASELINE] - 1):+7.2f} %"
        )


def main() -> None:
    """Command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--memory-size", type=int, default=16384)
    parser.add_argument("--seconds", type=float, default=20.0, help="per size")
    parser.add_argument("--skip", nargs="*", default=[], help="parts of names to leave out")
    parser.add_argument("--cosine", type=float, default=0.0, help="between items, in [0, 1)")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        print_peak(arguments.peak, arguments.sizes[0])
        return
    if not 0.0 <= arguments.cosine < 1.0:
        parser.error(f"--cosine must lie in [0, 1), got {arguments.cosine}")
    cpu_section(arguments)
    if torch.cuda.is_available():
        cuda_section()


if __name__ == "__main__":
    main()
