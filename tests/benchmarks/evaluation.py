"""What frozen-feature evaluation costs: all probe seeds at once against one by one, and kNN.

    python -m tests.benchmarks.evaluation [--rows 40000] [--width 512] [--classes 10]
        [--epochs 100] [--threads 2] [--cpu-time]

The probe's size is CIFAR's: 80 % of 50,000 images, ResNet-18 features, five seeds. One by one means
``torch.nn.Linear``, autograd and Adam, as most would write it, seed after seed, on a tenth of the
epochs and scaled.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.benchmarks.timing import clock_of, parser_of
from weince_lib.evaluation import PROBE_SEEDS, knn_evaluate
from weince_lib.evaluation.probe import train_layers

BATCH = 256


def one_probe(features: Tensor, labels: Tensor, seed: int, epochs: int) -> torch.nn.Linear:
    """One probe as most would write it."""
    torch.manual_seed(seed)
    layer = torch.nn.Linear(features.shape[1], int(labels.max()) + 1)
    optimiser = torch.optim.Adam(layer.parameters(), lr=3e-4)
    for _ in range(epochs):
        for rows in torch.randperm(len(features)).split(BATCH):
            loss = F.cross_entropy(layer(features[rows]), labels[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return layer


def main() -> None:
    parser = parser_of(__doc__)
    sizes = {"rows": 40_000, "width": 512, "classes": 10, "epochs": 100, "threads": 2}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = clock_of(options)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(options.rows, options.width, generator=generator).relu()
    y = torch.randint(0, options.classes, (options.rows,), generator=generator)

    tenth = max(1, options.epochs // 10)
    one_probe(x[:BATCH], y[:BATCH], 1, 1)
    start = clock()
    for seed in PROBE_SEEDS:
        one_probe(x, y, seed, tenth)
    alone = (clock() - start) * options.epochs / tenth
    start = clock()
    settings = {"epochs": options.epochs, "batch_size": BATCH, "learning_rate": 3e-4}
    train_layers(x, y, PROBE_SEEDS, **settings)
    together = clock() - start
    kind = "processor" if options.cpu_time else "wall"
    print(
        f"{options.epochs} epochs on {options.rows} x {options.width}, {options.classes} classes, "
        f"{len(PROBE_SEEDS)} seeds, {options.threads} threads, {kind} time"
    )
    print(f"  together    {together:7.1f} s")
    print(f"  one by one  {alone:7.1f} s   {alone / together:.1f} times")
    start = clock()
    queries = min(10_000, options.rows)
    knn_evaluate(x, y, x[:queries], y[:queries])
    print(f"kNN, {queries} queries against {options.rows}: {clock() - start:.1f} s")


if __name__ == "__main__":
    main()
