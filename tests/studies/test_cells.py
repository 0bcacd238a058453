"""The paper's cells: which data set with which encoder."""

import pytest

from weince_lib.experiments import (
    SEEDS,
    ConfigError,
    load_reported,
    paper_cells,
    paper_config,
)
from weince_lib.studies.cells import REPORTED_NAMES
from weince_lib.vision import ENCODERS
from weince_lib.vision.datasets import DATASETS


def test_every_cell_makes_a_run():
    assert len(paper_cells()) == len(set(paper_cells())) == 10
    for dataset, encoder in paper_cells():
        assert dataset in DATASETS
        assert encoder in ENCODERS
        config = paper_config(dataset, encoder, loss="infonce", seed=SEEDS[1])
        assert (config.dataset, config.encoder, config.width) == (dataset, encoder, 0)
        assert (config.epochs, config.batch_size, config.seed) == (100, 256, 21)
        assert config.learning_rate == 3e-4
        assert config.weight_decay == 1e-6


def test_every_reported_cell_is_among_them():
    reported = load_reported()
    tables = reported[reported["table"].astype(str).isin(["2", "3", "6", "7"])]
    ours = {(REPORTED_NAMES[data], REPORTED_NAMES[name]) for data, name in paper_cells()}
    assert set(zip(tables["dataset"], tables["encoder"], strict=True)) <= ours


def test_other_pairs_are_refused_with_those_there_are():
    with pytest.raises(ConfigError, match=r"no cifar10 with vit-small; .*tiny-imagenet with vit"):
        paper_config("cifar10", "vit-small")
    with pytest.raises(ConfigError, match="epochs"):
        paper_config("cifar10", "resnet18", epochs=0)
