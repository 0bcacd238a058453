"""Tails of a study's encoders: on images that training left out, each in one batch at most."""

import pytest
import torch
from sample_runs import TINY

from weince_lib.diagnostics import two_view_bank
from weince_lib.experiments import PROFILES, ConfigError
from weince_lib.records import store
from weince_lib.runs.config import vision_config
from weince_lib.runs.link import LinkConfig
from weince_lib.runs.on_encoder import OnEncoder, unseen_images
from weince_lib.runs.tail import TailConfig
from weince_lib.runs.vision import training_images
from weince_lib.studies import grid, study_evidence, sweep
from weince_lib.studies.collect import load_study
from weince_lib.studies.grid import Study
from weince_lib.studies.study_evidence import evidence_configs


@pytest.fixture
def small(monkeypatch):
    """A study of two tiny runs, and measurements small enough for it."""
    monkeypatch.setitem(PROFILES, "quick", TINY)
    monkeypatch.setattr(study_evidence, "BATCHES", 6)
    own = evidence_configs

    def smaller(run):
        tails, links, gradients = own(run)
        quick = {"repetitions": 5, "folds": 2}
        few = {"pairs": 64, "anchors": 16, "sizes": (16, 32), "draws": 2}
        return tails, links.model_copy(update=quick), gradients.model_copy(update=few)

    monkeypatch.setattr(study_evidence, "evidence_configs", smaller)
    methods = {"infonce": (grid.INFONCE,), "other": (grid.Setting("infonce", temperature=0.2),)}
    made = Study("small", "?", "quick", methods, (), seeds=(7, 21))
    monkeypatch.setitem(grid.STUDIES, "small", made)
    return made


def test_unseen_images_are_those_after_the_training_images(monkeypatch):
    monkeypatch.setitem(PROFILES, "quick", TINY)
    config = vision_config("quick")
    seen, unseen = training_images(config), unseen_images(config)
    whole = training_images(config.model_copy(update={"train_limit": 0}))
    assert len(seen) == 120
    assert torch.equal(torch.cat([seen.images, unseen.images]), whole.images)
    with pytest.raises(ConfigError, match="train_limit"):
        unseen_images(config.model_copy(update={"train_limit": 0}))


def test_disjoint_batches_share_no_image():
    images = torch.arange(24, dtype=torch.uint8).reshape(24, 1, 1, 1)
    drawn = []

    def augment(batch, generator):
        drawn.extend(batch.flatten().tolist())
        return batch.float(), batch.float()

    def model(views):
        return torch.stack([views.flatten() + 1.0, torch.ones(len(views))], dim=1)

    module = torch.nn.Module()
    module.forward = model
    two_view_bank(module, images, augment, batches=3, batch_size=8, disjoint=True)
    assert sorted(drawn) == list(range(24))
    with pytest.raises(ValueError, match="24 images make no 4 disjoint batches of 8"):
        two_view_bank(module, images, augment, batches=4, batch_size=8, disjoint=True)


def test_older_measurements_keep_their_keys_and_unseen_ones_have_their_own():
    run = vision_config("quick", loss="infonce")
    for config in (TailConfig.of(run), LinkConfig.of(run, "quick")):
        assert "images" not in config.canonical()
        other = config.model_copy(update={"images": "unseen"})
        assert other.canonical()["images"] == "unseen"
    # The key that the committed table has for this measurement.
    assert store.content_key("tail", TailConfig.of(run).canonical()) == "31632d2c464c3ac6"


def test_the_bank_has_the_seed_of_the_encoder():
    run = vision_config("cpu", loss="infonce", seed=84)
    configs: tuple[OnEncoder, ...] = evidence_configs(run)
    assert {(c.seed, c.images) for c in configs} == {(84, "unseen")}


def test_a_studys_evidence_is_measured_once_and_stands_in_its_table(small):
    sweep.run_one("small", small.runs()[0].key)
    missing = study_evidence.measure_study(small)
    assert [run.seed for run in missing] == [21]
    sweep.collect_study(small, partial=True)
    table = load_study("small")
    assert {"tail", "link", "allocation"} <= set(table["experiment"])
    assert set(table.loc[table["experiment"] == "link", "setting"]) == {grid.INFONCE.label}
    made = {p: p.stat().st_mtime_ns for p in store.record_files()}
    study_evidence.measure_study(small)
    assert {p: p.stat().st_mtime_ns for p in store.record_files()} == made


def test_a_worker_measures_each_encoder_right_after_its_run(small, monkeypatch, capsys):
    def measure(run, *, profile):
        if run.seed == 21:
            raise ValueError("no winners")
        measured.append(store.find("vision", run.canonical()))

    measured = []
    monkeypatch.setattr(study_evidence, "measure_run", measure)
    assert sweep.work(["small"], evidence=True) == 1
    assert [record.config["seed"] for record in measured] == [7]
    assert "seed 21: no winners" in capsys.readouterr().err
    # A run whose encoder could not be measured is in the table all the same.
    assert set(load_study("small")["key"]) == {run.key for run in small.runs()}
