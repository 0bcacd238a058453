"""The studies: which runs answer which question, as a typed grid.

A study trains every setting of every method from every encoder seed. A method is what a table has
a row or column for: one setting, or several among which validation chooses. Methods may share
settings, and studies may share runs: a run is made once, whoever asks for it.
"""

from __future__ import annotations

import itertools

from ..runs.config import ConfigError
from . import grid_annealed, grid_beyond, grid_cifar, grid_gain, grid_text
from .grid_text import TEXT_TEMPERATURES
from .study_types import Run, Setting, Study, TextStudy

__all__ = [
    "PAPER_ENCODERS",
    "STUDIES",
    "TEXT_TEMPERATURES",
    "Run",
    "Setting",
    "Study",
    "TextStudy",
    "paper_cells",
    "paper_study",
    "study",
]

#: The paper's vision study (Tables 2, 3, 6 and 7): which data set is trained with which encoder.
#: Tiny-ImageNet is the sweep that the paper calls its rebuttal's.
PAPER_ENCODERS = {
    "cifar10": ("resnet18", "resnet50"),
    "cifar100": ("resnet18", "resnet50"),
    "stl10": ("resnet18", "resnet50"),
    "imagenet32": ("resnet18", "resnet50"),
    "tiny-imagenet": ("resnet18", "vit-small"),
}
INFONCE = Setting("infonce")
WEINCE = Setting("weince")
#: The paper's 27 WEINCE settings (section 5 of its protocol), its default first: it wins ties.
PAPER_GRID = tuple(
    sorted(
        (
            Setting("weince", kappa_rho=rho, kappa_aic=aic, margin=m)
            for rho, aic, m in itertools.product(
                (5.0, 10.0, 20.0), (0.5, 1.0, 2.0), (0.0, 2.0, 6.0)
            )
        ),
        key=lambda s: s.label != WEINCE.label,
    )
)


def paper_cells() -> tuple[tuple[str, str], ...]:
    """All pairs of data set and encoder of the paper, data set by data set."""
    return tuple((data, name) for data, names in PAPER_ENCODERS.items() for name in names)


def paper_study(dataset: str, encoder: str) -> Study:
    """The paper's own comparison: InfoNCE as it is, WEINCE chosen from 27 settings.

    4 InfoNCE and 108 WEINCE runs.
    """
    return Study(
        name=f"paper-{dataset}-{encoder}",
        question=(
            f"Tables 2, 3, 6 and 7 on {dataset} with {encoder}, by the paper's protocol: WEINCE "
            "has 27 settings to choose from and InfoNCE one, so a difference is also one of tuning."
        ),
        profile="paper",
        settings={"dataset": dataset, "encoder": encoder},
        methods={"infonce": (INFONCE,), "weince": (WEINCE,), "weince-tuned": PAPER_GRID},
        compare=(("weince-tuned", "infonce"), ("weince", "infonce")),
        titles=grid_gain.TITLES,
        cores=8,
        gpus=1,
    )


def _cpu_fashion() -> Study:
    """The study for two cores: 12 settings, four seeds, 48 runs of two to three minutes.

    Two hours of one core. The two gain studies are run on the same two cores, so that 156 runs with
    four seeds each have to fit; that is why a run has 10 epochs of 10,000 images and not 30. The
    smaller encoders' differences are noisier, and what they cannot tell stays open.

    Which runs an honest answer needs:

    - The paper's claim, WEINCE against InfoNCE at tau = 0.5, each as it comes: one setting each.
    - The paper's protocol lets validation choose WEINCE's settings. In its grid kappa_AIC and m
      hardly matter, because the line-fit evidence lies far above every margin for nearly every
      anchor: from the tightest to the loosest pair of them the mean lambda of encoders trained on
      digits moves by less than 1 % of itself. What is left of the 27 settings is kappa_rho in
      {5, 10, 20}, and these are run.
    - A lower temperature sharpens the softmax too. The strong baseline is InfoNCE with its
      temperature chosen on validation. WEINCE gets one lower temperature as its fourth setting, so
      that the two are also compared at one temperature below 0.5, and each at its own best.
    - The release's beta = 1 and the calibrated evidence, at tau = 0.5, say what each change does.
    """
    low = 0.2
    steepness = tuple(Setting("weince", kappa_rho=rho) for rho in (10.0, 5.0, 20.0))
    lower = Setting("weince", temperature=low)
    return Study(
        name="cpu-fashion",
        question=(
            "Does WEINCE improve on InfoNCE on Fashion-MNIST (10,000 images, small ResNet, 10 "
            "epochs), and on InfoNCE with a temperature of its own? It cannot speak of other data "
            "sets, a hundred classes, deep encoders or long training, nor of the losses that the "
            "authors' script adds."
        ),
        profile="cpu",
        methods={
            "infonce": (INFONCE,),
            "infonce-low": (Setting("infonce", temperature=low),),
            "infonce-tuned": tuple(grid_gain.INFONCE_AT.values()),
            "weince": (WEINCE,),
            "weince-tuned": steepness,
            "weince-low": (lower,),
            "weince-best": (*steepness, lower),
            "weince-release": (Setting("weince", preset="release"),),
            "weince-calibrated": (Setting("weince", preset="calibrated"),),
        },
        compare=(
            ("weince", "infonce"),
            ("weince-tuned", "infonce"),
            ("infonce-tuned", "infonce"),
            ("weince-low", "infonce-low"),
            ("weince-best", "infonce-tuned"),
            ("weince-release", "infonce"),
            ("weince-calibrated", "infonce"),
        ),
        titles=grid_gain.TITLES
        | {
            "infonce-low": "InfoNCE, lower τ",
            "weince-low": "WEINCE, lower τ",
            "weince-best": "WEINCE, settings and τ on validation",
        },
    )


#: The profile for one GPU as a study of eight runs; :mod:`weince_lib.experiments.gpu_study` makes
#: the two of a seed by one command.
GPU_CIFAR = Study(
    name="gpu-cifar",
    question=(
        "Does WEINCE improve on InfoNCE with ResNet-18 on CIFAR-10 (JPEG), 100 epochs in "
        "bfloat16? It cannot speak of other temperatures."
    ),
    profile="gpu",
    methods={"infonce": (INFONCE,), "weince": (WEINCE,)},
    compare=(("weince", "infonce"),),
    cores=16,
    gpus=1,
)
#: The quick profile as a study of eight runs: tries the pipeline and the tables in minutes.
QUICK_DIGITS = Study(
    name="quick-digits",
    question="Does the pipeline work? Digits of 8x8 pixels decide nothing about the paper.",
    profile="quick",
    methods={"infonce": (INFONCE,), "weince": (WEINCE,)},
    compare=(("weince", "infonce"),),
)
#: Every study by name.
STUDIES: dict[str, Study] = {
    s.name: s
    for s in (
        QUICK_DIGITS,
        _cpu_fashion(),
        *grid_cifar.STUDIES,
        *grid_gain.STUDIES,
        *grid_beyond.STUDIES,
        *grid_annealed.GATES.values(),
        GPU_CIFAR,
        *(paper_study(*cell) for cell in paper_cells()),
        *grid_text.STUDIES,
    )
}


def study(name: str) -> Study:
    """A study by its name.

    Raises:
        ConfigError: for an unknown name, with the known ones listed.
    """
    if name not in STUDIES:
        raise ConfigError(f"unknown study {name!r}; known: {', '.join(STUDIES)}")
    return STUDIES[name]
