"""What training on sentences costs: sentences a minute of the static encoder, memory of a corpus.

    python -m tests.benchmarks.text [--batch 512] [--seconds 30] [--threads 2] [--cpu-time]
        [--lines 1000000]

Whole training steps of the cpu profile's encoder at batch 512: tokens fetched from the mapped file,
two dropout passes, loss, gradient, AdamW. Sentences are random, as long as WordNet's glosses, and
tokenised beforehand for all. Steps of ours alternate with those of the same encoder written as
most would: ``torch.nn.Embedding`` and the mean over padded tokens, or ``torch.nn.EmbeddingBag``,
autograd cross-entropy and ``torch.optim.AdamW`` as it comes. Medians and their ratios are printed.

Then a file of ``--lines`` generated sentences is checked and tokenised by a fresh process, whose
time and peak of resident memory above its imports are printed; a tenth of them first, to show that
the peak does not grow with the file (``--lines 0`` leaves this out).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.benchmarks.timing import clock_of, in_turn, parser_of
from weince_lib.runs.text_config import text_config
from weince_lib.studies.plan import VOCABULARY
from weince_lib.text.encoders import StaticEncoder, masked_mean
from weince_lib.text.grammar import sentences
from weince_lib.text.simcse import SimCSE, seeded
from weince_lib.text.steps import ChunkPlan, SimCSEStep
from weince_lib.text.tokens import TokenisedCorpus
from weince_lib.training.steps import GuardedOptimizer

#: Width of all-MiniLM-L6-v2's word embeddings, and sentences to draw batches from.
WIDTH, SENTENCES = 384, 65_536
#: What the project wants of two cores.
GOAL = 100_000
Step = Callable[[np.ndarray], object]

_CHILD = """
import json, sys, time
from tests.benchmarks.timing import megabytes_used as peak
from weince_lib.text.corpora import load_corpus
from weince_lib.text.tokens import SentenceTokenizer, tokenise, word_tokenizer

before, began = peak(), time.time()
corpus = load_corpus(f"file:{sys.argv[1]}")
read, opened = peak(), time.time()
tokens = tokenise(corpus, SentenceTokenizer(word_tokenizer(corpus)), folder=sys.argv[2])
found = {"lines": len(tokens), "before": before, "read": read, "tokenised": peak()}
print(json.dumps(found | {"opening": opened - began, "tokenising": time.time() - opened}))
"""


def random_corpus(folder: Path) -> TokenisedCorpus:
    """Mapped tokens: lengths with mean 12 and at most 32, ids of BERT's vocabulary."""
    draw = np.random.default_rng(0)
    lengths = np.clip(draw.gamma(3.0, 4.0, SENTENCES).round(), 1, 32).astype(np.uint16)
    table = np.zeros((SENTENCES, 33), np.uint16)
    table[:, 0] = lengths
    ids = draw.integers(1, VOCABULARY, (SENTENCES, 32), dtype=np.uint16)
    table[:, 1:] = np.where(np.arange(32) < lengths[:, None], ids, 0)
    path = folder / "tokens"
    path.write_bytes(table.tobytes())
    return TokenisedCorpus(np.memmap(path, np.uint16, "r", shape=table.shape), "random")


def ours(loss: str, words: Tensor, corpus: TokenisedCorpus, batch: int) -> Step:
    """A step of the cpu profile, as training takes it."""
    config = text_config("cpu", loss=loss)
    model = seeded(lambda: SimCSE(StaticEncoder(words, config.token_dropout)), 0).train()
    optimizer = torch.optim.AdamW(
        model.parameters(), config.learning_rate, weight_decay=config.weight_decay, fused=True
    )
    step = SimCSEStep(
        model,
        config.build_loss(),
        GuardedOptimizer(optimizer, torch.device("cpu")),
        ChunkPlan(batch, batch),
        seed=0,
    )
    return lambda rows: step([corpus.batch(rows)], 0)


class PaddedMean(nn.Module):
    """Embeddings of all tokens, some dropped, and their mean over what is no padding."""

    def __init__(self, words: Tensor, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(words.clone(), freeze=False)
        self.dropout = dropout

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """``(n, length)`` to ``(n, d)``."""
        kept = F.dropout(mask.float(), self.dropout)[..., None]
        return masked_mean(self.words(ids) * kept, mask)


class Bags(nn.Module):
    """torch's own mean of embeddings, on the tokens that are not dropped."""

    def __init__(self, words: Tensor, dropout: float) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag.from_pretrained(words.clone(), freeze=False, mode="mean")
        self.dropout = dropout

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """``(n, length)`` to ``(n, d)``."""
        kept = (torch.rand(ids.shape) >= self.dropout) & mask.bool()
        kept[:, 0] |= ~kept.any(1)
        counts = kept.sum(1)
        return self.words(ids[kept], counts.cumsum(0) - counts)


def plain(encoder: nn.Module, corpus: TokenisedCorpus) -> Step:
    """A step as most would write it: autograd and torch's defaults."""
    config = text_config("cpu", loss="infonce")
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=config.learning_rate, weight_decay=0.0)

    def step(rows: np.ndarray) -> None:
        ids, mask = corpus.batch(rows)
        a, b = (F.normalize(encoder(ids, mask), dim=1) for _ in range(2))
        loss = F.cross_entropy(a @ b.T / config.temperature, torch.arange(len(rows)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def static_section(batch: int, seconds: float, clock: Callable[[], float]) -> None:
    """Print sentences a minute of each contestant, and ratios."""
    dropout = text_config("cpu").token_dropout
    with tempfile.TemporaryDirectory() as folder:
        corpus = random_corpus(Path(folder))
        words = 0.05 * torch.randn(VOCABULARY, WIDTH, generator=torch.Generator().manual_seed(0))
        steps = {
            "InfoNCE": ours("infonce", words, corpus, batch),
            "WEINCE": ours("weince", words, corpus, batch),
            "plain loop, padded mean": plain(PaddedMean(words, dropout), corpus),
            "plain loop, EmbeddingBag": plain(Bags(words, dropout), corpus),
        }

        def calls(step: Step) -> Callable[[], object]:
            draw = np.random.default_rng(1)  # the same sentences for each
            return lambda: step(draw.choice(SENTENCES, batch, replace=False))

        medians = in_turn(
            {name: calls(step) for name, step in steps.items()}, clock, rounds=5, seconds=seconds
        )
    for name, median in medians.items():
        print(
            f"static encoder, batch {batch}, {name}: {1e3 * median:.1f} ms a step, "
            f"{60 * batch / median:,.0f} sentences a minute, {medians['InfoNCE'] / median:.2f} of "
            "our InfoNCE's",
            flush=True,
        )
    excess = medians["WEINCE"] / medians["InfoNCE"] - 1
    rate = 60 * batch / medians["WEINCE"]
    print(f"WEINCE's step over InfoNCE's: {100 * excess:+.1f} %")
    print(f"goal of {GOAL:,} sentences a minute: {'reached' if rate > GOAL else 'NOT REACHED'}")


def stream_section(lines: int) -> None:
    """Print time and peak memory of a fresh process that checks and tokenises a long file."""
    with tempfile.TemporaryDirectory() as folder:
        for count in (lines // 10, lines):
            path = Path(folder) / f"{count}.txt"
            with path.open("w", encoding="utf-8") as out:
                out.writelines(f"{text}\n" for text in sentences(count))
            done = subprocess.run(
                [sys.executable, "-c", _CHILD, str(path), folder],
                capture_output=True,
                text=True,
                check=True,
            )
            found = json.loads(done.stdout)
            print(
                f"{found['lines']:,} lines, {path.stat().st_size / 2**20:.0f} MiB: checked in "
                f"{found['opening']:.1f} s, tokenised in {found['tokenising']:.1f} s; peak "
                f"{found['tokenised']:.0f} MiB, {found['read'] - found['before']:.1f} MiB above "
                f"the imports after checking, {found['tokenised'] - found['before']:.1f} after "
                "tokenising",
                flush=True,
            )


def main() -> None:
    """Command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=30.0, help="of training steps")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lines", type=int, default=1_000_000, help="of the long file; 0 for none")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = clock_of(options)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread(s)")
    static_section(options.batch, options.seconds, clock)
    if options.lines:
        stream_section(options.lines)


if __name__ == "__main__":
    main()
