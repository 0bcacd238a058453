"""What was measured on a study's frozen encoders: their tails, links and gradients.

``weince study work NAME --evidence`` measures each encoder right after its run, see
:mod:`weince_lib.studies.study_evidence`. The rows stand in the study's table beside those of
training. Notebooks 08 to 10 print them with :func:`encoder_table`.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ..evaluation import Interval, t_interval
from ..runs.config import ConfigError
from ..studies.grid import Study, study
from ..studies.selection import study_frame
from ..studies.study_evidence import EXPERIMENTS


def encoder_values(chosen: Study, method: str, metric: str) -> pd.Series:
    """A measurement of each encoder of a method, by encoder seed.

    Args:
        chosen: the study.
        method: one of its methods; of several settings, those whose encoders were measured count.
        metric: of an experiment on frozen encoders, as ``gpd_shape`` or ``lambda_hat``.

    Returns:
        One value for each seed; empty where nothing was measured.

    Raises:
        ConfigError: for a method that the study does not have.
    """
    if method not in chosen.methods:
        known = ", ".join(chosen.methods)
        raise ConfigError(f"study {chosen.name} has no method {method!r}; it has {known}")
    frame = study_frame(chosen)
    labels = [setting.label for setting in chosen.methods[method]]
    rows = frame[
        frame["experiment"].isin(EXPERIMENTS)
        & frame["setting"].isin(labels)
        & (frame["metric"] == metric)
    ]
    return rows.groupby("seed")["value"].mean()


def encoder_table(
    name: str, metrics: Mapping[str, str], methods: Mapping[str, str], digits: int = 2
) -> pd.DataFrame:
    """Measurements on a study's frozen encoders, as text with 95 % t-intervals over seeds.

    Args:
        name: of the study.
        metrics: names of measurements, and the words that stand for them.
        methods: names of the study's methods, and the words that stand for them.
        digits: decimals.

    Returns:
        One row a measurement, one column a method. A cell is empty where no encoder was measured,
        and holds the value alone where only one was.

    Raises:
        ConfigError: for a method that the study does not have.
    """
    chosen = study(name)
    columns = {
        words: [_cell(encoder_values(chosen, method, metric), digits) for metric in metrics]
        for method, words in methods.items()
    }
    return pd.DataFrame(columns, index=pd.Index(metrics.values(), name=chosen.data or name))


def _cell(values: pd.Series, digits: int) -> str:
    if values.empty:
        return ""
    found: Interval = t_interval([float(v) for v in values])
    if found.n < 2:
        return f"{found.mean:.{digits}f}"
    return f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"
