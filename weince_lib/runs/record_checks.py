"""Checks that a notebook computes itself, as a record: identities, known answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, TypeVar

from ..evaluation import Interval
from ..records import store
from ..records.store import Metric, Record
from .config import PROFILES, profile_defaults, profile_stamp

Choice = TypeVar("Choice")


def by_profile(profile: str, **choices: Choice) -> Choice:
    """The value a notebook uses in a profile, such as a number of repetitions.

    Args:
        profile: a name in :data:`~.config.PROFILES`.
        choices: profile to value. A profile without a value of its own takes that of the one
            before it in :data:`~.config.PROFILES`, where they go from small to large.

    Raises:
        ConfigError: for a profile that does not exist, in either place.
        TypeError: without a value for ``quick``, which all others fall back on.
    """
    if "quick" not in choices:
        raise TypeError("by_profile needs a value for 'quick'")
    for name in (profile, *choices):
        profile_defaults(name)
    sizes = list(PROFILES)
    smaller = [name for name in sizes[: sizes.index(profile) + 1] if name in choices]
    return choices[smaller[-1]]


def record_checks(
    notebook: str,
    values: Mapping[str, float | Interval],
    *,
    profile: str,
    settings: Mapping[str, Any] | None = None,
) -> Record:
    """Record numbers computed in a notebook, so that claims and tables can cite them.

    A check is cheap and depends on the library's code, so it is always written anew.

    Args:
        notebook: the notebook's name; the record's experiment is ``check-<notebook>``.
        values: metric name to value, or to an interval where the value has a spread.
        profile: decides which table it is collected into.
        settings: parameters the values depend on.
    """
    return store.save(
        f"check-{notebook}",
        {"notebook": notebook, "profile": profile} | dict(settings or {}),
        [
            Metric.of(name, value) if isinstance(value, Interval) else Metric(name, float(value))
            for name, value in values.items()
        ],
        labels={"profile": profile_stamp(profile)},
        started=time.time(),
    )
