"""Typed settings of a run, and the profiles that give their defaults.

A config holds everything its result depends on and nothing else: its canonical form is what the
record's key is made from. Notebook parameters that say ``"auto"`` are left to the profile.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from ..errors import InputError
from ..losses import (
    LOSSES,
    PRESETS,
    RELEASED,
    AblationLoss,
    AblationSettings,
    ContrastiveLoss,
    InfoNCELoss,
    TailSettings,
    WEINCELoss,
    preset,
)
from ..vision.datasets import DATA_SETS, DATASETS

#: The value of a notebook parameter that is left to the profile.
AUTO = "auto"

Positive = Annotated[int, Field(ge=1)]
Model = TypeVar("Model", bound=BaseModel)


class ConfigError(InputError):
    """Settings that make no run; one line that names the value and the known ones."""


class RunConfig(BaseModel):
    """What the configs of image and of sentence runs share.

    Both have the fields below, each in its own order: records and notebooks show them in it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    if TYPE_CHECKING:
        encoder: str
        loss: str
        temperature: float
        tail: TailSettings | None
        options: dict[str, bool | float | str] | None
        seed: int

    @model_validator(mode="before")
    @classmethod
    def _whole_options(cls, values: Any) -> Any:
        """All options of a loss that has them, so that one run has one config."""
        make = LOSSES.get(str(values.get("loss"))) if isinstance(values, dict) else None
        if make is None:
            return values
        given = values.get("options") or {}
        known = make().own_settings()
        for name in given:
            if name not in known:
                raise ValueError(
                    f"loss {values['loss']!r} has no option {name!r}; "
                    f"known: {', '.join(known) or 'none'}"
                )
        return values | {"options": make(**given).own_settings()}

    @model_validator(mode="after")
    def _loss_fits(self) -> Self:
        belongs = {
            "tail": self.loss == "weince",
            "ablation": self.loss == "ablation",
            "options": self.loss in LOSSES,
        }
        for name, wanted in belongs.items():
            value = getattr(self, name, None)
            if (value is not None) != wanted:
                raise ValueError(f"loss {self.loss!r} and {name} = {value} do not fit")
        usual = type(self).model_fields["temperature"].default
        own = self.loss in LOSSES and LOSSES[self.loss].sets_itself
        if own and self.temperature != usual:
            raise ValueError(
                f"temperature = {self.temperature}: the loss {self.loss!r} sets its own; leave it"
            )
        return self

    def canonical(self) -> dict[str, Any]:
        """JSON values, the same for every way of writing the same run.

        Fields younger than some records are there only where they are used: those keep their keys.
        """
        younger = ("ablation", "options")
        return {
            name: value
            for name, value in self.model_dump(mode="json").items()
            if name not in younger or value is not None
        }

    @property
    def label(self) -> str:
        """The loss's name in tables and figures, see :func:`loss_label`; a rule belongs to it."""
        if self.options is not None:
            rule = self.options.get("rule")
            return self.loss if rule is None else f"{self.loss}-{rule}"
        return loss_label(self.loss, self.tail, getattr(self, "ablation", None))

    def _build_loss(self, **common: Any) -> ContrastiveLoss:
        """The loss module; ``common`` holds the keywords that all runs of a kind give their loss.

        Rows are not validated: training watches the loss itself.
        """
        common["validate"] = False
        if self.options is not None:
            kind = LOSSES[self.loss]
            make: Callable[..., ContrastiveLoss] = kind
            if not kind.sets_itself:
                common["temperature"] = self.temperature
            return make(**common, **self.options)
        if self.tail is None:
            return InfoNCELoss(self.temperature, **common)
        return WEINCELoss(self.temperature, **common, **dataclasses.asdict(self.tail))


class VisionConfig(RunConfig):
    """One SimCLR run: training, then frozen-feature evaluation (paper section 4, appendix F).

    Attributes:
        dataset: see :func:`weince_lib.vision.load`. STL-10 is trained on its unlabelled images and
            evaluated on its labelled ones; every other set is trained and evaluated on one.
        train_limit: train on the first so many images; 0 means all. Of STL-10 it limits the
            unlabelled images and leaves the labelled ones alone.
        image_size: side length images of a folder are scaled and cropped to; 0 takes them as they
            are, all of one size.
        encoder: see :func:`weince_lib.vision.build_encoder`.
        width: of the small ResNet; 0 for encoders that have their own.
        projection_dim: size of z.
        loss: ``"infonce"``, ``"weince"``, ``"ablation"`` for the parts of a gain one by one, or a
            key of :data:`weince_lib.losses.LOSSES`.
        temperature: tau; left at its default for a loss that sets its own.
        tail: how WEINCE reads the batch's tail; ``None`` for the other losses.
        ablation: the objective of ``"ablation"``; ``None`` for the other losses.
        options: keywords of a loss of :data:`weince_lib.losses.LOSSES`; those not given get the
            loss's defaults. ``None`` for the other losses.
        seed: encoder seed: weights, order and augmentation.
        epochs: of contrastive training.
        batch_size: pairs per step.
        learning_rate: of Adam.
        weight_decay: of Adam.
        precision: of the encoder: ``"float32"``, ``"bfloat16"`` (autocast), or ``"fastest"``, the
            one of the two in which this machine's training step is the faster, see
            :mod:`.fastest`. The record says which it was.
        probe_epochs: of the linear probe.
        probe_seeds: the probe's seeds; averaged within an encoder.
        split_seeds: seeds of the 80/20 splits for kNN; averaged within an encoder.
    """

    dataset: str
    train_limit: Annotated[int, Field(ge=0)] = 0
    image_size: Annotated[int, Field(ge=0)] = 0
    encoder: Literal["resnet-small", "resnet18", "resnet50", "vit-small"]
    width: Annotated[int, Field(ge=0)] = 16
    projection_dim: Positive = 64
    loss: Literal[
        "infonce",
        "weince",
        "ablation",
        "endpoint",
        "self-setting",
        "annealed",
        "hard-negatives",
        "arctanh",
    ]
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.5
    tail: TailSettings | None = None
    ablation: AblationSettings | None = None
    options: dict[str, bool | float | str] | None = None
    seed: Annotated[int, Field(ge=0)] = 7
    epochs: Positive = 100
    batch_size: Annotated[int, Field(ge=2)] = 256
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3e-4
    weight_decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1e-6
    precision: Literal["float32", "bfloat16", "fastest"] = "float32"
    probe_epochs: Positive = 100
    probe_seeds: Annotated[tuple[int, ...], Field(min_length=1)] = (1, 2, 3, 4, 5)
    split_seeds: Annotated[tuple[int, ...], Field(min_length=1)] = (1, 2, 3, 4, 5)

    @field_validator("dataset")
    @classmethod
    def _known_dataset(cls, dataset: str) -> str:
        folder = dataset.partition(":")
        if dataset not in DATA_SETS and not (folder[0] == "imagefolder" and folder[2]):
            raise ValueError(f"unknown data set; known: {', '.join(DATASETS)}")
        return dataset

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        if (self.width == 0) == (self.encoder == "resnet-small"):
            raise ValueError(f"width = {self.width} does not fit encoder {self.encoder!r}")
        return self

    def build_loss(self) -> ContrastiveLoss | AblationLoss:
        """The loss module. Rows are not validated: training watches the loss itself."""
        if self.ablation is not None:
            return AblationLoss(self.temperature, self.ablation, validate=False)
        return self._build_loss()


def loss_label(
    loss: str, tail: TailSettings | None, ablation: AblationSettings | None = None
) -> str:
    """``"infonce"``, ``"weince"`` for the paper's preset, ``"weince-<preset>"`` or ``-custom``.

    Of the ablation: ``"released"`` for the release's whole objective, ``"weibit"`` for the pure
    Weibull link, else ``"ablation"``.
    """
    if ablation is not None:
        if ablation == RELEASED:
            return "released"
        return "weibit" if ablation.link == "weibit" and not ablation.has_extras else "ablation"
    if loss == "infonce" or tail is None:
        return "infonce"
    for name, settings in PRESETS.items():
        if settings == tail:
            return "weince" if name == "paper" else f"weince-{name}"
    return "weince-custom"


#: Defaults of each profile (quick on two cores, cpu for hours on two, the others on GPUs).
PROFILES: dict[str, dict[str, Any]] = {
    "quick": {
        "dataset": "digits",
        "encoder": "resnet-small",
        "width": 16,
        # 1,352 images make 10 steps of 128 pairs an epoch: a few epochs at the learning rate of
        # the paper, or a probe of 100 epochs, would end far from converged.
        "epochs": 15,
        "batch_size": 128,
        "learning_rate": 1e-3,
        "probe_epochs": 600,
    },
    "cpu": {
        "dataset": "fashion-mnist",
        "train_limit": 10_000,
        "encoder": "resnet-small",
        "width": 16,
        # 390 steps, two to three minutes on one thread. With so few the learning rate of 3e-4
        # ends far from converged.
        "epochs": 10,
        "learning_rate": 1e-3,
        # Not bfloat16: without the instructions for it a CPU takes five times as long.
        "precision": "float32",
    },
    # One free GPU of 15 GB for one session, both losses. Half the paper's epochs; float32, as such
    # GPUs (Turing) have no bfloat16.
    "colab": {
        "dataset": "cifar10",
        "encoder": "resnet18",
        "width": 0,
        "epochs": 50,
        "precision": "float32",
    },
    # The study gpu-cifar: ten minutes on one device.
    "gpu": {
        "dataset": "imagefolder:data/cifar10-jpeg",
        "encoder": "resnet18",
        "width": 0,
        "epochs": 100,
        "precision": "bfloat16",
    },
    "paper": {
        "dataset": "cifar100",
        "encoder": "resnet18",
        "width": 0,
        "epochs": 100,
    },
}
#: Encoder seeds of the paper, used by every profile (appendix F.2; the release's numbers).
SEEDS = (7, 21, 63, 84)

_TAIL_FIELDS = tuple(field.name for field in dataclasses.fields(TailSettings))


def profile_defaults(
    profile: str, profiles: Mapping[str, dict[str, Any]] = PROFILES
) -> dict[str, Any]:
    """The settings a profile fixes.

    Raises:
        ConfigError: for an unknown profile, with the known ones listed.
    """
    if profile not in profiles:
        raise ConfigError(f"unknown profile {profile!r}; known: {', '.join(profiles)}")
    return dict(profiles[profile])


def vision_config(profile: str, **settings: Any) -> VisionConfig:
    """Build a config from a profile and flat settings, as notebooks and the pipeline give them.

    Args:
        profile: a name in :data:`PROFILES`.
        settings: fields of :class:`VisionConfig`; instead of ``tail``, ``preset`` and the single
            fields of :class:`TailSettings`. ``"auto"`` leaves a setting to the profile or preset.

    Raises:
        ConfigError: one line naming the value and what is known.
    """
    merged = with_tail(profile_defaults(profile), settings)
    if merged.get("encoder") != "resnet-small":
        merged["width"] = 0
    return parse(VisionConfig, merged)


def with_tail(defaults: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Flat settings over a profile's, with the single ones of the tail put together.

    Raises:
        ConfigError: for an unknown preset, or naming the wrong setting of the tail.
    """
    given = {name: value for name, value in settings.items() if value != AUTO}
    merged = {"loss": "weince"} | dict(defaults) | given
    chosen = merged.pop("preset", "paper")
    fields = [field.name for field in dataclasses.fields(TailSettings)]
    overrides = {name: merged.pop(name) for name in fields if name in merged}
    # Checked for InfoNCE too: a misspelt preset should not pass because it is not used.
    try:
        values = dataclasses.asdict(preset(chosen)) | overrides
        tail = TypeAdapter(TailSettings).validate_python(values)
    except ValidationError as error:
        raise _config_error(error, TailSettings) from error
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if merged["loss"] not in ("infonce", "ablation", *LOSSES):
        merged["tail"] = tail
    return merged


def profile_stamp(profile: str) -> str:
    """The profile's name with a hash of its settings: tables leave out runs of older settings."""
    return stamp(profile, vision_config(profile).canonical())


def stamp(profile: str, canonical: Mapping[str, Any]) -> str:
    """A profile's name with a hash of its run's settings in canonical form."""
    text = json.dumps(canonical, sort_keys=True)
    return f"{profile}@{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def is_own(config: VisionConfig, profile: str) -> bool:
    """Whether a run is the profile's: it varies loss, preset and seed, and nothing else."""
    if config.ablation is not None:
        return False
    return varies_loss_and_seed(config, partial(vision_config, profile))


def varies_loss_and_seed(config: RunConfig, make: Callable[..., RunConfig]) -> bool:
    """Whether a run is what its profile makes of its loss, preset and seed.

    Args:
        config: the run, of images or of sentences.
        make: builds the profile's run from flat settings.
    """
    if config.label == "weince-custom" or config.options is not None:
        return False
    tail = dataclasses.asdict(config.tail) if config.tail else {}
    return make(loss=config.loss, seed=config.seed, **tail) == config


def labels(config: VisionConfig, profile: str) -> dict[str, Any]:
    """How tables name a run. One whose settings are not its profile's own is in no table.

    Raises:
        ConfigError: for an unknown profile.
    """
    own = profile_stamp(profile)  # first: an unknown profile is refused for every run
    return table_labels(config, own if is_own(config, profile) else "custom", config.dataset)


def table_labels(config: RunConfig, own: str, dataset: str) -> dict[str, Any]:
    """The labels of a run of images or of sentences.

    Args:
        config: the run.
        own: the stamp of its profile, or ``"custom"``.
        dataset: what it was trained on.
    """
    return {
        "profile": own,
        "dataset": dataset,
        "encoder": config.encoder,
        "loss": config.label,
        "temperature": config.temperature,
        "seed": config.seed,
    }


def parse(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Validate settings, with one line per error instead of pydantic's page.

    Raises:
        ConfigError: naming each wrong setting, its value and what is allowed.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _config_error(error, model) from error


def _config_error(error: ValidationError, model: type) -> ConfigError:
    return ConfigError("; ".join(_one_line(part, model) for part in error.errors()))


def _one_line(error: Any, model: type) -> str:
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        known = _fields(model, error["loc"][:-1])
        return f"unknown setting {name!r}; known: {', '.join(known)}"
    if error["type"] == "literal_error":
        return f"unknown {name} {error['input']!r}; known: {error['ctx']['expected']}"
    if error["type"] == "missing":
        return f"setting {name!r} is missing"
    message = error["msg"].removeprefix("Value error, ")
    # A check of several settings together names them itself.
    return f"{name} = {error['input']!r}: {message}" if name else message


def _fields(model: Any, inside: tuple[str | int, ...]) -> list[str]:
    """The settings a (nested) model has."""
    for part in inside:
        if isinstance(part, str):
            kind = model.model_fields[part].annotation
            model = next(k for k in (get_args(kind) if get_origin(kind) else (kind,)) if k)
    return list(model.model_fields)
