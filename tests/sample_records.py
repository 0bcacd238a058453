"""Records and tables with numbers made up for the tests."""

import time

import pandas as pd

from weince_lib.experiments import Metric
from weince_lib.records import store
from weince_lib.runs.config import profile_stamp
from weince_lib.studies.collect import COLUMNS


def save_record(
    profile="quick", *, experiment="vision", loss="infonce", seed=7, metrics=None, **cfg
):
    """Save a small record as a run of ``profile`` would and return it."""
    labels = {
        "profile": profile_stamp(profile),
        "dataset": "digits",
        "encoder": "resnet-small",
        "loss": loss,
        "temperature": 0.5,
        "seed": seed,
    }
    return store.save(
        experiment,
        {"profile": profile, "loss": loss, "seed": seed} | cfg,
        metrics or [Metric("linear_accuracy", 90.0, "test", 1)],
        labels=labels,
        started=time.time(),
    )


def results_table(*rows):
    """A results table; what a row leaves out is that of a vision run on digits."""
    usual = {
        "experiment": "vision",
        "key": "0123456789abcdef",
        "dataset": "digits",
        "encoder": "resnet-small",
        "loss": "weince",
        "temperature": 0.5,
        "seed": 7,
        "metric": "linear_accuracy",
        "split": "test",
        "replicate": 0,
        "low": float("nan"),
        "high": float("nan"),
    }
    return pd.DataFrame([usual | row for row in rows], columns=list(COLUMNS))
