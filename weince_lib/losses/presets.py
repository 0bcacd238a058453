"""Named settings of the tail: the paper's, the release's, and ones that can say no."""

from __future__ import annotations

from .evidence import TailSettings

#: ``"paper"``: Eqs. (3.1)-(3.2). ``"release"``: what the authors' training logits use (beta = 1).
#: ``"calibrated"``: maximum-likelihood beta and an evidence that can say no. Its numbers come from
#: the calibration study (:mod:`weince_lib.diagnostics.calibration`, notebook 05): on normal,
#: exponential and Gumbel tails, with 62 to 65,534 negatives, neither the share of open gates nor
#: the mean gate exceeds 5 %, with as much power at beta = 1 and 2 as that leaves. The tail is the
#: 32 hardest negatives however many there are (a fraction so small that ``min_tail`` rules up to
#: 65,000): evidence adds up over tail points, so with a tail that grows with the batch a fixed
#: margin would open for normal cosines as well. At a margin of 3.5 a steepness of 4 keeps the gate
#: shut (1e-6) without evidence and open within one AIC unit; the paper's 1 needs a margin of 5 and
#: loses a fifth of the power at beta = 2, and 8 gains nothing. ``cap_quantile`` is the paper's:
#: the study does not speak of it.
PRESETS: dict[str, TailSettings] = {
    "paper": TailSettings(),
    "release": TailSettings(tail_index="unit"),
    "calibrated": TailSettings(
        tail_index="hill",
        evidence="likelihood",
        tail_fraction=0.0005,
        evidence_sharpness=4.0,
        evidence_margin=3.5,
    ),
}


def preset(name: str) -> TailSettings:
    """Return the settings of a named preset.

    Raises:
        ValueError: for an unknown name, with the known ones listed.
    """
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}; known: {', '.join(PRESETS)}")
    return PRESETS[name]
