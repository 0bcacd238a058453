"""Results in the form of the Massive Text Embedding Benchmark (Muennighoff et al. 2023).

One JSON file a task, as ``mteb`` reads it with ``TaskResult.from_disk``; ``mteb`` itself is not
needed. Numbers there are correlations, not times 100.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from .. import files
from .sts import YEARS, Encode, StsPairs, cosines, vectors

#: Our data sets that are a task of the benchmark: the same pairs. SICK-R is none of them, since
#: the benchmark judges by all of SICK's 9,927 pairs and SentEval by the 4,927 of its test part.
TASKS = {"stsb": "STSBenchmark", "hub:mteb/stsbenchmark-sts": "STSBenchmark"}
TASKS |= {name: name.upper() for name in YEARS}
#: What the benchmark calls splits.
SPLITS = {"train": "train", "dev": "validation", "test": "test"}


def mteb_result(
    encode: Encode, pairs: StsPairs, *, evaluation_time: float | None = None
) -> dict[str, Any]:
    """Scores of an encoder on one STS task.

    Args:
        encode: sentences to vectors.
        pairs: a data set that is a task of the benchmark, see :data:`TASKS`.
        evaluation_time: in seconds, where it was taken.

    Returns:
        The result as ``mteb`` writes it. ``dataset_revision`` is the hash of the pairs, since they
        come from a file and not from a revision on the hub; ``mteb_version`` is ``None``, since
        ``mteb`` did not compute it.

    Raises:
        ValueError: for pairs that are no task, or vectors as in :func:`.sts.vectors`.
    """
    if pairs.name not in TASKS:
        raise ValueError(
            f"{pairs.name!r} is no task of the benchmark; these are: {', '.join(TASKS)}"
        )
    a, b = vectors(encode, pairs)
    similarity = {
        "cosine": cosines(a, b),
        "manhattan": -np.abs(a - b).sum(1),
        "euclidean": -np.linalg.norm(a - b, axis=1),
    }
    scores: dict[str, Any] = {}
    for name, values in similarity.items():
        scores[f"{name}_pearson"] = float(stats.pearsonr(values, pairs.scores).statistic)
        scores[f"{name}_spearman"] = float(stats.spearmanr(values, pairs.scores).statistic)
    scores |= {kind: scores[f"cosine_{kind}"] for kind in ("pearson", "spearman")}
    scores |= {"main_score": scores["cosine_spearman"]}
    scores |= {"hf_subset": "default", "languages": ["eng-Latn"]}
    return {
        "dataset_revision": f"sha256-{pairs.content_hash()}",
        "task_name": TASKS[pairs.name],
        "mteb_version": None,
        "scores": {SPLITS[pairs.split]: [scores]},
        "evaluation_time": evaluation_time,
        "kg_co2_emissions": None,
    }


def write_mteb_result(folder: Path | str, result: dict[str, Any]) -> Path:
    """Write a result as ``FOLDER/TASK.json``, the name ``mteb`` looks for.

    Args:
        folder: of one model and revision, ``results/MODEL/REVISION`` in the benchmark's layout.
        result: see :func:`mteb_result`.
    """
    path = Path(folder) / f"{result['task_name']}.json"
    files.write_text(path, json.dumps(result, indent=2, allow_nan=False) + "\n")
    return path
