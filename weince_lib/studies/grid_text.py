"""Studies of sentences: WEINCE of each kind and InfoNCE, at one temperature and at its own best."""

from __future__ import annotations

from .grid_gain import TITLES as IMAGE_TITLES
from .study_types import Setting, TextStudy

#: Seeds of the sentence studies; the paper says neither which nor how many it has.
TEXT_SEEDS = (1, 2, 3, 4, 5)
#: The paper's temperature for sentences.
TEXT_TAU = 0.05
#: Temperatures InfoNCE is given a choice of there, the paper's first: it wins ties. The range is
#: where one seed of the static encoder had its best dev score inside: 67.0 at 0.02, 68.6 at 0.05,
#: 66.9 at 0.1.
TEXT_TEMPERATURES = (TEXT_TAU, 0.02, 0.03, 0.07, 0.1)
#: The second temperature at which WEINCE and InfoNCE are compared. The correction sharpens the top
#: of the scores as a lower temperature does, so that it may want a higher one.
TEXT_OTHER_TAU = 0.07
TITLES = IMAGE_TITLES | {
    "infonce-other": "InfoNCE, another τ",
    "weince-other": "WEINCE, another τ",
}


def _text_study(name: str, question: str, profile: str, *, gpus: int) -> TextStudy:
    """WEINCE of each preset at tau = 0.05, InfoNCE at several, and WEINCE at one of these."""
    presets = {
        "weince": Setting("weince", TEXT_TAU),
        "weince-release": Setting("weince", TEXT_TAU, preset="release"),
        "weince-calibrated": Setting("weince", TEXT_TAU, preset="calibrated"),
        "weince-other": Setting("weince", TEXT_OTHER_TAU),
    }
    return TextStudy(
        name=name,
        question=question,
        profile=profile,
        methods={
            "infonce": (Setting("infonce", TEXT_TAU),),
            "infonce-tuned": tuple(Setting("infonce", tau) for tau in TEXT_TEMPERATURES),
            "infonce-other": (Setting("infonce", TEXT_OTHER_TAU),),
            **{name: (setting,) for name, setting in presets.items()},
            "weince-tuned": (presets["weince"], presets["weince-other"]),
        },
        compare=(
            ("weince", "infonce"),
            ("weince-release", "infonce"),
            ("weince-calibrated", "infonce"),
            ("weince-other", "infonce-other"),
            ("infonce-tuned", "infonce"),
            ("weince-tuned", "infonce-tuned"),
        ),
        titles=TITLES,
        seeds=TEXT_SEEDS,
        cores=8 if gpus else 1,
        gpus=gpus,
    )


#: Nine settings and 45 runs each.
STUDIES = (
    _text_study(
        "cpu-static",
        "Does WEINCE improve on InfoNCE for a mean of word embeddings trained on WordNet's "
        "glosses, judged on STS-B? It cannot speak of transformers or of Wikipedia.",
        "cpu",
        gpus=0,
    ),
    _text_study(
        "paper-simcse",
        "The paper's SimCSE comparison: BERT-base, 10^6 sentences of Wikipedia, STS-B; and "
        "whether a temperature of its own does as much for InfoNCE.",
        "paper",
        gpus=1,
    ),
)
