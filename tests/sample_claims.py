"""A claim, a rule and tables to decide it by."""

import math

import pandas as pd
from sample_records import results_table
from scipy import stats

from weince_lib.experiments import Claim
from weince_lib.publish.claims import decide
from weince_lib.runs.config import parse

ACCURACY = {"experiment": "vision", "metric": "linear_accuracy", "split": "test"}
REPORTED = pd.DataFrame(
    [
        ("2", "STL10", "resnet18", "infonce", "linear_accuracy", 76.54, 0.32),
        ("2", "STL10", "resnet18", "weince", "linear_accuracy", 77.94, math.nan),
        ("tail", "CIFAR100", "resnet18", "infonce", "shape", -0.39, math.nan),
        ("tail", "CIFAR100", "resnet18", "infonce", "lambda_low", 0.33, math.nan),
        ("tail", "CIFAR100", "resnet18", "infonce", "lambda_high", 0.5, math.nan),
    ],
    columns=["table", "dataset", "encoder", "loss", "metric", "value", "ci95"],
)


def claim(ours=None, **more):
    given = {
        "id": "a-claim",
        "label": "Table 2",
        "section": "4.1",
        "statement": "It holds.",
        "notebook": "11_tables",
        "ours": ours,
    }
    return parse(Claim, given | more)


def rule(kind, value, **where):
    return {"rule": kind, "value": value, "quantity": "accuracy", "where": ACCURACY | where}


def table_of(values, **more):
    """One row per encoder seed."""
    return results_table(*({"seed": seed, "value": v} | more for seed, v in values.items()))


def decided(ours, table, **more):
    return decide(claim(ours, **more), {"quick": table}, REPORTED)


FOUR = {7: 90.0, 21: 91.0, 63: 92.0, 84: 93.0}
# Four values with mean 91.5: half the 95 % interval is t(0.975, 3) s / 2.
HALF = stats.t.ppf(0.975, 3) * math.sqrt(5 / 3) / 2
