"""Score banks of any size: the highest cosines of all pairs, and every anchor's own tail.

With n embeddings there are n (n - 1) / 2 pairs: too many to keep, not too many to look at. Products
are taken tile by tile in float32; of a tile only the pairs above the threshold, and those that may
belong to an anchor's tail, are kept. Cosines near the cap are taken again in float64, as half the
squared distance of the unit vectors, since a float32 cosine knows 1 - s only to about 3e-7.

With more rows than can be paired, some are drawn as anchors and paired with all rows.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from .bank_store import BlockStore, digest
from .bank_types import LEVELS, BankSettings, StreamedBank
from .embedding_checks import check_labels, check_pair_rows, check_rows
from .pair_stream import PairStream

__all__ = ["LEVELS", "BankSettings", "StreamedBank", "streamed_bank"]


def streamed_bank(
    embeddings: Any,
    *,
    pairs: Any = None,
    labels: Any = None,
    settings: BankSettings | None = None,
    store: str | Path | None = None,
    progress: bool = False,
) -> StreamedBank:
    """Stream over all pairs of a set of embeddings and keep the upper tail of their cosines.

    Args:
        embeddings: shape ``(n, d)``; an array, a memory map or a tensor. Rows are normalised.
        pairs: positive pairs, row numbers, shape ``(p, 2)``; they are no negatives.
        labels: one a row; rows with the same label are no negatives of each other.
        settings: see :class:`BankSettings`.
        store: folder for finished blocks and the finished bank. A run that was cut goes on from
            there, and a finished one is only read.
        progress: show a bar, on a terminal only (needs tqdm).

    Returns:
        A :class:`StreamedBank`.

    Raises:
        ValueError: as the checks of :mod:`weince_lib.diagnostics.embeddings`, and for a store made
            from other embeddings or settings.
    """
    settings = settings or BankSettings()
    z = check_rows(embeddings)
    stream = PairStream(
        z,
        None if pairs is None else check_pair_rows(pairs, len(z)),
        None if labels is None else check_labels(labels, len(z)),
        settings,
    )
    blocks = None
    if store is not None:
        key: dict[str, Any] = {"embeddings": digest(z), **asdict(settings)}
        for name, given in (("pairs", pairs), ("labels", labels)):
            key[name] = None if given is None else digest(np.asarray(given).astype(str))
        blocks = BlockStore(Path(store), key)
        held = blocks.load_bank([field.name for field in fields(StreamedBank)])
        if held is not None:
            numbers = {n: held[n].item() for n in held if held[n].ndim == 0}
            return StreamedBank(**{**held, **numbers})
    bank = stream.run(blocks, progress)
    if blocks is not None:
        blocks.save_bank({k: np.asarray(v) for k, v in vars(bank).items()})
    return bank
