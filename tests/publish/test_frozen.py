"""Tables of what was measured on frozen encoders, against means and t-intervals by scipy."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from weince_lib.publish import frozen
from weince_lib.runs.config import ConfigError
from weince_lib.studies.grid import study

STUDY = "cpu-cifar-decide"
VALUES = [-0.31, -0.35, -0.30]


@pytest.fixture
def measured(monkeypatch):
    """Three encoders of InfoNCE and one of WEINCE with a shape, and a row of training."""
    methods = study(STUDY).methods
    infonce, weince = (methods[name][0].label for name in ("infonce-0.5", "weince-0.5"))
    rows = [
        (infonce, "tail", seed, "gpd_shape", v) for seed, v in zip((1, 2, 3), VALUES, strict=True)
    ]
    rows += [(weince, "tail", 1, "gpd_shape", -0.2), (infonce, "vision", 1, "gpd_shape", 9.0)]
    frame = pd.DataFrame(rows, columns=["setting", "experiment", "seed", "metric", "value"])
    monkeypatch.setattr(frozen, "study_frame", lambda chosen: frame)


def test_a_cell_is_mean_and_t_interval_over_encoders(measured):
    table = frozen.encoder_table(
        STUDY, {"gpd_shape": "shape"}, {"infonce-0.5": "InfoNCE", "weince-0.5": "WEINCE"}
    )
    half = stats.t.ppf(0.975, 2) * np.std(VALUES, ddof=1) / np.sqrt(3)
    mean = np.mean(VALUES)
    assert table.loc["shape", "InfoNCE"] == f"{mean:.2f} [{mean - half:.2f}, {mean + half:.2f}]"
    assert table.loc["shape", "WEINCE"] == "-0.20"


def test_what_was_not_measured_is_empty_and_an_unknown_method_is_named(measured):
    table = frozen.encoder_table(STUDY, {"lambda_hat": "weight"}, {"infonce-0.5": "InfoNCE"})
    assert table.loc["weight", "InfoNCE"] == ""
    with pytest.raises(ConfigError, match="no method 'nonsense'"):
        frozen.encoder_table(STUDY, {"lambda_hat": "weight"}, {"nonsense": "?"})
