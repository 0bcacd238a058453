"""Settings become a config, or one line that says what is wrong and what is known."""

import dataclasses

import pytest
import torch

from weince_lib import TailSettings, WEINCELoss
from weince_lib.experiments import AUTO, PROFILES, ConfigError, VisionConfig, vision_config
from weince_lib.losses import PRESETS
from weince_lib.records.store import content_key
from weince_lib.runs.config import loss_label, parse, profile_defaults, profile_stamp

TAIL_FIELDS = [field.name for field in dataclasses.fields(TailSettings)]
# A value of each setting that no profile and no preset has, in a range where it is valid.
OTHER = {
    "image_size": 16,
    "dataset": "fashion-mnist",
    "train_limit": 77,
    "encoder": "resnet18",
    "width": 9,
    "projection_dim": 33,
    "loss": "infonce",
    "temperature": 0.3,
    "seed": 11,
    "epochs": 3,
    "batch_size": 24,
    "learning_rate": 0.01,
    "weight_decay": 0.5,
    "precision": "bfloat16",
    "probe_epochs": 3,
    "probe_seeds": (1, 2),
    "split_seeds": (1, 2),
}
OTHER_TAIL = {
    "tail_index": "hill",
    "evidence": "likelihood",
    "cap_quantile": 0.3,
    "tail_fraction": 0.2,
    "min_tail": 16,
    "cap_sharpness": 9.0,
    "evidence_sharpness": 3.0,
    "evidence_margin": 1.0,
    "floor": 1e-5,
}


def key(config):
    return content_key("vision", config.canonical())


@pytest.fixture
def refused():
    """Assert that a call raises :class:`ConfigError` with one line that holds all the words."""

    def check(call, *words):
        with pytest.raises(ConfigError) as caught:
            call()
        message = str(caught.value)
        assert "\n" not in message
        for word in words:
            assert word in message, message

    return check


def test_paper_profile_is_the_papers_recipe():
    config = vision_config("paper")
    recipe = {
        "batch_size": 256,
        "epochs": 100,
        "learning_rate": 3e-4,
        "weight_decay": 1e-6,
        "temperature": 0.5,
        "projection_dim": 64,
        "train_limit": 0,
        "precision": "float32",
        "probe_epochs": 100,
        "probe_seeds": (1, 2, 3, 4, 5),
        "split_seeds": (1, 2, 3, 4, 5),
        "tail": PRESETS["paper"],
    }
    assert {name: getattr(config, name) for name in recipe} == recipe


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_gives_its_settings(profile):
    config = vision_config(profile)
    assert {name: getattr(config, name) for name in PROFILES[profile]} == PROFILES[profile]


def test_auto_is_the_same_as_not_given():
    everything = dict.fromkeys([*OTHER, *TAIL_FIELDS, "preset"], AUTO)
    assert vision_config("quick", **everything) == vision_config("quick")
    assert key(vision_config("cpu", **everything)) == key(vision_config("cpu"))


def test_every_setting_has_a_case_here():
    assert OTHER.keys() | {"tail", "ablation", "options"} == VisionConfig.model_fields.keys()
    assert list(OTHER_TAIL) == TAIL_FIELDS


@pytest.mark.parametrize(("name", "value"), (OTHER | OTHER_TAIL).items())
def test_a_setting_given_beats_the_profile_and_changes_the_key(name, value):
    config = vision_config("quick", **{name: value})
    assert getattr(config if name in OTHER else config.tail, name) == value
    assert key(config) != key(vision_config("quick"))


@pytest.mark.parametrize("given", [OTHER_TAIL, {"preset": "release"}])
def test_infonce_does_not_depend_on_the_tail(given):
    assert vision_config("quick", loss="infonce", **given) == vision_config("quick", loss="infonce")


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_and_the_same_settings_one_by_one_are_one_config(preset):
    # Starting from another preset, so that every setting given has to replace one.
    start = "calibrated" if preset == "paper" else "paper"
    spelt = vision_config("quick", preset=start, **dataclasses.asdict(PRESETS[preset]))
    assert spelt == vision_config("quick", preset=preset)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("seed", "7"),
        ("seed", 7.0),
        ("temperature", "0.5"),
        ("cap_sharpness", 10),
        ("evidence_margin", 2),
        ("min_tail", 32.0),
        ("probe_seeds", [1, 2, 3, 4, 5]),
    ],
)
def test_another_way_of_writing_a_default_shares_its_key(name, written):
    assert key(vision_config("quick", **{name: written})) == key(vision_config("quick"))


def test_canonical_form_is_read_back_as_the_same_config():
    config = vision_config("quick", preset="calibrated", probe_seeds=(4, 5))
    assert parse(VisionConfig, config.canonical()) == config


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ({"loss": "infonce"}, "infonce"),
        ({"loss": "infonce", "preset": "release"}, "infonce"),
        ({}, "weince"),
        ({"preset": "paper"}, "weince"),
        ({"preset": "release"}, "weince-release"),
        ({"tail_index": "unit"}, "weince-release"),
        ({"preset": "calibrated"}, "weince-calibrated"),
        ({"preset": "calibrated", "tail_index": "line", "evidence": "line-aic"}, "weince-custom"),
        ({"preset": "release", "tail_index": "line"}, "weince"),
        ({"cap_quantile": 0.5}, "weince-custom"),
    ],
)
def test_label(given, label):
    config = vision_config("quick", **given)
    assert config.label == label
    assert loss_label(config.loss, config.tail) == label


@pytest.mark.parametrize("preset", PRESETS)
def test_build_loss_gives_weince_with_all_tail_settings(preset):
    loss = vision_config("quick", temperature=0.2, preset=preset, floor=1e-4).build_loss()
    assert isinstance(loss, WEINCELoss)
    assert loss.temperature == 0.2
    assert loss.settings == dataclasses.replace(PRESETS[preset], floor=1e-4)


def test_build_loss_leaves_bad_rows_to_the_training_loop():
    z = torch.full((8, 4), torch.nan)
    for loss in ("infonce", "weince"):
        assert vision_config("quick", loss=loss).build_loss()(z, z).isnan()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"loss": "simclr"}, ["loss", "'simclr'", "infonce", "weince"]),
        ({"epochs": 0, "loss": "x"}, ["epochs", "0", "loss", "'x'"]),
        ({"preset": "papper", "loss": "infonce"}, ["'papper'", *PRESETS]),
        ({"encoder": "vit"}, ["encoder", "'vit'", "resnet-small", "resnet18"]),
        ({"tail_index": "hil"}, ["tail_index", "'hil'", "line", "unit", "hill"]),
        ({"lerning_rate": 0.1}, ["lerning_rate", "learning_rate", "epochs"]),
        ({"dataset": "mnist"}, ["'mnist'", "digits", "fashion-mnist", "imagefolder:"]),
        ({"dataset": "imagefolder:"}, ["'imagefolder:'", "digits"]),
        ({"dataset": 3}, ["dataset", "3"]),
        ({"temperature": -0.5}, ["temperature", "-0.5"]),
        ({"temperature": float("nan")}, ["temperature", "nan"]),
        ({"weight_decay": -1e-6}, ["weight_decay", "-1e-06"]),
        ({"epochs": 2.5}, ["epochs", "2.5"]),
        ({"epochs": None}, ["epochs", "None"]),
        ({"batch_size": 1}, ["batch_size", "1"]),
        ({"seed": -1}, ["seed", "-1"]),
        ({"probe_seeds": ()}, ["probe_seeds", "()"]),
        ({"width": 0}, ["width", "0"]),
        ({"cap_quantile": 1.5, "loss": "infonce"}, ["cap_quantile", "1.5"]),
        ({"min_tail": 2.5}, ["min_tail", "2.5"]),
    ],
    ids=repr,
)
def test_bad_setting_is_one_line_with_the_value_and_what_is_known(given, words, refused):
    refused(lambda: vision_config("quick", **given), *words)


@pytest.mark.parametrize("call", [vision_config, profile_defaults, profile_stamp])
def test_unknown_profile_lists_the_known_ones(call, refused):
    refused(lambda: call("qiuck"), "'qiuck'", *PROFILES)


def test_missing_setting_is_named(refused):
    refused(lambda: parse(VisionConfig, {"encoder": "resnet18", "loss": "infonce"}), "dataset")


@pytest.mark.parametrize(("loss", "tail"), [("infonce", TailSettings()), ("weince", None)])
def test_loss_and_tail_have_to_fit(loss, tail, refused):
    # The loss built depends on the tail, the table's row on the loss: they must not disagree.
    given = {"dataset": "digits", "encoder": "resnet-small", "loss": loss, "tail": tail}
    refused(lambda: parse(VisionConfig, given), "tail")


def test_stamp_changes_with_the_profiles_settings(monkeypatch):
    before = profile_stamp("quick")
    monkeypatch.setitem(PROFILES, "quick", PROFILES["quick"] | {"epochs": 21})
    assert profile_stamp("quick") != before


def test_stamp_does_not_change_when_a_default_is_written_out(monkeypatch):
    # The runs are the same ones, and a finished run is not repeated to get a new stamp.
    before = profile_stamp("quick")
    monkeypatch.setitem(PROFILES, "quick", PROFILES["quick"] | {"precision": "float32"})
    assert key(vision_config("quick")) == key(vision_config("quick", precision="float32"))
    assert profile_stamp("quick") == before
