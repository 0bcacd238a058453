"""The sentences of a diagnosis: why the verdict, and what was taken for granted."""

from __future__ import annotations

import numpy as np

from .bank_types import StreamedBank
from .batch_correction import Correction
from .shape_verdict import ShapeAt, Verdict
from .tail_checks import DUPLICATE, DistinctTail, FarPairs, LawTest, NearGroup


def headline(
    found: Verdict, far: FarPairs, few: bool, group: NearGroup, law: LawTest, told: bool
) -> str:
    """The verdict in a line; after ``undecided:`` the check that failed, if one did."""
    if not few:
        return f"undecided: {_pairs(far.count)} far above the rest"
    if group.others and not told:
        return f"undecided: most rows have {_others(group)} much nearer than all the rest"
    if law.refused:
        return "undecided: the tail does not follow the law whose shape is read"
    return found


def reason(
    found: Verdict,
    main: ShapeAt,
    far: FarPairs,
    few: bool,
    group: NearGroup,
    law: LawTest,
    told: bool,
) -> str:
    """The verdict in a sentence or two.

    Args:
        found: the verdict.
        main: the tail at the main threshold.
        far: pairs far above the rest.
        few: whether these are so few that they were left out and the rest was judged.
        group: of near rows, that most rows have.
        law: test of the law at the main threshold.
        told: whether pairs or labels were given.
    """
    advice = "give pairs or labels, or keep one row of each item"
    if told:
        advice = "pairs or labels were given: look whether they cover all such rows"
    if not few:
        return (
            f"{_pairs(far.count)} far above the rest: {_cosines(far)}. Such pairs are views or "
            "copies of the same items that count as negatives, or items of tight classes; rows "
            f"are then not independent and a shape of this tail says nothing; {advice}."
        )
    if group.others and not told:
        return (
            f"Most rows have {_others(group)} much nearer than all the rest: the gap to the next "
            f"is {group.ratio:.1f} times what it is around. So rows seem to be views or copies of "
            f"the same items, {group.others + 1} of each, that count as negatives; rows are then "
            f"not independent and a shape of this tail says nothing; {advice}."
        )
    if law.refused:
        return (
            "The pairs above the main threshold do not follow a generalised Pareto law "
            f"(A² = {law.statistic:.2f}, p = {law.p:.3f}, from {law.pairs} pairs without a common "
            "row), so its shape says nothing about an endpoint. Rows that belong together, or a "
            "mixture of several kinds of items, do this: give pairs or labels, or diagnose each "
            "kind alone."
        )
    interval = f"ξ̂ = {main.shape:.2f}, 95 % interval [{main.low:.2f}, {main.high:.2f}]"
    if main.by_moments:
        interval += " (by moments: maximum likelihood has no estimate at or below -1)"
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
    tail: DistinctTail,
    far: FarPairs,
    few: bool,
    group: NearGroup,
    law: LawTest,
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
    if pairs is not None:
        fitted += " The rows of a positive pair count as one."
    if main.fitted < main.exceedances:
        fitted += (
            f" Of {main.exceedances:,} exceedances {main.fitted:,}, drawn at random, were fitted."
        )
    repeated = (
        f"{tail.repeats:,} rows repeat an earlier row (1 − s ≤ {DUPLICATE:g}) and were left out of "
        "the fits, so that each item counts once."
        if tail.repeats
        else f"No row repeats another (1 − s ≤ {DUPLICATE:g})."
    )
    if not far.count:
        apart = "No pairs lie far above the rest."
    elif few:
        apart = (
            f"{_pairs(far.count)} far above the rest ({_cosines(far)}). As they are of {far.rows} "
            "rows only, they were left out of the fits, and their rows count as one in intervals."
        )
    else:
        apart = "Rows whose pairs lie far above the rest count as one in intervals."
    if np.isnan(group.ratio):
        near = "Whether rows have groups of near rows was not looked at, as too many repeat others."
    elif group.others and labels is not None:
        near = (
            f"Most rows have {_others(group)} much nearer than all the rest. So rows of one label "
            "were taken for views of one item, and count as one in intervals and tests."
        )
    elif group.others:
        near = f"Most rows have {_others(group)} much nearer than all the rest."
    else:
        near = "No number of nearest rows stands out, as it would with views of the same items."
    if np.isnan(law.p):
        tested = (
            f"The law was not tested: only {law.pairs} pairs above the main threshold have no row "
            "in common."
        )
    else:
        tested = (
            f"The generalised Pareto law above the main threshold was tested on {law.pairs} pairs "
            f"without a common row: p = {law.p:.3f}."
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
        repeated,
        apart,
        near,
        tested,
        batch,
    )


def _pairs(count: int) -> str:
    """How many pairs lie somewhere, verb included."""
    return "1 pair lies" if count == 1 else f"{count:,} pairs lie"


def _others(group: NearGroup) -> str:
    return "1 other" if group.others == 1 else f"{group.others} others"


def _cosines(far: FarPairs) -> str:
    return (
        f"their cosines are at least {far.lowest:.3f}, all others at most {far.rest:.3f}".replace(
            "-", "−"
        )
    )
