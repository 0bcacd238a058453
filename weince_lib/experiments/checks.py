"""Checks that a notebook computes itself, as a record: identities, known answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from . import store
from .config import profile_stamp
from .store import Metric, Record


def record_checks(
    notebook: str,
    values: Mapping[str, float],
    *,
    profile: str,
    settings: Mapping[str, Any] | None = None,
) -> Record:
    """Record numbers computed in a notebook, so that claims and tables can cite them.

    A check is cheap and depends on the library's code, so it is always written anew.

    Args:
        notebook: the notebook's name; the record's experiment is ``check-<notebook>``.
        values: metric name to value.
        profile: decides which table it is collected into.
        settings: parameters the values depend on.
    """
    return store.save(
        f"check-{notebook}",
        {"notebook": notebook, "profile": profile} | dict(settings or {}),
        [Metric(name, float(value)) for name, value in values.items()],
        labels={"profile": profile_stamp(profile)},
        started=time.time(),
    )
