"""A sentence run from config to record, its evidence, and its study in the sweep and the plan."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from weince_lib.losses import EndpointLoss, SelfSettingLoss, WEINCELoss
from weince_lib.runs.config import ConfigError, parse
from weince_lib.runs.text import load_text, models_along_text, run_text, score
from weince_lib.runs.text_config import (
    TEXT_PROFILES,
    TextConfig,
    is_own_text,
    text_config,
    text_stamp,
)
from weince_lib.studies import collect, grid, sweep
from weince_lib.studies import plan as planning
from weince_lib.studies.plan import Measured, plan
from weince_lib.studies.text_evidence import QUANTILES, run_text_evidence
from weince_lib.text.encoders import TinyTransformer
from weince_lib.text.simcse import SimCSE

pytest.importorskip("tokenizers")
TINY = {
    "corpus": "grammar",
    "train_limit": 300,
    "encoder": "tiny",
    "epochs": 2,
    "batch_size": 32,
    "learning_rate": 1e-3,
    "evaluate_every": 10,
    "sts": ("grammar",),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder and record of one finished run."""
    folder = tmp_path_factory.mktemp("text") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEINCE_RUNS", str(folder))
        patch.setitem(TEXT_PROFILES, "quick", TINY)
        record = run_text(text_config("quick"), profile="quick", device="cpu")
    return folder, record


@pytest.fixture
def run(made, monkeypatch):
    monkeypatch.setenv("WEINCE_RUNS", str(made[0]))
    monkeypatch.setitem(TEXT_PROFILES, "quick", TINY)
    return text_config("quick"), made[1]


def test_record_names_data_and_checkpoints(run):
    _, record = run
    history = record.details["history"]
    assert [row["step"] for row in history] == [10, 18]
    dev = [row["dev"] for row in history]
    assert record.metric("sts_spearman", "validation") == pytest.approx(max(dev), abs=1e-3)
    assert record.metric("sts_spearman_last", "validation") == pytest.approx(dev[-1], abs=1e-3)
    assert record.metric("best_step") == history[dev.index(max(dev))]["step"]
    for name in ("", "_last", "_start"):
        assert -100 <= record.metric(f"sts_spearman{name}", "test") <= 100
    assert 0 <= record.metric("mean_lambda") <= 1
    assert record.labels["profile"] == text_stamp("quick")
    assert collect.belongs(record, "quick")
    assert not collect.belongs(record, "cpu")
    assert record.details["data"]["sentences"] == 300


def test_a_finished_run_is_found(run, monkeypatch):
    config, record = run
    monkeypatch.setattr("weince_lib.runs.text.train_simcse", None)
    assert run_text(config, profile="quick").key == record.key


def test_models_along_training(run):
    config, record = run
    data = load_text(config)
    models = models_along_text(config, data)
    found = {stage: score(m, data.tokenizer, data.test[0]) for stage, m in models.items()}
    assert found["start"] == pytest.approx(record.metric("sts_spearman_start", "test"))
    assert found["end"] == pytest.approx(record.metric("sts_spearman_last", "test"))
    middle, end = (models[stage].state_dict() for stage in ("middle", "end"))
    assert any(not torch.equal(middle[name], end[name]) for name in end)


def test_evidence_at_three_stages(run):
    config, _ = run
    records = run_text_evidence(config, profile="quick", batches=6, batch_size=32)
    assert [r.metric("stage") for r in records] == [0.0, 0.5, 1.0]
    for record in records:
        assert record.metric("rho_median") > 0
        assert record.metric("beta_hill_median") > 0
        for quantile in QUANTILES:
            assert record.metric(f"known_endpoint_shape_q{100 * quantile:g}") < 0
        assert 0 <= record.metric("positive_first") <= 100
        # With every winner first no link can be told from another, and the record says so.
        told = "lambda_hat" in {m.name for m in record.metrics}
        assert told == (not record.details["link"])
        assert record.details["pairs"] == 6 * 32 * 31
    again = run_text_evidence(config, profile="quick", batches=6, batch_size=32)
    assert [r.key for r in again] == [r.key for r in records]


@pytest.mark.parametrize(
    ("profile", "given", "message"),
    [
        ("fast", {}, "unknown profile 'fast'"),
        ("quick", {"width": 3}, "unknown setting 'width'"),
        ("quick", {"encoder": "static"}, "does not fit encoder 'static'"),
        ("quick", {"chunk_size": 7}, "no multiple of chunk_size = 7"),
    ],
)
def test_config_knows_what_fits(profile, given, message):
    with pytest.raises(ConfigError, match=message):
        text_config(profile, **given)


def test_loss_and_tail_have_to_fit():
    with pytest.raises(ConfigError, match="tail"):
        parse(TextConfig, {"corpus": "grammar", "encoder": "tiny", "loss": "weince"})


def test_colab_is_the_papers_recipe_on_a_fifth_of_its_sentences(monkeypatch):
    config = text_config("colab", loss="infonce")
    paper = text_config("paper", loss="infonce").canonical()
    changed = {n for n, value in config.canonical().items() if value != paper[n]}
    assert changed == {"corpus", "train_limit", "sts"}
    assert is_own_text(text_config("colab", preset="calibrated", seed=3), "colab")
    assert text_stamp("colab").startswith("colab@")
    # 200,000 sentences in batches of 64 make 3,125 steps.
    measured = Measured(0.4, 110.0, 64, "gpu", "some GPU")
    assert planning.expected_hours(config, measured) == pytest.approx((3_125 * 0.4 + 110) / 3600)
    small = text_config("quick")
    monkeypatch.setattr(planning, "random_text_model", lambda _: made_for(small))
    found = planning.measure(config)
    assert found.step_seconds > 0 and found.evaluation_seconds > 0
    with pytest.raises(ConfigError, match="no size known of 'hub:owner/name'; known: wordnet"):
        planning.expected_hours(text_config("colab", corpus="hub:owner/name"), measured)


def made_for(config):
    return SimCSE(TinyTransformer(planning.VOCABULARY, width=8, heads=2), config.head)


def test_colab_without_a_network_says_what_to_do(monkeypatch):
    def unreachable(name, *, split):
        raise ConnectionError("no route")

    package = SimpleNamespace(load_dataset=unreachable)
    monkeypatch.setitem(sys.modules, "datasets", package)
    with pytest.raises(ConnectionError, match=r"'mteb/stsbenchmark-sts'.*HF_HUB_OFFLINE=1"):
        load_text(text_config("colab"))


def test_loss_is_one_way_and_presets_count_as_own():
    config = text_config("cpu", preset="calibrated", seed=3)
    loss = config.build_loss()
    assert isinstance(loss, WEINCELoss)
    assert (loss.candidates, loss.symmetric, loss.temperature) == ("bipartite", False, 0.05)
    assert config.label == "weince-calibrated"
    assert is_own_text(config, "cpu")
    assert not is_own_text(text_config("cpu", temperature=0.1), "cpu")


@pytest.mark.parametrize(
    ("loss", "options", "made"),
    [
        ("self-setting", {"rule": "median"}, SelfSettingLoss),
        ("endpoint", {"curvature": 0.0, "decoupled": True}, EndpointLoss),
    ],
)
def test_other_losses_are_one_way_too_and_no_run_of_the_profile(loss, options, made):
    config = text_config("quick", loss=loss, options=options)
    built = config.build_loss()
    assert isinstance(built, made)
    assert (built.candidates, built.symmetric) == ("bipartite", False)
    assert config.canonical()["options"] == options
    assert "options" not in text_config("quick").canonical()  # older records keep their keys
    assert not is_own_text(config, "quick")


@pytest.mark.parametrize(
    ("loss", "options", "label"),
    [("self-setting", {"rule": "tail"}, "self-setting-tail"), ("annealed", {}, "annealed")],
)
def test_a_loss_that_sets_itself_trains_on_sentences(monkeypatch, tmp_path, loss, options, label):
    """The training loop tells the annealed loss how long the run is."""
    monkeypatch.setenv("WEINCE_RUNS", str(tmp_path))
    monkeypatch.setitem(TEXT_PROFILES, "quick", TINY)
    config = text_config("quick", loss=loss, options=options)
    record = run_text(config, profile="quick", device="cpu")
    assert record.labels["loss"] == label
    first, *_, last = record.details["history"]
    assert last["loss"] < first["loss"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"loss": "self-setting", "temperature": 0.1}, "sets its own; leave it"),
        ({"loss": "self-setting", "options": {"tau": 0.1}}, "no option 'tau'; known: rule"),
        ({"loss": "infonce", "options": {"rule": "kl"}}, "options = .* do not fit"),
    ],
)
def test_options_have_to_fit_the_loss(given, message):
    with pytest.raises(ConfigError, match=message):
        text_config("quick", **given)


def test_a_text_study_runs_collects_and_plans(run, monkeypatch, tmp_path):
    study = grid.TextStudy(
        name="small",
        question="Does it work?",
        profile="quick",
        methods={"weince": (grid.Setting("weince", 0.05),)},
        compare=(),
        seeds=(7,),
        settings={"train_limit": 300},
    )
    monkeypatch.setitem(grid.STUDIES, "small", study)
    one = study.runs()[0]
    assert one.key == run[1].key  # the run of the profile itself
    assert [s.stage for s in sweep.states(study)] == ["done"]
    sweep.run_one("small", one.key)
    assert "text/" in sweep.mark("small", one.key).read_text()
    _, missing = sweep.collect_study(study)
    frame = collect.load_study("small")
    assert not missing
    assert {"sts_spearman", "sts_spearman_last", "wall_seconds"} <= set(frame["metric"])
    assert set(frame["split"]) == {"validation", "test", ""}
    run_text_evidence(one.config, profile="quick", stages=("start",), batches=6, batch_size=32)
    sweep.collect_study(study)
    rows = collect.load_study("small")
    rows = rows[rows["experiment"] == "text-evidence"]
    assert set(rows["setting"]) == {one.setting}
    assert "gpd_shape_q99" in set(rows["metric"]) or "known_endpoint_shape_q99" in set(
        rows["metric"]
    )
    lines = plan(study)
    assert any("2 epochs, 18 steps" in line for line in lines)
    assert any("1 done" in line for line in lines)


def test_studies_of_the_project():
    for name in ("cpu-static", "paper-simcse"):
        study = grid.study(name)
        assert isinstance(study, grid.TextStudy)
        runs = study.runs()
        assert len(runs) == len({r.key for r in runs}) == 45
        assert {r.config.temperature for r in runs} == set(grid.TEXT_TEMPERATURES)
        assert study.experiment == "text"
    assert grid.study("paper-simcse").runs()[0].config.model == "bert-base-uncased"
