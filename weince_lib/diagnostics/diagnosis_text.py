"""The sentences of a diagnosis: why the verdict, and what was taken for granted."""

from __future__ import annotations

import numpy as np

from .bank_types import StreamedBank
from .batch_correction import Correction
from .shape_verdict import ShapeAt, Verdict

#: Pairs nearer than this are the same item: vectors within 1.4e-5 of each other, about what one
#: item's float32 embeddings from two batches differ by. More would cut off tails in few dimensions.
DUPLICATE = 1e-10


def reason(found: Verdict, main: ShapeAt) -> str:
    """The verdict in a sentence or two."""
    interval = f"ξ̂ = {main.shape:.2f}, 95 % interval [{main.low:.2f}, {main.high:.2f}]"
    if main.shape == -1.0:
        interval = (
            "ξ̂ ≤ -1, where maximum likelihood has no estimate "
            f"({main.known:.2f} [{main.known_low:.2f}, {main.known_high:.2f}] with the endpoint "
            "at cosine 1)"
        )
    interval = interval.replace("-", "−")
    yard = f"{main.reference:.2f} of a normal law".replace("-", "−")
    if found == "endpoint-like":
        where = {
            "at the cap": "Its implied endpoint agrees with cosine 1, the one WEINCE supposes.",
            "below the cap": "But it ends below cosine 1, where WEINCE does not look for it.",
            "beyond the cap or none": "But the implied endpoint lies beyond cosine 1.",
            "unclear": "Where it ends is not clear from these pairs.",
        }[main.cap]
        return f"The tail is shorter than a normal law's: {interval}, against the {yard}. {where}"
    if found == "Gumbel-like":
        return (
            f"The tail is not shorter than a normal law's: {interval}, against the {yard}. "
            "Nothing here speaks for an endpoint; InfoNCE's own link is the natural one."
        )
    if main.vote != "undecided":
        return (
            f"At the main threshold the tail is {main.vote} ({interval}), higher thresholds say "
            "the opposite."
        )
    if main.high - main.low < 0.1:
        return (
            f"{interval}: close to the {yard}, where a law without an endpoint and one with an "
            "endpoint in many dimensions look alike. Whichever it is, it matters little."
        )
    return f"{interval}, against the {yard}: too wide to tell. More rows would narrow it."


def assumptions(
    bank: StreamedBank,
    pairs: np.ndarray | None,
    labels: np.ndarray | None,
    correction: Correction,
    main: ShapeAt,
) -> tuple[str, ...]:
    """What was taken for granted."""
    if labels is not None:
        negatives = "Rows with the same label are no negatives of each other; all other pairs are."
    elif pairs is not None:
        negatives = f"The {len(pairs):,} pairs given are positive; all other pairs are negatives."
    else:
        negatives = (
            "No pairs or labels were given, so all pairs count as negatives. Items that belong "
            "together, if there are any, are in the tail too."
        )
    if bank.all_anchors:
        sampling = f"All {bank.pairs:,} negative pairs were looked at."
    else:
        sampling = (
            f"{len(bank.anchors):,} of {bank.rows:,} rows, drawn at random, were paired with all "
            f"rows ({bank.pairs:,} pairs). The share of pairs above the base threshold is "
            f"{bank.share:.5f} ± {bank.share_error:.5f} (standard error of the draw)."
        )
    fitted = (
        "Intervals for the shape are 95 %, by a jackknife over groups of rows: the rows are taken "
        "for independent draws, the pairs are not."
    )
    if main.fitted < main.exceedances:
        fitted += (
            f" Of {main.exceedances:,} exceedances {main.fitted:,}, drawn at random, were fitted."
        )
    batch = (
        f"WEINCE was asked in {correction.batches} "
        f"batch{'es' if correction.batches > 1 else ''} of {correction.views} rows at "
        f"τ = {correction.temperature:g}, frozen: what training would change is not in it."
    )
    return (
        "Similarity is the cosine; rows were normalised.",
        negatives,
        sampling,
        fitted,
        f"Pairs of identical rows (1 − s ≤ {DUPLICATE:g}) were left out of the fits.",
        batch,
    )
