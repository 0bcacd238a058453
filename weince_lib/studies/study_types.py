"""What a study is made of: settings, runs, and the study itself."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ..losses import LOSSES, AblationSettings, preset
from ..records import store
from ..runs.config import SEEDS, ConfigError, VisionConfig, vision_config
from ..runs.fastest import layouts
from ..runs.text_config import TextConfig, text_config
from ..runs.vision import EXPERIMENT
from ..vision import Execution

#: What the ablation's labels call the gates of these presets.
GATES = {"paper": preset("paper"), "likelihood": preset("calibrated")}


@dataclass(frozen=True)
class Setting:
    """One configuration of a loss.

    Attributes:
        loss: ``"infonce"``, ``"weince"``, ``"ablation"`` or a key of
            :data:`weince_lib.losses.LOSSES`.
        temperature: tau; 0.5 is the paper's for vision. Left alone for a loss that sets its own.
        preset: of WEINCE, see :data:`weince_lib.losses.PRESETS`.
        kappa_rho: steepness of the cap-proximity factor; ``None`` takes the preset's.
        kappa_aic: steepness of the evidence factor; ``None`` takes the preset's.
        margin: m, the evidence asked for; ``None`` takes the preset's.
        ablation: the objective of ``"ablation"``; ``None`` for the other losses.
        options: keywords of a loss of :data:`weince_lib.losses.LOSSES`; ``None`` leaves all of them
            to the loss.
    """

    loss: str
    temperature: float = 0.5
    preset: str = "paper"
    kappa_rho: float | None = None
    kappa_aic: float | None = None
    margin: float | None = None
    ablation: AblationSettings | None = None
    options: Mapping[str, bool | float | str] | None = field(default=None, hash=False)

    def tail(self) -> dict[str, float]:
        """The gate's three numbers under the library's names; none for another loss."""
        if self.loss != "weince":
            return {}
        given = {
            "cap_sharpness": self.kappa_rho,
            "evidence_sharpness": self.kappa_aic,
            "evidence_margin": self.margin,
        }
        usual = preset(self.preset)
        return {n: getattr(usual, n) if value is None else value for n, value in given.items()}

    @property
    def label(self) -> str:
        """Its name in tables, in the paper's symbols; the same for every way of writing it."""
        if self.loss == "infonce":
            return f"tau={self.temperature:g}"
        if self.ablation is not None:
            return f"{ablation_label(self.ablation)} tau={self.temperature:g}"
        if self.loss in LOSSES:
            return named_label(self.loss, self.temperature, self.options or {})
        rho, aic, margin = self.tail().values()
        return (
            f"{self.preset} tau={self.temperature:g} "
            f"kappa_rho={rho:g} kappa_aic={aic:g} m={margin:g}"
        )

    def values(self, seed: int) -> dict[str, Any]:
        """The settings of one encoder seed that a config is built from."""
        own: dict[str, Any] = {"loss": self.loss, "seed": seed}
        if not (self.loss in LOSSES and LOSSES[self.loss].sets_itself):
            own["temperature"] = self.temperature
        if self.ablation is not None:
            own["ablation"] = self.ablation
        if self.loss == "weince":
            own |= {"preset": self.preset} | self.tail()
        if self.options is not None:
            own["options"] = dict(self.options)
        return own

    def config(self, profile: str, seed: int, settings: Mapping[str, Any]) -> VisionConfig:
        """The run of one encoder seed; refused as by :func:`.vision_config`."""
        return vision_config(profile, **(dict(settings) | self.values(seed)))


def at_temperatures(loss: str, temperatures: Iterable[float]) -> dict[str, Setting]:
    """A loss at each of several temperatures, by names such as ``"infonce-0.1"``."""
    return {f"{loss}-{tau:g}": Setting(loss, temperature=tau) for tau in temperatures}


def single(*groups: Mapping[str, Setting]) -> dict[str, tuple[Setting, ...]]:
    """Methods of one setting each, by name."""
    return {name: (setting,) for group in groups for name, setting in group.items()}


def named_label(loss: str, temperature: float, options: Mapping[str, bool | float | str]) -> str:
    """A loss of :data:`weince_lib.losses.LOSSES` in words, with all of its options.

    Such as ``"endpoint curvature=0.9 decoupled=False tau=0.2"`` or ``"self-setting rule=kl"``.
    """
    make: Any = LOSSES[loss]
    words = [loss]
    for name, value in make(**options).own_settings().items():
        words.append(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}")
    if not make.sets_itself:
        words.append(f"tau={temperature:g}")
    return " ".join(words)


def ablation_label(chosen: AblationSettings) -> str:
    """An objective in words, such as ``"blend beta=line gate=paper lambda=shuffled"``."""
    words: list[str] = [chosen.link]
    tail = chosen.tail
    if chosen.link != "softmax":
        beta = tail.tail_index if chosen.fixed_beta is None else f"{chosen.fixed_beta:g}"
        words.append(f"beta={beta}")
    gate = [n for n, g in GATES.items() if replace(g, tail_index=tail.tail_index) == tail]
    if not gate:
        words.append(str(tail))
    elif chosen.link == "blend":
        words.append(f"gate={gate[0]}")
    if chosen.fixed_lambda is not None:
        words.append(f"lambda={chosen.fixed_lambda:g}")
    elif chosen.assignment != "own":
        words.append(f"lambda={chosen.assignment}")
    for name in ("softmax", "weibit"):
        weight = getattr(chosen, f"{name}_weight")
        if weight:
            words.append(f"+ {weight:g} {name} top-{chosen.hardest}")
    return " ".join(words)


#: The symbols of a label's words, for readers.
_SYMBOLS = {
    "tau=": "τ = ",
    "kappa_rho=": "κ_ρ = ",
    "kappa_aic=": "κ_AIC = ",
    "beta=": "β = ",
    "lambda=": "λ = ",
    "m=": "m = ",
}


def label_in_symbols(label: str) -> str:
    """A setting's label for readers: ``"tau=0.5 m=2"`` is "τ = 0.5, m = 2"."""
    words = label.split(" ")
    for i, word in enumerate(words):
        for name, symbol in _SYMBOLS.items():
            if word.startswith(name):
                words[i] = symbol + word.removeprefix(name)
    return re.sub(r" (?=\S+ = )", ", ", " ".join(words))


def method_title(method: str) -> str:
    """A name for readers: ``"weince-0.2"`` is WEINCE at a temperature of 0.2."""
    kind, _, number = method.partition("-")
    name = {"infonce": "InfoNCE", "weince": "WEINCE"}.get(kind)
    if name and number:
        return f"{name}, τ = {number}"
    return name or (f"pure endpoint link, β = {number}" if kind == "weibit" else method)


@dataclass(frozen=True)
class Run:
    """One run of a study: the label of its setting, its encoder seed, and the record's key."""

    setting: str
    seed: int
    config: VisionConfig | TextConfig
    key: str


@dataclass(frozen=True)
class Study:
    """A named set of runs and what they are compared for.

    Attributes:
        name: what commands and files call it.
        question: what it answers, and what it cannot.
        profile: gives every setting that the study leaves open.
        methods: name to its settings, in the order that breaks ties on validation.
        compare: pairs (a, b) of methods whose difference a - b the tables show.
        settings: what all runs have in common beyond the profile.
        seeds: encoder seeds; the paper's four.
        cores: threads of a run on a CPU.
        gpus: GPUs of a run; 0 for a study made for a CPU.
        by_rule: methods whose settings a rule chooses from other runs, with the rule in words;
            such a method has no settings as long as the rule has not chosen.
        added: methods that were added after the study was registered.
        data: words for its data set, under which findings show what it decides; a study without
            them is not among the findings.
        titles: what readers call its methods, where :func:`method_title` does not know it. Words
            for readers are no part of :meth:`definition`.
        rule: how the study is judged, in words, where it is judged by a rule of its own; a part of
            :meth:`definition`.
        predictions: what would sink a method, one sentence each, by its name; a part of
            :meth:`definition`.
    """

    name: str
    question: str
    profile: str
    methods: Mapping[str, tuple[Setting, ...]]
    compare: tuple[tuple[str, str], ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = SEEDS
    cores: int = 1
    gpus: int = 0
    by_rule: Mapping[str, str] = field(default_factory=dict)
    added: tuple[str, ...] = ()
    data: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    rule: str = ""
    predictions: Mapping[str, str] = field(default_factory=dict)
    #: What its records are filed under.
    experiment: ClassVar[str] = EXPERIMENT

    def __post_init__(self) -> None:
        for name in itertools.chain.from_iterable(self.compare):
            if name not in self.methods:
                raise ConfigError(f"study {self.name} compares {name!r}, which is no method of it")
        for name in self.predictions:
            if name not in self.methods:
                raise ConfigError(f"study {self.name} predicts {name!r}, which is no method of it")

    def definition(self) -> str:
        """What is fixed before the first run, as canonical JSON.

        Question, profile's settings, seeds, methods, their order and comparisons, and its own rule
        and predictions if it has any. Methods in ``added`` have no part in it, and of those in
        ``by_rule`` it holds the rule.
        """
        first = self.example(self.seeds[0]).canonical()
        own = {"seed", "loss", "temperature", "tail", "ablation", "options"}
        methods = {
            name: self.by_rule.get(name, [s.label for s in settings])
            for name, settings in self.methods.items()
            if name not in self.added
        }
        compared = [pair for pair in self.compare if not set(pair) & set(self.added)]
        content: dict[str, Any] = {
            "name": self.name,
            "question": self.question,
            "common": {name: value for name, value in first.items() if name not in own},
            "seeds": list(self.seeds),
            "methods": [[name, value] for name, value in methods.items()],
            "compare": [list(pair) for pair in compared],
        }
        # Younger than some registered studies, whose definitions stay as they are.
        if self.rule:
            content["rule"] = self.rule
        if self.predictions:
            content["predictions"] = dict(self.predictions)
        return json.dumps(content, sort_keys=True, separators=(",", ":"))

    def title(self, method: str) -> str:
        """A method's name for readers."""
        return self.titles.get(method) or method_title(method)

    def all_settings(self) -> list[Setting]:
        """Every setting once, by label; those of the first method first."""
        unique = {s.label: s for settings in self.methods.values() for s in settings}
        return list(unique.values())

    def example(self, seed: int) -> VisionConfig | TextConfig:
        """A run of a seed, for what all runs share.

        It is that of the first setting; of InfoNCE's in a study whose methods are still to be
        chosen.

        Args:
            seed: of the encoder.
        """
        return self.config((self.all_settings() or [Setting("infonce")])[0], seed)

    def runs(self) -> list[Run]:
        """Every run once, seed by seed: a study cut short has all settings of its first seeds."""
        return [
            Run(setting.label, seed, config, store.content_key(self.experiment, config.canonical()))
            for seed in self.seeds
            for setting in self.all_settings()
            for config in [self.config(setting, seed)]
        ]

    def config(self, setting: Setting, seed: int) -> VisionConfig | TextConfig:
        """One run's settings."""
        return setting.config(self.profile, seed, self.settings)

    def run(self, key: str) -> Run:
        """The run with this key.

        Raises:
            ConfigError: if the study has none, as after a change of its settings.
        """
        for run in self.runs():
            if run.key == key:
                return run
        raise ConfigError(f"study {self.name} has no run {key!r}; see `weince plan {self.name}`")


@dataclass(frozen=True)
class TextStudy(Study):
    """A study of sentence encoders; its settings go into :class:`.text_config.TextConfig`."""

    experiment: ClassVar[str] = "text"

    def config(self, setting: Setting, seed: int) -> TextConfig:
        """One run's settings."""
        return text_config(self.profile, **(dict(self.settings) | setting.values(seed)))


def execution(config: VisionConfig) -> Execution:
    """How a study carries out a run of images.

    A run whose precision is ``"fastest"`` chooses its memory format by itself, see
    :mod:`.fastest`. The small ResNet is trained with ``channels_last`` on a CPU too where that is
    safe: it made a step 1.7 times as fast at width 16.
    """
    small = config.precision != "fastest" and config.width > 0
    return Execution(channels_last=True if small and True in layouts(config) else None)
